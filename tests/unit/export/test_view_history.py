"""The last hours of the page."""

from __future__ import annotations

from ragmonitor.export.view.history import MAX_COLUMNS, History, Resolution

FINE = Resolution(name="fine", every_s=1.0, points=5)
COARSE = Resolution(name="coarse", every_s=10.0, points=5)
MEAN = ("hallucination", "builtin", "mean")


def history(points: int, *, of: tuple[Resolution, ...] = (FINE, COARSE)) -> History:
    built = History(of)
    for n in range(points):
        built.add({MEAN: n / 100}, clock_s=float(n), at_s=1000.0 + n, revision=n + 1)
    return built


def test_the_newest_points_stay():
    """Of a resolution's five points, after twelve."""
    told, upto = history(12).since(0, 100)
    assert told["fine"]["times"] == [1007, 1008, 1009, 1010, 1011]
    assert told["fine"]["series"]["hallucination"]["builtin"]["mean"] == [
        0.07,
        0.08,
        0.09,
        0.1,
        0.11,
    ]
    assert upto is None


def test_a_coarse_resolution_reaches_further_back():
    """With a point in ten."""
    told, _ = history(32).since(0, 100)
    assert told["coarse"]["times"] == [1000, 1009, 1018, 1027]


def test_only_news_are_told():
    """What is after the revision that the browser has."""
    told, _ = history(4).since(3, 100)
    assert told["fine"]["revisions"] == [4]


def test_many_points_are_told_in_parts():
    """Together they are all points, in order."""
    built, after, seen = history(5), 0, []
    while True:
        told, upto = built.since(after, 2)
        seen += [r for r in told["fine"]["revisions"] if r > after]
        if upto is None:
            break
        after = upto
    assert seen == [1, 2, 3, 4, 5]


def test_what_is_not_known_is_a_gap():
    """A column that comes later has none before, one that stays away none after."""
    built = history(1, of=(FINE,))
    built.add({("refusal", "builtin", "mean"): 0.5}, clock_s=1.0, at_s=1001.0, revision=2)
    series = built.since(0, 10)[0]["fine"]["series"]
    assert series["hallucination"]["builtin"]["mean"] == [0.0, None]
    assert series["refusal"]["builtin"]["mean"] == [None, 0.5]


def test_infinity_is_a_gap():
    """JSON has no number for it."""
    built = History((FINE,))
    built.add({MEAN: float("inf")}, clock_s=0.0, at_s=0.0, revision=1)
    assert built.since(0, 10)[0]["fine"]["series"]["hallucination"]["builtin"]["mean"] == [None]


def test_columns_are_bounded():
    """However many judges and evaluators there are."""
    built = History((FINE,))
    many = {(f"e{n}", "builtin", "mean"): 0.1 for n in range(MAX_COLUMNS + 50)}
    built.add(many, clock_s=0.0, at_s=0.0, revision=1)
    assert len(built.since(0, 10)[0]["fine"]["series"]) == MAX_COLUMNS


def test_a_point_is_due_after_its_time():
    """And not before."""
    built = history(1, of=(COARSE,))
    assert not built.due(5.0)
    assert built.due(10.0)
