"""An incident as a record: alarms that were on together, what explains them, bad answers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Annotated, Final, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from ragmonitor.causes import Explanation, PartKind
from ragmonitor.causes.documents import name_of
from ragmonitor.export.content import Content, ContentPolicy
from ragmonitor.export.view.answers import closest
from ragmonitor.records import (
    AlarmCause,
    AlarmKind,
    AlarmSpan,
    Chunk,
    Report,
    SentenceVerdict,
    is_private,
)
from ragmonitor.runtime.printable import printable

MAX_ALARMS: Final = 20
MAX_ANSWERS: Final = 3
MAX_SENTENCES: Final = 3
"""The number of sentences of one answer, the unsupported ones first."""
MAX_EVENTS: Final = 5
MAX_TEXT: Final = 600
"""Characters of one question, sentence or passage of a chunk."""
MAX_NAME: Final = 200
"""Characters of a name: of a signal, a document, an attribute's value."""
MAX_ATTRIBUTES: Final = 12

CauseKind = PartKind | Literal["judge", "everywhere", "unknown"]
NAMELESS: Final = ("unknown", "everywhere")
"""The kinds of cause that name nothing."""

Occasion = Literal["raised", "named", "cleared"]
"""`named`: a cause is named for the first time."""

Name = Annotated[str, AfterValidator(lambda name: printable(name)[:MAX_NAME])]
Text = Annotated[str, AfterValidator(lambda text: printable(text)[:MAX_TEXT])]
"""Cleaned where the record is made: whatever way it leaves by, no control character does."""


class Part(BaseModel):
    """A part of the record; it is read from stores and addresses, so that it is checked."""

    model_config = ConfigDict(frozen=True, extra="ignore", from_attributes=True, defer_build=True)


class Rate(Part):
    """A mean with its 95 % interval."""

    mean: float
    lower: float
    upper: float


class IncidentAlarm(Part):
    """One alarm of the incident; but for its end the fields are those of `AlarmState`."""

    signal: Name
    judge: Name
    kind: AlarmKind
    since_s: float
    """When it was raised."""
    rising_since_s: float | None = None
    """The time since which its evidence had been rising; None: it is not known."""
    cleared_s: float | None = None
    """None: it is on."""
    objective: float | None
    higher_is_better: bool
    span: AlarmSpan | None = None
    """None: it rests on no scored answers."""
    detail: Text = ""

    @property
    def key(self) -> tuple[str, str]:
        """Tells alarms apart."""
        return self.signal, self.judge


class Shift(Part):
    """A change of the mix of the traffic; the fields are those of `causes.Shift`."""

    dimension: Name
    share: float


class NearEvent(Part):
    """What happened shortly before the rise began."""

    kind: Name
    name: Name
    at_s: float


class NamedCause(Part):
    """The cause that the incident names."""

    kind: CauseKind
    """`everywhere`: parts were compared, and none stands out; `unknown`: nothing is known yet."""
    name: Name = ""
    now: Rate | None = None
    """The mean over its answers since the rise began; None: not known of documents."""
    before: Rate | None = None


class BadSentence(Part):
    """An unsupported sentence of an answer, with the passage it was held against."""

    number: int
    """From 1."""
    verdict: Name
    text: Text
    """Empty: texts are withheld."""
    words: tuple[Name, ...]
    chunk: int | None
    """Position of the chunk, from 1; None: it was held against none."""
    source: Name
    """The chunk's document or id."""
    passage: Text


class BadAnswer(Part):
    """One bad answer."""

    id: Name
    at_s: float
    trace_id: Name
    """32 hex digits; empty: no trace was emitted."""
    badness: float
    question: Text
    attributes: dict[Name, Name]
    sentences: tuple[BadSentence, ...]

    @classmethod
    def of(cls, report: Report, *, badness: float, policy: ContentPolicy) -> Self:
        """Return what is kept of an answer.

        Args:
            report: By the judge that finds it bad.
            badness: How bad it is, 0 to 1.
            policy: How texts are kept.
        """
        interaction, assessment = report.interaction, report.assessment
        sentences = assessment.sentences if assessment is not None else None
        findings = assessment.counted_findings if assessment is not None else ()
        kept = (
            (name, str(value))
            for name, value in interaction.attributes.items()
            if not is_private(name)
        )
        return cls(
            id=interaction.id,
            at_s=interaction.ended_ns / 1e9,
            trace_id="" if report.target is None else report.target.trace_id,
            badness=badness,
            question=_shown(interaction.query, policy),
            attributes=dict(islice(kept, MAX_ATTRIBUTES)),
            sentences=tuple(
                _sentence(interaction.chunks, each, (sentences or findings).index(each), policy)
                for each in findings[:MAX_SENTENCES]
            ),
        )

    @property
    def said(self) -> tuple[str, ...]:
        """What it asks and says, as far as it is kept; nothing where texts are withheld."""
        return (self.question, *(each.text for each in self.sentences)) if self.question else ()

    def is_of(self, cause: NamedCause) -> bool:
        """Return whether it is one of the answers of a cause, as far as it tells."""
        if cause.kind == "document":
            return any(each.source == cause.name for each in self.sentences)
        if cause.kind == "version":
            of, _, value = cause.name.partition(" ")
            return self.attributes.get("service_version" if of == "version" else of) == value
        name, _, value = cause.name.partition("=")
        return cause.kind == "slice" and self.attributes.get(name) == value


class Incident(Part):
    """Alarms that were on together, and what is known of why."""

    id: str = Field(pattern=r"^[0-9A-Za-z-]{1,80}$")
    service: Name
    content: Content
    opened_s: float
    updated_s: float
    closed_s: float | None = None
    """None: it is open."""
    alarms: tuple[IncidentAlarm, ...]
    check: AlarmCause | None = None
    shift: Shift | None = None
    events: tuple[NearEvent, ...] = ()
    cause: NamedCause
    answers: tuple[BadAnswer, ...] = ()

    @property
    def is_open(self) -> bool:
        """Whether any of its alarms is on."""
        return self.closed_s is None

    @property
    def since_s(self) -> float:
        """The time since which the evidence of its first alarm had been rising."""
        rises = [alarm.rising_since_s for alarm in self.alarms]
        return min([self.opened_s, *(each for each in rises if each is not None)])

    @property
    def leading(self) -> IncidentAlarm:
        """The alarm that it is told by: hallucination first, then quality, then the earliest."""
        return min(
            self.alarms,
            key=lambda each: (
                each.signal != "hallucination",
                each.kind != "quality",
                each.since_s,
            ),
        )

    def with_alarms(self, alarms: tuple[IncidentAlarm, ...], now_s: float) -> Self:
        """Return it with these alarms, and closed if none of them is on any more."""
        is_open = any(each.cleared_s is None for each in alarms)
        closed_s = None if is_open else now_s
        return self.model_copy(update={"alarms": alarms[:MAX_ALARMS], "closed_s": closed_s})

    def explained(self, check: AlarmCause | None, found: Explanation | None, now_s: float) -> Self:
        """Return it with what is known of its cause now.

        A cause that was named stays until another one is shown: evidence fades once the alarm's
        cause is gone, and the name would with it.

        Args:
            check: Judge or application.
            found: What stands out; None: nobody has looked.
            now_s: The time of it.
        """
        update: dict[str, object] = {"check": check or self.check, "updated_s": now_s}
        cause = NamedCause(kind="unknown")
        if found is not None:
            update["events"] = tuple(map(NearEvent.model_validate, found.events[:MAX_EVENTS]))
            update["shift"] = found.shift and Shift(**found.shift._asdict())
            if found.is_everywhere:
                cause = NamedCause(kind="everywhere")
            for part in found.parts[:1]:
                cause = NamedCause.model_validate(part)
        if check is not None and check.cause == "judge":
            cause = NamedCause(kind="judge")
        if cause.kind not in NAMELESS or self.cause.kind == "unknown":
            update["cause"] = cause
        return self.model_copy(update=update)

    def with_answers(self, answers: Iterable[BadAnswer]) -> Self:
        """Return it with the worst of its answers and these: those of the named cause first.

        Of those that ask and say the same one is kept: the same question is often asked again.
        """
        by_id = {each.id: each for each in (*self.answers, *answers)}
        ranked = sorted(
            by_id.values(),
            key=lambda each: (each.is_of(self.cause), each.badness, each.at_s),
            reverse=True,
        )
        different = {each.said or each.id: each for each in reversed(ranked)}
        kept = [each for each in ranked if different[each.said or each.id] is each]
        return self.model_copy(update={"answers": tuple(kept[:MAX_ANSWERS])})

    def is_permitted(self, content: Content) -> bool:
        """Return whether a content policy permits what this incident keeps."""
        order = ("all", "hashed", "none")
        return order.index(self.content) >= order.index(content)


def _shown(text: str, policy: ContentPolicy) -> str:
    shown = policy.text(text)
    return shown if len(shown) <= MAX_TEXT else shown[: MAX_TEXT - 1] + "…"


def _sentence(
    chunks: Sequence[Chunk], sentence: SentenceVerdict, at: int, policy: ContentPolicy
) -> BadSentence:
    position = next((each for each in sentence.chunks if each < len(chunks)), None)
    chunk = None if position is None else chunks[position]
    return BadSentence(
        number=at + 1,
        verdict=sentence.verdict.value,
        text=_shown(sentence.text.strip(), policy),
        words=tuple(_shown(word, policy) for word in sentence.words[:8] if policy.shows),
        chunk=None if position is None else position + 1,
        source="" if chunk is None else name_of(chunk, policy),
        passage="" if chunk is None else _passage(chunk.text, sentence.text, policy),
    )


def _passage(text: str, sentence: str, policy: ContentPolicy) -> str:
    """Return the passage of a chunk that is closest to a sentence."""
    if policy.content != "all":
        return _shown(text, policy)
    parts = closest(text, [sentence])
    return _shown(next((part for part, near in parts if near), text).strip(), policy)
