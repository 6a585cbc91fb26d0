"""The series of a helper process, summed with what its application has counted itself."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from prometheus_client.metrics_core import Metric
from prometheus_client.samples import Sample


def with_counters(families: Sequence[Metric], more: Iterable[Metric]) -> list[Metric]:
    """Return the families, with the counters of `more` added to theirs."""
    counted: dict[str, dict[tuple[str, frozenset[tuple[str, str]]], Sample]] = {}
    result = {family.name: family for family in families}
    for family in (each for each in (*families, *more) if each.type == "counter"):
        samples = counted.setdefault(family.name, {})
        for sample in family.samples:
            key = sample.name, frozenset(sample.labels.items())
            before = samples.get(key)
            if before is None:
                samples[key] = sample
            elif sample.name.endswith("_total"):
                samples[key] = before._replace(value=before.value + sample.value)
        summed = Metric(family.name, family.documentation, family.type, family.unit)
        summed.samples = list(samples.values())
        result[family.name] = summed
    return list(result.values())
