"""The table of metrics: the name, kind, help and labels of each, defined once.

The series that are scraped and the tables of docs/metrics.md follow from it. A statistic that
yields a `GaugeValue` needs one row here, no more.

Names follow https://prometheus.io/docs/practices/naming/; the client adds `_total` to counters and
`_info` to infos. Every series has the label `service` too.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partialmethod
from typing import Final, Literal

Kind = Literal["counter", "gauge", "histogram", "info"]

SCORE_BUCKETS: Final = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
SECONDS_BUCKETS: Final = (0.001, 0.005, 0.02, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0)
CHUNK_BUCKETS: Final = (0, 1, 2, 3, 4, 5, 6, 8, 10, 15, 20, 50)
GENAI_SECONDS_BUCKETS: Final = tuple(0.01 * 2**n for n in range(14))
GENAI_TOKEN_BUCKETS: Final = tuple(float(4**n) for n in range(11))
"""The first of those that the conventions recommend: up to a million tokens."""
COST_BUCKETS: Final = (1e-5, 3e-5, 1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2, 0.1, 0.3, 1.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """One row of the table."""

    section: str
    """The heading in docs/metrics.md."""
    kind: Kind
    name: str
    """Without the suffix that the client adds."""
    help: str
    labels: tuple[str, ...]
    """Without `service`."""
    buckets: tuple[float, ...]

    @property
    def series(self) -> str:
        """The name that Prometheus shows."""
        return self.name + {"counter": "_total", "info": "_info"}.get(self.kind, "")


TABLE: Final[dict[str, Metric]] = {}
"""Every metric by its name, in the order of docs/metrics.md."""


class _Section:
    """Adds rows under a heading; each of its methods returns the metric's name."""

    def __init__(self, heading: str) -> None:
        self._heading = heading

    def row(
        self, kind: Kind, name: str, text: str, labels: str = "", buckets: tuple[float, ...] = ()
    ) -> str:
        """Add a row, with its labels separated by spaces."""
        TABLE[name] = Metric(
            section=self._heading,
            kind=kind,
            name=name,
            help=text,
            labels=tuple(labels.split()),
            buckets=buckets,
        )
        return name

    gauge = partialmethod(row, "gauge")
    counter = partialmethod(row, "counter")
    histogram = partialmethod(row, "histogram")


_events = _Section("What happened")
_means = _Section("Means, each with its 95 % interval")
_sums = _Section("The same means as counters")
_alarms = _Section("Alarms")
_amounts = _Section("Time and money")
_spending = _Section("Sampling and money")
_judging = _Section("The judge")
_versions = _Section("Versions and events")
_goldens = _Section("Golden questions")
_people = _Section("What people say")
_operation = _Section("Operation")


def _estimate(name: str, text: str, labels: str, *, root: str = "") -> str:
    """Add the mean over a window with its interval."""
    _means.gauge(name, text, labels)
    for end, bound in (("lower", 0), ("upper", 1)):
        text = f"The {end} end of the 95 % interval, with {bound} for each unobserved answer."
        _means.gauge(f"{root or name}_{end}", text, labels)
    return name


_BOUNDS: Final = "Its 95 % interval is in the label bound: mean, lower or upper."


INTERACTIONS: Final = _events.counter(
    "ragmonitor_interactions",
    "Captured interactions, by how they ended.",
    "framework status",
)
EVALUATIONS: Final = _events.counter(
    "ragmonitor_evaluations",
    "Evaluations by outcome: scored, or the cause why there is no score.",
    "evaluator judge outcome",
)
DIAGNOSES: Final = _events.counter(
    "ragmonitor_diagnoses",
    "Scored answers by what went wrong, not weighted by their inclusion probability.",
    "judge diagnosis",
)
SCORE_HISTOGRAM: Final = _events.histogram(
    "ragmonitor_score",
    "Scores, not weighted by inclusion probability, with trace_id and span_id as exemplars.",
    "evaluator judge",
    buckets=SCORE_BUCKETS,
)
INTERACTION_SECONDS: Final = _events.histogram(
    "ragmonitor_interaction_seconds",
    "Time from the question to the last token, with trace_id and span_id as exemplars.",
    "framework",
    buckets=SECONDS_BUCKETS,
)
RETRIEVED_CHUNKS: Final = _events.histogram(
    "ragmonitor_retrieved_chunks",
    "Chunks that the model was shown.",
    buckets=CHUNK_BUCKETS,
)

# Under the names that OpenTelemetry's GenAI conventions give them, as its exporter for Prometheus
# writes them: https://github.com/open-telemetry/semantic-conventions-genai
_GENAI_CALL: Final = "gen_ai_operation_name gen_ai_provider_name gen_ai_request_model"
GENAI_DURATION: Final = _amounts.histogram(
    "gen_ai_client_operation_duration_seconds",
    "Time of one model call (operation chat) or of one retrieval (operation retrieval).",
    f"{_GENAI_CALL} error_type",
    buckets=GENAI_SECONDS_BUCKETS,
)
GENAI_TOKENS: Final = _amounts.histogram(
    "gen_ai_client_token_usage",
    "Tokens of one model call, as its provider counted them.",
    f"{_GENAI_CALL} gen_ai_token_type",
    buckets=GENAI_TOKEN_BUCKETS,
)
FIRST_TOKEN_SECONDS: Final = _amounts.histogram(
    "ragmonitor_time_to_first_token_seconds",
    "Time from the question to the first token of a streamed answer, retrieval included.",
    "framework",
    buckets=SECONDS_BUCKETS,
)
ANSWER_COST_USD: Final = _amounts.histogram(
    "ragmonitor_answer_cost_usd",
    "Price of the tokens of an answer's model calls; of answers whose tokens and prices are known.",
    "model",
    buckets=COST_BUCKETS,
)

SCORE_MEAN: Final = _estimate(
    "ragmonitor_score_mean",
    "Mean score over the window, unbiased whatever was sampled.",
    "evaluator judge window",
    root="ragmonitor_score",
)
HALLUCINATION_RATE: Final = _estimate(
    "ragmonitor_hallucination_rate",
    "Share of answers with an unsupported sentence of severity major, of those "
    "that claim something.",
    "judge window",
)
REFUSAL_RATE: Final = _estimate(
    "ragmonitor_refusal_rate", "Share of answers that decline to answer.", "judge window"
)
GROUP_HALLUCINATION_RATE: Final = _means.gauge(
    "ragmonitor_group_hallucination_rate",
    "Share of answers with an unsupported sentence, of a part of the traffic.",
    "judge window dimension group",
)
GROUP_HALLUCINATION_BOUND: Final = _means.gauge(
    "ragmonitor_group_hallucination_rate_bound",
    "The ends of its 95 % interval: bound is lower or upper.",
    "judge window dimension group bound",
)
EMPTY_RETRIEVAL_RATIO: Final = _means.gauge(
    "ragmonitor_empty_retrieval_ratio", "Share of answers without any chunk.", "window"
)
WEAK_RETRIEVAL_RATIO: Final = _means.gauge(
    "ragmonitor_weak_retrieval_ratio",
    "Share of answers whose best chunk is weaker than nearly all of the reference's.",
    "window",
)
_SUMMED: Final = "signal judge"
# Summable over windows and processes: from these PromQL forms the means (docs/statistics.md).
ANSWERS: Final = _sums.counter(
    "ragmonitor_answers", "Answers that had a chance to be judged.", _SUMMED
)
JUDGED_ANSWERS: Final = _sums.counter(
    "ragmonitor_judged_answers", "Judged answers to which the signal applies.", _SUMMED
)
ESTIMATE: Final = _sums.counter(
    "ragmonitor_estimate",
    'Pseudo-outcomes of the value, or of "the signal applies", by their sign, as a size.',
    f"{_SUMMED} of sign",
)

_ALARM: Final = "signal judge kind"
ALARM_EVIDENCE_SECONDS: Final = _alarms.gauge(
    "ragmonitor_alarm_evidence_seconds",
    "While the objectives are met, all alarms together reach this level at most once in so long a "
    "time; held while the alarm is active.",
    _ALARM,
)
ALARM_THRESHOLD_SECONDS: Final = _alarms.gauge(
    "ragmonitor_alarm_threshold_seconds",
    "Evidence at which an alarm is raised: the mean time between false alarms is at least this.",
)
ALARM_ACTIVE: Final = _alarms.gauge(
    "ragmonitor_alarm_active",
    "Whether the alarm is raised and not cleared: 0 or 1.",
    _ALARM,
)
ALARM_SINCE: Final = _alarms.gauge(
    "ragmonitor_alarm_since_timestamp_seconds",
    "When the active alarm was raised; without one absent.",
    _ALARM,
)
ALARM_RISE_START: Final = _alarms.gauge(
    "ragmonitor_alarm_rise_start_timestamp_seconds",
    "When the rise began that the active alarm's evidence rests on; without one absent.",
    _ALARM,
)
ALARM_RISE_MEAN: Final = _alarms.gauge(
    "ragmonitor_alarm_rise_mean",
    "Mean of the scored answers since the rise (side: since) and before it (side: before), on the "
    "signal's own scale; absent without an active alarm, or without such answers.",
    f"{_ALARM} side",
)
ALARM_OBJECTIVE: Final = _alarms.gauge(
    "ragmonitor_alarm_objective",
    "The limit of the mean: the objective that was set, or learned; absent while it is learned. Of "
    "a signal that is a difference (scores of golden questions) 0.5 is none.",
    _ALARM,
)
ALARMS_RAISED: Final = _alarms.counter("ragmonitor_alarms_raised", "Alarms raised.", _ALARM)

SAMPLING_RATE: Final = _spending.gauge(
    "ragmonitor_judge_sampling_rate",
    "Inclusion probability of an answer of usual uncertainty.",
    "judge",
)
MAX_SAMPLING_RATE: Final = _spending.gauge(
    "ragmonitor_judge_max_sampling_rate",
    "That probability while the budget permits it, as it is set.",
    "judge",
)
ARRIVALS: Final = _spending.gauge(
    "ragmonitor_arrivals_per_second",
    "Answers per second, with a half-life of two minutes.",
)
EXPECTED_COST: Final = _spending.gauge(
    "ragmonitor_judge_expected_cost",
    "Expected cost of judging one answer, in the budget's unit.",
    "judge unit",
)
BUDGET_LEVEL: Final = _spending.gauge(
    "ragmonitor_budget_level",
    "What may be spent at once now.",
    "unit per",
)
BUDGET_LIMIT: Final = _spending.gauge(
    "ragmonitor_budget_limit",
    "What may be spent in the time that the label per names.",
    "unit per",
)
UNCOVERED_RATIO: Final = _spending.gauge(
    "ragmonitor_uncovered_ratio",
    "Share of the window's answers that had no chance to be judged.",
    "judge window",
)
MISSING_RATIO: Final = _spending.gauge(
    "ragmonitor_judge_missing_ratio",
    "Share of the answers drawn within the last day that have no verdict.",
    "judge",
)

JUDGE_CALLS: Final = _judging.counter(
    "ragmonitor_judge_calls",
    "Calls of a judge's model.",
    "judge",
)
JUDGE_COST_USD: Final = _judging.counter(
    "ragmonitor_judge_cost_usd",
    "Cost of a judge's model.",
    "judge",
)
JUDGE_TOKENS: Final = _judging.counter(
    "ragmonitor_judge_tokens",
    "Tokens that a judge's model used.",
    "judge direction",
)
JUDGE_SECONDS: Final = _judging.histogram(
    "ragmonitor_judge_seconds",
    "Time to judge one answer over all calls, by outcome: ok, cached (no call), or a cause.",
    "judge outcome",
    buckets=SECONDS_BUCKETS,
)
JUDGE_BREAKER_STATE: Final = _judging.gauge(
    "ragmonitor_judge_breaker_state",
    "Circuit breaker of a judge's provider: 0 closed, 1 half open (one call tries), 2 open.",
    "judge",
)
ALARM_CAUSE: Final = _judging.gauge(
    "ragmonitor_alarm_cause",
    "Cause of the active alarm: 1 for what is known, all 0 without an alarm.",
    "judge cause",
)
ANCHOR_FLIP_RATE: Final = _judging.gauge(
    "ragmonitor_anchor_flip_rate",
    "Share of the reference answers on which the judge's verdict has changed.",
    "judge",
)
JUDGE_INFO: Final = _judging.gauge(
    "ragmonitor_judge_info",
    "1; a change of the labels is a change of the judge.",
    "judge version kind",
)
LAST_SCORE_TIMESTAMP: Final = _judging.gauge(
    "ragmonitor_last_score_timestamp_seconds", "When the judge last gave a score.", "judge"
)

VERSION_DIFFERENCE: Final = _versions.gauge(
    "ragmonitor_version_difference",
    "Mean of the newest version less that of its baseline; bound is mean, or lower or upper of its "
    "95 % confidence sequence, which holds whenever it is read.",
    "by candidate baseline signal judge bound",
)


GOLDEN_RAGCHECKER_SCORES: Final = (
    *("precision", "recall", "f1", "claim_recall", "context_precision", "context_utilization"),
    *("noise_sensitivity_in_relevant", "hallucination", "self_knowledge"),
)
GOLDEN_EVALUATORS: Final = (
    *("answer_correctness", "context_recall", "context_precision", "faithfulness"),
    "refusal_correctness",
    *(f"ragchecker_{name}" for name in GOLDEN_RAGCHECKER_SCORES),
)
"""The evaluators of golden questions; docs/evaluations.md defines each."""
GOLDEN_SCORE: Final = _goldens.gauge(
    "ragmonitor_golden_score",
    "Mean score of the golden questions asked in the window, as of all of them now; availability "
    "is the share that got an answer, and ragchecker_ begins RAGChecker's. "
    f"{_BOUNDS}",
    "evaluator judge window bound",
)
GOLDEN_ASKS: Final = _goldens.counter(
    "ragmonitor_golden_asks",
    "Golden questions asked, by outcome: answered, or why there is no answer.",
    "outcome",
)

EVENT_TIMESTAMP: Final = _versions.gauge(
    "ragmonitor_event_timestamp_seconds",
    "When it last happened: a deployment (the first answer of a version), a change of the judge, "
    "or what the application told by `Monitor.event`.",
    "kind name",
)

CHECKS: Final = _judging.counter(
    "ragmonitor_checks",
    "What `Monitor.check` (of: answer) and `Monitor.guarded` (of: sentence) decided before an "
    "answer was seen: fine, flagged, no_claim, unread.",
    "of outcome",
)

FEEDBACK: Final = _people.counter(
    "ragmonitor_feedback",
    "Feedback that people gave, by direction: good, bad or neither; and how much of it is of no "
    "known answer: unknown.",
    "kind direction",
)

QUEUE_DEPTH: Final = _operation.gauge(
    "ragmonitor_queue_depth", "Interactions that wait to be scored."
)
STREAM_RECORDS: Final = _operation.gauge(
    "ragmonitor_stream_records",
    "Records on the stream, by state: waiting, or open (taken by a worker).",
    "state",
)
STREAM_OLDEST_SECONDS: Final = _operation.gauge(
    "ragmonitor_stream_oldest_seconds",
    "Age of the oldest record on the stream that is not settled; 0: there is none.",
)
STREAM_UP: Final = _operation.gauge(
    "ragmonitor_stream_up", "1: the process reaches the stream; 0: it does not."
)
STORE_UP: Final = _operation.gauge(
    "ragmonitor_store_up",
    "1: the store of `state` was reached last; 0: it is away, and with it every mean and alarm.",
)
RECEIVED: Final = _operation.counter(
    "ragmonitor_received",
    "What `ragmonitor receive` got, by what became of it: requests, the spans in them, and the "
    "traces whose spans have left.",
    "what outcome",
)
DROPPED: Final = _operation.counter(
    "ragmonitor_dropped",
    "Interactions, runs, scores, and spans and log events that were given up.",
    "reason",
)
INTERNAL_ERRORS: Final = _operation.counter(
    "ragmonitor_internal_errors",
    "Errors of the monitoring itself; worker_restart: one ended the worker, which began again.",
    "stage",
)
WORKER_SEEN: Final = _operation.gauge(
    "ragmonitor_worker_seen_timestamp_seconds",
    "When the worker last showed its state; of several processes the one furthest behind.",
)
SERVICE_INFO: Final = _operation.gauge(
    "ragmonitor_service_info",
    "1; the setting service_version, so that deployments show.",
    "version",
)
PAGE_INFO: Final = _operation.gauge(
    "ragmonitor_page_info",
    "1; the page for people, where incidents are; absent without server.ui_url.",
    "url",
)
BUILD_INFO: Final = _operation.row(
    "info", "ragmonitor_build", "The version of ragmonitor.", "version"
)
