"""Series by name and labels, which are looked up for every answer."""

from __future__ import annotations

from ragmonitor import metrics
from ragmonitor.export import instruments
from ragmonitor.export.instruments import OTHER, Instruments, Labels


def counted(made: Instruments) -> dict[str, float]:
    """Return the drops by reason."""
    return {
        sample.labels["reason"]: sample.value
        for family in made.registry.collect()
        for sample in family.samples
        if family.name == metrics.DROPPED and sample.name.endswith("_total")
    }


def test_a_series_that_was_removed_begins_anew():
    """What is kept of looking it up does not count where nobody sees it."""
    made = Instruments("shop", Labels())
    made.counter(metrics.DROPPED, "queue_full").inc(3)
    made.remove(metrics.DROPPED, "queue_full")
    assert counted(made) == {}
    made.counter(metrics.DROPPED, "queue_full").inc()
    assert counted(made) == {"queue_full": 1}


def test_a_series_that_is_not_there_costs_the_others_nothing():
    """Alarms without a rise have theirs removed at every refresh."""
    made = Instruments("shop", Labels())
    kept = made.counter(metrics.DROPPED, "queue_full")
    for reason in ("never", "queue\nfull", "never"):
        made.remove(metrics.DROPPED, reason)
        assert made.counter(metrics.DROPPED, "queue_full") is kept
    made.counter(metrics.DROPPED, "never").inc()
    made.remove(metrics.DROPPED, "never")
    assert counted(made) == {"queue_full": 0}


def test_what_is_kept_of_labels_is_bounded(monkeypatch):
    """Labels that were cleaned, cut or put together are not kept, however many come."""
    monkeypatch.setattr(instruments, "MAX_KNOWN", 3)
    made = Instruments("shop", Labels(max_values=5))
    for number in range(100):
        made.counter(metrics.DROPPED, f"reason{number}").inc()
        made.counter(metrics.DROPPED, f"reason\n{number}").inc()
    assert len(made._known) == 3
    assert sum(counted(made).values()) == 200
    assert len(counted(made)) == 6
    assert OTHER in counted(made)
