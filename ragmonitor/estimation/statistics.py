"""Everything that is estimated of one service: a list of parts, fed one answer at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial

from ragmonitor.estimation.alarms import Alarms
from ragmonitor.estimation.golden_questions import GoldenQuestions
from ragmonitor.estimation.judge_drift import JudgeDrift
from ragmonitor.estimation.means import WindowedMeans, pending_verdict
from ragmonitor.estimation.parts import Answer, Observation, Part
from ragmonitor.estimation.peoples_feedback import PeoplesFeedback
from ragmonitor.estimation.predictions import Predictions
from ragmonitor.estimation.signals import HALLUCINATION, Outcome, Outcomes, outcomes
from ragmonitor.estimation.sums import ALONE, group_of
from ragmonitor.estimation.suspicion import Suspicion
from ragmonitor.feedback import JoinedFeedback
from ragmonitor.guard import logger
from ragmonitor.lock_slices import give_back
from ragmonitor.records import (
    AlarmEvent,
    AlarmState,
    CompletedAnswer,
    Estimate,
    Example,
    GoldenAnswer,
    Interaction,
    PendingVerdict,
    Prediction,
    Report,
    SamplingDecision,
    Snapshot,
)

_UNPREDICTED = Prediction()


class Statistics:
    """Predicts, sums up, and watches: the estimation of one service.

    Each statistic is a `Part`. This class knows the order in which they see an answer, and the few
    that others need: the means, the alarms, the suspicion, the predictions and the judge's
    drift. What parts observe of signals updates the alarms.
    """

    def __init__(
        self,
        parts: Iterable[Part] = (),
        *,
        means: WindowedMeans,
        alarms: Alarms,
        predictions: Predictions | None = None,
        suspicion: Suspicion | None = None,
        judge_drift: JudgeDrift | None = None,
        goldens: GoldenQuestions | None = None,
    ) -> None:
        """Begin with what the parts hold.

        Args:
            parts: Statistics that need no more than the protocol.
            means: The windowed means.
            alarms: The alarms.
            predictions: Of a sampled judge's verdicts; None: there is no such judge, and nothing to
                give for the other two either.
            suspicion: Of the built-in judge's score.
            judge_drift: Whether the sampled judge has changed.
            goldens: The scores of golden questions; None: they are left out.
        """
        self._goldens = goldens
        self.means = means
        """Their state a successor in another process goes on with."""
        self.alarms = alarms
        """What waits of them a successor is told again."""
        self._predictions = predictions
        self._suspicion = suspicion
        self._judge_drift = judge_drift
        verdicts = Verdicts(alarms.higher_is_better)
        listed = (predictions, *parts, means, suspicion, verdicts, judge_drift, alarms, goldens)
        self.parts: tuple[Part, ...] = tuple(part for part in listed if part is not None)
        """In the order in which they see an answer."""
        self._adding = tuple(part for part in self.parts if type(part).add is not Part.add)
        self._latest: tuple[Report | None, Outcomes] = (None, ())

    # --- one answer -----------------------------------------------------------------------------

    def predict(self, builtin: Report) -> Prediction:
        """Return what past verdicts say of an answer; called once each, before it may be drawn."""
        if self._predictions is None:
            return _UNPREDICTED
        return self._predictions.predict(builtin, self._outcomes(builtin))

    def _outcomes(self, builtin: Report) -> Outcomes:
        """Return the built-in judge's outcomes, worked out once for an answer and not twice."""
        known, found = self._latest
        if known is not builtin:
            found = outcomes(builtin)
            self._latest = builtin, found
        return found

    @property
    def suspicion(self) -> float:
        """0 to 1: how suspicious the built-in judge's score of the answers so far is."""
        return 0.0 if self._suspicion is None else self._suspicion.value

    def awaits(self, builtin: Report, prediction: Prediction, decision: SamplingDecision) -> None:
        """Take note of an answer that was drawn just now and whose verdict is on its way.

        Args:
            builtin: The built-in judge's report.
            prediction: Of the verdict.
            decision: That the answer was drawn.
        """
        if decision.inclusion_probability > 0:
            answer = builtin.interaction.id
            self.drawn(answer)
            pending = pending_verdict(builtin, prediction, decision, self.means.group_by)
            self.await_verdict(answer, pending)

    def drawn(self, answer: str, *, age_s: float = 0.0) -> None:
        """Have the alarms wait for an answer: verdicts update them in the order of these calls.

        Args:
            answer: Its id.
            age_s: How long ago it was drawn.
        """
        if self._predictions is not None:
            self.alarms.drawn(answer, suspicion=self.suspicion, age_s=age_s)

    def await_verdict(self, answer: str, pending: PendingVerdict) -> None:
        """Have the means know of a drawn answer until its verdict is there."""
        if self._predictions is not None:
            self.means.await_verdict(answer, pending)

    def add(self, completed: CompletedAnswer) -> None:
        """Take in one answer of which nothing more is expected."""
        answer = self._answer(completed)
        for part in self._adding:
            for observation in part.add(answer):
                self._observe(observation)
            give_back()
        if answer.judged is not None:
            self.alarms.complete(answer.interaction.id)

    def observe_again(self, completed: CompletedAnswer) -> None:
        """Tell the alarms again of a drawn answer that was added in another process.

        There its verdict waited for those that were drawn before it.
        """
        answer = self._answer(completed)
        for part in self.parts:
            for observation in part.observe_again(answer):
                self.alarms.update(observation)
        self.alarms.complete(answer.interaction.id)

    def _answer(self, completed: CompletedAnswer) -> Answer:
        interaction, decision, report = completed.interaction, completed.decision, completed.judged
        builtin, judged, weight = self._outcomes(completed.builtin), None, 1.0
        if self._predictions is None:
            is_read = completed.builtin.judge.name == self.means.reader
            verdicts = builtin if is_read else None
        else:
            probability = 0.0 if decision is None else decision.inclusion_probability
            weight = 1 / probability if probability > 0 else 0.0
            judged = verdicts = outcomes(report) if report is not None and weight > 0 else None
        return Answer(
            completed=completed,
            interaction=interaction,
            # A clock that is ahead would put the answer, and what follows it, out of every window.
            at_s=min(self.alarms.now_s(), interaction.ended_ns / 1e9),
            group=self._group_of(interaction.session_id),
            builtin=builtin,
            judged=judged,
            weight=weight,
            verdicts=verdicts,
        )

    def _group_of(self, session: str) -> int:
        """Return a session's random group; one that tells nothing apart has none."""
        return group_of(session) if self.alarms.tells_apart(session) else ALONE

    def _observe(self, observation: Observation) -> None:
        if observation.has_mean:
            self.means.observe(observation, self._group_of(observation.session))
        self.alarms.update(observation)

    def probed(self, answer: GoldenAnswer) -> None:
        """Take in what came of one golden question; no other part hears of it."""
        if self._goldens is not None:
            self._goldens.probed(answer)

    def _in_turn(self) -> Iterator[Part]:
        """Yield the parts, and give the interpreter's lock back after each."""
        for part in self.parts:
            yield part
            give_back()

    # --- now and then ---------------------------------------------------------------------------

    @property
    def is_full(self) -> bool:
        """Whether a tick is due for what was added, however little time has passed."""
        return self.alarms.is_full

    def tick(self) -> Sequence[AlarmEvent]:
        """Let time pass: windows age, alarms are raised and cleared, state is kept."""
        for part in self._in_turn():
            for observation in part.tick():
                self._observe(observation)
        changes = () if self._judge_drift is None else self._judge_drift.changes()
        return (*self._alarm_events(), *changes)

    def keep(self) -> Sequence[AlarmEvent]:
        """Keep the newest verdicts beyond the process, and return the alarms that they change."""
        if self._predictions is not None:
            self._predictions.keep()
        return self._alarm_events()

    def _alarm_events(self) -> tuple[AlarmEvent, ...]:
        """Return the alarms that were raised or cleared, and what was found of their causes."""
        events = self.alarms.apply(self._estimate_now)
        events += tuple(event for part in self._in_turn() for event in part.alarm_events())
        if self._judge_drift is None:
            return events
        return (*events, *self._judge_drift.explain(events, self.alarms.states()))

    def _estimate_now(self, signal: str) -> Estimate | None:
        """Return a signal's mean, with the answers since the last tick: they raised the alarm."""
        self.means.tick()
        return self.means.estimate(signal)

    def _states(self) -> Iterator[AlarmState]:
        drift = self._judge_drift
        for state in self.alarms.states():
            yield state if drift is None else drift.shown(state)
        for part in self.parts:
            yield from part.alarm_states()

    def snapshot(self) -> Snapshot:
        """Return every number as of the last tick."""
        drift = self._judge_drift
        return Snapshot(
            moments=tuple(self.means.moments()),
            totals=tuple(self.means.totals()),
            alarms=tuple(self._states()),
            gauges=tuple(gauge for part in self._in_turn() for gauge in part.gauges(self.means)),
            cause=None if drift is None else drift.cause(),
            views={name: view for part in self._in_turn() for name, view in part.views().items()},
            records={name: each for part in self.parts for name, each in part.records().items()},
        )

    def clear(self) -> None:
        """Forget everything; for a forked child, whose parent keeps what was reported."""
        self._latest = (None, ())
        for part in self.parts:
            part.clear()

    def close(self) -> None:
        """Keep what is to outlive the process. Nothing is added afterwards."""
        for part in self.parts:
            part.close()

    # --- people's say ---------------------------------------------------------------------------

    def joined_feedback(self) -> Sequence[JoinedFeedback]:
        """Return the feedback that was joined with its answer since this was last asked."""
        parts = (part for part in self.parts if isinstance(part, PeoplesFeedback))
        return [joined for part in parts for joined in part.joined()]

    # --- the judge itself -----------------------------------------------------------------------

    def refreeze(self) -> None:
        """Accept the judge as it judges now, at the next tick. From any thread."""
        if self._judge_drift is not None:
            self._judge_drift.refreeze()
        else:
            logger.warning(
                "ragmonitor: nothing is frozen anew: no judge is configured, so there are no "
                "reference answers"
            )

    def due(self) -> Sequence[Interaction]:
        """Return the reference answers that the judge is to score again now."""
        if self._judge_drift is None:
            return ()
        return self._judge_drift.due(self.alarms.states())

    def checked(self, interaction: Interaction, report: Report | None) -> None:
        """Take in what came of one that was due; None: it was not scored, and is due again."""
        if report is not None and self._judge_drift is not None:
            self._judge_drift.checked(interaction, report)


class Verdicts(Part):
    """Turns the verdicts on an answer that count into observations."""

    def __init__(self, higher_is_better: Callable[[str], bool]) -> None:
        """Hold nothing; told whether a signal is the better the higher it is."""
        self._higher_is_better = higher_is_better

    def add(self, answer: Answer) -> Iterator[Observation]:
        """Return an observation for every signal that applies to the answer."""
        if answer.verdicts is None:
            return
        yield from self._of(answer, answer.report, answer.verdicts)
        # An alarm takes the verdict of whichever judge there is.
        stand_in = answer.completed.stand_in
        if stand_in is not None:
            yield from self._of(answer, stand_in, outcomes(stand_in))

    observe_again = add
    """It holds nothing itself."""

    def _of(self, answer: Answer, report: Report, found: Outcomes) -> Iterator[Observation]:
        at_s, interaction, weight = answer.at_s, answer.interaction, answer.importance_weight
        for signal, outcome in found:
            if outcome is not None and outcome.scored:
                example = partial(self._example, answer, report, signal, outcome)
                # By position, for the time that names take: this runs for every score.
                whose = interaction.session_id, interaction.id
                yield Observation(signal, outcome.value, at_s, weight, *whose, example)

    def _example(self, answer: Answer, report: Report, signal: str, outcome: Outcome) -> Example:
        """Return the answer as an example of what is wrong; the worse for more bad claims."""
        badness = 1 - outcome.value if self._higher_is_better(signal) else outcome.value
        assessment = report.assessment
        if signal == HALLUCINATION and assessment is not None and assessment.claims:
            badness = assessment.finding_share
        return answer.example(report, badness)
