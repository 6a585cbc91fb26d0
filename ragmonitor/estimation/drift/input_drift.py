"""Compares what comes in with what used to: new kinds of questions, weak and empty retrieval."""

from __future__ import annotations

import math
import time
from collections import OrderedDict, deque
from collections.abc import Iterator, Mapping, Sequence
from operator import gt, lt
from types import MappingProxyType
from typing import Final, NamedTuple

from ragmonitor.estimation.drift.centroids import packed
from ragmonitor.estimation.drift.embedding_queue import STAGE, Embed, EmbeddingQueue
from ragmonitor.estimation.drift.features import FEATURES, features
from ragmonitor.estimation.drift.reference import Asked, Reference, Scores, fold_of
from ragmonitor.estimation.drift.shared_reference import SharedReference
from ragmonitor.estimation.parts import Answer, Means, Observation, Part
from ragmonitor.estimation.signals import EMPTY_RETRIEVAL, NEW_QUESTION, WEAK_RETRIEVAL
from ragmonitor.guard import record_error, record_problem
from ragmonitor.metrics import REFERENCE_INFO, REFERENCE_RATIO
from ragmonitor.protocols import Clock
from ragmonitor.records import Chunk, GaugeValue, Interaction
from ragmonitor.state import State

SIGNALS: Final = (EMPTY_RETRIEVAL, WEAK_RETRIEVAL, NEW_QUESTION)

MIN_OBJECTIVES: Final[Mapping[str, float]] = MappingProxyType(
    {NEW_QUESTION: 0.015, WEAK_RETRIEVAL: 0.075}
)
"""The least that an alarm accepts where nobody set it: half as much again as the reference itself
has, nominally. What it accepts is learned from the first answers, and never below this."""

STATE_VERSION: Final = 2
"""The version of the file that the processes of a service share."""

MAX_QUESTION: Final = 8_000
"""Characters of a question that an embedding is entry: as many as models take, and a thousand that
wait for it are a few megabytes. Hashed features look at fewer."""
_MAX_OUTCOMES: Final = 20_000
"""Outcomes that wait for `take`."""
_MAX_TOPICS: Final = 4_096
"""Interactions whose topic is remembered."""


class InputOutcomes(NamedTuple):
    """The outcomes of one interaction's input; unknown signals are left out."""

    interaction_id: str
    at_s: float
    session: str
    outcomes: dict[str, bool]


class _Input(NamedTuple):
    """The input of one interaction, until it is compared."""

    text: str
    scores: Scores
    result: InputOutcomes


class InputDrift(Part):
    """Compares each interaction's input with the service's first ones. Used from one thread.

    Until the reference is frozen only empty retrieval is known. The reference is the first `size`
    interactions of the service, all processes together where they share a file.
    """

    def __init__(
        self,
        *,
        size: int = 2_000,
        embed: Embed | None = None,
        embedding: str = "",
        state: State | None = None,
        clock: Clock = time.monotonic,
        wall: Clock = time.time,
    ) -> None:
        """Touch neither disk nor thread yet.

        Args:
            size: Interactions of the reference.
            embed: From texts to vectors; may wait for a network. None: hashed features.
            embedding: Its name and version. Another name is another reference.
            state: Where the reference is kept and shared; None: in memory only.
            clock: For how often to look at the file.
            wall: Seconds since the epoch, as other processes have them.
        """
        name = (embedding or "embedding") if embed is not None else FEATURES
        self._queue = EmbeddingQueue[_Input](embed) if embed is not None else None
        self._shared = SharedReference(
            size=size,
            made_of=f"{name} {size}",
            dense=embed is not None,
            file=state,
            clock=clock,
            wall=wall,
        )
        self._begin()

    def _begin(self) -> None:
        self._dimensions: int | None = None
        self._outcomes: deque[InputOutcomes] = deque()
        self._topics: OrderedDict[str, int] = OrderedDict()
        """The nearest centroid of recent interactions, by id."""

    @property
    def reference(self) -> Reference | None:
        """The frozen reference; None: it is still collected."""
        return self._shared.reference

    def add(self, answer: Answer) -> Sequence[Observation]:
        """Take in one interaction; what it says of the input comes with a later tick."""
        self.observe(answer.interaction, answer.at_s)
        return ()

    def tick(self) -> Iterator[Observation]:
        """Yield what became known of the signals of the input."""
        for result in self.take():
            for signal, value in result.outcomes.items():
                yield Observation(
                    signal=signal,
                    value=float(value),
                    at_s=result.at_s,
                    session=result.session,
                    has_mean=True,
                )

    def gauges(self, means: Means | None = None) -> Sequence[GaugeValue]:
        """Return how much of the reference is collected, and its version once it is frozen."""
        if self.reference is None:
            # 1 is said of a frozen one only.
            return [GaugeValue(name=REFERENCE_RATIO, value=min(self._shared.ratio, 0.999))]
        version = (("version", self.reference.version),)
        return [
            GaugeValue(name=REFERENCE_RATIO, value=1.0),
            GaugeValue(name=REFERENCE_INFO, value=1.0, labels=version),
        ]

    def observe(self, interaction: Interaction, at_s: float) -> None:
        """Take in one interaction; its outcomes come out of `take`, perhaps later.

        Args:
            interaction: As it ended; each once.
            at_s: When, in seconds since the epoch.
        """
        self._advance()
        text = interaction.query.strip()[:MAX_QUESTION]
        is_empty = _is_empty(interaction)
        result = InputOutcomes(
            interaction_id=interaction.id,
            at_s=at_s,
            session=interaction.session_id,
            outcomes={} if is_empty is None else {EMPTY_RETRIEVAL: is_empty},
        )
        entry = _Input(text=text, scores=_scores(interaction), result=result)
        if self._queue is None:
            self._process(entry, packed(features(text)))
        elif not text:
            self._process(entry, b"")
        elif not self._queue.submit(entry, text):
            record_problem(STAGE, "questions wait for the embedding; one went without")
            self._process(entry, b"")

    def take(self) -> Sequence[InputOutcomes]:
        """Return what became known since the last call, oldest first."""
        self._advance()
        taken = list(self._outcomes)
        self._outcomes.clear()
        return taken

    def topic(self, interaction: Interaction) -> str:
        """Return the name of the nearest centroid; empty: not known, or not yet.

        With an embedding of the user's it is known once `take` gave the outcomes.
        """
        if self.reference is None:
            return ""
        topic = self._topics.get(interaction.id)
        if topic is None and self._queue is None:
            placed = self.reference.place(
                packed(features(interaction.query.strip()[:MAX_QUESTION]))
            )
            topic = None if placed is None else placed[0]
        return "" if topic is None else f"topic-{topic:02}"

    def close(self, timeout_s: float = 5.0) -> None:
        """Wait for the embedding and keep what was collected. Nothing is observed later."""
        if self._queue is not None:
            self._queue.close(timeout_s)
        self._advance()
        self._shared.close()

    def clear(self) -> None:
        """Forget everything but the file; for a forked child."""
        if self._queue is not None:
            self._queue.clear()
        self._shared.clear()
        self._begin()

    # --- one input ------------------------------------------------------------------------------

    def _advance(self) -> None:
        if self._queue is not None:
            for entry, point in self._queue.done():
                self._process(entry, point)
        self._shared.advance()

    def _process(self, entry: _Input, point: bytes) -> None:
        if self.reference is not None:
            self._compare(self.reference, entry, point)
        elif self._shared.takes:  # once it is complete it is the first ones
            self._collect(entry, point)
        if len(self._outcomes) >= _MAX_OUTCOMES:
            self._outcomes.popleft()
            record_problem(STAGE, "outcomes wait to be taken; the oldest was dropped")
        self._outcomes.append(entry.result)

    def _compare(self, reference: Reference, entry: _Input, point: bytes) -> None:
        if not entry.text:
            return
        outcomes = entry.result.outcomes
        is_weak = reference.is_weak(entry.scores)
        if is_weak is not None:
            outcomes[WEAK_RETRIEVAL] = is_weak
        try:
            placed = reference.place(point)
        except ValueError as error:  # an embedding that changed its dimensions under its name
            record_error(STAGE, error)
            return
        if placed is None:
            return
        self._topics[entry.result.interaction_id], outcomes[NEW_QUESTION] = placed
        if len(self._topics) > _MAX_TOPICS:
            self._topics.popitem(last=False)

    def _collect(self, entry: _Input, point: bytes) -> None:
        if self._queue is not None and point:
            self._dimensions = self._dimensions or len(point)
            if len(point) != self._dimensions:
                record_problem(STAGE, "the embedding's vectors differ in length")
                point = b""
        result = entry.result
        fold = fold_of(result.session or result.interaction_id)
        asked = Asked(point=point, scores=entry.scores, fold=fold)
        self._shared.add(result.interaction_id, asked)


def _is_empty(interaction: Interaction) -> bool | None:
    """Return whether the model was shown no chunk; None: it was never searched for, or not seen."""
    if interaction.chunks:
        return False
    if interaction.capture_incomplete:
        return None
    ended_early = interaction.status in ("error", "cancelled") and not interaction.retrievals
    return None if ended_early else True


def _scores(interaction: Interaction) -> Scores:
    """Return what the chunks' scores say: those the model saw; failing that, those retrieved."""
    values = _values(interaction.chunks)
    for retrieval in interaction.retrievals:
        values = values or _values(retrieval.chunks)
    if not values:
        return Scores()
    following = values[1:]
    return Scores(
        high=max(values),
        low=min(values),
        rising=sum(map(lt, values, following)),
        falling=sum(map(gt, values, following)),
    )


def _values(chunks: Sequence[Chunk]) -> list[float]:
    return [
        float(chunk.score)
        for chunk in chunks
        if chunk.score is not None and math.isfinite(chunk.score)
    ]
