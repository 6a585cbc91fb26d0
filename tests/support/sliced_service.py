"""A service whose answers have attributes: sampling, slices and alarms, on its own clock."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from ragmonitor.causes.slice_watch import SliceWatch
from ragmonitor.causes.slices import Slices
from ragmonitor.estimation import Alarms, streams
from ragmonitor.estimation.alarm_streams import slice_slots
from ragmonitor.estimation.alarms import STATE_VERSION
from ragmonitor.estimation.parts import Answer, Observation
from ragmonitor.estimation.signals import HALLUCINATION, Outcome
from ragmonitor.records import AlarmEvent, CompletedAnswer, Prediction
from ragmonitor.sampling import AdaptiveSampler, Budget, Floors
from ragmonitor.state import StateFile
from ragmonitor.testing import ManualClock
from tests.support.streams import Records, Stream

BEGAN_S = 1_800_000_000.0
TICK_S = 30.0
EVALUATORS = ("faithfulness", "answer_relevancy", "context_relevance")


@dataclass(kw_only=True)
class SlicedService:
    """Draws answers, has the drawn ones judged at once, and raises alarms."""

    rate: float = 0.1
    per_hour: float | None = None
    """Of the budget; None: there is none."""
    floor_by: str = ""
    floor_per_hour: float = 9.0
    slots: int = 50
    share: float = 0.1
    """Of the false alarms; 0: slices have no alarm."""
    objective: float = 0.05
    every_days: float = 30.0
    file: StateFile | None = None
    limits: Mapping[str, float] = field(default_factory=dict)
    """Of slices, as `alarms.slice_limits` has them."""
    tick_s: float = TICK_S
    look_each_s: float = 14_400.0

    def __post_init__(self) -> None:
        """Begin without an answer."""
        self.clock = ManualClock()
        self.clock.now_s = 0.0
        self.events: list[AlarmEvent] = []
        self.judged = 0
        self.sampler = AdaptiveSampler(
            self.rate,
            clock=self.clock,
            budget=None
            if self.per_hour is None
            else Budget(24 * self.per_hour, unit="calls", clock=self.clock),
            expected_cost=lambda _: 1.0,
            floors=Floors(self.floor_by, self.floor_per_hour) if self.floor_by else None,
        )
        self.alarms = Alarms(
            streams(
                evaluators=EVALUATORS,
                lower_is_better=(),
                builtin="builtin",
                judge="judge",
                patterns=("*",),
                slices_share=self.share,
            ),
            false_alarm_every_days=self.every_days,
            objectives={HALLUCINATION: self.objective},
            slots=slice_slots(self.slots, self.share, judge="judge", is_sampled=True),
            limits=self.limits,
            now=self.now,
            file=self.file,
        )
        self.watch = SliceWatch(
            self.alarms,
            now=self.now,
            look_each_s=self.look_each_s,
        )
        self.slices = Slices(
            max_importance_weight=2.0,
            higher_is_better=self.alarms.higher_is_better,
            watch=self.watch,
        )
        records, simulated = Records(began_s=BEGAN_S), next(iter(Stream().answers()))
        self._interaction = records.interaction(simulated)
        self._builtin = records.builtin(simulated, self._interaction)
        self._number = 0
        self._ticked_s = 0.0

    def now(self) -> float:
        """Return the time, in seconds since the epoch."""
        return BEGAN_S + self.clock()

    def answer(
        self,
        at_s: float,
        attributes: Mapping[str, str],
        is_bad: Callable[[], bool],
        *,
        uncertainty: float = 1.0,
    ) -> None:
        """Take one answer, so many seconds after the service began."""
        while self._ticked_s + self.tick_s <= at_s:
            self._ticked_s += self.tick_s
            self.clock.now_s = self._ticked_s
            self.tick()
        self.clock.now_s = at_s
        self._number += 1
        ended_ns = int((BEGAN_S + at_s) * 1e9)
        interaction = replace(
            self._interaction, id=f"{self._number:032x}", ended_ns=ended_ns, attributes=attributes
        )
        decision = self.sampler.draw(interaction, uncertainty=uncertainty)
        found: list[tuple[str, Outcome | None]] | None = None
        if decision.drawn and decision.cause is None:
            self.judged += 1
            self.sampler.refund(decision, decision.reserved)
            found = [(HALLUCINATION, Outcome(scored=True, value=float(is_bad())))]
        probability = decision.inclusion_probability
        answer = Answer(
            completed=CompletedAnswer(
                builtin=self._builtin, prediction=Prediction(), decision=decision
            ),
            interaction=interaction,
            at_s=BEGAN_S + at_s,
            group=-1,
            builtin=(),
            judged=found,
            weight=1 / probability if probability > 0 else 0.0,
            verdicts=found,
        )
        for observation in self.slices.add(answer):
            self.alarms.update(observation)
        if found is not None and found[0][1] is not None:
            self.alarms.update(
                Observation(
                    signal=HALLUCINATION,
                    value=found[0][1].value,
                    at_s=answer.at_s,
                    importance_weight=decision.importance_weight,
                )
            )

    def tick(self) -> None:
        """Let alarms be raised and cleared, and slices be chosen."""
        self.slices.tick()
        self.events += self.alarms.apply(lambda _: None)

    def raised(self, signal: str = HALLUCINATION, *, after_s: float = 0.0) -> list[float]:
        """Return when alarms of a signal were raised, in seconds since the service began."""
        return [
            each.at_s - BEGAN_S
            for each in self.events
            if each.raised and each.signal == signal and each.at_s - BEGAN_S >= after_s
        ]


def alarms_file(folder: object) -> StateFile:
    """Return the file that services of one folder share."""
    from pathlib import Path

    return StateFile.of_service(Path(str(folder)), "alarms", "simulated", version=STATE_VERSION)
