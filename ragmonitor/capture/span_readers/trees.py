"""Says which spans of a trace belong to one interaction, and in which order its steps nest."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import NamedTuple

from ragmonitor.capture.span_readers import openllmetry
from ragmonitor.capture.span_readers.ancestry import Ancestry
from ragmonitor.capture.span_readers.dialects import FRAMEWORKS, dialect_of
from ragmonitor.capture.span_readers.finished import FinishedTree
from ragmonitor.capture.span_readers.spans import SpanRecord
from ragmonitor.capture.span_readers.steps import Step, step_of
from ragmonitor.records import Usage

_AT_ONCE = 50
"""Calls of one kind that may be under way at the same time."""


class OpenSpan(NamedTuple):
    """A span that has not ended."""

    parent_id: str
    """Empty: it has none in this process."""
    matches: bool
    """It is, or may be, of a dialect."""
    scope: str = ""
    """The name of the instrumentation that began it."""


def trees_of(
    spans: Iterable[SpanRecord],
    open_spans: Mapping[str, OpenSpan] | None = None,
    *,
    root_names: Collection[str] = (),
    is_retrieval_tool: Callable[[str], bool] = lambda _name: False,
) -> list[FinishedTree]:
    """Return the interactions of one trace, by the time of their roots' start.

    An interaction's root is the outermost span of a dialect below which something was retrieved
    and a model asked. Where no such span has both, it is the innermost span of any kind that
    has: an application's own `answer` span, or a server's request span, around a search and a model
    call.

    Args:
        spans: Those that have ended; spans of no dialect connect the others, or are left out.
        open_spans: By id: those that have not. What lies below an open span of a dialect is none
            of the result.
        root_names: Only trees whose roots have one of these names; empty: any.
        is_retrieval_tool: Whether the text that a tool of this name gives counts as retrieved.
    """
    trace = _Trace(spans, open_spans or {}, is_retrieval_tool)
    found = trace.named(root_names) if root_names else trace.interactions()
    return sorted(found, key=lambda finished: finished.root.started_ns)


class _Trace:
    """The spans of one trace, by id."""

    def __init__(
        self,
        spans: Iterable[SpanRecord],
        open_spans: Mapping[str, OpenSpan],
        is_retrieval_tool: Callable[[str], bool],
    ) -> None:
        self._spans = {span.span_id: span for span in spans}
        self._open = open_spans
        self._is_retrieval_tool = is_retrieval_tool
        parents = {span_id: span.parent_id for span_id, span in open_spans.items()}
        parents |= {span_id: span.parent_id for span_id, span in self._spans.items()}
        enclosing = Ancestry(parents)
        for span in [*filter(openllmetry.begins_anew, self._spans.values())]:
            if any(self._is_of_llama_index(above) for above in enclosing.above(span.span_id)):
                self._spans[span.span_id] = replace(span, parent_id="", parent=None)
                parents[span.span_id] = ""
        self._ancestry = Ancestry(parents)
        self._steps: dict[str, Step] = {}
        self._children: dict[str, list[SpanRecord]] = {}
        for span in self._spans.values():
            dialect = dialect_of(span.scope, span.attributes)
            if dialect is not None:
                self._steps[span.span_id] = step_of(span, dialect)
            self._children.setdefault(span.parent_id, []).append(span)

    def _is_of_llama_index(self, span_id: str) -> bool:
        span = self._open.get(span_id) or self._spans.get(span_id)
        return span is not None and span.scope == openllmetry.LLAMA_INDEX

    def named(self, names: Collection[str]) -> Iterator[FinishedTree]:
        """Yield the outermost trees whose roots have one of these names."""
        named = {
            span_id
            for span_id, span in self._spans.items()
            if (step.name if (step := self._steps.get(span_id)) else span.name) in names
        }
        for span_id in named - self._ancestry.below(named):
            finished = self._finished(self._spans[span_id])
            if finished is not None:
                yield finished

    def interactions(self) -> Iterator[FinishedTree]:
        """Yield the trees, and what the application's own spans hold together."""
        alone: list[SpanRecord] = []
        found: dict[str, list[SpanRecord]] = {}
        for top in self._tops():
            finished = self._finished(top)
            if finished is None:
                alone.append(top)
                continue
            if top.scope in FRAMEWORKS:
                found.setdefault(top.parent_id, []).append(top)
            yield finished
        for roots in found.values():
            roots.sort(key=_began)
        # OpenInference does not make its spans of LangChain the current ones: what their clients'
        # instrumentations say of the same search and model call lies beside them.
        alone = [t for t in alone if not _under_way(found.get(t.parent_id, ()), t.started_ns)]
        yield from self._anchored(alone)

    def _tops(self) -> list[SpanRecord]:
        """Return the outermost spans of a dialect; no other one encloses them."""
        matching = {span_id for span_id, span in self._open.items() if span.matches}
        matching -= self._spans.keys()
        inside = self._ancestry.below(matching | self._steps.keys())
        return [self._spans[span_id] for span_id in self._steps if span_id not in inside]

    def _anchored(self, alone: list[SpanRecord]) -> Iterator[FinishedTree]:
        """Yield the innermost spans of no dialect that enclose a retrieval and a model.

        What is open still may yet enclose more, so nothing below it is decided.
        """
        below: dict[str, list[SpanRecord]] = {}
        for top in alone:
            for above in self._ancestry.above(top.span_id):
                if above in self._spans:
                    below.setdefault(above, []).append(top)
        used: set[str] = set()
        for span_id in sorted(below, key=lambda i: len(below[i])):
            tops = [top for top in below[span_id] if top.span_id not in used]
            if len(tops) < 2:
                continue  # one to retrieve, one to ask
            finished = self._finished(self._spans[span_id], tops, in_turn=True)
            if finished is not None:
                used.update(top.span_id for top in tops)
                yield finished

    def _finished(
        self,
        root: SpanRecord,
        tops: Iterable[SpanRecord] = (),
        *,
        in_turn: bool = False,
    ) -> FinishedTree | None:
        """Return the tree below a root, of an anchor that of these tops; None: no interaction."""
        steps: list[Step] = []
        parents: dict[str, str] = {}
        pending = [(top, root.span_id) for top in tops] or [(root, "")]
        while pending:
            span, enclosing = pending.pop()
            step = self._steps.get(span.span_id)
            if step is not None:
                steps.append(step)
                parents[span.span_id] = enclosing
                enclosing = span.span_id
            pending += [(child, enclosing) for child in self._children.get(span.span_id, ())]
        # Most trees are a model's alone: their texts are never read.
        if not any(step.role in ("retriever", "tool") for step in steps):
            return None
        steps.sort(key=lambda step: step.span.started_ns)
        steps = [step.filled() for step in steps]
        _fold(steps, parents)
        finished = FinishedTree(root, _joined(steps, parents), parents, self._is_retrieval_tool)
        return finished if finished.is_interaction(in_turn=in_turn) else None


def _began(span: SpanRecord) -> int:
    return span.started_ns


def _under_way(calls: list[SpanRecord] | tuple[()], moment_ns: int) -> SpanRecord | None:
    """Return the last of these calls, sorted by their start, that was under way at a time."""
    position = bisect_right(calls, moment_ns, key=_began)
    before = reversed(calls[max(0, position - _AT_ONCE) : position])
    return next(
        (each for each in before if max(each.ended_ns, each.started_ns + 1) > moment_ns), None
    )


def _fold(steps: list[Step], parents: dict[str, str]) -> None:
    """Put a client's span of a model call or search below the framework's span of the same.

    Instrumentations of frameworks do not always make their spans the current ones, so that the two
    are siblings, or the client's is below what was current when its stream was read.
    """
    outer: dict[str, list[SpanRecord]] = {}
    by_id = {step.span.span_id: step for step in steps}
    for step in steps:
        if step.span.scope in FRAMEWORKS and step.role in ("model", "retriever"):
            place = step.role if step.role == "model" else parents[step.span.span_id]
            outer.setdefault(place, []).append(step.span)
    for step in steps:
        span_id = step.span.span_id
        parent = by_id.get(parents[span_id])
        if step.span.scope in FRAMEWORKS or (parent is not None and parent.role == step.role):
            continue
        if step.role == "model":
            calls = outer.get("model", [])
        elif step.role == "retriever" and step.is_store:
            calls = outer.get(parents[span_id], [])
        else:
            continue
        call = _under_way(calls, step.span.started_ns)
        if call is not None:
            parents[span_id] = call.span_id


def _joined(steps: list[Step], parents: Mapping[str, str]) -> list[Step]:
    """Return the steps with one for each model call.

    A framework's instrumentation and a provider's both report the call, and each may lack what the
    other has. The innermost stands for it; what encloses several is a step of its own kind.
    """
    ancestry = Ancestry(parents)
    models = {step.span.span_id: step for step in steps if step.role == "model"}
    around: dict[str, list[str]] = {}
    for span_id in models:
        for above in ancestry.above(span_id):
            if above in models:
                around.setdefault(above, []).append(span_id)
    inner = models.keys() - around.keys()
    outer_of: dict[str, list[Step]] = {}
    for outer_id, below in around.items():
        leaves = [each for each in below if each in inner]
        if len(leaves) == 1:
            outer_of.setdefault(leaves[0], []).append(models[outer_id])
    joined: list[Step] = []
    for step in steps:
        span_id = step.span.span_id
        if span_id in around:
            joined.append(replace(step, role="other"))
        elif span_id in outer_of:
            joined.append(_filled_from(step, outer_of[span_id]))
        else:
            joined.append(step)
    return joined


def _filled_from(step: Step, others: Iterable[Step]) -> Step:
    for other in others:
        step = replace(
            step,
            prompt=step.prompt or other.prompt,
            context=step.context or other.context,
            variable=step.variable or other.variable,
            answer=step.answer or other.answer,
            provider=step.provider or other.provider,
            model=step.model or other.model,
            usage=other.usage if step.usage == Usage() else step.usage,
        )
    return step
