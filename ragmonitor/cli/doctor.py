"""Checks a setting-up: settings, versions, endpoints, and whether the judges can tell a lie."""

from __future__ import annotations

import asyncio
import platform
import time
from collections.abc import Callable, Iterable, Iterator, Sized
from dataclasses import dataclass, field, replace
from importlib import metadata
from pathlib import Path
from typing import Any, Literal
from urllib.error import URLError
from urllib.request import urlopen

import ragmonitor
from ragmonitor.addresses import shown
from ragmonitor.cli.destinations import destination, is_free
from ragmonitor.cli.drivers import FRAMEWORKS, MissingDriverError, load
from ragmonitor.cli.masking import Masker
from ragmonitor.cli.terminal import FINE, SOMETHING_WRONG, print_json
from ragmonitor.cli.writable import WriteCheck, checked_file, checked_folder
from ragmonitor.errors import InputError, RagMonitorError
from ragmonitor.estimation.anchors.anchor_files import read_own
from ragmonitor.estimation.labels import read_labels
from ragmonitor.export import JsonLines
from ragmonitor.export.posting import DeliveryError, PostingExporter
from ragmonitor.judges import LexicalJudge
from ragmonitor.protocols import Judge
from ragmonitor.records import Assessment, Chunk, Interaction, JudgeUsage, Verdict
from ragmonitor.settings import FILE, OPTIONS, PREFIX, Settings, sources
from ragmonitor.wiring import exporters_of, llm_judge

HTTP_TIMEOUT_S = 2.0
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

State = Literal["ok", "note", "failed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One thing that was looked at."""

    name: str
    state: State
    found: str
    todo: str = ""
    """What to do, where it failed."""
    details: dict[str, Any] = field(default_factory=dict)

    def masked(self, masker: Masker) -> Check:
        """Return the same without keys: a server may quote the one that it refuses."""
        return replace(
            self,
            name=masker.text(self.name),
            found=masker.text(self.found),
            todo=masker.text(self.todo),
            details=masker.value(self.details),
        )

    def as_json(self) -> dict[str, Any]:
        """Return an object for JSON."""
        told: dict[str, Any] = {"name": self.name, "state": self.state, "found": self.found}
        if self.todo:
            told["todo"] = self.todo
        return told | self.details


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """A context with one answer that it supports and one that it does not."""

    language: str
    question: str
    context: str
    supported: str
    hallucinated: str

    def told(self, answer: str) -> Interaction:
        """Return the interaction in which this was answered."""
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


def run(*, json_output: bool) -> int:
    """Look at everything, say what was found and return the exit code.

    Raises:
        SettingsError: The settings cannot even be read.
    """
    settings = Settings.load()
    masker = Masker(settings)
    checks = [check.masked(masker) for check in _checks(settings)]
    failed = [check for check in checks if check.state == "failed"]
    if json_output:
        print_json(
            {
                "fine": not failed,
                "settings": list(described(settings, masker)),
                "versions": dict(_versions()),
                "checks": [check.as_json() for check in checks],
            }
        )
    else:
        _tell(described(settings, masker), checks)
    return SOMETHING_WRONG if failed else FINE


def described(settings: Settings, masker: Masker) -> Iterator[dict[str, Any]]:
    """Yield each setting in force with its source: `variable`, `file` or `default`; no keys."""
    known = sources()
    for option in OPTIONS:
        value = option.value(settings)
        if not isinstance(value, int | float | bool | type(None)):
            value = masker.value(list(value) if isinstance(value, tuple) else str(value))
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
    yield from _frameworks()
    yield _traces(settings)
    yield _metrics(settings)
    yield from _exporters(settings)
    yield from _files(settings)
    yield from _builtin_judge(LexicalJudge())
    if settings.judge.name is not None:
        yield ask_judge(llm_judge(settings, settings.judge.name))


def _frameworks() -> Iterator[Check]:
    for framework, distribution in FRAMEWORKS.items():
        try:
            load(framework)
        except MissingDriverError as error:
            try:
                version = metadata.version(distribution)
            except metadata.PackageNotFoundError:
                yield Check(
                    name=framework,
                    state="note",
                    found=f"not installed; if you need it: pip install {distribution}",
                )
                continue
            yield Check(
                name=framework,
                state="failed",
                found=f"{distribution} {version} does not load",
                todo=str(error),
            )
        else:
            yield Check(name=framework, state="ok", found="integration loads")


def _traces(settings: Settings) -> Check:
    name = "traces"
    if not settings.export.traces:
        return Check(name=name, state="note", found="switched off by the setting export.traces")
    sink = destination("TRACES")
    if sink is None:
        return Check(
            name=name,
            state="note",
            found="nowhere, unless the application sets a tracer provider; "
            "set OTEL_EXPORTER_OTLP_ENDPOINT to send them somewhere",
        )
    problem = sink.reachable()
    where = f"{sink.address} ({sink.protocol})"
    if problem:
        return Check(
            name=name,
            state="failed",
            found=f"{where}: nobody listens at {sink.host}:{sink.port} ({problem})",
            todo="start the collector there, or correct OTEL_EXPORTER_OTLP_ENDPOINT",
        )
    return Check(name=name, state="ok", found=f"{where}: reachable")


def _exporters(settings: Settings) -> Iterator[Check]:
    for exporter in exporters_of(settings, lambda reason, n: None):  # noqa: ARG005 - counts nothing
        if isinstance(exporter, PostingExporter):
            yield _accepts(exporter)
        elif isinstance(exporter, JsonLines):
            yield _kept(
                "jsonl",
                checked_file(exporter.path),
                variable=f"{PREFIX}EXPORTERS",
                lost="every report would be lost",
            )


def _accepts(exporter: PostingExporter) -> Check:
    recipient = exporter.recipient
    name = recipient.name.lower()
    try:
        exporter.check(HTTP_TIMEOUT_S)
    except DeliveryError as error:
        return Check(
            name=name,
            state="failed",
            found=str(error),
            todo=f"correct {name}:... in {PREFIX}EXPORTERS or {recipient.key_setting}, or start "
            "the server",
        )
    return Check(name=name, state="ok", found=f"{shown(recipient.address)}: takes scores")


def _files(settings: Settings) -> Iterator[Check]:
    """Yield what would be lost, or is not there, of the files that the settings name."""
    if settings.state is not None:
        yield _kept(
            "state",
            checked_folder(settings.state),
            variable=f"{PREFIX}STATE",
            lost="the budget, anchors, and what alarms and calibration have learned would be lost "
            "at each restart, and processes would not share them",
        )
    if settings.estimation.human_labels is not None:
        yield _read(
            "estimation.human_labels", settings.estimation.human_labels, read_labels, what="labels"
        )
    if settings.judge.reference_answers is not None:
        yield _read(
            "judge.reference_answers", settings.judge.reference_answers, read_own, what="answers"
        )


def _kept(name: str, path: WriteCheck, *, variable: str, lost: str) -> Check:
    if not path.problem:
        state: State = "note" if path.is_open_to_others else "ok"
        return Check(name=name, state=state, found=path.summary)
    return Check(
        name=name,
        state="failed",
        found=f"{path.summary}: {path.problem}; {lost}",
        todo=f"give the service's user write access there, or set {variable} to another place",
    )


def _read(name: str, path: Path, read: Callable[[Path], Sized], *, what: str) -> Check:
    try:
        found = len(read(path))
    except InputError as error:
        return Check(
            name=name,
            state="failed",
            found=str(error),
            todo=f"correct {PREFIX}{name.upper().replace('.', '__')} or the file, or unset it",
        )
    return Check(name=name, state="ok", found=f"{path}: {found} {what}")


def _metrics(settings: Settings) -> Check:
    name = "metrics"
    host, port = settings.server.host, settings.server.port
    if not settings.server.enabled:
        return Check(name=name, state="note", found="not served, by the setting server.enabled")
    if port == 0:
        return Check(name=name, state="ok", found="any free port, by the setting server.port")
    if is_free(host, port):
        return Check(name=name, state="ok", found=f"{host}:{port} is free")
    service = serving(f"http://{'127.0.0.1' if host in ('', '0.0.0.0') else host}:{port}/metrics")  # noqa: S104
    if service is not None:
        return Check(
            name=name,
            state="ok",
            found=f"{host}:{port} serves ragmonitor's series already"
            + (f" (service {service})" if service else ""),
        )
    return Check(
        name=name,
        state="failed",
        found=f"{host}:{port} is taken by another program, or cannot be listened on",
        todo=f"set {PREFIX}SERVER__PORT to a free port, or to 0 for any",
    )


def serving(url: str) -> str | None:
    """Return the service whose series are served there, empty if none is named; None: not ours."""
    try:
        with urlopen(url, timeout=HTTP_TIMEOUT_S) as reply:  # noqa: S310 - our own address
            text = str(reply.read(4_000_000), "utf-8", "replace")
    except (URLError, OSError, ValueError):
        return None
    if "ragmonitor_" not in text:
        return None
    return text.partition('service="')[2].partition('"')[0]


def _builtin_judge(judge: LexicalJudge) -> Iterator[Check]:
    for trial in TRIALS:
        name = f"judge {judge.identity.name} ({trial.language})"
        began = time.perf_counter()
        good = judge.read(trial.told(trial.supported))
        bad = judge.read(trial.told(trial.hallucinated))
        millis = (time.perf_counter() - began) * 500
        details = {"risk_supported": good.risk, "risk_hallucinated": bad.risk}
        if _tells_apart(good, bad):
            yield Check(
                name=name,
                state="ok",
                found=f"tells a hallucination from a supported answer: risk {bad.risk or 0:.2f} "
                f"against {good.risk or 0:.2f}, {millis:.1f} ms per answer",
                details=details,
            )
        else:
            yield Check(
                name=name,
                state="failed",
                found=f"took a hallucination for no worse than a supported answer: risk "
                f"{bad.risk} against {good.risk}",
                todo="this is a fault of this installation; reinstall ragmonitor, and report it "
                "if it stays",
                details=details,
            )


def _tells_apart(good: Assessment, bad: Assessment) -> bool:
    return (
        good.risk is not None
        and bad.risk is not None
        and good.risk < bad.risk
        and bad.hallucinated is True
    )


def ask_judge(judge: Judge, assess: Callable[[Interaction], Assessment] | None = None) -> Check:
    """Return whether a judge that costs money tells the sentences of one answer apart: one call."""
    name = f"judge {judge.identity.name}"
    trial = TRIALS[0]
    told = trial.told(f"{trial.supported} {trial.hallucinated}")
    try:
        assessment = assess(told) if assess else asyncio.run(_assessed(judge, told))
    except RagMonitorError as error:
        usage = getattr(error, "usage", JudgeUsage())
        return Check(
            name=name,
            state="failed",
            found=f"{error} ({_cost(usage)})",
            todo="check the model's name, its key in the environment, and judge.api_base",
        )
    except Exception as error:  # noqa: BLE001 - a provider's library; said instead of shown
        return Check(
            name=name,
            state="failed",
            found=f"{type(error).__name__}: {' '.join(str(error).split())[:200]}",
            todo="check the model's name, its key in the environment, and judge.api_base",
        )
    verdicts = [sentence.verdict for sentence in assessment.sentences or ()]
    told_apart = (
        len(verdicts) == 2
        and verdicts[0] is Verdict.SUPPORTED
        and verdicts[1] in (Verdict.ABSENT, Verdict.CONTRADICTED)
    )
    cost = _cost(assessment.usage)
    details = {"cost_usd": assessment.usage.cost_usd, "verdicts": [v.value for v in verdicts]}
    if told_apart:
        found = f"tells a hallucinated sentence from a supported one ({cost})"
        return Check(name=name, state="ok", found=found, details=details)
    return Check(
        name=name,
        state="failed",
        found="took a hallucinated sentence for no worse than a supported one: "
        f"{', '.join(v.value for v in verdicts) or 'no verdict'} ({cost})",
        todo="this model is too weak to judge; choose another with the setting judge",
        details=details,
    )


async def _assessed(judge: Judge, interaction: Interaction) -> Assessment:
    return await judge.assess(interaction)


def _cost(usage: JudgeUsage) -> str:
    return (
        f"{usage.calls} calls, {usage.input_tokens + usage.output_tokens} tokens, "
        f"{usage.cost_usd:.6f} USD"
    )


def _tell(settings: Iterable[dict[str, Any]], checks: list[Check]) -> None:
    from rich import box
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    console = Console(highlight=False)
    table = Table(box=box.SIMPLE, pad_edge=False, title="settings in force", title_justify="left")
    for title in ("setting", "value", "source"):
        table.add_column(title)
    for row in settings:
        value = "-" if row["value"] is None else str(row["value"])
        source = FILE if row["source"] == "file" else row["source"]
        table.add_row(row["name"], escape(value), source)
    console.print(table)
    for name, version in _versions():
        console.print(f"{name:<40}{version or '-'}")
    console.print()
    signs = {"ok": "[green]ok    [/]", "note": "[dim]note  [/]", "failed": "[bold red]FAILED[/]"}
    for check in checks:
        console.print(
            f"{signs[check.state]} {escape(f'{check.name}: {check.found}')}", soft_wrap=True
        )
        if check.todo:
            console.print(f"       {escape(check.todo)}", soft_wrap=True)
