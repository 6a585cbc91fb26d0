"""Calls that may block, where nobody waits for them."""

import asyncio
import contextlib
import logging
import threading

import pytest

from ragmonitor.runtime.apart import CallEndedError, apart, run, within
from tests.support.waiting import until


def test_a_call_that_outlives_its_loop_says_nothing(caplog):
    """The loop ends without it, and its result is for nobody."""
    free, ended = threading.Event(), threading.Event()

    def hang():
        free.wait(10)
        ended.set()

    async def main():
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(0.01):
                await asyncio.shield(apart(hang))

    run(main())
    free.set()
    assert ended.wait(10)
    until("its thread is gone", lambda: "ragmonitor-call" not in names())
    assert [r for r in caplog.records if r.levelno >= logging.WARNING] == []


def names():
    return [thread.name for thread in threading.enumerate()]


@pytest.mark.parametrize("error", [SystemExit, KeyboardInterrupt, GeneratorExit, StopIteration])
def test_what_a_task_must_not_raise_comes_as_an_error(error):
    """It would end the loop, and all that waits on it."""

    def end():
        raise error("over")

    with pytest.raises(CallEndedError, match=f"{error.__name__}: over"):
        run(apart(end))


def test_a_late_call_is_left_to_itself():
    """Within its time or not; what it raises is raised here."""
    free = threading.Event()
    assert within(10, lambda: None)
    assert not within(0.01, lambda: free.wait(10))
    free.set()
    with pytest.raises(ZeroDivisionError):
        within(10, lambda: 1 / 0)
