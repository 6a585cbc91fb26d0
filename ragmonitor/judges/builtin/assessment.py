"""One answer, assessed against its chunks without a model."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, NamedTuple

from ragmonitor.judges.builtin.evidence import Chunk, Evidence, Tick, unlimited
from ragmonitor.judges.builtin.judged_sentences import JudgedSentence, fewest_chunks, judge_sentence
from ragmonitor.judges.builtin.parsed_sentences import ParsedSentence, parse_sentence
from ragmonitor.judges.builtin.speech_acts import SpeechAct, content_count, is_about_sources
from ragmonitor.judges.builtin.terms import Term, simplified, terms
from ragmonitor.judges.sentences import language, spans
from ragmonitor.records import Assessment, JudgeIdentity, Language, SentenceVerdict, Verdict
from ragmonitor.runtime.patterns import lazy_pattern

IDENTITY: Final = JudgeIdentity(name="builtin", version="13", kind="CODE")

READABLE_FROM: Final = 0.5
"""Support of any sentence from which a text in another language is judged all the same."""
DECAY: Final = 0.5
"""The weight of the next worst sentence, relative to the one before it."""
_LAST_RANK: Final = 50
"""Sentences further down weigh less than a float can tell."""
REFUSAL_RISK: Final = 0.02
EACH_NUMBER: Final = 0.75
"""What each sentence that lacks a number or date leaves of the trust in the answer."""
EACH_NAME: Final = 0.85
MAX_COUNTED: Final = 3
"""Sentences of either kind that count."""
ON_TOPIC: Final = 0.5
"""Share of a question's content that an answer on its topic holds, itself or by its source."""
CANNOT_TELL: Final = 0.5
"""Relevancy of an answer too short to be off topic in its words alone."""
SHORT: Final = 3
"""Terms up to which an answer is too short to tell."""
SAYS_LITTLE: Final = 0.6
"""Weight below which a question holds no more than one common word."""
_POLAR: Final = lazy_pattern(
    r"\s*(?:is|are|was|were|am|do|does|did|can|could|will|would|shall|should|may|might|must|has"
    r"|have|had)(?:n't)?\b|.*(?:吗|是否|是不是|能不能|有没有|对不对)",
    re.IGNORECASE | re.DOTALL,
)


def assess(query: str, chunks: Sequence[str], answer: str, *, tick: Tick = unlimited) -> Assessment:
    """Return which parts of an answer the chunks support, and how far it and they fit the question.

    It is deterministic, accepts any text and is linear in the texts' lengths. Traditional Chinese
    is read as simplified Chinese.

    A sentence's `support` is the share of its content, weighted by rarity, that stands in the
    chunks. Its trust is that share and, for a fifth, the share of its neighbouring words that are
    neighbours in a chunk, too. It is `supported` if the trust reaches `SUPPORTED_FROM` and no
    check of numbers, units, dates, negations, names, roles and fields fails; `contradicted` if
    the rest of it is supported and the chunks say something else in its place; `absent`
    otherwise. Where some clauses of a sentence are supported and others are not, each clause has
    a verdict of its own.

    `risk` is 1 - trust: over the sentences from the worst to the best, the mean of their trusts
    with weights 1, 1/2, 1/4, ..., each times (1 - penalty) for every failed check; then less for
    each sentence that lacks a number, date or name. `answer_relevancy` and `chunk_relevance` say
    "off topic" and no more than that. Where all chunks are in another language than the answer
    there is nothing to compare: `sentences` and `risk` are then None.

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
    read_as = simplified(answer)
    texts = _Answer(answer, read_as)
    places = spans(read_as)
    parsed: dict[str, ParsedSentence] = {}
    for start, end in places:
        text = read_as[start:end]
        if text not in parsed:
            tick()
            parsed[text] = parse_sentence(text)
    question = terms(simplified(query))
    asked = [term.key for term in question]
    evidence = Evidence(chunks, [asked, *(each.keys for each in parsed.values())], tick)
    judged: dict[str, JudgedSentence] = {}
    for text, sentence in parsed.items():
        tick()
        judged[text] = judge_sentence(sentence, evidence)
    tick()
    every = list(judged.values())
    evasive = _declines(every)
    own_language = language(answer)
    sentences = risk = relevancy = None
    if evasive or not _is_foreign(own_language, evidence.chunks, every):
        sentences = tuple(
            verdict
            for start, end in places
            for verdict in _verdicts(judged[read_as[start:end]], start, end, texts, evidence)
        )
        checked = [judged[read_as[start:end]] for start, end in places]
        risk = REFUSAL_RISK if evasive else _answer_risk(checked)
        relevancy = _answer_relevancy(query, question, every, evidence) if places else None
    return Assessment(
        judge=IDENTITY,
        language=own_language,
        sentences=sentences,
        answer_relevancy=relevancy,
        evasive=evasive,
        chunk_relevance=_chunk_relevance(question, evidence),
        risk=risk,
    )


class _Answer(NamedTuple):
    """An answer as it was written, and in simplified characters at the same places."""

    written: str
    simplified: str


def _verdicts(
    judged: JudgedSentence, start: int, end: int, answer: _Answer, evidence: Evidence
) -> list[SentenceVerdict]:
    """Return the verdict on a sentence or, where its clauses differ, on each of them."""
    if not judged.clauses:
        return [_verdict(judged, start, end, answer, evidence)]
    bare = max(start, answer.simplified.find(judged.sentence.bare, start, end))
    starts = [start, *(bare + at for at, _ in judged.clauses[1:])]
    found: list[SentenceVerdict] = []
    for (_, clause), first, last in zip(judged.clauses, starts, [*starts[1:], end], strict=True):
        begins = next((at for at in range(first, last) if answer.written[at].isalnum()), first)
        ends = first + len(answer.written[first:last].rstrip(" \t\n,;，；"))
        found.append(_verdict(clause, begins, ends, answer, evidence))
    return found


def _verdict(
    judged: JudgedSentence, start: int, end: int, answer: _Answer, evidence: Evidence
) -> SentenceVerdict:
    text = answer.written[start:end]
    if judged.verdict is Verdict.NO_CLAIM:
        return SentenceVerdict(text=text, start=start, end=end, verdict=judged.verdict)
    words = judged.words() if judged.missing or judged.failed else ()
    if answer.written != answer.simplified:
        places = [max(start, answer.simplified.find(word, start, end)) for word in words]
        words = tuple(
            [answer.written[at : at + len(w)] for at, w in zip(places, words, strict=True)]
        )
    return SentenceVerdict(
        text=text,
        start=start,
        end=end,
        verdict=judged.verdict,
        chunks=fewest_chunks(judged, evidence),
        words=words,
        support=judged.support,
        reasons=judged.reasons,
        severity=judged.severity,
    )


def _declines(every: Sequence[JudgedSentence]) -> bool:
    """Return whether an answer declines to answer: it refuses, and nothing in it answers.

    A sentence that says what the sources lack is no refusal beside sentences that answer.
    """
    sentences = [judged.sentence for judged in every]
    if not any(each.act is SpeechAct.REFUSAL for each in sentences):
        return False
    return not any(
        each.act is SpeechAct.CLAIM
        and not is_about_sources(each.text)
        and content_count(each.terms) > 1
        for each in sentences
    )


def _is_foreign(own: Language, chunks: Sequence[Chunk], every: Sequence[JudgedSentence]) -> bool:
    """Return whether the chunks are all in another language: words then say nothing.

    Numbers may agree all the same; a name or a field that does makes them readable.
    """
    for judged in every:
        words = [t for t in judged.sentence.terms if t.kind in {"word", "name", "pair"}]
        total = sum(term.weight for term in words)
        lacking = sum(t.weight for t in judged.missing if t.kind in {"word", "name", "pair"})
        if judged.has_fields or (total and total - lacking >= READABLE_FROM * total):
            return False
    others = [chunk.text for chunk in chunks if chunk.text and not chunk.text.isspace()]
    if not others or any(language(text) == own for text in others):
        return False
    return any(judged.sentence.weight for judged in every)


def _answer_risk(sentences: Sequence[JudgedSentence]) -> float:
    """Return the mean of the sentences' risks, the worst first, and more for lacking details.

    The worst sentence weighs at least half, whatever the answer's length.
    """
    checked = [judged for judged in sentences if judged.is_checked]
    risks = sorted([judged.risk for judged in checked], reverse=True)[:_LAST_RANK]
    weights = [DECAY**rank for rank in range(len(risks))]
    if not weights:
        return 0.0
    trust = 1.0 - sum(r * w for r, w in zip(risks, weights, strict=True)) / sum(weights)
    for reasons, factor in (({"number", "date"}, EACH_NUMBER), ({"name"}, EACH_NAME)):
        count = sum(any(check.reason in reasons for check in each.failed) for each in checked)
        trust *= factor ** min(MAX_COUNTED, count)
    return 1.0 - trust


def _answer_relevancy(
    query: str, question: Sequence[Term], every: Sequence[JudgedSentence], evidence: Evidence
) -> float | None:
    """Return whether an answer speaks of the question; None if that says nothing.

    `Paris.` repeats no word of its question. So a chunk that holds both what the answer says and
    what the question asks joins them: the share of the one times the share of the other.
    """
    total = sum(term.weight for term in question)
    if not total:
        return None
    keys = [term.key for judged in every for term in judged.sentence.terms if term.weight]
    if not keys:
        return 1.0 if _POLAR.match(query[:400]) else CANNOT_TELL
    known = set(keys)
    share = sum(term.weight for term in question if term.key in known) / total
    asked = evidence.held(question)
    for judged in every if share < ON_TOPIC else ():
        weight = judged.sentence.weight
        for at in judged.held.keys() & asked.keys():
            share = max(share, asked[at] * judged.held[at] / (total * weight))
    is_short = len(keys) <= SHORT or total < SAYS_LITTLE
    return max(CANNOT_TELL if is_short else 0.0, min(1.0, share / ON_TOPIC))


def _chunk_relevance(question: Sequence[Term], evidence: Evidence) -> tuple[float, ...] | None:
    """Return each chunk's relevance to the question; None if the question says too little."""
    total = sum(term.weight for term in question)
    held = evidence.held(question)
    if not total or (total < SAYS_LITTLE and not held):
        return None
    shares = [held.get(at, 0.0) / total for at in range(len(evidence.chunks))]
    return tuple([min(1.0, share / ON_TOPIC) for share in shares])
