"""Golden questions in other tools' files."""

from __future__ import annotations

import csv
import json

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ragmonitor.errors import InputError
from ragmonitor.goldens import Golden, GoldenKind, ReferenceChunk, read_goldens
from ragmonitor.goldens.golden import Turn
from ragmonitor.goldens.golden_formats import FORMATS, recognised
from ragmonitor.goldens.golden_tables import read_any, write_any
from tests.unit.goldens.test_golden import GOLDENS

WHOLE = ("langsmith", "langfuse", "phoenix", "deepeval", "ragmonitor")
"""Formats that have metadata."""
OF_RAGAS = {"id", "difficulty", "language", "attributes", "source", "chunks"}
OF_RAGAS |= {"interaction_id", "status", "reviewed_by", "reviewed_at", "comment"}
OF_RAGAS |= {"question", "history"}  # line breaks within a conversation


@given(golden=GOLDENS)
@pytest.mark.parametrize("name", WHOLE)
def test_a_format_with_metadata_holds_everything(name, golden):
    """And is recognised by its columns."""
    record = json.loads(json.dumps(FORMATS[name].write(golden)))
    assert recognised(record) == name
    assert FORMATS[name].read(record) == golden


@given(golden=GOLDENS)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_what_ragas_cannot_hold_is_counted(tmp_path, golden):
    """Question, answer, history and kind come back; what else changed is said."""
    path = tmp_path / "g.jsonl"
    lost = write_any(path, [golden], "ragas")
    read = read_any(path)
    (back,) = read.goldens
    assert read.formats == {"ragas": 1}
    assert set(lost) <= OF_RAGAS
    assert set(lost) == {
        name for name in golden.__struct_fields__ if getattr(back, name) != getattr(golden, name)
    }


@given(goldens=st.lists(GOLDENS, min_size=1, max_size=3))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=30)
@pytest.mark.parametrize(
    ("name", "file"),
    [
        ("csv", "g.csv"),
        ("parquet", "g.parquet"),
        ("phoenix", "g.jsonl"),
        ("deepeval", "g.json"),
        ("ragmonitor", "g.json"),
    ],
)
def test_a_file_holds_everything(tmp_path, name, file, goldens):
    """Any character, also what a spreadsheet would compute."""
    path = tmp_path / file
    assert not write_any(path, goldens, name)
    read = read_any(path)
    assert (read.goldens, read.errors) == (goldens, [])


@pytest.mark.parametrize("text", ["=1+1", "'=1+1", "''@x", "'Tis", "-3", " +x", "a=b"])
def test_a_cell_is_nobodys_formula(tmp_path, text):
    """And comes back as it was."""
    path = tmp_path / "g.csv"
    golden = Golden(id="a", question=text, answer=text)
    write_any(path, [golden], "csv")
    cells = path.read_text("utf-8-sig").splitlines()[1].split(",")
    assert not any(cell.lstrip(" ").startswith(("=", "+", "-", "@")) for cell in cells)
    assert read_any(path).goldens == [golden]


def test_phoenix_csv_has_its_columns(tmp_path):
    """As its export has them, nested names with points."""
    path = tmp_path / "g.csv"
    golden = Golden(
        id="a", question="[1]?", answer="x", chunks=(ReferenceChunk(text="t"),), source="written"
    )
    assert not write_any(path, [golden], "phoenix")
    assert write_any(path, [msgspec.structs.replace(golden, attributes={"a.b": "c"})], "phoenix")
    write_any(path, [golden], "phoenix")
    head = path.read_text("utf-8-sig").splitlines()[0]
    assert head.startswith("id,input.question,output.answer,metadata.kind,")
    assert "metadata.chunks" in head
    back = read_any(path).goldens[0]
    assert back == golden


RAGAS_ROW = {
    "user_input": "How tall?",
    "reference_contexts": "['It is 330 m.', 'Built in 1889.']",
    "reference": "330 m.",
    "synthesizer_name": "multi_hop_specific_query_synthesizer",
}


@pytest.mark.parametrize(
    ("record", "expected"),
    [
        (RAGAS_ROW, {"kind": "several_chunks", "source": "ragas", "answer": "330 m."}),
        ({"inputs": {"q": "How tall?"}, "outputs": {"a": "330 m."}}, {"answer": "330 m."}),
        (
            {
                "inputs": {
                    "messages": [
                        {"type": "human", "content": "Hi"},
                        {"type": "ai", "content": "Yes?"},
                        {"type": "human", "content": "How tall?"},
                    ]
                },
                "outputs": {"output": "330 m."},
                "metadata": {"route": "towers", "kind": "trivia"},
            },
            {"attributes": {"route": "towers", "kind": "trivia"}, "source": "langsmith"},
        ),
        (
            {
                "inputs": {
                    "messages": [
                        {"role": "user", "content": [{"type": "text", "text": "Hi"}]},
                        {"role": "user", "content": [{"type": "text", "text": "How tall?"}]},
                    ]
                },
                "outputs": {"output": "330 m."},
            },
            {"history": ({"role": "user", "text": "Hi"},)},
        ),
        (
            {
                "inputs": {
                    "messages": [
                        {"lc": 1, "type": "constructor", "kwargs": {"type": "human", "content": t}}
                        for t in ("Hi", "How tall?")
                    ]
                },
                "outputs": {"output": "330 m."},
            },
            {"history": ({"role": "user", "text": "Hi"},)},
        ),
        (
            {"id": "i", "input": "How tall?", "expectedOutput": "330 m.", "status": "ARCHIVED"},
            {"id": "i", "status": "rejected"},
        ),
        (
            {"input": "How tall?", "expected_output": None, "context": "a|b"},
            {"kind": "single_fact"},
        ),
        ({"id": "n", "input.query": "How tall?", "output.answer": "330 m."}, {"id": "n"}),
        ({"question": "How tall?", "answer": "330 m."}, {"kind": "single_fact"}),
        (
            {"question": "How tall?", "answer": "300 m.", "contexts": ["x"], "reference": "330 m."},
            {"answer": "330 m."},
        ),
        (
            {"question": "How tall?", "answer": "300 m.", "ground_truths": "['330 m.']"},
            {"answer": "330 m."},
        ),
    ],
)
def test_other_peoples_records_are_read(record, expected):
    """As the tools themselves write them."""
    golden = FORMATS[recognised(record)].read(record)
    assert golden.question == "How tall?"
    assert golden.id
    built = msgspec.to_builtins(golden) | {"kind": golden.kind.value}
    assert built | expected == built


def test_a_report_of_a_monitor_is_no_golden_question():
    """Its answer is the application's own; mining has a person look at it."""
    with pytest.raises(InputError, match="goldens mine"):
        FORMATS["ragmonitor"].read({"question": "q", "answer": "a", "evaluations": {}})


@pytest.mark.parametrize("messages", [["How tall?"], [None], [["a", "b", "c"]]])
def test_what_is_no_message_is_said(messages):
    """The record is left out with a reason that people understand."""
    record = {"inputs": {"messages": messages}, "outputs": {"output": "330 m."}}
    with pytest.raises(InputError, match="each with a role and a content"):
        FORMATS[recognised(record)].read(record)


def test_a_conversation_is_a_text_in_a_ragas_file():
    """RAGAS loads no file that mixes texts with lists of messages; both come back as they were."""
    golden = Golden(
        question="And by air?",
        answer="20 kg.",
        kind=GoldenKind.FOLLOW_UP,
        history=(Turn(role="user", text="How heavy?"), Turn(role="assistant", text="40\nkg.")),
        chunks=(ReferenceChunk(text="By air 20 kg."),),
    )
    record = FORMATS["ragas"].write(golden)
    assert record["user_input"] == "user: How heavy?\nassistant: 40 kg.\nuser: And by air?"
    back = FORMATS["ragas"].read(record)
    assert (back.question, back.chunks) == (golden.question, golden.chunks)
    assert [turn.text for turn in back.history] == ["How heavy?", "40 kg."]


def test_a_conversation_in_a_cell_of_a_ragas_csv_is_read(tmp_path):
    """RAGAS writes there what Python prints of the list."""
    messages = [
        {"content": "How heavy?", "type": "human"},
        {"content": "40 kg.", "type": "ai"},
        {"content": "And by air?", "type": "human"},
    ]
    path = tmp_path / "g.csv"
    with path.open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["user_input", "reference", "synthesizer_name"])
        rows.writerow([str(messages), "20 kg.", "x"])
    (golden,) = read_any(path).goldens
    assert golden.question == "And by air?"
    assert [turn.text for turn in golden.history] == ["How heavy?", "40 kg."]
    assert golden.kind is GoldenKind.FOLLOW_UP


def test_a_question_in_a_ragas_csv_that_looks_like_a_conversation_is_a_question(tmp_path):
    """What stands in the brackets are not messages only."""
    path = tmp_path / "g.csv"
    with path.open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["user_input", "reference", "synthesizer_name"])
        rows.writerow(["[{'content': 'a', 'type': 'human'}, 3]", "A list.", "x"])
    (golden,) = read_any(path).goldens
    assert golden.question == "[{'content': 'a', 'type': 'human'}, 3]"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('{"frage": "x"}', "'frage'"),
        ("[3]", "expected objects"),
        ("{", "g.jsonl"),
        ("[" * 100_000, "nested too deeply"),
    ],
)
def test_a_file_of_no_format_is_refused(tmp_path, text, told):
    """With its columns."""
    path = tmp_path / "g.jsonl"
    path.write_text(text)
    with pytest.raises(InputError, match=told):
        read_any(path)


def test_a_record_that_is_none_is_said_and_the_others_are_read(tmp_path):
    """With its number."""
    path = tmp_path / "g.jsonl"
    good, bad = {"inputs": {"question": "q"}}, {"inputs": {"a": "x", "b": "y"}}
    path.write_text("\n".join(map(json.dumps, (good, bad, {"scenario": "s"}))))
    read = read_any(path)
    assert [golden.question for golden in read.goldens] == ["q"]
    assert [error.partition(":")[0] for error in read.errors] == ["record 2", "record 3"]


@pytest.mark.parametrize("as_list", [False, True])
def test_half_of_a_character_costs_no_record(tmp_path, as_list):
    """A mark stands in its place, since no file can hold it; a whole pair stays."""
    record = '{"id": "x", "question": "a \\uD83D b \\ud83d\\ude00", "answer": "c"}'
    source, target = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    source.write_text(f"[{record}]" if as_list else record)
    write_any(target, read_any(source).goldens, "ragmonitor")
    assert [each.question for each in read_any(target).goldens] == ["a ? b \U0001f600"]


@pytest.mark.parametrize("broken", ["not json", "3", "{" * 9, '{"a":' * 100_000])
def test_a_broken_line_costs_only_itself(tmp_path, broken):
    """Also if it is the first; it is said with its number."""
    path = tmp_path / "g.jsonl"
    good = '{"question": "q", "answer": "a"}'
    for number, lines in ((1, (broken, good)), (2, (good, broken))):
        path.write_text("\n".join(lines))
        read = read_any(path)
        assert [each.question for each in read.goldens] == ["q"]
        assert [each.partition(":")[0] for each in read.errors] == [f"record {number}"]


@pytest.mark.parametrize(("row", "told"), [("q,a,[{", "chunks: no JSON"), (",a,", "is empty")])
def test_a_broken_row_costs_only_itself(tmp_path, row, told):
    """A cell that is to hold JSON, or a question that was deleted."""
    path = tmp_path / "g.csv"
    path.write_text(f"question,answer,chunks\n{row}\nq,a,\n")
    read = read_any(path)
    assert [each.question for each in read.goldens] == ["q"]
    (error,) = read.errors
    assert error.startswith("record 1: ")
    assert told in error


@pytest.mark.slow
def test_langsmith_and_langfuse_take_what_is_written():
    """Their own types of today read the records."""
    langsmith = pytest.importorskip("langsmith.schemas")
    items = pytest.importorskip("langfuse.api.commons.types.dataset_item")
    wire = pytest.importorskip("langfuse.api.core.pydantic_utilities")
    golden = Golden(id="a", question="How tall?", answer="330 m.", attributes={"route": "towers"})
    record = FORMATS["langsmith"].write(golden)
    made = langsmith.ExampleCreate(
        inputs=record["inputs"], reference_outputs=record["outputs"], metadata=record["metadata"]
    )
    assert made.reference_outputs == {"answer": "330 m."}
    server = {"datasetId": "d", "datasetName": "n", "mediaReferences": []}
    server |= {"createdAt": "2027-01-15T08:00:00Z", "updatedAt": "2027-01-15T08:00:00Z"}
    item = wire.parse_obj_as(items.DatasetItem, FORMATS["langfuse"].write(golden) | server)
    assert item.expected_output == {"answer": "330 m."}
    assert item.status.value == "ACTIVE"


@pytest.mark.parametrize("name", ["g.jsonl", "g.csv"])
def test_a_file_in_another_encoding_says_what_to_do(tmp_path, name):
    """Chinese spreadsheets write CSV as GBK."""
    path = tmp_path / name
    path.write_bytes("question,包裹最重多少?".encode("gb18030"))
    for read in (read_any, read_goldens):
        with pytest.raises(InputError, match="iconv -f GB18030 -t UTF-8"):
            read(path)
