"""Rules that others alarm by, for comparison: each sees verdict after verdict, and may fire.

A rule fires once, and again only when what it fired on has passed.
"""

from __future__ import annotations

import importlib.util
import math
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

DAY_S = 86_400.0


class Rule(Protocol):
    """Sees verdicts in order of time."""

    def see(self, at_s: float, *, bad: bool) -> bool:
        """Return whether it fires now."""
        ...


class Window:
    """Bad answers and all answers of the last seconds."""

    def __init__(self, for_s: float) -> None:
        self.for_s = for_s
        self.seen: deque[tuple[float, bool]] = deque()
        self.bad = 0

    def see(self, at_s: float, *, bad: bool) -> None:
        self.seen.append((at_s, bad))
        self.bad += bad
        while self.seen[0][0] <= at_s - self.for_s:
            self.bad -= self.seen.popleft()[1]

    @property
    def mean(self) -> float:
        return self.bad / len(self.seen) if self.seen else 0.0


@dataclass(slots=True)
class MeanAbove:
    """The raw mean of the last hour above a threshold: what dashboards of peers alert on."""

    threshold: float
    for_s: float = 3_600.0
    least: int = 10
    window: Window = field(init=False)
    firing: bool = False

    def __post_init__(self) -> None:
        self.window = Window(self.for_s)

    def see(self, at_s: float, *, bad: bool) -> bool:
        self.window.see(at_s, bad=bad)
        over = len(self.window.seen) >= self.least and self.window.mean > self.threshold
        fires = over and not self.firing
        self.firing = over
        return fires


@dataclass(slots=True)
class BurnRate:
    """Error budget burnt too fast over a long and a short window, two pairs of them.

    Source:
        Google, "The Site Reliability Workbook" (2018), chapter 5, "Multiwindow, Multi-Burn-Rate
        Alerts": 14.4 times over 1 h and 5 min, 6 times over 6 h and 30 min.
    """

    budget: float
    pairs: Sequence[tuple[float, float, float]] = (
        (14.4, 3_600.0, 300.0),
        (6.0, 21_600.0, 1_800.0),
    )
    windows: list[tuple[float, Window, Window]] = field(init=False)
    firing: bool = False

    def __post_init__(self) -> None:
        self.windows = [(times, Window(long), Window(short)) for times, long, short in self.pairs]

    def see(self, at_s: float, *, bad: bool) -> bool:
        over = False
        for times, long, short in self.windows:
            long.see(at_s, bad=bad)
            short.see(at_s, bad=bad)
            line = min(times * self.budget, 1.0)
            over = over or (long.mean >= line and short.mean >= line)
        fires = over and not self.firing
        self.firing = over
        return fires


@dataclass(slots=True)
class Cusum:
    """Page's cumulative sum of log likelihood ratios of two known rates (Biometrika 1954)."""

    before: float
    after: float
    threshold: float
    level: float = 0.0

    def see(self, at_s: float, *, bad: bool) -> bool:
        ratio = self.after / self.before if bad else (1 - self.after) / (1 - self.before)
        self.level = max(0.0, self.level + math.log(ratio))
        if self.level < self.threshold:
            return False
        self.level = 0.0
        return True


def tuned_cusum(
    history: Iterable[bool], days: float, *, before: float, after: float, every_days: float = 30.0
) -> float:
    """Return the lowest threshold that fires on this history once in so many days, at most.

    What no user has: weeks of verdicts of which it is known that nothing was wrong.
    """
    up, down = math.log(after / before), math.log((1 - after) / (1 - before))
    thresholds = [4.0 + 0.25 * i for i in range(40)]
    levels = [0.0] * len(thresholds)
    fired = [0] * len(thresholds)
    for bad in history:
        move = up if bad else down
        for i, threshold in enumerate(thresholds):
            level = levels[i] + move
            if level >= threshold:
                fired[i] += 1
                level = 0.0
            levels[i] = max(0.0, level)
    most = days / every_days
    return next(t for t, n in zip(thresholds, fired, strict=True) if n <= most)


class Adwin:
    """Adaptive windowing of the package river, as it comes, upward changes only.

    Source:
        Bifet & Gavaldà, "Learning from time-changing data with adaptive windowing" (2007).
    """

    def __init__(self) -> None:
        from river.drift import ADWIN  # type: ignore[import-not-found,unused-ignore]

        self._adwin: Any = ADWIN()

    def see(self, at_s: float, *, bad: bool) -> bool:
        before = self._adwin.estimation
        self._adwin.update(float(bad))
        return bool(self._adwin.drift_detected) and self._adwin.estimation > before


def rules(base: float, cusum: float) -> dict[str, Callable[[], Rule]]:
    """Return makers of the rules by what tables call them.

    Args:
        base: The rate that is known to be usual.
        cusum: The threshold of the cumulative sum, tuned beforehand.
    """
    found: dict[str, Callable[[], Rule]] = {
        "mean of 60 min > 10 %": lambda: MeanAbove(0.10),
        "mean of 60 min > 15 %": lambda: MeanAbove(0.15),
        f"burn rate 14.4/6 of {base:.0%}": lambda: BurnRate(base),
        "burn rate 3/1.75": lambda: BurnRate(
            base, ((3.0, 3_600.0, 300.0), (1.75, 21_600.0, 1_800.0))
        ),
        f"CUSUM 4->8 % tuned ({cusum:.2f})": lambda: Cusum(0.04, 0.08, cusum),
    }
    if has_river():
        found["ADWIN (river, defaults)"] = Adwin
    return found


def has_river() -> bool:
    """Return whether the package river is installed."""
    return importlib.util.find_spec("river") is not None
