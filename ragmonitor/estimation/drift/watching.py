"""What comes in, compared with what used to: novel questions, weak and empty retrieval."""

from __future__ import annotations

import itertools
import math
import time
from collections import OrderedDict, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

from ragmonitor.estimation.drift.centroids import packed
from ragmonitor.estimation.drift.collecting import LONGEST_S, SHORTEST_S, Collecting
from ragmonitor.estimation.drift.embedding import STAGE, Embed, EmbeddingThread
from ragmonitor.estimation.drift.features import FEATURES, features, words
from ragmonitor.estimation.drift.reference import Asked, Reference, Scores, fold_of
from ragmonitor.estimation.drift.topics import TopicShares
from ragmonitor.estimation.signals import EMPTY_RETRIEVAL, NEW_QUESTION, WEAK_RETRIEVAL
from ragmonitor.guard import record_error, record_problem
from ragmonitor.metrics import QUESTION_PSI, REFERENCE_INFO, REFERENCE_RATIO
from ragmonitor.protocols import Clock
from ragmonitor.records import Chunk, GaugeValue, Interaction
from ragmonitor.state import StateFile

SIGNALS: Final = (EMPTY_RETRIEVAL, WEAK_RETRIEVAL, NEW_QUESTION)

TOLERATE: Final[Mapping[str, float]] = MappingProxyType(
    {NEW_QUESTION: 0.015, WEAK_RETRIEVAL: 0.075}
)
"""The least that an alarm accepts, where nobody said: half as much again as the reference itself
has, nominally. What it accepts is learned from the first answers, and never below this."""

STATE_VERSION: Final = 1
"""Of the file that a `Drift` shares with the other processes of its service."""

QUESTION_MOST: Final = 8_000
"""Characters of a question that are looked at, and that an embedding is given: as many as models
take, and a thousand that wait for it are a few megabytes. Hashed features look at fewer."""
_KEPT: Final = 20_000
"""Outcomes that wait for `take`."""
_RECENT: Final = 4_096
"""Interactions whose topic is remembered."""
_WORDS: Final = 50_000


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
        name = (embedding or "embedding") if embed is not None else FEATURES
        self._embedder: EmbeddingThread[_Seen] | None = (
            EmbeddingThread(embed) if embed is not None else None
        )
        self._collecting = Collecting(
            size=size,
            made_of=f"{name} {size}",
            dense=embed is not None,
            file=state,
            clock=clock,
            wall=wall,
        )
        self._label_words = label_words
        self._begin()

    def _begin(self) -> None:
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
        self._collecting.advance()
        text = interaction.query.strip()[:QUESTION_MOST]
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
            record_problem(STAGE, "questions wait for the embedding; one went without")
            self._settle(seen, b"")

    def take(self) -> Sequence[Observed]:
        """Return what became known since the last call, oldest first."""
        if self._embedder is not None:
            for seen, point in self._embedder.done():
                self._settle(seen, point or b"")
        self._collecting.advance()
        taken = list(self._out)
        self._out.clear()
        return taken

    def topic(self, interaction: Interaction) -> str:
        """Return the label of the nearest centroid; empty: not known, or not yet.

        With an embedding of the user's it is known once `take` gave the outcomes.
        """
        if self.reference is None:
            return ""
        topic = self._recent.get(interaction.id)
        if topic is None:
            if self._embedder is not None:
                return ""
            placed = self.reference.place(packed(features(interaction.query)))
            if placed is None:
                return ""
            topic = placed[0]
        return self.reference.labels[topic]

    def readings(self) -> Sequence[GaugeValue]:
        """Return how much of the reference is collected; once it is frozen, what it says."""
        if self.reference is None:
            # 1 is said of a frozen one only.
            return [GaugeValue(name=REFERENCE_RATIO, value=min(self._collecting.ratio, 0.999))]
        readings = [
            GaugeValue(name=REFERENCE_RATIO, value=1.0),
            GaugeValue(
                name=REFERENCE_INFO, value=1.0, labels=(("version", self.reference.version),)
            ),
        ]
        index = self._shares.stability_index(self.reference.counts)
        if index is not None:
            readings.append(GaugeValue(name=QUESTION_PSI, value=index))
        return readings

    @property
    def reference(self) -> Reference | None:
        """The frozen reference; None: it is still collected."""
        return self._collecting.reference

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
            if self._collecting.is_fitting:
                self._collecting.step(until=time.perf_counter() + LONGEST_S)
            elif self._embedder is not None and self._embedder.waiting:
                time.sleep(SHORTEST_S)
            elif self.reference is None and not shared:
                shared = True
                self._collecting.share()
            else:
                return True
        return False

    def close(self, timeout_s: float = 5.0) -> None:
        """End the embedding's thread and keep what was collected. Nothing is observed later."""
        if self._embedder is not None:
            self._embedder.close(timeout_s)
            for seen, point in self._embedder.done():
                self._settle(seen, point or b"")
        self._collecting.close()

    def clear(self) -> None:
        """Forget everything but the file; for a forked child."""
        if self._embedder is not None:
            self._embedder.clear()
        self._collecting.clear()
        self._begin()

    def _settle(self, seen: _Seen, point: bytes) -> None:
        if self.reference is None:
            self._collect(seen, point)
        else:
            self._compare(self.reference, seen, point)
        if len(self._out) >= _KEPT:
            self._out.popleft()
            record_problem(STAGE, "outcomes wait to be taken; the oldest was dropped")
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
        topic, seen.outcomes[NEW_QUESTION] = placed
        self._shares.add(topic, seen.at_s)
        self._recent[seen.id] = topic
        if len(self._recent) > _RECENT:
            self._recent.popitem(last=False)

    def _collect(self, seen: _Seen, point: bytes) -> None:
        if not self._collecting.takes:
            return  # the reference is complete: it is the first ones
        if self._embedder is not None and point:
            self._length = self._length or len(point)
            if len(point) != self._length:
                record_problem(STAGE, "the embedding's vectors differ in length")
                point = b""
        grams = b""
        if self._label_words:
            if self._embedder is not None:
                grams = packed(features(seen.text))
            if len(self._collecting.words) < _WORDS:
                self._collecting.words.update(words(seen.text))
        fold = fold_of(seen.session or seen.id)
        self._collecting.add(
            seen.id, Asked(point=point, grams=grams, scores=seen.scores, fold=fold)
        )


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
