"""`ragmonitor stream`: what waits for the other end of `Monitor(stream=...)`, and was buried."""

from __future__ import annotations

from contextlib import closing
from dataclasses import asdict
from typing import Any, Final

from ragmonitor.back_half.stream_sender import ask_to_refreeze
from ragmonitor.cli.service_options import StreamOptions
from ragmonitor.cli.terminal import (
    FINE,
    SOMETHING_WRONG,
    figures_table,
    new_console,
    print_json,
    say,
)
from ragmonitor.errors import WireError
from ragmonitor.fleet.fleet_stream import FleetStream
from ragmonitor.settings import Settings
from ragmonitor.streams import RedisStream, Stream
from ragmonitor.wire import decode, decode_report, is_kind

MAX_SHOWN: Final = 100


def inspect(options: StreamOptions) -> int:
    """Show the stream, and return the exit code: 1 if anything is buried."""
    settings = _settings(options)
    with closing(opened_stream(settings)) as stream:
        state = asdict(stream.state())
        fleet = {"fleet": asdict(stream.counts())} if isinstance(stream, FleetStream) else {}
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
        print_json(state | fleet | {"buried_records": buried})
    else:
        _show(state, buried)
    return SOMETHING_WRONG if buried else FINE


def opened_stream(settings: Settings) -> Stream:
    """Return the stream that the settings name, on Redis with what a fleet keeps beside it.

    Raises:
        SettingsError: They name none, or none that can be opened.
        MissingExtraError: Its client is not installed.
    """
    return FleetStream.of(settings)


def _show(state: dict[str, Any], buried: list[dict[str, Any]]) -> None:
    console = new_console()
    oldest = state.pop("oldest_s")
    counts = ", ".join(f"{count:,} {name}" for name, count in state.items())
    console.print(f"{counts}; the oldest is {oldest:.0f} s old", markup=False)
    if buried:
        table = figures_table("buried", "interaction", "bytes", "reason", texts=("reason",))
        for each in buried:
            table.add_row(each["id"], each["interaction"], f"{each['bytes']:,}", each["reason"])
        console.print(table)


def _interaction(data: bytes) -> str:
    """Return the id of a record; empty if it cannot be read."""
    try:
        return (decode_report(data).interaction if is_kind(data, b"r") else decode(data)).id
    except WireError:
        return ""


def replay(options: StreamOptions) -> int:
    """Put what was buried back, and return the exit code."""
    with closing(RedisStream.of(_settings(options))) as stream:
        count = stream.replay()
    say(f"{count:,} records are back on the stream")
    return FINE


def purge(options: StreamOptions) -> int:
    """Delete what was buried, and return the exit code."""
    with closing(RedisStream.of(_settings(options))) as stream:
        count = stream.purge()
    say(f"{count:,} records deleted")
    return FINE


def refreeze(options: StreamOptions) -> int:
    """Have the reference answers frozen anew, and return the exit code."""
    settings = _settings(options)
    with closing(RedisStream.of(settings)) as stream:
        ask_to_refreeze(stream)
    if settings.judge.name is None:
        say(
            "the request is on the stream. These settings name no judge: where those of the worker "
            "or the estimator name none either, nothing is frozen, and its log says so"
        )
    else:
        say(
            "the request is on the stream: the judge reads its reference answers again, and what "
            "it says is frozen"
        )
    return FINE


def _settings(options: StreamOptions) -> Settings:
    return Settings.load(stream=options.stream, service=options.service)
