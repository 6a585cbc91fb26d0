"""A block of plain code that framework runs become parts of: `with monitor.interaction(...)`."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Protocol

from ragmonitor.capture.runs import Run

if TYPE_CHECKING:
    from ragmonitor.protocols import Finished
    from ragmonitor.records import Chunk, Generation, Retrieval, Status

PARTS_MOST = 1_000
"""Runs that one block keeps; an interaction has a handful."""


class Part(Protocol):
    """What ended within a block, as the block's interaction reads it; behind the request path."""

    @property
    def status(self) -> Status:
        """How it ended."""
        ...

    @property
    def ended_ns(self) -> int:
        """When it ended."""
        ...

    def retrievals(self) -> Sequence[Retrieval]:
        """Return its outermost retrievals."""
        ...

    def shown(self) -> Sequence[Chunk]:
        """Return what its own result names as the model's context; empty if nothing."""
        ...

    def retrieved(self) -> Sequence[Chunk]:
        """Return what every retriever gave."""
        ...

    def generations(self) -> Sequence[Generation]:
        """Return its model calls."""
        ...

    def answer(self) -> str:
        """Return the text that it gave."""
        ...

    def labels(self) -> Mapping[str, Any]:
        """Return what the application says of it; see `Translator.labels`."""
        ...


class InteractionScope:
    """Collects what starts within a block, from whichever thread or task: runs, and streams.

    Done once the block has ended and its last part has: a stream that is handed out of the block
    may be read after it.
    """

    __slots__ = ("_closed", "_open", "_ticket", "hand_over", "lost", "parts")

    def __init__(self, hand_over: Callable[[Finished], None], done: Callable[[], None]) -> None:
        self.hand_over = hand_over
        """The monitor's: the runs of another monitor are not gathered."""
        self.parts: list[Part] = []
        """In the order in which they ended."""
        self.lost = 0
        """How many more there were than are kept."""
        self._open: dict[Hashable, None] = {}
        self._closed = False
        self._ticket = [done]  # taken once, by whichever thread is last: `pop` is atomic

    def joins(self, part: Hashable) -> bool:
        """Take a part in, as long as the block goes on; return whether it was taken.

        One beyond `PARTS_MOST` is taken, and not kept: it is none of an interaction of its own.
        """
        if self._closed:
            return False
        if len(self.parts) + len(self._open) >= PARTS_MOST:
            self.lost += 1
        else:
            self._open[part] = None
        return True

    def leaves(self, part: Hashable, finished: Part | None = None) -> None:
        """Note that a part has ended, and keep what it became."""
        if part in self._open and finished is not None:
            self.parts.append(finished)
        self._open.pop(part, None)
        if self._closed and not self._open:
            self._finish()

    def has_open_run(self) -> bool:
        """Return whether a framework's run is under way in the block."""
        return any(isinstance(part, Run) for part in self._open.copy())

    def close(self, *, wait: bool) -> None:
        """End the block. `wait`: for parts that are open still."""
        self._closed = True
        if not (wait and self._open):
            self._finish()

    def _finish(self) -> None:
        try:
            done = self._ticket.pop()
        except IndexError:
            return
        done()


gathering: ContextVar[InteractionScope | None] = ContextVar("ragmonitor_gathering", default=None)
"""The block that this thread or task is in. Ours, and no part of OpenTelemetry's context."""


def joined(part: Hashable, hand_over: Callable[[Finished], None]) -> InteractionScope | None:
    """Return the current block, which has taken the part in; None: it is not to be gathered."""
    block = gathering.get()
    # Compared, not identified: a bound method is a new object each time.
    if block is None or block.hand_over != hand_over or block.has_open_run():
        return None
    return block if block.joins(part) else None
