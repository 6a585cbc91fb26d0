"""The options of commands that read a running monitor or its state."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import typer

from ragmonitor.cli.options import ADDRESS_HELP, JsonOption

AddressOption = Annotated[str | None, typer.Option(metavar="ADDRESS", help=ADDRESS_HELP)]

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

    An incident says what changed, since when, its cause, the worst answers, and what to ask next.
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
    accept: Annotated[
        Literal["better", "equivalent", "undecided"],
        typer.Option(help="The least decision that ends with exit code 0, as all better ones do."),
    ] = "better"
    json_output: JsonOption = False
