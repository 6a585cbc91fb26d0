"""Chooses the slices of the traffic that have an alarm of their own, and feeds their alarms."""

from __future__ import annotations

import fnmatch
import math
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from ragmonitor.causes.answer_log import AnswerLog, Row
from ragmonitor.causes.slice_names import RECORDED, Slice
from ragmonitor.estimation.alarms import Alarms
from ragmonitor.estimation.beta import beta_quantile
from ragmonitor.estimation.detector import DAY_S
from ragmonitor.estimation.parts import Answer, Observation
from ragmonitor.estimation.signals import HALLUCINATION, slice_of, slice_signal
from ragmonitor.protocols import Clock
from ragmonitor.records import Example

LOOK_EACH_S: Final = 600.0
LOOK_GROWTH: Final = 1.25
"""At the beginning slices are looked at sooner: when there are so many times as many answers."""
MIN_JUDGED: Final = 50
"""Verdicts from which a slice's limit is learned. One that is new has the service's limit."""
MIN_ANSWERS: Final = 10
NEW_AFTER_S: Final = DAY_S
"""A slice that is first seen so long after the oldest answer that is kept is new."""
TRAFFIC_S: Final = DAY_S
"""Slices are ranked by their answers of so long."""
MAX_TRAFFIC_SHARE: Final = 0.9
"""A slice with more of the traffic is the whole."""
MAX_LOOKED_AT: Final = 400
HEADROOM: Final = 1.25
ERROR: Final = 0.05
"""The chance that any slot's limit is learned below its slice's true mean, by one look each."""
IDLE_S: Final = 2 * DAY_S
"""A slice without a verdict for so long gives its slot back."""
DISPLACES: Final = 2.0
"""A slice takes the slot of a calm one that has less than one in so many of its answers."""
AGEING: Final = 0.2
"""The exponent, beyond 1, with which evidence counts less the longer it took: a slice's alarm by
the default settings is an e-value of 1,300 after a day, 50 after a month and 2.5 after a year."""
SUSPICIOUS_DAYS: Final = 0.3
"""Evidence from which a slice is no longer calm, and keeps its slot."""


@dataclass(slots=True)
class _Known:
    """The verdicts on a slice, weighted by 1 / inclusion probability."""

    answers: float = 0.0
    first_s: float = 0.0
    judged: int = 0
    weight: float = 0.0
    squares: float = 0.0
    bad: float = 0.0
    sessions: set[int] = field(default_factory=set)

    def add(self, row: Row) -> None:
        value = row.value(HALLUCINATION)
        weight = row.weight * row.copies
        if value is not None and weight > 0:
            self.judged += 1
            self.weight += weight
            self.squares += weight * weight
            self.bad += weight * value
            self.sessions.add(row.cluster)

    @property
    def members(self) -> tuple[float, ...]:
        """The value that is the same for slices that have the same answers."""
        return self.answers, self.first_s, self.judged, self.weight, self.bad

    def limit(self, error: float) -> float:
        """Return max(1.25 mean, upper bound of the mean), as objectives of signals are learned.

        Source:
            As `Learning.objective`; answers of one session count as one.
        """
        mean = self.bad / self.weight
        n = min(self.weight**2 / self.squares, len(self.sessions))
        return max(
            HEADROOM * mean, beta_quantile(1 - error, mean * n + 1, max(0.1, (1 - mean) * n))
        )


class SliceWatch:
    """Gives the alarms' slots to the largest slices, and their verdicts to the alarms.

    A slice's limit is the service's objective, or where the slice has been worse than that, what is
    learned of it. Everything here rests on answers of the past, so that the alarms' guarantee holds
    whichever slices are chosen.
    """

    def __init__(
        self,
        alarms: Alarms,
        *,
        patterns: Sequence[str] = ("*",),
        now: Clock = time.time,
        look_each_s: float = LOOK_EACH_S,
    ) -> None:
        """Begin with the slices that the alarms have adopted.

        Args:
            alarms: Have slots.
            patterns: Of dimensions. Those that are no attribute of the application's, such as
                `language`, count where they are named.
            now: Seconds since the epoch.
            look_each_s: How often slices are chosen.
        """
        self._look_each_s = look_each_s
        self._alarms = alarms
        self._patterns = tuple(patterns)
        self._now = now
        self.clear()

    def clear(self) -> None:
        """Forget the parent's answers."""
        self._adopted_signals: frozenset[str] = frozenset()
        self._adopted: frozenset[str] = frozenset()
        self._signals: dict[Slice, tuple[str, str]] = {}
        """The name and the signal of each slice that has an alarm."""
        self._looked_s = 0.0
        self._looked_at = 0
        self._seen = 0
        self._wanted: dict[str, bool] = {}

    def observe(
        self, row: Row, answer: Answer, example: Callable[[], Example]
    ) -> Iterator[Observation]:
        """Yield what the verdict on an answer says of the slices that have an alarm."""
        self._seen += 1
        value = row.value(HALLUCINATION)
        if value is None or not self._adopted:
            return
        decision = answer.completed.decision
        # Without a judge that scores a sample every answer is scored.
        is_sampled = answer.judged is not None and decision is not None
        for each in self._signals.keys() & row.slices:
            name, signal = self._signals[each]
            yield Observation(
                signal,
                value,
                answer.at_s,
                decision.weight_in(name) if is_sampled and decision else 1.0,
                answer.interaction.session_id,
                answer.interaction.id,
                example,
            )

    def tick(self, log: AnswerLog) -> None:
        """Choose slices where that is due, and say which need more verdicts."""
        now_s = self._now()
        if not 0 <= now_s - self._looked_s < self._look_each_s or self._seen > self._looked_at:
            self._looked_s, self._looked_at = now_s, max(MIN_ANSWERS, int(LOOK_GROWTH * self._seen))
            self._look(log, now_s)
        adopted = self._alarms.adopted()
        if adopted.keys() != self._adopted_signals:
            self._adopted_signals = frozenset(adopted)
            self._adopted = frozenset(map(slice_of, adopted))
            self._signals = {
                (name[:at], name[at + 1 :]): (name, slice_signal(HALLUCINATION, name))
                for name in self._adopted
                for at in range(len(name))
                if name[at] == "="  # which may stand in an attribute's name, too
            }

    # --- which slices

    def _look(self, log: AnswerLog, now_s: float) -> None:
        states = {state.signal: state for state in self._alarms.states()}
        whole = states.get(HALLUCINATION)
        # During an alarm on the whole what is bad now would be learned as usual.
        if whole is None or whole.objective is None or whole.active:
            return
        self._release_idle(now_s)
        oldest_s, known = self._known(log, now_s)
        traffic = {name: each.answers for name, each in known.items()}
        adopted = self._alarms.adopted()
        free = self._alarms.slots - len(adopted)
        calm = sorted(
            (traffic.get(slice_of(signal), 0.0), signal)
            for signal, monitor in adopted.items()
            if monitor.clearing is None and monitor.detector.evidence < SUSPICIOUS_DAYS
        )
        for name, each in sorted(known.items(), key=lambda one: -one[1].answers):
            signal = slice_signal(HALLUCINATION, name)
            is_known = each.judged >= MIN_JUDGED
            is_new = each.first_s - oldest_s >= NEW_AFTER_S
            if signal not in adopted:
                if not (is_known or is_new or name in self._alarms.limits):
                    continue
                if not free:
                    if not calm or DISPLACES * calm[0][0] >= each.answers:
                        break
                    self._alarms.release(calm.pop(0)[1])
                    free += 1
                free -= 1
                self._alarms.adopt(signal)
            if is_known:
                limit = each.limit(ERROR / max(1, self._alarms.slots))
                self._alarms.adopt(signal, limit, each.judged)

    def _release_idle(self, now_s: float) -> None:
        for signal, monitor in self._alarms.adopted().items():
            if now_s - monitor.updated_s > IDLE_S:
                self._alarms.release(signal)

    def _known(self, log: AnswerLog, now_s: float) -> tuple[float, dict[str, _Known]]:
        """Return when the oldest answer was given, and the largest slices, none of them twice."""
        rows = list(log.rows())
        oldest_s = min((row.at_s for row in rows), default=now_s)
        counts: Counter[Slice] = Counter()
        total = 0.0
        for row in rows:
            if now_s - row.at_s < TRAFFIC_S:
                total += row.copies
                for each in row.slices:
                    if self._wants(each[0]):
                        counts[each] += row.copies  # type: ignore[assignment]  # floats are counted
        known = {
            each: _Known(answers=answers, first_s=now_s)
            for each, answers in counts.most_common(MAX_LOOKED_AT)
            if MIN_ANSWERS <= answers <= MAX_TRAFFIC_SHARE * total
        }
        for row in rows:
            for each in row.slices:
                if (found := known.get(each)) is not None:
                    found.first_s = min(found.first_s, row.at_s)
                    found.add(row)
        different: dict[tuple[float, ...], str] = {}
        for each, found in known.items():
            different.setdefault(found.members, "=".join(each))
        names = set(different.values()) | self._adopted
        return oldest_s, {
            name: found for each, found in known.items() if (name := "=".join(each)) in names
        }

    def _wants(self, dimension: str) -> bool:
        wanted = self._wanted.get(dimension)
        if wanted is None:
            wanted = (
                dimension in self._patterns
                if dimension in RECORDED
                else any(fnmatch.fnmatchcase(dimension, each) for each in self._patterns)
            )
            if len(self._wanted) < MAX_LOOKED_AT:
                self._wanted[dimension] = wanted
        return wanted

    # --- what they say

    def proven(self) -> dict[Slice, float]:
        """Return the slices whose alarm is on, with their evidence as an e-value.

        None while the alarm on all answers is on: whether they are worse than the others, the
        alarms do not say.
        """
        if any(each.active and each.signal == HALLUCINATION for each in self._alarms.states()):
            return {}
        return {
            _parted(slice_of(signal)): e_value_of(monitor.held_days, monitor.age_days)
            for signal, monitor in self._alarms.adopted().items()
            if monitor.clearing is not None
        }


def e_value_of(evidence_days: float, age_days: float) -> float:
    """Return what a slice's evidence is as an e-value: its mean is at most 1 at any stopping time.

    Evidence minus the days that have passed never rises on average. So evidence times a weight that
    falls with the age has, whenever one stops, a mean of at most the weight's integral over all
    ages. That is 1 for this weight. Of 1 / age, which suggests itself, it would grow without end.

    Args:
        evidence_days: Of the slice's slot.
        age_days: Since the slice was given it.

    Source:
        The product rule for a supermartingale and a falling weight, with the optional stopping
        theorem.
    """
    return evidence_days * AGEING / math.pow(1 + age_days, 1 + AGEING)


def _parted(name: str) -> Slice:
    dimension, _, value = name.partition("=")
    return dimension, value
