"""Finds the interactions among the spans of one trace, also where spans are missing.

What has come over a network has gaps that spans of one's own process do not have: a parent that was
never sent. Times are read as they were sent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

from ragmonitor.capture.span_readers import FinishedTree, SpanRecord, trees_of
from ragmonitor.receive.otlp_spans import HeldSpan, span_record
from ragmonitor.records import Interaction, Status
from ragmonitor.semconv.conventions import PROBE_BAGGAGE


@dataclass(frozen=True, slots=True)
class Received:
    """An interaction that came as spans. Implements `Finished`."""

    tree: FinishedTree
    attributes: Mapping[str, str]
    """The attributes of the process that its root ran in."""

    @property
    def framework(self) -> str:
        """The convention's."""
        return self.tree.framework

    @property
    def status(self) -> Status:
        """The way in which the root ended."""
        return self.tree.status

    @property
    def is_probe(self) -> bool:
        """Whether a golden question is answered: a span has the mark as an attribute."""
        return any(PROBE_BAGGAGE in step.span.attributes for step in self.tree.steps)

    def interaction(self) -> Interaction | None:
        """Return the record."""
        record = self.tree.interaction()
        if record is None or not self.attributes:
            return record
        return replace(record, attributes={**self.attributes, **record.attributes})

    def release(self) -> None:
        """Let go of the runs: nothing more is to be read of them."""
        self.tree.release()


def assembled(
    held: Iterable[HeldSpan],
    *,
    is_retrieval_tool: Callable[[str], bool],
) -> list[Received]:
    """Return the interactions of one trace.

    Args:
        held: The spans that have come.
        is_retrieval_tool: Whether the text that a tool of this name gives counts as retrieved.
    """
    by_id = {span.span_id: span for span in held}
    spans = {span_id: span_record(span) for span_id, span in by_id.items()}
    _stand_in_for_missing(spans)
    trees = trees_of(spans.values(), is_retrieval_tool=is_retrieval_tool)
    return [Received(tree, _attributes(tree, by_id)) for tree in trees]


def _attributes(tree: FinishedTree, held: Mapping[str, HeldSpan]) -> Mapping[str, str]:
    root = held.get(tree.root.span_id) or held[tree.steps[0].span.span_id]
    return root.process


def _stand_in_for_missing(spans: dict[str, SpanRecord]) -> None:
    """Put an empty span in the place of each parent that has not come.

    What it encloses belongs together: a retrieval and a model under one lost root are still one
    answer. All but the trace's root are somewhere below that root.
    """
    roots = [span for span in spans.values() if not span.parent_id]
    root = roots[0] if len(roots) == 1 else None
    orphans: dict[str, list[SpanRecord]] = {}
    for span in spans.values():
        if span.parent_id and span.parent_id not in spans:
            orphans.setdefault(span.parent_id, []).append(span)
    for parent_id, children in orphans.items():
        first = children[0]
        if first.parent is None:
            continue
        spans[parent_id] = SpanRecord(
            span_id=parent_id,
            parent_id="" if root is None else root.span_id,
            context=first.parent,
            parent=None if root is None else root.context,
            name="",
            scope="",
            attributes={},
            started_ns=min(span.started_ns for span in children),
            ended_ns=max(span.ended_ns for span in children),
        )
