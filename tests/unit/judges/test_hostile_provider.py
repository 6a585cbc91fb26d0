"""What a provider that is broken or hostile can do to the process: through litellm, as it comes."""

import gzip
import json
import logging
import subprocess
import sys
import textwrap
import zlib

import pytest

from ragmonitor.errors import JudgeError
from ragmonitor.judges import FunctionJudge, LlmJudge
from ragmonitor.judges.bounded_replies import MAX_REPLY_BYTES
from ragmonitor.judges.litellm_embedding import LitellmEmbedding
from ragmonitor.judges.scrubbing import scrubbed
from ragmonitor.records import Cause
from tests.support.judge_caches import forget_support
from tests.support.openai_server import OpenAiServer, Reply, refused, truthful
from tests.support.stories import interaction

pytestmark = pytest.mark.slow

litellm = pytest.importorskip("litellm")

TOLD = interaction()
KEY = "d41d8cd98f00b204e9800998ecf8427e"
"""Of no shape that tells: a local server's, or a proxy's."""


@pytest.fixture
def server():
    forget_support()
    with OpenAiServer() as server:
        yield server


@pytest.fixture
async def judges(server):
    """Make judges that are closed before their loop is."""
    made = []

    def make(**options):
        options = {
            "api_base": server.api_base,
            "api_key": "none",
            "budget_unit": "tokens",
        } | options
        made.append(LlmJudge("openai/judge", **options))
        return made[-1]

    yield make
    for judge in made:
        await judge.close()


# Size


async def test_an_endless_reply_ends_at_the_limit(server, judges):
    """The connection is closed; the outcome is `judge_error`, says why and is not tried again."""
    server.always(Reply(body=b" " * 2**16, is_endless=True))
    with pytest.raises(JudgeError, match=f"larger than {MAX_REPLY_BYTES:,} bytes") as caught:
        await judges().assess(TOLD)
    assert caught.value.cause is Cause.JUDGE_ERROR
    assert caught.value.usage.input_tokens > 400  # what was sent is billed
    assert len(server.chats) == 1
    assert server.endless_bytes < 4 * MAX_REPLY_BYTES


async def test_an_endless_error_ends_at_the_limit_too(server, judges):
    """A status of 400 and up is read by the client library before it is anybody's."""
    server.always(Reply(status=500, body=b" " * 2**16, is_endless=True))
    with pytest.raises(JudgeError, match="larger than"):
        await judges().assess(TOLD)
    assert server.endless_bytes < 4 * MAX_REPLY_BYTES


@pytest.mark.parametrize("model", ["anthropic/claude-haiku-4-5", "deepseek/x", "hosted_vllm/x"])
async def test_other_protocols_have_the_limit_too(server, judges, model):
    """Handlers of their own reach them, in litellm."""
    server.always(Reply(body=b" " * 2**16, is_endless=True))
    judge = LlmJudge(model, api_base=server.api_base, api_key="none", budget_unit="tokens")
    with pytest.raises(JudgeError, match="larger than"):
        await judge.assess(TOLD)
    await judge.close()
    assert server.endless_bytes < 4 * MAX_REPLY_BYTES


async def test_the_application_s_own_replies_have_no_limit_of_ours(server, judges):
    """Though litellm may have it share a client with the judge, on one loop."""
    made = {"api_base": server.api_base, "api_key": "none"}
    judge = LlmJudge("hosted_vllm/x", budget_unit="tokens", **made)
    await judge.assess(TOLD)
    server.always("word " * 10**6)
    told = [{"role": "user", "content": "x"}]
    reply = await litellm.acompletion(model="hosted_vllm/x", messages=told, **made)
    await judge.close()
    assert len(reply.choices[0].message.content) == 5 * 10**6


@pytest.mark.parametrize("pack", [gzip.compress, zlib.compress], ids=["gzip", "deflate"])
async def test_a_packed_reply_is_no_larger_unpacked(server, judges, pack):
    """A bomb is refused, having unpacked no more than the limit."""
    encoding = {"Content-Encoding": "gzip" if pack is gzip.compress else "deflate"}
    server.always(Reply(body=pack(b" " * 2**27), headers=encoding))
    with pytest.raises(JudgeError, match="larger than"):
        await judges().assess(TOLD)


async def test_an_honest_packed_reply_is_read(server, judges):
    """As gzip, which alone is asked for."""
    completion = {
        "id": "1",
        "object": "chat.completion",
        "created": 0,
        "model": "judge",
        "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant"}}],
    }

    def packed(request):
        completion["choices"][0]["message"]["content"] = truthful(request).content
        body = gzip.compress(json.dumps(completion).encode())
        return Reply(body=body, headers={"Content-Encoding": "gzip"})

    server.always(packed)
    assert (await judges().assess(TOLD)).sentences
    assert server.chats[0].headers["accept-encoding"] == "gzip"


async def test_a_reply_packed_otherwise_is_refused(server, judges):
    """It was not asked for, and would be unpacked to any size."""
    server.always(Reply(body=b"abc", headers={"Content-Encoding": "br"}))
    with pytest.raises(JudgeError, match="packed as 'br'"):
        await judges().assess(TOLD)


async def test_a_long_text_is_no_reply(server, judges):
    """Far beyond the room that was asked for nothing is read of it."""
    server.always("{" * 200_000)
    with pytest.raises(JudgeError, match="a reply of 200,000 characters") as caught:
        await judges().assess(TOLD)
    assert caught.value.cause is Cause.JUDGE_ERROR
    assert len(server.chats) == 1


async def test_a_function_s_long_text_is_none_either():
    """As a model's."""
    judge = FunctionJudge(lambda prompts: ["[" * 10**6 for _ in prompts], name="own")
    with pytest.raises(JudgeError, match="a reply of 1,000,000 characters"):
        await judge.assess(TOLD)


def test_vectors_without_end_are_refused(server):
    """Embeddings are read through such a session too."""
    server.embeds = Reply(body=b" " * 2**16, is_endless=True)
    embedding = LitellmEmbedding("openai/e", api_base=server.api_base, api_key="none")
    with pytest.raises(JudgeError, match="larger than") as caught:
        embedding(["a", "b"])
    assert caught.value.usage.input_tokens > 0


_WITHOUT_CLOSE = """
import asyncio, os
os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
from ragmonitor.judges import LlmJudge
from tests.support.openai_server import OpenAiServer
from tests.support.stories import interaction

with OpenAiServer() as server:
    judge = LlmJudge("openai/j", api_base=server.api_base, api_key="none", budget_unit="tokens")
    for _ in range(3):
        asyncio.run(judge.assess(interaction()))
"""


def test_a_judge_that_nobody_closes_says_nothing():
    """Its connections go with the loop; no library complains of them in the host's log."""
    # There its logging worker, which a call begins, does not let a loop end.
    pytest.importorskip("litellm._internal_context", reason="older releases cannot be told so")
    done = subprocess.run(
        [sys.executable, "-c", _WITHOUT_CLOSE],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert "Unclosed" not in done.stderr


# Counts


@pytest.mark.parametrize(
    "counts",
    [
        {"prompt_tokens": -(10**9), "completion_tokens": -(10**9)},
        {"prompt_tokens": 10**18, "completion_tokens": 10**18},
        {"prompt_tokens": 10**400, "completion_tokens": 5},
        {"prompt_tokens": float("nan"), "completion_tokens": float("nan")},
        {"prompt_tokens": True, "completion_tokens": True},
        {"prompt_tokens": "many", "completion_tokens": "few"},
        {"prompt_tokens": None, "completion_tokens": None},
        {"prompt_tokens": [1], "completion_tokens": {}},
    ],
    ids=["negative", "huge", "beyond floats", "NaN", "true", "text", "null", "lists"],
)
async def test_counts_that_cannot_be_are_taken_as_what_can(server, judges, counts):
    """The reading stands, or is one failure; what is charged lies between nothing and sense."""

    def reply(request):
        body = {
            "id": "1",
            "object": "chat.completion",
            "created": 0,
            "model": "judge",
            "choices": [
                {
                    "index": 0,
                    "finish_reason": "stop",
                    "message": {"role": "assistant", "content": truthful(request).content},
                }
            ],
            "usage": counts | {"total_tokens": 7},
        }
        return Reply(body=json.dumps(body).encode())

    server.always(reply)
    judge = judges(input_usd_per_million_tokens=1.0, output_usd_per_million_tokens=1.0)
    try:
        usage = (await judge.assess(TOLD)).usage
    except JudgeError as error:
        usage = error.usage
    assert 0 <= usage.input_tokens < 20_000
    assert 0 <= usage.output_tokens < 20_000
    assert 0 <= usage.cost_usd < 0.05


# Keys


@pytest.mark.parametrize(
    "said",
    [
        f"Incorrect API key provided: {KEY}",
        f"Bearer {KEY} is not allowed",
        f"headers: {{'Authorization': 'Bearer {KEY}'}}",
        f"GET /v1?key={KEY} failed",
    ],
)
async def test_a_key_from_the_environment_stays_out_of_errors(server, judges, monkeypatch, said):
    """Nor does it stand in what a log would show of the error's causes."""
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    server.always(refused(401, said))
    with pytest.raises(JudgeError) as caught:
        await judges(api_key=None).assess(TOLD)
    assert server.chats[0].headers["authorization"] == f"Bearer {KEY}"
    assert "[key]" in str(caught.value)
    logger = logging.Formatter()
    shown = logger.formatException((type(caught.value), caught.value, caught.value.__traceback__))
    assert KEY not in shown


def test_embedding_errors_hold_no_key_either(server, monkeypatch):
    """As those of judges."""
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    server.embeds = refused(401, f"Incorrect API key provided: {KEY}")
    embedding = LitellmEmbedding("openai/e", api_base=server.api_base)
    with pytest.raises(JudgeError) as caught:
        embedding(["a"])
    assert "[key]" in str(caught.value)
    assert KEY not in str(caught.value)


async def test_a_function_s_error_holds_no_key_of_the_process(monkeypatch):
    """A function calls a client of its own, with a key from the environment."""
    monkeypatch.setenv("ACME_API_KEY", KEY)

    def fail(_prompts):
        raise ValueError(f"401: {KEY} is unknown")

    with pytest.raises(JudgeError) as caught:
        await FunctionJudge(fail, name="own").assess(TOLD)
    assert KEY not in str(caught.value)
    assert "401: [key] is unknown" in str(caught.value)


@pytest.mark.parametrize(
    ("address", "said"),
    [
        (f"http://host/v1?api-version=1&code={KEY}", f"no such code: {KEY}"),
        (f"http://me:{KEY}@host/v1", f"login me:{KEY} failed"),
        (f"http://me:{KEY}@host/v1", f"no route to http://me:{KEY}@host/v1"),
        ("http://host/v1?t=a%2Fb%2Bc%2Bd", "what is a/b+c+d"),
    ],
)
def test_what_stands_in_the_address_is_taken_out(address, said):
    """Keys in its query and its login, as they are and as they are written there."""
    shown = scrubbed(said, address=address)
    assert KEY not in shown
    assert "[key]" in shown


def test_keys_set_on_litellm_are_taken_out(monkeypatch):
    """By the application, for all its calls."""
    monkeypatch.setattr(litellm, "openai_key", KEY)
    monkeypatch.setattr(litellm, "headers", {"Authorization": "Bearer other-key-7"})
    assert scrubbed(f"{KEY} and other-key-7") == "[key] and [key]"


def test_words_stay(monkeypatch):
    """What a variable holds that is no key does not make holes in other texts."""
    monkeypatch.setenv("TOKENIZERS_PARALLELISM", "default")
    monkeypatch.setenv("MAX_TOKENS", "100000")
    said = "by default the context holds 100000 tokens"
    assert scrubbed(said) == said


# What is printed and logged

_HOST = """
import asyncio, logging, os, sys
os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
logging.basicConfig(level=logging.INFO, stream=sys.stdout)
{first}
from ragmonitor.errors import JudgeError
from ragmonitor.judges import LlmJudge
from tests.support.openai_server import OpenAiServer, refused
from tests.support.stories import interaction

async def main():
    with OpenAiServer() as server:
        made = dict(api_base=server.api_base, api_key="none", budget_unit="tokens")
        judge = LlmJudge("openai/judge", **made)
        await judge.assess(interaction())
        server.always(refused(401))
        try:
            await judge.assess(interaction())
        except JudgeError:
            pass
        await LlmJudge("no-such-model", **made).prepare()
        print("--- the host's own")
        import litellm
        try:
            await litellm.acompletion(
                model="openai/host", messages=[{{"role": "user", "content": "x"}}],
                api_base=server.api_base, api_key="none", num_retries=0, max_retries=0,
            )
        except litellm.AuthenticationError:
            pass
        await judge.close()

asyncio.run(main())
"""


@pytest.mark.parametrize("first", ["", "import litellm"], ids=["ours first", "the host's first"])
def test_a_judge_is_not_heard_and_the_host_s_calls_are(first):
    """With the root logger at INFO: nothing of ours on standard output, all of the host's own."""
    script = textwrap.dedent(_HOST).format(first=first)
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=120, check=True
    )
    ours, _, theirs = done.stdout.partition("--- the host's own\n")
    assert ours == ""
    assert "Give Feedback / Get Help" in theirs
    assert "LiteLLM completion() model= host" in theirs
    assert "model= judge" not in done.stderr
