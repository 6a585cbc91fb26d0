"""The slices that an answer belongs to: the values of everything that is known of it."""

from __future__ import annotations

import fnmatch
from collections import OrderedDict
from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Final

from ragmonitor.records import Chunk
from ragmonitor.stats.parts import Answer
from ragmonitor.stats.signals import language_of

Slice = tuple[str, str]
"""A dimension and its value: `("route", "billing")`."""
SHARED: Final = frozenset(("tag", "source", "retriever"))
"""Dimensions of which one answer may have several values, so that they divide nothing."""
MAX_ATTRIBUTES: Final = 24
"""The number of attributes of one answer, in the order of their names."""
MAX_VALUES: Final = 8
"""The number of values of one dimension of one answer."""
MAX_CHARACTERS: Final = 80
"""The characters of a value."""
MAX_SESSIONS: Final = 10_000
"""The number of sessions whose turns are counted; the one that was silent longest is let go of."""
MAX_NAMES: Final = 20_000
"""Names of slices that are kept once for all answers."""


class SliceNames:
    """Returns the slices of an answer.

    Attributes of the application are found by themselves: whatever an answer carries is a
    dimension. The others are what the records say: framework, name of the chain, language, model,
    retriever, source, tag, number of chunks, turn of the session.
    """

    def __init__(
        self,
        *,
        leave_out: Sequence[str] = (),
        source: Callable[[Chunk], str] = attrgetter("source"),
    ) -> None:
        """Begin without a session.

        Args:
            leave_out: Patterns of dimensions that are not looked at: `user*`.
            source: Returns what a chunk's document is called.
        """
        self._source = source
        self._leave_out = tuple(leave_out)
        self.clear()

    def clear(self) -> None:
        """Forget every session."""
        self._turns: OrderedDict[str, int] = OrderedDict()
        self._known: dict[Slice, Slice | None] = {}
        """None: it is not looked at."""
        self._wanted: dict[str, bool] = {}

    def turn(self, session: str) -> int:
        """Return how many answers a session has had, with this one; 0 without a session."""
        if not session:
            return 0
        turns = self._turns
        turns[session] = turn = turns.get(session, 0) + 1
        turns.move_to_end(session)
        if len(turns) > MAX_SESSIONS:
            turns.popitem(last=False)
        return turn

    def of(self, answer: Answer, turn: int) -> tuple[Slice, ...]:
        """Return the slices of an answer, each once.

        Args:
            answer: The answer.
            turn: As `turn` has it.
        """
        if len(self._known) > MAX_NAMES:
            self._known.clear()
        known = self._known
        found = []
        for named in self._named(answer, turn):
            kept = known[named] if named in known else self._kept(*named)
            if kept is not None:
                found.append(kept)
        return tuple(dict.fromkeys(found))

    def _kept(self, dimension: str, value: str) -> Slice | None:
        """Return a slice as it is kept, once for all answers; None: it is not looked at."""
        kept = None
        if value and (
            self._wanted[dimension] if dimension in self._wanted else self._wants(dimension)
        ):
            kept = (dimension, value[:MAX_CHARACTERS])
            kept = self._known.setdefault(kept, kept)
        if len(value or "") <= MAX_CHARACTERS:
            self._known[dimension, value] = kept
        return kept

    def _wants(self, dimension: str) -> bool:
        wanted = not any(fnmatch.fnmatchcase(dimension, each) for each in self._leave_out)
        if len(self._wanted) < MAX_NAMES:
            self._wanted[dimension] = wanted
        return wanted

    def _named(self, answer: Answer, turn: int) -> list[Slice]:
        interaction = answer.interaction
        # A list at once: this runs for every answer.
        found = [
            ("framework", interaction.framework),
            ("name", interaction.name),
            ("language", language_of(answer.completed.builtin)),
            ("chunks", _number(len(interaction.chunks))),
        ]
        if interaction.generations:
            found.append(("model", interaction.generations[-1].model))
        if turn:
            found.append(("turn", _number(turn)))
        found += [("retriever", each.name) for each in interaction.retrievals[:MAX_VALUES]]
        found += [("tag", each) for each in interaction.tags[:MAX_VALUES]]
        found += [("source", self._source(each)) for each in interaction.chunks[:MAX_VALUES]]
        attributes = interaction.attributes
        if attributes:
            # One that is called as what the records say is a dimension of its own.
            found += [
                (f"attribute {name}" if name in RECORDED else name, attributes[name])
                for name in sorted(attributes)[:MAX_ATTRIBUTES]
            ]
        return found


RECORDED: Final = frozenset(
    ("framework", "name", "language", "model", "chunks", "turn", *SHARED)
) | {"latency_s", "chunk_score"}
"""Dimensions that are no attribute of the application's."""


def _number(count: int) -> str:
    """Return a number, from 4 on as a band."""
    return str(count) if count <= 3 else "4 to 7" if count <= 7 else "8 or more"
