"""One small form for what a span says, whatever its dialect: the steps that handlers report too."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from ragmonitor.capture.span_readers.spans import SpanRecord
from ragmonitor.capture.span_readers.texts import Documents
from ragmonitor.records import Message, Usage
from ragmonitor.runtime.guard import record_error

Role = Literal["chain", "retriever", "reranker", "model", "tool", "other"]


class Dialect(NamedTuple):
    """Reads the spans of one family of instrumentations."""

    framework: str
    """The label's value: `openinference`."""
    marks: frozenset[str]
    """Attributes that only a span of this dialect has."""
    role: Callable[[SpanRecord], Role]
    name: Callable[[SpanRecord], str]
    fill: Callable[[Step], None]
    """Reads the texts of a span into its step."""
    scopes: frozenset[str] = frozenset()
    """Scopes all of whose spans are of this dialect, with a mark or without."""


@dataclass(slots=True, kw_only=True)
class Step:
    """What one span says. Its role and name are read at once, its texts by `filled`."""

    span: SpanRecord
    dialect: Dialect
    role: Role
    name: str
    query: str = ""
    """The question that a root or a retriever was given."""
    variable: str = ""
    """The question, where a model's prompt names it apart."""
    documents: Documents = None
    """What a retriever, reranker or tool gave; texts that are not said are empty."""
    prompt: tuple[Message, ...] = ()
    """What a model was asked; empty if not said, or not all of it."""
    context: str = ""
    """The retrieved text in a model's prompt, where the span names it apart."""
    answer: str = ""
    provider: str = ""
    model: str = ""
    usage: Usage = field(default_factory=Usage)
    labels: dict[str, Any] = field(default_factory=dict)
    """As `Translator.labels`."""
    is_store: bool = False
    """It is of a vector store's client, whose caller may say the same."""
    is_engine: bool = False
    """As a root it answers questions, even where no span shows a model."""
    is_read: bool = False
    is_whole: bool = True
    """Nothing in the span was found unreadable."""

    def filled(self) -> Step:
        """Return the step with its texts, as far as these can be read."""
        if not self.is_read:
            self.is_read = True
            try:
                self.dialect.fill(self)
            except Exception as error:  # noqa: BLE001 - anybody's attributes
                record_error("capture", error)
                self.is_whole = False
        return self


def step_of(span: SpanRecord, dialect: Dialect) -> Step:
    """Return the step that a span stands for; the same one each time."""
    step: Step | None = span.memo.get("step")
    if step is None:
        role, name = dialect.role(span), dialect.name(span)
        step = span.memo["step"] = Step(span=span, dialect=dialect, role=role, name=name)
    return step
