"""Compares versions of the application live, and finds the one that got worse."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final

import msgspec

from ragmonitor.causes.answer_slices import SERVICE_VERSION
from ragmonitor.causes.history import History
from ragmonitor.causes.signal_names import difference, is_share, signal_name
from ragmonitor.records import AlarmEvent, AlarmState, GaugeValue
from ragmonitor.semconv import metrics
from ragmonitor.stats.comparison import MIN_JUDGED, Difference
from ragmonitor.stats.parts import Part
from ragmonitor.stats.service import Watching
from ragmonitor.stats.signals import HALLUCINATION
from ragmonitor.stats.tick import Tick
from ragmonitor.store import DAY_S, Store

VERSION_WORSE: Final = "version_worse"
"""The alarm."""
MAX_PAIRS: Final = 8
"""Of versions that are compared: the newest."""
OVER_S: Final = 1_800.0
"""A version that was found worse and has been silent for so long is an alarm no more."""
COMPARED_EACH_S: Final = 30.0
_ALL: Final = ("versions", "all")
"""Kind and key of the row that says what was found."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionDifference(Difference):
    """A signal's mean of a version less that of the version before it.

    The interval holds at all times at once, with 95 % for all signals of the pair together.
    """

    by: str
    """The attribute whose values are versions."""
    candidate: str
    baseline: str
    signal: str

    @property
    def version(self) -> str:
        """The slice of the candidate."""
        return f"{self.by}={self.candidate}"

    def __str__(self) -> str:
        """Say it for people, shares in percentage points."""
        gap, *ends = (
            difference(each, self.signal) for each in (self.difference, self.lower, self.upper)
        )
        points = " points" if is_share(self.signal) else ""
        judged = f", by {self.judged:.0f} verdicts on it"
        name = signal_name(self.signal, "en")
        return f"{name} differs by {gap} [{ends[0]}, {ends[1]}]{points}{judged}"


@dataclass(slots=True)
class _Found:
    """The comparisons of all processes, as they stand in the store."""

    due_s: float = -math.inf
    differences: list[VersionDifference] = field(default_factory=list)
    worse: dict[str, float] = field(default_factory=dict)
    """When a version was found worse, by its slice."""


class Versions(Part):
    """Compares each version with the one before it, in every signal, over the last day.

    Blocks in which both answered count, so that neither the hour nor a canary's growing share is
    found worse. Processes that share a store see each other's answers; a canary is another process.

    The alarm `version_worse` is raised at most once for each version. Its error stands beside the
    false alarms of `alarms.false_alarm_every_days`: a version that is no worse than its baseline,
    in any signal, is found worse with a chance of 5 % at most.
    """

    def __init__(
        self,
        store: Store,
        tick: Tick,
        history: History,
        watching: Watching,
    ) -> None:
        """Touch nothing yet.

        Args:
            store: Where what was found is kept, for all processes.
            tick: Compares.
            history: Knows when each version answered.
            watching: What is compared, and by what.
        """
        self._store = store
        self._tick = tick
        self._history = history
        self._watching = watching
        self._judge = watching.quality_judge
        self._found = _Found()
        self._events: Sequence[AlarmEvent] = ()

    def pairs(self) -> list[tuple[str, str]]:
        """Return the newest versions, each with the one before it, as slices."""
        now_s = self._store.now()
        found = []
        for by in self._watching.versions_by:
            order = [
                version
                for version, seen in self._history.versions.items()
                if version.startswith(f"{by}=") and seen.last_s > now_s - DAY_S
            ]
            found += list(zip(order[1:], order, strict=False))
        return found[-MAX_PAIRS:]

    def tick(self) -> None:
        """Compare where that is due. Of all processes one does it."""
        pairs, now_s = self.pairs(), self._store.now()
        row = self._store.row(*_ALL)
        with contextlib.suppress(msgspec.MsgspecError, ValueError):  # then it is compared anew
            self._found = msgspec.json.decode(row or b"", type=_Found)
        if not pairs or now_s < self._found.due_s:
            return
        signals, higher = self._watching.compared, self._watching.higher_is_better
        differences = []
        for (series, version, baseline), found in self._tick.differences(pairs).items():
            if series in signals:
                signal, (by, _, candidate) = signals[series], version.partition("=")
                numbers = asdict(found) | {"higher_is_better": signal in higher}
                before = baseline.partition("=")[2]
                each = VersionDifference(
                    by=by, candidate=candidate, baseline=before, signal=signal, **numbers
                )
                differences.append(each)
        differences.sort(key=lambda each: each.signal != HALLUCINATION)  # what people know
        events = []
        worse = dict(self._found.worse)
        for each in differences:
            if each.version not in worse and each.decision(0.0) == "worse":
                worse[each.version] = now_s
                events.append(self._event(each, now_s))
        self._found = _Found(now_s + COMPARED_EACH_S, differences, worse)
        if self._store.keep(*_ALL, msgspec.json.encode(self._found), expected=row):
            self._events = (*self._events, *events)

    def alarm_events(self) -> Sequence[AlarmEvent]:
        """Return the versions that were found worse since this was last asked."""
        events, self._events = self._events, ()
        return events

    def _event(self, found: VersionDifference, now_s: float) -> AlarmEvent:
        return AlarmEvent(
            signal=VERSION_WORSE,
            judge=self._judge,
            kind="quality",
            raised=True,
            at_s=now_s,
            since_s=self._history.versions[found.version].at_s,
            objective=0.0,
            detail=_said(found),
        )

    def alarm_states(self) -> Iterator[AlarmState]:
        """Return the alarm, where versions are compared."""
        if not self._found.differences:
            return
        now_s, seen = self._store.now(), self._history.versions
        since_s = max(
            (
                at_s
                for version, at_s in self._found.worse.items()
                if version in seen and now_s - seen[version].last_s < OVER_S
            ),
            default=None,
        )
        yield AlarmState(
            signal=VERSION_WORSE,
            judge=self._judge,
            kind="quality",
            evidence_s=0.0 if since_s is None else self._watching.every_days * DAY_S,
            active=since_s is not None,
            since_s=since_s,
            objective=0.0,
            detail="; ".join(
                _said(each)
                for each in self._found.differences
                if each.version in self._found.worse and each.decision(0.0) == "worse"
            ),
        )

    def gauges(self) -> Iterator[GaugeValue]:
        """Return the differences that something can be decided by."""
        for each in self._found.differences:
            if each.judged < MIN_JUDGED:
                continue
            labels = {"by": each.by, "candidate": each.candidate, "baseline": each.baseline}
            labels |= {"signal": each.signal, "judge": self._judge}
            yield from GaugeValue.interval(
                metrics.VERSION_DIFFERENCE, each.difference, each.lower, each.upper, **labels
            )

    def records(self) -> Mapping[str, Any]:
        """Return the versions as `ragmonitor rollout` reads them."""
        if not self._found.differences:
            return {}
        return {"versions": [asdict(each) for each in self._found.differences]}

    def is_version(self, slice_: str) -> bool:
        """Return whether a slice is a version of the application."""
        return slice_.partition("=")[0] in (SERVICE_VERSION, *self._watching.versions_by)


def _said(found: VersionDifference) -> str:
    return f"{found.by} {found.candidate} is worse than {found.baseline}: {found}"
