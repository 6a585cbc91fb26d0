"""The dialects that are read, and which of them a span speaks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal, Protocol, TypeVar

from ragmonitor.capture.otel_spans import genai, openinference, openllmetry
from ragmonitor.capture.otel_spans.spans import ForeignSpan
from ragmonitor.capture.otel_spans.texts import NOT_SAID, Found
from ragmonitor.guard import record_error
from ragmonitor.records import Message, Usage

T = TypeVar("T")

Role = Literal["chain", "retriever", "reranker", "model", "tool", "other"]


class Convention(Protocol):
    """How one family of instrumentations writes spans. Its methods are pure functions of a span."""

    @property
    def framework(self) -> str:
        """The label's value: `openinference`."""
        ...

    @property
    def MARKS(self) -> frozenset[str]:  # noqa: N802 - a module's constant
        """Attributes that only a span of this dialect has."""
        ...

    @property
    def SCOPES(self) -> frozenset[str]:  # noqa: N802
        """Scopes all of whose spans are of this dialect, with a mark or without."""
        ...

    def role(self, span: ForeignSpan) -> Role:
        """Return what the span is to an interaction."""
        ...

    def name(self, span: ForeignSpan) -> str:
        """Return what the application calls it."""
        ...

    def query(self, span: ForeignSpan) -> str:
        """Return the question that a root or a retriever was given; empty if not said."""
        ...

    def found(self, span: ForeignSpan) -> Found:
        """Return the documents that a retriever, reranker or tool gave."""
        ...

    def reranked(self, span: ForeignSpan) -> Found:
        """Return the documents that a reranker was given."""
        ...

    def prompt(self, span: ForeignSpan) -> tuple[Message, ...]:
        """Return what a model was asked; empty if not said, or not all of it."""
        ...

    def context(self, span: ForeignSpan) -> str:
        """Return the retrieved text that a model was shown, where the span names it apart."""
        ...

    def answer(self, span: ForeignSpan) -> str:
        """Return the text that a root, a model or a tool gave; empty if not said."""
        ...

    def model(self, span: ForeignSpan) -> tuple[str, str]:
        """Return (provider, model) of a model's span; empty where not said."""
        ...

    def usage(self, span: ForeignSpan) -> Usage:
        """Return the tokens that a model's span counts."""
        ...

    def labels(self, span: ForeignSpan) -> dict[str, Any]:
        """Return what a root says of session, user, tags and metadata; see `Translator.labels`."""
        ...

    def withholds(self, span: ForeignSpan) -> bool:
        """Return whether the instrumentation was told not to write texts into this span."""
        ...

    def is_engine(self, span: ForeignSpan) -> bool:
        """Return whether this root answers questions, even where no span shows a model."""
        ...


class _Careful:
    """A dialect of which no question raises, and each role is read once.

    A span in which something cannot be read says so (`is_unread`), and nothing of that kind.
    """

    def __init__(self, convention: Convention) -> None:
        self._dialect = convention
        self.framework = convention.framework
        self.MARKS = convention.MARKS
        self.SCOPES = convention.SCOPES

    def role(self, span: ForeignSpan) -> Role:
        role: Role | None = span.memo.get("role")
        if role is None:
            role = span.memo["role"] = _answer(self._dialect.role, span, _OTHER)
        return role

    def name(self, span: ForeignSpan) -> str:
        return _answer(self._dialect.name, span, span.name)

    def query(self, span: ForeignSpan) -> str:
        return _answer(self._dialect.query, span, "")

    def found(self, span: ForeignSpan) -> Found:
        return _answer(self._dialect.found, span, NOT_SAID)

    def reranked(self, span: ForeignSpan) -> Found:
        return _answer(self._dialect.reranked, span, NOT_SAID)

    def prompt(self, span: ForeignSpan) -> tuple[Message, ...]:
        return _answer(self._dialect.prompt, span, ())

    def context(self, span: ForeignSpan) -> str:
        return _answer(self._dialect.context, span, "")

    def answer(self, span: ForeignSpan) -> str:
        return _answer(self._dialect.answer, span, "")

    def model(self, span: ForeignSpan) -> tuple[str, str]:
        return _answer(self._dialect.model, span, ("", ""))

    def usage(self, span: ForeignSpan) -> Usage:
        return _answer(self._dialect.usage, span, Usage())

    def labels(self, span: ForeignSpan) -> dict[str, Any]:
        return _answer(self._dialect.labels, span, dict[str, Any]())

    def withholds(self, span: ForeignSpan) -> bool:
        return _answer(self._dialect.withholds, span, False)

    def is_engine(self, span: ForeignSpan) -> bool:
        return _answer(self._dialect.is_engine, span, False)


def _answer(ask: Callable[[ForeignSpan], T], span: ForeignSpan, nothing: T) -> T:
    try:
        return ask(span)
    except Exception as error:  # noqa: BLE001 - a span of anybody's instrumentation
        record_error("capture", error)
        span.note_unread()
        return nothing


_OTHER: Role = "other"

CONVENTIONS: tuple[Convention, ...] = tuple(map(_Careful, (openinference, openllmetry, genai)))
"""The first that speaks is taken: OpenLLMetry writes GenAI's attributes too."""


def convention_of(scope: str, attributes: Mapping[str, Any]) -> Convention | None:
    """Return the dialect of a span; None: it is no span of a generative application."""
    for convention in CONVENTIONS:
        # Asked of every span of the process: looking up what is not there would cost more.
        if scope in convention.SCOPES or not convention.MARKS.isdisjoint(attributes):
            return convention
    return None


FRAMEWORKS = {
    "openinference.instrumentation.langchain": "langchain",
    "openinference.instrumentation.llama_index": "llama_index",
    "opentelemetry.instrumentation.langchain": "langchain",
    "opentelemetry.instrumentation.llamaindex": "llama_index",
    "opentelemetry.instrumentation.genai.langchain": "langchain",
}
"""By scope: the frameworks that have an integration of ours as well."""

SCOPES = (
    "openinference.",
    "opentelemetry.instrumentation.genai",
    "opentelemetry.instrumentation.langchain",
    "opentelemetry.instrumentation.llamaindex",
    "opentelemetry.util.genai",
)
"""Beginnings of scopes that are known to speak before their first span has ended."""
