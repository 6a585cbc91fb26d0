"""Says which spans of a trace belong to one interaction, and in which order its steps nest."""

from __future__ import annotations

from collections import Counter
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

_MERGED = ("prompt", "context", "variable", "answer", "provider", "model", "usage")
"""What a span of a model call may lack, and another one of the same call may have."""


class OpenSpan(NamedTuple):
    """A span that has not ended."""

    parent_id: str
    """Empty: it has none in this process."""
    matches: bool
    """It is, or may be, of a dialect."""
    scope: str = ""
    """The name of the instrumentation that began it."""


class JoinedTrace:
    """The spans of one trace, by id, and the interactions among them."""

    def __init__(
        self,
        spans: Iterable[SpanRecord],
        open_spans: Mapping[str, OpenSpan] | None = None,
        *,
        is_retrieval_tool: Callable[[str], bool] = lambda _name: False,
    ) -> None:
        """Join spans.

        Args:
            spans: Those that have ended; spans of no dialect connect the others, or are left out.
            open_spans: By id: those that have not. What lies below an open span of a dialect, or
                encloses one, is no interaction yet.
            is_retrieval_tool: Whether the text that a tool of this name gives counts as retrieved.
        """
        self._spans = {span.span_id: span for span in spans}
        self._open = open_spans or {}
        self._is_retrieval_tool = is_retrieval_tool
        parents = {span_id: span.parent_id for span_id, span in self._open.items()}
        parents |= {span_id: span.parent_id for span_id, span in self._spans.items()}
        ancestry = Ancestry(parents)
        for span in [*filter(openllmetry.begins_anew, self._spans.values())]:
            if any(self._is_of_llama_index(above) for above in ancestry.above(span.span_id)):
                self._spans[span.span_id] = replace(span, parent_id="", parent=None, memo={})
                parents[span.span_id] = ""
        self._ancestry = Ancestry(parents)
        self._steps: dict[str, Step] = {}
        for span in self._spans.values():
            dialect = dialect_of(span.scope, span.attributes)
            if dialect is not None:
                self._steps[span.span_id] = step_of(span, dialect)
        self._unfinished = {i for i, span in self._open.items() if span.matches}
        self._waiting = self._ancestry.enclosing(self._unfinished)

    def _is_of_llama_index(self, span_id: str) -> bool:
        span = self._open.get(span_id) or self._spans.get(span_id)
        return span is not None and span.scope == openllmetry.LLAMA_INDEX

    @property
    def connecting(self) -> set[str]:
        """The ids of the spans that an interaction may need: steps, and what encloses steps."""
        return self._steps.keys() | self._ancestry.enclosing(self._steps) | self._waiting

    def interactions(self) -> list[FinishedTree]:
        """Return the interactions, by the time of their roots' start.

        An interaction's root is the outermost span of a dialect below which something was retrieved
        and a model asked. Where no such span has both, it is the innermost span of any kind that
        has: an application's own `answer` span, or a server's request span, around a search and a
        model call.
        """
        alone: list[SpanRecord] = []
        beside: set[str] = set()
        found: list[FinishedTree] = []
        inside = self._ancestry.below(self._unfinished | self._steps.keys())
        for span_id in self._ancestry.order:
            if span_id in inside or span_id not in self._steps or self._is_growing(span_id):
                continue
            top = self._spans[span_id]
            finished = self._finished(top)
            if finished is None:
                alone.append(top)
                continue
            found.append(finished)
            if top.scope in FRAMEWORKS:
                beside.add(top.parent_id)
        # OpenInference does not make its spans of LangChain the current ones: what their clients'
        # instrumentations say of the same search and model call lies beside them.
        found += self._anchored([top for top in alone if top.parent_id not in beside])
        return sorted(found, key=lambda finished: finished.root.started_ns)

    def _is_growing(self, span_id: str) -> bool:
        # What failed or was cancelled leaves spans that no one ends.
        return span_id in self._waiting and self._spans[span_id].status != "error"

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
            if len(tops) < 2 or self._is_growing(span_id):
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
        pending = [(top.span_id, root.span_id) for top in tops] or [(root.span_id, "")]
        for span_id, above in pending:  # which grows
            enclosing = above
            if span_id in self._steps:
                steps.append(self._steps[span_id])
                parents[span_id] = above
                enclosing = span_id
            pending += [(child, enclosing) for child in self._ancestry.children.get(span_id, ())]
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
    if any(step.role == "retriever" and not step.is_store for step in of_frameworks):
        steps = [step for step in steps if not step.is_store]
    calls = [step.span for step in reversed(of_frameworks) if step.role == "model"]
    ancestry = Ancestry(parents)
    models = {step.span.span_id: step for step in steps if step.role == "model"}
    outer_of: dict[str, str] = {}
    for span_id, step in models.items():
        outer = next((above for above in ancestry.above(span_id) if above in models), "")
        if not outer and step.span.scope not in FRAMEWORKS:
            at_ns = step.span.started_ns
            under_way = (c.span_id for c in calls if c.started_ns <= at_ns <= c.ended_ns)
            outer = next(under_way, "")
        if outer:
            outer_of[span_id] = outer
    within = Counter(outer_of.values())
    merged = []
    for step in steps:
        span_id = step.span.span_id
        one = replace(step, role="other") if span_id in within else step
        outer = "" if span_id in within else outer_of.get(span_id, "")
        while within[outer] == 1:
            others = {name: getattr(models[outer], name) for name in _MERGED}
            missing = (name for name in _MERGED if getattr(one, name) in ((), "", Usage()))
            one = replace(one, **{name: others[name] for name in missing})
            outer = outer_of.get(outer, "")
        merged.append(one)
    return merged
