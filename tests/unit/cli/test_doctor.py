"""`ragmonitor doctor`: what is wrong is found, and said with what to do."""

from __future__ import annotations

import json
import socket
import threading
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from typer.testing import CliRunner

from ragmonitor.cli import doctor
from ragmonitor.cli.app import app
from ragmonitor.cli.destinations import destination, without_credentials
from ragmonitor.errors import JudgeError
from ragmonitor.records import Cause, JudgeUsage
from ragmonitor.testing import ScriptedJudge
from tests.support import stories
from tests.support.scoring_server import FakeLangfuse, FakePhoenix


@pytest.fixture(autouse=True)
def _plain(tmp_path, monkeypatch):
    """Give each test a port and a folder of its own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RAGMONITOR_PROMETHEUS_PORT", "0")


def run(*arguments):
    result = CliRunner().invoke(app, ["doctor", *arguments])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def checks(result):
    return {check["name"]: check for check in json.loads(result.stdout)["checks"]}


def test_a_sound_installation_is_fine():
    """The embedded judge tells a hallucination from a supported answer in both languages."""
    result = run("--json")
    found = checks(result)
    assert result.exit_code == 0
    for language in ("en", "zh"):
        check = found[f"judge lexical ({language})"]
        assert check["state"] == "ok"
        assert check["risk_supported"] < check["risk_hallucinated"]


def test_people_read_the_same():
    """Settings, versions, checks."""
    told = run().stdout
    assert "judge_rate" in told
    assert "opentelemetry-sdk" in told
    assert "judge lexical (zh)" in told


def test_each_setting_has_its_source(tmp_path):
    """A variable wins over the file, the file over the default."""
    (tmp_path / "ragmonitor.toml").write_text('service = "shop"\nprometheus_port = 1234\n')
    settings = {s["name"]: s for s in json.loads(run("--json").stdout)["settings"]}
    assert (settings["service"]["value"], settings["service"]["source"]) == ("shop", "file")
    assert settings["prometheus_port"] == {
        "name": "prometheus_port",
        "value": 0,
        "source": "variable",
    }
    assert settings["judge_rate"]["source"] == "default"


def test_credentials_are_not_shown(monkeypatch):
    """An address may hold a password."""
    monkeypatch.setenv("RAGMONITOR_JUDGE_API_BASE", "http://me:hush@localhost:1/v1")
    assert "hush" not in run("--json").stdout
    assert without_credentials("http://me:secret@h:1/v1") == "http://***@h:1/v1"
    assert without_credentials("http://h:1/v1") == "http://h:1/v1"


def test_bad_settings_are_exit_code_2(monkeypatch):
    """In one line."""
    monkeypatch.setenv("RAGMONITOR_JUDGE", "openai/gpt-4o-mini")
    result = run()
    assert result.exit_code == 2
    assert "has no budget" in result.stderr


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@contextmanager
def answering(text):
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, *_):
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server.server_address[1]
        finally:
            server.shutdown()
            thread.join()


def test_a_collector_that_is_not_there_is_found(monkeypatch):
    """With what to do."""
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{free_port()}")
    result = run("--json")
    check = checks(result)["traces"]
    assert (result.exit_code, check["state"]) == (1, "failed")
    assert "start the collector" in check["todo"]


def test_a_collector_that_listens_is_fine(monkeypatch):
    """A connection is all that is tried."""
    with answering("") as port:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", f"http://127.0.0.1:{port}/v1/x")
        assert checks(run("--json"))["traces"]["state"] == "ok"


def test_an_endpoint_without_a_port_has_its_protocols(monkeypatch):
    """As the exporters themselves take it."""
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "https://collector.example")
    found = destination("TRACES")
    assert found is not None
    assert (found.host, found.port) == ("collector.example", 443)


def test_a_port_that_another_program_has_is_found(monkeypatch):
    """Scrapes would go to the wrong place."""
    with answering("hello") as port:
        monkeypatch.setenv("RAGMONITOR_PROMETHEUS_PORT", str(port))
        result = run("--json")
    check = checks(result)["metrics"]
    assert (result.exit_code, check["state"]) == (1, "failed")
    assert "RAGMONITOR_PROMETHEUS_PORT" in check["todo"]


def test_a_port_that_serves_our_own_series_is_fine(monkeypatch):
    """The application is running already."""
    with answering('ragmonitor_interactions_total{service="shop"} 3\n') as port:
        monkeypatch.setenv("RAGMONITOR_PROMETHEUS_PORT", str(port))
        check = checks(run("--json"))["metrics"]
    assert check["state"] == "ok"
    assert "shop" in check["found"]


def test_a_phoenix_that_takes_scores_is_fine(monkeypatch):
    """It is asked for something that needs the key, and sent nothing."""
    with FakePhoenix(api_key="right") as phoenix:
        monkeypatch.setenv("RAGMONITOR_PHOENIX_URL", phoenix.url)
        monkeypatch.setenv("RAGMONITOR_PHOENIX_API_KEY", "right")
        result = run("--json")
    assert checks(result)["phoenix"]["state"] == "ok"
    assert [request.method for request in phoenix.requests] == ["GET"]
    assert "right" not in result.stdout


def test_a_key_that_phoenix_refuses_is_found(monkeypatch):
    """With the setting to correct."""
    with FakePhoenix(api_key="right") as phoenix:
        monkeypatch.setenv("RAGMONITOR_PHOENIX_URL", phoenix.url)
        monkeypatch.setenv("RAGMONITOR_PHOENIX_API_KEY", "wrong")
        result = run("--json")
    check = checks(result)["phoenix"]
    assert (result.exit_code, check["state"]) == (1, "failed")
    assert "answers 401; check phoenix_api_key" in check["found"]
    assert "RAGMONITOR_PHOENIX_URL" in check["todo"]


@pytest.mark.parametrize(("secret", "state"), [("sk-lf-1", "ok"), ("sk-lf-2", "failed")])
def test_langfuse_is_asked_with_its_keys(monkeypatch, secret, state):
    """Both belong to one project."""
    with FakeLangfuse("pk-lf-1", "sk-lf-1") as langfuse:
        monkeypatch.setenv("RAGMONITOR_LANGFUSE_URL", langfuse.url)
        monkeypatch.setenv("RAGMONITOR_LANGFUSE_PUBLIC_KEY", "pk-lf-1")
        monkeypatch.setenv("RAGMONITOR_LANGFUSE_SECRET_KEY", secret)
        result = run("--json")
    assert checks(result)["langfuse"]["state"] == state
    assert secret not in result.stdout


def test_a_phoenix_that_is_not_there_is_found(monkeypatch):
    """With the system's reason."""
    monkeypatch.setenv("RAGMONITOR_PHOENIX_URL", f"http://127.0.0.1:{free_port()}")
    check = checks(run("--json"))["phoenix"]
    assert check["state"] == "failed"
    assert "Connection refused" in check["found"]


USED = JudgeUsage(calls=1, input_tokens=300, output_tokens=20, cost_usd=0.0123)


@pytest.mark.parametrize(
    ("verdicts", "state"),
    [
        (("supported", "absent"), "ok"),
        (("supported", "contradicted"), "ok"),
        (("supported", "supported"), "failed"),
        (("absent", "absent"), "failed"),
    ],
)
def test_a_model_must_tell_the_sentences_apart(verdicts, state):
    """One call, and its cost is said."""
    judge = ScriptedJudge(lambda _: replace(stories.assessment(*verdicts), usage=USED))
    check = doctor.ask_judge(judge)
    assert check.state == state
    assert "0.012300 USD" in check.found
    assert len(judge.asked) == 1


def test_a_model_that_does_not_answer_is_found():
    """With where to look."""

    def fail(_):
        raise JudgeError("m", "no such model", cause=Cause.JUDGE_ERROR, retryable=False)

    check = doctor.ask_judge(ScriptedJudge(fail))
    assert check.state == "failed"
    assert "no such model" in check.found
    assert "key" in check.todo
