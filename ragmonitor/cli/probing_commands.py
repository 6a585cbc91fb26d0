"""`ragmonitor probe`: asks a running service golden questions, and serves the scores."""

from __future__ import annotations

import os
import signal
import threading
from string import Template
from typing import Any, Final

from ragmonitor.cli.options import AskOptions, ProbeOptions
from ragmonitor.cli.services import served
from ragmonitor.cli.terminal import FINE, SOMETHING_WRONG, print_json, say
from ragmonitor.goldens.asking import HttpAsk
from ragmonitor.goldens.golden import read_goldens
from ragmonitor.monitor import Monitor
from ragmonitor.runtime.durations import duration_s
from ragmonitor.runtime.errors import InputError
from ragmonitor.semconv import metrics
from ragmonitor.settings import ExportSettings, Settings

FLUSH_TIMEOUT_S: Final = 120.0
RETRIES: Final = 2
"""Attempts after a failed connection or a busy reply."""


def run(options: ProbeOptions) -> int:
    """Ask until Ctrl-C or SIGTERM, or each question once; return the exit code.

    Raises:
        RagMonitorError: The file, the address, a path or a setting is wrong.
    """
    ask = http_ask(options, options.url)
    goldens = read_goldens(options.goldens)
    server = Settings.load().server
    server = server.model_copy(update={"enabled": server.enabled and not options.once})
    export = ExportSettings(traces=False)
    with Monitor(options.service, worker="thread", export=export, server=server) as monitor:
        if not options.once:
            say(served(monitor.start().settings))
        probe = monitor.probe(
            ask,
            goldens,
            every=options.every,
            timeout_s=duration_s(options.timeout, "--timeout") * (1 + RETRIES),
            once=options.once,
        )
        stopping, said_failures = threading.Event(), set[str]()
        before = signal.signal(signal.SIGTERM, lambda *_: stopping.set())
        try:
            while probe.is_running and not stopping.wait(0.2):
                _say_failures(probe.failures, said_failures)
        except KeyboardInterrupt:
            stopping.set()
        finally:
            signal.signal(signal.SIGTERM, before)
        probe.stop()
        _say_failures(probe.failures, said_failures)
        monitor.flush(FLUSH_TIMEOUT_S)
        results = figures(monitor)
    if options.json_output:
        print_json(results)
    else:
        asks = [f"{n} {outcome}" for outcome, n in results["asks"].items()]
        say(", ".join(asks) or "nothing was asked")
        for name, row in results["scores"].items():
            say(f"{name} {row['mean']:.2f} ({row['lower']:.2f} to {row['upper']:.2f})")
    return FINE if results["asks"].get("answered") else SOMETHING_WRONG


def _say_failures(failures: dict[str, str], said_failures: set[str]) -> None:
    """Say the first failure of each outcome; the counter has the others."""
    for outcome, detail in list(failures.items()):
        if outcome not in said_failures:
            said_failures.add(outcome)
            say(f"{outcome}: {detail}")


def http_ask(options: AskOptions, url: str) -> HttpAsk:
    """Return a client that asks a service by the options. Raises `InputError`."""
    return HttpAsk(
        url,
        question_field=options.question_field,
        answer_path=options.answer_path,
        contexts_path=options.contexts_path,
        headers=headers_of(options.header or ()),
        timeout_s=duration_s(options.timeout, "--timeout"),
        retries=RETRIES,
    )


def headers_of(lines: Any) -> dict[str, str]:
    """Return the headers in texts such as `Authorization: Bearer $TOKEN`.

    A variable of the environment stands as `$NAME` or `${NAME}`, a dollar sign as `$$`: secrets on
    a command line can be read by every user of the machine.

    Raises:
        InputError: A text has no name, or names a variable that is not set.
    """
    # A variable that was read from a file often ends with a line break.
    variables = {name: value.strip() for name, value in os.environ.items()}
    headers = {}
    for text in lines:
        name, _, value = text.partition(":")
        try:
            headers[name.strip()] = Template(value.strip()).substitute(variables)
        except (KeyError, ValueError) as error:
            raise InputError(
                f"--header {name.strip()}: no such variable is set ({error}); write $$ for a "
                "dollar sign"
            ) from None
    if not all(headers):
        raise InputError("--header: give NAME: VALUE")
    return headers


def figures(monitor: Monitor) -> dict[str, Any]:
    """Return the golden questions' gauges of the last hour as one object."""
    scores: dict[str, Any] = {}
    results: dict[str, Any] = {"asks": {}, "scores": scores}
    for family in monitor.registry.collect():
        for sample in family.samples:
            name, labels, value = sample.name, sample.labels, sample.value
            if name == f"{metrics.GOLDEN_ASKS}_total":
                results["asks"][labels["outcome"]] = round(value)
            elif name == metrics.GOLDEN_SCORE and labels["window"] == "1h":
                row = scores.setdefault(labels["evaluator"], {})
                row[labels["bound"]] = round(value, 4)
    return results
