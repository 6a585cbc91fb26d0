"""Retrieval drift: empty retrievals, and best chunks weaker than nearly all of the first ones."""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from heapq import nsmallest
from operator import gt, lt
from typing import Any, Final, Literal, NamedTuple, Self

from ragmonitor.records import Chunk, Interaction
from ragmonitor.runtime.guard import record_error
from ragmonitor.runtime.protocols import Clock
from ragmonitor.stats.parts import Answer, Observation, Part
from ragmonitor.stats.signals import EMPTY_RETRIEVAL, WEAK_RETRIEVAL
from ragmonitor.store import Kept

STATE_VERSION: Final = 3
"""The version of the file that the processes of a service share."""
WEAK_SHARE: Final = 0.05
"""Share of the reference's own retrievals that count as weak, at most."""
_SAMPLE: Final = 2_000
"""Retrievals of a reference that are kept, drawn evenly from however many it has."""
_MIN_RETRIEVALS: Final = 50
"""With fewer retrievals that have scores there is nothing to compare with."""
_AGREEING: Final = 0.75
"""Share of neighbours in chunk lists that must agree on which way scores go."""
_LOOK_EVERY_S: Final = 30.0
_LOOK_SOON_S: Final = 5.0
"""Between two looks at the file, once the reference is full."""

Direction = Literal["falls", "rises", ""]
"""The direction of scores along a list, best first: `rises` are distances; empty: nobody knows."""


class Scores(NamedTuple):
    """The range and the order of the scores in a list of chunks."""

    high: float | None = None
    low: float | None = None
    rising: int = 0
    """Neighbours of which the second has the greater score."""
    falling: int = 0

    def best(self, direction: Direction) -> float | None:
        """Return the best score, distances negated; None: there is none, or nobody knows which."""
        if direction == "rises":
            return None if self.low is None else -self.low
        return self.high if direction == "falls" else None


@dataclass(slots=True)
class Collected:
    """The retrievals of a reference to be. Merges in any order to the same."""

    count: int = 0
    rising: int = 0
    falling: int = 0
    sample: dict[str, tuple[float | None, float | None]] = field(default_factory=dict)
    """Highest and lowest score by a hash of the interaction's id. Past `_SAMPLE`, those of the
    smallest hashes stay: an even sample, whatever the order and whoever collected them (Cohen and
    Kaplan, "Summarizing data using bottom-k sketches", PODC 2007)."""

    def add(self, interaction_id: str, scores: Scores) -> None:
        """Add one retrieval; the same interaction counts once."""
        key = hashlib.blake2b(interaction_id.encode("utf-8", "replace"), digest_size=8).hexdigest()
        if key not in self.sample:
            one = {key: (scores.high, scores.low)}
            self.merge(Collected(1, scores.rising, scores.falling, one))

    def merge(self, other: Collected) -> None:
        """Add what another process collected."""
        self.count += other.count
        self.rising += other.rising
        self.falling += other.falling
        self.sample.update(other.sample)
        if len(self.sample) > _SAMPLE:
            self.sample = {key: self.sample[key] for key in nsmallest(_SAMPLE, self.sample)}

    @property
    def direction(self) -> Direction:
        """The direction in which scores go along the lists seen."""
        neighbours = self.rising + self.falling
        if self.rising >= _AGREEING * neighbours > 0:
            return "rises"
        return "falls" if self.falling >= _AGREEING * neighbours > 0 else ""

    def state(self) -> dict[str, Any]:
        """Return what JSON can hold."""
        return {
            "count": self.count,
            "rising": self.rising,
            "falling": self.falling,
            "sample": {key: list(scores) for key, scores in self.sample.items()},
        }

    @classmethod
    def restored(cls, state: Mapping[str, Any]) -> Self:
        """Return what was collected. Raises `ValueError`, `KeyError`, `TypeError`."""
        count, rising, falling = (int(state[each]) for each in ("count", "rising", "falling"))
        sample = {str(key): (_score(high), _score(low)) for key, (high, low) in _items(state)}
        if min(count, rising, falling) < 0 or len(sample) > min(count, _SAMPLE):
            raise ValueError("a reference of another shape")
        return cls(count, rising, falling, sample)


@dataclass(frozen=True, slots=True)
class Reference:
    """What later retrievals are compared with; frozen."""

    direction: Direction
    weak_below: float | None
    """A best score that is worse is weak; distances are negated. None: too few retrievals had
    scores, or nobody knows their direction."""

    def is_weak(self, scores: Scores) -> bool | None:
        """Return whether the best score is worse than nearly all of the reference's."""
        best = scores.best(self.direction)
        return None if best is None or self.weak_below is None else best < self.weak_below

    @classmethod
    def of(cls, collected: Collected) -> Self:
        """Return what was collected as a reference."""
        direction = collected.direction
        scores = (Scores(high, low).best(direction) for high, low in collected.sample.values())
        best = sorted(each for each in scores if each is not None)
        is_enough = len(best) >= _MIN_RETRIEVALS
        return cls(direction, best[math.floor(WEAK_SHARE * len(best))] if is_enough else None)

    @classmethod
    def restored(cls, state: Mapping[str, Any]) -> Self:
        """Return the reference of a state. Raises `ValueError`, `KeyError`, `TypeError`."""
        direction = state["direction"]
        if direction not in ("falls", "rises", ""):
            raise ValueError(f"no direction of scores: {direction!r}")
        return cls(direction, _score(state["weak_below"]))


class RetrievalDrift(Part):
    """Compares each retrieval with the service's first ones. Used from one thread.

    Until the reference is frozen only empty retrieval is known. The reference is the first `size`
    interactions of the service, all processes together where they share a file: what each has is
    added to it now and then, and the one that finds it full freezes it. Without one, or where the
    disk fails, each process is on its own.
    """

    def __init__(
        self, *, size: int = 2_000, file: Kept | None = None, clock: Clock = time.monotonic
    ) -> None:
        """Touch no disk yet.

        Args:
            size: Interactions of the reference.
            file: Where the reference is kept and shared; None: in memory only.
            clock: For how often to look at the file.
        """
        self._size = size
        self._file = file
        self._clock = clock
        self.clear()

    def clear(self) -> None:
        """Forget everything but the file; for a forked child."""
        self.reference: Reference | None = None
        """The frozen one; None: it is still collected."""
        self._pending = Collected()
        self._shared = 0
        """Interactions that the file had when last looked at."""
        self._looked_at_s: float | None = None

    @property
    def _ratio(self) -> float:
        return min(1.0, (self._shared + self._pending.count) / self._size)

    def add(self, answer: Answer) -> Sequence[Observation]:
        """Take in one interaction, and return what it says of retrieval."""
        return [
            Observation(
                signal=signal,
                value=float(value),
                at_s=answer.at_s,
                session=answer.interaction.session_id,
                answer=answer.interaction.id,
            )
            for signal, value in self.outcomes(answer.interaction).items()
        ]

    def outcomes(self, interaction: Interaction) -> Mapping[str, bool]:
        """Take in one interaction; return which signals it shows, without those not known."""
        self.tick()
        is_empty, scores = _is_empty(interaction), _scores(interaction)
        found = {} if is_empty is None else {EMPTY_RETRIEVAL: is_empty}
        if self.reference is None:
            if self._ratio < 1:  # once it is complete it is the first ones
                self._pending.add(interaction.id, scores)
        elif interaction.query.strip():
            is_weak = self.reference.is_weak(scores)
            if is_weak is not None:
                found[WEAK_RETRIEVAL] = is_weak
        return found

    def tick(self) -> Sequence[Observation]:
        """Look at the file if it is time to, and freeze a reference that is full."""
        if self.reference is not None:
            return ()
        if self._file is None:
            if self._ratio >= 1:
                self.reference = Reference.of(self._pending)
            return ()
        wait_s = _LOOK_SOON_S if self._ratio >= 1 else _LOOK_EVERY_S
        if self._looked_at_s is None or self._clock() - self._looked_at_s >= wait_s:
            self._exchange(self._file)
        return ()

    def close(self) -> None:
        """Keep what was collected, for other processes."""
        if self._file is not None and self.reference is None and self._pending.count:
            self._exchange(self._file)

    def _exchange(self, file: Kept) -> None:
        """Bring what was collected together with what others did; freeze it when it is full."""
        found: list[Collected | Reference] = []

        def change(state: Mapping[str, Any]) -> Mapping[str, Any] | None:
            try:
                if "weak_below" in state:
                    found.append(Reference.restored(state))
                    return None
                collected, is_new = Collected.restored(state) if state else Collected(), False
            except (ValueError, KeyError, TypeError) as error:
                record_error("drift", error)
                collected, is_new = Collected(), True
            is_new |= self._pending.count > 0
            collected.merge(self._pending)
            if collected.count >= self._size:
                reference = Reference.of(collected)
                found.append(reference)
                return {"direction": reference.direction, "weak_below": reference.weak_below}
            found.append(collected)
            return collected.state() if is_new else None

        is_kept = file.update(change, stage="drift", what="the reference of retrieval drift")
        self._looked_at_s = self._clock()
        if not is_kept:
            if self._pending.count >= self._size:  # a full reference does not wait for the disk
                self.reference = Reference.of(self._pending)
        elif isinstance(found[-1], Reference):
            self.reference, self._pending = found[-1], Collected()
        else:
            self._pending, self._shared = Collected(), found[-1].count


def _items(state: Mapping[str, Any]) -> Any:
    sample = state["sample"]
    if not isinstance(sample, Mapping):
        raise TypeError("a sample that is no object")
    return sample.items()


def _score(value: Any) -> float | None:
    score = None if value is None else float(value)
    if score is not None and not math.isfinite(score):
        raise ValueError("a score that is no number")
    return score


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
