"""Questions for which nothing relevant was found, in clusters of questions that are alike."""

from __future__ import annotations

import math
from array import array
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from ragmonitor.causes.question_features import BUCKETS, features
from ragmonitor.export.content import ContentPolicy
from ragmonitor.records import CompletedAnswer

MAX_CLUSTERS: Final = 60
MAX_EXAMPLES: Final = 3
MAX_QUESTION: Final = 300
PER_TICK: Final = 10
"""Questions that are compared at a tick; of more, the newest."""
ALIKE_FROM: Final = 0.2
"""Weighted Jaccard similarity from which two questions are of one cluster."""


@dataclass(slots=True)
class _Cluster:
    features: frozenset[int]
    """The features of its first question."""
    questions: float = 0.0
    """Each for 1 / inclusion probability."""
    judged: int = 0
    last_s: float = 0.0
    examples: deque[dict[str, Any]] = field(default_factory=lambda: deque(maxlen=MAX_EXAMPLES))


class MissingQuestions:
    """Puts each such question with the first cluster that it resembles.

    Features are hashed words and pieces of words, weighted by how rare
    they are among all questions, of which a few are looked at in each tick.
    """

    def __init__(self, policy: ContentPolicy) -> None:
        """Begin without a question; `policy` says what may be kept of their texts."""
        self._policy = policy
        self._clusters: list[_Cluster] = []
        self._waiting: deque[tuple[CompletedAnswer, float, float]] = deque(maxlen=PER_TICK)
        self._frequencies = array("I", bytes(4 * BUCKETS))
        self._counted = 0
        """Questions whose features `_frequencies` counts."""
        self._others: list[str] = []
        self.questions = 0.0
        """Each for 1 / inclusion probability; also those that were not compared."""
        self.judged = 0

    def add(self, completed: CompletedAnswer, at_s: float, weight: float) -> None:
        """Take in a question for which nothing relevant was found."""
        self.questions += weight
        self.judged += 1
        self._waiting.append((completed, at_s, weight))

    def see(self, question: str) -> None:
        """Take note of a question of any kind."""
        if len(self._others) < PER_TICK:
            self._others.append(question)

    def tick(self) -> None:
        """Compare what came since the last tick."""
        for question in self._others:
            self._count(frozenset(features(question)))
        self._others.clear()
        while self._waiting:
            completed, at_s, weight = self._waiting.popleft()
            example = self._example(completed, at_s)
            found = frozenset(features(completed.interaction.query.strip()))
            self._count(found)
            cluster = self._cluster_of(found)
            cluster.questions += weight
            cluster.judged += 1
            cluster.last_s = at_s
            if not any(_is_same(example, known) for known in cluster.examples):
                cluster.examples.append(example)

    def _example(self, completed: CompletedAnswer, at_s: float) -> dict[str, Any]:
        interaction, target = completed.interaction, completed.target
        example: dict[str, Any] = {"id": interaction.id[:MAX_QUESTION], "at_s": round(at_s, 3)}
        if target is not None:
            example["trace_id"] = target.trace_id
        if self._policy.shows:
            example["question"] = self._policy.text(interaction.query.strip()[:MAX_QUESTION])
        return example

    def _count(self, found: frozenset[int]) -> None:
        self._counted += 1
        for feature in found:
            self._frequencies[feature] += 1

    def _cluster_of(self, found: frozenset[int]) -> _Cluster:
        whole = self._weight(found)
        best, nearest = ALIKE_FROM, None
        for cluster in self._clusters:
            shared = self._weight(found & cluster.features)
            if shared < best * whole:  # less than it takes, whatever the cluster has beside
                continue
            union = whole + self._weight(cluster.features) - shared
            if union > 0 and shared / union >= best:
                best, nearest = shared / union, cluster
        if nearest is None:
            nearest = _Cluster(found)
            if len(self._clusters) >= MAX_CLUSTERS:
                # The rarest gives way, and of equal ones the oldest.
                self._clusters.remove(min(self._clusters, key=lambda c: (c.judged, c.last_s)))
            self._clusters.append(nearest)
        return nearest

    def _weight(self, found: frozenset[int]) -> float:
        """Return the sum of squared inverse document frequencies, as for drift's centroids."""
        top = self._counted + 2
        frequencies = self._frequencies
        return sum([math.log(top / (frequencies[each] + 0.5)) ** 2 for each in found])

    def record(self, most: int) -> Sequence[dict[str, Any]]:
        """Return the largest clusters, ready for JSON."""
        ranked = sorted(self._clusters, key=lambda c: (-c.questions, -c.last_s))
        return [
            {
                "questions": round(cluster.questions, 1),
                "judged": cluster.judged,
                "last_s": round(cluster.last_s, 3),
                "examples": list(reversed(cluster.examples)),
            }
            for cluster in ranked[:most]
        ]


def _is_same(example: dict[str, Any], known: dict[str, Any]) -> bool:
    return "question" in example and example["question"] == known["question"]
