"""Sentences, compared with the chunks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from math import fsum
from operator import itemgetter
from typing import Final

from ragmonitor.judges.builtin.checks import (
    CONTRADICTED_FROM,
    FailedCheck,
    failed_checks,
    follows,
    is_denied,
    surface_of,
)
from ragmonitor.judges.builtin.evidence import Evidence
from ragmonitor.judges.builtin.parsed_sentences import ParsedSentence, clauses_of
from ragmonitor.judges.builtin.speech_acts import SpeechAct, may_be_claim
from ragmonitor.judges.builtin.structured.field_reading import read_fields
from ragmonitor.judges.builtin.structured.fields import FieldTable
from ragmonitor.judges.builtin.terms import Key, Term, in_ascii, placed
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
ENOUGH: Final = 0.9
"""Share of a sentence's support that the named chunks explain before they are enough."""
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
    failed: Sequence[FailedCheck] = ()
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
        is_minor = self.reasons == ("content",) and self.support >= MINOR_FROM
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
        said = self.sentence.bare
        first = {t.key: at for at, t in reversed(list(enumerate(self.sentence.terms)))}
        named: set[Key] = set()
        for check in self.failed:
            named |= check.keys if check.reason == "name" else set()
        pieces: list[tuple[int, str, int]] = []
        """The place of the term, the text, and where a piece of Chinese begins, else -1."""
        for term in self.missing:
            if term.kind != "pair":
                pieces.append((first[term.key], surface_of(term), -1))
            elif term.key not in named:
                place, text, begun = pieces[-1] if pieces else (0, "", -1)
                if begun >= 0 and term.at < begun + len(text):
                    pieces[-1] = place, said[begun : term.at + 2], begun
                else:
                    pieces.append((first[term.key], term.surface, term.at))
        for check in self.failed:
            place = min([first.get(key, 0) for key in check.keys], default=0)
            pieces.append((place, check.surface, -1))
        texts = [text for _, text, _ in sorted(pieces, key=itemgetter(0))]
        return tuple(dict.fromkeys([text for text in texts if text and text in self.sentence.text]))


def judge_sentence(sentence: ParsedSentence, evidence: Evidence) -> JudgedSentence:
    """Return a sentence compared with the chunks, clause by clause where they differ."""
    judged = _judged(sentence, evidence)
    if judged.verdict is Verdict.NO_CLAIM or judged.has_fields:
        return judged  # fields are read clause by clause already
    if judged.severity is Severity.MINOR:
        return judged  # it says too much as a whole
    weight = MIN_CLAUSE_WEIGHT / 2 if sentence.is_chinese else MIN_CLAUSE_WEIGHT
    lacks = fsum(term.weight for term in judged.missing) >= (1 - CLAUSE_ABSENT_BELOW) * weight
    if not (lacks or judged.failed or judged.is_denied):
        return judged
    clauses = clauses_of(judged.sentence)
    supports = [_support(clause, evidence) for _, clause in clauses]
    if not 0 < len(clauses) <= _MAX_CLAUSES or max(supports) < SUPPORTED_FROM:
        return judged
    invented = [
        support < CLAUSE_ABSENT_BELOW and clause.weight >= weight
        for support, (_, clause) in zip(supports, clauses, strict=True)
    ]
    is_borne = judged.verdict is Verdict.SUPPORTED and bool(judged.missing)
    if is_borne and not any(invented):
        return judged
    found = [(start, _judged(clause, evidence)) for start, clause in clauses]
    for (_, clause), is_invented in zip(found, invented, strict=True):
        if is_borne:
            clause.verdict = Verdict.ABSENT if is_invented else Verdict.SUPPORTED
    verdicts = {clause.verdict for _, clause in found}
    if Verdict.SUPPORTED in verdicts and len(verdicts) > 1:
        judged.clauses = found
    return judged


def _support(clause: ParsedSentence, evidence: Evidence) -> float:
    held = sum(term.weight for term in clause.terms if term.key in evidence.where)
    return held / clause.weight if clause.weight else 0.0


def _judged(sentence: ParsedSentence, evidence: Evidence) -> JudgedSentence:
    if not sentence.weight:
        return JudgedSentence(sentence)
    if evidence.table and sentence.act is SpeechAct.CLAIM:
        bare = in_ascii(sentence.bare)
        sentence = replace(sentence, bare=bare, terms=placed(bare))
    content = sentence.terms
    where = evidence.where
    missing = [term for term in content if term.weight and term.key not in where]
    if any(term.kind == "number" for term in missing):
        units = {n.key: u.key for n, u in pairwise(content) if u.kind == "unit"}
        missing = [
            term
            for term in missing
            if term.kind != "number" or not follows(term, units.get(term.key, ""), evidence)
        ]
    support = 1.0 - sum(term.weight for term in missing) / sentence.weight
    judged = JudgedSentence(sentence, support=support, trust=support, held=evidence.held(content))
    if (
        sentence.act is SpeechAct.REFUSAL
        and support >= STATED_FROM
        and sentence.weight >= _MIN_STATED_WEIGHT
        and may_be_claim(sentence.text)
    ):  # the chunks themselves say that something is not known
        judged.sentence = sentence = replace(sentence, act=SpeechAct.CLAIM)
    if not judged.is_checked:
        return judged
    if support and len(content) > 1 and not sentence.is_chinese:
        judged.trust = (1.0 - BESIDE) * support + BESIDE * _beside(content, evidence)
    judged.missing = missing
    best = evidence.closest(judged.held)
    judged.is_denied = is_denied(sentence, best)
    judged.failed = failed_checks(sentence, missing, support, best, evidence)
    if (judged.failed or (missing and support > 0.5)) and evidence.holds(sentence.bare):
        judged.failed = judged.missing = ()
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
    reading = read_fields(sentence.bare, sentence.terms, table)
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
    held, weight = judged.held, judged.sentence.weight
    if len(held) < 2:
        return tuple(held)
    left = [t for t in judged.sentence.terms if t.weight and t.key in evidence.where]
    total, gained = sum(term.weight for term in left), 0.0
    chosen: list[int] = []
    while held and gained < ENOUGH * total and total - gained >= MIN_GAIN * weight:
        best = max(held, key=lambda at: (held[at], evidence.chunks[at].text))
        if held[best] < MIN_GAIN * weight:
            break
        chosen.append(best)
        gained += held[best]
        left = [term for term in left if best not in evidence.where[term.key]]
        held = evidence.held(left)
    return tuple(chosen)
