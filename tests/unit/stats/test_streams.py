"""Which signals have an alarm, and what a report says of a signal."""

from dataclasses import replace

import pytest

from ragmonitor.records import Cause, Report, Scored, Unscored
from ragmonitor.stats.signals import features, outcomes
from ragmonitor.stats.streams import streams
from ragmonitor.stats.sums import NOTHING, Outcome
from tests.support.stories import JUDGE, assessment, interaction

NAMES = ("faithfulness", "answer_relevancy", "contradicted_claims", "hallucination")


def of(judge="openai/x", patterns=("*",)):
    return {
        stream.signal: stream
        for stream in streams(
            evaluators=NAMES,
            lower_is_better=("contradicted_claims", "hallucination"),
            builtin="builtin",
            judge=judge,
            patterns=patterns,
        )
    }


def test_a_mean_falls_unless_lower_is_better():
    """Faithfulness must not fall, contradictions must not rise."""
    found = of()
    assert found["faithfulness"].higher_is_better
    assert not found["contradicted_claims"].higher_is_better
    assert not found["hallucination"].higher_is_better


def report(found, **evaluations):
    told = tuple(
        Scored(evaluator=f"{name}@1", judge=JUDGE, score=value)
        if isinstance(value, float)
        else Unscored(evaluator=f"{name}@1", judge=JUDGE, cause=value)
        for name, value in evaluations.items()
    )
    return Report(interaction=interaction(), judge=JUDGE, evaluations=told, assessment=found)


def test_a_score_a_refusal_and_a_failure_are_three_things():
    """A value, that the signal does not apply, and that there is no verdict."""
    told = report(
        assessment("supported", "absent"),
        faithfulness=0.5,
        answer_relevancy=Cause.REFUSAL,
        context_relevance=Cause.UNREADABLE,
    )
    assert dict(outcomes(told)) == {
        "hallucination": Outcome(scored=True, value=1.0),
        "refusal": Outcome(scored=True, value=0.0),
        "minor_hallucination": Outcome(scored=True, value=0.0),
        "faithfulness": Outcome(scored=True, value=0.5),
        "answer_relevancy": NOTHING,
        "context_relevance": None,
    }


@pytest.mark.parametrize("cause", list(Cause))
def test_every_cause_is_one_or_the_other(cause):
    """Failures of judging are missing verdicts; all else says something of the answer."""
    told = dict(outcomes(report(assessment("supported"), faithfulness=cause)))
    failures = {
        "not_sampled", "over_budget", "judge_busy", "judge_down", "evidence_too_long", "too_long",
        "queue_full", "judge_timeout", "judge_error", "judge_refused", "unreadable",
        "evaluator_error", "shutdown", "internal_error",
    }  # fmt: skip
    assert (told["faithfulness"] is None) == (cause.value in failures)


def test_a_refusal_claims_nothing_to_be_hallucinated():
    """It is one more refusal, and in no rate of hallucinations."""
    told = dict(outcomes(report(assessment("no_claim", evasive=True))))
    assert told["hallucination"] == NOTHING
    assert told["refusal"].value == 1


def test_hallucination_is_predicted_from_the_risk():
    """And not from the built-in verdict, which is yes or no; where there is none, from that."""
    told = report(assessment("absent", risk=0.7))
    assert dict(features(told, outcomes(told)))["hallucination"] == 0.7
    told = replace(told, assessment=assessment("absent", risk=None))
    assert dict(features(told, outcomes(told)))["hallucination"] == 1.0
