"""A real litellm against a scripted server, and a monitor whose reports are kept."""

from __future__ import annotations

import asyncio
import gc
import inspect
import logging
from collections.abc import Awaitable, Callable, Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

from ragmonitor import ExportSettings
from tests.support.openai_server import OpenAiServer  # before litellm: it sets its environment

import litellm  # isort: skip
from litellm.integrations.custom_logger import CustomLogger  # isort: skip
from ragmonitor import Interaction, Monitor
from ragmonitor.integration import Recorder
from ragmonitor.testing import ListExporter
from ragmonitor_litellm import from_template, instrument, uninstrument

ANSWER = "The pump is serviced every six months."
TEMPLATE = "Context:\n{context}\n\nQuestion: {question}"
CHUNKS = ["Serviced every six months.", "The pump is blue."]
QUESTION = "How often is the pump serviced?"
LISTS = (
    "callbacks",
    "input_callback",
    "success_callback",
    "failure_callback",
    "_async_success_callback",
    "_async_failure_callback",
)


RELEASE = tuple(int(part) for part in metadata.version("litellm").split(".")[:2])


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run all on one loop, as applications do: older releases bind their worker to the first."""
    for item in items:
        is_ours = item.path.parent == Path(__file__).parent
        if is_ours and inspect.iscoroutinefunction(getattr(item, "function", None)):
            item.add_marker(pytest.mark.asyncio(loop_scope="session"), append=False)


class Watched:
    """A monitor, what it reported, and the arguments of a call that it should see."""

    def __init__(self, server: OpenAiServer, **options: Any) -> None:
        self.exporter = ListExporter()
        self.monitor = Monitor(
            service="litellm",
            server=False,
            export=ExportSettings(traces=False),
            exporters=[self.exporter],
            **options,
        )
        self.call: dict[str, Any] = {
            "model": "openai/answering-1",
            "messages": asked(),
            "api_base": server.api_base,
            "api_key": "none",
            "max_retries": 0,
        }

    @property
    def recorder(self) -> Recorder:
        """The monitor's recorder of litellm's calls."""
        return self.monitor._recorders["litellm"]

    @property
    def interactions(self) -> list[Interaction]:
        """Everything so far; streams that nobody holds any more are seen to their end."""
        gc.collect()
        assert self.monitor.flush(20)
        return list(self.exporter.interactions())

    @property
    def only(self) -> Interaction:
        (interaction,) = self.interactions
        return interaction

    async def later(self) -> list[Interaction]:
        """Wait for what litellm tells in tasks of this loop."""
        await settled()
        return await asyncio.to_thread(lambda: self.interactions)


def asked(question: str = QUESTION, chunks: list[str] = CHUNKS) -> list[dict[str, Any]]:
    text = TEMPLATE.format(context="\n\n".join(chunks), question=question)
    return [{"role": "system", "content": "Be brief."}, {"role": "user", "content": text}]


def take_off(logger: CustomLogger) -> None:
    """Take a logger off every list that litellm copied it into."""
    for name in LISTS:
        getattr(litellm, name)[:] = [each for each in getattr(litellm, name) if each is not logger]


async def settled() -> None:
    """Let litellm's worker on this loop catch up, and its tasks."""
    from litellm.litellm_core_utils.logging_worker import GLOBAL_LOGGING_WORKER

    for _ in range(3):
        await asyncio.sleep(0.01)
        await GLOBAL_LOGGING_WORKER.flush()


def text(piece: Any) -> str:
    # The piece that tells the tokens has no choice.
    return (piece.choices[0].delta.content or "") if piece.choices else ""


async def _completion(call: dict[str, Any]) -> str:
    return litellm.completion(**call).choices[0].message.content


async def _acompletion(call: dict[str, Any]) -> str:
    return (await litellm.acompletion(**call)).choices[0].message.content


async def _stream(call: dict[str, Any]) -> str:
    return "".join(map(text, litellm.completion(**call, stream=True)))


async def _astream(call: dict[str, Any]) -> str:
    pieces = await litellm.acompletion(**call, stream=True)
    return "".join([text(piece) async for piece in pieces])


Way = Callable[[dict[str, Any]], Awaitable[str]]
WAYS: dict[str, Way] = {
    "completion": _completion,
    "acompletion": _acompletion,
    "stream": _stream,
    "astream": _astream,
}


@pytest.fixture(params=WAYS.values(), ids=WAYS.keys())
def way(request: pytest.FixtureRequest) -> Way:
    """One way to call litellm."""
    return request.param


@pytest.fixture
def server() -> Iterator[OpenAiServer]:
    with OpenAiServer(answer=ANSWER) as server:
        yield server


@pytest.fixture
def quiet(server: OpenAiServer, caplog: pytest.LogCaptureFixture) -> Iterator[Watched]:
    """Give a monitor that listens to nobody yet; nothing is left behind, nobody is warned."""
    litellm.suppress_debug_info = True
    watched = Watched(server)
    yield watched
    uninstrument()
    watched.monitor.close()
    for name in LISTS:
        assert getattr(litellm, name) == [], name
    for record in caplog.get_records("call"):
        ours = record.name.startswith(("ragmonitor", "opentelemetry"))
        assert not (ours and record.levelno >= logging.WARNING), record.getMessage()


@pytest.fixture
def watched(quiet: Watched) -> Watched:
    """Give one that listens to the process, and reads the prompts of `asked`."""
    instrument(quiet.monitor, extract=from_template(TEMPLATE))
    return quiet


@pytest.fixture
def lets_go() -> None:
    """Skip where litellm holds on to a call that nobody waits for any more: there it ages out."""
    if RELEASE < (1, 106):
        pytest.skip("seen to be let go of in litellm 1.106, and not in 1.80")


@pytest.fixture
def story() -> Any:
    """Give what is asked and answered to tests."""

    class Story:
        pass

    told: Any = Story()
    told.ANSWER, told.CHUNKS, told.QUESTION, told.TEMPLATE = ANSWER, CHUNKS, QUESTION, TEMPLATE
    told.asked, told.settled, told.Watched, told.LISTS = asked, settled, Watched, LISTS
    told.take_off = take_off
    return told
