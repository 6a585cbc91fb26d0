"""Pairs of chunks that were shown together and say different things."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from ragmonitor.errors import JudgeError
from ragmonitor.export.content import ContentPolicy
from ragmonitor.records import Assessment, CompletedAnswer, Interaction, SentenceVerdict, Verdict

MAX_PAIRS: Final = 200
MAX_SENTENCE: Final = 300
SENTENCES_PER_TICK: Final = 3
MAX_CHUNKS: Final = 8
"""Chunks of an answer that a sentence is compared with."""
MAX_WAITING: Final = 8
_OPPOSITE: Final = {
    Verdict.SUPPORTED: Verdict.CONTRADICTED,
    Verdict.CONTRADICTED: Verdict.SUPPORTED,
}

Read = Callable[[Interaction], Assessment]
"""The built-in judge, here and now. Raises `JudgeError`."""


@dataclass(slots=True)
class _Pair:
    names: tuple[str, str]
    """The names of the document that supports the sentence, and of the one that contradicts it."""
    times: int = 0
    last_s: float = 0.0
    sentence: str = ""
    id: str = ""
    trace_id: str = ""


@dataclass(frozen=True, slots=True)
class _Answer:
    interaction: Interaction
    sentences: tuple[SentenceVerdict, ...]
    names: Sequence[str]
    at_s: float
    trace_id: str


class ConflictingChunks:
    """Reads sentences that one chunk supports or contradicts against each of the other chunks.

    The judge of quality names the chunk. The built-in judge reads the sentence against each other
    one alone: where that says the opposite, the two chunks disagree. A few sentences are read at
    each tick.
    """

    def __init__(self, read: Read, policy: ContentPolicy) -> None:
        """Begin without a pair; `policy` says what may be kept of their texts."""
        self._read = read
        self._policy = policy
        self._waiting: list[_Answer] = []
        self._pairs: dict[tuple[str, str], _Pair] = {}
        self.sentences = 0
        """Read so far."""

    @property
    def has_room(self) -> bool:
        """Whether another answer may wait for the next tick."""
        return len(self._waiting) < MAX_WAITING

    def add(
        self, completed: CompletedAnswer, assessment: Assessment, names: Sequence[str], at_s: float
    ) -> None:
        """Take in an answer whose chunks are of the documents of these names, in their order."""
        named = tuple(
            [
                each
                for each in assessment.sentences or ()
                if each.verdict in _OPPOSITE
                if each.chunks
            ]
        )
        if named:
            trace_id = "" if completed.target is None else completed.target.trace_id
            self._waiting.append(_Answer(completed.interaction, named, names, at_s, trace_id))

    def tick(self) -> None:
        """Read a few sentences."""
        left = SENTENCES_PER_TICK
        waiting, self._waiting = self._waiting, []
        # Those with a contradiction tell most: the model followed another chunk, or none.
        waiting.sort(key=lambda each: min(map(_is_supported, each.sentences)))
        for answer in waiting:
            for sentence in sorted(answer.sentences, key=_is_supported)[:left]:
                left -= 1
                for names in self._conflicts(answer, sentence):
                    self._note(names, answer, sentence)

    def _conflicts(self, answer: _Answer, sentence: SentenceVerdict) -> Iterator[tuple[str, str]]:
        """Yield the documents that support the sentence and that contradict it, pair by pair."""
        self.sentences += 1
        names = answer.names
        of_judge = [at for at in sentence.chunks if at < len(names)]
        its_own = {names[at] for at in of_judge}
        for at, chunk in enumerate(answer.interaction.chunks[:MAX_CHUNKS]):
            if not of_judge or names[at] in its_own:
                continue
            alone = replace(answer.interaction, chunks=(chunk,), answer=sentence.text, reference="")
            try:
                found = self._read(alone).sentences or ()
            except JudgeError:  # too long a chunk: it is not compared
                continue
            opposite = _OPPOSITE[sentence.verdict]
            if any(each.verdict is opposite and _is_detail(each) for each in found):
                pair = names[of_judge[0]], names[at]
                yield pair if sentence.verdict is Verdict.SUPPORTED else (pair[1], pair[0])

    def _note(self, names: tuple[str, str], answer: _Answer, sentence: SentenceVerdict) -> None:
        key = (min(names), max(names))
        pair = self._pairs.get(key)
        if pair is None:
            if len(self._pairs) >= MAX_PAIRS:
                rarest = min(
                    self._pairs, key=lambda k: (self._pairs[k].times, self._pairs[k].last_s)
                )
                del self._pairs[rarest]
            pair = self._pairs[key] = _Pair(names)
        pair.names, pair.times, pair.last_s = names, pair.times + 1, answer.at_s
        pair.sentence = self._policy.text(sentence.text.strip()[:MAX_SENTENCE])
        pair.id, pair.trace_id = answer.interaction.id[:MAX_SENTENCE], answer.trace_id

    def record(self, most: int) -> Sequence[dict[str, Any]]:
        """Return the pairs that disagreed most often, ready for JSON."""
        ranked = sorted(self._pairs.values(), key=lambda pair: (-pair.times, -pair.last_s))
        return [
            {
                "supports": pair.names[0],
                "contradicts": pair.names[1],
                "times": pair.times,
                "last_s": round(pair.last_s, 3),
                "sentence": pair.sentence,
                "id": pair.id,
                "trace_id": pair.trace_id,
            }
            for pair in ranked[:most]
        ]


def _is_supported(sentence: SentenceVerdict) -> bool:
    return sentence.verdict is Verdict.SUPPORTED


def _is_detail(sentence: SentenceVerdict) -> bool:
    """Return whether no more than one detail is off: with several the chunk is about another case.

    "Zone 9 takes 11 days" is not what a chunk on zone 3 contradicts.
    """
    return len(sentence.words) <= 1 or sentence.reasons == ("name",)
