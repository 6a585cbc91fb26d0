"""CPU time of work that cannot be counted, such as a pattern's: compared as a ratio."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable

TRIES = 5


def grows_at_most(
    most: float, work: Callable[[str], object], small: str, big: str, *, least_s: float = 1e-3
) -> bool:
    """Return whether a larger text takes at most so many times as long as a smaller one.

    The ratio of the best of two each, in one of five tries: what superlinear work costs stays
    above the bound in every try, and what a busy machine costs does not. The garbage collector
    rests meanwhile: it looks through whatever the tests before have left.

    Args:
        most: The greatest ratio allowed.
        work: Done with each text.
        small: The smaller text.
        big: The larger one.
        least_s: A smaller text that takes less counts as this: the clock tells no finer.
    """
    return any(seconds(work, big) < most * max(seconds(work, small), least_s) for _ in range(TRIES))


def seconds(work: Callable[[str], object], text: str) -> float:
    """Return the CPU time of this thread for the work, the best of two."""
    times = []
    was_on = gc.isenabled()
    gc.disable()
    try:
        for _ in range(2):
            began = time.thread_time()
            work(text)
            times.append(time.thread_time() - began)
    finally:
        if was_on:
            gc.enable()
    return min(times)
