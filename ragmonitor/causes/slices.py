"""Keeps the newest answers, and finds in which slices of them a signal has got worse."""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import attrgetter
from typing import Any, Final

from ragmonitor.causes.answer_log import AnswerLog, Row
from ragmonitor.causes.candidates import CandidateCause
from ragmonitor.causes.decomposition import PartSums, contribution
from ragmonitor.causes.slice_names import Slice, SliceNames
from ragmonitor.causes.slice_search import SliceSearch
from ragmonitor.export.service_state import estimate_record
from ragmonitor.protocols import Clock
from ragmonitor.records import Chunk, Example
from ragmonitor.stats.parts import Answer, Observation, Part
from ragmonitor.stats.signals import HALLUCINATION

MAX_TIME_SHARE: Final = 0.05
"""The share of the time that looks take: one that took a second is the answer for twenty."""
MAX_EXAMPLES: Final = 64
"""Bad answers whose texts are kept, to be shown with a slice; the newest."""
RATES_EVERY_S: Final = 30.0
RATES_TIME_SHARE: Final = 0.01
"""The share of the time that the rates of slices for the page may take."""
RATES_SPAN_S: Final = 86_400.0
"""They are of so long, up to the newest answer."""
MAX_RATES: Final = 60
MAX_RATED_SHARE: Final = 0.9
"""A slice with more of the answers is the whole."""


class Slices(Part):
    """Keeps the newest answers, and finds where among them a signal has got worse.

    Everything is worked out when it is asked for, from what is kept: an answer costs no more than
    its row. It is this process's own; nothing of it is shared or kept over a restart.
    """

    def __init__(
        self,
        *,
        max_importance_weight: float,
        higher_is_better: Callable[[str], bool],
        leave_out: Sequence[str] = (),
        source: Callable[[Chunk], str] = attrgetter("source"),
        clock: Clock = time.monotonic,
    ) -> None:
        """Begin without an answer.

        Args:
            max_importance_weight: Of the verdicts, as in `Stream`.
            higher_is_better: Whether a signal is the better the higher it is.
            leave_out: Patterns of dimensions that are not looked at.
            source: Returns what a chunk's document is called.
            clock: Of how long looks take.
        """
        self._log = AnswerLog(SliceNames(leave_out=leave_out, source=source))
        self._max_weight = max_importance_weight
        self._higher_is_better = higher_is_better
        self._clock = clock
        self._looked: tuple[str, float, float, Sequence[CandidateCause]] | None = None
        """At what, until when that holds, and what was found."""
        self._examples: deque[tuple[tuple[Slice, ...], Example]] = deque(maxlen=MAX_EXAMPLES)
        self._rates: Mapping[str, Any] = {}
        self._rates_due_s = 0.0

    def add(self, answer: Answer) -> Iterable[Observation]:
        """Take in one completed answer."""
        row = self._log.add(answer)
        if row is None:
            return ()
        if row.value(HALLUCINATION):
            self._examples.append((row.slices, _example(answer)))
        return ()

    def tick(self) -> Sequence[Observation]:
        """Let the share of the answers that is kept follow the traffic."""
        self._log.refresh()
        return ()

    def clear(self) -> None:
        """Forget every answer."""
        self._log.clear()
        self._looked = None
        self._rates, self._rates_due_s = {}, 0.0
        self._examples.clear()

    def views(self) -> Mapping[str, Any]:
        """Return the rates of the largest slices, ready for JSON; worked out now and then."""
        began = self._clock()
        if began >= self._rates_due_s and len(self._log):
            self._rates = {"slices": {"listed": slice_rates(self._log.rows())}}
            ended = self._clock()
            pause_s = max(RATES_EVERY_S, (ended - began) / RATES_TIME_SHARE)
            self._rates_due_s = ended + pause_s
        return self._rates

    def candidates(self, signal: str, since_s: float) -> Sequence[CandidateCause]:
        """Return slices in which a signal got worse, as `CauseFinder`.

        What was found last is returned again while a new look would take too much of the time.
        """
        began = self._clock()
        last = self._looked
        if last is not None and last[:2] == (signal, since_s) and began < last[2]:
            return last[3]
        found = self._look(signal, since_s)
        ended = self._clock()
        until = ended + (ended - began) / MAX_TIME_SHARE
        self._looked = signal, since_s, until, found
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
        return tuple(search.slices(self._examples))


def _example(answer: Answer) -> Example:
    return answer.example(answer.report, 1.0)


def slice_rates(rows: Iterable[Row]) -> list[dict[str, Any]]:
    """Return the slices with the most answers of the last day, the largest first.

    Args:
        rows: Answers, in any order.

    Returns:
        Of each its name, `answers`, its `share` of them all, how many are `judged`, and its
        hallucination `rate` with its 95 % interval (None: too little is known).
    """
    known = list(rows)
    since_s = max((row.at_s for row in known), default=0.0) - RATES_SPAN_S
    known = [row for row in known if row.at_s > since_s]
    counts: Counter[Slice] = Counter()
    for row in known:
        for each in row.slices:
            counts[each] += row.copies  # type: ignore[assignment]  # floats are counted
    total = sum(row.copies for row in known)
    sums = {
        each: PartSums()
        for each, count in counts.most_common(2 * MAX_RATES)
        if count <= MAX_RATED_SHARE * total
    }
    sums = dict(list(sums.items())[:MAX_RATES])
    for row in known:
        value = row.value(HALLUCINATION)
        adds = contribution(row, since=True, value=value, predicted=row.expected)
        for each in row.slices:
            if each in sums:
                sums[each].add(adds)
    return [
        {
            "name": "=".join(each),
            "answers": round(counts[each]),
            "share": round(counts[each] / total, 5),
            "judged": found.judged[1],
            "rate": None if (rate := found.estimate(True)) is None else estimate_record(rate),
        }
        for each, found in sums.items()
    ]
