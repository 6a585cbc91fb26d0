"""Knows of each drawn answer which entries of the settled stream a successor still needs."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from ragmonitor.wire import SettledAnswer

MAX_GIVEN_UP: Final = 10_000


@dataclass(slots=True)
class Drawn:
    """One answer that was drawn."""

    entries: list[str]
    is_known: bool
    """Whether the means know of it since its draw; else they do once it is taken in."""
    is_there: bool = False
    """Whether it has come back, with a verdict or without."""
    held: SettledAnswer | None = None
    """It is there, and waits for those that were drawn before it."""


class SettledOrder:
    """Drawn answers in the order of their draws, as long as the alarms wait for any before them.

    A verdict that waits in the alarms is in memory alone, so its entries stay on the stream. An
    answer that the means know of since its draw is taken in as it comes. A worker of the release
    before this one does not say enough for that: means without what is still to come would look too
    good wherever judges take longer over bad answers. So what such a worker drew is held back.
    """

    def __init__(self, given_up: Iterable[str] = ()) -> None:
        """Wait for nothing.

        Args:
            given_up: Ids that a predecessor has given up of answers that its means did not know of.
        """
        self._drawn: OrderedDict[str, Drawn] = OrderedDict()
        self._given_up = OrderedDict.fromkeys(given_up)
        self._held = 0

    def __len__(self) -> int:
        """Return how many drawn answers are waited for, or wait."""
        return len(self._drawn)

    @property
    def given_up(self) -> list[str]:
        """Ids of answers that were given up and no means know of, oldest first."""
        return list(self._given_up)

    def draw(self, answer: str, entry: str, *, is_known: bool) -> None:
        """Take note of a draw.

        Args:
            answer: Its id.
            entry: The entry of the settled stream that says so.
            is_known: Whether the means know of it.
        """
        self._drawn[answer] = Drawn([entry], is_known)

    def find(self, answer: str) -> Drawn | None:
        """Return a drawn answer; None: it was not drawn, or nobody waits for it any more."""
        return self._drawn.get(answer)

    def hold(self, drawn: Drawn, answer: SettledAnswer) -> None:
        """Hold an answer back until all that were drawn before it are there, or given up."""
        drawn.is_there, drawn.held = True, answer
        self._held += 1

    def is_late(self, answer: str) -> bool:
        """Return whether an answer was given up of which no means know."""
        return answer in self._given_up

    def ready(self) -> Iterator[tuple[SettledAnswer, list[str]]]:
        """Yield the answers that need not be held back any more, in order, with their entries."""
        if not self._held:
            return
        for identity, drawn in [*self._drawn.items()]:
            if not drawn.is_there:
                return
            if drawn.held is not None:
                self._held -= 1
                del self._drawn[identity]
                yield drawn.held, drawn.entries

    def released(self, waits_for: Callable[[str], bool]) -> Iterator[str]:
        """Yield the entries that nobody needs any more.

        Args:
            waits_for: Whether the alarms wait for an answer, or for one that was drawn before it.
        """
        while self._drawn:
            identity, drawn = next(iter(self._drawn.items()))
            if drawn.held is not None or waits_for(identity):
                return
            del self._drawn[identity]
            if not (drawn.is_known or drawn.is_there):
                self._given_up[identity] = None
                while len(self._given_up) > MAX_GIVEN_UP:
                    self._given_up.popitem(last=False)
            yield from drawn.entries
