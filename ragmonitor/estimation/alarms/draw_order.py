"""Verdicts update the evidence in the order in which their answers were drawn.

The guarantee speaks of each verdict given those before it. Where bad answers take longer to judge
than good ones, the order in which verdicts come in is no such order: behind a burst the good ones
come first and the bad ones follow all at once. So a verdict that is there waits for those of
answers that were drawn before it, but not for ever.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from typing import Final, Generic, TypeVar

Item = TypeVar("Item")

WAIT_S: Final = 600.0
"""The time for which an answer is waited for; its verdict is missing then, as if the judge had
failed."""
MAX_WAITING: Final = 2_000
"""Answers that are waited for, or wait; of more, the first is given up."""
GIVEN_UP_KEPT: Final = 10_000


class DrawOrder(Generic[Item]):
    """Holds the updates of drawn answers until all that were drawn before have theirs."""

    __slots__ = ("_drawn", "_given_up", "late")

    def __init__(self) -> None:
        """Wait for nothing."""
        self._drawn: OrderedDict[str, tuple[float, list[Item], list[bool], float]] = OrderedDict()
        """The drawn answers in the order of their draws: when it was, updates, whether all are
        there, and how suspicious the built-in judge's score of those before was."""
        self._given_up: OrderedDict[str, None] = OrderedDict()
        self.late = 0
        """Answers whose verdict came after they were given up, so far."""

    def draw(self, answer: str, at_s: float, suspicion: float) -> None:
        """Wait for an answer's verdict from now on."""
        self._drawn[answer] = at_s, [], [False], suspicion

    def suspicion(self, answer: str) -> float:
        """Return what was told when an answer was drawn; 0 of others."""
        known = self._drawn.get(answer)
        return 0.0 if known is None else known[3]

    def holds(self, answer: str, update: Item) -> bool:
        """Take in an update, and return whether it waits or is too late; else it may go at once."""
        known = self._drawn.get(answer)
        if known is not None:
            known[1].append(update)
        return known is not None or answer in self._given_up

    def complete(self, answer: str) -> None:
        """Take note that no more updates of an answer follow; there may have been none."""
        known = self._drawn.get(answer)
        if known is not None:
            known[2][0] = True
        elif answer in self._given_up:
            del self._given_up[answer]
            self.late += 1

    def released(self, now_s: float) -> Iterator[Item]:
        """Yield the updates that need not wait any more, in order."""
        while self._drawn:
            answer, (at_s, updates, complete, _) = next(iter(self._drawn.items()))
            if not complete[0]:
                if now_s - at_s < WAIT_S and len(self._drawn) <= MAX_WAITING:
                    return
                self._given_up[answer] = None
                while len(self._given_up) > GIVEN_UP_KEPT:
                    self._given_up.popitem(last=False)
            del self._drawn[answer]
            if complete[0]:
                yield from updates
