"""Decides which question is to be made next: its kind, difficulty, language and chunks."""

from __future__ import annotations

import itertools
import random
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, get_args

from ragmonitor.errors import SettingsError
from ragmonitor.goldens.golden import Difficulty, GoldenKind, ReferenceChunk
from ragmonitor.goldens.gram_index import GramIndex
from ragmonitor.judges import sentences as splitter
from ragmonitor.records import Language

MIX: Final[Mapping[str, float]] = {
    GoldenKind.SINGLE_FACT: 40,
    GoldenKind.SEVERAL_CHUNKS: 15,
    GoldenKind.COMPARISON: 10,
    GoldenKind.UNANSWERABLE: 15,
    GoldenKind.FALSE_PREMISE: 10,
    GoldenKind.FOLLOW_UP: 10,
}
"""Shares of the kinds, unless others are given."""
DIFFICULTIES: Final[Mapping[str, float]] = {"easy": 1, "medium": 2, "hard": 1}
MAX_TRIES: Final = 4
"""For each question that is wanted, at most so many are tried."""
_NEAR: Final = 8
"""Chunks among which a partner is chosen."""
_COPY: Final = 0.9
"""Cosine from which on two chunks say the same."""
JOINED: Final = frozenset({GoldenKind.SEVERAL_CHUNKS, GoldenKind.COMPARISON})
"""Kinds that need two chunks."""


class _Slot(NamedTuple):
    number: int
    difficulty: Difficulty
    language: Language | None
    chunk: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedQuestion:
    """One question that is to be made."""

    kind: GoldenKind
    difficulty: Difficulty
    language: Language
    chunks: tuple[ReferenceChunk, ...]
    """The chunks of the question: two where it is about several, else one."""


def in_turn(weights: Mapping[str, float]) -> Iterator[str]:
    """Yield names without end, so that each beginning has them nearly in the weights' shares.

    Args:
        weights: By name, not below 0; at least one above.
    """
    total = sum(weights.values())
    counts = dict.fromkeys(weights, 0)
    for number in itertools.count(1):
        name = max(counts, key=lambda each: weights[each] * number / total - counts[each])
        counts[name] += 1
        yield name


class QuestionPlan:
    """Plans one question after another; the same seed and documents give the same plan.

    Chunks are drawn without replacement, document by document: each document has its first chunk
    drawn before any has its second, in an order that the seed fixes (a sample stratified by
    document). When all chunks were drawn it begins anew.
    """

    def __init__(
        self,
        chunks: Sequence[ReferenceChunk],
        *,
        n: int,
        mix: Mapping[str, float] = MIX,
        difficulties: Mapping[str, float] = DIFFICULTIES,
        languages: Sequence[Language] = (),
        seed: int = 1,
    ) -> None:
        """Draw the order.

        Args:
            chunks: Of all documents; not empty.
            n: How many questions are wanted.
            mix: Weights of the kinds.
            difficulties: Weights of the difficulties, which are drawn at random.
            languages: In turn within each kind; empty: each question in its chunk's language.
            seed: Of the order.
        """
        self._chunks = chunks
        self._related: GramIndex | None = None
        """Made when a question needs it."""
        draw = random.Random(seed)
        drawn = itertools.cycle(self._spread(draw))
        levels = get_args(Difficulty)
        weights = [difficulties.get(level, 0.0) for level in levels]
        self._slots: dict[GoldenKind, deque[_Slot]] = {}
        self._wanted: Counter[GoldenKind] = Counter()
        """The number of questions that are wanted, by kind, without those under way."""
        for number, name in enumerate(itertools.islice(in_turn(mix), MAX_TRIES * n)):
            kind = GoldenKind(name)
            slots = self._slots.setdefault(kind, deque())
            language = languages[len(slots) % len(languages)] if languages else None
            level: Difficulty = draw.choices(levels, weights)[0]
            slots.append(_Slot(number, level, language, next(drawn)))
            self._wanted[kind] += number < n

    def _spread(self, draw: random.Random) -> list[int]:
        by_document: dict[str, list[int]] = {}
        for position, chunk in enumerate(self._chunks):
            by_document.setdefault(chunk.source or str(position), []).append(position)
        documents = [*by_document.values()]
        draw.shuffle(documents)
        for positions in documents:
            draw.shuffle(positions)
        rounds = max(map(len, documents))
        return [each[turn] for turn in range(rounds) for each in documents if turn < len(each)]

    def next(self) -> PlannedQuestion | None:
        """Return the next question; None: enough are under way, or the tries are used up.

        What a kind asks for does not depend on how the other kinds fare.
        """
        open_kinds = [k for k, slots in self._slots.items() if slots and self._wanted[k] > 0]
        if not open_kinds:
            return None
        kind = min(open_kinds, key=lambda each: self._slots[each][0].number)
        slot = self._slots[kind].popleft()
        self._wanted[kind] -= 1
        chunk = self._chunks[slot.chunk]
        partner = self._partner(chunk) if kind in JOINED else None
        return PlannedQuestion(
            kind=kind,
            difficulty=slot.difficulty,
            language=slot.language or splitter.language(chunk.text),
            chunks=(chunk,) if partner is None else (chunk, partner),
        )

    def dropped(self, planned: PlannedQuestion) -> None:
        """Have another one made in place of one that `next` returned."""
        self._wanted[planned.kind] += 1

    def near(self, text: str, count: int) -> list[ReferenceChunk]:
        """Return the chunks that are written most like a text, rare pieces of words first."""
        if self._related is None:
            self._related = GramIndex((each.text for each in self._chunks), by_rarity=True)
        return [self._chunks[each.position] for each in self._related.nearest(text, count)]

    def _partner(self, chunk: ReferenceChunk) -> ReferenceChunk | None:
        """Return a chunk of the same subject that is no copy, of another document if it can be."""
        own = GramIndex([chunk.text])
        near = [
            each
            for each in self.near(chunk.text, _NEAR)
            if each != chunk and own.similarity(each.text) < _COPY
        ]
        elsewhere = [each for each in near if each.source != chunk.source]
        return next(iter(elsewhere or near), None)


def parsed_weights(text: str, known: Iterable[str], option: str) -> dict[str, float]:
    """Return `name=weight,name=weight` as a mapping; a name alone weighs 1.

    Raises:
        SettingsError: A name is unknown, a weight is no number, or none is above 0.
    """
    names = [*map(str, known)]
    weights: dict[str, float] = {}
    for part in filter(None, (each.strip() for each in text.split(","))):
        name, _, weight = part.partition("=")
        try:
            weights[name] = float(weight or 1)
        except ValueError:
            weights[name] = -1.0
        if name not in names or not 0 <= weights[name] < float("inf"):
            raise SettingsError(f"{option} {part!r}: expected name=weight of {', '.join(names)}")
    if not sum(weights.values()) > 0:
        raise SettingsError(f"{option} {text!r}: no weight is above 0")
    return weights
