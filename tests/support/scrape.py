"""Reading what a monitor exports."""

from __future__ import annotations

from collections import Counter
from urllib.request import Request, urlopen

from prometheus_client import CollectorRegistry
from prometheus_client.openmetrics.parser import text_string_to_metric_families


def total(registry: CollectorRegistry, sample: str, **labels: str) -> float:
    """Return the sum of a sample's series that carry these labels."""
    return sum(
        s.value
        for family in registry.collect()
        for s in family.samples
        if s.name == sample and labels.items() <= s.labels.items()
    )


def outcomes(registry: CollectorRegistry, **labels: str) -> Counter[str]:
    """Return how many evaluations had each outcome."""
    found: Counter[str] = Counter()
    for family in registry.collect():
        for s in family.samples:
            if s.name == "ragmonitor_evaluations_total" and labels.items() <= s.labels.items():
                found[s.labels["outcome"]] += int(s.value)
    return found


def scrape(url: str) -> dict[str, list]:
    """Return an endpoint's OpenMetrics samples by name, with their exemplars."""
    request = Request(url, headers={"Accept": "application/openmetrics-text; version=1.0.0"})
    with urlopen(request, timeout=10) as response:
        text = response.read().decode()
    found: dict[str, list] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            found.setdefault(sample.name, []).append(sample)
    return found
