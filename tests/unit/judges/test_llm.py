"""The LLM judge, with the real litellm against a scripted server on loopback."""

import asyncio
import json
import re
import threading
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from ragmonitor.judges import evaluator_questions, judge_prompts, reference_checks
from ragmonitor.judges.calls import Breaker
from ragmonitor.judges.judge_prompts import SYSTEM, write_prompt
from ragmonitor.judges.llm import TOKENS_PER_CALL, LlmJudge, prompt_version
from ragmonitor.judges.scrubbing import one_line_of
from ragmonitor.records import Cause, Chunk, Interaction, Verdict
from ragmonitor.runtime.errors import JudgeError
from ragmonitor.testing import ManualClock
from tests.support.openai_server import (
    OpenAiServer,
    Reply,
    dripping,
    hanging,
    rate_limited,
    refused,
    truncated,
    truthful,
    wrong_counts,
)

litellm = pytest.importorskip("litellm")


def story(answer, *chunks, query="How long is the warranty?", number=1):
    return Interaction(
        id=str(number),
        query=query,
        chunks=tuple(Chunk(text=text) for text in chunks),
        answer=answer,
        framework="python",
        started_ns=1_763_000_000_000_000_000,
        ended_ns=1_763_000_001_000_000_000,
    )


WARRANTY = story(
    "The warranty lasts 5 years. It covers parts. Dogs bark loudly.",
    "The warranty lasts 3 years. It covers parts.",
    "Shipping takes 2 days.",
)
LONG = story(
    "It is red. It is blue.",
    *(f"Chunk {n}. " + "filler words about nothing in particular " * 140 for n in range(12)),
)


@pytest.fixture
def server():
    with OpenAiServer() as server:
        yield server


@pytest.fixture
async def judges(server):
    """Make judges on the server; their waits before a retry are noted and not slept."""
    waits, made = [], []

    async def pause(seconds):
        waits.append(seconds)

    def make(model="openai/judge", **options):
        common = {"budget_unit": "tokens", "api_base": server.api_base, "api_key": "none"}
        made.append(LlmJudge(model, pause=pause, **(common | options)))
        return made[-1]

    make.waits = waits
    yield make
    for judge in made:
        await judge.close()


async def failure(judge, told=WARRANTY):
    with pytest.raises(JudgeError) as caught:
        await judge.assess(told)
    return caught.value


# The prompt


@pytest.mark.parametrize("language", ["en", "zh"])
def test_the_instructions_are_short_static_and_complete(language):
    """At most 400 tokens in English; every field is explained and shown, `bad` first."""
    system = SYSTEM[language]
    assert len(litellm.encoding.encode(SYSTEM["en"])) <= 400
    assert list(json.loads(system[system.index('{"bad"') :])) == [
        "bad",
        "s",
        "rel",
        "evasive",
        "ctx",
    ]
    for field in ("bad", "s", "rel", "evasive", "ctx"):
        assert re.search(rf"^{field}[:\uff1a]", system, re.MULTILINE)
    written = [
        write_prompt(question=q, chunks=["c"], sentences=["s"], language=language) for q in "ab"
    ]
    assert written[0][0] == written[1][0]


@pytest.mark.parametrize("module", [judge_prompts, reference_checks, evaluator_questions])
def test_every_static_text_is_in_the_version(monkeypatch, module):
    """A changed word, of any prompt, is a changed judge."""
    before = prompt_version()
    if isinstance(module.REMINDER, dict):
        monkeypatch.setitem(module.REMINDER, "zh", "something else")
    else:
        monkeypatch.setattr(module, "REMINDER", "something else")
    assert prompt_version() != before


async def test_a_chinese_answer_is_asked_about_in_chinese(server, judges):
    """With the day of the answer, so that "last year" has a meaning."""
    await judges().assess(story("保修期为三年。", "本产品保修期为三年。", query="保修期多长?"))
    assert server.chats[0].system == SYSTEM["zh"]
    assert "2025-11-13" in server.chats[0].user


# Replies


async def test_the_better_of_two_replies_stands(server, judges):
    """The second, unless less of it can be read."""
    first, second = '{"s":[[1]],"rel":3,"evasive":false}', '{"rel":2,"ctx":[2]}'
    told = story("It lasts 3 years.", "It lasts 3 years.")
    for replies, relevancy in (((first, second), 1.0), ((second, first), 1.0)):
        server.script(*replies)
        found = await judges().assess(told)
        assert (found.sentences is None, found.answer_relevancy) == (False, relevancy)


async def test_verdicts_that_contradict_the_rest_are_asked_for_once_more(server, judges):
    """A second reply that agrees with itself is read; else the verdicts are unreadable."""
    told = story("It lasts 5 years. It is red.", "It lasts 3 years. It is red.")
    torn = '{"bad":[[1,"5 years",2]],"s":{"1":[1],"2":[1]},"rel":3,"evasive":false,"ctx":[2]}'
    server.script(torn)
    found = await judges().assess(told)
    assert (len(server.chats), found.sentences[0].verdict) == (2, Verdict.CONTRADICTED)
    server.always(torn)
    found = await judges().assess(told)
    assert (found.sentences, found.answer_relevancy) == (None, 1.0)


async def test_a_reply_that_was_cut_gets_twice_the_room(server, judges):
    """The same question is sent again."""
    server.script(truncated)
    await judges().assess(WARRANTY)
    first, second = server.chats
    assert second.body["max_tokens"] == 2 * first.body["max_tokens"]
    assert second.user == first.user


def completion(message, finish="stop", usage=None):
    body = {
        "id": "1",
        "object": "chat.completion",
        "created": 0,
        "model": "judge",
        "choices": [{"index": 0, "finish_reason": finish, "message": message}],
        "usage": usage or {"prompt_tokens": 50, "completion_tokens": 20, "total_tokens": 70},
    }
    return Reply(body=json.dumps(body).encode())


async def test_a_reply_that_is_all_thoughts_is_read(server, judges):
    """Some servers take the whole of it for `reasoning_content`."""
    expected = await judges().assess(WARRANTY)
    server.always(
        lambda request: completion(
            {"role": "assistant", "content": None, "reasoning_content": truthful(request).content}
        )
    )
    assert (await judges().assess(WARRANTY)).sentences == expected.sentences


@pytest.mark.parametrize(
    ("message", "finish", "named"),
    [
        ({"content": None}, "content_filter", "content_filter"),
        ({"content": None, "refusal": "I can't assist with that."}, "stop", "refusal"),
    ],
)
async def test_a_filtered_or_refusing_reply_is_one_call(server, judges, message, finish, named):
    """It is charged, named, and no failure of the provider."""
    server.always(completion({"role": "assistant", **message}, finish))
    judge = judges()
    for _ in range(6):
        error = await failure(judge)
    assert (error.cause, error.usage.calls, error.retryable) == (Cause.JUDGE_REFUSED, 1, False)
    assert error.usage.input_tokens == 50
    assert named in str(error)
    assert (len(server.chats), judge.breaker_state) == (6, "closed")


# What a server refuses


@pytest.mark.parametrize(
    ("named", "refusal"),
    [
        ("response_format", "response_format 'json_object' is not supported"),
        ("temperature", "Unsupported value: 'temperature' does not support 0 with this model."),
        ("max_tokens", "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead."),
    ],
)
async def test_a_refused_parameter_is_left_out_from_then_on(server, judges, named, refusal):
    """Met once; the room for a reply stays bounded, under its other name."""
    server.always(lambda r: refused(400, refusal) if named in r.body else truthful(r))
    judge = judges()
    found = await judge.assess(WARRANTY)
    await judge.assess(WARRANTY)
    assert (len(server.chats), found.usage.calls) == (3, 2)
    last = server.chats[-1].body
    assert last.get("max_tokens") or last.get("max_completion_tokens")


# A provider that fails


async def test_a_dead_provider_is_left_alone_and_probed(server, judges):
    """After five readings that it failed none is sent; the probe is one call without retries."""
    clock = ManualClock()
    server.always(refused(500))
    judge = judges()
    judge.breaker = Breaker(clock=clock)
    for _ in range(5):
        await failure(judge)
    asked = len(server.chats)
    error = await failure(judge)
    assert (error.cause, error.usage.calls) == (Cause.JUDGE_DOWN, 0)
    clock.advance(30)
    await failure(judge)
    assert len(server.chats) == asked + 1
    server.always(truthful)
    clock.advance(60)
    await judge.assess(WARRANTY)
    assert judge.breaker.state == "closed"


async def test_a_fallback_signs_its_verdicts(server, judges):
    """The identity is the model that answered; the failed call is counted."""
    server.always(lambda r: refused(500) if r.body["model"] == "judge" else truthful(r))
    judge = judges(fallbacks={"openai/second": server.api_base})
    found = await judge.assess(WARRANTY)
    assert (found.judge.name, found.usage.calls, len(server.chats)) == ("openai/second", 2, 2)


async def test_retry_after_is_heeded_after_a_whole_chain_failed(server, judges):
    """The pause is what the judge's own provider asked for."""
    waits = {"judge": 3, "second": 9}
    failed = set()

    def busy_once(request):
        model = request.body["model"]
        if model in failed:
            return truthful(request)
        failed.add(model)
        return rate_limited(retry_after_s=waits[model])

    server.always(busy_once)
    found = await judges(fallbacks={"openai/second": server.api_base}).assess(WARRANTY)
    assert judges.waits == [3.0]
    assert found.judge.name == "openai/judge"


async def test_the_expected_calls_cover_those_of_a_chain(server, judges):
    """A chain that fails as a whole, each time that it is tried, takes the most."""
    server.always(lambda _: refused(500))
    judge = judges(fallbacks={"openai/second": server.api_base}, budget_unit="calls")
    spent = (await failure(judge)).usage.calls
    assert judge.expected_cost(WARRANTY) >= spent == len(server.chats) == 6


class Redirecting(BaseHTTPRequestHandler):
    """Sends whoever asks elsewhere, by whatever protocol; itself, elsewhere, it tells."""

    def do_POST(self):
        self.rfile.read(int(self.headers["content-length"]))
        self.server.asked.append(self.path)
        self.send_response(self.server.status)
        self.send_header("location", "/elsewhere")
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *_args):
        """Keep standard error for the tests."""


@pytest.mark.parametrize("status", [307, 308])
@pytest.mark.parametrize(
    "model",
    [
        "openai/judge",
        "hosted_vllm/judge",
        "azure/judge",
        "anthropic/claude-haiku-4-5",
        "gemini/gemini-2.5-flash",
        "bedrock/anthropic.claude-3-haiku-20240307-v1:0",
        "huggingface/judge",
    ],
)
async def test_a_redirect_is_not_followed(judges, model, status, monkeypatch):
    """Question, chunks and answer reach the address that was named and no other, at no call."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_REGION_NAME"):
        monkeypatch.setenv(name, "none")
    monkeypatch.setenv("AZURE_API_VERSION", "2024-10-21")
    with ThreadingHTTPServer(("127.0.0.1", 0), Redirecting) as other:
        other.asked, other.status = [], status
        threading.Thread(target=other.serve_forever, daemon=True).start()
        judge = judges(model, api_base=f"http://127.0.0.1:{other.server_port}/v1")
        for calls in (1, 2):
            assert "redirects" in str(await failure(judge))
            assert len(other.asked) == calls
        assert "/elsewhere" not in other.asked
        await judge.close()
        other.shutdown()


@pytest.mark.parametrize("step", [hanging, dripping])
async def test_a_timeout_is_charged_the_prompt(server, judges, step):
    """What was sent is billed although nobody told us; a slow drip keeps nothing alive."""
    await judges().assess(WARRANTY)
    server.always(step)
    error = await failure(judges(timeout_s=0.2))
    assert (error.cause, len(server.chats)) == (Cause.JUDGE_TIMEOUT, 2)
    assert error.usage.input_tokens > 400
    assert error.usage.seconds < 5


async def test_keys_stay_out_of_errors(server, judges):
    """A provider that repeats the key, and an address that holds one."""
    key = "d41d8cd98f00b204e9800998ecf8427e"
    server.always(refused(401, f"Incorrect API key provided: {key}"))
    assert key not in str(await failure(judges(api_key=key)))
    for address in (f"http://user:{key}@host/v1", f"http://host/v1?secret={key}"):
        assert key not in one_line_of(f"cannot connect to {address}")
    assert "sk-" not in one_line_of("key sk-abcdefghijklmnop is wrong")


# Cost


async def test_a_price_that_litellm_knows_is_used(server, judges):
    """gpt-4o-mini costs what litellm's table says, without a price in the settings."""
    content = '{"s":[[1]],"bad":[],"rel":3,"evasive":false,"ctx":[2]}'
    server.always(Reply(content=content, input_tokens=1_000, output_tokens=100))
    judge = judges("openai/gpt-4o-mini", budget_unit="usd")
    usage = (await judge.assess(story("It is red.", "It is red."))).usage
    assert usage.cost_usd == pytest.approx(0.15e-3 + 0.06e-3)


async def test_an_unknown_price_stops_a_budget_in_dollars(server, judges):
    """No call is made, and the message names the settings that help."""
    error = await failure(judges(budget_unit="usd"))
    assert re.search(r"estimation\.prices.*budget\.tokens_per_day", str(error))
    assert not server.chats


@pytest.mark.parametrize(
    "told",
    [
        WARRANTY,
        story("保修期为三年。" * 9, *["本产品保修期为三年。" * 30] * 5, query="保修期多长?"),
        story("No. " * 40, "3.14 | 2.72 | 1.41\n" * 40),
        LONG,
    ],
)
async def test_the_expected_cost_covers_all_calls(server, judges, told):
    """It is above what every share took, each asked twice; no call is longer than its limit."""
    server.always(wrong_counts)
    judge = judges()
    try:
        spent = (await judge.assess(told)).usage
    except JudgeError as error:
        spent = error.usage
    assert judge.expected_cost(told) > spent.input_tokens + spent.output_tokens
    assert judges(budget_unit="calls").expected_cost(told) >= spent.calls
    for chat in server.chats:
        texts = (chat.system, chat.user)
        assert sum(len(litellm.encoding.encode(text)) for text in texts) < TOKENS_PER_CALL


def test_a_reference_of_thoughts_alone_costs_its_calls(judges):
    """It is asked about, though no sentence of it is left."""
    judge = judges(budget_unit="calls")
    references = ("Three years.", "<think>Three.</think>")
    costs = [judge.expected_cost(replace(WARRANTY, reference=text)) for text in references]
    assert costs[0] == costs[1]


@pytest.mark.parametrize("count", [-(10**9), 10**18, True, "many", None, [1]])
async def test_counts_that_cannot_be_are_taken_as_what_can(server, judges, count):
    """The reading stands, or is one failure; what is charged lies between nothing and sense."""
    usage = {"prompt_tokens": count, "completion_tokens": count, "total_tokens": 7}
    server.always(
        lambda r: completion({"role": "assistant", "content": truthful(r).content}, usage=usage)
    )
    judge = judges(price=(1e-6, 1e-6))
    try:
        spent = (await judge.assess(WARRANTY)).usage
    except JudgeError as error:
        spent = error.usage
    assert 0 <= spent.input_tokens < 20_000
    assert 0 <= spent.cost_usd < 0.05


# Several readings


async def test_cancellation_passes_through(server, judges):
    """A cancelled reading ends as cancelled, at once, and not as a JudgeError."""
    judge = judges()
    await judge.assess(WARRANTY)
    server.always(hanging)
    reading = asyncio.create_task(judge.assess(WARRANTY))
    assert await asyncio.to_thread(server.wait_until_hanging)
    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading
