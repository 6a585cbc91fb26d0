"""The judge's own calls go through litellm as well, and are no traffic."""

import asyncio
import logging

import litellm
import pytest

from ragmonitor_litellm import Extracted, instrument, uninstrument
from tests.support.openai_server import OpenAiServer


def everything(messages, call):
    """Take any call for an interaction."""
    return Extracted(query="q", chunks=["a"])


@pytest.fixture
def judged(server, story):
    """Give a monitor with a judge of its own, behind another server."""
    with OpenAiServer() as judge:
        watched = story.Watched(
            server,
            judge={"model": "openai/judge-1", "api_base": judge.api_base},
            sample=1.0,
            budget={"tokens_per_day": 10_000_000},
        )
        instrument(watched.monitor, extract=everything)
        yield watched, judge
        uninstrument()
        watched.monitor.close()


@pytest.mark.parametrize("logged", [False, True])
async def test_what_the_judge_asks_is_not_recorded(judged, way, monkeypatch, logged):
    """Even where litellm is told to log what must not be logged."""
    monkeypatch.setattr(litellm, "global_disable_no_log_param", logged)
    watched, judge = judged
    for _ in range(3):
        await way(watched.call)
    interactions = await watched.later()
    assert len(interactions) == 3
    assert judge.chats
    assert {g.model for i in interactions for g in i.generations} == {"answering-1"}
    assert len(await watched.later()) == 3


async def test_the_judge_takes_nothing_from_the_application(judged, caplog):
    """There is one logging worker for both, bound to the application's loop: it stays there."""
    pytest.importorskip("litellm._internal_context", reason="older releases cannot be told so")
    watched, judge = judged
    for _ in range(5):
        await asyncio.gather(*(litellm.acompletion(**watched.call) for _ in range(10)))
        await asyncio.sleep(0.05)
    assert len(await watched.later()) == 50
    assert judge.chats
    said = [r.getMessage() for r in caplog.records if r.levelno >= logging.WARNING]
    assert said == []
