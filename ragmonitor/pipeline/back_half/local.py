"""The back half in this process: one thread, one event loop."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence

from prometheus_client import CollectorRegistry

from ragmonitor.capture import sound
from ragmonitor.causes import Causes
from ragmonitor.evaluators import table
from ragmonitor.export import NewestReports
from ragmonitor.pipeline.judging import JudgeRunner
from ragmonitor.pipeline.wiring import (
    builtin_judge,
    estimates_of,
    exporters_of,
    golden_reader,
    incidents_of,
    judging_of,
    meters_of,
    reader_of,
    store_of,
    traces_of,
    view_of,
)
from ragmonitor.pipeline.worker import Worker
from ragmonitor.records import AlarmState, Cause, GaugeValue, Report
from ragmonitor.redaction import Redactor
from ragmonitor.runtime.feedback import Feedback
from ragmonitor.runtime.protocols import Exporter, Finished, TraceExporter
from ragmonitor.runtime.queues import MemoryQueue
from ragmonitor.settings import Settings
from ragmonitor.stats.feedback import PeoplesFeedback
from ragmonitor.store import Store


class LocalBackHalf:
    """Works on a thread of this process, which starts with the first interaction."""

    def __init__(
        self,
        settings: Settings,
        *,
        redactor: Redactor,
        poll: Callable[[], object],
        queue: MemoryQueue | None = None,
        traces: TraceExporter | None = None,
        exporters: Sequence[Exporter] = (),
        gauges: Callable[[], Sequence[GaugeValue]] = tuple,
        is_apart: bool = False,
        store: Store | None = None,
    ) -> None:
        """Wire the stages; nothing runs yet.

        Args:
            settings: The settings.
            redactor: What every text passes before a judge or an exporter sees it.
            poll: Called now and then; gives up abandoned runs.
            queue: Where interactions wait; None: one of its own.
            traces: Emits traces; None: as the settings say.
            exporters: Further ones, beside those of the settings.
            gauges: As in `Worker`.
            is_apart: As in `Worker`.
            store: Where sums are; None: as the settings say, or memory where that fails.

        Raises:
            SettingsError: The settings cannot be carried out.
        """
        builtin, reader = builtin_judge(), reader_of(settings)
        store = store_of(settings) if store is None else store
        judging = judging_of(settings, store)
        incidents = incidents_of(settings, judging, self._lose, store)
        view = view_of(settings, reader or builtin, judging, incidents)
        entries = table.select(settings.evaluators)
        self._shows_page = view is not None
        self._newest = NewestReports()
        self._redactor = redactor
        self.queue = MemoryQueue(settings.capture.queue_size) if queue is None else queue
        """The queue in which finished interactions wait."""
        self.meters = meters_of(settings, view, self.feedback, store)
        """The series that people scrape."""
        self.traces = traces_of(settings, self._lose) if traces is None else traces
        """Emits each interaction's trace."""
        self.estimates = estimates_of(settings, reader or builtin, judging, store)
        """The windowed means and the alarms."""
        self._causes = next(each for each in self.estimates.parts if isinstance(each, Causes))
        incidents.explain = self._causes.explain
        self.worker = Worker(
            self.queue,
            builtin=builtin,
            reader=reader,
            runner=None if judging is None else JudgeRunner(judging, entries, clean=redactor.text),
            entries=entries,
            estimates=self.estimates,
            traces=self.traces,
            meters=self.meters,
            exporters=[
                *exporters_of(settings, self._lose, view, incidents),
                *exporters,
                self._newest,
            ],
            prepare=lambda interaction: redactor(sound(interaction)),
            clean=redactor.text,
            poll=poll,
            gauges=gauges,
            goldens=golden_reader(settings, builtin, judging, redactor.text, store),
            is_apart=is_apart,
        )
        """The thread's work."""

    @property
    def step(self) -> threading.Lock:
        """A lock that the thread holds while it works on an answer: a fork waits for it."""
        return self.worker.step

    def forget(self) -> None:
        """Let go of the parent's sockets, in a forked child that begins anew."""
        self.meters.forget()

    def _lose(self, reason: str, n: int) -> None:
        """Count what did not arrive."""
        self.meters.dropped(reason, n)

    @property
    def registry(self) -> CollectorRegistry:
        """Every series, to be mounted in an application's own metrics endpoint."""
        return self.meters.registry

    @property
    def metrics_url(self) -> str | None:
        """The address at which this process serves /metrics; None if it does not."""
        return self.meters.url

    @property
    def ui_url(self) -> str | None:
        """The address at which this process serves the page; None if it does not."""
        metrics = self.meters.url
        if metrics is None or not self._shows_page:
            return None
        return metrics.removesuffix("/metrics") + "/ragmonitor/"

    @property
    def alarms(self) -> Sequence[AlarmState]:
        """The state of each signal's evidence, as of a few seconds ago."""
        return self.worker.latest.alarms

    def put(self, finished: Finished) -> None:
        """Take an interaction, or count it as `queue_full`."""
        if self.queue.put(finished):
            self.worker.wake()
            self.worker.refuse_late()
        else:
            self.worker.ledger.refuse(finished, Cause.QUEUE_FULL)

    def room(self) -> int:
        """Return how many more interactions may wait before `put` refuses one."""
        return self.queue.room

    def wake(self) -> None:
        """Start the thread if there is none, or wake it if it sleeps."""
        self.worker.wake()

    def refuse(self, finished: Finished, cause: Cause) -> None:
        """Note an interaction that is not taken, so that nothing is missing from the sums."""
        self.worker.ledger.refuse(finished, cause)

    def give_up(self, reason: str) -> None:
        """Note a run that was given up."""
        self.worker.ledger.give_up(reason)

    def note_check(self, of: str, outcome: str) -> None:
        """Note what was decided of an answer, or of a sentence, before it was seen."""
        self.worker.ledger.note_check(of, outcome)

    def newest(self) -> Report | None:
        """Return the report on the newest answer that was scored; None: there was none."""
        return self._newest.newest()

    def event(self, name: str, attributes: Mapping[str, str], at_s: float) -> None:
        """Take note of something that happened to the application."""
        self._causes.event(name, attributes, at_s, self._redactor.text)
        self.worker.wake()

    def feedback(self, feedback: Feedback) -> bool:
        """Take what a person said of an answer; False: too much is waiting."""
        parts = (part for part in self.estimates.parts if isinstance(part, PeoplesFeedback))
        is_taken = any(part.note(feedback) for part in parts)
        if not is_taken:
            self.worker.ledger.give_up("feedback_full")
        self.worker.wake()
        return is_taken

    def refreeze(self) -> None:
        """Accept the judge as it judges now."""
        self.estimates.refreeze()

    def destination(self) -> str:
        """Say where traces go, without secrets."""
        return self.traces.destination()

    def flush(self, timeout_s: float) -> bool:
        """Wait until everything taken so far is judged and exported; return whether it is."""
        return self.worker.flush(timeout_s)

    def close(self, timeout_s: float) -> bool:
        """Flush, stop the thread and close every stage; late interactions count as `shutdown`."""
        return self.worker.close(timeout_s)
