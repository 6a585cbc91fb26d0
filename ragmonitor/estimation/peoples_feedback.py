"""Counts, joins and compares what people say of answers, beside what judges say."""

from __future__ import annotations

import math
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from ragmonitor import metrics
from ragmonitor.estimation.feedback_store import Agreement, FeedbackStore, KnownAnswer
from ragmonitor.estimation.labels.correction import wilson
from ragmonitor.estimation.parts import Answer, Means, Observation, Part
from ragmonitor.feedback import DEFAULT_KIND, Feedback, JoinedFeedback, joining_id
from ragmonitor.guard import record_problem
from ragmonitor.records import GaugeValue

RECENT_S: Final = 30 * 86_400.0
"""Feedback of which the agreement is worked out."""
WAIT_S: Final = 900.0
"""Feedback may come before its answer is scored; after so long its id counts as unknown."""
MAX_WAITING: Final = 10_000
MAX_ANSWERS: Final = 20_000
"""Answers between two ticks."""
MAX_KINDS: Final = 50
"""Kinds of feedback that are told apart; later ones count as `OTHER`: anybody may name a kind, and
each has series of its own."""
OTHER: Final = "other"
MIN_ANSWERS: Final = 10
"""Answers of which both said something, below which no agreement is shown."""
LOOK_EVERY_S: Final = 10.0


class _Waiting(NamedTuple):
    feedback: Feedback
    until_s: float


class PeoplesFeedback(Part):
    """Joins people's feedback with the answers that it is about.

    Who speaks is no random sample of those who read, so nothing of it enters a rate, an alarm or a
    prediction. What it says of a judge holds for the answers that people spoke of.
    """

    def __init__(
        self,
        store: FeedbackStore,
        *,
        now: Callable[[], float] = time.time,
    ) -> None:
        """Begin with what the store holds."""
        self._store = store
        self._now = now
        self._begin()

    def _begin(self) -> None:
        self._noted: deque[Feedback] = deque(maxlen=MAX_WAITING)
        self._waiting: list[_Waiting] = []
        self._kinds = {DEFAULT_KIND}
        self._answers: deque[KnownAnswer] = deque(maxlen=MAX_ANSWERS)
        self._joined: list[JoinedFeedback] = []
        self._received: Counter[tuple[str, str]] = Counter()
        self._unknown: Counter[str] = Counter()
        self._judges: dict[bool, str] = {}
        """Identity by whether it scores a sample."""
        self._agreements: dict[bool, Agreement] = {}
        self._look_s = -math.inf

    def note(self, feedback: Feedback) -> bool:
        """Take feedback, from any thread and without waiting; False: too much is waiting."""
        if len(self._noted) + len(self._waiting) >= MAX_WAITING:
            return False
        self._noted.append(feedback)
        return True

    def add(self, answer: Answer) -> Sequence[Observation]:
        """Keep the answer's id, and what the judges say of it."""
        completed = answer.completed
        read = answer.builtin[0][1] if answer.builtin else None
        self._judges[False] = reader = str(completed.builtin.judge)
        judged, found = completed.judged, answer.hallucination
        if judged is not None:
            self._judges[True] = str(judged.judge)
        target = completed.target
        self._answers.append(
            KnownAnswer(
                id=joining_id(answer.interaction.id),
                at_s=answer.at_s,
                reader=reader,
                read=bool(read.value) if read is not None and read.scored else None,
                judge="" if judged is None else str(judged.judge),
                judged=None if found is None else bool(found.value),
                trace_id="" if target is None else target.trace_id,
                span_id="" if target is None else target.span_id,
                sampled=target is not None and target.sampled,
                trace_state="" if target is None else target.trace_state,
            )
        )
        return ()

    def tick(self) -> Sequence[Observation]:
        """Join what came since, and give up what has waited for too long."""
        now_s = self._now()
        for _ in range(len(self._noted)):
            feedback = self._of_known_kind(self._noted.popleft())
            self._received[feedback.kind, feedback.direction] += 1
            self._waiting.append(_Waiting(feedback, now_s + WAIT_S))
        if self._answers or self._waiting:
            self._exchange(now_s)
        if now_s - self._look_s >= LOOK_EVERY_S:
            self._look_s = now_s
            self._look(now_s)
        return ()

    def _of_known_kind(self, feedback: Feedback) -> Feedback:
        if feedback.kind not in self._kinds and len(self._kinds) >= MAX_KINDS:
            return replace(feedback, kind=OTHER)
        self._kinds.add(feedback.kind)
        return feedback

    def _exchange(self, now_s: float) -> None:
        answers = [self._answers.popleft() for _ in range(len(self._answers))]
        joined = self._store.exchange(answers, [each.feedback for each in self._waiting])
        if joined is None:
            # Those that come meanwhile go first, should there be too many.
            self._answers.extendleft(reversed(answers))
            joined = []
        known = {id(each.feedback) for each in joined}
        left = [each for each in self._waiting if id(each.feedback) not in known]
        self._waiting = [each for each in left if each.until_s > now_s]
        for each in left:
            if each.until_s <= now_s:
                self._unknown[each.feedback.kind] += 1
        if joined:
            self._joined += joined
            self._look_s = -math.inf

    def _look(self, now_s: float) -> None:
        for sampled, judge in self._judges.items():
            found = self._store.agreement(judge, since_s=now_s - RECENT_S, sampled=sampled)
            if found is not None:
                self._agreements[sampled] = found

    def joined(self) -> Sequence[JoinedFeedback]:
        """Return what was joined since this was last asked."""
        joined, self._joined = self._joined, []
        return joined

    def gauges(self, means: Means) -> Iterator[GaugeValue]:
        """Return what came, what found no answer, and how people and judges agree."""
        for (kind, direction), n in self._received.items():
            yield GaugeValue.of(metrics.FEEDBACK, n, kind=kind, direction=direction)
        for kind, n in self._unknown.items():
            yield GaugeValue.of(metrics.FEEDBACK_UNKNOWN, n, kind=kind)
        if self._received:
            yield GaugeValue.of(metrics.FEEDBACK_WAITING, len(self._waiting))
        for sampled, found in self._agreements.items():
            yield from _agreement_gauges(self._judges[sampled].rpartition("@")[0], found)

    def clear(self) -> None:
        """Forget what belongs to the parent of a forked process."""
        self._store.forget()
        self._begin()

    def close(self) -> None:
        """Keep the last answers, and say what feedback found none."""
        self.tick()
        if self._waiting:
            record_problem(
                "estimate",
                f"{len(self._waiting)} pieces of feedback waited for their answers at the end, and "
                "are lost",
            )


def _agreement_gauges(judge: str, found: Agreement) -> Iterator[GaugeValue]:
    """Return the four counts of answers, and the share on which both agree if there are enough."""
    cells = {
        ("good", "good"): found.both_good,
        ("bad", "bad"): found.both_bad,
        ("bad", "good"): found.people_only,
        ("good", "bad"): found.judge_only,
    }
    if not found.answers:
        return
    for (people, verdict), n in cells.items():
        labels = {"judge": judge, "people": people, "verdict": verdict}
        yield GaugeValue.of(metrics.FEEDBACK_ANSWERS, n, **labels)
    if found.answers < MIN_ANSWERS:
        return
    mean = (found.both_good + found.both_bad) / found.answers
    lower, upper = wilson(mean, found.answers)
    yield from GaugeValue.interval(metrics.FEEDBACK_AGREEMENT, mean, lower, upper, judge=judge)
