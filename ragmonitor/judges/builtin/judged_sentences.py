"""Sentences, compared with the chunks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from math import fsum
from typing import Final

from ragmonitor.judges.builtin.checks import (
    FailedCheck,
    failed_checks,
    follows,
    is_denied,
    opposed,
    opposing,
    surface_of,
)
from ragmonitor.judges.builtin.evidence import Evidence
from ragmonitor.judges.builtin.parsed_sentences import (
    ParsedSentence,
    clauses_of,
    parsed_clauses,
)
from ragmonitor.judges.builtin.speech_acts import SpeechAct, may_be_claim
from ragmonitor.judges.builtin.structured.field_reading import FieldReading
from ragmonitor.judges.builtin.structured.fields import FieldTable
from ragmonitor.judges.builtin.terms import AND, Key, Term
from ragmonitor.records import Reason, Severity, Verdict

SUPPORTED_FROM: Final = 0.5
"""Trust from which a sentence counts as supported."""
MINOR_FROM: Final = 0.5
"""Support from which an absent sentence is a minor finding where no check of a detail fails."""
BESIDE: Final = 0.2
"""Share of the trust that depends on which words stand beside each other in a chunk, too."""
STATED_FROM: Final = 0.9
"""Support from which a statement of absence is the chunks' own, and no refusal."""
_MIN_STATED_WEIGHT: Final = 1.2
CONTRADICTED_FROM: Final = 0.6
"""Support of all but the conflicting words from which a conflict counts as a contradiction."""
CLAUSE_ABSENT_BELOW: Final = 0.15
"""Support below which a clause of a supported sentence is a finding of its own."""
MIN_CLAUSE_WEIGHT: Final = 1.3
"""Weight that such a clause must have; in Chinese half of it."""
_MAX_CLAUSES: Final = 16
"""Clauses of a sentence that are judged one by one; one with more is judged as a whole."""
PENALTIES: Final[dict[Reason, float]] = {
    "content": 0.0,  # the support says it already
    "number": 0.5,
    "date": 0.5,
    "negation": 0.5,
    "role": 0.5,
    "unit": 0.3,
    "name": 0.3,
    "field": 0.8,
}
"""Share of the remaining trust in a sentence that a failed check takes away."""
NOTHING_SAID: Final = 0.1
"""Risk of a sentence without content (`Yes.`): nothing to check, and not nothing said."""
QUESTION_SHARE: Final = 0.5
"""Share of a question back: it may presuppose what the chunks lack, and asserts less."""
MIN_GAIN: Final = 0.08
"""Share of a sentence's content that one more chunk must add to be named."""
_CHECKED: Final = (SpeechAct.CLAIM, SpeechAct.QUESTION)
"""The acts that may assert or presuppose something."""


@dataclass(slots=True)
class JudgedSentence:
    """A sentence, or a clause of one, compared with the chunks."""

    sentence: ParsedSentence
    verdict: Verdict = Verdict.NO_CLAIM
    support: float = 0.0
    """Share of its content, by weight, that stands in the chunks."""
    trust: float = 0.0
    """The same, some of it for standing as it stands there; what a field bears out counts."""
    held: Mapping[int, float] = field(default_factory=dict)
    """The weight that each chunk holds of it."""
    missing: Sequence[Term] = ()
    failed: list[FailedCheck] = field(default_factory=list)
    is_denied: bool = False
    """Whether the chunks that hold most of it may negate something of it."""
    has_fields: bool = False
    """Whether fields of structured chunks speak of it."""
    clauses: Sequence[tuple[int, JudgedSentence]] = ()
    """Its clauses and their offsets, where some are supported and others are not."""

    @property
    def is_checked(self) -> bool:
        """Whether it may assert or presuppose something."""
        return self.sentence.act in _CHECKED

    @property
    def is_supported(self) -> bool:
        """Whether it is a claim that the chunks support, each clause of it."""
        return self.verdict is Verdict.SUPPORTED and not self.clauses

    @property
    def reasons(self) -> tuple[str, ...]:
        """The checks that it fails, and the fields that say otherwise."""
        named = [each for check in self.failed for each in (check.reason, check.evidence) if each]
        if self.verdict is Verdict.ABSENT and self.trust < SUPPORTED_FROM:
            named.insert(0, "content")
        return tuple(dict.fromkeys(named))

    @property
    def severity(self) -> Severity | None:
        """How bad its verdict is; None: nothing is wrong with it.

        A sentence half of which stands in the chunks, with every number, unit, date, name and
        negation, says too much. Any other is invented, or wrong.
        """
        if self.verdict not in {Verdict.ABSENT, Verdict.CONTRADICTED}:
            return None
        is_minor = not self.failed and self.support >= MINOR_FROM
        return Severity.MINOR if is_minor else Severity.MAJOR

    @property
    def risk(self) -> float:
        """The risk that something in it is hallucinated, 0 to 1."""
        risk = NOTHING_SAID
        if self.sentence.weight:
            trust = self.trust
            for reason in sorted({check.reason for check in self.failed}):
                trust *= 1.0 - PENALTIES[reason]
            risk = 1.0 - trust
        for _, clause in self.clauses if self.verdict is Verdict.SUPPORTED else ():
            risk = max(risk, (risk + clause.risk) / 2)
        return risk * QUESTION_SHARE if self.sentence.act is SpeechAct.QUESTION else risk

    def words(self) -> tuple[str, ...]:
        """Return what the chunks lack or contradict, as it stands in the sentence, in order.

        Pairs of Chinese characters that touch are one text.
        """
        said, bare = self.sentence.text, self.sentence.bare
        named = {key for each in self.failed if each.reason == "name" for key in each.keys}
        pieces: list[str] = [check.surface for check in self.failed]
        begun = end = -1
        """Where a piece of Chinese begins and ends."""
        for term in self.missing:
            if term.kind != "pair":
                pieces.append(surface_of(term))
            elif term.key not in named:
                if term.at < end:
                    pieces.pop()
                else:
                    begun = term.at
                end = term.at + 2
                pieces.append(bare[begun:end])
        places = {piece: said.find(piece) for piece in pieces if piece}
        return tuple(sorted([each for each in places if places[each] >= 0], key=places.__getitem__))


def judge_sentence(sentence: ParsedSentence, evidence: Evidence) -> JudgedSentence:
    """Return a sentence compared with the chunks, clause by clause where they differ."""
    judged = _judged(sentence, evidence)
    if judged.verdict is Verdict.NO_CLAIM or judged.has_fields:
        return judged  # fields are read clause by clause already
    if judged.severity is Severity.MINOR:
        return judged  # it says too much as a whole
    least = MIN_CLAUSE_WEIGHT / 2 if sentence.is_chinese else MIN_CLAUSE_WEIGHT
    lacks = sum([term.weight for term in judged.missing]) >= (1 - CLAUSE_ABSENT_BELOW) * least
    if not (lacks or judged.failed or judged.is_denied):
        return judged
    clauses = clauses_of(judged.sentence)
    if not 0 < len(clauses) <= _MAX_CLAUSES:
        return judged
    absent = {term.key for term in judged.missing}
    weights = [sum([term.weight for term in clause]) for _, clause in clauses]
    lost = [sum([t.weight for t in clause if t.key in absent]) for _, clause in clauses]
    shares = [1.0 - n / weight for n, weight in zip(lost, weights, strict=True)]
    is_borne = judged.verdict is Verdict.SUPPORTED and bool(absent)
    invented = [
        share < CLAUSE_ABSENT_BELOW and weight >= least
        for share, weight in zip(shares, weights, strict=True)
    ]
    if max(shares) < SUPPORTED_FROM or (is_borne and not any(invented)):
        return judged
    found = [
        (at, _judged_clause(clause, judged, evidence))
        for at, clause in parsed_clauses(judged.sentence, clauses)
    ]
    for (_, clause), is_invented in zip(found, invented, strict=True):
        if is_borne:
            clause.verdict = Verdict.ABSENT if is_invented else Verdict.SUPPORTED
    if len({clause.is_supported for _, clause in found}) > 1:
        judged.clauses = found
    return judged


def _judged_clause(
    clause: ParsedSentence, whole: JudgedSentence, evidence: Evidence
) -> JudgedSentence:
    """Return a clause of a sentence, with what of the sentence's findings concerns it."""
    absent = {term.key for term in whole.missing}
    missing = [term for term in clause.terms if term.key in absent]
    failed = [
        check
        for check in whole.failed
        if not check.keys.isdisjoint(clause.weights)
        or (not check.keys and check.surface in clause.bare)
    ]
    held = evidence.held(clause.terms)
    judged = JudgedSentence(clause, held=held, missing=missing, failed=failed)
    if not any(check.reason == "negation" for check in failed):
        best = evidence.closest(judged.held)
        judged.failed += opposed(clause, best, opposing(clause, best))
    return _weighed(judged, evidence)


def _judged(sentence: ParsedSentence, evidence: Evidence) -> JudgedSentence:
    if not sentence.weight:
        return JudgedSentence(sentence)
    if evidence.table and sentence.act is SpeechAct.CLAIM:
        sentence = sentence.placed
    where = evidence.where
    missing = [term for term in sentence.terms if term.weight and term.key not in where]
    if missing and "number" in sentence.kinds:
        units = {n.key: u.key for n, u in pairwise(sentence.terms) if u.kind == "unit"}
        missing = [
            term
            for term in missing
            if term.kind != "number" or not follows(term, units.get(term.key, ""), evidence)
        ]
    judged = JudgedSentence(sentence, held=evidence.held(sentence.terms), missing=missing)
    support = judged.support = 1.0 - sum(term.weight for term in missing) / sentence.weight
    if (
        sentence.act is SpeechAct.REFUSAL
        and support >= STATED_FROM
        and sentence.weight >= _MIN_STATED_WEIGHT
        and may_be_claim(sentence.text)
    ):  # the chunks themselves say that something is not known
        judged.sentence = sentence = replace(sentence, act=SpeechAct.CLAIM)
    if not judged.is_checked:
        return judged
    best = evidence.closest(judged.held)
    passages = opposing(sentence, best)
    judged.is_denied = is_denied(sentence, passages)
    judged.failed = failed_checks(sentence, missing, best, evidence)
    judged.failed += opposed(sentence, best, passages)
    return _weighed(judged, evidence)


def _weighed(judged: JudgedSentence, evidence: Evidence) -> JudgedSentence:
    """Return a sentence with its support, its trust and its verdict."""
    sentence, missing = judged.sentence, judged.missing
    support = judged.support = 1.0 - sum(term.weight for term in missing) / sentence.weight
    judged.trust = support
    if support and len(sentence.terms) > 1 and not sentence.is_chinese:
        judged.trust = (1.0 - BESIDE) * support + BESIDE * _beside(sentence.terms, evidence)
    if (judged.failed or (missing and support > 0.5)) and evidence.holds(sentence.bare):
        judged.failed, judged.missing = [], []
        judged.support = judged.trust = 1.0
    elif evidence.table and sentence.act is SpeechAct.CLAIM:
        _add_fields(judged, evidence.table)
    if sentence.act is SpeechAct.CLAIM:
        judged.verdict = _verdict(judged)
    return judged


def _beside(content: Sequence[Term], evidence: Evidence) -> float:
    """Return the share, by weight, of neighbouring terms that are neighbours in a chunk too."""
    total = found = before = 0.0
    last: Key = ""
    for term in content:
        if term.key == AND:
            continue
        if term.weight and before:
            total += term.weight + before
            if (last, term.key) in evidence.beside:
                found += term.weight + before
        before, last = term.weight, term.key
    return found / total if total else 1.0


def _add_fields(judged: JudgedSentence, table: FieldTable) -> None:
    """Add what the fields of structured chunks say.

    What one bears out is supported, whatever the words.
    """
    sentence = judged.sentence
    reading = FieldReading(sentence.bare, sentence.terms, table)
    if not reading.supported and not reading.findings:
        return
    judged.has_fields = True
    covered = _within(reading.supported, sentence)
    found_in = [(finding.start, finding.end) for finding in reading.findings]
    touched = covered | _within(found_in, sentence)
    keys = {term.key for term in sentence.terms if term.at in touched}
    judged.failed = [
        check
        for check in judged.failed
        if not check.keys & keys and not (check.reason == "negation" and keys)
    ] + [
        FailedCheck("field", sentence.bare[at:end], conflicts, evidence=label)
        for at, end, label, conflicts in sorted(reading.findings)
    ]
    gained = 0.0
    for term in judged.missing:
        if term.at in covered:
            gained += term.weight
        elif covered and term.kind in {"word", "pair"}:
            gained += term.weight / 2
    gained /= sentence.weight
    borne = sum(t.weight for t in sentence.terms if t.at in covered) / sentence.weight
    judged.support = min(1.0, judged.support + gained)
    judged.trust = min(1.0, max(judged.trust + gained, borne))
    judged.missing = [term for term in judged.missing if term.at not in covered]


def _within(spans: Iterable[tuple[int, int]], sentence: ParsedSentence) -> set[int]:
    """Return where the terms stand that stretches of a sentence touch."""
    touched = bytearray(len(sentence.bare) + 1)
    for start, end in spans:
        touched[start:end] = b"1" * (end - start)
    return {t.at for t in sentence.terms if any(touched[t.at : t.at + len(t.surface)])}


def _verdict(judged: JudgedSentence) -> Verdict:
    """Return the verdict on a claim."""
    conflicting = [check for check in judged.failed if check.conflicts]
    if any(check.evidence or check.reason == "negation" for check in conflicting):
        return Verdict.CONTRADICTED
    if conflicting:
        lost = frozenset[Key]().union(*[check.keys for check in conflicting])
        rest = judged.sentence.weight - sum(t.weight for t in judged.missing if t.key in lost)
        if judged.support * judged.sentence.weight >= CONTRADICTED_FROM * rest > 0:
            return Verdict.CONTRADICTED
    is_absent = judged.failed or judged.trust < SUPPORTED_FROM
    return Verdict.ABSENT if is_absent else Verdict.SUPPORTED


def fewest_chunks(judged: JudgedSentence, evidence: Evidence) -> tuple[int, ...]:
    """Return the fewest chunks that explain a sentence's support, best first (greedily).

    Texts break ties, so that the chunks' order makes no difference.
    """
    if len(judged.held) < 2:
        return tuple(judged.held)
    weights, least = judged.sentence.weights, MIN_GAIN * judged.sentence.weight
    left = {key for key in weights if key in evidence.where}
    chosen: list[int] = []
    places = sorted(judged.held, key=lambda at: evidence.chunks[at].text, reverse=True)
    for at in sorted(places, key=judged.held.__getitem__, reverse=True):
        if fsum(map(weights.__getitem__, left)) < least:
            break
        new = left & evidence.chunks[at].keys
        if fsum(map(weights.__getitem__, new)) >= least:
            chosen.append(at)
            left -= new
    return tuple(chosen)
