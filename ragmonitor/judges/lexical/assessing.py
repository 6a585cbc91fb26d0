"""One answer, read against its chunks without a model."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from ragmonitor.judges.lexical import relevance, risk
from ragmonitor.judges.lexical.checks import Finding, failed_checks
from ragmonitor.judges.lexical.evidence import NOTHING, Evidence, everywhere_from, gather
from ragmonitor.judges.lexical.passages import Index, Tick, index, unhindered
from ragmonitor.judges.lexical.speech import Act, act_of, declines, may_be_claim
from ragmonitor.judges.lexical.words import Term, terms
from ragmonitor.judges.sentences import Sentence, language, marker_end, split
from ragmonitor.records import Assessment, JudgeIdentity, Reason, SentenceVerdict, Verdict

IDENTITY: Final = JudgeIdentity(name="builtin", version="2", kind="CODE")

SUPPORTED_FROM: Final = 0.55
"""Mean of support and closeness from which a sentence counts as supported."""
CONTRADICTED_FROM: Final = 0.6
"""Support of all but the conflicting words from which a conflict counts as a contradiction."""


@dataclass(frozen=True, slots=True)
class Said:
    """What a sentence says, whatever the chunks hold."""

    text: str
    act: Act
    content: Sequence[Term]
    """Its terms, those of a list marker left out."""


@dataclass(slots=True)
class _Read:
    """A sentence, read against the chunks."""

    said: Said
    act: Act
    """A refusal that the chunks themselves state is a claim."""
    evidence: Evidence
    findings: Sequence[Finding]
    is_copy: bool
    """It stands in a chunk word for word; no check applies."""


def assess(
    query: str, chunks: Sequence[str], answer: str, *, tick: Tick = unhindered
) -> Assessment:
    """Return what the chunks bear out of an answer, and how far it and they fit the question.

    Deterministic; any text is accepted; linear in the texts' lengths.

    A sentence's `support` is the share of its content, weighted by rarity, that stands in the
    chunks. It is `supported` if the mean of that share and of the share that stands *close
    together* reaches `SUPPORTED_FROM` and no check of numbers, units, dates, negations and names
    fails; `contradicted` if the rest of it is supported and the chunks say another number, unit,
    date or name or the opposite in its place; `absent` otherwise.

    `risk` is, over the sentences from the worst to the best, the mean of their risks with
    weights 1, 1/2, 1/4, ...; a sentence's risk is 1 - (support + closeness) / 2 * product over
    the failed checks (1 - penalty). `answer_relevancy` and `chunk_relevance` say "off topic" and
    no more than that. Where all chunks are in another language than the answer there is
    nothing to compare: `sentences` and `risk` are then None.

    Args:
        query: The question; empty: there is none, and nothing is said of relevance.
        chunks: The retrieved texts; the order makes no difference but to the numbering.
        answer: The answer to judge.
        tick: Called before each chunk and each sentence; what it raises ends the reading.

    Sources:
        Weighted overlap as support: Lin, "ROUGE" (2004), with inverse document frequencies as in
        Sparck Jones, "A statistical interpretation of term specificity" (1972). Sentences
        instead of generated claims, supported / all: Es et al., "RAGAS" (2023), arXiv:2309.15217,
        section 3.
    """
    found = index(chunks, tick)
    sentences = split(answer)
    said = _said(sentences, tick)
    question = terms(query)
    everywhere_at = _everywhere_at(said.values(), question)
    by_text: dict[str, _Read] = {}
    for text, one in said.items():
        tick()
        by_text[text] = _read(one, found, everywhere_at)
    reads = by_text.values()
    evasive = declines(list(by_text), [read.act for read in reads])
    asked = gather(question, found, everywhere_at)
    evidences = [read.evidence for read in reads]
    is_readable = evasive or not _is_foreign(answer, chunks, evidences)
    rated = None
    if sentences and is_readable:
        content = [term for s in sentences for term in said[s.text].content]
        rated = relevance.answer_relevancy(query, question, content, asked, evidences)
    return Assessment(
        judge=IDENTITY,
        language=language(answer),
        sentences=tuple([_verdict(s, by_text[s.text]) for s in sentences]) if is_readable else None,
        answer_relevancy=rated,
        evasive=evasive,
        chunk_relevance=relevance.chunk_relevance(question, found),
        risk=(
            _answer_risk([by_text[s.text] for s in sentences], evasive=evasive)
            if is_readable
            else None
        ),
    )


def _said(sentences: Sequence[Sentence], tick: Tick) -> dict[str, Said]:
    """Return what each different sentence says, by its text, in order."""
    found: dict[str, Said] = {}
    for sentence in sentences:
        if sentence.text not in found:
            tick()
            found[sentence.text] = say(sentence.text)
    return found


def _everywhere_at(said: Iterable[Said], question: Sequence[Term] = ()) -> int:
    return everywhere_from(len(question) + sum([len(one.content) for one in said]))


def _answer_risk(reads: Iterable[_Read], *, evasive: bool) -> float:
    if evasive:
        return risk.REFUSAL
    return risk.answer_risk([_risk(read) for read in reads if read.act in _CHECKED])


READABLE_FROM: Final = 0.5
"""Support of any sentence from which a text in another language is read all the same."""


def _is_foreign(answer: str, chunks: Sequence[str], evidences: Sequence[Evidence]) -> bool:
    """Return whether the chunks are all in another language: words then say nothing."""
    if not any(evidence.weight for evidence in evidences):
        return False
    if any(evidence.support >= READABLE_FROM for evidence in evidences):
        return False
    spoken = {language(chunk) for chunk in chunks if not chunk.isspace() and chunk}
    return bool(spoken) and language(answer) not in spoken


_CHECKED = frozenset({Act.CLAIM, Act.QUESTION})
"""What may assert or presuppose something."""
STATED_FROM: Final = 0.9
"""Support from which a statement of absence is the chunks' own, and no refusal."""
LEAST_STATED: Final = 1.2
"""Weight that such a statement must have."""


def say(text: str) -> Said:
    """Return what a sentence says."""
    said = terms(text)
    marker = marker_end(text)
    content = [term for term in said if term.start >= marker] if marker else said
    return Said(text, act_of(text, said), content)


def _read(said: Said, found: Index, everywhere_at: int) -> _Read:
    text, act, content = said.text, said.act, said.content
    evidence = gather(content, found, everywhere_at) if content else NOTHING
    if act is Act.REFUSAL and _is_stated(text, evidence):
        act = Act.CLAIM
    is_copy = act in _CHECKED and found.holds(text)
    findings: Sequence[Finding] = ()
    if act in _CHECKED and not is_copy:
        findings = failed_checks(text, content, evidence, found)
    return _Read(said, act, evidence, findings, is_copy)


def _is_stated(text: str, evidence: Evidence) -> bool:
    """Return whether the chunks themselves say that something is not known or not there."""
    if evidence.weight < LEAST_STATED or evidence.support < STATED_FROM:
        return False
    return may_be_claim(text)


def _risk(read: _Read) -> float:
    if read.is_copy:
        return 0.0
    share = risk.QUESTION_SHARE if read.act is Act.QUESTION else 1.0
    return share * risk.sentence_risk(read.evidence, [f.reason for f in read.findings])


def _verdict(sentence: Sentence, read: _Read) -> SentenceVerdict:
    text, start, end = sentence.text, sentence.start, sentence.end
    evidence = read.evidence
    if read.act is not Act.CLAIM or not evidence.weight:
        return SentenceVerdict(text=text, start=start, end=end, verdict=Verdict.NO_CLAIM)
    verdict, reasons = (Verdict.SUPPORTED, ()) if read.is_copy else _weigh(read)
    return SentenceVerdict(
        text=text,
        start=start,
        end=end,
        verdict=verdict,
        chunks=evidence.chunks,
        words=_surfaces(text, [*evidence.missing, *(f.term for f in read.findings)]),
        support=evidence.support,
        reasons=reasons,
    )


@dataclass(frozen=True, slots=True)
class Support:
    """Whether texts bear out one sentence."""

    is_claim: bool
    """It asserts something at all."""
    is_supported: bool
    chunks: tuple[int, ...]
    """The fewest of the texts that explain the support, best first."""
    held: Mapping[int, int]
    """For each of the texts, how many of the sentence's terms it is known to hold."""


def support_of(said: Said, found: Index, everywhere_at: int) -> Support:
    """Return whether the indexed texts bear out a sentence, as `assess` decides it."""
    read = _read(said, found, everywhere_at)
    if read.act is not Act.CLAIM or not read.evidence.weight:
        return Support(is_claim=False, is_supported=False, chunks=(), held={})
    verdict = Verdict.SUPPORTED if read.is_copy else _weigh(read)[0]
    return Support(
        is_claim=True,
        is_supported=verdict is Verdict.SUPPORTED,
        chunks=read.evidence.chunks,
        held={chunk: len(terms) for chunk, terms in read.evidence.by_chunk.items()},
    )


def _weigh(read: _Read) -> tuple[Verdict, tuple[Reason, ...]]:
    """Return the verdict on a claim, and which checks say so."""
    evidence = read.evidence
    failed = tuple(dict.fromkeys(finding.reason for finding in read.findings))
    if any(finding.conflicts for finding in read.findings):
        conflicting = {finding.term for finding in read.findings if finding.conflicts}
        lost = sum(term.weight for term in evidence.missing if term in conflicting)
        rest = evidence.weight - lost
        if rest > 0 and evidence.support * evidence.weight >= CONTRADICTED_FROM * rest:
            return Verdict.CONTRADICTED, failed
    if (evidence.support + evidence.closeness) / 2 < SUPPORTED_FROM:
        return Verdict.ABSENT, ("content", *failed)
    return (Verdict.ABSENT if failed else Verdict.SUPPORTED), failed


def _surfaces(text: str, found: Sequence[Term]) -> tuple[str, ...]:
    """Return terms as they stand in the sentence, in order; overlapping pairs as one piece."""
    pieces: list[str] = []
    begun = reached = -1
    for start, end in sorted({term[:2] for term in found}):
        if start < reached:
            reached = max(end, reached)
            continue
        if begun >= 0:
            pieces.append(text[begun:reached])
        begun, reached = start, end
    if begun >= 0:
        pieces.append(text[begun:reached])
    return tuple(dict.fromkeys(pieces))
