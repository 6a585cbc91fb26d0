"""The pipeline: take, judge, evaluate, estimate, export. One thread, one event loop.

The thread starts with the first interaction. After an error that ends its loop it begins again
after a pause, and that is counted. Each interaction has an account (`ragmonitor.pipeline.ledger`),
so that captured = scored + unscored holds by construction: it leaves exactly one report per judge,
with one evaluation per evaluator.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
import threading
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final

from ragmonitor.export import OtelExporter
from ragmonitor.judges.every_answer import MAX_WAITING
from ragmonitor.pipeline.answer_handling import CANCEL_S, AnswerHandler
from ragmonitor.pipeline.back_half import LINGER_S, MAX_STOP_S, TICK_S, BackHalf, Request
from ragmonitor.pipeline.build import Stages
from ragmonitor.records import Cause, GaugeValue, Snapshot
from ragmonitor.runtime.apart import run, within
from ragmonitor.runtime.feedback import Feedback
from ragmonitor.runtime.guard import contained, errors, record_error, record_problem
from ragmonitor.runtime.lock_slices import say_whether_behind, work_in_slices
from ragmonitor.runtime.protocols import TraceExporter
from ragmonitor.runtime.queues import MAX_BYTES
from ragmonitor.settings import Settings
from ragmonitor.stats.feedback import PeoplesFeedback
from ragmonitor.store import Store

BEHIND_FROM: Final = 16
"""With more interactions waiting the work is not done in slices."""


class Pipeline(BackHalf):
    """Takes finished interactions, and scores and exports them on a thread of this process."""

    def __init__(
        self,
        settings: Settings,
        *,
        poll: Callable[[], object],
        emitter: Callable[[OtelExporter], TraceExporter] = lambda own: own,
        gauges: Callable[[], Sequence[GaugeValue]] = tuple,
        is_apart: bool = False,
        store: Store | None = None,
    ) -> None:
        """Wire the stages; nothing runs yet.

        Args:
            settings: The settings.
            poll: Called now and then; gives up abandoned runs.
            emitter: From what emits traces as the settings say to what emits them.
            gauges: Further ones, as of now; waits for nothing.
            is_apart: No application runs in this interpreter: its lock need not be given back, and
                senders bound the bytes that wait.
            store: Where sums are; None: as the settings say, or memory where that fails.

        Raises:
            SettingsError: The settings cannot be carried out.
        """
        stages = Stages(settings, feedback=self.feedback, emitter=emitter, store=store)
        self.stages = stages
        super().__init__(
            settings,
            poll=poll,
            meters=stages.exports.meters,
            judges=stages.judges,
            max_bytes=sys.maxsize if is_apart else MAX_BYTES,
        )
        self.meters.count_first(self.ledger.count_notes)
        self.traces, self.estimates = stages.exports.traces, stages.estimates
        self.destination = self.traces.destination
        """Says where traces go, without secrets."""
        self.newest = stages.newest.newest
        """Returns the report on the newest answer that was scored; None: there was none."""
        self.exports, self.runner = stages.exports, stages.runner
        self._is_apart, self._gauges = is_apart, gauges
        self.has_closed = threading.Event()
        """Set once every stage is closed, which may be later than `close` could wait."""
        self._prepare_loop()
        self.alarms = self._snapshot().alarms

    def _prepare_loop(self) -> None:
        """Begin without an event loop: also after an error that ended the last one."""
        self._set_waker: Callable[[], object] = lambda: None
        self._idle = False
        self._handler = AnswerHandler(self.stages, step=self.step, is_closed=lambda: self.is_closed)

    # --- the application's side -----------------------------------------------------------------

    def event(self, name: str, attributes: Mapping[str, str], at_s: float) -> None:
        """Take note of something that happened to the application."""
        self.stages.causes.event(name, attributes, at_s, self.stages.redactor.text)
        self.wake()

    def feedback(self, feedback: Feedback) -> bool:
        """Take what a person said of an answer; False: too much is waiting."""
        parts = (part for part in self.estimates.parts if isinstance(part, PeoplesFeedback))
        is_taken = any(part.note(feedback) for part in parts)
        if not is_taken:
            self.ledger.give_up("feedback_full")
        self.wake()
        return is_taken

    def _signal(self) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed, at exit
            self._set_waker()

    def _end(self, deadline: float) -> None:
        # A thread that still works makes no step: what it reports is counted by then.
        wait_s = min(MAX_STOP_S, deadline - time.monotonic()) / 2
        has_step = not self._thread.is_current and self.step.acquire(timeout=max(0.0, wait_s))
        try:
            # Interactions for which the time did not suffice are counted, if not scored.
            self.ledger.close_all(Cause.SHUTDOWN)
        finally:
            if has_step:
                self.step.release()
        within(deadline - time.monotonic(), self._close_stages)

    def _close_stages(self) -> None:
        with contained("estimate"):
            self.estimates.close()
        self.exports.close()
        self.has_closed.set()

    # --- the thread -----------------------------------------------------------------------------

    def _work(self) -> bool:
        if not self._is_apart:
            work_in_slices()
        run(self._main())
        return False

    def _failed(self) -> None:
        errors["worker_restart"] += 1
        self.ledger.close_all(Cause.INTERNAL_ERROR)
        self._prepare_loop()

    async def _main(self) -> None:
        waker, loop = asyncio.Event(), asyncio.get_running_loop()
        self._set_waker = partial(loop.call_soon_threadsafe, waker.set)
        loop.set_exception_handler(_record_uncaught)
        runner = self.runner
        beside = {asyncio.create_task(self._tick())}
        if runner is not None:
            beside.add(asyncio.create_task(runner.prepare()))
        try:
            while not self.is_closed:
                while (handling := self._next()) is not None:
                    with contained("worker"):
                        await handling
                    await asyncio.sleep(0)
                while self._requests:
                    flush = asyncio.create_task(self._drain(self._requests.popleft()))
                    beside.add(flush)
                    flush.add_done_callback(beside.discard)
                self._idle = True
                if not (len(self.queue) or self._requests or self.is_closed):
                    await waker.wait()
                waker.clear()
                self._idle = False
                if not self._is_apart:  # else no request is on this interpreter
                    await asyncio.sleep(LINGER_S)
        finally:
            unfinished = (*beside, *self._handler.begun)
            for task in unfinished:
                task.cancel()
            await asyncio.wait(unfinished, timeout=CANCEL_S)
            if runner is not None:
                with contained("judge"):
                    async with asyncio.timeout(CANCEL_S):
                        await runner.close()

    def _next(self) -> Coroutine[Any, Any, None] | None:
        """Return the handling of what waits longest; it has an account: who closes counts it."""
        waiting = len(self.queue)
        say_whether_behind(is_behind=waiting > BEHIND_FROM)
        with self.step:
            if self.is_closed or (finished := self.queue.take()) is None:
                return None
            account = self.ledger.open(finished)
            return self._handler.handle(finished, account, is_behind=waiting > MAX_WAITING)

    async def _drain(self, request: Request) -> None:
        """Wait for what is under way, export it, and say whether that is all."""
        try:
            while unfinished := [task for task in self._handler.begun if not task.done()]:
                left_s = request.deadline - time.monotonic()
                if left_s <= 0:
                    break
                await asyncio.wait(unfinished, timeout=left_s)
            self._refresh(is_due=True)
            is_done = self.exports.flush(request.deadline) and not unfinished
        except GeneratorExit:  # a fork's child throws away what goes on in its parent
            raise
        except BaseException:  # the task's cancellation too: nobody is to wait for it
            request.reply(is_done=False)
            raise
        request.reply(is_done=is_done)

    async def _tick(self) -> None:
        while True:
            self._refresh()
            await asyncio.sleep(TICK_S)

    def _refresh(self, *, is_due: bool = False) -> None:
        with contained("worker"), self.step:
            self.ledger.count_notes()
            with contained("estimate"):
                for event in self.estimates.tick(is_due=is_due):
                    self.exports.announce(event)
                for joined in self.estimates.joined_feedback():
                    self.exports.pass_on(joined)
            if self.runner is not None:
                with contained("estimate"):
                    self._handler.check_anchors(self.runner)
            snapshot = self._snapshot()
            with contained("capture"):
                self._poll()
            self.meters.refresh(snapshot=snapshot, queue_depth=len(self.queue), errors=errors)
            self.alarms, self.metrics_url = snapshot.alarms, self.meters.url
            if self.metrics_url is not None and self.stages.shows_page:
                self.ui_url = self.metrics_url.removesuffix("metrics") + "ragmonitor/"
            self.exports.snapshot(snapshot)

    def _snapshot(self) -> Snapshot:
        """Return every number of now, those of the sampling included."""
        snapshot = Snapshot()
        with contained("estimate"):
            snapshot = self.estimates.snapshot()
        gauges = [*snapshot.gauges, *self._gauges()]
        if self.runner is not None:
            with contained("sample"):
                gauges += self.runner.gauges()
        return replace(snapshot, gauges=tuple(gauges))


def _record_uncaught(_loop: asyncio.AbstractEventLoop, details: Mapping[str, Any]) -> None:
    """Record an error that no task caught; asyncio's own handler would log texts of the host."""
    error = details.get("exception")
    if isinstance(error, Exception):
        record_error("worker", error)
    else:
        record_problem("worker", f"asyncio: {details.get('message', '')}")
