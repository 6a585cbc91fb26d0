"""The stages hand frozen records to each other, and nothing else.

Times are nanoseconds since the epoch (`_ns`) unless a name says otherwise; scores, shares and
chances lie between 0 and 1.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from enum import StrEnum
from fnmatch import fnmatchcase
from functools import cached_property, lru_cache
from html import escape
from textwrap import shorten
from typing import Any, Final, Literal, NamedTuple, Self, get_args

Status = Literal["ok", "error", "partial", "cancelled"]
"""The end of an interaction. `partial`: a stream that was closed before its end."""

Language = Literal["en", "zh"]

Reason = Literal["content", "number", "unit", "date", "negation", "name", "role", "field"]
"""The check of a sentence that failed."""
REASONS: frozenset[str] = frozenset(get_args(Reason))


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """One piece of retrieved text, as the retriever gave it."""

    text: str
    id: str = ""
    """The store's own id; empty if it gave none."""
    score: float | None = None
    """The retriever's or reranker's own scale; None if it gave none."""
    metadata: Mapping[str, Any] = field(default_factory=dict)

    @property
    def source(self) -> str:
        """The document that it is from, as its metadata say; empty: they do not."""
        metadata = self.metadata
        if metadata:
            for name in SOURCES:  # no generator: this runs some ten times an answer
                value = metadata.get(name)
                if isinstance(value, str) and value:
                    return value
        return ""


SOURCES: Final = ("source", "file_path", "file_name", "url", "title")
"""Names under which chunks' metadata say where they are from, the first that is there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Tokens that a model call used, as its provider counted them; None if it did not say."""

    input_tokens: int | None = None
    output_tokens: int | None = None

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            input_tokens=_sum(self.input_tokens, other.input_tokens),
            output_tokens=_sum(self.output_tokens, other.output_tokens),
        )


def _sum(left: int | None, right: int | None) -> int | None:
    return right if left is None else left if right is None else left + right


@dataclass(frozen=True, slots=True, kw_only=True)
class SpanReference:
    """A span in somebody's trace: the caller's, or the one that was emitted for a record."""

    trace_id: str
    """32 lower-case hex digits, as in W3C trace context."""
    span_id: str
    """16 lower-case hex digits."""
    sampled: bool = True
    trace_state: str = ""
    """The W3C `tracestate` header, unchanged."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Retrieval:
    """One outermost retriever run of an interaction."""

    query: str
    chunks: tuple[Chunk, ...]
    started_ns: int
    ended_ns: int
    name: str = ""
    error: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One message of what a model was asked."""

    role: str
    """`system`, `user`, `assistant`, `tool`; a plain prompt is `user`."""
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Generation:
    """One model call that worked on the answer (calls inside retrievers are not among them)."""

    output: str
    started_ns: int
    ended_ns: int
    input: tuple[Message, ...] = ()
    """The messages that the model was asked, in order; empty if that is not known."""
    model: str = ""
    provider: str = ""
    usage: Usage = field(default_factory=Usage)
    error: str = ""
    finish_reason: str = ""
    """Why the model stopped, in its provider's words: `stop`, `length`; empty: not known."""
    first_token_ns: int = 0
    """The time when the first text of a streamed output came; 0: it was not streamed, or that is
    not known."""

    @property
    def first_token_s(self) -> float | None:
        """The time from the call to its first text; None: it was not streamed, or is not known."""
        return _first_token_s(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """Marks an interaction as the answer to a golden question: it is no traffic."""

    golden: str
    """Id of the golden question."""
    outcome: str = ""
    """The outcome of asking: `answered`, or why there is no answer. Empty: a record that was
    captured in the application while it answered; `golden` says whom it was marked for."""
    expects_refusal: bool = False
    """The documents do not hold the answer, so that a refusal is right."""
    knows_chunks: bool = True
    """Whether the application says what it retrieved; if not, `chunks` is empty for that reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Interaction:
    """One question, what was retrieved for it, and what was answered."""

    id: str
    """Unique and stable; sampling draws by a keyed hash of it."""
    query: str
    chunks: tuple[Chunk, ...]
    """The chunks as the model saw them, in order. Empty: nothing was found."""
    not_shown: tuple[Chunk, ...] = ()
    """Retrieved and then kept from the model: cut, filtered or reranked away."""
    answer: str
    """All of it, streamed or not; what is known of it if `status` is not ok."""
    reference: str = ""
    """The answer that a person says is right; offline and of golden questions only."""
    reference_chunks: tuple[Chunk, ...] = ()
    """The chunks that should have been retrieved, best first; likewise. Equal ids, where both sides
    have them, are equal chunks."""
    framework: str
    """`langchain`, `llama_index`, `litellm`, `python` for plain code; read off another's spans:
    `openinference`, `openllmetry`, `genai`."""
    started_ns: int
    ended_ns: int
    name: str = ""
    """The application's name for this chain or engine."""
    status: Status = "ok"
    error: str = ""
    """`TypeName: message` where status is `error`."""
    retrievals: tuple[Retrieval, ...] = ()
    generations: tuple[Generation, ...] = ()
    usage: Usage = field(default_factory=Usage)
    """The usage over the `generations`, each counted once; models inside retrievers are not among
    them."""
    caller: SpanReference | None = None
    """The application's span that was current when the interaction began."""
    target: SpanReference | None = None
    """Another instrumentation's span that stands for the interaction already: scores are linked to
    it, and no tree of ours is emitted."""
    session_id: str = ""
    user_id: str = ""
    tags: tuple[str, ...] = ()
    attributes: Mapping[str, str] = field(default_factory=dict)
    """The application's own: route, tenant, version, prompt_id, ..."""
    capture_incomplete: bool = False
    """Texts are known to be missing, so that a score would be about us and not about the answer."""
    redacted: int = 0
    """The number of its texts, each counted once, that redaction changed."""
    probe: Probe | None = None
    """Set where a golden question was asked; None: the application's own traffic."""
    first_token_ns: int = 0
    """The time when the first text of a streamed answer came; 0: it was not streamed, or that is
    not known."""

    @property
    def latency_s(self) -> float:
        """The time from the question to the last token."""
        took_ns = self.ended_ns - self.started_ns
        return took_ns / 1e9 if took_ns > 0 else 0.0

    @property
    def first_token_s(self) -> float | None:
        """The time from the question to the first token; None: not streamed, or not known."""
        return _first_token_s(self)

    @property
    def model(self) -> str:
        """The model that gave the answer: the one that was asked last; empty: not known."""
        return self.generations[-1].model if self.generations else ""


def _first_token_s(timed: Generation | Interaction) -> float | None:
    if not timed.first_token_ns:
        return None
    return max(0, timed.first_token_ns - timed.started_ns) / 1e9


class Verdict(StrEnum):
    """The verdict of the chunks on one sentence of an answer."""

    SUPPORTED = "supported"
    ABSENT = "absent"
    CONTRADICTED = "contradicted"
    NO_CLAIM = "no_claim"


class Severity(StrEnum):
    """The harm of a sentence that is absent from the chunks or contradicted by them."""

    MINOR = "minor"
    """It stretches what the chunks say, or credits the wrong source."""
    MAJOR = "major"
    """Something is invented, or says otherwise than the chunks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SentenceVerdict:
    """The verdict on one sentence, with its evidence."""

    text: str
    start: int
    """Offset of the sentence's first character in the answer."""
    end: int
    """Offset after its last character."""
    verdict: Verdict
    chunks: tuple[int, ...] = ()
    """Positions (from 0) of the chunks that support it, or that contradict it; best first."""
    words: tuple[str, ...] = ()
    """The words of the sentence that the chunks lack or contradict, as they stand in it."""
    support: float | None = None
    """Share of the sentence's weighted content that stands in the chunks; None if the judge
    gives verdicts only."""
    reasons: tuple[str, ...] = ()
    """The checks that failed; `REASONS`, or another judge's own words."""
    severity: Severity | None = None
    """The severity of an absent or contradicted sentence. None: the judge rates none, and it counts
    as major."""

    @property
    def finding(self) -> Severity | None:
        """The severity of what is wrong with the sentence; None: nothing is."""
        if self.verdict in (Verdict.ABSENT, Verdict.CONTRADICTED):
            return self.severity or Severity.MAJOR
        return None


BUILTIN: Final = "builtin"
"""The name of the built-in judge's own rules; an encoder that reads every answer in their place has
the name `builtin:MODEL`."""


def is_builtin(name: str) -> bool:
    """Return whether a judge of this name reads every answer."""
    return name.partition(":")[0] == BUILTIN


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeIdentity:
    """The judge behind a verdict. A changed judge must never look like a changed system."""

    name: str
    """The name that labels carry: `builtin`, `openai/gpt-4o-mini`."""
    version: str
    """Changes with everything that changes verdicts: prompt hash, model revision, rules."""
    kind: Literal["CODE", "LLM", "HUMAN"]
    """OpenInference's `annotator_kind`."""

    def __str__(self) -> str:
        return f"{self.name}@{self.version}"


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeUsage:
    """The cost of one assessment, over all its calls."""

    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float = 0.0
    seconds: float = 0.0
    cache_hits: int = 0
    """Readings that were not made, since an equal one was."""

    def __add__(self, other: JudgeUsage) -> JudgeUsage:
        names = [each.name for each in fields(JudgeUsage)]
        return JudgeUsage(**{name: getattr(self, name) + getattr(other, name) for name in names})

    def __sub__(self, other: JudgeUsage) -> JudgeUsage:
        names = [each.name for each in fields(JudgeUsage)]
        return JudgeUsage(**{name: getattr(self, name) - getattr(other, name) for name in names})


@dataclass(frozen=True, slots=True, kw_only=True)
class ReferenceSentence:
    """One sentence of a reference answer, checked against the answer and against each chunk."""

    text: str
    chunks: tuple[int, ...]
    """Positions (from 0) of the chunks that entail it."""
    in_answer: bool
    """The answer entails it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReferenceReading:
    """A reading beside a reference answer: checks of claims, from which scores follow.

    Source of the checks: Ru et al., "RAGChecker" (2024), section 3, arXiv:2408.08067.
    """

    answer_claims: tuple[bool, ...]
    """Whether the reference entails each claim of the answer (`Assessment.claims`), in order."""
    sentences: tuple[ReferenceSentence, ...]
    """The sentences of the reference that assert something, in order."""


PRIVATE_ATTRIBUTES: Final = ("user*", "*email*", "*phone*")
"""Patterns of names of attributes that tell of a person: their values are no slices of the traffic,
and stand in no incident."""


def is_private(attribute: str) -> bool:
    """Return whether an attribute's name says that its value tells of a person."""
    return any(fnmatchcase(attribute, pattern) for pattern in PRIVATE_ATTRIBUTES)


@dataclass(frozen=True, kw_only=True)  # without slots: what is counted is counted once
class Assessment:
    """The findings of one reading of an interaction. None: the reply could not be read there."""

    judge: JudgeIdentity
    language: Language
    """The language of the answer."""
    sentences: tuple[SentenceVerdict, ...] | None
    """One per sentence of the answer, in order."""
    answer_relevancy: float | None
    """1: answers the question; 0: does not speak of it."""
    evasive: bool | None
    """The answer declines to answer."""
    chunk_relevance: tuple[float, ...] | None
    """Relevance of each chunk to the question, in the chunks' order; shape (n_chunks,)."""
    risk: float | None = None
    """That something is hallucinated: uncalibrated, comparable within one judge only.
    None: this judge gives verdicts only."""
    usage: JudgeUsage = field(default_factory=JudgeUsage)
    reference: ReferenceReading | None = None
    """None: there was no reference answer, or the judge gave nothing usable of it."""
    reference_cause: Cause | None = None
    """Why there is no `reference` although there was a reference answer; None: `unreadable`."""

    @cached_property
    def claims(self) -> tuple[SentenceVerdict, ...] | None:
        """The sentences that assert something."""
        if self.sentences is None:
            return None
        return tuple(s for s in self.sentences if s.verdict is not Verdict.NO_CLAIM)

    @cached_property
    def counted_findings(self) -> tuple[SentenceVerdict, ...]:
        """The absent and contradicted sentences of severity major."""
        return tuple(s for s in self.sentences or () if s.finding is Severity.MAJOR)

    @property
    def finding_share(self) -> float:
        """The share of its claims that are counted findings; 0 where it claims nothing."""
        return len(self.counted_findings) / max(1, len(self.claims or ()))

    @property
    def hallucinated(self) -> bool | None:
        """Whether any sentence is absent or contradicted, and that is major.

        None where there is nothing to say: no readable verdicts, a refusal, or no claim.
        """
        return None if self.evasive or not self.claims else bool(self.counted_findings)

    @property
    def has_minor_findings_only(self) -> bool | None:
        """Whether the answer has findings, and all of them are minor. None as `hallucinated`."""
        if self.evasive or not self.claims:
            return None
        return not self.counted_findings and any(each.finding for each in self.claims)


class Cause(StrEnum):
    """Why there is no score. Counted and shown; never turned into a zero."""

    REFUSAL = "refusal"
    NO_CLAIMS = "no_claims"
    NO_CONTEXT = "no_context"
    NO_QUERY = "no_query"
    NO_ANSWER = "no_answer"
    NO_REFERENCE = "no_reference"
    NO_CITATIONS = "no_citations"
    NOT_ASKED = "not_asked"
    APPLICATION_ERROR = "application_error"
    PARTIAL = "partial"
    CAPTURE_INCOMPLETE = "capture_incomplete"
    NOT_SAMPLED = "not_sampled"
    OVER_BUDGET = "over_budget"
    JUDGE_BUSY = "judge_busy"
    JUDGE_DOWN = "judge_down"
    EVIDENCE_TOO_LONG = "evidence_too_long"
    TOO_LONG = "too_long"
    QUEUE_FULL = "queue_full"
    JUDGE_TIMEOUT = "judge_timeout"
    JUDGE_ERROR = "judge_error"
    JUDGE_REFUSED = "judge_refused"
    UNREADABLE = "unreadable"
    EVALUATOR_ERROR = "evaluator_error"
    SHUTDOWN = "shutdown"
    INTERNAL_ERROR = "internal_error"


FAILURES: Final = frozenset(
    {
        Cause.JUDGE_ERROR,
        Cause.JUDGE_REFUSED,
        Cause.JUDGE_TIMEOUT,
        Cause.JUDGE_DOWN,
        Cause.UNREADABLE,
        Cause.EVALUATOR_ERROR,
        Cause.INTERNAL_ERROR,
    }
)
"""Causes by which an evaluation ended in an error. A refusal, an answer without claims and a
question that was not asked are none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scored:
    """One score of one answer."""

    evaluator: str
    """Name and version, `faithfulness@1`. A changed formula or prompt is a new version."""
    judge: JudgeIdentity
    score: float
    explanation: str = ""
    """A text for people: which sentences, which words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unscored:
    """Why an answer has no such score."""

    evaluator: str
    judge: JudgeIdentity
    cause: Cause
    detail: str = ""
    """A text for people: the judge's error, in one line."""


Evaluation = Scored | Unscored


@lru_cache(maxsize=1_000)
def evaluator_name(identity: str) -> str:
    """Return the name in `name@version`."""
    return identity.partition("@")[0]


_TYPE_NAME = re.compile(r"[A-Za-z_][\w.]{0,99}", re.ASCII)


def error_type(error: str) -> str:
    """Return the type's name in `TypeName: message`; empty where what stands there is a text.

    Applications record errors of their own, and other instrumentations theirs: not all of them
    begin with a type, and what is no type may quote anything.
    """
    kind = error.partition(":")[0].strip()
    return kind if _TYPE_NAME.fullmatch(kind) else ""


class Diagnosis(StrEnum):
    """The fault of one answer in one word; the first that applies, in this order."""

    WRONG_REFUSAL = "wrong_refusal"
    """Declined although a chunk holds something that was asked for."""
    REFUSAL = "refusal"
    """Declined, and no chunk is known to hold what was asked for."""
    CONTRADICTION = "contradiction"
    """A claim says otherwise than the chunks."""
    RETRIEVAL_MISS = "retrieval_miss"
    """A claim is in no chunk, and no chunk holds what was asked for."""
    IGNORED_CONTEXT = "ignored_context"
    """A chunk holds what was asked for, and no claim rests on any chunk."""
    UNSUPPORTED_ADDITION = "unsupported_addition"
    """Some claims are in no chunk, beside others that are supported."""
    OFF_TOPIC = "off_topic"
    """Nothing is unsupported, and it does not speak to the question."""
    OK = "ok"
    UNKNOWN = "unknown"
    """The judge's reply could not be read where it matters."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplingDecision:
    """The decision whether a judge scores an answer, and how likely that was before."""

    inclusion_probability: float
    """From 0 (this answer could not be judged) to 1; means divide by it."""
    drawn: bool
    cause: Cause | None = None
    """Why it is not scored: `not_sampled`, `over_budget`, `judge_busy` or `judge_down`. With
    `drawn` its verdict is missing: the answer was drawn, and there was no budget left for it."""
    reserved: float = 0.0
    """Taken out of the budget for it, in the budget's unit."""
    rate: float = 1.0
    """The sampling rate common to all answers of the moment, 0 to 1; the inclusion probability
    varies around it."""

    @property
    def importance_weight(self) -> float:
        """The weight of this answer's verdict in alarms: `rate / inclusion_probability`, or 0.

        At most 2 for sampled answers: half of the rate is the same for all.
        """
        return self.rate / self.inclusion_probability if self.inclusion_probability > 0 else 0.0


CERTAIN = SamplingDecision(inclusion_probability=1.0, drawn=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """The prediction from past verdicts, before anybody judges the answer."""

    hallucination: float | None = None
    """Chance that it is hallucinated, given that it claims something; None: too few verdicts."""
    uncertainty: float = 1.0
    """Standard deviation of the verdict as predicted, relative to its mean over answers; >= 0."""
    expected: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    """The chance that the verdict has a value, and that value's mean, by signal; 0 to 1 each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompletedAnswer:
    """One answer of which nothing more is expected: what estimates and alarms read, once each."""

    builtin: Report
    """The report of the built-in judge."""
    prediction: Prediction = field(default_factory=Prediction)
    """The prediction as it stood before the draw."""
    decision: SamplingDecision | None = None
    """None: no judge but the built-in one is configured."""
    judged: Report | None = None
    """The judge's report, or that of a model in its place; without an assessment where all failed.
    None: not drawn."""
    target: SpanReference | None = None
    """The interaction's own root span; None: no trace was emitted."""

    @property
    def interaction(self) -> Interaction:
        """The question, the chunks and the answer."""
        return self.builtin.interaction


JudgeRole = Literal["builtin", "sampled", "anchor", "golden"]
"""The role in which a judge reads an answer: it reads every answer, a drawn share, a reference
answer, or the answer to a golden question. It does not follow from the judge's kind."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """Everything known of one interaction by one judge: what exporters and estimates read."""

    interaction: Interaction
    judge: JudgeIdentity
    evaluations: tuple[Evaluation, ...]
    """One per evaluator, in the order of the table."""
    assessment: Assessment | None
    """None: this judge did not read it, or gave nothing."""
    decision: SamplingDecision = CERTAIN
    diagnosis: Diagnosis | None = None
    """None: there is no assessment."""
    predicted: float | None = None
    """The chance, in the built-in judge's report, that the judge who scores a sample would find the
    answer hallucinated, as its earlier verdicts teach it. None: not known, or there is no such
    judge."""
    usage: JudgeUsage | None = None
    """The cost of asking, whether or not it gave anything; None: the judge was not asked."""
    target: SpanReference | None = None
    """The interaction's own root span; None: no trace was emitted."""
    role: JudgeRole = "sampled"
    late: bool = False
    """The root span had left before this was known."""

    @property
    def unsupported(self) -> tuple[SentenceVerdict, ...]:
        """The sentences that the chunks lack or contradict; empty too if nobody read them."""
        verdicts = self.assessment.sentences if self.assessment is not None else None
        return tuple(each for each in verdicts or () if each.finding)

    def __str__(self) -> str:
        """Say it for people: the scores, and each sentence that the chunks do not support."""
        scores, gaps = [], []
        for each in self.evaluations:
            name = evaluator_name(each.evaluator)
            if isinstance(each, Scored):
                scores.append(f"{name} {each.score:.2f}")
            elif each.cause is not Cause.NOT_ASKED:
                why = f"{each.cause}: {each.detail}".removesuffix(": ")
                gaps.append(f"  {name}: no score ({why})")
        lines = [f"{self.judge.name}: {' · '.join(scores) or 'no score'}", *gaps]
        for sentence in self.unsupported:
            lines.append(f"  {sentence.verdict}: {sentence.text.strip()!r}")
            lines.append(f"    {self.evidence(sentence)}")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        """Show it in a notebook: the answer with its unsupported sentences marked, and why."""
        text, answer, end = self.interaction.answer, "", 0
        for sentence in self.unsupported:
            answer += escape(text[end : sentence.start])
            answer += f"<mark>{escape(text[sentence.start : sentence.end])}</mark>"
            end = sentence.end
        answer += escape(text[end:])
        question, report = escape(self.interaction.query), escape(str(self))
        return f"<p><b>{question}</b></p><p>{answer}</p><pre>{report}</pre>"

    def evidence(self, sentence: SentenceVerdict) -> str:
        """Say which words are not in the chunks, or which chunk says otherwise."""
        chunks = self.interaction.chunks
        near = next((chunks[at].text for at in sentence.chunks if at < len(chunks)), "")
        words = ", ".join(dict.fromkeys(sentence.words))
        if sentence.verdict is Verdict.CONTRADICTED:
            finding = f"not so: {words}" if words else "a chunk says otherwise"
        else:
            finding = f"not in the chunks: {words}" if words else "not in the chunks"
        # What a judge says in words of its own, as the field that says otherwise.
        finding = "; ".join([finding, *(each for each in sentence.reasons if each not in REASONS)])
        if not near:
            return finding
        return (
            f"{finding}; chunk {sentence.chunks[0] + 1}: {shorten(near, 120, placeholder=' …')!r}"
        )


Window = Literal["1h", "24h"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SeriesKey:
    """The names of one number."""

    signal: str
    """`hallucination`, `minor_hallucination`, `refusal`, an evaluator's name, `empty_retrieval`,
    `weak_retrieval`."""
    judge: str
    """The judge whose verdicts they are; `none` for what needs no judge."""
    dimension: str = ""
    """The dimension of a part of the answers: `route`, `language`, ...; empty: all of
    them."""
    group: str = ""
    """The part: the value of the dimension."""


class Estimate(NamedTuple):
    """A mean of all answers to which a signal applies, and what may be said of it; 0 to 1."""

    mean: float
    """Of the answers that were observed."""
    lower: float
    """Lower end of the 95 % interval of the mean of *all* answers: what was not observed counts as
    the best or worst that it may have been."""
    upper: float
    effective_n: float
    """The size of a simple random sample that would say as much."""
    judged: float = 0.0
    """The number of verdicts behind it."""
    coverage: float = 1.0
    """Share of the window's answers that were observed, 0 to 1."""

    @property
    def standard_error(self) -> float:
        """Half of the interval, in standard errors of a normal law."""
        return (self.upper - self.lower) / (2 * 1.959964)


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowedMean:
    """A mean over a window, and how many of its answers it speaks of."""

    key: SeriesKey
    window: Window
    estimate: Estimate | None
    """None: less than half of the answers was observed."""
    judged: float
    """Answers that were read and scored."""
    missing: float
    """Share of the drawn answers without a verdict, by 1 / inclusion probability."""
    uncovered: float
    """Share of the answers that had no chance to be read."""


AlarmKind = Literal["quality", "input", "judge"]
"""The subject of an alarm: the answers, what comes in, or the judge itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AlarmState:
    """The state of one signal's evidence."""

    signal: str
    judge: str
    kind: AlarmKind
    evidence_s: float
    """In seconds: while the objectives are met, all alarms together reach this level at most once
    in so long. Held at its height while the alarm is active."""
    active: bool
    since_s: float | None = None
    """The time when it was raised, in seconds since the epoch; None: it is not active."""
    rising_since_s: float | None = None
    """The time since which the evidence has been rising; None: it is not."""
    span: AlarmSpan | None = None
    """The scored answers since the rise began, of an active alarm up to when it was raised; None:
    the evidence is not rising."""
    objective: float | None
    """The mean that is still accepted, in the signal's own scale; None: still learned."""
    learned: float = 1.0
    """Share of the verdicts that learning `objective` needs; 1: it is fixed."""
    higher_is_better: bool = False
    """The signal is better the higher it is: `objective` is the lowest mean accepted."""
    detail: str = ""
    """A text for people: what else is known."""


def is_difference(signal: str) -> bool:
    """Return whether a signal's scale of 0 to 1 holds differences of -1 to 1: 0.5 is none.

    So do the scores of golden questions, each of which is compared with its own history.
    """
    return signal.startswith("golden_") and signal != "golden_availability"


@dataclass(frozen=True, slots=True, kw_only=True)
class AlarmSpan:
    """The scored answers since a rise (of a cleared alarm: the recovery) began, and before it."""

    since_s: float
    """Seconds since the epoch."""
    scored: int
    """Answers since then that were scored, by all processes that share `state`."""
    mean: float
    """The mean of these, weighted by the inverse of their inclusion probability; on the signal's
    scale."""
    bad: int | None
    """The number of these that are bad; None: the signal is a score, and not a rate."""
    before: float | None
    """The mean before; None: nothing was scored before."""

    def of(self, signal: str) -> str:
        """Say it for people, with the time in UTC."""
        since = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(self.since_s))
        if self.bad is None:
            found = f"a mean of {on_scale(self.mean, signal)} over {self.scored} scored answers"
        else:
            found = f"{self.bad} of {self.scored} scored answers"
        before = "" if self.before is None else f"; {on_scale(self.before, signal)} before"
        return f"since {since}, {found}{before}"


def on_scale(mean: float, signal: str) -> str:
    """Return a mean in the signal's own scale: a difference from -1 to 1 with its sign."""
    return f"{2 * mean - 1:+.3g}" if is_difference(signal) else f"{mean:.3g}"


@dataclass(frozen=True, slots=True, kw_only=True)
class AlarmEvent:
    """An alarm that was raised, or cleared."""

    signal: str
    judge: str
    kind: AlarmKind
    raised: bool
    """False: cleared."""
    at_s: float
    """Seconds since the epoch."""
    since_s: float
    """The time since which the evidence had been rising; of a cleared one, when it was raised."""
    objective: float
    higher_is_better: bool = False
    detail: str = ""
    """A text for people: what else is known."""
    span: AlarmSpan | None = None
    """None: the alarm does not rest on scored answers."""

    def __str__(self) -> str:
        """Say it in one line, for a log."""
        sentence = f"alarm {'raised' if self.raised else 'cleared'}: {self.signal}"
        if self.span is not None:
            sentence += f"; {self.span.of(self.signal)}"
        side = "at least" if self.higher_is_better else "at most"
        limit = on_scale(self.objective, self.signal)
        sentence += f"; the limit is {side} {limit}, by {self.judge}"
        if self.detail:
            sentence += f". {self.detail}"
        return sentence


@dataclass(frozen=True, slots=True, kw_only=True)
class AlarmCause:
    """The cause of an active alarm, the judge or the application, as old answers tell."""

    cause: Literal["judge", "application", "unknown"]
    """`unknown`: not yet known. The others are wrong for at most 1 in 20 alarms each."""
    since_s: float
    """The time since which the rate has been rising, in seconds since the epoch."""
    reread: int
    """The number of old answers, found fine before, that the judge has read again."""
    flipped: int
    """The number of these that it finds hallucinated now."""
    waiting: int
    """The number of old answers that are still to be read again."""

    def __str__(self) -> str:
        """Say it in a sentence, for people."""
        counts = f"{self.flipped} of {self.reread} old answers that were fine flipped"
        if self.cause == "judge":
            return f"The judge has become stricter: {counts} (error at most 5 %)."
        if self.cause == "application":
            return f"It is the application, not the judge: {counts} (error at most 5 %)."
        return f"Judge or application is not yet known: {counts}; {self.waiting} can be read."


@dataclass(frozen=True, slots=True, kw_only=True)
class GaugeValue:
    """One plain gauge: its name in `metrics`, its labels but for the service, its value.

    Of a counter it is the count since the process began.
    """

    name: str
    value: float
    labels: tuple[tuple[str, str], ...] = ()

    @classmethod
    def of(cls, name: str, value: float, /, **labels: str) -> Self:
        """Return a gauge with these labels, in their order."""
        return cls(name=name, value=value, labels=tuple(labels.items()))

    @classmethod
    def interval(
        cls, name: str, mean: float, lower: float, upper: float, /, **labels: str
    ) -> tuple[Self, Self, Self]:
        """Return a mean and the ends of its interval, by the label `bound`, the last one."""
        return (
            cls.of(name, mean, **labels, bound="mean"),
            cls.of(name, lower, **labels, bound="lower"),
            cls.of(name, upper, **labels, bound="upper"),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """Every number of now, for people to scrape."""

    means: tuple[WindowedMean, ...] = ()
    alarms: tuple[AlarmState, ...] = ()
    gauges: tuple[GaugeValue, ...] = ()
    cause: AlarmCause | None = None
    """The cause of the alarm on hallucination or faithfulness; None: no alarm, or nobody judges."""
    views: Mapping[str, Any] = field(default_factory=dict)
    """The page's data beside the numbers, by the name of the view, ready for JSON: texts stand
    in it only where `content` permits."""
    records: Mapping[str, object] = field(default_factory=dict)
    """The records of /metrics.json beside the series, by name, ready for JSON: the versions that
    are compared, events. No texts."""
