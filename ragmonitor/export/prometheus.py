"""Counters, the score histogram, and windowed means with intervals, for Prometheus to scrape."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from prometheus_client import CollectorRegistry
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from ragmonitor.export.content import error_kind, package_version
from ragmonitor.export.endpoint import Endpoint, Pages
from ragmonitor.export.instruments import (
    MAX_LABEL_LENGTH,
    Instruments,
    State,
    cleaned,
    families,
)
from ragmonitor.export.server import Receive
from ragmonitor.export.service_state import alarm_labels, service_state, states
from ragmonitor.export.shared_counters import SharedCounters
from ragmonitor.records import (
    AlarmEvent,
    Evaluation,
    Interaction,
    JudgeUsage,
    Report,
    Scored,
    Snapshot,
    SpanReference,
    Status,
    Unscored,
    evaluator_name,
)
from ragmonitor.runtime import guard
from ragmonitor.runtime.patterns import lazy_pattern
from ragmonitor.runtime.prices import Prices
from ragmonitor.runtime.protocols import Exporter
from ragmonitor.semconv import conventions, metrics
from ragmonitor.settings import Settings
from ragmonitor.store import Store

_HEXADECIMAL = lazy_pattern("[0-9a-fA-F]{1,32}")
_UNUSED = JudgeUsage()


class PrometheusExporter(Exporter):
    """Counts, and serves the counts.

    `interaction`, `evaluations` and `dropped` may be called from any thread; the rest from the
    worker's.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        pages: Pages | None = None,
        receive: Receive | None = None,
        shared: Store | None = None,
    ) -> None:
        """Count from now on; the endpoint opens with the first `refresh`.

        Args:
            settings: The service, whether and where to serve, and what tokens cost.
            pages: What is served beside /metrics; None: nothing.
            receive: Answers requests that send something; None: there are none.
            shared: Where the processes of a machine add up their counters; None: each has its own.
        """
        self._service = cleaned(settings.service)
        self._cost_usd = Prices(settings.estimation.prices).cost_usd
        server = settings.server
        # An address that is cut is a dead link.
        has_address = pages is not None and len(server.page_url) <= MAX_LABEL_LENGTH
        self._page_url = server.page_url if has_address else ""
        self._version = settings.service_version
        self._shared = None if shared is None else SharedCounters(shared)
        self._count_notes: Callable[[], None] = lambda: None
        self.registry = CollectorRegistry()
        """Every series, ready to be mounted in an application's own endpoint."""
        self._snapshot = Snapshot()
        self._identities: dict[str, tuple[str, str]] = {}
        self._instruments = Instruments(self._service)
        self._instruments.set(1, metrics.BUILD_INFO, package_version())
        # Errors before us, or of the process that forked us, are not ours to count.
        self._errors_before = Counter(guard.errors)
        self.registry.register(Scrape(self._families))
        self._endpoint = Endpoint(
            self.registry,
            host=server.host,
            port=server.port,
            shared=shared is not None,
            state=self.state,
            pages=pages,
            receive=receive,
        )
        self._serve = server.enabled
        self.is_elsewhere = False
        """Whether the service's numbers are kept by a worker elsewhere."""

    @property
    def url(self) -> str | None:
        """Where this process serves /metrics; None if it does not."""
        return self._endpoint.url

    # --- counting -------------------------------------------------------------------------------

    def count_first(self, count: Callable[[], None]) -> None:
        """Have `count` called before each scrape, to count what was only noted."""
        self._count_notes = count

    def interaction(self, framework: str, status: Status, n: int = 1) -> None:
        """Count captured interactions."""
        self._instruments.count(metrics.INTERACTIONS, framework, status, n=n)

    def evaluations(self, evaluations: Sequence[Evaluation], n: int = 1) -> None:
        """Count outcomes of `n` interactions of which there is no report."""
        for evaluation in evaluations:
            outcome = evaluation.cause.value if isinstance(evaluation, Unscored) else "scored"
            name = evaluator_name(evaluation.evaluator)
            judge = evaluation.judge.name
            self._instruments.count(metrics.EVALUATIONS, name, judge, outcome, n=n)

    def checked(self, of: str, outcome: str, n: int = 1) -> None:
        """Count what was decided of answers, or of sentences, before they were seen."""
        self._instruments.count(metrics.CHECKS, of, outcome, n=n)

    def dropped(self, reason: str, n: int = 1) -> None:
        """Count interactions or runs that were given up."""
        self._instruments.count(metrics.DROPPED, reason, n=n)

    def export(self, report: Report) -> None:
        """Count one report: its outcomes, scores, and what its judge used."""
        # All of them first: what fails below must not break captured = scored + unscored.
        self.evaluations(report.evaluations)
        instruments, judge = self._instruments, report.judge.name
        exemplar = _exemplar(report.target)
        scored = [each for each in report.evaluations if isinstance(each, Scored)]
        for each in scored:
            labels = evaluator_name(each.evaluator), each.judge.name
            instruments.observe(each.score, metrics.SCORE_HISTOGRAM, *labels, exemplar=exemplar)
        for name in {each.judge.name for each in scored}:
            instruments.set(time.time(), metrics.LAST_SCORE_TIMESTAMP, name)
        if report.diagnosis is not None:
            instruments.count(metrics.DIAGNOSES, judge, report.diagnosis.value)
        with guard.shielded("metrics"):
            self.charged(report)
        self._identities[judge] = (report.judge.version, report.judge.kind)

    def charged(self, report: Report) -> None:
        """Count the cost of judging one answer."""
        usage, judge, instruments = report.usage, report.judge.name, self._instruments
        if usage is None and report.assessment is not None:
            usage = report.assessment.usage
        if usage is None or usage == _UNUSED:
            return
        instruments.count(metrics.JUDGE_CALLS, judge, n=usage.calls)
        instruments.count(metrics.JUDGE_TOKENS, judge, "input", n=usage.input_tokens)
        instruments.count(metrics.JUDGE_TOKENS, judge, "output", n=usage.output_tokens)
        instruments.count(metrics.JUDGE_COST_USD, judge, n=usage.cost_usd)
        instruments.observe(usage.seconds, metrics.JUDGE_SECONDS, judge, _outcome(report))

    def answered(self, interaction: Interaction, target: SpanReference | None) -> None:
        """Observe what one answer took: time, chunks, tokens and money."""
        self._instruments.observe(
            interaction.latency_s,
            metrics.INTERACTION_SECONDS,
            interaction.framework,
            exemplar=_exemplar(target),
        )
        for name, labels, amount in _amounts(interaction, self._cost_usd(interaction)):
            self._instruments.observe(amount, name, *labels)

    def alarm(self, event: AlarmEvent) -> None:
        """Count an alarm that was raised."""
        if event.raised:
            self._instruments.count(metrics.ALARMS_RAISED, *alarm_labels(event))

    # --- the current state -----------------------------------------------------------------------

    def refresh(self, *, snapshot: Snapshot, queue_depth: int) -> None:
        """Show the current state, add what was counted to the store, and open the endpoint."""
        self._snapshot = snapshot
        self._instruments.show((*states(snapshot), self._own_state(queue_depth)))
        self._share()
        if self._serve:
            self._endpoint.open()

    def _own_state(self, queue_depth: int) -> Iterator[State]:
        yield metrics.QUEUE_DEPTH, (), queue_depth
        yield metrics.WORKER_SEEN, (), time.time()
        yield metrics.SERVICE_INFO, (self._version,), 1
        for judge, identity in list(self._identities.items()):
            yield metrics.JUDGE_INFO, (judge, *identity), 1
        if self._page_url:
            yield metrics.PAGE_INFO, (self._page_url,), 1
        for stage, count in dict(guard.errors).items():
            if count > self._errors_before[stage]:
                yield metrics.INTERNAL_ERRORS, (stage,), count - self._errors_before[stage]

    def _share(self) -> None:
        if self._shared is not None:
            self._shared.add([*self._instruments.collect()])

    def close(self) -> None:
        """Stop serving, once the last counts are in the store."""
        with guard.shielded("count"):
            self._count_notes()
        self._share()
        self._endpoint.close()
        self._instruments.remove(metrics.WORKER_SEEN)

    def forget(self) -> None:
        """Let go of the parent's sockets, in a forked child."""
        self._endpoint.forget()

    # --- being scraped --------------------------------------------------------------------------

    def _families(self) -> list[Metric]:
        with guard.shielded("count"):
            self._count_notes()
        counted = list(self._instruments.collect())
        return counted if self._shared is None else self._shared.totals(counted)

    def state(self) -> dict[str, Any]:
        """Return the numbers of now for JSON: those of /metrics, and no texts."""
        state = service_state(self._families(), self._snapshot, self._service)
        return {"version": package_version(), "is_elsewhere": self.is_elsewhere} | state


def _amounts(
    interaction: Interaction, cost_usd: float | None
) -> Iterator[tuple[str, tuple[str, ...], float]]:
    """Yield histogram, labels and amount; what is not known is not observed."""
    yield metrics.RETRIEVED_CHUNKS, (), len(interaction.chunks)
    for retrieval in interaction.retrievals:
        # A retrieval that capture saw no time of (chunks in a model call's metadata) has none.
        if retrieval.ended_ns > retrieval.started_ns:
            labels = (conventions.GENAI_OPERATION_RETRIEVAL, "", "", error_kind(retrieval.error))
            yield metrics.GENAI_DURATION, labels, (retrieval.ended_ns - retrieval.started_ns) / 1e9
    for generation in interaction.generations:
        call = (conventions.GENAI_OPERATION_CHAT, generation.provider, generation.model)
        seconds = max(0, generation.ended_ns - generation.started_ns) / 1e9
        yield metrics.GENAI_DURATION, (*call, error_kind(generation.error)), seconds
        usage = generation.usage
        for direction, n in (("input", usage.input_tokens), ("output", usage.output_tokens)):
            if n is not None:
                yield metrics.GENAI_TOKENS, (*call, direction), n
    if interaction.first_token_s is not None:
        yield metrics.FIRST_TOKEN_SECONDS, (interaction.framework,), interaction.first_token_s
    if cost_usd is not None:
        yield metrics.ANSWER_COST_USD, (interaction.model,), cost_usd


def _exemplar(target: SpanReference | None) -> dict[str, str] | None:
    # A trace that was not sampled is in no backend: no link is better than a dead one.
    if target is None or not target.sampled:
        return None
    ids = {"trace_id": target.trace_id, "span_id": target.span_id}
    # The library raises over long ones, and a scrape fails over those that are no text.
    return ids if all(map(_HEXADECIMAL.fullmatch, ids.values())) else None


class Scrape(Collector):
    """The collector that registries hold; the instruments behind it may change."""

    def __init__(self, collect: Callable[[], list[Metric]]) -> None:
        self._collect = collect

    def collect(self) -> Iterable[Metric]:
        """Return every series as of now; none where that fails."""
        with guard.shielded("metrics"):  # the registry may be the application's
            return self._collect()
        return ()

    def describe(self) -> Iterable[Metric]:
        """Return the names, so that no registry asks for the series when it is set up."""
        return families()


def _outcome(report: Report) -> str:
    if report.assessment is not None:
        usage = report.usage or report.assessment.usage
        return "cached" if usage.cache_hits and not usage.calls else "ok"
    causes = [e.cause.value for e in report.evaluations if isinstance(e, Unscored)]
    return causes[0] if causes else "judge_error"
