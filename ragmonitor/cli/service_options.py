"""The options of the services of a fleet."""

from dataclasses import dataclass
from typing import Annotated

import typer

from ragmonitor.cli.options import ServiceOption

SendToOption = Annotated[
    str | None,
    typer.Option(
        help="Where applications send their answers: redis://host:6379/0, or "
        "unix:/run/ragmonitor.sock; by default as the settings say. An address with a password "
        "belongs into RAGMONITOR_SEND_TO: others on this machine can see arguments."
    ),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerOptions:
    """Score what applications send: `Monitor(send_to=...)`, by Redis or a socket of this machine.

    Any number of workers may share a stream on Redis: statistics, budget and alarms are in the
    store. Each serves /metrics and the page, and emits traces, as the settings say. A record that
    three workers died of is buried. Ctrl-C or SIGTERM ends it in order.
    """

    send_to: SendToOption = None
    service: ServiceOption = None
    drain: Annotated[
        bool, typer.Option("--drain", help="End when nothing is left on the stream.")
    ] = False
    descriptor: Annotated[int | None, typer.Option(hidden=True)] = None
    """Of the socket to the monitor whose child this is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceiveOptions:
    """Score applications in any language: take the spans that they send by OTLP.

    Spans in the conventions of OpenInference, OpenLLMetry and OpenTelemetry's GenAI become
    interactions; their scores go out as linked spans, to /metrics and to the page, as the settings
    say. Ctrl-C or SIGTERM ends it in order. docs/receive.md says how applications are set up.
    """

    service: ServiceOption = None
    judge: Annotated[
        str | None,
        typer.Option(
            help="A litellm model, which needs a budget, or 'encoder:MODEL'; by default as the "
            "settings say."
        ),
    ] = None
    budget: Annotated[str | None, typer.Option(help="What the judge may spend: usd_per_day=5.")] = (
        None
    )
    send_to: Annotated[
        str | None,
        typer.Option(
            help="Put the interactions there instead, for `ragmonitor worker` to score: "
            "redis://host:6379/0."
        ),
    ] = None
    host: Annotated[
        str,
        typer.Option(help="Address to listen on for spans; beyond loopback with a token only."),
    ] = "127.0.0.1"
    http_port: Annotated[
        int, typer.Option(min=0, max=65535, help="For OTLP over HTTP; 0 for any free one.")
    ] = 4318
    source: Annotated[
        str | None,
        typer.Option(
            "--from",
            help="Read spans off this topic, too: kafka://broker:9092/otlp_spans; better as "
            "RAGMONITOR_RECEIVE__KAFKA, if it has a password.",
        ),
    ] = None
    ui: Annotated[bool, typer.Option("--ui", help="Serve the page beside /metrics.")] = False
