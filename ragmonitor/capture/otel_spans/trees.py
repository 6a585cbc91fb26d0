"""Says which spans of a trace belong to one interaction."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from itertools import accumulate
from typing import NamedTuple

from ragmonitor.capture.otel_spans.ancestry import Ancestry
from ragmonitor.capture.otel_spans.convention import Convention, Role
from ragmonitor.capture.otel_spans.known_conventions import FRAMEWORKS, convention_of
from ragmonitor.capture.otel_spans.reading import FinishedTree, Tree
from ragmonitor.capture.otel_spans.spans import SpanRecord


class OpenSpan(NamedTuple):
    """A span that has not ended."""

    parent_id: str
    """Empty: it has none in this process."""
    matches: bool
    """It is, or may be, of a convention."""


class Choice(NamedTuple):
    """Chooses the interaction among nested trees, as the settings of the same names say."""

    innermost: bool = False
    root_names: Collection[str] = ()


OUTERMOST = Choice()


def ancestry_of(spans: Mapping[str, SpanRecord], open_spans: Mapping[str, OpenSpan]) -> Ancestry:
    """Return which of these spans enclose which, within this process."""
    parents = {span_id: span.parent_id for span_id, span in open_spans.items()}
    return Ancestry(parents | {span_id: span.parent_id for span_id, span in spans.items()})


def trees_of(
    spans: Iterable[SpanRecord],
    open_spans: Mapping[str, OpenSpan] | None = None,
    *,
    choice: Choice = OUTERMOST,
    is_retrieval_tool: Callable[[str], bool] = lambda _name: False,
) -> list[FinishedTree]:
    """Return the interactions of one trace, by the time of their roots' start.

    An interaction's root is the outermost span of a convention below which something was retrieved
    and a model asked. Where no such span has both, it is the innermost span of any kind that
    has: an application's own `answer` span, or a server's request span, around a search and a model
    call.

    Args:
        spans: Those that have ended; spans of no convention connect the others, or are left out.
        open_spans: By id: those that have not. What lies below an open span of a convention is none
            of the result, unless the choice says otherwise.
        choice: Which of nested ones.
        is_retrieval_tool: Whether the text that a tool of this name gives counts as retrieved.
    """
    return sorted(
        _Trace(spans, open_spans or {}, choice, is_retrieval_tool).interactions(),
        key=lambda finished: finished.tree.root.started_ns,
    )


class _Trace:
    """The spans of one trace, by id."""

    def __init__(
        self,
        spans: Iterable[SpanRecord],
        open_spans: Mapping[str, OpenSpan],
        choice: Choice,
        is_retrieval_tool: Callable[[str], bool],
    ) -> None:
        self._spans = {span.span_id: span for span in spans}
        self._open = open_spans
        self._ancestry = ancestry_of(self._spans, open_spans)
        self._choice = choice
        self._is_retrieval_tool = is_retrieval_tool
        self._conventions: dict[str, Convention] = {}
        self._children: dict[str, list[SpanRecord]] = {}
        for span in self._spans.values():
            convention = convention_of(span.scope, span.attributes)
            if convention is not None:
                self._conventions[span.span_id] = convention
            self._children.setdefault(span.parent_id, []).append(span)

    def interactions(self) -> Iterator[FinishedTree]:
        if self._choice.root_names:
            yield from self._named()
            return
        taken: set[str] = set()
        if self._choice.innermost:
            yield from self._innermost(taken)
        alone: list[SpanRecord] = []
        roots: dict[str, list[SpanRecord]] = {}
        for top in self._tops():
            if top.span_id in taken:
                continue
            # Most that stand alone are a model's: a look at the roles tells as much as a tree.
            if self._retrieves(top) and (finished := self._finished(top, taken)).is_interaction():
                if top.scope in FRAMEWORKS:
                    roots.setdefault(top.parent_id, []).append(top)
                yield finished
            else:
                alone.append(top)
        # OpenInference does not make its spans of LangChain the current ones: what their clients'
        # instrumentations say of the same search and model call lies beside them.
        calls = {parent: _Calls(of_it) for parent, of_it in roots.items()}
        yield from self._anchored(
            [
                top
                for top in alone
                if (beside := calls.get(top.parent_id)) is None or not beside.at(top.started_ns)
            ],
            taken,
        )

    def _retrieves(self, root: SpanRecord) -> bool:
        """Return whether a span below this one, or itself, may have retrieved something."""
        pending = [root]
        while pending:
            span = pending.pop()
            convention = self._conventions.get(span.span_id)
            if convention is not None and convention.role(span) in ("retriever", "tool"):
                return True
            pending += self._children.get(span.span_id, ())
        return False

    def _named(self) -> Iterator[FinishedTree]:
        named = {
            i for i, span in self._spans.items() if self._name(span) in self._choice.root_names
        }
        for span_id in named - self._ancestry.below(named):
            finished = self._finished(self._spans[span_id], ())
            if finished.is_interaction():
                yield finished

    def _name(self, span: SpanRecord) -> str:
        convention = self._conventions.get(span.span_id)
        return span.name if convention is None else convention.name(span)

    def _innermost(self, taken: set[str]) -> Iterator[FinishedTree]:
        chains = [
            span
            for span_id, span in self._spans.items()
            if span_id in self._conventions and self._conventions[span_id].role(span) == "chain"
        ]
        depths = self._ancestry.depths()
        for chain in sorted(chains, key=lambda span: -depths[span.span_id]):
            if chain.span_id in taken:
                continue
            finished = self._finished(chain, taken)
            if finished.is_interaction(in_turn=True):
                finished = self._widened(finished, taken)
                taken.update(span.span_id for span in finished.tree.spans)
                yield finished

    def _widened(self, finished: FinishedTree, taken: Collection[str]) -> FinishedTree:
        """Return the outermost of the chains that enclose the same steps: `query`, not `_query`."""
        for above in self._above(finished.tree.root):
            if above not in self._conventions:
                continue
            outer = self._finished(self._spans[above], taken)
            if outer.tree.steps != finished.tree.steps:
                break
            finished = outer
        return finished

    def _tops(self) -> list[SpanRecord]:
        """Return the outermost spans of a convention; no other one encloses them."""
        matching = {span_id for span_id, span in self._open.items() if span.matches}
        matching -= self._spans.keys()
        inside = self._ancestry.below(matching | self._conventions.keys())
        return [self._spans[span_id] for span_id in self._conventions if span_id not in inside]

    def _anchored(self, alone: list[SpanRecord], taken: Collection[str]) -> Iterator[FinishedTree]:
        """Yield the innermost spans of no convention that enclose a retrieval and a model.

        What is open still may yet enclose more, so nothing below it is decided.
        """
        below: dict[str, list[SpanRecord]] = {}
        for top in alone:
            for above in self._above(top):
                if above in self._spans:
                    below.setdefault(above, []).append(top)
        used: set[str] = set()
        for span_id in sorted(below, key=lambda i: len(below[i])):
            tops = [top for top in below[span_id] if top.span_id not in used]
            if len(tops) < 2 or not any(self._retrieves(top) for top in tops):
                continue  # one to retrieve, one to ask
            finished = self._finished(self._spans[span_id], taken, tops)
            if finished.is_interaction(in_turn=True):
                used.update(top.span_id for top in tops)
                yield finished

    def _finished(
        self, root: SpanRecord, taken: Collection[str], tops: Iterable[SpanRecord] = ()
    ) -> FinishedTree:
        """Return the tree below a root; of an anchor, that of these tops alone."""
        spans: list[SpanRecord] = []
        parents: dict[str, str] = {}
        heard: dict[str, str] = {}
        pending = [(top, root.span_id) for top in tops] or [(root, "")]
        while pending:
            span, enclosing = pending.pop()
            if span.span_id in taken:
                continue
            framework = FRAMEWORKS.get(span.scope, span.scope)
            # Two instrumentations of one framework tell the same twice: the outer one is heard.
            if span.span_id in self._conventions and (
                heard.setdefault(framework, span.scope) == span.scope
            ):
                spans.append(span)
                parents[span.span_id] = enclosing
                enclosing = span.span_id
            pending += [(child, enclosing) for child in self._children.get(span.span_id, ())]
        self._fold(spans, parents)
        tree = Tree(
            root=root,
            spans=tuple(sorted(spans, key=lambda span: span.started_ns)),
            parents=parents,
            conventions={span.span_id: self._conventions[span.span_id] for span in spans},
        )
        return FinishedTree(tree, is_retrieval_tool=self._is_retrieval_tool)

    def _fold(self, spans: Iterable[SpanRecord], parents: dict[str, str]) -> None:
        """Put a client's span of a model call or search below the framework's span of the same.

        OpenLLMetry does not make a model's span the current one, so the two are siblings.
        """
        outer: dict[tuple[str, Role], list[SpanRecord]] = {}
        inner: list[tuple[SpanRecord, Role]] = []
        for span in spans:
            convention = self._conventions[span.span_id]
            role = convention.role(span)
            if role in ("model", "retriever"):
                if span.scope in FRAMEWORKS:
                    outer.setdefault((parents[span.span_id], role), []).append(span)
                elif role == "model" or convention.is_store(span):
                    inner.append((span, role))
        calls = {place: _Calls(of_it) for place, of_it in outer.items()}
        for span, role in inner:
            beside = calls.get((parents[span.span_id], role))
            call = None if beside is None else beside.at(span.started_ns)
            if call is not None:
                parents[span.span_id] = call.span_id

    def _above(self, span: SpanRecord) -> Iterator[str]:
        return self._ancestry.above(span.span_id)


class _Calls:
    """Spans by the time of their start, to find the one that was under way at a time."""

    def __init__(self, spans: Iterable[SpanRecord]) -> None:
        self._spans = sorted(spans, key=lambda span: span.started_ns)
        self._starts = [span.started_ns for span in self._spans]
        self._ends = [max(span.ended_ns, span.started_ns + 1) for span in self._spans]
        self._latest = list(accumulate(self._ends, max))
        """The latest end of this one and those before it."""

    def at(self, moment_ns: int) -> SpanRecord | None:
        """Return the last that had begun, of those that had not ended; None: there is none."""
        position = bisect_right(self._starts, moment_ns) - 1
        while position >= 0 and self._latest[position] > moment_ns:
            if self._ends[position] > moment_ns:
                return self._spans[position]
            position -= 1
        return None
