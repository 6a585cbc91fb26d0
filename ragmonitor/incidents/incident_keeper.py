"""Opens incidents as alarms are raised, keeps them up to date, and closes them."""

from __future__ import annotations

import contextlib
import math
import re
from collections import defaultdict, deque
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Final

from ragmonitor.causes import Explanation
from ragmonitor.export.content import ContentPolicy
from ragmonitor.incidents.incident import (
    NAMELESS,
    BadAnswer,
    Incident,
    IncidentAlarm,
    NamedCause,
    Occasion,
)
from ragmonitor.incidents.journal import Journal
from ragmonitor.incidents.notices import Notifier
from ragmonitor.records import AlarmCause, AlarmEvent, Report, Snapshot
from ragmonitor.runtime.guard import contained
from ragmonitor.runtime.protocols import Clock, Exporter
from ragmonitor.stats.signals import HALLUCINATION, outcomes
from ragmonitor.store import StoreUnavailableError

LOOK_S: Final = 2.0
UPDATE_SHARE: Final = 0.1
"""What explains an open incident is looked for after this share of its age, at most each two
seconds and at least each minute, by one process of all."""
MAX_UPDATE_S: Final = 60.0
GRACE_S: Final = 30.0
"""What a process knows of alarms may be so old: a newer alarm is not cleared by it."""
LATE_S: Final = 60.0
"""An answer counts from its draw, which on a busy machine is up to so long after its end."""
MAX_SUSPECTS: Final = 50
"""Bad answers that are remembered: of each signal until an incident asks for them, and by it."""

Explain = Callable[[str, float], Explanation]
"""From a signal, and when its rise began, to what stands out."""
_Key = tuple[str, str]


class _Extremes:
    """The last answers that are not at one end of a signal's scale, with how far they are off."""

    def __init__(self) -> None:
        self.high: deque[tuple[float, Report]] = deque(maxlen=MAX_SUSPECTS)
        self.low: deque[tuple[float, Report]] = deque(maxlen=MAX_SUSPECTS)


class IncidentKeeper(Exporter):
    """An exporter that turns alarms into incidents. Everything happens on the worker's thread.

    A service has one open incident at most, in its store. Every process reads the alarms off the
    numbers of now; whoever changes the incident first tells people, since a change counts only if
    nobody else has made one meanwhile. Each process adds the worst of its own answers.
    """

    def __init__(
        self,
        journal: Journal,
        *,
        service: str,
        policy: ContentPolicy,
        is_judged: bool = True,
        notices: Notifier | None = None,
        now: Clock,
    ) -> None:
        """Begin; nothing is read yet.

        Args:
            journal: Where incidents are kept.
            service: Whose they are.
            policy: How texts of answers are kept.
            is_judged: A judge scores a sample; else the built-in judge's verdicts count.
            notices: Tells people; None: nobody is told.
            now: Seconds since the epoch, by the store's clock.
        """
        self.journal = journal
        self._service = service
        self.explain: Explain | None = None
        """Looks for what explains a rise; None: nobody does."""
        self._policy = policy
        self._role = "sampled" if is_judged else "builtin"
        self._notices = notices
        self._now = now
        self._recent: dict[str, _Extremes] = defaultdict(_Extremes)
        self._suspects: dict[str, BadAnswer] = {}
        self._over: set[_Key] = set()
        """The alarms that this process, which evaluates them, has just cleared."""
        self._due_s = -math.inf
        self._is_open = True  # until somebody has looked

    # --- from the worker ------------------------------------------------------------------------

    def export(self, report: Report) -> None:
        """Remember a judged answer by each signal that it may be bad by, for an incident."""
        assessment = report.assessment
        if report.role != self._role or assessment is None:
            return
        for signal, outcome in outcomes(report).items():
            value = outcome.value if outcome is not None and outcome.scored else math.nan
            if signal == HALLUCINATION:
                value = assessment.finding_share if assessment.hallucinated else 0.0
            recent = self._recent[signal]
            if value > 0:
                recent.high.append((value, report))
            if value < 1:
                recent.low.append((1 - value, report))

    def alarm(self, event: AlarmEvent) -> None:
        """Look soon: the numbers of now, which follow, say whether it is on."""
        if not event.raised:
            self._over.add((event.signal, event.judge))
        self._due_s = min(self._due_s, 0.0)

    def snapshot(self, snapshot: Snapshot) -> None:
        """Bring the open incident up to date, and close it if it is over."""
        with contextlib.suppress(StoreUnavailableError):  # it is said where sums are added
            self._update(snapshot)

    def _update(self, snapshot: Snapshot) -> None:
        """Bring the open incident up to date by the alarms that are on, and tell people."""
        now_s = self._now()
        active = [state for state in snapshot.alarms if state.active]
        if not (active or self._is_open) or now_s < self._due_s:
            return
        if self._due_s == -math.inf:
            self.journal.strip()
        self._due_s = now_s + LOOK_S
        on = [IncidentAlarm.model_validate(state) for state in active]
        kept = self.journal.open()
        before = kept.incident
        alarms = self._alarms(before, {alarm.key: alarm for alarm in on}, now_s)
        self._is_open = bool(alarms)
        if not alarms:
            self._over.clear()
            return
        after = self._opened(alarms) if before is None else before
        after = self._updated(after.with_alarms(alarms, now_s), snapshot.cause, now_s)
        # Where another process was faster, the next numbers come in two seconds.
        if after == before or not self.journal.replace(kept, after):
            return
        self._is_open = after.is_open
        self._over.clear()
        occasion = _occasion(before, after)
        if occasion is not None and self._notices is not None:
            with contained("notify"):
                self._notices.tell(occasion, after)

    def flush(self, timeout_s: float) -> bool:
        """Wait for notices that are under way; return whether all are out."""
        return self._notices is None or self._notices.flush(timeout_s)

    # --- what an incident becomes ---------------------------------------------------------------

    def _alarms(
        self, before: Incident | None, on: Mapping[_Key, IncidentAlarm], now_s: float
    ) -> tuple[IncidentAlarm, ...]:
        """Return the alarms of the incident now; empty: there is none.

        What this process knows may be a tick old: an alarm that was raised since is not cleared by
        it, and one that was cleared since is not raised by it again.
        """
        if before is None:
            newest = next(iter(self.journal.recent()), None)
            over = {} if newest is None else {each.key: each.since_s for each in newest.alarms}
            return tuple(
                each for key, each in on.items() if each.since_s > over.get(key, -math.inf)
            )
        known = {each.key: each for each in before.alarms}
        for key, new in on.items():
            old = known.get(key)
            if old is None or (old.cleared_s is not None and new.since_s > old.since_s):
                known[key] = new
        for key, old in known.items():
            is_old = key in self._over or old.since_s < now_s - GRACE_S
            if key not in on and old.cleared_s is None and is_old:
                known[key] = old.model_copy(update={"cleared_s": now_s})
        return tuple(known.values())

    def _opened(self, alarms: tuple[IncidentAlarm, ...]) -> Incident:
        alarm = min(alarms, key=lambda each: each.since_s)
        raised = datetime.fromtimestamp(alarm.since_s, UTC).strftime("%Y%m%d-%H%M%S")
        signal = re.sub(r"[^0-9A-Za-z]+", "-", alarm.signal)[:50].strip("-")
        return Incident(
            id=f"{raised}-{signal}",
            service=self._service,
            content=self._policy.content,
            opened_s=alarm.since_s,
            updated_s=0.0,
            alarms=alarms,
            cause=NamedCause(kind="unknown"),
        )

    def _updated(self, incident: Incident, cause: AlarmCause | None, now_s: float) -> Incident:
        """Return the incident with what is known now."""
        pause_s = min(MAX_UPDATE_S, UPDATE_SHARE * (now_s - incident.opened_s))
        if incident.is_open and now_s - incident.updated_s >= max(LOOK_S, pause_s):
            leading, found = incident.leading, None
            if self.explain is not None and leading.kind == "quality":
                with contained("causes"):
                    found = self.explain(leading.signal, incident.since_s)
            incident = incident.explained(cause or incident.check, found, now_s)
        self._suspect(incident.leading)
        since_s = incident.since_s - LATE_S
        return incident.with_answers(e for e in self._suspects.values() if e.at_s >= since_s)

    def _suspect(self, alarm: IncidentAlarm) -> None:
        """Pick what an alarm calls bad; hallucinated answers where its signal is of none."""
        recent = self._recent[HALLUCINATION].high
        if alarm.signal in self._recent:
            found = self._recent[alarm.signal]
            recent = found.low if alarm.higher_is_better else found.high
        for badness, report in recent:
            bad = BadAnswer.of(report, badness=badness, policy=self._policy)
            self._suspects.pop(bad.id, None)
            self._suspects[bad.id] = bad
        recent.clear()
        while len(self._suspects) > MAX_SUSPECTS:
            del self._suspects[next(iter(self._suspects))]


def _occasion(before: Incident | None, after: Incident) -> Occasion | None:
    """Return what people are to be told of; None: of nothing."""
    if before is None:
        return "raised"
    if not after.is_open:
        return "cleared"
    is_named = before.cause.kind in NAMELESS and after.cause.kind not in NAMELESS
    return "named" if is_named else None
