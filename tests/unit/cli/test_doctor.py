"""`ragmonitor doctor`: what is wrong is found, and said with what to do."""

from __future__ import annotations

import json
import threading
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from typer.testing import CliRunner

from ragmonitor import Monitor
from ragmonitor.cli import doctor
from ragmonitor.cli.app import app
from ragmonitor.cli.masking import masked
from ragmonitor.records import JudgeUsage
from ragmonitor.runtime.addresses import shown
from ragmonitor.runtime.errors import SettingsError
from ragmonitor.settings import Settings
from ragmonitor.testing import ScriptedJudge
from tests.support import stories


@pytest.fixture(autouse=True)
def _plain(tmp_path, monkeypatch):
    """Give each test a port and a folder of its own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RAGMONITOR_SERVER__PORT", "0")


def run(*arguments):
    result = CliRunner().invoke(app, ["doctor", *arguments])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def checks(result):
    return {check["name"]: check for check in json.loads(result.stdout)["checks"]}


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("judge openai/m", {"JUDGE": "openai/m"}),
        ("langfuse", {"EXPORTERS": "langfuse:http://127.0.0.1:1,jsonl:reports.jsonl"}),
    ],
)
def test_a_judge_or_exporter_with_which_no_monitor_starts_is_found(name, values, monkeypatch):
    """The check says it in the words of the monitor's own refusal, and the others are done."""
    for variable, value in values.items():
        monkeypatch.setenv(f"RAGMONITOR_{variable}", value)
    with pytest.raises(SettingsError) as refusal:
        Monitor()
    result = run("--json")
    assert result.exit_code == 1
    found = checks(result)
    assert found[name]["finding"] == str(refusal.value)
    assert ("jsonl" in found) is (name == "langfuse")


def test_every_judge_is_asked(monkeypatch):
    """Fallbacks, too, each alone: they are needed when it is too late to try."""
    monkeypatch.setenv("RAGMONITOR_JUDGE", "openai/a")
    monkeypatch.setenv("RAGMONITOR_JUDGE__FALLBACKS", "openai/b,openai/c")
    monkeypatch.setenv("RAGMONITOR_BUDGET", "calls_per_day=9")
    found = [name for name, _ in doctor.probes(Settings.load())]
    judges = ["builtin", "openai/a", "openai/b", "openai/c"]
    assert [name for name in found if name.startswith("judge ")] == [f"judge {n}" for n in judges]


def test_what_failed_stands_first_and_last_and_settings_only_where_asked(monkeypatch):
    """Between them a table of all probes."""
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")
    lines = run().stdout.strip().splitlines()
    assert lines[1].startswith("FAILED traces: http://127.0.0.1:1")
    assert lines[-1].endswith("probes failed: traces")
    assert "sample.rate" not in "".join(lines)
    assert "sample.rate" in run("--settings").stdout


HUSH = "h4sh-" + "xyzzy" * 3


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("RAGMONITOR_JUDGE__API_BASE", f"http://me:{HUSH}@127.0.0.1:1/v1"),
        ("RAGMONITOR_EXPORTERS", f"phoenix:http://me:{HUSH}@127.0.0.1:1"),
        ("RAGMONITOR_CONTENT__HASH_KEY", HUSH),
        ("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://me:{HUSH}@127.0.0.1:1"),
        ("OPENAI_API_KEY", HUSH),
    ],
)
def test_no_key_is_shown(monkeypatch, name, value):
    """Wherever it stands in a setting or a variable: a server may quote the one that it refuses."""
    monkeypatch.setenv("RAGMONITOR_JUDGE", "openai/m")
    monkeypatch.setenv("RAGMONITOR_BUDGET__CALLS_PER_DAY", "1")
    monkeypatch.setenv(name, value)
    assert HUSH not in masked(f"key {HUSH} at {value}: 401")
    assert HUSH not in repr(list(doctor.described(Settings.load())))


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("http://me:secret@h:1/v1", "http://***@h:1/v1"),
        ("http://h:1/v1", "http://h:1/v1"),
        ("http://t/{trace_id}?span={span_id}", "http://t/{trace_id}?***"),
        ("http://[half?key=abc", "http://***"),
        ("no address: a/b // c", "no address: a/b // c"),
    ],
)
def test_addresses_are_shown_without_what_is_secret(address, expected):
    """Scheme, host, port and path say where it goes; the rest may be a key."""
    assert shown(address) == expected


@pytest.fixture
def blocked(tmp_path):
    """Return a path at which neither a file nor a folder can be made, not even by root."""
    (tmp_path / "blocker").write_text("")
    return tmp_path / "blocker" / "inside"


@pytest.mark.parametrize(
    ("variable", "setting", "lost"),
    [
        ("RAGMONITOR_STATE", "state", "would be lost at each restart"),
        ("RAGMONITOR_EXPORTERS", "jsonl", "every report would be lost"),
    ],
)
def test_a_place_that_cannot_be_written_is_found(monkeypatch, blocked, variable, setting, lost):
    """With what would be lost, and the exit code that a deployment's check sees."""
    monkeypatch.setenv(variable, f"jsonl:{blocked}" if setting == "jsonl" else str(blocked))
    result = run("--json")
    check = checks(result)[setting]
    assert (result.exit_code, check["state"]) == (1, "failed")
    assert lost in check["finding"]
    assert "Not a directory" in check["finding"]
    assert variable in check["remedy"]


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


def test_a_port_that_another_program_has_is_found(monkeypatch):
    """Scrapes would go to the wrong place."""
    with answering("hello") as port:
        monkeypatch.setenv("RAGMONITOR_SERVER__PORT", str(port))
        result = run("--json")
    check = checks(result)["metrics"]
    assert (result.exit_code, check["state"]) == (1, "failed")
    assert "RAGMONITOR_SERVER__PORT" in check["remedy"]


def test_no_port_is_looked_for_where_any_free_one_is_taken(monkeypatch):
    """Port 0 is no port."""
    monkeypatch.setenv("RAGMONITOR_SERVER__PORT", "0")
    assert checks(run("--json"))["metrics"]["finding"].startswith("any free port")


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
    check = doctor.checked("judge", partial(doctor.read_trial, lambda: judge))
    assert check["state"] == state
    assert "1 call, 320 tokens, 0.012300 USD" in check["finding"]
    assert len(judge.asked) == 1


def test_an_endpoint_at_which_nothing_arrives_is_not_fine(monkeypatch):
    """The address lacks its scheme."""
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "127.0.0.1:4318")
    found = checks(run("--json"))["traces"]
    assert found["state"] == "failed"
    assert "http://" in found["finding"]


def test_looking_leaves_no_trace(monkeypatch, tmp_path):
    """What is missing stays missing, and what is there is as it was."""
    (tmp_path / "r.jsonl").write_text("{}\n")
    (tmp_path / "r.jsonl").chmod(0o600)
    (tmp_path / "made").mkdir(0o700)
    monkeypatch.setenv("RAGMONITOR_EXPORTERS", f"jsonl:{tmp_path}/r.jsonl")
    before = sorted(tmp_path.rglob("*"))
    for folder in ("made", "new/inner"):
        monkeypatch.setenv("RAGMONITOR_STATE", str(tmp_path / folder))
        found = checks(run("--json"))
        assert (found["state"]["state"], found["jsonl"]["state"]) == ("ok", "ok")
    assert sorted(tmp_path.rglob("*")) == before
    assert (tmp_path / "r.jsonl").read_text() == "{}\n"
