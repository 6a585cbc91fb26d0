"""What becomes of values of the wrong type."""

import dataclasses
import enum
import json
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import PurePosixPath
from uuid import UUID

import pytest

from ragmonitor.capture.coercion import CUT, sound, usage_of
from ragmonitor.capture.plain import InteractionRecorder, Record
from ragmonitor.records import (
    Chunk,
    Generation,
    Interaction,
    Message,
    Retrieval,
    Usage,
)
from ragmonitor.runtime.guard import errors


def interaction(**changes):
    whole = {
        "id": "i",
        "query": "Why?",
        "chunks": (Chunk(text="Blue sky."),),
        "answer": "It scatters.",
        "framework": "python",
        "started_ns": 1,
        "ended_ns": 2,
    }
    return Interaction(**(whole | changes))


def metadata_of(value):
    return sound(interaction(chunks=(Chunk(text="a", metadata=value),))).chunks[0].metadata


def test_what_is_plain_to_convert_is_converted():
    """A number where an id or a tag belongs, a text where a chunk does, None for no text."""
    found = sound(
        interaction(
            answer=42,
            session_id=UUID(int=6),
            user_id=None,
            status="success",
            usage={"prompt_tokens": 7},
            chunks=["a", Chunk(text="b", id=5, score="high")],
            tags=["beta", 5],
            attributes={"k": 1, 2: "two", "none": None},
        )
    )
    assert [(c.text, c.id, c.score) for c in found.chunks] == [("a", "", None), ("b", "5", None)]
    assert found.tags == ("beta", "5")
    assert found.attributes == {"k": "1", "2": "two"}
    assert (found.answer, found.session_id, found.user_id) == ("42", str(UUID(int=6)), "")
    assert (found.status, found.usage) == ("ok", Usage(input_tokens=7))
    assert not found.capture_incomplete


@pytest.mark.parametrize(
    "changes",
    [
        {"query": object()},
        {"chunks": None},
        {"chunks": iter(["a"])},
        {"generations": 5},
    ],
)
def test_a_text_that_cannot_be_read_makes_the_record_incomplete(changes):
    """It is counted, and not scored as if it were whole."""
    assert sound(interaction(**changes)).capture_incomplete


def test_a_text_that_cannot_be_read_costs_no_other():
    """The record keeps its chunks and its answer."""
    found = sound(
        interaction(query=object(), chunks=(Chunk(text=None), Chunk(text="b")), answer="c")
    )
    assert ([c.text for c in found.chunks], found.answer) == (["", "b"], "c")
    assert found.capture_incomplete


def test_what_is_no_record_is_counted_as_one():
    """As incomplete, of plain code."""
    finished = Record(None)
    assert (finished.framework, finished.status) == ("python", "ok")
    assert finished.interaction().capture_incomplete


def test_a_time_that_no_span_can_hold_makes_the_record_incomplete():
    """One of them would fail the encoding of its whole batch of spans."""
    found = sound(interaction(started_ns=-5, ended_ns=2**80))
    assert found.capture_incomplete
    assert 0 < found.started_ns <= found.ended_ns < 2**63


def test_no_text_of_a_record_has_half_a_character():
    """Neither a store nor a collector takes one: sums of two seconds would be lost with it."""
    half, metadata = "half \ud83d", {"half \ud83d": ["half \ud83d"]}
    chunks = (Chunk(text=half, id=half, metadata=metadata),)
    step = Generation(
        input=(Message(role="user", text=half),), model=half, output=half, started_ns=1, ended_ns=2
    )
    names = ("id", "query", "answer", "framework", "name", "error", "session_id", "user_id")
    found = sound(
        interaction(
            **dict.fromkeys(names, half),
            chunks=chunks,
            tags=(half,),
            attributes={half: half},
            generations=(step,),
            retrievals=(Retrieval(query=half, name=half, chunks=chunks, started_ns=1, ended_ns=2),),
        )
    )
    assert found.query == "half ?"
    assert "\\ud83d" not in str(dataclasses.asdict(found))
    assert not found.capture_incomplete


def test_a_list_of_chunks_is_bounded():
    """The rest is left out, and the record is incomplete."""
    found = sound(interaction(chunks=["a"] * 20_000))
    assert len(found.chunks) == 10_000
    assert found.capture_incomplete


# --- metadata -----------------------------------------------------------------------------------


def test_metadata_is_made_of_plain_values():
    """Known values as JSON has them, or as they print; others by their type alone."""

    class Colour(enum.Enum):
        BLUE = "blue"

    @dataclasses.dataclass
    class Page:
        number: int

    found = metadata_of(
        {
            "at": datetime(2026, 1, 2, tzinfo=UTC),
            "path": PurePosixPath("/a"),
            "price": Decimal("1.50"),
            "colour": Colour.BLUE,
            "page": Page(3),
            "set": {"a"},
            "pair": ("a", 1),
            5: "five",
            "object": object(),
            "bytes": b"ab",
        }
    )
    assert found == {
        "at": "2026-01-02T00:00:00Z",
        "path": "/a",
        "price": "1.50",
        "colour": "blue",
        "page": {"number": 3},
        "set": ["a"],
        "pair": ["a", 1],
        "5": "five",
        "object": "<object>",
        "bytes": "ab",
    }


def test_a_cycle_ends_at_the_deepest_level():
    """In metadata and in attributes."""
    cycle = {"source": "a"}
    cycle["self"] = cycle
    found = sound(interaction(chunks=(Chunk(text="a", metadata=cycle),), attributes={"c": cycle}))
    assert found.chunks[0].metadata["source"] == "a"
    assert CUT in json.dumps(found.chunks[0].metadata, ensure_ascii=False)
    assert json.loads(found.attributes["c"])["source"] == "a"
    assert not found.capture_incomplete


def test_metadata_without_a_floor_is_cut():
    """Nothing recurses as deep as the application nests."""
    deep = "leaf"
    for _ in range(100_000):
        deep = {"in": deep}
    assert CUT in json.dumps(metadata_of(deep), ensure_ascii=False)


# --- plain code ---------------------------------------------------------------------------------


def told(say):
    handed = []
    with InteractionRecorder(handed.append, query="Why?") as i:
        say(i)
    return handed[0].interaction()


def test_none_is_no_answer():
    """What else was said, or gathered, stands."""
    assert told(lambda i: i.answered(None)).answer == ""

    def say(i):
        i.answered("It scatters.")
        i.answered(None)

    found = told(say)
    assert (found.answer, found.capture_incomplete) == ("It scatters.", False)


def test_an_iterator_is_not_read_by_noting_it():
    """Whoever reads it next would find it empty; the interaction is incomplete instead."""
    rows = iter(["Blue sky."])
    found = told(lambda i: i.retrieved(rows))
    assert list(rows) == ["Blue sky."]
    assert found.capture_incomplete


def test_blocks_that_are_left_in_any_order_leave_no_context_behind():
    """Entered twice, left thrice, ended twice."""
    from ragmonitor import current_interaction

    handed = []
    i = InteractionRecorder(handed.append, query="Why?")
    with i, i:
        pass
    i.exit()
    i.end()
    assert current_interaction() is None
    assert len(handed) == 1


def test_what_is_said_without_an_end_is_bounded():
    """The interaction is incomplete, and what comes after its end changes nothing."""

    def say(i):
        for _ in range(3_000):
            i.retrieved(["a"])
            i.answered("x")

    found = told(say)
    assert (len(found.retrievals), len(found.generations)) == (1_000, 1_000)
    assert found.capture_incomplete


@pytest.mark.parametrize(
    "counted",
    [
        {"prompt_tokens": 2103, "completion_tokens": 7, "cache_read_input_tokens": 2000},
        {"input_tokens": 3, "cache_read_input_tokens": 2100, "output_tokens": 7},
        {"inputTokens": 3, "cacheReadInputTokens": 2000, "cacheWriteInputTokens": 100}
        | {"outputTokens": 7},
    ],
)
def test_tokens_of_a_providers_cache_are_input_tokens(counted):
    """They are added where a provider counts them apart."""
    assert usage_of(counted) == Usage(input_tokens=2103, output_tokens=7)


@pytest.mark.parametrize("name", ["text", "page_content", "content"])
def test_mappings_with_a_text_are_chunks(name):
    """With their ids, scores and metadata."""
    found = {name: "a", "id": 7, "score": 0.5, "metadata": {"page": 1}}
    assert sound(interaction(chunks=[found])).chunks == (
        Chunk(text="a", id="7", score=0.5, metadata={"page": 1}),
    )


def test_an_impossible_number_of_tokens_is_not_counted():
    """One of them would be the sum for good."""
    before = errors["capture"]
    assert usage_of({"prompt_tokens": 2**62, "completion_tokens": -1}) == Usage()
    assert usage_of({"prompt_tokens": 7}).input_tokens == 7
    assert errors["capture"] == before + 2
