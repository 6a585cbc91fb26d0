"""About twenty centroids of a reference's questions, and which of them is the nearest.

Two kinds of point: hashed features (our own) and dense vectors (an embedding of the user's).
Clustering is spherical k-means (Dhillon and Modha, "Concept decompositions for large sparse text
data using clustering", Machine Learning 42, 2001) after k-means++ (Arthur and Vassilvitskii,
SODA 2007). Fitting is a generator that yields every few milliseconds, so that an event loop can
do something else in between; it is done in pure Python, and the same points in the same order
always give the same centroids.
"""

from __future__ import annotations

import math
import operator
import random
from array import array
from base64 import b64decode, b64encode
from collections import Counter
from collections.abc import Generator, Mapping, Sequence
from typing import Any, Final, Protocol, Self

from ragmonitor.estimation.drift.features import Features

CENTROIDS: Final = 20
_ROUNDS: Final = 6
"""Of k-means; hardly a question still moves then."""
_BEGINNING: Final = 500
"""Dense vectors that k-means++ chooses from."""
_SLICE: Final = 32
"""Questions between two yields: at most some milliseconds."""
_DAMPING: Final = 1.5
"""Power of the inverse document frequency: what is rare in the reference tells topics apart, and
of all powers tried (0.5 to 2) this one tells new topics apart best."""
_SHRINKAGE: Final = 60.0
"""Questions' worth of the overall mean in each centroid: a small cluster is mostly noise."""

_ITEM: Final = array("I").itemsize


class Centroids(Protocol):
    """Fitted centroids of points of one kind; a point is bytes, so that it can be kept anywhere."""

    @property
    def count(self) -> int:
        """How many there are; fewer than `CENTROIDS` where questions are few or alike."""
        ...

    def nearest(self, point: bytes) -> tuple[int, float]:
        """Return the nearest centroid and the distance to it."""
        ...

    def extent(self, point: bytes) -> int:
        """Return how much a point can say, at least 1: a longer text's distance is another one."""
        ...

    def state(self) -> Mapping[str, Any]:
        """Return what JSON can hold of them."""
        ...


class HashedCentroids:
    """Centroids of hashed features, damped by how frequent each is in the reference.

    The distance is 1 - cosine, 0 to 1. A feature that the reference lacks has the greatest weight
    of all and lies in no centroid.
    """

    def __init__(
        self,
        questions: int,
        squares: Mapping[int, float],
        rows: Mapping[int, tuple[float, ...]],
        lengths: Sequence[float],
        stored: Mapping[str, str],
    ) -> None:
        """Take what `restored` built; not to be called otherwise."""
        self.count = len(lengths)
        self._questions = questions
        self._squares = squares
        """By feature, its squared weight."""
        self._unseen = _weight(questions, 0) ** 2
        self._rows = rows
        """By feature: for each centroid, what it adds to the product of a question and the sum of
        the centroid's questions."""
        self._inverse = [1 / length if length else 0.0 for length in lengths]
        self._share = _SHRINKAGE / max(1, questions)
        self._stored = stored

    def nearest(self, point: bytes) -> tuple[int, float]:
        """Return the nearest centroid and the distance to it, 0 to 1."""
        squares, rows = self._squares, self._rows
        found = unpacked(point)
        known = [rows[feature] for feature in found if feature in rows]
        if not known:
            return 0, 1.0
        unseen = self._unseen
        length = math.sqrt(sum([squares.get(feature, unseen) for feature in found]))
        sums = list(map(sum, zip(*known, strict=True)))
        mean = self._share * sum(sums)
        cosines = [(of + mean) * inverse for of, inverse in zip(sums, self._inverse, strict=True)]
        best = max(cosines)
        return cosines.index(best), max(0.0, 1 - best / length)

    def extent(self, point: bytes) -> int:
        """Return the number of features."""
        return max(1, len(point) // _ITEM)

    def state(self) -> dict[str, Any]:
        """Return what JSON can hold."""
        return {"questions": self._questions, **self._stored}

    @classmethod
    def restored(cls, state: Mapping[str, Any]) -> Generator[None, None, Self]:
        """Build the centroids of a state, in slices; the generator returns them.

        Raises:
            ValueError, KeyError, TypeError: It is none of ours.
        """
        questions = int(state["questions"])
        stored = {name: str(state[name]) for name in _STORED}
        features = array("I", b64decode(stored["features"]))
        frequencies = array("I", b64decode(stored["frequencies"]))
        cells = array("B", b64decode(stored["cells"]))
        places = array("B", b64decode(stored["places"]))
        values = array("f", b64decode(stored["values"]))
        if not len(features) == len(frequencies) == len(cells) or sum(cells) != len(places):
            raise ValueError("the parts of the centroids do not fit together")
        count = 1 + max(places, default=0)
        share = _SHRINKAGE / max(1, questions)
        squares: dict[int, float] = {}
        rows: dict[int, tuple[float, ...]] = {}
        lengths = [0.0] * count
        means = 0.0
        at = 0
        for done, (feature, having, held) in enumerate(
            zip(features, frequencies, cells, strict=True)
        ):
            weight = _weight(questions, having)
            squares[feature] = weight**2
            row = [0.0] * count
            mean = share * sum(values[at : at + held])
            means += mean**2
            for place, value in zip(places[at : at + held], values[at : at + held], strict=True):
                row[place] = value * weight
                lengths[place] += (value + 2 * mean) * value  # (value + mean)^2 less mean^2
            rows[feature] = tuple(row)
            at += held
            if done % (_SLICE * 16) == 0:
                yield
        roots = [math.sqrt(length + means) for length in lengths]
        return cls(questions, squares, rows, roots, stored)

    @classmethod
    def fitted(cls, points: Sequence[bytes], seed: str) -> Generator[None, None, Self]:
        """Fit in slices; the generator returns the centroids."""
        counted: Counter[int] = Counter()
        questions = []
        for at, point in enumerate(points):
            found = unpacked(point)
            counted.update(found)
            questions.append(found)
            if at % _SLICE == 0:
                yield
        size = len(points)
        weights = {feature: _weight(size, n) for feature, n in counted.items()}
        yield
        inverse = []
        known = []
        for at, found in enumerate(questions):
            length = math.sqrt(sum([weights[feature] ** 2 for feature in found]))
            inverse.append(1 / length if length else 0.0)
            # What one question alone has would only hold it where it is.
            known.append(tuple([feature for feature in found if counted[feature] > 1]))
            if at % _SLICE == 0:
                yield
        place = yield from _seeded(known, inverse, weights, seed)
        for _ in range(_ROUNDS):
            sums = yield from _summed(known, inverse, weights, place)
            moved = yield from _placed(known, sums, weights, place)
            if not moved:
                break
        sums = yield from _summed(questions, inverse, weights, place)
        stored = yield from _stored(sums, counted)
        return (yield from cls.restored({"questions": size, **stored}))


_STORED: Final = ("features", "frequencies", "cells", "places", "values")


def _stored(
    sums: Mapping[int, Mapping[int, float]], counted: Mapping[int, int]
) -> Generator[None, None, dict[str, str]]:
    """Pack sums by feature and centroid; centroids without a question are left out."""
    used = sorted({place for of in sums.values() for place in of})
    yield
    renumbered = {old: new for new, old in enumerate(used)}
    features = array("I", sorted(sums))
    yield
    cells, places, values = array("B"), array("B"), array("f")
    for done, feature in enumerate(features):
        of = sums[feature]
        cells.append(len(of))
        for place in sorted(of):
            places.append(renumbered[place])
            values.append(of[place])
        if done % (_SLICE * 16) == 0:
            yield
    frequencies = array("I", [counted[feature] for feature in features])
    packs: tuple[array[int] | array[float], ...] = (features, frequencies, cells, places, values)
    return {
        name: b64encode(pack.tobytes()).decode() for name, pack in zip(_STORED, packs, strict=True)
    }


def _weight(questions: int, having: int) -> float:
    """Return a feature's weight: damped inverse document frequency.

    Source: Sparck Jones, "A statistical interpretation of term specificity" (1972); smoothed.
    """
    return math.pow(math.log((questions + 1) / (having + 0.5)), _DAMPING)


def _seeded(
    known: Sequence[Features],
    inverse: Sequence[float],
    weights: Mapping[int, float],
    seed: str,
) -> Generator[None, None, list[int]]:
    """Return a first place for every question: k-means++, by distances as the algorithm wants."""
    luck = random.Random(seed)
    place = [0] * len(known)
    nearest = [2.0] * len(known)
    chosen = luck.randrange(len(known))
    for at in range(CENTROIDS):
        centre = {f: weights[f] ** 2 * inverse[chosen] for f in known[chosen]}
        for question, found in enumerate(known):
            cosine = sum([centre[f] for f in found if f in centre]) * inverse[question]
            # Squared distance of two vectors of length 1.
            distance = max(0.0, 2 - 2 * cosine)
            if distance < nearest[question]:
                nearest[question], place[question] = distance, at
            if question % (_SLICE * 8) == 0:
                yield
        nearest[chosen], place[chosen] = 0.0, at
        if not any(nearest):
            break
        chosen = luck.choices(range(len(known)), nearest)[0]
    return place


def _summed(
    known: Sequence[Sequence[int]],
    inverse: Sequence[float],
    weights: Mapping[int, float],
    place: Sequence[int],
) -> Generator[None, None, dict[int, dict[int, float]]]:
    sums: dict[int, dict[int, float]] = {}
    for question, found in enumerate(known):
        at, length = place[question], inverse[question]
        for feature in found:
            of = sums.setdefault(feature, {})
            of[at] = of.get(at, 0.0) + weights[feature] * length
        if question % (_SLICE * 4) == 0:
            yield
    return sums


def _placed(
    known: Sequence[Features],
    sums: Mapping[int, Mapping[int, float]],
    weights: Mapping[int, float],
    place: list[int],
) -> Generator[None, None, bool]:
    """Put every question with its nearest centroid; return whether one moved."""
    lengths = [0.0] * CENTROIDS
    rows: dict[int, tuple[float, ...]] = {}
    for done, (feature, of) in enumerate(sums.items()):
        row = [0.0] * CENTROIDS
        for at, value in of.items():
            row[at] = value * weights[feature]
            lengths[at] += value**2
        rows[feature] = tuple(row)
        if done % (_SLICE * 16) == 0:
            yield
    inverse = [1 / math.sqrt(length) if length else 0.0 for length in lengths]
    moved = False
    for question, found in enumerate(known):
        if found:
            columns = zip(*[rows[feature] for feature in found], strict=True)
            cosines = list(map(operator.mul, map(sum, columns), inverse))
            at = cosines.index(max(cosines))
            moved = moved or at != place[question]
            place[question] = at
        if question % _SLICE == 0:
            yield
    return moved


class DenseCentroids:
    """Centroids of a user's own embedding; the distance is that of vectors of length 1, 0 to 2."""

    def __init__(self, centres: Sequence[array[float]]) -> None:
        """Take vectors in the precision they are stored in: a restart must change no distance."""
        self._stored = centres
        self._centres = [_unit(centre) for centre in centres]
        self.count = len(centres)

    def nearest(self, point: bytes) -> tuple[int, float]:
        """Return the nearest centroid and the distance to it, 0 to 2.

        Raises:
            ValueError: The vector is not of the centroids' length.
        """
        vector = dense(point)
        distances = [math.dist(vector, centre) for centre in self._centres]
        best = min(distances)
        return distances.index(best), best

    def extent(self, point: bytes) -> int:  # noqa: ARG002 - a direction says nothing of length
        """Return 1: a vector does not tell how long its text was."""
        return 1

    def state(self) -> dict[str, Any]:
        """Return what JSON can hold."""
        return {"centres": [b64encode(centre.tobytes()).decode() for centre in self._stored]}

    @classmethod
    def restored(cls, state: Mapping[str, Any]) -> Generator[None, None, Self]:
        """Build the centroids of a state; the generator returns them.

        Raises:
            ValueError, KeyError, TypeError: It is none of ours.
        """
        yield
        return cls([array("f", b64decode(centre)) for centre in state["centres"]])

    @classmethod
    def fitted(cls, points: Sequence[bytes], seed: str) -> Generator[None, None, Self]:
        """Fit in slices; the generator returns the centroids."""
        luck = random.Random(seed)
        # Vectors are unpacked anew for each use, which costs more than to compare them: a part of
        # them is enough to begin with.
        some = points if len(points) <= _BEGINNING else luck.sample(points, _BEGINNING)
        nearest = [math.inf] * len(some)
        chosen = luck.randrange(len(some))
        centres: list[Sequence[float]] = []
        while True:
            centres.append(dense(some[chosen]))
            for at, point in enumerate(some):
                nearest[at] = min(nearest[at], math.dist(dense(point), centres[-1]) ** 2)
                if at % _SLICE == 0:
                    yield
            # What is left of equal vectors is rounding.
            nearest = [distance if distance > 1e-9 else 0.0 for distance in nearest]
            if len(centres) == CENTROIDS or not any(nearest):
                break
            chosen = luck.choices(range(len(some)), nearest)[0]
        places: list[int] = []
        for _ in range(_ROUNDS):
            before, places = places, []
            sums: dict[int, Sequence[float]] = {}
            units = [_unit(centre) for centre in centres]
            for at, point in enumerate(points):
                vector = dense(point)
                distances = [math.dist(vector, unit) for unit in units]
                place = distances.index(min(distances))
                places.append(place)
                sums[place] = (
                    list(map(operator.add, sums[place], vector)) if place in sums else vector
                )
                if at % _SLICE == 0:
                    yield
            if places == before:
                break
            centres = [sums[at] for at in sorted(sums)]
        return cls([array("f", _unit(centre)) for centre in centres])


def packed(found: Features) -> bytes:
    """Return hashed features as a point."""
    return array("I", found).tobytes()


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
