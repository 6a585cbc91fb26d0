"""Where each stream stands: its evidence, its alarm, and the state of both in a file."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any

from ragmonitor.estimation.alarms.learning import Learning
from ragmonitor.estimation.alarms.objectives import Objectives
from ragmonitor.estimation.alarms.state_numbers import number, number_or_none
from ragmonitor.estimation.detector import CLEARING_RISKS, MULTIPLES, Block, Clearing, Detector
from ragmonitor.guard import shielded
from ragmonitor.records import Example

RISING_FROM = 0.01
"""Evidence is rising from this share of the threshold on."""
EXAMPLES = 3
PROVISIONAL_EACH = 50


@dataclass(slots=True, kw_only=True)
class SignalMonitor:
    """Where one stream stands. `objective` and `learned` are on the scale of badness."""

    threshold_days: float
    max_importance_weight: float
    max_reserve: float = 0.0
    objectives: Objectives
    objective: float | None = None
    """What the evidence is about; None: not known yet."""
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
        self.clearing = None
        self.since_s = self.rising_since_s = None
        self.held_days = 0.0
        self.examples = []

    def wanted(self, now_s: float) -> float | None:
        """Return what the evidence is to be about: the objective that holds, else the learned."""
        said = self.objectives.strictest(now_s)
        return self.learned if said is None else said

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
        """Learn from one verdict, and from time to time what would be a spike even now."""
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

    def raise_alarm(self, at_s: float) -> None:
        """Let the alarm be active since this moment; the evidence is for its end from now on."""
        self.held_days = self.detector.evidence
        self.since_s = at_s
        self.rising_since_s = None
        self.examples = []
        self.raised += 1
        self.learning.forget_fresh()
        self.detector.restart()
        self.clearing = Clearing(
            objective=self.detector.objective,
            max_importance_weight=self.max_importance_weight,
            at_s=at_s,
        )

    @property
    def evidence_days(self) -> float:
        """Of an active alarm what raised it; else what there is now."""
        return self.detector.evidence if self.clearing is None else self.held_days

    def dump(self) -> dict[str, Any]:
        """Return what `load` takes over; without examples, which stay in the process."""
        clearing = self.clearing
        return {
            "objective": self.objective,
            "said": self.objectives.dump(),
            "learned": self.learned,
            "learning": self.learning.dump(),
            "provisional": self.provisional,
            "evidence": self.detector.parts,
            "reserve": self.detector.reserve,
            "at_s": self.detector.at_s,
            "clearing": clearing
            and [
                clearing.at_s,
                clearing.age_hours,
                clearing.max_importance_weight,
                *clearing.parts,
            ],
            "since_s": self.since_s,
            "held_days": self.held_days,
            "rising_since_s": self.rising_since_s,
            "raised": self.raised,
        }

    def load(self, told: Any) -> None:
        """Take over what another process told. Raises `ValueError`, and is unchanged then."""
        try:
            other = SignalMonitor(
                threshold_days=self.threshold_days,
                max_importance_weight=self.max_importance_weight,
                max_reserve=self.max_reserve,
                objectives=Objectives(self.objectives.own),
            )
            other.objectives.load(told["said"])
            other.restart(number_or_none(told["objective"]))
            other.learned = number_or_none(told["learned"])
            other.learning.load(told["learning"])
            other.provisional = number_or_none(told["provisional"])
            if other.provisional is not None:
                other.detector.objective = other.provisional
            other.detector.parts = [number(each) for each in told["evidence"]]
            other.detector.reserve = number(told["reserve"])
            if len(other.detector.parts) != len(MULTIPLES):
                raise ValueError("evidence of another mixture")
            other.detector.at_s = number_or_none(told["at_s"])
            other.since_s = number_or_none(told["since_s"])
            other.held_days = number(told["held_days"])
            other.rising_since_s = number_or_none(told["rising_since_s"])
            other.raised = int(number(told["raised"]))
            other.clearing = other._clearing(told["clearing"])
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"a stream's state is not as expected: {error!r}") from error
        rising = other.rising_since_s
        other.examples = [
            each for each in self.examples if rising is not None and each.at_s >= rising
        ]
        for name in self.__slots__:
            setattr(self, name, getattr(other, name))

    def _clearing(self, told: Any) -> Clearing | None:
        if told is None:
            return None
        at_s, age_hours, max_importance_weight, *parts = (number(each) for each in told)
        if self.since_s is None or len(parts) != len(CLEARING_RISKS):
            raise ValueError("a clearance of another mixture")
        clearing = Clearing(
            objective=self.detector.objective,
            max_importance_weight=max_importance_weight,
            at_s=at_s,
        )
        clearing.restore(parts, age_hours)
        return clearing


def _keep_worst(examples: list[Example], x: float, example: Callable[[], Example]) -> None:
    """Keep the worst, worst first; of equally bad ones the newest, whose trace is still kept."""
    if len(examples) == EXAMPLES and examples[-1].badness > x:
        return
    with shielded("estimation"):
        examples.append(example())
    examples.sort(key=attrgetter("badness", "at_s"), reverse=True)
    del examples[EXAMPLES:]
