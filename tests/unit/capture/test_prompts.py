"""What the model was shown, read off its prompts."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragmonitor.capture import prompts
from ragmonitor.capture.prompts import HEAD, not_among, seen_in
from ragmonitor.records import Chunk, Generation, Message
from tests.support.counting import counted

LONG = "The tower was built from 1887 to 1889 by the company of Gustave Eiffel. " * 4


def asked(*texts):
    return [
        Generation(input=(Message(role="user", text=t),), output="", started_ns=1, ended_ns=2)
        for t in texts
    ]


def of(*texts):
    return [Chunk(text=text, id=str(n)) for n, text in enumerate(texts)]


def test_the_order_is_that_of_the_prompt():
    """Applications put the best chunk first or last; the model saw what it was given."""
    chunks = of("Paris is large.", "Rome is old.")
    seen = seen_in(asked("Rome is old. Paris is large."), chunks)
    assert [c.text for c in seen] == ["Rome is old.", "Paris is large."]


def test_white_space_is_not_heeded():
    """Prompt templates indent and wrap."""
    chunks = of("Paris is\nlarge.")
    assert seen_in(asked("  Paris\n   is large.  "), chunks) == chunks


def test_a_chunk_that_was_cut_counts_as_shown():
    """Applications cut long chunks; the beginning stands in the prompt."""
    chunks = of(LONG, "Rome is old.")
    assert seen_in(asked(LONG[: HEAD + 5] + "..."), chunks) == chunks[:1]


def test_a_chunk_that_is_its_title_alone_stands_where_a_cut_one_begins():
    """It does not explain the place of the longer text."""
    chunks = of("Paris", f"Paris: {LONG}")
    assert seen_in(asked(chunks[1].text[: HEAD + 5] + "..."), chunks) == chunks


def test_a_common_header_does_not_show_two_chunks():
    """Two chunks that begin alike, one of them in the prompt: the other was not shown."""
    header = "Manual of the pump, edition of 2024, chapter on service and repair, all rights kept, "
    chunks = of(header * 2 + "first part.", header * 2 + "second part.")
    assert seen_in(asked(chunks[1].text), chunks) == [chunks[1]]


def test_changed_texts_say_nothing():
    """Escaped or summed up: no chunk is found, and nobody claims that none was shown."""
    assert seen_in(asked("Paris\\u0020is large"), of("Paris is large.")) is None
    assert seen_in([], of("Paris is large.")) is None


def test_a_compressed_chunk_stands_for_the_one_it_was_taken_from():
    """An extract was shown, so its source is not among what was left out."""
    whole = Chunk(text="Paris is large. It lies on the Seine.")
    assert not_among([Chunk(text="It lies on the Seine.")], [whole]) == ()


@pytest.mark.parametrize(
    "made", [f"Before. {LONG} After.", f"Source 1:\n{LONG[:150]}"], ids=["widened", "numbered"]
)
def test_a_text_made_of_a_chunk_stands_for_it(made):
    """A sentence's window, a piece numbered for citations; what else was found was left out."""
    chunks = of(LONG, "Rome is old.")
    assert not_among([Chunk(text=made)], chunks) == (chunks[1],)


def test_what_was_shown_as_it_was_found_stands_for_no_other():
    """Two chunks under one long heading: the one that was dropped is not shown by the other."""
    chunks = of(f"{LONG} Part 1.", f"{LONG} Part 2.")
    assert not_among(chunks[:1], chunks) == (chunks[1],)


@given(st.lists(st.text("ab \n", max_size=8), max_size=6), st.text("ab \n", max_size=30))
def test_what_is_seen_is_among_what_was_retrieved(texts, prompt):
    """Nothing is invented, nothing shown twice, and no chunk is both shown and left out."""
    chunks = of(*texts)
    seen = seen_in(asked(prompt), chunks)
    if seen is not None:
        assert len(seen) == len({c.id for c in seen})
        assert {c.id for c in seen} <= {c.id for c in chunks}
        assert not {c.text for c in seen} & {c.text for c in not_among(seen, chunks)}


# Work


def test_chunks_that_begin_alike_look_for_their_beginning_once():
    """A thousand cut chunks with one header: each place of it is passed once, not by each chunk."""
    header = "Manual of the pump. " * 6
    work = []
    for count in (100, 400):
        cut = [header[:HEAD] + f" {n}" for n in range(count)]
        chunks = of(*(f"{text} and what was cut off" for text in cut))
        with counted("prompts") as lines:
            assert len(seen_in(asked("\n".join(cut)), chunks)) == count
        work.append(lines[0])
    assert work[1] < 5 * work[0]


def test_more_than_can_be_looked_through_says_nothing(monkeypatch):
    """Thousands of chunks in a prompt of megabytes: all count as shown, as where nothing fits."""
    monkeypatch.setattr(prompts, "MAX_SEARCHED", 250_000)
    chunks = of(*(f"Fact {n} is true." for n in range(100)))
    prompt = "Nothing of it. " * 1_000 + chunks[0].text
    assert seen_in(asked(prompt), chunks) is None
    assert seen_in(asked(chunks[0].text), chunks) == chunks[:1]
    parts = of(*("x" * n for n in range(200, 300)))
    assert len(not_among(parts, of(*("y" * n for n in range(300, 400))))) < 5
