"""The series of a helper process, scraped in the application and summed with its own counts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector
from prometheus_client.samples import Sample


class HelperScrape(Collector):
    """Asks the helper for its series at each scrape."""

    def __init__(self, families: Callable[[], list[Metric]]) -> None:
        self._collect = families

    def describe(self) -> list[Metric]:
        """Return nothing: a registry would ask for the series when it is set up."""
        return []

    def collect(self) -> list[Metric]:
        """Return every series as of now."""
        return self._collect()


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
