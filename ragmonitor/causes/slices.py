"""Keeps the newest answers, and finds in which slices of them a signal has got worse."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final

from ragmonitor.causes.answer_log import AnswerLog
from ragmonitor.causes.candidates import CandidateCause
from ragmonitor.causes.slice_names import Slice, SliceNames
from ragmonitor.causes.slice_search import SliceSearch
from ragmonitor.estimation.parts import Answer, Observation, Part
from ragmonitor.estimation.signals import HALLUCINATION, hallucinated
from ragmonitor.protocols import Clock
from ragmonitor.records import Example, Interaction

MAX_TIME_SHARE: Final = 0.05
"""Of the time, that looks take: one that took a second is the answer for twenty."""
MAX_EXAMPLES: Final = 64
"""Bad answers whose texts are kept, to be shown with a slice; the newest."""


class Slices(Part):
    """Keeps the newest answers, and finds where among them a signal has got worse.

    Everything is worked out when it is asked for, from what is kept: an answer costs no more than
    its row. It is this process's own; nothing of it is shared or kept over a restart.
    """

    def __init__(
        self,
        *,
        reader: str,
        is_sampled: bool,
        max_importance_weight: float,
        higher_is_better: Callable[[str], bool],
        topic: Callable[[Interaction], str] = lambda _: "",
        leave_out: Sequence[str] = (),
        suspect: Callable[[Sequence[Slice]], None] | None = None,
        clock: Clock = time.monotonic,
    ) -> None:
        """Begin without an answer.

        Args:
            reader: Name of the judge that reads every answer.
            is_sampled: Whether a judge reads a sample; else the reader's verdicts count.
            max_importance_weight: Of its verdicts, as in `Stream`.
            higher_is_better: Whether a signal is the better the higher it is.
            topic: Returns the topic of a question; empty: not known.
            leave_out: Patterns of dimensions that are not looked at.
            suspect: Told of the slices by an attribute that look suspicious, worst first.
            clock: Of how long looks take.
        """
        self._log = AnswerLog(
            SliceNames(leave_out=leave_out, topic=topic), reader=reader, is_sampled=is_sampled
        )
        self._max_weight = max_importance_weight
        self._higher_is_better = higher_is_better
        self._suspect = suspect
        self._clock = clock
        self._looked: tuple[str, float, float, Sequence[CandidateCause]] | None = None
        """At what, until when that holds, and what was found."""
        self._examples: deque[tuple[tuple[Slice, ...], Example]] = deque(maxlen=MAX_EXAMPLES)

    def add(self, answer: Answer) -> Sequence[Observation]:
        """Take in one completed answer."""
        row = self._log.add(answer)
        if row is not None and row.value(HALLUCINATION):
            report = answer.completed.judged or answer.completed.builtin
            if hallucinated(report):
                example = Example(
                    interaction=answer.interaction,
                    assessment=report.assessment,
                    badness=1.0,
                    at_s=answer.at_s,
                    target=answer.completed.target,
                )
                self._examples.append((row.slices, example))
        return ()

    def tick(self) -> Sequence[Observation]:
        """Let the share of the answers that is kept follow the traffic."""
        self._log.refresh()
        return ()

    def clear(self) -> None:
        """Forget every answer."""
        self._log.clear()
        self._looked = None
        self._examples.clear()

    def candidates(self, signal: str, since_s: float) -> Sequence[CandidateCause]:
        """Return slices in which a signal got worse, and shifts of the mix; as `CauseFinder`.

        What was found last is returned again while a new look would take too much of the time.
        """
        began = self._clock()
        last = self._looked
        if last is not None and last[:2] == (signal, since_s) and began < last[2]:
            return last[3]
        found = self._look(signal, since_s)
        ended = self._clock()
        self._looked = signal, since_s, ended + (ended - began) / MAX_TIME_SHARE, found
        return found

    def _look(self, signal: str, since_s: float) -> Sequence[CandidateCause]:
        search = SliceSearch(
            self._log.rows(),
            signal,
            since_s,
            is_flipped=self._higher_is_better(signal),
            max_weight=self._max_weight,
        )
        if not search.is_possible:
            return ()
        found = list(search.slices(self._examples))
        if self._suspect is not None:
            self._suspect(search.suspects)
        return (*found, *search.mixes())
