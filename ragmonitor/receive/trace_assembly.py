"""Finds the interactions among the spans of one trace, also where spans are missing.

What has come over a network has gaps that spans of one's own process do not have: a parent that was
never sent, a clock that is wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from opentelemetry.trace import INVALID_SPAN_CONTEXT

from ragmonitor.capture.span_readers.finished import FinishedTree
from ragmonitor.capture.span_readers.spans import SpanRecord
from ragmonitor.capture.span_readers.trees import Ancestry, JoinedTrace
from ragmonitor.receive.otlp_spans import HeldSpan, span_record
from ragmonitor.semconv.conventions import OI_METADATA, PROBE_BAGGAGE


def assembled(
    held: Iterable[HeldSpan],
    *,
    is_retrieval_tool: Callable[[str], bool],
) -> list[FinishedTree]:
    """Return the interactions of one trace.

    Args:
        held: The spans that have come.
        is_retrieval_tool: Whether the text that a tool of this name gives counts as retrieved.
    """
    by_id = {span.span_id: span for span in held}
    spans = {span_id: span_record(span) for span_id, span in by_id.items()}
    _stand_in_for_missing(spans)
    _align_clocks(spans, by_id)
    joined = JoinedTrace(spans.values(), is_retrieval_tool=is_retrieval_tool)
    trees = joined.interactions()
    for tree in trees:
        root = by_id.get(tree.root.span_id) or by_id[tree.steps[0].span.span_id]
        marks = (step.span.attributes.get(PROBE_BAGGAGE) for step in tree.steps)
        mark = next((each for each in marks if each is not None), None)
        probe = {} if mark is None else {PROBE_BAGGAGE: mark}
        tree.inherit({OI_METADATA: root.process.attributes, **probe})
    return trees


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
        spans[parent_id] = SpanRecord(
            span_id=parent_id,
            parent_id="" if root is None else root.span_id,
            context=children[0].parent or INVALID_SPAN_CONTEXT,
            parent=None if root is None else root.context,
            name="",
            scope="",
            attributes={},
            started_ns=min(span.started_ns for span in children),
            ended_ns=max(span.ended_ns for span in children),
        )


def _align_clocks(spans: dict[str, SpanRecord], held: Mapping[str, HeldSpan]) -> None:
    """Move the times of a process whose clock differs from that of the one that called it.

    A call that begins before its caller does, or after its caller's end, is put in the middle of
    it, and all that the same process did below it moves along (as Jaeger's clock skew adjuster:
    https://github.com/jaegertracing/jaeger, internal/jptrace/sanitizer and adjuster/clockskew).
    """
    moved_ns: dict[str, int] = {}
    for span_id in Ancestry({span_id: span.parent_id for span_id, span in spans.items()}).order:
        span, own = spans[span_id], held.get(span_id)
        parent, caller = spans.get(span.parent_id), held.get(span.parent_id)
        if own is None or parent is None or caller is None:
            continue
        shift_ns = 0
        if own.process.identity == caller.process.identity:
            shift_ns = moved_ns.get(span.parent_id, 0)
        elif parent.ended_ns and not parent.started_ns <= span.started_ns <= parent.ended_ns:
            lasted_ns = span.ended_ns - span.started_ns
            spare_ns = max(0, parent.ended_ns - parent.started_ns - lasted_ns)
            shift_ns = parent.started_ns + spare_ns // 2 - span.started_ns
        if shift_ns:
            moved_ns[span_id] = shift_ns
            spans[span_id] = replace(
                span,
                started_ns=max(0, span.started_ns + shift_ns),
                ended_ns=max(1, span.ended_ns + shift_ns) if span.ended_ns else 0,
            )
