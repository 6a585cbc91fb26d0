"""`ragmonitor worker` and `ragmonitor stream`: the other end of `Monitor(stream=...)`."""

from __future__ import annotations

import logging
import signal
import threading
from contextlib import closing
from dataclasses import asdict
from typing import Any, Final

from ragmonitor.back_half.stream_sender import stream_in
from ragmonitor.back_half.stream_worker import StreamWorker
from ragmonitor.cli.options import StreamOptions, WorkerOptions
from ragmonitor.cli.terminal import FINE, SOMETHING_WRONG, figures_table, print_json, say
from ragmonitor.errors import WireError
from ragmonitor.fleet.fleet_stream import fleet_stream_in
from ragmonitor.settings import Settings
from ragmonitor.wire import decode
from ragmonitor.wiring import redactor_of

MAX_SHOWN: Final = 100


def work(options: WorkerOptions) -> int:
    """Score what is on the stream, and return the exit code.

    Raises:
        RagMonitorError: The settings cannot be carried out, or another worker has the stream.
    """
    settings = Settings.load(stream=options.stream, service=options.service)
    logging.basicConfig(format="%(message)s")
    logging.getLogger("ragmonitor").setLevel(logging.INFO)
    worker = StreamWorker(settings, stream_in(settings), redactor=redactor_of(settings, None))
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    say(f"scoring answers of {settings.service!r}; metrics: {_address(settings)}")
    worker.run(stop, drain=options.drain)
    return FINE


def _address(settings: Settings) -> str:
    server = settings.server
    return f"http://{server.host}:{server.port}/metrics" if server.enabled else "not served"


def inspect(options: StreamOptions) -> int:
    """Show the stream, and return the exit code: 1 if anything is buried."""
    with closing(fleet_stream_in(_settings(options))) as stream:
        state, counts = asdict(stream.state()), asdict(stream.counts())
        buried = [
            {
                "id": each.id,
                "interaction": _interaction(each.data),
                "bytes": len(each.data),
                "reason": each.reason,
            }
            for each in stream.buried(MAX_SHOWN)
        ]
    if options.json_output:
        print_json(state | {"fleet": counts, "buried_records": buried})
    else:
        _show(state, buried)
    return SOMETHING_WRONG if buried else FINE


def _show(state: dict[str, Any], buried: list[dict[str, Any]]) -> None:
    from rich.console import Console

    console = Console()
    oldest = state.pop("oldest_s")
    said = ", ".join(f"{count:,} {name}" for name, count in state.items())
    console.print(f"{said}; the oldest is {oldest:.0f} s old", markup=False)
    if buried:
        table = figures_table("buried", "interaction", "bytes", "reason", texts=("reason",))
        for each in buried:
            table.add_row(each["id"], each["interaction"], f"{each['bytes']:,}", each["reason"])
        console.print(table)


def _interaction(data: bytes) -> str:
    """Return the id of a record; empty if it cannot be read."""
    try:
        return decode(data).id
    except WireError:
        return ""


def replay(options: StreamOptions) -> int:
    """Put what was buried back, and return the exit code."""
    with closing(stream_in(_settings(options))) as stream:
        count = stream.replay()
    say(f"{count:,} records are back on the stream")
    return FINE


def purge(options: StreamOptions) -> int:
    """Delete what was buried, and return the exit code."""
    with closing(stream_in(_settings(options))) as stream:
        count = stream.purge()
    say(f"{count:,} records deleted")
    return FINE


def _settings(options: StreamOptions) -> Settings:
    return Settings.load(stream=options.stream, service=options.service)
