"""Tables: JSON, CSV, Parquet; lists and chunks as every tool writes them."""

from __future__ import annotations

import contextlib
import csv
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragmonitor.offline.shapes import read_file
from ragmonitor.runtime.errors import InputError, MissingExtraError
from ragmonitor.runtime.tables import read_list

arrow = pytest.importorskip("pyarrow", reason="needs ragmonitor[datasets]")
parquet = pytest.importorskip("pyarrow.parquet")

# The examples of RAGAS' documentation, in the names before version 0.2 and since.
OLDER = {
    "question": ["When was the first super bowl?", "Who has won the most of them?"],
    "answer": ["It was played on Jan 15, 1967.", "The New England Patriots, with six."],
    "contexts": [
        ["The first game of its kind was played on January 15, 1967, in Los Angeles."],
        ["The Packers are of Green Bay, Wisconsin.", "They play in the National Conference."],
    ],
    "ground_truth": ["It was held on January 15, 1967.", "New England, six times."],
}
NEWER = {
    "user_input": OLDER["question"],
    "response": OLDER["answer"],
    "retrieved_contexts": OLDER["contexts"],
    "reference": OLDER["ground_truth"],
}


def interactions(path):
    lines = [*read_file(str(path))]
    assert [line.error for line in lines] == [""] * len(lines)
    return [line.interaction for line in lines]


def is_the_example(found):
    """Whether the two records came over whole."""
    assert [told.query for told in found] == OLDER["question"]
    assert [told.answer for told in found] == OLDER["answer"]
    assert [[chunk.text for chunk in told.chunks] for told in found] == OLDER["contexts"]
    assert [told.reference for told in found] == OLDER["ground_truth"]
    return True


def records_of(columns):
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def write_csv(path, columns, shown):
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, columns)
        writer.writeheader()
        for record in records_of(columns):
            writer.writerow(
                {
                    name: shown(value) if isinstance(value, list) else value
                    for name, value in record.items()
                }
            )
    return path


def as_numpy(texts):
    """As an array is printed: no commas, and a line for each text that does not fit."""
    return "[" + "\n ".join(map(repr, texts)) + "]"


@pytest.mark.parametrize("columns", [OLDER, NEWER])
@pytest.mark.parametrize("shown", [json.dumps, repr, as_numpy, lambda texts: repr(tuple(texts))])
def test_a_csv_file_of_ragas_is_read(tmp_path, columns, shown):
    """Its lists as JSON, as Python writes them, and as pandas writes arrays."""
    assert is_the_example(interactions(write_csv(tmp_path / "r.csv", columns, shown)))


@pytest.mark.parametrize("columns", [OLDER, NEWER])
def test_a_parquet_file_is_read(tmp_path, columns):
    """Lists are lists there; columns that we do not know are not touched."""
    path = tmp_path / "r.parquet"
    parquet.write_table(arrow.table(columns | {"embedding": [[0.5] * 8] * 2}), path)
    assert is_the_example(interactions(path))


def test_without_pyarrow_the_extra_is_named(tmp_path, monkeypatch):
    """The message holds the command that installs it."""
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    (tmp_path / "r.parquet").write_bytes(b"PAR1")
    with pytest.raises(MissingExtraError, match=r"pip install 'ragmonitor\[datasets\]'"):
        interactions(tmp_path / "r.parquet")


def test_a_wrong_cell_costs_its_own_row_alone(tmp_path):
    """The row and the column are named; the others are read."""
    rows = [
        ["question", "answer", "contexts"],
        ["q", "a", "['c']"],
        ["q", "a", "just a text"],
        ["q", "a", "[1, 2]"],
        ["q", "a"],
        ["q", "a", ""],
        ["q", "a", "['c'"],
        ["q", "a", "[__import__('os').getcwd()]"],
    ]
    path = tmp_path / "r.csv"
    with path.open("w", newline="") as file:
        csv.writer(file).writerows(rows)
    lines = [*read_file(str(path))]
    assert [line.number for line in lines] == [1, 2, 3, 4, 5, 6, 7]
    assert [bool(line.interaction) for line in lines] == [
        True, False, False, False, True, False, False,
    ]  # fmt: skip
    assert lines[1].error == "contexts: expected a list as JSON or as Python writes it"
    assert lines[2].error.startswith("contexts[0]: expected a text")
    assert lines[3].error == "2 cells; the header has 3"
    path.write_bytes(b"question,answer,contexts\nq,\xff,['c']\n")
    with pytest.raises(InputError, match="no UTF-8"):
        interactions(path)


def test_a_part_of_an_array_is_refused():
    """Where numpy printed an ellipsis, chunks are missing: no score of half an answer's chunks."""
    with pytest.raises(InputError, match="ellipsis"):
        read_list("['a' 'b' ... 'z']")


texts = st.lists(st.text(st.characters(exclude_categories=["Cs"])), max_size=5)


@given(st.text(max_size=60))
def test_no_cell_raises_anything_but_an_input_error(text):
    """A cell may hold anything."""
    with contextlib.suppress(InputError):
        assert isinstance(read_list(text), list)


@pytest.mark.parametrize("mark", [";", "\t", ","])
def test_a_csv_may_separate_its_cells_by_other_marks(tmp_path, mark):
    """Where commas are decimal marks, spreadsheets write semicolons; headers may hold commas."""
    file = tmp_path / "r.csv"
    names = ["question", "contexts", "answer", "tags, by hand"]
    cells = ["How high, and since when?", '["300 m", "1889; in Paris"]', "300 m; 1889.", "x"]
    with file.open("w", encoding="utf-8-sig", newline="") as opened:
        csv.writer(opened, delimiter=mark).writerows([names, cells, ["", "", "", ""]])
    [interaction] = interactions(file)
    assert (interaction.query, interaction.answer) == (cells[0], cells[2])
    assert [chunk.text for chunk in interaction.chunks] == ["300 m", "1889; in Paris"]


@pytest.mark.parametrize(
    "context",
    [
        "300 m",
        {"text": "300 m"},
        {"page_content": "300 m", "metadata": {"source": "a.md"}, "type": "Document"},
        {"lc": 1, "type": "constructor", "id": ["x"], "kwargs": {"page_content": "300 m"}},
        {"node": {"text_resource": {"text": "300 m"}}, "score": 0.5},
    ],
    ids=str,
)
def test_a_chunk_is_read_in_each_shape_in_which_tools_write_it(tmp_path, context):
    """As a text, within a further list, and as frameworks dump their documents and nodes."""
    file = tmp_path / "r.jsonl"
    record = {"question": "How high?", "answer": "300 m.", "contexts": [context]}
    file.write_text(json.dumps(record), "utf-8")
    [interaction] = interactions(file)
    assert [chunk.text for chunk in interaction.chunks] == ["300 m"]
