"""`ragmonitor receive`."""

from __future__ import annotations

import logging
import signal
import threading

from ragmonitor.cli.options import ReceiveOptions
from ragmonitor.cli.terminal import FINE, say
from ragmonitor.receive import Receiver
from ragmonitor.settings import Settings
from ragmonitor.wiring import redactor_of, restrict_logs


def run(options: ReceiveOptions) -> int:
    """Take spans until interrupted, and return the exit code.

    Raises:
        RagMonitorError: The settings cannot be carried out, or an address is taken.
    """
    addresses = {
        name: value
        for name in ("host", "http_port", "grpc_port")
        if (value := getattr(options, name)) is not None
    }
    settings = Settings.load(
        service=options.service,
        judge=options.judge,
        budget=options.budget,
        stream=options.stream,
        receive=addresses,
        server={"ui": True} if options.ui else None,
    )
    logging.basicConfig(format="%(message)s")
    logging.getLogger("ragmonitor").setLevel(logging.INFO)
    restrict_logs(settings, None)
    receiver = Receiver(settings, redactor=redactor_of(settings, None))
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    receiver.listen()
    for listener in receiver.listeners:
        say(f"taking spans of {settings.service!r}: {listener.protocol} at {listener.url}")
    say(f"metrics: {_metrics(settings)}")
    receiver.run(stop)
    return FINE


def _metrics(settings: Settings) -> str:
    server = settings.server
    return f"http://{server.host}:{server.port}/metrics" if server.enabled else "not served"
