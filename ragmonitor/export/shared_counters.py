"""Counters of the processes that share a store: any of them shows the totals of all."""

from __future__ import annotations

import contextlib
import json
import math
from collections.abc import Iterator, Sequence
from typing import Final

from prometheus_client.metrics_core import Metric
from prometheus_client.samples import Exemplar, Sample

from ragmonitor.store import Outbox, Rows, Store, StoreUnavailableError

BUCKET: Final = "series"
"""The sums in the store: one number for each sample."""
_ORDER: Final = ("_bucket", "_count", "_sum", "_total")
_Key = str


class SharedCounters:
    """Adds what a process counts to a store, and shows what all have.

    A total never falls: what a process has added stays when it ends, or is killed; what it had
    not added yet, two seconds' worth, is lost with it.
    """

    def __init__(self, store: Store) -> None:
        """Touch nothing yet."""
        self._store = store
        self._outbox = Outbox(self._store)
        self._sent: dict[_Key, float] = {}
        self._known: Rows = {}
        """The totals as they were read last."""

    def add(self, families: Sequence[Metric]) -> None:
        """Add what was counted since."""
        rows: Rows = {}
        for key, sample in _counted(families):
            more = sample.value - self._sent.get(key, 0.0)
            if more:
                rows[key] = [more]
                self._sent[key] = sample.value
        if rows:
            self._outbox.add({BUCKET: rows})
        self._outbox.flush()

    def totals(self, families: Sequence[Metric]) -> list[Metric]:
        """Return the families with the counts of all processes in place of this one's."""
        with contextlib.suppress(StoreUnavailableError):  # what was known is shown: none falls
            self._known = self._store.read(BUCKET)
        values = {key: row[0] for key, row in self._known.items()}
        exemplars: dict[_Key, Exemplar] = {}
        for key, sample in _counted(families):
            values[key] = values.get(key, 0.0) + sample.value - self._sent.get(key, 0.0)
            if sample.exemplar is not None:
                exemplars[key] = sample.exemplar
        samples: dict[str, list[Sample]] = {}
        for key, value in values.items():
            name, labels = json.loads(key)
            sample = Sample(name, dict(labels), value, None, exemplars.get(key))
            samples.setdefault(name.rpartition("_")[0], []).append(sample)
        return [_with_samples(family, samples.get(family.name, ())) for family in families]


def _counted(families: Sequence[Metric]) -> Iterator[tuple[_Key, Sample]]:
    """Yield every sample that only rises, with its key in the store."""
    for family in families:
        if family.type in {"counter", "histogram"}:
            for sample in family.samples:
                yield json.dumps([sample.name, sorted(sample.labels.items())]), sample


def _with_samples(family: Metric, samples: Sequence[Sample]) -> Metric:
    """Return a family with other samples; gauges have their own."""
    if family.type not in {"counter", "histogram"}:
        return family
    other = Metric(family.name, family.documentation, family.type, family.unit)
    other.samples = sorted(samples, key=_place)
    return other


def _place(sample: Sample) -> tuple[list[tuple[str, str]], int, float]:
    """Return where a sample stands: by series, then buckets by their bound, number, and sum."""
    labels = sorted((name, value) for name, value in sample.labels.items() if name != "le")
    ending = f"_{sample.name.rpartition('_')[2]}"
    return labels, _ORDER.index(ending), float(sample.labels.get("le", math.inf))
