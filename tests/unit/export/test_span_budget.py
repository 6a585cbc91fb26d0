"""How the budget on a span is shared out."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest

from ragmonitor.export.span_attributes import (
    generation_attributes,
    retrieval_attributes,
    root_attributes,
)
from ragmonitor.export.span_budget import Attributes, SpanLimits, fitted
from ragmonitor.records import Chunk, Generation, Message
from tests.unit.export.examples import ANSWER, QUERY, interaction, report


def documents(count: int, size: int) -> tuple[Chunk, ...]:
    return tuple(Chunk(text=f"{n:04}" + "x" * (size - 4), id=f"d{n}") for n in range(count))


def retrieved(chunks: tuple[Chunk, ...], **allowed: int) -> Attributes:
    (step,) = interaction().retrievals
    step = type(step)(query=step.query, chunks=chunks, started_ns=0, ended_ns=1)
    return retrieval_attributes(step, limits=SpanLimits(**allowed))


def size(attributes: Attributes) -> int:
    return sum(len(name.encode()) + len(str(value).encode()) for name, value in attributes.items())


def test_documents_are_cut_before_one_is_left_out() -> None:
    """Ten of 5 000 bytes in 20 000: each is there, cut to its share."""
    found = retrieved(documents(10, 5_000), span_bytes=20_000)
    contents = [v for name, v in found.items() if name.endswith(".content")]
    assert len(contents) == 10
    assert all("more bytes]" in str(text) for text in contents)
    assert "ragmonitor.documents.left_out" not in found
    assert 17_000 < size(found) <= 20_000


def test_question_and_answer_are_whole_before_anything_else_is_there() -> None:
    """Documents, labels and scores give way to them."""
    told = interaction(
        query="q" * 3_000,
        answer="a" * 3_000,
        chunks=documents(50, 5_000),
        retrievals=(),
        attributes={f"a{n}": "x" * 1_000 for n in range(20)},
    )
    found = root_attributes(told, [report()], limits=SpanLimits(span_bytes=7_500))
    assert found["input.value"] == "q" * 3_000
    assert found["output.value"] == "a" * 3_000
    assert found["ragmonitor.score.faithfulness"] == 0.5
    assert size(found) <= 7_500


def test_of_a_long_talk_the_end_is_kept() -> None:
    """The newest messages, in their order, numbered from 0; how many are missing is said."""
    talk = tuple(Message(role="user", text=f"{n:03}") for n in range(200))
    call = Generation(output="", input=talk, started_ns=0, ended_ns=1)
    found = generation_attributes(call)
    contents = [v for name, v in found.items() if name.endswith("message.content")]
    contents = [v for v in contents if v]
    assert found["llm.input_messages.0.message.content"] == min(map(str, contents))
    assert "199" in contents
    assert found["ragmonitor.messages.left_out"] == 200 - len(contents)
    spoken = json.loads(str(found["gen_ai.input.messages"]))
    assert spoken[-1] == {"role": "user", "parts": [{"type": "text", "content": "199"}]}


@pytest.mark.parametrize("characters", [64, 200, 1_000])
def test_json_stays_json_where_the_sdk_cuts_values(characters: int) -> None:
    """What would be cut in the middle is made to fit, or left out."""
    told = interaction(query=QUERY * 200, answer=ANSWER * 200, chunks=documents(30, 5_000))
    found = root_attributes(told, [report()], limits=SpanLimits(characters=characters))
    for name in ("gen_ai.input.messages", "gen_ai.retrieval.documents", "metadata"):
        if name in found:
            json.loads(str(found[name]))
    assert max(len(v) for v in found.values() if isinstance(v, str)) <= characters
    assert str(found["input.value"]).endswith("more bytes]")


def test_what_cannot_fit_is_not_built_to_be_cut() -> None:
    """Of ten thousand documents the work is that of those that fit, not of all."""
    built: list[int] = []

    def build(some: Sequence[str], most: int) -> str:
        built.append(len(some))
        return "".join(text[:most] for text in some)

    found = fitted(
        ["x" * 400] * 10_000, build, lambda text: len(text) <= 10_000, max_bytes=400, min_bytes=100
    )
    assert found == ("x" * 10_000, 100)
    assert sum(built) < 40 * 100
    built.clear()
    assert (
        fitted(["x"] * 10_000, build, lambda text: len(text) <= 10_000, max_bytes=400) is not None
    )
    assert sum(built) < 2 * 10_000
