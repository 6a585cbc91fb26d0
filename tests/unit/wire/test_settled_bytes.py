"""What workers leave for the estimator comes back as it was."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from ragmonitor.records import (
    PendingVerdict,
    Prediction,
    SamplingDecision,
)
from ragmonitor.wire import (
    SettledAnswer,
    decode_pending,
    decode_settled,
    encode_pending,
    encode_settled,
)
from tests.support.wire_records import interactions, is_same, reports

PREDICTION = Prediction(hallucination=0.2, expected={"refusal": (0.5, 0.25)})


@given(interaction=interactions, several=st.lists(reports, max_size=3))
def test_a_settled_answer_comes_back(interaction, several):
    """With all its reports, whatever stands in them; without what models were asked."""
    calls = tuple(replace(each, input=()) for each in interaction.generations)
    without = replace(interaction, generations=calls)
    answer = SettledAnswer(
        interaction=interaction,
        reports=tuple(replace(each, interaction=interaction) for each in several),
        prediction=PREDICTION,
        decision=SamplingDecision(inclusion_probability=0.5, drawn=True),
        epoch=3,
    )
    kept = tuple(replace(each, interaction=without) for each in several)
    assert is_same(
        decode_settled(encode_settled(answer)), replace(answer, interaction=without, reports=kept)
    )


def test_a_pending_verdict_comes_back():
    """With all that the means need of it."""
    pending = PendingVerdict(
        inclusion_probability=0.5,
        signals=("hallucination", "refusal"),
        groups=(("route", "billing\ud800"), ("language", "zh")),
    )
    assert decode_pending(encode_pending(pending)) == pending
