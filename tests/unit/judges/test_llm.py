"""The LLM judge, with the real litellm against a scripted server on loopback."""

import asyncio
import inspect
import sys
from dataclasses import replace

import pytest

from ragmonitor.errors import JudgeError, MissingExtraError
from ragmonitor.judges.cache import AssessmentCache
from ragmonitor.judges.judge_prompts import SYSTEM
from ragmonitor.judges.llm import TOKENS_PER_CALL, LlmJudge
from ragmonitor.records import Cause, Chunk, Interaction, Verdict
from ragmonitor.testing import ManualClock
from tests.support.openai_server import (
    OpenAiServer,
    Reply,
    dripping,
    empty,
    fenced,
    hanging,
    in_prose,
    malformed,
    rate_limited,
    refused,
    truncated,
    truthful,
    wrong_content_type,
    wrong_counts,
)


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


@pytest.fixture
def server():
    with OpenAiServer() as server:
        yield server


@pytest.fixture
async def judges(server):
    """Make judges on the server; their waits before a retry are noted and not slept."""
    made, waits = [], []

    async def pause(seconds):
        waits.append(seconds)

    def make(model="openai/judge", **options):
        options = {
            "budget_unit": "tokens",
            "api_base": server.api_base,
            "api_key": "none",
        } | options
        options = {"jitter": lambda: 0.0} | options
        made.append(LlmJudge(model, pause=pause, **options))
        return made[-1]

    make.waits = waits
    yield make
    for judge in made:
        await judge.close()


# What a reading gives


async def test_a_chinese_answer_is_judged_sentence_by_sentence(server, judges):
    """Chinese is split, asked about in Chinese, and gives the same kind of assessment."""
    found = await judges().assess(
        story(
            "保修期为三年。退货需要十天。",
            "本产品保修期为三年。",
            query="保修期多长?",
        )
    )
    assert found.language == "zh"
    assert [s.verdict for s in found.sentences] == [Verdict.SUPPORTED, Verdict.ABSENT]
    assert server.chats[0].system == SYSTEM["zh"]


async def test_a_supported_number_that_stands_nowhere_is_flagged(server, judges):
    """The verdict stays, with the reason `number` and the number as its words."""
    server.script('{"s":[[1]],"bad":[],"rel":3,"evasive":false,"ctx":[2]}')
    found = await judges().assess(story("It lasts 5 years.", "The warranty lasts 3 years."))
    (sentence,) = found.sentences
    assert sentence.verdict is Verdict.SUPPORTED
    assert (sentence.reasons, sentence.words) == (("number",), ("5",))


async def test_the_second_reply_fills_the_gaps_of_the_first(server, judges):
    """What only one of the two replies says is taken from it."""
    server.script('{"s":[[1]],"evasive":false}', '{"rel":3,"ctx":[2]}')
    found = await judges().assess(story("It lasts 3 years.", "It lasts 3 years."))
    assert (found.sentences is None, found.answer_relevancy) == (False, 1.0)
    assert found.chunk_relevance == (1.0,)


# What is asked


async def test_borders_differ_between_calls(server, judges):
    """The same answer is asked about with another border each time."""
    judge = judges()
    await judge.assess(WARRANTY)
    await judge.assess(WARRANTY)
    first, second = (request.user.partition(" ")[0] for request in server.chats)
    assert first != second


# Bad replies


@pytest.mark.parametrize(
    ("fault", "calls"),
    [
        (malformed, 2),
        (empty, 2),
        (truncated, 2),
        (fenced, 1),
        (in_prose, 1),
        (wrong_counts, 2),
        (wrong_content_type, 2),
        (rate_limited(1), 2),
        (refused(500), 2),
        (refused(503), 2),
        (refused(400, "response_format 'json_object' is not supported"), 2),
    ],
)
async def test_one_fault_costs_at_most_one_more_call(server, judges, fault, calls):
    """After one bad reply the reading is the same as without it."""
    judge = judges()
    server.script(fault)
    found = await judge.assess(WARRANTY)
    assert len(server.chats) == calls
    assert found.usage.calls == calls
    expected = await judge.assess(WARRANTY)
    assert found.sentences == expected.sentences
    assert found.answer_relevancy == expected.answer_relevancy


@pytest.mark.parametrize(
    ("fault", "calls", "outcome"),
    [
        (malformed, 2, (Cause.UNREADABLE, True)),
        (empty, 2, (Cause.UNREADABLE, True)),
        (Reply(content="", finish_reason="length"), 2, (Cause.UNREADABLE, True)),
        (Reply(content="I will not judge this."), 2, (Cause.UNREADABLE, True)),
        (rate_limited(1), 3, (Cause.JUDGE_ERROR, True)),
        (refused(500), 3, (Cause.JUDGE_ERROR, True)),
        (refused(401, "Incorrect API key", kind="auth"), 1, (Cause.JUDGE_ERROR, False)),
        (refused(404, "no such model"), 1, (Cause.JUDGE_ERROR, False)),
        (refused(400, "bad request"), 1, (Cause.JUDGE_ERROR, False)),
    ],
)
async def test_a_lasting_fault_ends_in_one_judge_error(server, judges, fault, calls, outcome):
    """It names its cause, says whether to try again, and counts the calls."""
    server.always(fault)
    with pytest.raises(JudgeError) as caught:
        await judges().assess(WARRANTY)
    assert (caught.value.cause, caught.value.retryable) == outcome
    assert len(server.chats) == caught.value.usage.calls == calls
    assert "\n" not in str(caught.value)


async def test_a_reply_that_was_cut_gets_twice_the_room(server, judges):
    """The same question is sent again with max_tokens doubled."""
    server.script(truncated)
    await judges().assess(WARRANTY)
    first, second = server.chats
    assert second.body["max_tokens"] == 2 * first.body["max_tokens"]
    assert second.user == first.user


# The ladder


def forms(server):
    return [(chat.body.get("response_format") or {}).get("type", "text") for chat in server.chats]


async def test_a_strict_reply_reads_the_same(server, judges):
    """Verdicts, evidence and words are those of the short form."""
    short = await judges().assess(WARRANTY)
    strict = await judges(reply_format="json_schema").assess(WARRANTY)
    assert strict.sentences == short.sentences
    assert (strict.answer_relevancy, strict.evasive) == (short.answer_relevancy, short.evasive)
    assert strict.chunk_relevance == short.chunk_relevance


@pytest.mark.parametrize(
    "refusal",
    [
        "Invalid parameter: 'response_format' of type 'json_schema' is not supported",
        "this model has no structured outputs",
        "litellm.UnsupportedParamsError: does not support parameters: ['response_format']",
    ],
)
async def test_the_ladder_is_stepped_down_once(server, judges, refusal):
    """Schema, then JSON, then plain text; each rejection is met once and remembered."""

    def plain_only(request):
        return refused(400, refusal) if "response_format" in request.body else truthful(request)

    server.always(plain_only)
    judge = judges(reply_format="json_schema")
    found = await judge.assess(WARRANTY)
    await judge.assess(WARRANTY)
    assert forms(server) == ["json_schema", "json_object", "text", "text"]
    assert found.usage.calls == 3
    assert found.sentences is not None


# Long evidence


def long_story(sentences="It is red. It is blue.", n=12):
    words = "filler words about nothing in particular " * 140
    chunks = [f"Chunk {number}. {words}" for number in range(n)]
    chunks[1] += " It is red."
    chunks[n - 1] += " It is blue."
    return story(sentences, *chunks, query="Which colour?")


async def test_no_call_of_a_spread_reading_is_too_long(server, judges):
    """By a real tokenizer each prompt stays below the limit."""
    encoding = pytest.importorskip("litellm").encoding
    await judges().assess(long_story())
    for chat in server.chats:
        asked = len(encoding.encode(chat.system)) + len(encoding.encode(chat.user))
        assert asked < TOKENS_PER_CALL


async def test_one_failing_share_fails_the_reading_and_all_is_charged(server, judges):
    """Half of the evidence proves nothing; what was spent on it is known."""
    server.script(refused(401))
    with pytest.raises(JudgeError) as caught:
        await judges().assess(long_story())
    assert caught.value.usage.calls == len(server.chats) > 1
    assert caught.value.usage.input_tokens > 0


async def test_the_expected_cost_covers_every_share(server, judges):
    """It is above what all calls took, each with its re-ask."""
    server.always(wrong_counts)
    judge = judges()
    told = long_story()
    found = await judge.assess(told)
    assert found.usage.calls >= 4
    assert judge.expected_cost(told) > found.usage.input_tokens + found.usage.output_tokens
    assert judges(budget_unit="calls").expected_cost(told) >= found.usage.calls


# Duplicates


async def test_a_duplicate_is_not_asked_again(server, judges):
    """The second reading makes no request and costs nothing."""
    judge = judges(cache=AssessmentCache(size=10, age_s=60))
    first = await judge.assess(WARRANTY)
    second = await judge.assess(replace(WARRANTY, id="2"))
    assert len(server.chats) == 1
    assert second.sentences == first.sentences
    assert (second.usage.calls, second.usage.cache_hits) == (0, 1)


# A provider that is down


async def test_a_dead_provider_is_left_alone(server, judges):
    """After five readings that it failed, the sixth costs no call and no time."""
    server.always(refused(401))
    judge = judges()
    for _ in range(5):
        with pytest.raises(JudgeError):
            await judge.assess(WARRANTY)
    with pytest.raises(JudgeError) as caught:
        await judge.assess(WARRANTY)
    assert (caught.value.cause, caught.value.usage.calls) == (Cause.JUDGE_DOWN, 0)
    assert len(server.chats) == 5
    assert not judge.breaker.admits()


async def test_one_call_probes_whether_it_is_back(server, judges):
    """Without retries; when it succeeds everything passes again."""
    clock = ManualClock()
    server.always(refused(500))
    judge = judges(clock=clock)
    for _ in range(5):
        with pytest.raises(JudgeError):
            await judge.assess(WARRANTY)
    clock.advance(30)
    before = len(server.chats)
    with pytest.raises(JudgeError):
        await judge.assess(WARRANTY)
    assert len(server.chats) == before + 1
    server.always(truthful)
    clock.advance(60)
    await judge.assess(WARRANTY)
    assert judge.breaker.state == "closed"


# Trying again


async def test_a_slow_drip_is_a_timeout(server, judges):
    """Bytes that keep coming do not keep a call alive."""
    await judges().assess(WARRANTY)
    server.always(dripping)
    with pytest.raises(JudgeError) as caught:
        await judges(timeout_s=0.3).assess(WARRANTY)
    assert caught.value.cause is Cause.JUDGE_TIMEOUT
    assert caught.value.usage.seconds < 5


async def test_retry_after_is_honoured(server, judges):
    """The pause before the retry is the one the provider asked for."""
    server.script(rate_limited(retry_after_s=3))
    await judges().assess(WARRANTY)
    assert judges.waits == [3.0]


async def test_keys_stay_out_of_errors(server, judges):
    """A provider that repeats the key does not get it into our logs."""
    key = "sk-abcdefghijklmnop"
    server.always(refused(401, f"Incorrect API key provided: {key}"))
    with pytest.raises(JudgeError) as caught:
        await judges(api_key=key).assess(WARRANTY)
    assert key not in str(caught.value)


# Time


async def test_a_timeout_is_charged_the_prompt(server, judges):
    """What was sent is billed although nobody told us: a budget must not leak by timeouts."""
    await judges().assess(WARRANTY)
    server.always(hanging)
    with pytest.raises(JudgeError) as caught:
        await judges(timeout_s=0.1).assess(WARRANTY)
    assert caught.value.usage.input_tokens > 400


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


async def test_many_readings_at_once_keep_apart(server, judges):
    """Concurrent readings each get the verdicts of their own answer."""
    judge = judges()
    stories = [story(f"It is {n} cm.", f"It is {n % 3} cm.", number=n) for n in range(12)]
    found = await asyncio.gather(*(judge.assess(told) for told in stories))
    supported = [f.sentences[0].verdict is Verdict.SUPPORTED for f in found]
    assert supported == [n < 3 for n in range(12)]


# Cost


async def test_a_price_that_litellm_knows_is_used(server, judges):
    """gpt-4o-mini costs what litellm's table says, without a price in the settings."""
    server.always(
        Reply(
            content='{"s":[[1]],"bad":[],"rel":3,"evasive":false,"ctx":[2]}',
            input_tokens=1_000,
            output_tokens=100,
        )
    )
    judge = judges("openai/gpt-4o-mini", budget_unit="usd")
    usage = (await judge.assess(story("It is red.", "It is red."))).usage
    assert usage.cost_usd == pytest.approx(0.15e-3 + 0.06e-3)


async def test_an_unknown_price_stops_a_budget_in_dollars(server, judges):
    """No call is made, and the message names the settings that help."""
    with pytest.raises(
        JudgeError, match=r"input_usd_per_million_tokens.*budget\.tokens_per_day"
    ) as caught:
        await judges(budget_unit="usd").assess(WARRANTY)
    assert caught.value.cause is Cause.JUDGE_ERROR
    assert not server.chats


@pytest.mark.parametrize(
    "told",
    [
        WARRANTY,
        story("", query=""),
        story("保修期为三年。" * 9, *["本产品保修期为三年。" * 30] * 5, query="保修期多长?"),
        story("No. " * 40, "3.14 | 2.72 | 1.41\n" * 40),
    ],
)
async def test_the_expected_cost_covers_the_call(server, judges, told):
    """The estimate is above what the request's tokens and the whole room for a reply can cost."""
    tiktoken = pytest.importorskip("tiktoken")
    judge = judges()
    if told.answer:
        await judge.assess(told)
        (request,) = server.chats
        encoding = pytest.importorskip("litellm").encoding  # cl100k_base, in its package
        assert isinstance(encoding, tiktoken.Encoding)
        asked = len(encoding.encode(request.system)) + len(encoding.encode(request.user))
        assert judge.expected_cost(told) >= asked + 30
    assert judge.expected_cost(told) > 0


# The application's litellm


async def test_the_applications_callbacks_do_not_see_the_judge(server, judges):
    """A logger that the application registered hears of its own call and not of ours."""
    litellm = pytest.importorskip("litellm")
    from litellm.integrations.custom_logger import CustomLogger

    heard, own = [], asyncio.Event()

    class Logger(CustomLogger):
        async def async_log_success_event(self, kwargs, response_obj, start_time, end_time):
            heard.append(kwargs["model"])
            own.set()

        async def async_log_failure_event(self, kwargs, response_obj, start_time, end_time):
            heard.append(kwargs["model"])

    logger = Logger()
    litellm.callbacks.append(logger)
    try:
        server.script(refused(500))
        await judges().assess(WARRANTY)
        await litellm.acompletion(
            model="openai/own", messages=[{"role": "user", "content": "hi"}], mock_response="hi"
        )
        await asyncio.wait_for(own.wait(), 10)
    finally:
        for name, listed in vars(litellm).items():
            if name.endswith(("callback", "callbacks")) and isinstance(listed, list):
                listed[:] = [each for each in listed if each is not logger]
    assert heard == ["own"]


async def test_the_applications_litellm_settings_stay(server, judges):
    """No plain setting of the module differs after readings, good and bad."""
    litellm = pytest.importorskip("litellm")
    plain = (bool, int, float, str, type(None), list)

    def settings():
        return {
            name: repr(value)
            for name, value in vars(litellm).items()
            if isinstance(value, plain) and not inspect.ismodule(value) and name[0] != "_"
        }

    await judges().assess(WARRANTY)
    before = settings()
    server.script(refused(500), refused(400, "temperature"))
    await judges().assess(WARRANTY)
    after = settings()
    # The module also fills in its own lazily imported names, which are no settings.
    assert {name: after.get(name) for name in before} == before


async def test_the_applications_retries_are_not_ours(server, judges, monkeypatch):
    """Retries that litellm is told of globally do not multiply our calls."""
    litellm = pytest.importorskip("litellm")
    monkeypatch.setattr(litellm, "num_retries", 5)
    server.always(refused(500))
    with pytest.raises(JudgeError):
        await judges().assess(WARRANTY)
    assert len(server.chats) == 3


async def test_a_missing_litellm_names_the_extra(monkeypatch):
    """Without litellm the first reading says what to install."""
    monkeypatch.setitem(sys.modules, "litellm", None)
    with pytest.raises(MissingExtraError, match=r"ragmonitor\[litellm\]"):
        await LlmJudge("openai/judge").assess(WARRANTY)


async def test_a_local_server_needs_no_key(server, judges, monkeypatch):
    """With an address and no key anywhere, a stand-in is sent."""
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    await judges(api_key=None).assess(WARRANTY)
    assert server.chats[0].headers["authorization"] == "Bearer none"
