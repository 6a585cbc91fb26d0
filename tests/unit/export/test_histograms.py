"""Our histograms, which are scraped as the library's are."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, metrics
from prometheus_client.openmetrics.exposition import generate_latest

from ragmonitor.export.histograms import Histogram

BOUNDS = (0.0, 0.25, 0.5, 1.0)
EXEMPLAR = {"trace_id": "0" * 31 + "1"}


def scraped(made: Histogram | metrics.Histogram, registry: CollectorRegistry) -> list[str]:
    """Return the lines of a scrape but for what says when."""
    lines = generate_latest(registry).decode().splitlines()
    return [line.rpartition(" ")[0] if " # " in line else line for line in lines]


@given(st.lists(st.tuples(st.floats(), st.booleans())))
def test_it_is_scraped_as_the_library_s_histogram_is(observed):
    """Whatever is observed, numbers or not, at a bound or between: sums are equal to the bit."""
    ours, theirs = CollectorRegistry(), CollectorRegistry()
    made = Histogram("answer_seconds", "Seconds.", ("service",), BOUNDS)
    ours.register(made)
    library = metrics.Histogram(
        "answer_seconds", "Seconds.", ("service",), registry=theirs, buckets=BOUNDS
    )
    for amount, is_linked in observed:
        made.labels("shop").observe(amount, EXEMPLAR if is_linked else None)
        library.labels("shop").observe(amount, EXEMPLAR if is_linked else None)
    expected = [line for line in scraped(library, theirs) if "_created{" not in line]
    assert scraped(made, ours) == expected


def test_the_last_bucket_holds_what_is_above_all_bounds():
    """A count is the number of all amounts, infinite ones too."""
    made = Histogram("answer_seconds", "Seconds.", ("service",), BOUNDS)
    made.labels("shop").observe(7.0)
    made.labels("shop").observe(math.inf)
    (family,) = made.collect()
    assert [each.value for each in family.samples if each.name.endswith("_count")] == [2.0]
