"""The reference that later questions and retrievals are compared with, and what it is made of."""

from __future__ import annotations

import hashlib
import json
import math
from base64 import b64decode, b64encode
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from heapq import nsmallest
from typing import Any, Final, Literal, NamedTuple, Self

from ragmonitor.estimation.drift.centroids import (
    Centroids,
    DenseCentroids,
    HashedCentroids,
    Pause,
    go_on,
)

NEW_SHARE: Final = 0.01
"""Share of the reference's own questions, held out, that count as of a new kind."""
WEAK_SHARE: Final = 0.05
"""Share of the reference's own retrievals that count as weak, at most."""

_SAMPLE: Final = 2_000
"""Questions of a reference that are kept, drawn evenly from however many it has."""
FOLDS: Final = 5
"""Parts of the reference, each held out once while the others are fitted."""
_MIN_QUESTIONS: Final = 50
"""With fewer questions, or retrievals with scores, there is nothing to compare with."""
_AGREEING: Final = 0.75
"""Share of neighbours in chunk lists that must agree on which way scores go."""
_BINS: Final = 8
_PER_BIN: Final = 50

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


class Asked(NamedTuple):
    """One question and its retrieval, as far as a reference remembers them: no text."""

    point: bytes
    """Empty: there was no text, or no embedding of it."""
    scores: Scores
    fold: int = 0
    """The part, of `FOLDS`, that it is held out with. Questions of a session go together: they
    resemble each other as those of tomorrow's sessions will not."""


@dataclass(slots=True)
class Collected:
    """The questions of a reference to be. Merges in any order to the same."""

    count: int = 0
    rising: int = 0
    falling: int = 0
    sample: dict[str, Asked] = field(default_factory=dict)
    """The sample by a hash of the interaction's id. Past `_SAMPLE`, those of the smallest hashes
    stay: an even sample, whatever the order and whoever collected them (Cohen and Kaplan,
    "Summarizing data using bottom-k sketches", PODC 2007)."""

    def add(self, interaction_id: str, asked: Asked) -> None:
        """Add one question; the same interaction counts once."""
        key = hashlib.blake2b(interaction_id.encode("utf-8", "replace"), digest_size=8).hexdigest()
        if key in self.sample:
            return
        self.count += 1
        self.rising += asked.scores.rising
        self.falling += asked.scores.falling
        self.sample[key] = asked
        if len(self.sample) > 2 * _SAMPLE:
            self._trim()

    def merge(self, other: Collected) -> None:
        """Add what another process collected."""
        self.count += other.count
        self.rising += other.rising
        self.falling += other.falling
        self.sample.update(other.sample)
        self._trim()

    def ordered(self) -> list[Asked]:
        """Return the sample, by hash: an order that nobody chose."""
        self._trim()
        return [self.sample[key] for key in sorted(self.sample)]

    @property
    def direction(self) -> Direction:
        """The direction in which scores go along the lists seen."""
        neighbours = self.rising + self.falling
        if self.rising >= _AGREEING * neighbours > 0:
            return "rises"
        return "falls" if self.falling >= _AGREEING * neighbours > 0 else ""

    def _trim(self) -> None:
        if len(self.sample) > _SAMPLE:
            self.sample = {key: self.sample[key] for key in nsmallest(_SAMPLE, self.sample)}

    def state(self) -> dict[str, Any]:
        """Return what JSON can hold."""
        self._trim()
        asked = [
            [key, b64encode(of.point).decode(), of.scores.high, of.scores.low, of.fold]
            for key, of in self.sample.items()
        ]
        return {
            "count": self.count,
            "rising": self.rising,
            "falling": self.falling,
            "asked": asked,
        }

    @classmethod
    def restored(cls, state: Mapping[str, Any]) -> Self:
        """Return what was collected. Raises `ValueError`, `KeyError`, `TypeError`."""
        return cls(
            count=int(state["count"]),
            rising=int(state["rising"]),
            falling=int(state["falling"]),
            sample={
                str(key): Asked(
                    point=b64decode(point), scores=Scores(high=high, low=low), fold=int(fold)
                )
                for key, point, high, low, fold in state["asked"]
            },
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class TypicalDistances:
    """The distances of questions of a length from the nearest centroid, and which are too far."""

    bins: tuple[tuple[float, float, float], ...]
    """Ascending by the first: log of the extent, mean distance, mean deviation from it."""
    limit: float
    """In deviations from the mean: `NEW_SHARE` of the held-out questions lie above."""

    def deviation(self, extent: int, distance: float) -> float:
        """Return how many mean deviations a distance lies above those of its length."""
        at = math.log(extent)
        right = bisect_right(self.bins, at, key=lambda of: of[0])
        low, high = self.bins[max(0, right - 1)], self.bins[min(right, len(self.bins) - 1)]
        between = (at - low[0]) / (high[0] - low[0]) if high[0] > low[0] else 0.0
        mean = low[1] + between * (high[1] - low[1])
        spread = low[2] + between * (high[2] - low[2])
        # Rounded: what differs in the last bits is no news where questions repeat word for word.
        return round((distance - mean) / spread, 6)

    @classmethod
    def of(cls, held_out: Sequence[tuple[int, float]]) -> Self:
        """Return what extents and distances of held-out questions imply; at least one."""
        ordered = sorted((math.log(extent), distance) for extent, distance in held_out)
        groups: dict[float, list[tuple[float, float]]] = {}
        bins = max(1, min(_BINS, len(ordered) // _PER_BIN))
        for at, pair in enumerate(ordered):
            # Equal extents share a group, so that the order of equals decides nothing.
            edge = ordered[at * bins // len(ordered) * len(ordered) // bins][0]
            groups.setdefault(edge, []).append(pair)
        overall = _spread([distance for _, distance in ordered])
        per_bin = tuple(
            (
                math.fsum(at for at, _ in group) / len(group),
                math.fsum(distance for _, distance in group) / len(group),
                max(_spread([distance for _, distance in group]), 0.2 * overall, 1e-3),
            )
            for _, group in sorted(groups.items())
        )
        unlimited = cls(bins=per_bin, limit=0.0)
        deviations = sorted(unlimited.deviation(extent, distance) for extent, distance in held_out)
        # The conformal quantile: a question like these lies above with a chance of at most
        # NEW_SHARE (Vovk et al., "Algorithmic learning in a random world", 2005, 2.3).
        at = math.ceil((1 - NEW_SHARE) * (len(deviations) + 1)) - 1
        return cls(bins=per_bin, limit=deviations[min(at, len(deviations) - 1)])


def _spread(values: Sequence[float]) -> float:
    mean = math.fsum(values) / len(values)
    return math.fsum(abs(value - mean) for value in values) / len(values)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """The frozen reference."""

    state: Mapping[str, Any]
    """The form in which JSON holds it."""
    version: str
    """Hash of the state and of what it is made of: another version compares differently."""
    centroids: Centroids | None
    """None: hardly any question had a text."""
    typical: TypicalDistances | None
    direction: Direction
    weak_below: float | None
    """A best score that is worse is weak; distances are negated. None: too few retrievals had
    scores, or nobody knows their direction."""

    def place(self, point: bytes) -> tuple[int, bool] | None:
        """Return a question's nearest centroid and whether it is of a new kind; None: unknown.

        Raises:
            ValueError: The point is of another kind.
        """
        if not point or self.centroids is None or self.typical is None:
            return None
        nearest, distance = self.centroids.nearest(point)
        deviation = self.typical.deviation(self.centroids.extent(point), distance)
        return nearest, deviation > self.typical.limit

    def is_weak(self, scores: Scores) -> bool | None:
        """Return whether the best score is worse than nearly all of the reference's."""
        best = scores.best(self.direction)
        return None if best is None or self.weak_below is None else best < self.weak_below

    @classmethod
    def restored(cls, state: Mapping[str, Any], *, made_of: str, pause: Pause = go_on) -> Self:
        """Build the reference of a state.

        Raises:
            ValueError, KeyError, TypeError: It is none of ours.

        Args:
            state: As a reference has it.
            made_of: Which embedding and what size: part of the version.
            pause: Called now and then.
        """
        kind = DenseCentroids if state["kind"] == "dense" else HashedCentroids
        bins = tuple((float(at), float(mean), float(of)) for at, mean, of in state["bins"])
        content = json.dumps([made_of, state], sort_keys=True)
        return cls(
            state=state,
            version=hashlib.blake2b(content.encode(), digest_size=6).hexdigest(),
            centroids=kind(state["centroids"], pause) if state["centroids"] else None,
            typical=TypicalDistances(bins=bins, limit=float(state["limit"])) if bins else None,
            direction=state["direction"],
            weak_below=None if state["weak_below"] is None else float(state["weak_below"]),
        )

    @classmethod
    def fitted(
        cls, collected: Collected, *, dense: bool, made_of: str, pause: Pause = go_on
    ) -> Self:
        """Freeze what was collected. Takes seconds.

        Args:
            collected: Not to be changed meanwhile.
            dense: The points are vectors of an embedding, not hashed features.
            made_of: Which embedding and what size; k-means draws from it.
            pause: Called now and then.
        """
        asked = collected.ordered()
        with_text = [one for one in asked if one.point]
        # A question that is asked again counts once. Else what is held out is in the others too,
        # and hardly a question lies so near to its neighbours as one does to itself.
        distinct = [*{one.point: one for one in reversed(with_text)}.values()]
        kind = DenseCentroids if dense else HashedCentroids
        centroids: Centroids | None = None
        typical: TypicalDistances | None = None
        if len(with_text) >= _MIN_QUESTIONS:
            typical = TypicalDistances.of(_held_out(distinct, kind, made_of, pause))
            centroids = kind.fitted([one.point for one in distinct], made_of, pause)
        direction = collected.direction
        state = {
            "kind": "dense" if dense else "hashed",
            "centroids": centroids.state if centroids else None,
            "bins": typical.bins if typical else (),
            "limit": typical.limit if typical else 0.0,
            "direction": direction,
            "weak_below": _weak_below([one.scores for one in asked], direction),
        }
        # By the way that a restart takes, so that a restart changes nothing.
        return cls.restored(state, made_of=made_of, pause=pause)


def fold_of(name: str) -> int:
    """Return the part that questions of a session go to; or, without one, an interaction."""
    digest = hashlib.blake2b(name.encode("utf-8", "replace"), digest_size=8, person=b"fold")
    return int.from_bytes(digest.digest(), "big") % FOLDS


def _held_out(
    asked: Sequence[Asked],
    kind: type[DenseCentroids | HashedCentroids],
    made_of: str,
    pause: Pause,
) -> list[tuple[int, float]]:
    """Return each question's extent and its distance from centroids fitted without it."""
    folds = [one.fold for one in asked]
    if len(set(folds)) < FOLDS:  # hardly a session, or one for everything
        folds = [at % FOLDS for at in range(len(asked))]
    held_out: list[tuple[int, float]] = []
    for fold in range(FOLDS):
        inside = [one.point for one, of in zip(asked, folds, strict=True) if of == fold]
        others = [one.point for one, of in zip(asked, folds, strict=True) if of != fold]
        # One question alone is held out of nothing.
        centroids = kind.fitted(others or inside, made_of, pause)
        for point in inside:
            held_out.append((centroids.extent(point), centroids.nearest(point)[1]))
            pause()
    return held_out


def _weak_below(retrievals: Sequence[Scores], direction: Direction) -> float | None:
    best = sorted(of for of in (scores.best(direction) for scores in retrievals) if of is not None)
    return best[math.floor(WEAK_SHARE * len(best))] if len(best) >= _MIN_QUESTIONS else None
