"""`ragmonitor worker --fleet` and `ragmonitor estimator`: several workers, and who counts."""

from __future__ import annotations

import logging
import signal
import threading

from ragmonitor.cli.options import EstimatorOptions, WorkerOptions
from ragmonitor.cli.terminal import FINE, say
from ragmonitor.fleet.estimator import Estimator
from ragmonitor.fleet.fleet_stream import fleet_stream_in
from ragmonitor.fleet.fleet_worker import FleetWorker
from ragmonitor.settings import Settings
from ragmonitor.wiring import redactor_of, restrict_logs


def work(options: WorkerOptions) -> int:
    """Score what is on the stream beside other workers, and return the exit code.

    Raises:
        RagMonitorError: The settings cannot be carried out.
    """
    settings, stop = _begun(options)
    stream = fleet_stream_in(settings)
    worker = FleetWorker(settings, stream, redactor=redactor_of(settings, None))
    say(f"scoring answers of {settings.service!r} beside others")
    worker.run(stop, drain=options.drain)
    return FINE


def estimate(options: EstimatorOptions) -> int:
    """Keep the numbers of a service, or stand by, and return the exit code.

    Raises:
        RagMonitorError: The settings cannot be carried out.
    """
    settings, stop = _begun(options)
    estimator = Estimator(settings, fleet_stream_in(settings))
    say(f"estimating {settings.service!r}, or standing by")
    estimator.run(stop, drain=options.drain)
    return FINE


def _begun(options: WorkerOptions | EstimatorOptions) -> tuple[Settings, threading.Event]:
    settings = Settings.load(stream=options.stream, service=options.service)
    logging.basicConfig(format="%(message)s")
    logging.getLogger("ragmonitor").setLevel(logging.INFO)
    restrict_logs(settings, None)
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    return settings, stop
