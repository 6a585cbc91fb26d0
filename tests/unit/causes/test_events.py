"""When a mean changed, and what happened by then."""

import json
import random
from typing import Any

import pytest

from ragmonitor import Monitor
from ragmonitor.causes.events import (
    MAX_EVENTS,
    MAX_VERDICTS,
    STATE_VERSION,
    Events,
    Verdict,
    change_point,
)
from ragmonitor.store import Kept, store_at
from tests.unit.causes.test_versions import BEGAN_S, answered


def events(**options: Any) -> Events:
    """Return the part of a service without a judge of a sample."""
    given = {"version": "1.4", "is_judged": False, "higher_is_better": lambda _: False}
    return Events(**(given | {"now": lambda: BEGAN_S} | options))


def course(before: float, after: float, at: int, n: int, draw: random.Random) -> list[Verdict]:
    """Return verdicts a second apart, with unequal weights; the mean changes at one of them."""
    return [
        Verdict(BEGAN_S + i, float(draw.random() < (after if i >= at else before)), weight)
        for i in range(n)
        for weight in [draw.choice((5.0, 10.0))]
    ]


def changed(part: Events) -> Events:
    """Return it with ten minutes of verdicts, bad ones from the middle on."""
    for i in range(600):
        part.add(answered("1.4", i % 25 == 0 or (i >= 300 and i % 3 == 0), at_s=BEGAN_S + i))
    return part


def test_a_change_is_dated_with_an_interval_that_holds():
    """From 4 to 20 %: the interval holds the moment in 95 % of the runs, and is short."""
    draw = random.Random(3)
    held, widths = 0, []
    for _ in range(150):
        found = change_point(course(0.04, 0.2, 250, 450, draw))
        assert found is not None
        held += found.lower_s <= BEGAN_S + 250 <= found.upper_s
        widths.append(found.upper_s - found.lower_s)
    assert held >= 0.9 * 150
    assert sorted(widths)[75] < 120


def test_a_fall_is_no_change_for_the_worse_but_of_a_score():
    """Only what is worse is dated."""
    falling = [Verdict(BEGAN_S + i, float(i < 50), 1.0) for i in range(100)]
    found = change_point(falling, higher_is_better=True)
    assert found is not None
    assert found.at_s == BEGAN_S + 50
    assert found.before.mean > found.after.mean
    assert change_point(falling[:60]) is None or change_point(falling[:60]).at_s != BEGAN_S + 50


def test_what_happened_shortly_before_a_change_is_a_candidate():
    """The deployment and the new index; not what happened an hour earlier."""
    part = events()
    part.note("cache emptied", {}, BEGAN_S - 3_600)
    part.note("reindexed", {"index": "v7"}, BEGAN_S + 240)
    for i in range(600):
        bad = i % 25 == 0 or (i >= 300 and i % 3 == 0)
        part.add(answered("1.4" if i < 295 else "1.5", bad, at_s=BEGAN_S + i))
    part.tick()
    found = part.candidates("hallucination", BEGAN_S + 320)
    assert [each.name for each in found][:2] == ["deployment: 1.5", "event: reindexed"]
    assert "event: cache emptied" not in [each.name for each in found]
    assert all(each.kind == "event" and not each.is_discovery for each in found)
    assert "index=v7" in found[1].detail
    assert found[0].now is not None
    assert found[0].before is not None
    assert found[0].now.mean > found[0].before.mean


def test_a_change_stays_dated_once_newer_verdicts_push_out_those_before_it():
    """Of verdicts that are all from after the change no other one is made up."""
    part, since_s = changed(events()), BEGAN_S + 320
    first = part.change("hallucination", since_s)
    assert first is not None
    assert first.lower_s <= BEGAN_S + 300 <= first.upper_s
    for i in range(600, 600 + MAX_VERDICTS):
        part.add(answered("1.4", i % 3 == 0, at_s=BEGAN_S + i))
    assert part.change("hallucination", since_s) == first
    assert part.change("hallucination", since_s + 1) is None


def test_events_are_bounded_and_told_without_their_attributes():
    """A thousand names, a text of a megabyte."""
    part = events(version="")
    for n in range(1_000):
        part.note(f"event {n}", {"note": "x" * 1_000_000}, BEGAN_S + n)
    part.tick()
    told = part.records()["events"]
    assert isinstance(told, list)
    assert len(told) == MAX_EVENTS
    assert told[-1] == {"kind": "event", "name": "event 999", "at_s": BEGAN_S + 999}
    assert len(json.dumps(told)) < 20_000


def test_processes_share_events_and_a_deployment_is_the_first_of_them(tmp_path):
    """What one tells another marks, too."""
    first, second = (
        events(file=Kept(store_at(tmp_path, "s"), "events", version=STATE_VERSION))
        for _ in range(2)
    )
    first.note("reindexed", {}, BEGAN_S)
    first.add(answered("1.5", bad=False, at_s=BEGAN_S + 1))
    first.tick()
    second.add(answered("1.5", bad=False, at_s=BEGAN_S + 9))
    second.tick()
    told = {(each.kind, each.name): each.at_s for each in second._events}
    assert told == {("event", "reindexed"): BEGAN_S, ("deployment", "1.5"): BEGAN_S + 1}


@pytest.mark.parametrize("worker", ["thread", "process"])
def test_a_monitor_takes_events_and_never_raises(worker):
    """They come out as a series, from any values, wherever the answers are scored."""

    class Rude:
        def __str__(self) -> str:
            raise RuntimeError("no")

    with Monitor("support", server=False, worker=worker) as monitor:
        monitor.event("reindexed", index="v7")
        monitor.event("odd", value=Rude())  # type: ignore[arg-type]
        monitor.flush()
        value = monitor.registry.get_sample_value(
            "ragmonitor_event_timestamp_seconds",
            {"service": "support", "kind": "event", "name": "reindexed"},
        )
    assert value is not None
    assert value == pytest.approx(1.8e9, rel=0.2)


@pytest.mark.parametrize("worker", ["thread", "process"])
def test_what_an_application_tells_of_an_event_is_redacted(worker, tmp_path):
    """Its name and its attributes, before they are kept anywhere."""
    key = "sk-proj-" + "Ab3dEf6hIj" * 4
    with Monitor("support", server=False, worker=worker, state=tmp_path) as monitor:
        monitor.event(
            f"deployed with {key}", link=f"https://index/?api_key={key}", password="Zx9!qTw8"
        )
        monitor.flush()
        (value,) = [
            sample.labels["name"]
            for series in monitor.registry.collect()
            for sample in series.samples
            if sample.name == "ragmonitor_event_timestamp_seconds"
        ]
    assert value == "deployed with [redacted:api_key]"
    (kept,) = Kept(store_at(tmp_path, "support"), "events", version=STATE_VERSION).read()["events"]
    assert key not in str(kept)
    assert kept["attributes"]["password"] == "[redacted:secret]"
