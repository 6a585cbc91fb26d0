"""What stands on a span, whatever the application hands over."""

from __future__ import annotations

import json
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from ragmonitor.export.content import ContentPolicy
from ragmonitor.export.span_attributes import retrieval_attributes, root_attributes
from ragmonitor.records import Chunk, Retrieval
from tests.unit.export.examples import LEXICAL, MODEL, interaction, report

ALL = ContentPolicy()
texts = st.text(st.characters(), max_size=20)
numbers = st.one_of(st.none(), st.floats())


@given(
    chunks=st.lists(st.builds(Chunk, text=texts, id=texts, score=numbers), max_size=40),
    own=st.dictionaries(texts, texts, max_size=30),
    query=texts,
    answer=texts,
)
def test_any_text_and_any_number_can_be_encoded(
    chunks: list[Chunk], own: dict[str, str], query: str, answer: str
) -> None:
    """No surrogate, NaN or number of chunks makes attributes that an exporter refuses."""
    given_ = interaction(
        chunks=tuple(chunks), attributes=own, query=query, answer=answer, retrievals=()
    )
    step = Retrieval(query=query, chunks=tuple(chunks), started_ns=0, ended_ns=1)
    for attributes in (root_attributes(given_, [report()], ALL), retrieval_attributes(step, ALL)):
        for name, value in attributes.items():
            name.encode()
            str(value).encode()
            assert value == value  # noqa: PLR0124 - false for NaN only
        json.loads(str(attributes["gen_ai.retrieval.documents"] if chunks else "[]"))


def test_what_was_predicted_stands_beside_the_verdict():
    """Of the built-in judge's report, on the root span with the judge's own; else not at all."""
    judged = [replace(report(LEXICAL), predicted=0.25), report(MODEL)]
    attributes = root_attributes(interaction(), judged, ALL)
    assert attributes["ragmonitor.predicted"] == 0.25
    assert attributes["ragmonitor.judge"] == str(MODEL)
    assert "ragmonitor.predicted" not in root_attributes(interaction(), judged[1:], ALL)
