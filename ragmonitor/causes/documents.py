"""Counts, per document, what its answers came to, and gathers evidence that it makes them worse."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from heapq import nlargest
from operator import attrgetter
from typing import Any, Final

from ragmonitor.export.content import ContentPolicy
from ragmonitor.records import CERTAIN, Chunk, Verdict
from ragmonitor.stats.comparison import compare_block
from ragmonitor.stats.parts import Answer, Part
from ragmonitor.stats.sums import ALL, MAX_WEIGHT, group_of
from ragmonitor.stats.tick import WATERMARK_S, Tick
from ragmonitor.store import MEAN_S, Rows, Store, merge

CAPACITY: Final = 400
"""Documents that are kept: half of them the newest, half the most often contradicted. Up to twice
as many are between two trims."""
MAX_LISTED: Final = 40
MAX_NAME: Final = 200
MAX_OF_ANSWER: Final = 8
"""Documents of one answer, as the model saw them."""
MAX_COUNTED: Final = 2_000
"""Documents of one block that are counted; those that come later in it are not compared."""
MAX_COMPARED: Final = 100
"""Documents of one block that are compared: those with the most answers."""
SOURCE: Final = "source"
"""The dimension of documents among the slices: `source=handbook.md`."""


def name_of(chunk: Chunk, policy: ContentPolicy) -> str:
    """Return a document's name for people: where it is from, else its id, else a hash.

    Sources are texts, and shown under `content="all"` only; ids are none.
    """
    source = chunk.source
    if source and policy.content == "all":
        return source[:MAX_NAME]
    if chunk.id:
        return chunk.id[:MAX_NAME]
    return f"document-{policy.digest(source or chunk.text)[:12]}"


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


class Documents(Part):
    """A bounded table of documents, and evidence like that of slices, without series of their own.

    Within blocks of five minutes the answers that were shown a document are compared with the
    others (`stats.comparison`). The log gains go to the store, so that processes add theirs up.
    Counts are of this process, and forgotten with it. Used from one thread.
    """

    def __init__(self, policy: ContentPolicy, store: Store, tick: Tick, *, series: str) -> None:
        """Begin without a document.

        Args:
            policy: Says what a document may be called.
            store: Where the evidence is added up.
            tick: Knows how bad answers usually are.
            series: What hallucination is called in the sums.
        """
        self._policy, self._store, self._tick = policy, store, tick
        self._root = series
        self._sources: dict[str, Source] = {}
        self._answers = 0
        self._blocks: dict[int, dict[str, Rows]] = {}
        """By the time when they begin: of each series the common rates of all its answers, and by
        group weight and bad weight of its verdicts."""
        self._closed_s = -math.inf
        """Blocks that began until then are closed."""

    def add(self, answer: Answer) -> None:
        """Take in one completed answer."""
        shown = [name_of(each, self._policy) for each in answer.interaction.chunks]
        self._count(answer, shown)
        decision = answer.completed.decision or CERTAIN
        t = int(answer.at_s // MEAN_S) * MEAN_S
        if decision.inclusion_probability <= 0 or t <= self._closed_s:
            return
        cells = {ALL: [decision.rate]}
        if (verdict := answer.hallucination) is not None:
            weight = min(MAX_WEIGHT, decision.importance_weight) * verdict.scored
            group = group_of(answer.interaction.session_id or answer.interaction.id)
            cells[f"{group}"] = [weight, weight * verdict.value]
        block = self._blocks.setdefault(t, {})
        for each in {self._root, *(f"{self._root}|{SOURCE}={n}" for n in shown[:MAX_OF_ANSWER])}:
            if each in block or len(block) < MAX_COUNTED:
                merge(block.setdefault(each, {}), cells)

    # --- evidence -------------------------------------------------------------------------------

    def tick(self) -> None:
        """Add up the log gains of the blocks whose verdicts are all in."""
        self._closed_s = self._store.now() - MEAN_S - WATERMARK_S
        for t in sorted(t for t in self._blocks if t <= self._closed_s):
            gains = self._gains(t, self._blocks[t])  # while the store is away the block is kept
            del self._blocks[t]
            self._store.add({f"c{t}": gains})

    def ahead(self, since_s: float) -> Rows:
        """Return the log gains of the blocks that are not closed, from a moment on."""
        gains: Rows = {}
        for t, block in self._blocks.items():
            if t + MEAN_S > since_s:
                merge(gains, self._gains(t, block))
        return gains

    def _gains(self, t: int, block: Mapping[str, Rows]) -> Rows:
        wanted = nlargest(MAX_COMPARED + 1, block, key=lambda series: block[series][ALL])
        gains = compare_block({series: block[series] for series in wanted}, self._tick.usual(t))
        del gains[self._root]  # the tick has counted that
        return gains

    # --- the table ------------------------------------------------------------------------------

    def _count(self, answer: Answer, shown: Sequence[str]) -> None:
        interaction = answer.interaction
        as_shown = {id(chunk) for chunk in interaction.chunks}  # most are shown as they are
        retrieved = {
            name_of(chunk, self._policy)
            for retrieval in interaction.retrievals
            for chunk in retrieval.chunks
            if id(chunk) not in as_shown
        }
        assessment = answer.report.assessment
        supporting: set[str] = set()
        contradicting: set[str] = set()
        for sentence in () if assessment is None else assessment.sentences or ():
            found = [shown[at] for at in sentence.chunks if at < len(shown)]
            if sentence.verdict is Verdict.SUPPORTED:
                supporting.update(found)
            elif sentence.verdict is Verdict.CONTRADICTED:
                contradicting.update(found[:1])
        for name in retrieved.union(shown):
            source = self._sources.get(name)
            if source is None:
                source = self._sources[name] = Source(document=name)
            source.retrieved += 1
            source.shown += name in shown
            source.rests_on += name in supporting
            source.contradicted += name in contradicting
            source.last_s = max(source.last_s, answer.at_s)
        self._answers += 1
        if len(self._sources) > 2 * CAPACITY:
            known = self._sources.values()
            kept = nlargest(CAPACITY // 2, known, key=attrgetter("last_s"))
            kept += nlargest(CAPACITY // 2, known, key=attrgetter("contradicted"))
            self._sources = {each.document: each for each in kept}

    def views(self) -> Mapping[str, Any]:
        """Return the documents that contradict most answers, ready for JSON."""
        if not self._answers:
            return {}
        order = attrgetter("contradicted", "shown")
        listed = nlargest(MAX_LISTED, self._sources.values(), key=order)
        return {
            "documents": {
                "answers": self._answers,
                "kept": len(self._sources),
                "listed": [asdict(each) for each in listed],
            }
        }
