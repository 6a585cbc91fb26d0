"""Fits about twenty centroids to a reference's questions, and finds the nearest of a question.

There are two kinds of point: hashed features (ours) and dense vectors (of the user's embedding).
Clustering is spherical k-means (Dhillon and Modha, "Concept decompositions for large sparse text
data using clustering", Machine Learning 42, 2001) after k-means++ (Arthur and Vassilvitskii,
SODA 2007), in pure Python: the same points in the same order always give the same centroids.
"""

from __future__ import annotations

import math
import operator
import random
import struct
from array import array
from base64 import b64decode, b64encode
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import chain, repeat
from typing import Any, Final, Protocol

from ragmonitor.estimation.drift.features import Features

Pause = Callable[[], None]
"""Called for each question of a fit, which may rest in it and may be ended by what it raises."""

CENTROIDS: Final = 20
_ROUNDS: Final = 6
"""The rounds of k-means; after these hardly a question moves."""
_SEEDED_FROM: Final = 500
"""Dense vectors that k-means++ chooses from."""
_DAMPING: Final = 1.5
"""Power of the inverse document frequency. Rare features tell topics apart; of all powers tried
(0.5 to 2) this one tells new topics apart best."""
_SHRINKAGE: Final = 60.0
"""Questions' worth of the overall mean in each centroid: a small cluster is mostly noise."""

_ITEM: Final = array("I").itemsize
_COLUMNS: Final = {
    "features": "I",
    "frequencies": "I",
    "cells": "B",
    "places": "B",
    "values": "f",
}
"""Arrays that hold hashed centroids on disk, with their types: for each feature how many questions
have it and how many centroids do; for each of these the centroid and the sum there."""


class Centroids(Protocol):
    """Fitted centroids of points of one kind; a point is bytes, so that it can be kept anywhere."""

    state: Mapping[str, Any]
    """The form in which JSON holds them, and from which a class builds them."""

    def nearest(self, point: bytes) -> tuple[int, float]:
        """Return the nearest centroid and the distance to it."""
        ...

    def extent(self, point: bytes) -> int:
        """Return how much a point can say, at least 1: a longer text's distance is another one."""
        ...


def go_on() -> None:
    """Do not pause."""


class HashedCentroids:
    """Centroids of hashed features, damped by how frequent each is in the reference.

    The distance is 1 - cosine, 0 to 1. A feature that the reference lacks has the greatest weight
    of all and lies in no centroid.
    """

    def __init__(self, state: Mapping[str, Any], pause: Pause = go_on) -> None:
        """Build the centroids of a state.

        Raises:
            ValueError, KeyError, TypeError: It is none of ours.
        """
        questions = int(state["questions"])
        columns = {name: str(state[name]) for name in _COLUMNS}
        self.state: Mapping[str, Any] = {"questions": questions, **columns}
        features, frequencies, cells, places, values = (
            array(code, b64decode(columns[name])) for name, code in _COLUMNS.items()
        )
        if not len(features) == len(frequencies) == len(cells) or sum(cells) != len(places):
            raise ValueError("the parts of the centroids do not fit together")
        lengths = [0.0] * (1 + max(places, default=0))
        self._share = _SHRINKAGE / max(1, questions)
        self._unknown = _weight(questions, 0) ** 2
        self._squares: dict[int, float] = {}
        """The squared weight of each feature."""
        self._rows: dict[int, tuple[float, ...]] = {}
        """The addition of each feature, for each centroid, to the product of a question and the sum
        of the centroid's questions."""
        means = 0.0
        entries = zip(places, values, strict=True)
        for feature, frequency, held in zip(features, frequencies, cells, strict=True):
            weight = _weight(questions, frequency)
            cell = [next(entries) for _ in range(held)]
            mean = self._share * sum(value for _, value in cell)
            means += mean**2
            row = [0.0] * len(lengths)
            for place, value in cell:
                row[place] = value * weight
                lengths[place] += (value + 2 * mean) * value  # (value + mean)^2 less mean^2
            self._squares[feature], self._rows[feature] = weight**2, tuple(row)
            pause()
        self._inverse = [1 / math.sqrt(of + means) if of + means else 0.0 for of in lengths]

    def nearest(self, point: bytes) -> tuple[int, float]:
        """Return the nearest centroid and the distance to it, 0 to 1."""
        squares, rows = self._squares, self._rows
        features = unpacked(point)
        known = [row for row in map(rows.get, features) if row is not None]
        if not known:
            return 0, 1.0
        unknown = self._unknown
        length = math.sqrt(sum(map(squares.get, features, repeat(unknown))))
        sums = list(map(sum, zip(*known, strict=True)))
        mean = self._share * sum(sums)
        cosines = [(of + mean) * inverse for of, inverse in zip(sums, self._inverse, strict=True)]
        best = max(cosines)
        return cosines.index(best), max(0.0, 1 - best / length)

    def extent(self, point: bytes) -> int:
        """Return the number of features."""
        return max(1, len(point) // _ITEM)

    @classmethod
    def fitted(cls, points: Sequence[bytes], seed: str, pause: Pause = go_on) -> HashedCentroids:
        """Return centroids of these points; the seed decides the first ones."""
        questions = [unpacked(point) for point in points]
        frequencies = Counter(chain.from_iterable(questions))
        weights = {f: _weight(len(points), n) for f, n in frequencies.items()}
        clusters = _Clusters(questions, weights, pause)
        # What one question alone has would only hold it where it is.
        shared = [tuple([f for f in of if frequencies[f] > 1]) for of in questions]
        clusters.seed(shared, random.Random(seed))
        for _ in range(_ROUNDS):
            if not clusters.move(shared):
                break
        sums = clusters.sums(questions)
        return cls({"questions": len(points)} | _packed_columns(sums, frequencies), pause)


class _Clusters:
    """The places of questions among the centroids, while k-means moves them."""

    def __init__(
        self, questions: Sequence[Sequence[int]], weights: Mapping[int, float], pause: Pause
    ) -> None:
        self._weights = weights
        self._pause = pause
        lengths = [math.sqrt(sum([weights[f] ** 2 for f in features])) for features in questions]
        self._inverse = [1 / length if length else 0.0 for length in lengths]
        self._places = [0] * len(questions)

    def seed(self, questions: Sequence[Features], rng: random.Random) -> None:
        """Give every question a first place: k-means++, by squared distances."""
        nearest = [2.0] * len(questions)
        chosen = rng.randrange(len(questions))
        for at in range(CENTROIDS):
            centre = {f: self._weights[f] ** 2 * self._inverse[chosen] for f in questions[chosen]}
            for question, features in enumerate(questions):
                cosine = sum([centre[f] for f in features if f in centre]) * self._inverse[question]
                # Of two vectors of length 1.
                distance = max(0.0, 2 - 2 * cosine)
                if distance < nearest[question]:
                    nearest[question], self._places[question] = distance, at
                self._pause()
            nearest[chosen], self._places[chosen] = 0.0, at
            if not any(nearest):
                break
            chosen = rng.choices(range(len(questions)), nearest)[0]

    def sums(self, questions: Sequence[Sequence[int]]) -> dict[int, dict[int, float]]:
        """Return the sum of each centroid's questions: by feature, by centroid."""
        sums: dict[int, dict[int, float]] = {}
        for question, features in enumerate(questions):
            at, inverse = self._places[question], self._inverse[question]
            for feature in features:
                row = sums.setdefault(feature, {})
                row[at] = row.get(at, 0.0) + self._weights[feature] * inverse
            self._pause()
        return sums

    def move(self, questions: Sequence[Features]) -> bool:
        """Put every question with its nearest centroid; return whether one moved."""
        lengths = [0.0] * CENTROIDS
        rows: dict[int, tuple[float, ...]] = {}
        for feature, sums in self.sums(questions).items():
            row = [0.0] * CENTROIDS
            for at, value in sums.items():
                row[at] = value * self._weights[feature]
                lengths[at] += value**2
            rows[feature] = tuple(row)
            self._pause()
        inverse = [1 / math.sqrt(length) if length else 0.0 for length in lengths]
        before = list(self._places)
        for question, features in enumerate(questions):
            if features:
                columns = zip(*[rows[feature] for feature in features], strict=True)
                cosines = list(map(operator.mul, map(sum, columns), inverse))
                self._places[question] = cosines.index(max(cosines))
            self._pause()
        return self._places != before


def _packed_columns(
    sums: Mapping[int, Mapping[int, float]], frequencies: Mapping[int, int]
) -> dict[str, str]:
    """Return `_COLUMNS` in base 64; centroids without a question are left out."""
    used = sorted({place for row in sums.values() for place in row})
    features = sorted(sums)
    cells = [(used.index(place), sums[f][place]) for f in features for place in sorted(sums[f])]
    columns: dict[str, Sequence[float]] = {
        "features": features,
        "frequencies": [frequencies[feature] for feature in features],
        "cells": [len(sums[feature]) for feature in features],
        "places": [place for place, _ in cells],
        "values": [value for _, value in cells],
    }
    return {name: _encoded(array(_COLUMNS[name], of)) for name, of in columns.items()}


def _encoded(numbers: array[Any]) -> str:
    return b64encode(numbers.tobytes()).decode()


def _weight(questions: int, frequency: int) -> float:
    """Return a feature's weight: damped inverse document frequency.

    Source: Sparck Jones, "A statistical interpretation of term specificity" (1972); smoothed.
    """
    return math.pow(math.log((questions + 1) / (frequency + 0.5)), _DAMPING)


class DenseCentroids:
    """Centroids of a user's own embedding; the distance is that of vectors of length 1, 0 to 2."""

    def __init__(self, state: Mapping[str, Any], pause: Pause = go_on) -> None:
        """Build the centroids of a state.

        Raises:
            ValueError, KeyError, TypeError: It is none of ours.
        """
        self.state: Mapping[str, Any] = {"centres": [str(centre) for centre in state["centres"]]}
        self._centres = [_unit(array("f", b64decode(of))) for of in self.state["centres"]]

    def nearest(self, point: bytes) -> tuple[int, float]:
        """Return the nearest centroid and the distance to it, 0 to 2.

        Raises:
            ValueError: The vector is not of the centroids' length.
        """
        vector = dense(point)
        distances = [math.dist(vector, centre) for centre in self._centres]
        best = min(distances)
        return distances.index(best), best

    def extent(self, point: bytes) -> int:
        """Return 1: a vector does not tell how long its text was."""
        return 1

    @classmethod
    def fitted(cls, points: Sequence[bytes], seed: str, pause: Pause = go_on) -> DenseCentroids:
        """Return centroids of these points; the seed decides the first ones."""
        centres = _seeds(points, random.Random(seed), pause)
        places: list[int] = []
        for _ in range(_ROUNDS):
            before, places = places, []
            sums: dict[int, Sequence[float]] = {}
            units = [_unit(centre) for centre in centres]
            for point in points:
                vector = dense(point)
                distances = [math.dist(vector, unit) for unit in units]
                place = distances.index(min(distances))
                places.append(place)
                known = sums.get(place)
                sums[place] = vector if known is None else [*map(operator.add, known, vector)]
                pause()
            if places == before:
                break
            centres = [sums[at] for at in sorted(sums)]
        return cls({"centres": [_encoded(array("f", _unit(centre))) for centre in centres]})


def _seeds(points: Sequence[bytes], rng: random.Random, pause: Pause) -> list[Sequence[float]]:
    """Return the first centres: k-means++."""
    # Vectors are unpacked anew for each use, which costs more than to compare them: a part of
    # them is enough to begin with.
    some = points if len(points) <= _SEEDED_FROM else rng.sample(points, _SEEDED_FROM)
    nearest = [math.inf] * len(some)
    centres: list[Sequence[float]] = [dense(some[rng.randrange(len(some))])]
    while True:
        for at, point in enumerate(some):
            nearest[at] = min(nearest[at], math.dist(dense(point), centres[-1]) ** 2)
            pause()
        # What is left of equal vectors is rounding.
        nearest = [distance if distance > 1e-9 else 0.0 for distance in nearest]
        if len(centres) == CENTROIDS or not any(nearest):
            return centres
        centres.append(dense(rng.choices(some, nearest)[0]))


def packed(features: Features) -> bytes:
    """Return hashed features as a point."""
    return struct.pack(f"{len(features)}I", *features)  # a sixth of the time of an array


def unpacked(point: bytes) -> array[int]:
    """Return the hashed features of a point."""
    return array("I", point)


def packed_dense(vector: Sequence[float]) -> bytes:
    """Return a vector as a point: its direction, each coordinate in one byte.

    Raises:
        ValueError: It has no length, or one that is not finite.
    """
    largest = max(map(abs, vector), default=0.0)
    if not (0 < largest < math.inf) or any(map(math.isnan, vector)):
        raise ValueError("an embedding gave a vector without a direction")
    return array("b", [round(127 * value / largest) for value in vector]).tobytes()


def dense(point: bytes) -> tuple[float, ...]:
    """Return the vector of a point, of length 1."""
    return _unit(array("b", point))


def _unit(vector: Sequence[float]) -> tuple[float, ...]:
    length = math.hypot(*vector)
    if not length:
        return tuple(vector)
    inverse = 1 / length
    return tuple([value * inverse for value in vector])
