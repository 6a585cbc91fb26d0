"""Work in slices, between which the interpreter's lock is free for the application.

CPython takes the lock away from a running thread every 5 ms (`sys.getswitchinterval`), which an
event loop that wants to go on feels as delay. A thread of ours that works beside an application
therefore sleeps for a moment after each half of a millisecond. While the application is busy it
keeps the lock for as long as it needs it, so we get the less of it the more it has to do.
"""

from __future__ import annotations

import threading
from time import perf_counter, sleep
from typing import Final

SLICE_S: Final = 0.0005
"""A thread works for so long before it gives the lock back."""
PAUSE_S: Final = 0.00005
"""It then sleeps for so long at least; systems make 0.1 ms of it, in which others can run."""


class _Slices(threading.local):
    """The place of each thread in its slice.

    Defaults are attributes of the class: to ask for one that is absent takes fifteen times as long,
    and `give_back` is called some twenty times for each answer.
    """

    began_s: float | None = None
    """None: the thread does not work in slices."""
    is_behind = False


_thread = _Slices()


def work_in_slices() -> None:
    """Have this thread give the lock back whenever `give_back` finds that its slice is over."""
    _thread.began_s, _thread.is_behind = perf_counter(), False


def say_whether_behind(*, is_behind: bool) -> None:
    """Have this thread keep the lock, as any thread does, while it is behind with its work.

    Where all cores are busy each pause is a wait for a core, and a busy application leaves a thread
    that pauses a tenth of the interpreter.
    """
    _thread.is_behind = is_behind


def give_back() -> None:
    """Sleep for a moment if this thread works in slices and has worked for one; else do nothing."""
    began_s = _thread.began_s
    if began_s is not None and not _thread.is_behind and perf_counter() - began_s >= SLICE_S:
        sleep(PAUSE_S)
        _thread.began_s = perf_counter()
