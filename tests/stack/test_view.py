"""The page in a real browser."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from ragmonitor.export import PrometheusExporter, View
from ragmonitor.export.server import Reply
from ragmonitor.records import (
    AlarmCause,
    AlarmState,
    Cause,
    Chunk,
    Diagnosis,
    GaugeValue,
    Interaction,
    Report,
    Scored,
    SentenceVerdict,
    SeriesKey,
    Snapshot,
    Unscored,
    Verdict,
)
from ragmonitor.runtime.feedback import JoinedFeedback, feedback_of
from ragmonitor.settings import Settings
from ragmonitor.testing import ManualClock
from tests.support.browser import Page, browser
from tests.unit.export.examples import (
    LEXICAL,
    MODEL,
    TARGET,
    assessment,
    interaction,
    report,
    windowed,
)

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


def sums(bad: int, all_: int) -> tuple[float, ...]:
    return tuple(float(n < bad) for n in range(all_))


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
        means=windowed(
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
            GaugeValue(name="ragmonitor_arrivals_per_second", value=3.9),
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

    def __init__(
        self, content: str = "all", token: str | None = None, incidents: Any = None
    ) -> None:
        self.now = ManualClock(1_795_000_100.0)
        self.view = View(
            Settings.load(
                service=SERVICE,
                content=content,
                server={"ui_trace_url": TRACES, "token": token},
            ),
            builtin="builtin",
            judge=MODEL.name,
            now=self.now,
            incidents=incidents,
        )
        self.exporter = PrometheusExporter(Settings.load(server={"port": 0}), pages=self.view.reply)
        self.exporter.refresh(snapshot=Snapshot(), queue_depth=0)
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
    """Numbers with intervals, a chart, answers; no error, no request to another place."""
    shown.fill()
    load(page, shown)
    card = page.text('.card[data-signal="hallucination"]')
    assert re.search(r"3\.0%\n.*0% to 13%.*100 scored by .*limit: at most 5%", card, re.DOTALL)
    assert page.count("#chart .band") == 1
    curve = page.run("return document.querySelector('#chart .curve').getAttribute('d')")
    assert curve.count("L") == 11
    facts = page.text("#facts")
    assert "the budget permits 10%" in facts
    assert "asked: 100%" in facts
    assert "1 of 2 signals are still learned" in page.text("#verdict")
    page.driver.get(f"{shown.base}/ragmonitor/#evaluations")
    page.shows("the table is drawn", "document.querySelectorAll('#evaluation-table td').length")
    assert "0.8%" in page.text("#evaluation-table tbody tr")
    page.driver.get(f"{shown.base}/ragmonitor/#alarms")
    page.shows("the alarms are drawn", "document.querySelectorAll('#alarm-table td').length")
    assert "learning what is usual: 41%" in page.text("#alarm-table")
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
    article = ".answer"
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
    assert "Sentence 1: contradicts a chunk" in page.text(f"{article} .findings")
    assert "Sentence 2: not found in the chunks" in page.text(f"{article} .findings")
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


def test_what_people_said_stands_beside_the_answer(page: Page, shown: Shown) -> None:
    """A comment is no markup."""
    shown.fill()
    told = feedback_of("i-3", False, comment=f"no {SCRIPT}", kind="thumbs", at_s=1.0)
    shown.view.feedback(JoinedFeedback(feedback=told, answered_s=0.0))
    page.driver.get(f"{shown.base}/ragmonitor/#answer=i-3")
    page.shows("it is drawn", "document.querySelectorAll('.answer').length == 1")
    assert "found bad by a person" in page.text(".answer header").lower()
    assert f"“no {SCRIPT}”" in page.text(".answer")
    assert not page.run("return window.broken")


def test_it_speaks_chinese_when_asked_to_and_remembers(page: Page, shown: Shown) -> None:
    """Every label changes, none stays behind."""
    shown.fill()
    load(page, shown)
    page.run("document.querySelector('#languages [value=zh]').click()")
    page.shows(
        "the answers are drawn anew", "document.querySelector('.answer h4').innerText == '回答'"
    )
    assert page.run("return document.documentElement.lang") == "zh"
    assert "幻觉率" in page.text('.card[data-signal="hallucination"]')
    assert f"{MODEL.name} 已评分 100 条" in page.text('.card[data-signal="hallucination"]')
    assert "与检索内容矛盾" in page.text(".answer")
    assert "2 个信号中有 1 个仍在学习" in page.text("#verdict")
    left = page.run(
        "return document.querySelector('main').innerText.match(/[A-Z][a-z]+ [a-z]+ [a-z]+/g)"
    )
    assert {each for each in left or [] if each not in ANSWER and "else" not in each} == set()
    page.driver.refresh()
    page.shows("it is drawn again", "document.querySelectorAll('.answer').length >= 10")
    assert page.run("return document.documentElement.lang") == "zh"


def test_an_alarm_is_said_first_with_its_cause_and_the_worst_sentences(
    page: Page, shown: Shown
) -> None:
    """What, since when, why, three answers with the sentence marked; in the title too."""
    cause = AlarmCause(
        cause="application",
        since_s=1_794_999_000.0,
        reread=40,
        flipped=1,
        waiting=0,
    )
    shown.fill(active=True, cause=cause)
    load(page, shown)
    said = page.text("#verdict")
    assert said.startswith("Alarm: Hallucination rate\n\nRaised at ")
    assert "Limit: at most 5%." in said
    assert "The application has changed, not the judge: the judge still accepts 39 of 40" in said
    assert page.count("#verdict .worst li mark") == 3
    assert "The upload limit is 9 MB" in page.text("#verdict .worst")
    assert "bad" in page.run("return document.querySelector('#verdict').className")
    assert page.run("return document.title").startswith("● ")


def test_a_judge_that_reads_nothing_is_said_in_red(page: Page, shown: Shown) -> None:
    """With the reason."""
    failure = Unscored(
        evaluator="faithfulness@1", judge=MODEL, cause=Cause.JUDGE_ERROR, detail="no price is known"
    )
    shown.fill()
    for n in range(100, 103):
        shown.view.export(wrong(n, assessment=None, diagnosis=None, evaluations=(failure,)))
    load(page, shown)
    assert "no price is known" in page.text("#mute.bad")


class Story:
    """One incident as its Markdown."""

    def brief(self) -> list[dict[str, Any]]:
        listed = {"id": "i-1", "opened_s": 1.0, "closed_s": None, "en": "It rose", "zh": "上升"}
        return [{**listed, "cause": {"kind": "document", "name": "d7.md"}}]

    def reply(self, name: str, query: Mapping[str, str]) -> Reply | None:
        text = (
            "# What \\*moved\\*\n\n**Named:** d7.md [i-3](<../#answer=i-3>)\n\n> a quote\n\n"
            f"- one\n- {SCRIPT}\n"
        )
        known = name == "incidents/i-1.md"
        return Reply(status=200, body=text.encode()) if known else None


@pytest.mark.parametrize("width", [390, 1440])
def test_an_incident_is_read_within_the_page(tmp_path: Path, width: int) -> None:
    """From its own address: with the page's frame, a way back, and no scrolling sideways."""
    shown = Shown(incidents=Story())
    try:
        shown.fill(active=True)
        with browser(tmp_path / "profile", width=width) as page:
            page.driver.get(f"{shown.base}/ragmonitor/incidents/i-1")
            page.shows("it is drawn", "document.querySelectorAll('#story li').length == 2")
            assert page.text("#story h2") == "What *moved*"
            assert page.text("#story li + li") == SCRIPT
            assert page.run("return document.documentElement.scrollWidth") <= width
            assert page.run("return document.querySelector('#story a').hash") == "#answer=i-3"
            assert page.text("#service") == SERVICE
            page.run("document.querySelector('#incident a').click()")
            page.shows("the way back", "!document.querySelector('#overview').hidden")
            assert "Cause: the document d7.md." in page.text("#verdict")
            assert page.run("return document.querySelector('#verdict .button').hash") == (
                "#incident=i-1"
            )
            assert page.errors() == []
    finally:
        shown.exporter.close()


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


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [320, 390, 1440])
def test_it_fits_the_window_and_can_be_read(
    tmp_path: Path, shown: Shown, width: int, dark: bool
) -> None:
    """Nothing is wider than the window; text stands out from its ground by 4.5 to 1."""
    shown.fill(active=True)
    told = DOCUMENTS
    shown.tick(replace(numbers(11, 40.0, active=True), views=told))
    with browser(tmp_path / "profile", width=width, height=900, dark=dark) as page:
        load(page, shown)
        # On a phone the window grows with what does not fit, and everything becomes smaller.
        assert page.run("return document.documentElement.scrollWidth") <= width
        assert page.run(CONTRAST) == []
        page.driver.get(f"{shown.base}/ragmonitor/#where")
        page.shows("documents are drawn", "document.querySelectorAll('#document-table td').length")
        assert page.run("return document.documentElement.scrollWidth") <= width


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
