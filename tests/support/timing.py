"""CPU time of work that cannot be counted, such as a pattern's: compared as a ratio."""

from __future__ import annotations

import gc
import math
import time
from collections.abc import Callable

TRIES = 10


def grows_at_most(
    most: float, work: Callable[[str], object], small: str, big: str, *, least_s: float = 1e-3
) -> bool:
    """Return whether a larger text takes at most so many times as long as a smaller one.

    In one of ten tries, against as much of the smaller text as the larger one has, read in a row:
    both then take about as long, so that a clock of coarse steps, and a machine that takes its
    time away, reach one as they reach the other. What superlinear work costs stays above the
    bound in every try. The garbage collector rests meanwhile: it looks through whatever the
    tests before have left.

    Args:
        most: The greatest ratio allowed.
        work: Done with each text.
        small: The smaller text; it is not tried where the larger one takes less than `least_s`
            allows.
        big: The larger one.
        least_s: A smaller text that takes less counts as this: the clock tells no finer.
    """
    times = max(2, round(len(big) / len(small)))
    fastest_s = math.inf
    for _ in range(TRIES):
        fastest_s = min(fastest_s, seconds(work, big))
        if fastest_s < most * least_s:
            return True
        if fastest_s < most * seconds(work, small, times) / times:
            return True
    return False


def seconds(work: Callable[[str], object], text: str, times: int = 1) -> float:
    """Return the CPU time of this thread for the work, done so many times."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        began = time.thread_time()
        for _ in range(times):
            work(text)
        return time.thread_time() - began
    finally:
        if was_on:
            gc.enable()
