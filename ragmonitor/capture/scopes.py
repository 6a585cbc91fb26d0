"""The scope of one interaction of plain code: `with monitor.interaction(...)`.

Framework runs that start within it become parts of the interaction.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from ragmonitor.runtime.protocols import Finished

MAX_PARTS: Final = 1_000
"""Runs that one scope keeps; an interaction has a handful."""


class InteractionScope:
    """Collects the runs and streams that start within a block of code, on any thread or task.

    It is done once the block has ended and its last part has: a stream that is handed out of the
    block may be read after it.
    """

    def __init__(
        self, interaction: Any, hand_over: Callable[[Finished], None], done: Callable[[], None]
    ) -> None:
        self.interaction = interaction
        """The recorder of the block's interaction."""
        self.hand_over = hand_over
        """The monitor's: the runs of another monitor do not belong to the scope."""
        self.parts: list[Any] = []
        """The ended runs (`FinishedRuns`), in the order in which they ended."""
        self.lost = 0
        """The number of parts beyond `MAX_PARTS`."""
        self._open: set[Hashable] = set()
        self._closed = False
        self._is_read = False
        self._ticket = [done]  # taken once, by whichever thread is last: `pop` is atomic

    def add(self, part: Hashable) -> bool:
        """Add an open part while the block goes on; return whether it belongs to the scope.

        A part beyond `MAX_PARTS` belongs to it, so that it is no interaction of its own, and is not
        kept.
        """
        if self._closed:
            return False
        if len(self.parts) + len(self._open) >= MAX_PARTS:
            self.lost += 1
        else:
            self._open.add(part)
        return True

    def finish(self, part: Hashable, finished: Any = None) -> None:
        """Note that a part has ended, and keep what it became."""
        if finished is not None:
            if part in self._open and not self._is_read:
                self.parts.append(finished)
            else:
                finished.release()
        self._open.discard(part)
        if self._closed and not self._open:
            self._done()

    def release(self) -> None:
        """Let go of the parts: the interaction has been read, or will never be."""
        self._is_read = True
        for part in self.parts:
            part.release()

    def close(self, *, wait: bool) -> None:
        """End the block. `wait`: for parts that are still open."""
        self._closed = True
        if not (wait and self._open):
            self._done()

    def _done(self) -> None:
        try:
            done = self._ticket.pop()
        except IndexError:
            return
        done()


entered_scope: ContextVar[InteractionScope | None] = ContextVar("ragmonitor_scope", default=None)
"""The scope that this thread or task is in. Ours, and no part of OpenTelemetry's context."""


def scope_of(hand_over: Callable[[Finished], None]) -> InteractionScope | None:
    """Return the scope of this monitor that this thread or task is in; None: it is in none."""
    scope = entered_scope.get()
    # Compared, not identified: a bound method is a new object each time.
    return scope if scope is not None and scope.hand_over == hand_over else None
