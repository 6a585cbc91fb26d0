"""Checks an installation: settings, versions, endpoints, files, and the judges' verdicts."""

from __future__ import annotations

import asyncio
import platform
import time
from collections.abc import Callable, Iterable, Iterator, Sized
from contextlib import closing
from dataclasses import dataclass, field, replace
from importlib import metadata
from pathlib import Path
from typing import Any, Literal

import ragmonitor
from ragmonitor.cli.destinations import destination, is_free
from ragmonitor.cli.drivers import FRAMEWORKS, MissingDriverError, load
from ragmonitor.cli.masking import Masker
from ragmonitor.cli.monitor_client import address, fetched, why_no_numbers
from ragmonitor.cli.options import DoctorOptions
from ragmonitor.cli.terminal import (
    FINE,
    SOMETHING_WRONG,
    figures_table,
    new_console,
    print_json,
)
from ragmonitor.cli.writable import WriteCheck, checked_file, checked_folder
from ragmonitor.export import JsonLines
from ragmonitor.export.batcher import DeliveryError
from ragmonitor.export.posting import PostingExporter
from ragmonitor.export.providers import captured_content
from ragmonitor.judges import BuiltinJudge
from ragmonitor.pipeline.streams import RedisSetup, RedisStream
from ragmonitor.pipeline.wiring import (
    builtin_judge,
    encoder_of,
    estimates_of,
    exporters_of,
    incidents_of,
    judge_doubt,
    judging_of,
    paid_judge,
    redactor_of,
)
from ragmonitor.records import Assessment, Chunk, Interaction, JudgeUsage, Verdict
from ragmonitor.runtime.addresses import shown
from ragmonitor.runtime.errors import InputError, RagMonitorError, StreamError
from ragmonitor.runtime.guard import reason
from ragmonitor.runtime.protocols import Judge
from ragmonitor.settings import FILE, OPTIONS, PREFIX, Settings, sources
from ragmonitor.stats.labels import read_labels
from ragmonitor.store import StoreUnavailableError, store_at

HTTP_TIMEOUT_S = 2.0
MIN_REDIS = 7
MAX_AHEAD_S = 60.0
"""A file may be newer than the clock by so much: servers of shared folders have clocks, too."""
SHOWN = (
    "langchain-core",
    "langchain",
    "llama-index-core",
    "litellm",
    "opentelemetry-sdk",
    "opentelemetry-exporter-otlp-proto-http",
    "opentelemetry-exporter-otlp-proto-grpc",
    "prometheus-client",
)

JUDGE_REMEDY = "check the model's name, its key in the environment, and judge.api_base"
_CORRECT_TRACES = "correct OTEL_EXPORTER_OTLP_ENDPOINT or OTEL_EXPORTER_OTLP_PROTOCOL"

State = Literal["ok", "note", "failed"]


@dataclass(frozen=True, slots=True)
class Check:
    """The result of one check."""

    name: str
    state: State
    finding: str
    remedy: str = ""
    """The remedy where the check failed."""
    details: dict[str, Any] = field(default_factory=dict)

    def masked(self, masker: Masker) -> Check:
        """Return the same without keys: a server may quote the one that it refuses."""
        return replace(
            self,
            name=masker.text(self.name),
            finding=masker.text(self.finding),
            remedy=masker.text(self.remedy),
            details=masker.value(self.details),
        )

    def as_json(self) -> dict[str, Any]:
        """Return an object for JSON."""
        remedy = {"remedy": self.remedy} if self.remedy else {}
        return (
            {"name": self.name, "state": self.state, "finding": self.finding}
            | remedy
            | (self.details)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """A context with one answer that it supports and one that it does not."""

    language: str
    question: str
    context: str
    supported: str
    hallucinated: str

    def interaction(self, answer: str) -> Interaction:
        """Return an interaction with this answer."""
        return Interaction(
            id=f"doctor-{self.language}",
            query=self.question,
            chunks=(Chunk(text=self.context, id="doctor"),),
            answer=answer,
            framework="python",
            started_ns=0,
            ended_ns=0,
        )


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


def run(options: DoctorOptions) -> int:
    """Check everything, print the findings and return the exit code.

    Raises:
        SettingsError: The settings cannot even be read.
    """
    settings = Settings.load()
    masker = Masker(settings)
    checks = [check.masked(masker) for check in _checks(settings)]
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
        _print_checks(checks)
    return SOMETHING_WRONG if failed else FINE


def described(settings: Settings, masker: Masker) -> Iterator[dict[str, Any]]:
    """Yield each setting in force with its source: `variable`, `file` or `default`; no keys."""
    known = sources()
    for option in OPTIONS:
        value = option.value(settings)
        if not isinstance(value, int | float | bool | type(None)):
            value = masker.value([*map(str, value)] if isinstance(value, tuple) else str(value))
        yield {
            "name": option.name,
            "value": value,
            "source": known.get(option.path, "default"),
        }


def _versions() -> Iterator[tuple[str, str | None]]:
    yield "python", platform.python_version()
    yield "ragmonitor", ragmonitor.__version__
    for name in (*FRAMEWORKS.values(), *SHOWN):
        try:
            yield name, metadata.version(name)
        except metadata.PackageNotFoundError:
            yield name, None


def _checks(settings: Settings) -> Iterator[Check]:
    yield _settings(settings)
    yield from _frameworks()
    yield _traces(settings)
    yield _metrics(settings)
    yield from _exporters(settings)
    yield from _stream(settings)
    yield from _files(settings)
    yield from _clock(settings)
    yield from _builtin_judge(BuiltinJudge())
    encoder = encoder_of(settings)
    if encoder is not None:
        yield ask_judge(
            encoder,
            remedy="the built-in rules score every answer in its place meanwhile; correct "
            "judge.builtin, or install what it needs",
        )
    yield from _judges(settings)


def _frameworks() -> Iterator[Check]:
    for framework, distribution in FRAMEWORKS.items():
        try:
            load(framework)
        except MissingDriverError as error:
            try:
                version = metadata.version(distribution)
            except metadata.PackageNotFoundError:
                remedy = f"not installed; if you need it: pip install {distribution}"
                yield Check(framework, "note", remedy)
                continue
            finding = f"{distribution} {version} does not load"
            yield Check(framework, "failed", finding, str(error))
        else:
            yield Check(framework, "ok", "integration loads")


def _traces(settings: Settings) -> Check:
    if not settings.export.traces:
        return Check("traces", "note", "switched off by the setting export.traces")
    sink = destination("TRACES")
    if sink is None:
        return Check(
            "traces",
            "note",
            "nowhere, unless the application sets a tracer provider; "
            "set OTEL_EXPORTER_OTLP_ENDPOINT to send them somewhere",
        )
    problem = sink.reachable()
    address = f"{sink.address} ({sink.protocol})"
    if problem:
        return Check(
            "traces",
            "failed",
            f"{address}: nobody listens at {sink.host}:{sink.port} ({problem})",
            f"start the collector there, or {_CORRECT_TRACES}",
        )
    if sink.fault:
        return Check("traces", "failed", f"{address}: {sink.fault}", _CORRECT_TRACES)
    if sink.doubt:
        return Check("traces", "note", f"{address}: reachable, but {sink.doubt}; {_CORRECT_TRACES}")
    texts = settings.content.policy or captured_content("TRACES")
    if texts == "none":
        remark = "without questions, chunks and answers; content='all' sends them"
        return Check("traces", "ok", f"{address}: reachable; {remark}")
    return Check("traces", "ok", f"{address}: reachable")


def _settings(settings: Settings) -> Check:
    """Return whether a monitor starts with these names; judges and files have own checks."""
    plain = settings.model_copy(update={"state": None})
    try:
        redactor_of(plain)
        estimates_of(plain, builtin_judge(), None).close()
        incidents_of(plain, None, lambda reason, n: None)  # noqa: ARG005 - counts nothing
    except RagMonitorError as error:
        remedy = "correct it, or install what it needs: a monitor does not start with it"
        return Check("settings", "failed", str(error), remedy)
    return Check("settings", "ok", "a monitor starts with them")


def _exporters(settings: Settings) -> Iterator[Check]:
    for each in settings.exporters:
        one = settings.model_copy(update={"exporters": (each,)})
        try:
            (exporter,) = exporters_of(one, lambda reason, n: None)  # noqa: ARG005 - counts nothing
        except RagMonitorError as error:
            remedy = "correct it, or set what it needs: a monitor does not start with it"
            yield Check("exporters", "failed", str(error), remedy)
            continue
        if isinstance(exporter, PostingExporter):
            yield _takes_scores(exporter)
        elif isinstance(exporter, JsonLines):
            yield _is_writable(
                "jsonl",
                checked_file(exporter.path),
                variable=f"{PREFIX}EXPORTERS",
                loss="every report would be lost",
            )


def _takes_scores(exporter: PostingExporter) -> Check:
    recipient = exporter.recipient
    name = recipient.name.lower()
    try:
        exporter.check(HTTP_TIMEOUT_S)
    except DeliveryError as error:
        return Check(
            name,
            "failed",
            str(error),
            f"correct {name}:... in {PREFIX}EXPORTERS or {recipient.key_setting}, or start "
            "the server",
        )
    return Check(name, "ok", f"{shown(recipient.address)}: takes scores")


def _stream(settings: Settings) -> Iterator[Check]:
    """Yield whether the stream's server answers and loses nothing."""
    if settings.send_to is None:
        return
    try:
        with closing(RedisStream.of(settings)) as stream:
            yield from _redis_setup(stream.server())
    except StreamError as error:
        finding = f"{reason(error)}; answers would wait in the application, and then be lost"
        remedy = f"start the server, or correct {PREFIX}SEND_TO; a Redis has to be of version 7"
        yield Check("stream", "failed", finding, remedy)
        return


def _redis_setup(server: RedisSetup) -> Iterator[Check]:
    """Yield whether a Redis server keeps what it has acknowledged."""
    major = server.version.partition(".")[0]
    if major.isdigit() and int(major) < MIN_REDIS:
        finding = f"Redis {server.version} has no functions that a stream rests on"
        yield Check("stream", "failed", finding, f"start a Redis {MIN_REDIS} or newer")
    elif server.eviction not in ("", "noeviction"):
        finding = f"Redis {server.version} deletes records when it is full ({server.eviction})"
        yield Check("stream", "failed", finding, "set maxmemory-policy noeviction")
    elif not server.is_on_disk:
        finding = (
            f"Redis {server.version} answers; what waits on it ends with its process: set "
            "appendonly yes (docs/scaling.md)"
        )
        yield Check("stream", "note", finding)
    else:
        yield Check("stream", "ok", f"Redis {server.version} answers, and keeps records on disk")


def _files(settings: Settings) -> Iterator[Check]:
    """Yield whether the files that the settings name can be written, or read."""
    loss = (
        "the budget, reference answers, and what alarms and calibration have learned would be lost "
        "at each restart, and processes would not share them"
    )
    place = settings.state
    if isinstance(place, Path):
        yield _is_file(settings, place, loss)
    elif place is not None:
        yield _is_kept(settings, place.get_secret_value(), loss)
    labels = settings.estimation.human_labels
    if labels is not None:
        yield _is_readable("estimation.human_labels", labels, read_labels, unit="labels")


def _is_file(settings: Settings, place: Path, loss: str) -> Check:
    """Return whether the file of the state can be used; one that is missing is not made."""
    file = Path(store_at(place, settings.service).place)
    if not file.exists():
        folder = checked_folder(file.parent)
        return _is_writable("state", folder, variable=f"{PREFIX}STATE", loss=loss)
    store = store_at(place, settings.service)
    try:
        store.row("doctor", "doctor")
        store.close()
    except StoreUnavailableError as error:
        remedy = f"name another file in {PREFIX}STATE, on a local disk that can be written"
        return Check("state", "failed", f"{reason(error)}; {loss}", remedy)
    return Check("state", "ok", f"{file} keeps what is to outlive a restart")


def _is_kept(settings: Settings, address: str, loss: str) -> Check:
    """Return whether the Redis server keeps rows, by one that is written and removed."""
    store = store_at(address, settings.service)
    try:
        store.keep("doctor", "doctor", b"")
        store.keep("doctor", "doctor", None)
        store.close()
    except StoreUnavailableError as error:
        remedy = (
            f"start the server, or correct the address in {PREFIX}STATE; it has to be a Redis 7"
        )
        return Check("state", "failed", f"{reason(error)}; {loss}", remedy)
    return Check("state", "ok", "the Redis server keeps what is to outlive a restart")


def _clock(settings: Settings) -> Iterator[Check]:
    """Yield whether the clock agrees with that of the machines that share the state."""
    if settings.state is None or isinstance(settings.state, Path):
        return
    try:
        store = store_at(settings.state.get_secret_value(), settings.service)
        ahead_s = store.now() - time.time()
    except StoreUnavailableError:
        return  # the check of the state has said why
    if abs(ahead_s) > MAX_AHEAD_S:
        yield Check(
            "clock",
            "failed",
            f"the Redis server's clock is {ahead_s:+.0f} s from this machine's; windows and alarms "
            "go by the clocks of the machines",
            "synchronise the clocks of the machines (NTP)",
        )
    else:
        yield Check("clock", "ok", "the Redis server's clock agrees with this machine's")


def _is_writable(name: str, path: WriteCheck, *, variable: str, loss: str) -> Check:
    if not path.problem:
        return Check(name, "note" if path.is_open_to_others else "ok", path.summary)
    return Check(
        name,
        "failed",
        f"{path.summary}: {path.problem}; {loss}",
        f"give the service's user write access there, or set {variable} to another place",
    )


def _is_readable(name: str, path: Path, read: Callable[[Path], Sized], *, unit: str) -> Check:
    try:
        n = len(read(path))
    except InputError as error:
        variable = f"{PREFIX}{name.upper().replace('.', '__')}"
        return Check(name, "failed", str(error), f"correct {variable} or the file, or unset it")
    return Check(name, "ok", f"{path}: {n} {unit}")


def _metrics(settings: Settings) -> Check:
    host, port = settings.server.host, settings.server.port
    if not settings.server.enabled:
        return Check("metrics", "note", "not served, by the setting server.enabled")
    if port == 0:
        return Check("metrics", "ok", "any free port, by the setting server.port")
    if is_free(host, port):
        return Check("metrics", "ok", f"{host}:{port} is free")
    try:
        records = fetched(address(None), timeout_s=HTTP_TIMEOUT_S)
    except InputError:
        return Check(
            "metrics",
            "failed",
            f"{host}:{port} is taken by another program, or cannot be listened on",
            f"set {PREFIX}SERVER__PORT to a free port, or to 0 for any",
        )
    services = ", ".join(str(record.get("service")) for record in records)
    roles = "; ".join(dict.fromkeys(filter(None, map(why_no_numbers, records))))
    finding = f"{host}:{port} serves ragmonitor's series already (service {services})"
    return Check("metrics", "ok", f"{finding}: {roles}" if roles else finding)


def _builtin_judge(judge: BuiltinJudge) -> Iterator[Check]:
    for trial in TRIALS:
        began = time.perf_counter()
        good = judge.read(trial.interaction(trial.supported))
        bad = judge.read(trial.interaction(trial.hallucinated))
        millis = (time.perf_counter() - began) * 500
        name = f"judge {judge.identity.name} ({trial.language})"
        details = {"risk_supported": good.risk, "risk_hallucinated": bad.risk}
        has_risks = good.risk is not None and bad.risk is not None
        if has_risks and (good.risk or 0) < (bad.risk or 0) and bad.hallucinated is True:
            finding = (
                f"tells a hallucination from a supported answer: risk {bad.risk or 0:.2f} against "
                f"{good.risk or 0:.2f}, {millis:.1f} ms per answer"
            )
            yield Check(name, "ok", finding, details=details)
        else:
            yield Check(
                name,
                "failed",
                "took a hallucination for no worse than a supported answer: risk "
                f"{bad.risk} against {good.risk}",
                "this is a fault of this installation; reinstall ragmonitor, and report it if it "
                "stays",
                details,
            )


def _judges(settings: Settings) -> Iterator[Check]:
    """Yield what the judge that the settings name makes of an answer, and each of its fallbacks."""
    judge, problem, remedy = settings.judge, "", "correct it: a monitor does not start with it"
    try:
        judging_of(settings.model_copy(update={"state": None}))
    except RagMonitorError as error:
        problem = str(error)
    # Each alone: a fallback would hide that the judge cannot read.
    alone = settings.model_copy(update={"judge": judge.model_copy(update={"fallbacks": ()})})
    for named in filter(None, (judge.name, *judge.fallbacks)):
        try:
            asked = paid_judge(alone, named)
        except RagMonitorError as error:
            yield Check(f"judge {shown(named)}", "failed", str(error), remedy)
            problem = "" if problem == str(error) else problem
        else:
            doubt = judge_doubt(alone) if named == judge.name else ""
            yield ask_judge(asked, remedy=doubt or JUDGE_REMEDY)
    if problem:
        yield Check("judges", "failed", problem, remedy)


def ask_judge(judge: Judge, *, remedy: str = JUDGE_REMEDY) -> Check:
    """Return whether a judge tells the sentences of one answer apart, in one reading.

    Args:
        judge: The judge.
        remedy: What to do if it cannot read.
    """
    name, trial = f"judge {judge.identity.name}", TRIALS[0]
    both = trial.interaction(f"{trial.supported} {trial.hallucinated}")
    try:
        assessment = asyncio.run(_assessed(judge, both))
    except RagMonitorError as error:
        usage = getattr(error, "usage", JudgeUsage())
        return Check(name, "failed", f"{error} ({_cost(usage)})", remedy)
    except Exception as error:  # noqa: BLE001 - a provider's library; said instead of shown
        finding = f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
        return Check(name, "failed", finding, remedy)
    verdicts = [sentence.verdict for sentence in assessment.sentences or ()]
    cost = _cost(assessment.usage)
    details = {"cost_usd": assessment.usage.cost_usd, "verdicts": [v.value for v in verdicts]}
    if (
        len(verdicts) == 2
        and verdicts[0] is Verdict.SUPPORTED
        and verdicts[1] in (Verdict.ABSENT, Verdict.CONTRADICTED)
    ):
        finding = f"tells a hallucinated sentence from a supported one ({cost})"
        return Check(name, "ok", finding, details=details)
    return Check(
        name,
        "failed",
        "took a hallucinated sentence for no worse than a supported one: "
        f"{', '.join(v.value for v in verdicts) or 'no verdict'} ({cost})",
        "this model is too weak to judge; choose another with the setting judge",
        details,
    )


async def _assessed(judge: Judge, interaction: Interaction) -> Assessment:
    return await judge.assess(interaction)


def _cost(usage: JudgeUsage) -> str:
    return (
        f"{usage.calls} calls, {usage.input_tokens + usage.output_tokens} tokens, "
        f"{usage.cost_usd:.6f} USD"
    )


def _print_settings(settings: Iterable[dict[str, Any]]) -> None:
    console = new_console()
    table = figures_table("setting", "value", "source", texts=("value", "source"))
    for row in settings:
        value = "-" if row["value"] is None else str(row["value"])
        source = FILE if row["source"] == "file" else row["source"]
        table.add_row(row["name"], value, source)
    console.print(table)
    for name, version in _versions():
        console.print(f"{name:<40}{version or '-'}")


def _print_checks(checks: list[Check]) -> None:
    """Print what failed, then all of them as a table, then what failed by its name."""
    console = new_console()
    failed = [check for check in checks if check.state == "failed"]
    console.print(f"ragmonitor {ragmonitor.__version__}, Python {platform.python_version()}")
    for check in failed:
        console.print(
            f"FAILED {check.name}: {check.finding}", style="red", markup=False, soft_wrap=True
        )
        if check.remedy:
            console.print(f"       {check.remedy}", markup=False, soft_wrap=True)
    table = figures_table("probe", "state", "finding", texts=("state", "finding"))
    for check in checks:
        table.add_row(check.name, check.state, "" if check in failed else check.finding)
    console.print(table)
    names = f": {', '.join(check.name for check in failed)}" if failed else ""
    console.print(f"{len(failed)} of {len(checks)} probes failed{names}", markup=False)
