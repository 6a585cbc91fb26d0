"""The questions that are put to a span, and what is the same in every convention."""

# ruff: noqa: ARG002 - nothing is said unless a convention says it

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from ragmonitor.capture.otel_spans.spans import SpanRecord
from ragmonitor.capture.otel_spans.texts import UNKNOWN_DOCUMENTS, Documents
from ragmonitor.records import Message, Usage

Role = Literal["chain", "retriever", "reranker", "model", "tool", "other"]


class Convention:
    """Reads the spans of one family of instrumentations, by pure functions of a span."""

    framework: str
    """The label's value: `openinference`."""
    MARKS: frozenset[str]
    """Attributes that only a span of this convention has."""
    SCOPES: frozenset[str] = frozenset()
    """Scopes all of whose spans follow this convention, with a mark or without."""
    ROLES: Mapping[str, Role]
    """The roles by operation; every other one is `other`."""
    PROVIDER: tuple[str, ...]
    MODEL: tuple[str, ...]
    """Attributes that name a model's provider, and the model; the first that is set counts."""
    TOKENS: tuple[str, str]
    """The attributes that count tokens: of the input, and of the output."""

    def role(self, span: SpanRecord) -> Role:
        """Return what the span is to an interaction."""
        return "other"

    def name(self, span: SpanRecord) -> str:
        """Return what the application calls it."""
        return span.name

    def query(self, span: SpanRecord) -> str:
        """Return the question that a root or a retriever was given; empty if not said."""
        return ""

    def question_variable(self, span: SpanRecord) -> str:
        """Return the question, where a model's span names it as a variable of its prompt."""
        return ""

    def documents(self, span: SpanRecord) -> Documents:
        """Return the documents that a retriever, reranker or tool gave."""
        return UNKNOWN_DOCUMENTS

    def reranked(self, span: SpanRecord) -> Documents:
        """Return the documents that a reranker was given."""
        return UNKNOWN_DOCUMENTS

    def prompt(self, span: SpanRecord) -> tuple[Message, ...]:
        """Return what a model was asked; empty if not said, or not all of it."""
        return ()

    def context(self, span: SpanRecord) -> str:
        """Return the retrieved text that a model was shown, where the span names it apart."""
        return ""

    def answer(self, span: SpanRecord) -> str:
        """Return the text that a root, a model or a tool gave; empty if not said."""
        return ""

    def model(self, span: SpanRecord) -> tuple[str, str]:
        """Return (provider, model) of a model's span; empty where not said."""
        return span.first_text(self.PROVIDER), span.first_text(self.MODEL)

    def usage(self, span: SpanRecord) -> Usage:
        """Return the tokens that a model's span counts."""
        input_tokens, output_tokens = map(span.count, self.TOKENS)
        return Usage(input_tokens=input_tokens, output_tokens=output_tokens)

    def labels(self, span: SpanRecord) -> dict[str, Any]:
        """Return a root's session, user, tags and metadata; see `Translator.labels`."""
        return {}

    def withholds(self, span: SpanRecord) -> bool:
        """Return whether the instrumentation was told not to write texts into this span."""
        return False

    def is_store(self, span: SpanRecord) -> bool:
        """Return whether this is of a vector store's client, whose caller may say the same."""
        return False

    def is_engine(self, span: SpanRecord) -> bool:
        """Return whether this root answers questions, even where no span shows a model."""
        return False
