"""The file of golden questions."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from typing import get_args

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragmonitor.goldens import (
    Golden,
    GoldenKind,
    GoldensError,
    ReferenceChunk,
    ReviewStatus,
    Turn,
    golden_id,
    read_goldens,
    write_goldens,
)
from ragmonitor.goldens.golden import add_goldens
from ragmonitor.records import Language

TEXTS = st.text(st.characters(exclude_categories=("Cs",)), max_size=20)
FILLED = TEXTS.filter(str.strip)
GOLDENS = st.builds(
    Golden,
    question=FILLED,
    answer=FILLED,
    id=FILLED,
    chunks=st.lists(st.builds(ReferenceChunk, text=TEXTS, id=TEXTS, source=TEXTS)).map(tuple),
    kind=st.sampled_from(GoldenKind),
    language=st.sampled_from(get_args(Language)),
    history=st.lists(st.builds(Turn, role=st.sampled_from(["user", "assistant"]), text=TEXTS)).map(
        tuple
    ),
    attributes=st.dictionaries(TEXTS, TEXTS, max_size=3),
    status=st.sampled_from(ReviewStatus),
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
    accepted = msgspec.structs.replace(golden, status=ReviewStatus.ACCEPTED, answer="Until six.")
    assert accepted.is_askable
    assert not msgspec.structs.replace(accepted, status=ReviewStatus.REJECTED).is_askable
    assert Golden(question="Open?", answer="Until six.").is_askable


def test_commands_that_add_to_one_file_at_once_lose_nothing(tmp_path):
    """Each reads what stands there by its turn."""
    file = tmp_path / "g.csv"

    def add(number):
        add_goldens(file, [Golden(question=f"Number {number}?", answer="Yes.")])

    with ThreadPoolExecutor(8) as pool:
        [*pool.map(add, range(40))]
    assert len(read_goldens(file)) == 40
