"""One call to a model, as it is noted in the request path, and what becomes of it behind it."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from opentelemetry.trace import SpanContext, format_span_id, format_trace_id

from ragmonitor import (
    Chunk,
    Generation,
    Interaction,
    Message,
    Retrieval,
    SpanReference,
    Usage,
    record_error,
)
from ragmonitor_litellm.extracting import (
    METADATA_KEY,
    Extracted,
    Extractor,
    chunk_of,
    from_metadata,
    last_question,
    text_of,
)

FRAMEWORK = "litellm"
REDACTED = "redacted-by-litellm"
"""What litellm puts in the place of texts that its callbacks must not see."""

Status = Literal["ok", "error", "partial", "cancelled"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """A try that failed, and after which litellm tried again."""

    model: str
    provider: str
    started_ns: int
    ended_ns: int
    error: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What a model replied, read off litellm's object at once: the application may change it."""

    text: str
    is_answer: bool
    """False: it asks for tools, with or without words."""
    model: str
    usage: Usage


@dataclass(slots=True, kw_only=True, eq=False)
class Call:
    """What is noted of one call while it goes on. Texts by reference; nothing is read yet."""

    messages: tuple[Any, ...]
    told: Mapping[str, Any]
    """What litellm tells of it, for extractors; see `TOLD`."""
    extract: Extractor | None
    caller: SpanContext | None
    trace_id: str
    model: str
    provider: str
    started_ns: int
    streams: bool
    id: str = field(default_factory=lambda: uuid.uuid4().hex)
    began_ns: int = 0
    """The last try."""
    ended_ns: int = 0
    attempts: list[Attempt] = field(default_factory=list)
    error: str = ""
    """Of the last try, where it failed."""
    was_seen: bool = False
    """A try failed after the user had seen a part of its answer."""
    is_redacted: bool = False
    block: Any = None
    """The block of plain code that waits for it, with what stands for it there."""
    is_gathered: bool = False
    """It is, or was, part of a block."""
    is_routed: bool = False
    """It is one try of a router's, which may go on with another."""
    ticket: list[None] = field(default_factory=lambda: [None])
    """Taken once, by whoever sees the end first: `pop` is atomic."""

    def ends(self) -> bool:
        """Return whether this is the first that is heard of the end."""
        try:
            self.ticket.pop()
        except IndexError:
            return False
        return True


class FinishedCall:
    """A call that has ended: an interaction, or part of a block; read behind the request path."""

    framework = FRAMEWORK

    def __init__(self, call: Call, status: Status, reply: Reply | None, *, cached: bool) -> None:
        self.status: Status = status
        self._call = call
        self._reply = reply
        self._cached = cached
        self._read: tuple[Extracted | None, bool] | None = None

    @property
    def ended_ns(self) -> int:
        """When it ended."""
        return self._call.ended_ns

    def interaction(self) -> Interaction | None:
        """Return the record; None: no question over retrieved text, or tools were asked for."""
        try:
            return self._interaction()
        except Exception as error:  # noqa: BLE001 - counted and kept, without what cannot be read
            record_error("capture", error)
            return Interaction(
                id=self._call.id,
                query="",
                chunks=(),
                answer="",
                framework=FRAMEWORK,
                started_ns=self._call.started_ns,
                ended_ns=self._call.ended_ns,
                status=self.status,
                capture_incomplete=True,
            )

    def _interaction(self) -> Interaction | None:
        if self._reply is not None and not self._reply.is_answer:
            return None
        extracted, is_incomplete = self._extracted()
        if extracted is None:
            return None
        call, labels, generations = self._call, self.labels(), self.generations()
        retrievals = self.retrievals()
        return Interaction(
            id=call.id,
            query=extracted.query,
            chunks=tuple(chunk for retrieval in retrievals for chunk in retrieval.chunks),
            answer=self.answer(),
            framework=FRAMEWORK,
            started_ns=call.started_ns,
            ended_ns=call.ended_ns,
            status=self.status,
            error=call.error if self.status == "error" else "",
            retrievals=retrievals,
            generations=generations,
            usage=sum((g.usage for g in generations), Usage()),
            caller=_reference(call.caller),
            session_id=labels["session_id"],
            user_id=labels["user_id"],
            tags=labels["tags"],
            attributes=labels["attributes"],
            capture_incomplete=is_incomplete,
        )

    # --- as a part of a block -------------------------------------------------------------------

    def retrievals(self) -> tuple[Retrieval, ...]:
        """Return what was extracted, as one retrieval that took no time."""
        extracted, _ = self._extracted()
        if extracted is None:
            return ()
        started_ns = self._call.started_ns
        return (
            Retrieval(
                query=extracted.query,
                chunks=tuple(chunk_of(each) for each in extracted.chunks),
                started_ns=started_ns,
                ended_ns=started_ns,
            ),
        )

    def shown(self) -> tuple[Chunk, ...]:
        """Return nothing: what was retrieved is read off the prompt."""
        return ()

    def retrieved(self) -> tuple[Chunk, ...]:
        """Return nothing: what was not shown is not seen."""
        return ()

    def generations(self) -> tuple[Generation, ...]:
        """Return the call, after the tries that failed before it."""
        call, reply = self._call, self._reply
        failed = tuple(
            Generation(
                output="",
                started_ns=each.started_ns,
                ended_ns=each.ended_ns,
                model=each.model,
                provider=each.provider,
                error=each.error,
            )
            for each in call.attempts
        )
        last = Generation(
            input=() if self._is_redacted() else _prompt(self._messages()),
            output="" if reply is None or self._is_redacted() else reply.text,
            started_ns=call.began_ns,
            ended_ns=call.ended_ns,
            model=call.model if reply is None else reply.model,
            provider=call.provider,
            usage=Usage() if reply is None or self._cached else reply.usage,
            error=call.error if self.status == "error" else "",
        )
        return (*failed, last)

    def answer(self) -> str:
        """Return the text that the user saw; empty if litellm did not tell it."""
        if self._reply is None or not self._reply.is_answer or self._is_redacted():
            return ""
        return self._reply.text

    def labels(self) -> dict[str, Any]:
        """Return what the application says of the call in litellm's own words."""
        told = self._call.told
        params = told.get("litellm_params") or {}
        metadata = [each for each in metadata_of(params) if isinstance(each, Mapping)]

        def first(*names: str) -> str:
            values = (each.get(name) for each in metadata for name in names)
            return next((v for v in values if isinstance(v, str) and v), "")

        attributes: dict[Any, Any] = {
            name: value
            for name, value in (
                ("litellm_call_id", told.get("litellm_call_id")),
                ("model_group", first("model_group")),
                ("trace_id", first("trace_id")),
                ("cache_hit", "true" if self._cached else ""),
            )
            if isinstance(value, str) and value
        }
        said = first_marked(metadata)
        if isinstance(said, Mapping) and isinstance(said.get("attributes"), Mapping):
            attributes |= said["attributes"]
        tags = next((t for each in metadata if isinstance(t := each.get("tags"), list | tuple)), ())
        user = (told.get("optional_params") or {}).get("user") or told.get("user")
        session = params.get("litellm_session_id")
        if session == first("trace_id"):
            session = None  # litellm's own substitute, and one trace is not a session
        return {
            "session_id": first("session_id", "litellm_session_id") or _text(session),
            "user_id": _text(user) or first("user_id", "trace_user_id", "user_api_key_end_user_id"),
            "tags": tuple(tag for tag in tags if isinstance(tag, str)),
            "attributes": attributes,
            "capture_incomplete": self._extracted()[1],
        }

    # --- what it is made of ---------------------------------------------------------------------

    def _messages(self) -> list[Mapping[str, Any]]:
        return [found for m in self._call.messages if (found := _mapping(m)) is not None]

    def _is_redacted(self) -> bool:
        return self._call.is_redacted or (self._reply is not None and self._reply.text == REDACTED)

    def _extracted(self) -> tuple[Extracted | None, bool]:
        """Return what the call is about, and whether texts of it are missing."""
        if self._read is None:
            self._read = self._extract()
        return self._read

    def _extract(self) -> tuple[Extracted | None, bool]:
        messages, told = self._messages(), self._call.told
        said = first_marked(metadata_of(told.get("litellm_params") or {}))
        if said is False or (said is None and self._call.extract is None):
            return None, False
        extracted: Extracted | None = None
        try:
            if said is not None:
                extracted = from_metadata(said, messages)
            elif self._call.extract is not None:
                extracted = self._call.extract(messages, told)
            if extracted is None:
                return None, False
            extracted = Extracted(
                query=str(extracted.query), chunks=[chunk_of(each) for each in extracted.chunks]
            )
        except Exception as error:  # noqa: BLE001 - an extractor is anybody's code
            # Counted and not scored: with chunks missing, a truthful answer would look invented.
            record_error("capture", error)
            extracted = Extracted(query=last_question(messages))
            return (Extracted(query="") if self._is_redacted() else extracted), True
        if self._is_redacted():
            return Extracted(query=""), True
        return extracted, self._call.was_seen


def metadata_of(params: Mapping[str, Any]) -> list[Any]:
    """Return where metadata may stand: what the proxy's client sent, and the call's own."""
    own, proxys = params.get("metadata"), params.get("litellm_metadata")
    asked = [m.get("requester_metadata") for m in (own, proxys) if isinstance(m, Mapping)]
    return [*asked, own, proxys]


def first_marked(metadata: Sequence[Any]) -> Any:
    """Return what stands under our key: of the call, False: it is to be left out; None: nothing."""
    for each in metadata:
        if isinstance(each, Mapping) and each.get(METADATA_KEY) is not None:
            return each[METADATA_KEY]
    return None


def reply_in(response: Any, model: str) -> Reply | None:
    """Return what a chat completion says; None: it is none. In the request path: look-ups only."""
    choices = getattr(response, "choices", None)
    message = getattr(choices[0], "message", None) if choices else None
    if message is None:
        return None
    content = getattr(message, "content", None)
    used = getattr(response, "usage", None)
    inputs = getattr(used, "prompt_tokens", None)
    outputs = getattr(used, "completion_tokens", None)
    # Zero both ways is what litellm fills in where the provider said nothing.
    counted = bool(inputs or outputs)
    asks_for_tools = getattr(message, "tool_calls", None) or getattr(message, "function_call", None)
    return Reply(
        text=content if isinstance(content, str) else "",
        is_answer=not asks_for_tools,
        model=getattr(response, "model", None) or model,
        usage=Usage(input_tokens=inputs, output_tokens=outputs) if counted else Usage(),
    )


def _mapping(message: Any) -> Mapping[str, Any] | None:
    if isinstance(message, Mapping):
        return message
    dump = getattr(message, "model_dump", None)
    if not callable(dump):
        return None
    try:
        found = dump()
    except Exception as error:  # noqa: BLE001 - a message of the application's own class
        record_error("capture", error)
        return None
    return found if isinstance(found, Mapping) else None


def _prompt(messages: Sequence[Mapping[str, Any]]) -> tuple[Message, ...]:
    return tuple(
        Message(role=str(message.get("role", "user")), text=text)
        for message in messages
        if (text := text_of(message))
    )


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _reference(span: SpanContext | None) -> SpanReference | None:
    if span is None:
        return None
    return SpanReference(
        trace_id=format_trace_id(span.trace_id),
        span_id=format_span_id(span.span_id),
        sampled=span.trace_flags.sampled,
        trace_state=span.trace_state.to_header(),
    )
