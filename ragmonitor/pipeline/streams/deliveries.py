"""Defines what a stream of records promises, whatever engine is behind it."""

from __future__ import annotations

from collections.abc import Collection, Container, Sequence
from dataclasses import dataclass
from typing import Protocol

from ragmonitor.records import GaugeValue
from ragmonitor.semconv.metrics import STREAM_OLDEST_SECONDS, STREAM_RECORDS, STREAM_UP


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """One record, handed to a consumer until it is settled or buried."""

    id: str
    """The stream's own."""
    data: bytes
    deliveries: int
    """The number of times that it was handed out, this time included."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamState:
    """The number of records in each state: stored = waiting + open + settled + buried."""

    waiting: int
    """Records that no consumer has had."""
    open: int
    """Records that a consumer has, and has not settled."""
    buried: int
    oldest_s: float
    """Age of the oldest record that waits or is open, in seconds; 0: there is none."""

    def gauges(self) -> tuple[GaugeValue, ...]:
        """Return the series of a stream that can be reached."""
        return (
            GaugeValue(name=STREAM_UP, value=1),
            GaugeValue.of(STREAM_RECORDS, self.waiting, state="waiting"),
            GaugeValue.of(STREAM_RECORDS, self.open, state="open"),
            GaugeValue.of(STREAM_RECORDS, self.buried, state="buried"),
            GaugeValue(name=STREAM_OLDEST_SECONDS, value=self.oldest_s),
        )


class Stream(Protocol):
    """A durable, ordered stream of records with one group of consumers.

    Delivery is at least once: what a consumer does not settle is delivered again. Every method may
    raise `StreamError`, which names no credentials.
    """

    def put(self, records: Sequence[bytes]) -> int:
        """Store records in order; return how many: the others were refused, since it is full.

        After a `StreamError` some may have been stored all the same.
        """
        ...

    def take(
        self, consumer: str, max_items: int, *, wait_s: float, stale_s: float | None
    ) -> Sequence[Delivery]:
        """Return records for a consumer: first those that others let lie, then new ones.

        Args:
            consumer: Who takes them; its own are not given to it twice.
            max_items: At most so many.
            wait_s: Wait so long for the first, if there is none.
            stale_s: What another consumer has in hand is taken from it, once nothing was heard of
                that consumer for so long; None: new ones only.
        """
        ...

    def held(self, consumer: str, besides: Container[str]) -> Sequence[Delivery]:
        """Return once more what a consumer has by the stream's account: a reply may be lost.

        Args:
            consumer: Who asks.
            besides: Ids of records that it knows to have.
        """
        ...

    def settle(self, ids: Collection[str]) -> None:
        """Forget records: they are done."""
        ...

    def bury(self, delivery: Delivery, reason: str) -> None:
        """Put a record aside, to be looked at; it is delivered to nobody."""
        ...

    def state(self) -> StreamState:
        """Return how much is where."""
        ...

    def stay(self, consumer: str) -> None:
        """Say that a consumer is alive."""
        ...

    def close(self) -> None:
        """Release connections."""
        ...
