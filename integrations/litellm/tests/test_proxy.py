"""The real proxy, as its own process, with our handler in its configuration."""

from __future__ import annotations

import json
import os
import secrets
import subprocess
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from tests.support.openai_server import refused
from tests.support.prometheus_server import REQUIRED, free_port
from tests.support.scripts import ROOT
from tests.support.waiting import until

pytestmark = [pytest.mark.stack, pytest.mark.slow]

CONFIG = """
model_list:
  - model_name: answering
    litellm_params: {{model: openai/answering-1, api_base: "{api_base}", api_key: none}}
litellm_settings:
  callbacks: [ragmonitor_litellm.proxy_handler]
  num_retries: 1
"""
SAID = {"query": "How often?", "chunks": ["Serviced every six months."]}


def require_proxy() -> str:
    """Return a Python that has the proxy; skip without it, or fail where servers are required."""
    own = ROOT / ".litellm-proxy" / "bin" / "python"
    found = os.environ.get("LITELLM_PROXY_PYTHON") or (str(own) if own.exists() else None)
    if found is None:
        message = "the litellm proxy is not installed (make proxy)"
        if os.environ.get(REQUIRED) == "1":
            pytest.fail(message)
        pytest.skip(message)
    return found


class Proxy:
    """What a client sees of it, and what was reported."""

    def __init__(self, url: str, key: str, reports: Path) -> None:
        self.url = url
        self._key = key
        self._reports = reports

    def ask(self, *, headers=None, **body):
        """Return the reply's text."""
        body = {"model": "answering", "messages": [{"role": "user", "content": "Hello."}], **body}
        request = Request(f"{self.url}/v1/chat/completions", json.dumps(body).encode())
        named = {"Content-Type": "application/json", "Authorization": f"Bearer {self._key}"}
        for name, value in (named | (headers or {})).items():
            request.add_header(name, value)
        with urlopen(request, timeout=30) as reply:
            return reply.read().decode()

    def reports(self, count):
        """Return the reports since last time, once there are as many."""

        def enough():
            lines = self._reports.read_text(encoding="utf-8").splitlines()
            return lines if len(lines) >= count else None

        lines = until(f"{count} reports", enough)
        self._reports.write_text("", encoding="utf-8")
        return [json.loads(line) for line in lines]


@pytest.fixture
def proxy(server, tmp_path):
    python = require_proxy()
    port, key, reports = free_port(), f"sk-{secrets.token_hex(32)}", tmp_path / "out.jsonl"
    reports.touch()
    (tmp_path / "config.yaml").write_text(CONFIG.format(api_base=server.api_base))
    program = str(Path(python).with_name("litellm"))
    with (tmp_path / "log").open("w") as log:
        process = subprocess.Popen(
            [program, "--config", "config.yaml", "--host", "127.0.0.1", "--port", str(port)],
            cwd=tmp_path,
            env={
                **os.environ,
                "LITELLM_MASTER_KEY": key,
                "LITELLM_LOCAL_MODEL_COST_MAP": "True",
                "RAGMONITOR_EXPORTERS": f"jsonl:{reports}",
                "RAGMONITOR_SERVER": "false",
            },
            stdout=log,
            stderr=log,
        )
    url = f"http://127.0.0.1:{port}"

    def is_up():
        assert process.poll() is None
        with urlopen(f"{url}/health/liveliness", timeout=2) as reply:
            return reply.status == 200

    try:
        until("the proxy is up", is_up, within_s=120)
        yield Proxy(url, key, reports)
    finally:
        process.terminate()
        process.wait(30)
    said = (tmp_path / "log").read_text(encoding="utf-8")
    assert "ragmonitor: " not in said


def test_the_proxy_reports_what_its_clients_say(proxy, server, story):
    """One interaction for each answer, however often it was tried; one start for all facts."""
    metadata = {"ragmonitor": SAID, "session_id": "s-1"}

    # A completion, with chunks in the body.
    assert story.ANSWER in proxy.ask(metadata=metadata)
    (report,) = proxy.reports(1)
    assert report["framework"] == "litellm"
    assert (report["question"], report["contexts"]) == (SAID["query"], SAID["chunks"])
    assert (report["answer"], report["session_id"]) == (story.ANSWER, "s-1")
    assert report["evaluations"]["faithfulness"] == {"score": 1.0}
    assert "metadata" not in server.chats[-1].body

    # A stream, with JSON as the metadata's text, as OpenAI's clients send it.
    metadata["ragmonitor"] = json.dumps(SAID)
    assert "[DONE]" in proxy.ask(metadata=metadata, stream=True)
    (report,) = proxy.reports(1)
    assert (report["question"], report["answer"]) == (SAID["query"], story.ANSWER)

    # The session in a header, and a call that says nothing before it.
    proxy.ask()
    proxy.ask(metadata={"ragmonitor": SAID}, headers={"x-litellm-session-id": "s-2"})
    (report,) = proxy.reports(1)
    assert report["session_id"] == "s-2"

    # A retry is no interaction of its own; giving up is one error, told at once.
    server.script(refused(500))
    assert story.ANSWER in proxy.ask(metadata=metadata)
    assert [r["status"] for r in proxy.reports(1)] == ["ok"]
    server.script(*[refused(500)] * 2)
    with pytest.raises(HTTPError) as caught:
        proxy.ask(metadata=metadata)
    caught.value.close()
    assert [r["status"] for r in proxy.reports(1)] == ["error"]
