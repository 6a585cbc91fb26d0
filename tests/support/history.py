"""A past for dashboards and rules: every series of two services, as Prometheus would have kept it.

`support-bot` has a bad deployment (a hallucination spike, its alarm, the provider of its judge
down for a while), a quiet hour each night, and a judge that changes its version; `handbook` is
small, and its retrieval is weak at the end. Numbers are drawn with a fixed seed, so that a picture
of them is the same tomorrow. Exemplars cannot be written into the past.
"""

from __future__ import annotations

import math
import random
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ragmonitor.metrics import (
    COST_BUCKETS,
    GENAI_SECONDS_BUCKETS,
    GENAI_TOKEN_BUCKETS,
    SCORE_BUCKETS,
    SECONDS_BUCKETS,
)
from tests.support.prometheus_server import require_binary

STEP_S = 300
REINDEXED_S = 6 * 3_600.0
"""So long before the end an index was made anew."""
"""Between two samples; as long as Prometheus looks back for a value."""
HOUR_S = 3600
DAY_S = 86_400.0
MODEL = "openai/gpt-4o-mini"
SECOND = "openai/gpt-4o"
BUILTIN = "builtin"
PROMPTS = ("p4-3fa2", "p5-81cc")
WINDOWS = {"1h": 3600.0, "24h": 86_400.0}
THRESHOLD_DAYS = 30.0
EVALUATORS = {
    "faithfulness": (0.95, 0.62),
    "answer_relevancy": (0.9, 0.84),
    "context_relevance": (0.7, 0.58),
    "context_utilization": (0.6, 0.4),
}
"""Mean score in good times, and in the spike."""
INPUTS = {"empty_retrieval": 0.02, "weak_retrieval": 0.06}
CHUNK_BUCKETS = (0.0, 1.0, 2.0, 3.0, 5.0, 8.0, 13.0, 21.0)
DIAGNOSES = {
    "ok": (0.9, 0.66),
    "unsupported_addition": (0.03, 0.16),
    "contradiction": (0.01, 0.05),
    "retrieval_miss": (0.02, 0.04),
    "ignored_context": (0.01, 0.04),
    "off_topic": (0.01, 0.01),
    "wrong_refusal": (0.005, 0.02),
    "refusal": (0.01, 0.015),
    "unknown": (0.005, 0.005),
}
GROUPS = {"language": ("en", "zh"), "route": ("billing", "returns"), "version": ("1.4", "1.5")}

Labels = tuple[tuple[str, str], ...]


@dataclass(slots=True)
class Series:
    """Values by step; what is missing is not written."""

    values: dict[int, float] = field(default_factory=dict)
    last: float = 0.0


@dataclass(slots=True)
class Recorder:
    """What one process exports, step by step."""

    fixed: Mapping[str, str]
    """Labels of every series."""
    step: int = 0
    series: dict[tuple[str, Labels], Series] = field(default_factory=dict)

    def gauge(self, name: str, value: float, /, **labels: str) -> None:
        """Export a value at this step only."""
        self._at(name, labels).values[self.step] = value

    def count(self, name: str, increment: float, **labels: str) -> None:
        """Add to a counter; it stays exported from its first mention on."""
        self._at(name, labels).last += increment

    def observe(
        self, name: str, bounds: Sequence[float], values: Sequence[float], **labels: str
    ) -> None:
        """Take values into a histogram."""
        for bound in (*bounds, math.inf):
            le = "+Inf" if bound == math.inf else str(bound)
            self.count(f"{name}_bucket", sum(v <= bound for v in values), le=le, **labels)
        self.count(f"{name}_sum", sum(values), **labels)
        self.count(f"{name}_count", len(values), **labels)

    def _at(self, name: str, labels: Mapping[str, str]) -> Series:
        key = (name, tuple(sorted({**self.fixed, **labels}.items())))
        found = self.series.get(key)
        if found is None:
            found = self.series[key] = Series()
        return found

    def next(self) -> None:
        """Write every counter, and go on to the next step."""
        for (name, _), series in self.series.items():
            if name.endswith(("_total", "_bucket", "_sum", "_count")):
                series.values[self.step] = series.last
        self.step += 1


class Rate:
    """An exponentially windowed mean and the number of answers behind it."""

    def __init__(self, window_s: float) -> None:
        self._keep = math.exp(-STEP_S / window_s)
        self._value = 0.0
        self._n = 0.0

    def add(self, value: float, n: float) -> None:
        """Let one step pass, with the sum of n answers' values in it."""
        self._value = self._value * self._keep + value
        self._n = self._n * self._keep + n

    @property
    def interval(self) -> tuple[float, float, float, float] | None:
        """Mean, lower and upper end of Wilson's 95 % interval, and n; None if the window is empty.

        Source: Wilson (1927), as in Brown, Cai and DasGupta (2001), section 3.1.1.
        """
        if self._n < 0.5:
            return None
        mean, n, z2 = min(1.0, self._value / self._n), self._n, 1.96**2
        centre = (mean + z2 / (2 * n)) / (1 + z2 / n)
        half = math.sqrt(z2 * mean * (1 - mean) / n + z2 * z2 / (4 * n * n)) / (1 + z2 / n)
        return mean, max(0.0, centre - half), min(1.0, centre + half), n


class Evidence:
    """Evidence in days: climbs while its signal is bad, falls back after, is held while active."""

    def __init__(self) -> None:
        self.days = 0.02
        self.since_s: float | None = None
        self.raised = 0

    def move(self, *, bad: bool, at_s: float, chance: random.Random) -> None:
        """Let one step pass."""
        factor = 2.1 if bad else 0.75
        self.days = min(4000.0, max(0.02, self.days * factor * chance.uniform(0.8, 1.3)))
        if self.days >= THRESHOLD_DAYS and self.since_s is None:
            self.since_s, self.raised = at_s, self.raised + 1
        if self.since_s is not None and not bad and at_s - self.since_s > 2 * HOUR_S:
            self.since_s, self.days = None, 0.02
        if self.since_s is not None:
            self.days = max(self.days, THRESHOLD_DAYS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Life:
    """What happens to a service; seconds before the end."""

    service: str
    hourly: float
    """Answers an hour, over the day."""
    spike: tuple[float, float] | None = None
    released: float | None = None
    judge_changed: float | None = None
    judge_down: tuple[float, float] | None = None
    weak: tuple[float, float] | None = None
    """When retrieval is weak."""


LIVES = (
    Life(
        service="support-bot",
        hourly=180,
        spike=(5 * HOUR_S, 3 * HOUR_S),
        released=5.25 * HOUR_S,
        judge_changed=15 * HOUR_S,
        judge_down=(9 * HOUR_S, 8.5 * HOUR_S),
    ),
    Life(service="handbook", hourly=60, released=18 * HOUR_S, weak=(3 * HOUR_S, 0.0)),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """How many answers there were in one step, and what became of them with one judge."""

    judge: str
    answers: int
    rate: float
    """Chance that an answer is read."""
    read: int
    failed: int = 0


class Past:
    """The past of one service."""

    def __init__(self, life: Life, *, seed: int) -> None:
        self._life = life
        self._chance = random.Random(f"{life.service} {seed}")
        self.recorder = Recorder(
            fixed={"service": life.service, "job": "rag", "instance": f"{life.service}:9464"}
        )
        self._means: dict[tuple[str, ...], Rate] = {}
        self._evidence: dict[tuple[str, str, str], Evidence] = {}
        self._scored_at: dict[str, float] = {}
        self._level = 0.4

    def live(self, at_s: float, left_s: float) -> None:
        """Let one step pass: `at_s` since the epoch, `left_s` before the end."""
        life, chance = self._life, self._chance
        hour = (at_s / HOUR_S) % 24
        traffic = life.hourly * (1 + 0.6 * math.sin((hour - 9) / 24 * 2 * math.pi))
        quiet = 3 <= hour < 4
        n = 0 if quiet else round(traffic * STEP_S / HOUR_S * chance.uniform(0.7, 1.3))
        self._interactions(n, hour)
        bad = _within(left_s, life.spike)
        down = _within(left_s, life.judge_down)
        rate = min(0.35, 40 / max(1.0, traffic)) * (1.8 if bad else 1)
        drawn = sum(chance.random() < rate for _ in range(n))
        failed = drawn if down else sum(chance.random() < 0.02 for _ in range(drawn))
        version = PROMPTS[0] if left_s > (life.judge_changed or math.inf) else PROMPTS[1]
        everything = Sample(judge=BUILTIN, answers=n, rate=1.0, read=n)
        self._verdicts(everything, at_s, bad=bad)
        sample = Sample(judge=MODEL, answers=n, rate=rate, read=drawn - failed, failed=failed)
        self._verdicts(sample, at_s, bad=bad)
        self._inputs(n, weak=_within(left_s, life.weak))
        self._alarms(at_s, bad=bad, weak=_within(left_s, life.weak))
        self._judge(drawn, failed, rate, n, version=version, down=down, bad=bad)
        self._goldens(bad=bad)
        self._worker(n)
        self._fleet(n, at_s, left_s, bad=bad)
        released = left_s < (life.released or 0.0)
        self.recorder.gauge("ragmonitor_service_info", 1, version="1.5" if released else "1.4")
        self.recorder.gauge("ragmonitor_page_info", 1, url="https://rag.example/ragmonitor/")
        if left_s <= REINDEXED_S:
            since_s = at_s + left_s - REINDEXED_S
            name = "ragmonitor_event_timestamp_seconds"
            self.recorder.gauge(name, since_s, kind="event", name="reindexed")
        self.recorder.next()

    def _interactions(self, n: int, hour: float) -> None:
        record, chance = self.recorder, self._chance
        endings = [chance.random() for _ in range(n)]
        for status, low, high in (
            ("ok", 0.0, 0.96),
            ("partial", 0.96, 0.975),
            ("cancelled", 0.975, 0.985),
            ("error", 0.985, 1.0),
        ):
            count = sum(low <= ending < high for ending in endings)
            record.count(
                "ragmonitor_interactions_total", count, framework="langchain", status=status
            )
        slow = 1 + 0.4 * math.sin((hour - 9) / 24 * 2 * math.pi)
        record.observe(
            "ragmonitor_interaction_seconds",
            SECONDS_BUCKETS,
            [chance.lognormvariate(math.log(1.6 * slow), 0.5) for _ in range(n)],
            framework="langchain",
        )
        self._amounts(n, slow)
        chunks = [chance.choice((0, 3, 4, 4, 5, 5, 5, 6)) for _ in range(n)]
        record.observe("ragmonitor_retrieved_chunks", CHUNK_BUCKETS, chunks)
        top = [chance.gauss(0.72, 0.06) for _ in range(n)]
        record.count("ragmonitor_retrieval_top_score_sum", sum(top))
        record.count("ragmonitor_retrieval_top_score_count", n)
        record.gauge("ragmonitor_arrivals_per_second", n / STEP_S)

    def _amounts(self, n: int, slow: float) -> None:
        record, chance = self.recorder, self._chance
        for name, buckets, middle, labels in (
            ("ragmonitor_time_to_first_token_seconds", SECONDS_BUCKETS, 0.7 * slow, {}),
            *(
                (
                    "gen_ai_client_operation_duration_seconds",
                    GENAI_SECONDS_BUCKETS,
                    seconds * slow,
                    {"gen_ai_operation_name": operation},
                )
                for operation, seconds in (("retrieval", 0.2), ("chat", 1.4))
            ),
            *(
                (
                    "gen_ai_client_token_usage",
                    GENAI_TOKEN_BUCKETS,
                    tokens,
                    {"gen_ai_token_type": of},
                )
                for of, tokens in (("input", 1_800.0), ("output", 150.0))
            ),
            ("ragmonitor_answer_cost_usd", COST_BUCKETS, 0.0004, {"model": MODEL}),
        ):
            values = [chance.lognormvariate(math.log(middle), 0.4) for _ in range(n)]
            record.observe(name, buckets, values, **labels)
        for model in ("", MODEL):
            for end, share in (("", 1.0), ("_lower", 0.9), ("_upper", 1.1)):
                for window in ("1h", "24h"):
                    name = f"ragmonitor_cost_per_good_answer_usd{end}"
                    record.gauge(name, 0.0005 * share, model=model, window=window)

    def _verdicts(self, sample: Sample, at_s: float, *, bad: bool) -> None:
        record, chance = self.recorder, self._chance
        judge, read = sample.judge, sample.read
        sloppy = 0.05 if judge == BUILTIN else 0.0
        for diagnosis, shares in DIAGNOSES.items():
            count = sum(chance.random() < shares[bad] for _ in range(read))
            record.count("ragmonitor_diagnoses_total", count, judge=judge, diagnosis=diagnosis)
        for signal, shares in (
            ("hallucination", (0.04 + sloppy, 0.26 + sloppy)),
            ("minor_hallucination", (0.06, 0.08)),
            ("refusal", (0.03, 0.06)),
        ):
            found = [float(chance.random() < shares[bad]) for _ in range(read)]
            self._summable(signal, sample, found)
            self._rate(f"ragmonitor_{signal}_rate", found, judge)
            if signal == "hallucination" and judge == MODEL:
                self._groups(found)
        for evaluator, means in EVALUATORS.items():
            spread = 0.12 if evaluator != "context_relevance" else 0.2
            scores = [
                min(1.0, max(0.0, chance.gauss(means[bad] - sloppy, spread))) for _ in range(read)
            ]
            self._summable(evaluator, sample, scores)
            self._score(evaluator, scores, judge)
            record.observe(
                "ragmonitor_score", SCORE_BUCKETS, scores, evaluator=evaluator, judge=judge
            )
            self._outcomes(evaluator, sample)
        if read:
            self._scored_at[judge] = at_s - chance.uniform(5, 60)
        if judge in self._scored_at:
            record.gauge(
                "ragmonitor_last_score_timestamp_seconds", self._scored_at[judge], judge=judge
            )

    def _outcomes(self, evaluator: str, sample: Sample) -> None:
        judge, answers, failed = sample.judge, sample.answers, sample.failed
        rest = answers - sample.read - failed
        for outcome, count in (
            ("scored", sample.read),
            ("refusal", 0.03 * answers),
            ("no_claims", 0.02 * answers),
            ("not_sampled", rest * 0.95 if judge == MODEL else 0),
            ("over_budget", rest * 0.05 if judge == MODEL else 0),
            ("judge_timeout", failed * 0.7),
            ("unreadable", failed * 0.3),
        ):
            self.recorder.count(
                "ragmonitor_evaluations_total",
                count,
                evaluator=evaluator,
                judge=judge,
                outcome=outcome,
            )

    def _summable(self, signal: str, sample: Sample, values: Sequence[float]) -> None:
        weights = 1 / sample.rate
        for name, increment in (
            ("answers", sample.answers),
            ("estimate_sum_positive", sum(values) * weights),
            ("estimate_sum_negative", 0.1 * sum(values)),
            ("estimate_count_positive", len(values) * weights),
            ("estimate_count_negative", 0.1 * len(values)),
            ("estimate_sum_squares", sum(v * v for v in values) * weights**2),
            ("estimate_count_squares", len(values) * weights**2),
            ("estimate_difference_squares", sum((1 - v) ** 2 for v in values) * weights**2),
            ("judged_answers", len(values)),
            ("missing_answers", sample.failed * weights),
            ("drawn_answers", sample.read * weights),
            ("returned_answers", sample.read * weights),
            ("returned_count", sample.read),
            ("returned_squares", sample.read * weights**2),
            ("uncovered_answers", 0),
        ):
            self.recorder.count(
                f"ragmonitor_{name}_total", increment, signal=signal, judge=sample.judge
            )

    def _rate(self, name: str, values: Sequence[float], judge: str) -> None:
        for window in WINDOWS:
            interval = self._mean((name, judge, window), values, window)
            if interval is None:
                continue
            labels = {"judge": judge, "window": window}
            self._interval(name, "", interval, labels)

    def _score(self, evaluator: str, values: Sequence[float], judge: str) -> None:
        for window in WINDOWS:
            interval = self._mean((evaluator, judge, window), values, window)
            if interval is None:
                continue
            labels = {"evaluator": evaluator, "judge": judge, "window": window}
            self._interval("ragmonitor_score", "_mean", interval, labels)

    def _mean(
        self, key: tuple[str, ...], values: Sequence[float], window: str
    ) -> tuple[float, float, float, float] | None:
        mean = self._means.setdefault(key, Rate(WINDOWS[window]))
        mean.add(sum(values), len(values))
        return mean.interval

    def _interval(
        self,
        root: str,
        suffix: str,
        interval: tuple[float, float, float, float],
        labels: Mapping[str, str],
    ) -> None:
        mean, lower, upper, n = interval
        gauge = self.recorder.gauge
        gauge(f"{root}{suffix}", mean, **labels)
        gauge(f"{root}_lower", lower, **labels)
        gauge(f"{root}_upper", upper, **labels)
        gauge(f"{root}_effective_n", n, **labels)
        gauge(f"{root}_coverage_ratio", 0.97, **labels)

    def _groups(self, values: Sequence[float]) -> None:
        for dimension, groups in GROUPS.items():
            parts: dict[str, list[float]] = {group: [] for group in groups}
            for value in values:
                # What is hallucinated is mostly in the second group: somebody should see it.
                weights = (0.25, 0.75) if value else (0.6, 0.4)
                parts[self._chance.choices(groups, weights)[0]].append(value)
            for group, part in parts.items():
                for window in WINDOWS:
                    interval = self._mean((dimension, group, window), part, window)
                    if interval is None:
                        continue
                    labels = {"dimension": dimension, "group": group}
                    labels |= {"judge": MODEL, "window": window}
                    name = "ragmonitor_group_hallucination_rate"
                    self._interval(name, "", interval, labels)

    def _inputs(self, n: int, *, weak: bool) -> None:
        for signal, usual in INPUTS.items():
            share = 0.35 if weak and signal == "weak_retrieval" else usual
            values = [float(self._chance.random() < share) for _ in range(n)]
            self._summable(signal, Sample(judge="none", answers=n, rate=1.0, read=n), values)
            for window in WINDOWS:
                interval = self._mean((signal, window), values, window)
                if interval is not None:
                    self.recorder.gauge(f"ragmonitor_{signal}_ratio", interval[0], window=window)
        self.recorder.gauge("ragmonitor_drift_reference_ratio", 1.0)

    def _alarms(self, at_s: float, *, bad: bool, weak: bool) -> None:
        record = self.recorder
        signals = [
            ("hallucination", MODEL, "quality", bad),
            ("faithfulness", MODEL, "quality", bad),
            ("refusal", MODEL, "quality", False),
            ("answer_relevancy", MODEL, "quality", False),
            ("context_relevance", MODEL, "quality", False),
            ("empty_retrieval", "none", "input", False),
            ("weak_retrieval", "none", "input", weak),
            ("anchors", MODEL, "judge", False),
        ]
        for signal, judge, kind, moved in signals:
            evidence = self._evidence.setdefault((signal, judge, kind), Evidence())
            raised = evidence.raised
            evidence.move(bad=moved, at_s=at_s, chance=self._chance)
            labels = {"signal": signal, "judge": judge, "kind": kind}
            record.gauge("ragmonitor_alarm_evidence_seconds", evidence.days * DAY_S, **labels)
            record.gauge("ragmonitor_alarm_active", evidence.since_s is not None, **labels)
            if evidence.since_s is not None:
                record.gauge("ragmonitor_alarm_since_timestamp_seconds", evidence.since_s, **labels)
                name = "ragmonitor_alarm_rise_start_timestamp_seconds"
                record.gauge(name, evidence.since_s - 1_800, **labels)
                name = "ragmonitor_change_timestamp_seconds"
                for end, off_s in (("lower", 2_400), ("probable", 2_000), ("upper", 1_200)):
                    record.gauge(name, evidence.since_s - off_s, signal=signal, end=end)
            objective = EVALUATORS.get(signal, (0.08,))[0]
            record.gauge(
                "ragmonitor_alarm_objective",
                objective - 0.05 if signal in EVALUATORS else objective,
                **labels,
            )
            record.gauge("ragmonitor_alarm_learned_ratio", 1.0, **labels)
            record.count("ragmonitor_alarms_raised_total", evidence.raised - raised, **labels)
        record.gauge("ragmonitor_alarm_threshold_seconds", THRESHOLD_DAYS * DAY_S)

    def _judge(
        self, drawn: int, failed: int, rate: float, n: int, *, version: str, down: bool, bad: bool
    ) -> None:
        record, chance = self.recorder, self._chance
        read = drawn - failed
        calls = 0 if down else drawn
        record.count("ragmonitor_judge_calls_total", calls, judge=MODEL)
        record.count("ragmonitor_judge_tokens_total", 1400 * calls, judge=MODEL, direction="input")
        record.count("ragmonitor_judge_tokens_total", 180 * calls, judge=MODEL, direction="output")
        record.count("ragmonitor_judge_cost_usd_total", 0.00032 * calls, judge=MODEL)
        for outcome, count in (("ok", read), ("judge_timeout", failed), ("cached", read // 8)):
            seconds = [30.0 if outcome == "judge_timeout" else chance.lognormvariate(0.3, 0.4)]
            record.observe(
                "ragmonitor_judge_seconds",
                SECONDS_BUCKETS,
                seconds * count,
                judge=MODEL,
                outcome=outcome,
            )
        record.gauge("ragmonitor_judge_breaker_state", 2 if down else 0, judge=MODEL)
        for evaluator in EVALUATORS:
            pair = {"evaluator": evaluator, "judge": MODEL, "second_judge": SECOND}
            record.gauge("ragmonitor_judge_agreement", chance.uniform(0.86, 0.9), **pair)
            record.gauge("ragmonitor_judge_difference", chance.uniform(0.05, 0.07), **pair)
        for judge, kind, its in ((MODEL, "LLM", version), (BUILTIN, "CODE", "7")):
            record.gauge("ragmonitor_judge_info", 1, judge=judge, version=its, kind=kind)
        record.gauge("ragmonitor_judge_sampling_rate", rate / (1.8 if bad else 1), judge=MODEL)
        for signal in ("hallucination", "refusal", *EVALUATORS):
            for window in WINDOWS:
                record.gauge(
                    "ragmonitor_sampling_efficiency",
                    chance.uniform(0.5, 0.6) if signal == "hallucination" else 0.9,
                    signal=signal,
                    judge=MODEL,
                    window=window,
                )
        record.gauge("ragmonitor_judge_expected_cost", 0.00032, judge=MODEL, unit="usd")
        record.gauge("ragmonitor_judge_expected_cost", 1580, judge=MODEL, unit="tokens")
        self._level = min(1 / 12, max(0.0, self._level + 0.003 - 0.0004 * calls))
        limits = {("usd", "day"): 0.5, ("tokens", "hour"): 150_000.0}
        for (unit, per), limit in limits.items():
            record.gauge("ragmonitor_budget_level", self._level * limit, unit=unit, per=per)
            record.gauge("ragmonitor_budget_limit", limit, unit=unit, per=per)
        record.gauge("ragmonitor_judge_missing_ratio", failed / max(1, drawn), judge=MODEL)
        for window in WINDOWS:
            share = chance.uniform(0.0, 0.02)
            record.gauge("ragmonitor_uncovered_ratio", share, judge=MODEL, window=window)
        self._ruler()

    def _ruler(self) -> None:
        record, chance = self.recorder, self._chance
        record.gauge("ragmonitor_builtin_auroc", chance.uniform(0.78, 0.82), judge=MODEL)
        record.gauge("ragmonitor_judge_flip_rate", chance.uniform(0.03, 0.05), judge=MODEL)
        record.gauge("ragmonitor_anchors", 40, judge=MODEL)
        for cause in ("judge", "application", "unknown"):
            record.gauge(
                "ragmonitor_alarm_cause", float(cause == "application"), judge=MODEL, cause=cause
            )
        record.gauge("ragmonitor_alarm_cause_reread", 24, judge=MODEL)
        record.gauge("ragmonitor_alarm_cause_flipped", 0, judge=MODEL)
        record.gauge("ragmonitor_anchor_flip_rate", chance.uniform(0.02, 0.04), judge=MODEL)
        for outcome, share in (("same", 0.94), ("flipped", 0.04), ("missing", 0.02)):
            count = sum(chance.random() < share for _ in range(2))
            record.count("ragmonitor_anchor_checks_total", count, judge=MODEL, outcome=outcome)
        found = self._means[("ragmonitor_hallucination_rate", MODEL, "24h")].interval
        mean = 0.05 if found is None else found[0] * 0.9
        root = "ragmonitor_hallucination_rate_corrected"
        for end, value in (("", mean), ("_lower", mean * 0.6), ("_upper", mean * 1.6)):
            record.gauge(f"{root}{end}", value, judge=MODEL)
        record.gauge("ragmonitor_human_labels", 120)
        for end, value in (("", 0.86), ("_lower", 0.8), ("_upper", 0.91)):
            record.gauge(f"ragmonitor_feedback_agreement{end}", value, judge=MODEL)
        for people, verdict, n in (("good", "good", 110), ("bad", "bad", 20), ("bad", "good", 21)):
            record.gauge(
                "ragmonitor_feedback_answers", n, judge=MODEL, people=people, verdict=verdict
            )
        for direction in ("good", "bad"):
            count = float(chance.random() < 0.1)
            record.count("ragmonitor_feedback_total", count, kind="thumbs", direction=direction)
        record.count("ragmonitor_feedback_unknown_total", 0.0, kind="thumbs")

    def _goldens(self, *, bad: bool) -> None:
        record, chance = self.recorder, self._chance
        for window in ("1h", "24h"):
            for name, usual in (
                ("answer_correctness", 0.5 if bad else 0.9),
                ("context_recall", 0.88),
                ("context_precision", 0.8),
                ("faithfulness", 0.55 if bad else 0.95),
                ("refusal_correctness", 0.9),
            ):
                mean = usual + chance.uniform(-0.02, 0.02)
                for end, value in (("", mean), ("_lower", mean - 0.03), ("_upper", mean + 0.03)):
                    record.gauge(
                        f"ragmonitor_golden_{name}{end}", value, judge=MODEL, window=window
                    )
            for end, value in (("ratio", 0.99), ("lower", 0.97), ("upper", 1.0)):
                record.gauge(f"ragmonitor_golden_availability_{end}", value, window=window)
        record.gauge("ragmonitor_golden_references_ratio", 0.98, judge=MODEL)

    def _worker(self, n: int) -> None:
        record, chance = self.recorder, self._chance
        for stage, usual in (
            ("assemble", 0.0002),
            ("read", 0.003),
            ("estimate", 0.0004),
            ("export", 0.001),
        ):
            seconds = [chance.lognormvariate(math.log(usual), 0.4) for _ in range(n)]
            record.observe("ragmonitor_worker_seconds", SECONDS_BUCKETS, seconds, stage=stage)
        record.gauge("ragmonitor_queue_depth", chance.choice((0, 0, 1, 2)))
        record.gauge("ragmonitor_open_runs", chance.choice((1, 2, 3, 4)))
        record.count("ragmonitor_dropped_total", chance.random() < 0.01, reason="queue_full")
        record.count("ragmonitor_worker_restarts_total", chance.random() < 0.002)
        record.count("ragmonitor_internal_errors_total", chance.random() < 0.01, stage="export")
        record.gauge("ragmonitor_build_info", 1, version="0.1.0")

    def _fleet(self, n: int, at_s: float, left_s: float, *, bad: bool) -> None:
        """Export what a fleet of two workers and one estimator does, and a receiver before it."""
        record, chance = self.recorder, self._chance
        waiting = chance.choice((0, 0, 1, 4)) + (40 if bad else 0)
        for name, value in (
            ("stream_up", 1),
            ("stream_limit", 1_000_000),
            ("stream_waiting", waiting),
            ("stream_open", chance.choice((0, 1, 2))),
            ("stream_settled", chance.choice((0, 1, 3))),
            ("stream_buried", int(left_s < self._life.hourly * 60)),
            ("stream_oldest_seconds", 0.2 * waiting),
            ("estimator_takeovers", 1 + (left_s < 4 * HOUR_S)),
            ("estimator_checkpoint_timestamp_seconds", at_s - chance.uniform(0, 1.5)),
            ("open_traces", chance.choice((2, 3, 9))),
            ("open_traces_bytes", 40_000 * chance.choice((2, 3, 9))),
        ):
            record.gauge(f"ragmonitor_{name}", value)
        for counter, what, other in (
            ("requests", "taken", "full"),
            ("spans", "taken", "duplicate"),
            ("traces", "interaction", "none"),
        ):
            name = f"ragmonitor_received_{counter}_total"
            record.count(name, n, outcome=what)
            record.count(name, chance.choice((0, 0, 1)), outcome=other)


def _within(left_s: float, span: tuple[float, float] | None) -> bool:
    return span is not None and span[1] <= left_s < span[0]


def openmetrics(*, end_s: int, days: float, seed: int = 7) -> Iterator[str]:
    """Return the lines of two services' past, from `days` before `end_s` (since the epoch) on."""
    steps = round(days * 86_400 / STEP_S) + 1
    for life in LIVES:
        past = Past(life, seed=seed)
        for step in range(steps):
            left_s = float((steps - 1 - step) * STEP_S)
            past.live(end_s - left_s, left_s)
        for (name, labels), series in past.recorder.series.items():
            written = ",".join(f'{label}="{value}"' for label, value in labels)
            for step, value in series.values.items():
                at_s = end_s - (steps - 1 - step) * STEP_S
                yield f"{name}{{{written}}} {float(value):.10g} {at_s}\n"
    yield "# EOF\n"


def write_history(folder: Path, *, end_s: int, days: float) -> Path:
    """Write Prometheus blocks of the past into a new folder `data`, and return it.

    Raises:
        subprocess.CalledProcessError: promtool refused what was written; its message is in it.
    """
    source, data = folder / "history.om", folder / "data"
    with source.open("w", encoding="utf-8") as file:
        file.writelines(openmetrics(end_s=end_s, days=days))
    subprocess.run(
        [
            require_binary("promtool"),
            "tsdb",
            "create-blocks-from",
            # One pass over the file for each block: with the usual two hours, 84 of a week.
            "--max-block-duration=180h",
            "openmetrics",
            str(source),
            str(data),
        ],
        check=True,
        capture_output=True,
        timeout=600,
    )
    source.unlink()
    return data
