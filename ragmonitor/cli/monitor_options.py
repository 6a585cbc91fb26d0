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
class IncidentOptions(IncidentSource):
    """List the incidents that are kept, or print one as Markdown.

    One says what moved, since when, its cause, the worst answers, and what to ask next; of texts
    it shows what the monitor's setting `content` permitted when it kept them. Incidents come from
    the state folder, or with --url from a running monitor that serves its page. Exit code 1 if
    none is kept.
    """

    id: Annotated[
        str,
        typer.Argument(
            metavar="[ID]", help="The incident to print; `latest` is the newest. None: list all."
        ),
    ] = ""
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Write the incident here, not to standard output."),
    ] = None
    language: LanguageOption = "en"
    json_output: JsonOption = False

    def __post_init__(self) -> None:
        if self.output is not None and not self.id:
            raise typer.BadParameter("-o writes one incident: give its ID, or latest")
