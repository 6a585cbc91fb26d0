"""Settled answers of several workers are taken in in the order of their draws."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from ragmonitor.wire import SettledAnswer

WAIT_S: Final = 600.0
"""The time for which a drawn answer is waited for; its verdict is missing then."""
MAX_WAITING: Final = 2_000
"""Drawn answers that are waited for, or wait; of more, the first is given up."""
MAX_GIVEN_UP: Final = 10_000


@dataclass(slots=True)
class _Drawn:
    at_s: float
    entries: list[str]
    suspicion: float
    answer: SettledAnswer | None = None


class SettledOrder:
    """Holds drawn answers back until all that were drawn before them are there, or given up.

    The guarantee of the alarms speaks of each verdict given those drawn before it, and workers
    settle in whatever order their judges reply.
    """

    def __init__(self, given_up: Iterable[str] = ()) -> None:
        """Wait for nothing.

        Args:
            given_up: Ids of answers that a predecessor has given up.
        """
        self._drawn: OrderedDict[str, _Drawn] = OrderedDict()
        self._given_up = OrderedDict.fromkeys(given_up)

    def __len__(self) -> int:
        """Return how many drawn answers are waited for, or wait."""
        return len(self._drawn)

    @property
    def given_up(self) -> list[str]:
        """Ids of the newest answers that were not waited for any longer, oldest first."""
        return list(self._given_up)

    def draw(self, answer: str, at_s: float, entry: str, suspicion: float) -> None:
        """Wait for an answer from now on.

        Args:
            answer: Its id.
            at_s: When it was drawn.
            entry: The entry of the settled stream that says so.
            suspicion: The early warning's, by answers before this one only.
        """
        self._drawn[answer] = _Drawn(at_s, [entry], suspicion)

    def holds(self, answer: SettledAnswer, entry: str) -> bool:
        """Take in an answer, and return whether it waits; else it may go at once."""
        drawn = self._drawn.get(answer.interaction.id)
        if drawn is not None:
            drawn.answer = answer
            drawn.entries.append(entry)
        return drawn is not None

    def is_late(self, answer: str) -> bool:
        """Return whether an answer was given up before: its verdict is missing."""
        return answer in self._given_up

    def released(self, now_s: float) -> Iterator[tuple[SettledAnswer | None, list[str], float]]:
        """Yield answers that need not wait any more, in order, with their entries and suspicion.

        None stands for one that is given up.
        """
        while self._drawn:
            answer, drawn = next(iter(self._drawn.items()))
            if drawn.answer is None:
                if now_s - drawn.at_s < WAIT_S and len(self._drawn) <= MAX_WAITING:
                    return
                self._given_up[answer] = None
                while len(self._given_up) > MAX_GIVEN_UP:
                    self._given_up.popitem(last=False)
            del self._drawn[answer]
            yield drawn.answer, drawn.entries, drawn.suspicion
