"""Answers that came by a stream: their sums go to the store with what became of their records.

Several workers share a stream, and each record may be delivered again, to any of them, at any
moment. So the sums of an answer are added in the transaction that settles its record: the store
refuses those of a record that is settled. A draw is settled too, with what was decided; whoever
takes the record over reads that, and draws no second time.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import Final, NamedTuple

import msgspec

from ragmonitor.records import Prediction, SamplingDecision
from ragmonitor.stats.sums import Answer as Summed
from ragmonitor.store import (
    TOTALS,
    Decision,
    Increments,
    Rows,
    Settlement,
    Store,
    StoreUnavailableError,
    merge,
    merge_buckets,
)

MAX_BATCH: Final = 500
"""Settlements of one call: each declares a key."""


class Drawn(NamedTuple):
    """An answer that was drawn, as whoever takes its record over needs it."""

    by: str
    """A name of the process that drew it."""
    decision: SamplingDecision
    prediction: Prediction
    summed: Summed


class _Delivered(NamedTuple):
    entry: str
    """Its number on the stream, where that is on the store's server; else empty."""
    decision: Decision | None


@dataclass(frozen=True, slots=True)
class _Owed:
    id: str
    settlement: Settlement
    increments: Increments
    summed: Summed | None


class Deliveries:
    """The answers of a stream that this process has in hand, and the sums that are not added yet.

    `begin`, `waits` and `end` may be called from another thread than the rest.
    """

    def __init__(self, store: Store) -> None:
        """Have nothing in hand."""
        self._store, self._name = store, uuid.uuid4().hex
        self._known: dict[str, _Delivered] = {}
        self._owed: list[_Owed] = []
        self._waiting: set[str] = set()
        self.taken_over: set[str] = set()
        """Ids of answers that another process has drawn meanwhile: it settles them, or dies of
        them."""
        self.is_up = True
        """Whether the last call reached the store."""
        self.late = 0
        """As `Outbox.late`."""

    # --- the stream's side ----------------------------------------------------------------------

    def begin(self, id_: str, entry: str, *, is_again: bool) -> None:
        """Have an answer in hand. Raises `StoreUnavailableError`.

        Args:
            id_: Of the answer.
            entry: Its number on the stream, if the store's transaction may acknowledge it.
            is_again: Somebody had it before, who may have drawn it.
        """
        decision = self._store.decisions([id_])[0] if is_again else None
        self._known[id_] = _Delivered(entry, decision)

    def waits(self, id_: str) -> bool:
        """Return whether sums of an answer are still to be added."""
        return id_ in self._waiting

    def end(self, id_: str) -> None:
        """Forget an answer of which nothing more is owed."""
        self._known.pop(id_, None)

    # --- the pipeline's side --------------------------------------------------------------------

    def drawn_before(self, id_: str) -> Drawn | None:
        """Return how somebody drew an answer who has not settled it; None: nobody did."""
        known = self._known.get(id_)
        if known is None or known.decision is None:
            return None
        drawn = msgspec.json.decode(known.decision.text, type=Drawn)
        drawn.summed.bucket = known.decision.bucket
        return drawn

    def drawn(
        self, increments: Increments, summed: Summed, prediction: Prediction, how: SamplingDecision
    ) -> None:
        """Add the sums of a draw, with what was decided."""
        text = msgspec.json.encode(Drawn(self._name, how, prediction, summed)).decode()
        self._owe(summed.id, increments, summed, text)

    def settled(self, id_: str, increments: Increments) -> None:
        """Add the last sums of an answer, and settle its record."""
        self._owe(id_, increments, None, "")

    def _owe(self, id_: str, increments: Increments, summed: Summed | None, decision: str) -> None:
        known = self._known.get(id_)
        if known is not None and id_ not in self.taken_over:
            self._waiting.add(id_)
            settlement = Settlement(id_, known.entry, decision)
            self._owed.append(_Owed(id_, settlement, increments, summed))

    def keep(self) -> Rows:
        """Add what is owed, as far as the store is there; return the totals that were added."""
        totals: Rows = {}
        while self._owed:
            batch, sums = self._owed[:MAX_BATCH], Increments()
            for each in batch:
                merge_buckets(sums, each.increments)
            try:
                added = self._store.add(sums, [each.settlement for each in batch])
                if added.refused:
                    self._refuse([each for each in batch if each.settlement.key in added.refused])
                    continue
            except StoreUnavailableError:
                self.is_up = False
                return totals
            self.late += added.late
            merge(totals, sums.get(TOTALS, {}))
            for each in batch:
                if each.summed is not None:
                    each.summed.bucket = added.bucket
            self._owed = self._owed[len(batch) :]
            self._waiting.intersection_update({each.id for each in self._owed})
        self.is_up = True
        return totals

    def _refuse(self, refused: list[_Owed]) -> None:
        """Leave out what the store has: of this process, after a lost reply, or of another."""
        ids = list({each.id for each in refused})
        for id_, found in zip(ids, self._store.decisions(ids), strict=True):
            own = [each for each in self._owed if each.id == id_]
            if found is not None and own[0].settlement.decision == found.text:
                if own[0].summed is not None:
                    own[0].summed.bucket = found.bucket
                left_out = own[:1]
            else:
                left_out = own
                if found is not None:
                    self.taken_over.add(id_)
            self._owed = [each for each in self._owed if each not in left_out]
            if not any(each.id == id_ for each in self._owed):
                self._waiting.discard(id_)
