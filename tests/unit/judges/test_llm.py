"""The LLM judge, with the real litellm against a scripted server on loopback."""

import asyncio
import inspect
import json
import subprocess
import sys
from dataclasses import replace

import pytest

from ragmonitor.errors import JudgeError, MissingExtraError
from ragmonitor.judges import llm
from ragmonitor.judges.cache import AssessmentCache
from ragmonitor.judges.judge_prompts import SCHEMA, SYSTEM, strict_messages, write_prompt
from ragmonitor.judges.llm import MAX_CALLS, TOKENS_PER_CALL, LlmJudge
from ragmonitor.judges.sentences import split
from ragmonitor.protocols import Judge
from ragmonitor.records import Cause, Chunk, Interaction, Verdict
from ragmonitor.testing import ManualClock
from tests.support.judge_caches import forget_support
from tests.support.openai_server import (
    OpenAiServer,
    Reply,
    breaking_off,
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
from tests.support.prometheus_server import free_port


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
    forget_support()  # of an earlier test's server, at the same port
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


def test_it_keeps_the_protocol():
    """It is a judge, with an identity that names the model and the prompt's version."""
    judge = LlmJudge("openai/judge")
    assert isinstance(judge, Judge)
    assert (judge.identity.name, judge.identity.kind) == ("openai/judge", "LLM")
    assert judge.identity == LlmJudge("openai/judge").identity


async def test_one_call_gives_every_score(server, judges):
    """One request yields verdicts with evidence, relevancy, evasiveness and chunk relevance."""
    found = await judges().assess(WARRANTY)
    assert len(server.chats) == 1
    assert [s.verdict for s in found.sentences] == [
        Verdict.CONTRADICTED,
        Verdict.SUPPORTED,
        Verdict.ABSENT,
    ]
    assert [s.chunks for s in found.sentences] == [(0,), (0,), ()]
    assert found.sentences[0].words == ("5",)
    assert (found.answer_relevancy, found.evasive) == (1.0, False)
    assert found.chunk_relevance == (0.5, 0.0)
    assert (found.language, found.risk) == ("en", None)


async def test_offsets_are_those_of_the_answer(judges):
    """Each sentence's text stands between its offsets."""
    found = await judges().assess(WARRANTY)
    assert [WARRANTY.answer[s.start : s.end] for s in found.sentences] == [
        s.text for s in found.sentences
    ]


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


async def test_no_chunks_still_gives_a_reading(judges):
    """Without chunks nothing is supported, and relevancy is still known."""
    found = await judges().assess(story("The warranty lasts 5 years."))
    assert [s.verdict for s in found.sentences] == [Verdict.ABSENT]
    assert found.chunk_relevance == ()
    assert found.answer_relevancy is not None


async def test_a_supported_number_that_stands_nowhere_is_flagged(server, judges):
    """The verdict stays, with the reason `number` and the number as its words."""
    server.script('{"s":[[1]],"bad":[],"rel":3,"evasive":false,"ctx":[2]}')
    found = await judges().assess(story("It lasts 5 years.", "The warranty lasts 3 years."))
    (sentence,) = found.sentences
    assert sentence.verdict is Verdict.SUPPORTED
    assert (sentence.reasons, sentence.words) == (("number",), ("5",))


async def test_what_cannot_be_read_is_none_for_that_field_only(server, judges):
    """A reply whose ratings stay broken still gives verdicts; the ratings are None, not 0."""
    server.always('{"s":[[1]],"bad":[],"rel":9,"evasive":false,"ctx":[2,2]}')
    found = await judges().assess(story("It lasts 3 years.", "It lasts 3 years."))
    assert found.sentences is not None
    assert (found.answer_relevancy, found.chunk_relevance) == (None, None)
    assert found.evasive is False


async def test_the_second_reply_fills_the_gaps_of_the_first(server, judges):
    """What only one of the two replies says is taken from it."""
    server.script('{"s":[[1]],"evasive":false}', '{"rel":3,"ctx":[2]}')
    found = await judges().assess(story("It lasts 3 years.", "It lasts 3 years."))
    assert (found.sentences is None, found.answer_relevancy) == (False, 1.0)
    assert found.chunk_relevance == (1.0,)


# What is asked


async def test_the_system_message_never_changes(server, judges):
    """It is byte-identical between calls about different answers, so that it can be cached."""
    judge = judges()
    await judge.assess(WARRANTY)
    await judge.assess(story("It is red.", "It is blue.", query="Which colour?"))
    first, second = server.chats
    assert first.messages[0] == second.messages[0] == {"role": "system", "content": SYSTEM["en"]}
    assert first.user != second.user


async def test_borders_differ_between_calls(server, judges):
    """The same answer is asked about with another border each time."""
    judge = judges()
    await judge.assess(WARRANTY)
    await judge.assess(WARRANTY)
    first, second = (request.user.partition(" ")[0] for request in server.chats)
    assert first != second


async def test_the_call_asks_for_json_without_chance(server, judges):
    """Temperature 0, a JSON reply, and room for it by the number of sentences and chunks."""
    await judges().assess(WARRANTY)
    (request,) = server.chats
    assert request.body["temperature"] == 0
    assert request.body["response_format"] == {"type": "json_object"}
    assert request.body["max_tokens"] == 60 + 24 * 3 + 4 * 2


async def test_evidence_too_long_for_all_calls_is_refused_before_them(server, judges):
    """Nothing is sent, and the error says how long it was; so does the question of its cost."""
    long = story("It is red.", "red words " * (TOKENS_PER_CALL * MAX_CALLS // 2))
    judge = judges()
    with pytest.raises(JudgeError, match=r"evidence of about \d+ tokens exceeds") as caught:
        await judge.assess(long)
    assert (caught.value.cause, caught.value.retryable) == (Cause.EVIDENCE_TOO_LONG, False)
    with pytest.raises(JudgeError, match="evidence of about"):
        judge.expected_cost(long)
    assert not server.chats


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


async def test_the_second_request_says_what_was_wrong(server, judges):
    """Its last line names the fault, so that a reply at temperature 0 can differ."""
    server.script(wrong_counts)
    await judges().assess(WARRANTY)
    first, second = server.chats
    assert second.user.startswith(first.user)
    assert "s has 4 entries, not 3" in second.user.splitlines()[-1]


async def test_a_reply_that_was_cut_gets_twice_the_room(server, judges):
    """The same question is sent again with max_tokens doubled."""
    server.script(truncated)
    await judges().assess(WARRANTY)
    first, second = server.chats
    assert second.body["max_tokens"] == 2 * first.body["max_tokens"]
    assert second.user == first.user


async def test_a_thinking_model_gets_room_for_its_thoughts(server, judges):
    """Once a reply was cut amid thoughts, later requests leave room for them."""
    judge = judges()
    server.script(Reply(content="<think>Let me see", finish_reason="length"))
    await judge.assess(WARRANTY)
    assert server.chats[1].body["max_tokens"] > 4000


async def test_a_refused_response_format_is_left_out_for_good(server, judges):
    """After one 400 about it no later call sends it."""
    judge = judges()
    server.script(refused(400, "response_format 'json_object' is not supported"))
    await judge.assess(WARRANTY)
    await judge.assess(WARRANTY)
    assert ["response_format" in request.body for request in server.chats] == [True, False, False]


async def test_what_one_judge_found_out_the_next_one_knows(server, judges):
    """A rejected form is not asked for again in this process, whichever judge asks."""
    server.script(refused(400, "response_format 'json_object' is not supported"))
    await judges().assess(WARRANTY)
    await judges().assess(WARRANTY)
    assert ["response_format" in request.body for request in server.chats] == [True, False, False]


# The ladder


def forms(server):
    return [(chat.body.get("response_format") or {}).get("type", "text") for chat in server.chats]


async def test_json_is_asked_for_by_default_and_a_schema_by_choice(server, judges):
    """The schema costs tokens in every call and not every provider keeps to it."""
    await judges().assess(WARRANTY)
    await judges(reply_format="json_schema").assess(WARRANTY)
    await judges(reply_format="text").assess(WARRANTY)
    assert forms(server) == ["json_object", "json_schema", "text"]


async def test_a_strict_reply_reads_the_same(server, judges):
    """Verdicts, evidence and words are those of the short form."""
    short = await judges().assess(WARRANTY)
    strict = await judges(reply_format="json_schema").assess(WARRANTY)
    assert strict.sentences == short.sentences
    assert (strict.answer_relevancy, strict.evasive) == (short.answer_relevancy, short.evasive)
    assert strict.chunk_relevance == short.chunk_relevance


async def test_the_strict_call_sends_the_schema_and_says_how_to_fill_it(server, judges):
    """Schema and prompt agree: no reply is asked for that the schema forbids."""
    await judges(reply_format="json_schema").assess(WARRANTY)
    (chat,) = server.chats
    assert chat.body["response_format"]["json_schema"]["schema"] == SCHEMA
    assert chat.body["response_format"]["json_schema"]["strict"] is True
    assert '{"v":"S","c":[1,3],"w":"","sev":0}' in chat.system
    assert '"s":[[1]' not in chat.system


def test_the_schema_has_no_unions():
    """Providers that hold a model to a schema do not all take them."""
    text = repr(SCHEMA)
    assert not any(word in text for word in ("anyOf", "oneOf", "allOf", "maxItems", "$ref"))


@pytest.mark.parametrize("language", ["en", "zh"])
def test_the_strict_prompt_takes_no_more_than_is_reckoned(language):
    """With its schema it exceeds the short one by less than what the cost reckons with."""
    encoding = pytest.importorskip("litellm").encoding

    def tokens(messages):
        return len(encoding.encode(messages[0]["content"]))

    prompt = write_prompt(question="q", chunks=["c"], sentences=["s"], language=language)
    strict = tokens(strict_messages(prompt, language)) + len(encoding.encode(json.dumps(SCHEMA)))
    assert strict - tokens(prompt.messages) < llm._STRICT_TOKENS
    frame = sum(len(encoding.encode(m["content"])) for m in prompt.messages)
    assert frame < llm._FRAME_TOKENS


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


async def test_who_rejects_the_schema_is_another_ruler(server, judges):
    """The assessment carries the identity of the prompt that was really used."""
    strict = judges(reply_format="json_schema")
    assert strict.identity != judges().identity
    assert (await strict.assess(WARRANTY)).judge == strict.identity
    server.script(refused(400, "json_schema is not supported"))
    assert (await strict.assess(WARRANTY)).judge == judges().identity


async def test_another_400_steps_down_nothing(server, judges):
    """What is not about the form is the request's own fault."""
    server.script(refused(400, "the prompt violates our policy"))
    judge = judges()
    with pytest.raises(JudgeError):
        await judge.assess(WARRANTY)
    await judge.assess(WARRANTY)
    assert forms(server) == ["json_object", "json_object"]


# Long evidence


def long_story(sentences="It is red. It is blue.", n=12):
    words = "filler words about nothing in particular " * 140
    chunks = [f"Chunk {number}. {words}" for number in range(n)]
    chunks[1] += " It is red."
    chunks[n - 1] += " It is blue."
    return story(sentences, *chunks, query="Which colour?")


async def test_long_evidence_is_spread_and_joined(server, judges):
    """Each call sees neighbours, the sentence is credited to the chunk that holds it."""
    told = long_story()
    found = await judges().assess(told)
    assert 1 < len(server.chats) <= MAX_CALLS
    assert found.usage.calls == len(server.chats)
    assert [s.verdict for s in found.sentences] == [Verdict.SUPPORTED, Verdict.SUPPORTED]
    assert [s.chunks for s in found.sentences] == [(1,), (11,)]
    assert len(found.chunk_relevance) == 12


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


async def test_another_day_is_another_question(server, judges):
    """The prompt says the day: "today" in an answer means another one."""
    judge = judges(cache=AssessmentCache(size=10, age_s=60))
    await judge.assess(WARRANTY)
    await judge.assess(replace(WARRANTY, started_ns=WARRANTY.started_ns + 86_400 * 10**9))
    assert len(server.chats) == 2


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


async def test_pauses_grow_and_are_spread(server, judges):
    """Half a second to a second and a half, then twice that; a given time is added to a little."""
    server.always(refused(500))
    for jitter in (0.0, 0.999):
        with pytest.raises(JudgeError):
            await judges(jitter=lambda jitter=jitter: jitter).assess(WARRANTY)
    server.script(rate_limited(retry_after_s=10))
    server.always(truthful)
    await judges(jitter=lambda: 0.5).assess(WARRANTY)
    assert judges.waits == pytest.approx([0.5, 1.0, 1.5, 3.0, 10.5], abs=0.01)


async def test_a_reading_s_time_is_a_setting(server, judges):
    """A Retry-After within twice the call's time, but not within the reading's, is not waited."""
    server.script(rate_limited(retry_after_s=20))
    with pytest.raises(JudgeError):
        await judges(timeout_s=15, reading_timeout_s=10).assess(WARRANTY)
    assert judges.waits == []


async def test_a_slow_drip_is_a_timeout(server, judges):
    """Bytes that keep coming do not keep a call alive."""
    await judges().assess(WARRANTY)
    server.always(dripping)
    with pytest.raises(JudgeError) as caught:
        await judges(timeout_s=0.3).assess(WARRANTY)
    assert caught.value.cause is Cause.JUDGE_TIMEOUT
    assert caught.value.usage.seconds < 5


async def test_a_reply_without_counts_is_charged_by_estimate(server, judges):
    """A server that says nothing of tokens does not judge for nothing."""
    server.always(lambda request: replace(truthful(request), input_tokens=0, output_tokens=0))
    usage = (await judges().assess(WARRANTY)).usage
    assert usage.input_tokens > 400
    assert usage.output_tokens > 10


async def test_retry_after_is_honoured(server, judges):
    """The pause before the retry is the one the provider asked for."""
    server.script(rate_limited(retry_after_s=3))
    await judges().assess(WARRANTY)
    assert judges.waits == [3.0]


async def test_a_wait_longer_than_the_reading_may_last_is_not_begun(server, judges):
    """A Retry-After beyond the time of one reading fails at once."""
    server.script(rate_limited(retry_after_s=3600))
    with pytest.raises(JudgeError) as caught:
        await judges().assess(WARRANTY)
    assert caught.value.cause is Cause.JUDGE_ERROR
    assert caught.value.retryable
    assert judges.waits == []


async def test_keys_stay_out_of_errors(server, judges):
    """A provider that repeats the key does not get it into our logs."""
    key = "sk-abcdefghijklmnop"
    server.always(refused(401, f"Incorrect API key provided: {key}"))
    with pytest.raises(JudgeError) as caught:
        await judges(api_key=key).assess(WARRANTY)
    assert key not in str(caught.value)


# Time


async def test_silence_is_a_timeout(server, judges):
    """A provider that does not reply costs one call of at most `timeout_s`."""
    await judges().assess(WARRANTY)
    server.always(hanging)
    judge = judges(timeout_s=0.1)
    with pytest.raises(JudgeError) as caught:
        await judge.assess(WARRANTY)
    assert caught.value.cause is Cause.JUDGE_TIMEOUT
    assert caught.value.retryable
    assert caught.value.usage.calls == 1


async def test_a_timeout_is_charged_the_prompt(server, judges):
    """What was sent is billed although nobody told us: a budget must not leak by timeouts."""
    await judges().assess(WARRANTY)
    server.always(hanging)
    with pytest.raises(JudgeError) as caught:
        await judges(timeout_s=0.1).assess(WARRANTY)
    assert caught.value.usage.input_tokens > 400


async def test_a_reply_that_is_too_long_is_charged_what_the_provider_counts(server, judges):
    """It was written and is billed, though nothing of it is read."""
    server.always(Reply(content="word " * 60_000, input_tokens=700, output_tokens=75_000))
    with pytest.raises(JudgeError, match="300,000 characters") as caught:
        await judges().assess(WARRANTY)
    usage = caught.value.usage
    assert (usage.calls, usage.input_tokens, usage.output_tokens) == (1, 700, 75_000)


async def test_a_reply_that_breaks_off_is_charged_the_prompt_and_the_room(server, judges):
    """The provider has written it, and nobody says how long it would have been."""
    server.always(breaking_off)
    with pytest.raises(JudgeError) as caught:
        await judges().assess(WARRANTY)
    usage = caught.value.usage
    assert usage.input_tokens > 400 * usage.calls
    assert usage.output_tokens >= 100 * usage.calls


async def test_a_connection_that_cannot_be_made_is_free(judges):
    """Nobody has read the prompt."""
    with pytest.raises(JudgeError) as caught:
        await judges(api_base=f"http://127.0.0.1:{free_port()}/v1").assess(WARRANTY)
    usage = caught.value.usage
    assert (usage.calls, usage.input_tokens, usage.output_tokens) == (3, 0, 0)


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


async def test_usage_sums_up_over_the_calls(server, judges):
    """Tokens, dollars and calls of both requests are in the assessment."""
    server.script(
        Reply(content="nothing", input_tokens=1000, output_tokens=10),
        Reply(
            content='{"s":[[1]],"bad":[],"rel":3,"evasive":false,"ctx":[2]}',
            input_tokens=1100,
            output_tokens=30,
        ),
    )
    judge = judges(
        input_usd_per_million_tokens=1.0, output_usd_per_million_tokens=10.0, budget_unit="usd"
    )
    usage = (await judge.assess(story("It is red.", "It is red."))).usage
    assert (usage.calls, usage.input_tokens, usage.output_tokens) == (2, 2100, 40)
    assert usage.cost_usd == pytest.approx(2100e-6 + 400e-6)
    assert usage.seconds > 0


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


async def test_an_unknown_price_does_not_matter_to_a_budget_in_tokens(judges):
    """The reading works and costs 0 dollars."""
    assert (await judges(budget_unit="tokens").assess(WARRANTY)).usage.cost_usd == 0.0


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


@pytest.mark.parametrize("end", [*"\r\v\f\x85\u2028\u2029｡"])
def test_the_expected_cost_knows_every_end_of_a_sentence(judges, end):
    """A reply has an entry for each sentence: whatever ends it is counted as a line break is."""
    judge = judges(budget_unit="tokens")
    lines = [f"It is {number} m tall" for number in range(80)]
    plain, other = (replace(WARRANTY, answer=each.join(lines)) for each in ("\n", end))
    assert len(split(other.answer)) == len(lines)
    assert judge.expected_cost(other) >= judge.expected_cost(plain)


async def test_the_expected_cost_in_dollars_follows_the_price(judges):
    """Twice the price, twice the estimate; a price of 0 still gives more than 0."""
    cheap, dear, free = (
        judges(
            budget_unit="usd",
            input_usd_per_million_tokens=price,
            output_usd_per_million_tokens=price,
        )
        for price in (1.0, 2.0, 0.0)
    )
    assert dear.expected_cost(WARRANTY) == pytest.approx(2 * cheap.expected_cost(WARRANTY))
    assert free.expected_cost(WARRANTY) > 0


async def test_the_expected_cost_uses_the_price_that_litellm_knows(judges):
    """Once it is loaded, gpt-4o-mini costs a tenth or less of gpt-4o."""
    small, large = (
        judges(f"openai/{name}", budget_unit="usd") for name in ("gpt-4o-mini", "gpt-4o")
    )
    await small.prepare()
    await large.prepare()
    assert 0 < 10 * small.expected_cost(WARRANTY) < large.expected_cost(WARRANTY)


def test_the_expected_cost_waits_for_nothing(monkeypatch):
    """Without litellm, or before it is loaded, the estimate is made at a placeholder's price."""
    monkeypatch.setitem(sys.modules, "litellm", None)
    assert LlmJudge("openai/gpt-4o", budget_unit="usd").expected_cost(WARRANTY) > 0


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


def test_building_a_judge_imports_no_litellm():
    """Its seconds of import are not paid before the first reading."""
    code = (
        "import sys; from ragmonitor.judges.llm import LlmJudge; LlmJudge('openai/judge');"
        "print('litellm' in sys.modules, 'httpx' in sys.modules)"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert told.stdout.split() == ["False", "False"]


async def test_a_local_server_needs_no_key(server, judges, monkeypatch):
    """With an address and no key anywhere, a stand-in is sent."""
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    await judges(api_key=None).assess(WARRANTY)
    assert server.chats[0].headers["authorization"] == "Bearer none"


async def test_truthful_is_what_the_server_says_by_default(server, judges):
    """The scripted judge's own reply reads back as the same verdicts."""
    judge = judges()
    by_default = await judge.assess(WARRANTY)
    server.script(truthful)
    assert (await judge.assess(WARRANTY)).sentences == by_default.sentences
