"""Turns a tree of steps into one `Interaction`, behind the request path.

The steps are noted as runs, as an integration of ours would have, and assembled by the same rules
(`capture.assembly`): so the same application gives the same record, as far as its dialect says it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any, cast

from opentelemetry.trace import format_trace_id

from ragmonitor.capture.assembly import FinishedRuns, Translator
from ragmonitor.capture.coercion import MAX_ERROR_CHARACTERS
from ragmonitor.capture.prompts import seen_in
from ragmonitor.capture.runs import Root, Run, RunKind
from ragmonitor.capture.span_readers.dialects import FRAMEWORKS
from ragmonitor.capture.span_readers.spans import SpanRecord
from ragmonitor.capture.span_readers.steps import Step
from ragmonitor.capture.span_readers.texts import Documents, is_repr
from ragmonitor.records import Chunk, Message, Status, Usage
from ragmonitor.runtime.patterns import lazy_pattern
from ragmonitor.semconv.conventions import GENAI_FIRST_CHUNK

_REPR_OF_ERROR = lazy_pattern(r"(\w+)\(")
"""OpenInference's description of a failure, where the exception is no event: `repr` and trace."""
_JAVASCRIPT = "@"
"""Beginning of a scope that is a package of npm."""
_SPARE_NS = 2_000_000
"""The error of times of JavaScript: they begin with whole milliseconds, each span's by itself."""
_ABANDONED = "abandoned stream"
"""OpenTelemetry's description of a stream that was closed early."""


class FinishedTree(FinishedRuns):
    """A root that has ended, with the steps below it."""

    def __init__(
        self,
        root: SpanRecord,
        steps: Sequence[Step],
        parents: Mapping[str, str],
        is_retrieval_tool: Callable[[str], bool],
    ) -> None:
        """Note the steps as runs.

        Args:
            root: One of the steps', or a span of no dialect that holds them together.
            steps: In the order of their start; at least one.
            parents: By span id: that of the step, or the root, that encloses it most closely.
            is_retrieval_tool: Whether the text that a tool of this name gives counts as retrieved.
        """
        self.root = root
        self.steps = steps
        by_id = {step.span.span_id: step for step in steps}
        first = steps[0]
        own = by_id.get(root.span_id) or Step(
            span=root, dialect=first.dialect, role="chain", name=root.name, labels=first.labels
        )
        run_id = format_trace_id(root.context.trace_id) + root.span_id
        run = Root(run_id, None, "chain", own.name, own)
        # Times and ids are set after the fact: a run notes its own when it is made.
        run.caller, run.target = root.parent, root.context
        run.started_ns = root.started_ns
        run.status, run.error = _ending(root)
        self._steps = _StepTranslator(self, run)
        super().__init__(run, self._steps)
        runs: dict[str, Run] = {root.span_id: run}
        for span_id in parents:  # from the outside in
            step = by_id.get(span_id)
            if step is None or step is own:
                continue
            above = runs[span_id] = runs.get(parents[span_id], run)
            if step.role in ("model", "retriever", "tool"):
                runs[span_id] = _run(step, above, is_retrieval_tool)
            elif step.role == "chain" and above is run:
                self._steps.outer_chains.append(step)
        run.members.sort(key=lambda member: member.started_ns)
        self._end(run)

    def inherit(self, labels: Mapping[str, Any]) -> None:
        """Give it labels as those of a caller's context: its own go before."""
        self._root.labels = labels

    @property
    def held(self) -> list[object]:
        """The attributes of the spans, to be weighed."""
        return [dict(step.span.attributes) for step in self.steps]

    @property
    def observed(self) -> set[str]:
        """Those of its frameworks that have an integration of ours."""
        scopes = (step.span.scope for step in self.steps)
        return {FRAMEWORKS[scope] for scope in scopes if scope in FRAMEWORKS}

    @property
    def models(self) -> list[Run]:
        """The model calls that worked on the answer, by their start."""
        return [run for run in self._root.members if run.is_generation]

    def _end(self, root: Root) -> None:
        """Set when and how the interaction ended: a stream's text may come after its root's end.

        LangChain ends a root after its model, so that one which had not ended was cut short.
        """
        span, read, models = self.root, self._steps, self.models
        spare_ns = _SPARE_NS if span.scope.startswith(_JAVASCRIPT) else 0
        late = [run for run in models if 0 < span.ended_ns < run.ended_ns - spare_ns]
        ends = [span.ended_ns]
        if is_langchain := FRAMEWORKS.get(span.scope) == "langchain":
            for run in late:
                run.status = "partial"
        else:
            read.is_streamed = bool(late)
            ends += [run.ended_ns for run in models]
        if not span.ended_ns:
            ends += [step.span.ended_ns for step in self.steps]
        root.ended_ns = max(ends)
        root.is_cut_short = root.status == "ok" and self.is_cut_short()
        says_nothing = not any(read.answer(run) or run.error for run in [root, *models])
        # OpenLLMetry ends a closed stream of LangChain without a word.
        is_closed = is_langchain and says_nothing and any(read.prompt(run) for run in models)
        if root.is_cut_short or (root.status == "ok" and is_closed):
            root.status = "partial"
        # An engine answers in its own words where nothing was found, and no model is asked.
        root.asked = root.inputs.is_engine and bool(read.answer(root) or not models)


def _run(step: Step, above: Run, is_retrieval_tool: Callable[[str], bool]) -> Run:
    """Return a model's, a retriever's or a tool's step as a run below another one."""
    span, kind = step.span, cast("RunKind", step.role)
    run = Run(span.span_id, above, kind, step.name, step)
    run.started_ns, run.ended_ns = span.started_ns, span.ended_ns
    run.status, run.error = _ending(span)
    if kind == "retriever" and above.kind == "tool":
        above.retrieved = True
        run.details = above.inputs
    elif kind == "tool":
        run.outputs = step.documents or (is_retrieval_tool(run.name) and step.answer) or None
    waited_s = span.attributes.get(GENAI_FIRST_CHUNK)
    if kind == "model" and isinstance(waited_s, int | float) and 0 < waited_s < 1e6:
        run.first_piece_ns = span.started_ns + int(waited_s * 1e9)
    run.root.members.append(run)
    return run


def _step(run: Run) -> Step:
    return cast("Step", run.inputs)


class _StepTranslator(Translator):
    """Reads the runs of one tree: every run's `inputs` is its step.

    A retriever's `details` is the step of the tool that called it.
    """

    def __init__(self, tree: FinishedTree, root: Root) -> None:
        self._tree = tree
        self._root = root
        self.framework = _step(root).dialect
        self.is_streamed = False
        """The root ended before the stream that it returned."""
        self.outer_chains: list[Step] = []
        """Those of no model, retriever or tool, from the outside in."""

    def query(self, run: Run) -> str:
        question = _step(run).query
        if question or run is not self._root:
            return question
        # A graph's span of OpenLLMetry says nothing, the one in it does; a workflow's of GenAI
        # neither, and its model's prompt names the question apart.
        models = self._tree.models
        said = [step.query for step in self.outer_chains]
        said += [_step(model).variable for model in models]
        # An agent asks its model before it searches, and nothing stands beside the question then.
        first = min((run.started_ns for run in self._retrievers), default=0)
        before = next((_step(m).prompt for m in models if m.started_ns < first), ())
        said += [m.text for m in reversed(before) if m.role == "user"]
        return next(filter(None, said), "")

    def chunks(self, run: Run) -> Sequence[Chunk]:
        if isinstance(run.outputs, str):
            return (Chunk(text=run.outputs),)
        return (run.outputs if run.kind == "tool" else self._documents(run)) or ()

    def shown(self, root: Run) -> Sequence[Chunk] | None:  # noqa: ARG002 - there is but one
        """Return the chunks in the prompts, with rerankers' scores; None: there is no reranker.

        Where no prompt tells, these are what the last reranker left.
        """
        rerankers = [step.documents for step in self._tree.steps if step.role == "reranker"]
        left = [documents for documents in rerankers if documents is not None]
        if not left:
            return None
        chunks = {chunk.text: chunk for chunk in chain(self._tree.retrieved_chunks(), *left)}
        seen = seen_in(self._tree.generations(), [*chunks.values()])
        return left[-1] if seen is None else seen

    def prompt(self, run: Run) -> Sequence[Message]:
        return _step(run).prompt

    def answer(self, run: Run) -> str:
        text = _step(run).answer
        if run.kind == "model":
            return text
        # A stream, of which the root saw the beginning at most, is its models'.
        return "" if self.is_streamed or is_repr(text) else text

    def model(self, run: Run) -> tuple[str, str]:
        return _step(run).provider, _step(run).model

    def usage(self, run: Run) -> Usage:
        return _step(run).usage

    def labels(self, root: Run) -> dict[str, Any]:
        steps = map(_step, (root, *self._root.members))
        sessions = (step.labels.get("session_id") for step in steps)
        return _step(root).labels | {
            "session_id": next(filter(None, sessions), ""),
            "capture_incomplete": self._root.status == "ok" and self._is_incomplete(),
        }

    # --- what is missing, and where else it may stand -------------------------------------------

    def _is_incomplete(self) -> bool:
        for run in self._retrievers:
            found = self._documents(run)
            # One without a text among others is an empty document.
            is_known = found is not None and (not found or any(chunk.text for chunk in found))
            if not (is_known or run.error or run.inside_retriever):
                return True
        if not any(map(self.query, (self._root, *self._retrievers))):
            return True  # a switch hides them
        answer, steps = self._tree.answer(), self._tree.steps
        return not answer or any(s.span.is_cut(answer) or not s.is_whole for s in steps)

    def _documents(self, run: Run) -> Documents:
        """Return a retriever's documents; GenAI's ids and scores with the text a prompt names."""
        found = _step(run).documents
        if not found or any(chunk.text for chunk in found):
            return found
        text = "" if run.details is None else run.details.answer
        if not text and sum(not each.inside_retriever for each in self._retrievers) == 1:
            contexts = (_step(model).context for model in reversed(self._tree.models))
            text = next(filter(None, contexts), "")
        pieces = [piece for piece in text.split("\n\n") if piece.strip()]
        if len(pieces) == len(found):
            return tuple(replace(each, text=p) for each, p in zip(found, pieces, strict=True))
        # None without an id, where these are not a paragraph each.
        return (Chunk(text=text),) if text else found

    @property
    def _retrievers(self) -> list[Run]:
        return [run for run in self._root.members if run.kind == "retriever"]


def _ending(span: SpanRecord) -> tuple[Status, str]:
    """Return how what the span stands for ended, and `TypeName: message` if it failed."""
    if not span.ended_ns:
        return "partial", ""
    if not span.has_failed:
        return "ok", ""
    kind = span.text("exception.type", "error.type").rpartition(".")[2]
    message = span.status_text
    if "exception.type" in span.attributes:
        message = span.text("exception.message")[:MAX_ERROR_CHARACTERS]
    if not kind and (described := _REPR_OF_ERROR.match(span.status_text)):
        kind, message = described[1], span.status_text.partition("\n")[0]
    if kind == "GeneratorExit" or span.status_text == _ABANDONED:
        return "partial", ""
    if kind in ("CancelledError", "KeyboardInterrupt"):
        return "cancelled", ""
    return "error", f"{kind or 'Error'}: {message}"
