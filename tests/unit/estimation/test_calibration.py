"""What past verdicts make of the built-in judge's values."""

import json
import math
import random

import pytest

from ragmonitor.estimation.calibration import Calibration


def answers(n, *, separation, base, seed=1):
    """Yield (embedded value, bad) of answers; bad ones' values lie higher by the separation."""
    rng = random.Random(seed)
    for _ in range(n):
        bad = rng.random() < base
        yield 1 / (1 + math.exp(-rng.gauss(separation if bad else 0, 1))), bad


def learned(told, *, weight=lambda _: 1.0):
    calibration = Calibration()
    for feature, bad in told:
        calibration.add(feature, scored=True, value=float(bad), weight=weight(feature))
        calibration.merge()
    calibration.fit()
    return calibration


def test_predictions_are_as_often_right_as_they_say():
    """In each fifth of the values the mean prediction is near the share that is bad."""
    calibration = learned(answers(2_000, separation=1.5, base=0.15))
    fresh = sorted(answers(5_000, separation=1.5, base=0.15, seed=2))
    for fifth in range(5):
        part = fresh[fifth * 1_000 : (fifth + 1) * 1_000]
        predicted = sum(calibration.expected(feature)[1] for feature, _ in part) / 1_000
        assert predicted == pytest.approx(sum(bad for _, bad in part) / 1_000, abs=0.05)


def crowded(n, *, seed):
    """Yield answers as the built-in judge scores trivia: a logistic curve misfits them for ever.

    Of four in five answers the value is 0, and one in a hundred of them is bad; of the others it is
    small, and half of them are bad; a few have 1.
    """
    rng = random.Random(seed)
    for _ in range(n):
        kind = rng.random()
        if kind < 0.81:
            yield 0.0, rng.random() < 0.01
        elif kind < 0.93:
            yield rng.choice((0.03, 0.04, 0.05, 0.1)), rng.random() < 0.5
        else:
            yield 1.0, rng.random() < 0.95


def test_verdicts_on_the_riskiest_answers_are_what_was_predicted_of_them_whatever_the_shape():
    """On a service that does not change they are off by less than the alarm accepts, for days.

    Riskiest fifth, 4,000 verdicts, each predicted from those before it; it was 6 points before.
    """
    calibration = Calibration()
    off = []
    for number, (feature, bad) in enumerate(crowded(6_000, seed=5)):
        predicted = calibration.expected(feature)[1]
        if number > 2_000 and predicted > 0.1:
            off.append(bad - predicted)
        calibration.add(feature, scored=True, value=float(bad), weight=1.0)
        calibration.merge()
    assert len(off) > 600
    assert abs(sum(off) / len(off)) < 0.02


def test_a_prediction_never_falls_with_the_value():
    """However the verdicts came, and between the bins too."""
    calibration = learned(crowded(2_000, seed=6))
    means = [calibration.expected(step / 100)[1] for step in range(101)]
    assert means == sorted(means)
    assert 0 < means[0] < means[-1] < 1


def test_before_there_are_verdicts_nothing_is_predicted():
    """Estimates then rest on the verdicts alone."""
    assert Calibration().expected(0.5) == (0.0, 0.0)
    assert Calibration().expected(None) == (0.0, 0.0)


@pytest.mark.parametrize("separation", [0.0, -1.5])
def test_a_dead_or_reversed_value_is_ignored_and_not_inverted(separation):
    """The prediction is the same for every value, or hardly differs."""
    calibration = learned(answers(2_000, separation=separation, base=0.15))
    low, high = calibration.expected(0.05)[1], calibration.expected(0.95)[1]
    assert 0 <= high - low < 0.08
    assert low == pytest.approx(0.15, abs=0.06)


def test_unequal_chances_do_not_bias_it():
    """High values drawn four times as often, each verdict weighted by 1 / chance: the same."""
    rng = random.Random(3)

    def chance(feature):
        return 0.8 if feature > 0.6 else 0.2

    told = [a for a in answers(8_000, separation=1.5, base=0.1) if rng.random() < chance(a[0])]
    weighted = learned(told, weight=lambda feature: 1 / chance(feature))
    fresh = list(answers(5_000, separation=1.5, base=0.1, seed=4))
    mean = sum(weighted.expected(feature)[1] for feature, _ in fresh) / len(fresh)
    assert mean == pytest.approx(0.1, abs=0.015)


def test_where_the_builtin_judge_says_nothing_there_is_a_mean_of_its_own():
    """Refusals by the built-in judge, of which most have no value by the judge either."""
    calibration = Calibration()
    for number in range(200):
        calibration.add(0.2, scored=True, value=0.0, weight=1.0)
        calibration.add(None, scored=number % 10 == 0, value=float(number % 10 == 0), weight=1.0)
    calibration.merge()
    calibration.fit()
    assert calibration.expected(None)[0] == pytest.approx(0.1, abs=0.02)
    assert calibration.expected(None)[1] > 0.9
    assert calibration.expected(0.2)[0] > 0.99


def test_it_outlives_the_process():
    """Its state, through JSON, predicts the same."""
    calibration = learned(answers(500, separation=1.5, base=0.15))
    state = json.loads(json.dumps(calibration.state()))
    again = Calibration()
    again.merge(state)
    again.fit()
    for feature in (0.0, 0.3, 0.7, 1.0, None):
        assert again.expected(feature) == pytest.approx(calibration.expected(feature), abs=1e-4)
    assert len(json.dumps(state)) < 1_500


@pytest.mark.parametrize(("separation", "expected"), [(0.0, 0.5), (1.19, 0.8), (1.81, 0.9)])
def test_how_well_the_value_tells_bad_from_good(separation, expected):
    """The area under the curve of two normals that lie so far apart."""
    calibration = learned(answers(2_000, separation=separation, base=0.2))
    assert calibration.auroc() == pytest.approx(expected, abs=0.04)
