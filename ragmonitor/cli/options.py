"""The options of commands: the docstring of a class is the help, its fields are the options.

Typer reads the annotations, so they are not postponed.
"""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final, Literal

import typer

JsonOption = Annotated[bool, typer.Option("--json", help="One JSON object on standard output.")]
OutputOption = Annotated[
    Path | None, typer.Option("--output", "-o", help="Write here, not to standard output.")
]
CountOption = Annotated[int, typer.Option("--count", "-n", min=1, max=100_000, help="How many.")]
LanguageOption = Annotated[
    Literal["en", "zh"], typer.Option("--language", help="English or Chinese.")
]
ApiBaseOption = Annotated[
    str | None, typer.Option(help="Address of an OpenAI-compatible server for the judge.")
]
BudgetUsdOption = Annotated[
    float | None, typer.Option(min=0.0, help="Maximum cost of this run in US dollars.")
]
BudgetTokensOption = Annotated[int | None, typer.Option(min=0, help="Maximum tokens of this run.")]
ADDRESS_HELP: Final = (
    "Address of a running monitor; host and port are enough (default: from settings, "
    "127.0.0.1:7247)."
)
ServiceOption = Annotated[str | None, typer.Option(help="Service name (default: from settings).")]


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoringOptions:
    """The judge of recorded answers, the evaluators, and the budget."""

    judge: Annotated[
        str,
        typer.Option(
            help="'builtin', the built-in judge; 'encoder:MODEL', a classifier on this machine; or "
            "a litellm model such as openai/gpt-4o-mini."
        ),
    ] = "builtin"
    evaluators: Annotated[
        str,
        typer.Option(
            help="Comma-separated names or patterns ('ragchecker_*', '*'). Default: those of a "
            "monitor, and those that need a reference answer where a record has one."
        ),
    ] = ""
    budget_usd: BudgetUsdOption = None
    budget_tokens: BudgetTokensOption = None
    api_base: ApiBaseOption = None
    embedding: Annotated[
        str,
        typer.Option(
            help="litellm embedding model for scores that compare texts by vectors. Default: parts "
            "of words, without a network. Its cost counts against the budget."
        ),
    ] = ""
    plugin: Annotated[
        list[str] | None,
        typer.Option(help="Module to import first: it may register evaluators. Repeatable."),
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreOptions(ScoringOptions):
    """Score recorded answers offline, with the judges and evaluators of a live monitor.

    One line of JSON comes out for each line that goes in, in the same order: the scores, or why
    there are none, the risk, and a verdict with its evidence for every sentence. A line that
    cannot be read gives a line with its number and an error. The summary goes to standard error.
    Ctrl-C waits for the replies under way and ends with exit code 130. Replies of a model are kept
    in FILE.replies beside the output: the same command goes on, and pays for none of them again.
    """

    file: Annotated[
        str,
        typer.Argument(
            help="Recorded interactions: JSON lines, JSON, .csv or .parquet; - for standard input "
            "(JSON)."
        ),
    ]
    output: OutputOption = None
    json_output: Annotated[
        bool,
        typer.Option(
            "--json",
            help="The summary as one JSON object instead of a table: on standard output with -o, "
            "else on standard error.",
        ),
    ] = False
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="Nothing on standard error but errors.")
    ] = False
    workers: Annotated[
        int,
        typer.Option(
            min=1,
            max=256,
            show_default=False,
            help="Processes of the built-in judge, from 500 rows on (default: the CPUs, at most "
            "4).",
        ),
    ] = min(4, os.cpu_count() or 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class CompareOptions(ScoringOptions):
    """Compare two versions of an application on the same questions, with an interval.

    Each file holds recorded answers. Both are scored by one judge, and paired by their questions.
    """

    before: Annotated[str, typer.Argument(metavar="BEFORE", help="Answers of the first version.")]
    after: Annotated[str, typer.Argument(metavar="AFTER", help="Answers of the second version.")]
    json_output: JsonOption = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoOptions:
    """Watch a live RAG application being monitored, with a spike of hallucinations.

    Real LangChain and LlamaIndex applications answer questions about this project from its own
    documents, under a real monitor with a real /metrics endpoint. After a while many answers are
    spoiled on purpose, and then it recovers. Needs no key and no network. --json needs --seconds:
    the object comes at the end.
    """

    seconds: Annotated[
        float | None,
        typer.Option(min=1.0, help="End after this many seconds. Default: run until Ctrl-C."),
    ] = None
    json_output: JsonOption = False
    rate: Annotated[
        float, typer.Option(min=0.1, max=1000.0, help="Questions per second, over all frameworks.")
    ] = 8.0
    port: Annotated[
        int | None,
        typer.Option(
            min=0,
            max=65535,
            help="Port of /metrics (default: 7247, or a free one if that is taken).",
        ),
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DoctorOptions:
    """Check settings, endpoints, and whether the judges recognise a hallucination.

    One call is made to each judge that the settings name, and its cost is shown. Exit code 1 if a
    probe failed.
    """

    settings: Annotated[
        bool, typer.Option("--settings", help="Show the settings in force, too.")
    ] = False
    json_output: JsonOption = False


@dataclass(frozen=True, slots=True, kw_only=True)
class AskOptions:
    """How a service is asked golden questions."""

    question_field: Annotated[
        str, typer.Option(help="Field of the posted JSON object that holds the question.")
    ] = "question"
    answer_path: Annotated[
        str,
        typer.Option(help="JMESPath of the answer in the reply; $.answer is the same as answer."),
    ] = "answer"
    contexts_path: Annotated[
        str,
        typer.Option(
            help="JMESPath of the retrieved chunks: contexts, sources[*].text. Without it there "
            "are no scores of what was retrieved."
        ),
    ] = ""
    header: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME: VALUE",
            help="Header sent with each question. $VARIABLE is replaced by its value. Repeatable.",
        ),
    ] = None
    timeout: Annotated[str, typer.Option(help="Time limit of one answer: 30s, 2m.")] = "60s"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeOptions(AskOptions):
    """Ask a running service golden questions, again and again, and serve the scores.

    Needs no monitor in the service; if there is one, it keeps these questions apart by their
    header. Judge, budget, state and port come from the settings. Ctrl-C or SIGTERM ends it. Exit
    code 1 if nothing was answered.
    """

    goldens: Annotated[
        Path, typer.Argument(help="File of golden questions (see docs/goldens.md).", exists=True)
    ]
    url: Annotated[
        str, typer.Option(help="Address to which questions are posted, such as http://app/ask.")
    ]
    every: Annotated[
        str, typer.Option(help="Interval between two asks of one question: 15m, 1h, 1d.")
    ] = "1h"
    once: Annotated[bool, typer.Option("--once", help="Ask each question once, then end.")] = False
    service: ServiceOption = None
    json_output: JsonOption = False


@dataclass(frozen=True, slots=True, kw_only=True)
class GateOptions(AskOptions):
    """Decide by golden questions whether a release may go out. The exit code is the decision.

    It asks the release and compares the scores with those of a baseline. 0 better, equivalent (at
    most --max-drop worse), or undecided with a drop that is no larger as seen; 4 worse; 5
    undecided. Live versions are compared by `ragmonitor rollout`.
    """

    goldens: Annotated[
        str,
        typer.Argument(metavar="GOLDENS", help="A file of golden questions to ask the release."),
    ]
    baseline: Annotated[
        str, typer.Option(help="The file that --save wrote of the release before.")
    ] = ""
    url: Annotated[str | None, typer.Option(help="Ask this address by POST.")] = None
    callable: Annotated[
        str | None, typer.Option(metavar="MODULE:FUNCTION", help="Ask this function.")
    ] = None
    max_drop: Annotated[
        float, typer.Option(min=0.0, help="Treat a drop of up to this much as equivalent.")
    ] = 0.02
    save: Annotated[
        Path | None, typer.Option(help="Write the scores to this file, as a later baseline.")
    ] = None
    junit: Annotated[Path | None, typer.Option(help="Write JUnit XML.")] = None
    markdown: Annotated[
        Path | None,
        typer.Option(help="Append a summary for a pull request: $GITHUB_STEP_SUMMARY will do."),
    ] = None
    judge: Annotated[
        str | None, typer.Option(help="Judge model (default: the built-in judge, free).")
    ] = None
    budget_usd: BudgetUsdOption = None
    budget_tokens: BudgetTokensOption = None
    signal: Annotated[str, typer.Option(help="Name of a score (default: correctness).")] = ""
    json_output: JsonOption = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RulesOptions:
    """Print recording and alerting rules for Prometheus.

    Means over 5 minutes, an hour and a day, and alerts that go by the monitor's own alarms, each
    with its place on the runbook.
    """

    service: Annotated[
        list[str] | None,
        typer.Option(help="Service name. Default: every service that is scraped. Repeatable."),
    ] = None
    fleet: Annotated[
        bool, typer.Option("--fleet", help="Add the alert on workers that score from a stream.")
    ] = False
    receive: Annotated[
        bool, typer.Option("--receive", help="Add the alert on `ragmonitor receive`.")
    ] = False
    without: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Leave this alert out. Repeatable."),
    ] = None
    severity: Annotated[
        list[str] | None,
        typer.Option(
            metavar="OURS=YOURS",
            help="Rename a severity (critical, warning, info): critical=page. Repeatable.",
        ),
    ] = None
    label: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=VALUE", help="Add a label to every alert. Repeatable."),
    ] = None
    language: LanguageOption = "en"
    runbook_url: Annotated[
        str | None,
        typer.Option(help="Address of the published runbook (default: docs/runbook.md)."),
    ] = None
    dashboard_url: Annotated[
        str | None,
        typer.Option(help="Address of Grafana (default: http://127.0.0.1:3000)."),
    ] = None
    form: Annotated[
        Literal["prometheus", "kubernetes"],
        typer.Option("--format", help="A rule file, or a PrometheusRule for the operator."),
    ] = "prometheus"
    output: OutputOption = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleOptions:
    """Draw judged answers for people to read, and write them as a CSV.

    60 % of them are ones that the judge found hallucinated, where there are so many; within each
    kind every answer is as likely as any other. Write yes (the chunks do not support something in
    the answer) or no into the column `human`; leave it empty where you cannot tell. The
    judge's verdict is in the column `sealed`, which people cannot read and `labels rate` can.
    """

    reports: Annotated[
        Path,
        typer.Argument(help="JSON lines that a monitor wrote (exporter jsonl:FILE), with texts."),
    ]
    count: CountOption = 100
    output: Annotated[
        Path, typer.Option("--output", "-o", help="The CSV to write; it must not exist yet.")
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class RateOptions:
    """Say what people's labels make of the judged hallucination rate they were drawn from.

    The corrected rate is judged rate * PPV + (1 - judged rate) * FOR: the share that people find
    hallucinated among those that the judge found so, and among the others. Exit code 1 if there
    are too few labels for a corrected rate (100, and some of each kind).
    """

    labels: Annotated[
        list[Path], typer.Argument(help="CSV files that people have filled in, of one judge.")
    ]
    json_output: JsonOption = False


# --- a running monitor --------------------------------------------------------------------------

AddressOption = Annotated[str | None, typer.Option(metavar="ADDRESS", help=ADDRESS_HELP)]


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusOptions:
    """Show a running monitor on one screen: rates, alarms, sampling, cost, answers.

    Sentences and the incident are shown where the page is served (server.ui). Exit code 1 if an
    alarm is active or answers are not accounted for; 2 if nobody answers at the address.
    """

    address: AddressOption = None
    watch: Annotated[
        bool,
        typer.Option(
            "--watch",
            help="Refresh every two seconds and print new answers, until Ctrl-C.",
        ),
    ] = False
    json_output: JsonOption = False

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

    address: AddressOption = None


@dataclass(frozen=True, slots=True, kw_only=True)
class IncidentOptions:
    """List the incidents, or print one as Markdown.

    An incident says what changed, since when, its cause, and the worst answers.
    Incidents come from the setting `state`, or with --address, or without a state, from the page of
    a running monitor. Exit code 1 if there is none.
    """

    id: Annotated[
        str,
        typer.Argument(
            metavar="[ID]", help="Incident to print; `latest` is the newest. Default: list all."
        ),
    ] = ""
    address: AddressOption = None
    output: OutputOption = None
    language: LanguageOption = "en"
    json_output: JsonOption = False

    def __post_init__(self) -> None:
        if self.output is not None and not self.id:
            raise typer.BadParameter("-o writes one incident: give its ID, or latest")


@dataclass(frozen=True, slots=True, kw_only=True)
class RolloutOptions:
    """Wait until live traffic decides whether a version may be rolled out.

    0 better; 3 equivalent, at most --max-worse worse; 4 worse, by more than that; 5 undecided. Both
    versions have to answer at the same time, and to share a `state`.
    """

    service: Annotated[str, typer.Option(help="The monitored application.")]
    candidate: Annotated[str, typer.Option(help="The version that may be rolled out.")]
    baseline: Annotated[str, typer.Option(help="The version that it is compared with.")]
    max_worse: Annotated[
        float,
        typer.Option(
            min=0.0,
            help="Treat a rise of up to this much as equivalent: 0.02 is two percentage points.",
        ),
    ] = 0.02
    signal: Annotated[str, typer.Option(help="hallucination, refusal, or a score's name.")] = (
        "hallucination"
    )
    by: Annotated[
        str, typer.Option(help="What versions are compared by: one of the setting compare_by.")
    ] = "service_version"
    timeout: Annotated[
        str, typer.Option(help="How long to wait for a decision: 90s, 30m, 1h30m; 0s: look once.")
    ] = "30m"
    address: AddressOption = None
    json_output: JsonOption = False


# --- services -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerOptions:
    """Score answers that applications send by Redis or a socket: `Monitor(send_to=...)`.

    Any number of workers may share a stream on Redis: statistics, budget and alarms are in the
    store. Each serves /metrics and the page, and emits traces, as the settings say. Ctrl-C or
    SIGTERM ends it in order.
    """

    send_to: Annotated[
        str | None,
        typer.Option(
            help="Where applications send their answers: redis://host:6379/0, or "
            "unix:/run/ragmonitor.sock (default: from settings). Put an address with a password "
            "into RAGMONITOR_SEND_TO: others on this machine can see arguments."
        ),
    ] = None
    service: ServiceOption = None
    drain: Annotated[
        bool, typer.Option("--drain", help="End when nothing is left on the stream.")
    ] = False
    descriptor: Annotated[int | None, typer.Option(hidden=True)] = None
    """File descriptor of the socket to the parent process, the monitor."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceiveOptions:
    """Score applications in any language: take the spans that they send by OTLP.

    Spans in the conventions of OpenInference, OpenLLMetry and OpenTelemetry's GenAI become
    interactions; their scores go out as linked spans, to /metrics and to the page, as the settings
    say. Ctrl-C or SIGTERM ends it in order. docs/receive.md says how applications are set up.
    """

    service: ServiceOption = None
    host: Annotated[
        str,
        typer.Option(help="Address to listen on; an address beyond loopback needs a token."),
    ] = "127.0.0.1"
    http_port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port of OTLP over HTTP (0 = any free port).")
    ] = 4318
    source: Annotated[
        str | None,
        typer.Option(
            "--from",
            help="Also read spans from this topic: kafka://broker:9092/otlp_spans. Put an address "
            "with a password into RAGMONITOR_RECEIVE__KAFKA.",
        ),
    ] = None


# --- golden questions ---------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerateOptions:
    """Make golden questions of documents: a model writes them, and checks each on its own.

    A question is kept if its chunk alone answers it as its reference answer does. One in five is
    to be unanswerable, and is kept if no chunk that is near answers it. The rest is dropped, with
    the reason. Each reply is kept, so that a run that was interrupted or has spent its budget goes
    on and pays nothing twice. The budget is for all runs with one output together.
    """

    documents: Annotated[
        Path,
        typer.Argument(metavar="DOCS", help="A file or folder of Markdown or text."),
    ]
    output: Annotated[
        Path,
        typer.Option(
            "--output",
            "-o",
            help="The golden questions: JSON lines, or a .csv for spreadsheets. What stands "
            "in it stays; paid replies stand in FILE.replies beside it.",
        ),
    ]
    judge: Annotated[
        str, typer.Option(help="Who writes and checks: a litellm model, openai/gpt-4o-mini.")
    ]
    count: CountOption = 100
    budget_usd: BudgetUsdOption = None
    budget_tokens: BudgetTokensOption = None
    api_base: ApiBaseOption = None
    json_output: JsonOption = False


@dataclass(frozen=True, slots=True, kw_only=True)
class MineOptions:
    """Take candidates for golden questions out of live traffic, for a person to review.

    The worst answers, those of which two judges say opposite things, unanswered ones, and those
    that people found bad; diverse, and none that is known already. The reference answer is the
    application's own until somebody puts it right: before it is accepted no candidate is asked.
    Exit code 1 if there is none.
    """

    reports: Annotated[
        Path, typer.Argument(help="JSON lines that a monitor wrote (exporter jsonl:FILE).")
    ]
    output: Annotated[
        Path,
        typer.Option(
            "--output",
            "-o",
            help="Golden questions, JSON lines or a .csv; candidates are added to what is there.",
        ),
    ]
    count: CountOption = 50
