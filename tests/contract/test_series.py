"""One scrape of a live monitor holds the series that people rely on: `data/outputs/series.yaml`."""

from __future__ import annotations

import pytest

from tests.contract.kit_outputs import families, live, samples, table, value

TABLE = table("series.yaml")


@pytest.mark.parametrize("name", TABLE["series"])
def test_a_series_has_its_type_and_its_labels(name: str) -> None:
    """Queries name them, so they stay as they are."""
    expected = TABLE["series"][name]
    found = [
        (family.type, sample)
        for family in families(live().scrape).values()
        for sample in family.samples
        if sample.name == name
    ]
    assert found, "not in the scrape"
    labels = {"service", *expected["labels"]}
    assert {kind for kind, _ in found} == {expected["type"]}
    assert all(sample.labels.keys() - {"le"} == labels for _, sample in found)
    assert {sample.labels["service"] for _, sample in found} == {"shop"}


@pytest.mark.parametrize("row", TABLE["values"], ids=str)
def test_a_series_counts_what_happened(row: dict) -> None:
    """Each answer counts once, in the right place."""
    assert value(samples(live().scrape), row["name"], **row["labels"]) == pytest.approx(
        row["is"], abs=1e-4, rel=1e-4
    )


@pytest.mark.parametrize(
    "name", [name for name, row in TABLE["series"].items() if row.get("exemplar")]
)
def test_an_exemplar_names_a_trace_that_was_sent(name: str) -> None:
    """From a bad bucket one comes to the trace of an answer in it."""
    traces = {span.trace_id.hex() for span in live().recorder.spans()}
    exemplars = [s.exemplar.labels for s in samples(live().scrape) if s.name == name and s.exemplar]
    assert exemplars
    assert {each["trace_id"] for each in exemplars} <= traces
    assert all(each.keys() == {"trace_id", "span_id"} for each in exemplars)


@pytest.mark.parametrize("name", ["score", "hallucination_rate", "refusal_rate"])
def test_a_mean_lies_in_its_interval(name: str) -> None:
    """Each mean has both ends, of the same judge, evaluator and window, within 0 and 1."""
    found = samples(live().scrape)
    mean = "ragmonitor_score_mean" if name == "score" else f"ragmonitor_{name}"
    means = [sample for sample in found if sample.name == mean]
    assert {sample.labels["window"] for sample in means} == {"1h", "24h"}
    for sample in means:
        lower = value(found, f"ragmonitor_{name}_lower", **sample.labels)
        upper = value(found, f"ragmonitor_{name}_upper", **sample.labels)
        assert lower is not None
        assert upper is not None
        assert 0 <= lower <= sample.value <= upper <= 1
        assert lower < upper, "few answers tell little"


def test_no_series_is_told_apart_by_an_id() -> None:
    """Labels are few: neither answers nor sessions nor people are among them."""
    ids = {"s1", "u1", *(row["id"] for row in table("answers.yaml")["answers"])}
    assert not [s for s in samples(live().scrape) if ids & set(s.labels.values())]
