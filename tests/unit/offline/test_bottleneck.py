"""Where an application with reference answers loses them."""

from __future__ import annotations

from ragmonitor.offline.bottleneck import INPUTS, Bottleneck, bottleneck, bottleneck_of
from ragmonitor.records import Cause, Scored, Unscored
from tests.support.stories import JUDGE


def test_a_threshold_itself_is_high():
    """0.7, 0.8 and 0.5."""
    assert bottleneck(0.7, 0.8, 0.5) is Bottleneck.NONE
    assert bottleneck(0.69, 0.8, 0.5) is Bottleneck.MODEL
    assert bottleneck(0.69, 0.79, 0.5) is Bottleneck.TOO_FEW_CHUNKS
    assert bottleneck(0.69, 0.8, 0.49) is Bottleneck.NOISE


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
