"""`ragmonitor rollout`: a decision on live versions, by its exit code."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import pytest
from typer.testing import CliRunner

from ragmonitor.causes.versions import VersionDifference
from ragmonitor.cli import rollout
from ragmonitor.cli.app import app
from ragmonitor.cli.options import RolloutOptions


def found(lower: float, upper: float, **changes: Any) -> VersionDifference:
    """Return the difference of 1.5 and 1.4."""
    known: dict[str, Any] = {
        "by": "service_version",
        "candidate": "1.5",
        "baseline": "1.4",
        "signal": "hallucination",
        "difference": (lower + upper) / 2,
        "lower": lower,
        "upper": upper,
        "judged": 400.0,
        "higher_is_better": False,
    }
    return VersionDifference(**known | changes)


@contextmanager
def serving(*differences: VersionDifference) -> Iterator[str]:
    """Serve differences as a monitor does."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            versions = [asdict(each) for each in differences]
            record = {"service": "support", "records": {"versions": versions}}
            reply = {"services": [record]}
            body = json.dumps(reply).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()


def decided(url: str, **options: Any) -> tuple[int, list[float]]:
    """Return the exit code, and how long it slept each time."""
    now, slept = [0.0], []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        now[0] += seconds

    known: dict[str, Any] = {"service": "support", "candidate": "1.5", "baseline": "1.4"}
    given = RolloutOptions(**known | {"address": url} | options)
    return rollout.run(given, wait=sleep, clock=lambda: now[0]), slept


WORLDS = [((-0.2, -0.1), 0), ((-0.01, 0.015), 3), ((0.1, 0.2), 4)]


@pytest.mark.parametrize(("ends", "code"), WORLDS)
def test_versions_are_decided_at_the_first_look(ends, code):
    """Better, equivalent and worse."""
    with serving(found(*ends)) as url:
        assert decided(url) == (code, [])


def test_it_waits_as_long_as_it_is_undecided(capsys):
    """And says why, once."""
    with serving(found(-0.1, 0.1)) as url:
        code, slept = decided(url, timeout="35s")
    assert (code, slept) == (5, [10, 10, 10, 5])
    assert capsys.readouterr().err.count("the interval is still too wide") == 2


def test_a_version_is_not_compared_with_itself():
    """A pipeline whose two variables hold the same would pass whatever is rolled out."""
    words = ["--service", "a", "--candidate", "1.5", "--baseline", "1.5", "--timeout", "0s"]
    result = CliRunner().invoke(app, ["rollout", *words])
    assert result.exit_code == 2
    assert "are both '1.5'" in result.output


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"service": "other"}, "serves no service 'other'"),
        ({"candidate": "1.6"}, "no verdicts yet of service_version '1.6' and '1.4'"),
        ({"signal": "refusal"}, "on refusal at the same time"),
    ],
)
def test_what_is_not_known_there_is_said(options, why, capsys):
    """A wrong name is not waited for in silence."""
    with serving(found(0.1, 0.2)) as url:
        assert decided(url, timeout="0s", **options)[0] == 5
    assert why in capsys.readouterr().err
