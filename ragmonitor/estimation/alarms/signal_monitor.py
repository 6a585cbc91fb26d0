"""Keeps the state of each stream: its evidence and its alarm, also in a file."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import astuple, dataclass, field
from functools import cache
from operator import attrgetter
from typing import Annotated, Any

from pydantic import Field, TypeAdapter

from ragmonitor.estimation.alarms.course import NUMBERS, Course
from ragmonitor.estimation.alarms.learning import AGAIN_FROM, Learning, Sums
from ragmonitor.estimation.alarms.objectives import Objectives
from ragmonitor.estimation.detector import (
    CLEARING_RISKS,
    DAY_S,
    MULTIPLES,
    Block,
    Clearing,
    Detector,
)
from ragmonitor.guard import record_problem, shielded
from ragmonitor.records import AlarmSpan, Example

Number = Annotated[float, Field(ge=0, allow_inf_nan=False)]
"""Finite and not negative."""


RISING_FROM = 0.01
"""Evidence is rising from this share of the threshold on."""
EXAMPLES = 3
PROVISIONAL_EACH = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class _State:
    """The numbers of a `SignalMonitor` that processes tell each other, checked."""

    objective: Number | None
    learned: Number | None
    provisional: Number | None
    since_s: Number | None
    held_days: Number
    rising_since_s: Number | None
    raised: int
    said: list[tuple[Annotated[Number, Field(le=1)], Number]]
    learning: tuple[Number | None, Number | None, Number | None, Sums, Sums]
    evidence: list[Number]
    reserve: Number
    at_s: Number | None
    clearing: list[Number] | None
    """The time when it began, its age in hours, the largest weight, and its parts."""
    course: Annotated[list[Number], Field(min_length=NUMBERS, max_length=NUMBERS)] | None = None
    rise: tuple[Number, int, Number, int | None, Number | None] | None = None
    """An `AlarmSpan`, in the order of its fields."""

    def __post_init__(self) -> None:
        if len(self.evidence) != len(MULTIPLES):
            raise ValueError("evidence of another mixture")
        parts = len(CLEARING_RISKS)
        if self.clearing is not None and (self.since_s is None or len(self.clearing) != 3 + parts):
            raise ValueError("a clearance of another mixture")


@cache
def _states() -> TypeAdapter[_State]:
    return TypeAdapter(_State)


@dataclass(slots=True, kw_only=True)
class SignalMonitor:
    """The state of one stream. `objective` and `learned` are on the scale of badness."""

    threshold_days: float
    max_importance_weight: float
    max_reserve: float = 0.0
    objectives: Objectives
    objective: float | None = None
    """The objective that the evidence is about; None: not known yet."""
    learned: float | None = None
    learning: Learning = field(default_factory=Learning)
    provisional: float | None = None
    """While it is learned: above what mean a spike is one already; None: nobody can tell yet."""
    detector: Detector = field(init=False)
    clearing: Clearing | None = None
    """Only while the alarm is active."""
    since_s: float | None = None
    held_days: float = 0.0
    """The evidence that raised the active alarm."""
    rising_since_s: float | None = None
    raised: int = 0
    examples: list[Example] = field(default_factory=list)
    course: Course = field(default_factory=Course)
    """The course of the answers since the alarm; it outlives a restart of the evidence."""
    rise: AlarmSpan | None = None
    """The rise that the active alarm stated when it was raised."""

    def __post_init__(self) -> None:
        self.restart(self.objective)

    def restart(self, objective: float | None) -> None:
        """Forget evidence and alarm; from now on the evidence is about this."""
        self.objective = objective
        if objective is not None:
            self.provisional = None
        bar = self.provisional if objective is None else objective
        reserve = self.detector.reserve if hasattr(self, "detector") else 0.0
        self.detector = Detector(
            max_reserve=self.max_reserve,
            objective=1.0 if bar is None else bar,
            max_importance_weight=self.max_importance_weight,
            threshold_days=self.threshold_days,
        )
        # What was put aside is neither evidence nor about any objective.
        self.detector.reserve = reserve
        self.clearing = self.rise = None
        self.since_s = self.rising_since_s = None
        self.held_days = 0.0
        self.examples = []

    def wanted(self, now_s: float) -> float | None:
        """Return what the evidence is to be about: the objective that holds, else the learned."""
        strictest = self.objectives.strictest(now_s)
        return self.learned if strictest is None else strictest

    def tighten(self, objective: float) -> None:
        """Go over to a stricter objective: what speaks against the looser one speaks against it.

        An alarm stays. What speaks for its end may not speak for it now, and begins anew.
        """
        self.objective = self.detector.objective = objective
        if self.clearing is not None:
            self.clearing = Clearing(
                objective=objective,
                max_importance_weight=self.max_importance_weight,
                at_s=self.clearing.at_s,
            )

    def learn(self, x: float, importance_weight: float, at_s: float, block: Block | None) -> None:
        """Learn from one verdict, and from time to time what would be a spike even now.

        Nothing is learned from a session that was open when the evidence began anew: nobody knows
        how many of its verdicts came before.
        """
        if block is not None and block.is_spent:
            return
        learning = self.learning
        learning.add(
            x,
            min(importance_weight, self.max_importance_weight),
            0.0 if block is None else block.total_weight,
            at_s,
        )
        if self.provisional is None or learning.verdicts % PROVISIONAL_EACH == 0:
            self.provisional = learning.provisional(at_s)
            if self.provisional is not None:
                # Set by the past only, so that the next updates are fair at it.
                self.detector.objective = self.provisional

    def learn_limit(self, limit: float, verdicts: int) -> None:
        """Learn what is to be expected of a slice, or that it is stricter than was thought.

        Each look may err, so that there are few, over restarts and in all processes together: of
        50, 200, 800, ... verdicts.

        Args:
            limit: On the scale of badness; 0: it is not known.
            verdicts: The number that it rests on; it counts from four times the last one's on.
        """
        if self.learned is None:
            self.learned = limit
        elif verdicts >= max(1, AGAIN_FROM * self.learning.verdicts):
            self.learned = min(limit, self.learned)
        else:
            return
        self.learning.count(verdicts)

    def span(self, *, higher_is_better: bool) -> AlarmSpan | None:
        """Return the answers that the alarm, or the evidence while it rises, speaks of."""
        if self.clearing is None and self.rising_since_s is not None:
            return self.course.span(higher_is_better=higher_is_better)
        return self.rise

    def note(self, x: float, importance_weight: float, at_s: float) -> None:
        """Count a verdict for what the alarm says; it moves no evidence."""
        self.course.add(
            x,
            importance_weight,
            at_s,
            objective=self.detector.objective,
            active=self.clearing is not None,
        )

    def update(
        self,
        x: float,
        importance_weight: float,
        at_s: float,
        block: Block | None,
        example: Callable[[], Example] | None,
    ) -> bool:
        """Update the evidence, and return whether that raises the alarm; `raise_alarm` does it.

        Args:
            x: The verdict, on the scale of badness.
            importance_weight: As `SamplingDecision.importance_weight`.
            at_s: When the answer was given, in seconds since the epoch.
            block: Of its session; None: it stands alone.
            example: Called at most once, if it is one of the worst.
        """
        detector = self.detector
        detector.pass_time(at_s)
        detector.update(x, importance_weight, block)
        evidence = detector.evidence
        if evidence < RISING_FROM * self.threshold_days:
            if self.rising_since_s is not None:
                self.rising_since_s = None
                self.examples = []
            return False
        if self.rising_since_s is None:
            self.rising_since_s = at_s
        if example is not None and x > detector.objective:
            _keep_worst(self.examples, x, example)
        # The evidence may be past a threshold that was lowered since the last run. Even so, it is
        # a bad answer that raises an alarm.
        return evidence >= self.threshold_days and x > detector.objective

    def raise_alarm(self, at_s: float, rise: AlarmSpan | None) -> None:
        """Let the alarm be active since this moment; the evidence is for its end from now on.

        Args:
            at_s: In seconds since the epoch.
            rise: What it says of the answers since the rise began.
        """
        self.rise = rise
        self.held_days = self.detector.evidence
        self.since_s = at_s
        self.rising_since_s = None
        self.examples = []
        self.raised += 1
        self.course.part()
        self.learning.forget_fresh()
        self.detector.restart()
        self.clearing = Clearing(
            objective=self.detector.objective,
            max_importance_weight=self.max_importance_weight,
            at_s=at_s,
        )

    def clear_alarm(self) -> None:
        """End the active alarm; evidence begins anew."""
        self.course.part()
        self.restart(self.objective)

    @property
    def evidence_days(self) -> float:
        """The evidence that raised an active alarm; else that of now."""
        return self.detector.evidence if self.clearing is None else self.held_days

    @property
    def updated_s(self) -> float:
        """The time when a verdict counted last, or a slice was adopted; seconds since the epoch."""
        times = [self.learning.began_s, self.detector.at_s]
        times.append(None if self.clearing is None else self.clearing.at_s)
        return max((each for each in times if each is not None), default=0.0)

    @property
    def age_days(self) -> float:
        """Between the time that a slice was adopted and its active alarm; 0: not known."""
        began_s, raised_s = self.learning.began_s, self.since_s
        return 0.0 if began_s is None or raised_s is None else (raised_s - began_s) / DAY_S

    def dump(self) -> dict[str, Any]:
        """Return what `load` takes over; without examples, which stay in the process."""
        clearing = self.clearing
        return {name: getattr(self, name) for name in _KEPT} | {
            "said": [*self.objectives.said.items()],
            "learning": astuple(self.learning),
            "evidence": self.detector.parts,
            "reserve": self.detector.reserve,
            "course": self.course.dump(),
            "rise": self.rise and astuple(self.rise),
            "at_s": self.detector.at_s,
            "clearing": clearing
            and [
                clearing.at_s,
                clearing.age_hours,
                clearing.max_importance_weight,
                *clearing.parts,
            ],
        }

    def load(self, told: Any) -> None:
        """Take over what another process told. Raises `ValueError`, and is unchanged then.

        What was learned from sums that say nothing is left out, and nothing else. An objective that
        came of it is then no longer `wanted`.
        """
        state = _states().validate_python(told)
        examples, self.provisional = self.examples, None
        self.objectives.said = dict(state.said)
        self.restart(state.objective)
        for name in _KEPT:
            setattr(self, name, getattr(state, name))
        self.learning = Learning(*state.learning)
        if not self.learning.is_sound:
            self.learning, self.learned = Learning(), None
            record_problem(
                "estimation",
                "what was learned of a signal rests on sessions that update no more, and is "
                "learned anew",
            )
        if state.course is not None:
            self.course = Course.load(state.course)
        if state.rise is not None:
            since_s, scored, mean, bad, before = state.rise
            self.rise = AlarmSpan(since_s=since_s, scored=scored, mean=mean, bad=bad, before=before)
        detector, rising = self.detector, self.rising_since_s
        if self.provisional is not None:
            detector.objective = self.provisional
        detector.parts, detector.reserve, detector.at_s = state.evidence, state.reserve, state.at_s
        if state.clearing is not None:
            at_s, age_hours, max_importance_weight, *parts = state.clearing
            self.clearing = Clearing(
                objective=detector.objective,
                max_importance_weight=max_importance_weight,
                at_s=at_s,
            )
            self.clearing.restore(parts, age_hours)
        self.examples = [each for each in examples if rising is not None and each.at_s >= rising]


_KEPT = (
    *("objective", "learned", "provisional", "since_s", "held_days", "rising_since_s", "raised"),
)


def _keep_worst(examples: list[Example], x: float, example: Callable[[], Example]) -> None:
    """Keep the worst, worst first; of equally bad ones the newest, whose trace is still kept."""
    if len(examples) == EXAMPLES and examples[-1].badness > x:
        return
    with shielded("estimation"):
        examples.append(example())
    examples.sort(key=attrgetter("badness", "at_s"), reverse=True)
    del examples[EXAMPLES:]
