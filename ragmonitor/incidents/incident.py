"""An incident as a record: alarms that were on together, their candidate causes, bad answers."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from fnmatch import fnmatchcase
from itertools import islice
from typing import Annotated, Final, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from ragmonitor.causes import CandidateKind, ChangePoint
from ragmonitor.causes.candidates import LISTED_FROM
from ragmonitor.causes.sources import name_of
from ragmonitor.export.content import Content, ContentPolicy, encodable
from ragmonitor.export.view.answers import closest
from ragmonitor.records import (
    AlarmCause,
    AlarmEvent,
    AlarmKind,
    AlarmSpan,
    AlarmState,
    Assessment,
    Chunk,
    Interaction,
    SentenceVerdict,
)

MAX_ALARMS: Final = 20
MAX_CANDIDATES: Final = 12
MAX_ANSWERS: Final = 10
MAX_SENTENCES: Final = 3
"""The number of sentences of one answer, the unsupported ones first."""
MAX_TEXT: Final = 600
"""Characters of one question, sentence or passage of a chunk."""
MAX_NAME: Final = 200
"""Characters of a name: of a signal, a document, an attribute's value."""
MAX_ATTRIBUTES: Final = 12

Scope = Literal["answers", "input"]
"""An incident is about the answers (quality, and the judge that says so), or about what comes in:
the two do not share one, since new kinds of questions may be on for weeks."""
CauseKind = CandidateKind | Literal["judge", "unknown"]


Name = Annotated[str, AfterValidator(lambda name: encodable(name)[:MAX_NAME])]
Detail = Annotated[str, AfterValidator(lambda text: encodable(text)[:MAX_TEXT])]


class Part(BaseModel):
    """A part of the record; it is read from files and addresses, so that it is checked."""

    model_config = ConfigDict(frozen=True, extra="ignore", from_attributes=True)

    @classmethod
    def kept(cls, record: object) -> Self | None:
        """Return what is kept of a record with attributes of these names; None: of none."""
        return None if record is None else cls.model_validate(record)


class Rate(Part):
    """A windowed mean with its 95 % interval."""

    mean: float
    lower: float
    upper: float
    effective_n: float


class IncidentAlarm(Part):
    """One alarm of the incident."""

    signal: Name
    judge: Name
    kind: AlarmKind
    raised_s: float
    """Seconds since the epoch, as all times here."""
    since_s: float
    """The time since which its evidence had been rising."""
    cleared_s: float | None = None
    """None: it is on."""
    objective: float | None
    higher_is_better: bool
    threshold_share: float
    """Evidence as a share of the threshold."""
    estimate: Rate | None = None
    """The last hour's, as of the last update: it holds answers from before the rise, too."""
    rise: AlarmSpan | None = None
    """The answers that it was raised by; None: it rests on no scored answers."""
    detail: Detail = ""


class Candidate(Part):
    """A `CandidateCause` without its examples; the fields are those of that record."""

    kind: CandidateKind
    name: Name
    signal: Name
    now: Rate | None
    before: Rate | None
    explained: float | None
    explained_lower: float | None
    explained_upper: float | None
    # Past it a float is infinite, which JSON cannot hold.
    e_value: Annotated[float, AfterValidator(lambda e: 1.0 if math.isnan(e) else min(e, 1e300))]
    is_discovery: bool
    is_compared: bool = True
    since_s: float | None
    detail: Detail
    detail_zh: Detail = ""

    @property
    def weight(self) -> tuple[bool, float, float]:
        """For sorting: what is shown before what is suspected, then by how much it explains."""
        known = (self.explained_lower, self.explained)
        share = next((each for each in known if each is not None), 0.0)
        return self.is_discovery, round(share, 2), self.e_value

    def has_evidence(self) -> bool:
        """Return whether more than chance speaks for it.

        An event is near in time, and says no more.
        """
        return self.is_discovery or self.kind == "event" or self.e_value >= LISTED_FROM

    def is_of(self, other: Candidate) -> bool:
        """Return whether another one is the slice of this version's answers."""
        if self.kind != "version" or other.kind != "slice":
            return False
        of, _, value = other.name.partition("=")
        # The service's own version is called "version 1.5", and another one "prompt_version 1.5".
        return self.name in (value, f"{of} {value}", f"{of.removeprefix('service_')} {value}")

    def as_document(self) -> Self:
        """Return the slice of one document's answers as that document, anything else as it is."""
        of, _, value = self.name.partition("=")
        if (self.kind, of) != ("slice", "source"):
            return self
        return self.model_copy(update={"kind": "document", "name": value})

    def with_slice(self, same: Candidate) -> Candidate:
        """Return it with what is known of the slice of the same answers."""
        shares = ("explained", "explained_lower", "explained_upper")
        new = {name: getattr(same, name) for name in shares} if self.explained is None else {}
        if not self.is_discovery and (same.is_discovery or same.e_value > self.e_value):
            new |= {"is_discovery": same.is_discovery, "e_value": same.e_value}
        return self.model_copy(update={"since_s": self.since_s or same.since_s} | new)


class NamedCause(Part):
    """The cause that the incident names."""

    kind: CauseKind
    """`unknown`: nothing is shown yet."""
    name: str = ""
    named_s: float
    """The time when it was named first."""


class Change(Part):
    """The time when the signal changed, by its verdicts; the fields are those of `ChangePoint`."""

    at_s: float
    lower_s: float
    upper_s: float
    before: Rate | None = None
    after: Rate | None = None
    until_s: float | None = None
    """Up to when `after` counts answers."""

    @classmethod
    def until(cls, change: ChangePoint, now_s: float) -> Self:
        """Return what is kept of it at a time."""
        return cls.model_validate(asdict(change) | {"until_s": now_s})

    def gap(self, *, higher_is_better: bool) -> float:
        """Return by how much the intervals before and after are apart; below 0: they overlap."""
        if self.before is None or self.after is None:
            return -math.inf
        if higher_is_better:
            return self.before.lower - self.after.upper
        return self.after.lower - self.before.upper


class JudgeCheck(Part):
    """Judge or application, as reference answers tell; the fields are those of `AlarmCause`."""

    cause: Literal["judge", "application", "unknown"]
    reread: int
    flipped: int
    waiting: int
    text: str

    @classmethod
    def told(cls, cause: AlarmCause) -> Self:
        """Return what is kept of it, with its text."""
        return cls.model_validate(asdict(cause) | {"text": str(cause)})


class BadSentence(Part):
    """An unsupported sentence of an answer, with the passage it was held against."""

    number: int
    """From 1."""
    verdict: str
    text: str
    """Empty: texts are withheld."""
    words: tuple[str, ...]
    chunk: int | None
    """Position of the chunk, from 1; None: it was held against none."""
    source: Name
    """The chunk's document or id."""
    passage: str


class BadAnswer(Part):
    """One bad answer."""

    id: Name
    at_s: float
    trace_id: str
    """32 hex digits; empty: no trace was emitted."""
    badness: float
    question: str
    attributes: dict[Name, Name]
    sentences: tuple[BadSentence, ...]
    causes: tuple[str, ...] = ()
    """Candidates that it is an example of, by kind and name."""

    @classmethod
    def of(
        cls,
        interaction: Interaction,
        assessment: Assessment | None,
        *,
        badness: float,
        policy: ContentPolicy,
        trace_id: str = "",
        leave_out: Sequence[str] = (),
    ) -> Self:
        """Return what is kept of an answer.

        Args:
            interaction: The answer.
            assessment: What the judge says of it.
            badness: How bad it is, 0 to 1.
            policy: How texts are kept.
            trace_id: Of its trace; empty: none was emitted.
            leave_out: Patterns of names of attributes that are not kept: `user*`.
        """
        sentences = assessment.sentences if assessment is not None else None
        findings = assessment.counted_findings if assessment is not None else ()
        return cls(
            id=interaction.id,
            at_s=interaction.ended_ns / 1e9,
            trace_id=trace_id,
            badness=badness,
            question=_text(interaction.query, policy),
            attributes={
                name: str(value)
                for name, value in islice(
                    (
                        (name, value)
                        for name, value in interaction.attributes.items()
                        if not any(fnmatchcase(name, each) for each in leave_out)
                    ),
                    MAX_ATTRIBUTES,
                )
            },
            sentences=tuple(
                _sentence(interaction.chunks, each, (sentences or findings).index(each), policy)
                for each in findings[:MAX_SENTENCES]
            ),
        )

    @property
    def text(self) -> tuple[str, ...]:
        """What it asks and says, as far as it is kept; nothing where texts are withheld."""
        return (self.question, *(each.text for each in self.sentences)) if self.question else ()

    def is_of(self, cause: NamedCause) -> bool:
        """Return whether it is one of the answers of a cause, by its attributes or as an example.

        An attribute that is not kept of the answer, and what is no attribute (a language, a
        document), is known of examples alone.
        """
        if f"{cause.kind} {cause.name}" in self.causes:
            return True
        of, _, value = cause.name.partition(" ")
        if cause.kind == "version":
            return self.attributes.get("service_version" if of == "version" else of) == value
        name, _, value = cause.name.partition("=")
        return cause.kind == "slice" and self.attributes.get(name) == value


class Incident(Part):
    """Alarms that were on together, and what is known of why."""

    id: str = Field(pattern=r"^[0-9A-Za-z-]{1,80}$")
    service: str
    service_version: str
    content: Content
    scope: Scope
    owner: str
    """The process that keeps it up to date."""
    opened_s: float
    updated_s: float
    closed_s: float | None = None
    """None: it is open."""
    noticed_s: float
    """When somebody was last told of it."""
    alarms: tuple[IncidentAlarm, ...]
    change: Change | None = None
    """The change of the leading signal, as of the update at which before and after were furthest
    apart."""
    check: JudgeCheck | None = None
    candidates: tuple[Candidate, ...] = ()
    cause: NamedCause
    answers: tuple[BadAnswer, ...] = ()

    @property
    def is_open(self) -> bool:
        """Whether any of its alarms is on."""
        return self.closed_s is None

    @property
    def since_s(self) -> float:
        """The time since which the evidence of its first alarm had been rising."""
        return min(alarm.since_s for alarm in self.alarms)

    @property
    def leading(self) -> IncidentAlarm:
        """The alarm that it is told by: hallucination first, then quality, then the earliest."""
        return min(
            self.alarms,
            key=lambda each: (
                each.signal != "hallucination",
                each.kind != "quality",
                each.raised_s,
            ),
        )

    def with_alarm(self, alarm: IncidentAlarm) -> Self:
        """Return it with an alarm added, or in place of what was known of it."""
        others = tuple(
            each for each in self.alarms if (each.signal, each.judge) != (alarm.signal, alarm.judge)
        )
        return self.model_copy(update={"alarms": (*others, alarm)[:MAX_ALARMS]})

    def with_cleared(self, is_on: Iterable[tuple[str, str]], now_s: float) -> Self:
        """Return it with the alarms cleared that are not on any more, closed if none is.

        Args:
            is_on: Signal and judge of every alarm that is on.
            now_s: The time of it.
        """
        on = set(is_on)
        alarms = tuple(
            each.model_copy(update={"cleared_s": now_s})
            if each.cleared_s is None and (each.signal, each.judge) not in on
            else each
            for each in self.alarms
        )
        ended = all(each.cleared_s is not None for each in alarms)
        return self.model_copy(update={"alarms": alarms, "closed_s": now_s if ended else None})

    def explained(
        self,
        check: JudgeCheck | None,
        candidates: Sequence[Candidate],
        now_s: float,
        *,
        is_fading: bool = False,
    ) -> Self:
        """Return it with what is known of its cause now.

        A cause that was named stays until another one is shown: evidence fades once the alarm's
        cause is gone, and the name would with it.

        Args:
            check: Judge or application.
            candidates: What may be the cause, as of now.
            now_s: The time of it.
            is_fading: Answers are well again, and thin out the figures of the rise: those that
                are listed stay, unless another cause is shown. What is shown now and was not then
                is added.
        """
        suspects = filter(Candidate.has_evidence, _merged(candidates))
        ranked = sorted(suspects, key=lambda each: each.weight, reverse=True)
        ranked = ranked[:MAX_CANDIDATES]
        kind: CauseKind = "unknown"
        name = ""
        if check is not None and check.cause == "judge":
            kind = "judge"
        elif ranked and ranked[0].is_discovery:
            kind, name = ranked[0].kind, ranked[0].name
        cause = self.cause
        is_same = (cause.kind, cause.name) == (kind, name)
        if (kind == "unknown" != cause.kind) or (is_fading and is_same and self.candidates):
            ranked = self._with_shown(ranked)
        elif not is_same:
            cause = NamedCause(kind=kind, name=name, named_s=now_s)
        return self.model_copy(
            update={
                "check": check,
                "candidates": tuple(ranked),
                "cause": cause,
                "updated_s": now_s,
            }
        )

    def _with_shown(self, now: Sequence[Candidate]) -> list[Candidate]:
        """Return the candidates as they are listed, and those that are shown by now, too."""
        listed = {(each.kind, each.name): each for each in self.candidates}
        for each in now:
            known = listed.get((each.kind, each.name))
            if each.is_discovery and not (known and known.is_discovery):
                listed[each.kind, each.name] = each
        ranked = sorted(listed.values(), key=lambda each: each.is_discovery, reverse=True)
        return ranked[:MAX_CANDIDATES]

    @property
    def named(self) -> Candidate | None:
        """The candidate that is named as the cause; None: the judge is, or nothing."""
        wanted = (self.cause.kind, self.cause.name)
        return next((each for each in self.candidates if (each.kind, each.name) == wanted), None)

    def with_answers(self, answers: Iterable[BadAnswer]) -> Self:
        """Return it with the worst of its answers and these: those of the named cause first.

        Of those that ask and say the same one is kept: the same question is often asked again.
        """
        by_id: dict[str, BadAnswer] = {}
        for each in (*self.answers, *answers):
            causes = by_id[each.id].causes if each.id in by_id else ()
            causes = tuple(dict.fromkeys((*causes, *each.causes)))
            by_id[each.id] = each.model_copy(update={"causes": causes[:MAX_CANDIDATES]})
        ranked = sorted(
            by_id.values(),
            key=lambda each: (each.is_of(self.cause), each.badness, each.at_s),
            reverse=True,
        )
        different = {each.text or each.id: each for each in reversed(ranked)}
        kept = [each for each in ranked if different[each.text or each.id] is each]
        return self.model_copy(update={"answers": tuple(kept[:MAX_ANSWERS])})


def _merged(candidates: Sequence[Candidate]) -> list[Candidate]:
    """Return the candidates, a slice of a version's answers told with that one.

    The slice is the same answers by another name: it says less than the version itself, but how
    much of the rise goes with it, and it may be shown sooner. The slice of a document's answers is
    told as the document.
    """
    found = list(candidates)
    for cause in candidates:
        same = next((each for each in candidates if cause.is_of(each)), None)
        if same is not None:
            found[found.index(cause)] = cause.with_slice(same)
            found = [each for each in found if each is not same]
    return [each.as_document() for each in found]


def scope_of(kind: AlarmKind) -> Scope:
    """Return which incident an alarm belongs to."""
    return "input" if kind == "input" else "answers"


def alarm_of_event(event: AlarmEvent) -> IncidentAlarm:
    """Return what is kept of an alarm that was just raised."""
    return IncidentAlarm(
        signal=event.signal,
        judge=event.judge,
        kind=event.kind,
        raised_s=event.at_s,
        since_s=min(
            event.since_s, event.at_s, event.at_s if event.span is None else event.span.since_s
        ),
        objective=event.objective,
        higher_is_better=event.higher_is_better,
        threshold_share=_share(event.evidence_s, event.threshold_s),
        estimate=Rate.kept(event.estimate),
        rise=event.span,
        detail=event.detail,
    )


def alarm_of_state(state: AlarmState, threshold_s: float, now_s: float) -> IncidentAlarm:
    """Return what is kept of an alarm that another process raised, or an earlier run."""
    raised_s = now_s if state.since_s is None else state.since_s
    rising_s = raised_s if state.rising_since_s is None else state.rising_since_s
    return IncidentAlarm(
        signal=state.signal,
        judge=state.judge,
        kind=state.kind,
        raised_s=raised_s,
        since_s=min(raised_s, rising_s),
        objective=state.objective,
        higher_is_better=state.higher_is_better,
        threshold_share=_share(state.evidence_s, threshold_s),
        rise=state.span,
    )


def _share(evidence_s: float, threshold_s: float) -> float:
    return min(1e300, evidence_s / threshold_s) if threshold_s > 0 else 0.0


def _text(text: str, policy: ContentPolicy) -> str:
    shown = encodable(policy.text(text))
    return shown if len(shown) <= MAX_TEXT else shown[: MAX_TEXT - 1] + "…"


def _sentence(
    chunks: Sequence[Chunk], sentence: SentenceVerdict, at: int, policy: ContentPolicy
) -> BadSentence:
    position = next((each for each in sentence.chunks if each < len(chunks)), None)
    chunk = None if position is None else chunks[position]
    return BadSentence(
        number=at + 1,
        verdict=sentence.verdict.value,
        text=_text(sentence.text.strip(), policy),
        words=tuple(_text(word, policy) for word in sentence.words[:8] if policy.shows),
        chunk=None if position is None else position + 1,
        source="" if chunk is None else name_of(chunk, policy),
        passage="" if chunk is None else _passage(chunk.text, sentence.text, policy),
    )


def _passage(text: str, sentence: str, policy: ContentPolicy) -> str:
    """Return the passage of a chunk that is closest to a sentence."""
    if policy.content != "all":
        return _text(text, policy)
    parts = closest(text, [sentence])
    return _text(next((part for part, near in parts if near), text).strip(), policy)
