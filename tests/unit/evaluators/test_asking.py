"""Evaluators that ask the judge something of their own: rubrics, questions, failures, live use."""

import asyncio
import json
from dataclasses import replace

import pytest
from prometheus_client import generate_latest

from ragmonitor import Budget, ExportSettings, JudgeSettings, Monitor
from ragmonitor.evaluators import Table, evaluate_asking, register_embedding, rubric
from ragmonitor.evaluators import table as global_table
from ragmonitor.evaluators.table import Entry
from ragmonitor.judges.llm import LlmJudge
from ragmonitor.records import Cause, JudgeUsage, Scored
from ragmonitor.runtime.errors import JudgeError, SettingsError
from ragmonitor.testing import ListExporter, ScriptedJudge
from tests.support.openai_server import OpenAiServer, Reply
from tests.support.scrape import outcomes
from tests.support.stories import CHINESE, JUDGE, assessment, interaction

TONE = "How polite is the ANSWER? 1: insulting. 5: warm."


class Listening:
    """An asker that gives one reply."""

    usage = JudgeUsage(calls=1, output_tokens=3)
    identity = replace(JUDGE, version="framed")

    def __init__(self, reply, sentence_counts=()):
        self._reply = reply
        self.sentence_counts = sentence_counts
        self.asked = []

    async def ask(self, instructions, *, fields, shown=("chunks", "question", "answer")):
        self.asked.append((instructions, dict(fields), tuple(shown)))
        if isinstance(self._reply, Exception):
            raise self._reply
        return self._reply


class Answering(ScriptedJudge):
    """A judge that can be asked."""

    def __init__(self, reply, sentence_counts=()):
        super().__init__(lambda _: assessment("supported"))
        self.listening = Listening(reply, sentence_counts)

    def asker(self, _told, _found):
        return self.listening


async def rated(reply, **options):
    own = Table()
    rubric("tone", TONE, into=own, **options)
    judge = Answering(reply)
    told = interaction()
    (evaluation,), usage = await evaluate_asking(own, told, await judge.assess(told), judge)
    return evaluation, usage, judge.listening


# Rubrics


@pytest.mark.parametrize(
    ("scale", "rating", "expected"),
    [
        ((1, 5), 1, 0),
        ((1, 5), 4, 0.75),
        ((1, 5), "5", 1),
        ((0, 1), True, Cause.UNREADABLE),
        ((0, 10), 2.5, 0.25),
        ((3, 0), 3, 0),
        ((3, 0), 0, 1),
        ((1, 5), 6, Cause.UNREADABLE),
        ((1, 5), "fine", Cause.UNREADABLE),
        ((1, 5), None, Cause.UNREADABLE),
        ((1, 5), float("nan"), Cause.UNREADABLE),
    ],
)
async def test_a_rating_becomes_its_place_on_the_scale(scale, rating, expected):
    """The worst end is 0, the best 1, whichever number is larger; what is off it is unreadable."""
    evaluation, usage, _ = await rated({"rating": rating}, scale=scale)
    got = evaluation.score if isinstance(evaluation, Scored) else evaluation.cause
    assert got == expected
    assert usage == Listening.usage


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"scale": (2, 2)}, "two different ends"),
        ({"scale": (0, float("inf"))}, "two different ends"),
        ({"shown": ()}, "shown is a list"),
        ({"shown": "answer"}, "shown is a list of"),
        ({"shown": ("answr",)}, "shown is a list of"),
        ({"text": " "}, "what is to be rated"),
        ({"name": "Tone"}, "lower-case"),
    ],
)
def test_a_rubric_that_cannot_work_is_refused(options, problem):
    """When it is registered, not with the first answer."""
    options = {"name": "tone", "text": TONE, "into": Table(), **options}
    with pytest.raises(SettingsError, match=problem):
        rubric(options.pop("name"), options.pop("text"), **options)


def test_what_is_shown_is_needed():
    """Without chunks, or a reference, a rubric over them has nothing to rate."""
    own = Table()
    rubric("grounding", TONE, into=own)
    rubric("agreement", TONE, shown=("answer", "reference"), into=own)
    grounding, agreement = own
    assert (grounding.needs_context, grounding.needs_reference) == (True, False)
    assert (agreement.needs_context, agreement.needs_reference) == (False, True)


# The version of the scoring


async def test_a_score_is_by_the_judge_within_its_frame():
    """What stands around a rubric changes ratings: its version is in the judge's identity."""
    for reply in (
        {"rating": 3},
        {"rating": "?"},
        JudgeError("m", "-", cause=Cause.JUDGE_ERROR, retryable=False),
    ):
        evaluation, _, listening = await rated(reply)
        assert evaluation.judge == listening.identity != JUDGE


# Who cannot be asked, who does not reply


async def test_an_evaluator_that_waits_for_ever_is_given_up():
    """It is anybody's code, and the judge's slot is wanted."""

    async def stuck(_told, _found, _asker):
        await asyncio.sleep(3600)

    own = Table([Entry(name="stuck", version=1, evaluator=stuck)])
    told, found = interaction(), assessment("supported")
    judge = Answering({})
    (evaluation,), _ = await evaluate_asking(own, told, found, judge, within_s=0.02)
    assert evaluation.cause is Cause.JUDGE_TIMEOUT


# Generated questions


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        ({"questions": ["a", "b"], "evasive": False}, 1.0),
        ({"questions": ["a"], "evasive": [True]}, 0.0),
        ({"questions": ["a", "b"], "evasive": [False]}, Cause.UNREADABLE),
        ({"questions": [], "evasive": []}, Cause.UNREADABLE),
        ({"questions": ["a", 3], "evasive": [False, False]}, Cause.UNREADABLE),
        ({"questions": "a?", "evasive": [False]}, Cause.UNREADABLE),
        ({"questions": ["a"] * 9, "evasive": [False] * 9}, Cause.UNREADABLE),
    ],
)
async def test_what_counts_as_generated_questions(reply, expected):
    """Up to twice as many as asked for, each with its flag or all with one."""
    own = Table()
    register_embedding(lambda texts: [(1.0,)] * len(texts), version=2, into=own)
    told, judge = interaction(), Answering(reply)
    (evaluation, *_), _ = await evaluate_asking(own, told, assessment("supported"), judge)
    got = evaluation.score if isinstance(evaluation, Scored) else evaluation.cause
    assert got == expected


# By a real call


@pytest.fixture
def server():
    with OpenAiServer() as server:
        yield server


@pytest.fixture
async def judge(server):
    judge = LlmJudge(
        "openai/judge",
        api_base=server.api_base,
        api_key="none",
        budget_unit="tokens",
        pause=lambda _: asyncio.sleep(0),
        timeout_s=20.0,
    )
    yield judge
    await judge.close()


async def asked(judge, told, **options):
    own = Table()
    rubric("tone", TONE, into=own, **options)
    found = await judge.assess(told)
    (evaluation,), usage = await evaluate_asking(own, told, found, judge)
    return evaluation, usage


def steps(server, *replies):
    """Read truthfully first, then reply so."""
    server.script(lambda request: Reply(content=json.dumps(_judged(request))), *replies)


def _judged(request):
    from tests.support.openai_server import judged

    return judged(request)


async def test_the_system_message_is_the_same_for_every_answer(server, judge):
    """So that providers can cache it."""
    steps(server, '{"rating": 4}')
    await asked(judge, interaction())
    steps(server, '{"rating": 2}')
    await asked(judge, interaction(*CHINESE))
    assert server.chats[1].system == server.chats[3].system


async def test_a_reply_without_the_field_is_asked_for_again(server, judge):
    """Once, saying what is missing; then it is unreadable."""
    steps(server, "polite", '{"rating": 3}')
    evaluation, usage = await asked(judge, interaction())
    assert (evaluation.score, usage.calls) == (0.5, 2)
    assert "no JSON object with rating" in server.chats[2].user
    steps(server, "polite", "very polite")
    evaluation, usage = await asked(judge, interaction())
    assert (evaluation.cause, usage.calls) == (Cause.UNREADABLE, 2)


async def test_what_does_not_fit_into_a_call_is_not_sent(server, judge):
    """A judge that skims is worse than none."""
    judge = LlmJudge(
        "openai/judge",
        api_base=server.api_base,
        api_key="none",
        budget_unit="tokens",
        tokens_per_call=3000,
    )
    steps(server, *[lambda request: json.dumps(_judged(request))] * 5)
    told = interaction(texts=["word " * 2000] * 3)
    evaluation, _ = await asked(judge, told)
    await judge.close()
    assert evaluation.cause is Cause.EVIDENCE_TOO_LONG


# Live


@pytest.fixture
def tone():
    """Register a rubric in the table that monitors read, for one test."""
    known = global_table._entries.copy()
    rubric("tone_of_voice", TONE, shown=("answer",))
    yield "tone_of_voice"
    global_table._entries.clear()
    global_table._entries.update(known)


def test_a_registered_rubric_scores_live(server, tone):
    """In reports, metrics and spans' names, with its cost in the judge's; budget for it is kept."""
    server.always(
        lambda request: '{"rating": 2}' if TONE in request.system else json.dumps(_judged(request))
    )
    kept = ListExporter()
    with Monitor(
        service="live",
        judge=JudgeSettings(model="openai/judge", api_base=server.api_base),
        sample=1.0,
        budget=Budget(tokens_per_day=10_000_000),
        evaluators=("faithfulness", tone),
        exporters=[kept],
        server=False,
        export=ExportSettings(traces=False),
    ) as monitor:
        monitor.observe(interaction())
        assert monitor.flush(20)
        lexical = outcomes(monitor.registry, judge="builtin", evaluator=tone)
        assert lexical == {"not_asked": 1}
        told = outcomes(monitor.registry, judge="openai/judge", evaluator=tone)
        assert told == {"scored": 1}
        text = generate_latest(monitor.registry).decode()
    _, report = kept.reports
    assert [e.score for e in report.evaluations] == [1.0, 0.25]
    assert report.usage.calls == 2
    (drawn,) = [r.decision for r in kept.reports if r.judge.kind == "LLM"]
    (alone,) = [r for r in kept.reports if r.judge.kind == "CODE"]
    assert drawn.reserved > 0
    assert alone.usage is None or alone.usage.calls == 0
    assert 'ragmonitor_diagnoses_total{diagnosis="ok",judge="openai/judge"' in text
    assert 'ragmonitor_diagnoses_total{diagnosis="ok",judge="builtin"' in text
