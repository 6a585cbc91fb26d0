"""The newest answers with their slices and verdicts, from which causes are worked out."""

from __future__ import annotations

import math
import random
import zlib
from collections import deque
from collections.abc import Iterator
from typing import Final, NamedTuple

from ragmonitor.causes.slice_names import Slice, SliceNames
from ragmonitor.sampling.arrivals import Arrivals
from ragmonitor.stats.parts import Answer
from ragmonitor.stats.signals import HALLUCINATION, Outcomes

MAX_JUDGED: Final = 24_000
"""Answers with a verdict that are kept: twelve hours of 2,000 an hour, five days of 180."""
MAX_OTHERS: Final = 12_000
"""Answers without one, for what is predicted of them."""
SPAN_S: Final = 43_200.0
"""Where more come in so long, a random share of them is kept, and counts for all; but for the
first ones, up to half of what is kept: a service that has just begun has nothing else."""
_HALF_LIFE_S: Final = 3_600.0
_NOTHING: Final = (0.0, 0.0)


class Row(NamedTuple):
    """The entry of one answer, in some 0.4 kB."""

    at_s: float
    cluster: int
    """A hash of the session, else of the answer: answers of one are alike."""
    in_session: bool
    slices: tuple[Slice, ...]
    latency_s: float
    score: float
    """The best chunk's, as the retriever gave it; NaN: it gave none."""
    weight: float
    """1 / inclusion probability; 0 where it had none."""
    importance: float
    """The weight of `SamplingDecision.importance_weight`."""
    copies: float
    """The number of answers that it stands for, since a share of them is kept."""
    expected: tuple[float, float]
    """The expectation of `Prediction.expected` of hallucination."""
    signals: tuple[str, ...]
    """The signals whose values follow; empty: not judged."""
    values: tuple[float | None, ...]
    """None: the signal does not apply to the answer, or no verdict on it came."""

    def value(self, signal: str) -> float | None:
        """Return the value of a signal; None: there is none."""
        try:
            return self.values[self.signals.index(signal)]
        except ValueError:
            return None


class AnswerLog:
    """Keeps the newest answers; bounded, whatever the traffic."""

    def __init__(self, names: SliceNames) -> None:
        """Begin without an answer; told of the names of the slices."""
        self._names = names
        # Which answers are kept need not be secret; a seed of its own leaves `random` alone.
        self._random = random.Random(0)
        self.clear()

    def clear(self) -> None:
        """Forget every answer."""
        self._names.clear()
        self._judged: deque[Row] = deque(maxlen=MAX_JUDGED)
        self._others: deque[Row] = deque(maxlen=MAX_OTHERS)
        self._arrivals = (Arrivals(_HALF_LIFE_S), Arrivals(_HALF_LIFE_S))
        self._kept_share = [1.0, 1.0]
        """The share of the answers without a verdict, and of those with one, that is kept."""
        self._signals: dict[tuple[str, ...], tuple[str, ...]] = {}

    def __len__(self) -> int:
        """Return how many answers are kept."""
        return len(self._judged) + len(self._others)

    def rows(self) -> Iterator[Row]:
        """Yield what is kept, judged answers first."""
        yield from self._judged
        yield from self._others

    def refresh(self) -> None:
        """Work out anew which share of the answers is to be kept; now and then."""
        for place, (rows, most) in enumerate(
            ((self._others, MAX_OTHERS), (self._judged, MAX_JUDGED))
        ):
            arrivals = self._arrivals[place]
            is_filled = len(rows) >= most // 2
            per_s = arrivals.per_s_since_first(arrivals.seen_at + 1) if is_filled else 0.0
            self._kept_share[place] = min(1.0, most / max(1e-9, SPAN_S * per_s))

    def add(self, answer: Answer) -> Row | None:
        """Take in one answer, and return what is kept of it; None: it is not."""
        turn = self._names.turn(answer.interaction.session_id)
        found = answer.verdicts
        is_judged = found is not None
        self._arrivals[is_judged].note(answer.at_s)
        share = self._kept_share[is_judged]
        if share < 1 and self._random.random() >= share:
            return None
        row = self._row(answer, found or (), turn, 1 / share)
        (self._judged if is_judged else self._others).append(row)
        return row

    def _row(self, answer: Answer, found: Outcomes, turn: int, copies: float) -> Row:
        interaction = answer.interaction
        signals = tuple([signal for signal, _ in found])
        session = interaction.session_id
        score = interaction.chunks[0].score if interaction.chunks else None
        cluster = zlib.crc32((session or interaction.id).encode("utf-8", "replace"))
        return Row(
            answer.at_s,
            cluster,
            bool(session),
            self._names.of(answer, turn),
            interaction.latency_s,
            math.nan if score is None else score,
            answer.weight,
            answer.importance_weight,
            copies,
            answer.completed.prediction.expected.get(HALLUCINATION, _NOTHING),
            self._signals.setdefault(signals, signals),
            tuple([each.value if each and each.scored else None for _, each in found]),
        )
