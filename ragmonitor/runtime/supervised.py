"""Runs the work of a part on a daemon thread that starts on demand, and again after a failure."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from opentelemetry import context

from ragmonitor.runtime.guard import contained, record_error

START_AGAIN_S = 1.0
"""The system that had no thread for us is asked again after this one."""
FIRST_PAUSE_S = 0.5
"""Pause after the work ended by an error; it doubles with each that follows at once."""
MAX_PAUSE_S = 60.0


class SupervisedThread:
    """A daemon thread that begins its work again, whatever ended it, until it is closed.

    The application's instrumentations trace nothing of what it does.
    """

    def __init__(
        self, work: Callable[[], bool | None], *, failed: Callable[[], object] = lambda: None
    ) -> None:
        """Start nothing yet.

        Args:
            work: Called again and again, until it returns False: nothing more is to be done. After
                an error, or None, there is a pause, the longer the more of them follow at once.
            failed: Called on the thread before such a pause.
        """
        self._work, self._failed = work, failed
        # Reentrant: an interaction may end in a generator's finalizer, and garbage may be collected
        # at any allocation, those of `start` included.
        self._starting = threading.RLock()
        self._thread: threading.Thread | None = None
        self._not_before_s = 0.0
        self.is_started = False
        """Whether it works, or is on its way."""
        self.ending = threading.Event()
        """Set once it is closed."""

    def start(self) -> None:
        """Start the thread if there is none."""
        with self._starting:
            if self.is_started or self.ending.is_set() or time.monotonic() < self._not_before_s:
                return
            self._thread = threading.Thread(target=self._run, name="ragmonitor", daemon=True)
            self.is_started = True
            try:
                self._thread.start()
            except RuntimeError as error:  # the system has none, for now
                self.is_started, self._thread = False, None
                self._not_before_s = time.monotonic() + START_AGAIN_S
                record_error("worker", error)

    def close(self) -> None:
        """Have the thread end with what it has in hand; none is started any more."""
        with self._starting:
            self.ending.set()
            self.is_started = False

    def join(self, timeout_s: float) -> bool:
        """Wait for the end of the thread; return whether there is none any more."""
        if self._thread is None or self.is_current:
            return self._thread is None
        self._thread.join(max(0.0, timeout_s))
        return not self._thread.is_alive()

    @property
    def is_current(self) -> bool:
        """Whether the caller is on this thread."""
        return self._thread is threading.current_thread()

    def _run(self) -> None:
        context.attach(context.set_value("suppress_instrumentation", True))
        pause_s = FIRST_PAUSE_S
        goes_on: bool | None = True
        try:
            while goes_on is not False and not self.ending.is_set():
                began_s, goes_on = time.monotonic(), None
                with contained("worker"):
                    goes_on = self._work()
                if goes_on is not None or time.monotonic() - began_s > MAX_PAUSE_S:
                    pause_s = FIRST_PAUSE_S
                if goes_on is None and not self.ending.is_set():
                    with contained("worker"):
                        self._failed()
                    self.ending.wait(pause_s)
                    pause_s = min(2 * pause_s, MAX_PAUSE_S)
        finally:
            with self._starting:
                if self.is_current:  # whatever ended it, the next call starts another
                    self.is_started = False
