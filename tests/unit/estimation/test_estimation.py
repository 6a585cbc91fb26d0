"""Windowed means and their intervals."""

import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragmonitor.estimation import Windows, summarise
from ragmonitor.records import Cause, Chance, EstimateKey, Moments, Report, Scored, Unscored
from ragmonitor.testing import ManualClock
from tests.support.stories import JUDGE, assessment, interaction


def report(score=None, *, chance=1.0, found=None):
    evaluation = (
        Unscored(evaluator="faithfulness@1", judge=JUDGE, cause=Cause.REFUSAL)
        if score is None
        else Scored(evaluator="faithfulness@1", judge=JUDGE, score=score)
    )
    return Report(
        interaction=interaction(),
        judge=JUDGE,
        evaluations=(evaluation,),
        assessment=found,
        chance=Chance(probability=chance, drawn=True),
    )


def estimate(windows, signal="faithfulness", window="1h"):
    key = EstimateKey(signal=signal, judge="scripted", window=window)
    return summarise(dict(windows.moments()).get(key, Moments()))


def test_the_mean_weighs_each_answer_by_its_chance():
    """One answer drawn at 10 % stands for ten, so 0 at 0.1 and 1 at 1.0 make 1/11."""
    windows = Windows(clock=ManualClock())
    windows.add(report(0.0, chance=0.1))
    windows.add(report(1.0, chance=1.0))
    assert estimate(windows).mean == pytest.approx(1 / 11)


def test_unscored_answers_are_in_no_mean():
    """A refusal moves neither the mean nor its effective n."""
    windows = Windows(clock=ManualClock())
    windows.add(report(0.5))
    windows.add(report(None))
    assert (estimate(windows).mean, estimate(windows).effective_n) == (0.5, 1.0)


def test_an_answer_without_a_chance_is_in_no_mean():
    """It stands for nobody, and dividing by zero is nobody's idea of a weight."""
    windows = Windows(clock=ManualClock())
    windows.add(report(1.0, chance=0.0))
    assert estimate(windows) is None


def test_hallucination_and_refusal_are_shares_of_answers():
    """Two answers, one with an unsupported claim: rate 0.5; a third refuses: refusals 1/3."""
    windows = Windows(clock=ManualClock())
    for found in (
        assessment("supported"),
        assessment("supported", "absent"),
        assessment("no_claim", evasive=True),
    ):
        windows.add(report(1.0, found=found))
    assert estimate(windows, "hallucination").mean == pytest.approx(1 / 2)
    assert estimate(windows, "refusal").mean == pytest.approx(1 / 3)


def test_the_short_window_forgets_sooner():
    """After three hours the hour's mean is the new answers', the day's still knows the old."""
    clock = ManualClock()
    windows = Windows(clock=clock)
    for score in (0.0, 1.0):
        for _ in range(10):
            windows.add(report(score))
        clock.advance(3 * 3600)
    clock.advance(-3 * 3600)
    assert estimate(windows).mean > 0.95
    assert 0.5 < estimate(windows, window="24h").mean < 0.55


def test_an_old_window_says_nothing():
    """Silence is shown as silence, not as the last mean."""
    clock = ManualClock()
    windows = Windows(clock=clock)
    windows.add(report(1.0))
    clock.advance(4 * 3600)
    assert estimate(windows) is None
    assert estimate(windows, window="24h").mean == 1.0


moments = st.builds(
    Moments,
    weight=st.floats(0.1, 1e6),
    weight_squared=st.floats(0.1, 1e6),
    value=st.floats(0, 1e6),
    value_squared=st.floats(0, 1e6),
)


@given(moments)
def test_an_interval_holds_its_mean_and_stays_in_range(sums):
    """0 <= lower <= mean <= upper <= 1, for any sums whatever."""
    found = summarise(sums)
    assert 0 <= found.lower <= found.mean <= found.upper <= 1
    assert found.effective_n > 0


@given(
    st.lists(st.tuples(st.floats(0, 1), st.floats(0.01, 1), st.booleans()), min_size=1, max_size=40)
)
def test_two_processes_add_up_to_one(answers):
    """Sums of two processes, added, are the sums of one that saw everything."""
    clock = ManualClock()
    both, left, right = (Windows(clock=clock) for _ in range(3))
    for score, chance, goes_left in answers:
        both.add(report(score, chance=chance))
        (left if goes_left else right).add(report(score, chance=chance))
    key = EstimateKey(signal="faithfulness", judge="scripted", window="1h")
    halves = [dict(w.moments()).get(key, Moments()) for w in (left, right)]
    whole, added = dict(both.moments())[key], halves[0] + halves[1]
    for field in ("weight", "weight_squared", "value", "value_squared"):
        assert getattr(added, field) == pytest.approx(getattr(whole, field))


@pytest.mark.parametrize(("base", "judged"), [(0.04, 20), (0.15, 100), (0.04, 200)])
def test_the_interval_covers_the_true_rate(base, judged):
    """Over 1,000 seeded windows at 10 % sampling, at least 92 % of intervals hold the truth."""
    rng = random.Random(judged)
    covered = 0
    for _ in range(1_000):
        sums = Moments()
        for _ in range(judged):
            bad = float(rng.random() < base)
            sums += Moments(weight=10, weight_squared=100, value=10 * bad, value_squared=10 * bad)
        found = summarise(sums)
        covered += found.lower <= base <= found.upper
    assert covered >= 920


def test_scores_that_vary_little_have_a_narrower_interval():
    """A hundred scores of 0.8 say more of their mean than a hundred of 0 and 1 do."""

    def width(scores):
        windows = Windows(clock=ManualClock())
        for score in scores:
            windows.add(report(score))
        found = estimate(windows)
        return found.upper - found.lower

    assert width([0.8] * 100) < 0.6 * width([1.0] * 80 + [0.0] * 20)


@pytest.mark.parametrize("signal", ["hallucination", "refusal"])
def test_an_evaluator_of_what_the_assessment_says_counts_once(signal):
    """The rates come of the assessment; the evaluators of the same name add no second answer."""
    told = report(found=assessment("absent", evasive=signal == "refusal"))
    same = Scored(evaluator=f"{signal}@1", judge=JUDGE, score=1.0)
    windows = Windows(clock=ManualClock())
    windows.add(replace(told, evaluations=(same,)))
    assert (estimate(windows, signal).mean, estimate(windows, signal).effective_n) == (1.0, 1.0)
