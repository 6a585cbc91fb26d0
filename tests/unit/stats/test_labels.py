"""People's labels: the file they fill in, and the corrected rate."""

from __future__ import annotations

import pytest

from ragmonitor.records import Estimate
from ragmonitor.stats.labels import (
    MIN_LABELS,
    Label,
    combined,
    corrected,
    hallucinated_share,
    labels_of,
    read_rows,
    seal,
    wilson,
)


def rate(mean, n=2_000):
    lower, upper = wilson(mean, n)
    return Estimate(mean=mean, lower=lower, upper=upper, effective_n=n)


def labels(judged, hits, count, *, chance=1.0):
    return [
        Label(interaction_id=f"{judged}{n}", judged=judged, human=n < hits, chance=chance)
        for n in range(count)
    ]


# --- the estimate ---------------------------------------------------------------------------------


def test_the_corrected_rate_is_what_people_would_find():
    """6 % judged; half of those are right, and 1 in 40 of the others is overlooked."""
    found = corrected(rate(0.06), [*labels(True, 30, 60), *labels(False, 1, 40)])
    assert found.mean == pytest.approx(0.06 * 0.5 + 0.94 / 40)
    assert 0 < found.lower < found.mean < found.upper < 1


def test_the_interval_adds_the_squares_of_what_each_part_may_be_off_by():
    """By hand, after Zou and Donner."""
    judged = Estimate(mean=0.1, lower=0.08, upper=0.13, effective_n=1_000)
    precision = Estimate(0.6, 0.5, 0.7, 90)
    omission = Estimate(0.02, 0.01, 0.05, 90)
    found = combined(judged, precision, omission)
    below = (0.1 * 0.1) ** 2 + (0.9 * 0.01) ** 2 + (0.58 * 0.02) ** 2
    above = (0.1 * 0.1) ** 2 + (0.9 * 0.03) ** 2 + (0.58 * 0.03) ** 2
    assert found.mean == pytest.approx(0.078)
    assert found.lower == pytest.approx(0.078 - below**0.5)
    assert found.upper == pytest.approx(0.078 + above**0.5)


@pytest.mark.parametrize(
    "few",
    [
        [*labels(True, 30, 60), *labels(False, 1, MIN_LABELS - 61)],
        labels(True, 50, 200),
        labels(False, 5, 200),
        [],
    ],
)
def test_too_few_labels_or_one_kind_only_correct_nothing(few):
    """Below a hundred, and where a stratum is empty, there is no corrected rate."""
    assert corrected(rate(0.06), few) is None


def test_an_answer_that_was_judged_with_half_the_chance_counts_twice():
    """Hajek's weights within the stratum, and fewer effective labels."""
    mixed = [*labels(True, 10, 10, chance=0.5), *labels(True, 0, 20, chance=1.0)]
    found = hallucinated_share(mixed, judged=True)
    assert found.mean == pytest.approx(0.5)
    assert found.judged == 30
    assert found.effective_n == pytest.approx(40**2 / (10 * 4 + 20))


def test_what_was_not_observed_stays_bounded():
    """The judged rate's interval, which holds the worst and the best case, is carried over."""
    judged = Estimate(mean=0.1, lower=0.05, upper=0.4, effective_n=900, coverage=0.7)
    found = corrected(judged, [*labels(True, 60, 60), *labels(False, 0, 40)])
    assert found.lower <= 0.05
    assert found.upper >= 0.4
    assert found.coverage == 0.7


# --- the file -------------------------------------------------------------------------------------


@pytest.fixture
def path(tmp_path):
    return tmp_path / "labels.csv"


def row(name, human, *, judged):
    label = Label(interaction_id=name, judged=judged, human=None)
    return f"长城有多长？,{human},{seal(label)}"


@pytest.mark.parametrize(
    ("cell", "said"),
    [
        *((word, True) for word in ("1", "TRUE", " Yes ", "是", "１", "x")),
        *((word, False) for word in ("0", "False", "n", "否", "ok")),
        *((word, None) for word in ("", "?", "unsure")),
    ],
)
def test_people_write_yes_and_no_in_many_ways(path, cell, said):
    """And a question mark where they cannot tell."""
    path.write_text(f"question,human,sealed\n{row('a', cell, judged=False)}\n", encoding="utf-8")
    [label] = read_rows(path)
    assert (label.interaction_id, label.human) == ("a", said)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig"])
@pytest.mark.parametrize("mark", [",", ";", "\t"], ids=["comma", "semicolon", "tab"])
def test_what_spreadsheets_make_of_it_is_read(path, encoding, mark):
    """A German Excel writes semicolons."""
    lines = ["question,human,sealed", row("长", "yes", judged=True)]
    path.write_bytes("\r\n".join(lines).replace(",", mark).encode(encoding))
    assert [(each.interaction_id, each.human) for each in labels_of(read_rows(path))] == [
        ("长", True)
    ]
