"""The page's numbers and files, over real HTTP."""

from __future__ import annotations

import http.client
import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from importlib import resources
from typing import Any
from urllib.parse import urlsplit

import pytest

from ragmonitor.export import PrometheusExporter, View
from ragmonitor.export.content import compact_json
from ragmonitor.export.server import Reply
from ragmonitor.export.view.page import MAX_ANSWERS
from ragmonitor.records import (
    AlarmState,
    Cause,
    Diagnosis,
    GaugeValue,
    SeriesKey,
    Snapshot,
    Unscored,
)
from ragmonitor.settings import Settings
from ragmonitor.testing import ManualClock
from tests.unit.export.examples import LEXICAL, MODEL, interaction, report, sums, windowed

TOKEN = "a token of enough length"


@pytest.fixture(autouse=True)
def _one_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PROMETHEUS_MULTIPROC_DIR", raising=False)


def view(**options: Any) -> View:
    given = {"builtin": "builtin", "judge": MODEL.name, **options}
    told = {name: given.pop(name) for name in ("content", "server") if name in given}
    return View(Settings.load(service="shop", **told), **given)


def state(shown: View, **query: str) -> dict[str, Any]:
    told: dict[str, Any] = json.loads(compact_json(shown.state(**query)))
    return told


def answers(shown: View, **query: str) -> dict[str, Any]:
    told: dict[str, Any] = json.loads(compact_json(shown.answers(query)))
    return told


def snapshot(**changes: Any) -> Snapshot:
    return replace(
        Snapshot(
            means=windowed(
                (SeriesKey(signal="hallucination", judge=MODEL.name), "1h", sums(1, 0, 0, 0)),
                (SeriesKey(signal="hallucination", judge=MODEL.name), "24h", sums(1, 0)),
                (SeriesKey(signal="hallucination", judge="builtin"), "1h", sums(1, 1, 0, 0)),
                (SeriesKey(signal="empty_retrieval", judge="none"), "1h", sums(0, 0)),
                (
                    SeriesKey(
                        signal="hallucination", judge=MODEL.name, dimension="route", group="/chat"
                    ),
                    "1h",
                    sums(1, 0),
                ),
            ),
            alarms=(
                AlarmState(
                    signal="hallucination",
                    judge=MODEL.name,
                    kind="quality",
                    evidence_s=86_400 * 3.5,
                    active=False,
                    objective=0.1,
                ),
            ),
            gauges=(GaugeValue(name="ragmonitor_alarm_threshold_seconds", value=30 * 86_400.0),),
        ),
        **changes,
    )


def bad(n: int, judge=MODEL, **changes: Any):
    asked = interaction(id=f"i-{n}", query=f"question {n}")
    return report(judge, **{"interaction": asked, "diagnosis": Diagnosis.CONTRADICTION, **changes})


@contextmanager
def served(shown: View | None) -> Iterator[str]:
    exporter = PrometheusExporter(
        Settings.load(service="shop", server={"port": 0}), pages=shown and shown.reply
    )
    exporter.refresh(snapshot=Snapshot(), queue_depth=0)
    try:
        assert exporter.url is not None
        yield exporter.url.removesuffix("/metrics")
    finally:
        exporter.close()


def get(
    base: str, target: str, *, method: str = "GET", **headers: str
) -> tuple[int, http.client.HTTPMessage, str]:
    place = urlsplit(base)
    connection = http.client.HTTPConnection(place.hostname or "", place.port or 0, timeout=10)
    connection.request(method, target, headers=headers)
    reply = connection.getresponse()
    body = reply.read().decode()
    connection.close()
    return reply.status, reply.headers, body


# --- numbers -------------------------------------------------------------------------------------


def test_every_number_has_its_judge_and_its_interval():
    """The sampled judge, the built-in judge, or none."""
    shown = view()
    shown.snapshot(snapshot())
    numbers = {(n["signal"], n["judge"], n["window"]): n for n in state(shown)["numbers"]}
    judged = numbers["hallucination", MODEL.name, "1h"]
    wanted = {"scored": 4, "mean": 0.25, "lower": 0.15, "upper": 0.35, "coverage": 1.0}
    assert judged.items() >= wanted.items()
    assert {("hallucination", "builtin", "1h"), ("empty_retrieval", "none", "1h")} <= set(numbers)


def test_the_chart_is_of_one_signal_since_the_start():
    """Points stand further apart the more there are; what was missing is a gap."""
    clock = ManualClock()
    shown = view(now=clock)
    shown.snapshot(Snapshot())
    for _ in range(1_000):
        clock.advance(4.0)
        shown.snapshot(snapshot())
    chart = state(shown, signal="hallucination")["chart"]
    assert (chart["judge"], len(chart["times"]), chart["mean"][-1]) == (MODEL.name, 501, 0.25)
    assert (chart["mean"][0], chart["upper"][-1]) == (None, 0.35)


def test_a_judge_that_never_reads_is_told_with_its_reason():
    """After three failures in a row; a verdict ends it."""
    shown = view()
    failure = (
        Unscored(
            evaluator="faithfulness@1",
            judge=MODEL,
            cause=Cause.JUDGE_ERROR,
            detail="litellm knows no price of this model",
        ),
    )
    for n in range(3):
        assert state(shown)["mute"] is None
        shown.export(bad(n, assessment=None, diagnosis=None, evaluations=failure))
    mute = state(shown)["mute"]
    assert (mute["cause"], "no price" in mute["detail"]) == ("judge_error", True)
    shown.export(bad(4))
    assert state(shown)["mute"] is None


# --- answers -------------------------------------------------------------------------------------


def test_the_worst_answers_stand_beside_the_verdict_and_the_list_is_searched():
    """By a word of a text, by a diagnosis, by id; a reply is bounded."""
    shown = view()
    for n in range(150):
        shown.export(bad(n))
    assert [each["bad"] for each in state(shown)["worst"]] == [True] * 3
    assert len(answers(shown, n="500")["answers"]) == MAX_ANSWERS
    assert answers(shown, search="Question 7", n="1")["found"] == 11
    assert answers(shown, id="i-7")["answers"][0]["question"] == "question 7"
    assert answers(shown, search="off_topic")["found"] == 0
    assert answers(shown, order="newest", search="judged")["found"] == 150


def test_it_may_be_read_while_it_is_filled():
    """By threads of the server, from the worker's."""
    clock = ManualClock()
    shown = view(now=clock)
    failures: list[Exception] = []
    stop = threading.Event()

    def read() -> None:
        while not stop.is_set():
            try:
                state(shown), answers(shown, search="question")
            except Exception as error:  # noqa: BLE001 - any is a failure
                failures.append(error)

    readers = [threading.Thread(target=read) for _ in range(2)]
    for reader in readers:
        reader.start()
    for n in range(400):
        clock.advance(4.0)
        shown.export(bad(n, LEXICAL))
        shown.export(bad(n))
        shown.snapshot(snapshot())
    stop.set()
    for reader in readers:
        reader.join()
    assert failures == []


# --- over HTTP -----------------------------------------------------------------------------------


def test_the_page_and_all_its_files_are_served():
    """Every file that is in the package, and every one under its type."""
    files = resources.files("ragmonitor.export.view").joinpath("files")
    with served(view()) as base:
        for file in files.iterdir():
            status, headers, body = get(base, f"/ragmonitor/{file.name}")
            assert status == 200
            assert body == file.read_text(encoding="utf-8")
            assert headers["Content-Type"].startswith(("text/", "image/svg"))
        assert get(base, "/ragmonitor/")[2] == files.joinpath("index.html").read_text("utf-8")


def test_every_reply_keeps_the_browser_strict():
    """Nothing from elsewhere, nothing embedded elsewhere, nothing kept."""
    with served(view()) as base:
        for target in ("/", "/ragmonitor/", "/ragmonitor/state.json", "/ragmonitor/view.js"):
            _, headers, _ = get(base, target)
            assert headers["Content-Security-Policy"].startswith("default-src 'self';")
            assert "frame-ancestors 'none'" in headers["Content-Security-Policy"]
            assert headers["X-Content-Type-Options"] == "nosniff"
            assert headers["Cache-Control"] == "no-store"
            assert headers["Referrer-Policy"] == "no-referrer"
            assert "Access-Control-Allow-Origin" not in headers


@pytest.mark.parametrize(
    "target",
    [
        "/ragmonitor/nothing.js",
        "/ragmonitor/../exporter.py",
        "/ragmonitor/files/view.js",
        "/ragmonitor/%2e%2e/exporter.py",
        "/other",
    ],
)
def test_there_is_nothing_else(target):
    """Only the files that are listed, whatever the path says."""
    with served(view()) as base:
        assert get(base, target)[0] == 404


def test_such_a_name_reads_no_numbers_beside_the_series():
    """Neither with the page nor without it, while /metrics.json goes on."""
    for page in (view(), None):
        with served(page) as base:
            status, _, body = get(base, "/metrics.json", Host="evil.example:7247")
            assert (status, "services" in body) == (403, False)
            assert get(base, "/metrics.json", Host="localhost:7247")[0] == 200
            assert get(base, "/metrics.json")[0] == 200


@pytest.mark.parametrize("path", ["/", "/ragmonitor", "/ragmonitor/"])
def test_the_token_is_shown_once_and_becomes_a_cookie(path):
    """The page then goes on by itself, to an address without the token."""
    with served(view(server={"token": TOKEN})) as base:
        status, headers, body = get(base, f"{path}?token={TOKEN.replace(' ', '+')}")
        assert status == 200
        assert TOKEN not in body
        cookie = headers["Set-Cookie"].split(";")[0]
        assert get(base, "/ragmonitor/state.json", Cookie=cookie)[0] == 200


class _Incidents:
    """Pages of one incident."""

    def brief(self) -> list[dict[str, Any]]:
        return []

    def reply(self, name: str, query: Mapping[str, str]) -> Reply | None:
        return Reply(status=200, body=b"{}") if name == "incidents/i-1.md" else None


def test_the_address_of_an_incident_leads_into_the_page():
    """So that it has the page's frame and language; one that is not kept is not found."""
    with served(view(incidents=_Incidents())) as base:
        status, headers, _ = get(base, "/ragmonitor/incidents/i-1?lang=zh")
        assert (status, headers["Location"]) == (302, "../#incident=i-1&lang=zh")
        assert get(base, "/ragmonitor/incidents/i-1.md")[0] == 200
        assert get(base, "/ragmonitor/incidents/i-2")[0] == 404


def test_texts_that_are_not_shown_are_not_found():
    """A search must not tell what the page withholds."""
    shown = view(content="none")
    shown.export(bad(7))
    assert answers(shown, search="question 7")["found"] == 0
    assert answers(shown, search="i-7")["found"] == 1


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE"])
def test_nothing_can_be_written(method):
    """There is no method but GET."""
    with served(view()) as base:
        assert get(base, "/ragmonitor/state.json", method=method)[0] == 501


def test_a_name_that_is_made_to_point_here_reads_nothing():
    """DNS rebinding: the browser would send its own page's name."""
    with served(view()) as base:
        status, _, body = get(base, "/ragmonitor/state.json", Host="evil.example:7247")
        assert status == 403
        assert "shop" not in body
