"""Verdicts update the evidence in the order in which their answers were drawn.

The guarantee speaks of each verdict given those before it. Where bad answers take longer to judge
than good ones, the order in which verdicts come in is no such order: behind a burst the good ones
come first and the bad ones follow all at once. So a verdict that is there waits for those of
answers that were drawn before it, but not for ever.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator
from typing import Final, Generic, TypeVar

Item = TypeVar("Item")

WAIT_S: Final = 600.0
"""The time for which an answer is waited for; its verdict is missing then, as if the judge had
failed."""
MAX_WAITING: Final = 2_000
"""Answers that are waited for, or wait; of more, the first is given up."""
GIVEN_UP_KEPT: Final = 10_000


class Drawn(Generic[Item]):
    """What is known of an answer that was drawn."""

    __slots__ = ("at_s", "is_complete", "suspicion", "updates")

    def __init__(self, at_s: float, suspicion: float) -> None:
        self.at_s = at_s
        """When it was drawn."""
        self.updates: list[Item] = []
        self.is_complete = False
        """Whether all updates are there."""
        self.suspicion = suspicion
        """How suspicious the built-in judge's score of those before was."""


class DrawOrder(Generic[Item]):
    """Holds the updates of drawn answers until all that were drawn before have theirs."""

    __slots__ = ("_drawn", "_given_up", "late")

    def __init__(self) -> None:
        """Wait for nothing."""
        self._drawn: OrderedDict[str, Drawn[Item]] = OrderedDict()
        """The drawn answers by id, in the order of their draws."""
        self._given_up: OrderedDict[str, None] = OrderedDict()
        self.late = 0
        """Answers whose verdict came after they were given up, so far."""

    def draw(self, answer: str, at_s: float, suspicion: float) -> None:
        """Wait for an answer's verdict from now on."""
        self._drawn[answer] = Drawn(at_s, suspicion)

    def waits(self, answer: str) -> Drawn[Item] | None:
        """Return the answer to whose updates another is to be added; None: it waits for nothing."""
        return self._drawn.get(answer)

    def is_late(self, answer: str) -> bool:
        """Return whether an answer was given up, so that its updates count no more."""
        return answer in self._given_up

    @property
    def given_up(self) -> list[str]:
        """Ids of the newest answers that were given up, oldest first."""
        return list(self._given_up)

    def give_up(self, answers: Iterable[str]) -> None:
        """Leave out what comes of answers, as of those that were waited for in vain."""
        self._given_up |= dict.fromkeys(answers)
        while len(self._given_up) > GIVEN_UP_KEPT:
            self._given_up.popitem(last=False)

    def complete(self, answer: str) -> None:
        """Take note that no more updates of an answer follow; there may have been none."""
        known = self._drawn.get(answer)
        if known is not None:
            known.is_complete = True
        elif answer in self._given_up:
            del self._given_up[answer]
            self.late += 1

    def released(self, now_s: float) -> Iterator[Item]:
        """Yield the updates that need not wait any more, in order."""
        while self._drawn:
            answer, drawn = next(iter(self._drawn.items()))
            if not drawn.is_complete:
                if now_s - drawn.at_s < WAIT_S and len(self._drawn) <= MAX_WAITING:
                    return
                self.give_up((answer,))
            del self._drawn[answer]
            if drawn.is_complete:
                yield from drawn.updates
