"""Vectors by a model behind litellm: what they cost, and what a failure is called."""

import asyncio
import json
import socket
import threading
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from ragmonitor.evaluators import Table, evaluate_asking, register_embedding
from ragmonitor.evaluators.embeddings import costs
from ragmonitor.judges.litellm_embedding import LitellmEmbedding
from ragmonitor.judges.tokens import estimate_tokens
from ragmonitor.records import Cause, JudgeUsage, ReferenceReading, ReferenceSentence, Scored
from ragmonitor.runtime.errors import JudgeError
from ragmonitor.testing import ScriptedJudge
from tests.support.openai_server import OpenAiServer, Reply
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


def embedding(server, model="openai/text-embedding-3-small", **options):
    return LitellmEmbedding(model, api_base=server.api_base, api_key="none", **options)


def at(port, **options):
    base = f"http://127.0.0.1:{port}/v1"
    return LitellmEmbedding("openai/own", api_base=base, api_key="none", **options)


def test_a_price_may_be_given(server):
    """For a model that litellm does not know; without one only tokens are known."""
    unknown = embedding(server, "openai/own")
    assert unknown.embed(["a"])[1].cost_usd == 0
    assert unknown.price is None
    priced = embedding(server, "openai/own", price_usd=3.0)
    assert priced.embed(["a"])[1].cost_usd == pytest.approx(3e-6)


class Uncounted(BaseHTTPRequestHandler):
    """A server that says nothing of tokens."""

    def do_POST(self):
        self.rfile.read(int(self.headers["content-length"]))
        row = {"object": "embedding", "index": 0, "embedding": [1.0]}
        body = json.dumps({"object": "list", "model": "m", "data": [row]}).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_args):
        """Keep standard error for the tests."""


def test_a_provider_that_counts_nothing_still_costs_something():
    """An estimate from above is charged."""
    with HTTPServer(("127.0.0.1", 0), Uncounted) as http:
        thread = threading.Thread(target=http.handle_request)
        thread.start()
        _, usage = at(http.server_port).embed(["twelve letters and more"])
        thread.join()
    assert usage.input_tokens > 4


@pytest.fixture
def silent():
    """Return the port of a server that takes connections and never replies."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield listening.getsockname()[1]


def test_a_provider_that_is_too_slow_bills_what_it_has_read(silent):
    """The cause is a timeout of the judge's side."""
    with pytest.raises(JudgeError) as caught:
        at(silent, timeout_s=0.3).embed(["some text"])
    assert caught.value.cause is Cause.JUDGE_TIMEOUT
    assert caught.value.usage.input_tokens > 0


def test_vectors_that_break_off_are_billed_each_time(server):
    """The provider has read the texts, as often as the client library has asked."""
    server.embeds = Reply(body=b'{"data": [', breaks_off=True)
    with pytest.raises(JudgeError) as caught:
        embedding(server).embed(["some text"])
    n_asked = len(server.requests)
    assert n_asked == 2
    assert caught.value.usage.input_tokens == n_asked * round(estimate_tokens("some text"))


def test_a_provider_that_is_not_there_bills_nothing():
    """The cause is an error of the judge's side."""
    with pytest.raises(JudgeError) as caught:
        at(free_port()).embed(["some text"])
    assert caught.value.cause is Cause.JUDGE_ERROR
    assert caught.value.usage.input_tokens == 0


# What evaluators make of it


def own(embed):
    table = Table()
    register_embedding(embed, version=2, into=table)
    return table.select(["answer_similarity", "answer_correctness"])


async def scored(table):
    found = replace(assessment("supported"), reference=READING)
    judge = ScriptedJudge(lambda _: found)
    return await evaluate_asking(table, TOLD, found, judge)


async def test_two_scores_of_the_same_texts_take_one_call(server):
    """And its cost is the reading's, which settles the budget."""
    similarity, correctness = (await scored(own(embedding(server))))[0]
    assert isinstance(similarity, Scored)
    assert correctness.score == pytest.approx(0.75 + 0.25 * similarity.score)
    (request,) = server.requests
    assert request.body["input"] == [TOLD.answer, TOLD.reference]
    _, usage = await scored(own(embedding(server)))
    assert (usage.calls, usage.input_tokens) == (1, 2)


async def test_a_provider_that_fails_is_the_cause_of_these_scores(silent):
    """Not an error of ours; and what it cost is counted."""
    evaluations, usage = await scored(own(at(silent, timeout_s=0.3)))
    assert [each.cause for each in evaluations] == [Cause.JUDGE_TIMEOUT] * 2
    assert (usage.calls, usage.input_tokens > 0) == (2, True)


async def test_the_loop_goes_on_while_vectors_come():
    """A call of a network is made on a thread."""
    loop, waiting = asyncio.get_running_loop(), asyncio.Event()

    class Slow:
        def __call__(self, texts):
            return self.embed(texts)[0]

        def embed(self, texts):
            # Set by the loop, which is free to: else this would wait for ever.
            asyncio.run_coroutine_threadsafe(self.seen(), loop).result(20)
            return [(1.0, 0.0)] * len(texts), JudgeUsage(calls=1, input_tokens=7)

        async def seen(self):
            waiting.set()

    slow = Slow()
    assert costs(slow)
    evaluations, usage = await scored(own(slow))
    assert waiting.is_set()
    assert [type(each) for each in evaluations] == [Scored, Scored]
    assert usage == JudgeUsage(calls=1, input_tokens=7)
