"""The table of faults in docs/llm-judge.md, row by row."""

import re
from dataclasses import dataclass

import pytest

from ragmonitor.judges.llm import LlmJudge
from ragmonitor.runtime.errors import JudgeError
from tests.support.openai_server import (
    OpenAiServer,
    breaking_off,
    dripping,
    hanging,
    rate_limited,
    refused,
    truncated,
    truthful,
    wrong_content_type,
    wrong_counts,
)
from tests.support.scripts import ROOT
from tests.support.stories import interaction

pytest.importorskip("litellm")


def no_formats(request):
    if "response_format" in request.body:
        return refused(400, "response_format is not supported")
    return truthful(request)


FAULTS = {
    "cut for length": truncated,
    "too many entries": wrong_counts,
    "a web page instead of JSON": wrong_content_type,
    "429 with Retry-After 2": rate_limited(2),
    "429 without": rate_limited(),
    "429 with Retry-After 3600": rate_limited(3600),
    "500": refused(500),
    "401": refused(401, kind="auth"),
    "400 that names response_format": no_formats,
    "400 about the request": refused(400, "this text is against our policy"),
    "no reply": hanging,
    "a byte every 20 ms": dripping,
    "half a reply": breaking_off,
}
SLOW = ("no reply", "a byte every 20 ms")
TIMEOUT_S = 0.3


@dataclass(frozen=True)
class Row:
    """One fault that happens once, or lasts."""

    fault: str
    lasts: bool
    outcome: str
    calls: int
    pauses_s: float

    def __str__(self):
        return f"{self.fault}{', lasting' if self.lasts else ''}"


def told_rows():
    text = (ROOT / "docs" / "llm-judge.md").read_text(encoding="utf-8")
    table = re.search(r"<!-- faults -->\n(.*?)<!-- /faults -->", text, re.DOTALL)
    assert table is not None
    for line in table[1].splitlines()[2:]:
        fault, *cells = [cell.strip() for cell in line.strip("|").split("|")]
        for lasts, (outcome, calls, pauses_s) in enumerate((cells[:3], cells[3:])):
            yield Row(fault, bool(lasts), outcome, int(calls), float(pauses_s))


ROWS = list(told_rows())
STORY = interaction(
    query="How long is the warranty?",
    texts=("The warranty lasts 3 years. It covers parts.", "Shipping takes 2 days."),
    answer="The warranty lasts 5 years. It covers parts. Dogs bark loudly.",
)


@pytest.fixture
def server():
    with OpenAiServer() as server:
        yield server


class Asked:
    """One reading: what it gave and how long it paused."""

    def __init__(self, server, *, timeout_s=15.0):
        self.pauses_s = 0.0
        self.judge = LlmJudge(
            "openai/judge",
            api_base=server.api_base,
            api_key="none",
            budget_unit="tokens",
            timeout_s=timeout_s,
            pause=self.pause,
        )

    async def pause(self, seconds):
        self.pauses_s += seconds

    async def read(self, story=STORY):
        try:
            found = await self.judge.assess(story)
        except JudgeError as error:
            return error.cause.value, error.usage, None
        finally:
            await self.judge.close()
        fields = (found.sentences, found.answer_relevancy, found.evasive, found.chunk_relevance)
        gaps = sum(field is None for field in fields)
        return "read in part" if gaps else "read", found.usage, found


def test_every_fault_is_in_the_table():
    """Neither the table nor the test has one that the other lacks."""
    assert {row.fault for row in ROWS} == set(FAULTS)


@pytest.mark.parametrize("row", ROWS, ids=str)
async def test_a_fault_costs_what_the_table_says(server, row):
    """Outcome, calls and pauses, to within the jitter."""
    await Asked(server).read()  # litellm's import is in no row
    server.requests.clear()
    if row.lasts:
        server.always(FAULTS[row.fault])
    else:
        server.script(FAULTS[row.fault])
    asked = Asked(server, timeout_s=TIMEOUT_S if row.fault in SLOW else 15.0)
    outcome, usage, found = await asked.read()
    assert (outcome, usage.calls, len(server.chats)) == (row.outcome, row.calls, row.calls)
    assert 0.5 * row.pauses_s <= asked.pauses_s <= 1.5 * row.pauses_s
    assert usage.seconds < (TIMEOUT_S + 3 if row.fault in SLOW else 10)
    if outcome == "read":
        server.always(truthful)
        _, _, expected = await Asked(server).read()
        assert found.sentences == expected.sentences
