"""Counts people's feedback, and joins it with the answers that it is about."""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from typing import Final

import msgspec

from ragmonitor.records import GaugeValue, SpanReference
from ragmonitor.runtime.feedback import DEFAULT_KIND, Feedback, JoinedFeedback, joining_id
from ragmonitor.runtime.guard import record_problem
from ragmonitor.semconv import metrics
from ragmonitor.stats.parts import Answer, Part
from ragmonitor.store import Store

WAIT_S: Final = 900.0
"""Feedback may come before its answer is scored; after so long its id counts as unknown."""
MAX_NOTED: Final = 10_000
"""Pieces of feedback between two ticks."""
MAX_WAITING: Final = 1_000
"""Pieces of feedback whose answer is not known yet. Of more the newest count as unknown: anybody
may send ids that were never given, and must not keep out those that wait already, nor feedback on
answers that are known."""
MAX_KINDS: Final = 50
"""Kinds of feedback that are counted apart; later ones count as `OTHER`: anybody may name a kind,
and each has series of its own."""
OTHER: Final = "other"
ANSWERS: Final = "answer"
MAX_KNOWN: Final = 50_000
"""Newest answers that people may speak of later; about 150 bytes each."""


class KnownAnswer(msgspec.Struct, frozen=True, array_like=True):
    """An answer until people speak."""

    at_s: float
    target: SpanReference | None
    """None: no trace was emitted."""


class PeoplesFeedback(Part):
    """Joins people's feedback with the answers that it is about.

    Who speaks is no random sample of those who read, so nothing of it enters a rate, an alarm or a
    prediction, and it is not compared with the judge.
    """

    def __init__(self, store: Store, *, now: Callable[[], float] = time.time) -> None:
        """Begin with what the store holds."""
        self._store = store
        self._now = now
        self._noted: deque[Feedback] = deque(maxlen=MAX_NOTED)
        self._waiting: list[tuple[Feedback, float]] = []
        """What waits for its answer, and until when."""
        self._kinds = {DEFAULT_KIND}
        self._answers: dict[str, bytes] = {}
        self._joined: list[JoinedFeedback] = []
        self._counts: Counter[tuple[str, str]] = Counter()

    def note(self, feedback: Feedback) -> bool:
        """Take feedback, from any thread and without waiting; False: too much is waiting."""
        if len(self._noted) >= MAX_NOTED:
            return False
        self._noted.append(feedback)
        return True

    def add(self, answer: Answer) -> None:
        """Keep the answer's id and its trace."""
        if len(self._answers) < MAX_KNOWN:
            known = KnownAnswer(answer.at_s, answer.completed.target)
            self._answers[_key(joining_id(answer.interaction.id))] = msgspec.json.encode(known)

    def tick(self) -> None:
        """Join what came since, and give up what has waited for too long."""
        now_s = self._now()
        for _ in range(len(self._noted)):
            feedback = self._noted.popleft()
            self._count(feedback, feedback.direction)
            self._waiting.append((feedback, now_s + WAIT_S))
        if self._answers:
            self._store.keep_all(ANSWERS, self._answers, most=MAX_KNOWN)
            self._answers = {}
        self._waiting = [each for each in self._waiting if not self._join(each[0])]
        waiting = [each for each in self._waiting if each[1] > now_s]
        given_up = [each for each in self._waiting if each[1] <= now_s]
        for feedback, _ in (*given_up, *waiting[MAX_WAITING:]):
            self._count(feedback, "unknown")
        self._waiting = waiting[:MAX_WAITING]

    def _count(self, feedback: Feedback, direction: str) -> None:
        kind = feedback.kind
        if len(self._kinds) < MAX_KINDS:
            self._kinds.add(kind)
        self._counts[kind if kind in self._kinds else OTHER, direction] += 1

    def _join(self, feedback: Feedback) -> bool:
        """Join feedback with its answer; False: no such answer is known."""
        row = self._store.row(ANSWERS, _key(feedback.interaction_id))
        try:
            known = None if row is None else msgspec.json.decode(row, type=KnownAnswer)
        except (msgspec.MsgspecError, ValueError):  # of another release
            known = None
        if known is None:
            return False
        self._joined.append(
            JoinedFeedback(feedback=feedback, answered_s=known.at_s, target=known.target)
        )
        return True

    def joined(self) -> Sequence[JoinedFeedback]:
        """Return what was joined since this was last asked."""
        joined, self._joined = self._joined, []
        return joined

    def gauges(self) -> Iterator[GaugeValue]:
        """Return what came, and what found no answer."""
        for (kind, direction), n in self._counts.items():
            yield GaugeValue.of(metrics.FEEDBACK, n, kind=kind, direction=direction)

    def close(self) -> None:
        """Keep the last answers, and say what feedback found none."""
        try:
            self.tick()
        finally:
            if self._waiting:
                record_problem(
                    "estimate",
                    f"{len(self._waiting)} pieces of feedback waited for their answers at the end, "
                    "and are lost",
                )


def _key(identity: str) -> str:
    """Return an id as a store can hold it."""
    return identity.encode("utf-8", "replace").decode()
