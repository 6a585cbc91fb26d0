"""What a provider that is broken or hostile can do to the process: through litellm, as it comes."""

import json
import logging
import subprocess
import sys
import textwrap

import pytest

from ragmonitor.errors import JudgeError
from ragmonitor.judges import LlmJudge
from ragmonitor.judges.litellm_embedding import LitellmEmbedding
from ragmonitor.judges.scrubbing import scrubbed
from ragmonitor.records import Cause
from tests.support.openai_server import OpenAiServer, Reply, refused, truthful
from tests.support.stories import interaction

pytestmark = pytest.mark.slow

litellm = pytest.importorskip("litellm")

TOLD = interaction()
KEY = "d41d8cd98f00b204e9800998ecf8427e"
"""Of no shape that tells: a local server's, or a proxy's."""


@pytest.fixture
def server():
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


async def test_a_long_text_is_no_reply(server, judges):
    """Far beyond the room that was asked for nothing is read of it."""
    server.always("{" * 200_000)
    with pytest.raises(JudgeError, match="a reply of 200,000 characters") as caught:
        await judges().assess(TOLD)
    assert caught.value.cause is Cause.JUDGE_ERROR
    assert len(server.chats) == 1


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
async def test_a_key_that_is_given_stays_out_of_errors(server, judges, said):
    """Nor does it stand in what a log would show of the error's causes."""
    server.always(refused(401, said))
    with pytest.raises(JudgeError) as caught:
        await judges(api_key=KEY).assess(TOLD)
    assert server.chats[0].headers["authorization"] == f"Bearer {KEY}"
    assert "[key]" in str(caught.value)
    logger = logging.Formatter()
    shown = logger.formatException((type(caught.value), caught.value, caught.value.__traceback__))
    assert KEY not in shown


def test_embedding_errors_hold_no_key_either(server):
    """As those of judges."""
    server.embeds = refused(401, f"Incorrect API key provided: {KEY}")
    embedding = LitellmEmbedding("openai/e", api_base=server.api_base, api_key=KEY)
    with pytest.raises(JudgeError) as caught:
        embedding(["a"])
    assert "[key]" in str(caught.value)
    assert KEY not in str(caught.value)


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
    """With the root logger at INFO: nothing of ours on standard output, the host's own logs."""
    script = textwrap.dedent(_HOST).format(first=first)
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=120, check=True
    )
    ours, _, theirs = done.stdout.partition("--- the host's own\n")
    assert ours == ""
    assert "LiteLLM completion() model= host" in theirs
    assert "model= judge" not in done.stderr


async def test_a_key_of_the_environment_is_known_by_its_shape(server, judges, monkeypatch):
    """As providers give keys out."""
    monkeypatch.setenv("OPENAI_API_KEY", f"sk-{KEY}")
    server.always(refused(401, f"Incorrect API key provided: sk-{KEY}"))
    with pytest.raises(JudgeError, match=r"provided: \[key\]"):
        await judges(api_key=None).assess(TOLD)
