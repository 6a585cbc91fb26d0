"""Ends while a part that is named hangs, and says for how long that held it."""

import asyncio
import atexit
import contextlib
import sys
import time

from ragmonitor import Monitor
from tests.contract.kit import JudgeObject, settings

ended = [0.0]
# Registered first, so that it runs last.
atexit.register(lambda: print(time.monotonic() - ended[0]))


class Sleeping(JudgeObject):
    """A judge that waits for a provider."""

    async def assess(self, answer):
        await asyncio.sleep(60)


class Stubborn(JudgeObject):
    """A judge that goes on although it is cancelled."""

    async def assess(self, answer):
        while True:
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.sleep(60)


class Blocking(JudgeObject):
    """A judge that keeps its thread."""

    async def assess(self, answer):
        time.sleep(60)  # noqa: ASYNC251 - which it must not do


class Threaded(JudgeObject):
    """A judge that keeps a thread of asyncio's."""

    async def assess(self, answer):
        await asyncio.to_thread(time.sleep, 60)


PARTS = {
    "sleeping": lambda: {"judge": Sleeping()},
    "stubborn": lambda: {"judge": Stubborn()},
    "blocking": lambda: {"judge": Blocking()},
    "threaded": lambda: {"judge": Threaded()},
    "redaction": lambda: {"content": {"redaction": (lambda _: time.sleep(60),)}},
}
monitor = Monitor(**settings(sample=1.0, **PARTS[sys.argv[1]]()))
with monitor.interaction(query="When?") as i:
    i.retrieved(["In 1889."])
    i.answered("In 1889.")
monitor.flush(0.3)
ended[0] = time.monotonic()
