"""Everything that is estimated of one service: answers are drawn, summed up, evaluated, shown."""

from __future__ import annotations

import contextlib
import math
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple

import msgspec

from ragmonitor.records import (
    AlarmCause,
    AlarmEvent,
    AlarmSpan,
    AlarmState,
    CompletedAnswer,
    GaugeValue,
    Interaction,
    Prediction,
    Report,
    SamplingDecision,
    SeriesKey,
    Snapshot,
    Window,
    WindowedMean,
)
from ragmonitor.runtime.feedback import JoinedFeedback
from ragmonitor.runtime.guard import contained, logger, record_problem
from ragmonitor.runtime.lock_slices import give_back
from ragmonitor.semconv import metrics
from ragmonitor.stats import tick as ticking
from ragmonitor.stats.alarm import Alarm
from ragmonitor.stats.feedback import PeoplesFeedback
from ragmonitor.stats.goldens import GOLDEN, GoldenQuestions
from ragmonitor.stats.judge_change import judge_or_application
from ragmonitor.stats.parts import Answer, Observation, Part
from ragmonitor.stats.prediction import Calibration, calibrations
from ragmonitor.stats.references import ReferenceAnswers
from ragmonitor.stats.signals import (
    EMPTY_RETRIEVAL,
    HALLUCINATION,
    MINOR_HALLUCINATION,
    NO_JUDGE,
    REFERENCES,
    REFUSAL,
    SHARES,
    WEAK_RETRIEVAL,
    Outcomes,
    features,
    outcomes,
)
from ragmonitor.stats.streams import Stream, series_of
from ragmonitor.stats.sums import NOTHING, Ledger, Outcome, totals
from ragmonitor.stats.sums import Answer as Summed
from ragmonitor.store import (
    DAY_S,
    OTHER,
    Admission,
    Outbox,
    Rows,
    Store,
    StoreUnavailableError,
    merge,
)

EXPLAINED: Final = (HALLUCINATION, "faithfulness")
"""Alarms of which it is asked whether the judge explains them."""
SIGNED: Final = tuple((w, s) for w in ("value", "applies") for s in ("positive", "negative"))
"""What is counted by its sign, in the order of the totals."""
MAX_OPEN: Final = 100_000
LEARN_EACH_S: Final = 10.0
LOOK_EACH_S: Final = 10.0
MAX_LATE_S: Final = 1_800.0
"""An answer that is older counts as so old: its value matters, its time no more."""
UNCERTAINTY_KEPT: Final = 500.0
"""The number of answers that the mean uncertainty remembers."""
MIN_UNCERTAINTY: Final = 1e-3


@dataclass(frozen=True, slots=True, kw_only=True)
class Watching:
    """What of a service is watched, and how it is called in the sums."""

    streams: Sequence[Stream]
    reader: str
    """Name of the judge that scores every answer."""
    judge: str | None
    """Of the one that scores a sample; None: there is none."""
    every_days: float = 30.0
    """All alarms together are false at most once in so many days."""
    higher_is_better: frozenset[str] = frozenset()
    """Signals whose mean must not fall."""
    versions: Mapping[str, int] = field(default_factory=dict)
    """Of the evaluators that score."""
    slices_of: Callable[[Report], Mapping[str, str]] = lambda _: {}
    """The values of an answer by which slices are told apart."""
    shown: Sequence[str] = ()
    """Dimensions of slices whose rates are shown."""
    versions_by: Sequence[str] = ()
    """Dimensions whose values are versions, which are compared in every signal."""

    @property
    def quality_judge(self) -> str:
        """The judge that quality is measured by."""
        return self.judge or self.reader

    @property
    def compared(self) -> dict[str, str]:
        """The signals that versions are compared in, by what they are called in the sums."""
        names = {HALLUCINATION, REFUSAL, *self.versions} - {MINOR_HALLUCINATION}
        return {self.series(name, self.quality_judge): name for name in names}

    def series(self, signal: str, judge: str) -> str:
        """Return the name of a signal in the sums."""
        reader = "" if judge in {NO_JUDGE, self.judge} else judge
        return series_of(signal, reader, self.versions.get(signal, 1))

    def ledger(self) -> Ledger:
        """Return an empty one."""
        judges = {self.reader, self.quality_judge}
        higher = {self.series(s, j) for s in self.higher_is_better for j in judges}
        higher |= {each.series for each in self.streams if each.higher_is_better}
        sliced = {self.series(signal, self.quality_judge) for signal in (HALLUCINATION, REFUSAL)}
        return Ledger(higher, sliced, self.versions_by)


class Drawn(NamedTuple):
    """An answer that was drawn, as whoever takes its record over needs it."""

    by: str
    """A name of the process that drew it."""
    decision: SamplingDecision
    prediction: Prediction
    summed: Summed


class Statistics:
    """Predicts, sums up, and watches: the estimation of one service.

    What answers add is kept in a ledger and goes to the store with each tick; whoever has the lease
    evaluates, and the others show what was found. Each further statistic is a `Part`. One thread.
    """

    def __init__(
        self,
        parts: Iterable[Part] = (),
        *,
        store: Store,
        watching: Watching,
        references: ReferenceAnswers | None = None,
        goldens: GoldenQuestions | None = None,
        now: Callable[[], float] = time.time,
    ) -> None:
        """Touch nothing yet.

        Args:
            parts: Statistics that need no more than the protocol.
            store: Where sums are.
            watching: What has an alarm.
            references: Old answers that the judge reads again; None: there is no such judge.
            goldens: The scores of golden questions; None: they are left out.
            now: Seconds since the epoch.
        """
        self.store = store
        self._watching = watching
        self._references, self._goldens, self._now = references, goldens, now
        self.parts = [part for part in (*parts, references, goldens) if part is not None]
        """In the order in which they see an answer."""
        self._latest: tuple[Report | None, Outcomes] = (None, {})
        self._calibrations: dict[str, Calibration] = {}
        self._streams = {each.series: each for each in watching.streams}
        self.is_of_stream = False
        """Every answer comes by a stream: its sums are added as its record is settled."""
        self._ledger = watching.ledger()
        self._totals: Rows = {}
        """What this process has added, for counters."""
        self.outbox = Outbox(self.store, lambda sums: merge(self._totals, totals(sums)))
        self._admission = Admission(self.store)
        self._tick = ticking.Tick(
            self.store, watching.streams, false_alarm_every_days=watching.every_days
        )
        self._found: ticking.Evaluation | None = ticking.Evaluation((), {}, {})
        """What was found last; None: the store is away."""
        self._open: OrderedDict[str, Summed] = OrderedDict()
        """Drawn answers whose verdict is on its way."""
        self._unplaced: list[Summed] = []
        """Drawn answers that the store has not placed yet."""
        self._usual_uncertainty = 0.0
        self._learned_s = -math.inf
        self._spans: dict[tuple[str, float], AlarmSpan | None] = {}
        """The answers behind each alarm, by its series and when it was raised."""
        self._cause: AlarmCause | None = None
        self._asked_s = -math.inf

    # --- one answer -----------------------------------------------------------------------------

    def predict(self, builtin: Report) -> Prediction:
        """Return what past verdicts say of an answer; called once each, before it may be drawn."""
        judge = self._watching.judge
        if judge is None:
            return Prediction()
        known = self._features(builtin)
        expected: dict[str, tuple[float, float]] = {}
        for signal in self._read(builtin):
            name = self._watching.series(signal, judge)
            learned = self._calibrations.get(name)
            each = NOTHING if learned is None else learned.expected(known.get(name))
            expected[signal] = each.scored, each.value
        name = self._watching.series(HALLUCINATION, judge)
        learned = self._calibrations.get(name)
        if learned is None or not learned.is_fitted or name not in known:
            return Prediction(expected=expected)
        scored, mean = expected[HALLUCINATION]
        deviation = math.sqrt(scored * mean * (1 - mean))
        usual = self._usual_uncertainty or deviation
        self._usual_uncertainty = usual + (deviation - usual) / UNCERTAINTY_KEPT
        return Prediction(
            hallucination=mean,
            uncertainty=deviation / max(MIN_UNCERTAINTY, usual),
            expected=expected,
        )

    def _read(self, builtin: Report) -> Outcomes:
        """Return the built-in judge's outcomes, worked out once from its draw to its sums."""
        if self._latest[0] is not builtin:
            self._latest = builtin, outcomes(builtin)
        return self._latest[1]

    def _features(self, builtin: Report) -> dict[str, float]:
        """Return what the built-in judge says, by series; scores of two readers differ."""
        watching = self._watching
        if watching.judge is None or builtin.judge.name != watching.reader:
            return {}
        known = features(builtin, self._read(builtin))
        return {watching.series(signal, watching.judge): x for signal, x in known.items()}

    def awaits(self, builtin: Report, prediction: Prediction, decision: SamplingDecision) -> None:
        """Take note of an answer that was drawn just now and whose verdict is on its way.

        Args:
            builtin: The built-in judge's report.
            prediction: Of the verdict.
            decision: That the answer was drawn.
        """
        if decision.inclusion_probability <= 0:
            return
        summed = self._summed(builtin, prediction, decision)
        self._ledger.note(summed)
        if self.is_of_stream:
            drawn = Drawn(self._tick.holder, decision, prediction, summed)
            text = msgspec.json.encode(drawn).decode()
            self.outbox.owe(summed.id, self._ledger.take(), decision=text, draws=[summed])
        else:
            self._unplaced.append(summed)
        self._open[summed.id] = summed
        if len(self._open) > MAX_OPEN:
            self._open.popitem(last=False)

    def drawn_before(self, interaction: Interaction) -> Drawn | None:
        """Return how a process that is gone drew an answer; its sums have the draw already."""
        decision = self.outbox.drawn_before(interaction.id)
        if decision is None:
            return None
        drawn = msgspec.json.decode(decision.text, type=Drawn)
        drawn.summed.bucket = decision.bucket
        self._open[interaction.id] = drawn.summed
        return drawn

    def _summed(
        self, builtin: Report, prediction: Prediction, decision: SamplingDecision
    ) -> Summed:
        """Return what the sums need of an answer that the judge of a sample may read."""
        watching, interaction = self._watching, builtin.interaction
        return Summed(
            id=interaction.id,
            at_s=self._time_of(interaction),
            chance=decision.inclusion_probability,
            rate=decision.rate,
            is_drawn=decision.drawn,
            session=interaction.session_id,
            slices=self._slices(builtin),
            expected={
                watching.series(signal, watching.quality_judge): Outcome(*each)
                for signal, each in prediction.expected.items()
            },
            features=self._features(builtin),
        )

    def _time_of(self, interaction: Interaction) -> float:
        """Return when an answer was given, as far as its clock can be believed."""
        now_s = self._now()
        return min(now_s, max(now_s - MAX_LATE_S, interaction.ended_ns / 1e9))

    def _slices(self, builtin: Report) -> tuple[str, ...]:
        try:
            return self._admission.slices(self._watching.slices_of(builtin))
        except StoreUnavailableError:
            return ()

    def add(self, completed: CompletedAnswer) -> None:
        """Take in one answer of which nothing more is expected."""
        try:
            self._add(completed)
        finally:
            if self.is_of_stream:
                self.outbox.owe(completed.interaction.id, self._ledger.take())

    def _add(self, completed: CompletedAnswer) -> None:
        builtin, decision = completed.builtin, completed.decision
        report, found = builtin, self._read(builtin)
        self._add_builtin(builtin, found)
        if self._watching.judge is not None:
            report = completed.judged or builtin
            found = {} if report is builtin else outcomes(report)
            if decision is not None:
                self._add_sampled(completed, decision, found)
                found = found if decision.inclusion_probability > 0 else {}
        # Parts take the verdicts of one judge, and none of a model that read in its place.
        is_own = report.judge.name == self._watching.quality_judge
        at_s = self._time_of(completed.interaction)
        answer = Answer(completed, at_s, found if is_own else {})
        for part in self.parts:
            for observation in part.add(answer) or ():
                self._observe(observation)
            give_back()

    def _add_builtin(self, builtin: Report, found: Outcomes) -> None:
        """Add what the judge of every answer says; what another one says in its place is apart."""
        watching, interaction = self._watching, builtin.interaction
        by_judge = {watching.reader: dict.fromkeys(found), builtin.judge.name: found}
        for judge, each in by_judge.items():
            bets = watching.judge is None and judge == watching.reader
            self._add_certain(
                {watching.series(signal, judge): outcome for signal, outcome in each.items()},
                id=interaction.id,
                at_s=self._time_of(interaction),
                session=interaction.session_id,
                slices=self._slices(builtin) if bets else (),
                bets=bets,
            )

    def _observe(self, observation: Observation) -> None:
        """Add one value of a signal that needs no judge."""
        signal, value, at_s, session, identity = observation
        self._add_certain({signal: Outcome(1.0, value)}, id=identity, at_s=at_s, session=session)

    def _add_certain(self, verdicts: Outcomes, **known: Any) -> None:
        """Add an answer that was read for certain, and from which nothing is learned."""
        expected = dict.fromkeys(verdicts, NOTHING)
        summed = Summed(expected=expected, is_drawn=True, teaches=False, **known)
        self._ledger.note(summed, verdicts)

    def _add_sampled(
        self, completed: CompletedAnswer, decision: SamplingDecision, found: Outcomes
    ) -> None:
        summed = self._open.pop(completed.interaction.id, None)
        if summed is None:
            summed = self._summed(completed.builtin, completed.prediction, decision)
            self._ledger.note(summed)
        if not summed.is_drawn or summed.chance <= 0:
            return
        judge = self._watching.quality_judge
        verdicts = {self._watching.series(signal, judge): each for signal, each in found.items()}
        self._ledger.settle(summed, verdicts)

    def probed(self, report: Report) -> None:
        """Take in what came of one golden question; no other part hears of it."""
        if self._goldens is not None:
            self._goldens.probed(report)

    # --- now and then ---------------------------------------------------------------------------

    def keep(self) -> None:
        """Keep what was added beyond the process, and learn from it."""
        increments = self._ledger.take()
        if increments:
            self.outbox.add(increments, self._unplaced)
            self._unplaced = []
        self.outbox.flush()
        if self._watching.judge is None or abs(self._now() - self._learned_s) < LEARN_EACH_S:
            return
        self._learned_s = self._now()
        with contextlib.suppress(StoreUnavailableError):  # what was learned goes on to hold
            self._calibrations = calibrations(self.store)

    def tick(self, *, is_due: bool = False) -> Sequence[AlarmEvent]:
        """Let time pass: sums go to the store, means are formed, alarms are raised and cleared.

        Args:
            is_due: All means are formed anew, whenever that was last.
        """
        for part in self.parts:
            # That the store is away is said below; what stops one part stops nothing else.
            with contained("estimate"), contextlib.suppress(StoreUnavailableError):
                for observation in part.tick() or ():
                    self._observe(observation)
            give_back()
        events: list[AlarmEvent] = []
        try:
            self.keep()
            self._found = found = self._tick.run(is_due=is_due) or self._tick.look()
            events = [self._event(found, each) for each in found.events]
            self._explain(found)
        except StoreUnavailableError as error:
            self._found = None
            record_problem("state", f"{error}: no mean and no alarm is known until it is back")
        for part in self.parts:
            events += part.alarm_events()
        return events

    # --- alarms ---------------------------------------------------------------------------------

    def _event(self, found: ticking.Evaluation, event: AlarmEvent) -> AlarmEvent:
        """Return an event with the answers behind it."""
        streams = self._streams.values()
        [stream] = (e for e in streams if (e.signal, e.judge) == (event.signal, event.judge))
        return replace(event, span=self._span(stream, found.alarms[stream.series]))

    def _state(self, stream: Stream, found: ticking.Evaluation) -> AlarmState:
        alarm = found.alarms.get(stream.series) or Alarm.begin(stream.objective, 1.0)
        evidence_s = alarm.evidence * stream.share * DAY_S
        return AlarmState(
            signal=stream.signal,
            judge=stream.judge,
            kind=stream.kind,
            # While it is active its capital is that of clearing it.
            evidence_s=self._watching.every_days * DAY_S if alarm.is_active else evidence_s,
            active=alarm.is_active,
            since_s=alarm.raised_at_s if alarm.is_active else None,
            rising_since_s=alarm.began_s if alarm.began_s >= 0 else None,
            span=self._span(stream, alarm),
            objective=stream.on_its_scale(alarm.objective),
            learned=alarm.learned(found.at_s),
            higher_is_better=stream.higher_is_better,
        )

    def _span(self, stream: Stream, alarm: Alarm) -> AlarmSpan | None:
        """Return what an active alarm says of its answers: those since the rise, as it was raised.

        Within half an hour it is exact to ten seconds; later to five minutes, or to the hour.
        """
        if not alarm.is_active:
            return None
        key, since_s = (stream.series, alarm.raised_at_s), alarm.began_s
        if key not in self._spans:
            since = self._tick.level(stream, since_s)
            before = self._tick.level(stream, since_s - DAY_S, since_s)
            counts = stream.signal in SHARES and not stream.higher_is_better
            self._spans[key] = (
                None
                if since is None
                else AlarmSpan(
                    since_s=since_s,
                    scored=round(since.judged),
                    mean=since.mean,
                    bad=round(since.judged * since.mean) if counts else None,
                    before=None if before is None else before.mean,
                )
            )
        return self._spans[key]

    def _states(self, found: ticking.Evaluation) -> Iterator[AlarmState]:
        asked = found.means.get("24h", {})
        for series, stream in self._streams.items():
            if not stream.signal.startswith(GOLDEN) or series in asked:
                yield self._state(stream, found)

    # --- judge or application -------------------------------------------------------------------

    def _explain(self, found: ticking.Evaluation) -> None:
        """Find out, while an alarm is on, whether the judge is its cause; once known it stays."""
        references, judge = self._references, self._watching.quality_judge
        names = [self._watching.series(signal, judge) for signal in EXPLAINED]
        alarms = {each: found.alarms[each] for each in names if each in found.alarms}
        active = {series: alarm for series, alarm in alarms.items() if alarm.is_active}
        if references is None or not active:
            self._cause = None
            return
        since_s = min(alarm.began_s for alarm in active.values())
        known, now_s = self._cause, self._now()
        if known is not None:
            is_told = known.cause != "unknown" and known.since_s == since_s
            if is_told or abs(now_s - self._asked_s) < LOOK_EACH_S:
                return
        self._asked_s = now_s
        since, usual = references.rereads(since_s)
        stream = self._streams.get(names[0])
        before = after = None
        if stream is not None:
            before = self._tick.level(stream, since_s - DAY_S, since_s)
            if stream.series in active:
                after = self._tick.level(stream, active[stream.series].raised_at_s)
        self._cause = AlarmCause(
            cause=judge_or_application(since, usual, before, after),
            since_s=since_s,
            reread=int(since.reads),
            flipped=int(since.flips),
            waiting=references.waiting(since_s),
        )
        if self._cause.cause != "unknown":
            logger.warning("ragmonitor: %s", self._cause)

    def due(self) -> Sequence[Interaction]:
        """Return the reference answers that the judge is to score again now."""
        cause = self._cause
        asks = cause is not None and cause.cause == "unknown"
        since_s = cause.since_s if cause is not None and asks else None
        return () if self._references is None else self._references.due(since_s)

    def checked(self, interaction: Interaction, report: Report | None) -> None:
        """Take in what came of one that was due; None: it was not scored, and is due again."""
        if self._references is not None:
            self._references.checked(interaction, report)

    # --- showing --------------------------------------------------------------------------------

    def _key(self, series: str) -> SeriesKey | None:
        """Return the names of a series; None: it is not shown."""
        whole, _, slice_ = series.partition("|")
        judge, _, name = whole.rpartition("::")
        signal = name.partition("~")[0]
        is_apart = signal == REFERENCES or signal.startswith(GOLDEN)
        if not judge:
            needs_none = signal in {EMPTY_RETRIEVAL, WEAK_RETRIEVAL}
            judge = NO_JUDGE if needs_none else self._watching.judge or ""
        if not judge or self._watching.series(signal, judge) != whole or is_apart:
            return None
        dimension, _, group = slice_.partition("=")
        if dimension and (dimension not in self._watching.shown or signal != HALLUCINATION):
            return None
        return SeriesKey(signal=signal, judge=judge, dimension=dimension, group=group)

    def _means(self, found: ticking.Evaluation) -> Iterator[WindowedMean]:
        windows: tuple[Window, ...] = ("1h", "24h")
        for window in windows:
            for series, mean in found.means.get(window, {}).items():
                key = self._key(series)
                if key is not None:
                    yield WindowedMean(key=key, window=window, **mean._asdict())

    def _counted(self) -> Iterator[GaugeValue]:
        """Yield what this process has added, for counters."""
        for series, row in self._totals.items():
            key = self._key(series)
            if key is None or key.dimension:
                continue
            of = {"signal": key.signal, "judge": key.judge}
            answers, uncovered, judged, *signed = row
            yield GaugeValue.of(metrics.ANSWERS, answers - uncovered, **of)
            yield GaugeValue.of(metrics.JUDGED_ANSWERS, judged, **of)
            for (what, sign), total in zip(SIGNED, signed, strict=True):
                yield GaugeValue.of(metrics.ESTIMATE, total, **of, of=what, sign=sign)

    def _slice_rates(self, found: ticking.Evaluation) -> dict[str, Any]:
        """Return the rates of slices over the last day, for the page."""
        root = f"{self._watching.series(HALLUCINATION, self._watching.quality_judge)}|"
        rates = [
            {
                "name": series.removeprefix(root),
                "judged": round(each.judged),
                "rate": {"mean": each.mean, "lower": each.lower, "upper": each.upper},
            }
            for series, mean in found.means.get("24h", {}).items()
            if series.startswith(root) and not series.endswith(f"={OTHER}")
            if (each := mean.estimate) is not None
        ]
        return {"slices": {"listed": rates}} if rates else {}

    def _gauges(self) -> Iterator[GaugeValue]:
        yield GaugeValue.of(metrics.STORE_UP, float(self.outbox.is_up))
        yield GaugeValue.of(metrics.DROPPED, self.outbox.dropped, reason="store_away")
        yield GaugeValue.of(metrics.DROPPED, self.outbox.late, reason="late_evidence")
        yield GaugeValue.of(metrics.ALARM_THRESHOLD_SECONDS, self._watching.every_days * DAY_S)
        if self._watching.judge is not None:
            # All zero without an alarm: a gauge that is no longer set would keep its value.
            known = "" if self._cause is None else self._cause.cause
            for cause in ("judge", "application", "unknown"):
                labels = {"judge": self._watching.judge, "cause": cause}
                yield GaugeValue.of(metrics.ALARM_CAUSE, float(known == cause), **labels)
        yield from self._counted()
        for part in self.parts:
            yield from part.gauges()
            give_back()

    def snapshot(self) -> Snapshot:
        """Return every number as of the last tick."""
        states: list[AlarmState] = []
        views: dict[str, Any] = {}
        means: list[WindowedMean] = []
        if (found := self._found) is not None:
            with contextlib.suppress(StoreUnavailableError):  # the next tick says so
                states += self._states(found)
            means += self._means(found)
            views |= self._slice_rates(found)
        records: dict[str, object] = {}
        for part in self.parts:
            states += part.alarm_states()
            views |= part.views()
            records |= part.records()
            give_back()
        return Snapshot(
            means=tuple(means),
            alarms=tuple(states),
            gauges=tuple(self._gauges()),
            cause=self._cause,
            views=views,
            records=records,
        )

    def joined_feedback(self) -> Sequence[JoinedFeedback]:
        """Return the feedback that was joined with its answer since this was last asked."""
        parts = (part for part in self.parts if isinstance(part, PeoplesFeedback))
        return [joined for part in parts for joined in part.joined()]

    def close(self) -> None:
        """Keep what is to outlive the process. Nothing is added afterwards."""
        for part in self.parts:
            with contained("estimate"), contextlib.suppress(StoreUnavailableError):
                part.close()
        try:
            self.keep()
            self.store.close()
        except StoreUnavailableError as error:
            record_problem("state", f"{error}: what was added last is lost")
