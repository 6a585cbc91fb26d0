"""Says which spans of a trace belong to one interaction, and in which order its steps nest."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import replace

from ragmonitor.capture.span_readers.dialects import FRAMEWORKS, LLAMA_INDEX, follows
from ragmonitor.capture.span_readers.finished import FinishedTree
from ragmonitor.capture.span_readers.spans import SpanRecord
from ragmonitor.capture.span_readers.steps import Step, begins_anew, step_of
from ragmonitor.records import Usage

_MERGED = ("prompt", "context", "variable", "answer", "provider", "model", "usage")
"""What a span of a model call may lack, and another one of the same call may have."""


class Ancestry:
    """Answers from parent ids. Its sums over a trace are linear in the trace's spans."""

    def __init__(self, parents: Mapping[str, str]) -> None:
        """Take the parents of the spans.

        Args:
            parents: By a span's id, that of its parent; empty: it has none.
        """
        self._parents = parents
        self.children: dict[str, list[str]] = {}
        """By a span's id, those of the spans whose parent it is."""
        for span_id, above in parents.items():
            self.children.setdefault(above, []).append(span_id)
        self.order = [span_id for span_id, above in parents.items() if above not in parents]
        """The ids from the outside in; spans that enclose themselves are left out."""
        for span_id in self.order:
            self.order += self.children.get(span_id, ())

    def above(self, span_id: str) -> Iterator[str]:
        """Yield the ids of what encloses a span in this process, from the inside out."""
        seen = {span_id}
        above = self._parents.get(span_id, "")
        while above and above not in seen:
            seen.add(above)
            yield above
            above = self._parents.get(above, "")

    def enclosing(self, span_ids: Iterable[str]) -> set[str]:
        """Return the ids of all that encloses any of these."""
        found = {self._parents.get(span_id, "") for span_id in span_ids}
        for span_id in reversed(self.order):
            if span_id in found:
                found.add(self._parents[span_id])
        return found

    def below(self, others: Collection[str]) -> set[str]:
        """Return the ids of all that any of these encloses."""
        found: set[str] = set()
        for span_id in self.order:
            above = self._parents[span_id]
            if above in others or above in found:
                found.add(span_id)
        return found


class JoinedTrace:
    """The spans of one trace, by id, and the interactions among them."""

    def __init__(
        self,
        spans: Iterable[SpanRecord],
        open_spans: Iterable[SpanRecord] = (),
        *,
        is_retrieval_tool: Callable[[str], bool] = lambda _name: False,
    ) -> None:
        """Join spans.

        Args:
            spans: Those that have ended; spans of no dialect connect the others, or are left out.
            open_spans: Those that have not. What lies below an open span of a dialect, or encloses
                one, is no interaction yet.
            is_retrieval_tool: Whether the text that a tool of this name gives counts as retrieved.
        """
        self._spans = {span.span_id: span for span in spans}
        self._is_retrieval_tool = is_retrieval_tool
        all_spans = {span.span_id: span for span in open_spans} | self._spans
        parents = {span_id: span.parent_id for span_id, span in all_spans.items()}
        of_llama_index = {i for i, span in all_spans.items() if span.scope == LLAMA_INDEX}
        ancestry = Ancestry(parents)
        for span_id in of_llama_index & self._spans.keys():
            span = self._spans[span_id]
            if begins_anew(span) and not of_llama_index.isdisjoint(ancestry.above(span_id)):
                self._spans[span_id] = replace(span, parent_id="", parent=None, memo={})
                parents[span_id] = ""
        self._ancestry = Ancestry(parents)
        steps = ((span_id, step_of(span)) for span_id, span in self._spans.items())
        self._steps = {span_id: step for span_id, step in steps if step is not None}
        self._unfinished = {
            span_id
            for span_id, span in all_spans.items()
            if span_id not in self._spans and follows(span.scope, span.attributes)
        }
        self._waiting = self._ancestry.enclosing(self._unfinished)

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
        inside = self._ancestry.below(self._unfinished | self._steps.keys())
        below: dict[str, list[str]] = {}
        for top in self._ancestry.order:
            if top in self._steps and top not in inside and not self._is_growing(top):
                for span_id in (top, *self._ancestry.above(top)):
                    if span_id in self._spans:
                        below.setdefault(span_id, []).append(top)
        used, beside = set[str](), set[str]()
        found: list[FinishedTree] = []
        # First the outermost ones of a dialect; of others the innermost.
        for span_id in sorted(below, key=lambda i: (i not in self._steps, len(below[i]))):
            is_anchor = span_id not in self._steps
            tops = [top for top in below[span_id] if top not in used]
            if is_anchor:
                tops = [top for top in tops if self._spans[top].parent_id not in beside]
            if len(tops) <= is_anchor or self._is_growing(span_id):
                continue  # one to retrieve, one to ask; what is open may yet enclose more
            finished = self._finished(self._spans[span_id], tops, in_turn=is_anchor)
            if finished is None:
                continue
            found.append(finished)
            used.update(tops)
            if finished.root.scope in FRAMEWORKS:
                # OpenInference does not make its spans of LangChain the current ones: what their
                # clients' instrumentations say of the same search and model call lies beside them.
                beside.add(finished.root.parent_id)
        return sorted(found, key=lambda finished: finished.root.started_ns)

    def _is_growing(self, span_id: str) -> bool:
        # What failed or was cancelled leaves spans that no one ends.
        return span_id in self._waiting and not self._spans[span_id].has_failed

    def _finished(
        self, root: SpanRecord, tops: Iterable[str], *, in_turn: bool
    ) -> FinishedTree | None:
        """Return the tree of a root and the steps below it; None: no interaction."""
        steps: list[Step] = []
        parents: dict[str, str] = {}
        pending = [(top, "" if top == root.span_id else root.span_id) for top in tops]
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
    call, and what encloses several is a step of its own kind. So is a retriever that says nothing,
    and encloses one that does.
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
    inner = Counter(outer_of.values())
    searches = {step.span.span_id: step for step in steps if step.role == "retriever"}
    says = {span_id for span_id, step in searches.items() if step.documents is not None}
    within = inner.keys() | (ancestry.enclosing(says) & searches.keys() - says)
    merged = []
    for step in steps:
        span_id = step.span.span_id
        one = replace(step, role="other") if span_id in within else step
        outer = "" if span_id in inner else outer_of.get(span_id, "")
        while inner[outer] == 1:
            missing = (name for name in _MERGED if getattr(one, name) in ((), "", Usage()))
            one = replace(one, **{name: getattr(models[outer], name) for name in missing})
            outer = outer_of.get(outer, "")
        merged.append(one)
    return merged
