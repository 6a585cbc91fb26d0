"""Arrow tables in, Arrow tables with scores out."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import ragmonitor
from ragmonitor import batch
from ragmonitor.records import JudgeIdentity, JudgeUsage
from ragmonitor.runtime.errors import InputError
from tests.support import stories

QUESTION, CONTEXTS, ANSWER = stories.ENGLISH
ROW = {"id": "a", "question": QUESTION, "contexts": list(CONTEXTS), "answer": ANSWER}
FALSE = {**ROW, "id": "b", "answer": "It was built in 1925."}
ADDED = (
    ("faithfulness", pa.float64()),
    ("faithfulness_unscored", pa.string()),
    ("diagnosis", pa.string()),
    ("risk", pa.float64()),
    ("unsupported", pa.list_(pa.string())),
    ("judge", pa.string()),
    ("error", pa.string()),
)


@pytest.fixture(autouse=True)
def _no_settings_from_outside(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)


def score(rows, schema=None, **options):
    return batch.score(
        pa.Table.from_pylist(rows, schema), **{"evaluators": "faithfulness", **options}
    )


def test_columns_stay_and_scores_are_added():
    """With the types that the page tells."""
    scored = score([ROW, FALSE])
    given_schema = pa.Table.from_pylist([ROW]).schema
    assert scored.schema == pa.schema([*given_schema, *(pa.field(*each) for each in ADDED)])
    assert scored.select(given_schema.names).to_pylist() == [ROW, FALSE]
    assert scored.column("faithfulness").to_pylist() == [1.0, 0.0]
    assert scored.column("unsupported").to_pylist() == [[], ["It was built in 1925."]]
    assert scored.column("judge").to_pylist()[0].startswith("builtin@")


texts = st.one_of(st.none(), st.text(st.characters(codec="utf-8"), max_size=30))
rows = st.fixed_dictionaries(
    {
        "id": texts,
        "question": texts,
        "contexts": st.one_of(st.none(), st.lists(texts, max_size=3)),
        "answer": st.one_of(texts, st.just(ANSWER)),
        "status": st.sampled_from([None, "ok", "error", "paid"]),
    }
)
SCHEMA = pa.schema(
    [
        *((name, pa.string()) for name in ("id", "question")),
        ("contexts", pa.list_(pa.string())),
        *((name, pa.string()) for name in ("answer", "status")),
    ]
)


@given(told=st.lists(rows, max_size=5), repeats=st.sampled_from([1, 200]))
def test_every_row_has_what_evaluate_says_of_it(told, repeats):
    """In its place, whatever the rows hold and however many they are; nulls are no chunks."""
    told = told * repeats
    scored = score(told, SCHEMA)
    assert scored.schema == score([], SCHEMA).schema
    assert scored.select(SCHEMA.names).to_pylist() == told
    expected = ragmonitor.evaluate(
        [{**row, "contexts": row["contexts"] or []} for row in told], evaluators=["faithfulness"]
    ).to_dicts()
    assert scored.num_rows == len(expected)
    for row, line in zip(scored.to_pylist(), expected, strict=True):
        assert row["error"] == line.get("error")
        evaluation = line.get("evaluations", {}).get("faithfulness", {})
        assert row["faithfulness"] == evaluation.get("score")
        assert row["faithfulness_unscored"] == evaluation.get("unscored")


STRUCTS = pa.list_(pa.struct([("text", pa.string()), ("score", pa.float32())]))


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("question", pa.large_string()),
        ("answer", pa.dictionary(pa.int32(), pa.string())),
        ("contexts", pa.large_list(pa.large_string())),
        ("contexts", STRUCTS),
        ("id", pa.int64()),
    ],
    ids=str,
)
def test_other_types_of_the_same_are_as_good(name, kind):
    """What Spark, pandas and Polars make of texts and lists."""
    table = pa.Table.from_pylist([{**ROW, "id": "7"}])
    at = table.column_names.index(name)
    if kind == STRUCTS:
        values = pa.array([[{"text": text, "score": 0.5} for text in CONTEXTS]], kind)
    else:
        values = table.column(name).cast(kind)
    scored = batch.score(table.set_column(at, name, values), evaluators="faithfulness")
    assert scored.column("faithfulness").to_pylist() == [1.0]
    assert scored.schema.field(name).type == kind


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"contexts": "one text"}, "contexts: expected a list"),
        ({"question": 7}, "question: expected text"),
        ({"id": 0.5}, "id: expected text or a whole number"),
        ({"reference": 3}, "reference: expected a text"),
        ({"not_shown": [{"body": "x"}]}, "not_shown[0]: expected a text"),
    ],
)
def test_a_column_of_another_type_is_said_in_each_row(change, told):
    """As of any other row that cannot be read."""
    (row,) = score([{**ROW, **change}]).to_pylist()
    assert row["error"].startswith(told)
    assert row["faithfulness"] is None


def test_a_column_that_is_missing_or_there_twice_is_named():
    """With what may be renamed."""
    table = pa.Table.from_pylist([ROW])
    with pytest.raises(InputError, match=r"'id', 'question', 'answer'; expected .*Rename"):
        batch.score(table.drop_columns(["contexts"]))
    with pytest.raises(InputError, match="2 columns are called 'answer'"):
        batch.score(table.append_column("answer", table.column("answer")))


class Priced:
    """Costs ten tokens a reading, and holds a connection."""

    identity = JudgeIdentity(name="priced", version="1", kind="LLM")
    budget_unit = "tokens"

    def __init__(self):
        self.calls: list[str] = []

    def expected_cost(self, interaction):
        return 10.0

    async def prepare(self):
        self.calls.append("prepare")
        self.loop = asyncio.get_running_loop()

    async def close(self):
        self.calls.append("close")

    async def assess(self, interaction):
        assert asyncio.get_running_loop() is self.loop
        usage = JudgeUsage(calls=1, input_tokens=10)
        return replace(stories.assessment("supported"), judge=self.identity, usage=usage)


def test_one_scorer_has_one_judge_and_one_budget_for_all_tables():
    """On one loop, also where another runs meanwhile, as in a notebook or an actor."""
    judge = Priced()
    table = pa.Table.from_pylist([ROW] * 2)

    async def on_a_loop(scorer):
        return scorer(table)

    with batch.BatchScorer(
        judge=judge, budget_tokens=30, evaluators="faithfulness", concurrency=1
    ) as scorer:
        tables = [scorer(table), asyncio.run(on_a_loop(scorer))]
        assert scorer.usage.input_tokens == 30
    causes = [each for one in tables for each in one.column("faithfulness_unscored").to_pylist()]
    assert causes == [None, None, None, "over_budget"]
    assert judge.calls == ["prepare", "close"]
