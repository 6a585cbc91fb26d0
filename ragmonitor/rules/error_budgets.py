"""Computes what a service is held to, and how fast its error budget may burn."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from ragmonitor.durations import duration_s
from ragmonitor.errors import SettingsError

LOW_IS_GOOD: Final = frozenset(
    (
        "absent_claims",
        "contradicted_claims",
        "empty_retrieval",
        "hallucination",
        "minor_hallucination",
        "noise_sensitivity",
        "refusal",
        "weak_retrieval",
        "wrong_refusal",
    )
)
"""Signals that are shares of something bad; of any other, 1 is best."""

_OBJECTIVE: Final = re.compile(r"(?P<signal>[a-z][a-z0-9_]*)\s*(?P<sign><=|>=|=)\s*(?P<level>\S+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Burn:
    """One pair of windows of a multiwindow burn-rate alert."""

    factor: float
    """Errors in multiples of what the budget allows."""
    long: str
    short: str
    lasts: str
    """The time for which it must hold (`for`)."""
    severity: str


BURNS: Final = (
    Burn(factor=14.4, long="1h", short="5m", lasts="2m", severity="page"),
    Burn(factor=6.0, long="6h", short="30m", lasts="15m", severity="page"),
    Burn(factor=3.0, long="1d", short="2h", lasts="1h", severity="ticket"),
    Burn(factor=1.0, long="3d", short="6h", lasts="3h", severity="ticket"),
)
"""Google, "The Site Reliability Workbook" (2018), chapter 5, "Multiwindow, Multi-Burn-Rate
Alerts"."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Objective:
    """The mean of a signal that is still accepted over a month."""

    signal: str
    """`hallucination`, `refusal`, or an evaluator's name."""
    level: float
    """Above 0 and below 1, in the signal's own scale."""
    is_floor: bool
    """The mean is to be at least `level`, not at most."""
    models_only: bool = False
    """Only what a model judged is held to it: a built-in judge's scale is its own."""

    @property
    def budget(self) -> float:
        """The share of errors that is accepted, above 0 and below 1."""
        return round(1 - self.level, 12) if self.is_floor else self.level

    def burns(self) -> tuple[Burn, ...]:
        """Return the windows whose threshold can be reached at all.

        Errors are at most 1, so a budget burns at most 1 / budget times as fast as it may. An alert
        over a faster burn never fires, and looks as if all was well.
        """
        return tuple(burn for burn in BURNS if self.threshold(burn) < 1)

    def threshold(self, burn: Burn) -> float:
        """Return the share of errors from which the budget burns so fast; 1 or more: never."""
        return round(burn.factor * self.budget, 12)

    def __str__(self) -> str:
        return f"{self.signal}{'>=' if self.is_floor else '<='}{self.level:g}"


def parse_objective(text: str) -> Objective:
    """Return the objective that a command line names.

    Args:
        text: `faithfulness=0.95`; the sign follows from the signal. For an evaluator of one's own
            that is better the lower it is: `toxicity<=0.02`.

    Raises:
        SettingsError: It cannot be read, or the level is not between 0 and 1.
    """
    match = _OBJECTIVE.fullmatch(text.strip())
    if match is None:
        raise SettingsError(f"objective {text!r}: write it as faithfulness=0.95 or toxicity<=0.02")
    try:
        level = float(match["level"])
    except ValueError:
        raise SettingsError(f"objective {text!r}: {match['level']} is no number") from None
    if not 0 < level < 1:
        raise SettingsError(f"objective {text!r}: the level lies between 0 and 1, both excluded")
    signal = match["signal"]
    natural = ">=" if signal not in LOW_IS_GOOD else "<="
    sign = natural if match["sign"] == "=" else match["sign"]
    if signal in LOW_IS_GOOD and sign == ">=":
        raise SettingsError(f"objective {text!r}: {signal} is better the lower it is")
    return Objective(signal=signal, level=level, is_floor=sign == ">=")


def parse_days(text: str) -> float:
    """Return a time such as `30d`, `2w` or `12h` in days.

    Raises:
        SettingsError: It cannot be read, or is less than an hour.
    """
    days = duration_s(text, "time") / 86_400.0
    if days < 1 / 24:
        raise SettingsError(f"time {text!r}: give at least 1h")
    return days
