"""Opens incidents as alarms are raised, keeps them up to date, and closes them."""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from typing import Final, Literal, Protocol

from ragmonitor.causes import Explanation
from ragmonitor.export.content import ContentPolicy
from ragmonitor.incidents.incident import (
    BadAnswer,
    Incident,
    IncidentAlarm,
    NamedCause,
    alarm_of_event,
    alarm_of_state,
)
from ragmonitor.incidents.journal import Journal
from ragmonitor.records import AlarmEvent, Example, Report, Snapshot
from ragmonitor.runtime.guard import contained
from ragmonitor.runtime.protocols import Clock, Exporter
from ragmonitor.semconv import metrics
from ragmonitor.store import StoreUnavailableError

LOOK_S: Final = 2.0
UPDATE_SHARE: Final = 0.1
"""What explains an open incident is looked for after this share of its age, at most each two
seconds and at least each minute, by one process of all."""
MAX_UPDATE_S: Final = 60.0
GRACE_S: Final = 30.0
"""What a process knows of alarms may be so old: a newer alarm is not cleared by it."""
MAX_SUSPECTS: Final = 50
"""Bad answers that are remembered for the next incident."""
TRIES: Final = 20

Occasion = Literal["raised", "named", "on", "cleared"]
"""`named`: a cause is named for the first time; `on`: it is still on after the hours of the
setting."""
Explain = Callable[[str, float], Explanation]
"""From a signal, and when its rise began, to what stands out."""
_Key = tuple[str, str]


class Notices(Protocol):
    """Tells people of incidents."""

    def tell(self, occasion: Occasion, incident: Incident) -> None:
        """Pass a notice on without waiting for the network."""
        ...

    def flush(self, timeout_s: float) -> bool:
        """Wait for what is under way; return whether nothing is left."""
        ...


class IncidentKeeper(Exporter):
    """An exporter that turns alarms into incidents. Everything happens on the worker's thread.

    A service has one open incident at most, in its store. Every process hears of alarms by its
    snapshots, the one that evaluates also by events; whoever changes the incident first tells
    people, since a change counts only if nobody else has made one meanwhile. Each process adds the
    worst of its own answers.
    """

    def __init__(
        self,
        journal: Journal,
        *,
        service: str,
        service_version: str = "",
        explain: Explain | None = None,
        policy: ContentPolicy,
        is_judged: bool = True,
        notices: Notices | None = None,
        still_on_s: float = math.inf,
        now: Clock,
    ) -> None:
        """Begin; nothing is read yet.

        Args:
            journal: Where incidents are kept.
            service: Whose they are.
            service_version: Its version.
            explain: Looks for what explains a rise; None: nobody does.
            policy: How texts of answers are kept.
            is_judged: A judge scores a sample; else the built-in judge's verdicts count.
            notices: Tells people; None: nobody is told.
            still_on_s: After how long they are told again that it is on; infinite: never.
            now: Seconds since the epoch, by the store's clock.
        """
        self.journal = journal
        self._service = service
        self._service_version = service_version
        self.explain = explain
        """May be set before the first alarm."""
        self._policy = policy
        self._role = "sampled" if is_judged else "builtin"
        self._notices = notices
        self._still_on_s = still_on_s
        self._now = now
        self._suspects: dict[str, BadAnswer | Report] = {}
        """Quotes are worked out once an incident is open."""
        self._snapshot = Snapshot()
        self._due_s = -math.inf
        self._is_open = True  # until somebody has looked

    # --- from the worker ------------------------------------------------------------------------

    def export(self, report: Report) -> None:
        """Remember an answer that the judge found hallucinated, for an incident."""
        assessment = report.assessment
        if report.role != self._role or assessment is None or not assessment.hallucinated:
            return
        self._suspects.pop(report.interaction.id, None)
        self._suspects[report.interaction.id] = report
        while len(self._suspects) > MAX_SUSPECTS:
            del self._suspects[next(iter(self._suspects))]

    def alarm(self, event: AlarmEvent) -> None:
        """Open an incident, or add the alarm to the one that is open; of a cleared one, its end."""
        alarm = alarm_of_event(event)
        if event.raised:
            self._change([alarm], (), self._quoted(event.examples))
        else:
            self._change((), [alarm.key])

    def snapshot(self, snapshot: Snapshot) -> None:
        """Bring the open incident up to date, and close it if it is over."""
        with contextlib.suppress(StoreUnavailableError):  # it is said where sums are added
            self._update(snapshot)

    def _update(self, snapshot: Snapshot) -> None:
        self._snapshot, now_s = snapshot, self._now()
        active = [state for state in snapshot.alarms if state.active]
        if not (active or self._is_open) or now_s < self._due_s:
            return
        if self._due_s == -math.inf:
            self.journal.strip()
        self._due_s = now_s + LOOK_S
        threshold_s = next(
            (g.value for g in snapshot.gauges if g.name == metrics.ALARM_THRESHOLD_SECONDS), 0.0
        )
        self._change([alarm_of_state(state, threshold_s, now_s) for state in active], None)

    def flush(self, timeout_s: float) -> bool:
        """Wait for notices that are under way; return whether all are out."""
        return self._notices is None or self._notices.flush(timeout_s)

    # --- what an incident becomes ---------------------------------------------------------------

    def _change(
        self,
        on: Sequence[IncidentAlarm],
        cleared: Iterable[_Key] | None,
        bad: Sequence[BadAnswer] = (),
    ) -> None:
        """Bring the open incident up to date, and tell people what has changed.

        Args:
            on: Alarms that are on.
            cleared: Alarms that are off now; None: all that are not on.
            bad: Answers behind an alarm that was raised just now.
        """
        for _ in range(TRIES):
            kept = self.journal.open()
            before, now_s = kept.incident, self._now()
            after = before
            for alarm in on:
                after = self._joined(after, alarm, now_s, is_event=cleared is not None)
            self._is_open = after is not None
            if after is None:
                return
            after = self._updated(after, _off(after, on, cleared, now_s), bad, now_s)
            occasion = self._occasion(before, after, now_s)
            if occasion is not None:
                after = after.model_copy(update={"noticed_s": now_s})
            if after == before:
                return
            if self.journal.replace(kept, after):
                self._is_open = after.is_open
                if occasion is not None and self._notices is not None:
                    with contained("notify"):
                        self._notices.tell(occasion, after)
                return

    def _joined(
        self, incident: Incident | None, alarm: IncidentAlarm, now_s: float, *, is_event: bool
    ) -> Incident | None:
        """Return the incident with an alarm; what is known of one that is on is not lost."""
        if incident is None:
            return None if not is_event and self._is_over(alarm) else self._opened(alarm, now_s)
        known = next((a for a in incident.alarms if a.key == alarm.key), None)
        if known is None or is_event or known.cleared_s is not None:
            is_stale = not is_event and known is not None and alarm.raised_s <= known.raised_s
            return incident if is_stale else incident.with_alarm(alarm)
        share = max(known.threshold_share, alarm.threshold_share)
        return incident.with_alarm(known.model_copy(update={"threshold_share": share}))

    def _is_over(self, alarm: IncidentAlarm) -> bool:
        """Return whether an alarm is known to have been cleared: a snapshot may be a tick old."""
        newest = next(iter(self.journal.recent()), None)
        return newest is not None and any(
            each.key == alarm.key and alarm.raised_s <= each.raised_s for each in newest.alarms
        )

    def _opened(self, alarm: IncidentAlarm, now_s: float) -> Incident:
        raised = datetime.fromtimestamp(alarm.raised_s, UTC).strftime("%Y%m%d-%H%M%S")
        signal = re.sub(r"[^0-9A-Za-z]+", "-", alarm.signal)[:50].strip("-")
        return Incident(
            id=f"{raised}-{signal}",
            service=self._service,
            service_version=self._service_version,
            content=self._policy.content,
            opened_s=alarm.raised_s,
            updated_s=0.0,
            noticed_s=now_s,
            alarms=(alarm,),
            cause=NamedCause(kind="unknown", named_s=now_s),
        )

    def _updated(
        self, incident: Incident, off: Iterable[_Key], bad: Sequence[BadAnswer], now_s: float
    ) -> Incident:
        """Return the incident with what is known now."""
        incident = incident.with_cleared(off, now_s)
        pause_s = min(MAX_UPDATE_S, UPDATE_SHARE * (now_s - incident.opened_s))
        if incident.is_open and now_s - incident.updated_s >= max(LOOK_S, pause_s):
            leading, found = incident.leading, None
            if self.explain is not None and leading.kind == "quality":
                with contained("causes"):
                    found = self.explain(leading.signal, incident.since_s)
            check = self._snapshot.cause or incident.check
            incident = incident.explained(check, found, now_s)
        suspects = [self._quote(id_) for id_ in self._suspects]
        fresh = [each for each in suspects if each.at_s >= incident.since_s]
        return incident.with_answers((*bad, *fresh))

    def _quoted(self, examples: Sequence[Example]) -> list[BadAnswer]:
        """Return examples as they are kept: as they were exported, if they were."""
        return [
            self._quote(each.interaction.id)
            if each.interaction.id in self._suspects
            else BadAnswer.of(
                each.interaction,
                each.assessment,
                badness=each.badness,
                policy=self._policy,
                trace_id="" if each.target is None else each.target.trace_id,
            )
            for each in examples
        ]

    def _quote(self, id_: str) -> BadAnswer:
        found = self._suspects[id_]
        if isinstance(found, Report):
            found = self._suspects[id_] = BadAnswer.of(
                found.interaction,
                found.assessment,
                badness=0.0 if found.assessment is None else found.assessment.finding_share,
                policy=self._policy,
                trace_id="" if found.target is None else found.target.trace_id,
            )
        return found

    def _occasion(self, before: Incident | None, after: Incident, now_s: float) -> Occasion | None:
        """Return what people are to be told of; None: of nothing."""
        if before is None:
            return "raised"
        if not after.is_open:
            return "cleared"
        nameless = ("unknown", "everywhere")
        if before.cause.kind in nameless and after.cause.kind not in nameless:
            return "named"
        return "on" if now_s - after.noticed_s >= self._still_on_s else None


def _off(
    incident: Incident,
    on: Sequence[IncidentAlarm],
    cleared: Iterable[_Key] | None,
    now_s: float,
) -> Iterable[_Key]:
    if cleared is not None:
        return cleared
    active = {each.key for each in on}
    return [
        each.key
        for each in incident.alarms
        if each.key not in active and each.raised_s < now_s - GRACE_S
    ]
