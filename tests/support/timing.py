"""CPU time of work that cannot be counted, such as a pattern's: compared as a ratio."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable

TRIES = 10


def grows_at_most(
    most: float, work: Callable[[str], object], small: str, big: str, *, least_s: float = 1e-3
) -> bool:
    """Return whether a larger text takes at most so many times as long as a smaller one.

    In one of ten tries, against the best of two of the smaller text: what superlinear work costs
    stays above the bound in every try, and what a busy machine costs does not. The garbage
    collector rests meanwhile: it looks through whatever the tests before have left.

    Args:
        most: The greatest ratio allowed.
        work: Done with each text.
        small: The smaller text; it is not tried where the larger one takes less than `least_s`
            allows.
        big: The larger one.
        least_s: A smaller text that takes less counts as this: the clock tells no finer.
    """
    for _ in range(TRIES):
        took_s = seconds(work, big)
        if took_s < most * least_s:
            return True
        if took_s < most * min(seconds(work, small) for _ in range(2)):
            return True
    return False


def seconds(work: Callable[[str], object], text: str) -> float:
    """Return the CPU time of this thread for the work."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        began = time.thread_time()
        work(text)
        return time.thread_time() - began
    finally:
        if was_on:
            gc.enable()
