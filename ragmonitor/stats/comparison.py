"""Comparisons of a slice, or a version, with the other answers of the same time."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from ragmonitor.stats.sums import ALL, ANSWERS, BAD, HEAD, JUDGED, RATE, VARIANCE_GROUPS, WEIGHT

ODDS: Final = (2.0, 4.0, 10.0)
"""The odds ratios to the others that are betted on; each part of the mixture has a third."""
ALPHA: Final = 0.05
RHO_SQUARED: Final = 0.01
"""Of Robbins' mixture: the interval is narrowest at some hundreds of verdicts."""
MAX_RISK: Final = 0.9
MIN_JUDGED: Final = 20
"""Verdicts on a version below which nothing is decided."""

Block = Mapping[str, Mapping[str, Sequence[float]]]
"""Bets of a block of time, by series and by group (`sums.ALL`: all answers)."""
Decision = Literal["better", "worse", "equivalent", "undecided"]


def compare(
    slice_: Mapping[str, Sequence[float]],
    everybody: Mapping[str, Sequence[float]],
    n_slice: float,
    n_all: float,
    usual: float,
) -> list[float]:
    """Return the log gains, by odds ratio, of bets that a slice was worse than the others.

    Answers of the slice (n_1 of them, in common rates) and of the others (n_0) have the factors 1 +
    s b_1 (y - m) and 1 + s b_0 (y - m), with b_1 in proportion to n_0 and b_0 to -n_1. Whatever the
    common rate p of the block is, the mean of the product is at most exp(s (p - m) (n_1 b_1 + n_0
    b_0)) = 1; so a tenant that is merely active at a bad hour gains nothing. The scale s is one for
    all groups of the block, by weights alone: scaling or clipping groups one by one would lose that
    balance. A group's verdicts add up, so that nothing is assumed of how a session hangs together
    within the block. Not controlled: confounding within a block, and sessions that go on over
    several.

    Args:
        slice_: Weight and bad weight of the slice's verdicts, by group.
        everybody: Of all answers' verdicts.
        n_slice: Common rates summed over the slice's answers, drawn or not.
        n_all: Those of all answers.
        usual: The mean badness of earlier blocks.

    Source:
        Turner, Ly & Gruenwald, "Generic E-variables for exact sequential k-sample tests that allow
        for optional stopping" (2024), arXiv:2106.02693.

    >>> cells = {f"{group}": (1.0, float(group < 3)) for group in range(40)}
    >>> logs = compare({f"{g}": cells[f"{g}"] for g in range(10)}, cells, 10.0, 40.0, 0.05)
    >>> e_value(logs) > 1
    True
    """
    others = n_all - n_slice
    if n_slice <= 0 or others <= 0:
        return [0.0] * len(ODDS)
    usual = min(0.95, max(0.005, usual))
    gains = []
    for ratio in ODDS:
        odds = usual / (1 - usual) * ratio
        worse = odds / (1 + odds)
        middle = (n_slice * worse + others * usual) / n_all
        size = (worse - usual) / (middle * (1 - middle)) / n_all
        own, rest = size * others, size * n_slice
        bets, worst = [], 0.0
        for group, (weight, bad, *_) in everybody.items():
            w1, y1 = slice_.get(group, (0.0, 0.0))[:2]
            w0, y0 = weight - w1, bad - y1
            bets.append(own * (y1 - middle * w1) - rest * (y0 - middle * w0))
            worst = max(worst, own * middle * w1 + rest * (1 - middle) * w0)
        scale = min(1.0, MAX_RISK / worst) if worst > 0 else 1.0
        gains.append(math.fsum(math.log1p(scale * each) for each in bets))
    return gains


def compare_block(block: Block, usual: Mapping[str, float]) -> dict[str, list[float]]:
    """Return the log gains of each slice in one block, and of each signal weight and bad weight.

    Args:
        block: Bets, summed up over the block.
        usual: Mean badness of earlier blocks, by signal; 0.05 where nothing is known.
    """
    gains = {}
    for series, cells in block.items():
        signal, bar, _ = series.partition("|")
        own = {group: cell for group, cell in cells.items() if group != ALL}
        if not bar:
            weights = (math.fsum(cell[at] for cell in own.values()) for at in (WEIGHT, BAD))
            gains[series] = [*weights, 0.0]
        elif signal in block and ALL in cells and ALL in block[signal]:
            whole = block[signal]
            everybody = {group: cell for group, cell in whole.items() if group != ALL}
            n_slice, n_all = cells[ALL][RATE], whole[ALL][RATE]
            gains[series] = compare(own, everybody, n_slice, n_all, usual.get(signal, 0.05))
    return gains


def e_value(logs: Sequence[float]) -> float:
    """Return the e-value of summed log gains: the mean over the odds ratios.

    If a slice is no worse than the others its mean is at most 1, over any blocks that were chosen
    before they began.

    >>> e_value([0.0, 0.0, 0.0])
    1.0
    """
    return math.fsum(math.exp(min(500.0, log)) for log in logs) / len(logs)


def e_bh(values: Mapping[str, float], alpha: float = ALPHA) -> list[str]:
    """Return what may be named, largest e-value first: a share `alpha` of it wrongly, on average.

    Source:
        Wang & Ramdas, "False discovery rate control with e-values" (2022), JRSS B 84(3),
        arXiv:2009.02824.

    >>> e_bh({"tenant=a": 90.0, "tenant=b": 1.2, "route=x": 45.0})
    ['tenant=a', 'route=x']
    """
    ranked = sorted(values, key=values.__getitem__, reverse=True)
    counts = [k for k, each in enumerate(ranked, 1) if values[each] >= len(ranked) / (alpha * k)]
    return ranked[: max(counts, default=0)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """The mean of a version less that of its baseline, with an interval that holds at all times."""

    difference: float
    lower: float
    upper: float
    judged: float
    """Verdicts on the version."""
    higher_is_better: bool = False

    def decision(self, max_worse: float) -> Decision:
        """Return what may be said for certain, but for 1 version in 20, whenever one looks.

        Args:
            max_worse: So much worse is still equivalent, on the signal's own scale; 0 or more.
        """
        if self.judged < MIN_JUDGED:
            return "undecided"
        best, worst = self.lower, self.upper
        if self.higher_is_better:
            best, worst = -self.upper, -self.lower
        if worst < 0:
            return "better"
        if worst <= max_worse:
            return "equivalent"
        return "worse" if best > max_worse else "undecided"


def difference(
    pairs: Sequence[tuple[Sequence[float], Sequence[float]]], alpha: float = ALPHA
) -> Difference | None:
    """Return the difference of two versions that answered at the same time; None: it is not known.

    Buckets count in proportion to n_1 n_0 / (n_1 + n_0), so that a canary whose share of the
    traffic grows while the rate changes is not found worse for that. The interval may be looked at
    after each answer, and acted on at once. It is asymptotic: each mean has Robbins' normal mixture
    over its standardised deviation, and of the two the product is an e-process.

    Args:
        pairs: Sums of the version and of its baseline in one bucket of means.
        alpha: The chance that the interval ever misses the difference.

    Source:
        Waudby-Smith et al., "Time-uniform central limit theory and asymptotic confidence sequences"
        (2024), Annals of Statistics 52(6), arXiv:2103.06476, theorem 2.2; Robbins (1970), Annals of
        Mathematical Statistics 41(5).
    """
    shared = [(a, b) for a, b in pairs if a[ANSWERS] > 0 and b[ANSWERS] > 0]
    totals = [a[ANSWERS] + b[ANSWERS] for a, b in shared]
    arms = []
    for place in (0, 1):
        others = [pair[1 - place][ANSWERS] for pair in shared]
        weights = [n / total for n, total in zip(others, totals, strict=True)]
        arms.append(_mean([pair[place] for pair in shared], weights))
    if arms[0] is None or arms[1] is None:
        return None
    spread = logs = 0.0
    for _, variance, judged in (arms[0], arms[1]):
        time = judged * RHO_SQUARED
        spread += variance * (1 + time) / time
        logs += math.log1p(time)
    gap = arms[0][0] - arms[1][0]
    half = math.sqrt(spread * (logs - 2 * math.log(alpha)))
    return Difference(
        difference=gap,
        lower=max(-1.0, gap - half),
        upper=min(1.0, gap + half),
        judged=arms[0][2],
    )


def _mean(
    rows: Sequence[Sequence[float]], weights: Sequence[float]
) -> tuple[float, float, float] | None:
    """Return a mean over weighted buckets, its variance, and the verdicts behind it."""
    judged = math.fsum(row[JUDGED] for row in rows)
    values, scored = (
        [
            math.fsum(w * row[HEAD + 3 * v + at] for row, w in zip(rows, weights, strict=True))
            for v in range(VARIANCE_GROUPS)
        ]
        for at in (0, 1)
    )
    total = math.fsum(scored)
    if judged < 1 or total <= 0:
        return None
    raw = math.fsum(values) / total
    mean = min(1.0, max(0.0, raw))
    rest = [value - raw * size for value, size in zip(values, scored, strict=True)]
    spread = math.fsum(each * each for each in rest) * VARIANCE_GROUPS / (VARIANCE_GROUPS - 1)
    # Few bad answers say little of the variance: one more of the rarer kind, of usual weight.
    spread += (total / judged * max(mean, 1 - mean)) ** 2
    return mean, spread / total**2, judged
