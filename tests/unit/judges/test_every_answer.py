"""A slow judge that reads every answer: in batches, in its time, and never in anybody's way."""

import asyncio
import os
import signal
import threading
from dataclasses import replace

import pytest

from ragmonitor import Assessment, Interaction, JudgeIdentity, guard
from ragmonitor.errors import JudgeError, MissingExtraError
from ragmonitor.judges import BuiltinJudge
from ragmonitor.judges.every_answer import MAX_STARTS, EveryAnswerReader
from ragmonitor.records import Cause
from tests.support.helper_pids import helper_pid
from tests.support.stories import interaction

ANSWERS = [interaction(answer=f"The tower is {n} m tall.", id=str(n)) for n in range(3)]


class Scripted:
    """Finds what the built-in rules find; some answers make it die or raise."""

    identity = JudgeIdentity(name="tiny", version="1", kind="LLM")

    def read_batch(self, interactions, *, within_s):
        found = []
        for each in interactions:
            if "die" in each.answer:
                os.kill(os.getpid(), signal.SIGKILL)
            if "raise" in each.answer:
                raise ValueError("cannot read this")
            if "late" in each.answer:
                found.append(JudgeError("tiny", "late", cause=Cause.JUDGE_TIMEOUT, retryable=False))
                continue
            if "fail" in each.answer:
                why = "the model failed: CUDA out of memory"
                found.append(JudgeError("tiny", why, cause=Cause.JUDGE_ERROR, retryable=False))
                continue
            found.append(replace(BuiltinJudge().read(each), judge=self.identity, risk=0.5))
        return found


class Missing(Scripted):
    """Has no model."""

    def read_batch(self, interactions, *, within_s):
        raise MissingExtraError("torch", "encoder")


class Here(Scripted):
    """Stays in this process: it cannot be pickled."""

    def __init__(self):
        self.lock = threading.Lock()
        self.released = threading.Event()

    def read_batch(self, interactions, *, within_s):
        if any("hold" in each.answer for each in interactions):
            self.released.wait(30)
        return super().read_batch(interactions, within_s=within_s)


@pytest.fixture
def reader():
    made = []

    def make(inner=None, **options):
        made.append(
            EveryAnswerReader(inner or Scripted(), **{"batch": 4, "timeout_s": 30.0} | options)
        )
        return made[-1]

    yield make
    for each in made:
        each.stop()


async def read(reader, *answers: str | Interaction):
    told = [interaction(answer=each) if isinstance(each, str) else each for each in answers]
    return await reader.read(told, hurry=asyncio.Event())


async def causes(reader, *answers):
    return [None if isinstance(f, Assessment) else f.cause for f in await read(reader, *answers)]


async def test_a_batch_is_read_in_a_helper_under_its_own_name(reader):
    """The answers in their order; the name says who reads, and that it reads all of them."""
    made = reader()
    assert helper_pid(made) is None
    found = await read(made, *ANSWERS)
    assert helper_pid(made) not in {None, os.getpid()}
    assert {f.judge.name for f in found} == {"builtin:tiny"}
    expected = [BuiltinJudge().read(each).sentences for each in ANSWERS]
    assert [f.sentences for f in found] == expected


async def test_what_cannot_be_sent_is_read_on_a_thread(reader):
    """An object with a lock, say."""
    made = reader(Here())
    assert await causes(made, "It is tall.", "late") == [None, Cause.JUDGE_TIMEOUT]
    assert helper_pid(made) is None


async def test_a_batch_that_takes_too_long_is_left_alone(reader):
    """Its answers are missed, those after it too until it is through, and then it goes on."""
    inner = Here()
    made = reader(inner, timeout_s=0.05)
    assert await causes(made, "It is tall.") == [None]
    assert await causes(made, "hold") == [Cause.JUDGE_TIMEOUT]
    assert await causes(made, "It is tall.") == [Cause.JUDGE_BUSY]
    inner.released.set()
    await asyncio.wait_for(asyncio.wrap_future(made._reading), 30)
    assert await causes(made, "It is tall.") == [None]


async def test_at_the_end_nothing_is_waited_for(reader):
    """Whoever closes has set the event: the rules read what is left."""
    inner = Here()
    made = reader(inner)
    assert await causes(made, "It is tall.") == [None]
    hurry = asyncio.Event()
    asyncio.get_running_loop().call_soon(hurry.set)
    (found,) = await made.read([interaction(answer="hold")], hurry=hurry)
    assert found.cause is Cause.SHUTDOWN
    inner.released.set()


async def test_a_model_that_cannot_be_loaded_is_said_once(reader, caplog):
    """With the remedy; every answer has its cause, and no further process is started."""
    made = reader(Missing())
    for _ in range(3):
        assert await causes(made, "It is tall.") == [Cause.JUDGE_ERROR]
    (record,) = caplog.records
    assert "pip install 'ragmonitor[encoder]'" in record.getMessage()
    assert "judge.builtin" in record.getMessage()
    assert helper_pid(made) is None


async def test_a_helper_that_dies_has_a_successor(reader):
    """A few times; then the rules read everything."""
    made = reader()
    assert await causes(made, "It is tall.") == [None]
    for _ in range(MAX_STARTS - 1):
        assert await causes(made, "die") == [Cause.JUDGE_ERROR]
        assert await causes(made, "It is tall.") == [None]
    assert await causes(made, "die") == [Cause.JUDGE_ERROR]
    assert await causes(made, "It is tall.") == [Cause.JUDGE_ERROR]


async def test_an_answer_that_it_fails_on_costs_its_batch_alone(reader):
    """The helper lives on."""
    made = reader()
    assert await causes(made, "raise", "It is tall.") == [Cause.JUDGE_ERROR] * 2
    pid = helper_pid(made)
    assert await causes(made, "It is tall.") == [None]
    assert helper_pid(made) == pid


async def test_why_the_model_failed_on_one_answer_is_in_the_log(reader, caplog):
    """Its answer alone has no verdict, and the log says what the counter cannot."""
    guard.errors.clear()
    assert await causes(reader(), "fail", "It is tall.") == [Cause.JUDGE_ERROR, None]
    assert "CUDA out of memory" in caplog.text
    assert guard.errors["judge"] == 1


async def test_answers_that_would_wait_too_long_are_counted_by_how_long_a_batch_takes(reader):
    """Thirty seconds' worth, and a few batches in any case."""
    made = reader()
    made._batch_s = 3.0
    assert made.max_waiting == 10 * made.batch
    made._batch_s = 60.0
    assert made.max_waiting == 4 * made.batch


async def test_it_is_a_judge_like_any_other(reader):
    """One answer, or the error."""
    made = reader()
    assert (await made.assess(ANSWERS[0])).risk == 0.5
    with pytest.raises(JudgeError, match="late"):
        await made.assess(interaction(answer="late"))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_forked_child_has_a_helper_of_its_own(reader):
    """As gunicorn forks with the application preloaded; the parent's goes on."""
    made = reader()
    asyncio.run(read(made, *ANSWERS))
    pid = helper_pid(made)
    child = os.fork()
    if child == 0:
        code = 1
        try:
            found = asyncio.run(causes(made, "It is tall."))
            code = 0 if found == [None] and helper_pid(made) not in {None, pid} else 2
            made.stop()
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert asyncio.run(causes(made, "It is tall.")) == [None]
    assert helper_pid(made) == pid
