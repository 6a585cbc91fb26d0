"""Estimates from golden questions: scores, availability, and whose fault a fall is."""

from __future__ import annotations

import contextlib
import hashlib
import math
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Any, Final

import msgspec

from ragmonitor.records import (
    GaugeValue,
    Interaction,
    Report,
    Scored,
    Window,
    evaluator_name,
)
from ragmonitor.semconv import metrics
from ragmonitor.stats.interval import mean_of_scores
from ragmonitor.stats.kept_rows import KeptRows
from ragmonitor.stats.parts import Observation, Part
from ragmonitor.stats.streams import Stream
from ragmonitor.store import Store, StoreUnavailableError

GOLDEN: Final = "golden_"
"""Begins the names of signals of golden questions."""
CORRECTNESS: Final = "answer_correctness"
AVAILABILITY: Final = "golden_availability"
WATCHED: Final = (CORRECTNESS, "context_recall", "refusal_correctness")
MAX_DROP: Final = 0.05
"""Scores may be so far, on average, below what each question's own history lets expect."""
MIN_AVAILABILITY: Final = 0.95
SHARES: Final = (0.4, 0.2, 0.2, 0.2)
"""The shares of the false alarms that golden questions are allowed: the watched scores, then
availability."""
MAX_QUESTIONS: Final = 5_000
"""Questions with a history; the one asked longest ago gives way."""
MEMORY: Final = 20
"""Askings after which an earlier one counts for 1 / MEMORY less with each that follows."""
MAX_SHOWN: Final = 30
"""Questions on the page."""
KIND: Final = "golden"
WINDOWS: Final[dict[Window, float]] = {"1h": 3_600.0, "24h": 86_400.0}


def half(difference: float) -> float:
    """Return a difference, -1 to 1, on a scale from 0 to 1."""
    return (1.0 + difference) / 2


class ScoreHistory(msgspec.Struct, array_like=True):
    """One question's scores by one evaluator: its newest, and the mean of the earlier ones."""

    n: Annotated[int, msgspec.Meta(ge=1)] = 0
    mean: float = 0.0
    """The mean of all so far; the plain one of the first `MEMORY`, then a moving one."""
    newest: float = 0.0
    expected: float | None = None
    """The mean before the newest one came; None: it is the first."""
    at_s: float = -math.inf
    """The time when the newest came, in seconds since the epoch."""
    evaluator: str = ""
    """Whose scores these are, with its version."""

    def add(self, score: float, at_s: float) -> float | None:
        """Take in a score, and return what was expected of it; None: it is the first."""
        self.expected = self.mean if self.n else None
        self.n += 1
        self.mean += (score - self.mean) / min(self.n, MEMORY)
        self.newest, self.at_s = score, at_s
        return self.expected


class _Question(msgspec.Struct, kw_only=True, omit_defaults=True):
    """The history of one golden question; no text of it is kept."""

    version: str
    """The version of its texts: other texts are another question."""
    judge: str = ""
    """The judge whose scores these are, with its version."""
    scores: dict[str, ScoreHistory] = {}
    outcome: str = ""
    """What came of its last asking."""
    at_s: float = 0.0


def golden_streams(judge: str) -> tuple[Stream, ...]:
    """Return the alarms on golden questions; their shares are apart from those of the traffic."""
    kinds = [(f"{GOLDEN}{name}", half(-MAX_DROP)) for name in WATCHED]
    kinds.append((AVAILABILITY, MIN_AVAILABILITY))
    return tuple(
        Stream(
            signal=signal,
            judge=judge,
            series=signal,
            kind="quality",
            share=share,
            higher_is_better=True,
            objective=1.0 - objective,
        )
        for (signal, objective), share in zip(kinds, SHARES, strict=True)
    )


class GoldenQuestions(Part):
    """Scores of golden questions, each beside its own history: what their alarms rest on.

    An asking compares a question's score with the mean of its own earlier ones, `h`. The alarm on
    a score is on the mean of `(1 + y - h) / 2`, which is one half where nothing has changed and is
    to be at least `(1 - MAX_DROP) / 2`. As long as the scores of what is asked are, given the
    past, on average at most `MAX_DROP` below their history, and so on for the others, all golden
    alarms together are raised at most once in `alarms.false_alarm_every_days`; they are apart from
    those of the traffic, whose allowance they leave alone.

    Scores of a judge or an evaluator of another version begin a new history.
    """

    def __init__(
        self,
        *,
        judge: str,
        shows_texts: bool = True,
        store: Store,
        now: Callable[[], float] = time.time,
    ) -> None:
        """Begin with what the file holds.

        Args:
            judge: Who reads the answers.
            shows_texts: Whether the page may show questions.
            store: Keeps histories.
            now: Seconds since the epoch.
        """
        self._judge = judge
        self._shows_texts = shows_texts
        self._now = now
        self._kept = KeptRows(store, KIND, _Question, most=MAX_QUESTIONS)
        self._texts: dict[str, str] = {}
        """Of questions that were asked since the process began; none is kept."""
        self._observed: list[Observation] = []
        self._outcomes: Counter[str] = Counter()

    # --- taking in ------------------------------------------------------------------------------

    def probed(self, report: Report) -> None:
        """Take in what came of one asking."""
        interaction = report.interaction
        probe = interaction.probe
        if probe is None:
            return
        at_s = interaction.ended_ns / 1e9
        question = self._question(probe.golden, interaction)
        question.outcome, question.at_s = probe.outcome, at_s
        self._outcomes[probe.outcome] += 1
        values = {AVAILABILITY: float(probe.outcome == "answered")}
        for name, difference in self._differences(question, report, at_s):
            values[f"{GOLDEN}{name}"] = half(difference)
        # Each value is independent of the others.
        self._observed += [
            Observation(signal, value, at_s, answer=f"{signal} {probe.golden} {at_s}")
            for signal, value in values.items()
        ]
        self._kept.put(probe.golden, question)

    def _question(self, golden: str, interaction: Interaction) -> _Question:
        version = _version(interaction)
        if not self._kept.is_read:
            with contextlib.suppress(StoreUnavailableError):  # it is said where sums are added
                self._kept.exchange()
        known = self._kept.rows.pop(golden, None)
        if known is None or known.version != version:
            known = _Question(version=version)
        self._texts[golden] = interaction.query if self._shows_texts else ""
        return known

    def _differences(
        self, question: _Question, report: Report, at_s: float
    ) -> Iterator[tuple[str, float]]:
        """Take in scores; yield how far those that are watched are from what was expected."""
        judge = str(report.judge)
        if report.assessment is not None and question.judge != judge:
            question.judge, question.scores = judge, {}
        for each in report.evaluations:
            if isinstance(each, Scored):
                name = evaluator_name(each.evaluator)
                history = question.scores.get(name)
                if history is None or history.evaluator != each.evaluator:
                    history = question.scores[name] = ScoreHistory(evaluator=each.evaluator)
                expected = history.add(each.score, at_s)
                if expected is not None and name in WATCHED:
                    yield name, each.score - expected

    # --- now and then ---------------------------------------------------------------------------

    def tick(self) -> Iterable[Observation]:
        """Keep what is new; return what the alarms rest on."""
        self._kept.exchange()
        observed, self._observed = self._observed, []
        return observed

    # --- showing --------------------------------------------------------------------------------

    def gauges(self) -> Iterable[GaugeValue]:
        """Return every gauge of golden questions; nothing before the first was asked."""
        if not self._kept.rows:
            return
        for window, length_s in WINDOWS.items():
            yield from self._windowed(window, self._now() - length_s)
        for outcome, n in self._outcomes.items():
            yield GaugeValue.of(metrics.GOLDEN_ASKS, n, outcome=outcome)

    def _windowed(self, window: Window, since_s: float) -> Iterator[GaugeValue]:
        newest = [each for each in self._kept.rows.values() if each.at_s >= since_s]
        scores = {name: self._newest(name, since_s) for name in metrics.GOLDEN_EVALUATORS}
        scores["availability"] = [float(each.outcome == "answered") for each in newest]
        for name, values in scores.items():
            squares = math.fsum(score * score for score in values)
            level = mean_of_scores(len(values), math.fsum(values), squares)
            if level is not None:
                of = {"evaluator": name, "judge": self._judge, "window": window}
                yield from GaugeValue.interval(metrics.GOLDEN_SCORE, *level[:3], **of)

    def _newest(self, evaluator: str, since_s: float) -> Sequence[float]:
        """Return the newest score of each question that was asked since then."""
        histories = (each.scores.get(evaluator) for each in self._kept.rows.values())
        return [each.newest for each in histories if each is not None and each.at_s >= since_s]

    def views(self) -> Mapping[str, Any]:
        """Return the questions of the last day that need somebody: unanswered, or fallen."""
        since_s = self._now() - WINDOWS["24h"]
        rows = [
            self._row(golden, each)
            for golden, each in self._kept.rows.items()
            if each.at_s >= since_s
        ]
        if not rows:
            return {}
        rows.sort(key=lambda row: (row["outcome"] in ("answered", ""), row["change"]))
        return {"goldens": {"worst": rows[:MAX_SHOWN]}}

    def _row(self, golden: str, question: _Question) -> dict[str, Any]:
        history = question.scores.get(CORRECTNESS)
        expected = None if history is None else history.expected
        newest = None if history is None else history.newest
        return {
            "id": golden,
            "question": self._texts.get(golden, ""),
            "outcome": question.outcome,
            "answer_correctness": newest,
            "expected": expected,
            "change": 0.0 if newest is None or expected is None else newest - expected,
        }


def _version(interaction: Interaction) -> str:
    texts = (
        interaction.query,
        interaction.reference,
        *(chunk.text for chunk in interaction.reference_chunks),
    )
    return hashlib.blake2b("\0".join(texts).encode("utf-8", "replace"), digest_size=8).hexdigest()
