# ruff: noqa: INP001  # a script that people run by hand
"""Brings up the demo with Prometheus and Alertmanager, and shows the page fire and resolve.

    make demo-stack [ARGS="--seconds 240 --rate 8"]

Needs Debian's packages prometheus and prometheus-alertmanager; everything listens on loopback. The
rules and routes are those of deploy/, evaluated every second, and each receiver is a webhook here.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tests.support.prometheus_server import (  # noqa: E402 - the repository is not installed
    alertmanager_server,
    free_port,
    hurried_alertmanager,
    hurried_rules,
    prometheus_server,
)
from tests.support.webhook import Webhook, webhook  # noqa: E402

SPIKE = "RagMonitorHallucinationSpike"
PROGRAMS = ("prometheus", "prometheus-alertmanager")
ENDING_S = 120.0
"""How much longer than its time a demo may take."""


class Outcome(NamedTuple):
    """The times and texts of the page."""

    demo: dict[str, Any]
    """The demo's own summary."""
    page_delay_s: float | None
    """From the first spoiled answer to the page; None: there was none."""
    resolved_after_s: float | None
    """From the last spoiled answer to the message that it is over."""
    page: Mapping[str, str]
    """Annotations of the page."""
    others: set[str]
    """Names of the other alerts that were sent."""


def run(folder: Path, *, seconds: float, rate: float) -> Outcome:
    """Run the demo under the real servers and return the outcome.

    Args:
        folder: For the servers' data.
        seconds: Of the demo: 40 % before the spike, 30 % in it, 30 % after.
        rate: Questions per second.
    """
    port = free_port()
    rules = hurried_rules(ROOT / "deploy/prometheus/rules/ragmonitor.yml", folder)
    with webhook() as pager:
        routes = hurried_alertmanager(
            ROOT / "deploy/alertmanager/alertmanager.yml", folder, pager.url
        )
        with (
            alertmanager_server(routes, folder) as alertmanager,
            prometheus_server(
                f"127.0.0.1:{port}", folder, rules=[rules], alertmanager=alertmanager
            ) as prometheus,
        ):
            print(f"Prometheus    {prometheus.url}")
            print(f"Alertmanager  {alertmanager.url}")
            print(f"metrics       http://127.0.0.1:{port}/metrics\n", flush=True)
            command = [str(Path(sys.executable).with_name("ragmonitor")), "demo", "--json"]
            command += ["--seconds", f"{seconds:g}", "--rate", f"{rate:g}", "--port", str(port)]
            with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as demo:
                threading.Thread(target=_print_alerts, args=(pager, demo), daemon=True).start()
                try:
                    summary, _ = demo.communicate(timeout=seconds + ENDING_S)
                finally:
                    demo.kill()
    return _outcome(json.loads(summary.splitlines()[-1]), pager)


def _print_alerts(pager: Webhook, demo: subprocess.Popen[str]) -> None:
    """Print messages as they come."""
    began_s, seen = time.monotonic(), 0
    while demo.poll() is None:
        for message in pager.messages[seen:]:
            seen += 1
            for alert in message.content["alerts"]:
                name, status = alert["labels"]["alertname"], alert["status"]
                line = f"{message.at_s - began_s:5.0f} s  {message.receiver:<9} {status:<8} {name}"
                print(line, flush=True)
                if name == SPIKE and status == "firing":
                    print(f"         {alert['annotations']['description']}", flush=True)
        time.sleep(0.2)


def _outcome(demo: dict[str, Any], pager: Webhook) -> Outcome:
    # Messages carry the monotonic clock, the demo's spike the one on the wall.
    offset_s = time.time() - time.monotonic()
    fired, resolved = pager.find(SPIKE, "firing"), pager.find(SPIKE, "resolved")
    began_s, ended_s = (demo["spike"][name] - offset_s for name in ("began_s", "ended_s"))
    sent = [alert for message in pager.messages for alert in message.content["alerts"]]
    return Outcome(
        demo=demo,
        page_delay_s=None if fired is None else fired.at_s - began_s,
        resolved_after_s=None if resolved is None else resolved.at_s - ended_s,
        page=fired.alerts(SPIKE, "firing")[0]["annotations"] if fired else {},
        others={alert["labels"]["alertname"] for alert in sent} - {SPIKE},
    )


def main() -> int:
    """Run it and print the outcome; return 0 if the page fired and resolved."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=240.0, help="how long (240)")
    parser.add_argument("--rate", type=float, default=8.0, help="questions per second (8)")
    options = parser.parse_args()
    missing = [name for name in PROGRAMS if shutil.which(name) is None]
    if missing:
        print(f"install them first: apt-get install {' '.join(missing)}", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory() as folder:
        outcome = run(Path(folder), seconds=options.seconds, rate=options.rate)
    for what, end, seconds in (
        ("fired", "began", outcome.page_delay_s),
        ("resolved", "ended", outcome.resolved_after_s),
    ):
        after = "not once" if seconds is None else f"{seconds:.0f} s"
        print(f"page {what} {after} after the spike {end}")
    print(f"other alerts: {', '.join(sorted(outcome.others)) or 'none'}")
    return int(outcome.page_delay_s is None or outcome.resolved_after_s is None)


if __name__ == "__main__":
    sys.exit(main())
