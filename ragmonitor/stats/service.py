"""Everything that is estimated of one service: sums in a store, and parts beside them."""

from __future__ import annotations

import contextlib
import math
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from ragmonitor.records import (
    AlarmCause,
    AlarmEvent,
    AlarmSpan,
    AlarmState,
    CompletedAnswer,
    Estimate,
    Example,
    GaugeValue,
    GoldenAnswer,
    Interaction,
    Prediction,
    Report,
    SamplingDecision,
    SeriesKey,
    Snapshot,
    Totals,
    Window,
    WindowedMean,
)
from ragmonitor.runtime.feedback import JoinedFeedback
from ragmonitor.runtime.guard import logger, record_problem
from ragmonitor.runtime.lock_slices import give_back
from ragmonitor.runtime.usual_session import UsualSession
from ragmonitor.semconv import metrics
from ragmonitor.stats import tick as ticking
from ragmonitor.stats.deliveries import Deliveries, Drawn
from ragmonitor.stats.feedback import PeoplesFeedback
from ragmonitor.stats.goldens import GOLDEN, GoldenQuestions
from ragmonitor.stats.judge_change import judge_or_application
from ragmonitor.stats.parts import Answer, Observation, Part
from ragmonitor.stats.prediction import Predictions
from ragmonitor.stats.references import ReferenceAnswers
from ragmonitor.stats.signals import (
    FROM_ASSESSMENT,
    HALLUCINATION,
    NO_JUDGE,
    REFERENCES,
    REFUSAL,
    features,
    outcomes,
    slice_of,
    slice_signal,
)
from ragmonitor.stats.streams import SLICE_ALARMS, Stream, alarm_state, series_of
from ragmonitor.stats.sums import NOTHING, Ledger, Outcome
from ragmonitor.stats.sums import Answer as Summed
from ragmonitor.store import (
    DAY_S,
    HOUR_S,
    OTHER,
    TOTALS,
    Admission,
    Outbox,
    Rows,
    Store,
    StoreUnavailableError,
    merge,
)

YES_OR_NO: Final = frozenset((*FROM_ASSESSMENT, "empty_retrieval", "weak_retrieval", "anchors"))
"""Signals that are a share of the answers, and no mean of scores."""
EXAMPLES: Final = 3
MAX_EXAMPLES: Final = 50
"""Bad answers of a signal that are remembered for its alarm; the newest."""
MAX_OPEN: Final = 100_000
LEARN_EACH_S: Final = 5.0
LOOK_EACH_S: Final = 10.0
QUITE_RECENT_S: Final = 1_700.0
"""Of so long ago there are bets, where the means of whole buckets say nothing yet."""
RECORDED: Final = frozenset(("language", "model", "name", "latency_s"))
"""Dimensions that are no attribute of the application's."""
MAX_LATE_S: Final = 1_800.0
"""An answer that is older counts as so old: its value matters, its time no more."""
MIN_SLICE: Final = 50.0
"""Verdicts of a day from which a slice has an alarm of its own."""
MAX_SLICE_SHARE: Final = 0.9
"""A slice with more of the verdicts is the whole."""
RISING_FROM: Final = 0.01
"""Evidence is rising from this share of the threshold on."""
UNCERTAINTY_KEPT: Final = 500.0
"""The number of answers that the mean uncertainty remembers."""
MIN_UNCERTAINTY: Final = 1e-3
_UNPREDICTED = Prediction()
_Slices = Callable[[Report], Mapping[str, str]]


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
    objectives: Mapping[str, float] = field(default_factory=dict)
    """Means that are accepted, by signal, on its own scale."""
    higher_is_better: frozenset[str] = frozenset()
    """Signals whose mean must not fall."""
    versions: Mapping[str, int] = field(default_factory=dict)
    """Of evaluators; 1 where nothing is said."""
    slices_of: _Slices = lambda _: {}
    """The values of an answer by which slices are told apart."""
    shown: Sequence[str] = ()
    """Dimensions of slices whose rates are shown."""
    slices_share: float = 0.0
    """The share of the false alarms that all of them have."""
    versions_by: Sequence[str] = ()
    """Dimensions whose values are versions, which are compared in every signal."""

    @property
    def quality_judge(self) -> str:
        """The judge that quality is measured by."""
        return self.judge or self.reader

    def has_alarms(self, dimension: str) -> bool:
        """Return whether slices by a dimension have alarms: those by the application's own."""
        return self.slices_share > 0 and dimension not in RECORDED

    def series(self, signal: str, judge: str) -> str:
        """Return the name of a signal in the sums."""
        if judge == NO_JUDGE:
            return signal
        own = self.judge is not None and judge == self.judge
        return series_of(
            signal,
            judge,
            "" if own else judge,
            version=self.versions.get(signal, 1),
        )

    def watched(self, stream: Stream) -> ticking.Watched:
        """Return what the tick is to know of a stream."""
        objective = self.objectives.get(stream.signal, stream.default_objective)
        return ticking.Watched(
            series=stream.series,
            objective=stream.badness(objective),
            share=stream.share,
            reserve=stream.reserve,
        )

    def slice_stream(self, name: str, objective: float | None) -> Stream:
        """Return the stream of a slice, with its objective; None: it is learned."""
        judge = self.quality_judge
        return Stream(
            signal=slice_signal(HALLUCINATION, name),
            judge=judge,
            series=f"{self.series(HALLUCINATION, judge)}|{name}",
            kind="slice",
            share=self.slices_share / SLICE_ALARMS,
            default_objective=objective,
        )


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
        listed = (*parts, references, goldens)
        self.parts: tuple[Part, ...] = tuple(part for part in listed if part is not None)
        """In the order in which they see an answer."""
        self._adding = tuple(part for part in self.parts if type(part).add is not Part.add)
        self._predictions = Predictions(store)
        self.deliveries: Deliveries | None = None
        """Where every answer comes by a stream: their sums, until the store has them."""
        self._begin()

    def _begin(self) -> None:
        watching = self._watching
        judges = {watching.reader, watching.quality_judge}
        higher = {watching.series(s, j) for s in watching.higher_is_better for j in judges}
        higher |= {each.series for each in watching.streams if each.higher_is_better}
        quality = watching.quality_judge
        sliced = {watching.series(signal, quality) for signal in (HALLUCINATION, REFUSAL)}
        self._ledger = Ledger(higher, sliced, watching.versions_by)
        self._ledger_of_one = Ledger(higher, sliced, watching.versions_by)
        self._outbox = Outbox(self.store)
        self._admission = Admission(self.store)
        self._streams = {each.series: each for each in watching.streams}
        plan = ticking.Plan(
            watched=[watching.watched(each) for each in watching.streams],
            false_alarm_every_days=watching.every_days,
        )
        self._tick = ticking.Tick(self.store, plan)
        self._found: ticking.Evaluation | None = None
        """What was found last; None: nothing yet, or the store is away."""
        self._is_away = False
        self._latest: tuple[Report | None, dict[str, Outcome | None]] = (None, {})
        self._open: OrderedDict[str, Summed] = OrderedDict()
        """Drawn answers whose verdict is on its way."""
        self._unplaced: list[Summed] = []
        """Drawn answers that the store has not placed yet."""
        self._totals: Rows = {}
        self._sessions = UsualSession("answers", "taken for answers without a session")
        self._usual_uncertainty = 0.0
        self._learned_s, self._has_news = -math.inf, True
        self._examples: dict[str, deque[Example]] = {}
        self._spans: dict[str, tuple[float, float, AlarmSpan | None]] = {}
        self._cause: AlarmCause | None = None
        self._asked_s = -math.inf

    # --- one answer -----------------------------------------------------------------------------

    def predict(self, builtin: Report) -> Prediction:
        """Return what past verdicts say of an answer; called once each, before it may be drawn."""
        watching = self._watching
        if watching.judge is None:
            return _UNPREDICTED
        found = self._outcomes(builtin)
        known = self._features(builtin)
        series = {watching.series(signal, watching.judge): signal for signal in found}
        expected: dict[str, tuple[float, float]] = {
            series[name]: (each.scored, each.value)
            for name, each in self._predictions.expected(series, known).items()
        }
        name = watching.series(HALLUCINATION, watching.judge)
        calibration = self._predictions.of(name)
        if calibration is None or not calibration.is_fitted or name not in known:
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

    def _features(self, builtin: Report) -> dict[str, float]:
        """Return what the built-in judge says, by series; scores of two readers differ."""
        watching = self._watching
        if watching.judge is None or builtin.judge.name != watching.reader:
            return {}
        known = features(builtin, self._outcomes(builtin))
        return {watching.series(signal, watching.judge): x for signal, x in known.items()}

    def _outcomes(self, builtin: Report) -> dict[str, Outcome | None]:
        """Return the built-in judge's outcomes, worked out once for an answer and not twice."""
        known, found = self._latest
        if known is not builtin:
            found = outcomes(builtin)
            self._latest = builtin, found
        return found

    def awaits(self, builtin: Report, prediction: Prediction, decision: SamplingDecision) -> None:
        """Take note of an answer that was drawn just now and whose verdict is on its way.

        Args:
            builtin: The built-in judge's report.
            prediction: Of the verdict.
            decision: That the answer was drawn.
        """
        if decision.inclusion_probability > 0:
            summed = self._summed(builtin, prediction, decision)
            with self._apart():
                self._note(summed)
                if self.deliveries is not None:
                    taken = self._ledger.take()
                    self.deliveries.drawn(taken, summed, prediction, decision)
            self._open[summed.id] = summed
            if len(self._open) > MAX_OPEN:
                self._open.popitem(last=False)

    def drawn_before(self, interaction: Interaction) -> Drawn | None:
        """Return how a process that is gone drew an answer; its sums have the draw already."""
        if self.deliveries is None:
            return None
        drawn = self.deliveries.drawn_before(interaction.id)
        if drawn is not None:
            self._open[interaction.id] = drawn.summed
        return drawn

    @contextlib.contextmanager
    def _apart(self) -> Iterator[None]:
        """Add up the sums of an answer apart from those of others, if it came by a stream."""
        whole = self._ledger
        if self.deliveries is not None:
            self._ledger = self._ledger_of_one
        try:
            yield
        finally:
            self._ledger = whole

    def _note(self, summed: Summed) -> None:
        self._ledger.note(summed)
        if summed.is_drawn and self.deliveries is None:
            self._unplaced.append(summed)

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
            session=self._session(interaction.session_id),
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

    def _session(self, session: str) -> str:
        """Return a session's id; one that tells nothing apart is none."""
        return "" if session == self._sessions.constant else session

    def _slices(self, builtin: Report) -> tuple[str, ...]:
        try:
            return self._admission.slices(self._watching.slices_of(builtin))
        except StoreUnavailableError:
            return ()

    def add(self, completed: CompletedAnswer) -> None:
        """Take in one answer of which nothing more is expected."""
        with self._apart():
            try:
                self._add(completed)
            finally:
                if self.deliveries is not None:
                    self.deliveries.settled(completed.interaction.id, self._ledger.take())

    def _add(self, completed: CompletedAnswer) -> None:
        interaction = completed.interaction
        self._sessions.see(interaction.session_id, self._time_of(interaction))
        answer = self._answer(completed)
        self._add_builtin(answer)
        if self._watching.judge is not None and completed.decision is not None:
            self._add_sampled(answer, completed.decision)
        for part in self._adding:
            for observation in part.add(answer):
                self._observe(observation)
            give_back()
        self._remember(answer)

    def _answer(self, completed: CompletedAnswer) -> Answer:
        decision, judged_report = completed.decision, completed.judged
        found = tuple(self._outcomes(completed.builtin).items())
        judged, weight = None, 1.0
        if self._watching.judge is None:
            verdicts = found if completed.builtin.judge.name == self._watching.reader else None
        else:
            probability = 0.0 if decision is None else decision.inclusion_probability
            weight = 1 / probability if probability > 0 else 0.0
            if judged_report is not None and weight > 0:
                judged = tuple(outcomes(judged_report).items())
            verdicts = judged
        return Answer(
            completed=completed,
            interaction=completed.interaction,
            at_s=self._time_of(completed.interaction),
            builtin=found,
            judged=judged,
            weight=weight,
            verdicts=verdicts,
        )

    def _add_builtin(self, answer: Answer) -> None:
        """Add what the judge of every answer says; what another one says in its place is apart."""
        builtin, watching = answer.completed.builtin, self._watching
        judge, is_quality = builtin.judge.name, watching.judge is None
        found = dict(answer.builtin)
        if judge != watching.reader:
            self._add_certain(answer, watching.reader, dict.fromkeys(found), bets=is_quality)
            is_quality = False
        self._add_certain(answer, judge, found, bets=is_quality)

    def _add_certain(
        self, answer: Answer, judge: str, found: Mapping[str, Outcome | None], *, bets: bool
    ) -> None:
        """Add an answer that was read for certain."""
        interaction = answer.interaction
        verdicts = {self._watching.series(signal, judge): each for signal, each in found.items()}
        summed = Summed(
            id=interaction.id,
            at_s=answer.at_s,
            chance=1.0,
            rate=1.0,
            is_drawn=True,
            session=self._session(interaction.session_id),
            slices=self._slices(answer.completed.builtin) if bets else (),
            expected=dict.fromkeys(verdicts, NOTHING),
            bets=bets,
            teaches=False,
        )
        self._ledger.note(summed)
        self._ledger.settle(summed, verdicts)

    def _add_sampled(self, answer: Answer, decision: SamplingDecision) -> None:
        completed, judge = answer.completed, self._watching.quality_judge
        summed = self._open.pop(completed.interaction.id, None)
        if summed is None:
            summed = self._summed(completed.builtin, completed.prediction, decision)
            self._note(summed)
        if not summed.is_drawn or summed.chance <= 0:
            return
        report = completed.stand_in or completed.judged
        found = {} if report is None else outcomes(report)
        verdicts = {self._watching.series(signal, judge): each for signal, each in found.items()}
        self._ledger.settle(summed, verdicts)
        self._has_news = True

    def _observe(self, observation: Observation) -> None:
        """Add one value of a signal that needs no judge."""
        signal, value, at_s, session, identity = observation
        summed = Summed(
            id=identity,
            at_s=at_s,
            chance=1.0,
            rate=1.0,
            is_drawn=True,
            session=self._session(session),
            expected={signal: NOTHING},
            teaches=False,
        )
        self._ledger.note(summed)
        self._ledger.settle(summed, {signal: Outcome(1.0, value)})

    def _remember(self, answer: Answer) -> None:
        """Remember a bad answer as an example of what is wrong."""
        report = answer.completed.stand_in or answer.report
        found = answer.verdicts if answer.completed.stand_in is None else outcomes(report).items()
        for signal, outcome in found or ():
            if outcome is None or not outcome.scored:
                continue
            badness = outcome.value
            if signal in self._watching.higher_is_better:
                badness = 1 - badness
            if badness <= 0:
                continue
            assessment = report.assessment
            if signal == HALLUCINATION and assessment is not None and assessment.claims:
                badness = assessment.finding_share
            known = self._examples.setdefault(signal, deque(maxlen=MAX_EXAMPLES))
            known.append(answer.example(report, badness))

    def probed(self, answer: GoldenAnswer) -> None:
        """Take in what came of one golden question; no other part hears of it."""
        if self._goldens is not None:
            self._goldens.probed(answer)

    # --- now and then ---------------------------------------------------------------------------

    def _in_turn(self) -> Iterator[Part]:
        """Yield the parts, and give the interpreter's lock back after each."""
        for part in self.parts:
            yield part
            give_back()

    def keep(self) -> None:
        """Keep what was added beyond the process, and learn from it."""
        increments = self._ledger.take()
        merge(self._totals, increments.get(TOTALS, {}))
        bucket = self._outbox.add(increments) if increments else self._outbox.flush()
        if bucket >= 0:
            for summed in self._unplaced:
                summed.bucket = bucket
            self._unplaced.clear()
        if self.deliveries is not None:
            merge(self._totals, self.deliveries.keep())
        now_s = self._now()
        if self._watching.judge is None or abs(now_s - self._learned_s) < LEARN_EACH_S:
            return
        if self._has_news or abs(now_s - self._learned_s) > 60:
            self._learned_s, self._has_news = now_s, False
            with contextlib.suppress(StoreUnavailableError):  # what was learned goes on to hold
                self._predictions.refresh()

    def tick(self, *, is_due: bool = False) -> Sequence[AlarmEvent]:
        """Let time pass: sums go to the store, means are formed, alarms are raised and cleared.

        Args:
            is_due: All means are formed anew, whenever that was last.
        """
        for part in self._in_turn():
            for observation in part.tick():
                self._observe(observation)
        events: list[AlarmEvent] = []
        try:
            self.keep()
            self._watch_slices()
            found = self._tick.run(is_due=is_due)
            self._found = self._tick.look() if found is None else found
            events = [self._event(each) for each in self._found.events]
            self._is_away = False
            self._explain()
        except StoreUnavailableError as error:
            self._found, self._is_away = None, True
            record_problem("state", f"{error}: no mean and no alarm is known until it is back")
        for part in self._in_turn():
            events += part.alarm_events()
        return events

    def _watch_slices(self) -> None:
        """Watch the slices that have answers and match a pattern, those with the most first."""
        watching = self._watching
        if self._found is None or watching.slices_share <= 0:
            return
        root = watching.series(HALLUCINATION, watching.quality_judge)
        day = self._found.coverages.get("24h", {})
        whole = day[root].judged if root in day else 0.0
        judged = {}
        for series, each in day.items():
            name = series.removeprefix(f"{root}|")
            dimension, _, value = name.partition("=")
            is_enough = MIN_SLICE <= each.judged <= MAX_SLICE_SHARE * whole
            if name == series or value == OTHER or not is_enough:
                continue
            if watching.has_alarms(dimension):
                judged[name] = each.judged
        kept = sorted(judged, key=judged.__getitem__, reverse=True)[:SLICE_ALARMS]
        streams = [
            *watching.streams,
            *(
                watching.slice_stream(name, self._slice_objective(name, root))
                for name in sorted(kept)
            ),
        ]
        if len(streams) != len(self._streams) or any(
            s.series not in self._streams for s in streams
        ):
            self._streams = {each.series: each for each in streams}
            self._tick.watch([watching.watched(each) for each in streams])

    def _slice_objective(self, name: str, root: str) -> float | None:
        """Return what is accepted of a slice: the service's objective.

        One that is worse from the beginning learns its own, which then holds.
        """
        series = f"{root}|{name}"
        if series in self._streams:
            return self._streams[series].default_objective
        known = self._tick.objectives
        if series in known:
            return known[series]
        objective = self._watching.objectives.get(HALLUCINATION)
        usual = None if self._found is None else self._found.means.get("24h", {}).get(series)
        is_worse = objective is not None and usual is not None and usual.mean > objective
        return None if is_worse else objective

    # --- alarms ---------------------------------------------------------------------------------

    def _event(self, event: ticking.AlarmEvent) -> AlarmEvent:
        stream, found = self._streams[event.series], self._found
        assert found is not None  # noqa: S101 - for the type
        shown = found.alarms[event.series]
        span = None
        examples: Sequence[Example] = ()
        is_raised = event.what == "raised"
        if is_raised:
            span = self._span(event.series, event.since_s)
            self._spans[event.series] = (shown.raised_at_s, math.inf, span)
            known = [
                each
                for each in self._examples.get(stream.signal.partition("{")[0], ())
                if each.at_s >= event.since_s - LOOK_EACH_S
            ]
            examples = sorted(known, key=lambda each: each.badness, reverse=True)[:EXAMPLES]
        estimate = self._tick.since(event.at_s - HOUR_S).get(event.series)
        return AlarmEvent(
            signal=stream.signal,
            judge=stream.judge,
            kind=stream.kind,
            raised=is_raised,
            at_s=event.at_s,
            since_s=event.since_s,
            objective=stream.badness(shown.objective) or 0.0,
            higher_is_better=stream.higher_is_better,
            estimate=estimate,
            examples=tuple(examples),
            span=span,
        )

    def _span(self, series: str, since_s: float) -> AlarmSpan | None:
        """Return what was found of the answers since a moment, and before it.

        Within half an hour it is exact to ten seconds; later to five minutes, or to the hour.
        """
        stream = self._streams[series]
        recent = self._tick.recent(series, since_s)
        if recent is not None:
            scored, bad = recent.judged, recent.judged * recent.mean
            mean = stream.badness(recent.mean) or 0.0
        elif (found := self._tick.span(series, since_s)) is not None:
            scored, bad, mean = found.judged, found.hits, found.mean
        else:
            return None
        before = self._tick.between(since_s - DAY_S, since_s).get(series)
        calm = self._tick.recent(series, self._now() - QUITE_RECENT_S, since_s)
        was = None if before is None else before.mean
        if was is None and calm is not None:
            was = stream.badness(calm.mean)
        return AlarmSpan(
            since_s=since_s,
            scored=round(scored),
            mean=mean,
            bad=round(bad) if stream.signal.partition("{")[0] in YES_OR_NO else None,
            before=was,
        )

    def _known_span(self, series: str, shown: ticking.Shown) -> AlarmSpan | None:
        """Return what an alarm says of its answers: of an active one as it was raised."""
        is_rising = shown.evidence_days >= RISING_FROM * shown.threshold_days
        if shown.began_s < 0 or not (shown.is_active or is_rising):
            return None
        raised_at_s, until_s, span = self._spans.get(series, (math.nan, 0.0, None))
        now_s = self._now()
        if raised_at_s != shown.raised_at_s or now_s > until_s:
            span = self._span(series, shown.began_s)
            until_s = math.inf if shown.is_active else now_s + LOOK_EACH_S
            self._spans[series] = shown.raised_at_s, until_s, span
        return span

    def _states(self) -> list[AlarmState]:
        found, states = self._found, []
        day = {} if found is None else found.coverages.get("24h", {})
        for series, stream in self._streams.items():
            shown = None if found is None else found.alarms.get(series)
            if stream.signal.startswith(GOLDEN) and series not in day:  # none is asked
                continue
            if shown is None and not self._is_away:  # nothing is known of it yet
                watched = self._watching.watched(stream)
                days = self._watching.every_days / stream.share
                learned = 0.0 if watched.objective is None else 1.0
                shown = ticking.Shown(0.0, days, False, watched.objective, True, learned=learned)
            if shown is not None:
                span = self._known_span(series, shown)
                states.append(alarm_state(stream, shown, self._watching.every_days, span))
        return states

    # --- judge or application -------------------------------------------------------------------

    def _explain(self) -> None:
        """Find out, while an alarm is on, whether the judge is its cause; once known it stays."""
        references, now_s = self._references, self._now()
        since_s = None if references is None else references.rising_since(self._states())
        if references is None or since_s is None:
            self._cause = None
            return
        known = self._cause
        if known is not None and known.cause != "unknown" and known.since_s == since_s:
            return
        if known is not None and abs(now_s - self._asked_s) < LOOK_EACH_S:
            return
        self._asked_s = now_s
        series = self._watching.series(HALLUCINATION, self._watching.quality_judge)
        since, usual = references.rereads(since_s)
        before = self._tick.between(since_s - DAY_S, since_s).get(series)
        before = before or self._tick.recent(series, now_s - QUITE_RECENT_S, since_s)
        raised = (self._found.alarms.get(series) if self._found is not None else None) or None
        after = None
        if raised is not None and raised.is_active:
            after = self._tick.recent(series, raised.raised_at_s)
            after = after or self._tick.between(raised.raised_at_s, math.inf).get(series)
        cause = judge_or_application(since, usual, before, after)
        self._cause = AlarmCause(
            cause=cause,
            since_s=since_s,
            reread=int(since.reads),
            flipped=int(since.flips),
            waiting=references.waiting(since_s),
        )
        if cause != "unknown":
            logger.warning("ragmonitor: %s", self._cause)

    def refreeze(self) -> None:
        """Accept the judge as it judges now, at the next tick. From any thread."""
        if self._references is not None:
            self._references.refreeze()
        else:
            logger.warning(
                "ragmonitor: nothing is frozen anew: no judge is configured, so there are no "
                "reference answers"
            )

    def due(self) -> Sequence[Interaction]:
        """Return the reference answers that the judge is to score again now."""
        if self._references is None:
            return ()
        cause = self._cause
        asks = cause is not None and cause.cause == "unknown"
        return self._references.due(cause.since_s if cause is not None and asks else None)

    def checked(self, interaction: Interaction, report: Report | None) -> None:
        """Take in what came of one that was due; None: it was not scored, and is due again."""
        if self._references is not None:
            self._references.checked(interaction, report)

    # --- showing --------------------------------------------------------------------------------

    @property
    def quality_judge(self) -> str:
        """The judge of quality, for `parts.Means`."""
        return self._watching.quality_judge

    def estimate(self, signal: str, window: Window = "1h") -> Estimate | None:
        """Return a signal's mean as of the last tick, as `parts.Means` asks for it."""
        if self._found is None:
            return None
        means = self._found.means.get(window, {})
        return means.get(self._watching.series(signal, self.quality_judge), means.get(signal))

    def _key(self, series: str) -> SeriesKey | None:
        """Return the names of a series; None: it is not shown."""
        whole, _, slice_ = series.partition("|")
        judge, _, name = whole.rpartition("::")
        signal = name.partition("~")[0]
        is_apart = signal == REFERENCES or signal.startswith(GOLDEN)
        if not judge:
            needs_none = signal in ("empty_retrieval", "weak_retrieval")
            judge = NO_JUDGE if needs_none else self._watching.judge or ""
        if not judge or self._watching.series(signal, judge) != whole or is_apart:
            return None
        dimension, _, group = slice_.partition("=")
        if dimension and (dimension not in self._watching.shown or signal != HALLUCINATION):
            return None
        return SeriesKey(signal=signal, judge=judge, dimension=dimension, group=group)

    def _means(self) -> Iterator[WindowedMean]:
        found = self._found
        if found is None:
            return
        windows: tuple[Window, ...] = ("1h", "24h")
        for window in windows:
            means = found.means.get(window, {})
            for series, covered in found.coverages.get(window, {}).items():
                key = self._key(series)
                if key is not None:
                    mean = means.get(series)
                    yield WindowedMean(
                        key=key,
                        window=window,
                        estimate=mean,
                        judged=covered.judged,
                        coverage=covered.observed,
                        missing=covered.missing,
                        uncovered=covered.uncovered,
                    )

    def _counted(self) -> Iterator[tuple[SeriesKey, Totals]]:
        """Yield what this process has added, for counters."""
        for series, row in self._totals.items():
            key = self._key(series)
            if key is not None and not key.dimension:
                answers, uncovered, judged, *signed = row
                yield (
                    key,
                    Totals(
                        answers=answers - uncovered,
                        value_positive=signed[0],
                        value_negative=signed[1],
                        scored_positive=signed[2],
                        scored_negative=signed[3],
                        judged=judged,
                    ),
                )

    def _gauges(self, states: Iterable[AlarmState]) -> Iterator[GaugeValue]:
        is_up = self._outbox.is_up and (self.deliveries is None or self.deliveries.is_up)
        yield GaugeValue.of(metrics.STORE_UP, float(is_up))
        yield GaugeValue.of(metrics.DROPPED, self._outbox.dropped, reason="store_away")
        late = self._outbox.late + (0 if self.deliveries is None else self.deliveries.late)
        yield GaugeValue.of(metrics.DROPPED, late, reason="late_evidence")
        yield GaugeValue.of(metrics.ALARM_THRESHOLD_SECONDS, self._watching.every_days * DAY_S)
        if self._watching.judge is not None:
            yield from self._cause_gauges(self._watching.judge)
        for state in states:
            if state.kind == "slice" and (state.active or state.rising_since_s is not None):
                labels = {"slice": slice_of(state.signal), "judge": state.judge}
                yield GaugeValue.of(metrics.SLICE_ALARM_ACTIVE, state.active, **labels)
                yield GaugeValue.of(
                    metrics.SLICE_ALARM_EVIDENCE_SECONDS, state.evidence_s, **labels
                )
        for part in self._in_turn():
            yield from part.gauges(self)

    def _cause_gauges(self, judge: str) -> Iterator[GaugeValue]:
        # All zero without an alarm: a gauge that is no longer set would keep its value.
        known = self._cause
        for cause in ("judge", "application", "unknown"):
            is_it = known is not None and known.cause == cause
            yield GaugeValue.of(metrics.ALARM_CAUSE, float(is_it), judge=judge, cause=cause)

    def snapshot(self) -> Snapshot:
        """Return every number as of the last tick."""
        states: list[AlarmState] = []
        try:
            states = self._states()
        except StoreUnavailableError:
            self._found = None
        of_parts = (state for part in self.parts for state in part.alarm_states())
        return Snapshot(
            means=tuple(self._means()),
            totals=tuple(self._counted()),
            alarms=(*states, *of_parts),
            gauges=tuple(self._gauges(states)),
            cause=self._cause,
            views={name: view for part in self._in_turn() for name, view in part.views().items()},
            records={name: each for part in self.parts for name, each in part.records().items()},
        )

    def joined_feedback(self) -> Sequence[JoinedFeedback]:
        """Return the feedback that was joined with its answer since this was last asked."""
        parts = (part for part in self.parts if isinstance(part, PeoplesFeedback))
        return [joined for part in parts for joined in part.joined()]

    def clear(self) -> None:
        """Forget everything; for a forked child, whose parent keeps what was reported."""
        self._begin()
        for part in self.parts:
            part.clear()

    def close(self) -> None:
        """Keep what is to outlive the process. Nothing is added afterwards."""
        for part in self.parts:
            part.close()
        try:
            self.keep()
            self.store.close()
        except StoreUnavailableError as error:
            record_problem("state", f"{error}: what was added last is lost")
