"""Signals off reports: the new reading beside the one that it replaces."""

from __future__ import annotations

from ragmonitor.estimation import signals as before
from ragmonitor.records import SamplingDecision
from ragmonitor.stats import signals
from tests.support.streams import Records, Stream, steady

DRAWN = SamplingDecision(inclusion_probability=1.0, drawn=True)


def test_signals_are_those_of_today():
    """Values, signals that do not apply, and missing verdicts."""
    records = Records()
    for answer in Stream(seed=1, for_s=600.0, rate=steady(0.3)).answers():
        interaction = records.interaction(answer)
        builtin = records.builtin(answer, interaction)
        for report in (builtin, records.judged(answer, interaction, DRAWN)):
            today = before.outcomes(report)
            found = signals.outcomes(report)
            assert {name: each and tuple(map(float, each)) for name, each in today} == found
            known = {name: x for name, x in before.features(report, today) if x is not None}
            assert signals.features(report, found) == known
