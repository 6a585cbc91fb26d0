"""A real Phoenix, from an environment of its own, that asks for a key."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import subprocess
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.support.prometheus_server import REQUIRED, free_port
from tests.support.waiting import until

ROOT = Path(__file__).parents[2]
START_S = 120.0
"""The first start creates a database; Phoenix alone imports for some ten seconds."""

_SPANS = """
query Spans($project: String!) {
  getProjectByName(name: $project) {
    spans(first: 200) {
      edges {
        node {
          name spanKind spanId parentId statusCode
          trace { traceId }
          input { value }
          output { value }
          tokenCountTotal
          attributes
          spanAnnotations { name score label explanation annotatorKind identifier metadata }
        }
      }
    }
  }
}
"""


def require_phoenix() -> str:
    """Return the program's path; skip the test without it, or fail where servers are required."""
    own = ROOT / ".phoenix" / "bin" / "phoenix"
    found = os.environ.get("PHOENIX_BIN") or (str(own) if own.exists() else shutil.which("phoenix"))
    if found is None:
        message = "Phoenix is not installed (make phoenix)"
        if os.environ.get(REQUIRED) == "1":
            pytest.fail(message)
        pytest.skip(message)
    return found


class PhoenixServer:
    """What people see of a running server."""

    def __init__(self, port: int, api_key: str) -> None:
        self.url = f"http://127.0.0.1:{port}"
        """For `phoenix_url` and `OTEL_EXPORTER_OTLP_ENDPOINT` alike."""
        self.api_key = api_key
        """Without it nothing is taken or shown."""
        self.otlp_headers = f"authorization=Bearer%20{api_key}"
        """For `OTEL_EXPORTER_OTLP_HEADERS`."""

    def is_ready(self) -> bool:
        """Return whether it takes traces."""
        with urllib.request.urlopen(f"{self.url}/readyz", timeout=5) as reply:
            return bool(reply.status == 200)

    def spans(self, project: str) -> dict[str, dict[str, Any]]:
        """Return a project's spans by name, as the pages read them; empty: there are none yet.

        `attributes` are nested, `annotations` by name and identifier.
        """
        found = self._query(_SPANS, project=project)["getProjectByName"]
        spans = {}
        for edge in found["spans"]["edges"] if found else ():
            span = edge["node"]
            span["attributes"] = json.loads(span["attributes"])
            span["annotations"] = {
                (each["name"], each["identifier"]): each for each in span["spanAnnotations"]
            }
            assert len(span["annotations"]) == len(span["spanAnnotations"])
            spans[span["name"]] = span
        return spans

    def _query(self, query: str, **variables: Any) -> Any:
        request = urllib.request.Request(
            f"{self.url}/graphql",
            json.dumps({"query": query, "variables": variables}).encode(),
            {"Content-Type": "application/json", "Authorization": f"Bearer {self.api_key}"},
        )
        with urllib.request.urlopen(request, timeout=10) as reply:
            told = json.load(reply)
        assert "errors" not in told, told["errors"]
        return told["data"]


@contextmanager
def phoenix_server(folder: Path) -> Iterator[PhoenixServer]:
    """Run a server with a database of its own, until the block is left."""
    binary = require_phoenix()
    port = free_port()
    api_key = secrets.token_hex(32)
    clean = {name: value for name, value in os.environ.items() if not name.startswith("PHOENIX_")}
    with (folder / "phoenix.log").open("wb") as log:
        process = subprocess.Popen(
            [binary, "serve"],
            stdout=log,
            stderr=subprocess.STDOUT,
            env={
                **clean,
                "PHOENIX_WORKING_DIR": str(folder),
                "PHOENIX_HOST": "127.0.0.1",
                "PHOENIX_PORT": str(port),
                "PHOENIX_GRPC_PORT": str(free_port()),
                "PHOENIX_ENABLE_AUTH": "true",
                "PHOENIX_SECRET": secrets.token_hex(32),
                "PHOENIX_ADMIN_SECRET": api_key,
                "PHOENIX_TELEMETRY_ENABLED": "false",
                "PHOENIX_ALLOW_EXTERNAL_RESOURCES": "false",
            },
        )
        try:
            server = PhoenixServer(port, api_key)
            until("Phoenix is ready", server.is_ready, within_s=START_S)
            yield server
        finally:
            process.terminate()
            try:
                process.wait(timeout=20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
