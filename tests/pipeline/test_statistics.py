"""Sampling, estimates and alarms together, on simulated traffic of which the truth is known."""

from __future__ import annotations

from pathlib import Path

import pytest

from ragmonitor.estimation import summarise
from ragmonitor.records import Estimate, Interaction, Report, SamplingDecision, SeriesKey, Window
from ragmonitor.sampling import AdaptiveSampler, Budget
from ragmonitor.testing import ManualClock
from tests.support import simulation
from tests.support.simulation import Service, Verdict
from tests.support.streams import (
    DAY_S,
    HOUR_S,
    Answer,
    Bursts,
    Records,
    Stream,
    spike,
    steady,
    step,
)

pytestmark = pytest.mark.slow

RATE = SeriesKey(signal="hallucination", judge="judge")
FAITHFULNESS = SeriesKey(signal="faithfulness", judge="judge")


def monitored(
    *,
    fraction: float = 0.1,
    objective: float | None = None,
    verdict: Verdict = simulation.truthful,
    verdict_after_s: float = 3.0,
    folder: Path | None = None,
    tick_s: float = 60.0,
) -> Service:
    """Return a service of which the judge reads this share."""
    clock = ManualClock()
    records = Records(evaluators=("faithfulness",))
    return Service(
        estimates=simulation.statistics(
            clock,
            records,
            objectives={} if objective is None else {"hallucination": objective},
            folder=folder,
        ),
        sampler=AdaptiveSampler(fraction, clock=clock),
        clock=clock,
        records=records,
        verdict=verdict,
        verdict_after_s=lambda _: verdict_after_s,
        tick_s=tick_s,
    )


def estimate(service: Service, key: SeriesKey = RATE, window: Window = "24h") -> Estimate:
    """Return what is shown now."""
    for shown, of, moments in service.estimates.snapshot().moments:
        if (shown, of) == (key, window):
            found = summarise(moments)
            assert found is not None
            return found
    raise AssertionError(f"no estimate of {key}")


def run(service: Service, stream: Stream) -> Service:
    service.feed(stream.answers())
    service.pass_time(stream.for_s + 60)
    return service


# --- estimates ------------------------------------------------------------------------------------


class Looking:
    """A sampler that remembers the verdicts it drew, to form the mean that others would."""

    def __init__(self, sampler: AdaptiveSampler) -> None:
        self._sampler = sampler
        self.drawn: set[str] = set()
        self.refund = sampler.refund
        self.reserve, self.gauges = sampler.reserve, sampler.gauges

    def draw(self, interaction: Interaction, *, uncertainty: float = 1.0) -> SamplingDecision:
        decision = self._sampler.draw(interaction, uncertainty=uncertainty)
        if decision.drawn:
            self.drawn.add(interaction.id)
        return decision


def test_the_rate_is_right_where_the_raw_mean_of_what_was_judged_is_not() -> None:
    """Uncertain answers are judged more often; the raw mean shows it, the estimate does not."""
    stream = Stream(seed=1, for_s=DAY_S / 4, rate=steady(0.1), auroc=steady(0.9))
    service = monitored()
    assert service.sampler is not None
    service.sampler = looking = Looking(service.sampler)
    run(service, stream)
    bad = {f"{a.number:032x}" for a in stream.answers() if a.hallucinated}
    raw = len(bad & looking.drawn) / len(looking.drawn)
    found = estimate(service)
    assert raw > 0.12
    assert found.lower < 0.1 < found.upper
    assert found.upper - found.lower < 0.03


def test_refusals_have_no_faithfulness_and_pull_no_mean() -> None:
    """A fifth of the answers refuse: rates and means speak of the others only."""
    stream = Stream(seed=3, for_s=DAY_S / 4, refusals=0.2, rate=steady(0.1))
    service = run(monitored(), stream)
    answers = [a for a in stream.answers() if not a.refused]
    supported = sum(a.supported for a in answers) / len(answers)
    assert estimate(service).lower < 0.1 < estimate(service).upper
    found = estimate(service, FAITHFULNESS)
    assert found.lower < supported < found.upper
    refusals = estimate(service, SeriesKey(signal="refusal", judge="judge"))
    assert refusals.lower < 0.2 < refusals.upper


# --- verdicts that are late, or never come --------------------------------------------------------


def failing(share: float, share_of_bad: float) -> Verdict:
    """Return a judge that gives nothing on shares of the sound and of the hallucinated answers."""

    def verdict(answer: Answer) -> bool | None:
        fails = answer.luck < (share_of_bad if answer.hallucinated else share)
        return None if fails else answer.hallucinated

    return verdict


def test_verdicts_missing_for_a_reason_are_bounded() -> None:
    """The judge fails on every other bad answer: best and worst case hold the truth."""
    service = run(
        monitored(verdict=failing(0.02, 0.5)), Stream(seed=8, for_s=DAY_S / 4, rate=steady(0.1))
    )
    found = estimate(service)
    assert found.mean < 0.08
    assert found.lower < 0.1 < found.upper


# --- budget ---------------------------------------------------------------------------------------


def test_bursts_that_are_worse_neither_bias_the_rate_nor_break_the_budget() -> None:
    """Ten times the traffic at three times the rate: no hour costs more, and the mean is right."""
    clock = ManualClock()
    records = Records(evaluators=("faithfulness",))
    hours = 12
    sampler = AdaptiveSampler(
        1.0,
        clock=clock,
        budget=Budget(per_hour=360.0, unit="calls", clock=clock),
        expected_cost=lambda _: 1.0,
    )
    looking = Looking(sampler)
    service = Service(
        estimates=simulation.statistics(clock, records),
        sampler=looking,
        clock=clock,
        records=records,
        tick_s=60.0,
    )
    bursts = Bursts(per_day=12.0, worse=3.0)
    stream = Stream(seed=9, for_s=hours * HOUR_S, per_minute=30.0, rate=steady(0.08), bursts=bursts)
    answers = list(stream.answers())
    run(service, stream)
    times = [a.at_s for a in answers if f"{a.number:032x}" in looking.drawn]
    most = max(sum(1 for t in times if at <= t < at + HOUR_S) for at in times[::20])
    assert most <= 360
    assert len(times) > 0.7 * 360 * hours
    truth = sum(a.hallucinated for a in answers) / len(answers)
    sums = simulation.sums_of(service.estimates, RATE)
    assert sums is not None
    found = summarise(sums.moments())
    assert found is not None
    assert found.lower < truth < found.upper
    assert service.uncovered < 0.01 * service.answers


# --- alarms ---------------------------------------------------------------------------------------


def test_a_spike_is_announced_with_examples_and_its_end_too() -> None:
    """4 -> 20 % for three hours: an alarm within the hour, with bad answers; cleared in a day."""
    at_s, for_s = 2 * HOUR_S, 3 * HOUR_S
    rate = spike(0.04, 0.2, at_s=at_s, for_s=for_s)
    service = monitored(fraction=0.05, objective=0.05, tick_s=20.0)
    run(service, Stream(seed=10, for_s=25 * HOUR_S, rate=rate))
    turns = [e for e in service.events if e.signal == "hallucination"]
    assert [e.raised for e in turns] == [True, False]
    raised, cleared = turns
    began_s = service.records.began_s
    assert at_s < raised.at_s - began_s < at_s + HOUR_S
    assert cleared.at_s - began_s > at_s + for_s
    assert raised.estimate is not None
    assert raised.estimate.mean > 0.05
    assert len(raised.examples) == 3
    assert all(e.assessment is not None and e.assessment.hallucinated for e in raised.examples)


def test_two_weeks_without_a_change_raise_nothing() -> None:
    """The rate swings below the objective, the built-in score dies, and nobody is paged."""
    stream = Stream(
        seed=11,
        for_s=14 * DAY_S,
        per_minute=2.0,
        swing=0.7,
        auroc=step(0.8, 0.5, at_s=7 * DAY_S),
    )
    service = run(monitored(fraction=0.5, objective=0.05, tick_s=300.0), stream)
    assert service.raised("hallucination") == []


def test_what_is_tolerated_is_learned_and_then_fixed() -> None:
    """After 1,000 verdicts and a day it lies a little above the rate, and does not follow it up."""
    service = monitored(tick_s=60.0)
    stream = Stream(
        seed=12, for_s=2 * DAY_S, per_minute=20.0, rate=step(0.04, 0.15, at_s=1.25 * DAY_S)
    )
    run(service, stream)
    (state,) = [s for s in service.estimates.snapshot().alarms if s.signal == "hallucination"]
    assert state.objective is not None
    assert 0.04 < state.objective < 0.065
    assert state.active


def test_clusters_within_sessions_are_no_evidence_of_their_own() -> None:
    """Bad answers come five at a time, in sessions: at the objective nobody is paged."""
    stream = Stream(
        seed=13, for_s=5 * DAY_S, per_minute=2.0, session_length=5.0, session_correlation=0.3
    )
    service = run(monitored(fraction=1.0, objective=0.05, tick_s=300.0), stream)
    assert service.raised("hallucination") == []


# --- time and state -------------------------------------------------------------------------------


def test_what_was_learned_survives_a_restart(tmp_path: Path) -> None:
    """A new process predicts as the old one did, and stands where its evidence stood."""
    stream = Stream(seed=14, for_s=DAY_S / 6)
    first = run(monitored(folder=tmp_path), stream)
    second, third = (monitored(folder=tmp_path) for _ in range(2))
    second.pass_time(DAY_S / 6 + 60)
    for answer in Stream(seed=15, for_s=120.0).answers():
        builtin = report_of(answer)
        old, new, newer = (
            each.estimates.predict(builtin).hallucination for each in (first, second, third)
        )
        assert old is not None
        assert new == newer
        # The old one had not learned from its last few verdicts yet.
        assert new == pytest.approx(old, rel=0.5, abs=0.01)
    before, after = (
        {s.signal: s for s in each.estimates.snapshot().alarms} for each in (first, second)
    )
    for signal, state in before.items():
        assert after[signal].objective == state.objective
        assert after[signal].learned == pytest.approx(state.learned, abs=0.01)


def report_of(answer: Answer) -> Report:
    records = Records(evaluators=("faithfulness",))
    return records.builtin(answer, records.interaction(answer))


@pytest.mark.parametrize("jump_s", [-30 * DAY_S, 30 * DAY_S])
def test_a_clock_that_jumps_raises_nothing_and_breaks_nothing(jump_s: float) -> None:
    """A month forth or back, in the middle of a day: no alarm, and the rate is right after it."""
    service = monitored(objective=0.05)
    service.feed(Stream(seed=18, for_s=DAY_S / 8).answers())
    service.records.began_s += jump_s
    later = (
        a._replace(at_s=a.at_s + DAY_S / 8, number=a.number + 10**6)
        for a in Stream(seed=19, for_s=DAY_S / 8).answers()
    )
    service.feed(later)
    service.pass_time(DAY_S / 4 + 60)
    found = estimate(service)
    assert found.lower < 0.04 < found.upper
    assert service.raised("hallucination") == []
