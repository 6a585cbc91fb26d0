"""The library tries again, and elsewhere: the user asked once and got one answer."""

import asyncio
import gc
import time

import litellm
import pytest

from tests.support.openai_server import rate_limited, refused

pytestmark = pytest.mark.slow


@pytest.fixture
def router(watched):
    """Give two models, the second one for when the first fails; one retry each."""
    deployment = {k: v for k, v in watched.call.items() if k != "messages"}
    router = litellm.Router(
        model_list=[
            {"model_name": "first", "litellm_params": deployment},
            {"model_name": "second", "litellm_params": deployment | {"model": "openai/other-1"}},
        ],
        fallbacks=[{"first": ["second"]}],
        num_retries=1,
        retry_after=0,
    )
    yield router
    router.discard()


async def ask(router, messages, way):
    if way == "sync":
        return await asyncio.to_thread(router.completion, "first", messages)
    reply = await router.acompletion("first", messages, stream=way == "stream")
    if way == "stream":
        async for _ in reply:
            pass
    return reply


@pytest.mark.parametrize("way", ["sync", "async", "stream"])
async def test_a_routers_retry_is_no_interaction_of_its_own(watched, server, router, way, story):
    """The try that failed stands among the generations, and the user waited for both."""
    server.script(rate_limited())
    await ask(router, story.asked(), way)
    (interaction,) = await watched.later()
    assert (interaction.status, interaction.answer) == ("ok", story.ANSWER)
    failed, answered = interaction.generations
    assert failed.error.startswith("RateLimitError")
    assert answered.output == story.ANSWER
    assert interaction.started_ns == failed.started_ns < answered.started_ns


@pytest.mark.parametrize("way", ["sync", "async"])
async def test_a_routers_fallback_is_no_interaction_of_its_own(watched, server, router, way, story):
    """Even though it is another model."""
    server.script(rate_limited(), rate_limited())
    await ask(router, story.asked(), way)
    (interaction,) = await watched.later()
    assert interaction.status == "ok"
    assert [g.model for g in interaction.generations] == ["answering-1", "answering-1", "other-1"]


async def test_a_router_that_gives_up_is_one_error(watched, server, router, story):
    """With the last failure, after all tries."""
    server.always(refused(500))
    with pytest.raises(litellm.InternalServerError):
        await ask(router, story.asked(), "async")
    (interaction,) = await watched.later()
    assert interaction.status == "error"
    assert len(interaction.generations) == 4
    assert all(g.error for g in interaction.generations)


async def test_calls_of_one_trace_are_not_mistaken_for_retries(watched, server, router, story):
    """A trace may hold several questions at once; each keeps its own failure."""
    questions = ["First?", "Second?", "Third?"]
    server.always(lambda request: refused(500) if len(server.chats) <= 3 else story.ANSWER)
    await asyncio.gather(
        *(router.acompletion("first", story.asked(q), litellm_trace_id="t") for q in questions)
    )
    interactions = await watched.later()
    assert sorted((i.query, i.status, len(i.generations)) for i in interactions) == [
        (question, "ok", 2) for question in questions
    ]


async def test_retries_of_the_library_are_no_interactions_of_their_own(watched, server, way):
    """`num_retries` without a router."""
    # The client library underneath tries twice again by itself.
    server.script(*[refused(500)] * 2)
    await way(watched.call | {"num_retries": 3})
    (interaction,) = await watched.later()
    assert interaction.status == "ok"


@pytest.mark.usefixtures("lets_go")
async def test_retries_of_the_library_that_give_up_are_one_error(watched, server, way):
    """Of the first failure litellm tells, and of the last one nothing at all."""
    server.always(refused(500))
    with pytest.raises(litellm.InternalServerError):
        await way(watched.call | {"num_retries": 2})
    (interaction,) = await watched.later()
    assert interaction.status == "error"


async def test_a_failure_waits_for_a_retry_and_then_is_final(watched, server, monkeypatch):
    """Without a flush: as soon as litellm cannot be waiting any more."""
    server.script(refused(500))
    with pytest.raises(litellm.InternalServerError) as kept:
        await litellm.acompletion(**watched.call)
    gc.collect()
    watched.recorder.sweep()
    assert len(watched.recorder) == 1  # who holds the exception holds the call
    monkeypatch.setattr("time.time_ns", lambda ns=time.time_ns: ns() + 66 * 10**9)
    watched.recorder.sweep()
    assert len(watched.recorder) == 0
    assert kept.value is not None
    assert [i.status for i in await watched.later()] == ["error"]


async def test_failures_that_wait_are_bounded(watched, server, monkeypatch):
    """The oldest is taken as final."""
    monkeypatch.setattr(watched.recorder, "_max_open_runs", 4)
    monkeypatch.setattr(watched.recorder, "_forgotten_at_once", 1)
    server.always(refused(500))
    kept = []
    for _ in range(4):
        with pytest.raises(litellm.InternalServerError) as failure:
            await litellm.acompletion(**watched.call)
        kept.append(failure.value)
    assert len(watched.recorder) == 3
    assert [i.status for i in await watched.later()] == ["error"] * 4


async def test_a_router_may_let_go_of_a_try_before_the_next(watched, server, router, story):
    """So that alone makes no failure of it; and without a next one it is a failure all the same."""
    server.always(refused(500))
    with pytest.raises(litellm.InternalServerError):
        await ask(router, story.asked(), "async")
    gc.collect()
    assert len(watched.recorder) == 1
    assert watched.exporter.reports == []
    assert [i.status for i in await watched.later()] == ["error"]
