"""Counts, per document, what its answers came to: a bounded table of the newest and the worst."""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from heapq import nlargest
from operator import attrgetter
from typing import Any, Final

from ragmonitor.export.content import ContentPolicy
from ragmonitor.protocols import Clock
from ragmonitor.records import Chunk, Verdict
from ragmonitor.stats.parts import Answer, Observation, Part

CAPACITY: Final = 400
"""Documents that are kept: half of them the newest, half the most often contradicted. Up to twice
as many are between two trims."""
MAX_LISTED: Final = 40
MAX_NAME: Final = 200
DRAWN_UP_EVERY_S: Final = 6.0


def name_of(chunk: Chunk, policy: ContentPolicy) -> str:
    """Return a document's name for people: where it is from, else its id, else a hash.

    Sources are texts, and shown under `content="all"` only; ids are none.
    """
    source = chunk.source
    if source and policy.content == "all":
        return source[:MAX_NAME]
    if chunk.id:
        return chunk.id[:MAX_NAME]
    return hashed_name(source or chunk.text, policy)


def hashed_name(text: str, policy: ContentPolicy) -> str:
    """Return the name of a document of which only a text tells it from others."""
    data = text.encode("utf-8", "replace")
    digest = hashlib.blake2b(data, key=policy.key[:64], digest_size=6).hexdigest()
    return f"document-{digest}"


@dataclass(slots=True, kw_only=True)
class Source:
    """The counts of one document; each is of answers."""

    document: str
    """Its name, as `name_of` has it."""
    retrieved: int = 0
    shown: int = 0
    """Answers that the model was shown it for."""
    rests_on: int = 0
    """Answers with a sentence that it supports."""
    contradicted: int = 0
    """Answers with a sentence that it contradicts."""
    last_s: float = 0.0
    """When it was retrieved last, in seconds since the epoch."""


class Sources(Part):
    """Counts of documents. Which of them got worse, slices by `source` say.

    Sentences are as the judge of quality read them, else the built-in one. Used from one thread,
    and forgotten with the process.
    """

    def __init__(self, policy: ContentPolicy, *, clock: Clock = time.monotonic) -> None:
        """Begin without a document.

        Args:
            policy: Says what a document may be called.
            clock: For how often the list is drawn up.
        """
        self._policy = policy
        self._clock = clock
        self.clear()

    def clear(self) -> None:
        """Forget every document."""
        self._sources: dict[str, Source] = {}
        self._answers = 0
        self._listed: Mapping[str, Any] = {}
        self._due_s = -math.inf

    def add(self, answer: Answer) -> Sequence[Observation]:
        """Take in one answer."""
        interaction = answer.interaction
        shown = [name_of(each, self._policy) for each in interaction.chunks]
        retrieved = {
            name_of(chunk, self._policy)
            for retrieval in interaction.retrievals
            for chunk in retrieval.chunks
        }
        supporting, contradicting = _verdicts(answer, shown)
        for name in retrieved.union(shown):
            source = self._sources.get(name) or self._sources.setdefault(
                name, Source(document=name)
            )
            source.retrieved += 1
            source.shown += name in shown
            source.rests_on += name in supporting
            source.contradicted += name in contradicting
            source.last_s = max(source.last_s, answer.at_s)
        self._answers += 1
        if len(self._sources) > 2 * CAPACITY:
            self._trim()
        return ()

    def _trim(self) -> None:
        known = self._sources.values()
        kept = nlargest(CAPACITY // 2, known, key=attrgetter("last_s"))
        kept += nlargest(CAPACITY // 2, known, key=attrgetter("contradicted"))
        self._sources = {each.document: each for each in kept}

    def views(self) -> Mapping[str, Any]:
        """Return the documents that contradict most answers, ready for JSON; now and then anew."""
        if self._answers and self._clock() >= self._due_s:
            self._due_s = self._clock() + DRAWN_UP_EVERY_S
            order = attrgetter("contradicted", "shown")
            listed = nlargest(MAX_LISTED, self._sources.values(), key=order)
            self._listed = {
                "answers": self._answers,
                "kept": len(self._sources),
                "listed": [asdict(each) for each in listed],
            }
        return {"documents": self._listed} if self._listed else {}


def _verdicts(answer: Answer, shown: Sequence[str]) -> tuple[set[str], set[str]]:
    """Return the documents that support a sentence of an answer, and those that contradict one."""
    supporting: set[str] = set()
    contradicting: set[str] = set()
    assessment = answer.report.assessment
    for sentence in () if assessment is None else assessment.sentences or ():
        if sentence.verdict is Verdict.SUPPORTED:
            supporting.update(shown[at] for at in sentence.chunks if at < len(shown))
        elif sentence.verdict is Verdict.CONTRADICTED:
            contradicting.update(shown[at] for at in sentence.chunks[:1] if at < len(shown))
    return supporting, contradicting
