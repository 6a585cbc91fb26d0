"""Reports as scores in Langfuse, against its documented API."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ragmonitor.export import Langfuse
from ragmonitor.records import Report
from ragmonitor.runtime.protocols import ExportContext
from tests.support.scoring_server import FakeLangfuse
from tests.unit.export.examples import (
    MODEL,
    evaluations,
    late_report,
)


@pytest.fixture
def langfuse() -> Iterator[FakeLangfuse]:
    with FakeLangfuse("pk-lf-1", "sk-lf-1") as running:
        yield running


class Exporting:
    """An exporter, and what it counted as lost."""

    def __init__(
        self, langfuse: FakeLangfuse, *, content: str = "all", secret_key: str = "sk-lf-1"
    ) -> None:
        self.lost: list[tuple[str, int]] = []
        self.exporter = Langfuse(
            langfuse.url,
            public_key="pk-lf-1",
            secret_key=secret_key,
        )
        self.exporter.configure(
            ExportContext(
                content=content,  # type: ignore[arg-type]
                lost=lambda reason, n: self.lost.append((reason, n)),
            )
        )

    def __call__(self, *reports: Report) -> bool:
        """Export and flush; return whether all of it arrived."""
        for each in reports:
            self.exporter.export(each)
        return self.exporter.flush(10)


@pytest.fixture
def export(langfuse: FakeLangfuse) -> Iterator[Exporting]:
    made = Exporting(langfuse)
    yield made
    made.exporter.close()


def test_the_same_again_is_an_update(langfuse: FakeLangfuse, export: Exporting) -> None:
    """The score's id follows from what it measures; the events that bring it are two."""
    export(late_report(), late_report(evaluations=evaluations(MODEL, 0.8)))
    (score,) = langfuse.scores.values()
    assert score["value"] == 0.8
    assert len(langfuse.seen) == 2
