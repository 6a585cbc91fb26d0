"""What later questions and retrievals are compared with: collected, then frozen and versioned."""

from __future__ import annotations

import hashlib
import json
import math
from base64 import b64decode, b64encode
from bisect import bisect_right
from collections import Counter
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import nsmallest
from typing import Any, Final, Literal, Self

from ragmonitor.estimation.drift.centroids import (
    Centroids,
    DenseCentroids,
    HashedCentroids,
    unpacked,
)

NOVEL_SHARE: Final = 0.01
"""Of the reference's own questions, held out, that count as novel."""
WEAK_SHARE: Final = 0.05
"""Of the reference's own retrievals that count as weak, at most."""

_SAMPLE: Final = 2_000
"""Questions of a reference that are kept, drawn evenly from however many it has."""
FOLDS: Final = 5
"""Parts of the reference, each held out once while the others are fitted."""
_FEWEST: Final = 50
"""Questions, and retrievals with scores, without which there is nothing to compare with."""
_AGREEING: Final = 0.75
"""Share of neighbours in chunk lists that must agree on which way scores go."""
_BINS: Final = 8
_PER_BIN: Final = 50

Direction = Literal["falls", "rises", ""]
"""How scores go along a list, best first: `rises` are distances; empty: nobody knows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scores:
    """What a list of chunks says of its scores."""

    high: float | None = None
    low: float | None = None
    rising: int = 0
    """Neighbours of which the second has the greater score."""
    falling: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """One question and its retrieval, as far as a reference remembers them: no text."""

    point: bytes
    """Empty: there was no text, or no embedding of it."""
    grams: bytes
    """Hashed features, to name topics by, where the point is not made of them; or empty."""
    scores: Scores
    fold: int = 0
    """Which of `FOLDS` parts it is held out with. Questions of a session go together: they
    resemble each other as those of tomorrow's sessions will not."""


@dataclass(slots=True)
class Collected:
    """Questions of a reference to be. Merges in any order to the same."""

    count: int = 0
    rising: int = 0
    falling: int = 0
    sample: dict[str, Asked] = field(default_factory=dict)
    """By a hash of the interaction's id. Past `_SAMPLE`, those of the smallest hashes stay: an even
    sample, whatever the order and whoever collected them (Cohen and Kaplan, "Summarizing data
    using bottom-k sketches", PODC 2007)."""

    def add(self, id_: str, asked: Asked) -> None:
        """Take one question; the same interaction counts once."""
        key = hashlib.blake2b(id_.encode("utf-8", "replace"), digest_size=8).hexdigest()
        if key in self.sample:
            return
        self.count += 1
        self.rising += asked.scores.rising
        self.falling += asked.scores.falling
        self.sample[key] = asked
        if len(self.sample) > 2 * _SAMPLE:
            self._trim()

    def merge(self, other: Collected) -> None:
        """Take what another process collected."""
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
        """Which way scores go along the lists seen."""
        told = self.rising + self.falling
        if self.rising >= _AGREEING * told > 0:
            return "rises"
        return "falls" if self.falling >= _AGREEING * told > 0 else ""

    def _trim(self) -> None:
        if len(self.sample) > _SAMPLE:
            self.sample = {key: self.sample[key] for key in nsmallest(_SAMPLE, self.sample)}

    def state(self) -> dict[str, Any]:
        """Return what JSON can hold."""
        self._trim()
        return {
            "count": self.count,
            "rising": self.rising,
            "falling": self.falling,
            "asked": [
                [
                    key,
                    b64encode(asked.point).decode(),
                    b64encode(asked.grams).decode(),
                    asked.scores.high,
                    asked.scores.low,
                    asked.fold,
                ]
                for key, asked in self.sample.items()
            ],
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
                    point=b64decode(point),
                    grams=b64decode(grams),
                    scores=Scores(high=high, low=low),
                    fold=int(fold),
                )
                for key, point, grams, high, low, fold in state["asked"]
            },
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Typical:
    """Distances to the nearest centroid that questions of a length have, and which are too far."""

    bins: tuple[tuple[float, float, float], ...]
    """Ascending by the first: log of the extent, mean distance, mean deviation from it."""
    limit: float
    """In deviations from the mean: `NOVEL_SHARE` of the held-out questions lie above."""

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
        """Return what extents and distances of held-out questions say; at least one."""
        ordered = sorted((math.log(extent), distance) for extent, distance in held_out)
        groups: dict[float, list[tuple[float, float]]] = {}
        bins = max(1, min(_BINS, len(ordered) // _PER_BIN))
        for at, pair in enumerate(ordered):
            # Equal extents share a group, so that the order of equals decides nothing.
            edge = ordered[at * bins // len(ordered) * len(ordered) // bins][0]
            groups.setdefault(edge, []).append(pair)
        overall = _spread([distance for _, distance in ordered])
        told = tuple(
            (
                math.fsum(at for at, _ in group) / len(group),
                math.fsum(distance for _, distance in group) / len(group),
                max(_spread([distance for _, distance in group]), 0.2 * overall, 1e-3),
            )
            for _, group in sorted(groups.items())
        )
        typical = cls(bins=told, limit=0.0)
        deviations = sorted(typical.deviation(extent, distance) for extent, distance in held_out)
        # The conformal quantile: a question like these lies above with a chance of at most
        # NOVEL_SHARE (Vovk et al., "Algorithmic learning in a random world", 2005, 2.3).
        at = math.ceil((1 - NOVEL_SHARE) * (len(deviations) + 1)) - 1
        return cls(bins=told, limit=deviations[min(at, len(deviations) - 1)])


def _spread(values: Sequence[float]) -> float:
    mean = math.fsum(values) / len(values)
    return math.fsum(abs(value - mean) for value in values) / len(values)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """The frozen reference."""

    version: str
    """Of everything below: another version is another ruler."""
    centroids: Centroids | None
    """None: hardly any question had a text."""
    typical: Typical | None
    counts: tuple[int, ...]
    """Of the reference's questions, by nearest centroid."""
    labels: tuple[str, ...]
    """One per centroid."""
    direction: Direction
    weak_below: float | None
    """A best score that is worse is weak; distances are negated. None: too few retrievals had
    scores, or nobody knows their direction."""

    def place(self, point: bytes) -> tuple[int, bool] | None:
        """Return the topic of a question and whether it is novel; None: it cannot be said.

        Raises:
            ValueError: The point is of another kind.
        """
        if not point or self.centroids is None or self.typical is None:
            return None
        topic, distance = self.centroids.nearest(point)
        deviation = self.typical.deviation(self.centroids.extent(point), distance)
        return topic, deviation > self.typical.limit

    def weak(self, scores: Scores) -> bool | None:
        """Return whether the best score is worse than nearly all of the reference's."""
        best = _best(scores, self.direction)
        return None if best is None or self.weak_below is None else best < self.weak_below

    def state(self) -> dict[str, Any]:
        """Return what JSON can hold."""
        return {
            "kind": "dense" if isinstance(self.centroids, DenseCentroids) else "hashed",
            "centroids": self.centroids.state() if self.centroids else None,
            "bins": self.typical.bins if self.typical else (),
            "limit": self.typical.limit if self.typical else 0.0,
            "counts": self.counts,
            "labels": self.labels,
            "direction": self.direction,
            "weak_below": self.weak_below,
        }

    @classmethod
    def restored(cls, state: Mapping[str, Any], *, made_of: str) -> Generator[None, None, Self]:
        """Build the reference of a state, in slices; the generator returns it.

        Raises:
            ValueError, KeyError, TypeError: It is none of ours.

        Args:
            state: As `state()` gave it.
            made_of: Which embedding and what size: part of the version.
        """
        kind = DenseCentroids if state["kind"] == "dense" else HashedCentroids
        centroids: Centroids | None = None
        if state["centroids"]:
            centroids = yield from kind.restored(state["centroids"])
        bins = tuple((float(at), float(mean), float(of)) for at, mean, of in state["bins"])
        return cls(
            version=_version(made_of, state),
            centroids=centroids,
            typical=Typical(bins=bins, limit=float(state["limit"])) if bins else None,
            counts=tuple(int(count) for count in state["counts"]),
            labels=tuple(str(label) for label in state["labels"]),
            direction=state["direction"],
            weak_below=None if state["weak_below"] is None else float(state["weak_below"]),
        )

    @classmethod
    def fitted(
        cls,
        collected: Collected,
        *,
        dense: bool,
        made_of: str,
        words: Mapping[int, str],
    ) -> Generator[None, None, Self]:
        """Freeze what was collected, in slices of some milliseconds; returns the reference.

        Args:
            collected: Not to be changed meanwhile.
            dense: The points are vectors of an embedding, not hashed features.
            made_of: Which embedding and what size; k-means draws from it.
            words: By hashed feature, to name topics by; empty: they get numbers only.
        """
        asked = collected.ordered()
        # A question that is asked again counts once. Else what is held out is in the others too,
        # and hardly a question lies so near to its neighbours as one does to itself.
        # By its words: an embedding may put unlike questions at one point.
        times = Counter(one.grams or one.point for one in asked if one.point)
        kept = [*{one.grams or one.point: one for one in reversed(asked) if one.point}.values()]
        kind = DenseCentroids if dense else HashedCentroids
        centroids: Centroids | None = None
        held_out: list[tuple[int, float]] = []
        topics: list[int] = []
        if times.total() >= _FEWEST:
            points = [one.point for one in kept]
            folds = [one.fold for one in kept]
            if len(set(folds)) < FOLDS:  # hardly a session, or one for everything
                folds = [at % FOLDS for at in range(len(kept))]
            for fold in range(FOLDS):
                others = [point for point, of in zip(points, folds, strict=True) if of != fold]
                # One question alone is held out of nothing.
                fit = yield from kind.fitted(others or points, made_of)
                for point, of in zip(points, folds, strict=True):
                    if of == fold:
                        held_out.append((fit.extent(point), fit.nearest(point)[1]))
                        yield
            centroids = yield from kind.fitted(points, made_of)
            for point in points:
                topics.append(centroids.nearest(point)[0])
                yield
        count = centroids.count if centroids else 0
        typical = Typical.of(held_out) if held_out else None
        yield
        direction = collected.direction
        told = {
            "kind": "dense" if dense else "hashed",
            "centroids": centroids.state() if centroids else None,
            "bins": typical.bins if typical else (),
            "limit": typical.limit if typical else 0.0,
            "counts": [
                sum(
                    times[one.grams or one.point]
                    for one, of in zip(kept, topics, strict=True)
                    if of == topic
                )
                for topic in range(count)
            ],
            "labels": _labels(
                count, topics, [one.grams if dense else one.point for one in kept], words
            ),
            "direction": direction,
            "weak_below": _weak_below([one.scores for one in asked], direction),
        }
        yield
        # By the way that a restart takes, so that a restart changes nothing.
        return (yield from cls.restored(told, made_of=made_of))


def fold_of(name: str) -> int:
    """Return the part that questions of a session go to; or, without one, an interaction."""
    digest = hashlib.blake2b(name.encode("utf-8", "replace"), digest_size=8, person=b"fold")
    return int.from_bytes(digest.digest(), "big") % FOLDS


def _version(made_of: str, state: Mapping[str, Any]) -> str:
    told = json.dumps(
        [
            made_of,
            state["kind"],
            state["centroids"],
            state["bins"],
            state["limit"],
            state["direction"],
            state["weak_below"],
        ],
        sort_keys=True,
    )
    return hashlib.blake2b(told.encode(), digest_size=6).hexdigest()


def _best(scores: Scores, direction: Direction) -> float | None:
    if direction == "rises":
        return None if scores.low is None else -scores.low
    return scores.high if direction == "falls" else None


def _weak_below(retrievals: Sequence[Scores], direction: Direction) -> float | None:
    best = sorted(
        of for of in (_best(scores, direction) for scores in retrievals) if of is not None
    )
    return best[math.floor(WEAK_SHARE * len(best))] if len(best) >= _FEWEST else None


def _labels(
    count: int, topics: Sequence[int], questions: Sequence[bytes], words: Mapping[int, str]
) -> list[str]:
    """Return `topic-07 refund card`: the number, and what is asked there more than elsewhere."""
    everywhere: Counter[int] = Counter()
    here: list[Counter[int]] = [Counter() for _ in range(count)]
    if words:
        for topic, question in zip(topics, questions, strict=True):
            found = [feature for feature in unpacked(question) if feature in words]
            everywhere.update(found)
            here[topic].update(found)
    labels = []
    for topic, counts in enumerate(here):
        size = max(1, topics.count(topic))
        typical = sorted(
            # In three questions at least: a word of one person is nobody's topic.
            (feature for feature, n in counts.items() if n >= 3),
            key=lambda f: (
                -counts[f] / size * math.log(counts[f] * len(topics) / (size * everywhere[f])),
                words[f],
            ),
        )
        labels.append(" ".join([f"topic-{topic:02}", *(words[feature] for feature in typical[:2])]))
    return labels
