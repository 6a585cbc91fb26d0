"""A function as the judge: the same prompt, the same reading of replies."""

import asyncio
import json
import threading
import time

import pytest
from opentelemetry import context

from ragmonitor.judges import FunctionJudge
from ragmonitor.records import Cause, Verdict
from ragmonitor.runtime.capabilities import as_judge
from ragmonitor.runtime.errors import JudgeError
from tests.support.openai_server import Request, judged
from tests.support.stories import interaction


def truth(prompt):
    """Return the scripted judge's reply to a prompt in one piece."""
    at = prompt.index("<<")
    messages = [{"role": "user", "content": prompt[at:]}]
    request = Request(method="POST", path="/", headers={}, body={"messages": messages})
    return json.dumps(judged(request))


def told(number=1):
    return interaction(id=str(number), query=f"When was tower {number} built?")


class Answering:
    """Notes how it was called."""

    def __init__(self, reply=truth):
        self.batches, self.threads, self.at_once, self.most_at_once = [], set(), 0, 0
        self.reply = reply

    def __call__(self, prompts):
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        self.batches.append(prompts)
        self.threads.add(threading.get_ident())
        time.sleep(0.01)
        self.at_once -= 1
        return [self.reply(prompt) for prompt in prompts]


async def test_a_plain_function_judges():
    """One prompt in, one reply out; the assessment is that of any LLM judge."""
    answering = Answering()
    judge = FunctionJudge(answering, name="own")
    found = await judge.assess(told())
    assert [s.verdict for s in found.sentences] == [Verdict.SUPPORTED]
    assert len(answering.batches) == 1
    assert answering.threads.isdisjoint({threading.get_ident()})
    assert as_judge(judge).budget_unit == "tokens"
    assert as_judge(judge).breaker_state == "closed"


async def test_a_coroutine_function_judges():
    """On the loop, without a thread."""

    async def answer(prompts):
        await asyncio.sleep(0)
        assert threading.current_thread() is threading.main_thread()
        return [truth(prompt) for prompt in prompts]

    assert (await FunctionJudge(answer, name="own").assess(told())).sentences is not None


@pytest.mark.parametrize("parallel", [1, 3])
async def test_no_more_calls_at_once_than_allowed(parallel):
    """A function that is not made for threads is called by one at a time."""
    answering = Answering()
    judge = FunctionJudge(answering, name="own", parallel=parallel)
    await asyncio.gather(*(judge.assess(told(n)) for n in range(12)))
    assert answering.most_at_once == parallel
    assert len(answering.batches) == 12


async def test_tokens_are_estimated():
    """Nobody counts them; a budget in tokens is spent all the same, one in dollars by the price."""
    usage = (await FunctionJudge(Answering(), name="own").assess(told())).usage
    assert usage.input_tokens > 400
    assert usage.cost_usd == 0
    priced = FunctionJudge(
        Answering(),
        name="own",
        budget_unit="usd",
        input_usd_per_million_tokens=1,
        output_usd_per_million_tokens=1,
    )
    assert (await priced.assess(told())).usage.cost_usd > 400e-6


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (lambda _: 1 / 0, "ZeroDivisionError"),
        (lambda _: [], "no list of 1 reply"),
        (lambda _: "text", "no list of 1 reply"),
        (lambda _: None, "TypeError"),
    ],
)
async def test_a_function_that_fails_is_a_judge_error(function, said):
    """Called once, not tried again, and said in one line."""
    with pytest.raises(JudgeError, match=said) as caught:
        await FunctionJudge(function, name="own").assess(told())
    assert caught.value.cause is Cause.JUDGE_ERROR
    assert caught.value.usage.calls == 1


async def test_a_reply_that_is_too_long_is_charged_by_estimate():
    """The model behind the function has written it."""
    judge = FunctionJudge(lambda prompts: ["[" * 10**6 for _ in prompts], name="own")
    with pytest.raises(JudgeError) as caught:
        await judge.assess(told())
    assert caught.value.usage.input_tokens > 400
    assert caught.value.usage.output_tokens == 10**6


async def test_a_function_that_hangs_is_a_timeout():
    """It keeps its thread, and nobody else: neither the loop nor the end of the process."""
    free = threading.Event()
    judge = FunctionJudge(lambda _: free.wait(30), name="own", timeout_s=0.05)
    with pytest.raises(JudgeError) as caught:
        await judge.assess(told())
    assert caught.value.cause is Cause.JUDGE_TIMEOUT
    await judge.close()
    free.set()


async def test_what_the_function_calls_is_not_traced():
    """It runs in the judge's context, in which instrumentation is suppressed."""
    seen = []

    def look(prompts):
        seen.append(context.get_value("suppress_instrumentation"))
        return [truth(prompt) for prompt in prompts]

    token = context.attach(context.set_value("suppress_instrumentation", True))
    try:
        await FunctionJudge(look, name="own").assess(told())
    finally:
        context.detach(token)
    assert seen == [True]
