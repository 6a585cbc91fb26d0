"""The commands that run until they are stopped: `worker` and `receive`."""

from __future__ import annotations

import logging
import signal
import threading
from pathlib import Path

from ragmonitor.cli.options import ReceiveOptions, WorkerOptions
from ragmonitor.cli.terminal import FINE, say
from ragmonitor.runtime.addresses import UNIX
from ragmonitor.settings import Settings


def work(options: WorkerOptions) -> int:
    """Score the answers that monitors send, and return the exit code.

    Raises:
        RagMonitorError: The settings cannot be carried out.
    """
    if options.descriptor is not None:
        from ragmonitor.pipeline.worker import be_child

        be_child(options.descriptor)
        return FINE
    from ragmonitor.pipeline.stream_worker import StreamWorker
    from ragmonitor.pipeline.streams import RedisStream

    settings = Settings.load(send_to=options.send_to, service=options.service)
    stop = _begun()
    address = settings.send_to
    if address is not None and address.get_secret_value().startswith(UNIX):
        from ragmonitor.pipeline.worker import serve_at

        path = Path(address.get_secret_value().removeprefix(UNIX))
        say(f"scoring answers of {settings.service!r} that come to {path}; {served(settings)}")
        serve_at(path, settings, stop)
        return FINE
    worker = StreamWorker(settings, RedisStream.of(settings))
    say(f"scoring answers of {settings.service!r}; {served(settings)}")
    worker.run(stop, drain=options.drain)
    return FINE


def receive(options: ReceiveOptions) -> int:
    """Take spans until interrupted, and return the exit code.

    Raises:
        RagMonitorError: The settings cannot be carried out, or an address is taken.
    """
    from ragmonitor.receive import Receiver

    settings = Settings.load(
        service=options.service,
        receive=None if options.source is None else {"kafka": options.source},
    )
    stop = _begun()
    receiver = Receiver(settings, host=options.host, http_port=options.http_port)
    receiver.listen()
    for listener in receiver.listeners:
        say(f"taking spans of {settings.service!r}: {listener.protocol} at {listener.url}")
    say(served(settings, has_page=settings.send_to is None))
    receiver.run(stop)
    return FINE


def _begun() -> threading.Event:
    """Show our logs, and return an event that Ctrl-C and SIGTERM set."""
    logging.basicConfig(format="%(message)s")
    logging.getLogger("ragmonitor").setLevel(logging.INFO)
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    return stop


def served(settings: Settings, *, has_page: bool = True) -> str:
    """Say where /metrics is served, and the page, if this process ever has one."""
    server = settings.server
    if not server.enabled:
        return "metrics: not served"
    url = server.metrics_url()
    if not url:
        return "metrics: at any free port of this machine"
    page = f"; page: {url.removesuffix('metrics')}ragmonitor/" if server.ui and has_page else ""
    return f"metrics: {url}{page}"
