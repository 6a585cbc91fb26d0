"""Completed answers with attributes, as parts of the statistics see them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ragmonitor.records import CompletedAnswer, Prediction, SamplingDecision
from ragmonitor.stats.parts import Answer
from ragmonitor.stats.signals import outcomes
from tests.support.slice_rows import SIGNAL, SINCE_S
from tests.support.streams import Records, Stream


def answer(
    number: int = 0,
    *,
    bad: bool = False,
    drawn: bool = True,
    probability: float = 0.5,
    at_s: float = SINCE_S,
    **values: Any,
) -> Answer:
    """Return one completed answer, as parts see it."""
    records = Records()
    simulated = next(iter(Stream(seed=number).answers()))._replace(
        number=number, hallucinated=bad, supported=0.5 if bad else 1.0
    )
    ended_ns = int(at_s * 1e9)
    interaction = replace(
        records.interaction(simulated), ended_ns=ended_ns, started_ns=ended_ns, **values
    )
    decision = SamplingDecision(inclusion_probability=probability, drawn=drawn, rate=probability)
    builtin = records.builtin(simulated, interaction)
    judged = records.judged(simulated, interaction, decision) if drawn else None
    verdicts = None if judged is None else tuple(outcomes(judged).items())
    return Answer(
        completed=CompletedAnswer(
            builtin=builtin,
            prediction=Prediction(expected={SIGNAL: (0.9, 0.1)}),
            decision=decision,
            judged=judged,
        ),
        interaction=interaction,
        at_s=at_s,
        builtin=tuple(outcomes(builtin).items()),
        judged=verdicts,
        weight=1 / probability,
        verdicts=verdicts,
    )
