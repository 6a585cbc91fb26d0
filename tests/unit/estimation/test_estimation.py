"""Windowed means and their intervals."""

import random

import pytest

from ragmonitor.estimation import summarise
from ragmonitor.estimation.beta import beta_quantile
from ragmonitor.estimation.signals import NOT_APPLICABLE, Outcome
from ragmonitor.estimation.sums import Sums, group_of
from ragmonitor.estimation.windows import Windows
from ragmonitor.records import Moments, SeriesKey
from ragmonitor.testing import ManualClock

KEY = SeriesKey(signal="faithfulness", judge="scripted")
NOTHING = (0.0, 0.0)
"""No prediction: what is estimated rests on the verdicts alone."""


def scored(value):
    return Outcome(scored=True, value=value)


def read(*answers, expected=NOTHING):
    """Return the estimate of answers that were read: (score, chance)."""
    sums = Sums()
    for value, chance in answers:
        sums.add_drawn(expected, chance, scored(value))
    return summarise(sums.moments())


def test_the_mean_weighs_each_answer_by_its_chance():
    """One answer drawn at 10 % stands for ten, so 0 at 0.1 and 1 at 1.0 make 1/11."""
    assert read((0.0, 0.1), (1.0, 1.0)).mean == pytest.approx(1 / 11)


def test_an_answer_that_was_not_read_counts_as_predicted():
    """Ten unread answers of an expected 0.2 and one read at 0.2 make 0.2; a wrong one is put right.

    What was read at chance 0.1 with 1 where 0.2 was expected corrects by 0.8 / 0.1.
    """
    sums = Sums()
    for _ in range(9):
        sums.add_not_drawn((1.0, 0.2), 0.1)
    sums.add_drawn((1.0, 0.2), 0.1, scored(1.0))
    assert sums.moments().value == pytest.approx(10 * 0.2 + 0.8 / 0.1)
    assert sums.moments().scored == pytest.approx(10)


def test_answers_to_which_it_does_not_apply_are_in_no_mean():
    """A refusal moves neither the mean nor its effective n."""
    sums = Sums()
    for outcome in (scored(0.5), NOT_APPLICABLE):
        sums.add_certain(outcome)
    found = summarise(sums.moments())
    assert found.mean == 0.5
    assert sums.moments().judged == 1


def test_an_answer_without_a_verdict_moves_no_mean_and_widens_the_interval():
    """It may have been anything: the lower end takes it for 0 and the upper end for 1."""
    sums = Sums()
    for _ in range(2_000):
        sums.add_certain(scored(0.5))
    whole = summarise(sums.moments())
    for _ in range(500):
        sums.add_certain(None)
    found = summarise(sums.moments())
    assert found.mean == 0.5
    assert found.coverage == pytest.approx(0.8)
    assert found.lower < 0.4 < whole.lower
    assert found.upper > 0.6 > whole.upper
    assert found.upper - found.lower < 0.25
    assert found.effective_n <= whole.effective_n


def test_what_had_no_chance_or_is_on_its_way_widens_the_interval_alike():
    """Of neither is anything known: a fifth of the answers is a fifth of the scale."""

    def width(tell):
        sums = Sums()
        for number in range(2_000):
            sums.await_verdict(0.5)
            sums.add_drawn(NOTHING, 0.5, scored(float(number % 2)))
        for _ in range(1_000):
            tell(sums)
        found = summarise(sums.moments())
        return found.upper - found.lower

    narrow = width(lambda sums: None)
    assert width(lambda sums: sums.uncover()) == pytest.approx(0.8 * narrow + 0.2, abs=0.01)
    assert width(lambda sums: sums.await_verdict(1)) == pytest.approx(0.8 * narrow + 0.2, abs=0.01)


def test_a_window_that_is_hardly_observed_says_nothing():
    """Below half of its answers there is no mean; none at all is no coverage either."""
    sums = Sums()
    for number in range(100):
        sums.add_drawn(NOTHING, 1.0, scored(0.0) if number < 49 else None)
    assert summarise(sums.moments()) is None
    assert sums.moments().coverage == pytest.approx(0.49)
    assert Moments().coverage is None


def test_sessions_widen_the_interval():
    """Answers of one session that go wrong together tell as much as one answer, about."""

    def width(session):
        sums = Sums()
        for number in range(40):
            for _ in range(5):
                value = float(number % 4 == 0)
                sums.add_certain(scored(value), group_of(f"s{number}" if session else ""))
        found = summarise(sums.moments())
        return found.upper - found.lower

    assert width(session=True) > 1.7 * width(session=False)


def test_an_old_window_says_nothing():
    """Silence is shown as silence, not as the last mean."""
    clock = ManualClock()
    windows = Windows(clock=clock)
    windows.sums(KEY).add_certain(scored(1.0))
    windows.tick()
    clock.advance(3_720)
    windows.tick()
    assert summarise(windows.of(KEY, "1h")) is None
    assert summarise(windows.of(KEY, "24h")).mean == 1.0
    clock.advance(24 * 3_600)
    windows.tick()
    assert summarise(windows.of(KEY, "24h")) is None
    assert windows.of(KEY, "24h").coverage is None


def test_an_interval_of_clopper_and_pearson():
    """5 of 100: 0.0164 to 0.1128, as every table has it."""
    assert beta_quantile(0.025, 5, 96) == pytest.approx(0.016432, abs=1e-6)
    assert beta_quantile(0.975, 6, 95) == pytest.approx(0.112835, abs=1e-6)
    assert beta_quantile(0.975, 1, 20) == pytest.approx(0.168433, abs=1e-6)


@pytest.mark.parametrize(("base", "judged"), [(0.04, 20), (0.15, 100), (0.04, 200)])
def test_the_interval_covers_the_true_rate(base, judged):
    """Over 500 seeded windows at 10 % sampling, at least 93 % of intervals hold the truth."""
    rng = random.Random(judged)
    covered = 0
    for _ in range(500):
        found = read(*((float(rng.random() < base), 0.1) for _ in range(judged)))
        covered += found.lower <= base <= found.upper
    assert covered >= 465


def share_of_intervals_that_hold(strata, *, windows):
    """Return it for windows of strata: (answers, chance, rate of bad ones, predicted rate)."""
    rng = random.Random(1)
    truth = sum(answers * rate for answers, _, rate, _ in strata) / sum(each[0] for each in strata)
    held = 0
    for _ in range(windows):
        sums = Sums()
        for answers, chance, rate, predicted in strata:
            expected = NOTHING if predicted is None else (1.0, predicted)
            for _ in range(answers):
                if rng.random() < chance:
                    outcome = scored(float(rng.random() < rate))
                    sums.await_verdict(chance)
                    sums.add_drawn(expected, chance, outcome)
                else:
                    sums.add_not_drawn(expected, chance)
        found = summarise(sums.moments())
        held += found.lower <= truth <= found.upper
    return held / windows


def test_bad_answers_that_were_read_for_certain_say_nothing_of_the_others_spread():
    """A hundred read for certain, of which many are bad, beside 2,000 read at one in fifty.

    At least 95 % of the intervals hold the truth (they were 77 %): none of the forty that were
    drawn is bad in a third of the windows, and the thirty bad ones among the others do not say how
    many of the two thousand are.
    """
    strata = [(100, 1.0, 0.3, None), (2_000, 0.02, 0.03, None)]
    assert share_of_intervals_that_hold(strata, windows=300) >= 0.95


def test_predictions_of_a_part_of_the_window_say_nothing_of_the_rest():
    """Two thousand read at one in a hundred before anything was predicted, then 300 all read.

    At least 95 % of the intervals hold the truth; they were 66 %.
    """
    strata = [(2_000, 0.01, 0.05, None), (300, 1.0, 0.05, 0.05)]
    assert share_of_intervals_that_hold(strata, windows=300) >= 0.95
