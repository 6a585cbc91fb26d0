"""The options of commands that read a running monitor, or what it keeps."""

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Literal

import typer

from ragmonitor.cli.options import JsonOption, ServiceOption

TokenOption = Annotated[
    str | None,
    typer.Option(help="Of the page; by default server.ui_token as the settings say."),
]

_token = partial(typer.Option, envvar="RAGMONITOR_SERVER__UI_TOKEN", show_envvar=False)

StateOption = Annotated[
    str | None,
    typer.Option(help="The state folder, or redis://...; by default the setting `state`."),
]


IncidentArgument = Annotated[str, typer.Argument(help="Of the incident; the newest by default.")]


LanguageOption = Annotated[
    Literal["en", "zh"], typer.Option("--language", help="English or Chinese.")
]


@dataclass(frozen=True, slots=True, kw_only=True)
class _MonitorOptions:
    """The running monitor that a command asks."""

    address: Annotated[
        str | None,
        typer.Argument(
            metavar="URL",
            help="Of a running monitor's /metrics; host and port are enough. By default as the "
            "settings say: http://127.0.0.1:9464/metrics.",
        ),
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _PageOptions(_MonitorOptions):
    """The running monitor whose page a command reads."""

    token: TokenOption = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _WatchOptions(_PageOptions):
    """Says how often `ragmonitor top` and `ragmonitor tail` look, and for how long."""

    every: Annotated[float, typer.Option(min=0.2, help="Seconds from look to look.")] = 2.0
    seconds: Annotated[
        float | None, typer.Option(min=0.0, help="End after so long; by default at Ctrl-C.")
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TopOptions(_WatchOptions):
    """Watch a running monitor in a terminal: rates with intervals, alarms, answers.

    Of the answers the newest, and the last bad ones. Reads the page, which the monitor serves with
    server.ui=true.
    """

    once: Annotated[bool, typer.Option("--once", help="Print it once, and end.")] = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TailOptions(_WatchOptions):
    """Print the answers of a running monitor as they come, with what is not supported.

    Begins with those that the page keeps. Reads the page, which the monitor serves with
    server.ui=true; an answer comes again when another judge has scored it, and when it is given
    to another user.
    """

    bad: Annotated[bool, typer.Option("--bad", help="Only answers with something bad.")] = False
    json_output: Annotated[
        bool, typer.Option("--json", help="One JSON object for each answer on standard output.")
    ] = False


@dataclass(frozen=True, slots=True, kw_only=True)
class IncidentSource:
    """The source of incidents: a running monitor, or the state folder."""

    address: Annotated[
        str | None,
        typer.Option(
            "--url",
            help="Of a running monitor with its page (server.ui); host and port are enough. "
            "Without it the state folder is read.",
        ),
    ] = None
    token: Annotated[str, _token(help="The page's, for --url.")] = ""
    state: StateOption = None
    service: ServiceOption = None


@dataclass(frozen=True, slots=True, kw_only=True)
class McpOptions:
    """Let an assistant read a running monitor: a server of the Model Context Protocol.

    Its tools read rates with their intervals, alarms, incidents, slices, documents, changes and
    the worst answers, and change nothing. Texts come only as far as the monitor's `content` lets
    them onto its page.
    """

    address: Annotated[
        str | None,
        typer.Option(
            "--url",
            help="Of the running monitor; host and port are enough. By default as the settings "
            "say.",
        ),
    ] = None
    token: Annotated[
        str, _token(help="The page's; clients of --transport http must show it, too.")
    ] = ""
    transport: Annotated[
        Literal["stdio", "http"],
        typer.Option(help="stdio: an assistant starts this command; http: it listens on --port."),
    ] = "stdio"
    port: Annotated[
        int, typer.Option(min=1, max=65_535, help="Of 127.0.0.1, for --transport http.")
    ] = 9466


@dataclass(frozen=True, slots=True, kw_only=True)
class IncidentListOptions(IncidentSource):
    """List the incidents that are kept, the newest first.

    From the state folder, or with --url from a running monitor that serves its page. Exit code 1
    if there is none.
    """

    json_output: JsonOption = False


@dataclass(frozen=True, slots=True, kw_only=True)
class IncidentShowOptions(IncidentSource):
    """Print one incident as Markdown: what moved, its cause, the worst answers, what to ask next.

    Of the answers it shows what the monitor's setting `content` permitted when it kept them.
    """

    id: IncidentArgument = "latest"
    language: LanguageOption = "en"


@dataclass(frozen=True, slots=True, kw_only=True)
class IncidentExportOptions(IncidentSource):
    """Write one incident to a file: Markdown, an HTML page that needs nothing else, or JSON."""

    id: IncidentArgument = "latest"
    output: Annotated[
        Path,
        typer.Option(
            "--output", "-o", help="The file to write: .md, .html, or .json with every field."
        ),
    ]
    language: LanguageOption = "en"
