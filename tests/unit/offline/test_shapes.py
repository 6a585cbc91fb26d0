"""Readers: every format, every way to be broken."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragmonitor.offline.shapes import COLUMNS, Format, Records, UnknownColumnsError, read_record
from ragmonitor.runtime.errors import InputError

OURS = {"question": "q", "contexts": ["a", "b"], "answer": "x", "id": "one"}

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
names = st.sampled_from(
    [name for choices in COLUMNS.values() for c in choices for name in (*c.required, c.id)]
)


def lines_of(path: Path, form: Format = "auto"):
    return list(Records(str(path), form))


def write(path: Path, *lines: object) -> Path:
    texts = [line if isinstance(line, str) else json.dumps(line) for line in lines]
    path.write_text("\n".join(texts) + "\n", encoding="utf-8")
    return path


def test_a_bad_line_costs_only_itself(tmp_path):
    """What follows is read, and numbers count every line of the file."""
    path = write(
        tmp_path / "f.jsonl",
        OURS,
        "{broken",
        "",
        {**OURS, "answer": None},
        {**OURS, "contexts": "text"},
        {"question": "q", "answer": "x"},
        "[" * 100_000,
        '"text"',
        OURS,
    )
    lines = lines_of(path)
    assert [line.number for line in lines] == [1, 2, 4, 5, 6, 7, 8, 9]
    assert [bool(line.interaction) for line in lines] == [True, *[False] * 6, True]
    assert "answer: expected text, not null" in lines[2].error
    assert "missing contexts" in lines[4].error


def test_unknown_columns_stop_the_file(tmp_path):
    """Nobody wants the same error a million times; the message says what was expected."""
    path = write(tmp_path / "f.jsonl", {"prompt": "q", "completion": "x"})
    with pytest.raises(UnknownColumnsError, match="'prompt', 'completion'; expected ragmonitor"):
        lines_of(path)


def test_a_line_of_ours_gives_back_what_was_not_shown_and_the_session(tmp_path):
    """What the exporter writes beside question, contexts and answer is read again."""
    path = tmp_path / "r.jsonl"
    path.write_text(json.dumps({**OURS, "not_shown": ["c"], "session_id": "s-1"}))
    (line,) = lines_of(path)
    assert [chunk.text for chunk in line.interaction.not_shown] == ["c"]
    assert line.interaction.session_id == "s-1"


def test_a_line_of_hashes_is_refused(tmp_path):
    """A score of hashes would be a score of nothing."""
    path = tmp_path / "r.jsonl"
    path.write_text(json.dumps({**OURS, "content": "hashed"}))
    assert "hashes" in lines_of(path)[0].error


@given(
    value=json_values | st.dictionaries(names, json_values, max_size=8),
    form=st.sampled_from(sorted(COLUMNS)),
)
def test_no_json_value_raises_anything_but_an_input_error(value, form):
    """A reader gives an interaction or says what was wrong."""
    try:
        told = read_record(value, COLUMNS[form], 7)
    except InputError:
        pass
    else:
        assert isinstance(told.query, str)
        assert all(isinstance(chunk.text, str) for chunk in told.chunks)


@given(data=st.binary(max_size=200))
def test_no_bytes_raise_anything_but_an_input_error(tmp_path_factory, data):
    """A file may hold anything."""
    path = tmp_path_factory.mktemp("any") / "f.jsonl"
    path.write_bytes(data)
    with contextlib.suppress(InputError):
        lines_of(path)
