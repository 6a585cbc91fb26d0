"""Opens incidents as alarms are raised, keeps them up to date, and closes them."""

from __future__ import annotations

import math
import os
import re
import secrets
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final, Literal, Protocol

from ragmonitor import metrics
from ragmonitor.causes import CandidateCause, CauseFinder, ChangeFinder
from ragmonitor.export.content import ContentPolicy
from ragmonitor.forks import survive_forks
from ragmonitor.guard import contained
from ragmonitor.incidents.incident import (
    BadAnswer,
    Candidate,
    Change,
    Incident,
    IncidentAlarm,
    JudgeCheck,
    NamedCause,
    Rate,
    alarm_of_event,
    alarm_of_state,
    scope_of,
)
from ragmonitor.incidents.journal import Journal
from ragmonitor.protocols import Clock, Exporter
from ragmonitor.records import AlarmEvent, Estimate, Example, Report, Snapshot
from ragmonitor.stats.signals import whole_of

UPDATE_SHARE: Final = 0.1
"""An open incident is updated after this share of its age, within these bounds."""
MIN_UPDATE_S: Final = 2.0
MAX_UPDATE_S: Final = 60.0
ORPHANED_AFTER_S: Final = 5 * MAX_UPDATE_S
"""An incident that its process has not updated for so long is taken over by another one."""
MAX_SUSPECTS: Final = 50
"""Bad answers that are remembered for the next incident."""

Occasion = Literal["raised", "named", "on", "cleared"]
"""`named`: a cause is named for the first time; `on`: it is still on after the hours of the
setting."""


class Notices(Protocol):
    """Tells people of incidents."""

    def tell(self, occasion: Occasion, incident: Incident) -> None:
        """Pass a notice on without waiting for the network."""
        ...

    def flush(self, timeout_s: float) -> bool:
        """Wait for what is under way; return whether nothing is left."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class _News:
    """The changes of alarms."""

    now_s: float
    on: Mapping[tuple[str, str], IncidentAlarm] = field(default_factory=dict)
    """Alarms that are on, by signal and judge."""
    is_all: bool = False
    """Alarms that are not in `on` are off."""
    cleared: tuple[str, str] | None = None
    """An alarm that was cleared just now."""
    bad: Sequence[BadAnswer] = ()
    """Answers behind an alarm that was raised just now."""


class IncidentKeeper(Exporter):
    """An exporter that turns alarms into incidents. Everything happens on the worker's thread.

    Which alarms are on is taken from the snapshots, so that an incident is closed too whose end
    another process was told of, or an earlier run; the events add what only they know. Of the
    processes that share a state folder one, the owner, keeps an incident up to date.
    """

    def __init__(
        self,
        journal: Journal,
        *,
        service: str,
        service_version: str = "",
        finders: Sequence[CauseFinder] = (),
        policy: ContentPolicy,
        leave_out: Sequence[str] = (),
        is_judged: bool = True,
        notices: Notices | None = None,
        still_on_s: float = math.inf,
        now: Clock = time.time,
    ) -> None:
        """Begin with the incidents that the journal holds.

        Args:
            journal: Where incidents are kept.
            service: Whose they are.
            service_version: Its version.
            finders: Look for causes while an incident is open.
            policy: How texts of answers are kept.
            leave_out: Patterns of names of attributes that no incident holds.
            is_judged: A judge scores a sample; else the built-in judge's verdicts count.
            notices: Tells people; None: nobody is told.
            still_on_s: After how long they are told again that it is on; infinite: never.
            now: Seconds since the epoch.
        """
        self.journal = journal
        self._service = service
        self._service_version = service_version
        self.finders = finders
        """May be set before the first alarm."""
        self._policy = policy
        self._leave_out = tuple(leave_out)
        self._role = "sampled" if is_judged else "builtin"
        self._notices = notices
        self._still_on_s = still_on_s
        self._now = now
        self._begin()
        survive_forks(self)

    def _begin(self) -> None:
        self._owner = f"{os.getpid()}-{secrets.token_hex(4)}"
        self._suspects: dict[str, Report | BadAnswer] = {}
        """The quotes of an incident, which are worked out once somebody asks for them."""
        self._snapshot = Snapshot()
        self._due_s = -math.inf
        self._began_s = -math.inf
        self._is_any_open = True  # until the journal has been looked into

    def after_fork_in_child(self) -> None:
        """Begin anew: the open incidents are the parent's."""
        self._begin()

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
        now_s = self._now()
        alarm = alarm_of_event(event)
        key = (alarm.signal, alarm.judge)
        if event.raised:
            bad = [self._bad_answer(each.interaction.id, each) for each in event.examples]
            self._settle(_News(now_s=now_s, on={key: alarm}, bad=bad))
            self._began_s, self._due_s = now_s, now_s + MIN_UPDATE_S
        else:
            self._settle(_News(now_s=now_s, cleared=key))

    def snapshot(self, snapshot: Snapshot) -> None:
        """Bring open incidents up to date where that is due, and close those that are over."""
        self._snapshot = snapshot
        now_s = self._now()
        is_any_on = any(state.active for state in snapshot.alarms)
        if not (is_any_on or self._is_any_open) or now_s < self._due_s:
            return
        pause_s = UPDATE_SHARE * (now_s - self._began_s)
        self._due_s = now_s + min(MAX_UPDATE_S, max(MIN_UPDATE_S, pause_s))
        threshold_s = next(
            (g.value for g in snapshot.gauges if g.name == metrics.ALARM_THRESHOLD_SECONDS), 0.0
        )
        alarms = [
            alarm_of_state(state, threshold_s, now_s) for state in snapshot.alarms if state.active
        ]
        on = {(each.signal, each.judge): each for each in alarms}
        self._settle(_News(now_s=now_s, on=on, is_all=True))

    def flush(self, timeout_s: float) -> bool:
        """Wait for notices that are under way; return whether all are out."""
        return self._notices is None or self._notices.flush(timeout_s)

    # --- what an incident becomes ---------------------------------------------------------------

    def _settle(self, news: _News) -> None:
        """Bring the journal up to date, and tell people what has changed."""
        due: list[tuple[Occasion, Incident]] = []

        def change(before: Sequence[Incident]) -> Sequence[Incident]:
            due.clear()
            return self._changed(before, news, due)

        self.journal.update(change, news.now_s)
        if self._notices is not None:
            for occasion, incident in due:
                with contained("notify"):
                    self._notices.tell(occasion, incident)

    def _changed(
        self,
        before: Sequence[Incident],
        news: _News,
        told: list[tuple[Occasion, Incident]],
    ) -> Sequence[Incident]:
        after = {each.id: each for each in before}
        for alarm in news.on.values():
            known = next((each for each in after.values() if _holds(each, alarm)), None)
            known = known or self._opened(alarm, news.now_s)
            after[known.id] = _joined(known, alarm, is_event=not news.is_all)
        known_ids = {each.id for each in before}
        for id_, incident in after.items():
            if incident.is_open:
                keys = {(a.signal, a.judge) for a in incident.alarms if a.cleared_s is None}
                still = keys & news.on.keys() if news.is_all else keys - {news.cleared}
                current = self._updated(incident.with_cleared(still, news.now_s), news)
                is_new = id_ not in known_ids
                after[id_] = self._noted(incident, current, told, now_s=news.now_s, is_new=is_new)
        self._is_any_open = any(each.is_open for each in after.values())
        return list(after.values())

    def _opened(self, alarm: IncidentAlarm, now_s: float) -> Incident:
        raised = datetime.fromtimestamp(alarm.raised_s, UTC).strftime("%Y%m%d-%H%M%S")
        signal = re.sub(r"[^0-9A-Za-z]+", "-", alarm.signal)[:50].strip("-")
        return Incident(
            id=f"{raised}-{signal}",
            service=self._service,
            service_version=self._service_version,
            content=self._policy.content,
            scope=scope_of(alarm.kind),
            owner=self._owner,
            opened_s=alarm.raised_s,
            updated_s=now_s,
            noticed_s=now_s,
            alarms=(alarm,),
            cause=NamedCause(kind="unknown", named_s=now_s),
        )

    def _updated(self, incident: Incident, news: _News) -> Incident:
        """Return the incident with what is known now, if this process is to keep it."""
        now_s, bad = news.now_s, news.bad
        is_mine = incident.owner == self._owner
        is_orphaned = now_s - incident.updated_s > ORPHANED_AFTER_S
        if not (is_mine or is_orphaned) or news.cleared is not None:
            return incident
        leading = incident.leading
        since_s = incident.since_s
        found, examples = self._candidates(leading.signal, since_s)
        change, is_fading = self._change(incident, now_s)
        shown = incident.model_copy(
            update={
                "owner": self._owner,
                # The journal holds nothing that this process's policy withholds.
                "content": self._policy.content,
                "alarms": tuple(map(self._with_estimate, incident.alarms)),
                "change": change,
            }
        )
        check, answers = incident.check, tuple(bad)
        if incident.scope != "input":
            cause = self._snapshot.cause
            check = check if cause is None else JudgeCheck.told(cause)
            answers = (*examples, *bad, *self._suspects_since(since_s))
        return shown.explained(check, found, now_s, is_fading=is_fading).with_answers(answers)

    def _change(self, incident: Incident, now_s: float) -> tuple[Change | None, bool]:
        """Return the change, and whether the rise is less clear than it was: it is fading."""
        leading, known = incident.leading, incident.change
        is_up = leading.higher_is_better
        found: Change | None = None
        finder = next((each for each in self.finders if isinstance(each, ChangeFinder)), None)
        if finder is not None:
            with contained("causes"):
                change = finder.change(whole_of(leading.signal), incident.since_s)
                found = None if change is None else Change.until(change, now_s)
        if known is None or found is None:
            return found or known, False
        is_fading = found.gap(higher_is_better=is_up) < known.gap(higher_is_better=is_up)
        return known if is_fading else found, is_fading

    def _candidates(self, signal: str, since_s: float) -> tuple[list[Candidate], list[BadAnswer]]:
        causes: list[CandidateCause] = []
        for finder in self.finders:
            with contained("causes"):
                causes += finder.candidates(whole_of(signal), since_s)
        found = [Candidate.model_validate(cause) for cause in causes]
        examples = [
            self._bad_answer(each.interaction.id, each).model_copy(
                update={"causes": (f"{candidate.kind} {candidate.name}",)}
            )
            for cause, candidate in zip(causes, found, strict=True)
            if cause.is_discovery
            for each in cause.examples
        ]
        return found, examples

    def _bad_answer(self, id_: str, example: Example) -> BadAnswer:
        """Return an example as it is kept: as it was exported, if it was."""
        if id_ in self._suspects:
            return self._suspect(id_)
        return BadAnswer.of(
            example.interaction,
            example.assessment,
            badness=example.badness,
            policy=self._policy,
            leave_out=self._leave_out,
            trace_id="" if example.target is None else example.target.trace_id,
        )

    def _suspect(self, id_: str) -> BadAnswer:
        found = self._suspects[id_]
        if isinstance(found, BadAnswer):
            return found
        assessment = found.assessment
        quoted = BadAnswer.of(
            found.interaction,
            assessment,
            badness=0.0 if assessment is None else assessment.finding_share,
            policy=self._policy,
            leave_out=self._leave_out,
            trace_id="" if found.target is None else found.target.trace_id,
        )
        self._suspects[id_] = quoted
        return quoted

    def _suspects_since(self, since_s: float) -> list[BadAnswer]:
        suspects = map(self._suspect, tuple(self._suspects))
        return [each for each in suspects if each.at_s >= since_s]

    def _with_estimate(self, alarm: IncidentAlarm) -> IncidentAlarm:
        estimate = self._estimate(alarm.signal, alarm.judge)
        return alarm.model_copy(update={"estimate": Rate.kept(estimate) or alarm.estimate})

    def _estimate(self, signal: str, judge: str) -> Estimate | None:
        for each in self._snapshot.means:
            key = each.key
            if (key.signal, key.judge, each.window, key.dimension) == (signal, judge, "1h", ""):
                return each.estimate
        return None

    def _noted(
        self,
        before: Incident,
        after: Incident,
        told: list[tuple[Occasion, Incident]],
        *,
        now_s: float,
        is_new: bool,
    ) -> Incident:
        """Return the incident with the time of the notice that is due, if one is."""
        occasion: Occasion | None = None
        if is_new:
            occasion = "raised"
        elif not after.is_open:
            occasion = "cleared"
        elif before.cause.kind == "unknown" != after.cause.kind:
            occasion = "named"
        elif now_s - after.noticed_s >= self._still_on_s:
            occasion = "on"
        if occasion is None:
            return after
        noted = after.model_copy(update={"noticed_s": now_s})
        told.append((occasion, noted))
        return noted


def _holds(incident: Incident, alarm: IncidentAlarm) -> bool:
    """Return whether an alarm belongs to an incident: it is open, and about the same."""
    return incident.is_open and incident.scope == scope_of(alarm.kind)


def _joined(incident: Incident, alarm: IncidentAlarm, *, is_event: bool) -> Incident:
    """Return the incident with an alarm; what is known of one that is on is not lost."""
    known = next(
        (
            each
            for each in incident.alarms
            if (each.signal, each.judge) == (alarm.signal, alarm.judge) and each.cleared_s is None
        ),
        None,
    )
    if known is None or is_event:
        return incident.with_alarm(alarm)
    share = max(known.threshold_share, alarm.threshold_share)
    return incident.with_alarm(known.model_copy(update={"threshold_share": share}))
