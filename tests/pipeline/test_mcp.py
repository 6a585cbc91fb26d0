"""An assistant's own client against `ragmonitor mcp` over a real running monitor."""

from __future__ import annotations

import asyncio
import json
import os
import sys

import pytest

from ragmonitor import Chunk, Monitor
from ragmonitor.cli.mcp_server import MonitorTools, server_of
from ragmonitor.settings import AlarmSettings
from tests.support.renamed_judge import JUDGE

mcp = pytest.importorskip("mcp")

TOKEN = "a token of enough length"
CHUNK = "Goods may be returned within 30 days of delivery, free of charge."
WRONG = "Goods may be returned within 90 days by paying a fee of 12 euros in Helsinki."
COMMAND = [sys.executable, "-c", "from ragmonitor.cli.app import app; app()", "mcp"]


def alarmed(*, content: str = "all", worker: str = "thread") -> Monitor:
    """Return a running monitor whose answers are bad enough for an alarm."""
    monitor = Monitor(
        "shop",
        judge=JUDGE,
        sample=1.0,
        objectives={"hallucination": 0.05},
        alarms=AlarmSettings(signals=("hallucination",), false_alarm_every_days=0.01),
        export={"traces": False},
        server={"ui": True, "port": 0, "token": TOKEN},
        content=content,
        worker=worker,
    ).start()
    for number in range(60):
        with monitor.interaction(query=f"Question {number}?", attributes={"route": "/r"}) as i:
            i.retrieved([Chunk(text=CHUNK, id="policy", metadata={"source": "returns.md"})])
            i.answered(WRONG, model="mine")
    monitor.event("reindexed")
    assert monitor.flush(60)
    return monitor


async def asked(server, *calls):
    """Return the tools' names and what each call gives: its data, or its text."""
    async with mcp.Client(server) as client:
        listed = (await client.list_tools()).tools
        replies = [await client.call_tool(name, arguments) for name, arguments in calls]
    assert all(each.annotations.read_only_hint for each in listed)
    return [each.name for each in listed], [_read(each) for each in replies]


def _read(reply):
    text = "".join(getattr(each, "text", "") for each in reply.content)
    if reply.is_error:
        return f"error: {text}"
    try:
        return json.loads(text)
    except ValueError:
        return text


def ask(monitor, *calls, token=TOKEN):
    """Ask a server in this process."""
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("RAGMONITOR_SERVER__TOKEN", token)
        return asyncio.run(asked(server_of(MonitorTools(monitor.metrics_url)), *calls))


@pytest.mark.parametrize("worker", ["thread", "process"])
def test_an_assistant_finds_out_why_an_alarm_was_raised(worker):
    """Rates with intervals, the alarm, its incident, slices, documents and worst answers."""
    with alarmed(worker=worker) as monitor:
        names, found = ask(
            monitor,
            ("rates", {}),
            ("alarms", {}),
            ("incidents", {}),
            ("incident", {}),
            ("slices", {}),
            ("documents", {}),
            ("changes", {}),
            ("worst_answers", {"limit": 2, "containing": "helsinki"}),
        )
    rates, alarms, incidents, incident, slices, documents, changes, worst = found
    assert len(names) == len(found) == 8
    known = {(r["signal"], r["judge"]): r for r in rates["services"][0]["rates"]}
    rate = known["hallucination", "renamed"]
    assert rate["lower"] > 0.8 < rate["mean"] <= rate["upper"]
    assert alarms["services"][0]["alarms"][0]["active"]
    assert incidents["incidents"][0]["id"] in incident
    assert WRONG.partition(".")[0] in incident
    assert {each["group"] for each in slices["by_setting"]} >= {"mine"}
    assert documents["listed"][0]["shown"] > 0
    assert changes["services"][0]["events"][0]["name"] == "reindexed"
    assert worst["answers"][0]["question"].startswith("Question")
    assert 1 <= len(worst["answers"]) <= 2


@pytest.mark.parametrize("content", ["none", "hashed"])
def test_a_withheld_text_is_in_no_tool(content):
    """Whatever is asked for."""
    with alarmed(content=content) as monitor:
        names, _ = ask(monitor)
        _, found = ask(monitor, *((name, {}) for name in names))
    told = json.dumps(found, ensure_ascii=False)
    assert "builtin" in told
    for text in ("Helsinki", "free of charge", "Question 1"):
        assert text not in told


def test_no_control_character_reaches_an_assistant():
    """Neither of a name nor of a text, from whatever tool."""
    with alarmed() as monitor:
        with monitor.interaction(
            query="a\x1b]0;owned\x07b\u202ec", attributes={"route": "\x9b2J"}
        ) as i:
            i.retrieved([Chunk(text=CHUNK, metadata={"source": "a\x1b[2Jb.md"})])
            i.answered(f"\x1b[31m{WRONG}")
        monitor.event("d\x07e")
        assert monitor.flush(60)
        names, _ = ask(monitor)
        _, found = ask(monitor, *((name, {}) for name in names))
    told = json.dumps(found, ensure_ascii=False).encode("unicode_escape").decode()
    assert "]0;owned" in told
    assert not any(each in told for each in ("x1b", "u001b", "u0007", "x9b", "u009b", "u202e"))


def test_what_cannot_be_had_is_said_and_nothing_breaks():
    """A wrong token, a name that is none, a monitor that has gone."""
    with alarmed() as monitor:
        _, (refused,) = ask(monitor, ("worst_answers", {}), token="another token of that length")
        _, (none, odd) = ask(
            monitor, ("incident", {"id": "20260101-none"}), ("incident", {"id": "../state"})
        )
    _, (gone,) = asyncio.run(asked(server_of(MonitorTools("127.0.0.1:1")), ("rates", {})))
    assert "needs its token" in refused
    assert "no incident '20260101-none' is kept" in none
    assert "no incident '../state' is kept" in odd
    assert "nothing answers" in gone


@pytest.mark.slow
def test_over_standard_input_and_output():
    """As an assistant starts it."""
    with alarmed() as monitor:
        started = mcp.StdioServerParameters(
            command=COMMAND[0],
            args=[*COMMAND[1:], "--address", monitor.metrics_url],
            env={**os.environ, "RAGMONITOR_SERVER__TOKEN": TOKEN},
        )
        names, (rates,) = asyncio.run(asked(started, ("rates", {})))
    assert "worst_answers" in names
    assert rates["services"][0]["service"] == "shop"
