"""Counts, per document, what its answers came to, and gathers evidence that it makes them worse."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from heapq import nlargest
from operator import attrgetter
from typing import Any, Final

from ragmonitor.export.content import ContentPolicy
from ragmonitor.records import Chunk, Interaction, Report, Verdict
from ragmonitor.stats.comparison import compare_block
from ragmonitor.stats.signals import HALLUCINATION
from ragmonitor.stats.sums import ALL, NOTHING, Answer, Outcome
from ragmonitor.stats.tick import WATERMARK_S
from ragmonitor.store import BET_S, HOUR_S, MEAN_S, Increments, Rows, merge

CAPACITY: Final = 400
"""Documents that are kept: half of them the newest, half the most often contradicted. Up to twice
as many are between two trims."""
MAX_LISTED: Final = 40
MAX_NAME: Final = 200
MAX_OF_ANSWER: Final = 8
"""Documents of one answer, as the model saw them."""
MAX_DRAWN: Final = 1_000
"""Verdicts of one block; what is drawn later in it is not compared."""
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
    data = (source or chunk.text).encode("utf-8", "replace")
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


@dataclass(slots=True)
class _Drawn:
    """An answer whose verdict counts, with the weight of the verdict once it is there."""

    bucket: int
    documents: frozenset[str]
    group: str
    weight: float = 0.0
    bad: float = 0.0


@dataclass(slots=True)
class _Block:
    """What five minutes of answers are compared by."""

    rates: dict[int, dict[str, float]] = field(default_factory=dict)
    """Common rates summed over the answers of each document, by bucket; `""`: over all."""
    drawn: dict[str, _Drawn] = field(default_factory=dict)
    """By id of the answer."""

    def cells(self, since_s: float) -> dict[str, Rows]:
        """Return the bets on hallucination from the bucket of a moment on, by series and group."""
        rates: dict[str, float] = {}
        for bucket, known in self.rates.items():
            if bucket + BET_S > since_s:
                for name, rate in known.items():
                    rates[name] = rates.get(name, 0.0) + rate
        wanted = nlargest(MAX_COMPARED + 1, rates, key=rates.__getitem__)
        cells = {_series(name): {ALL: [rates[name], 0.0, 0.0, 0.0]} for name in wanted}
        for each in self.drawn.values():
            if each.weight and each.bucket + BET_S > since_s:
                bet = {each.group: [each.weight, each.bad, 0.0, 0.0]}
                for series in ("", *each.documents):
                    if _series(series) in cells:
                        merge(cells[_series(series)], bet)
        return cells


def _series(document: str) -> str:
    return f"{HALLUCINATION}|{SOURCE}={document}" if document else HALLUCINATION


class Documents:
    """A bounded table of documents, and evidence like that of slices, without series of their own.

    Within blocks of five minutes the answers that were shown a document are compared with the
    others (`stats.comparison`). The log gains go to the store, so that processes add theirs up.
    Counts are of this process, and forgotten with it. Used from one thread.
    """

    def __init__(self, policy: ContentPolicy, *, now: Callable[[], float]) -> None:
        """Begin without a document.

        Args:
            policy: Says what a document may be called.
            now: Seconds since the epoch, by the store's clock.
        """
        self._policy = policy
        self._now = now
        self.clear()

    def clear(self) -> None:
        """Forget every document."""
        self._sources: dict[str, Source] = {}
        self._answers = 0
        self._blocks: dict[int, _Block] = {}
        self._past: dict[int, list[float]] = {}
        """Weight and bad weight of the blocks of the last hour."""

    # --- evidence -------------------------------------------------------------------------------

    def note(self, answer: Answer, interaction: Interaction) -> None:
        """Take in an answer before its verdict."""
        expected = answer.expected.get(HALLUCINATION)
        bucket = int(answer.at_s // BET_S) * BET_S
        block = bucket // MEAN_S * MEAN_S
        is_closed = self._now() >= block + MEAN_S + WATERMARK_S
        if expected is None or answer.chance <= 0 or is_closed:
            return
        known = self._blocks.setdefault(block, _Block())
        if len(known.drawn) >= MAX_DRAWN:
            return
        documents = frozenset(
            name_of(each, self._policy) for each in interaction.chunks[:MAX_OF_ANSWER]
        )
        rates = known.rates.setdefault(bucket, {})
        for name in ("", *documents):
            rates[name] = rates.get(name, 0.0) + answer.rate * (expected.scored or 1.0)
        if answer.is_drawn:
            known.drawn[answer.id] = _Drawn(bucket, documents, str(answer.group))

    def settle(self, answer: Answer, verdict: Outcome | None) -> None:
        """Take in the verdict on hallucination; None: it failed."""
        block = self._blocks.get(int(answer.at_s // MEAN_S) * MEAN_S)
        drawn = None if block is None else block.drawn.get(answer.id)
        if drawn is not None:
            applies, value = verdict or NOTHING
            drawn.weight = answer.importance_weight * applies
            drawn.bad = drawn.weight * value

    def take(self) -> Increments:
        """Return the log gains of the blocks whose verdicts are all in."""
        gains: Increments = {}
        closed = [t for t in self._blocks if t + MEAN_S + WATERMARK_S <= self._now()]
        for t in sorted(closed):
            found = compare_block(self._blocks.pop(t).cells(t), self._usual(t))
            if HALLUCINATION in found:
                self._past[t] = found.pop(HALLUCINATION)
                gains[f"c{t}"] = found
        return gains

    def ahead(self, since_s: float) -> Rows:
        """Return the log gains of the blocks that are not closed, from a moment on."""
        gains: Rows = {}
        for t, block in self._blocks.items():
            if t + MEAN_S > since_s:
                found = compare_block(block.cells(since_s), self._usual(t))
                found.pop(HALLUCINATION, None)
                merge(gains, found)
        return gains

    def _usual(self, block: int) -> dict[str, float]:
        self._past = {t: row for t, row in self._past.items() if t >= block - HOUR_S}
        weight = sum(row[0] for row in self._past.values())
        bad = sum(row[1] for row in self._past.values())
        return {HALLUCINATION: bad / weight} if weight > 0 else {}

    # --- the table ------------------------------------------------------------------------------

    def count(self, interaction: Interaction, report: Report) -> None:
        """Count an answer, by the report of the judge that quality is measured by."""
        shown = [name_of(each, self._policy) for each in interaction.chunks]
        retrieved = {
            name_of(chunk, self._policy)
            for retrieval in interaction.retrievals
            for chunk in retrieval.chunks
        }
        supporting, contradicting = _verdicts(report, shown)
        for name in retrieved.union(shown):
            source = self._sources.get(name)
            if source is None:
                source = self._sources[name] = Source(document=name)
            source.retrieved += 1
            source.shown += name in shown
            source.rests_on += name in supporting
            source.contradicted += name in contradicting
            source.last_s = max(source.last_s, interaction.ended_ns / 1e9)
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


def _verdicts(report: Report, shown: Sequence[str]) -> tuple[set[str], set[str]]:
    """Return the documents that support a sentence of an answer, and those that contradict one."""
    supporting: set[str] = set()
    contradicting: set[str] = set()
    assessment = report.assessment
    for sentence in () if assessment is None else assessment.sentences or ():
        if sentence.verdict is Verdict.SUPPORTED:
            supporting.update(shown[at] for at in sentence.chunks if at < len(shown))
        elif sentence.verdict is Verdict.CONTRADICTED:
            contradicting.update(shown[at] for at in sentence.chunks[:1] if at < len(shown))
    return supporting, contradicting
