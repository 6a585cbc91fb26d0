"""An alarm from the first bad answer to the last notice: `data/outputs/alarm.yaml`."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from ragmonitor import Monitor
from ragmonitor.runtime.errors import SettingsError
from ragmonitor.settings import AlarmSettings
from tests.contract.kit_outputs import (
    BAD,
    GOOD,
    Judge,
    Recorder,
    fetched,
    monitoring,
    openmetrics,
    samples,
    table,
    tell,
    until,
    value,
)

pytest.importorskip("apprise", reason="notices need the extra `notify`")

TABLE = table("alarm.yaml")
NUMBERS = itertools.count()


@pytest.fixture
def recorder() -> Iterator[Recorder]:
    """Run a webhook."""
    with Recorder() as running:
        yield running


def watching(recorder: Recorder, objective: float) -> Any:
    """Return a monitor with one objective, all of whose answers are judged."""
    return monitoring(
        page=True,
        judge=Judge(),
        sample=1.0,
        objectives={"hallucination": objective},
        alarms=AlarmSettings(notify=[recorder.url("notices").replace("http:", "json:")]),
    )


def answer(monitor: Monitor, *answers: str) -> None:
    """Have the application give these answers, and let the monitor take them in."""
    for each in answers:
        tell(monitor, f"Question {next(NUMBERS)}?", each, attributes={"route": "billing"})
    assert monitor.flush(30)


def shown(monitor: Monitor, name: str) -> float | None:
    """Return a value of the alarm's series."""
    found = samples(openmetrics(str(monitor.metrics_url)))
    return value(found, f"ragmonitor_alarm{name}", **TABLE["series"])


def judged(monitor: Monitor) -> float | None:
    """Return how many answers the alarm may know of."""
    found = samples(openmetrics(str(monitor.metrics_url)))
    labels = {name: TABLE["series"][name] for name in ("signal", "judge")}
    return value(found, "ragmonitor_judged_answers_total", **labels)


def notices(recorder: Recorder) -> list[str]:
    """Return what the webhook was told."""
    return [json.loads(request.body)["message"] for request in recorder.requests]


def incident(monitor: Monitor, form: str) -> str:
    """Return the newest incident."""
    return fetched(f"{monitor.ui_url}incidents/latest.{form}")


def answered_until(monitor: Monitor, text: str, is_active: float) -> None:
    """Give the same answer until the alarm is raised, or cleared."""

    def look() -> bool:
        answer(monitor, *[text] * 20)
        return shown(monitor, "_active") == is_active

    until(f"alarm_active is {is_active:g}", look, within_s=60)


def test_an_alarm_is_raised_told_and_cleared(recorder: Recorder) -> None:
    """Series, incident and notices say the same of it, and it is one incident."""
    with watching(recorder, TABLE["objective"]) as monitor:
        answer(monitor, *[GOOD] * 20)
        until("the answers are counted", lambda: judged(monitor) == 20)
        assert shown(monitor, "_active") == 0
        answered_until(monitor, BAD, 1)
        threshold = value(
            samples(openmetrics(str(monitor.metrics_url))), "ragmonitor_alarm_threshold_seconds"
        )
        assert threshold == 30 * 86_400
        assert (shown(monitor, "_evidence_seconds") or 0) >= threshold
        assert shown(monitor, "_objective") == TABLE["objective"]
        assert shown(monitor, "s_raised_total") == 1
        since = datetime.fromtimestamp(shown(monitor, "_since_timestamp_seconds") or 0, tz=UTC)
        until("a notice", lambda: notices(recorder))

        text = until("an incident", lambda: incident(monitor, "md"))
        for part in TABLE["incident"]:
            assert part in text
        assert f"Open since {since:%Y-%m-%d %H:%M}" in text
        first = json.loads(incident(monitor, "json"))["id"]
        assert first in text

        answered_until(monitor, GOOD, 0)
        until("it is told", lambda: notices(recorder)[-1].startswith(TABLE["notices"][-1]))
        assert shown(monitor, "s_raised_total") == 1
        assert json.loads(incident(monitor, "json"))["id"] == first
        assert "Open since" not in incident(monitor, "md")
    told = notices(recorder)
    ends = [each for each in told if not each.startswith(TABLE["between"])]
    assert len(ends) == len(TABLE["notices"])
    for message, begins in zip(ends, TABLE["notices"], strict=True):
        assert message.startswith(begins)
    assert BAD not in "".join(told), "no notice quotes an answer unasked"


@pytest.mark.parametrize("case", TABLE["quiet"], ids=str)
def test_while_the_objective_is_met_nobody_is_woken(recorder: Recorder, case: dict) -> None:
    """No alarm, no incident, no notice."""
    with watching(recorder, case["objective"]) as monitor:
        bad = round(60 * case["bad"])
        answer(monitor, *([BAD] * (bad // 4) + [GOOD] * ((60 - bad) // 4)) * 4)
        until("the answers are counted", lambda: judged(monitor) == 60)
        assert shown(monitor, "_active") == 0
        assert shown(monitor, "s_raised_total") == 0
        with pytest.raises(OSError, match="404"):
            incident(monitor, "md")
    assert notices(recorder) == []


def test_the_built_in_judge_has_an_alarm_on_what_is_usual_and_on_no_limit() -> None:
    """Without a model its verdicts are watched, under its name; its level is not the truth."""
    with pytest.raises(SettingsError, match=r"Name a judge, .* or leave this out"):
        Monitor("shop", objectives={"hallucination": 0.1})
    with monitoring() as monitor:
        answer(monitor, *[GOOD] * 20)
        found = samples(openmetrics(str(monitor.metrics_url)))
        labels = TABLE["series"] | {"judge": "builtin"}
        assert value(found, "ragmonitor_alarm_active", **labels) == 0
