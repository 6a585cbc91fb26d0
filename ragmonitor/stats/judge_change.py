"""Has the judge changed, or the application? Old answers that it reads again tell."""

from __future__ import annotations

import math
from typing import Final, Literal, NamedTuple

from ragmonitor.records import Estimate

BOUND: Final = math.log(19)
"""Of the log likelihood ratio: either conclusion is wrong for one in twenty."""
PRIOR_READS: Final = 50.0
PRIOR_SLIPS: Final = 1.5
"""What is believed of a judge that nobody has measured: it contradicts itself on 3 in 100."""
MIN_RISE: Final = 0.02
"""A rise that may be smaller than this is too small to tell apart."""
SHARE_OF_RISE: Final = 0.75
"""A judge that is the cause flips at least so much of the rise among answers that were fine."""
ONE_SIDED: Final = 1.644854

Cause = Literal["judge", "application", "unknown"]


class Rereads(NamedTuple):
    """Answers that the judge found fine, and read again."""

    reads: float = 0.0
    flips: float = 0.0
    """Those of them that it found bad the second time."""

    @property
    def slip(self) -> float:
        """The share on which one judge contradicts itself: measured, from its usual share on.

        >>> Rereads().slip, round(Rereads(200, 16).slip, 3)
        (0.03, 0.07)
        """
        return (self.flips + PRIOR_SLIPS) / (self.reads + PRIOR_READS)


def rise_at_least(before: Estimate, after: Estimate) -> float:
    """Return the lower 95 % bound of a rise, from estimates that are independent.

    Args:
        before: Over a time that ended before the rise began.
        after: Over answers given *after* the alarm was raised. Those that raised it flatter the
            rise: 32 to 50 % where the truth is 14 %.
    """
    error = math.hypot(before.standard_error, after.standard_error)
    return after.mean - before.mean - ONE_SIDED * error


def judge_or_application(
    since: Rereads, usual: Rereads, before: Estimate | None, after: Estimate | None
) -> Cause:
    """Return the cause of a rise; "unknown" as long as it is not known.

    Wald's sequential test of two shares of flips among answers that had been found fine: the
    judge's usual slip, if the application got worse; the slip and most of the rise, if the judge
    did. The rise is a lower bound, on verdicts after the alarm, so that a judge that got stricter
    is not acquitted for flipping less than an exaggerated rise would have it. Each error is at most
    5 % for shares as assumed, however often one looks.

    Args:
        since: Readings since the rise began.
        usual: Readings of the same judge before it.
        before: The rate before the rise; None: not known.
        after: The rate since the alarm; None: not known yet.

    Source:
        Wald, "Sequential tests of statistical hypotheses" (1945), section 5.

    >>> calm = Estimate(0.04, 0.03, 0.05, 1_500.0, 1_500.0, 1.0)
    >>> risen = Estimate(0.15, 0.10, 0.21, 180.0, 180.0, 1.0)
    >>> judge_or_application(Rereads(60, 9), Rereads(), calm, risen)
    'judge'
    >>> judge_or_application(Rereads(120, 3), Rereads(), calm, risen)
    'application'
    >>> judge_or_application(Rereads(60, 9), Rereads(), calm, None)
    'unknown'
    """
    if before is None or after is None:
        return "unknown"
    rise = rise_at_least(before, after)
    if rise < MIN_RISE:
        return "unknown"
    slip = min(0.9, usual.slip)
    bad = min(0.95, slip + SHARE_OF_RISE * rise)
    log = since.flips * math.log(bad / slip)
    log += (since.reads - since.flips) * math.log((1 - bad) / (1 - slip))
    if log >= BOUND:
        return "judge"
    return "application" if log <= -BOUND else "unknown"
