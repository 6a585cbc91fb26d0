"""Asks golden questions again and again, from a thread of its own."""

from __future__ import annotations

import asyncio
import contextlib
import math
import random
import threading
from collections.abc import Callable, Iterable, Iterator

from ragmonitor.goldens.asking import Ask, Asker, ask_each
from ragmonitor.goldens.golden import Golden
from ragmonitor.records import Interaction
from ragmonitor.runtime.apart import run
from ragmonitor.runtime.durations import duration_s
from ragmonitor.runtime.errors import SettingsError
from ragmonitor.runtime.guard import contained


class Probe:
    """Puts golden questions to one application, evenly over time, and hands over what comes of it.

    All questions are asked in a random order, then all of them in another one. The thread is a
    daemon, and so are those of plain functions: none holds the exit of the process. A forked child
    does not ask; its parent goes on.
    """

    def __init__(
        self,
        ask: Ask,
        goldens: Iterable[Golden],
        *,
        put: Callable[[Interaction], None],
        every: float | str = "1h",
        per_hour: float = 60.0,
        timeout_s: float = 60.0,
        concurrency: int = 4,
        once: bool = False,
    ) -> None:
        """Prepare; `start` begins.

        Args:
            ask: The application.
            goldens: The questions; rejected ones, and mined ones that nobody has accepted, are left
                out.
            put: Takes what came of each asking; must not wait.
            every: How often each is asked.
            per_hour: The most that are asked in an hour.
            timeout_s: For one question.
            concurrency: Questions under way at once.
            once: Ask each once, without pauses.

        Raises:
            SettingsError: There is no question, or a number is out of range.
        """
        self._goldens = [each for each in goldens if each.is_askable]
        if not self._goldens:
            raise SettingsError("probe: there is no golden question to ask")
        every_s = duration_s(every, "every") if isinstance(every, str) else float(every)
        if not 0 < every_s < math.inf or not min(per_hour, timeout_s, concurrency) > 0:
            raise SettingsError(
                "probe: every, per_hour, timeout_s and concurrency are above 0; every is seconds, "
                "or a text such as 15m or 1h"
            )
        self.pause_s = max(every_s / len(self._goldens), 3_600.0 / per_hour) * (not once)
        """Mean time between two questions, in seconds; each is up to half longer or shorter."""
        self.failures: dict[str, str] = {}
        """The message of the newest failure of each outcome."""
        self._asker = Asker(ask, timeout_s=timeout_s)
        self._put = put
        self._concurrency = concurrency
        self._once = once
        self._thread = threading.Thread(target=self._run, name="ragmonitor-probe", daemon=True)
        self._stopping = threading.Event()
        self._wake: Callable[[], object] = lambda: None

    def start(self) -> None:
        """Begin to ask."""
        with contained("probe"):
            self._thread.start()

    @property
    def is_running(self) -> bool:
        """Whether it asks, or waits to."""
        return self._thread.is_alive()

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait until it has ended; return whether it has. Only with `once` it ends by itself."""
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def stop(self, timeout_s: float = 1.0) -> bool:
        """Ask no more; what is under way is given up. Return whether the thread ended in time."""
        self._stopping.set()
        with contextlib.suppress(RuntimeError):  # the loop has ended
            self._wake()
        if self._thread is threading.current_thread() or not self._thread.is_alive():
            return True
        return self.wait(timeout_s)

    def _run(self) -> None:
        with contained("probe"):
            run(self._main())

    async def _main(self) -> None:
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        if task is not None:
            self._wake = lambda: loop.call_soon_threadsafe(task.cancel)
        if not self._stopping.is_set():
            with contextlib.suppress(asyncio.CancelledError):
                await ask_each(
                    self._asker,
                    self._order(),
                    self._take,
                    concurrency=self._concurrency,
                    pause_s=lambda: self.pause_s * random.uniform(0.5, 1.5),
                )

    def _take(self, interaction: Interaction) -> None:
        with contained("probe"):
            outcome, _, detail = interaction.error.partition(": ")
            if outcome:
                self.failures[outcome] = detail
            self._put(interaction)

    def _order(self) -> Iterator[Golden]:
        """Yield the questions in a random order, and again in another one unless it is `once`."""
        while True:
            yield from random.sample(self._goldens, len(self._goldens))
            if self._once:
                return
