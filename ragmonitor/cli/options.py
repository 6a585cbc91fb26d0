# ruff: noqa: RUF009 - the calls make fields
"""The options of commands: the docstring of a class is the help, its fields are the options.

`app` reads the types of the fields, so they are not postponed.
"""

import os
from dataclasses import MISSING, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Literal

import typer


def _field(make: Any, default: Any, help: str, *names: str, **more: Any) -> Any:  # noqa: A002 - typer's name
    """Return a field that typer fills; a default of `...` says that it must be given."""
    value = MISSING if default is ... else default
    return field(default=value, metadata={"typer": make(*names, help=help, **more)})


option = partial(_field, typer.Option)
argument = partial(_field, typer.Argument)


def flag(name: str, help: str, *more_names: str) -> Any:  # noqa: A002 - typer's name
    """Return a field that is true where the option stands."""
    return option(False, help, name, *more_names)


def count_option(default: int) -> Any:
    """Return a field that says how many are wanted."""
    return option(default, "How many.", "--count", "-n", min=1, max=100_000)


json_flag = partial(flag, "--json", "One JSON object on standard output.")
output_option = partial(option, None, "Write here, not to standard output.", "--output", "-o")
language_option = partial(option, "en", "English or Chinese.", "--language")
api_base_option = partial(option, None, "Address of an OpenAI-compatible server for the judge.")
budget_usd_option = partial(option, None, "Maximum cost in US dollars.", min=0.0)
budget_tokens_option = partial(option, None, "Maximum tokens.", min=0)
service_option = partial(option, None, "Service name (default: from settings).")
address_option = partial(
    option,
    None,
    "Address of a running monitor; host and port are enough (default: from settings, "
    "127.0.0.1:7247).",
    metavar="ADDRESS",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoringOptions:
    """The judge of recorded answers, the evaluators, and the budget."""

    judge: str = option(
        "builtin",
        "'builtin', the built-in judge; 'encoder:MODEL', a classifier on this machine; or "
        "a litellm model such as openai/gpt-4o-mini.",
    )
    evaluators: str = option(
        "",
        "Comma-separated names or patterns ('ragchecker_*', '*'). Default: those of a "
        "monitor, and those that need a reference answer where a record has one.",
    )
    budget_usd: float | None = budget_usd_option()
    budget_tokens: int | None = budget_tokens_option()
    api_base: str | None = api_base_option()
    embedding: str = option(
        "",
        "litellm embedding model for scores that compare texts by vectors. Default: parts "
        "of words, without a network. Its cost counts against the budget.",
    )
    plugin: list[str] | None = option(
        None, "Module to import first: it may register evaluators. Repeatable."
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreOptions(ScoringOptions):
    """Score recorded answers offline, with the judges and evaluators of a live monitor.

    One line of JSON comes out for each line that goes in, in the same order: the scores, or why
    there are none, the risk, and a verdict with its evidence for every sentence. A line that
    cannot be read gives a line with its number and an error. The summary goes to standard error.
    Ctrl-C waits for the replies under way and ends with exit code 130. Replies of a model are kept
    in FILE.replies beside the output: the same command goes on, and pays for none of them again.
    """

    file: str = argument(
        ...,
        "Recorded interactions: JSON lines, JSON, .csv or .parquet; - for standard input (JSON).",
    )
    output: Path | None = output_option()
    json_output: bool = flag(
        "--json",
        "The summary as one JSON object instead of a table: on standard output with -o, "
        "else on standard error.",
    )
    quiet: bool = flag("--quiet", "Nothing on standard error but errors.", "-q")
    workers: int = option(
        min(4, os.cpu_count() or 1),
        "Processes of the built-in judge, from 500 rows on (default: the CPUs, at most 4).",
        min=1,
        max=256,
        show_default=False,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class CompareOptions(ScoringOptions):
    """Compare two versions of an application on the same questions, with an interval.

    Each file holds recorded answers. Both are scored by one judge, and paired by their questions.
    """

    before: str = argument(..., "Answers of the first version.", metavar="BEFORE")
    after: str = argument(..., "Answers of the second version.", metavar="AFTER")
    json_output: bool = json_flag()


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoOptions:
    """Watch a live RAG application being monitored, with a spike of hallucinations.

    Real LangChain and LlamaIndex applications answer questions about this project from its own
    documents, under a real monitor with a real /metrics endpoint. After a while many answers are
    spoiled on purpose, and then it recovers. Needs no key and no network. --json needs --seconds:
    the object comes at the end.
    """

    seconds: float | None = option(
        None, "End after this many seconds. Default: run until Ctrl-C.", min=1.0
    )
    json_output: bool = json_flag()
    rate: float = option(8.0, "Questions per second, over all frameworks.", min=0.1, max=1000.0)
    port: int | None = option(
        None, "Port of /metrics (default: 7247, or a free one if that is taken).", min=0, max=65535
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class DoctorOptions:
    """Check settings, endpoints, and whether the judges recognise a hallucination.

    One call is made to each judge that the settings name, and its cost is shown. Exit code 1 if a
    probe failed.
    """

    settings: bool = flag("--settings", "Show the settings in force, too.")
    json_output: bool = json_flag()


@dataclass(frozen=True, slots=True, kw_only=True)
class AskOptions:
    """How a service is asked golden questions."""

    question_field: str = option(
        "question", "Field of the posted JSON object that holds the question."
    )
    answer_path: str = option(
        "answer", "JMESPath of the answer in the reply; $.answer is the same as answer."
    )
    contexts_path: str = option(
        "",
        "JMESPath of the retrieved chunks: contexts, sources[*].text. Without it there "
        "are no scores of what was retrieved.",
    )
    header: list[str] | None = option(
        None,
        "Header sent with each question. $VARIABLE is replaced by its value. Repeatable.",
        metavar="NAME: VALUE",
    )
    timeout: str = option("60s", "Time limit of one answer: 30s, 2m.")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeOptions(AskOptions):
    """Ask a running service golden questions, again and again, and serve the scores.

    Needs no monitor in the service; if there is one, it keeps these questions apart by their
    header. Judge, budget, state and port come from the settings. Ctrl-C or SIGTERM ends it. Exit
    code 1 if nothing was answered.
    """

    goldens: Path = argument(..., "File of golden questions (see docs/goldens.md).", exists=True)
    url: str = option(..., "Address to which questions are posted, such as http://app/ask.")
    every: str = option("1h", "Interval between two asks of one question: 15m, 1h, 1d.")
    once: bool = flag("--once", "Ask each question once, then end.")
    service: str | None = service_option()
    json_output: bool = json_flag()


@dataclass(frozen=True, slots=True, kw_only=True)
class GateOptions(AskOptions):
    """Decide by golden questions whether a release may go out. The exit code is the decision.

    It asks the release and compares the scores with those of a baseline. 0 better, equivalent (at
    most --max-drop worse), or undecided with a drop that is no larger as seen; 4 worse; 5
    undecided. Live versions are compared by `ragmonitor rollout`.
    """

    goldens: str = argument(
        ..., "A file of golden questions to ask the release.", metavar="GOLDENS"
    )
    baseline: str = option("", "The file that --save wrote of the release before.")
    url: str | None = option(None, "Ask this address by POST.")
    callable: str | None = option(None, "Ask this function.", metavar="MODULE:FUNCTION")
    max_drop: float = option(0.02, "Treat a drop of up to this much as equivalent.", min=0.0)
    save: Path | None = option(None, "Write the scores to this file, as a later baseline.")
    junit: Path | None = option(None, "Write JUnit XML.")
    markdown: Path | None = option(
        None, "Append a summary for a pull request: $GITHUB_STEP_SUMMARY will do."
    )
    judge: str | None = option(None, "Judge model (default: the built-in judge, free).")
    budget_usd: float | None = budget_usd_option()
    budget_tokens: int | None = budget_tokens_option()
    signal: str = option("", "Name of a score (default: correctness).")
    json_output: bool = json_flag()


@dataclass(frozen=True, slots=True, kw_only=True)
class RulesOptions:
    """Print recording and alerting rules for Prometheus.

    Means over 5 minutes, an hour and a day, and alerts that go by the monitor's own alarms, each
    with its place on the runbook.
    """

    service: list[str] | None = option(
        None, "Service name. Default: every service that is scraped. Repeatable."
    )
    fleet: bool = flag("--fleet", "Add the alert on workers that score from a stream.")
    receive: bool = flag("--receive", "Add the alert on `ragmonitor receive`.")
    without: list[str] | None = option(None, "Leave this alert out. Repeatable.", metavar="NAME")
    severity: list[str] | None = option(
        None,
        "Rename a severity (critical, warning, info): critical=page. Repeatable.",
        metavar="OURS=YOURS",
    )
    label: list[str] | None = option(
        None, "Add a label to every alert. Repeatable.", metavar="NAME=VALUE"
    )
    language: Literal["en", "zh"] = language_option()
    runbook_url: str | None = option(
        None, "Address of the published runbook (default: docs/runbook.md)."
    )
    dashboard_url: str | None = option(None, "Address of Grafana (default: http://127.0.0.1:3000).")
    form: Literal["prometheus", "kubernetes"] = option(
        "prometheus", "A rule file, or a PrometheusRule for the operator.", "--format"
    )
    output: Path | None = output_option()


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleOptions:
    """Draw judged answers for people to read, and write them as a CSV.

    60 % of them are ones that the judge found hallucinated, where there are so many; within each
    kind every answer is as likely as any other. Write yes (the chunks do not support something in
    the answer) or no into the column `human`; leave it empty where you cannot tell. The
    judge's verdict is in the column `sealed`, which people cannot read and `labels rate` can.
    """

    reports: Path = argument(
        ..., "JSON lines that a monitor wrote (exporter jsonl:FILE), with texts."
    )
    count: int = count_option(100)
    output: Path = option(..., "The CSV to write; it must not exist yet.", "--output", "-o")


@dataclass(frozen=True, slots=True, kw_only=True)
class RateOptions:
    """Say what people's labels make of the judged hallucination rate they were drawn from.

    The corrected rate is judged rate * PPV + (1 - judged rate) * FOR: the share that people find
    hallucinated among those that the judge found so, and among the others. Exit code 1 if there
    are too few labels for a corrected rate (100, and some of each kind).
    """

    labels: list[Path] = argument(..., "CSV files that people have filled in, of one judge.")
    json_output: bool = json_flag()


# --- a running monitor --------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusOptions:
    """Show a running monitor on one screen: rates, alarms, sampling, cost, answers.

    Sentences and the incident are shown where the page is served (server.ui). Exit code 1 if an
    alarm is active or answers are not accounted for; 2 if nobody answers at the address.
    """

    address: str | None = address_option()
    watch: bool = flag("--watch", "Refresh every two seconds and print new answers, until Ctrl-C.")
    json_output: bool = json_flag()

    def __post_init__(self) -> None:
        if self.watch and self.json_output:
            raise typer.BadParameter("--json shows one moment: leave out --watch")


@dataclass(frozen=True, slots=True, kw_only=True)
class McpOptions:
    """Let an assistant read a running monitor: a server of the Model Context Protocol.

    The assistant starts this command and talks to it by standard input and output. Its tools read
    rates with their intervals, alarms, incidents, slices, documents, changes and the worst answers,
    and change nothing. Texts follow the monitor's setting `content`.
    """

    address: str | None = address_option()


@dataclass(frozen=True, slots=True, kw_only=True)
class IncidentOptions:
    """List the incidents, or print one as Markdown.

    An incident says what changed, since when, its cause, and the worst answers.
    Incidents come from the setting `state`, or with --address, or without a state, from the page of
    a running monitor. Exit code 1 if there is none.
    """

    id: str = argument(
        "", "Incident to print; `latest` is the newest. Default: list all.", metavar="[ID]"
    )
    address: str | None = address_option()
    output: Path | None = output_option()
    language: Literal["en", "zh"] = language_option()
    json_output: bool = json_flag()

    def __post_init__(self) -> None:
        if self.output is not None and not self.id:
            raise typer.BadParameter("-o writes one incident: give its ID, or latest")


@dataclass(frozen=True, slots=True, kw_only=True)
class RolloutOptions:
    """Wait until live traffic decides whether a version may be rolled out.

    0 better; 3 equivalent, at most --max-worse worse; 4 worse, by more than that; 5 undecided. Both
    versions have to answer at the same time, and to share a `state`.
    """

    service: str = option(..., "The monitored application.")
    candidate: str = option(..., "The version that may be rolled out.")
    baseline: str = option(..., "The version that it is compared with.")
    max_worse: float = option(
        0.02,
        "Treat a rise of up to this much as equivalent: 0.02 is two percentage points.",
        min=0.0,
    )
    signal: str = option("hallucination", "hallucination, refusal, or a score's name.")
    by: str = option(
        "service_version", "What versions are compared by: one of the setting compare_by."
    )
    timeout: str = option("30m", "How long to wait for a decision: 90s, 30m, 1h30m; 0s: look once.")
    address: str | None = address_option()
    json_output: bool = json_flag()


# --- services -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerOptions:
    """Score answers that applications send by Redis or a socket: `Monitor(send_to=...)`.

    Any number of workers may share a stream on Redis: statistics, budget and alarms are in the
    store. Each serves /metrics and the page, and emits traces, as the settings say. Ctrl-C or
    SIGTERM ends it in order.
    """

    send_to: str | None = option(
        None,
        "Where applications send their answers: redis://host:6379/0, or "
        "unix:/run/ragmonitor.sock (default: from settings). Put an address with a password "
        "into RAGMONITOR_SEND_TO: others on this machine can see arguments.",
    )
    service: str | None = service_option()
    drain: bool = flag("--drain", "End when nothing is left on the stream.")
    descriptor: int | None = option(None, "", hidden=True)
    """File descriptor of the socket to the parent process, the monitor."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceiveOptions:
    """Score applications in any language: take the spans that they send by OTLP.

    Spans in the conventions of OpenInference, OpenLLMetry and OpenTelemetry's GenAI become
    interactions; their scores go out as linked spans, to /metrics and to the page, as the settings
    say. Ctrl-C or SIGTERM ends it in order. docs/receive.md says how applications are set up.
    """

    service: str | None = service_option()
    host: str = option(
        "127.0.0.1", "Address to listen on; an address beyond loopback needs a token."
    )
    http_port: int = option(4318, "Port of OTLP over HTTP (0 = any free port).", min=0, max=65535)
    source: str | None = option(
        None,
        "Also read spans from this topic: kafka://broker:9092/otlp_spans. Put an address "
        "with a password into RAGMONITOR_RECEIVE__KAFKA.",
        "--from",
    )


# --- golden questions ---------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerateOptions:
    """Make golden questions of documents: a model writes them, and checks each on its own.

    A question is kept if its chunk alone answers it as its reference answer does. One in five is
    to be unanswerable, and is kept if no chunk that is near answers it. The rest is dropped, with
    the reason. Each reply is kept, so that a run that was interrupted or has spent its budget goes
    on and pays nothing twice. The budget is for all runs with one output together.
    """

    documents: Path = argument(..., "A file or folder of Markdown or text.", metavar="DOCS")
    output: Path = option(
        ...,
        "The golden questions: JSON lines, or a .csv for spreadsheets. What stands "
        "in it stays; paid replies stand in FILE.replies beside it.",
        "--output",
        "-o",
    )
    judge: str = option(..., "Who writes and checks: a litellm model, openai/gpt-4o-mini.")
    count: int = count_option(100)
    budget_usd: float | None = budget_usd_option()
    budget_tokens: int | None = budget_tokens_option()
    api_base: str | None = api_base_option()
    json_output: bool = json_flag()


@dataclass(frozen=True, slots=True, kw_only=True)
class MineOptions:
    """Take candidates for golden questions out of live traffic, for a person to review.

    The worst answers, those of which two judges say opposite things, unanswered ones, and those
    that people found bad; diverse, and none that is known already. The reference answer is the
    application's own until somebody puts it right: before it is accepted no candidate is asked.
    Exit code 1 if there is none.
    """

    reports: Path = argument(..., "JSON lines that a monitor wrote (exporter jsonl:FILE).")
    output: Path = option(
        ...,
        "Golden questions, JSON lines or a .csv; candidates are added to what is there.",
        "--output",
        "-o",
    )
    count: int = count_option(50)
