"""State files that somebody else wrote, or that a crash tore: nothing of them reaches the host."""

import json
import shutil
from functools import reduce

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ragmonitor import Budget, Monitor, guard
from ragmonitor.settings import EstimationSettings
from ragmonitor.testing import ScriptedJudge
from tests.support.scrape import outcomes
from tests.support.stories import assessment, interaction

HOSTILE = [
    *(None, True, -1, 0, 2**70, -(2**70), 1e308, float("inf"), float("-inf"), float("nan")),
    *("", "x", "\ud800", [], [None], {}, {"a": 1}, [[]] * 3, "9" * 5_000, ["a", 1, None]),
]


def built(folder, **options):
    return Monitor(
        service="t",
        server=False,
        judge=ScriptedJudge(lambda _: assessment("supported")),
        sample=1.0,
        budget=Budget(calls_per_day=10**9),
        state=folder,
        estimation=EstimationSettings(drift_reference_size=100),
        **options,
    )


def told(monitor, numbers):
    for number in numbers:
        monitor.observe(interaction(id=f"{number:032x}", session_id=f"s{number % 3}"))
    assert monitor.flush(20)


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    folder = tmp_path_factory.mktemp("kept")
    monitor = built(folder)
    told(monitor, range(30))
    monitor.close(10)
    files = {path.name: json.loads(path.read_text()) for path in folder.glob("*.json")}
    assert {name.partition("-")[0] for name in files} >= {
        *("alarms", "anchors", "budget", "calibration", "drift")
    }
    return folder, files


def places(value, here=()):
    """Yield where every part of a JSON value stands."""
    yield here
    parts = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    for key, part in parts:
        yield from places(part, (*here, key))


def replaced(value, place, by):
    copy = json.loads(json.dumps(value))
    if not place:
        return by
    *before, last = place
    reduce(lambda inner, key: inner[key], before, copy)[last] = by
    return copy


def survives(folder):
    """Whether a monitor starts, scores, and does not stumble over the same thing for ever."""
    monitor = built(folder)
    try:
        told(monitor, range(100, 102))
        before = dict(guard.errors)
        told(monitor, range(102, 104))
        assert dict(guard.errors) == before
        for name in ("builtin", "scripted"):
            found = outcomes(monitor.registry, judge=name, evaluator="faithfulness")
            assert sum(found.values()) == 4
        assert outcomes(monitor.registry, judge="builtin", evaluator="faithfulness")["scored"] == 4
    finally:
        monitor.close(10)


@pytest.mark.slow
@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.data())
def test_a_state_with_a_wrong_part_begins_anew_or_goes_on(kept, tmp_path_factory, data):
    """Wrong types, NaN, huge numbers, missing and foreign fields, wherever they stand."""
    source, files = kept
    folder = tmp_path_factory.mktemp("state")
    for path in source.iterdir():
        (shutil.copytree if path.is_dir() else shutil.copy)(path, folder / path.name)
    name = data.draw(st.sampled_from(sorted(files)))
    found = sorted((place for place in places(files[name]) if place != ("version",)), key=repr)
    place = data.draw(st.sampled_from(found))
    by = data.draw(st.sampled_from(HOSTILE))
    (folder / name).write_text(json.dumps(replaced(files[name], place, by)))
    survives(folder)
