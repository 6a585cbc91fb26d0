"""Sums that wait to be added to the store: each exactly once, in bounded memory, counted."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from ragmonitor.store.buckets import Increments, merge_buckets
from ragmonitor.store.interface import Decision, Settlement, Store, StoreUnavailableError

MAX_WAITING: Final = 50_000
"""Sums that wait at most, each a few hundred bytes."""
MAX_BATCH: Final = 500
"""Settlements of one call: each declares a key."""
SENT_FROM: Final = 128
"""Settlements that wait for no tick: half of the records that a worker has in hand at once."""


class Draw(Protocol):
    """A drawn answer, which learns the bucket of its draw from the store."""

    bucket: int


@dataclass(frozen=True, slots=True, eq=False)
class _Owed:
    settlement: Settlement
    increments: Increments
    draws: Sequence[Draw]


class Outbox:
    """Adds sums to a store, each exactly once, and keeps them while it is away.

    What a process adds up for itself waits in one batch, that takes the place of buckets and series
    and not of answers. The sums of an answer that came by a stream go to the store in the
    transaction that settles its record, which several workers may be given, at any moment: the
    store refuses those of a record that is settled. A draw is settled too, with what was decided;
    whoever takes the record over reads that, and draws no second time.

    `begin`, `waits` and `end` may be called from another thread than the rest.
    """

    def __init__(
        self, store: Store, added: Callable[[Increments], object] = lambda _: None
    ) -> None:
        """Begin with nothing.

        Args:
            store: Where sums are added.
            added: Takes what was added, once it was.
        """
        self._store, self._added = store, added
        self._waiting: Increments = {}
        self._draws: list[Draw] = []
        self._owed: list[_Owed] = []
        self._own = ""
        """Id of the process's own batch that was sent and perhaps not added; empty: there is none.
        A call that failed may have added all the same; so each batch has an id."""
        self._in_hand: dict[str, tuple[str, Decision | None]] = {}
        self.taken_over: set[str] = set()
        """Ids of answers that another process has drawn meanwhile: it settles them, or dies of
        them."""
        self.is_up = True
        """Whether the last call reached the store."""
        self.dropped = 0
        """Calls of `add` whose sums found no room, and batches that no store can take."""
        self.late = 0
        """Bets that came after their bucket was closed, and count in no alarm."""

    # --- records of a stream --------------------------------------------------------------------

    def begin(self, id_: str, entry: str, *, is_again: bool) -> None:
        """Have an answer in hand. Raises `StoreUnavailableError`.

        Args:
            id_: Of the answer.
            entry: Its number on the stream, if the store's transaction may acknowledge it.
            is_again: Somebody had it before, who may have drawn it.
        """
        decision = self._store.decision(id_) if is_again else None
        self._in_hand[id_] = entry, decision

    def drawn_before(self, id_: str) -> Decision | None:
        """Return how somebody drew an answer who has not settled it; None: nobody did."""
        return self._in_hand.get(id_, ("", None))[1]

    def owe(
        self, id_: str, increments: Increments, *, decision: str = "", draws: Sequence[Draw] = ()
    ) -> None:
        """Add the sums of a draw with what was decided, or the last ones of an answer.

        Args:
            id_: Of an answer that is in hand.
            increments: Its sums.
            decision: Of a draw; empty: the answer's record is settled.
            draws: The answer, if it is drawn.
        """
        if id_ in self._in_hand and id_ not in self.taken_over:
            settlement = Settlement(id_, self._in_hand[id_][0], decision)
            self._owed.append(_Owed(settlement, increments, draws))
            if self.is_up and len(self._owed) >= SENT_FROM:
                self.flush()

    def waits(self, id_: str) -> bool:
        """Return whether sums of an answer are still to be added."""
        return any(each.settlement.id == id_ for each in self._owed)

    def end(self, id_: str) -> None:
        """Forget an answer of which nothing more is owed."""
        self._in_hand.pop(id_, None)

    # --- sums -----------------------------------------------------------------------------------

    def add(self, increments: Increments, draws: Sequence[Draw] = ()) -> None:
        """Add a process's own sums to those that wait."""
        if self.waiting + _size(increments) > MAX_WAITING:
            self.dropped += 1
        else:
            merge_buckets(self._waiting, increments)
            self._draws += draws

    @property
    def waiting(self) -> int:
        """The number of sums that wait."""
        return _size(self._waiting) + sum(_size(each.increments) for each in self._owed)

    def flush(self) -> None:
        """Send what waits, as far as the store is there."""
        while self._next():
            batch, sums = self._owed[:MAX_BATCH], Increments()
            for each in batch:
                merge_buckets(sums, each.increments)
            try:
                added = self._store.add(sums, [each.settlement for each in batch])
                if added.refused:
                    self._refuse(added.refused)
                    continue
            except StoreUnavailableError:
                self.is_up = False
                return
            except Exception:  # raised again: tried again it would fail for ever
                self._owed = self._owed[len(batch) :]
                self.dropped += 1
                raise
            self.late += added.late
            self._added(sums)
            self._owed = self._owed[len(batch) :]
            for draw in (draw for each in batch for draw in each.draws):
                draw.bucket = added.bucket
        self.is_up = True

    def _next(self) -> bool:
        """Return whether there is something to send, the process's own batch included."""
        if self._waiting and not self.waits(self._own):
            self._own = uuid.uuid4().hex
            self._owed.append(_Owed(Settlement(self._own), self._waiting, self._draws))
            self._waiting, self._draws = {}, []
        return bool(self._owed)

    def _refuse(self, refused: Collection[str]) -> None:
        """Leave out what the store has: of this process, after a lost reply, or of another."""
        for id_ in refused:
            found = self._store.decision(id_)
            own = [each for each in self._owed if each.settlement.id == id_]
            left_out = own
            if found is not None and own[0].settlement.decision == found.text:
                left_out = own[:1]
                for draw in own[0].draws:
                    draw.bucket = found.bucket
            elif found is not None:
                self.taken_over.add(id_)
            self._owed = [each for each in self._owed if each not in left_out]


def _size(increments: Increments) -> int:
    return sum(map(len, increments.values()))
