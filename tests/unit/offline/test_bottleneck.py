"""Where an application with reference answers loses them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragmonitor.offline.bottleneck import ADVICE, INPUTS, Bottleneck, bottleneck, bottleneck_of
from ragmonitor.records import Cause, Scored, Unscored
from tests.support.stories import JUDGE

shares = st.floats(0, 1)


@pytest.mark.parametrize(
    ("correctness", "recall", "precision", "expected"),
    [
        (0.9, 0.9, 0.9, "none"),
        (0.9, 0.9, 0.1, "none"),
        (0.9, 0.1, 0.9, "beyond_context"),
        (0.1, 0.9, 0.9, "model"),
        (0.1, 0.9, 0.1, "noise"),
        (0.1, 0.1, 0.9, "too_few_chunks"),
        (0.1, 0.1, 0.1, "parsing_and_chunking"),
    ],
)
def test_the_table(correctness, recall, precision, expected):
    """Every row of the documented table."""
    assert bottleneck(correctness, recall, precision) == expected


def test_a_threshold_itself_is_high():
    """0.7, 0.8 and 0.5."""
    assert bottleneck(0.7, 0.8, 0.5) is Bottleneck.NONE
    assert bottleneck(0.69, 0.8, 0.5) is Bottleneck.MODEL
    assert bottleneck(0.69, 0.79, 0.5) is Bottleneck.TOO_FEW_CHUNKS
    assert bottleneck(0.69, 0.8, 0.49) is Bottleneck.NOISE


def test_thresholds_can_be_given():
    """An application may know better."""
    assert bottleneck(0.5, 0.5, 0.5, correct_from=0.5, recalled_from=0.5) is Bottleneck.NONE


@given(shares, shares, shares)
def test_there_is_always_advice(correctness, recall, precision):
    """Whatever the scores."""
    assert ADVICE[bottleneck(correctness, recall, precision)]


def scored(name, score):
    return Scored(evaluator=f"{name}@1", judge=JUDGE, score=score)


def unscored(name, cause):
    return Unscored(evaluator=f"{name}@1", judge=JUDGE, cause=cause)


def test_all_three_scores_are_needed():
    """One that is missing is not a zero."""
    scores = [scored(name, 0.0) for name in INPUTS]
    assert bottleneck_of(scores) is Bottleneck.PARSING_AND_CHUNKING
    assert bottleneck_of(scores[1:]) is None
    assert bottleneck_of([unscored(INPUTS[0], Cause.UNREADABLE), *scores[1:]]) is None


def test_nothing_retrieved_is_no_precision():
    """Without a chunk the facts cannot have come through."""
    correctness, recall, precision = INPUTS
    found = bottleneck_of(
        [scored(correctness, 0.0), scored(recall, 0.0), unscored(precision, Cause.NO_CONTEXT)]
    )
    assert found is Bottleneck.PARSING_AND_CHUNKING
