"""Finds the documents that go with bad answers: misleading, noise, missing, conflicting."""

from __future__ import annotations

import math
import time
from bisect import bisect_right
from collections import deque
from collections.abc import Collection, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from operator import is_
from typing import Any, Final

from ragmonitor import metrics
from ragmonitor.causes.candidates import LISTED_FROM, CandidateCause
from ragmonitor.causes.conflicting_chunks import ConflictingChunks, Read
from ragmonitor.causes.decomposition import MIN_BEFORE
from ragmonitor.causes.discoveries import discovered
from ragmonitor.causes.document_table import (
    CAPACITY,
    SLOT_S,
    Document,
    DocumentTable,
    add_verdicts,
    moments_from,
)
from ragmonitor.causes.missing_questions import MissingQuestions
from ragmonitor.causes.paired_evidence import MAX_IMPORTANCE_WEIGHT
from ragmonitor.causes.retrieval_hops import RetrievalHops
from ragmonitor.estimation import summarise
from ragmonitor.estimation.interval import Z95
from ragmonitor.estimation.parts import Answer, Means, Observation, Part
from ragmonitor.estimation.signals import HALLUCINATION
from ragmonitor.evaluators.diagnosis import RELEVANT_FROM
from ragmonitor.export.content import ContentPolicy
from ragmonitor.export.service_state import estimate_record
from ragmonitor.protocols import Clock
from ragmonitor.records import Assessment, Chunk, Example, GaugeValue, Verdict

EXPLAINED_SIGNALS: Final = (HALLUCINATION, "faithfulness")
"""Alarms that rest on the verdicts that are counted here."""
MIN_JUDGED: Final = 5
"""Judged answers of a document below which nothing is claimed of it."""
MIN_NOISE: Final = 10
"""Ratings of a document, all of them of no relevance, from which it is called noise."""
MAX_LISTED: Final = 20
MAX_OFTEN: Final = 40
"""Documents with figures of their own on the page, whatever is found of them."""
MAX_CANDIDATES: Final = 10
MAX_EXAMPLES: Final = 10
RECORD_EVERY_S: Final = 6.0
_MAX_BAD: Final = 40
"""Bad answers that are kept as examples, over all documents."""
_SUPPORTED: Final = Verdict.SUPPORTED
"""An attribute of an enumeration takes as long to read as ten of this."""
_CONTRADICTED: Final = Verdict.CONTRADICTED


_Known = tuple[float, float, float, bool, bool, Assessment | None]
"""The verdict of the judge of quality on an answer. The common sampling rate, 0 if it could not be
drawn; rate / inclusion probability over its maximum, up to 1, and 1 / inclusion probability, both 0
without a verdict; whether the hallucination rate applies to it; whether it is bad; the rest. A
plain tuple: one is made of every answer."""
_UNKNOWN: Final[_Known] = (0.0, 0.0, 0.0, False, False, None)


class Documents(Part):
    """Counts, per document, what its answers came to; finds the causes of kind `document`.

    Verdicts and ratings are those of the judge of quality: the sampled one if there is one, each
    answer for 1 / inclusion probability, else the built-in one. Used from one thread, as every
    part.
    """

    def __init__(
        self,
        *,
        is_sampled: bool,
        read: Read,
        policy: ContentPolicy,
        capacity: int = CAPACITY,
        clock: Clock = time.monotonic,
        now: Clock = time.time,
    ) -> None:
        """Begin without an answer.

        Args:
            is_sampled: A judge scores a sample; without one the built-in judge scores every answer.
            read: The built-in judge, for single sentences.
            policy: Which texts may be kept.
            capacity: Documents that are kept for certain.
            clock: For how often the lists are drawn up.
            now: Seconds since the epoch.
        """
        self._is_sampled = is_sampled
        self._read = read
        self._policy = policy
        self._capacity = capacity
        self._clock = clock
        self._now = now
        self._begin()

    def _begin(self) -> None:
        self._table = DocumentTable(self._policy, capacity=self._capacity)
        self._answers = self._judged = 0
        self._missing = MissingQuestions(self._policy)
        self._conflicts = ConflictingChunks(self._read, self._policy)
        self._hops = RetrievalHops()
        self._bad: deque[tuple[frozenset[Document], Example]] = deque(maxlen=_MAX_BAD)
        """Bad answers with the documents that were shown for them."""
        self._record: dict[str, Any] = {}
        self._record_at_s = -math.inf

    # --- taking in ------------------------------------------------------------------------------

    def add(self, answer: Answer) -> Sequence[Observation]:
        """Take in one answer."""
        self._answers += 1
        at_s, interaction = answer.at_s, answer.interaction
        rate, stake, weight, scored, is_bad, assessment = self._known(answer)
        chunks, table = interaction.chunks, self._table
        documents = table.of(chunks, at_s)
        shown = set(documents)
        relevant: set[Document] = set()
        if assessment is not None:
            ratings = assessment.chunk_relevance or ()
            for document, rating in zip(documents, ratings):  # noqa: B905 - fewer ratings
                if rating >= RELEVANT_FROM and document not in relevant:
                    relevant.add(document)
                    document.relevant += 1
            _rested(assessment, documents, weight)
            self._follow_up(answer, assessment, documents, relevant, weight)
            if is_bad and self._policy.content == "all":
                self._keep_example(answer, assessment, shown)
        for at, retrieval in enumerate(interaction.retrievals, 1):
            found: AbstractSet[Document] = shown
            # Mostly what was retrieved is what was shown, and within a process the same objects.
            if not _are_same(retrieval.chunks, chunks):
                found = self._found(retrieval.chunks, shown, at_s)
            if weight:
                self._hops.of(retrieval.name, at).add(found, shown, relevant, weight, bad=is_bad)
        paired = table.others.add(rate, stake, 1.0 if is_bad else 0.0, at_s, interaction.session_id)
        signed = -weight if is_bad else weight if scored else 0.0
        is_rated = bool(assessment and assessment.chunk_relevance)
        table.add(shown, (paired, at_s, weight, signed, is_rated))
        if weight:
            self._judged += 1
        return ()

    def _found(
        self, chunks: Sequence[Chunk], shown: AbstractSet[Document], at_s: float
    ) -> AbstractSet[Document]:
        """Return the documents that were retrieved, and count those that were not shown."""
        found = set(self._table.of(chunks, at_s))
        for document in found - shown:
            document.unshown += 1
        return found

    def _known(self, answer: Answer) -> _Known:
        completed = answer.completed
        if not self._is_sampled:
            found, report = answer.builtin[0][1], completed.builtin
            rate = stake = weight = 1.0
        else:
            decision, report = completed.decision, completed.judged or completed.builtin
            if decision is None or decision.inclusion_probability <= 0:
                return _UNKNOWN
            rate = decision.rate
            if answer.judged is None:
                return rate, 0.0, 0.0, False, False, None
            found, weight = answer.judged[0][1], answer.weight
            stake = min(1.0, decision.importance_weight / MAX_IMPORTANCE_WEIGHT)
        if found is None:
            return rate, 0.0, 0.0, False, False, None
        bad = found.scored and found.value > 0.0
        return rate, stake, weight, found.scored, bad, report.assessment

    def _follow_up(
        self,
        answer: Answer,
        assessment: Assessment,
        documents: Sequence[Document],
        relevant: AbstractSet[Document],
        weight: float,
    ) -> None:
        """Hand on what is looked at later: questions without an answer, chunks that disagree."""
        interaction = answer.interaction
        if relevant:
            self._missing.see(interaction.query)
            if self._conflicts.has_room and len(set(documents)) > 1:
                names = [document.name for document in documents]
                self._conflicts.add(answer.completed, assessment, names, answer.at_s)
        elif interaction.query.strip() and (
            assessment.chunk_relevance or (interaction.retrievals and not documents)
        ):
            self._missing.add(answer.completed, answer.at_s, weight)

    def _keep_example(
        self, answer: Answer, assessment: Assessment, documents: Collection[Document]
    ) -> None:
        claims = assessment.claims or ()
        example = Example(
            interaction=answer.interaction,
            assessment=assessment,
            badness=len(assessment.counted_findings) / max(1, len(claims)),
            at_s=answer.at_s,
            target=answer.completed.target,
        )
        self._bad.append((frozenset(documents), example))

    # --- now and then ---------------------------------------------------------------------------

    def tick(self) -> Sequence[Observation]:
        """Compare questions and chunks that wait for it: a few each time."""
        self._compare()
        return ()

    def _compare(self) -> None:
        self._missing.tick()
        self._conflicts.tick()

    def gauges(self, means: Means) -> Iterator[GaugeValue]:  # noqa: ARG002 - of the protocol
        """Return how many documents are kept, and how many are found to be misleading."""
        lists = self.views().get("documents", {})
        count = sum(each["is_discovery"] for each in lists.get("misleading", ()))
        yield GaugeValue(name=metrics.DOCUMENTS_TRACKED, value=len(self._table))
        yield GaugeValue(name=metrics.MISLEADING_DOCUMENTS, value=count)

    def clear(self) -> None:
        """Forget what belongs to the parent of a forked process."""
        self._begin()

    # --- what it comes to -----------------------------------------------------------------------

    def views(self) -> Mapping[str, Any]:
        """Return the lists, ready for JSON; drawn up anew every few seconds."""
        if self._answers and self._clock() - self._record_at_s >= RECORD_EVERY_S:
            self._record_at_s = self._clock()
            self._record = self._drawn_up()
        return {"documents": self._record} if self._record else {}

    def _drawn_up(self) -> dict[str, Any]:
        now_s = self._now()
        ranked, count = self._ranked(now_s)
        overall = _Overall(self._table.slots)
        misleading = []
        for place, (e_value, document) in enumerate(ranked[: 2 * MAX_LISTED]):
            if e_value <= 1:
                break
            entry = self._entry(document, overall)
            with_it, without = entry["with"], entry["without"]
            if with_it and without and with_it["mean"] > without["mean"]:
                entry |= {"e_value": round(e_value, 3), "is_discovery": place < count}
                misleading.append(entry)
        often = sorted(self._table, key=lambda each: -each.shown)[:MAX_OFTEN]
        noise = [each for each in self._table if each.rated >= MIN_NOISE and not each.relevant]
        noise.sort(key=lambda each: -each.retrieved)
        return {
            "at_s": round(now_s, 1),
            "answers": self._answers,
            "judged": self._judged,
            "kept": len(self._table),
            "tested": len(ranked),
            "forgotten": self._table.forgotten,
            "capacity": self._capacity,
            "misleading": misleading[:MAX_LISTED],
            "often": [self._entry(each, overall) for each in often],
            "noise": [self._entry(each, overall) for each in noise[:MAX_LISTED]],
            "missing": self._missing.record(MAX_LISTED),
            "missing_questions": round(self._missing.questions, 1),
            "missing_judged": self._missing.judged,
            "conflicting": self._conflicts.record(MAX_LISTED),
            "retrievals": self._hops.record(),
        }

    def _ranked(self, now_s: float) -> tuple[list[tuple[float, Document]], int]:
        """Return the documents by their evidence, and how many of the first are named.

        Which are tested is decided by how often they were judged, whatever the verdicts are. Each
        weighs as much as it was shown for: what is shown often can explain more of a rise.
        """
        tested = [
            (each.evidence.e_value(now_s), each)
            for each in self._table
            if each.judged >= MIN_JUDGED
        ]
        shown = sum(each.shown for _, each in tested) or 1
        weights = {id(each): each.shown * len(tested) / shown for _, each in tested}
        tested.sort(key=lambda found: -found[0] * weights[id(found[1])])
        return tested, len(
            discovered(
                [e_value for e_value, _ in tested],
                [weights[id(each)] for _, each in tested],
                len(tested),
            )
        )

    def _entry(self, document: Document, overall: _Overall) -> dict[str, Any]:
        verdicts = list(document.verdicts())
        # From a slot of which all verdicts are kept: else its own would count among the others.
        since_s = min((at_s for at_s, _ in verdicts), default=math.inf)
        if math.isfinite(document.complete_from_s):
            since_s = (since_s // SLOT_S + 1) * SLOT_S
        sums = [0.0] * 6
        add_verdicts(sums, [signed for at_s, signed in verdicts if at_s >= since_s])
        with_it = summarise(moments_from(sums))
        rest = [whole - part for whole, part in zip(overall.since(since_s), sums, strict=True)]
        without = summarise(moments_from(rest)) if rest[0] >= 1 else None
        of_judged = document.weight or 1.0
        return {
            "document": document.name,
            "id": document.id,
            "retrieved": document.retrieved,
            "shown": document.shown,
            "rated": document.rated,
            "relevant": document.relevant,
            "judged": document.judged,
            "rests_on": document.rests_on,
            "rests_on_share": round(document.rests_on_weight / of_judged, 5),
            "contradicted": document.contradicted,
            "contradicted_share": round(document.contradicted_weight / of_judged, 5),
            "with": None if with_it is None else estimate_record(with_it),
            "without": None if without is None else estimate_record(without),
            "last_s": round(document.last_s, 3),
        }

    # --- causes ---------------------------------------------------------------------------------

    def candidates(self, signal: str, since_s: float) -> Sequence[CandidateCause]:
        """Return the documents whose answers are worse than the others; as in `CauseFinder`."""
        if signal not in EXPLAINED_SIGNALS:
            return ()
        ranked, count = self._ranked(self._now())
        overall = _Overall(self._table.slots)
        found = [
            self._candidate(document, e_value, place < count, since_s, overall)
            for place, (e_value, document) in enumerate(ranked[:MAX_CANDIDATES])
            if e_value >= LISTED_FROM
        ]
        return [each for each in found if each is not None]

    def _candidate(
        self,
        document: Document,
        e_value: float,
        is_discovery: bool,
        since_s: float,
        overall: _Overall,
    ) -> CandidateCause | None:
        now_sums, before_sums = [0.0] * 6, [0.0] * 6
        # Of one with many verdicts the newest are kept: they speak of the time that they span.
        from_s = max(since_s, document.complete_from_s)
        verdicts = list(document.verdicts())
        add_verdicts(now_sums, [signed for at_s, signed in verdicts if at_s >= since_s])
        add_verdicts(before_sums, [signed for at_s, signed in verdicts if at_s < since_s])
        now = summarise(moments_from(now_sums)) if now_sums[0] else None
        if now is None:
            return None
        before = summarise(moments_from(before_sums)) if before_sums[0] else None
        whole, risen = overall.since(-math.inf), overall.since(since_s)
        all_before = [a - b for a, b in zip(whole, risen, strict=True)]
        share = explained(now_sums, before_sums, overall.since(from_s), all_before)
        return CandidateCause(
            kind="document",
            name=document.name,
            signal=HALLUCINATION,
            now=now,
            before=before,
            explained=share[0] if share else None,
            explained_lower=share[1] if share else None,
            explained_upper=share[2] if share else None,
            e_value=e_value,
            is_discovery=is_discovery,
            is_compared=before_sums[0] >= MIN_BEFORE,
            detail=_detail(document),
            detail_zh=_detail_zh(document),
            examples=self._examples(document, since_s),
        )

    def _examples(self, document: Document, since_s: float) -> tuple[Example, ...]:
        bad = [
            example
            for documents, example in self._bad
            if document in documents and example.at_s >= since_s
        ]
        bad.sort(key=lambda each: (-each.badness, -each.at_s))
        return tuple(bad[:MAX_EXAMPLES])


def _are_same(one: Sequence[Chunk], other: Sequence[Chunk]) -> bool:
    """Return whether both are the same objects in the same order."""
    return len(one) == len(other) and all(map(is_, one, other))


def _rested(assessment: Assessment, documents: Sequence[Document], weight: float) -> None:
    """Count the documents that sentences rest on, and those that contradict them."""
    supporting: set[Document] = set()
    contradicting: set[Document] = set()
    count = len(documents)
    for sentence in assessment.sentences or ():
        if sentence.verdict is _SUPPORTED:
            for at in sentence.chunks:
                if at < count:
                    supporting.add(documents[at])
        elif sentence.verdict is _CONTRADICTED:
            for at in sentence.chunks[:1]:
                if at < count:
                    contradicting.add(documents[at])
    for document in supporting:
        document.rests_on += 1
        document.rests_on_weight += weight
    for document in contradicting:
        document.contradicted += 1
        document.contradicted_weight += weight


class _Overall:
    """The sums over all judged answers from any time on, added up once."""

    def __init__(self, slots: Collection[tuple[float, list[float]]]) -> None:
        self._starts = [start for start, _ in slots]
        sums = [0.0] * 6
        self._from_slot = [sums]
        for _, of_slot in reversed(list(slots)):
            sums = [a + b for a, b in zip(sums, of_slot, strict=True)]
            self._from_slot.append(sums)
        self._from_slot.reverse()

    def since(self, at_s: float) -> list[float]:
        """Return the sums from the slot in which the time lies."""
        return self._from_slot[bisect_right(self._starts, at_s - SLOT_S)]


def explained(
    now: Sequence[float],
    before: Sequence[float],
    all_now: Sequence[float],
    all_before: Sequence[float],
) -> tuple[float, float, float] | None:
    """Return the share of a rise that goes with some of the answers, with its 95 % interval.

    It is what the rise would be if only these answers had changed, over the rise: their share of
    the answers now, times the rise of their own rate. None: there was no rise.

    Args:
        now: Sums of these answers since the rise began, as `moments_from` reads them.
        before: The same, before it. Where there were none, their rate was that of all.
        all_now: Of all answers since.
        all_before: Of all answers before.

    Source:
        Saerndal, Swensson & Wretman, "Model Assisted Survey Sampling" (1992), section 5.5, for the
        variance of a ratio by linearisation.
    """
    if all_now[1] <= 0 or all_before[1] <= 0:
        return None
    earlier = all_before[4] / all_before[1]
    own_earlier = before[4] / before[1] if before[1] > 0 else earlier
    rise = all_now[4] / all_now[1] - earlier
    if rise <= 0:
        return None
    share = now[1] / all_now[1]
    value = share * (now[4] / now[1] - own_earlier) / rise if now[1] > 0 else 0.0

    def square(sums: Sequence[float], if_bad: float, if_good: float) -> float:
        return sums[5] * if_bad**2 + (sums[2] - sums[5]) * if_good**2

    rest = [max(0.0, a - b) for a, b in zip(all_now, now, strict=True)]
    variance = square(
        now, 1 - own_earlier - value * (1 - earlier), value * earlier - own_earlier
    ) + square(rest, -value * (1 - earlier), value * earlier)
    variance /= (all_now[1] * rise) ** 2
    for sums, mean, factor in (
        (before, own_earlier, share / rise),
        (all_before, earlier, value / rise),
    ):
        if sums[1] > 0:
            variance += factor**2 * square(sums, 1 - mean, -mean) / sums[1] ** 2
    half = Z95 * math.sqrt(variance)
    return value, value - half, value + half


def _detail(document: Document) -> str:
    told = f"{document.judged} scored answers were shown it; {document.rests_on} of them rest on it"
    if document.contradicted:
        told += f", and it contradicts {document.contradicted}"
    return told + "."


def _detail_zh(document: Document) -> str:
    told = f"使用该文档且已评分的回答共 {document.judged} 条，其中 {document.rests_on} 条以其为依据"
    return told + (f"，{document.contradicted} 条与其矛盾。" if document.contradicted else "。")
