"""Means over a fixed set of questions, from the newest asking of some of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Annotated, Final, NamedTuple

import msgspec

from ragmonitor.stats.beta import clopper_pearson
from ragmonitor.stats.paired import paired_difference

MEMORY: Final = 20
"""Askings after which an earlier one counts for 1 / MEMORY less with each that follows."""


class Level(NamedTuple):
    """A mean with its 95 % interval."""

    mean: float
    lower: float
    upper: float


class ScoreHistory(msgspec.Struct, array_like=True):
    """One question's scores by one evaluator: its newest, and the mean of the earlier ones."""

    n: Annotated[int, msgspec.Meta(ge=1)] = 0
    mean: float = 0.0
    """The mean of all so far; the plain one of the first `MEMORY`, then a moving one."""
    newest: float = 0.0
    expected: float | None = None
    """The mean before the newest one came; None: it is the first."""
    at_s: float = -math.inf
    """The time when the newest came, in seconds since the epoch."""
    evaluator: str = ""
    """Whose scores these are, with its version; empty: an older file did not say."""

    def add(self, score: float, at_s: float) -> float | None:
        """Take in a score, and return what was expected of it; None: it is the first."""
        self.expected = self.mean if self.n else None
        self.n += 1
        self.mean += (score - self.mean) / min(self.n, MEMORY)
        self.newest, self.at_s = score, at_s
        return self.expected


def level_of(histories: Sequence[ScoreHistory], since_s: float) -> Level | None:
    """Return the mean score of a set of questions as of now; None: none was asked since then.

    The questions are the population, and those asked since then a sample of it, drawn by the order
    of asking, which is random. The mean is the difference estimator: the mean over all questions of
    what their own earlier scores let expect, plus the mean difference between newest and expected
    score over those that were asked. What tells questions apart is in both and falls out, so that
    the interval is as wide as the differences are, and not as the scores. A question without an
    earlier score is expected to score as the others do on average.

    Args:
        histories: Of every question that has a score.
        since_s: In seconds since the epoch.

    Source:
        Saerndal, Swensson & Wretman, "Model Assisted Survey Sampling" (1992), section 6.3, without
        its correction for a finite population: what is asked anew may be answered anew. The
        interval of the mean difference is `paired_difference`'s.
    """
    asked = [each for each in histories if each.at_s >= since_s]
    if not asked:
        return None
    means = [each.expected for each in histories if each.expected is not None]
    usual = math.fsum(means) / len(means) if means else 0.5

    def expected(each: ScoreHistory) -> float:
        if each.at_s < since_s:
            return each.mean
        return usual if each.expected is None else each.expected

    base = math.fsum(map(expected, histories)) / len(histories)
    moved = paired_difference([(expected(each), each.newest) for each in asked])
    if moved is None:
        return None
    low, mean, high = (
        min(1.0, max(0.0, base + each)) for each in (moved.lower, moved.difference, moved.upper)
    )
    return Level(mean, low, high)


def share_of(hits: int, n: int) -> Level:
    """Return hits / n with its 95 % interval; n is 1 or more."""
    return Level(hits / n, *clopper_pearson(hits, n))
