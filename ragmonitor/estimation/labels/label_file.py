"""Reads the labels of a live monitor from a file that people go on filling in."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Iterator, Sequence
from operator import attrgetter
from pathlib import Path
from typing import Final

from ragmonitor import metrics
from ragmonitor.errors import InputError, JudgeError
from ragmonitor.estimation.answer_features import LabelledAnswer, features_of
from ragmonitor.estimation.labels.correction import Label, corrected, recent
from ragmonitor.estimation.labels.label_table import read_labels
from ragmonitor.estimation.parts import Means, Observation, Part
from ragmonitor.estimation.signals import HALLUCINATION
from ragmonitor.guard import reason, record_problem
from ragmonitor.protocols import Clock
from ragmonitor.records import Chunk, Estimate, GaugeValue, Interaction, Report

LOOK_EVERY_S: Final = 60.0
MAX_LEARNED: Final = 500
"""The newest labels, from which predictions learn."""
READ_AT_ONCE: Final = 5
"""Labelled answers that the built-in judge reads in one tick: some milliseconds each."""

Read = Callable[[Interaction], Report]
Learn = Callable[[Sequence[LabelledAnswer]], None]


class HumanLabels(Part):
    """The labels of a file that people go on filling in; never raises.

    It is looked at once a minute at most, and read when it has changed. One that cannot be read is
    an error of ours, counted once; what it said before stays.
    """

    def __init__(
        self,
        path: Path,
        *,
        read: Read | None = None,
        learn: Learn | None = None,
        now: Callable[[], float] = time.time,
        clock: Clock = time.monotonic,
    ) -> None:
        """Read nothing yet.

        Args:
            path: Of the CSV.
            read: Returns the built-in judge's report on a labelled answer; JudgeError: it cannot.
            learn: Called with all labelled answers whenever there are others; with `read`.
            now: Seconds since the epoch, for the labels' age.
            clock: For looking again.
        """
        self._path = path
        self._read = read
        self._learn = learn
        self._answers: dict[str, LabelledAnswer | None] = {}
        """The answers, by id, of the labels that are learned from; None: it cannot be read."""
        self._now = now
        self._clock = clock
        self._look_at = -math.inf
        self._stamp: tuple[int, ...] | None = ()
        """Size and time of the file as it was read; None: there was none; empty: not looked yet."""
        self._labels: Sequence[Label] = ()

    @property
    def count(self) -> int:
        """The number of labels of the last 30 days."""
        return len(self._recent())

    def estimate(self, rate: Estimate) -> Estimate | None:
        """Return the corrected rate; None: there are too few labels."""
        return corrected(rate, self._recent())

    def gauges(self, means: Means) -> Iterator[GaugeValue]:
        """Return how many labels there are and the rate that they make of the judged one."""
        yield GaugeValue.of(metrics.HUMAN_LABELS, self.count)
        rate = means.estimate(HALLUCINATION, "24h")
        found = None if rate is None else self.estimate(rate)
        if found is not None:
            yield from GaugeValue.interval(
                metrics.CORRECTED_RATE,
                found.mean,
                found.lower,
                found.upper,
                judge=means.quality_judge,
            )

    def tick(self) -> Sequence[Observation]:
        """Have the built-in judge read a few labelled answers, and predictions learn from them."""
        if self._read is None or self._learn is None:
            return ()
        newest = sorted(self._recent(), key=attrgetter("at_s"))[-MAX_LEARNED:]
        labels = {label.interaction_id: label for label in newest}
        answers: dict[str, LabelledAnswer | None] = {}
        for identity, label in labels.items():
            if identity in self._answers:
                known = self._answers[identity]
                answers[identity] = known and known._replace(bad=bool(label.human))
        for identity in [each for each in labels if each not in answers][:READ_AT_ONCE]:
            answers[identity] = _labelled(labels[identity], self._read)
        if answers != self._answers:
            self._answers = answers
            self._learn([each for each in answers.values() if each is not None])
        return ()

    def _recent(self) -> Sequence[Label]:
        now = self._clock()
        if now >= self._look_at:
            self._look_at = now + LOOK_EVERY_S
            self._look()
        return recent(self._labels, self._now())

    def _look(self) -> None:
        stamp = None
        with contextlib.suppress(OSError):
            stat = self._path.stat()
            stamp = (stat.st_size, stat.st_mtime_ns)
        if stamp == self._stamp:
            return
        self._stamp = stamp
        try:
            self._labels = read_labels(self._path)
        except InputError as error:
            # The system's own words quote no text, so that a log may always show them.
            cause = error.__cause__ if isinstance(error.__cause__, OSError) else error
            record_problem(
                "estimation",
                f"estimation.human_labels {self._path} cannot be read ({reason(cause)}): what "
                "people said since does not correct the hallucination rate; name the file that "
                "`ragmonitor labels` wrote, or correct it",
            )


def _labelled(label: Label, read: Read) -> LabelledAnswer | None:
    """Return what the built-in judge knows of a labelled answer; None: nothing."""
    texts, at_ns = label.texts, int(label.at_s * 1e9)
    if texts is None or not label.interaction_id:
        return None
    interaction = Interaction(
        id=label.interaction_id,
        query=texts.question,
        chunks=tuple(Chunk(text=text) for text in texts.chunks),
        answer=texts.answer,
        framework="python",
        started_ns=at_ns,
        ended_ns=at_ns,
    )
    try:
        report = read(interaction)
    except JudgeError:  # too long for it
        return None
    features, assessment = features_of(report), report.assessment
    if features is None or assessment is None or assessment.risk is None:
        return None
    return LabelledAnswer(features, assessment.risk, assessment.language, bool(label.human))
