"""The scripted server that stands in for a provider in tests."""

import json
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from tests.support.openai_server import OpenAiServer, embed, rate_limited


@pytest.fixture
def server():
    with OpenAiServer(answer="I do not know.") as server:
        yield server


def post(server, path, **body):
    request = Request(server.api_base + path, json.dumps(body).encode())
    request.add_header("Content-Type", "application/json")
    with urlopen(request, timeout=10) as response:
        return response.read().decode()


def test_a_chat_that_is_no_judgement_gets_the_answer(server):
    """Applications under test can use it as their own model."""
    told = json.loads(
        post(server, "/chat/completions", messages=[{"role": "user", "content": "x"}])
    )
    assert told["choices"][0]["message"]["content"] == "I do not know."


def test_steps_are_used_in_order_and_then_the_default(server):
    """A script's texts come first, one per request."""
    server.script("one", "two")
    said = [json.loads(post(server, "/chat/completions", messages=[])) for _ in range(3)]
    assert [told["choices"][0]["message"]["content"] for told in said] == [
        "one",
        "two",
        "I do not know.",
    ]


def test_a_stream_ends_with_done_and_adds_up(server):
    """Streamed pieces joined are the reply; usage comes if it was asked for."""
    text = post(
        server,
        "/chat/completions",
        messages=[],
        stream=True,
        stream_options={"include_usage": True},
    )
    *events, done = [line.removeprefix("data: ") for line in text.split("\n\n") if line]
    assert done == "[DONE]"
    pieces = [json.loads(event) for event in events]
    assert pieces[-1]["usage"]["total_tokens"] >= 0
    deltas = [piece["choices"][0]["delta"] for piece in pieces if piece["choices"]]
    assert "".join(delta.get("content", "") for delta in deltas) == "I do not know."


def test_embeddings_are_the_same_for_the_same_text(server):
    """Small, deterministic vectors, one per input."""
    told = json.loads(post(server, "/embeddings", input=["a", "b", "a"]))
    vectors = [row["embedding"] for row in told["data"]]
    assert vectors[0] == vectors[2] == embed("a") != vectors[1]


def test_models_are_listed(server):
    """One model, `judge`."""
    with urlopen(server.api_base + "/models", timeout=10) as response:
        assert [row["id"] for row in json.load(response)["data"]] == ["judge"]


def test_a_refusal_has_its_status_and_header(server):
    """A 429 carries Retry-After."""
    server.script(rate_limited(retry_after_s=7))
    with pytest.raises(HTTPError) as caught:
        post(server, "/chat/completions", messages=[])
    with caught.value as error:
        assert (error.code, error.headers["Retry-After"]) == (429, "7")


def test_requests_are_kept_as_they_came(server):
    """Path, headers in lower case, and body."""
    post(server, "/chat/completions", messages=[{"role": "system", "content": "be brief"}])
    (request,) = server.chats
    assert request.path == "/v1/chat/completions"
    assert request.headers["content-type"] == "application/json"
    assert request.system == "be brief"
