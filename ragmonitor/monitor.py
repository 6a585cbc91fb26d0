"""The front half, wired: what an application starts."""

from __future__ import annotations

import atexit
import threading
import time
import weakref
from collections.abc import AsyncGenerator, AsyncIterable, Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Never, ParamSpec, Self, TypeVar, overload
from uuid import UUID

from ragmonitor.capture.assembly import Translator
from ragmonitor.capture.current_id import current_id
from ragmonitor.capture.decorators import answers, name_of, retrieves
from ragmonitor.capture.plain import InteractionRecorder, Record
from ragmonitor.capture.recorder import Recorder
from ragmonitor.records import AlarmState, Assessment, Cause, Chunk, Interaction, Report
from ragmonitor.runtime.errors import SettingsError
from ragmonitor.runtime.feedback import feedback_of
from ragmonitor.runtime.forks import survive_forks
from ragmonitor.runtime.guard import logger, shielded
from ragmonitor.runtime.protocols import Exporter, Finished, Judge
from ragmonitor.settings import (
    AlarmSettings,
    Budget,
    CaptureSettings,
    ContentSettings,
    EstimationSettings,
    ExportSettings,
    JudgeSettings,
    SamplingSettings,
    ServerSettings,
    Settings,
)

if TYPE_CHECKING:
    from ragmonitor.capture.span_readers.processor import InteractionSpanProcessor
    from ragmonitor.goldens.asking import Ask
    from ragmonitor.goldens.golden import Golden
    from ragmonitor.goldens.probing import Probe
    from ragmonitor.pipeline.answer_checks import GuardedPiece
    from ragmonitor.pipeline.placement import BackHalf

EXIT_TIMEOUT_S = 5.0
ANNOUNCED_AT = 3
"""The refresh at which the log says where everything is: it is open, and a worker has said so."""

P = ParamSpec("P")
R = TypeVar("R")


class Monitor:
    """Watches one RAG application.

    Nothing runs before the first interaction: no thread, no port, no connection. `start` (or
    `with`) opens the metrics endpoint earlier. All methods may be called from any thread.
    """

    def __init__(
        self,
        service: str | None = None,
        *,
        service_version: str | None = None,
        judge: str | Judge | JudgeSettings | None = None,
        sample: float | SamplingSettings | None = None,
        budget: str | Budget | None = None,
        objectives: float | str | Mapping[str, float] | None = None,
        evaluators: str | Sequence[str | Callable[..., Any]] | None = None,
        exporters: str | Sequence[str | Exporter] | None = None,
        state: str | Path | None = None,
        content: Literal["all", "hashed", "none"] | ContentSettings | None = None,
        send_to: str | None = None,
        worker: Literal["thread", "process"] | None = None,
        server: bool | ServerSettings | None = None,
        capture: CaptureSettings | None = None,
        alarms: str | Sequence[str] | AlarmSettings | None = None,
        estimation: EstimationSettings | None = None,
        export: ExportSettings | None = None,
        settings: Settings | None = None,
        **unknown: Never,
    ) -> None:
        """Check the settings and wire the stages.

        What is not given comes from a variable, else from `ragmonitor.toml`, else from the default;
        a group merges by its options. docs/settings.md lists all.

        Args:
            service: Name of the application; the `service` label of every series.
            service_version: Its version; a change is marked on dashboards.
            judge: A litellm model name, any `Judge`, or more about it; None: the built-in judge.
            sample: Share of the answers that the judge scores, or more about which.
            budget: What the judges may spend: `Budget(usd_per_day=5)`. A model needs one.
            objectives: What is accepted, by signal: `{"hallucination": 0.05}`.
            evaluators: Names, or functions that are registered as evaluators.
            exporters: `Phoenix(url)`, `Langfuse(url)`, `JsonLines(path)`, texts such as
                `"jsonl:scores.jsonl"`, or exporters of your own.
            state: A file, or the address of a Redis server, for what outlives restarts and is
                shared.
            content: Which texts may leave (`"all"`, `"hashed"` or `"none"`), or also what is
                replaced in them.
            send_to: Where answers are put to be scored elsewhere: `"redis://127.0.0.1:6379/0"`, or
                `"unix:/run/ragmonitor.sock"`.
            worker: Where answers are scored: on a thread, or in a process of their own; None: in
                one where a model judges.
            server: Whether /metrics is served, or more about where.
            capture: What counts as an interaction.
            alarms: Signals that may raise an alarm, or more about alarms and who is told.
            estimation: What is estimated beside the means.
            export: How traces are emitted.
            settings: Instead of all options, variables and the file.
            unknown: Refused, with the name that was meant.

        Raises:
            SettingsError: An option is unknown, missing or out of range.
            MissingExtraError: A redaction needs what is not installed.
        """
        keywords = {**locals()}  # the keywords
        options = {
            name: keywords[name] for name in Settings.model_fields if name in keywords
        } | unknown
        # What works behind the request path is loaded for a monitor, not for an import.
        from prometheus_client import CollectorRegistry

        from ragmonitor.export.prometheus import Scrape
        from ragmonitor.pipeline.answer_checks import AnswerChecks
        from ragmonitor.pipeline.placement import back_half_of

        if settings is None:
            settings = Settings.load(**options)
        elif any(value is not None for value in options.values()):
            raise SettingsError("give either settings or options, not both")
        self.settings = settings
        self._recorders: dict[str, Recorder] = {}
        self._spans: InteractionSpanProcessor | None = None
        self._refreshes = 0
        self._closed = False
        self._probes: list[Probe] = []
        self._new_back = partial(back_half_of, settings, self._poll)
        self._working: BackHalf | None = self._new_back()
        self._building = threading.RLock()
        self.registry = CollectorRegistry()
        """Every series of this monitor, to mount in an application's own metrics endpoint."""
        self.registry.register(Scrape(lambda: [*self._back.registry.collect()]))
        self._answer_checks = AnswerChecks(
            # A fork makes another ledger.
            note=lambda of, outcome: self._back.ledger.note("check", of, outcome)
        )
        survive_forks(self)
        self._is_used = False
        _open[id(self)] = self
        _close_at_exit()

    # --- for applications -----------------------------------------------------------------------

    def start(self) -> Self:
        """Open the metrics endpoint now instead of with the first interaction."""
        with shielded("start"):
            self._back.wake()
        return self

    def observe(self, interaction: Interaction) -> None:
        """Hand over an interaction that the application recorded itself. Never raises or blocks."""
        with shielded("capture"):
            self._hand_over(Record(interaction))

    def interaction(
        self,
        *,
        query: str,
        name: str = "",
        session_id: str = "",
        user_id: str = "",
        tags: Sequence[str] = (),
        attributes: Mapping[str, str] | None = None,
    ) -> InteractionRecorder:
        """Return a context manager that records one interaction of plain code.

        Example:
            ```python
            with monitor.interaction(query=question) as i:
                chunks = search(question)
                i.retrieved(chunks)
                i.answered(ask_model(question, chunks))
            ```

        What instrumented frameworks run within the block becomes part of the interaction: a
        retriever and a model that are called one after the other need nothing said.
        """
        return InteractionRecorder(
            self._hand_over,
            query=query,
            name=name,
            session_id=session_id,
            user_id=user_id,
            tags=tags,
            attributes=attributes,
        )

    @overload
    def answers(self, function: Callable[P, R], /) -> Callable[P, R]: ...
    @overload
    def answers(
        self,
        function: None = None,
        /,
        *,
        query: str | None = None,
        answer: Callable[[Any], str] | None = None,
        name: str = "",
        tags: Sequence[str] = (),
        attributes: Mapping[str, str] | None = None,
    ) -> Callable[[Callable[P, R]], Callable[P, R]]: ...
    def answers(
        self,
        function: Callable[..., Any] | None = None,
        /,
        *,
        query: str | None = None,
        answer: Callable[[Any], str] | None = None,
        name: str = "",
        tags: Sequence[str] = (),
        attributes: Mapping[str, str] | None = None,
    ) -> Any:
        """Decorate a function that answers a question: each call is one interaction.

        Plain and coroutine functions, generators and asynchronous generators of pieces. Bare
        (`@monitor.answers`) or with arguments.

        Args:
            function: Of the bare form.
            query: The parameter that holds the question; None: the first.
            answer: From what was returned to the answer's text; None: texts, and what stands under
                `answer`, `response`, `result` or `output`.
            name: Of the interaction; empty: the function's.
            tags: Of every interaction.
            attributes: Of every interaction.

        Raises:
            TypeError: The function has no parameter `query`.
        """

        def decorated(each: Callable[..., Any]) -> Callable[..., Any]:
            begin = partial(
                self.interaction, name=name_of(each, name), tags=tags, attributes=attributes
            )
            return answers(each, begin=lambda text: begin(query=text), query=query, answer=answer)

        return decorated if function is None else decorated(function)

    @overload
    def retrieves(self, function: Callable[P, R], /) -> Callable[P, R]: ...
    @overload
    def retrieves(
        self, function: None = None, /, *, chunks: Callable[[Any], Sequence[Chunk | str]]
    ) -> Callable[[Callable[P, R]], Callable[P, R]]: ...
    def retrieves(
        self,
        function: Callable[..., Any] | None = None,
        /,
        *,
        chunks: Callable[[Any], Sequence[Chunk | str]] | None = None,
    ) -> Any:
        """Decorate a function whose list of results belongs to the current interaction.

        Args:
            function: Of the bare form.
            chunks: From what was returned to chunks or texts, in the order the model sees them.
        """
        if function is None:
            return partial(retrieves, chunks=chunks)
        return retrieves(function, chunks=chunks)

    def check(self, answer: str, chunks: Sequence[Chunk | str], question: str = "") -> Assessment:
        """Return what the built-in judge finds in an answer, before anybody sees it.

        It takes milliseconds, in this thread, and needs neither model nor network. Nothing is
        recorded of the answer; `ragmonitor_checks_total` counts what was decided. What to do with
        an answer that is `hallucinated` is up to the application: docs/guard.md.

        Args:
            answer: The whole answer.
            chunks: What the model was shown.
            question: The question; empty: relevance is not rated.

        Raises:
            JudgeError: The texts are longer than 200,000 characters, or take longer than a
                second; the cause is `too_long`.
        """
        return self._answer_checks.check(answer, chunks, question)

    def guarded(
        self,
        stream: AsyncIterable[str] | Iterable[str],
        chunks: Sequence[Chunk | str],
        question: str = "",
    ) -> AsyncGenerator[GuardedPiece, None]:
        """Return an iterator over a stream's sentences, each judged before anybody sees it.

        Example:
            ```python
            async for piece in monitor.guarded(stream, chunks, question):
                await send(piece.text if not piece.findings else "[not in our documents]")
            ```

        A sentence is held back until it has ended; what cannot be read passes with no verdicts. To
        stop reading closes the stream. What the stream raises is raised here.

        Args:
            stream: The answer, in pieces of text.
            chunks: What the model was shown.
            question: The question.
        """
        return self._answer_checks.guarded(stream, chunks, question)

    def probe(
        self,
        ask: Ask,
        goldens: str | Path | Iterable[Golden],
        *,
        every: float | str = "1h",
        per_hour: float = 60.0,
        timeout_s: float = 60.0,
        concurrency: int = 4,
        once: bool = False,
    ) -> Probe:
        """Ask the application golden questions, again and again, and judge what it answers.

        `ragmonitor_golden_*` shows the scores beside each question's own history; docs/goldens.md.
        Asking begins at once, on a thread of ours, and ends with the monitor. What golden questions
        cause in the application is marked, and is no traffic. Each answer costs the judge two
        readings, which the monitor's budget pays.

        Args:
            ask: A function from a question to an answer, with its chunks if it says them; a
                coroutine function is awaited on an event loop of ours. Or `HttpAsk(url, ...)`.
            goldens: A file of them, or the questions; rejected ones, and mined ones that nobody has
                accepted, are left out.
            every: How often each question is asked: seconds, or a text such as `"1h"`.
            per_hour: Questions that are asked in an hour at most; with more of them, each is asked
                less often.
            timeout_s: For one question.
            concurrency: Questions under way at once.
            once: Whether to ask each of them once, as fast as `concurrency` permits.

        Raises:
            InputError: The file cannot be read.
            SettingsError: There is no question, or a number is out of range.
        """
        from ragmonitor.goldens.golden import read_goldens
        from ragmonitor.goldens.probing import Probe

        questions = read_goldens(goldens) if isinstance(goldens, str | Path) else goldens
        probe = Probe(
            ask,
            questions,
            put=self.observe,
            every=every,
            per_hour=per_hour,
            timeout_s=timeout_s,
            concurrency=concurrency,
            once=once,
        )
        self._probes = [*(each for each in self._probes if each.is_running), probe]
        probe.start()
        return probe

    def span_processor(self) -> InteractionSpanProcessor:
        """Return what makes interactions of other instrumentations' spans; one per monitor.

        `provider.add_span_processor(monitor.span_processor())`, with OpenInference, OpenLLMetry or
        OpenTelemetry's GenAI instrumentations on that provider: see docs/otel-spans.md. A
        framework that an integration of ours records for this monitor is left to it.
        """
        # The SDK comes with it, which takes longer to import than most of this package.
        from ragmonitor.capture.span_readers.processor import InteractionSpanProcessor

        with self._building:
            if self._spans is None:
                self._spans = InteractionSpanProcessor(
                    self._hand_over,
                    wake=lambda: self._back.wake(),  # noqa: PLW0108 - another after a fork
                    is_claimed=self._recorders.__contains__,
                    retrieval_tools=self.settings.capture.retrieval_tools,
                    on_forgotten=self._give_up,
                )
            return self._spans

    @property
    def alarms(self) -> tuple[AlarmState, ...]:
        """The state of each signal's evidence, as of a few seconds ago."""
        return tuple(self._back.alarms)

    def event(self, name: str, /, **attributes: str) -> None:
        """Take note of something that happened to the application: `monitor.event("reindexed")`.

        It is marked on dashboards and on the page, and named where answers got worse about then.
        Of events of one name the newest is kept. Never raises or blocks.

        Args:
            name: In a few words that stay the same from time to time.
            attributes: What else is known of it, for people.
        """
        with shielded("capture"):
            texts = {key: str(value) for key, value in attributes.items()}
            self._back.event(str(name), texts, time.time())

    @staticmethod
    def current_id() -> str:
        """Return the id of the newest interaction of this thread or task; empty: there was none.

        Within an instrumented call or a block it is that interaction's, and so it stays right after
        it, until another one begins: `feedback` takes it. Threads and tasks begin with that of
        whoever started them. For a LangChain run it is the run id; see `InteractionIdMiddleware`.
        """
        return current_id()

    def feedback(
        self,
        interaction_id: str | UUID,
        value: bool | float | str,
        comment: str = "",
        kind: str = "thumbs",
    ) -> None:
        """Take what a person says of an answer; it may be days later. Never blocks.

        It is compared with what the judges said and goes out as a score by people, and enters no
        rate: who speaks is no random sample (docs/feedback.md). Ids that belong to no known answer
        are counted in `ragmonitor_feedback_total{direction="unknown"}`.

        Args:
            interaction_id: As `current_id` gave it, or a run id of LangChain's or LangSmith's.
            value: True or False; from 0 (bad) to 1 (good), or -1; or a label such as `up`.
            comment: In the person's own words; redacted as all texts are.
            kind: What was asked of the person: `thumbs`, `stars`.

        Raises:
            FeedbackError: An argument is none of these; nothing else is raised.
        """
        checked = feedback_of(interaction_id, value, comment=comment, kind=kind, at_s=time.time())
        with shielded("capture"):
            if self._closed:
                self._back.ledger.give_up("feedback_late")
            else:
                self._back.feedback(checked)

    @property
    def metrics_url(self) -> str | None:
        """The address at which this process serves /metrics; None if it does not."""
        return self._back.metrics_url

    @property
    def ui_url(self) -> str | None:
        """The address at which this process serves the page; None if it does not."""
        return self._back.ui_url

    @property
    def open_runs(self) -> int:
        """The number of framework runs that are under way, or were left open and will age out."""
        return sum(len(source) for source in self._sources())

    def last(self, timeout_s: float = 10.0) -> Report | None:
        """Return the report on the newest answer; `print` shows the scores and what is unsupported.

        It waits until what was handed over so far is judged, `timeout_s` at most. It is the
        judge's report if one read the answer, else the built-in judge's; None: there was no answer.
        """
        self.flush(timeout_s)
        return self._back.newest()

    def flush(self, timeout_s: float = 10.0) -> bool:
        """Wait until everything so far is judged and exported; return whether it is."""
        with shielded("flush"):
            self._drain(timeout_s)
            return self._back.flush(timeout_s)
        return False

    def close(self, timeout_s: float = 10.0) -> bool:
        """Flush and stop; return whether everything was judged and exported in time.

        What comes afterwards is counted as unscored, cause `shutdown`. The order of closing stands
        in docs/architecture.md.
        """
        if self._closed:
            return True
        deadline = time.monotonic() + timeout_s
        with shielded("close"):
            for probe in self._probes:
                probe.stop(min(1.0, timeout_s / 4))
            # Half of the time at most: what waits is to be scored in the other.
            self._drain(timeout_s / 2)
            for recorder in [*self._recorders.values()]:
                with shielded("capture"):
                    recorder.end_paused()
            if self._spans is not None:
                self._spans.shutdown()
            self._closed = True
            _open.pop(id(self), None)
            self._forget()
            return self._back.close(max(0.0, deadline - time.monotonic()))
        return False

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_raised: object) -> None:
        self.close()

    # --- for integrations -----------------------------------------------------------------------

    def recorder(self, translator: Translator, *, drain_s: float = 0.0) -> Recorder:
        """Return the recorder of the translator's framework: one per monitor and framework.

        Args:
            translator: Turns the framework's objects into records, behind the request path.
            drain_s: It reports ends up to so long after they happened; a flush waits for them.
        """
        known = self._recorders.get(translator.framework)
        if known is not None:  # as a rule, and once for each block of LlamaIndex's
            return known
        made = Recorder(
            translator,
            self._hand_over,
            root_names=self.settings.capture.root_names,
            retrieval_tools=self.settings.capture.retrieval_tools,
            drain_s=drain_s,
            on_forgotten=self._give_up,
        )
        return self._recorders.setdefault(translator.framework, made)  # of two threads' the first

    def _hand_over(self, finished: Finished) -> None:
        if not self._is_used:
            # A tracer provider that was built after us would be shut down before we flush.
            self._is_used = True
            _close_at_exit()
        if self._closed:
            self._back.ledger.refuse(finished, Cause.SHUTDOWN)
        else:
            self._back.put(finished)

    def _give_up(self, reason: str) -> None:
        self._back.ledger.give_up(reason)

    def _poll(self) -> None:
        self._refreshes += 1
        if self._refreshes == ANNOUNCED_AT:
            attached = [*self._recorders, *(("spans",) if self._spans is not None else ())]
            logger.info(
                "ragmonitor: watching %s (%s); metrics: %s; page: %s; traces: %s",
                self.settings.service,
                ", ".join(attached) or "plain code",
                self.metrics_url or "not served",
                self.ui_url or "not served (server.ui)",
                self._back.destination(),
            )
        for source in self._sources():
            with shielded("capture"):
                source.sweep()

    def _sources(self) -> tuple[Recorder | InteractionSpanProcessor, ...]:
        spans = () if self._spans is None else (self._spans,)
        return (*self._recorders.values(), *spans)

    def _drain(self, timeout_s: float) -> None:
        deadline = time.monotonic() + timeout_s
        for source in self._sources():
            with shielded("capture"):
                source.drain(max(0.0, deadline - time.monotonic()))

    # --- forks ----------------------------------------------------------------------------------

    @property
    def _back(self) -> BackHalf:
        """What works behind the request path; in a forked child it is built at its first use."""
        back = self._working
        if back is None:
            with self._building:
                back = self._working
                if back is None:
                    back = self._working = self._new_back()
        return back

    @property
    def step(self) -> threading.Lock | None:
        """A lock that a fork waits for: see `ragmonitor.runtime.forks`."""
        return None if self._working is None else self._working.step

    def after_fork_in_child(self) -> None:
        """Leave to the parent what works there and what is open, and begin anew."""
        back, self._working = self._working, None
        self._building = threading.RLock()
        if back is not None:
            back.forget()
        self._forget()

    def _forget(self) -> None:
        for source in self._sources():
            with shielded("capture"):  # one that fails must not keep the worker from its end
                source.clear()


_open: weakref.WeakValueDictionary[int, Monitor] = weakref.WeakValueDictionary()
"""The monitors that are not closed, by their ids, the oldest first."""


def _close_at_exit() -> None:
    """Have the open monitors closed at the exit, before all that is registered by now."""
    atexit.unregister(_close_all)
    atexit.register(_close_all)


def _close_all() -> None:
    monitors, ends_s = [*_open.values()], time.monotonic() + EXIT_TIMEOUT_S
    while monitors:
        # What is left of the time that all have together, in equal parts.
        left_s = max(0.0, ends_s - time.monotonic()) / len(monitors)
        monitors.pop().close(left_s)
