"""Compares versions of the application live, and finds the one that got worse."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from ragmonitor.causes.answer_slices import SERVICE_VERSION
from ragmonitor.causes.history import History
from ragmonitor.causes.signal_names import difference, is_share, signal_name
from ragmonitor.records import AlarmEvent, AlarmState, GaugeValue
from ragmonitor.semconv import metrics
from ragmonitor.stats.comparison import MIN_JUDGED, Difference
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

    def __str__(self) -> str:
        """Say it for people, shares in percentage points."""
        gap, *ends = (
            difference(each, self.signal) for each in (self.difference, self.lower, self.upper)
        )
        points = " points" if is_share(self.signal) else ""
        judged = f", by {self.judged:.0f} verdicts on it"
        name = signal_name(self.signal, "en")
        return f"{name} differs by {gap} [{ends[0]}, {ends[1]}]{points}{judged}"


class Versions:
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
        self.clear()

    def clear(self) -> None:
        """Read everything anew."""
        self._due_s = -math.inf
        self.differences: list[VersionDifference] = []
        """As of the last `evaluate`."""
        self._worse: dict[str, float] = {}
        """When a version was found worse, by its slice."""

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

    def evaluate(self) -> Sequence[AlarmEvent]:
        """Compare where that is due, and return the alarms. Of all processes one does it.

        Raises:
            StoreUnavailableError: Nothing has changed.
        """
        pairs, now_s = self.pairs(), self._store.now()
        row = self._store.row(*_ALL)
        self._read(row)
        if not pairs or now_s < self._due_s:
            return ()
        found, signals = self._tick.differences(pairs), self._watching.compared
        self.differences = [
            self._difference(signals[series], version, baseline, each)
            for (series, version, baseline), each in found.items()
            if series in signals
        ]
        self.differences.sort(key=lambda each: each.signal != HALLUCINATION)  # what people know
        events = [self._event(each) for each in self._newly_worse()]
        new = {
            "due_s": now_s + COMPARED_EACH_S,
            "differences": [asdict(each) for each in self.differences],
            "worse": self._worse,
        }
        is_kept = self._store.keep(*_ALL, json.dumps(new).encode(), expected=row)
        return events if is_kept else ()

    def _difference(
        self, signal: str, version: str, baseline: str, found: Difference
    ) -> VersionDifference:
        by, _, candidate = version.partition("=")
        higher_is_better = signal in self._watching.higher_is_better
        numbers = asdict(found) | {"higher_is_better": higher_is_better}
        baseline = baseline.partition("=")[2]
        return VersionDifference(
            by=by, candidate=candidate, baseline=baseline, signal=signal, **numbers
        )

    def _newly_worse(self) -> Iterator[VersionDifference]:
        for each in self.differences:
            version = f"{each.by}={each.candidate}"
            if version not in self._worse and each.decision(0.0) == "worse":
                self._worse[version] = self._store.now()
                yield each

    def _event(self, found: VersionDifference) -> AlarmEvent:
        version = f"{found.by}={found.candidate}"
        return AlarmEvent(
            signal=VERSION_WORSE,
            judge=self._judge,
            kind="quality",
            raised=True,
            at_s=self._worse[version],
            since_s=self._history.versions[version].first_s,
            objective=0.0,
            detail=_said(found),
        )

    def _read(self, row: bytes | None) -> None:
        """Take over what was found, by whichever process."""
        if row is not None:
            known = json.loads(row)
            self.differences = [VersionDifference(**each) for each in known["differences"]]
            self._worse, self._due_s = known["worse"], known["due_s"]

    def alarm_states(self) -> Iterator[AlarmState]:
        """Return the alarm, where versions are compared."""
        if not self.differences:
            return
        now_s, seen = self._store.now(), self._history.versions
        since_s = max(
            (
                at_s
                for version, at_s in self._worse.items()
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
                for each in self.differences
                if f"{each.by}={each.candidate}" in self._worse and each.decision(0.0) == "worse"
            ),
        )

    def gauges(self) -> Iterator[GaugeValue]:
        """Return the differences that something can be decided by."""
        for each in self.differences:
            if each.judged < MIN_JUDGED:
                continue
            labels = {"by": each.by, "candidate": each.candidate, "baseline": each.baseline}
            labels |= {"signal": each.signal, "judge": self._judge}
            yield from GaugeValue.interval(
                metrics.VERSION_DIFFERENCE, each.difference, each.lower, each.upper, **labels
            )

    def records(self) -> Mapping[str, Any]:
        """Return the versions as `ragmonitor rollout` reads them."""
        if not self.differences:
            return {}
        return {"versions": [asdict(each) for each in self.differences]}

    def is_version(self, slice_: str) -> bool:
        """Return whether a slice is a version of the application."""
        return slice_.partition("=")[0] in (SERVICE_VERSION, *self._watching.versions_by)


def _said(found: VersionDifference) -> str:
    return f"{found.by} {found.candidate} is worse than {found.baseline}: {found}"
