"""Which spans of a trace belong to one interaction."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import NamedTuple

from ragmonitor.capture.foreign.dialects import FRAMEWORKS, Dialect, dialect_of
from ragmonitor.capture.foreign.reading import FinishedTree, Tree
from ragmonitor.capture.foreign.spans import ForeignSpan


class OpenSpan(NamedTuple):
    """What is known of a span that has not ended."""

    parent_id: str
    """Empty: it has none in this process."""
    speaks: bool
    """It is, or may be, of a dialect."""


class Choice(NamedTuple):
    """Which of nested trees is the interaction; the settings of the same names."""

    innermost: bool = False
    root_names: Collection[str] = ()


OUTERMOST = Choice()


def trees_of(
    spans: Iterable[ForeignSpan],
    open_spans: Mapping[str, OpenSpan] | None = None,
    *,
    choice: Choice = OUTERMOST,
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
        spans: Iterable[ForeignSpan],
        open_spans: Mapping[str, OpenSpan],
        choice: Choice,
        is_retrieval_tool: Callable[[str], bool],
    ) -> None:
        self._spans = {span.span_id: span for span in spans}
        self._open = open_spans
        self._choice = choice
        self._is_retrieval_tool = is_retrieval_tool
        self._dialects: dict[str, Dialect] = {}
        self._children: dict[str, list[ForeignSpan]] = {}
        for span in self._spans.values():
            dialect = dialect_of(span.scope, span.attributes)
            if dialect is not None:
                self._dialects[span.span_id] = dialect
            self._children.setdefault(_local_parent(span), []).append(span)

    def interactions(self) -> Iterator[FinishedTree]:
        if self._choice.root_names:
            yield from self._named()
            return
        taken: set[str] = set()
        if self._choice.innermost:
            yield from self._innermost(taken)
        alone: list[ForeignSpan] = []
        for top in self._tops():
            if top.span_id in taken:
                continue
            finished = self._finished(top, taken)
            if finished.is_interaction():
                yield finished
            else:
                alone.append(top)
        yield from self._anchored(alone, taken)

    def _named(self) -> Iterator[FinishedTree]:
        named = {
            i for i, span in self._spans.items() if self._name(span) in self._choice.root_names
        }
        for span_id in named:
            span = self._spans[span_id]
            if not any(above in named for above in self._above(span)):
                finished = self._finished(span, ())
                if finished.is_interaction():
                    yield finished

    def _name(self, span: ForeignSpan) -> str:
        dialect = self._dialects.get(span.span_id)
        return span.name if dialect is None else dialect.name(span)

    def _innermost(self, taken: set[str]) -> Iterator[FinishedTree]:
        chains = [
            span
            for span_id, span in self._spans.items()
            if span_id in self._dialects and self._dialects[span_id].role(span) == "chain"
        ]
        for chain in sorted(chains, key=lambda span: -sum(1 for _ in self._above(span))):
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
            if above not in self._dialects:
                continue
            outer = self._finished(self._spans[above], taken)
            if outer.tree.steps != finished.tree.steps:
                break
            finished = outer
        return finished

    def _tops(self) -> list[ForeignSpan]:
        """Return the spans of a dialect that no span of a dialect, open or ended, encloses."""
        return [
            self._spans[span_id]
            for span_id in self._dialects
            if not any(self._speaks(above) for above in self._above(self._spans[span_id]))
        ]

    def _speaks(self, span_id: str) -> bool:
        return span_id in self._dialects or (
            span_id in self._open and self._open[span_id].speaks and span_id not in self._spans
        )

    def _anchored(self, alone: list[ForeignSpan], taken: Collection[str]) -> Iterator[FinishedTree]:
        """Yield the innermost spans of no dialect that enclose a retrieval and a model.

        What is open still may yet enclose more, so nothing below it is decided.
        """
        below: dict[str, list[ForeignSpan]] = {}
        for top in alone:
            for above in self._above(top):
                below.setdefault(above, []).append(top)
        used: set[str] = set()
        for span_id in sorted(below, key=lambda i: len(below[i])):
            anchor = self._spans.get(span_id)
            tops = [top for top in below[span_id] if top.span_id not in used]
            if anchor is None or len(tops) < 2:  # one to retrieve, one to ask
                continue
            finished = self._finished(anchor, taken, tops)
            if finished.is_interaction(in_turn=True):
                used.update(top.span_id for top in tops)
                yield finished

    def _finished(
        self, root: ForeignSpan, taken: Collection[str], tops: Iterable[ForeignSpan] = ()
    ) -> FinishedTree:
        """Return the tree below a root; of an anchor, that of these tops alone."""
        spans: list[ForeignSpan] = []
        parents: dict[str, str] = {}
        heard: dict[str, str] = {}
        pending = [(top, root.span_id) for top in tops] or [(root, "")]
        while pending:
            span, enclosing = pending.pop()
            if span.span_id in taken:
                continue
            framework = FRAMEWORKS.get(span.scope, span.scope)
            # Two instrumentations of one framework tell the same twice: the outer one is heard.
            if span.span_id in self._dialects and (
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
            dialects={span.span_id: self._dialects[span.span_id] for span in spans},
        )
        return FinishedTree(tree, is_retrieval_tool=self._is_retrieval_tool)

    def _fold(self, spans: Iterable[ForeignSpan], parents: dict[str, str]) -> None:
        """Put a provider's span of a model call below the framework's span of the same call.

        OpenLLMetry does not make a model's span the current one, so the two are siblings.
        """
        models = [s for s in spans if self._dialects[s.span_id].role(s) == "model"]
        outer = [s for s in models if s.scope in FRAMEWORKS]
        for span in models:
            if span.scope in FRAMEWORKS:
                continue
            calls = [
                call
                for call in outer
                if call.started_ns <= span.started_ns < max(call.ended_ns, call.started_ns + 1)
                and parents[call.span_id] == parents[span.span_id]
            ]
            if calls:
                parents[span.span_id] = max(calls, key=lambda call: call.started_ns).span_id

    def _above(self, span: ForeignSpan) -> Iterator[str]:
        return enclosing(span.span_id, self._spans, self._open)


def enclosing(
    span_id: str, spans: Mapping[str, ForeignSpan], open_spans: Mapping[str, OpenSpan]
) -> Iterator[str]:
    """Yield the ids of what encloses a span in this process, from the inside out."""
    seen = {span_id}
    above = _parent_in(span_id, spans, open_spans)
    while above and above not in seen:
        seen.add(above)
        yield above
        above = _parent_in(above, spans, open_spans)


def _parent_in(
    span_id: str, spans: Mapping[str, ForeignSpan], open_spans: Mapping[str, OpenSpan]
) -> str:
    if span_id in spans:
        return _local_parent(spans[span_id])
    return open_spans[span_id].parent_id if span_id in open_spans else ""


def _local_parent(span: ForeignSpan) -> str:
    return "" if span.parent_is_remote else span.parent_id
