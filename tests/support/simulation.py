"""A simulated service: what the worker does with each answer, on a clock that is told the time."""

from __future__ import annotations

import heapq
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ragmonitor.estimation import (
    Alarms,
    Anchors,
    JudgeDrift,
    Predictions,
    Statistics,
    Suspicion,
    WindowedMeans,
    streams,
)
from ragmonitor.estimation.alarms import STATE_VERSION
from ragmonitor.estimation.retrieval_drift import STATE_VERSION as DRIFT_VERSION
from ragmonitor.estimation.retrieval_drift import RetrievalDrift
from ragmonitor.estimation.sums import Sums, row_difference
from ragmonitor.records import (
    SUMS,
    AlarmEvent,
    CompletedAnswer,
    Moments,
    Prediction,
    Report,
    SamplingDecision,
    SeriesKey,
)
from ragmonitor.sampling import AdaptiveSampler
from ragmonitor.state import StateFile
from ragmonitor.testing import ManualClock
from tests.support.streams import LEXICAL, Answer, Records

TICK_S = 5.0


def difference(new: Moments, old: Moments) -> Moments:
    """Return what was added since."""
    return Moments(
        groups=row_difference(new.groups, old.groups),
        **{name: getattr(new, name) - getattr(old, name) for name in SUMS},
    )


Verdict = Callable[[Answer], bool | None]
"""What the judge says of an answer: hallucinated, not, or (None) nothing."""


def truthful(answer: Answer) -> bool | None:
    """Say what is true."""
    return answer.hallucinated


@dataclass(slots=True, kw_only=True)
class Service:
    """Feeds a stream to the classes under test, in the worker's order.

    An answer that is not drawn is settled at once, one that is drawn when its verdict is in. The
    clock is set to each answer's time, and to each tick's.
    """

    estimates: Statistics
    sampler: AdaptiveSampler | None
    """None: only the built-in judge."""
    clock: ManualClock
    """Seconds since the stream began."""
    records: Records = field(default_factory=Records)
    verdict: Verdict = truthful
    verdict_after_s: Callable[[Answer], float] = lambda _: 3.0
    tick_s: float = TICK_S
    """How often time passes; the worker's own is 5 s."""
    on_tick: Callable[[float], None] = lambda _: None
    events: list[AlarmEvent] = field(default_factory=list)
    answers: int = 0
    drawn: int = 0
    uncovered: int = 0
    busy_s: float = 0.0
    """Of processor time in the classes under test, but for ticks; measured if `timed`."""
    ticking_s: float = 0.0
    timed: bool = False
    _waiting: list[tuple[float, int, Answer, CompletedAnswer]] = field(default_factory=list)
    _ticked_s: float = 0.0

    def feed(self, answers: Iterable[Answer]) -> None:
        """Live through the answers, ticks in between."""
        for answer in answers:
            self.pass_time(answer.at_s)
            self._take(answer)

    def pass_time(self, until_s: float) -> None:
        """Let ticks and verdicts come in until then."""
        while self._ticked_s + self.tick_s <= until_s:
            at_s = self._ticked_s = self._ticked_s + self.tick_s
            self._settle(at_s)
            self.clock.now_s = at_s
            began = time.process_time() if self.timed else 0.0
            self.events.extend(self.estimates.tick())
            self._publish()
            if self.timed:
                self.ticking_s += time.process_time() - began
            self.on_tick(at_s)
        self._settle(until_s)
        self.clock.now_s = until_s

    def raised(self, signal: str = "hallucination") -> list[float]:
        """Return when alarms of a signal were raised, since the stream began."""
        return [
            event.at_s - self.records.began_s
            for event in self.events
            if event.raised and event.signal == signal
        ]

    def _publish(self) -> None:
        """Let workers elsewhere know what the estimates say."""

    def _place(self) -> tuple[Callable[[Report], Prediction], AdaptiveSampler | None]:
        """Return what predicts and what draws the next answer."""
        return self.estimates.predict, self.sampler

    def _take(self, answer: Answer) -> None:
        self.answers += 1
        interaction = self.records.interaction(answer)
        builtin = self.records.builtin(answer, interaction)
        decision: SamplingDecision | None = None
        began = time.process_time() if self.timed else 0.0
        predict, sampler = self._place()
        prediction = predict(builtin)
        if sampler is not None:
            decision = sampler.draw(interaction, uncertainty=prediction.uncertainty)
            self.uncovered += decision.inclusion_probability <= 0
        settled = CompletedAnswer(builtin=builtin, prediction=prediction, decision=decision)
        if decision is None or not decision.drawn:
            self.estimates.add(settled)
            if self.timed:
                self.busy_s += time.process_time() - began
            return
        self.estimates.awaits(builtin, prediction, decision)
        if self.timed:
            self.busy_s += time.process_time() - began
        self.drawn += 1
        due_s = answer.at_s + self.verdict_after_s(answer)
        heapq.heappush(self._waiting, (due_s, self.drawn, answer, settled))

    def _settle(self, until_s: float) -> None:
        while self._waiting and self._waiting[0][0] <= until_s:
            due_s, _, answer, settled = heapq.heappop(self._waiting)
            self.clock.now_s = due_s
            decision = settled.decision
            assert decision is not None  # only drawn answers wait
            judged = self._judged(answer, settled, decision)
            began = time.process_time() if self.timed else 0.0
            if self.sampler is not None:
                self.sampler.refund(decision, decision.reserved)
            self.estimates.add(
                CompletedAnswer(
                    builtin=settled.builtin,
                    prediction=settled.prediction,
                    decision=decision,
                    judged=judged,
                )
            )
            if self.timed:
                self.busy_s += time.process_time() - began

    def _judged(
        self, answer: Answer, settled: CompletedAnswer, decision: SamplingDecision
    ) -> Report:
        said = self.verdict(answer)
        if said is None:
            return self.records.failed(settled.interaction, decision)
        return self.records.verdict(answer, settled.interaction, decision, hallucinated=said)


def statistics(
    clock: ManualClock,
    records: Records,
    *,
    judge: bool = True,
    objectives: Mapping[str, float] | None = None,
    alarms: Sequence[str] = ("*",),
    group_by: Sequence[str] = (),
    folder: Path | None = None,
) -> Statistics:
    """Return the estimates of a simulated service, wired as a monitor wires them.

    Args:
        clock: Seconds since the stream began.
        records: Of the stream.
        judge: Whether there is one.
        objectives: By signal; what is not given is learned.
        alarms: Patterns of the signals that may raise one.
        group_by: Parts with a rate of their own.
        folder: Where the state is kept; None: in memory.
    """

    def file(what: str, version: int) -> StateFile | None:
        if folder is None:
            return None
        return StateFile.of_service(folder, what, "simulated", version=version)

    def now() -> float:
        return records.began_s + clock()

    drift = RetrievalDrift(file=file("drift", DRIFT_VERSION), clock=clock)
    means = WindowedMeans(
        builtin=LEXICAL.name,
        judge=records.judge.name if judge else None,
        clock=clock,
        group_by=group_by,
    )
    alarms_of_service = Alarms(
        streams(
            evaluators=records.evaluators,
            lower_is_better=(),
            builtin=LEXICAL.name,
            judge=records.judge.name if judge else None,
            patterns=alarms,
        ),
        false_alarm_every_days=30.0,
        objectives=objectives,
        now=now,
        file=file("alarms", STATE_VERSION),
    )
    if not judge:
        return Statistics([drift], means=means, alarms=alarms_of_service)
    return Statistics(
        [drift],
        means=means,
        alarms=alarms_of_service,
        predictions=Predictions(judge=records.judge.name, file=file("calibration", 1)),
        suspicion=Suspicion(now=now),
        judge_drift=JudgeDrift(
            # The simulated judge is asked nothing beside the stream.
            Anchors(per_day=0),
            judge=records.judge.name,
            threshold_s=30 * 86_400.0,
            now=now,
        ),
    )


def sums_of(estimates: Statistics, key: SeriesKey) -> Sums | None:
    """Return a series' sums since the beginning; None: nothing was added to it."""
    assert isinstance(estimates, Statistics)
    return estimates.means._windows.sums(key)
