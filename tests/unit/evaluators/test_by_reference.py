"""Evaluators by a reference answer: formulas, identities and what is left unscored."""

import sys
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

import ragmonitor
from ragmonitor.evaluators import evaluate, register_embedding, table
from ragmonitor.evaluators.embeddings import character_grams, nearness
from ragmonitor.evaluators.reference_free import average_precision
from ragmonitor.evaluators.table import Table
from ragmonitor.records import (
    Cause,
    Chunk,
    ReferenceReading,
    ReferenceSentence,
    Scored,
    SentenceVerdict,
    Verdict,
)
from tests.support.stories import assessment, interaction

TOLD = interaction(texts=("zero", "one", "two"), reference="R")


def outcome(name, told, found):
    (evaluation,) = evaluate(table.select([name]), told, found)
    return evaluation.score if isinstance(evaluation, Scored) else evaluation.cause


def claim(*chunks):
    verdict = Verdict.SUPPORTED if chunks else Verdict.ABSENT
    return SentenceVerdict(text="x", start=0, end=1, verdict=verdict, chunks=chunks)


def sentence(*chunks, in_answer=False):
    return ReferenceSentence(text="x", chunks=chunks, in_answer=in_answer)


def found(claims, right, sentences, **changes):
    reading = ReferenceReading(answer_claims=tuple(right), sentences=tuple(sentences))
    return replace(assessment(), sentences=tuple(claims), reference=reading, **changes)


# Chunk 0 holds part of the reference, chunks 1 and 2 do not. Of five claims one is right and
# supported, one right and unsupported, one wrong from chunk 0, one wrong from chunk 1, one made up.
MIXED = found(
    [claim(0), claim(), claim(0, 1), claim(1), claim()],
    [True, True, False, False, False],
    [sentence(0, in_answer=True), sentence(0), sentence(in_answer=True), sentence()],
)


readings = st.builds(
    lambda pairs, sentences: found([c for c, _ in pairs], [r for _, r in pairs], sentences),
    st.lists(
        st.tuples(
            st.lists(st.integers(0, 2), max_size=3, unique=True).map(lambda c: claim(*c)),
            st.booleans(),
        ),
        min_size=1,
        max_size=6,
    ),
    st.lists(
        st.builds(
            lambda chunks, said: sentence(*chunks, in_answer=said),
            st.lists(st.integers(0, 2), max_size=3, unique=True),
            st.booleans(),
        ),
        min_size=1,
        max_size=6,
    ),
)


@given(read=readings)
def test_every_claim_is_in_one_place(read):
    """Right, noise of either kind, or hallucination; faithful, known, or hallucination."""

    def total(*names):
        return sum(outcome(f"ragchecker_{name}", TOLD, read) for name in names)

    wrong = ("noise_sensitivity_in_relevant", "noise_sensitivity_in_irrelevant", "hallucination")
    assert total("precision", *wrong) == pytest.approx(1)
    assert total("faithfulness", "self_knowledge", "hallucination") == pytest.approx(1)


@given(relevant=st.lists(st.booleans(), min_size=1, max_size=8))
def test_a_ranking_is_best_with_what_is_relevant_first(relevant):
    """Sorted it scores 1 if anything is relevant, and no order scores more."""
    best = sorted(relevant, reverse=True)
    assert average_precision(best) == float(any(relevant))
    assert 0 <= average_precision(relevant) <= average_precision(best)


BY_READING = [
    entry.name for entry in table if entry.needs_reference and entry.name != "context_rouge_l"
]


@pytest.mark.parametrize("name", [name for name in BY_READING if name != "answer_similarity"])
def test_verdicts_of_another_number_of_claims_are_unreadable(name):
    """Only what says nothing of the answer's claims can be told."""
    torn = found([claim(0)], [True, False], [sentence(0, in_answer=True)])
    told = outcome(name, TOLD, torn)
    about_reference = {
        "context_recall",
        "context_precision",
        "ragchecker_recall",
        "ragchecker_claim_recall",
        "ragchecker_context_precision",
        "ragchecker_context_utilization",
    }
    assert (told is Cause.UNREADABLE) == (name not in about_reference)


# Similarity


def test_the_embedding_without_a_network_sees_what_is_written_alike():
    """In both languages; the same in every process; nothing in common is 0."""
    same, near, far = character_grams(["张伟是教研部的", "张伟在教研部", "天气怎么样"])
    assert nearness(same, same) == pytest.approx(1)
    assert nearness(same, near) > 0.5 > nearness(same, far)
    same, near, far = character_grams(["He works in teaching", "he works at Teaching.", "rainy"])
    assert nearness(same, near) > 0.5 > nearness(same, far)
    assert nearness(*character_grams(["…", "…"])) == 0


def test_an_embedding_of_ones_own_takes_the_place_of_ours():
    """Under another version: a changed judge must not look like a changed system."""
    own = Table(table)
    register_embedding(lambda texts: [(1.0, 0.0), (0.6, 0.8)][: len(texts)], version=7, into=own)
    (evaluation,) = evaluate(own.select(["answer_similarity"]), TOLD, MIXED)
    assert (evaluation.evaluator, evaluation.score) == ("answer_similarity@7", pytest.approx(0.6))
    assert [entry.name for entry in own] == [entry.name for entry in table]


# Documents and words


def with_reference_chunks(*wanted, chunks=None):
    retrieved = chunks or [
        Chunk(text="a", id="1"),
        Chunk(text="b", id="2"),
        Chunk(text="c", id="3"),
    ]
    return replace(TOLD, chunks=tuple(retrieved), reference_chunks=wanted)


def test_documents_by_their_texts():
    """Where ids are missing: the same text but for spaces, or one edited by less than half."""
    chunks = [Chunk(text="The tower  was built in 1887."), Chunk(text="Cats sleep all day.")]
    told = with_reference_chunks(Chunk(text="The tower was built in 1887"), chunks=chunks)
    assert outcome("document_precision", told, MIXED) == 0.5
    assert outcome("document_recall", told, MIXED) == 1


def test_a_document_that_comes_twice_gains_once():
    """Both ranks are precise, and the second brings nothing new."""
    chunks = [Chunk(text="a", id="1"), Chunk(text="a", id="1")]
    told = with_reference_chunks(Chunk(text="a", id="1"), Chunk(text="b", id="2"), chunks=chunks)
    assert outcome("document_precision", told, MIXED) == 1
    assert outcome("document_recall", told, MIXED) == 0.5
    assert outcome("document_ndcg", told, MIXED) < 1


def test_what_is_not_installed_is_named_with_the_command(monkeypatch):
    """The evaluation says what to run."""
    monkeypatch.delitem(sys.modules, "rapidfuzz.distance", raising=False)
    monkeypatch.setitem(sys.modules, "rapidfuzz", None)
    (evaluation,) = evaluate(table.select(["context_rouge_l"]), TOLD, MIXED)
    assert evaluation.cause is Cause.EVALUATOR_ERROR
    assert "pip install 'ragmonitor[reference]'" in evaluation.detail


@pytest.mark.parametrize(
    ("answer", "reference", "score"),
    [
        ("No.", "Yes.", 0.0),
        ("Yes, within 7 days.", "Yes", 1.0),
        ("不可以", "可以", 0.0),
        ("I do not know.", "Yes", 0.0),
    ],
)
def test_a_reference_of_one_word_is_one(answer: str, reference: str, score: float):
    """Else a "no" for a "yes" goes unnoticed: neither word claims what a chunk could hold."""
    row = {"question": "Can I return it?", "contexts": ["Returns are possible within 7 days."]}
    row |= {"answer": answer, "reference": reference}
    (line,) = ragmonitor.evaluate([row], evaluators=["factual_correctness"]).to_dicts()
    assert line["evaluations"]["factual_correctness"]["score"] == score
