"""`ragmonitor doctor`: checks settings, endpoints, files, and the judges' verdicts."""

from __future__ import annotations

import asyncio
import os
import platform
import socket
import time
from collections.abc import Callable, Iterable, Iterator, Sized
from contextlib import closing
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any, Final, Literal
from urllib.parse import urlsplit

import typer

import ragmonitor
from ragmonitor.cli.drivers import FRAMEWORKS, MissingDriverError, load
from ragmonitor.cli.masking import Masker
from ragmonitor.cli.monitor_client import address, fetched, is_free, why_no_numbers
from ragmonitor.cli.options import DoctorOptions
from ragmonitor.cli.terminal import FINE, SOMETHING_WRONG, print_json
from ragmonitor.export import JsonLines
from ragmonitor.export.batcher import DeliveryError
from ragmonitor.export.otel_environment import (
    HTTP,
    captured_content,
    otlp_address,
    otlp_protocol,
)
from ragmonitor.export.posting import PostingExporter
from ragmonitor.judges import BuiltinJudge
from ragmonitor.pipeline.build import (
    builtin_judge,
    encoder_of,
    estimates_of,
    exporters_of,
    incidents_of,
    judging_of,
    paid_judge,
    redactor_of,
)
from ragmonitor.pipeline.carried_settings import UNIX
from ragmonitor.pipeline.streams import RedisStream
from ragmonitor.records import Assessment, Chunk, Interaction, JudgeUsage, Verdict
from ragmonitor.runtime.addresses import shown
from ragmonitor.runtime.errors import InputError, RagMonitorError, StreamError
from ragmonitor.runtime.guard import reason
from ragmonitor.runtime.printable import printable
from ragmonitor.runtime.protocols import Judge
from ragmonitor.settings import FILE, OPTIONS, PREFIX, Settings, sources
from ragmonitor.stats.labels import read_labels
from ragmonitor.store import Memory, StoreUnavailableError, store_at

TIMEOUT_S: Final = 2.0
MIN_REDIS: Final = 7
MAX_AHEAD_S: Final = 60.0
DISTRIBUTIONS: Final = (
    *FRAMEWORKS.values(),
    "langchain-core",
    "llama-index-core",
    "litellm",
    "opentelemetry-sdk",
    "opentelemetry-proto",
    "prometheus-client",
)
GRPC_PORT, HTTP_PORT = 4317, 4318
START_REMEDY: Final = "correct it, or install what it needs: a monitor does not start with it"
JUDGE_REMEDY: Final = "check the model's name, its key in the environment, and judge.api_base"
TRACES_REMEDY: Final = "correct OTEL_EXPORTER_OTLP_ENDPOINT or OTEL_EXPORTER_OTLP_PROTOCOL"
STATE_LOSS: Final = (
    "the budget, reference answers and alarms would be lost at each restart, and processes would "
    "not share them"
)


@dataclass(frozen=True, slots=True)
class Check:
    """The result of one check."""

    name: str
    state: Literal["ok", "note", "failed"]
    finding: str
    remedy: str = ""
    """The remedy where the check failed."""
    details: dict[str, Any] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        """Return an object for JSON."""
        remedy = {"remedy": self.remedy} if self.remedy else {}
        found = {"name": self.name, "state": self.state, "finding": self.finding}
        return found | remedy | self.details


def run(options: DoctorOptions) -> int:
    """Check everything, print the findings and return the exit code.

    Raises:
        SettingsError: The settings cannot even be read.
    """
    settings = Settings.load()
    masker = Masker(settings)
    # A server may quote the key that it refuses.
    checks = [Check(**masker.value(vars_of(each))) for probe in PROBES for each in probe(settings)]
    failed = [check for check in checks if check.state == "failed"]
    if options.json_output:
        print_json(
            {
                "fine": not failed,
                "settings": list(described(settings, masker)),
                "versions": dict(_versions()),
                "checks": [check.as_json() for check in checks],
            }
        )
    else:
        if options.settings:
            _print_settings(described(settings, masker))
        _print_checks(checks, failed)
    return SOMETHING_WRONG if failed else FINE


def vars_of(check: Check) -> dict[str, Any]:
    """Return the fields of a check by name."""
    return {name: getattr(check, name) for name in Check.__dataclass_fields__}


def described(settings: Settings, masker: Masker) -> Iterator[dict[str, Any]]:
    """Yield each setting in force with its source: `variable`, `file` or `default`; no keys."""
    known = sources()
    for option in OPTIONS:
        value = option.value(settings)
        if not isinstance(value, int | float | bool | type(None)):
            value = masker.value([*map(str, value)] if isinstance(value, tuple) else str(value))
        source = known.get(option.path, "default")
        yield {"name": option.name, "value": value, "source": source}


def _versions() -> Iterator[tuple[str, str | None]]:
    yield "python", platform.python_version()
    for name in ("ragmonitor", *DISTRIBUTIONS):
        try:
            yield name, metadata.version(name)
        except metadata.PackageNotFoundError:
            yield name, None


# --- the probes ------------------------------------------------------------------------------


def _lost(_reason: str, _n: int) -> None:
    """Count nothing."""


def _settings(settings: Settings) -> Iterator[Check]:
    """Yield whether a monitor starts with these names. Judges and files have their own checks."""
    plain = settings.model_copy(update={"state": None})
    try:
        redactor_of(plain)
        estimates_of(plain, builtin_judge(), None, Memory()).close()
        incidents_of(plain, _lost, Memory(), is_judged=False)
    except RagMonitorError as error:
        yield Check("settings", "failed", str(error), START_REMEDY)
    else:
        yield Check("settings", "ok", "a monitor starts with them")


def _frameworks(_settings: Settings) -> Iterator[Check]:
    for framework, distribution in FRAMEWORKS.items():
        try:
            load(framework)
        except MissingDriverError as error:
            is_installed = dict(_versions())[distribution]
            if is_installed:
                yield Check(framework, "failed", f"{distribution} does not load", str(error))
            else:
                finding = f"not installed; if you need it: pip install {distribution}"
                yield Check(framework, "note", finding)
        else:
            yield Check(framework, "ok", "integration loads")


def _traces(settings: Settings) -> Iterator[Check]:
    protocol = otlp_protocol("TRACES") if settings.export.traces else None
    if protocol is None:
        finding = (
            "nowhere, unless the application sets a tracer provider; set "
            "OTEL_EXPORTER_OTLP_ENDPOINT to send them somewhere"
        )
        off = "switched off by the setting export.traces"
        yield Check("traces", "note", finding if settings.export.traces else off)
        return
    given = otlp_address("TRACES")
    has_scheme = given.startswith(("http://", "https://"))
    parts = urlsplit(given if "://" in given else f"//{given}")
    where = f"{shown(parts.geturl()).removeprefix('//')} ({protocol})"
    try:
        port = parts.port or {"http": 80, "https": 443}.get(parts.scheme, HTTP_PORT)
        socket.create_connection((parts.hostname or "localhost", port), TIMEOUT_S).close()
    except (OSError, ValueError) as error:
        finding = f"{where}: nothing listens there ({reason(error)})"
        yield Check("traces", "failed", finding, f"start the collector, or {TRACES_REMEDY}")
        return
    if protocol != HTTP:
        finding = f"{where}: without a tracer provider of yours traces leave by {HTTP} only"
        yield Check("traces", "failed", finding, TRACES_REMEDY)
    elif not has_scheme:
        finding = f"{where}: an address begins with http:// or https://, else nothing is sent"
        yield Check("traces", "failed", finding, TRACES_REMEDY)
    elif port == GRPC_PORT:
        finding = f"{where}: reachable, but port {port} is most collectors' for grpc, and "
        yield Check("traces", "note", f"{finding}{HTTP_PORT} for {protocol}; {TRACES_REMEDY}")
    else:
        has_texts = (settings.content.policy or captured_content("TRACES")) != "none"
        remark = "without questions, chunks and answers; content='all' sends them"
        yield Check("traces", "ok", f"{where}: reachable{'' if has_texts else f'; {remark}'}")


def _metrics(settings: Settings) -> Iterator[Check]:
    server = settings.server
    where = f"{server.host}:{server.port}"
    if not server.enabled:
        yield Check("metrics", "note", "not served, by the setting server.enabled")
    elif server.port == 0:
        yield Check("metrics", "ok", "any free port, by the setting server.port")
    elif is_free(server.host, server.port):
        yield Check("metrics", "ok", f"{where} is free")
    else:
        try:
            records = fetched(address(None), timeout_s=TIMEOUT_S)
        except InputError:
            finding = f"{where} is taken by another program, or cannot be listened on"
            remedy = f"set {PREFIX}SERVER__PORT to a free port, or to 0 for any"
            yield Check("metrics", "failed", finding, remedy)
            return
        named = [f"{each.get('service')} {why_no_numbers(each)}".strip() for each in records]
        yield Check("metrics", "ok", f"{where} serves ragmonitor's series: {', '.join(named)}")


def _exporters(settings: Settings) -> Iterator[Check]:
    for each in settings.exporters:
        one = settings.model_copy(update={"exporters": (each,)})
        try:
            (exporter,) = exporters_of(one, _lost)
        except RagMonitorError as error:
            yield Check("exporters", "failed", str(error), START_REMEDY)
            continue
        if isinstance(exporter, JsonLines):
            yield _writable("jsonl", exporter.path, "EXPORTERS", "every report would be lost")
        elif isinstance(exporter, PostingExporter):
            recipient = exporter.recipient
            name = recipient.name.lower()
            try:
                exporter.check(TIMEOUT_S)
            except DeliveryError as error:
                remedy = (
                    f"correct {PREFIX}EXPORTERS or {recipient.key_setting}, or start the server"
                )
                yield Check(name, "failed", str(error), remedy)
            else:
                yield Check(name, "ok", f"{shown(recipient.address)}: takes scores")


def _stream(settings: Settings) -> Iterator[Check]:
    """Yield whether the stream's server answers and loses nothing."""
    if settings.send_to is None or settings.send_to.get_secret_value().startswith(UNIX):
        return
    try:
        with closing(RedisStream.of(settings)) as stream:
            server = stream.server()
    except StreamError as error:
        finding = f"{reason(error)}; answers would wait in the application, and then be lost"
        remedy = f"start a Redis {MIN_REDIS}, or correct {PREFIX}SEND_TO"
        yield Check("stream", "failed", finding, remedy)
        return
    name, major = f"Redis {server.version}", server.version.partition(".")[0]
    if major.isdigit() and int(major) < MIN_REDIS:
        yield Check("stream", "failed", f"{name} is too old", f"start a Redis {MIN_REDIS} or newer")
    elif server.eviction not in ("", "noeviction"):
        finding = f"{name} deletes records when it is full ({server.eviction})"
        yield Check("stream", "failed", finding, "set maxmemory-policy noeviction")
    elif not server.is_on_disk:
        finding = f"{name} answers, but its records end with its process: set appendonly yes"
        yield Check("stream", "note", finding)
    else:
        yield Check("stream", "ok", f"{name} answers, and keeps records on disk")


def _state(settings: Settings) -> Iterator[Check]:
    """Yield whether the state can be used, and the server's clock. No file is made."""
    place = settings.state
    if place is None:
        return
    store = store_at(place if isinstance(place, Path) else place.get_secret_value(), "doctor")
    if isinstance(place, Path) and not Path(store.place).exists():
        yield _writable("state", Path(store.place), "STATE", STATE_LOSS)
        return
    try:
        store.keep("doctor", "doctor", b"")
        store.keep("doctor", "doctor", None)
        ahead_s = store.now() - time.time()
        store.close()
    except StoreUnavailableError as error:
        remedy = f"correct {PREFIX}STATE: a file on a local disk, or a Redis {MIN_REDIS} that runs"
        yield Check("state", "failed", f"{reason(error)}; {STATE_LOSS}", remedy)
        return
    if abs(ahead_s) > MAX_AHEAD_S:
        finding = f"the store's clock is {ahead_s:+.0f} s from this machine's"
        yield Check("state", "failed", finding, "synchronise the clocks of the machines (NTP)")
    else:
        yield Check("state", "ok", f"{shown(str(store.place))} can be written")


def _own_files(settings: Settings) -> Iterator[Check]:
    labels = settings.estimation.human_labels
    if labels is not None:
        yield _readable("estimation.human_labels", labels, read_labels)


def _readable(name: str, path: Path, read: Callable[[Path], Sized]) -> Check:
    try:
        return Check(name, "ok", f"{path}: {len(read(path))} entries")
    except InputError as error:
        return Check(name, "failed", str(error), "correct the file, or the setting")


def _writable(name: str, path: Path, variable: str, loss: str) -> Check:
    """Return whether a file can be written, or made where it is missing. It is not touched."""
    places = (path, *path.absolute().parents)
    nearest = next(each for each in places if os.path.lexists(each))
    if nearest != path and not nearest.is_dir():
        problem = f"{nearest}: Not a directory"
    elif not os.access(nearest, os.W_OK):
        problem = f"{nearest}: Permission denied"
    else:
        return Check(name, "ok", f"{path} can be written")
    remedy = f"give the service's user write access, or set {PREFIX}{variable} to another place"
    return Check(name, "failed", f"{problem}; {loss}", remedy)


# --- the judges ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """A context with one answer that it supports and one that it does not."""

    language: str
    question: str
    context: str
    supported: str
    hallucinated: str


TRIALS = (
    Trial(
        language="en",
        question="When was the Eiffel Tower built, and how tall is it?",
        context="The Eiffel Tower in Paris was built from 1887 to 1889 by the engineers of Gustave "
        "Eiffel. It is 330 metres tall and was the tallest structure in the world until 1930.",
        supported="The Eiffel Tower was built from 1887 to 1889.",
        hallucinated="The Eiffel Tower was designed in Madrid by Antoni Mercadal in 1925.",
    ),
    Trial(
        language="zh",
        question="长城有多长？什么时候开始修建？",
        context="长城全长约21196公里，始建于春秋战国时期，现存的大部分城墙修建于明代。",
        supported="长城始建于春秋战国时期，全长约21196公里。",
        hallucinated="长城全长约500公里，由意大利建筑师于1925年设计完成。",
    ),
)


def _builtin(settings: Settings) -> Iterator[Check]:
    """Yield whether the built-in rules, and an encoder, recognise a hallucination."""
    for trial in TRIALS:
        yield ask_judge(BuiltinJudge(), trial, remedy="reinstall ragmonitor")
    encoder = encoder_of(settings)
    if encoder is not None:
        yield ask_judge(encoder, remedy="correct judge.builtin, or install what it needs")


def _judges(settings: Settings) -> Iterator[Check]:
    """Yield a reading by the judge that the settings name, and by each of its fallbacks."""
    judge, problem = settings.judge, ""
    try:
        judging_of(settings, Memory())
    except RagMonitorError as error:
        problem = str(error)
    # Each alone: a fallback would hide that the judge cannot read.
    alone = settings.model_copy(update={"judge": judge.model_copy(update={"fallbacks": ()})})
    for named in filter(None, (judge.name, *judge.fallbacks)):
        try:
            asked = paid_judge(alone, named)
        except RagMonitorError as error:
            yield Check(f"judge {shown(named)}", "failed", str(error), START_REMEDY)
            problem = "" if problem == str(error) else problem
        else:
            yield ask_judge(asked)
    if problem:
        yield Check("judges", "failed", problem, START_REMEDY)


def ask_judge(judge: Judge, trial: Trial | None = None, *, remedy: str = JUDGE_REMEDY) -> Check:
    """Return whether a judge tells the sentences of one answer apart, in one reading.

    Args:
        judge: The judge.
        trial: The answer; None: the English one.
        remedy: What to do if it cannot read.
    """
    name = f"judge {judge.identity.name}{'' if trial is None else f' ({trial.language})'}"
    trial = trial or TRIALS[0]
    both = Interaction(
        id="doctor",
        query=trial.question,
        chunks=(Chunk(text=trial.context, id="doctor"),),
        answer=f"{trial.supported} {trial.hallucinated}",
        framework="python",
        started_ns=0,
        ended_ns=0,
    )

    async def assessed() -> Assessment:
        return await judge.assess(both)

    try:
        assessment = asyncio.run(assessed())
    except RagMonitorError as error:
        usage = getattr(error, "usage", JudgeUsage())
        return Check(name, "failed", f"{error} ({_cost(usage)})", remedy)
    except Exception as error:  # noqa: BLE001 - a provider's library
        finding = f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
        return Check(name, "failed", finding, remedy)
    verdicts = [sentence.verdict for sentence in assessment.sentences or ()]
    details = {"cost_usd": assessment.usage.cost_usd, "verdicts": [v.value for v in verdicts]}
    finding = f"verdicts: {', '.join(v.value for v in verdicts)} ({_cost(assessment.usage)})"
    expected = (Verdict.SUPPORTED, Verdict.ABSENT), (Verdict.SUPPORTED, Verdict.CONTRADICTED)
    if tuple(verdicts) in expected:
        return Check(name, "ok", finding, details=details)
    finding = f"{finding}; expected: supported, absent"
    return Check(
        name, "failed", finding, "this model is too weak to judge; choose another", details
    )


def _cost(usage: JudgeUsage) -> str:
    tokens = usage.input_tokens + usage.output_tokens
    return f"{usage.calls} calls, {tokens} tokens, {usage.cost_usd:.6f} USD"


PROBES: Final[tuple[Callable[[Settings], Iterator[Check]], ...]] = (
    _settings,
    _frameworks,
    _traces,
    _metrics,
    _exporters,
    _stream,
    _state,
    _own_files,
    _builtin,
    _judges,
)


def _print_settings(settings: Iterable[dict[str, Any]]) -> None:
    for row in settings:
        value = "-" if row["value"] is None else str(row["value"])
        source = FILE if row["source"] == "file" else row["source"]
        typer.echo(printable(f"{row['name']:<40} {value}  ({source})"))
    for name, version in _versions():
        typer.echo(f"{name:<40} {version or '-'}")


def _print_checks(checks: list[Check], failed: list[Check]) -> None:
    """Print the failed checks, then all of them, then the failed ones by name."""
    lines = [f"ragmonitor {ragmonitor.__version__}, Python {platform.python_version()}"]
    lines += [f"FAILED {each.name}: {each.finding}; {each.remedy}" for each in failed]
    for each in checks:
        finding = "" if each in failed else each.finding
        lines.append(f"  {each.name:<24} {each.state:<7} {finding}")
    names = f": {', '.join(check.name for check in failed)}" if failed else ""
    lines.append(f"{len(failed)} of {len(checks)} probes failed{names}")
    for line in lines:
        typer.echo(printable(line))
