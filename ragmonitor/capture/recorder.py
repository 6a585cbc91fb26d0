"""Joins a framework's events into interactions, by run id alone.

Every method runs inside the application's request: dict and list operations, no lock, no span, no
context attached. Nothing here depends on which thread or task an event arrives on.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Hashable
from typing import Any

from opentelemetry import context, trace

from ragmonitor.capture.assembly import FinishedRuns, Translator
from ragmonitor.capture.runs import Run, RunKind
from ragmonitor.guard import record_error
from ragmonitor.protocols import Finished
from ragmonitor.records import Status

# The value of opentelemetry.instrumentation.utils' key; that distribution is not needed for it.
_SUPPRESSED = "suppress_instrumentation"

_OUTLIVES_ROOT_NS = 60 * 10**9
"""A run of this age whose root has ended is forgotten."""


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
        open_runs_most: int = 50_000,
        open_run_age_s: float = 900.0,
        on_forgotten: Callable[[str], None] = lambda _reason: None,
    ) -> None:
        """Begin with no run open.

        Args:
            translator: Turns the framework's objects into records, behind the request path.
            hand_over: Takes a finished interaction; must return at once and never raise.
            open_runs_most: When more runs are open, the oldest are forgotten.
            open_run_age_s: A root that is open for longer is handed over as partial by `sweep`.
            on_forgotten: Told the reason whenever a run is given up.
        """
        self._translator = translator
        self._hand_over = hand_over
        self._open: dict[Hashable, Run] = {}
        """By run id; a chain under another run stands for that run."""
        self._given_up: dict[Hashable, None] = {}
        self._open_runs_most = open_runs_most
        self._open_run_age_ns = int(open_run_age_s * 1e9)
        self._on_forgotten = on_forgotten

    def __len__(self) -> int:
        """Return how many runs are open."""
        return len(self._open)

    def started(  # noqa: PLR0917 - positional: called several times per request
        self,
        run_id: Hashable,
        parent_id: Hashable | None,
        kind: RunKind,
        name: str,
        given: Any = None,
        details: Any = None,
        *,
        asked: bool = False,
    ) -> None:
        """Note that a run began. A second start of the same run changes nothing.

        `asked`: this run, if it is a root, answers a question, whether or not a model run shows it.
        """
        try:
            runs = self._open
            if run_id in runs:
                return
            parent = None if parent_id is None else runs.get(parent_id)
            if parent is not None and kind == "chain":
                # A step between root and retriever or model carries the tree and nothing else:
                # what starts under it starts under its parent.
                runs[run_id] = parent
                return
            if parent is None:
                if parent_id is not None and parent_id in self._given_up:
                    return
                # Empty wherever nobody has attached anything; then there is nothing to ask it.
                current = context.get_current()
                if current and context.get_value(_SUPPRESSED, current):
                    return
                run = Run(run_id, None, kind, name, given)
                if current:
                    caller = trace.get_current_span(current).get_span_context()
                    if caller.is_valid:
                        run.caller = caller
                if len(runs) >= self._open_runs_most:
                    self._forget_oldest()
            else:
                run = Run(run_id, parent, kind, name, given)
            run.details = details
            run.asked = asked
            runs[run_id] = run
            if kind != "chain" and run.root.ended_ns == 0:
                run.root.members.append(run)
        except Exception as error:  # noqa: BLE001 - the border to the host application
            record_error("capture", error)

    def piece(self, run_id: Hashable, text: str) -> None:
        """Note one piece of a stream."""
        try:
            run = self._open.get(run_id)
            # What comes after the root's end the user has not seen: the stream was closed early.
            if run is None or not text or run.root.ended_ns:
                return
            if not run.inside_retriever:
                run.pieces.append(text)
        except Exception as error:  # noqa: BLE001 - the border to the host application
            record_error("capture", error)

    def pieces(self, run_id: Hashable) -> list[str]:
        """Return the list that a run's pieces are noted in.

        For an integration that reads the stream itself: appending to it is all that a piece costs.
        """
        run = self._open.get(run_id)
        return [] if run is None or run.root.ended_ns or run.inside_retriever else run.pieces

    def ended(
        self,
        run_id: Hashable,
        gave: Any = None,
        *,
        given: Any = None,
        status: Status = "ok",
        asked: bool = True,
    ) -> None:
        """Note that a run ended, with what it gave.

        Args:
            run_id: As in `started`.
            gave: The run's output. Of a tool: what it retrieved, None if that is nothing.
            given: The run's input, where it became known only at the end.
            status: `partial` for a stream that was closed before its end.
            asked: False takes back what `started` said: it was asked for texts only.
        """
        try:
            run = self._open.pop(run_id, None)
            if run is not None and run.id == run_id:
                run.asked = run.asked and asked
                self._close(run, gave, given, status, "")
        except Exception as error:  # noqa: BLE001 - the border to the host application
            record_error("capture", error)

    def failed(
        self, run_id: Hashable, failure: BaseException, gave: Any = None, *, given: Any = None
    ) -> None:
        """Note that a run ended with an exception, with what is known of its output."""
        try:
            run = self._open.pop(run_id, None)
            if run is not None and run.id == run_id:
                status = status_of(failure)
                # Text only: an exception holds its frames, and with them the whole request.
                text = f"{type(failure).__name__}: {failure}" if status == "error" else ""
                self._close(run, gave, given, status, text)
        except Exception as error:  # noqa: BLE001 - the border to the host application
            record_error("capture", error)

    def is_open(self, run_id: Hashable) -> bool:
        """Return whether this run was started here and has not ended."""
        return run_id in self._open

    def _close(self, run: Run, gave: Any, given: Any, status: Status, error: str) -> None:
        run.ended_ns = time.time_ns()
        run.gave = gave
        if given is not None:
            run.given = given
        run.status = status
        run.error = error
        if run.root is run:
            self._finish(run)

    def _finish(self, root: Run) -> None:
        finished = FinishedRuns(root, self._translator)
        if finished.is_interaction():
            if root.status == "ok" and finished.is_cut_short():
                root.status = "partial"
            for run in root.members:
                if run.is_open and run.pieces:
                    # Whoever holds `pieces` may go on appending: what its user has not seen.
                    run.pieces = run.pieces.copy()
            self._hand_over(finished)

    def sweep(self) -> None:
        """Give up what has been open for too long; called from the worker, now and then."""
        now_ns = time.time_ns()
        aged_ns = now_ns - self._open_run_age_ns
        outlives_ns = now_ns - min(self._open_run_age_ns, _OUTLIVES_ROOT_NS)
        for run_id, run in [*self._open.copy().items()]:
            if run.id != run_id:
                if run.root.ended_ns and run.root.ended_ns < outlives_ns:
                    self._open.pop(run_id, None)
            elif run.is_root:
                if run.started_ns < aged_ns:
                    self._give_up(run, "aged_out")
            elif run.root.ended_ns and run.started_ns < outlives_ns:
                # LangChain never ends the model run of a cancelled request, and each holds that
                # request's texts. The record has left; nothing is lost unless the root was.
                if run.root.id in self._given_up:
                    self._give_up(run, "aged_out")
                else:
                    self._open.pop(run_id, None)

    def clear(self) -> None:
        """Forget every open run; for a forked child, whose parent keeps them."""
        self._open.clear()
        self._given_up.clear()

    def _forget_oldest(self) -> None:
        # Dicts keep insertion order, so the first is the oldest. One in, one out.
        try:
            run_id, oldest = next(iter(self._open.items()), (None, None))
        except RuntimeError:  # another thread started a run meanwhile; the next start tries again
            return
        if oldest is None:
            return
        if oldest.id == run_id:
            self._give_up(oldest, "too_many_open")
        else:
            self._open.pop(run_id, None)

    def _give_up(self, run: Run, reason: str) -> None:
        if self._open.pop(run.id, None) is None:
            return
        self._on_forgotten(reason)
        if run.is_root and run.is_open:
            # Its children may still report, and a child without a parent would look like a root.
            self._given_up[run.id] = None
            while len(self._given_up) > self._open_runs_most:
                self._given_up.pop(next(iter(self._given_up)), None)
            self._close(run, None, None, "partial", "")


def status_of(failure: BaseException) -> Status:
    """Return how an interaction ended that this exception ended."""
    if isinstance(failure, GeneratorExit):
        return "partial"
    if isinstance(failure, (asyncio.CancelledError, KeyboardInterrupt)):
        return "cancelled"
    return "error"
