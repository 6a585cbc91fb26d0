"""`ragmonitor doctor`: checks settings, endpoints, files, and the judges' verdicts.

A probe returns what it found. One that fails raises what is wrong and what to do.
"""

from __future__ import annotations

import asyncio
import logging
import os
import platform
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import typer
from pydantic import SecretStr

import ragmonitor
from ragmonitor.cli.drivers import FRAMEWORKS, MissingDriverError, load
from ragmonitor.cli.masking import masked_value
from ragmonitor.cli.monitor_client import RunningMonitor, is_free
from ragmonitor.cli.options import DoctorOptions
from ragmonitor.cli.terminal import FINE, SOMETHING_WRONG, print_json, usage_text
from ragmonitor.evaluators import table
from ragmonitor.export import JsonLines
from ragmonitor.export.batcher import DeliveryError
from ragmonitor.export.otel_environment import HTTP, captured_content, otlp_address, otlp_protocol
from ragmonitor.export.posting import PostingExporter
from ragmonitor.judges import BuiltinJudge
from ragmonitor.pipeline.build import (
    estimates_of,
    exporters_of,
    incidents_of,
    judge_named,
    judging_of,
    paid_judge,
    redactor_of,
)
from ragmonitor.pipeline.judging import ReadingEngine
from ragmonitor.pipeline.streams import RedisStream
from ragmonitor.records import Chunk, Interaction, Verdict
from ragmonitor.runtime.addresses import UNIX, shown
from ragmonitor.runtime.errors import InputError, JudgeError, RagMonitorError, StreamError
from ragmonitor.runtime.guard import reason
from ragmonitor.runtime.printable import printable
from ragmonitor.runtime.protocols import Judge
from ragmonitor.settings import OPTIONS, PREFIX, Settings, sources
from ragmonitor.store import Memory, Redis, StoreUnavailableError, store_at

TIMEOUT_S: Final = 2.0
MIN_REDIS: Final = 7
MAX_AHEAD_S: Final = 60.0
START_REMEDY: Final = "correct it, or install what it needs: a monitor does not start with it"
JUDGE_REMEDY: Final = "check the model's name, its key in the environment, and judge.api_base"
TRACES_REMEDY: Final = "correct OTEL_EXPORTER_OTLP_ENDPOINT or OTEL_EXPORTER_OTLP_PROTOCOL"
STATE_LOSS: Final = (
    "the budget, reference answers and alarms would be lost at each restart, and processes would "
    "not share them"
)


class Note(str):
    """A finding that is neither fine nor wrong."""

    __slots__ = ()


class ProbeFailedError(RagMonitorError):
    """Something is wrong."""

    def __init__(self, finding: str, remedy: str) -> None:
        super().__init__(finding)
        self.remedy = remedy


Probe = Callable[[], str]


Check = dict[str, str]
"""The result of one probe: its `name`, `state` (ok, note or failed), `finding`, and where it failed
the `remedy`."""


def run(options: DoctorOptions) -> int:
    """Check everything, print the findings and return the exit code.

    Raises:
        SettingsError: The settings cannot even be read.
    """
    settings = Settings.load()
    log = logging.getLogger("ragmonitor")
    level = log.level
    log.setLevel(logging.CRITICAL)  # the findings say it
    try:
        # A server may quote the key that it refuses.
        checks: list[Check] = [
            masked_value(checked(name, probe)) for name, probe in probes(settings)
        ]
    finally:
        log.setLevel(level)
    failed = [check for check in checks if check["state"] == "failed"]
    if options.json_output:
        print_json({"fine": not failed, "settings": list(described(settings)), "checks": checks})
    else:
        _print_checks(checks, failed)
        if options.settings:
            for row in described(settings):
                value = "-" if row["value"] is None else str(row["value"])
                typer.echo(printable(f"{row['name']:<40} {value}  ({row['source']})"))
    return SOMETHING_WRONG if failed else FINE


def described(settings: Settings) -> Iterator[dict[str, Any]]:
    """Yield each setting in force with its source: `variable`, `file` or `default`; no keys."""
    known = sources()
    for option in OPTIONS:
        value = option.value(settings)
        if not isinstance(value, int | float | bool | type(None)):
            value = masked_value([*map(str, value)] if isinstance(value, tuple) else str(value))
        source = known.get(option.path, "default")
        yield {"name": option.name, "value": value, "source": source}


def checked(name: str, probe: Probe) -> Check:
    """Return the result of a probe."""
    state, remedy = "failed", START_REMEDY
    try:
        finding = probe()
        state, remedy = "note" if isinstance(finding, Note) else "ok", ""
    except ProbeFailedError as error:
        finding, remedy = str(error), error.remedy
    except RagMonitorError as error:
        finding = str(error)
    return {"name": name, "state": state, "finding": finding, "remedy": remedy}


def probes(settings: Settings) -> Iterator[tuple[str, Probe]]:
    """Yield every probe with its name."""
    yield "settings", partial(_starts, settings)
    for framework in FRAMEWORKS:
        yield framework, partial(_framework, framework)
    yield "traces", partial(_traces, settings)
    yield "metrics", partial(_metrics, settings)
    for each in settings.exporters:
        one = settings.model_copy(update={"exporters": (each,)})
        yield str(each).partition(":")[0], partial(_exporter, one)
    if settings.send_to is not None and not settings.send_to.get_secret_value().startswith(UNIX):
        yield "stream", partial(_stream, settings)
    if settings.state is not None:
        yield "state", partial(_state, settings.state)
    yield "judge builtin", partial(read_trial, BuiltinJudge)
    if isinstance(named := settings.judge.builtin, str):
        yield "judge.builtin", partial(read_trial, partial(judge_named, settings, named))
    yield from _judges(settings)


# --- the probes ------------------------------------------------------------------------------


def _starts(settings: Settings) -> str:
    """Start what a monitor starts. Judges and files have their own probes."""
    plain = settings.model_copy(update={"state": None})
    redactor_of(plain)
    estimates_of(plain, BuiltinJudge().identity, None, Memory()).close()
    incidents_of(plain, lambda *_: None, Memory(), is_judged=False)
    return "a monitor starts with them"


def _framework(name: str) -> str:
    distribution = FRAMEWORKS[name]
    try:
        load(name)
    except MissingDriverError as error:
        if any(metadata.distributions(name=distribution)):
            raise ProbeFailedError(f"{distribution} does not load", str(error)) from error
        return Note(f"not installed; if you need it: pip install {distribution}")
    return "integration loads"


def _traces(settings: Settings) -> str:
    if not settings.export.traces:
        return Note("switched off by the setting export.traces")
    protocol = otlp_protocol("TRACES")
    if protocol is None:
        return Note(
            "nowhere, unless the application sets a tracer provider; set "
            "OTEL_EXPORTER_OTLP_ENDPOINT to send them somewhere"
        )
    given = otlp_address("TRACES")
    where, parts = f"{shown(given)} ({protocol})", urlsplit(given)
    if parts.scheme not in ("http", "https"):
        problem = f"{where}: an address begins with http:// or https://, else nothing is sent"
        raise ProbeFailedError(problem, TRACES_REMEDY)
    try:
        port = parts.port or (443 if parts.scheme == "https" else 80)
        socket.create_connection((parts.hostname or "localhost", port), TIMEOUT_S).close()
    except (OSError, ValueError) as error:
        raise ProbeFailedError(
            f"{where}: nothing listens there ({reason(error)})",
            f"start the collector, or {TRACES_REMEDY}",
        ) from error
    if protocol != HTTP:
        problem = f"{where}: without a tracer provider of yours traces leave by {HTTP} only"
        raise ProbeFailedError(problem, TRACES_REMEDY)
    if (settings.content.policy or captured_content("TRACES")) == "none":
        return (
            f"{where}: reachable; without questions, chunks and answers; content='all' sends them"
        )
    return f"{where}: reachable"


def _metrics(settings: Settings) -> str:
    server = settings.server
    where = f"{server.host}:{server.port}"
    if not server.enabled:
        return Note("not served, by the setting server.enabled")
    if is_free(server.host, server.port):
        return f"{where} is free" if server.port else "any free port, by the setting server.port"
    try:
        records = RunningMonitor(None).records()
    except InputError as error:
        raise ProbeFailedError(
            f"{where} is taken by another program, or cannot be listened on",
            f"set {PREFIX}SERVER__PORT to a free port, or to 0 for any",
        ) from error
    named = ", ".join(str(each.get("service")) for each in records)
    return f"{where} serves ragmonitor's series: {named}"


def _exporter(settings: Settings) -> str:
    (exporter,) = exporters_of(settings, lambda *_: None)
    if isinstance(exporter, JsonLines):
        return _writable(exporter.path, "EXPORTERS", "every report would be lost")
    if not isinstance(exporter, PostingExporter):
        return "is made"
    try:
        exporter.check(TIMEOUT_S)
    except DeliveryError as error:
        remedy = f"correct {PREFIX}EXPORTERS or {exporter.key_setting}, or start the server"
        raise ProbeFailedError(str(error), remedy) from error
    return f"{shown(exporter.address)}: takes scores"


def _stream(settings: Settings) -> str:
    """Ask the stream's server whether it loses anything."""
    try:
        with closing(RedisStream.of(settings)) as stream:
            server = stream.server()
    except StreamError as error:
        raise ProbeFailedError(
            f"{reason(error)}; answers would wait in the application, and then be lost",
            f"start a Redis {MIN_REDIS}, or correct {PREFIX}SEND_TO",
        ) from error
    version, eviction = str(server.get("redis_version", "")), server.get("maxmemory_policy", "")
    name, major = f"Redis {version}", version.partition(".")[0]
    if major.isdigit() and int(major) < MIN_REDIS:
        raise ProbeFailedError(f"{name} is too old", f"start a Redis {MIN_REDIS} or newer")
    if eviction not in ("", "noeviction"):
        problem = f"{name} deletes records when it is full ({eviction})"
        raise ProbeFailedError(problem, "set maxmemory-policy noeviction")
    if not server.get("aof_enabled"):
        return Note(f"{name} answers, but its records end with its process: set appendonly yes")
    return f"{name} answers, and keeps records on disk"


def _state(place: Path | SecretStr) -> str:
    """Write to the state, and compare the server's clock. No file is made."""
    store = store_at(place, "doctor")
    if isinstance(place, Path) and not Path(store.place).exists():
        return _writable(Path(store.place), "STATE", STATE_LOSS)
    try:
        store.keep("doctor", "doctor", b"")
        store.keep("doctor", "doctor", None)
        ahead_s = store.now() - time.time()
        eviction = store.eviction() if isinstance(store, Redis) else ""
        store.close()
    except StoreUnavailableError as error:
        remedy = f"correct {PREFIX}STATE: a file on a local disk, or a Redis {MIN_REDIS} that runs"
        raise ProbeFailedError(f"{reason(error)}; {STATE_LOSS}", remedy) from error
    if abs(ahead_s) > MAX_AHEAD_S:
        problem = f"the store's clock is {ahead_s:+.0f} s from this machine's"
        raise ProbeFailedError(problem, "synchronise the clocks of the machines (NTP)")
    if eviction not in ("", "noeviction"):
        problem = f"the Redis server deletes sums when it is full ({eviction})"
        raise ProbeFailedError(problem, "set maxmemory-policy noeviction")
    return f"{shown(str(store.place))} can be written"


def _writable(path: Path, variable: str, loss: str) -> str:
    """See that a file can be written, or made where it is missing. It is not touched."""
    places = (path, *path.absolute().parents)
    nearest = next(each for each in places if os.path.lexists(each))
    if nearest != path and not nearest.is_dir():
        problem = f"{nearest}: Not a directory"
    elif not os.access(nearest, os.W_OK):
        problem = f"{nearest}: Permission denied"
    else:
        return f"{path} can be written"
    remedy = f"give the service's user write access, or set {PREFIX}{variable} to another place"
    raise ProbeFailedError(f"{problem}; {loss}", remedy)


# --- the judges ------------------------------------------------------------------------------


TRIAL: Final = Interaction(
    id="doctor",
    query="When was the Eiffel Tower built, and how tall is it?",
    chunks=(
        Chunk(
            id="doctor",
            text="The Eiffel Tower in Paris was built from 1887 to 1889 by the engineers of "
            "Gustave Eiffel. It is 330 metres tall and was the tallest structure in the world "
            "until 1930.",
        ),
    ),
    answer="The Eiffel Tower was built from 1887 to 1889. The Eiffel Tower was designed in Madrid "
    "by Antoni Mercadal in 1925.",
    framework="python",
    started_ns=0,
    ended_ns=0,
)
"""A context with an answer whose first sentence it supports, and whose second it does not."""


def _judges(settings: Settings) -> Iterator[tuple[str, Probe]]:
    """Yield probes of the judge that the settings name, and of each of its fallbacks."""
    judge = settings.judge
    # Each alone: a fallback would hide that the judge cannot read.
    alone = settings.model_copy(update={"judge": judge.model_copy(update={"fallbacks": ()})})

    def paid(named: str) -> Judge:
        whole = settings if named == judge.name else alone
        # A monitor starts with it.
        judging_of(whole, Memory(), ReadingEngine(table.select(whole.evaluators)))
        return paid_judge(alone, named)

    for named in filter(None, (judge.name, *judge.fallbacks)):
        yield f"judge {shown(named)}", partial(read_trial, partial(paid, named))


def read_trial(make: Callable[[], Judge]) -> str:
    """Make a judge, and have it tell the sentences of one answer apart, in one reading."""
    judge = make()
    try:
        assessment = asyncio.run(judge.assess(TRIAL))
    except JudgeError as error:
        raise ProbeFailedError(f"{error} ({usage_text(error.usage)})", JUDGE_REMEDY) from error
    except Exception as error:
        finding = f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
        raise ProbeFailedError(finding, JUDGE_REMEDY) from error
    verdicts = [sentence.verdict for sentence in assessment.sentences or ()]
    finding = f"verdicts: {', '.join(verdicts)} ({usage_text(assessment.usage)})"
    if verdicts[:1] != [Verdict.SUPPORTED] or verdicts[1:] not in (
        [Verdict.ABSENT],
        [Verdict.CONTRADICTED],
    ):
        raise ProbeFailedError(
            f"{finding}; expected: supported, absent",
            "this model is too weak to judge; choose another",
        )
    return finding


def _print_checks(checks: list[Check], failed: list[Check]) -> None:
    """Print the failed checks, then all of them, then the failed ones by name."""
    lines = [f"ragmonitor {ragmonitor.__version__}, Python {platform.python_version()}"]
    lines += [f"FAILED {each['name']}: {each['finding']}; {each['remedy']}" for each in failed]
    for each in checks:
        finding = "" if each in failed else each["finding"]
        lines.append(f"  {each['name']:<24} {each['state']:<7} {finding}")
    names = f": {', '.join(check['name'] for check in failed)}" if failed else ""
    lines.append(f"{len(failed)} of {len(checks)} probes failed{names}")
    for line in lines:
        typer.echo(printable(line))
