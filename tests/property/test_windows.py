"""A window's interval holds the truth of its own window, whatever was not observed of it."""

from __future__ import annotations

import pytest

from ragmonitor.estimation import summarise
from ragmonitor.records import Estimate, Moments, SeriesKey, Window
from ragmonitor.sampling import AdaptiveSampler, Budget
from ragmonitor.testing import ManualClock
from tests.support import simulation
from tests.support.simulation import Service, Verdict
from tests.support.streams import DAY_S, HOUR_S, Answer, Records, Stream, steady

RATE = SeriesKey(signal="hallucination", judge="judge")
PER_MINUTE = 30.0
FRACTION = 0.2


def service_of(verdict: Verdict, *, fraction: float = FRACTION) -> Service:
    """Return a service whose judge reads a share of the answers, on a clock of its own."""
    clock = ManualClock()
    records = Records(evaluators=("faithfulness",))
    return Service(
        estimates=simulation.statistics(clock, records, alarms=()),
        sampler=AdaptiveSampler(fraction, clock=clock),
        clock=clock,
        records=records,
        verdict=verdict,
        tick_s=60.0,
    )


def window_of(service: Service, window: Window) -> Moments:
    """Return the sums of a window as they are exported."""
    found = service.estimates.snapshot().moments
    return next(m for key, name, m in found if (key, name) == (RATE, window))


def estimate_of(service: Service, window: Window) -> Estimate | None:
    return summarise(window_of(service, window))


def is_afternoon(at_s: float) -> bool:
    return at_s % DAY_S >= DAY_S / 2


def test_the_days_interval_holds_the_truth_of_a_day_with_a_judge_down_half_of_it() -> None:
    """Down from noon to midnight, with 12 % then and 4 % before: 8 % is in the interval, or none.

    Looked at once an hour over the second and the third day; it would hold the truth where it is
    not shown, too.
    """
    looks: list[tuple[Estimate | None, float, float | None]] = []
    service = service_of(lambda answer: None if is_afternoon(answer.at_s) else answer.hallucinated)
    stream = Stream(
        seed=31,
        for_s=3 * DAY_S,
        per_minute=4.0,
        rate=lambda t: 0.12 if is_afternoon(t) else 0.04,
    )
    seen: list[Answer] = []
    for answer in stream.answers():
        hour = int(answer.at_s / HOUR_S)
        if answer.at_s > DAY_S and seen and hour > int(seen[-1].at_s / HOUR_S):
            of_day = [a.hallucinated for a in seen if a.at_s > answer.at_s - DAY_S]
            looks.append(
                (
                    summarise(window_of(service, "24h"), least_coverage=0.0),
                    sum(of_day) / len(of_day),
                    window_of(service, "24h").coverage,
                )
            )
        service.feed((answer,))
        seen.append(answer)
    held = [found and found.lower <= truth <= found.upper for found, truth, _ in looks]
    assert held == [True] * 48
    assert all(0.35 < (coverage or 0) < 0.65 for _, _, coverage in looks)


def test_gauges_go_when_verdicts_stop_and_say_why() -> None:
    """While answers go on coming and no verdict comes, coverage falls and then the mean is gone."""
    service = service_of(lambda answer: None if answer.at_s > 2 * HOUR_S else answer.hallucinated)
    stream = list(Stream(seed=33, for_s=3.1 * HOUR_S, per_minute=PER_MINUTE).answers())
    widths = []
    for minute in range(0, 186, 6):
        began = minute * 60.0
        service.feed(a for a in stream if began <= a.at_s < began + 360)
        found = estimate_of(service, "1h")
        widths.append(None if found is None else found.upper - found.lower)
    before = widths[19]
    assert before is not None
    assert before < 0.1
    after = [width for width in widths[20:] if width is not None]
    assert after == sorted(after)
    assert after[-1] > 0.3
    assert widths[-1] is None
    assert window_of(service, "1h").coverage == pytest.approx(0.0, abs=0.05)


def failing(share: float, share_of_bad: float) -> Verdict:
    """Return a judge that gives nothing on shares of the sound and of the hallucinated answers."""

    def verdict(answer: Answer) -> bool | None:
        fails = answer.luck < (share_of_bad if answer.hallucinated else share)
        return None if fails else answer.hallucinated

    return verdict


@pytest.mark.parametrize("window", ["1h", "24h"])
def test_verdicts_that_fail_on_bad_answers_leave_the_truth_in_the_interval(window: Window) -> None:
    """65 % of the drawn fail, 95 % of the bad ones: no mean; its interval would hold the truth."""
    service = service_of(failing(0.62, 0.95))
    service.feed(Stream(seed=34, for_s=3 * HOUR_S, per_minute=60.0, rate=steady(0.1)).answers())
    assert estimate_of(service, window) is None
    found = summarise(window_of(service, window), least_coverage=0.0)
    assert found is not None
    assert found.coverage < 0.45
    assert found.lower < 0.1 < found.upper
    assert found.upper - found.lower > 0.6


def test_answers_without_a_chance_are_of_their_own_window() -> None:
    """An outage of the budget is in the day's coverage long after it left the hour's."""
    service = service_of(lambda answer: answer.hallucinated)
    stream = list(Stream(seed=36, for_s=4 * HOUR_S, per_minute=PER_MINUTE).answers())
    service.feed(a for a in stream if a.at_s < HOUR_S)
    sampler, service.sampler = (
        service.sampler,
        AdaptiveSampler(
            1.0,
            clock=service.clock,
            budget=Budget(per_day=1e-6, unit="calls", clock=service.clock),
            expected_cost=lambda _: 1.0,
        ),
    )
    service.feed(a for a in stream if HOUR_S <= a.at_s < 2 * HOUR_S)
    service.sampler = sampler
    assert (window_of(service, "1h").coverage or 0) < 0.1
    service.feed(a for a in stream if a.at_s >= 2 * HOUR_S)
    assert (window_of(service, "1h").coverage or 0) > 0.95
    assert window_of(service, "24h").coverage == pytest.approx(0.75, abs=0.05)


# --- sessions over several processes --------------------------------------------------------------
