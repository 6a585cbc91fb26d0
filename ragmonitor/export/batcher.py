"""Sends items in batches from a thread of its own: scores to Phoenix and Langfuse, spans by OTLP.

What waits is bounded in number and bytes. Nothing is lost silently: each item that does not arrive
is counted, with its reason.
"""

from __future__ import annotations

import math
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from opentelemetry import context

from ragmonitor.runtime.errors import RagMonitorError
from ragmonitor.runtime.forks import survive_forks
from ragmonitor.runtime.guard import reason, record_error, record_problem, shielded

MAX_ITEMS = 10_000
"""Items that may wait..."""
MAX_BYTES = 32 * 2**20
"""... and their bytes."""
BATCH_ITEMS = 256
BATCH_BYTES = 512 * 1024
"""Below the 1 MiB of body that usual proxies let through."""
LINGER_S = 1.0
"""The time for which a batch may gather."""
CLOSE_WAIT_S = 0.1
"""For the request that is under way; it is left to itself afterwards."""

Lost = Callable[[str, int], None]
"""Takes why items were lost (`phoenix_full`) and how many, from any thread."""


class DeliveryError(RagMonitorError):
    """A server did not take what was sent; the message says why and what to do."""

    quotes_no_text = True

    def __init__(self, problem: str, *, why: str = "refused", lost: int | None = None) -> None:
        super().__init__(problem)
        self.why = why
        """`refused` or `failed`: how the loss is counted."""
        self.lost = lost
        """The number of items that were not taken; None: all."""


class Batcher:
    """Takes items from any thread and sends them from another, in order.

    The thread starts with the first item, and again in a forked child, which does not send what its
    parent has waiting.
    """

    def __init__(
        self,
        name: str,
        send: Callable[[Sequence[Any], float], None],
        lost: Lost | None = None,
    ) -> None:
        """Send nothing yet.

        Args:
            name: Of the server, `Phoenix`; in lower case it begins the reasons that are counted.
            send: Sends one batch, in so many seconds; raises `DeliveryError`.
            lost: Counts what does not arrive.
        """
        self.name = name
        self.lost = lost
        self._send = send
        self._closed = False
        self._begin()
        survive_forks(self)

    def _begin(self) -> None:
        self._changed = threading.Condition()
        """Guards everything below; notified when there is work, and when some is done."""
        self._waiting: deque[tuple[Any, int]] = deque()
        self._waiting_bytes = 0
        self._taken = self._finished = self._missed = 0
        """How many items were taken, done with, and sent in vain; the last since the last flush."""
        self._wanted = 0
        """A flush waits for so many to be done with; until then no batch lingers."""
        self._thread: threading.Thread | None = None

    def put(self, item: Any, size: int) -> None:
        """Take an item of so many bytes, or count it as lost. Never waits for the network."""
        with self._changed:
            is_full = len(self._waiting) >= MAX_ITEMS or self._waiting_bytes + size > MAX_BYTES
            if not (self._closed or is_full):
                self._waiting.append((item, size))
                self._waiting_bytes += size
                self._taken += 1
                self._start()
                if len(self._waiting) in (1, BATCH_ITEMS):
                    self._changed.notify_all()
                return
        self._lose(1, "closed" if self._closed else "full")
        problem = f"{self.name}: more comes than is taken, or after the end; the newest is lost"
        record_problem("export", problem)

    def flush(self, timeout_s: float) -> bool:
        """Send what waits; return whether all that was sent since the last flush was taken."""
        deadline = time.monotonic() + timeout_s
        with self._changed:
            goal = self._wanted = self._taken
            started = self._finished >= goal or self._start()
            self._changed.notify_all()
            if started:
                self._changed.wait_for(lambda: self._finished >= goal, timeout_s)
        # The interpreter is going down and starts no thread any more.
        while not started and (left_s := deadline - time.monotonic()) > 0:
            batch = self._batch()
            if not batch:
                break
            self._deliver(batch, left_s)
        with self._changed:
            missed, self._missed = self._missed, 0
            return self._finished >= goal and not missed

    def close(self) -> None:
        """Stop. What still waits is counted as lost: flush first."""
        with self._changed:
            self._closed = True
            self._waiting.clear()
            self._waiting_bytes = 0
            thread, self._thread = self._thread, None
            self._changed.notify_all()
        if thread is not None:
            thread.join(CLOSE_WAIT_S)
        with self._changed:  # the process may end before the server replies
            left, self._finished = self._taken - self._finished, self._taken
            self._changed.notify_all()
        if left:
            self._lose(left, "closed")

    def _lose(self, n: int, why: str) -> None:
        if self.lost is not None:
            with shielded("export"):
                self.lost(f"{self.name.lower()}_{why}", n)

    def _start(self) -> bool:
        """Return whether there is a thread that sends. The caller holds the lock."""
        if self._thread is None and not self._closed:
            name = f"ragmonitor-{self.name.lower()}"
            thread = threading.Thread(target=self._run, name=name, daemon=True)
            try:
                thread.start()
            except RuntimeError:  # the interpreter is going down
                return False
            self._thread = thread
        return self._thread is not None

    def _run(self) -> None:
        # On our own thread only: our posts must not be traced as traffic of the application.
        context.attach(context.set_value("suppress_instrumentation", True))
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting or self._closed)
                self._changed.wait_for(
                    lambda: (
                        self._closed
                        or self._finished < self._wanted
                        or len(self._waiting) >= BATCH_ITEMS
                    ),
                    LINGER_S,
                )
                batch = self._batch()
            if not batch:
                return
            self._deliver(batch, math.inf)

    def _batch(self) -> list[tuple[Any, int]]:
        batch: list[tuple[Any, int]] = []
        size = 0
        with self._changed:
            while self._waiting and len(batch) < BATCH_ITEMS:
                size += self._waiting[0][1]
                if batch and size > BATCH_BYTES:
                    break
                batch.append(self._waiting.popleft())
                self._waiting_bytes -= batch[-1][1]
        return batch

    def _deliver(self, batch: Sequence[tuple[Any, int]], timeout_s: float) -> None:
        n = lost = len(batch)
        why = "failed"
        try:
            self._send([item for item, _ in batch], timeout_s)
            lost = 0
        except DeliveryError as error:
            lost, why = n if error.lost is None else error.lost, error.why
            record_problem("export", f"{reason(error)}; {lost} are lost", about=self.name)
        except Exception as error:  # noqa: BLE001 - whatever it is, the next batch is sent
            record_error("export", error)
        with self._changed:
            if self._finished < self._taken:  # else who closed has counted it
                self._missed += lost
                if lost:
                    self._lose(lost, why)
                self._finished += n
                self._changed.notify_all()

    def after_fork_in_child(self) -> None:
        """Begin anew: the thread, and what waits, stayed with the parent."""
        self._begin()
