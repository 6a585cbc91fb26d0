"""The page in a real browser."""

from __future__ import annotations

import json
import os
import re
import threading
import urllib.request
from collections.abc import Iterator
from dataclasses import replace
from email.message import Message
from pathlib import Path
from typing import Any, Literal, get_args
from urllib.parse import urlsplit

import pytest

from ragmonitor import guard
from ragmonitor.causes.events import EventKind
from ragmonitor.estimation import summarise
from ragmonitor.export import PrometheusExporter, View
from ragmonitor.export.server import Reply
from ragmonitor.feedback import JoinedFeedback, feedback_of
from ragmonitor.incidents import BadAnswer, as_html
from ragmonitor.incidents.incident_pages import IncidentPages
from ragmonitor.records import (
    AlarmCause,
    AlarmEvent,
    AlarmSpan,
    AlarmState,
    Cause,
    Chunk,
    Diagnosis,
    GaugeValue,
    Interaction,
    Moments,
    Report,
    Scored,
    SentenceVerdict,
    SeriesKey,
    Snapshot,
    Unscored,
    Verdict,
)
from ragmonitor.testing import ManualClock
from tests.support.browser import Page, browser
from tests.support.incidents import Scene, ScriptedFinder, candidate, raised
from tests.unit.estimation.test_golden_questions import Asking
from tests.unit.export.examples import LEXICAL, MODEL, TARGET, assessment, interaction, report

pytestmark = [pytest.mark.stack, pytest.mark.slow]

SCRIPT = "<script>window.broken = true</script><img src=x onerror='window.broken = true'>"
SERVICE = f"shop {SCRIPT}"
TRACES = "http://traces.example/trace/{trace_id}"
DOCUMENTS = {
    "documents": {
        "answers": 600,
        "kept": 3,
        "listed": [
            {
                "document": name,
                "retrieved": 90,
                "shown": 80,
                "rests_on": 40,
                "contradicted": contradicted,
                "last_s": 1_795_000_000.0,
            }
            for name, contradicted in (("d7.md", 30), ("policy", 2), (SCRIPT, 0))
        ],
    }
}
ANSWER = "The upload limit is 9 MB 😀 per file. Ask in Helsinki."


@pytest.fixture(autouse=True)
def _one_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PROMETHEUS_MULTIPROC_DIR", raising=False)


def asked(n: int, **changes: Any) -> Interaction:
    base = interaction(
        id=f"i-{n}",
        query=f"Question {n} {SCRIPT}",
        answer=ANSWER,
        chunks=(
            Chunk(text=f"Intro.\nThe upload limit is 3.5 MB per file. {SCRIPT}", id="policy"),
            Chunk(text="Something else entirely.", id="other"),
        ),
        attributes={"route": "/chat" if n % 2 else "/search"},
        framework="langchain" if n % 2 else "llama_index",
    )
    return replace(base, ended_ns=base.ended_ns + n * 1_000_000_000, **changes)


def wrong(n: int, judge=MODEL, **changes: Any) -> Report:
    middle = ANSWER.index(" Ask")
    sentences = (
        SentenceVerdict(
            text=ANSWER[:middle],
            start=0,
            end=middle,
            verdict=Verdict.CONTRADICTED,
            chunks=(0,),
            words=("9 MB",),
            reasons=("number",),
        ),
        SentenceVerdict(
            text=ANSWER[middle + 1 :],
            start=middle + 1,
            end=len(ANSWER),
            verdict=Verdict.ABSENT,
            words=("Helsinki",),
        ),
    )
    evaluations = (
        Scored(evaluator="faithfulness@1", judge=judge, score=(n % 10) / 10),
        Scored(evaluator="answer_relevancy@1", judge=judge, score=0.9),
    )
    return report(
        judge,
        **{
            "interaction": asked(n),
            "assessment": assessment(judge, sentences=sentences, language="en"),
            "evaluations": evaluations,
            "diagnosis": Diagnosis.CONTRADICTION if n % 3 else Diagnosis.RETRIEVAL_MISS,
            "target": TARGET,
            **changes,
        },
    )


def timed_out(n: int) -> Report:
    evaluations = (Unscored(evaluator="faithfulness@1", judge=MODEL, cause=Cause.JUDGE_TIMEOUT),)
    return wrong(n, assessment=None, diagnosis=None, evaluations=evaluations)


def sums(bad: int, all_: int) -> Moments:
    total = Moments()
    for n in range(all_):
        total += Moments.of(float(n < bad))
    return total


def numbers(bad: int, evidence_days: float, *, active: bool) -> Snapshot:
    hallucination = {"signal": "hallucination", "judge": MODEL.name}
    learning = AlarmState(
        signal="faithfulness",
        judge=MODEL.name,
        kind="quality",
        evidence_s=86_400 * 0.0,
        active=False,
        objective=None,
        learned=0.41,
        higher_is_better=True,
    )
    rate = AlarmState(
        **hallucination,
        kind="quality",
        evidence_s=86_400 * evidence_days,
        active=active,
        since_s=1_795_000_000.0 if active else None,
        objective=0.05,
    )
    return Snapshot(
        moments=(
            (SeriesKey(**hallucination), "1h", sums(bad, 100)),
            (SeriesKey(**hallucination), "24h", sums(bad, 400)),
            (SeriesKey(signal="hallucination", judge="builtin"), "1h", sums(2 * bad, 400)),
            (SeriesKey(signal="faithfulness", judge=MODEL.name), "1h", sums(90, 100)),
        ),
        alarms=(rate, learning),
        gauges=(
            GaugeValue(name="ragmonitor_alarm_threshold_seconds", value=30 * 86_400.0),
            GaugeValue(
                name="ragmonitor_judge_sampling_rate",
                value=0.1,
                labels=(("judge", MODEL.name),),
            ),
            GaugeValue(
                name="ragmonitor_budget_limit",
                value=5.0,
                labels=(("unit", "usd"), ("per", "day")),
            ),
            GaugeValue(
                name="ragmonitor_budget_level",
                value=0.4,
                labels=(("unit", "usd"), ("per", "day")),
            ),
        ),
    )


class Shown:
    """A page that is served, and what fills it."""

    def __init__(self, **options: Any) -> None:
        self.clock = ManualClock()
        self.now = ManualClock(1_795_000_100.0)
        self.view = View(
            SERVICE,
            summarise=summarise,
            builtin="builtin",
            clock=self.clock,
            now=self.now,
            **{"judge": MODEL.name, "trace_url": TRACES, **options},
        )
        self.exporter = PrometheusExporter("shop", summarise=summarise, port=0, pages=self.view)
        self.exporter.refresh(snapshot=Snapshot(), queue_depth=0, open_runs=0, errors=guard.errors)
        self.base = str(self.exporter.url).removesuffix("/metrics")

    def fill(self, *, active: bool = False, cause: AlarmCause | None = None) -> None:
        for n in range(12):
            told = numbers(n if active else 3, 40.0 if active else 0.001, active=active)
            self.tick(replace(told, cause=cause))
        for n in range(20):
            self.view.export(wrong(n, LEXICAL))
            if n < 15:
                self.view.export(wrong(n))
        self.view.export(timed_out(99))

    def tick(self, snapshot: Snapshot) -> None:
        self.clock.advance(4.0)
        self.now.advance(4.0)
        self.view.snapshot(snapshot)


@pytest.fixture
def shown() -> Iterator[Shown]:
    built = Shown()
    yield built
    built.exporter.close()


@pytest.fixture
def page(tmp_path: Path) -> Iterator[Page]:
    with browser(tmp_path / "profile") as opened:
        yield opened


def load(page: Page, shown: Shown) -> None:
    page.driver.get(f"{shown.base}/")
    page.shows("the answers are drawn", "document.querySelectorAll('.answer').length >= 10")


def test_the_page_shows_what_is_known_and_asks_nobody_else(page: Page, shown: Shown) -> None:
    """Numbers with intervals, charts, alarms, answers; no error, no request to another place."""
    shown.fill()
    load(page, shown)
    card = page.text('.card[data-signal="hallucination"]')
    assert re.search(
        r"3\.0%\n.*0\.\d% to 8\.\d%.*100 scored.*limit: at most 5\.0%", card, re.DOTALL
    )
    assert f"scored by {MODEL.name}" in card
    assert "24 h: 0.8%" in card
    row = page.text("#numbers tbody tr")
    assert "100 scored" in row
    assert "400 scored" in row
    assert "Built-in judge only, 1 h" in page.text("#numbers thead")
    assert page.count("#estimate .band") == 1
    assert (
        page.run("return document.querySelector('#estimate .curve').getAttribute('d')").count("L")
        == 11
    )
    assert "threshold" in page.text("#evidence svg") or page.count("#evidence .limit") == 1
    assert "10%" in page.text("#facts")
    assert "$0.40 may be spent at once now" in page.text("#facts")
    assert "Learning what is usual: 41%" in page.text('.alarm[data-signal="faithfulness"]')
    assert "1 alarm armed, 1 learning" in page.text("#verdict")
    assert page.errors() == []
    asked_for = {urlsplit(url) for url in page.requests() if not url.startswith("chrome")}
    assert {url.scheme for url in asked_for} <= {"http", "data"}
    assert {url.netloc for url in asked_for if url.scheme == "http"} == {
        urlsplit(shown.base).netloc
    }


def test_an_unsupported_sentence_is_marked_beside_its_chunk(page: Page, shown: Shown) -> None:
    """The offending words stronger, and the closest passage of the chunk with it."""
    shown.fill()
    load(page, shown)
    article = ".answer.judged"
    marks = page.run(
        "return [...document.querySelector(arguments[0]).querySelectorAll('mark')].map((m) =>"
        " [m.className, [...m.childNodes].filter((n) => !n.matches?.('.hidden'))"
        ".map((n) => n.textContent).join(''), m.querySelector('strong').textContent])",
        article,
    )
    assert marks == [
        ["contradicted", "The upload limit is 9 MB 😀 per file.", "9 MB"],
        ["absent", "Ask in Helsinki.", "Helsinki"],
    ]
    assert page.run("return document.querySelector('.answer .near').textContent") == (
        "The upload limit is 3.5 MB per file."
    )
    assert page.text(f"{article} .said").startswith("The upload limit is 9 MB")
    link = page.run("return document.querySelector('.answer footer a').href")
    assert link == TRACES.replace("{trace_id}", TARGET.trace_id)
    assert page.text(f"{article} footer code") == TARGET.trace_id


def test_texts_stay_texts(page: Page, shown: Shown) -> None:
    """Of a question, a chunk, a service's name: nothing of it becomes an element, nothing runs."""
    shown.fill()
    load(page, shown)
    assert page.run("return window.broken") is None
    assert page.count("main script, main img, header script") == 0
    assert page.text("#service") == SERVICE
    assert SCRIPT in page.text(".answer h3")
    assert SCRIPT in page.text(".answer .chunk")
    assert page.errors() == []


def test_filters_leave_what_fits(page: Page, shown: Shown) -> None:
    """By who read it, cause, diagnosis, route, framework; each says how many it would leave."""
    shown.fill()
    load(page, shown)
    assert page.text("#shown") == "21 of 21 kept"
    assert page.run("return document.querySelector('.answer').className").endswith("judged")

    page.choose("basis", "builtin")
    assert page.text("#shown") == "5 of 21 kept"
    assert page.count(".answer.judged") == 0
    page.choose("basis", "")

    assert set(page.options("outcome")) == {"", "scored", "judge_timeout"}
    page.choose("outcome", "judge_timeout")
    assert page.count(".answer") == 1
    assert "Judge timed out" in page.text(".answer")
    page.choose("outcome", "")

    page.choose("diagnosis", "retrieval_miss")
    assert page.text("#shown") == "7 of 21 kept"
    page.choose("attribute", "route: /chat")
    assert page.text("#shown") == "3 of 21 kept"
    # No filter offers what the others leave nothing of.
    assert set(page.options("framework")) == {"", "langchain"}
    page.choose("framework", "langchain")
    assert page.text("#shown") == "3 of 21 kept"

    page.run("document.querySelector('#filters [name=reset]').click()")
    assert page.text("#shown") == "21 of 21 kept"


def test_what_people_said_stands_beside_the_answer(page: Page, shown: Shown) -> None:
    """As it comes, and a filter finds it; a comment is no markup."""
    shown.fill()
    load(page, shown)
    told = feedback_of("i-3", False, comment=f"no {SCRIPT}", kind="thumbs", at_s=1.0)
    shown.view.feedback(JoinedFeedback(feedback=told, answered_s=0.0))
    page.shows("it has come", "document.querySelector('#filters [name=people]').options.length > 1")
    page.choose("people", "bad")
    assert page.count(".answer") == 1
    assert "found bad by a person" in page.text(".answer header").lower()
    assert f"“no {SCRIPT}”" in page.text(".answer")
    assert not page.run("return window.broken")


def test_a_search_and_a_permalink_leave_the_answers_that_are_meant(
    page: Page, shown: Shown
) -> None:
    """By a chunk's text, a route, a trace, an id in the address; nothing is asked of the server."""
    shown.fill()
    load(page, shown)

    def search(text: str) -> str:
        page.run(
            "const s = document.querySelector('#filters [name=search]');"
            "s.value = arguments[0]; s.dispatchEvent(new Event('input'))",
            text,
        )
        return page.text("#shown")

    assert search("ROUTE: /chat") not in ("21 of 21 kept", "0 of 21 kept")
    assert search("upload LIMIT is 3.5") == "21 of 21 kept"
    assert search("no such words") == "0 of 21 kept"
    assert search("") == "21 of 21 kept"
    address = page.run("return [...document.querySelectorAll('.answer footer a')].at(-1).href")
    page.run("location.href = arguments[0]", address)
    page.shows("one answer", "document.querySelector('#shown').textContent === '1 of 21 kept'")
    page.driver.get("about:blank")
    page.driver.get(address)
    page.shows("it again", "document.querySelector('#shown').textContent === '1 of 21 kept'")


@pytest.mark.parametrize(
    ("address", "selector"),
    [
        ("answer=i-4", "#list .answer"),
        ("answer=gone", "#answers"),
        ("find=Helsinki", "#answers"),
        ("slice=route%3D%2Fchat", "#focus"),
        ("document=policy", "#focus"),
        ("incident=ID", "#incidents li"),
        ("documents-title", "#documents-title"),
    ],
)
def test_an_address_opens_the_part_that_it_names(page: Page, address: str, selector: str) -> None:
    """Once it is drawn, whether the page is opened by it or is open already; and only then."""
    scene = Scene(None, ScriptedFinder(candidate()))
    scene.keeper.alarm(raised())
    shown = Shown(incidents=IncidentPages(scene.journal))
    address = address.replace("ID", scene.incident.id)
    place = f"document.querySelector('{selector}')?.getBoundingClientRect().top"
    in_view = f"scrollY > 0 && Math.abs({place}) < 90"
    # What stands at the very end cannot be scrolled to the top.
    at_end = "scrollY + innerHeight > document.body.scrollHeight - 2"
    in_view = f"{in_view} || ({place} < innerHeight && {at_end})"
    try:
        shown.fill(active=True)
        views = DOCUMENTS
        shown.tick(replace(numbers(30, 40.0, active=True), views=views))
        page.driver.get(f"{shown.base}/ragmonitor/#{address}")
        page.shows("it is in view", in_view)
        page.run("scrollTo(0, 0); dispatchEvent(new Event('wheel'))")
        assert page.run("return scrollY") == 0
        page.run("location.hash = ''")
        page.run("location.hash = arguments[0]", address)
        page.shows("it is in view again", in_view)
        assert page.errors() == []
    finally:
        shown.exporter.close()


def test_from_an_answers_address_one_comes_to_all_answers_of_a_slice(
    page: Page, shown: Shown
) -> None:
    """The search for its id goes with the address; one that the reader wrote stays."""
    shown.fill()
    page.driver.get(f"{shown.base}/ragmonitor/#answer=i-3")
    page.shows("one answer", "document.querySelector('#shown').textContent === '1 of 21 kept'")
    page.run("location.hash = '#slice=' + encodeURIComponent('route=/chat')")
    page.shows("all of the slice", "document.querySelectorAll('.answer').length > 5")
    page.run(
        "const s = document.querySelector('#filters [name=search]');"
        "s.value = 'no such words'; s.dispatchEvent(new Event('input'));"
        "location.hash = '#document=policy'"
    )
    page.shows("nothing fits", "document.querySelector('#shown').textContent === '0 of 21 kept'")


def test_incidents_are_listed_and_open(page: Page) -> None:
    """With what moved and why; in Chinese where the page is."""
    scene = Scene(None, ScriptedFinder(candidate()))
    scene.keeper.alarm(raised())
    shown = Shown(incidents=IncidentPages(scene.journal))
    try:
        shown.fill(active=True)
        load(page, shown)
        assert "cause: document handbook.md" in page.text("#incidents")
        page.run("document.querySelector('#lang-zh').click()")
        assert "原因：文档 handbook.md" in page.text("#incidents")
        page.run("document.querySelector('#incidents a').click()")
        page.shows("the incident", "document.querySelector('h1')?.textContent.includes('幻觉率')")
        assert page.run("return document.documentElement.lang") == "zh"
        style = "return getComputedStyle(document.querySelector('table')).borderCollapse"
        assert page.run(style) == "collapse"
        assert page.errors() == []
    finally:
        shown.exporter.close()


def test_by_an_evaluator_the_lowest_score_comes_first(page: Page, shown: Shown) -> None:
    """Among those that were judged."""
    shown.fill()
    load(page, shown)
    page.choose("evaluator", "faithfulness")
    scores = page.run(
        "return [...document.querySelectorAll('.answer.judged')].map((a) =>"
        " Number(a.innerText.match(/Faithfulness ([0-9.]+)/)[1]))"
    )
    assert scores == sorted(scores)
    assert scores[0] == 0.0


def test_no_answer_so_far_is_said(page: Page, shown: Shown) -> None:
    """An empty list is no broken page."""
    shown.tick(numbers(0, 0.0, active=False))
    page.driver.get(f"{shown.base}/")
    page.shows("it says so", "document.querySelector('#empty').innerText")
    assert page.text("#empty") == "No answer so far."
    assert page.errors() == []


def test_more_answers_are_shown_when_asked_for(page: Page, shown: Shown) -> None:
    """Ten at a time."""
    shown.fill()
    load(page, shown)
    assert page.count(".answer") == 10
    page.run("document.querySelector('#more').click()")
    assert page.count(".answer") == 20


def test_it_speaks_chinese_when_asked_to_and_remembers(page: Page, shown: Shown) -> None:
    """Every label changes, none stays behind."""
    shown.fill()
    load(page, shown)
    page.run("document.querySelector('#lang-zh').click()")
    assert page.run("return document.documentElement.lang") == "zh"
    assert "幻觉率" in page.text('.card[data-signal="hallucination"]')
    assert f"由 {MODEL.name} 评分" in page.text('.card[data-signal="hallucination"]')
    assert "与检索内容矛盾" in page.text(".answer")
    assert "正在学习常态" in page.text("#alarms")
    left = page.run(
        "return document.querySelector('main').innerText.match(/[A-Z][a-z]+ [a-z]+ [a-z]+/g)"
    )
    assert {each for each in left or [] if each not in ANSWER and "else" not in each} == set()
    page.driver.refresh()
    page.shows("it is drawn again", "document.querySelectorAll('.answer').length >= 10")
    assert page.run("return document.documentElement.lang") == "zh"


def test_a_chinese_browser_is_spoken_to_in_chinese(tmp_path: Path, shown: Shown) -> None:
    """Without asking."""
    shown.fill()
    with browser(tmp_path / "profile", language="zh-CN") as page:
        load(page, shown)
        assert page.run("return document.documentElement.lang") == "zh"


def test_news_come_by_themselves_and_move_nothing(page: Page, shown: Shown) -> None:
    """Numbers change in place; new answers wait until they are asked for."""
    shown.fill()
    load(page, shown)
    first = page.run("return document.querySelector('.answer').dataset.number")
    heights = "[...document.querySelectorAll('main > section')].map((s) => s.offsetTop)"
    before = page.run(f"return {heights}")
    shown.tick(numbers(5, 0.002, active=False))
    shown.view.export(wrong(200))
    page.shows("the number is new", "document.querySelector('.card .value').innerText === '5.0%'")
    assert page.run("return document.querySelector('.answer').dataset.number") == first
    assert page.run(f"return {heights}") == before
    page.shows("it is offered", "document.querySelector('[name=fresh]').innerText === 'Show 1 new'")
    page.run("document.querySelector('[name=fresh]').click()")
    assert "Question 200" in page.text("#list")


def test_limits_and_plurals_are_written_as_people_write_them(page: Page, shown: Shown) -> None:
    """A limit of 0.997 is not written as 1.00, and one chunk is not chunks."""
    shown.fill()
    load(page, shown)
    page.run(
        "Promise.all([import('/ragmonitor/writing.js'), import('/ragmonitor/words.js')])"
        ".then(([w, t]) => { window.written = ["
        "w.boundary(0.997, 'faithfulness', true), w.boundary(2 / 3, 'faithfulness', true),"
        "w.boundary(2 / 3, 'faithfulness', false), w.boundary(0.05, 'hallucination', false),"
        "w.number(0.997), w.number(0.9996), w.number(0.985),"
        "t.t('moreChunks', { n: 1 }), t.t('moreChunks', { n: 2 }),"
        "w.percent(0.9999), w.percent(1), t.called('signal', 'golden_availability')"
        "].join('; '); })"
    )
    page.shows("both modules are there", "Boolean(window.written)")
    assert page.run("return window.written") == (
        "0.997; 0.66; 0.67; 5.0%; 0.997; 0.9996; 0.98; 1 more chunk; 2 more chunks; "
        "99%; 100%; Golden questions · Availability"
    )


def test_the_documents_are_listed_in_both_languages(page: Page, shown: Shown) -> None:
    """The one that contradicts most answers first; an application's names stay texts."""
    shown.fill()
    shown.tick(Snapshot(views=DOCUMENTS))
    load(page, shown)
    page.shows("the list is drawn", "document.querySelectorAll('#documents table').length === 1")
    assert "d7.md" in page.text("#documents tbody tr")
    assert SCRIPT in page.text("#documents-list")
    assert not page.run("return Boolean(window.broken)")
    page.run("document.querySelector('#lang-zh').click()")
    page.shows("it is Chinese", "document.querySelector('#documents-title').innerText === '文档'")
    assert page.errors() == []


def test_a_slice_and_a_document_have_a_view_with_an_address(page: Page, shown: Shown) -> None:
    """What is known of it, and its answers alone; what happened is marked on the charts."""
    told = DOCUMENTS
    rate = {"mean": 0.4, "lower": 0.3, "upper": 0.5}
    listed = [{"name": "route=/chat", "answers": 900, "share": 0.3, "judged": 90, "rate": rate}]
    shown.fill(active=True)
    known = numbers(30, 40.0, active=True)
    span = AlarmSpan(since_s=1_795_000_120.0, scored=40, bad=20, mean=0.5, before=0.03)
    alarms = (replace(known.alarms[0], span=span), *known.alarms[1:])
    events = [
        {"kind": kind, "name": SCRIPT, "at_s": 1_795_000_125.0} for kind in get_args(EventKind)
    ]
    records = {"events": events}
    views = {**told, "slices": {"listed": listed}}
    shown.tick(replace(known, alarms=alarms, records=records, views=views))
    load(page, shown)
    page.shows("marks are drawn", "document.querySelectorAll('#estimate line.mark').length === 4")
    assert "has been worse from here on" in page.run(
        "return document.querySelector('#estimate line.mark.rise title').textContent"
    )
    assert page.run("return document.querySelector('#focus').hidden")
    page.run("location.hash = '#slice=' + encodeURIComponent('route=/chat')")
    page.shows("its rate", "document.querySelector('#focus').innerText.includes('40%')")
    routes = "return [...document.querySelectorAll('.answer')].map(a => a.innerText)"
    assert page.run(routes)
    assert all("/search" not in each for each in page.run(routes))
    page.run("location.hash = '#document=d7.md'")
    page.shows("the document", "document.querySelector('#focus-title').innerText.includes('d7.md')")
    assert "Contradict it" in page.text("#focus")
    assert page.run(routes) == []
    page.run("location.hash = '#document=policy'")
    page.shows("its answers", "document.querySelectorAll('.answer').length >= 10")
    page.run("location.hash = '#answers'")
    page.shows("it is closed", "document.querySelector('#focus').hidden")
    assert page.errors() == []


def test_golden_questions_are_listed_in_both_languages(page: Page, shown: Shown) -> None:
    """Those that need somebody first: the reference that the judge rejects, then what failed."""
    asking = Asking()
    for _ in range(3):
        asking.round({SCRIPT: 1.0, "closed": 0.9, "open": 0.8})
    asking.round({SCRIPT: 1.0}, reference=False)
    asking.round({"closed": 0.0}, outcome="timeout")
    shown.fill()
    shown.tick(Snapshot(views=asking.part.views()))
    load(page, shown)
    page.shows("it is drawn", "document.querySelectorAll('#goldens tbody tr').length === 3")
    rows = page.run(
        "return [...document.querySelectorAll('#goldens tbody tr')].map(r => r.innerText)"
    )
    assert SCRIPT in rows[0]
    assert "at fault itself" in rows[0]
    assert "no answer in time" in rows[1]
    assert "3 questions with known answers." in page.text("#goldens-told")
    assert "The judge rejects 1 reference answer." in page.text("#goldens-told")
    assert not page.run("return Boolean(window.broken)")
    page.run("document.querySelector('#lang-zh').click()")
    page.shows("it is Chinese", "document.querySelector('#goldens-title').innerText === '参考问题'")
    assert "超时未回答" in page.text("#goldens tbody")
    assert page.errors() == []


def test_after_a_restart_golden_questions_are_listed_that_were_not_asked_again(
    page: Page, shown: Shown, tmp_path: Path
) -> None:
    """Their histories are kept, and nothing of their last asking; the rest of the page is drawn."""
    asking = Asking(tmp_path)
    asking.round({"open": 0.8, "closed": 0.9})
    asking.part.close()
    asking.begin()
    asking.round({"closed": 0.0}, outcome="timeout")
    shown.fill()
    shown.tick(Snapshot(views=asking.part.views()))
    load(page, shown)
    page.shows("it is drawn", "document.querySelectorAll('#goldens tbody tr').length === 2")
    rows = page.run(
        "return [...document.querySelectorAll('#goldens tbody tr')].map(r => r.innerText)"
    )
    assert "no answer in time" in rows[0]
    assert "not asked since the start" in rows[1]
    before = page.text("#live")
    shown.now.advance(4.0)
    page.shows("it goes on", f"document.querySelector('#live').innerText !== {before!r}")
    assert page.errors() == []


def test_what_cannot_be_drawn_takes_nothing_else_along(page: Page, shown: Shown) -> None:
    """The answers are there, news come, and the console says what it was."""
    shown.fill()
    told = {"questions": 1, "cause": "of a later version", "answer_correctness": None}
    shown.tick(Snapshot(views={"goldens": {**told, "faults": 0, "worst": []}}))
    load(page, shown)
    page.shows("it was tried", "!document.querySelector('#goldens').hidden")
    before = page.text("#live")
    shown.now.advance(4.0)
    page.shows("it goes on", f"document.querySelector('#live').innerText !== {before!r}")
    assert page.count(".answer") == 10
    assert any("TypeError" in each for each in page.errors())


def fine(n: int, judge=MODEL, **changes: Any) -> Report:
    """Return a report on a good answer, of which nothing was retrieved for some."""
    return wrong(
        n,
        judge,
        **{"assessment": assessment(judge, sentences=()), "diagnosis": Diagnosis.OK, **changes},
    )


def test_good_answers_are_there_with_the_scores_of_both_judges(page: Page) -> None:
    """With the service's version, what was predicted, and whether anything was retrieved."""
    shown = Shown(version="2.1")
    try:
        shown.fill()
        asked_in_vain = asked(500, chunks=(), session_id="s-7")
        confident = assessment(LEXICAL, sentences=(), evasive=False)
        full = (Scored(evaluator="faithfulness@1", judge=MODEL, score=1.0),)
        shown.view.export(
            fine(500, LEXICAL, interaction=asked_in_vain, assessment=confident, predicted=0.034)
        )
        shown.view.export(fine(500, interaction=asked_in_vain, evaluations=full))
        snapshot = numbers(3, 0.001, active=False)
        empty = (SeriesKey(signal="empty_retrieval", judge="none"), "1h", sums(1, 100))
        shown.tick(replace(snapshot, moments=(*snapshot.moments, empty)))
        load(page, shown)
        page.choose("diagnosis", "ok")
        assert page.text("#shown") == "1 of 22 kept"
        header = page.text(".answer header")
        assert "Faithfulness 1.00 (built-in 0.00)" in header
        assert "predicted 3%" in header
        assert "Nothing was retrieved." in page.text(".answer")
        assert "version 2.1" in page.text(".answer footer")
        assert "s-7" in page.text(".answer footer")
        assert "1 answer does not say so, last hour" in page.text("#numbers tbody")
        page.run("document.querySelector('#filters [name=reset]').click()")
        assert "Faithfulness" in page.text(".answer.judged header")
        page.run("document.querySelector('#lang-zh').click()")
        page.choose("diagnosis", "ok")
        assert "预测 3%" in page.text(".answer header")
        assert "忠实度 1.00（内置评审 0.00）" in page.text(".answer header")
        assert page.errors() == []
    finally:
        shown.exporter.close()


def test_an_alarm_that_ended_says_when_and_why_a_number_is_still_red(
    page: Page, shown: Shown
) -> None:
    """The hour holds answers from before its end."""
    shown.fill(active=True)
    shown.tick(numbers(40, 0.0, active=False))
    shown.view.alarm(
        AlarmEvent(
            signal="hallucination",
            judge=MODEL.name,
            kind="quality",
            raised=False,
            at_s=shown.now(),
            since_s=1_795_000_000.0,
            evidence_s=0.0,
            threshold_s=86_400 * 30.0,
            objective=0.05,
        )
    )
    load(page, shown)
    assert page.count('.card[data-signal="hallucination"] .value.over') == 1
    assert "holds answers from before" in page.text('.card[data-signal="hallucination"] .why')
    told = page.text('.alarm[data-signal="hallucination"]')
    assert re.search(r"Ended at \d\d:\d\d:\d\d \(raised at .*beyond it still", told)
    assert page.errors() == []


def test_an_alarm_of_differences_is_said_in_differences(page: Page, shown: Shown) -> None:
    """Their scale of 0 to 1 holds differences of -1 to 1: half of it is none, and no mean score."""
    shown.fill()
    told = numbers(3, 0.0, active=False)
    states = [
        AlarmState(
            signal=signal,
            judge=MODEL.name,
            kind="quality",
            evidence_s=86_400 * 40.0,
            active=True,
            since_s=1_795_000_000.0,
            objective=objective,
            higher_is_better=signal.startswith("golden"),
            span=AlarmSpan(since_s=1_794_999_000.0, scored=40, mean=mean, bad=None, before=0.5),
        )
        for signal, objective, mean in (("golden_answer_correctness", 0.475, 0.42),)
    ]
    shown.tick(replace(told, alarms=(*told.alarms, *states)))
    load(page, shown)
    golden = page.text('.alarm[data-signal="golden_answer_correctness"]')
    assert "a mean of -0.16 over 40 scored" in golden
    assert "limit: at most 0.05 below their own history" in golden


def test_an_alarm_is_said_at_the_top(page: Page, shown: Shown) -> None:
    """With the estimate, the tolerance and since when; in the title too."""
    shown.fill(active=True)
    shown.view.alarm(
        AlarmEvent(
            signal="hallucination",
            judge=MODEL.name,
            kind="quality",
            raised=True,
            at_s=1_795_000_000.0,
            since_s=1_794_999_000.0,
            evidence_s=86_400 * 40.0,
            threshold_s=86_400 * 30.0,
            objective=0.05,
        )
    )
    load(page, shown)
    said = page.text("#verdict")
    assert re.match(r"Alarm: Hallucination rate 11% \(\d\.\d% to 19%\), limit: at most 5", said)
    assert "bad" in page.run("return document.querySelector('#verdict').className")
    assert page.run("return document.title").startswith("● ")
    assert "raised" in page.run("return document.querySelector('#events').textContent")
    assert page.count(".alarm.active") == 1


@pytest.mark.parametrize(
    ("cause", "said"),
    [
        ("judge", "The judge has become stricter: 3 of 40 old answers"),
        ("application", "It is the application, not the judge: 3 of 40 old answers"),
        ("unknown", "not known yet: 3 of 40 old answers flipped so far, 7 more"),
    ],
)
def test_what_explains_an_alarm_is_said_beside_it(
    page: Page, shown: Shown, cause: Literal["judge", "application", "unknown"], said: str
) -> None:
    """Judge, application, or not yet known; and nothing of it once the alarm is over."""
    found = AlarmCause(
        cause=cause,
        since_s=1_794_999_000.0,
        reread=40,
        flipped=3,
        expected_else=0.02,
        expected_judge=0.1,
        needed=60.0,
        waiting=7,
    )
    shown.fill(active=True, cause=found)
    load(page, shown)
    assert said in page.text("#verdict")


def test_without_a_judge_nothing_looks_judged(page: Page) -> None:
    """Every number says that it is the built-in judge's."""
    shown = Shown(judge=None)
    try:
        snapshot = numbers(3, 0.0, active=False)
        builtin = tuple(m for m in snapshot.moments if m[0].judge == "builtin")
        shown.tick(replace(snapshot, moments=builtin, alarms=()))
        for n in range(12):
            shown.view.export(wrong(n, LEXICAL))
        load(page, shown)
        assert "built-in judge only" in page.text('.card[data-signal="hallucination"]')
        assert "No LLM judge is configured" in page.text("#legend")
        assert page.count(".tag.judged") == 0
        assert "LLM judge" not in page.text("#numbers thead")
    finally:
        shown.exporter.close()


def test_without_a_verdict_the_built_in_judges_numbers_are_there(page: Page, shown: Shown) -> None:
    """The LLM judge has been down since the start: what is known stands in its own columns."""
    snapshot = numbers(3, 0.0, active=False)
    builtin = tuple(m for m in snapshot.moments if m[0].judge == "builtin")
    shown.tick(replace(snapshot, moments=builtin))
    for n in range(12):
        shown.view.export(wrong(n, LEXICAL))
    load(page, shown)
    row = page.text("#numbers tbody tr")
    assert "Hallucination rate" in row
    assert "400 scored" in row
    assert page.count("#numbers tbody td.builtin:not(.none)") == 1
    assert page.count("#numbers tbody td.none:not(.builtin)") == 2


def test_withheld_texts_are_said_to_be_withheld(page: Page) -> None:
    """Ids, scores and verdicts are shown."""
    shown = Shown(content="none")
    try:
        shown.fill()
        load(page, shown)
        assert "Texts are withheld (content = none)" in page.text("#withheld")
        assert "Helsinki" not in page.run("return document.body.textContent")
        assert "Sentence 1: contradicts a chunk" in page.text(".answer .findings")
        assert page.errors() == []
    finally:
        shown.exporter.close()


def test_the_token_opens_the_page_once_and_for_all(page: Page) -> None:
    """From the address to a cookie, to an address without it."""
    shown = Shown(token="a-token-of-enough-length")
    try:
        shown.fill()
        page.driver.get(f"{shown.base}/")
        assert "A token is needed" in page.text("body")
        page.driver.get(f"{shown.base}/?token=a-token-of-enough-length")
        page.shows("it goes on", "document.querySelectorAll('.answer').length >= 10")
        assert page.driver.current_url == f"{shown.base}/ragmonitor/"
        assert page.run("return document.cookie") == ""
    finally:
        shown.exporter.close()


def test_a_server_that_is_gone_is_said_to_be(page: Page, shown: Shown) -> None:
    """What was known stays, with the time it is of."""
    shown.fill()
    load(page, shown)
    shown.exporter.close()
    page.shows(
        "it says so", "document.querySelector('#live').innerText.startsWith('No connection')"
    )
    assert page.count(".answer") == 10


def test_a_server_that_hangs_is_no_live_one(page: Page, shown: Shown) -> None:
    """It takes connections and never answers: the page says so, as of one that is gone."""
    shown.fill()
    load(page, shown)
    goes_on = threading.Event()
    answered = shown.view.reply

    def hang(target: str, headers: Message) -> Reply | None:
        goes_on.wait(60)
        return answered(target, headers)

    shown.view.reply = hang  # type: ignore[method-assign]
    try:
        page.shows(
            "it says so",
            "document.querySelector('#live').innerText.startsWith('No connection')",
            within_s=30,
        )
    finally:
        goes_on.set()


def test_a_screen_reader_is_told_of_changes_alone(page: Page, shown: Shown) -> None:
    """Not of the time of each reply, nor of a rate that moves while an alarm is on."""
    shown.fill(active=True)
    load(page, shown)
    assert page.text("[role=status]").startswith("Alarm: Hallucination rate. Raised at ")
    page.run(
        "window.said = [];"
        "for (const node of document.querySelectorAll('[role=status], [aria-live]')) new"
        " MutationObserver(() => said.push(node.textContent))"
        ".observe(node, { childList: true, characterData: true, subtree: true });"
    )
    before = page.text("#verdict")
    shown.tick(numbers(20, 40.0, active=True))
    page.shows("the rate has moved", f"document.querySelector('#verdict').innerText !== {before!r}")
    assert page.run("return said") == []
    shown.tick(numbers(2, 0.001, active=False))
    page.shows("the end is told", "said.length > 0")
    assert "No alarm" in page.run("return said.at(-1)")


def test_the_keyboard_stays_on_its_link_while_numbers_move(page: Page, shown: Shown) -> None:
    """A table that is drawn anew keeps the link that has the focus, wherever it stands by then."""
    first, second = (
        (SeriesKey(signal="hallucination", judge=MODEL.name, dimension="route", group=group), "1h")
        for group in ("/billing", "/returns")
    )

    def tick(bad_of_first: int) -> None:
        told = numbers(3, 0.001, active=False)
        groups = ((*first, sums(bad_of_first, 100)), (*second, sums(20, 100)))
        shown.tick(replace(told, moments=(*told.moments, *groups)))

    shown.fill()
    tick(10)
    load(page, shown)
    row = "document.querySelector('#groups tbody th a')"
    page.run("[...document.querySelectorAll('#groups a')].at(-1).focus()")
    assert page.run("return document.activeElement.textContent") == "/billing"
    tick(40)
    page.shows("it stands first now", f"{row}.textContent === '/billing'")
    assert page.run(f"return document.activeElement === {row}")


def test_times_have_their_zone(page: Page, shown: Shown) -> None:
    """Incidents and notices are in UTC, the page's times are the reader's."""
    shown.fill()
    zone = {"timezoneId": "Asia/Kolkata"}
    page.driver.execute_cdp_cmd("Emulation.setTimezoneOverride", zone)
    load(page, shown)
    assert "Times are those of UTC+5:30." in page.text("#foot")


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [320, 390, 1440])
def test_it_fits_the_window_and_can_be_read(
    tmp_path: Path, shown: Shown, width: int, dark: bool
) -> None:
    """Nothing is wider than the window; text stands out from its ground by 4.5 to 1."""
    shown.fill(active=True)
    told = DOCUMENTS
    snapshot = numbers(11, 40.0, active=True)
    long = replace(snapshot.alarms[1], signal="golden_references")
    shown.tick(replace(snapshot, views=told, alarms=(*snapshot.alarms, long)))
    with browser(tmp_path / "profile", width=width, height=900, dark=dark) as page:
        load(page, shown)
        # On a phone the window grows with what does not fit, and everything becomes smaller.
        assert page.run("return document.documentElement.scrollWidth") <= width
        assert page.run(CONTRAST) == []
        # Every section can be gone to without scrolling sideways; no table's cell is a thin column.
        assert page.run(
            "return [...document.querySelectorAll('nav a')].every((a) => a.hidden ||"
            " a.getBoundingClientRect().right <= innerWidth)"
        )
        thin = (
            "return [...document.querySelectorAll('#documents td')]"
            ".filter((cell) => cell.offsetWidth < 40).length"
        )
        page.shows("the lists are drawn", "document.querySelectorAll('#documents td').length > 0")
        assert page.run(thin) == 0


def test_an_incident_fits_a_narrow_window(tmp_path: Path) -> None:
    """Its service's name and a question may be one long word."""
    scene = Scene(None, ScriptedFinder(candidate()))
    scene.keeper.alarm(raised())
    answer = BadAnswer(
        id="i-1",
        at_s=1.0,
        trace_id="",
        badness=1.0,
        question="q" * 400,
        attributes={},
        sentences=(),
    )
    incident = scene.incident.model_copy(update={"service": "s" * 80, "answers": (answer,)})
    file = tmp_path / "incident.html"
    file.write_text(as_html(incident), encoding="utf-8")
    with browser(tmp_path / "profile", width=360, height=900) as page:
        page.driver.get(file.as_uri())
        assert page.run("return document.documentElement.scrollWidth") <= 360


def test_it_can_be_used_by_keyboard(page: Page, shown: Shown) -> None:
    """Everything that can be pressed is reached, named, and charts are read with arrows."""
    from selenium.webdriver import ActionChains, Keys

    shown.fill()
    load(page, shown)
    unnamed = page.run(
        "return [...document.querySelectorAll('button, select, a, [tabindex=\"0\"]')].filter((n) =>"
        " n.offsetParent && !(n.innerText.trim() || n.getAttribute('aria-label')"
        " || n.labels?.length)).map((n) => n.outerHTML.slice(0, 80))"
    )
    assert unnamed == []
    # Of an element without a role a screen reader says no name.
    roles = "[...document.querySelectorAll('[tabindex=\"0\"]')].map((n) => n.getAttribute('role'))"
    assert set(page.run(f"return {roles}")) <= {"group", "region"}
    page.run("document.querySelector('#estimate').focus()")
    ActionChains(page.driver).send_keys(Keys.ARROW_LEFT).perform()
    assert re.search(r"\d\d:\d\d:\d\d: 3\.0%", page.text("#estimate-read"))
    page.run("document.querySelector('#lang-zh').focus()")
    ActionChains(page.driver).send_keys(Keys.ENTER).perform()
    assert page.run("return document.documentElement.lang") == "zh"


CONTRAST = """
const light = (c) => { const [r, g, b] = c.map((v) => { v /= 255; return v <= 0.03928 ? v / 12.92
  : ((v + 0.055) / 1.055) ** 2.4; }); return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
const parse = (text) => { const [r, g, b, a = 1] = text.match(/[0-9.]+/g).map(Number);
  return [r, g, b, a]; };
const ground = (node) => { for (let n = node; n; n = n.parentElement) {
  const c = parse(getComputedStyle(n).backgroundColor); if (c[3] === 1) return c; }
  return [255, 255, 255, 1]; };
const found = [];
const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
while (walker.nextNode()) {
  const node = walker.currentNode.parentElement;
  if (!walker.currentNode.textContent.trim() || !node.offsetParent || node.closest('.hidden, svg')
    || node.disabled) continue;
  const style = getComputedStyle(node);
  const [a, b] = [light(parse(style.color).slice(0, 3)), light(ground(node).slice(0, 3))];
  const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
  const told = `${ratio.toFixed(2)} ${node.className} ${node.textContent.slice(0, 30)}`;
  if (ratio < 4.5) found.push(told);
}
return found;
"""


def test_the_demo_serves_it(page: Page, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With answers of both frameworks, judged, while it runs."""
    import subprocess
    import sys

    from tests.support.prometheus_server import free_port
    from tests.support.waiting import until

    port = free_port()
    variables = {k: v for k, v in os.environ.items() if not k.startswith(("RAGMONITOR_", "OTEL_"))}
    command = [sys.executable, "-m", "ragmonitor.cli.app", "demo"]
    demo = subprocess.Popen(
        [*command, "--seconds", "60", "--port", str(port), "--rate", "20"],
        cwd=tmp_path,
        env=variables,
        stdout=subprocess.DEVNULL,
    )
    url = f"http://127.0.0.1:{port}/ragmonitor/"

    def judged() -> Any:
        with urllib.request.urlopen(f"{url}state.json", timeout=5) as reply:
            told = json.load(reply)
        return told["judged"] > 20 and told["kept"]

    try:
        until("answers were judged", judged, within_s=60)
        page.driver.get(url)
        page.shows("answers are drawn", "document.querySelectorAll('.answer').length > 0")
        # Numbers come with the next tick of the monitor.
        card = "document.querySelector('.card[data-signal=\"hallucination\"]')?.innerText"
        page.shows("its rate", f"{card}?.includes('scored by demo/stand-in')")
        assert page.errors() == []
    finally:
        demo.terminate()
        demo.wait(30)
