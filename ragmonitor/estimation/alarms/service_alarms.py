"""The alarms of one service: observations are noted, and applied every few seconds."""

from __future__ import annotations

import math
import secrets
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from operator import itemgetter
from typing import Any

from ragmonitor import metrics
from ragmonitor.estimation.alarms.alarm_stream import Pending, Stream, key_of
from ragmonitor.estimation.alarms.draw_order import DrawOrder
from ragmonitor.estimation.alarms.objectives import LEASE_S, Objectives
from ragmonitor.estimation.alarms.sessions import SESSION_S, Sessions
from ragmonitor.estimation.alarms.signal_monitor import SignalMonitor
from ragmonitor.estimation.detector import CLEARED_AT, DAY_S
from ragmonitor.estimation.parts import Means, Observation, Part
from ragmonitor.estimation.signals import slice_of, whole_of
from ragmonitor.guard import (
    logger,
    reason,
    record_error,
    record_problem,
    record_unkept,
    shielded,
)
from ragmonitor.records import AlarmEvent, AlarmState, Estimate, GaugeValue
from ragmonitor.state import State

STATE_VERSION = 3
_LEARNED = "what alarms have learned"

MAX_NAME = 300
"""Characters of the name of a slice, in a file."""
MAX_PENDING = 20_000
"""Updates between two ticks."""
LATE_MOST_S = 1_800.0
"""A verdict that is later than this counts as so late: its value matters, its time no more."""


class Alarms(Part):
    """The alarms of one service.

    `update` notes an observation, and `apply` applies what was noted, every few seconds. With a
    file a process owns all streams while it applies: it reads the newest state, updates it and
    writes, so that all processes are one alarm. Without a file each process has its own.

    As long as every signal meets its objective, all streams together raise at most one false alarm
    in `false_alarm_every_days`, on average: a stream with the share s has its threshold at
    `false_alarm_every_days / s`, and shows its evidence times s, so that all have the same
    threshold.

    A slot is a stream whose signal is chosen while the service runs (`adopt`), from what is past:
    one slice of the traffic, and later another. Its evidence begins at 0 with each, so that it
    exceeds the days that have passed on average no more than that of any other stream does, and
    the slot's share bounds the false alarms of all the slices that it ever has.

    One thread at a time.
    """

    def __init__(
        self,
        streams: Sequence[Stream],
        *,
        false_alarm_every_days: float,
        objectives: Mapping[str, float] | None = None,
        slots: Sequence[Stream] = (),
        limits: Mapping[str, float] | None = None,
        now: Callable[[], float] = time.time,
        file: State | None = None,
    ) -> None:
        """Begin without evidence; the file is not touched yet.

        Args:
            streams: At most one for each signal.
            false_alarm_every_days: The threshold.
            objectives: By signal, on its own scale. Those of other signals are ignored.
            slots: Streams without a signal, for slices.
            limits: The means that are accepted of slices, by slice, as `route=billing`. Others have
                the objective of all answers, or what was learned of them where that is more.
            now: Seconds since the epoch.
            file: What outlives the process, and is shared; of version `STATE_VERSION`.

        Raises:
            ValueError: Two streams of one signal, a share of 0, or shares above 1 together.
        """
        if len({stream.signal for stream in streams}) < len(streams):
            raise ValueError("two streams of one signal")
        shares = [stream.share for stream in (*streams, *slots)]
        if min(shares, default=1.0) <= 0 or sum(shares) > 1 + 1e-9:
            raise ValueError("the streams' shares are to be above 0, and at most 1 together")
        self._every_days = false_alarm_every_days
        by_signal = objectives or {}
        self._first_slot = len(streams)
        self._configured = (*streams, *slots)
        self._given = [
            by_signal.get(stream.signal, stream.default_objective) for stream in self._configured
        ]
        self.limits = limits or {}
        self._now = now
        self._file = file
        self.clear()

    def clear(self) -> None:
        """Forget everything: a forked child, whose parent keeps what was noted. The file stays."""
        self._streams = list(self._configured)
        self._index = {each.signal: at for at, each in enumerate(self._streams) if each.signal}
        self._monitors = [self._monitor(place) for place in range(len(self._streams))]
        self._asked: dict[str, tuple[float, int] | None] = {}
        """What `adopt` says of slices, by signal; None: it is to be released."""
        self._pending: list[Pending] = []
        self._updates = 0
        """The number noted since the last `apply`, those that wait for others included."""
        self._draws: DrawOrder[Pending] = DrawOrder()
        self._lost = 0
        self._sessions = Sessions()
        self._session_s = -math.inf
        """The time when a verdict with a session was applied last, in seconds since the epoch."""
        self._seen = ""
        """The writing of the file that this process knows or is ahead of."""
        self._unconfigured: dict[str, Any] = {}
        """Streams in the file that are not configured now: kept for when they are again."""
        self._disputed: set[int] = set()
        """Streams of which it was logged that processes say different objectives."""

    def _monitor(self, place: int) -> SignalMonitor:
        stream = self._streams[place]
        return SignalMonitor(
            threshold_days=self._every_days / stream.share,
            max_reserve=stream.reserve * self._every_days / stream.share,
            max_importance_weight=stream.max_importance_weight,
            objectives=Objectives(self._said(place)),
            objective=self._said(place),
        )

    # --- slices

    def adopt(self, signal: str, learned: float = 0.0, verdicts: int = 0) -> None:
        """Let a slice have a slot from the next `apply` on, if one is free.

        Args:
            signal: Names signal and slice; one that has a slot keeps it.
            learned: The mean that the slice itself lets expect, on the scale of badness, by what is
                past only; 0: it is not known. Of one that has a slot it counts as
                `SignalMonitor.learn_limit` says. The slice's limit is this or the objective of all
                answers, whichever is more, unless it is among `limits`.
            verdicts: The number of verdicts that it was learned from.
        """
        self._asked[signal] = learned, verdicts

    def release(self, signal: str) -> None:
        """Let a slice give its slot back, at the next `apply`; its evidence is forgotten."""
        self._asked[signal] = None

    @property
    def slots(self) -> int:
        """The number of slices that may be adopted."""
        return len(self._streams) - self._first_slot

    def adopted(self) -> Mapping[str, SignalMonitor]:
        """Return where each slice that has a slot stands, by its signal; not to be changed."""
        return {
            stream.signal: monitor
            for stream, monitor in self._slots_from(self._first_slot)
            if stream.signal
        }

    def _slots_from(self, first: int) -> Iterator[tuple[Stream, SignalMonitor]]:
        return zip(self._streams[first:], self._monitors[first:], strict=True)

    def _occupy(self, place: int, signal: str) -> None:
        """Give a slot to a slice; empty: to none."""
        self._index.pop(self._streams[place].signal, None)
        self._streams[place] = replace(self._configured[place], signal=signal)
        if signal:
            self._index[signal] = place
        self._monitors[place] = self._monitor(place)
        self._sessions.spend(place)

    def _rearrange(self, now_s: float) -> Iterator[AlarmEvent]:
        """Give slots to slices, and take them back, as was asked."""
        asked, self._asked = self._asked, {}
        for signal, learned in sorted(asked.items(), key=lambda each: each[1] is not None):
            place = self._index.get(signal, -1)
            if learned is None and place >= self._first_slot:
                since_s = self._monitors[place].since_s
                if since_s is not None:
                    yield self._event(place, raised=False, at_s=now_s, since_s=since_s)
                self._occupy(place, "")
            elif learned is not None and place < 0:
                free = [
                    at
                    for at, each in enumerate(self._streams[self._first_slot :])
                    if not each.signal
                ]
                if free:
                    self._occupy(self._first_slot + free[0], signal)
                    monitor = self._monitors[self._first_slot + free[0]]
                    monitor.learning.began_s = now_s
                    monitor.learn_limit(*learned)
            elif learned is not None and place >= self._first_slot:
                monitor = self._monitors[place]
                if not monitor.learning.verdicts and slice_of(signal) in self.limits:
                    # It has a slot without having been looked at, and is not new for that.
                    monitor.learned = None
                monitor.learn_limit(*learned)

    def tells_apart(self, session: str) -> bool:
        """Return whether a session id tells answers apart: it is none, or a constant, if not."""
        return bool(session) and session != self._sessions.usual.constant

    def now_s(self) -> float:
        """Return the time by the clock of the alarms, in seconds since the epoch."""
        return self._now()

    def drawn(self, answer: str, *, suspicion: float = 0.0, age_s: float = 0.0) -> None:
        """Take note that an answer was drawn: its updates are applied in the order of these calls.

        Args:
            answer: Its id.
            suspicion: As in `Detector.trust`; by answers before this one only.
            age_s: How long ago it was drawn.
        """
        self._draws.draw(answer, self._now() - age_s, suspicion)

    def waits_for(self, answer: str) -> bool:
        """Return whether an answer was drawn, and its updates are neither applied nor given up."""
        return self._draws.waits(answer) is not None

    def is_late(self, answer: str) -> bool:
        """Return whether an answer was given up, so that its updates count no more."""
        return self._draws.is_late(answer)

    def hold(self, answer: str) -> None:
        """Wait for an answer however long it takes: its verdict is there, and comes in its turn."""
        drawn = self._draws.waits(answer)
        if drawn is not None:
            drawn.at_s = math.inf

    @property
    def given_up(self) -> list[str]:
        """Ids of the newest answers that were not waited for any longer, oldest first."""
        return self._draws.given_up

    def give_up(self, answers: Iterable[str]) -> None:
        """Leave out what comes of answers that a predecessor has given up."""
        self._draws.give_up(answers)

    def complete(self, answer: str) -> None:
        """Take note that all updates of a drawn answer are there, or that none will come."""
        self._draws.complete(answer)

    def came_late(self) -> None:
        """Count an answer whose verdict came after somebody else had given it up."""
        self._draws.late += 1

    @property
    def late(self) -> int:
        """The number of answers whose verdicts came too late to count since the process began."""
        return self._draws.late

    def update(self, observation: Observation) -> None:
        """Note one value; it counts from the next `apply` on. Cheap, and touches no file.

        A value of a signal without a stream, or without a weight, is left out.
        """
        # Taken apart at once: this runs for every score, and each name takes its time.
        signal, value, at_s, weight, session, answer, example, _ = observation
        place = self._index.get(signal)
        if place is None or not (weight > 0 and math.isfinite(value) and math.isfinite(at_s)):
            return
        self._updates += 1
        self._sessions.usual.see(session, at_s)
        value = value if 0.0 <= value <= 1.0 else min(1.0, max(0.0, value))
        x = 1.0 - value if self._streams[place].higher_is_better else value
        drawn = self._draws.waits(answer)
        if drawn is not None:
            drawn.updates.append((at_s, signal, x, weight, drawn.suspicion, session, example))
        elif not self._draws.is_late(answer):
            self._note((at_s, signal, x, weight, 0.0, session, example))

    @property
    def is_full(self) -> bool:
        """Whether `apply` is to come soon: beyond `MAX_PENDING` what is noted would be left out."""
        return self._updates >= MAX_PENDING // 2

    def _note(self, noted: Pending) -> None:
        if len(self._pending) >= MAX_PENDING:
            self._lost += 1
        else:
            self._pending.append(noted)

    def higher_is_better(self, signal: str) -> bool:
        """Return whether the signal is better the higher it is."""
        place = self._index.get(signal)
        return place is not None and self._streams[place].higher_is_better

    def apply(self, estimate: Callable[[str], Estimate | None]) -> tuple[AlarmEvent, ...]:
        """Apply what was noted, and return the alarms that were raised or cleared by it.

        With a file each is returned by the one process whose updates raised or cleared it. A file
        that cannot be read or written is an error of ours, counted and logged once: alarms then go
        on in memory.

        Args:
            estimate: By signal, the last hour's; asked for the signals of events only.
        """
        self._updates = 0
        released = list(self._draws.released(self._now()))
        room = MAX_PENDING - len(self._pending)
        self._pending += released[:room]
        self._lost += max(0, len(released) - room)
        if self._lost:
            record_problem("estimation", f"{self._lost} verdicts too many for alarms were left out")
            self._lost = 0
        # What was drawn later is not among it unless all that was drawn before is, or was given up.
        # In order of time, as the guarantee wants it, and then in an order that does not depend
        # on which verdict came in first.
        pending = sorted(self._pending, key=itemgetter(0, 1, 2, 3))
        self._pending = []
        file = self._file
        events = self._advance(pending) if file is None else self._shared(file, pending)
        # Only now that the state is safe: an estimate may fail.
        return tuple(_with_estimate(event, estimate) for event in events)

    def states(self) -> tuple[AlarmState, ...]:
        """Return where each stream stands, in their order, as of the last `apply`.

        Before the first one, as the file has it: an alarm is not over because a process starts.
        """
        if self._file is not None and not self._seen:
            with shielded("estimation"):
                try:
                    self._look(self._file)
                except OSError as error:
                    record_unkept(_LEARNED, self._file.place, error)
        now_s = self._now()
        return tuple(
            AlarmState(
                signal=stream.signal,
                judge=stream.judge,
                kind=stream.kind,
                evidence_s=monitor.evidence_days * stream.share * DAY_S,
                active=monitor.clearing is not None,
                since_s=monitor.since_s,
                rising_since_s=monitor.rising_since_s,
                span=monitor.span(higher_is_better=stream.higher_is_better),
                objective=self._own_scale(place, monitor.objective),
                learned=monitor.learning.share(now_s) if monitor.objective is None else 1.0,
                higher_is_better=stream.higher_is_better,
                raised=monitor.raised,
                objectives=len(monitor.objectives.live(now_s)),
            )
            for place, (stream, monitor) in enumerate(self._slots_from(0))
            if stream.signal
        )

    def gauges(self, means: Means) -> Iterator[GaugeValue]:
        """Return the threshold and the verdicts that came too late."""
        yield GaugeValue.of(metrics.ALARM_THRESHOLD_SECONDS, self._every_days * DAY_S)
        yield GaugeValue.of(metrics.ALARM_LATE_VERDICTS, self.late)
        if not self.slots:
            return
        yield GaugeValue.of(metrics.SLICE_ALARMS, len(self.adopted()))
        for state in self.states():
            is_rising = state.rising_since_s is not None
            if state.kind == "slice" and (state.active or is_rising):
                labels = {"slice": slice_of(state.signal), "judge": state.judge}
                for name, value in (
                    (metrics.SLICE_ALARM_ACTIVE, state.active),
                    (metrics.SLICE_ALARM_EVIDENCE_SECONDS, state.evidence_s),
                    (metrics.SLICE_ALARM_OBJECTIVE, state.objective or 0.0),
                ):
                    yield GaugeValue.of(name, value, **labels)

    # --- objectives

    def _said(self, place: int) -> float | None:
        """On the scale of badness: what the user says."""
        if place >= self._first_slot:
            return self.limits.get(slice_of(self._streams[place].signal))
        limit = self._given[place]
        return 1.0 - limit if limit is not None and self._streams[place].higher_is_better else limit

    def _own_scale(self, place: int, objective: float | None) -> float | None:
        if objective is None:
            return None
        given = self._given[place]
        if given is not None and objective == self._said(place):
            return given
        return 1.0 - objective if self._streams[place].higher_is_better else objective

    def _wanted(self, place: int, now_s: float) -> float | None:
        """Return what a stream's evidence is to be about; None: that is not known yet.

        A slice has what the setting says of it, or else is held to the objective of all answers,
        where it was not worse from the beginning. While that is learned anew the slice keeps what
        it had.
        """
        monitor = self._monitors[place]
        if place < self._first_slot or monitor.objectives.live(now_s):
            return monitor.wanted(now_s)
        whole = self._index.get(whole_of(self._streams[place].signal))
        least = None if whole is None else self._monitors[whole].objective
        if least is None:
            return monitor.learned if monitor.objective is None else monitor.objective
        return max(least, monitor.learned or 0.0)

    def _is_outdated(self, place: int, now_s: float) -> bool:
        """Return whether evidence is about another objective, or this process's is to be said."""
        monitor = self._monitors[place]
        is_other = monitor.objective != self._wanted(place, now_s)
        return is_other or monitor.objectives.is_to_be_said(now_s)

    def _has_news(self) -> bool:
        now_s = self._now()
        outdated = (self._is_outdated(place, now_s) for place in range(len(self._monitors)))
        return bool(self._asked) or any(outdated)

    def _adopt_objectives(self, now_s: float) -> Iterator[AlarmEvent]:
        """Let every stream's evidence be about the objective that holds; see `objectives`."""
        for place, monitor in enumerate(self._monitors):
            monitor.objectives.say(monitor.objective, now_s)
            self._report_dispute(place, monitor, now_s)
            wanted, held = self._wanted(place, now_s), monitor.objective
            if wanted == held:
                continue
            if wanted is not None and held is not None and wanted < held:
                monitor.tighten(wanted)
                self._sessions.spend(place)
                continue
            if monitor.clearing is not None and monitor.since_s is not None:
                # It was an alarm about something else; who was told of it is told of its end.
                yield self._event(place, raised=False, at_s=now_s, since_s=monitor.since_s)
            self._restart(place, wanted)

    def _report_dispute(self, place: int, monitor: SignalMonitor, now_s: float) -> None:
        live = monitor.objectives.live(now_s)
        if len(live) < 2:
            self._disputed.discard(place)
        elif place not in self._disputed:
            self._disputed.add(place)
            logger.warning(
                "ragmonitor: processes of one state folder say different objectives for %s: %s; "
                "the strictest, %.4g, holds for all of them until none has said it for %.0f "
                "minutes. Give all of them the same setting",
                self._streams[place].signal,
                ", ".join(f"{self._own_scale(place, each):.4g}" for each in sorted(live)),
                self._own_scale(place, min(live)),
                LEASE_S / 60,
            )

    # --- what is shared

    def _shared(self, file: State, pending: Sequence[Pending]) -> list[AlarmEvent]:
        events: list[AlarmEvent] | None = None
        try:
            # Another process may have moved on; nothing of ours is to be written then.
            if not pending and self._look(file) is None and not self._has_news():
                return []
            with file.alone():
                if (unreadable := self._look(file)) is not None:
                    record_problem("estimation", f"alarms begin anew: {reason(unreadable)}")
                events = self._advance(pending)
                writing = secrets.token_hex(4)
                file.write(self._dump(writing))
                self._seen = writing
        except OSError as error:
            record_unkept(_LEARNED, file.place, error)
        return self._advance(pending) if events is None else events

    def _look(self, file: State) -> ValueError | None:
        """Take over the newest state, unless this process is the one that is ahead of it.

        It is ahead where its last writing failed: nobody has written since then, or the file
        would tell of another writing.

        Returns:
            Why the file cannot be understood: what this process knows goes on then, at a start
            from nothing, and is to replace it. None: all is well, or there is no file.

        Raises:
            OSError: It cannot be opened.
        """
        try:
            saved = file.read()
        except ValueError as error:
            return error
        if saved is None or saved.get("writing") == self._seen:
            return None
        streams = saved.get("streams")
        known = dict(streams) if isinstance(streams, dict) else {}
        self._take_over_slots(saved.get("slots"))
        for stream, monitor in self._slots_from(0):
            entry = _taken(known, stream) if stream.signal else None
            if entry is None:
                continue
            try:
                monitor.load(entry)
            except ValueError as error:
                record_error("estimation", error)
        # A slice that has no slot any more is of no use.
        self._unconfigured = {key: each for key, each in known.items() if not slice_of(key)}
        if saved.get("order") == self._order():
            self._sessions.meet(saved.get("sessions"))
        self._seen = str(saved.get("writing"))
        return None

    def _take_over_slots(self, told: Any) -> None:
        """Let the slots be as another process left them; what cannot be is none."""
        names = told if isinstance(told, list) else []
        changed = {
            place: signal
            for place, signal in zip(
                range(self._first_slot, len(self._streams)), names, strict=False
            )
            if isinstance(signal, str) and signal != self._streams[place].signal
        }
        for place in changed:
            self._occupy(place, "")
        for place, signal in changed.items():
            if slice_of(signal) and len(signal) <= MAX_NAME and signal not in self._index:
                self._occupy(place, signal)

    def _dump(self, writing: str) -> dict[str, Any]:
        mine = {
            key_of(stream): monitor.dump() | {"version": stream.version}
            for stream, monitor in self._slots_from(0)
            if stream.signal
        }
        return {
            "writing": writing,
            "slots": [stream.signal for stream, _ in self._slots_from(self._first_slot)],
            "streams": {**self._unconfigured, **mine},
            "order": self._order(),
            "sessions": self._sessions.dump(),
        }

    def _order(self) -> list[str]:
        return [key_of(stream) for stream in self._streams]

    # --- updates

    def _advance(self, pending: Iterable[Pending]) -> list[AlarmEvent]:
        now_s = self._now()
        events = [*self._rearrange(now_s), *self._adopt_objectives(now_s)]
        for told_s, signal, x, importance_weight, suspicion, session, example in pending:
            place = self._index.get(signal, -1)
            if place < 0:  # a slice that has given its slot back since
                continue
            # Nothing is answered in the future, and what is very late has its time behind it.
            at_s = min(now_s, max(told_s, now_s - LATE_MOST_S))
            monitor, block = self._monitors[place], self._sessions.block(session, place, at_s)
            monitor.note(x, importance_weight, at_s)
            if monitor.objective is None and monitor.clearing is None:
                monitor.learn(x, importance_weight, at_s, block)
                if monitor.learning.is_done(at_s):
                    self._adopt_learned(place)
                if monitor.provisional is None:
                    if block is not None:
                        block.add(x, min(importance_weight, monitor.max_importance_weight))
                    continue
            if block is not None:
                self._session_s = at_s
            elif abs(at_s - self._session_s) >= SESSION_S and monitor.clearing is None:
                # The score of a session's earlier answers says something of its later verdicts,
                # so that neither may be trusted with the other.
                monitor.detector.pass_time(at_s, saves=True)
                monitor.detector.trust(suspicion)
            if monitor.clearing is not None:
                monitor.clearing.update(x, importance_weight, at_s, block)
                if monitor.clearing.evidence >= CLEARED_AT and monitor.since_s is not None:
                    events.append(
                        self._event(place, raised=False, at_s=at_s, since_s=monitor.since_s)
                    )
                    monitor.clear_alarm()
                    self._sessions.spend(place)
            elif monitor.update(x, importance_weight, at_s, block, example):
                since_s = at_s if monitor.rising_since_s is None else monitor.rising_since_s
                events.append(self._event(place, raised=True, at_s=at_s, since_s=since_s))
                monitor.raise_alarm(at_s, events[-1].span)
                self._sessions.spend(place)
        return events

    def _restart(self, place: int, objective: float | None) -> None:
        self._monitors[place].restart(objective)
        self._sessions.spend(place)

    def _adopt_learned(self, place: int) -> None:
        monitor, stream = self._monitors[place], self._streams[place]
        monitor.learned = max(stream.least_learned, monitor.learning.objective())
        self._restart(place, monitor.learned)
        logger.info(
            "ragmonitor: objective learned from %d verdicts of %d days, the day's peak included: "
            "a mean %s of %s %.4g",
            monitor.learning.verdicts,
            monitor.learning.days,
            stream.signal,
            "at least" if stream.higher_is_better else "at most",
            self._own_scale(place, monitor.learned),
        )

    def _event(self, place: int, *, raised: bool, at_s: float, since_s: float) -> AlarmEvent:
        stream, monitor = self._streams[place], self._monitors[place]
        return AlarmEvent(
            signal=stream.signal,
            judge=stream.judge,
            kind=stream.kind,
            raised=raised,
            at_s=at_s,
            since_s=since_s,
            evidence_s=monitor.detector.evidence * stream.share * DAY_S,
            threshold_s=self._every_days * DAY_S,
            objective=self._own_scale(place, monitor.objective or monitor.provisional) or 0.0,
            higher_is_better=stream.higher_is_better,
            examples=tuple(monitor.examples) if raised else (),
            span=monitor.course.span(higher_is_better=stream.higher_is_better),
        )


def _taken(known: dict[str, Any], stream: Stream) -> Any:
    """Take a stream's entry out of a file's; None: there is none."""
    if (key := key_of(stream)) not in known:
        # An older file did not say the version of any evaluator: it is that of now.
        unversioned = key_of(replace(stream, version=1))
        entry = known.get(unversioned)
        if isinstance(entry, dict) and "version" not in entry:
            key = unversioned
    return known.pop(key, None)


def _with_estimate(event: AlarmEvent, estimate: Callable[[str], Estimate | None]) -> AlarmEvent:
    with shielded("estimation"):
        return replace(event, estimate=estimate(event.signal))
    return event
