"""Old answers that the judge reads again: whether it has changed, or the application."""

from __future__ import annotations

import json
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

import msgspec

from ragmonitor.records import Chunk, GaugeValue, Interaction, Report
from ragmonitor.semconv import metrics
from ragmonitor.stats.judge_change import Rereads
from ragmonitor.stats.kept_rows import KeptRows
from ragmonitor.stats.parts import Answer, Observation, Part
from ragmonitor.stats.signals import REFERENCES, hallucinated
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
PAUSE_S: Final = DAY_S / 20
"""Between two answers that are read again while no cause is asked for."""
BATCH: Final = 5
INQUIRY_S: Final = 4.0
"""Between two batches while it is asked why a rate rises."""
SHOWN_READS: Final = 100
MIN_SHOWN: Final = 20
"""Below, no flip rate is shown."""


class Reference(msgspec.Struct, kw_only=True):
    """One old answer."""

    interaction: Interaction
    """What the judge reads, and no more of it."""
    hallucinated: bool
    """The verdict that it stands for."""
    confirmations: int = 0
    read_s: float = 0.0
    """When it was read last, in seconds since the epoch."""

    @property
    def is_confirmed(self) -> bool:
        """Whether it says something of the judge when it flips."""
        return self.confirmations >= CONFIRMED[self.hallucinated]


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
        keeps_texts: bool = False,
        now: Callable[[], float] = time.time,
    ) -> None:
        """Touch nothing yet.

        Args:
            store: Where they are.
            judge: The judge that scores a sample.
            keeps_texts: Whether their questions, chunks and answers may stand in the store.
            now: Seconds since the epoch.
        """
        self._store = store if keeps_texts else Memory()
        self._forgets = store if not keeps_texts else None
        """Where texts may stand that an earlier setting kept."""
        self._judge = judge
        self._now = now
        self._kept = KeptRows(self._store, KIND, Reference, most=MAX_REFERENCES)
        self._reads = KeptRows(self._store, READS, Read, most=MAX_READS)
        self._checks = 0
        """The number of readings."""
        self._observed: list[Observation] = []

    # --- taking in ------------------------------------------------------------------------------

    def add(self, answer: Answer) -> None:
        """Keep a judged answer, where there is room for one of its verdict."""
        verdict, known = answer.hallucination, self._kept.rows
        if verdict is None or not self._kept.is_read:
            return
        is_bad, interaction = verdict.value > 0, answer.interaction
        most = MAX_BAD if is_bad else MAX_REFERENCES - MAX_BAD
        alike = sum(each.hallucinated is is_bad for each in known.values())
        size = len(interaction.query) + len(interaction.answer)
        size += sum(len(chunk.text) for chunk in interaction.chunks)
        if alike >= most or size > MAX_CHARACTERS or interaction.id in known:
            return
        kept = Interaction(
            id=interaction.id,
            query=interaction.query,
            answer=interaction.answer,
            chunks=tuple(Chunk(id=each.id, text=each.text) for each in interaction.chunks),
            framework=interaction.framework,
            started_ns=interaction.ended_ns,
            ended_ns=interaction.ended_ns,
        )
        self._kept.put(kept.id, Reference(interaction=kept, hallucinated=is_bad))

    def tick(self) -> Iterable[Observation]:
        """Keep what is new; return which confirmed ones flipped since."""
        if self._forgets is not None:
            self._forgets.keep_all(KIND, dict.fromkeys(self._forgets.rows(KIND)))
            self._forgets = None
        for kept in (self._kept, self._reads):
            kept.exchange()
        observed, self._observed = self._observed, []
        return observed

    # --- reading again --------------------------------------------------------------------------

    def due(self, since_s: float | None) -> Sequence[Interaction]:
        """Return what the judge is to read now.

        Args:
            since_s: When the rate began to rise whose cause is asked for; None: nothing is asked.
        """
        now_s, known = self._now(), self._kept.rows
        if not known:
            return ()
        wanted = [] if since_s is None else self._unread(since_s)[:BATCH]
        pause_s = INQUIRY_S if wanted else PAUSE_S
        wanted = wanted or self._of_the_day(known)
        try:
            if not self._takes_turn(now_s, pause_s):
                return ()
        except StoreUnavailableError:
            return ()
        for identity in wanted:  # it is read by nobody else meanwhile
            known[identity].read_s = now_s
        return [known[identity].interaction for identity in wanted]

    def _unread(self, since_s: float) -> list[str]:
        """Return the fine ones from before a moment that were not read since."""
        return [
            identity
            for identity, each in self._kept.rows.items()
            if not each.hallucinated and each.read_s < since_s > each.interaction.ended_ns / 1e9
        ]

    def _of_the_day(self, known: dict[str, Reference]) -> list[str]:
        """Return the one whose turn it is: by turns the confirmed ones, and those that may be."""
        of_turn = bool(self._checks % 2)
        alike = [i for i, each in known.items() if each.is_confirmed is of_turn] or [*known]
        return sorted(alike, key=lambda i: (known[i].read_s, zlib.crc32(i.encode())))[:1]

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
        reference = self._kept.rows.get(identity)
        if report is None or reference is None:
            if reference is not None:
                reference.read_s = 0.0
            return
        verdict = hallucinated(report)
        reference.read_s = now_s
        if verdict is None:
            self._checks += 1
            return
        flipped = verdict is not reference.hallucinated
        if not reference.hallucinated:
            self._reads.put(f"{now_s:.6f}", Read(now_s, flipped))
        if reference.is_confirmed:
            self._checks += 1
            self._observed.append(
                Observation(REFERENCES, float(flipped), now_s, answer=f"{identity} {now_s}")
            )
        else:
            reference.confirmations += 1
        if flipped:  # answers that take its place have the judge's verdicts of today
            self._kept.remove(identity)
        else:
            self._kept.put(identity, reference)

    # --- what they say --------------------------------------------------------------------------

    def rereads(self, since_s: float) -> tuple[Rereads, Rereads]:
        """Return the readings of fine answers since a moment, and those before it."""
        reads = self._reads.rows.values()
        since = [read.flipped for read in reads if read.at_s >= since_s]
        before = [read.flipped for read in reads if read.at_s < since_s]
        return Rereads(len(since), sum(since)), Rereads(len(before), sum(before))

    def waiting(self, since_s: float) -> int:
        """Return how many could still be read to explain a rise that began then."""
        return len(self._unread(since_s))

    def gauges(self) -> Iterator[GaugeValue]:
        """Return how often they flip."""
        recent = [*self._reads.rows.values()][-SHOWN_READS:]
        if len(recent) >= MIN_SHOWN:
            rate = sum(read.flipped for read in recent) / len(recent)
            yield GaugeValue.of(metrics.ANCHOR_FLIP_RATE, rate, judge=self._judge)
