"""Old answers that the judge reads again: whether it has changed, or the application."""

from __future__ import annotations

import contextlib
import json
import time
import zlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, TypeVar

import msgspec

from ragmonitor.records import AlarmState, Chunk, GaugeValue, Interaction, Report
from ragmonitor.runtime.guard import record_problem
from ragmonitor.semconv import metrics
from ragmonitor.stats.judge_change import Rereads
from ragmonitor.stats.parts import Answer, Means, Observation, Part
from ragmonitor.stats.signals import HALLUCINATION, REFERENCES, hallucinated
from ragmonitor.store import DAY_S, Memory, Store, StoreUnavailableError

KIND: Final = "reference"
READS: Final = "reread"
TURN: Final = ("reference turn", "next")
"""Kind and key of the row that says when the next one is read, by whichever process."""
MAX_REFERENCES: Final = 200
MAX_BAD: Final = 50
"""Those of them that the judge found hallucinated: fine ones hold their places till they come."""
MAX_CHARACTERS: Final = 12_000
"""A longer answer would be read in many calls."""
MAX_READS: Final = 1_000
CONFIRMED: Final = {False: 1, True: 2}
"""So often the judge has to say the same again before a flip says something of it; more often of
the rare verdict, which has the more slips among its own."""
EXPLAINED_SIGNALS: Final = (HALLUCINATION, "faithfulness")
"""Alarms of which it is asked whether the judge explains them."""
RISE_UNKNOWN_S: Final = 3_600.0
"""So long before an alarm the rate began to rise, where only its time is known."""
BATCH: Final = 5
INQUIRY_S: Final = 4.0
"""Between two batches while it is asked why a rate rises."""
SHOWN_READS: Final = 100
MIN_SHOWN: Final = 20
"""Below, no flip rate is shown."""
T = TypeVar("T")


class Reference(msgspec.Struct, kw_only=True):
    """One old answer."""

    query: str
    answer: str
    chunks: list[tuple[str, str]]
    framework: str = "python"
    ended_ns: int = 0
    hallucinated: bool
    """The verdict that it stands for."""
    confirmations: int = 0
    read_s: float = 0.0
    """When it was read last, in seconds since the epoch."""

    @property
    def is_confirmed(self) -> bool:
        """Whether it says something of the judge when it flips."""
        return self.confirmations >= CONFIRMED[self.hallucinated]

    def interaction(self, identity: str) -> Interaction:
        """Return what the judge reads."""
        return Interaction(
            id=identity,
            query=self.query,
            answer=self.answer,
            chunks=tuple(Chunk(id=name, text=text) for name, text in self.chunks),
            framework=self.framework,
            started_ns=self.ended_ns,
            ended_ns=self.ended_ns,
        )


class Read(msgspec.Struct, array_like=True):
    """One more reading of an answer that the judge had found fine."""

    at_s: float
    flipped: bool


class ReferenceAnswers(Part):
    """Has the judge read old answers again: a few a day, and more when an alarm needs a cause.

    Their texts are in the store, shared by processes, where texts may be kept; else in memory.
    """

    def __init__(
        self,
        store: Store,
        *,
        judge: str,
        per_day: int,
        keeps_texts: bool = False,
        now: Callable[[], float] = time.time,
    ) -> None:
        """Touch nothing yet.

        Args:
            store: Where they are.
            judge: The judge that scores a sample.
            per_day: How many to read again each day; 0: there are none.
            keeps_texts: Whether their questions, chunks and answers may stand in the store.
            now: Seconds since the epoch.
        """
        self._store = store if keeps_texts else Memory()
        self._forgets = store if not keeps_texts else None
        """Where texts may stand that an earlier setting kept."""
        self._judge = judge
        self._per_day = per_day
        self._now = now
        self._begin()

    def _begin(self) -> None:
        self._known: dict[str, Reference] | None = None
        self._reads: deque[Read] = deque(maxlen=MAX_READS)
        self._new: dict[str, Reference] = {}
        self._claimed: dict[str, float] = {}
        self._checks = 0
        """The number of readings."""
        self._observed: list[Observation] = []
        self._is_refrozen = False

    # --- taking in ------------------------------------------------------------------------------

    def add(self, answer: Answer) -> Sequence[Observation]:
        """Keep a judged answer, where there is room for one of its verdict."""
        verdict, known = answer.hallucination, self._known
        if verdict is None or known is None or not self._per_day:
            return ()
        is_bad, interaction = verdict.value > 0, answer.interaction
        most = MAX_BAD if is_bad else MAX_REFERENCES - MAX_BAD
        alike = sum(each.hallucinated is is_bad for each in known.values())
        size = len(interaction.query) + len(interaction.answer)
        size += sum(len(chunk.text) for chunk in interaction.chunks)
        if alike >= most or size > MAX_CHARACTERS or interaction.id in known:
            return ()
        self._new[interaction.id] = known[interaction.id] = Reference(
            query=interaction.query,
            answer=interaction.answer,
            chunks=[(chunk.id, chunk.text) for chunk in interaction.chunks],
            framework=interaction.framework,
            ended_ns=interaction.ended_ns,
            hallucinated=is_bad,
        )
        return ()

    def tick(self) -> Iterable[Observation]:
        """Keep what is new; return which confirmed ones flipped since."""
        with contextlib.suppress(StoreUnavailableError):  # it is said where sums are added
            self._exchange()
        observed, self._observed = self._observed, []
        return observed

    def _exchange(self) -> None:
        if self._forgets is not None:
            forgets, self._forgets = self._forgets, None
            for identity in forgets.rows(KIND):
                forgets.keep(KIND, identity, None)
        if self._is_refrozen:
            self._is_refrozen = False
            for kind in (KIND, READS):
                for key in self._store.rows(kind):
                    self._store.keep(kind, key, None)
            self._known, self._new = None, {}
            self._reads.clear()
        if self._known is None:
            self._known = {}
            for identity, row in self._store.rows(KIND).items():
                if (reference := _decoded(row, Reference)) is not None:
                    self._known[identity] = reference
            for row in self._store.rows(READS).values():
                if (read := _decoded(row, Read)) is not None:
                    self._reads.append(read)
        if self._new:
            rows = {identity: msgspec.json.encode(each) for identity, each in self._new.items()}
            self._store.keep_all(KIND, rows, most=MAX_REFERENCES)
            self._new = {}

    def refreeze(self) -> None:
        """Accept the judge as it judges now, at the next tick. From any thread."""
        self._is_refrozen = True

    # --- reading again --------------------------------------------------------------------------

    def due(self, since_s: float | None) -> Sequence[Interaction]:
        """Return what the judge is to read now.

        Args:
            since_s: When the rate began to rise whose cause is asked for; None: nothing is asked.
        """
        now_s, known = self._now(), self._known
        if not known or not self._per_day:
            return ()
        free = {i: r for i, r in known.items() if now_s - self._claimed.get(i, 0.0) > 600.0}
        wanted: list[str] = []
        if since_s is not None:
            wanted = [
                identity
                for identity, each in free.items()
                if each.hallucinated is False and each.read_s < since_s > each.ended_ns / 1e9
            ][:BATCH]
        if not wanted:
            wanted = self._of_the_day(free)
        pause_s = INQUIRY_S if since_s is not None and wanted else DAY_S / self._per_day
        try:
            if not wanted or not self._takes_turn(now_s, pause_s):
                return ()
        except StoreUnavailableError:
            return ()
        for identity in wanted:
            self._claimed[identity] = now_s
        return [known[identity].interaction(identity) for identity in wanted]

    def _of_the_day(self, free: dict[str, Reference]) -> list[str]:
        """Return the one whose turn it is: by turns the confirmed ones, and those that may be."""
        alike = [i for i, each in free.items() if each.is_confirmed is bool(self._checks % 2)] or [
            *free
        ]
        return sorted(alike, key=lambda i: (free[i].read_s, zlib.crc32(i.encode())))[:1]

    def _takes_turn(self, now_s: float, pause_s: float) -> bool:
        """Return whether this process is to read now: of several one does."""
        row = self._store.row(*TURN)
        if row is not None and 0 <= now_s - json.loads(row) < pause_s:
            return False
        is_mine = self._store.keep(*TURN, json.dumps(now_s).encode(), expected=row)
        return is_mine and row is not None  # of none yet the first turn comes after a pause

    def checked(self, interaction: Interaction, report: Report | None) -> None:
        """Take in what the judge found; None: it did not read it, and it is due again."""
        identity, now_s = interaction.id, self._now()
        self._claimed.pop(identity, None)
        reference = None if self._known is None else self._known.get(identity)
        if report is None or reference is None:
            return
        verdict = hallucinated(report)
        reference.read_s = now_s
        if verdict is None:
            self._checks += 1
            return
        before, flipped = reference.hallucinated, verdict is not reference.hallucinated
        if before is False:
            self._note_read(Read(now_s, flipped))
        if reference.is_confirmed:
            self._checks += 1
            self._observed.append(
                Observation(REFERENCES, float(flipped), now_s, answer=f"{identity} {now_s}")
            )
        elif flipped:  # the judge wavers: it says nothing of it
            self._forget(identity)
            return
        else:
            reference.confirmations += 1
        self._new[identity] = reference

    def _note_read(self, read: Read) -> None:
        self._reads.append(read)
        with contextlib.suppress(StoreUnavailableError):  # it counts in this process
            row = msgspec.json.encode(read)
            self._store.keep(READS, f"{read.at_s:.6f}", row, most=MAX_READS)

    def _forget(self, identity: str) -> None:
        if self._known is not None:
            del self._known[identity]
        self._new.pop(identity, None)
        with contextlib.suppress(StoreUnavailableError):  # it comes back with a restart
            self._store.keep(KIND, identity, None)

    # --- what they say --------------------------------------------------------------------------

    def rereads(self, since_s: float) -> tuple[Rereads, Rereads]:
        """Return the readings of fine answers since a moment, and those before it."""
        sides = {True: Rereads(), False: Rereads()}
        for read in self._reads:
            side = sides[read.at_s >= since_s]
            sides[read.at_s >= since_s] = Rereads(side.reads + 1, side.flips + read.flipped)
        return sides[True], sides[False]

    def waiting(self, since_s: float) -> int:
        """Return how many could still be read to explain a rise that began then."""
        return sum(
            each.hallucinated is False and each.read_s < since_s > each.ended_ns / 1e9
            for each in (self._known or {}).values()
        )

    def rising_since(self, states: Iterable[AlarmState]) -> float | None:
        """Return when the rate began to rise of an alarm that asks for a cause; None: none does."""
        began = [
            (state.since_s or self._now()) - RISE_UNKNOWN_S
            if state.rising_since_s is None
            else state.rising_since_s
            for state in states
            if state.active and state.signal in EXPLAINED_SIGNALS and state.judge == self._judge
        ]
        return min(began, default=None)

    def gauges(self, means: Means) -> Iterator[GaugeValue]:
        """Return how often they flip."""
        judge = means.quality_judge
        recent = [*self._reads][-SHOWN_READS:]
        if len(recent) >= MIN_SHOWN:
            rate = sum(read.flipped for read in recent) / len(recent)
            yield GaugeValue.of(metrics.ANCHOR_FLIP_RATE, rate, judge=judge)

    def clear(self) -> None:
        """Forget what belongs to the parent of a forked process."""
        self._begin()

    def close(self) -> None:
        """Keep what came last."""
        self.tick()


def _decoded(row: bytes, type_: type[T]) -> T | None:
    try:
        return msgspec.json.decode(row, type=type_)
    except (msgspec.MsgspecError, ValueError) as error:
        record_problem("estimation", f"a reference answer cannot be read: {error}")
        return None
