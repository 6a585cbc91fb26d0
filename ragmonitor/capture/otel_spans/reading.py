"""Turns a tree of spans into one `Interaction`, behind the request path.

The spans are noted as runs, as an integration of ours would have, and read by the same rules
(`assembly.py`): so the same application gives the same record, as far as its convention says it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeVar

from opentelemetry.trace import format_trace_id

from ragmonitor.capture.assembly import FinishedRuns, is_most_of, reference
from ragmonitor.capture.coercion import without_texts
from ragmonitor.capture.otel_spans.ancestry import Ancestry
from ragmonitor.capture.otel_spans.convention import Convention
from ragmonitor.capture.otel_spans.known_conventions import FRAMEWORKS
from ragmonitor.capture.otel_spans.spans import SpanRecord
from ragmonitor.capture.otel_spans.texts import UNKNOWN_DOCUMENTS, Documents, is_repr
from ragmonitor.capture.prompts import seen_in
from ragmonitor.capture.runs import Root, Run
from ragmonitor.conventions import GENAI_FIRST_CHUNK
from ragmonitor.guard import record_error
from ragmonitor.patterns import lazy_pattern
from ragmonitor.records import Chunk, Generation, Interaction, Message, Status, Usage

T = TypeVar("T")

_REPR_OF_ERROR = lazy_pattern(r"(\w+)\(")
"""OpenInference's description of a failure, where the exception is no event: `repr` and trace."""
_JAVASCRIPT = "@"
"""Beginning of a scope that is a package of npm."""
_JAVASCRIPT_NS = 2_000_000
"""The error of its times: they begin with whole milliseconds, each span's by itself."""
_ABANDONED = "abandoned stream"
"""OpenTelemetry's description of a stream that was closed early."""


@dataclass(frozen=True, kw_only=True)
class Tree:
    """A root with the spans of conventions below it."""

    root: SpanRecord
    """Among `spans`, unless it is a span of no convention that holds them together."""
    spans: tuple[SpanRecord, ...]
    """The spans in the order of their start."""
    parents: Mapping[str, str]
    """The span of a convention, or the root, that encloses each most closely, by id; empty:
    none."""
    conventions: Mapping[str, Convention]
    """The convention of each span, by id."""

    @cached_property
    def convention(self) -> Convention:
        """The root's, which is the interaction's; of a root without one, its first span's."""
        return self.conventions.get(self.root.span_id) or self.conventions[self.spans[0].span_id]

    def convention_at(self, span: SpanRecord) -> Convention:
        """Return the convention that one of the spans follows."""
        return self.conventions[span.span_id]

    @cached_property
    def roles(self) -> dict[str, str]:
        """The role of each span in the interaction, by its id."""
        return {s.span_id: self.convention_at(s).role(s) for s in self.spans}

    @property
    def steps(self) -> set[str]:
        """Ids of what does something: all but chains."""
        return {span_id for span_id, role in self.roles.items() if role not in ("chain", "other")}

    @cached_property
    def by_id(self) -> dict[str, SpanRecord]:
        """The spans by their ids."""
        return {span.span_id: span for span in self.spans}

    @cached_property
    def _ancestry(self) -> Ancestry:
        return Ancestry(self.parents)

    @cached_property
    def around_models(self) -> set[str]:
        """Ids of the spans that enclose a model's span."""
        return self._ancestry.enclosing(i for i, role in self.roles.items() if role == "model")

    @cached_property
    def around_documents(self) -> set[str]:
        """Ids of the spans that enclose a retriever with documents."""
        return self._ancestry.enclosing(
            span.span_id
            for span in self.spans
            if self.roles[span.span_id] == "retriever"
            and self.convention_at(span).documents(span) != UNKNOWN_DOCUMENTS
        )

    @cached_property
    def outside_in(self) -> list[SpanRecord]:
        """The spans so that each comes after what encloses it."""
        depths = self._ancestry.depths()
        return sorted(self.spans, key=lambda span: (depths[span.span_id], span.started_ns))

    @property
    def frameworks(self) -> set[str]:
        """Those of its frameworks that have an integration of ours."""
        return {FRAMEWORKS[span.scope] for span in self.spans if span.scope in FRAMEWORKS}

    def above(self, span: SpanRecord) -> Iterator[str]:
        """Yield the ids of what encloses a span, from the inside out, the root included."""
        return self._ancestry.above(span.span_id)


class FinishedTree:
    """A tree whose root has ended. Implements `Finished`."""

    def __init__(self, tree: Tree, *, is_retrieval_tool: Callable[[str], bool]) -> None:
        self.tree = tree
        self.lost = False
        """Spans are missing in it, which could not be read."""
        self._is_retrieval_tool = is_retrieval_tool

    @property
    def framework(self) -> str:
        """The convention's: what was captured depends on it."""
        return self.tree.convention.framework

    @property
    def status(self) -> Status:
        """The way in which the root ended."""
        return _ending(self.tree.root)[0]

    def is_interaction(self, *, in_turn: bool = False) -> bool:
        """Return whether text was retrieved and a model asked; see `FinishedRuns`."""
        try:
            if self.tree.spans and self._runs.is_interaction(in_turn=in_turn):
                return True
            self.release()
            return False
        except Exception as error:  # noqa: BLE001 - what cannot be read is counted, not left out
            record_error("capture", error)
            self.lost = True
            return {"retriever", "model"} <= {*self.tree.roles.values()}

    def interaction(self) -> Interaction | None:
        """Return the record."""
        root = self.tree.root
        try:
            record = self._runs.interaction()
        except Exception as error:  # noqa: BLE001 - what cannot be read is counted, not left out
            record_error("capture", error)
            record = without_texts(
                self.framework,
                self.status,
                started_ns=root.started_ns,
                ended_ns=root.ended_ns,
                caller=reference(root.parent),
                target=reference(root.context),
            )
        if record is not None and self.lost:
            return replace(record, capture_incomplete=True)
        return record

    def release(self) -> None:
        """Let go of the runs: nothing more is to be read of them."""
        runs = self.__dict__.pop("_runs", None)  # which may not have been made
        if runs is not None:
            runs.release()

    @cached_property
    def _runs(self) -> FinishedRuns:
        tree = self.tree
        span = tree.root
        # Times and ids are set after the fact: a run notes its own when it is made.
        root = Root(
            format_trace_id(span.context.trace_id) + span.span_id,
            None,
            "chain",
            tree.convention.name(span),
            span,
        )
        root.caller, root.target = span.parent, span.context
        root.started_ns = span.started_ns
        root.status, root.error = _ending(span)
        runs: dict[str, Run] = {span.span_id: root}
        for member in tree.outside_in:
            if member is not span:
                parent = runs.get(tree.parents[member.span_id], root)
                runs[member.span_id] = self._run(member, parent, root)
        reader = _Reader(tree, root)
        # A stream's text comes after its root's end; the user waits for the last of it.
        streams = not _ends_with_its_model(tree)
        models = [run for run in root.members if run.is_generation]
        root.ended_ns = max(
            [span.ended_ns]
            + [r.ended_ns for r in models if streams]
            + [s.ended_ns for s in tree.spans if not span.ended_ns]
        )
        for run in models:
            if not streams and _is_late(run, span):
                run.status = "partial"
        finished = FinishedRuns(root, reader)
        root.is_cut_short = root.status == "ok" and finished.is_cut_short()
        if root.is_cut_short or (root.status == "ok" and reader.breaks_off()):
            root.status = "partial"
        # An engine answers in its own words where nothing was found, and no model is asked.
        root.asked = tree.convention.is_engine(span) and bool(reader.answer(root) or not models)
        return finished

    def _run(self, span: SpanRecord, parent: Run, root: Root) -> Run:
        """Return the run that stands for a span: its own, or that of what encloses it."""
        tree = self.tree
        convention, role = tree.conventions[span.span_id], tree.roles[span.span_id]
        if role == "model" and span.span_id not in tree.around_models:
            run = Run(span.span_id, parent, "model", convention.name(span), span)
        elif role == "retriever" and not self._is_step(span):
            run = Run(span.span_id, parent, "retriever", convention.name(span), span)
            if parent.kind == "tool":
                parent.retrieved = True
        elif role == "tool":
            run = Run(span.span_id, parent, "tool", convention.name(span), span)
            artifact = convention.documents(span)
            if artifact.complete and artifact.chunks:
                run.outputs = artifact.chunks
            elif self._is_retrieval_tool(run.name):
                run.outputs = convention.answer(span) or None
        else:
            return parent
        run.started_ns, run.ended_ns = span.started_ns, span.ended_ns
        run.status, run.error = _ending(span)
        waited_s = span.attributes.get(GENAI_FIRST_CHUNK)
        if role == "model" and isinstance(waited_s, int | float) and 0 < waited_s < 1e6:
            run.first_piece_ns = span.started_ns + int(waited_s * 1e9)
        root.members.append(run)
        return run

    def _is_step(self, span: SpanRecord) -> bool:
        """Return whether a retriever's span says nothing, and one in it says what was found."""
        return (
            span.span_id in self.tree.around_documents
            and self.tree.convention_at(span).documents(span) == UNKNOWN_DOCUMENTS
        )


class _Reader:
    """The `Translator` of one tree: every run's `inputs` is its span."""

    def __init__(self, tree: Tree, root: Root) -> None:
        self._tree = tree
        self._root = root
        self.framework = tree.convention.framework

    def query(self, run: Run) -> str:
        span, convention = self._of(run)
        question = "" if convention is None else convention.query(span)
        if question or run is not self._root:
            return question
        for inner in self._tree.outside_in:
            # A graph's span of OpenLLMetry says nothing, the one in it does.
            if self._tree.roles[inner.span_id] == "chain" and self._is_outside(inner):
                asked = self._tree.convention_at(inner).query(inner)
                if asked:
                    return asked
        # A workflow of GenAI's says nothing; its model's prompt names the question apart.
        if named := next(
            (
                q
                for m in self._models
                if (q := self._tree.convention_at(m.inputs).question_variable(m.inputs))
            ),
            "",
        ):
            return named
        # An agent asks its model before it searches, and nothing stands beside the question then.
        first = min((r.started_ns for r in self._root.members if r.kind == "retriever"), default=0)
        for model in self._models:
            if model.started_ns < first and self._is_outside(model.inputs):
                asked_of_it = [m.text for m in self.prompt(model) if m.role == "user"]
                return asked_of_it[-1] if asked_of_it else ""
        return ""

    def _is_outside(self, span: SpanRecord) -> bool:
        roles = (self._tree.roles.get(span_id) for span_id in self._tree.above(span))
        return not any(role in ("retriever", "tool", "model") for role in roles)

    def chunks(self, run: Run) -> Sequence[Chunk]:
        if isinstance(run.outputs, str):
            return (Chunk(text=run.outputs),)
        if run.kind == "tool":
            return run.outputs or ()
        return self._documents(run).chunks

    def shown(self, root: Run) -> Sequence[Chunk] | None:
        """Return what the last reranker left, as far as the models were shown it."""
        if root is not self._root:
            return None
        left = self._left()
        if left is None:
            return None
        seen = seen_in(self._generations(), left)
        return left if seen is None else seen

    def prompt(self, run: Run) -> Sequence[Message]:
        return self._first(
            run, lambda convention, span: convention.prompt(span), tuple[Message, ...]()
        )

    def answer(self, run: Run) -> str:
        if run.kind == "model":
            return self._first(run, lambda convention, span: convention.answer(span), "")
        span, convention = self._of(run)
        text = "" if convention is None else convention.answer(span)
        if is_repr(text):
            return ""
        if run is self._root and not self._is_whole(text):
            return ""  # a stream, of which the root saw the beginning at most
        return text

    def _is_whole(self, answer: str) -> bool:
        """Return whether no model wrote on after the root's end, or one that did not answered."""
        late = [_is_late(run, self._root.inputs) for run in self._models]
        return not any(late) or any(
            is_most_of(self.answer(run), answer)
            for run, is_late in zip(self._models, late, strict=True)
            if not is_late and run.status == "ok"
        )

    def model(self, run: Run) -> tuple[str, str]:
        provider = self._first(run, lambda convention, span: convention.model(span)[0], "")
        return provider, self._first(run, lambda convention, span: convention.model(span)[1], "")

    def usage(self, run: Run) -> Usage:
        return self._first(run, lambda convention, span: convention.usage(span), Usage())

    def labels(self, root: Run) -> dict[str, Any]:
        span, convention = self._of(root)
        labels = (convention or self._tree.convention).labels(span)
        for run in root.root.members:
            if not labels.get("session_id"):
                theirs = self._tree.convention_at(run.inputs).labels(run.inputs)
                labels["session_id"] = theirs.get("session_id", "")
        labels["capture_incomplete"] = self._is_incomplete()
        return labels

    # --- what is missing, and where else it may stand -----------------------------------------

    def breaks_off(self) -> bool:
        """Return whether nothing was answered though nothing failed: a stream closed early.

        OpenLLMetry ends the spans of a LangChain stream that is closed without a word.
        """
        models = self._models
        return (
            _ends_with_its_model(self._tree)
            and bool(models)
            and not any(self.answer(run) or run.error for run in [self._root, *models])
            and not self._is_withheld()
        )

    def _is_incomplete(self) -> bool:
        if self._root.status != "ok":
            return False
        if any(span.is_unread for span in self._tree.spans):
            return True
        retrievers = [r for r in self._root.members if r.kind == "retriever"]
        if any(not self._documents(r).complete for r in retrievers if not r.inside_retriever):
            return True
        answer = FinishedRuns(self._root, self).answer()
        if not answer and self._root.asked:
            return True
        if not answer or not (self.query(self._root) or any(self.query(r) for r in retrievers)):
            return self._is_withheld()
        return any(run.inputs.is_cut(answer) for run in [self._root, *self._models])

    def _is_withheld(self) -> bool:
        return any(self._tree.convention_at(s).withholds(s) for s in self._tree.spans)

    def _documents(self, run: Run) -> Documents:
        """Return a retriever's documents, with texts from elsewhere where it has none."""
        documents = self._tree.convention_at(run.inputs).documents(run.inputs)
        if documents.complete or run.error or not documents.chunks:
            return Documents(documents.chunks, complete=True) if run.error else documents
        if any(chunk.text for chunk in documents.chunks):
            return documents
        tool = self._tool_of(run)
        if tool:
            return Documents(_with_texts(documents.chunks, tool), complete=True)
        textless, recovered = self._textless, self._recovered
        if not recovered:
            return documents
        if run is not textless[0]:
            return Documents((), complete=True)  # the prompt has the texts of all, in one piece
        stubs = [
            c for r in textless for c in self._tree.convention_at(r.inputs).documents(r.inputs)[0]
        ]
        return Documents(_with_texts(stubs, recovered), complete=True)

    @cached_property
    def _textless(self) -> list[Run]:
        """Return the retrievals that have documents without text, which no tool tells either."""
        return [
            run
            for run in sorted(self._root.members, key=lambda run: run.started_ns)
            if run.kind == "retriever"
            and not run.inside_retriever
            and (chunks := self._tree.convention_at(run.inputs).documents(run.inputs).chunks)
            and not any(chunk.text for chunk in chunks)
            and not self._tool_of(run)
        ]

    def _tool_of(self, run: Run) -> str:
        """Return what the tool that encloses a retriever gave; empty if there is none."""
        for span_id in self._tree.above(run.inputs):
            if self._tree.roles.get(span_id) == "tool":
                return self._tree.conventions[span_id].answer(self._tree.by_id[span_id])
        return ""

    @cached_property
    def _recovered(self) -> str:
        """Return the retrieved text as a model was shown it; empty if no span says so."""
        for run in reversed(self._models):
            if text := self._first(run, lambda convention, span: convention.context(span), ""):
                return text
        retrievers = (run for run in self._root.members if run.kind == "retriever")
        asked = next((q for run in (self._root, *retrievers) if (q := self.query(run))), "")
        for run in reversed(self._models):
            shown = [m.text for m in self.prompt(run) if m.role == "system"]
            shown += [m.text for m in self.prompt(run) if m.role == "user"][-1:]
            # Without the question, which would be found to be relevant to itself.
            text = "\n".join(shown).replace(asked, "").strip() if asked else ""
            if text:
                return text
        return ""

    # --- rerankers ------------------------------------------------------------------------------

    def _left(self) -> list[Chunk] | None:
        """Return the chunks that rerankers left, and those that none was given; None: no reranker.

        One that was given what another left takes its place.
        """
        tree = self._tree
        left: list[Chunk] | None = None
        judged: set[str] = set()
        for span in tree.spans:
            if tree.roles[span.span_id] != "reranker" or any(
                tree.roles.get(i) in ("retriever", "reranker") for i in tree.above(span)
            ):
                continue
            convention = tree.conventions[span.span_id]
            before, after = convention.reranked(span), convention.documents(span)
            if not after.complete:
                continue
            seen = {c.text for c in before.chunks} | {c.text for c in after.chunks}
            judged |= seen
            left = [*(c for c in left or () if c.text not in seen), *after.chunks]
        if left is None:
            return None
        rest = (c for run in self._root.members if self._retrieves(run) for c in self.chunks(run))
        return [*left, *(c for c in rest if c.text not in judged)]

    @staticmethod
    def _retrieves(run: Run) -> bool:
        return run.kind == "retriever" and not run.inside_retriever

    def _generations(self) -> list[Generation]:
        return [
            Generation(output="", started_ns=0, ended_ns=0, input=tuple(self.prompt(run)))
            for run in self._models
        ]

    # --- runs and spans -------------------------------------------------------------------------

    def _of(self, run: Run) -> tuple[SpanRecord, Convention | None]:
        span: SpanRecord = run.inputs
        return span, self._tree.conventions.get(span.span_id)

    @cached_property
    def _models(self) -> list[Run]:
        models = [run for run in self._root.members if run.is_generation]
        return sorted(models, key=lambda run: run.started_ns)

    def _first(self, run: Run, read: Callable[[Convention, SpanRecord], T], nothing: T) -> T:
        """Return what the first of the spans of a model call says: its own, or one around it.

        A framework's instrumentation and a provider's both report the call, and each may lack what
        the other has.
        """
        for span in self._spans_of(run):
            value = read(self._tree.conventions[span.span_id], span)
            if value != nothing:
                return value
        return nothing

    def _spans_of(self, run: Run) -> list[SpanRecord]:
        tree = self._tree
        return [
            run.inputs,
            *(
                tree.by_id[span_id]
                for span_id in tree.above(run.inputs)
                if tree.roles.get(span_id) == "model" and self._models_in[span_id] == 1
            ),
        ]

    @cached_property
    def _models_in(self) -> Counter[str]:
        """The number of models that each span encloses, by its id."""
        return Counter(above for run in self._models for above in self._tree.above(run.inputs))


def _ends_with_its_model(tree: Tree) -> bool:
    """Return whether the root's framework ends a root after its model: LangChain does."""
    return FRAMEWORKS.get(tree.root.scope) == "langchain"


def _is_late(model: Run, root: SpanRecord) -> bool:
    spare_ns = _JAVASCRIPT_NS if root.scope.startswith(_JAVASCRIPT) else 0
    return bool(root.ended_ns) and model.ended_ns > root.ended_ns + spare_ns


def _ending(span: SpanRecord) -> tuple[Status, str]:
    """Return how what the span stands for ended, and `TypeName: message` if it failed."""
    if not span.ended_ns:
        return "partial", ""
    if span.status != "error":
        return "ok", ""
    kind, message = span.exception
    if not kind:
        kind = span.text("error.type").rpartition(".")[2]
        message = span.status_text
    if not kind and (described := _REPR_OF_ERROR.match(span.status_text)):
        kind, message = described[1], span.status_text.partition("\n")[0]
    if kind == "GeneratorExit" or span.status_text == _ABANDONED:
        return "partial", ""
    if kind in ("CancelledError", "KeyboardInterrupt"):
        return "cancelled", ""
    return "error", f"{kind or 'Error'}: {message}"


def _with_texts(stubs: Sequence[Chunk], text: str) -> tuple[Chunk, ...]:
    """Return the documents with their texts, cut out of what they were joined to.

    One piece for all of them, without an id, where it does not fall into as many paragraphs, or
    lines, as there are documents.
    """
    for separator in ("\n\n", "\n"):
        pieces = [piece for piece in text.split(separator) if piece.strip()]
        if len(pieces) == len(stubs):
            return tuple(
                replace(stub, text=piece) for stub, piece in zip(stubs, pieces, strict=True)
            )
    return (Chunk(text=text),)
