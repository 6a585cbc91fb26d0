"""The options of commands that read a running monitor, or what it keeps."""

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Literal

import typer

from ragmonitor.cli.options import ADDRESS_HELP, JsonOption, ServiceOption

TokenOption = Annotated[
    str | None,
    typer.Option(help="Token of the page (default: server.token from settings)."),
]

_token = partial(typer.Option, envvar="RAGMONITOR_SERVER__TOKEN", show_envvar=False)

AddressOption = Annotated[str | None, typer.Option(metavar="ADDRESS", help=ADDRESS_HELP)]

StateOption = Annotated[
    str | None,
    typer.Option(help="Where the service keeps its state (default: `state` from settings)."),
]


LanguageOption = Annotated[
    Literal["en", "zh"], typer.Option("--language", help="English or Chinese.")
]


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusOptions:
    """Show a running monitor on one screen: rates, alarms, sampling, cost, answers.

    Sentences and the incident are shown where the page is served (server.ui). Exit code 1 if an
    alarm is active or answers are not accounted for; 2 if nobody answers at the address.
    """

    address: AddressOption = None
    token: TokenOption = None
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
class IncidentSource:
    """The source of incidents: a running monitor, or the state."""

    address: AddressOption = None
    token: Annotated[str, _token(help="Token of the page of a running monitor.")] = ""
    state: StateOption = None
    service: ServiceOption = None


@dataclass(frozen=True, slots=True, kw_only=True)
class McpOptions:
    """Let an assistant read a running monitor: a server of the Model Context Protocol.

    Its tools read rates with their intervals, alarms, incidents, slices, documents, changes and
    the worst answers, and change nothing. Texts come only as far as the monitor's `content` lets
    them onto its page.
    """

    address: AddressOption = None
    token: Annotated[
        str, _token(help="Token of the page. Clients of --transport http must send it, too.")
    ] = ""
    transport: Annotated[
        Literal["stdio", "http"],
        typer.Option(help="stdio: an assistant starts this command; http: it listens on --port."),
    ] = "stdio"
    port: Annotated[
        int, typer.Option(min=1, max=65_535, help="Port on 127.0.0.1 for --transport http.")
    ] = 9466


@dataclass(frozen=True, slots=True, kw_only=True)
class IncidentOptions(IncidentSource):
    """List the incidents that are kept, or print one as Markdown.

    One says what moved, since when, its cause, the worst answers, and what to ask next; of texts
    it shows what the monitor's setting `content` permitted when it kept them. Incidents come from
    `state`, or with --address, or where there is none, from a running monitor
    that serves its page. Exit code 1 if none is kept.
    """

    id: Annotated[
        str,
        typer.Argument(
            metavar="[ID]", help="Incident to print; `latest` is the newest. Default: list all."
        ),
    ] = ""
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Write the incident to this file."),
    ] = None
    language: LanguageOption = "en"
    json_output: JsonOption = False

    def __post_init__(self) -> None:
        if self.output is not None and not self.id:
            raise typer.BadParameter("-o writes one incident: give its ID, or latest")


@dataclass(frozen=True, slots=True, kw_only=True)
class RolloutOptions:
    """Wait until live traffic decides whether a version may be rolled out; say it by the exit code.

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
            help="So much worse is still equivalent, on the signal's own scale: 0.02 is two "
            "percentage points of a rate.",
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
    every: Annotated[str, typer.Option(help="How long to wait between two looks.")] = "10s"
    address: AddressOption = None
    prometheus: Annotated[
        str | None,
        typer.Option(metavar="URL", help="Ask the Prometheus that scrapes them instead."),
    ] = None
    accept: Annotated[
        Literal["better", "equivalent", "undecided"],
        typer.Option(help="The least decision that ends with exit code 0, with all better ones."),
    ] = "better"
    json_output: JsonOption = False
