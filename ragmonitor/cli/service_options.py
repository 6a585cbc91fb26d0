"""The options of the services of a fleet."""

from dataclasses import dataclass
from typing import Annotated

import typer

from ragmonitor.cli.options import ServiceOption

SendToOption = Annotated[
    str | None,
    typer.Option(
        help="Where applications send their answers: redis://host:6379/0, or "
        "unix:/run/ragmonitor.sock (default: from settings). Put an address with a password into "
        "RAGMONITOR_SEND_TO: others on this machine can see arguments."
    ),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerOptions:
    """Score answers that applications send by Redis or a socket: `Monitor(send_to=...)`.

    Any number of workers may share a stream on Redis: statistics, budget and alarms are in the
    store. Each serves /metrics and the page, and emits traces, as the settings say. Ctrl-C or
    SIGTERM ends it in order.
    """

    send_to: SendToOption = None
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
