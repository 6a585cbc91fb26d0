"""Counts, joins and compares what people say of answers, beside what judges say."""

from __future__ import annotations

import math
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

import msgspec

from ragmonitor.records import GaugeValue, SpanReference
from ragmonitor.runtime.feedback import DEFAULT_KIND, Feedback, JoinedFeedback, joining_id
from ragmonitor.runtime.guard import record_problem
from ragmonitor.semconv import metrics
from ragmonitor.stats.labels.correction import wilson
from ragmonitor.stats.parts import Answer, Means, Observation, Part
from ragmonitor.store import Store, StoreUnavailableError

RECENT_S: Final = 30 * 86_400.0
"""Feedback of which the agreement is worked out."""
WAIT_S: Final = 900.0
"""Feedback may come before its answer is scored; after so long its id counts as unknown."""
MAX_NOTED: Final = 10_000
"""Pieces of feedback between two ticks."""
MAX_WAITING: Final = 1_000
"""Pieces of feedback whose answer is not known yet. Of more the newest count as unknown: anybody
may send ids that were never given, and must not keep out those that wait already, nor feedback on
answers that are known."""
MAX_ANSWERS: Final = 20_000
"""Answers between two ticks."""
MAX_KINDS: Final = 50
"""Kinds of feedback that are told apart; later ones count as `OTHER`: anybody may name a kind, and
each has series of its own."""
OTHER: Final = "other"
MIN_ANSWERS: Final = 10
"""Answers of which both said something, below which no agreement is shown."""
LOOK_EVERY_S: Final = 10.0


ANSWERS: Final = "answer"
FEEDBACK: Final = "feedback"
MAX_KNOWN: Final = 50_000
"""Newest answers that people may speak of later; about 150 bytes each."""
MAX_FEEDBACK: Final = 10_000
"""Newest pieces of feedback of which the agreement is worked out."""


class KnownAnswer(msgspec.Struct, frozen=True, array_like=True):
    """An answer until people speak."""

    at_s: float
    reader: str
    """Identity of the judge that scores every answer."""
    read: bool | None
    """It found the answer hallucinated; None: it did not say."""
    judge: str
    """Identity of the judge that scores a sample; empty: it did not score this one."""
    judged: bool | None
    target: tuple[str, str, bool, str] | None
    """The fields of the root span's reference; None: no trace was emitted."""
    good: bool | None = None
    """What people said of it."""
    said_s: float = 0.0


class Agreement(NamedTuple):
    """Answers of which both a judge and people said whether they are good."""

    agreeing: int
    answers: int


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
        store: Store,
        *,
        now: Callable[[], float] = time.time,
    ) -> None:
        """Begin with what the store holds."""
        self._store = store
        self._now = now
        self._begin()

    def _begin(self) -> None:
        self._noted: deque[Feedback] = deque(maxlen=MAX_NOTED)
        self._waiting: list[_Waiting] = []
        self._kinds = {DEFAULT_KIND}
        self._answers: deque[tuple[str, KnownAnswer]] = deque(maxlen=MAX_ANSWERS)
        self._joined: list[JoinedFeedback] = []
        self._received: Counter[tuple[str, str]] = Counter()
        self._unknown: Counter[str] = Counter()
        self._judges: dict[bool, str] = {}
        """Identity by whether it scores a sample."""
        self._agreements: dict[bool, Agreement] = {}
        self._look_s = -math.inf

    def note(self, feedback: Feedback) -> bool:
        """Take feedback, from any thread and without waiting; False: too much is waiting."""
        if len(self._noted) >= MAX_NOTED:
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
        known = KnownAnswer(
            at_s=answer.at_s,
            reader=reader,
            read=bool(read.value) if read is not None and read.scored else None,
            judge="" if judged is None else str(judged.judge),
            judged=None if found is None else bool(found.value),
            target=None
            if target is None
            else (target.trace_id, target.span_id, target.sampled, target.trace_state),
        )
        self._answers.append((_key(joining_id(answer.interaction.id)), known))
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
        """Keep answers, and join the feedback that is about a known one."""
        answers = {}
        for _ in range(len(self._answers)):
            key, known = self._answers.popleft()
            answers[key] = known
        joined: list[JoinedFeedback] = []
        left = self._waiting
        try:
            rows = {key: msgspec.json.encode(known) for key, known in answers.items()}
            if rows:
                self._store.keep_all(ANSWERS, rows, most=MAX_KNOWN)
            left = [each for each in self._waiting if not self._join(each.feedback, joined)]
        except StoreUnavailableError:  # it is said where sums are added
            self._answers.extendleft(reversed(answers.items()))
        waiting = [each for each in left if each.until_s > now_s]
        self._waiting, too_many = waiting[:MAX_WAITING], waiting[MAX_WAITING:]
        for each in (*(each for each in left if each.until_s <= now_s), *too_many):
            self._unknown[each.feedback.kind] += 1
        if joined:
            self._joined += joined
            self._look_s = -math.inf

    def _join(self, feedback: Feedback, joined: list[JoinedFeedback]) -> bool:
        """Join feedback with its answer, and keep it; False: no such answer is known.

        Of one answer and kind the newest counts.
        """
        key = _key(feedback.interaction_id)
        known = _known(self._store.row(ANSWERS, key))
        if known is None:
            return False
        said = msgspec.structs.replace(known, good=feedback.is_good, said_s=feedback.at_s)
        name = f"{key} {feedback.kind}"
        self._store.keep(FEEDBACK, name, msgspec.json.encode(said), most=MAX_FEEDBACK)
        target = None
        if known.target is not None:
            trace_id, span_id, sampled, trace_state = known.target
            target = SpanReference(
                trace_id=trace_id, span_id=span_id, sampled=sampled, trace_state=trace_state
            )
        joined.append(JoinedFeedback(feedback=feedback, answered_s=known.at_s, target=target))
        return True

    def _look(self, now_s: float) -> None:
        """Count how people and judges agree; the newest feedback of an answer counts."""
        try:
            rows = self._store.rows(FEEDBACK)
        except StoreUnavailableError:
            return
        newest: dict[str, KnownAnswer] = {}
        for name, row in rows.items():
            said, answer = _known(row), name.partition(" ")[0]
            if said is not None and said.said_s >= now_s - RECENT_S and said.good is not None:
                before = newest.get(answer)
                if before is None or before.said_s <= said.said_s:
                    newest[answer] = said
        for sampled, judge in self._judges.items():
            pairs = [
                (each.good, verdict)
                for each in newest.values()
                for identity, verdict in [
                    (each.judge, each.judged) if sampled else (each.reader, each.read)
                ]
                if identity == judge and verdict is not None
            ]
            agreeing = sum(is_good is not is_bad for is_good, is_bad in pairs)
            self._agreements[sampled] = Agreement(agreeing, len(pairs))

    def joined(self) -> Sequence[JoinedFeedback]:
        """Return what was joined since this was last asked."""
        joined, self._joined = self._joined, []
        return joined

    def gauges(self, means: Means) -> Iterator[GaugeValue]:
        """Return what came, what found no answer, and how people and judges agree."""
        for (kind, direction), n in self._received.items():
            yield GaugeValue.of(metrics.FEEDBACK, n, kind=kind, direction=direction)
        for kind, n in self._unknown.items():
            yield GaugeValue.of(metrics.FEEDBACK, n, kind=kind, direction="unknown")
        for sampled, found in self._agreements.items():
            yield from _agreement_gauges(self._judges[sampled].rpartition("@")[0], found)

    def clear(self) -> None:
        """Forget what belongs to the parent of a forked process."""
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


def _key(identity: str) -> str:
    """Return an id as a store can hold it."""
    return identity.encode("utf-8", "replace").decode()


def _known(row: bytes | None) -> KnownAnswer | None:
    """Return what a row holds; None: there is none, or it is of another release."""
    try:
        return None if row is None else msgspec.json.decode(row, type=KnownAnswer)
    except (msgspec.MsgspecError, ValueError):
        return None


def _agreement_gauges(judge: str, found: Agreement) -> Iterator[GaugeValue]:
    """Return the share of answers on which both agree, if there are enough."""
    if found.answers < MIN_ANSWERS:
        return
    mean = found.agreeing / found.answers
    lower, upper = wilson(mean, found.answers)
    yield from GaugeValue.interval(metrics.FEEDBACK_AGREEMENT, mean, lower, upper, judge=judge)
