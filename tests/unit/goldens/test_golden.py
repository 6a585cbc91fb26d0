"""The file of golden questions."""

from __future__ import annotations

import json
from typing import get_args

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragmonitor.goldens.golden import (
    Golden,
    GoldenKind,
    GoldensError,
    ReferenceChunk,
    ReviewStatus,
    golden_id,
    read_goldens,
    write_goldens,
)

TEXTS = st.text(st.characters(exclude_categories=("Cs",)), max_size=20)
FILLED = TEXTS.filter(str.strip)
GOLDENS = st.builds(
    Golden,
    question=FILLED,
    answer=FILLED,
    id=FILLED,
    chunks=st.lists(st.builds(ReferenceChunk, text=TEXTS, id=TEXTS, source=TEXTS)).map(tuple),
    kind=st.sampled_from(get_args(GoldenKind)),
    status=st.sampled_from(get_args(ReviewStatus)),
)


@given(goldens=st.lists(GOLDENS, max_size=4, unique_by=lambda golden: golden.id))
def test_what_was_written_is_read(tmp_path_factory, goldens):
    """Every field, any character, in order."""
    path = tmp_path_factory.mktemp("goldens") / "goldens.jsonl"
    write_goldens(path, goldens)
    assert read_goldens(path) == goldens


@given(goldens=st.lists(GOLDENS, max_size=4, unique_by=lambda golden: golden.id))
def test_what_was_written_for_a_spreadsheet_is_read(tmp_path_factory, goldens):
    """Of a CSV, too; Excel takes it for UTF-8 by its mark, and computes no cell of it."""
    path = tmp_path_factory.mktemp("goldens") / "goldens.csv"
    write_goldens(path, goldens)
    assert path.read_bytes().startswith(b"\xef\xbb\xbf")
    assert read_goldens(path) == goldens


@pytest.mark.parametrize(
    "record",
    [
        {"user_input": "Open?", "reference": "Until six.", "reference_contexts": ["6 pm"]},
        {"query_id": "7", "query": "Open?", "gt_answer": "Until six.", "response": "Until five."},
        {"question": "Open?", "answer": "Until five.", "ground_truths": ["Until six."]},
    ],
    ids=["ragas", "ragchecker", "recorded"],
)
def test_other_tools_columns_are_read(tmp_path, record):
    """The reference answer is the right one, and not what the application said."""
    path = tmp_path / "goldens.json"
    path.write_text(json.dumps([record]))
    (golden,) = read_goldens(path)
    assert (golden.question, golden.answer) == ("Open?", "Until six.")
    assert [chunk.text for chunk in golden.chunks] == record.get("reference_contexts", [])
    assert golden.id == record.get("query_id", golden_id("Open?"))


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("{", "line 2"),
        ('{"question": 3, "answer": "x"}', "`$.question`"),
        ('{"question": " ", "answer": "x"}', "`question` is empty"),
        ('{"question": "x"}', "unanswerable"),
        ('{"question": "x", "answer": "y", "kind": "trivia"}', "trivia"),
        ('{"question": "Open?", "answer": "y"}', "is there already"),
    ],
)
def test_a_line_that_is_none_is_named(tmp_path, line, told):
    """The error has file, line and what to do."""
    path = tmp_path / "goldens.jsonl"
    path.write_text('{"question": "Open?", "answer": "Yes."}\n' + line)
    with pytest.raises(GoldensError) as caught:
        read_goldens(path)
    assert "goldens.jsonl, line 2" in str(caught.value)
    assert told in str(caught.value)


def test_a_mined_question_is_not_asked_before_somebody_accepts_it(tmp_path):
    """It may have no answer until then; a rejected one is never asked."""
    path = tmp_path / "goldens.jsonl"
    path.write_text('{"question": "Open?", "source": "mined"}\n')
    (golden,) = read_goldens(path)
    assert not golden.is_askable
    accepted = msgspec.structs.replace(golden, status="accepted", answer="Until six.")
    assert accepted.is_askable
    assert not msgspec.structs.replace(accepted, status="rejected").is_askable
    assert Golden(question="Open?", answer="Until six.").is_askable
