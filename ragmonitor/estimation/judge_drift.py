"""Whether the judge itself has changed, and whether that explains an alarm."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Final

from ragmonitor import metrics
from ragmonitor.estimation.alarm_streams import ANCHORS, FLIPS_OBJECTIVE
from ragmonitor.estimation.anchors import Anchors, Rise
from ragmonitor.estimation.parts import Answer, Means, Observation, Part
from ragmonitor.estimation.signals import HALLUCINATION, hallucinated
from ragmonitor.guard import logger
from ragmonitor.records import (
    AlarmCause,
    AlarmEvent,
    AlarmState,
    GaugeValue,
    Interaction,
    JudgeIdentity,
    Report,
)

MAX_VERDICTS: Final = 5_000
"""Verdicts remembered: a day of 180 an hour, in some 400 kB."""
MIN_AFTER: Final = 10
"""Verdicts since the moment below which nothing is said of the rate since."""
MIN_BEFORE: Final = 100
"""Verdicts before it below which the rate before counts as what the objective accepts."""


class Rises:
    """The newest verdicts of this process, for the rate before a moment and since."""

    def __init__(self) -> None:
        self._verdicts: deque[tuple[float, bool, float]] = deque(maxlen=MAX_VERDICTS)

    def add(self, at_s: float, hallucinated: bool, weight: float) -> None:
        """Remember one verdict.

        Args:
            at_s: When the answer was given, in seconds since the epoch.
            hallucinated: The verdict.
            weight: 1 / inclusion probability.
        """
        self._verdicts.append((at_s, hallucinated, weight))

    def since(self, moment_s: float, *, objective: float) -> Rise | None:
        """Return the rise; None: there are too few verdicts since.

        Args:
            moment_s: In seconds since the epoch.
            objective: The rate before where too little is remembered of it; 0 to 1.
        """
        counts, bad, total = [0, 0], [0.0, 0.0], [0.0, 0.0]
        for at_s, is_bad, weight in self._verdicts:
            side = at_s >= moment_s
            counts[side] += 1
            total[side] += weight
            bad[side] += weight * is_bad
        if counts[True] < MIN_AFTER:
            return None
        before = objective if counts[False] < MIN_BEFORE else bad[False] / total[False]
        return Rise(before=before, after=bad[True] / total[True], verdicts=counts[True])

    def clear(self) -> None:
        """Forget every verdict."""
        self._verdicts.clear()


MAX_OFFERS: Final = 64
"""Judged answers that wait for the next tick to become anchors, at most."""
CHANGE_SHOWN_S: Final = 86_400.0
"""A judge that was replaced by one that judges otherwise is an active alarm for so long."""
EXPLAINED_SIGNALS: Final = (HALLUCINATION, "faithfulness")
"""Alarms of which it is asked whether the judge explains them."""
RISE_UNKNOWN_S: Final = 3_600.0
"""So long before an alarm the rate began to rise, where only its time is known."""


class JudgeDrift(Part):
    """Has the judge score its anchors again, by chance and when an alarm needs an explanation."""

    def __init__(
        self,
        anchors: Anchors,
        *,
        judge: str,
        threshold_s: float,
        now: Callable[[], float],
    ) -> None:
        """Begin with what the anchors' file holds.

        Args:
            anchors: The reference answers.
            judge: The judge that scores a sample.
            threshold_s: Of alarms; what an event says whose cause was found all at once.
            now: Seconds since the epoch.
        """
        self._anchors = anchors
        self._judge = judge
        self._threshold_s = threshold_s
        self._now = now
        self._rises = Rises()
        self._reader: JudgeIdentity | None = None
        """The judge as its verdicts carry it: a model that rejects the strict form of reply answers
        under another identity than it was asked by. None: it has given no verdict yet."""
        self._refreezes = False
        self._offers: list[tuple[Interaction, bool, JudgeIdentity]] = []
        """Judged answers that may become anchors at the next tick."""

    # --- taking in ------------------------------------------------------------------------------

    def add(self, answer: Answer) -> Sequence[Observation]:
        """Offer a judged answer as an anchor, and remember its verdict."""
        verdict, judged = answer.hallucination, answer.completed.judged
        if verdict is not None and judged is not None:
            self._reader = judged.judge
            offer = answer.interaction, verdict.value > 0, judged.judge
            if self._anchors.has_place(*offer):
                self._offers.append(offer)
                if len(self._offers) >= MAX_OFFERS:
                    self._offer()
            self._rises.add(answer.at_s, verdict.value > 0, answer.weight)
        return ()

    def _offer(self) -> None:
        """Offer the answers that were judged since: the anchors' state is written once for all."""
        offers, self._offers = self._offers, []
        self._anchors.offer(offers)

    def tick(self) -> Iterable[Observation]:
        """Return which anchors flipped since the last tick."""
        self._offer()
        if self._refreezes:
            self._refreezes = False
            self._anchors.refreeze()
        for at_s, flipped in self._anchors.take():
            yield Observation(signal=ANCHORS, value=float(flipped), at_s=at_s)

    def refreeze(self) -> None:
        """Accept the judge as it judges now, at the next tick. From any thread."""
        self._refreezes = True

    def due(self, states: Sequence[AlarmState]) -> Sequence[Interaction]:
        """Return the anchors that the judge is to score again now."""
        self._offer()
        return self._anchors.due(self._now(), self._reader, rise=self._rise(states))

    def checked(self, interaction: Interaction, report: Report) -> None:
        """Take in the judge's report on an anchor that was due."""
        self._anchors.checked(interaction.id, hallucinated(report), report.judge, self._now())

    # --- alarms ---------------------------------------------------------------------------------

    def changes(self) -> Iterator[AlarmEvent]:
        """Yield an alarm for each change of the judge's identity that moved its verdicts."""
        for change in self._anchors.changes():
            if change.drifted:
                yield self._event(change.at_s, change.at_s, str(change))
            else:
                logger.info("ragmonitor: %s", change)

    def explain(
        self, events: Sequence[AlarmEvent], states: Sequence[AlarmState]
    ) -> Iterator[AlarmEvent]:
        """Open and close inquiries as alarms come and go; yield an alarm if the judge is the cause.

        Args:
            events: Alarms that were raised or cleared just now.
            states: Of all alarms.
        """
        active = [
            state
            for state in states
            if state.active and state.signal in EXPLAINED_SIGNALS and state.judge == self._judge
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
        cause = self._anchors.decided()
        if cause is None:
            return
        if cause.cause == "application":
            logger.warning("ragmonitor: %s", cause)
        else:
            yield self._event(self._now(), cause.since_s, str(cause))

    def _event(self, at_s: float, since_s: float, detail: str) -> AlarmEvent:
        return AlarmEvent(
            signal=ANCHORS,
            judge=self._judge,
            kind="judge",
            raised=True,
            at_s=at_s,
            since_s=since_s,
            evidence_s=self._threshold_s,
            threshold_s=self._threshold_s,
            objective=FLIPS_OBJECTIVE,
            detail=detail,
        )

    def shown(self, state: AlarmState) -> AlarmState:
        """Return the state of an alarm; that of the anchors is active while a cause is known.

        Such a cause was found by many scores at once, and not bit by bit.
        """
        if state.signal != ANCHORS or state.active:
            return state
        change, cause, found_s = self._anchors.last_change, self.cause(), None
        # A change in the future was found while the clock was ahead.
        is_new = change is not None and abs(self._now() - change.at_s) < CHANGE_SHOWN_S
        if change is not None and change.drifted and is_new:
            found_s = change.at_s
        elif cause is not None and cause.cause == "judge":
            found_s = cause.since_s
        if found_s is None:
            return state
        return replace(state, active=True, since_s=found_s, evidence_s=self._threshold_s)

    def _rise(self, states: Sequence[AlarmState]) -> Rise | None:
        """Return by how much the rate has risen, while an inquiry needs to know it."""
        inquiry = self._anchors.inquiry
        if inquiry is None or inquiry.cause != "unknown":
            return None
        objectives = (
            state.objective
            for state in states
            if state.signal == HALLUCINATION and state.judge == self._judge
        )
        return self._rises.since(inquiry.since_s, objective=next(objectives, None) or 0.0)

    # --- showing --------------------------------------------------------------------------------

    def cause(self) -> AlarmCause | None:
        """Return the cause of the active alarm, as far as it is known; None: there is none."""
        return self._anchors.cause()

    def gauges(self, means: Means) -> Iterable[GaugeValue]:
        """Return the anchors' gauges, and the cause of the active alarm."""
        judge = self._judge
        yield from self._anchors.gauges(judge)
        # All zero without an alarm: a gauge that is no longer set would keep its value.
        known = self.cause()
        for cause in ("judge", "application", "unknown"):
            is_known = known is not None and known.cause == cause
            yield GaugeValue.of(metrics.ALARM_CAUSE, float(is_known), judge=judge, cause=cause)
        reread, flipped = (0, 0) if known is None else (known.reread, known.flipped)
        yield GaugeValue.of(metrics.ALARM_CAUSE_REREAD, reread, judge=judge)
        yield GaugeValue.of(metrics.ALARM_CAUSE_FLIPPED, flipped, judge=judge)

    def clear(self) -> None:
        """Forget what belongs to the parent process."""
        self._anchors.clear()
        self._offers.clear()
        self._rises.clear()

    def close(self) -> None:
        """Keep the anchors of the last moments."""
        self._offer()
