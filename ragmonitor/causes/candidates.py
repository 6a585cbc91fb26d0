"""The seam between those who look for causes and those who report them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal, Protocol, runtime_checkable

from ragmonitor.records import Estimate, Example

CandidateKind = Literal["slice", "document", "version", "event"]
"""The kind of what may have caused a rise: answers of one kind got worse (`slice`), those that were
shown one document did (what a slice by `source` is told as), or those of one version; or the rise
follows an event such as a deployment."""

LISTED_FROM: Final = 2.0
"""The e-value from which on a slice is listed at all: below it there is no more than
chance to speak of."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CandidateCause:
    """One thing that may explain why a signal rose, with what is known of it."""

    kind: CandidateKind
    name: str
    """For people, without texts of answers: `route=billing`, `handbook.md`, `version 1.1`."""
    signal: str
    """The signal that rose."""
    now: Estimate | None
    """Mean of the signal over the answers concerned, since the rise began."""
    before: Estimate | None
    """The rate before the rise; None: there were no such answers."""
    explained: float | None = None
    """Share of the rise that goes with it, 0 to 1 but for noise; None: not known."""
    explained_lower: float | None = None
    """Lower end of the 95 % interval of `explained`."""
    explained_upper: float | None = None
    e_value: float = 1.0
    """Evidence that these answers got worse than the others: an e-value, at least 20 with a chance
    of 1/20 at most if they did not, however often one looks."""
    is_discovery: bool = False
    """It is among those that are named while the false discovery rate holds."""
    is_compared: bool = True
    """Enough answers of the kind were judged before the rise to tell that they got worse from that
    there are more of them."""
    since_s: float | None = None
    """Since when, in seconds since the epoch."""
    detail: str = ""
    """One more sentence in English, for people."""
    detail_zh: str = ""
    """The detail in Chinese."""
    examples: tuple[Example, ...] = ()
    """Some bad answers concerned, worst first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangePoint:
    """The time when a mean changed, and from what to what."""

    at_s: float
    """The most probable moment, in seconds since the epoch."""
    lower_s: float
    """Lower end of the 95 % interval of that moment."""
    upper_s: float
    before: Estimate
    after: Estimate


@runtime_checkable
class CauseFinder(Protocol):
    """Looks for causes of one kind. Called from the worker's thread only."""

    def candidates(self, signal: str, since_s: float) -> Sequence[CandidateCause]:
        """Return what may explain that a signal is worse since a time; strongest evidence first.

        Args:
            signal: As in `AlarmEvent.signal`.
            since_s: Since when its evidence has been rising, in seconds since the epoch.
        """
        ...


@runtime_checkable
class ChangeFinder(Protocol):
    """Dates when a signal got worse. Called from the worker's thread only."""

    def change(self, signal: str, since_s: float) -> ChangePoint | None:
        """Return when it did; None: it is not known. The arguments are those of `CauseFinder`."""
        ...
