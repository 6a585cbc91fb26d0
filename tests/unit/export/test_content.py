"""What is shown of a text, and how a long one is cut."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragmonitor.export.content import (
    Content,
    ContentPolicy,
    clipped,
    size_bytes,
)
from ragmonitor.records import SentenceVerdict, Verdict

texts = st.text(st.characters(), max_size=60)
KEY = b"0123456789abcdef"
HASHED = ContentPolicy(content="hashed", key=KEY)


@given(text=st.text(st.characters(), max_size=300), most=st.integers(0, 400))
def test_a_text_never_exceeds_its_limit(text: str, most: int) -> None:
    """In bytes, the mark included, whatever the script."""
    assert len(clipped(text, most).encode()) <= most


@given(text=texts, most=st.integers(1, 120))
def test_a_cut_text_says_how_much_is_missing(text: str, most: int) -> None:
    """What fits is not touched; else the beginning stays, and it and the missing are the whole."""
    whole = text.encode("utf-8", "replace").decode()
    found = clipped(text, most)
    if size_bytes(whole) <= most:
        assert found == whole
        return
    cut = re.fullmatch(r"(.*)… \[cut: (\d+) more bytes\]", found, re.DOTALL)
    if cut is None:  # no room for the mark
        assert whole.startswith(found)
    else:
        assert whole.startswith(cut[1])
        assert size_bytes(cut[1]) + int(cut[2]) == size_bytes(whole)


def test_metadata_keep_their_shape() -> None:
    """Keys, numbers and truth values stay; texts, and what would print as one, are hashed."""
    found = HASHED.metadata({"source": "a.md", "page": 3, "tags": ("x", None), "type": bytes})
    assert found == {
        "source": HASHED.text("a.md"),
        "page": 3,
        "tags": [HASHED.text("x"), None],
        "type": HASHED.text("<class 'bytes'>"),
    }


@pytest.mark.parametrize(
    ("content", "expected"),
    [("all", "ValueError: no such 退货"), ("none", "ValueError")],
)
def test_of_an_error_the_type_stays(content: Content, expected: str) -> None:
    """Messages quote prompts; the type is a name."""
    assert ContentPolicy(content=content).error("ValueError: no such 退货") == expected
    hashed = HASHED.error("ValueError: no such 退货")
    assert hashed == f"ValueError: {HASHED.text('no such 退货')}"


def test_a_sentence_can_be_found_without_its_text() -> None:
    """Where the text may not be read its place in the answer stands instead."""
    sentence = SentenceVerdict(
        text="运费为99元。", start=9, end=16, verdict=Verdict.ABSENT, words=("99元",)
    )
    assert ContentPolicy().sentence(sentence)["words"] == ["99元"]
    assert HASHED.sentence(sentence)["words"] == [HASHED.text("99元")]
    assert HASHED.sentence(sentence)["start"] == 9
    without = ContentPolicy(content="none").sentence(sentence)
    assert (without["start"], without["end"], "text" in without) == (9, 16, False)
