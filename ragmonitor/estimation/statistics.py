"""Everything that is estimated of one service, fed one settled answer at a time."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from ragmonitor import metrics as names
from ragmonitor.estimation.alarms import Alarms
from ragmonitor.estimation.anchors import Anchors, Rise
from ragmonitor.estimation.calibration import Calibration
from ragmonitor.estimation.drift import InputDrift
from ragmonitor.estimation.early_warning import EarlyWarning
from ragmonitor.estimation.flips import SelfDisagreement
from ragmonitor.estimation.interval import summarise
from ragmonitor.estimation.labels import HumanLabels
from ragmonitor.estimation.residuals import Residuals
from ragmonitor.estimation.rises import Rises
from ragmonitor.estimation.signals import (
    HALLUCINATION,
    NO_JUDGE,
    Outcome,
    Outcomes,
    features,
    hallucination,
    outcomes,
)
from ragmonitor.estimation.streams import (
    ANCHORS,
    CALIBRATION_HIGH,
    CALIBRATION_LOW,
    FLIPS_TOLERATED,
    half,
)
from ragmonitor.estimation.sums import ALONE, Sums, group_of
from ragmonitor.estimation.windows import Windows
from ragmonitor.guard import logger, record_unkept
from ragmonitor.protocols import Clock
from ragmonitor.records import (
    AlarmEvent,
    AlarmState,
    CompletedAnswer,
    Estimate,
    Example,
    GaugeValue,
    Interaction,
    JudgeIdentity,
    Prediction,
    Report,
    SamplingDecision,
    SeriesKey,
    Snapshot,
    Verdict,
)
from ragmonitor.state import StateFile

UNCERTAINTY_KEPT: Final = 500.0
"""How many answers the mean uncertainty remembers."""
LEAST_UNCERTAINTY: Final = 1e-3
GROUPS_MOST: Final = 40
"""Of one dimension; further values are taken together: an id is no part of the traffic."""
OTHER_GROUPS: Final = "other"
CHANGE_SHOWN_S: Final = 86_400.0
"""A judge that was replaced by one that judges otherwise is an active alarm for so long."""
CAUSES_ASKED: Final = ("hallucination", "faithfulness")
"""Alarms of which it is asked whether the judge explains them."""
RISE_UNKNOWN_S: Final = 3_600.0
"""So long before an alarm the rate began to rise, where only its time is known."""
_NOTHING: Final = (0.0, 0.0)
_UNPREDICTED: Final = Prediction()


@dataclass(frozen=True, slots=True, kw_only=True)
class Watchers:
    """What watches the answers, beside the sums."""

    alarms: Alarms
    warning: EarlyWarning
    anchors: Anchors
    drift: InputDrift
    labels: HumanLabels | None = None


class _Series(dict[str, Sums]):
    """One judge's sums by signal, made when they are first asked for."""

    def __init__(self, windows: Windows, judge: str) -> None:
        super().__init__()
        self._windows = windows
        self._judge = judge

    def __missing__(self, signal: str) -> Sums:
        key = SeriesKey(signal=signal, judge=self._judge)
        self[signal] = sums = self._windows.sums(key)
        return sums


class Statistics:
    """Predicts, sums up, and watches: the stage `Estimates` of one service."""

    def __init__(
        self,
        *,
        builtin: str,
        judge: JudgeIdentity | None,
        watchers: Watchers,
        clock: Clock = time.monotonic,
        now: Callable[[], float] = time.time,
        group_by: Sequence[str] = (),
        false_alarm_every_days: float = 30.0,
        calibration_file: StateFile | None = None,
    ) -> None:
        """Begin with nothing known, or with what the files hold.

        Args:
            builtin: Name of the judge that reads every answer.
            judge: The one that reads a share; None: there is none.
            watchers: Alarms, and what goes with them.
            clock: For the windows.
            now: Seconds since the epoch.
            group_by: Parts of the answers with a hallucination rate of their own: `language`,
                `topic`, or attributes of interactions.
            false_alarm_every_days: The line of the evidence, to be shown.
            calibration_file: Where the calibration outlives the process.
        """
        self._builtin = builtin
        self._reader: JudgeIdentity | None = None
        """The judge as its verdicts carry it: a model that rejects the strict form of reply answers
        under another identity than it was asked by. None: it has given no verdict yet."""
        self._judge = None if judge is None else judge.name
        self._alarms = watchers.alarms
        self._warning = watchers.warning
        self._anchors = watchers.anchors
        self._drift = watchers.drift
        self._labels = watchers.labels
        self._now = now
        self._line_days = false_alarm_every_days
        self._flips = SelfDisagreement(clock=clock)
        self._residuals = Residuals(clock=clock)
        self._rises = Rises()
        self._group_by = tuple(group_by)
        self._windows = Windows(clock=clock)
        self._calibrations: dict[tuple[str, str], Calibration] = {}
        """By signal and language; of all languages under the empty one."""
        self._pooled: dict[str, Calibration] = {}
        """Those of all languages, by signal."""
        self._by_language = False
        """Whether hallucination is predicted by language: both have verdicts enough."""
        self._calibration_file = calibration_file
        self._mean_uncertainty = 0.0
        self._refreezes = False
        self._begin()
        if judge is not None:
            self._learn(restart=True)

    def _begin(self) -> None:
        self._latest: tuple[Report | None, Outcomes] = (None, ())
        self._series: dict[str, _Series] = {}
        """By judge, so that no key is built for each answer."""
        self._parts: dict[tuple[str, str, str], Sums] = {}

    # --- one answer -----------------------------------------------------------------------------

    def predict(self, builtin: Report) -> Prediction:
        """Return what past verdicts say of an answer; called once each, before the coin falls."""
        if self._judge is None:
            return _UNPREDICTED
        pooled = self._pooled
        predictor = self._hallucination(_language(builtin))
        expected = {}
        for signal, feature in features(builtin, self._outcomes(builtin)):
            calibration = predictor if signal == HALLUCINATION else pooled.get(signal)
            expected[signal] = _NOTHING if calibration is None else calibration.expected(feature)
        if predictor is None or not predictor.is_fitted:
            return Prediction(expected=expected)
        scored, mean = expected[HALLUCINATION]
        deviation = math.sqrt(scored * mean * (1 - mean))
        usual = self._mean_uncertainty or deviation
        self._mean_uncertainty = usual + (deviation - usual) / UNCERTAINTY_KEPT
        self._residuals.predicted(mean)
        return Prediction(
            hallucination=mean,
            uncertainty=deviation / max(LEAST_UNCERTAINTY, usual),
            expected=expected,
        )

    def _outcomes(self, builtin: Report) -> Outcomes:
        """Return the built-in judge's outcomes, found once for an answer and not twice."""
        known, found = self._latest
        if known is not builtin:
            found = outcomes(builtin)
            self._latest = builtin, found
        return found

    def add(self, settled: CompletedAnswer) -> None:
        """Take in one answer of which nothing more is expected."""
        builtin, interaction = settled.builtin, settled.interaction
        group, at_s = self._group_of(interaction.session_id), interaction.ended_ns / 1e9
        judge, decision = self._judge, settled.decision
        self._drift.observe(interaction, at_s)
        found = self._outcomes(builtin)
        series = self._of_judge(self._builtin)
        for signal, outcome in found:
            series[signal].exact(outcome, group)
        if judge is None:
            for sums in self._parts_of(builtin, self._builtin):
                sums.exact(found[0][1], group)
            self._bet(settled, builtin, found, importance_weight=1.0)
            return
        if decision is None:
            return
        if settled.prediction.hallucination is not None:
            self._warning.add(settled.prediction.hallucination, at_s)
        if decision.inclusion_probability <= 0:
            for sums in self._judged_sums(builtin, settled.prediction, judge):
                sums.uncover()
            return
        if settled.judged is not None:
            self._read(settled, settled.judged, judge, decision)
            if settled.stand_in is not None:
                self._stand_in(settled, settled.stand_in, decision)
            self._alarms.complete(interaction.id)
            return
        series = self._of_judge(judge)
        for signal, expected in settled.prediction.expected.items():
            series[signal].unread(expected, decision.inclusion_probability, group)
        for sums in self._parts_of(builtin, judge):
            expected = settled.prediction.expected.get(HALLUCINATION, _NOTHING)
            sums.unread(expected, decision.inclusion_probability, group)

    def _group_of(self, session: str) -> int:
        """Return a session's random group; one that tells nothing apart has none."""
        return group_of(session) if self._alarms.tells_apart(session) else ALONE

    def awaits(self, builtin: Report, prediction: Prediction, decision: SamplingDecision) -> None:
        """Take note of an answer that was drawn and whose verdict is on its way."""
        if self._judge is not None and decision.inclusion_probability > 0:
            # Verdicts bet in the order of these calls.
            self._alarms.drawn(builtin.interaction.id, suspicion=self._warning.suspicion)
            for sums in self._judged_sums(builtin, prediction, self._judge):
                sums.await_verdict(decision.inclusion_probability)

    def _judged_sums(self, builtin: Report, prediction: Prediction, judge: str) -> Iterator[Sums]:
        """Yield the sums by the judge that an answer would be added to."""
        series = self._of_judge(judge)
        for signal in prediction.expected:
            yield series[signal]
        yield from self._parts_of(builtin, judge)

    def _read(
        self, settled: CompletedAnswer, judged: Report, judge: str, decision: SamplingDecision
    ) -> None:
        # Under the name of the unread ones, whatever the assessment calls itself.
        language = _language(settled.builtin)
        group = self._group_of(settled.interaction.session_id)
        said = dict(features(settled.builtin, self._outcomes(settled.builtin)))
        found, predicted = outcomes(judged), settled.prediction.expected
        series, weight = self._of_judge(judge), 1 / decision.inclusion_probability
        for signal, outcome in found:
            expected = predicted.get(signal, _NOTHING)
            series[signal].read(expected, decision.inclusion_probability, outcome, group)
            if outcome is None:
                continue
            for calibration in self._learners(signal, language):
                calibration.add(
                    said.get(signal), scored=outcome.scored, value=outcome.value, weight=weight
                )
        hallucinated = found[0][1]
        for sums in self._parts_of(settled.builtin, judge):
            expected = predicted.get(HALLUCINATION, _NOTHING)
            sums.read(expected, decision.inclusion_probability, hallucinated, group)
        self._bet(settled, judged, found, importance_weight=decision.importance_weight)
        if hallucinated is not None and hallucinated.scored:
            self._judge_the_judge(settled, judged, hallucinated)

    def _stand_in(self, settled: CompletedAnswer, read: Report, decision: SamplingDecision) -> None:
        """Take in who reads what the judge fails to, and of which nothing was predicted.

        Its means rest on its verdicts by 1 / chance alone; alarms take any judge's verdict.
        """
        found, series = outcomes(read), self._of_judge(read.judge.name)
        group = self._group_of(settled.interaction.session_id)
        for signal, outcome in found:
            series[signal].read(_NOTHING, decision.inclusion_probability, outcome, group)
        self._bet(settled, read, found, importance_weight=decision.importance_weight)

    def _of_judge(self, judge: str) -> _Series:
        known = self._series.get(judge)
        if known is None:
            known = self._series[judge] = _Series(self._windows, judge)
        return known

    def _parts_of(self, report: Report, judge: str) -> Iterator[Sums]:
        """Yield the sums of the parts of the traffic that an answer is in."""
        for dimension in self._group_by:
            if dimension == "language":
                group = _language(report)
            elif dimension == "topic":
                group = self._drift.topic(report.interaction)
            else:
                group = report.interaction.attributes.get(dimension, "")
            if not group:
                continue
            known = self._parts.get((judge, dimension, group))
            if known is None:
                known = self._part(judge, dimension, group)
            yield known

    def _part(self, judge: str, dimension: str, group: str) -> Sums:
        """Return the sums of a part that was not met before; of too many, those of the others."""
        met = sum(known[:2] == (judge, dimension) for known in self._parts)
        if met >= GROUPS_MOST:
            group = OTHER_GROUPS
        name = (judge, dimension, group)
        known = self._parts.get(name)
        if known is None:
            known = self._parts[name] = self._windows.sums(
                SeriesKey(signal=HALLUCINATION, judge=judge, dimension=dimension, group=group)
            )
        return known

    def _judge_the_judge(self, settled: CompletedAnswer, judged: Report, outcome: Outcome) -> None:
        interaction, decision = settled.interaction, settled.decision
        self._reader = judged.judge
        self._anchors.offer(interaction, outcome.value > 0, judged.judge)
        if decision is not None:
            at_s, weight = interaction.ended_ns / 1e9, 1 / decision.inclusion_probability
            self._rises.add(at_s, outcome.value > 0, weight)
        predicted = settled.prediction.hallucination
        if predicted is None or decision is None or not self._residuals.is_risky(predicted):
            return
        residual = outcome.value - predicted
        self._residuals.add(residual, 1 / decision.inclusion_probability)
        at_s = interaction.ended_ns / 1e9
        for signal, sign in ((CALIBRATION_HIGH, 1), (CALIBRATION_LOW, -1)):
            self._alarms.update(
                signal,
                value=half(sign * residual),
                importance_weight=decision.importance_weight,
                at_s=at_s,
                session=interaction.session_id,
                answer=interaction.id,
            )

    def _bet(
        self, settled: CompletedAnswer, read: Report, found: Outcomes, *, importance_weight: float
    ) -> None:
        interaction = settled.interaction
        at_s, session = interaction.ended_ns / 1e9, interaction.session_id
        for signal, outcome in found:
            if outcome is not None and outcome.scored:
                self._alarms.update(
                    signal,
                    value=outcome.value,
                    importance_weight=importance_weight,
                    at_s=at_s,
                    session=session,
                    example=partial(self._example, settled, read, signal, outcome),
                    answer=interaction.id,
                )

    def _example(
        self, settled: CompletedAnswer, read: Report, signal: str, outcome: Outcome
    ) -> Example:
        """Return the answer as an example of what is wrong; the worse for more bad claims."""
        badness = 1 - outcome.value if self._alarms.higher_is_better(signal) else outcome.value
        claims = read.assessment.claims if read.assessment is not None else None
        if signal == HALLUCINATION and claims:
            badness = sum(claim.verdict is not Verdict.SUPPORTED for claim in claims) / len(claims)
        return Example(
            interaction=settled.interaction,
            assessment=read.assessment,
            badness=badness,
            at_s=settled.interaction.ended_ns / 1e9,
            target=settled.target,
        )

    # --- now and then ---------------------------------------------------------------------------

    def tick(self) -> Sequence[AlarmEvent]:
        """Let time pass: windows age, alarms are raised and cleared, state is kept."""
        if self._refreezes:
            self._refreezes = False
            self._anchors.refreeze()
        self._learn()
        self._look_at_input()
        self._windows.tick()
        self._warning.tick()
        self._residuals.tick()
        for at_s, flipped in self._anchors.take():
            self._alarms.update(ANCHORS, value=float(flipped), importance_weight=1.0, at_s=at_s)
        return (*self._turn_alarms(), *self._changes_of_judge())

    def keep(self) -> Sequence[AlarmEvent]:
        """Take the newest verdicts into what outlives the process, and return alarms they turn."""
        self._learn()
        return self._turn_alarms()

    def _turn_alarms(self) -> tuple[AlarmEvent, ...]:
        """Return the alarms that turned, and what inquiries found of their causes."""
        events = self._alarms.settle(self._estimate)
        return (*events, *self._ask_for_causes(events))

    def _look_at_input(self) -> None:
        series = self._of_judge(NO_JUDGE)
        for observed in self._drift.take():
            for signal, found in observed.outcomes.items():
                outcome = Outcome(scored=True, value=float(found))
                series[signal].exact(outcome, self._group_of(observed.session))
                self._alarms.update(
                    signal,
                    value=outcome.value,
                    importance_weight=1.0,
                    at_s=observed.at_s,
                    session=observed.session,
                )

    def _estimate(self, signal: str) -> Estimate | None:
        for judge in (self._judge or self._builtin, NO_JUDGE):
            moments = self._windows.of(SeriesKey(signal=signal, judge=judge), "1h")
            if moments is not None:
                return summarise(moments)
        return None

    def _changes_of_judge(self) -> Iterator[AlarmEvent]:
        for change in self._anchors.changes():
            if not change.drifted:
                logger.info("ragmonitor: %s", change)
                continue
            yield AlarmEvent(
                signal=ANCHORS,
                judge=self._judge or self._builtin,
                kind="judge",
                raised=True,
                at_s=change.at_s,
                since_s=change.at_s,
                evidence_days=self._line_days,
                tolerate=FLIPS_TOLERATED,
                detail=str(change),
            )

    # --- the cause of an alarm ------------------------------------------------------------------

    def _ask_for_causes(self, events: Sequence[AlarmEvent]) -> Iterator[AlarmEvent]:
        """Open and close inquiries as alarms come and go; yield what an inquiry found."""
        active = [
            state
            for state in self._alarms.states()
            if state.active and state.signal in CAUSES_ASKED and state.judge == self._judge
        ]
        if not active:
            self._anchors.end_inquiry()
            return
        rising = {event.signal: event.since_s for event in events if event.raised}
        # Of an alarm that another process raised, or an earlier run, the rise began before.
        began = (
            rising.get(state.signal, (state.since_s or self._now()) - RISE_UNKNOWN_S)
            for state in active
        )
        self._anchors.inquire(min(began), self._now())
        found = self._anchors.decided()
        if found is None:
            return
        if found.cause == "application":
            logger.warning("ragmonitor: %s", found)
            return
        yield AlarmEvent(
            signal=ANCHORS,
            judge=self._judge or self._builtin,
            kind="judge",
            raised=True,
            at_s=self._now(),
            since_s=found.since_s,
            evidence_days=self._line_days,
            tolerate=FLIPS_TOLERATED,
            detail=str(found),
        )

    def _rise(self) -> Rise | None:
        """Return by how much the rate has risen, while an inquiry needs to know it."""
        inquiry = self._anchors.inquiry
        if inquiry is None or inquiry.cause != "unknown":
            return None
        objectives = (
            state.tolerate
            for state in self._alarms.states()
            if state.signal == HALLUCINATION and state.judge == self._judge
        )
        objective = next(objectives, None)
        return self._rises.since(inquiry.since_s, objective=objective or 0.0)

    @property
    def alarmed(self) -> bool:
        """Whether any alarm is active."""
        return any(state.active for state in self._states())

    def _states(self) -> Iterator[AlarmState]:
        change = self._anchors.last_change
        cause, found_s = self._anchors.cause(), None
        if change is not None and change.drifted and self._now() - change.at_s < CHANGE_SHOWN_S:
            found_s = change.at_s
        elif cause is not None and cause.cause == "judge":
            found_s = cause.since_s
        for state in self._alarms.states():
            if found_s is not None and state.signal == ANCHORS and not state.active:
                # Found by many readings at once, and not bit by bit.
                yield replace(state, active=True, since_s=found_s, evidence_days=self._line_days)
            else:
                yield state

    @property
    def boost(self) -> float:
        """What the sampling should be raised by for now; 1: nothing suspicious.

        Once the verdicts have raised the alarm themselves there is nothing left to find out.
        """
        return 1.0 if self._is_active(HALLUCINATION) else self._warning.boost

    def _is_active(self, signal: str) -> bool:
        return any(state.active for state in self._alarms.states() if state.signal == signal)

    def snapshot(self) -> Snapshot:
        """Return every number as of the last tick."""
        return Snapshot(
            moments=tuple(self._windows.moments()),
            totals=tuple(self._windows.totals()),
            alarms=tuple(self._states()),
            readings=tuple(self._readings()),
            cause=self._anchors.cause(),
            checks=self._anchors.checks(),
        )

    def _readings(self) -> Iterator[GaugeValue]:
        yield GaugeValue(name=names.ALARM_THRESHOLD_SECONDS, value=self._line_days)
        yield GaugeValue(name=names.ALARM_LATE_VERDICTS, value=self._alarms.late)
        yield from self._drift.readings()
        if self._judge is None:
            return
        whose = (("judge", self._judge),)
        yield GaugeValue(
            name=names.EARLY_WARNING_EVIDENCE_SECONDS, value=self._warning.evidence_days
        )
        auroc = self._of(HALLUCINATION, "").auroc()
        if auroc is not None:
            yield GaugeValue(name=names.BUILTIN_AUROC, value=auroc, labels=whose)
        residual = self._residuals.mean
        if residual is not None:
            yield GaugeValue(name=names.CALIBRATION_RESIDUAL, value=residual, labels=whose)
        yield from self._flips.readings(self._judge)
        yield from self._anchors.readings(self._judge)
        yield from self._cause_readings(whose)
        if self._labels is not None:
            day = self._windows.of(SeriesKey(signal=HALLUCINATION, judge=self._judge), "24h")
            yield from self._labels.readings(self._judge, None if day is None else summarise(day))

    def _cause_readings(self, whose: tuple[tuple[str, str], ...]) -> Iterator[GaugeValue]:
        # All zero without an alarm: a gauge that is no longer set would keep its value.
        found = self._anchors.cause()
        known = None if found is None else found.cause
        for cause in ("judge", "application", "unknown"):
            labels = (*whose, ("cause", cause))
            yield GaugeValue(name=names.ALARM_CAUSE, value=float(cause == known), labels=labels)
        reread, flipped = (0, 0) if found is None else (found.reread, found.flipped)
        yield GaugeValue(name=names.ALARM_CAUSE_REREAD, value=reread, labels=whose)
        yield GaugeValue(name=names.ALARM_CAUSE_FLIPPED, value=flipped, labels=whose)

    def clear(self) -> None:
        """Forget everything; for a forked child, whose parent keeps what was reported."""
        self._windows.clear()
        self._begin()
        self._alarms.clear()
        self._warning.clear()
        self._anchors.clear()
        self._rises.clear()
        self._drift.clear()

    def close(self) -> None:
        """Keep what is to outlive the process. Nothing is added afterwards."""
        self._learn()
        self._drift.close()

    # --- the judge itself -----------------------------------------------------------------------

    def repeated(self, first: Report, again: Report) -> None:
        """Take in an answer that the judge read twice."""
        verdicts = [_hallucinated(report) for report in (first, again)]
        if None not in verdicts and first.decision.inclusion_probability > 0:
            self._flips.add(
                bool(verdicts[0]), bool(verdicts[1]), 1 / first.decision.inclusion_probability
            )
            if not verdicts[0]:
                self._anchors.repeated(bool(verdicts[1]))

    def refreeze(self) -> None:
        """Accept the judge as it judges now: its verdicts on the anchors are frozen anew.

        From any thread; done at the next tick.
        """
        self._refreezes = True

    def due(self) -> Sequence[Interaction]:
        """Return the frozen answers that the judge is to read again now."""
        if self._reader is None:
            return ()
        return self._anchors.due(self._now(), self._reader, rise=self._rise())

    def checked(self, interaction: Interaction, report: Report | None) -> None:
        """Take in what came of one that was due; None: it was not read, and is due again."""
        if report is not None:
            verdict = _hallucinated(report)
            self._anchors.checked(interaction.id, verdict, report.judge, self._now())

    # --- calibration ----------------------------------------------------------------------------

    def _hallucination(self, language: str) -> Calibration | None:
        """Return what predicts it: of the language, where both have verdicts enough."""
        if self._by_language and language:
            return self._calibrations.get((HALLUCINATION, language))
        return self._pooled.get(HALLUCINATION)

    def _learners(self, signal: str, language: str) -> Iterator[Calibration]:
        yield self._of(signal, "")
        if signal == HALLUCINATION and language:
            yield self._of(signal, language)

    def _of(self, signal: str, language: str) -> Calibration:
        known = self._calibrations.get((signal, language))
        if known is None:
            known = self._calibrations[signal, language] = Calibration()
            if not language:
                self._pooled[signal] = known
        return known

    def _learn(self, *, restart: bool = False) -> None:
        """Take in the newest verdicts, and, with a file, those of other processes."""
        if not restart and not any(each.has_news for each in self._calibrations.values()):
            return
        file = self._calibration_file
        if file is None:
            self._merge({})
            return
        try:
            with file.alone():
                self._merge(_told(file))
                states = {
                    f"{signal}/{language}": calibration.state()
                    for (signal, language), calibration in self._calibrations.items()
                }
                file.write({"judge": self._judge, "signals": states})
        except OSError as error:
            record_unkept("estimate", "the calibration", error)
            self._merge({})

    def _merge(self, told: Mapping[str, object]) -> None:
        for name in told:
            signal, _, language = name.partition("/")
            self._of(signal, language)
        for (signal, language), calibration in self._calibrations.items():
            known = told.get(f"{signal}/{language}")
            try:
                calibration.merge(known if isinstance(known, Mapping) else None)
            except ValueError as error:
                logger.warning("ragmonitor: calibration of %s begins anew: %s", signal, error)
                calibration.merge()
        of_both = [self._calibrations.get((HALLUCINATION, each)) for each in ("en", "zh")]
        self._by_language = all(each is not None and each.is_fitted for each in of_both)


def _hallucinated(report: Report) -> bool | None:
    outcome = hallucination(report)
    return bool(outcome.value) if outcome is not None and outcome.scored else None


def _told(file: StateFile) -> Mapping[str, object]:
    try:
        state = file.read() or {}
    except ValueError as error:
        logger.warning("ragmonitor: the calibration begins anew: %s", error)
        return {}
    signals = state.get("signals")
    return signals if isinstance(signals, Mapping) else {}


def _language(report: Report) -> str:
    return report.assessment.language if report.assessment is not None else ""
