"""What comes in, compared with what used to: novel questions, weak and empty retrieval."""

from __future__ import annotations

import itertools
import math
import time
import uuid
from collections import OrderedDict, deque
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final

from ragmonitor.conventions import QUESTION_PSI, REFERENCE_INFO, REFERENCE_RATIO
from ragmonitor.estimation.drift.centroids import packed
from ragmonitor.estimation.drift.embedding import STAGE, Embed, EmbeddingThread
from ragmonitor.estimation.drift.features import FEATURES, features, words
from ragmonitor.estimation.drift.reference import Asked, Collected, Reference, Scores, fold_of
from ragmonitor.estimation.drift.topics import TopicShares
from ragmonitor.estimation.signals import EMPTY_RETRIEVAL, NOVEL_QUESTION, WEAK_RETRIEVAL
from ragmonitor.guard import record_error
from ragmonitor.protocols import Clock
from ragmonitor.records import Chunk, Interaction, Reading
from ragmonitor.state import StateFile

SIGNALS: Final = (EMPTY_RETRIEVAL, WEAK_RETRIEVAL, NOVEL_QUESTION)

TOLERATE: Final[Mapping[str, float]] = MappingProxyType(
    {NOVEL_QUESTION: 0.015, WEAK_RETRIEVAL: 0.075}
)
"""The least that an alarm accepts, where nobody said: half as much again as the reference itself
has, nominally. What it accepts is learned from the first answers, and never below this."""

STATE_VERSION: Final = 1
"""Of the file that a `Drift` shares with the other processes of its service."""

_KEPT: Final = 20_000
"""Outcomes that wait for `take`."""
_RECENT: Final = 4_096
"""Interactions whose topic is remembered."""
_WORDS: Final = 50_000
_SHARE_EVERY_S: Final = 30.0
_SHARE_AT: Final = 64
_SHARE_APART_S: Final = 5.0
"""Seconds between two looks at the file: at least, with so many questions; and at most."""
_CLAIM_S: Final = 3_600.0
"""How long others wait for the process that fits; then another does."""
_LONGEST_S: Final = 0.03
_SHORTEST_S: Final = 0.001
_EFFORT: Final = 0.1
"""Fitting takes at most that share of the time, and at most that long at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """What one interaction says of the input; signals without an answer are left out."""

    at_s: float
    session: str
    outcomes: Mapping[str, bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Seen:
    """One interaction, between being observed and being taken."""

    id: str
    at_s: float
    session: str
    text: str
    outcomes: dict[str, bool] = field(default_factory=dict)
    scores: Scores


class Drift:
    """Watches what comes in. Used from one thread; nothing in it waits for a network.

    Until the reference is frozen there is an answer for empty retrieval only. The reference is the
    service's first `size` interactions, all processes together where they share a file; freezing
    it takes seconds, which are spent in slices of at most some 40 ms during the calls.
    """

    def __init__(
        self,
        *,
        size: int = 2_000,
        embed: Embed | None = None,
        embedding: str = "",
        state: StateFile | None = None,
        label_words: bool = False,
        clock: Clock = time.monotonic,
        wall: Clock = time.time,
    ) -> None:
        """Touch neither disk nor thread yet.

        Args:
            size: Interactions of the reference.
            embed: From texts to vectors, in a thread of its own; None: hashed features.
            embedding: Its name and version. Another name is another reference.
            state: Where the reference is kept and shared; None: in memory only.
            label_words: Topics are named by their most typical words, too.
            clock: For how often to look at the file.
            wall: Seconds since the epoch, as other processes have them.
        """
        self._size = size
        self._embedding = (embedding or "embedding") if embed is not None else FEATURES
        self._made_of = f"{self._embedding} {size}"
        self._embedder: EmbeddingThread[_Seen] | None = (
            EmbeddingThread(embed) if embed is not None else None
        )
        self._file = state
        self._label_words = label_words
        self._clock = clock
        self._wall = wall
        self._begin()

    def _begin(self) -> None:
        self._reference: Reference | None = None
        self._pending = Collected()
        self._shared = 0
        """Interactions that the file had when last looked at."""
        self._shared_at: float | None = None
        self._attached = self._file is not None
        self._opened = False
        self._fit: Generator[None, None, Reference] | None = None
        self._restoring = False
        """The generator builds what is on disk; else it fits."""
        self._fitted_at_s = time.perf_counter()
        self._me = uuid.uuid4().hex
        self._words: dict[int, str] = {}
        self._length: int | None = None
        self._out: deque[Observed] = deque()
        self._recent: OrderedDict[str, int] = OrderedDict()
        self._shares = TopicShares()

    def observe(self, interaction: Interaction, at_s: float) -> None:
        """Take in one interaction; its outcomes come out of `take`, perhaps later.

        Args:
            interaction: As it ended; each once.
            at_s: When, in seconds since the epoch.
        """
        self._advance()
        text = interaction.query.strip()
        seen = _Seen(
            id=interaction.id,
            at_s=at_s,
            session=interaction.session_id,
            text=text,
            scores=_scores(interaction),
        )
        empty = _empty(interaction)
        if empty is not None:
            seen.outcomes[EMPTY_RETRIEVAL] = empty
        if self._embedder is None:
            self._settle(seen, packed(features(text)))
        elif not text:
            self._settle(seen, b"")
        elif not self._embedder.submit(seen, text):
            record_error(STAGE, BufferError("questions wait for the embedding; one went without"))
            self._settle(seen, b"")

    def take(self) -> Sequence[Observed]:
        """Return what became known since the last call, oldest first."""
        if self._embedder is not None:
            for seen, point in self._embedder.done():
                self._settle(seen, point or b"")
        self._advance()
        taken = list(self._out)
        self._out.clear()
        return taken

    def topic(self, interaction: Interaction) -> str:
        """Return the label of the nearest centroid; empty: not known, or not yet.

        With an embedding of the user's it is known once `take` gave the outcomes.
        """
        if self._reference is None:
            return ""
        topic = self._recent.get(interaction.id)
        if topic is None:
            if self._embedder is not None:
                return ""
            placed = self._reference.place(packed(features(interaction.query)))
            if placed is None:
                return ""
            topic = placed[0]
        return self._reference.labels[topic]

    def readings(self) -> Sequence[Reading]:
        """Return how much of the reference is collected; once it is frozen, what it says."""
        if self._reference is None:
            ratio = min(1.0, (self._shared + self._pending.count) / self._size)
            # 1 is said of a frozen one only.
            return [Reading(name=REFERENCE_RATIO, value=min(ratio, 0.999))]
        readings = [
            Reading(name=REFERENCE_RATIO, value=1.0),
            Reading(name=REFERENCE_INFO, value=1.0, labels=(("version", self._reference.version),)),
        ]
        index = self._shares.stability_index(self._reference.counts)
        if index is not None:
            readings.append(Reading(name=QUESTION_PSI, value=index))
        return readings

    @property
    def reference(self) -> Reference | None:
        """The frozen reference; None: it is still collected."""
        return self._reference

    @property
    def dropped(self) -> int:
        """Questions that went without an embedding, since too many waited."""
        return self._embedder.dropped if self._embedder is not None else 0

    def settle(self, timeout_s: float = 10.0) -> bool:
        """Finish what is under way, at once; return whether it is. For replays and flushes."""
        until = time.monotonic() + timeout_s
        shared = False
        while time.monotonic() < until:
            if self._embedder is not None:
                for seen, point in self._embedder.done():
                    self._settle(seen, point or b"")
            if self._fit is not None:
                self._step(until=time.perf_counter() + _LONGEST_S)
            elif self._embedder is not None and self._embedder.waiting:
                time.sleep(_SHORTEST_S)
            elif self._reference is None and not shared:
                shared = True
                self._share()
            else:
                return True
        return False

    def close(self, timeout_s: float = 5.0) -> None:
        """End the embedding's thread and keep what was collected. Nothing is observed later."""
        if self._embedder is not None:
            self._embedder.close(timeout_s)
            for seen, point in self._embedder.done():
                self._settle(seen, point or b"")
        if self._reference is None and self._fit is None and self._pending.count:
            self._share()
        if self._fit is not None:
            self._fit = None
            self._release()

    def clear(self) -> None:
        """Forget everything but the file; for a forked child."""
        if self._embedder is not None:
            self._embedder.clear()
        self._begin()

    def _settle(self, seen: _Seen, point: bytes) -> None:
        if self._reference is None:
            self._collect(seen, point)
        else:
            self._compare(self._reference, seen, point)
        if len(self._out) >= _KEPT:
            self._out.popleft()
            record_error(STAGE, BufferError("outcomes wait to be taken; the oldest was dropped"))
        self._out.append(
            Observed(at_s=seen.at_s, session=seen.session, outcomes=dict(seen.outcomes))
        )

    def _compare(self, reference: Reference, seen: _Seen, point: bytes) -> None:
        if not seen.text:
            return
        weak = reference.weak(seen.scores)
        if weak is not None:
            seen.outcomes[WEAK_RETRIEVAL] = weak
        try:
            placed = reference.place(point)
        except ValueError as error:  # an embedding that changed its dimensions under its name
            record_error(STAGE, error)
            return
        if placed is None:
            return
        topic, seen.outcomes[NOVEL_QUESTION] = placed
        self._shares.add(topic, seen.at_s)
        self._recent[seen.id] = topic
        if len(self._recent) > _RECENT:
            self._recent.popitem(last=False)

    def _collect(self, seen: _Seen, point: bytes) -> None:
        if self._fit is not None or self._shared + self._pending.count >= self._size:
            return  # the reference is complete: it is the first ones
        if self._embedder is not None and point:
            self._length = self._length or len(point)
            if len(point) != self._length:
                record_error(STAGE, ValueError("the embedding's vectors differ in length"))
                point = b""
        grams = b""
        if self._label_words:
            if self._embedder is not None:
                grams = packed(features(seen.text))
            if len(self._words) < _WORDS:
                self._words.update(words(seen.text))
        fold = fold_of(seen.session or seen.id)
        self._pending.add(seen.id, Asked(point=point, grams=grams, scores=seen.scores, fold=fold))

    def _advance(self) -> None:
        """Look at the file if it is time to, and spend a slice on fitting."""
        if self._reference is not None:
            return
        if self._fit is None:
            if self._is_due():
                self._share()
            return
        began = time.perf_counter()
        since = began - self._fitted_at_s
        if since < _SHORTEST_S / _EFFORT:
            return
        self._step(until=began + min(_LONGEST_S, since * _EFFORT))

    def _step(self, *, until: float) -> None:
        """Fit until this reading of `time.perf_counter`."""
        if self._fit is None:
            return
        try:
            while time.perf_counter() < until:
                next(self._fit)
        except StopIteration as end:
            self._fit = None
            self._keep(end.value)
        except Exception as error:  # noqa: BLE001 - whatever a file or an embedding held
            record_error(STAGE, error)
            self._fit = None
            self._forget()
        self._fitted_at_s = time.perf_counter()

    def _is_due(self) -> bool:
        if not self._attached:
            return self._pending.count >= self._size
        if self._shared_at is None:
            return True
        since = self._clock() - self._shared_at
        full = self._shared + self._pending.count >= self._size
        many = self._pending.count >= _SHARE_AT or (full and self._pending.count > 0)
        return since >= (_SHARE_APART_S if many else _SHARE_EVERY_S)

    def _share(self) -> None:
        """Bring what was collected together with what others did; begin to fit when it is full."""
        self._shared_at = self._clock()
        if self._file is not None and self._attached:
            try:
                with self._file.alone():
                    self._merge(self._file, self._read(self._file))
            except OSError as error:
                record_error(STAGE, error)
                # The disk may come back; a full reference does not wait for it.
                if self._pending.count >= self._size:
                    self._attached = False
            else:
                return
        if self._pending.count >= self._size and self._fit is None:
            self._start(self._pending)

    def _merge(self, file: StateFile, told: Mapping[str, Any]) -> None:
        taken_over = False
        if told.get("made_of", self._made_of) != self._made_of:
            if self._opened:
                # Another release of the service, with another embedding, has the file now.
                self._attached = False
                self._shared = 0
                return
            told, taken_over = {}, True
        try:
            if "reference" in told:
                self._opened = True
                self._restore(told["reference"])
                return
            collected = (
                Collected.restored(told["collected"]) if "collected" in told else Collected()
            )
            claim = dict(told.get("claim", {}))
            claimed_until_s = float(claim.get("until_s", 0.0))
        except (ValueError, KeyError, TypeError) as error:
            record_error(STAGE, error)
            collected, claim, claimed_until_s = Collected(), {}, 0.0
        self._opened = True
        collected.merge(self._pending)
        now = self._wall()
        mine = collected.count >= self._size and now >= claimed_until_s
        if mine:
            claim = {"by": self._me, "until_s": now + _CLAIM_S}
        if self._pending.count or mine or taken_over:
            file.write({"made_of": self._made_of, "collected": collected.state(), "claim": claim})
        self._pending, self._shared = Collected(), collected.count
        if mine:
            self._start(collected)

    def _read(self, file: StateFile) -> Mapping[str, Any]:
        try:
            return file.read() or {}
        except ValueError as error:
            record_error(STAGE, error)
            return {}

    def _start(self, collected: Collected) -> None:
        self._fitted_at_s = time.perf_counter()
        self._restoring = False
        self._fit = Reference.fitted(
            collected,
            dense=self._embedder is not None,
            made_of=self._made_of,
            words=self._words if self._label_words else {},
        )

    def _restore(self, state: Mapping[str, Any]) -> None:
        self._fitted_at_s = time.perf_counter()
        self._fit = Reference.restored(state, made_of=self._made_of)
        self._restoring = True

    def _keep(self, reference: Reference) -> None:
        """Freeze; what another process froze meanwhile stands."""
        if self._file is not None and self._attached and not self._restoring:
            try:
                with self._file.alone():
                    told = self._read(self._file)
                    if told.get("made_of") == self._made_of and "reference" in told:
                        self._restore(told["reference"])
                        return
                    self._file.write({"made_of": self._made_of, "reference": reference.state()})
            except OSError as error:
                record_error(STAGE, error)
        self._reference = reference
        self._pending, self._words = Collected(), {}

    def _forget(self) -> None:
        """Collect anew: what was collected, or what was on disk, made no reference."""
        self._pending, self._shared = Collected(), 0
        if self._file is None or not self._attached:
            return
        try:
            with self._file.alone():
                told = self._read(self._file)
                if self._restoring or "reference" not in told:
                    self._file.write({"made_of": self._made_of, "collected": Collected().state()})
        except OSError as error:
            record_error(STAGE, error)

    def _release(self) -> None:
        """Give the claim back, so that another process fits."""
        if self._file is None or not self._attached:
            return
        try:
            with self._file.alone():
                told = {**self._read(self._file)}
                claim = told.get("claim")
                if isinstance(claim, dict) and claim.get("by") == self._me:
                    told["claim"] = {}
                    del told["version"]  # the file's own
                    self._file.write(told)
        except OSError as error:
            record_error(STAGE, error)


def _empty(interaction: Interaction) -> bool | None:
    """Return whether the model was shown no chunk; None: it was never searched for, or not seen."""
    if interaction.chunks:
        return False
    if interaction.capture_incomplete:
        return None
    ended_early = interaction.status in ("error", "cancelled") and not interaction.retrievals
    return None if ended_early else True


def _scores(interaction: Interaction) -> Scores:
    """Return what the chunks' scores say: those the model saw; failing that, those retrieved."""
    lists = [interaction.chunks, *(retrieval.chunks for retrieval in interaction.retrievals)]
    for chunks in lists:
        values = _values(chunks)
        if values:
            neighbours = list(itertools.pairwise(values))
            return Scores(
                high=max(values),
                low=min(values),
                rising=sum(first < second for first, second in neighbours),
                falling=sum(first > second for first, second in neighbours),
            )
    return Scores()


def _values(chunks: Sequence[Chunk]) -> list[float]:
    return [
        float(chunk.score)
        for chunk in chunks
        if chunk.score is not None and math.isfinite(chunk.score)
    ]
