"""What workers leave for the estimator comes back as it was."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragmonitor.errors import WireError
from ragmonitor.records import (
    AlarmEvent,
    Example,
    PendingVerdict,
    Prediction,
    SamplingDecision,
)
from ragmonitor.wire import (
    Decided,
    SettledAnswer,
    decode_alarms,
    decode_decided,
    decode_pending,
    decode_settled,
    encode_alarms,
    encode_decided,
    encode_pending,
    encode_settled,
)
from ragmonitor.wire.frames import framed
from tests.support.stories import assessment, interaction
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


def test_a_decision_comes_back():
    """With the prediction that stood before it."""
    decision = SamplingDecision(inclusion_probability=0.5, drawn=True, floors=(("a=b", 0.5),))
    decided = Decided(decision=decision, prediction=PREDICTION, epoch=9)
    assert decode_decided(encode_decided(decided)) == decided


def test_a_pending_verdict_comes_back():
    """With all that the means need of it."""
    pending = PendingVerdict(
        inclusion_probability=0.5,
        signals=("hallucination", "refusal"),
        groups=(("route", "billing\ud800"), ("language", "zh")),
    )
    assert decode_pending(encode_pending(pending)) == pending


def test_a_later_release_may_say_more_of_a_pending_verdict():
    """What is not known here is skipped, and what is missing has its default."""
    body = msgspec.msgpack.encode({"inclusion_probability": 0.5, "further": 1})
    read = decode_pending(framed(b"w", 0, body, compressed=False))
    assert read == PendingVerdict(inclusion_probability=0.5)


@pytest.mark.parametrize("chance", [0.0, -1.0, 1.5, float("nan")])
def test_a_pending_verdict_without_a_chance_is_refused(chance: float):
    """Means divide by it."""
    with pytest.raises(WireError):
        decode_pending(encode_pending(PendingVerdict(inclusion_probability=chance)))


def test_alarms_come_back():
    """With the answers that are their examples."""
    example = Example(
        interaction=interaction(), assessment=assessment("absent"), badness=1.0, at_s=5.0
    )
    event = AlarmEvent(
        signal="hallucination",
        judge="j",
        kind="quality",
        raised=True,
        at_s=5.0,
        since_s=1.0,
        evidence_s=9.0,
        threshold_s=8.0,
        objective=0.05,
        examples=(example,),
    )
    assert decode_alarms(encode_alarms([event])) == [event]


def test_what_is_too_long_is_cut():
    """It was judged whole, and so stays one that is estimated."""
    long = interaction(texts=["word " * 400_000] * 3)
    read = decode_settled(encode_settled(SettledAnswer(interaction=long, reports=()))).interaction
    assert len(read.chunks[0].text) < len(long.chunks[0].text)
    assert not read.capture_incomplete


def test_damaged_bytes_are_refused():
    """As those of every other record."""
    with pytest.raises(WireError):
        decode_settled(encode_settled(SettledAnswer(interaction=interaction(), reports=()))[:-5])
