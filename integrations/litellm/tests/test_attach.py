"""Which calls are observed, what the application says of them, and what is left alone."""

import asyncio
import json
import logging

import litellm
import pytest
from litellm.integrations.custom_logger import CustomLogger

import ragmonitor_litellm
from integrations.litellm.tests.conftest import Watched
from ragmonitor import Monitor
from ragmonitor.runtime.guard import errors
from ragmonitor_litellm import Extracted, RagMonitorLogger, instrument, uninstrument
from tests.support.openai_server import Reply

SAID = {"query": "q", "chunks": ["a", {"text": "b", "id": "doc-2", "score": 0.5}]}
PLAIN = [{"role": "user", "content": "Hello."}]


# Which calls


async def test_metadata_goes_before_the_extractor(watched, way):
    """And False leaves a call out."""
    await way(watched.call | {"metadata": {"ragmonitor": SAID}})
    await way(watched.call | {"metadata": {"ragmonitor": False}})
    assert [i.query for i in await watched.later()] == ["q"]


async def test_a_reply_that_asks_for_tools_is_no_answer(watched, server, way):
    """The answer comes in a later call, or never."""
    function = {"name": "search", "arguments": "{}"}
    calls = [{"index": 0, "id": "1", "type": "function", "function": function}]
    message = {"role": "assistant", "content": "Let me see.", "tool_calls": calls}
    body = {
        "id": "1",
        "object": "chat.completion",
        "created": 0,
        "model": "m",
        "choices": [{"index": 0, "message": message, "finish_reason": "tool_calls"}],
    }
    chunk = body | {"object": "chat.completion.chunk"}
    chunk["choices"] = [{"index": 0, "delta": message, "finish_reason": "tool_calls"}]
    if "stream" in way.__name__:
        events = f"data: {json.dumps(chunk)}\n\ndata: [DONE]\n\n"
        server.script(Reply(body=events.encode(), content_type="text/event-stream"))
    else:
        server.script(Reply(body=json.dumps(body).encode()))
    await way(watched.call)
    assert await watched.later() == []


async def test_calls_that_must_not_be_logged_are_not(watched, way):
    """The option `no-log` is litellm's own."""
    await way(watched.call | {"no-log": True})
    assert await watched.later() == []


# What is said of them


async def test_labels_are_litellms_own(watched, way):
    """Session, user and tags."""
    metadata = {"session_id": "s-1", "trace_id": "t-1", "tags": ["beta"]}
    await way(watched.call | {"metadata": metadata, "user": "u-1"})
    (interaction,) = await watched.later()
    assert (interaction.session_id, interaction.user_id) == ("s-1", "u-1")
    assert interaction.tags == ("beta",)
    assert interaction.attributes["litellm_call_id"]


async def test_attributes_stand_beside_the_chunks(quiet, way):
    """The application's own."""
    instrument(quiet.monitor)
    said = SAID | {"attributes": {"route": "/ask"}}
    await way(quiet.call | {"metadata": {"ragmonitor": said}})
    (interaction,) = await quiet.later()
    assert interaction.attributes["route"] == "/ask"


# What is not known is not scored


def outcomes(watched):
    return {getattr(e, "cause", "scored") for r in watched.exporter.reports for e in r.evaluations}


async def test_an_extractor_that_raises_costs_the_score_and_not_the_count(
    quiet, way, caplog, story
):
    """Without the chunks a truthful answer would look invented."""

    def broken(messages, call):
        raise KeyError(call["model"])

    caplog.set_level(logging.CRITICAL, "ragmonitor")  # it is said, once
    before = errors["capture"]
    instrument(quiet.monitor, extract=broken)
    assert await way(quiet.call) == story.ANSWER
    (interaction,) = await quiet.later()
    assert interaction.capture_incomplete
    assert outcomes(quiet) == {"capture_incomplete"}
    assert errors["capture"] == before + 1


async def test_metadata_of_another_shape_costs_the_score_and_not_the_count(quiet, caplog):
    """The same."""
    caplog.set_level(logging.CRITICAL, "ragmonitor")
    instrument(quiet.monitor)
    await litellm.acompletion(**quiet.call, metadata={"ragmonitor": {"chunks": "a"}})
    assert [i.capture_incomplete for i in await quiet.later()] == [True]


async def test_what_litellm_hides_is_not_recorded(watched, way, monkeypatch):
    """`turn_off_message_logging`, for all calls or for one."""
    await way(watched.call | {"turn_off_message_logging": True})
    monkeypatch.setattr(litellm, "turn_off_message_logging", True)
    await way(watched.call | {"metadata": {"ragmonitor": SAID}})
    assert await watched.later() == []


async def test_extractors_run_behind_the_request(quiet, way):
    """On the monitor's own thread, however long they take."""
    import threading

    threads = []

    def extract(messages, call):
        threads.append(threading.current_thread().name)
        assert call["metadata"]["route"] == "/ask"
        return Extracted(query="q", chunks=["a"])

    instrument(quiet.monitor, extract=extract)
    await way(quiet.call | {"metadata": {"route": "/ask"}})
    await quiet.later()
    assert threads == ["ragmonitor"]


# Attaching


def watched_extract(messages, call):
    return Extracted(query="again")


async def test_two_monitors_both_see_a_call(watched, server, way, story):
    """Though litellm keeps loggers apart by their plain attributes only."""
    other = story.Watched(server)
    instrument(other.monitor, extract=watched_extract)
    try:
        await way(watched.call)
        assert len(await watched.later()) == len(await other.later()) == 1
    finally:
        uninstrument()
        other.monitor.close()


async def test_after_uninstrument_nothing_is_seen(watched, way, story):
    """And litellm holds nothing of ours."""
    await way(watched.call)
    await watched.later()
    uninstrument()
    assert all(getattr(litellm, name) == [] for name in story.LISTS)
    await way(watched.call)
    assert len(await watched.later()) == 1


async def test_a_logger_that_the_application_put_there_stays(server, way, story):
    """As the proxy's configuration does; `instrument` makes no second one for its monitor."""
    other = story.Watched(server)
    own = RagMonitorLogger(other.monitor)
    litellm.callbacks.append(own)
    try:
        assert instrument(other.monitor, extract=watched_extract) is own
        uninstrument()
        await way(other.call)
        assert len(await other.later()) == 1
    finally:
        story.take_off(own)
        other.monitor.close()


async def test_a_stream_under_way_is_left_alone(watched):
    """It is not taken for one that was closed early."""
    pieces = await litellm.acompletion(**watched.call, stream=True)
    await anext(pieces)
    uninstrument()
    async for _ in pieces:
        pass
    del pieces
    assert await watched.later() == []


async def test_other_loggers_see_what_they_saw(watched, way, story):
    """Ours leaves a token in litellm's dict, and nothing else."""
    seen = []

    class Other(CustomLogger):
        def log_success_event(self, kwargs, response_obj, start_time, end_time):
            seen.append(json.dumps(kwargs, default=str))

        async def async_log_success_event(self, kwargs, response_obj, start_time, end_time):
            seen.append(json.dumps(kwargs, default=str))

    other = Other()
    litellm.callbacks.append(other)
    try:
        await way(watched.call)
        await watched.later()
        assert len(seen) == 1
    finally:
        story.take_off(other)


# Without a monitor


def test_the_proxys_handler_is_made_when_it_is_asked_for():
    """Once; importing the package makes none."""
    assert isinstance(ragmonitor_litellm.proxy_handler, RagMonitorLogger)
    assert ragmonitor_litellm.proxy_handler is ragmonitor_litellm.proxy_handler
    with pytest.raises(AttributeError):
        _ = ragmonitor_litellm.nothing


async def test_a_logger_without_a_monitor_builds_one_from_the_settings(
    quiet, monkeypatch, tmp_path, story
):
    """At once: a call that waited for it would hold up the proxy's event loop."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RAGMONITOR_SERVER", "false")
    monkeypatch.setenv("RAGMONITOR_EXPORTERS", f"jsonl:{tmp_path}/out.jsonl")
    logger = RagMonitorLogger()
    litellm.callbacks.append(logger)
    try:
        assert isinstance(logger.monitor, Monitor)
        await litellm.acompletion(**quiet.call, metadata={"ragmonitor": SAID})
        await quiet.later()
        await asyncio.to_thread(logger.monitor.close)
        assert json.loads((tmp_path / "out.jsonl").read_text().splitlines()[0])
    finally:
        story.take_off(logger)


@pytest.mark.parametrize("wrong", ["settings", "disk"])
async def test_what_keeps_a_monitor_from_starting_leaves_the_application_unmonitored(
    quiet, monkeypatch, caplog, story, wrong
):
    """And is said, once, whatever it is."""

    def broken(self, **_):
        raise OSError("no disk")

    if wrong == "settings":
        monkeypatch.setenv("RAGMONITOR_CAPTURE__QUEUE_SIZE", "none")
    else:
        monkeypatch.setattr(Monitor, "__init__", broken)
    caplog.set_level(logging.CRITICAL, "ragmonitor")
    before = errors["start"]
    logger = RagMonitorLogger()
    litellm.callbacks.append(logger)
    try:
        for _ in range(2):
            reply = await litellm.acompletion(**quiet.call, metadata={"ragmonitor": SAID})
            assert reply.choices[0].message.content == story.ANSWER
        await story.settled()
        assert errors["start"] == before + 1
    finally:
        story.take_off(logger)


@pytest.fixture
def small(server):
    """Give a monitor that keeps a hundred open calls."""
    watched = Watched(server)
    yield watched
    watched.monitor.close()


def test_open_calls_are_bounded_and_what_makes_room_is_counted(small, monkeypatch):
    """A call that never ends leaves as a partial one, a root and a request for each."""
    logger = RagMonitorLogger(small.monitor)
    monkeypatch.setattr("ragmonitor.capture.recorder.MAX_OPEN_RUNS", 100)
    held = []
    for n in range(140):
        told = {
            "call_type": "completion",
            "litellm_params": {"metadata": {"ragmonitor": SAID}},
            "litellm_call_id": str(n),
        }
        held.append(told)
        logger.log_pre_api_call("m", PLAIN, told)
        assert len(small.recorder) <= 100
    found = small.interactions
    assert {i.status for i in found} == {"partial"}
    assert len(found) == 90
    reasons = small.monitor.registry.get_sample_value(
        "ragmonitor_dropped_total", {"service": "litellm", "reason": "too_many_open"}
    )
    assert reasons >= 90


def test_what_cannot_be_read_of_a_call_is_counted(small):
    """Messages and labels of any type; the interaction goes out as incomplete."""

    class Odd:
        def model_dump(self):
            raise RecursionError

    cycle = {}
    cycle["self"] = cycle
    said = {"query": "q", "chunks": [{"text": "a", "metadata": cycle}], "attributes": cycle}
    logger = RagMonitorLogger(small.monitor)
    told = {
        "call_type": "completion",
        "litellm_params": {"metadata": {"ragmonitor": said, "tags": cycle, "user_id": 5}},
        "optional_params": {"user": cycle},
    }
    logger.log_pre_api_call("m", [Odd(), *PLAIN], told)
    logger.log_failure_event(told, None, None, None)
    (found,) = small.interactions
    assert found.status == "error"
