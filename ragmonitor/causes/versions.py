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
from ragmonitor.causes.signal_names import difference, signal_name
from ragmonitor.records import AlarmEvent, AlarmState, GaugeValue
from ragmonitor.semconv import metrics
from ragmonitor.stats.comparison import MIN_JUDGED, Difference
from ragmonitor.stats.parts import Part
from ragmonitor.stats.service import Watching
from ragmonitor.stats.signals import HALLUCINATION, SHARES
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
        points = " points" if self.signal in SHARES else ""
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

    def __init__(self, store: Store, tick: Tick, history: History, watching: Watching) -> None:
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
        self._alarm: Mapping[str, Any] = {
            "signal": VERSION_WORSE,
            "judge": self._judge,
            "kind": "quality",
            "objective": 0.0,
        }
        self._found = _Found()
        self._events: list[AlarmEvent] = []

    def _pairs(self) -> list[tuple[str, str]]:
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
        pairs, now_s = self._pairs(), self._store.now()
        row = self._store.row(*_ALL)
        with contextlib.suppress(msgspec.MsgspecError, ValueError):  # then it is compared anew
            self._found = msgspec.json.decode(row or b"", type=_Found)
        if not pairs or now_s < self._found.due_s:
            return
        found = _Found(now_s + COMPARED_EACH_S, worse=dict(self._found.worse))
        signals, higher = self._watching.compared, self._watching.higher_is_better
        for (series, version, baseline), each in self._tick.differences(pairs).items():
            if series in signals:
                signal, (by, _, candidate) = signals[series], version.partition("=")
                numbers = asdict(each) | {"higher_is_better": signal in higher}
                before = baseline.partition("=")[2]
                found.differences.append(
                    VersionDifference(
                        by=by, candidate=candidate, baseline=before, signal=signal, **numbers
                    )
                )
        found.differences.sort(key=lambda each: each.signal != HALLUCINATION)  # what people know
        events = []
        for worse in found.differences:
            if worse.version not in found.worse and worse.decision(0.0) == "worse":
                found.worse[worse.version] = now_s
                first_s, said = self._history.versions[worse.version].at_s, _said(worse)
                events.append(
                    AlarmEvent(**self._alarm, raised=True, at_s=now_s, since_s=first_s, detail=said)
                )
        self._found = found
        if self._store.keep(*_ALL, msgspec.json.encode(found), expected=row):
            self._events += events

    def alarm_events(self) -> Sequence[AlarmEvent]:
        """Return the versions that were found worse since this was last asked."""
        events, self._events = self._events, []
        return events

    def alarm_states(self) -> Iterator[AlarmState]:
        """Return the alarm, where versions are compared."""
        differences, worse = self._found.differences, self._found.worse
        if not differences:
            return
        silent_s, seen = self._store.now() - OVER_S, self._history.versions
        live = [
            at_s for each, at_s in worse.items() if each in seen and seen[each].last_s > silent_s
        ]
        said = [_said(e) for e in differences if e.version in worse and e.decision(0.0) == "worse"]
        yield AlarmState(
            **self._alarm,
            evidence_s=self._watching.every_days * DAY_S if live else 0.0,
            active=bool(live),
            since_s=max(live, default=None),
            detail="; ".join(said),
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
        served = [asdict(each) for each in self._found.differences]
        return {"versions": served} if served else {}

    def is_version(self, slice_: str) -> bool:
        """Return whether a slice is a version of the application."""
        return slice_.partition("=")[0] in (SERVICE_VERSION, *self._watching.versions_by)


def _said(found: VersionDifference) -> str:
    return f"{found.by} {found.candidate} is worse than {found.baseline}: {found}"
