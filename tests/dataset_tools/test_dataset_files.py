"""RAGAS, DeepEval and Langfuse load what is written for them, and write what is read back.

`make dataset-tools` installs them and runs this; without them each test is skipped.
"""

from __future__ import annotations

import json

import pytest

from ragmonitor.goldens import Golden, GoldenKind, ReferenceChunk, Turn
from ragmonitor.goldens.golden_tables import as_json, read_any, write_any
from ragmonitor.goldens.traffic_cases import case_record

ANSWERED = [
    Golden(
        question="How heavy may a parcel be?",
        answer="40 kg.",
        chunks=(ReferenceChunk(text="A parcel may weigh 40 kg.", id="c1", source="limits.md"),),
    ),
    Golden(
        question="包裹最重多少?",
        answer="40公斤。",
        language="zh",
        kind=GoldenKind.SEVERAL_CHUNKS,
        chunks=(ReferenceChunk(text="包裹最重40公斤。"), ReferenceChunk(text="a|b, 'c' 和 \"d\"")),
        attributes={"route": "billing"},
    ),
    Golden(
        question="And by air?",
        answer="20 kg.",
        kind=GoldenKind.FOLLOW_UP,
        history=(
            Turn(role="user", text="How heavy may a parcel be?"),
            Turn(role="assistant", text="40 kg."),
        ),
        chunks=(ReferenceChunk(text="By air 20 kg."),),
    ),
]
GOLDENS = [*ANSWERED, Golden(question="Who painted it?", kind=GoldenKind.UNANSWERABLE)]


def essence(goldens):
    """Return what every tool has a place for."""
    return [
        (
            each.question,
            each.answer,
            [chunk.text for chunk in each.chunks],
            each.kind.value,
            [(turn.role, turn.text) for turn in each.history],
        )
        for each in goldens
    ]


@pytest.fixture
def ragas():
    return pytest.importorskip("ragas", reason="make dataset-tools")


@pytest.fixture
def deepeval():
    return pytest.importorskip("deepeval.dataset", reason="make dataset-tools")


def loaded(deepeval, path, method="add_goldens_from_json_file", **names):
    dataset = deepeval.EvaluationDataset()
    getattr(dataset, method)(file_path=str(path), **names)
    return dataset


def test_ragas_loads_a_converted_file_and_writes_what_is_read(ragas, tmp_path):
    """As its evaluation dataset and as its test set; back from JSON lines, CSV and Parquet."""
    schema = pytest.importorskip("ragas.testset.synthesizers.testset_schema")
    path = tmp_path / "ours.jsonl"
    write_any(path, GOLDENS, "ragas")
    samples = ragas.EvaluationDataset.from_jsonl(path).samples
    assert [each.reference for each in samples] == [each.answer for each in GOLDENS]
    assert samples[2].user_input.endswith("user: And by air?")
    assert samples[2].reference_contexts == ["By air 20 kg."]

    testset = schema.Testset.from_jsonl(path)
    assert len(testset.to_evaluation_dataset()) == len(GOLDENS)
    testset.to_jsonl(tmp_path / "theirs.jsonl")
    testset.to_csv(tmp_path / "theirs.csv")
    frame = testset.to_pandas()
    frame.to_csv(tmp_path / "frame.csv")
    frame.to_json(tmp_path / "frame.jsonl", orient="records", lines=True)
    frame.to_parquet(tmp_path / "frame.parquet")
    for name in ("theirs.jsonl", "theirs.csv", "frame.csv", "frame.jsonl", "frame.parquet"):
        read = read_any(tmp_path / name)
        assert (essence(read.goldens), read.errors) == (essence(GOLDENS), []), name


@pytest.mark.parametrize("suffix", ["jsonl", "csv"])
def test_what_ragas_writes_of_conversations_is_read(ragas, tmp_path, suffix):
    """Its own test sets hold lists of messages."""
    schema = pytest.importorskip("ragas.testset.synthesizers.testset_schema")
    messages = [
        {"content": "How heavy may a parcel be?", "type": "human"},
        {"content": "40 kg.", "type": "ai"},
        {"content": "And by air?", "type": "human"},
    ]
    row = {"user_input": messages, "reference": "20 kg.", "synthesizer_name": "multi_turn"}
    path = tmp_path / f"theirs.{suffix}"
    getattr(schema.Testset.from_list([row]), f"to_{suffix}")(path)
    (golden,) = read_any(path).goldens
    assert (golden.question, golden.history) == (ANSWERED[2].question, ANSWERED[2].history)


def test_ragas_loads_the_worst_answers(ragas, tmp_path):
    """With what was retrieved and answered."""
    path = tmp_path / "regression.jsonl"
    path.write_text(as_json([case_record(each, "ragas") for each in ANSWERED]), "utf-8")
    samples = ragas.EvaluationDataset.from_jsonl(path).samples
    assert [each.response for each in samples] == [each.answer for each in ANSWERED]
    assert samples[1].retrieved_contexts == [each.text for each in ANSWERED[1].chunks]
    assert {each.reference for each in samples} == {None}


@pytest.mark.parametrize("kind", ["json", "jsonl", "csv"])
def test_deepeval_loads_a_converted_file_and_writes_what_is_read(deepeval, tmp_path, kind):
    """Nothing is lost on the way there and back."""
    path = tmp_path / "ours.json"
    write_any(path, GOLDENS, "deepeval")
    dataset = loaded(deepeval, path)
    assert [each.input for each in dataset.goldens] == [each.question for each in GOLDENS]
    assert dataset.goldens[1].context == [each.text for each in GOLDENS[1].chunks]
    read = read_any(tmp_path / dataset.save_as(kind, str(tmp_path), "theirs"))
    assert (read.goldens, read.errors) == (GOLDENS, [])


def test_deepeval_loads_json_lines(deepeval, tmp_path):
    """As `goldens convert` writes them."""
    path = tmp_path / "ours.jsonl"
    write_any(path, GOLDENS, "deepeval")
    dataset = loaded(deepeval, path, "add_goldens_from_jsonl_file")
    assert dataset.goldens[0].expected_output == GOLDENS[0].answer


def test_deepeval_loads_the_worst_answers(deepeval, tmp_path):
    """As golden questions and as test cases; what was answered is no expected output."""
    path = tmp_path / "regression.json"
    records = [case_record(each, "deepeval") for each in ANSWERED]
    path.write_text(as_json(records, as_list=True), "utf-8")
    cases = loaded(
        deepeval,
        path,
        "add_test_cases_from_json_file",
        input_key_name="input",
        actual_output_key_name="actual_output",
        retrieval_context_key_name="retrieval_context",
    ).test_cases
    for found in (loaded(deepeval, path).goldens, cases):
        assert [each.actual_output for each in found] == [each.answer for each in ANSWERED]
        assert found[1].retrieval_context == [each.text for each in ANSWERED[1].chunks]
        assert {each.expected_output for each in found} == {None}


def test_langfuse_takes_the_worst_answers():
    """Its client's own type of today reads the records."""
    items = pytest.importorskip(
        "langfuse.api.commons.types.dataset_item", reason="make dataset-tools"
    )
    wire = pytest.importorskip("langfuse.api.core.pydantic_utilities")
    server = {"datasetId": "d", "datasetName": "n", "mediaReferences": []}
    server |= {"createdAt": "2027-01-15T08:00:00Z", "updatedAt": "2027-01-15T08:00:00Z"}
    for case in ANSWERED:
        record = json.loads(json.dumps(case_record(case, "langfuse")))
        item = wire.parse_obj_as(items.DatasetItem, record | server)
        assert item.input["question"] == case.question
        assert item.expected_output is None
        assert item.metadata["output"]["answer"] == case.answer
