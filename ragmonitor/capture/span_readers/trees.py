"""Says which spans of a trace belong to one interaction, and in which order its steps nest."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import NamedTuple

from ragmonitor.capture.span_readers import openllmetry
from ragmonitor.capture.span_readers.ancestry import Ancestry
from ragmonitor.capture.span_readers.dialects import FRAMEWORKS, dialect_of
from ragmonitor.capture.span_readers.finished import FinishedTree
from ragmonitor.capture.span_readers.spans import SpanRecord
from ragmonitor.capture.span_readers.steps import Step, step_of
from ragmonitor.records import Usage


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
        is_retrieval_tool: Whether the text that a tool of this name gives counts as retrieved.
    """
    trace = _Trace(spans, open_spans or {}, is_retrieval_tool)
    return sorted(trace.interactions(), key=lambda finished: finished.root.started_ns)


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

    def interactions(self) -> Iterator[FinishedTree]:
        """Yield the trees, and what the application's own spans hold together."""
        alone: list[SpanRecord] = []
        beside: set[str] = set()
        for top in self._tops():
            finished = self._finished(top)
            if finished is None:
                alone.append(top)
                continue
            if top.scope in FRAMEWORKS:
                beside.add(top.parent_id)
            yield finished
        # OpenInference does not make its spans of LangChain the current ones: what their clients'
        # instrumentations say of the same search and model call lies beside them.
        yield from self._anchored([top for top in alone if top.parent_id not in beside])

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
        steps = _merged([step.filled() for step in steps], parents)
        finished = FinishedTree(root, steps, parents, self._is_retrieval_tool)
        return finished if finished.is_interaction(in_turn=in_turn) else None


def _merged(steps: list[Step], parents: Mapping[str, str]) -> list[Step]:
    """Return the steps with one for each model call and each search.

    A framework's instrumentation and a client's both report them, and each may lack what the other
    has. The client's span is below the framework's, or beside it: instrumentations of frameworks
    do not always make their spans the current ones. Of model calls the innermost stands for the
    call, and what encloses several is a step of its own kind.
    """
    of_frameworks = [step for step in steps if step.span.scope in FRAMEWORKS]
    if any(step.role == "retriever" for step in of_frameworks):
        steps = [step for step in steps if not step.is_store]
    calls = [step.span for step in of_frameworks if step.role == "model"]
    ancestry = Ancestry(parents)
    models = {step.span.span_id: step for step in steps if step.role == "model"}
    outer_of: dict[str, str] = {}
    within: dict[str, int] = {}
    for span_id, step in models.items():
        outer = next((above for above in ancestry.above(span_id) if above in models), "")
        if not outer and step.span.scope not in FRAMEWORKS:
            outer = _under_way(calls, step.span.started_ns)
        if outer:
            outer_of[span_id] = outer
            within[outer] = within.get(outer, 0) + 1
    merged = []
    for step in steps:
        span_id = step.span.span_id
        one = replace(step, role="other") if span_id in within else step
        outer = "" if span_id in within else outer_of.get(span_id, "")
        while within.get(outer) == 1:
            one, outer = _filled_from(one, models[outer]), outer_of.get(outer, "")
        merged.append(one)
    return merged


def _under_way(calls: Iterable[SpanRecord], moment_ns: int) -> str:
    """Return the id of the last call that was under way at a time; empty: none was."""
    under_way = [c.span_id for c in calls if c.started_ns <= moment_ns <= c.ended_ns]
    return under_way[-1] if under_way else ""


def _filled_from(step: Step, other: Step) -> Step:
    return replace(
        step,
        prompt=step.prompt or other.prompt,
        context=step.context or other.context,
        variable=step.variable or other.variable,
        answer=step.answer or other.answer,
        provider=step.provider or other.provider,
        model=step.model or other.model,
        usage=other.usage if step.usage == Usage() else step.usage,
    )
