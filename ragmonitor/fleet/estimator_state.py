"""Keeps in Redis where an estimator stands, and what workers follow."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

KEPT_STATE: Final = "state"
"""The field of a checkpoint that holds an `EstimatorState`."""
KEPT_MEANS: Final = "means"
"""That of the windowed means."""
KEPT_ALARMS: Final = "announce"
"""That of alarms which are kept, and not yet known to be announced."""
VERSION: Final = 2
"""The one that is written. One of version 1 is read, too: its means have no drawn answer that
waits."""
_FILE: Final = "file:"


def file_field(name: str) -> str:
    """Return the field of a checkpoint that holds a file of the state folder."""
    return _FILE + name


def file_of(field_name: str) -> str:
    """Return the name of the file that a field holds; empty: it holds none."""
    return field_name.removeprefix(_FILE) if field_name.startswith(_FILE) else ""


@dataclass(slots=True, kw_only=True)
class EstimatorState:
    """Where an estimator stands, in one record with what workers follow."""

    version: int = VERSION
    position: str = "0-0"
    """The newest entry of the settled stream that was read."""
    at_s: float = 0.0
    """When this was kept, in seconds since the epoch of the server's clock."""
    epoch: int = 0
    """Number of the calibration."""
    arrivals_per_s: float = 0.0
    """Answers that come in at all workers together."""
    rate: float | None = None
    """The common rate of the newest decision; None: none was made yet."""
    reading_costs: dict[str, float] = field(default_factory=dict)
    """What one reading comes to, by the unit of the budget."""
    interactions: dict[str, int] = field(default_factory=dict)
    """The number of answers that were counted, by framework and status with a space between."""
    outcomes: dict[str, int] = field(default_factory=dict)
    """The number of evaluations, by evaluator, judge, its version and kind, and cause, as JSON."""
    unreadable: int = 0
    """Settled answers that this release could not read."""
    asked: dict[str, float] = field(default_factory=dict)
    """Reference answers that a worker is to have judged again, and when that was asked for."""
    given_up: list[str] = field(default_factory=list)
    """Newest answers that were drawn and whose verdict was not waited for any longer."""
    given_up_unknown: list[str] = field(default_factory=list)
    """Those of them of which the means do not know either."""
