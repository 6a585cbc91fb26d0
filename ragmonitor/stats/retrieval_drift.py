"""Retrieval drift: nothing was retrieved, or worse matches than the service's first ones."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Mapping, Sequence
from operator import gt, lt
from typing import Final, NamedTuple

from ragmonitor.records import Chunk, Interaction
from ragmonitor.runtime.protocols import Clock
from ragmonitor.stats.parts import Answer, Observation, Part
from ragmonitor.stats.signals import EMPTY_RETRIEVAL, WEAK_RETRIEVAL
from ragmonitor.store import Store

SIZE: Final = 2_000
"""Interactions of the reference."""
KIND: Final = "retrieval"
"""Rows of the retrievals that are collected, by the interaction's id."""
FROZEN: Final = ("retrieval reference", "frozen")
WEAK_SHARE: Final = 0.05
"""Share of the reference's own retrievals that count as weak, at most."""
MIN_RETRIEVALS: Final = 50
"""With fewer retrievals that have scores there is nothing to compare with."""
AGREEING: Final = 0.75
"""Share of neighbours in chunk lists that must agree on which way scores go."""
LOOK_EVERY_S: Final = 60.0


class Scores(NamedTuple):
    """The range and the order of the scores in a list of chunks."""

    high: float
    low: float
    rising: int = 0
    """Neighbours of which the second has the greater score."""
    falling: int = 0

    def best(self, sign: int) -> float:
        """Return the best score; of distances, where `sign` is -1, the smallest one, negated."""
        return self.high if sign > 0 else -self.low


class Reference(NamedTuple):
    """What later retrievals are compared with."""

    sign: int
    """1: scores fall along a list, best first; -1: they rise, and are distances; 0: not known."""
    weak_below: float
    """A best score that is worse is weak."""

    @classmethod
    def of(cls, collected: Sequence[Scores]) -> Reference:
        """Return what was collected as a reference."""
        rising, falling = (sum(each[at] for each in collected) for at in (2, 3))
        sign = 1 if falling >= rising else -1
        is_clear = max(rising, falling) >= AGREEING * (rising + falling) > 0
        if len(collected) < MIN_RETRIEVALS or not is_clear:
            return cls(0, 0.0)
        best = sorted(each.best(sign) for each in collected)
        return cls(sign, best[math.floor(WEAK_SHARE * len(best))])


class RetrievalDrift(Part):
    """Compares each retrieval with the service's first ones. Used from one thread.

    Until the reference is frozen only empty retrieval is known. The reference is the first `SIZE`
    interactions of the service, all processes together: each adds what it has to the store, and
    the one that finds it full freezes it.
    """

    def __init__(self, store: Store, *, clock: Clock = time.monotonic) -> None:
        """Touch no store yet.

        Args:
            store: Where the reference is kept and shared.
            clock: For how often to look at the store.
        """
        self._store, self._clock = store, clock
        self.reference: Reference | None = None
        """The frozen one; None: it is still collected."""
        self._pending: dict[str, Scores | None] = {}
        self._looked_at_s = -math.inf

    def add(self, answer: Answer) -> Sequence[Observation]:
        """Take in one interaction, and return what it says of retrieval."""
        of, found = answer.interaction, self.outcomes(answer.interaction)
        return [
            Observation(signal, float(value), answer.at_s, of.session_id, of.id)
            for signal, value in found.items()
        ]

    def outcomes(self, interaction: Interaction) -> Mapping[str, bool]:
        """Take in one interaction; return which signals it shows, without those not known."""
        is_empty, scores = _is_empty(interaction), _scores(interaction)
        found = {} if is_empty is None else {EMPTY_RETRIEVAL: is_empty}
        reference = self.reference
        if reference is None:
            if len(self._pending) < SIZE:
                self._pending[interaction.id] = scores
        elif interaction.query.strip() and scores is not None and reference.sign:
            found[WEAK_RETRIEVAL] = scores.best(reference.sign) < reference.weak_below
        return found

    def tick(self) -> None:
        """Add what is new to the reference now and then, and freeze it when it is full."""
        if self.reference is None and self._clock() - self._looked_at_s >= LOOK_EVERY_S:
            self._looked_at_s = self._clock()
            self._exchange()

    def close(self) -> None:
        """Keep what was collected, for other processes."""
        self._looked_at_s = -math.inf
        self.tick()

    def _exchange(self) -> None:
        frozen = self._store.row(*FROZEN)
        if frozen is None:
            rows = {i: json.dumps(each).encode() for i, each in self._pending.items()}
            self._store.keep_all(KIND, rows, most=SIZE)
            self._pending = {}
            collected = [json.loads(row) for row in self._store.rows(KIND).values()]
            if len(collected) < SIZE:
                return
            reference = Reference.of([Scores(*each) for each in collected if each is not None])
            self._store.keep(*FROZEN, json.dumps(reference).encode(), expected=None)
            frozen = self._store.row(*FROZEN)
        self.reference, self._pending = Reference(*json.loads(frozen or b"[0, 0.0]")), {}


def _is_empty(interaction: Interaction) -> bool | None:
    """Return whether the model was shown no chunk; None: it was never searched for, or not seen."""
    if interaction.chunks:
        return False
    if interaction.capture_incomplete:
        return None
    ended_early = interaction.status in ("error", "cancelled") and not interaction.retrievals
    return None if ended_early else True


def _scores(interaction: Interaction) -> Scores | None:
    """Return what the chunks' scores say: those the model saw; failing that, those retrieved."""
    lists = (interaction.chunks, *(each.chunks for each in interaction.retrievals))
    values = next(filter(None, map(_values, lists)), None)
    if values is None:
        return None
    following = values[1:]
    rising, falling = sum(map(lt, values, following)), sum(map(gt, values, following))
    return Scores(max(values), min(values), rising, falling)


def _values(chunks: Sequence[Chunk]) -> list[float]:
    return [
        float(chunk.score)
        for chunk in chunks
        if chunk.score is not None and math.isfinite(chunk.score)
    ]
