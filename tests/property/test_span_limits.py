"""Whatever is recorded and whatever the SDK allows: nothing is evicted, nothing is too large."""

from __future__ import annotations

import json
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st
from opentelemetry.sdk.trace import ReadableSpan, Span, SpanLimits, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from ragmonitor.export import OtelExporter
from ragmonitor.export.content import Content, clipped
from ragmonitor.records import Chunk, Interaction, Message, Scored
from tests.unit.export.examples import MODEL, interaction, report

JSON_NAMES = (
    "gen_ai.input.messages",
    "gen_ai.output.messages",
    "gen_ai.retrieval.documents",
    "ragmonitor.unsupported_sentences",
    "ragmonitor.documents.not_shown_ids",
    "metadata",
)

# Long texts of few characters, so that a megabyte of record costs no megabyte of randomness.
long_texts = st.builds(
    lambda part, times: part * times,
    st.sampled_from(["word ", "退货期限", '"\\\n', "é", "😀", "\ud83d", "x"]),
    st.integers(0, 6_000),
)
chunks = st.lists(
    st.builds(
        Chunk,
        text=long_texts,
        id=st.sampled_from(["", "doc-1", "d" * 300]),
        score=st.sampled_from([None, 0.5, float("nan")]),
        metadata=st.dictionaries(st.sampled_from(["source", "text", "n"]), long_texts, max_size=3),
    ),
    max_size=40,
).map(tuple)
messages = st.lists(
    st.builds(Message, role=st.sampled_from(["system", "user"]), text=long_texts), max_size=40
).map(tuple)
told = st.builds(
    lambda query, answer, found, cut, asked, own, alone: interaction(
        query=query,
        answer=answer,
        chunks=found,
        not_shown=cut,
        attributes=own,
        retrievals=() if alone else (replace(interaction().retrievals[0], chunks=found),),
        generations=(replace(interaction().generations[0], output=answer, input=asked),),
    ),
    long_texts,
    long_texts,
    chunks,
    chunks,
    messages,
    st.dictionaries(st.text(max_size=10), long_texts, max_size=25),
    st.booleans(),
)


class Marking(SpanProcessor):
    """A processor of the application's that puts attributes of its own on every span."""

    def on_start(self, span: Span, parent_context: object = None) -> None:
        span.set_attributes({f"app.{n}": "x" for n in range(5)})


def exported(
    record: Interaction,
    *,
    most: int | None = None,
    characters: int | None = None,
    attribute_bytes: int = 32_768,
    span_bytes: int = 262_144,
    content: Content = "all",
) -> tuple[ReadableSpan, ...]:
    """Return the spans of a record, with two judges' scores, as the real SDK exports them."""
    limits = SpanLimits(
        max_span_attributes=SpanLimits.UNSET if most is None else most,
        max_span_attribute_length=SpanLimits.UNSET if characters is None else characters,
    )
    memory = InMemorySpanExporter()
    provider = TracerProvider(span_limits=limits, shutdown_on_exit=False)
    provider.add_span_processor(Marking())
    provider.add_span_processor(SimpleSpanProcessor(memory))
    exporter = OtelExporter(
        "shop",
        tracer_provider=provider,
        max_attribute_bytes=attribute_bytes,
        max_span_bytes=span_bytes,
        content=content,
    )
    scores = tuple(
        Scored(evaluator=f"e{n}@1", judge=MODEL, score=0.5, explanation=record.answer)
        for n in range(12)
    )
    exporter.emit(record, [report(), report(MODEL, evaluations=scores)])
    return memory.get_finished_spans()


@settings(deadline=None, max_examples=60)
@given(
    record=told,
    most=st.none() | st.integers(32, 140),
    characters=st.none() | st.integers(32, 2_000),
    attribute_bytes=st.integers(256, 40_000),
    span_bytes=st.integers(4_096, 300_000),
    content=st.sampled_from(["all", "hashed", "none"]),
)
def test_every_span_keeps_to_every_limit(
    *,
    record: Interaction,
    most: int | None,
    characters: int | None,
    attribute_bytes: int,
    span_bytes: int,
    content: Content,
) -> None:
    """In number, in characters, in bytes of a value and of a span; what is JSON stays JSON."""
    spans = exported(
        record,
        most=most,
        characters=characters,
        attribute_bytes=attribute_bytes,
        span_bytes=span_bytes,
        content=content,
    )
    assert len(spans) >= 2
    for span in spans:
        assert span.dropped_attributes == 0
        ours = {k: v for k, v in (span.attributes or {}).items() if not k.startswith("app.")}
        total = 0
        for name, value in ours.items():
            if isinstance(value, str):
                data = value.encode()
                assert len(data) <= attribute_bytes
                assert characters is None or len(value) <= characters
                total += len(data)
            total += len(name.encode())
        assert total <= span_bytes
        for name in JSON_NAMES:
            if name in ours:
                json.loads(str(ours[name]))


@settings(deadline=None, max_examples=40)
@given(record=told, most=st.integers(32, 140))
def test_question_and_answer_survive_whole(record: Interaction, most: int) -> None:
    """With as few as 32 attributes, five of them the application's, both are on the root."""
    root = next(s for s in exported(record, most=most) if s.name.startswith("invoke_workflow"))
    found = root.attributes or {}
    assert found["input.value"] == clipped(record.query, 32_768)
    assert found["output.value"] == clipped(record.answer, 32_768)
    assert found["ragmonitor.score.e0"] == 0.5
    assert found["ragmonitor.interaction.id"] == "i-1"
    assert {f"app.{n}" for n in range(5)} <= set(found)
