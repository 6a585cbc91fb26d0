"""One answer, assessed against its chunks without a model."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from ragmonitor.judges.builtin import relevance, risk
from ragmonitor.judges.builtin.checks import FailedCheck, failed_checks
from ragmonitor.judges.builtin.field_checks import with_fields
from ragmonitor.judges.builtin.framing import framing, outside, without
from ragmonitor.judges.builtin.overlap import (
    NO_OVERLAP,
    Overlap,
    closest,
    everywhere_from,
    fewest_chunks,
    overlap_of,
)
from ragmonitor.judges.builtin.passage_index import PassageIndex, Tick, unlimited
from ragmonitor.judges.builtin.simplified import simplified
from ragmonitor.judges.builtin.speech_acts import SpeechAct, declines, may_be_claim, speech_act_of
from ragmonitor.judges.builtin.text_terms import Term, terms
from ragmonitor.judges.sentences import Sentence, language, marker_end, split
from ragmonitor.records import Assessment, JudgeIdentity, SentenceVerdict, Severity, Verdict

IDENTITY: Final = JudgeIdentity(name="builtin", version="8", kind="CODE")

SUPPORTED_FROM: Final = 0.55
"""Mean of support and closeness from which a sentence counts as supported."""
MINOR_FROM: Final = 0.5
"""Support from which an absent sentence is a minor finding where no check of a detail fails."""
CONTRADICTED_FROM: Final = 0.6
"""Support of all but the conflicting words from which a conflict counts as a contradiction."""
READABLE_FROM: Final = 0.5
"""Support of any sentence from which a text in another language is judged all the same."""
STATED_FROM: Final = 0.9
"""Support from which a statement of absence is the chunks' own, and no refusal."""
MIN_STATED_WEIGHT: Final = 1.2
"""Weight that such a statement must have."""
_CHECKED: Final = (SpeechAct.CLAIM, SpeechAct.QUESTION)
"""The acts that may assert or presuppose something. In no set: the hash of an act is slow."""


@dataclass(frozen=True, slots=True)
class ParsedSentence:
    """The content of a sentence, whatever the chunks hold."""

    text: str
    act: SpeechAct
    content: Sequence[Term]
    """Its terms, those of a list marker and of its framing left out."""
    bare: str
    """It without its framing."""


@dataclass(slots=True)
class JudgedSentence:
    """A sentence, compared with the chunks."""

    text: str
    act: SpeechAct
    """A refusal that the chunks themselves state is a claim."""
    overlap: Overlap
    failed: Sequence[FailedCheck]
    is_copy: bool
    """It stands in a chunk word for word; no check applies."""
    chunks: tuple[int, ...] = ()
    """Of a claim, the fewest chunks that explain its support, best first (greedily)."""

    @property
    def is_claim(self) -> bool:
        """Whether it asserts something at all."""
        return self.act is SpeechAct.CLAIM and bool(self.overlap.weight)

    def severity(self, verdict: Verdict, reasons: Sequence[str]) -> Severity | None:
        """Return how bad its verdict is; None: nothing is wrong with it.

        A sentence half of which stands in the chunks, with every number, unit, date, name and
        negation, says too much. Any other is invented, or wrong.
        """
        if verdict is Verdict.SUPPORTED:
            return None
        is_minor = set(reasons) == {"content"} and self.overlap.support >= MINOR_FROM
        return Severity.MINOR if is_minor else Severity.MAJOR

    @property
    def is_supported(self) -> bool:
        """Whether it is a claim that the chunks support."""
        return self.is_claim and self.verdict()[0] is Verdict.SUPPORTED

    def verdict(self) -> tuple[Verdict, tuple[str, ...]]:
        """Return the verdict on a claim, and the checks that it rests on."""
        if self.is_copy:
            return Verdict.SUPPORTED, ()
        overlap = self.overlap
        named = (each for check in self.failed for each in (check.reason, check.evidence) if each)
        reasons = tuple(dict.fromkeys(named))
        if any(check.reason == "field" and check.conflicts for check in self.failed):
            return Verdict.CONTRADICTED, reasons
        conflicting = {check.term for check in self.failed if check.conflicts}
        if conflicting:
            covered = {at for term in conflicting for at in range(term.start, term.end)}
            lost = sum(
                term.weight
                for term in overlap.missing
                if term.start in covered or term.end - 1 in covered
            )
            rest = overlap.weight - lost
            if rest > 0 and overlap.support * overlap.weight >= CONTRADICTED_FROM * rest:
                return Verdict.CONTRADICTED, reasons
        if (overlap.support + overlap.closeness) / 2 < SUPPORTED_FROM:
            return Verdict.ABSENT, ("content", *reasons)
        return (Verdict.ABSENT if reasons else Verdict.SUPPORTED), reasons

    def risk(self) -> float:
        """Return the risk that something in it is hallucinated, 0 to 1."""
        if self.is_copy:
            return 0.0
        share = risk.QUESTION_SHARE if self.act is SpeechAct.QUESTION else 1.0
        return share * risk.sentence_risk(self.overlap, [check.reason for check in self.failed])


def assess(query: str, chunks: Sequence[str], answer: str, *, tick: Tick = unlimited) -> Assessment:
    """Return which parts of an answer the chunks support, and how far it and they fit the question.

    It is deterministic, accepts any text and is linear in the texts' lengths. Traditional Chinese
    is read as simplified Chinese.

    A sentence's `support` is the share of its content, weighted by rarity, that stands in the
    chunks. It is `supported` if the mean of that share and of the share that stands *close
    together* reaches `SUPPORTED_FROM` and no check of numbers, units, dates, negations and names
    fails; `contradicted` if the rest of it is supported and the chunks say another number, unit,
    date or name or the opposite in its place; `absent` otherwise. Its `severity` is `minor` where
    half of it stands in the chunks and no check fails, else `major`.

    `risk` is, over the sentences from the worst to the best, the mean of their risks with
    weights 1, 1/2, 1/4, ...; a sentence's risk is 1 - (support + closeness) / 2 * product over
    the failed checks (1 - penalty). `answer_relevancy` and `chunk_relevance` say "off topic" and
    no more than that. Where all chunks are in another language than the answer there is
    nothing to compare: `sentences` and `risk` are then None.

    Args:
        query: The question; if it is empty, relevancy and relevance are None.
        chunks: The retrieved texts; the order makes no difference but to the numbering.
        answer: The answer to judge.
        tick: Called before each chunk and each sentence; what it raises ends the reading.

    Sources:
        Weighted overlap as support: Lin, "ROUGE" (2004), with inverse document frequencies as in
        Sparck Jones, "A statistical interpretation of term specificity" (1972). Sentences
        instead of generated claims, supported / all: Es et al., "RAGAS" (2023), arXiv:2309.15217,
        section 3.
    """
    chunks, query, read_as = [*map(simplified, chunks)], simplified(query), simplified(answer)
    index = PassageIndex(chunks, tick)
    sentences = split(read_as)
    parsed = parse_sentences([sentence.text for sentence in sentences], tick)
    question = terms(query)
    everywhere_at = term_everywhere_at(parsed.values(), question)
    index.find([*question, *(term for each in parsed.values() for term in each.content)])
    judged: dict[str, JudgedSentence] = {}
    for text, sentence in parsed.items():
        tick()
        judged[text] = judge_sentence(sentence, index, everywhere_at)
    tick()
    evasive = declines(list(judged), [sentence.act for sentence in judged.values()])
    asked = overlap_of(question, index, everywhere_at)
    overlaps = [sentence.overlap for sentence in judged.values()]
    verdicts = relevancy = answer_risk = None
    if evasive or not _is_foreign(answer, chunks, overlaps):
        verdicts = tuple([_verdict(each, judged[each.text], answer) for each in sentences])
        checked = [judged[each.text] for each in sentences if judged[each.text].act in _CHECKED]
        answer_risk = risk.REFUSAL if evasive else risk.answer_risk([s.risk() for s in checked])
        if sentences:
            content = [term for each in sentences for term in parsed[each.text].content]
            relevancy = relevance.answer_relevancy(query, question, content, asked, overlaps)
    tick()
    return Assessment(
        judge=IDENTITY,
        language=language(answer),
        sentences=verdicts,
        answer_relevancy=relevancy,
        evasive=evasive,
        chunk_relevance=relevance.chunk_relevance(question, index),
        risk=answer_risk,
    )


def parse_sentences(texts: Iterable[str], tick: Tick) -> dict[str, ParsedSentence]:
    """Return the content of each different sentence, by its text, in order."""
    parsed: dict[str, ParsedSentence] = {}
    for text in texts:
        if text not in parsed:
            tick()
            parsed[text] = _parse(text)
    return parsed


def _parse(text: str) -> ParsedSentence:
    content = all_terms = terms(text)
    marker = marker_end(text)
    if marker:
        content = [term for term in all_terms if term.start >= marker]
    act, bare = speech_act_of(text, all_terms), text
    spans = framing(text)
    if spans:
        content = outside(content, spans)
        bare = without(text, spans)
        if act is SpeechAct.CLAIM:
            act = speech_act_of(bare, terms(bare)) if content else SpeechAct.HEADING
    return ParsedSentence(text, act, content, bare)


def term_everywhere_at(sentences: Iterable[ParsedSentence], question: Sequence[Term] = ()) -> int:
    """Return `everywhere_from` of the terms of some sentences and a question."""
    return everywhere_from(len(question) + sum([len(each.content) for each in sentences]))


def judge_sentence(
    sentence: ParsedSentence, index: PassageIndex, everywhere_at: int
) -> JudgedSentence:
    """Return a sentence compared with the indexed texts."""
    text, act, content = sentence.text, sentence.act, sentence.content
    overlap = overlap_of(content, index, everywhere_at) if content else NO_OVERLAP
    if act is SpeechAct.REFUSAL and _is_stated(text, overlap):
        act = SpeechAct.CLAIM
    is_copy = act in _CHECKED and index.holds(sentence.bare)
    failed: Sequence[FailedCheck] = ()
    if act in _CHECKED and not is_copy:
        if overlap.weight:
            overlap.window = closest(overlap, index)
        failed = failed_checks(text, content, overlap, index)
        if act is SpeechAct.CLAIM and content:
            overlap, failed = with_fields(text, content, overlap, failed, index)
    judged = JudgedSentence(text, act, overlap, failed, is_copy)
    if judged.is_claim:
        judged.chunks = fewest_chunks(overlap, index)
    return judged


def _is_stated(text: str, overlap: Overlap) -> bool:
    """Return whether the chunks themselves say that something is not known or not there."""
    if overlap.weight < MIN_STATED_WEIGHT or overlap.support < STATED_FROM:
        return False
    return may_be_claim(text)


def _is_foreign(answer: str, chunks: Sequence[str], overlaps: Sequence[Overlap]) -> bool:
    """Return whether the chunks are all in another language: words then say nothing."""
    if not any(overlap.weight for overlap in overlaps):
        return False
    if any(overlap.support >= READABLE_FROM for overlap in overlaps):
        return False
    languages = {language(chunk) for chunk in chunks if not chunk.isspace() and chunk}
    return bool(languages) and language(answer) not in languages


def _verdict(sentence: Sentence, judged: JudgedSentence, answer: str) -> SentenceVerdict:
    start, end = sentence.start, sentence.end
    text = answer[start:end]  # as it was written
    if not judged.is_claim:
        return SentenceVerdict(text=text, start=start, end=end, verdict=Verdict.NO_CLAIM)
    verdict, reasons = judged.verdict()
    missing = judged.overlap.missing
    return SentenceVerdict(
        text=text,
        start=start,
        end=end,
        verdict=verdict,
        chunks=judged.chunks,
        words=_surfaces(text, missing, [check.term for check in judged.failed]),
        support=judged.overlap.support,
        reasons=reasons,
        severity=judged.severity(verdict, reasons),
    )


def _surfaces(text: str, missing: Sequence[Term], failed: Sequence[Term]) -> tuple[str, ...]:
    """Return terms as they stand in the sentence, in order; overlapping pairs as one piece.

    Of a Chinese name that failed, it alone is shown, without the pairs that reach into it.
    """
    if not missing and not failed:
        return ()
    named = {at for term in failed if term.kind == "name" for at in range(term.start, term.end)}
    rest = [term for term in missing if term.start not in named and term.end - 1 not in named]
    pieces: list[str] = []
    begun = reached = -1
    for start, end in sorted({term[:2] for term in [*rest, *failed]}):
        if start < reached:
            reached = max(end, reached)
            continue
        if begun >= 0:
            pieces.append(text[begun:reached])
        begun, reached = start, end
    if begun >= 0:
        pieces.append(text[begun:reached])
    return tuple(dict.fromkeys(pieces))
