"""Joins a framework's events into interactions, by run id alone.

Every method runs inside the application's request: dict and list operations, no lock, no span, no
context attached. Nothing here depends on which thread or task an event arrives on.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from fnmatch import fnmatch
from functools import lru_cache
from itertools import islice
from typing import Any, Final, TypeVar

from opentelemetry import context, trace

from ragmonitor.capture.assembly import FinishedRuns, Translator, interaction_id
from ragmonitor.capture.coercion import error_text, status_of
from ragmonitor.capture.current_id import current_id, make_current
from ragmonitor.capture.interaction_labels import labels_in
from ragmonitor.capture.plain import InteractionRecorder, current_of
from ragmonitor.capture.runs import Root, Run, RunKind
from ragmonitor.records import Status
from ragmonitor.runtime.guard import record_error, shielded
from ragmonitor.runtime.protocols import Finished

# The value of opentelemetry.instrumentation.utils' key; that distribution is not needed for it.
_SUPPRESSED = "suppress_instrumentation"

INTERACTION_TAG: Final = "ragmonitor:interaction"
"""The tag by which an application chooses a run as the interaction."""

MAX_PAUSED: Final = 1_000
"""Roots that wait for a person at once. Each holds its question's texts, for hours perhaps."""

MAX_MEMBERS: Final = 10_000
"""Retrievers, models and tools that one root keeps."""

ROOTS_WITHOUT_RETRIEVAL: Final = 100
"""Roots in which a model was asked and nothing was retrieved, after which the log says so."""

_MAX_KNOWN_TOOLS: Final = 4_096

_capture = shielded("capture")
_log = logging.getLogger("ragmonitor")

Key = TypeVar("Key")
MAX_OPEN_RUNS: Final = 50_000
"""When more runs are open, roots, members and steps alike, the oldest are forgotten: a root is
handed over as partial, a root that lost one as incomplete."""
OPEN_RUN_AGE_S: Final = 900.0
"""A root that is open for longer is handed over as partial."""
PAUSED_RUN_AGE_S: Final = 14_400.0
"""A paused root that is not resumed within this time is handed over as partial."""

Value = TypeVar("Value")


class Recorder:
    """Holds the open runs of one framework and hands over each interaction when its root ends.

    The front door for integrations: they report starts, pieces of streams, ends and failures.
    A run that was never started here is ignored, and so is what arrives after its root has ended.
    """

    def __init__(
        self,
        translator: Translator,
        hand_over: Callable[[Finished], None],
        *,
        root_names: Collection[str] = (),
        retrieval_tools: Sequence[str] = (),
        drain_s: float = 0.0,
        on_forgotten: Callable[[str], None] = lambda _reason: None,
    ) -> None:
        """Begin with no run open.

        Args:
            translator: Turns the framework's objects into records, behind the request path.
            hand_over: Takes a finished interaction; must return at once and never raise.
            root_names: Only runs of these names are interactions, and tagged ones; empty: any.
            retrieval_tools: Patterns (`fnmatch`) of the names of tools that retrieve text.
            drain_s: The framework reports ends up to so long after they happened; `drain` waits.
            on_forgotten: Called with the reason whenever a run is given up.
        """
        self._translator = translator
        self._hand_over = hand_over
        self._open: dict[Hashable, Run] = {}
        """Open interactions by run id; a chain under another run stands for that run."""
        self._paused: dict[Hashable, Root] = {}
        """Paused interactions, by the key under which a later run resumes them."""
        self._unseen_left = ROOTS_WITHOUT_RETRIEVAL
        """Roots with a model and no retrieval until this is said; 0: a retrieval was seen."""
        self._root_names = frozenset(root_names)
        self.is_retrieval_tool = tool_matcher(retrieval_tools)
        """Whether the text that a tool of this name gives counts as retrieved."""
        self._drain_s = drain_s
        self._on_forgotten = on_forgotten

    def __len__(self) -> int:
        """Return how many runs are open, paused ones included."""
        return len(self._open) + len(self._paused)

    def picks(self, name: str, tags: Collection[str] | None, parent_id: Hashable | None) -> bool:
        """Return whether the application chose this run, which is to be said to `started`.

        Within a chosen run no other is chosen: tags are inherited, and names may recur.
        """
        if not (name in self._root_names or (tags and INTERACTION_TAG in tags)):
            return False
        parent = None if parent_id is None else self._open.get(parent_id)
        return parent is None or not parent.root.picked

    def started(  # noqa: PLR0917 - positional, in one: called several times per request
        self,
        run_id: Hashable,
        parent_id: Hashable | None,
        kind: RunKind,
        name: str,
        inputs: Any = None,
        details: Any = None,
        *,
        asked: bool = False,
        picked: bool = False,
        thread: Hashable | None = None,
        resumes: Hashable | None = None,
        at_ns: int = 0,
    ) -> Run | None:
        """Note that a run began. A second start of the same run changes nothing.

        Returns the run that stands for it, perhaps one above it; None: it is not followed.

        Args:
            run_id: Unique among the open runs of this framework.
            parent_id: The run it was started by; a root names none, or one that is not known.
            kind: What it is to an interaction.
            name: What the application calls it.
            inputs: What it was given.
            details: For the translator.
            asked: This run, if it is a root, answers a question, whether or not a model run
                shows it.
            picked: What `picks` returned.
            thread: Of a root: the key under which it pauses if it stops half-way: `interrupted`,
                or with something retrieved and no model asked since. A later root with this key
                that does not resume it gives it up.
            resumes: Of a root: the key under which an earlier run paused; this one goes on.
            at_ns: When it began, in nanoseconds since the epoch; 0: now.
        """
        try:
            runs = self._open
            if run_id in runs:
                return None
            parent = None if parent_id is None else runs.get(parent_id)
            run: Run | None = parent
            if parent is None:
                run = self._root(Root(run_id, None, kind, name, inputs), thread, resumes)
            elif kind != "chain":
                run = self._member(Run(run_id, parent, kind, name, inputs), parent)
            elif picked and not (parent.within_retriever or parent.root.scope is not None):
                # Else a scope is the interaction that its code says it is.
                run = Root(run_id, parent, kind, name, inputs)
                run.caller, run.labels = parent.root.caller, parent.root.labels
                run.thread = thread
                self._resume(run, thread)
            if run is None:
                return None
            self.follow(run_id, run)
            if run is not parent:
                if isinstance(run, Root):
                    run.asked = run.asked or asked
                    run.picked = picked
                if at_ns:
                    run.started_ns = at_ns
                run.details = details
        except Exception as error:  # noqa: BLE001 - the border to the host application
            record_error("capture", error)
            return None
        return run

    def follow(self, run_id: Hashable, run: Run) -> None:
        """Note a step, which carries the tree and nothing else: what starts under it is this run's.

        Args:
            run_id: The step's.
            run: The one above it; or one of its own that no record shows.
        """
        if len(self._open) >= MAX_OPEN_RUNS:
            self._forget_oldest()
        self._open[run_id] = run

    def run(self, run_id: Hashable) -> Run | None:
        """Return the open run that stands for this one: itself, or one above it; else None."""
        return self._open.get(run_id)

    def _member(self, run: Run, parent: Run) -> Run:
        """Return a retriever, model or tool; where there is no room for one, its parent."""
        root = parent.root
        if not root.ended_ns:
            if len(root.members) >= MAX_MEMBERS:
                self._lose(root)
                return parent
            root.members.append(run)
        if run.kind == "retriever" and parent.kind == "tool":
            parent.retrieved = True
        return run

    def _root(self, run: Root, thread: Hashable | None, resumes: Hashable | None) -> Root | None:
        """Return a root; None: instrumentation is suppressed."""
        # Empty wherever nobody has attached anything; then there is nothing to ask it.
        current = context.get_current()
        if current:
            if context.get_value(_SUPPRESSED, current):
                run.release()
                return None
            caller = trace.get_current_span(current).get_span_context()
            if caller.is_valid:
                run.caller = caller
            run.labels = labels_in(current)
        scope = self.scope()
        if scope is not None and scope.add(run):
            run.scope = scope
        if run.scope is None:
            run.before_id = make_current(interaction_id(run.id))
        run.thread = thread
        self._resume(run, resumes)
        if resumes is None:
            self._abandon(thread)  # asked anew, instead of going on
        if run.kind != "chain":
            run.members.append(run)
        return run

    def scope(self) -> InteractionRecorder | None:
        """Return the interaction of plain code that a root which starts now is a part of."""
        return current_of(self._hand_over)

    def _resume(self, run: Root, key: Hashable | None) -> None:
        paused = self._paused.pop(key, None)
        if paused is None:
            return
        # The question is the one that was asked at first; the inputs of this run are the reply to
        # what the pause was for.
        run.resumed_ns = run.started_ns
        run.inputs = paused.inputs
        run.started_ns = paused.started_ns
        run.members = paused.members
        run.named = paused.named
        run.asked = paused.asked
        for member in run.members:
            member.root = run
        paused.release()

    def piece(self, run_id: Hashable, text: str) -> None:
        """Note one piece of a stream.

        What comes after the root's end the user has not seen: the stream was closed early.
        """
        if text:
            self.pieces(run_id, began=True).append(text)

    def pieces(self, run_id: Hashable, *, began: bool = False) -> list[str]:
        """Return the list that a run's pieces are noted in.

        For an integration that reads the stream itself: appending to it is all that a piece costs.

        Args:
            run_id: As in `started`.
            began: The first text of the stream has just come.
        """
        run = self._open.get(run_id)
        if run is None or run.root.ended_ns or run.inside_retriever:
            return []
        if began and not run.first_piece_ns:
            run.first_piece_ns = time.time_ns()
        return run.pieces

    def ended(
        self,
        run_id: Hashable,
        outputs: Any = None,
        *,
        inputs: Any = None,
        status: Status = "ok",
        error: str = "",
        asked: bool = True,
        waits: Callable[[Any], bool] | None = None,
        named: Callable[[Any], Any] | None = None,
        at_ns: int = 0,
        first_piece_ns: int = 0,
    ) -> None:
        """Note that a run ended, with its outputs.

        Args:
            run_id: As in `started`.
            outputs: What it gave. Of a tool: what it retrieved, None if that is nothing.
            inputs: What a root was given, where that became known only at the end.
            status: `partial` for a stream that was closed before its end.
            error: `TypeName: message`, where the status is `error`; see `failed`.
            asked: False takes back what `started` said: it was asked for texts only.
            waits: Whether these outputs tell that a root stopped half-way; as `interrupted`. Asked
                if it has a thread.
            named: From a root's outputs to what they name as retrieved; None: nothing. Asked where
                no run of its has retrieved: it is a retrieval if a model was shown some of it.
            at_ns: When it ended, in nanoseconds since the epoch; 0: now.
            first_piece_ns: When the first text of its stream came, where no piece was reported.
        """
        try:
            run = self._open.pop(run_id, None)
            if run is None or run.id != run_id:
                return
            if first_piece_ns:
                run.first_piece_ns = first_piece_ns
            if isinstance(run, Root):
                run.asked = run.asked and asked
                if inputs is not None and not run.resumed_ns:
                    run.inputs = inputs
                if named is not None:
                    self._note_named(run, outputs, named)
                failed = status in ("error", "cancelled")
                if run.thread is not None and run.scope is None and not failed:
                    is_whole = status == "ok" and run.outer is None
                    run.waits = run.waits or (is_whole and bool(_told(waits, outputs)))
                    retrieved, _, since = FinishedRuns(run, self._translator).course()
                    if run.waits or (is_whole and retrieved and not since):
                        self._pause(run, outputs, run.thread)
                        return
            self._close(run, outputs, status, error, at_ns)
        except Exception as problem:  # noqa: BLE001 - the border to the host application
            record_error("capture", problem)

    @staticmethod
    def _note_named(root: Root, outputs: Any, named: Callable[[Any], Any]) -> None:
        for member in root.members:
            if member.kind == "retriever" or (member.kind == "tool" and member.outputs is not None):
                return
        found = None if root.is_taken_from else _told(named, outputs)
        if found is None:
            return
        run = Run((root.id, "named"), root, "retriever", "", None)
        run.started_ns = run.ended_ns = root.started_ns  # when it was is not known
        run.outputs = found
        root.members.insert(0, run)
        root.named = run

    def forget(self, run_id: Hashable) -> None:
        """Drop a root with its runs: it turned out to be no interaction."""
        with _capture:
            root = self._open.pop(run_id, None)
            if isinstance(root, Root) and root.id == run_id:
                root.ended_ns = time.time_ns()
                for member in root.members:
                    self._open.pop(member.id, None)
                if root.scope is not None:
                    root.scope.finish(root)
                root.release()

    def interrupted(self, run_id: Hashable) -> None:
        """Note that a run stopped because the application waits for a person: it did not fail.

        Its root pauses under its `thread`, now or when it ends.
        """
        with _capture:
            run = self._open.get(run_id)
            if run is not None:
                root = run.root
                root.waits = True
                if root.thread is None and root.outer is not None:
                    root.outer.waits = True
                self.ended(run_id, status="partial" if run is root else "ok")

    def failed(
        self,
        run_id: Hashable,
        failure: BaseException,
        outputs: Any = None,
        *,
        inputs: Any = None,
    ) -> None:
        """Note that a run ended with an exception, with what is known of its outputs."""
        with _capture:
            run = self._open.get(run_id)
            if run is not None:
                status = status_of(failure)
                if run.kind == "tool" and outputs is None and self.is_retrieval_tool(run.name):
                    outputs = ""  # a search that failed is a retrieval too
                # Text only: an exception holds its frames, and with them the whole request.
                text = error_text(failure) if status == "error" else ""
                self.ended(run_id, outputs, inputs=inputs, status=status, error=text)

    def may_search(self, parent_id: Hashable | None) -> bool:
        """Return whether a search, which no run shows, belongs to something here by itself.

        A part of a block's, or of an open run's whose interaction no retriever is at work in.
        """
        run = self._open.get(parent_id)
        if run is None:
            return parent_id is None and self.scope() is not None
        return not any(m.kind == "retriever" and m.is_open for m in run.root.members)

    def _close(
        self, run: Run, outputs: Any, status: Status, error: str = "", at_ns: int = 0
    ) -> None:
        run.ended_ns = max(at_ns, run.started_ns) if at_ns else time.time_ns()
        run.outputs = outputs
        run.status = status
        run.error = error
        if isinstance(run, Root):
            if status == "cancelled":
                for member in run.members:
                    # LangChain never ends the model run of a cancelled request.
                    if member.kind == "model" and member.is_open:
                        self._open.pop(member.id, None)
            self._finish(run)

    def _pause(self, root: Root, outputs: Any, key: Hashable) -> None:
        root.ended_ns = time.time_ns()
        root.outputs = outputs
        # A new question may have been asked instead of going on with the old one.
        self._abandon(key)
        if len(self._paused) >= MAX_PAUSED:
            self._on_forgotten("too_many_open")
            self._abandon(next(iter(self._paused), None))
        self._paused[key] = root

    def _abandon(self, key: Hashable | None) -> None:
        root = self._paused.pop(key, None)
        if root is not None:
            if root.waits:
                root.status = "partial"
                root.asked = True  # whoever asked waits for an answer
            self._finish(root)

    def _finish(self, root: Root) -> None:
        finished = FinishedRuns(root, self._translator)
        scope, outer = root.scope, root.outer
        if scope is not None:
            root.scope = None
            self._finalize(root, finished)
            scope.finish(root, finished)
        elif (root.picked or not self._root_names) and finished.is_interaction():
            self._unseen_left = 0
            self._finalize(root, finished)
            if outer is not None:
                outer.is_taken_from = True
                if root.tool is not None:
                    # It gives that interaction's answer, which is not to be judged against itself.
                    root.tool.retrieved = True
            make_current(interaction_id(root.id))
            self._hand_over(finished)
        else:
            if outer is not None:
                # An inner run that was no interaction by itself: its retrievals are the outer's.
                for member in root.members:
                    member.root = outer
                if not outer.ended_ns:
                    outer.members.extend(root.members)
            elif current_id() == interaction_id(root.id):
                make_current(root.before_id)
            if self._unseen_left and outer is None:
                self._note_no_retrieval(root, finished)
            root.release()

    def _note_no_retrieval(self, root: Root, finished: FinishedRuns) -> None:
        """Say once that models are asked, and that no retrieval is ever seen beside them."""
        if finished.has_retrieved():
            self._unseen_left = 0
        elif any(run.kind == "model" for run in root.members):
            self._unseen_left -= 1
            if not self._unseen_left:
                self._on_forgotten("no_retrieval")
                _log.warning(
                    "%d calls of %s asked a model, and no retrieval was seen in any: nothing is"
                    " scored. Note what your own search finds: decorate it with"
                    " @monitor.retrieves, within `with monitor.interaction(query=...)`",
                    ROOTS_WITHOUT_RETRIEVAL,
                    self._translator.framework,
                )

    @staticmethod
    def _finalize(root: Root, finished: FinishedRuns) -> None:
        if root.status == "ok" and finished.is_cut_short():
            root.status, root.is_cut_short = "partial", True
        for run in root.members:
            if run.is_open and run.pieces:
                # Whoever holds `pieces` may go on appending: what its user has not seen.
                run.pieces = run.pieces.copy()

    def drain(self, timeout_s: float) -> None:
        """Wait for ends that the framework is about to report."""
        deadline = time.monotonic() + min(timeout_s, self._drain_s)
        while time.monotonic() < deadline and any(
            run.is_root and run.is_open for run in [*self._open.copy().values()]
        ):
            time.sleep(0.005)

    def sweep(self) -> None:
        """Give up what has been open for too long; called from the worker, now and then."""
        now_ns = time.time_ns()
        aged_ns = now_ns - int(OPEN_RUN_AGE_S * 1e9)
        for key, paused in [*self._paused.copy().items()]:
            if paused.ended_ns < now_ns - int(PAUSED_RUN_AGE_S * 1e9):
                self._abandon(key)
        for run_id, run in [*self._open.copy().items()]:
            if run.id == run_id and run.is_root:
                if (run.root.resumed_ns or run.started_ns) < aged_ns:
                    self._give_up(run_id, run, "aged_out")
            elif run.root.ended_ns and run.started_ns < aged_ns:
                # LangChain never ends the run of a model that a step gave up for its time, and each
                # holds its request's texts. The record has left; nothing is lost.
                self._open.pop(run_id, None)

    def end_paused(self) -> None:
        """Hand over what is paused: at the end no later run can resume it here."""
        for key in self._paused.copy():
            with _capture:
                self._abandon(key)

    def clear(self) -> None:
        """Forget every open run; for a forked child, whose parent keeps them."""
        self._open.clear()
        self._paused.clear()

    def _forget_oldest(self) -> None:
        for run_id, run in oldest_of(self._open, max(1, MAX_OPEN_RUNS // 1_000)):
            self._give_up(run_id, run, "too_many_open")

    def _lose(self, root: Root, reason: str = "too_many_open") -> None:
        root.lost += 1
        self._on_forgotten(reason)

    def _give_up(self, run_id: Hashable, run: Run, reason: str) -> None:
        """Forget an open run; what begins below it from now on is a root, as if it were unknown."""
        if self._open.pop(run_id, None) is None:
            return
        if run.id == run_id and run.is_root and run.is_open:
            self._on_forgotten(reason)
            self._close(run, None, "partial")
        else:
            self._lose(run.root, reason)


def _told(question: Callable[[Any], Any] | None, outputs: Any) -> Any:
    # Shielded apart: a root whose outputs cannot be looked into must end all the same.
    with _capture:
        return None if question is None else question(outputs)
    return None


def tool_matcher(patterns: Iterable[str]) -> Callable[[str], bool]:
    """Return what tells whether a name, in any case, matches one of the patterns (`fnmatch`)."""
    lowered = tuple(pattern.lower() for pattern in patterns)

    @lru_cache(_MAX_KNOWN_TOOLS)
    def matches(name: str) -> bool:
        return any(fnmatch(name.lower(), pattern) for pattern in lowered)

    return matches


def oldest_of(held: Mapping[Key, Value], most: int) -> list[tuple[Key, Value]]:
    """Return the items that were put in first; none where another thread puts one in meanwhile.

    Some at once: a dict whose first was taken out looks for the next from its beginning.
    """
    try:
        return [*islice(held.items(), most)]  # dicts keep insertion order
    except RuntimeError:
        return []
