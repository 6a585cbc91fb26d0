"""Vectors by a model behind litellm, what a failure is called, and what evaluators make of them."""

import asyncio
import socket
from dataclasses import replace

import pytest

from ragmonitor.evaluators import Table, evaluate_asking, register_embedding
from ragmonitor.judges.provider import LitellmEmbedding
from ragmonitor.records import Cause, ReferenceReading, ReferenceSentence, Scored
from ragmonitor.runtime.errors import JudgeError
from ragmonitor.testing import ScriptedJudge
from tests.support.openai_server import OpenAiServer
from tests.support.prometheus_server import free_port
from tests.support.stories import assessment, interaction

pytest.importorskip("litellm")

TOLD = interaction(reference="The tower is 330 metres tall.")
READING = ReferenceReading(
    answer_claims=(True,),
    sentences=(ReferenceSentence(text="The tower is tall.", chunks=(0,), in_answer=True),),
)


@pytest.fixture
def server():
    with OpenAiServer() as server:
        yield server


def at(port, **options):
    base = f"http://127.0.0.1:{port}/v1"
    return LitellmEmbedding("openai/own", api_base=base, api_key="none", **options)


@pytest.fixture
def silent():
    """Return the port of a server that takes connections and never replies."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield listening.getsockname()[1]


def test_a_provider_that_is_not_there_is_an_error_of_the_judges_side():
    """In one line, without a key."""
    with pytest.raises(JudgeError) as caught:
        at(free_port())(["some text"])
    assert caught.value.cause is Cause.JUDGE_ERROR


# What evaluators make of it


def own(embed):
    table = Table()
    register_embedding(embed, version=2, into=table)
    return table.select(["answer_similarity", "answer_correctness"])


async def scored(table):
    found = replace(assessment("supported"), reference=READING)
    judge = ScriptedJudge(lambda _: found)
    return (await evaluate_asking(table, TOLD, found, judge))[0]


async def test_two_scores_of_the_same_texts_take_one_call(server):
    """Evaluators of one answer compare the same."""
    embedding = LitellmEmbedding("openai/own", api_base=server.api_base, api_key="none")
    similarity, correctness = await scored(own(embedding))
    assert isinstance(similarity, Scored)
    assert correctness.score == pytest.approx(0.75 + 0.25 * similarity.score)
    (request,) = server.requests
    assert request.body["input"] == [TOLD.answer, TOLD.reference]


async def test_a_provider_that_fails_is_the_cause_of_these_scores(silent):
    """Not an error of ours."""
    evaluations = await scored(own(at(silent, timeout_s=0.3)))
    assert [each.cause for each in evaluations] == [Cause.JUDGE_TIMEOUT] * 2


async def test_the_loop_goes_on_while_vectors_come():
    """An embedding is called on a thread."""
    loop, waiting = asyncio.get_running_loop(), asyncio.Event()

    async def seen():
        waiting.set()

    def slow(texts):
        # Set by the loop, which is free to: else this would wait for ever.
        asyncio.run_coroutine_threadsafe(seen(), loop).result(20)
        return [(1.0, 0.0)] * len(texts)

    evaluations = await scored(own(slow))
    assert waiting.is_set()
    assert [type(each) for each in evaluations] == [Scored, Scored]
