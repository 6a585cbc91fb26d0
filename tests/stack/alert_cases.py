"""For each alert a world in which it fires and one in which it does not, as promtool writes series.

A value is `start+step x minutes`; `_` is a scrape that found nothing.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

MODEL = "openai/gpt-4o-mini"
GRAFANA = "http://127.0.0.1:3000/d"
SINCE = "&from=now-6h&to=now"
MODEL_IN_URL = "openai%2Fgpt-4o-mini"

Series = dict[str, str]
"""Selector of one series to its values."""


def labelled(name: str, **labels: str) -> str:
    """Return the selector of one series."""
    inside = ",".join(f'{label}="{value}"' for label, value in labels.items())
    return f"ragmonitor_{name}{{{inside}}}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One alert's worlds."""

    alert: str
    bad: Callable[[str], Series]
    """Of one service: it fires."""
    good: Callable[[str], Series]
    """... it does not."""
    restarted: Callable[[str], Series]
    """The process began anew: gauges are gone for a while, counters fall to 0."""
    fires_restarted: bool
    at: str
    """When it is looked at."""
    labels: Mapping[str, str]
    """Of the alert in the bad world of the service `bot`."""
    description: str
    """... as people read it."""
    dashboard: str
    fires_without_data: frozenset[str] = field(default_factory=frozenset)
    """Services it fires for when there is nothing at all; `""` is an alert without a service."""
    step: str = "1m"


# --- the monitor's alarms -------------------------------------------------------------------------


def in_seconds(days: str) -> str:
    """Return a series in promtool's notation, given in days, in seconds."""
    return re.sub(
        r"(?<![\w.])\d+(?:\.\d+)?(?=[x+\s]|$)",
        lambda value: f"{86_400 * float(value[0]):.15g}",
        days,
    )


def alarm(
    signal: str,
    kind: str,
    *,
    days: str,
    active: str = "0x120",
    since: str | None = None,
    objective: str = "0.05x120",
    judge: str = MODEL,
) -> Callable[[str], Series]:
    """Return the series of one alarm."""

    def of(service: str) -> Series:
        which = {"service": service, "kind": kind, "signal": signal, "judge": judge}
        found = {
            labelled("alarm_evidence_seconds", **which): in_seconds(days),
            labelled("alarm_active", **which): active,
            labelled("alarm_objective", **which): objective,
            labelled("alarm_threshold_seconds", service=service): in_seconds("30x120"),
        }
        if since is not None:
            found[labelled("alarm_since_timestamp_seconds", **which)] = since
        return found

    return of


def rise(
    signal: str,
    kind: str,
    *,
    start: float,
    answers: float,
    mean: float,
    before: float,
    judge: str = MODEL,
) -> Callable[[str], Series]:
    """Return what an alarm says of the answers since the rise began."""

    def of(service: str) -> Series:
        which = {"service": service, "kind": kind, "signal": signal, "judge": judge}
        known = {
            "start_timestamp_seconds": start,
            "answers": answers,
            "mean": mean,
            "mean_before": before,
        }
        return {
            labelled(f"alarm_rise_{name}", **which): " ".join(120 * (f"{value}",))
            for name, value in known.items()
        }

    return of


def together(*parts: Callable[[str], Series]) -> Callable[[str], Series]:
    """Return the series of all of them."""

    def of(service: str) -> Series:
        return {name: values for part in parts for name, values in part(service).items()}

    return of


def estimate(
    signal: str, *, judged: float, value: float, judge: str = MODEL, minutes: int = 120
) -> Callable[[str], Series]:
    """Return the counters of answers that are all judged: `judged` a minute, `value` in all."""
    return counters(
        signal, judge=judge, n=judged, value=value, values=lambda step: f"0+{step:g}x{minutes}"
    )


def counters(
    signal: str, *, n: float, value: float, values: Callable[[float], str], judge: str = MODEL
) -> Callable[[str], Series]:
    """Return the counters of a signal, each grown by its part of `n` answers per step."""

    def of(service: str) -> Series:
        which = {"service": service, "signal": signal, "judge": judge}
        grown = {
            "answers": n,
            "judged_answers": n,
            "estimate_sum_positive": value,
            "estimate_sum_negative": 0,
            "estimate_count_positive": n,
            "estimate_count_negative": 0,
            "estimate_sum_squares": value,
            "estimate_count_squares": n,
            "estimate_difference_squares": n - value,
            "drawn_answers": n,
            "returned_answers": n,
            "returned_count": n,
            "returned_squares": n,
            "missing_answers": 0,
            "uncovered_answers": 0,
        }
        return {labelled(f"{name}_total", **which): values(step) for name, step in grown.items()}

    return of


def diagnosed(service: str) -> Series:
    """Return an hour in which one judged answer in five adds something of its own."""
    which = {"service": service, "judge": MODEL}
    return {
        labelled("diagnoses_total", **which, diagnosis="unsupported_addition"): "0+2x120",
        labelled("diagnoses_total", **which, diagnosis="retrieval_miss"): "0+1x120",
        labelled("diagnoses_total", **which, diagnosis="ok"): "0+7x120",
    }


def plain(name: str, values: str, **labels: str) -> Callable[[str], Series]:
    """Return one series."""
    return lambda service: {labelled(name, service=service, **labels): values}


def of_slice(name: str, values: str) -> Callable[[str], Series]:
    """Return a series of a slice's alarm."""
    return plain(f"slice_alarm_{name}", values, slice="route=billing", judge=MODEL)


def difference(end: str, values: str) -> Callable[[str], Series]:
    """Return a series of the comparison of two versions."""
    which = {"by": "service_version", "candidate": "1.5", "baseline": "1.4"}
    return plain(f"version_difference{end}", values, **which, signal="hallucination", judge=MODEL)


RESTART = "40x30 _x5 0x90"
"""Evidence that goes with the process that had it."""
NO_DIAGNOSES = "not known yet (unweighted share of the scored answers)"
WENT_WRONG = (
    "unsupported_addition 20 %, retrieval_miss 10 % (unweighted share of the scored answers)"
)


def quality(signal: str) -> dict[str, str]:
    """Return the labels of an alert on a quality signal, but for the severity."""
    return {"service": "bot", "kind": "quality", "signal": signal, "judge": MODEL}


def drifting(signal: str, alert: str, text: str, dashboard: str, severity: str) -> Case:
    """Return the worlds of an alarm that files a ticket."""
    kind = "quality" if severity == "quality" else "input"
    judge = MODEL if kind == "quality" else "none"
    return Case(
        alert=alert,
        # Several processes show 0 and NaN for what is not known while no alarm is active.
        bad=together(
            alarm(signal, kind, days="0+0.1x120", since="0x120", judge=judge),
            rise(*(signal, kind), start=0, answers=0, mean=math.nan, before=math.nan, judge=judge),
        ),
        good=alarm(signal, kind, days="2.9x120", judge=judge),
        restarted=alarm(signal, kind, days=RESTART, judge=judge),
        fires_restarted=False,
        at="1h",
        labels={
            "service": "bot",
            "kind": kind,
            "signal": signal,
            "judge": judge,
            "severity": "info" if severity == "info" else "ticket",
        },
        description=text,
        dashboard=dashboard,
    )


OVERVIEW = f"{GRAFANA}/ragmonitor-overview?var-service=bot"
INVESTIGATE = f"{GRAFANA}/ragmonitor-investigate?var-service=bot"
PIPELINE = f"{GRAFANA}/ragmonitor-pipeline?var-service=bot"
OF_MODEL = f"&var-judge={MODEL_IN_URL}"

A_FIFTH = (
    "when the rise began is not known yet; evidence at 20 % of the threshold; raised: not by the "
    "monitor yet."
)

QUALITY = (
    Case(
        alert="RagMonitorHallucinationSpike",
        bad=together(
            alarm(
                "hallucination",
                "quality",
                days="5x30 45x90",
                active="0x30 1x90",
                since="_x30 1800x90",
            ),
            rise("hallucination", "quality", start=960, answers=60, mean=0.517, before=0.004),
            estimate("hallucination", judged=10, value=3),
            diagnosed,
            # After the rise began, and more than an hour ago.
            plain("diagnoses_total", "0x19 10+10x7 80x90", judge=MODEL, diagnosis="contradiction"),
            plain("alarm_cause", "0x120", judge=MODEL, cause="judge"),
            plain("alarm_cause", "1x120", judge=MODEL, cause="application"),
            plain("alarm_cause", "0x120", judge=MODEL, cause="unknown"),
            plain("alarm_cause_reread", "24x120", judge=MODEL),
            plain("alarm_cause_flipped", "1x120", judge=MODEL),
        ),
        good=together(
            alarm("hallucination", "quality", days="29.9x120"),
            estimate("hallucination", judged=10, value=3),
        ),
        restarted=alarm("hallucination", "quality", days=RESTART, active="1x30 _x5 0x90"),
        fires_restarted=False,
        at="1h30m",
        labels={**quality("hallucination"), "severity": "page"},
        description=(
            "bot: openai/gpt-4o-mini finds more hallucinations than the limit permits (5.0 %): "
            "since 1970-01-01 00:16:00 +0000 UTC a mean of 51.7 % over 60 scored answers; before: "
            "0.4 %; evidence at 150 % of the threshold; raised: 1970-01-01 00:30:00 +0000 UTC. "
            "Judge or application: application (1 of 24 old answers without a hallucination "
            "flipped when they were judged again; a cause is wrong for at most 1 alarm in 20). "
            "What went wrong since then: unsupported_addition 18 %, contradiction 10 %, "
            "retrieval_miss 9 % (unweighted share of the scored answers)."
        ),
        dashboard=f"{OVERVIEW}{OF_MODEL}{SINCE}",
    ),
    drifting(
        "faithfulness",
        "RagMonitorFaithfulnessDrift",
        f"bot: mean faithfulness by openai/gpt-4o-mini is below its limit (0.050): "
        f"{A_FIFTH} "
        f"What went wrong in the last hour: {NO_DIAGNOSES}.",
        f"{OVERVIEW}{OF_MODEL}&var-evaluator=faithfulness{SINCE}",
        "quality",
    ),
    drifting(
        "answer_relevancy",
        "RagMonitorQualityDrift",
        f"bot: mean answer_relevancy by openai/gpt-4o-mini is beyond its limit (0.050): "
        f"{A_FIFTH} "
        f"What went wrong in the last hour: {NO_DIAGNOSES}.",
        f"{OVERVIEW}{OF_MODEL}&var-evaluator=answer_relevancy{SINCE}",
        "quality",
    ),
    drifting(
        "golden_answer_correctness",
        "RagMonitorGoldenQuestions",
        "bot: golden_answer_correctness by openai/gpt-4o-mini is below what the questions' own "
        "history lets expect: evidence at 20 % of the threshold; raised: not by the monitor yet. "
        "In the last hour answers are correct to not known yet, and not known yet of the questions "
        "got one; reference answers that the judge rejects: not known yet.",
        f"{INVESTIGATE}{OF_MODEL}{SINCE}",
        "quality",
    ),
    drifting(
        "refusal",
        "RagMonitorRefusalSurge",
        f"bot: openai/gpt-4o-mini finds more questions declined than the limit permits (5.0 %): "
        f"{A_FIFTH} "
        f"What went wrong in the last hour: {NO_DIAGNOSES}.",
        f"{INVESTIGATE}{OF_MODEL}{SINCE}",
        "quality",
    ),
    Case(
        alert="RagMonitorVersionWorse",
        bad=together(
            alarm("version_worse", "quality", days="0x30 30x90", active="0x30 1x90"),
            difference("", "0.08x120"),
            difference("_lower", "0.02x120"),
            difference("_upper", "0.14x120"),
        ),
        good=alarm("version_worse", "quality", days="0x120"),
        restarted=alarm("version_worse", "quality", days=RESTART, active="1x30 _x5 0x90"),
        fires_restarted=False,
        at="1h30m",
        labels={**quality("version_worse"), "severity": "ticket"},
        description=(
            "bot: by openai/gpt-4o-mini, the newest version is worse than its baseline in the "
            "hallucination rate, refusals or a score. Hallucination rate: +8.0 points (95 % "
            "confidence sequence +2.0 to +14.0). A version that is no worse is found so with a "
            "chance of 5 % at most, however long it runs. The incident on the monitor's page names "
            "the version and the signal."
        ),
        dashboard=f"{INVESTIGATE}{OF_MODEL}{SINCE}",
    ),
    Case(
        alert="RagMonitorSliceWorse",
        bad=together(
            of_slice("active", "0x30 1x90"),
            of_slice("evidence_seconds", "0x30 3888000x90"),
            of_slice("objective", "0.12x120"),
            plain("alarm_threshold_seconds", "2592000x120"),
        ),
        # All answers have the alarm, and the page says so.
        good=together(
            of_slice("active", "1x120"),
            alarm("hallucination", "quality", days="45x120", active="1x120"),
        ),
        restarted=of_slice("active", "1x30 _x5 0x90"),
        fires_restarted=False,
        at="1h30m",
        labels={
            "service": "bot",
            "slice": "route=billing",
            "judge": MODEL,
            "kind": "quality",
            "severity": "ticket",
        },
        description=(
            "bot: in route=billing, openai/gpt-4o-mini finds more hallucinations than the limit "
            "permits (12.0 %); evidence at 150 % of the threshold. The rate of all answers may "
            "hardly show it."
        ),
        dashboard=f"{INVESTIGATE}{OF_MODEL}{SINCE}",
    ),
    Case(
        alert="RagMonitorErrorBudgetBurn",
        bad=estimate("hallucination", judged=10, value=9),
        good=together(
            estimate("hallucination", judged=10, value=0.4),
            estimate("faithfulness", judged=10, value=9.6),
        ),
        restarted=counters(
            "hallucination", n=10, value=9, values=lambda step: f"0+{step:g}x6 0+{step:g}x90"
        ),
        fires_restarted=True,
        at="12m",
        labels={
            "service": "bot",
            "signal": "hallucination",
            "judge": MODEL,
            "kind": "quality",
            "objective": "hallucination<=0.05",
            "burn": "14.4",
            "long": "1h",
            "short": "5m",
            "severity": "page",
        },
        description=(
            "bot: by openai/gpt-4o-mini, hallucination over 1h is 90.0 % (95 % interval 83.3 % to "
            "94.2 %, scored answers: 120), and the objective is hallucination<=0.05. The budget of "
            "0.05 burns 18.0 times as fast as it may; this alert is over 14.4 times, an error "
            "share of 0.72, which the interval over 1h shows and the one over 5m does not "
            f"contradict. What went wrong in the last hour: {NO_DIAGNOSES}."
        ),
        dashboard=f"{OVERVIEW}{OF_MODEL}{SINCE}",
    ),
)

INPUT = (
    drifting(
        "empty_retrieval",
        "RagMonitorRetrievalEmpty",
        f"bot: the share of questions for which nothing was retrieved is above its limit (5.0 %): "
        f"{A_FIFTH}",
        f"{INVESTIGATE}{SINCE}",
        "input",
    ),
    drifting(
        "weak_retrieval",
        "RagMonitorRetrievalWeak",
        f"bot: the share of retrievals weaker than the reference's weakest 5 % is above its "
        f"limit (5.0 %): {A_FIFTH}",
        f"{INVESTIGATE}{SINCE}",
        "input",
    ),
)


# --- judging --------------------------------------------------------------------------------------

OF_BOT = {"service": "bot", "judge": MODEL}


def readings(*, ok: str, failed: str) -> Callable[[str], Series]:
    """Return the judge's readings by outcome."""
    return together(
        plain("judge_seconds_count", ok, judge=MODEL, outcome="ok"),
        plain("judge_seconds_count", failed, judge=MODEL, outcome="judge_timeout"),
    )


def sampled(arrived: str, judged: str, rate: str = "0.1x1600") -> Callable[[str], Series]:
    """Return answers, a tenth of which should be judged."""
    return together(
        plain("answers_total", arrived, signal="hallucination", judge=MODEL),
        plain("judged_answers_total", judged, signal="hallucination", judge=MODEL),
        plain("judge_sampling_rate", rate, judge=MODEL),
    )


def budget(level: str) -> Callable[[str], Series]:
    """Return a budget of 5 dollars a day, of which a reading takes a tenth of a cent."""
    return together(
        plain("budget_level", level, unit="usd", per="day"),
        plain("budget_limit", "5x120", unit="usd", per="day"),
        plain("judge_expected_cost", "0.001x120", unit="usd", judge=MODEL),
        plain("judge_sampling_rate", "0.002x120", judge=MODEL),
    )


JUDGING = (
    Case(
        alert="RagMonitorJudgeDown",
        bad=together(
            plain("judge_breaker_state", "0x30 2x9 1x1 2x80", judge=MODEL),
            readings(ok="0+1x30 30x90", failed="0x30 0+1x9 9x81"),
            plain("judge_missing_ratio", "0.25x120", judge=MODEL),
        ),
        good=together(
            plain("judge_breaker_state", "0x30 2x2 1x1 0x87", judge=MODEL),
            readings(ok="0+8x120", failed="0+2x120"),
        ),
        restarted=together(
            plain("judge_breaker_state", "2x20 _x5 0x95", judge=MODEL),
            readings(ok="0+8x30 0+8x90", failed="0+2x30 0+2x90"),
        ),
        fires_restarted=False,
        at="45m",
        labels={**OF_BOT, "severity": "ticket"},
        description=(
            "bot: the circuit breaker of openai/gpt-4o-mini has been open for at least five "
            "minutes, or most of its calls fail. Failed in the last 15 minutes: 100.0 % of the "
            "answers to judge; without a verdict in the last day: 25.0 % of the drawn answers. "
            "Meanwhile only the built-in judge scores, and it never pages."
        ),
        dashboard=f"{PIPELINE}{OF_MODEL}{SINCE}",
    ),
    Case(
        alert="RagMonitorVerdictsMissing",
        bad=together(
            plain("judge_missing_ratio", "0.15x120", judge=MODEL),
            plain("hallucination_rate_lower", "0.03x120", judge=MODEL, window="24h"),
            plain("hallucination_rate_upper", "0.18x120", judge=MODEL, window="24h"),
            plain("hallucination_rate_coverage_ratio", "0.85x120", judge=MODEL, window="24h"),
        ),
        good=plain("judge_missing_ratio", "0.05x120", judge=MODEL),
        restarted=plain("judge_missing_ratio", "0.15x20 _x10 0x90", judge=MODEL),
        fires_restarted=False,
        at="1h",
        labels={**OF_BOT, "severity": "ticket"},
        description=(
            "bot: openai/gpt-4o-mini gave no verdict on 15% of the answers that were drawn in the "
            "last day. Intervals are wider by what these might have been, and below half of a "
            "window's answers its mean is not shown. Hallucination rate over the last day: 3.0 % "
            "to 18.0 %; observed: 85.0 % of the answers."
        ),
        dashboard=f"{PIPELINE}{OF_MODEL}{SINCE}",
    ),
    Case(
        alert="RagMonitorJudgingStopped",
        bad=together(
            sampled("0+2x160", "0+0.2x20 4x140"),
            plain("last_score_timestamp_seconds", "0+60x20 1200x140", judge=MODEL),
            plain("last_score_timestamp_seconds", "0+60x160", judge="builtin"),
        ),
        good=sampled("0+2x160", "0+0.2x160"),
        restarted=sampled("0+2x60 0+2x100", "0+0.2x60 0+0.2x100"),
        fires_restarted=False,
        at="1h45m",
        labels={**OF_BOT, "severity": "ticket"},
        description=(
            "bot: openai/gpt-4o-mini has judged none of the last hour's answers (expected by now: "
            "12). Last score: 1970-01-01 00:20:00 +0000 UTC."
        ),
        dashboard=f"{PIPELINE}{OF_MODEL}{SINCE}",
    ),
    Case(
        alert="RagMonitorTooFewJudged",
        bad=together(
            estimate("hallucination", judged=0.1, value=0, minutes=150),
            plain("answers_total", "0+2x150", signal="hallucination", judge=MODEL),
        ),
        good=estimate("hallucination", judged=2, value=0, minutes=150),
        restarted=counters(
            "hallucination", n=2, value=0, values=lambda step: f"0+{step:g}x60 0+{step:g}x90"
        ),
        fires_restarted=False,
        at="2h20m",
        labels={**OF_BOT, "severity": "info"},
        description=(
            "bot: of the last day's 280 answers openai/gpt-4o-mini judged 14; the effective sample "
            "size is 14, and 30 are needed to distinguish a rate of 5 % from one of 20 %."
        ),
        dashboard=f"{PIPELINE}{OF_MODEL}{SINCE}",
    ),
    Case(
        alert="RagMonitorBudgetExhausted",
        bad=budget("0.0005x120"),
        good=budget("0.01x120"),
        restarted=budget("0.0005x10 _x5 4x105"),
        fires_restarted=False,
        at="1h",
        labels={"service": "bot", "unit": "usd", "per": "day", "severity": "ticket"},
        description=(
            "bot: 0.0005 usd of 5 per day are left, and judging one answer takes 0.0010. Until it "
            "fills up again only the built-in judge scores. Sampling rate now: 0.2 %."
        ),
        dashboard=f"{PIPELINE}{SINCE}",
    ),
    Case(
        alert="RagMonitorJudgeDrift",
        bad=together(
            alarm("anchors", "judge", days="1x30 33x90", active="0x30 1x90", since="_x30 1800x90"),
            plain("anchor_flip_rate", "0.2x120", judge=MODEL),
            plain("judge_flip_rate", "0.04x120", judge=MODEL),
            plain("judge_info", "1x120", judge=MODEL, version="3f2a", kind="LLM"),
        ),
        good=alarm("anchors", "judge", days="29x120"),
        restarted=alarm("anchors", "judge", days=RESTART),
        fires_restarted=False,
        at="1h",
        labels={**OF_BOT, "kind": "judge", "signal": "anchors", "severity": "ticket"},
        description=(
            "bot: openai/gpt-4o-mini by anchors: evidence at 110 % of the threshold; raised: "
            "1970-01-01 00:30:00 +0000 UTC. Share of reference answers with a changed verdict: "
            "20.0 %; cause of the active alarm: not examined; share of answers judged twice on "
            "which it disagrees with itself: 4.0 %. Versions now: 3f2a ."
        ),
        dashboard=f"{PIPELINE}{OF_MODEL}{SINCE}",
    ),
    Case(
        alert="RagMonitorObjectivesDiffer",
        bad=together(
            plain("alarm_objectives", "1x30 2x90", signal="hallucination", kind="quality"),
            plain("alarm_objective", "0.05x120", signal="hallucination", kind="quality"),
        ),
        good=plain("alarm_objectives", "1x30 2x20 1x70", signal="hallucination", kind="quality"),
        restarted=plain(
            "alarm_objectives", "1x30 _x1 1x89", signal="hallucination", kind="quality"
        ),
        fires_restarted=False,
        at="1h30m",
        labels={"service": "bot", "signal": "hallucination", "severity": "ticket"},
        description=(
            "bot: processes of one state folder set 2 different objectives for hallucination. The "
            "strictest holds for all: 0.05. A deployment that changes it takes less time than "
            "that."
        ),
        dashboard=f"{PIPELINE}{SINCE}",
    ),
    Case(
        alert="RagMonitorNotArmed",
        bad=together(
            plain("build_info", "1x320", version="1"),
            plain("alarm_learned_ratio", "0.4x320", signal="hallucination", kind="quality"),
        ),
        good=together(
            plain("build_info", "1x320", version="1"),
            plain("alarm_objective", "0.05x320", signal="hallucination", kind="quality"),
        ),
        restarted=together(
            plain("build_info", "1x140 _x1 1x180", version="1"),
            plain(
                "alarm_objective", "0.05x140 _x1 0.05x180", signal="hallucination", kind="quality"
            ),
        ),
        fires_restarted=False,
        at="25h",
        labels={"service": "bot", "severity": "info"},
        description=(
            "bot: the monitor has not learned yet what is normal (40.0 % of the verdicts it "
            "needs), or its alarms are turned off. Until then nothing pages on hallucinations."
        ),
        dashboard=f"{OVERVIEW}{SINCE}",
        step="5m",
    ),
)


# --- operation ------------------------------------------------------------------------------------


def evaluated(*, scored: str, incomplete: str) -> Callable[[str], Series]:
    """Return evaluations by outcome."""
    which = {"evaluator": "faithfulness", "judge": "builtin"}
    return together(
        plain("evaluations_total", scored, **which, outcome="scored"),
        plain("evaluations_total", incomplete, **which, outcome="capture_incomplete"),
    )


def dropping(
    dropped: str, *, interactions: str = "0+10x120", reason: str = "queue_full"
) -> Callable[[str], Series]:
    """Return what is dropped for one reason, and what it is compared with."""
    return together(
        plain("dropped_total", dropped, reason=reason),
        plain("interactions_total", interactions, framework="langchain", status="ok"),
        plain("queue_depth", "10000x120"),
        plain("open_runs", "7x120"),
    )


OPERATION = (
    Case(
        alert="RagMonitorCaptureIncomplete",
        bad=evaluated(scored="0+9x120", incomplete="0+1x120"),
        good=evaluated(scored="0+99x120", incomplete="0+1x120"),
        restarted=evaluated(scored="0+99x60 0+99x60", incomplete="0+1x60 0+1x60"),
        fires_restarted=False,
        at="1h30m",
        labels={"service": "bot", "severity": "ticket"},
        description=(
            "bot: 10% of the last hour's evaluations have no score because question, chunks or "
            "answer were not captured."
        ),
        dashboard=f"{PIPELINE}{SINCE}",
    ),
    Case(
        alert="RagMonitorAnswersUncovered",
        bad=plain("uncovered_ratio", "0.5x120", judge=MODEL, window="1h"),
        good=plain("uncovered_ratio", "0.1x120", judge=MODEL, window="1h"),
        restarted=plain("uncovered_ratio", "0.5x20 _x5 0x95", judge=MODEL, window="1h"),
        fires_restarted=False,
        at="1h",
        labels={**OF_BOT, "severity": "ticket"},
        description=(
            "bot: 50% of the last hour's answers could not be drawn for openai/gpt-4o-mini: "
            "means are of the others, and intervals are wider by what these might have been."
        ),
        dashboard=f"{PIPELINE}{OF_MODEL}{SINCE}",
    ),
    Case(
        alert="RagMonitorQueueDropping",
        bad=dropping("0+1x120"),
        good=together(
            dropping("0+0.05x120"), plain("dropped_total", "0+40x120", reason="otlp_failed")
        ),
        restarted=dropping("0+0.05x60 0+0.05x60", interactions="0+10x60 0+10x60"),
        fires_restarted=False,
        at="1h",
        labels={"service": "bot", "reason": "queue_full", "severity": "ticket"},
        description=(
            "bot: 10% of the last 15 minutes' interactions were dropped, reason queue_full. "
            "Waiting now: 10000; open runs: 7."
        ),
        dashboard=f"{PIPELINE}{SINCE}",
    ),
    Case(
        alert="RagMonitorDeliveryFailing",
        bad=dropping("0+40x120", reason="otlp_failed"),
        good=together(
            dropping("0+0.05x120", reason="otlp_failed"),
            plain("dropped_total", "0+40x120", reason="queue_full"),
        ),
        restarted=dropping(
            "0+0.05x60 0+0.05x60", interactions="0+10x60 0+10x60", reason="otlp_failed"
        ),
        fires_restarted=False,
        at="1h",
        labels={"service": "bot", "reason": "otlp_failed", "severity": "ticket"},
        description=(
            "bot: in the last 15 minutes 600 spans, events, scores, lines, notices or words of "
            "people were lost, reason otlp_failed. Answers are scored as ever, and alarms rely on "
            "nothing of it. The application's log, logger ragmonitor, says what does not take them."
        ),
        dashboard=f"{PIPELINE}{SINCE}",
    ),
    Case(
        alert="RagMonitorWorkerFailing",
        bad=plain("worker_restarts_total", "_x40 1x80"),
        good=plain("worker_restarts_total", "4x120"),
        restarted=plain("worker_restarts_total", "4x60 0x60"),
        fires_restarted=False,
        at="42m",
        labels={"service": "bot", "severity": "ticket"},
        description=(
            "bot: in the last 15 minutes the worker was ended by an error and began again, or it "
            "has done nothing for two minutes. Answers wait, or are counted as internal_error; do "
            "not rely on alarms on quality. The application's log, logger ragmonitor, says why."
        ),
        dashboard=f"{PIPELINE}{SINCE}",
    ),
    Case(
        alert="RagMonitorInternalErrors",
        # Born with its first error: `increase` alone would see nothing.
        bad=plain("internal_errors_total", "_x40 1x80", stage="export"),
        good=plain("internal_errors_total", "4x120", stage="export"),
        restarted=plain("internal_errors_total", "4x60 0x60", stage="export"),
        fires_restarted=False,
        at="1h20m",
        labels={"service": "bot", "stage": "export", "severity": "ticket"},
        description=(
            "bot: errors in stage export in the last hour: 1. The application's log has the first "
            "of each kind, logger ragmonitor."
        ),
        dashboard=f"{PIPELINE}{SINCE}",
    ),
)


# --- fleets and receivers -------------------------------------------------------------------------


def fleet(minutes: int = 120, **changed: str) -> Callable[[str], Series]:
    """Return a fleet of an application, a worker and an estimator; `changed`: other values."""
    usual = {
        "stream_up": f"1x{minutes}",
        "stream_waiting": f"3x{minutes}",
        "stream_open": f"2x{minutes}",
        "stream_settled": f"4x{minutes}",
        "stream_buried": f"0x{minutes}",
        "stream_oldest_seconds": f"1x{minutes}",
        "stream_limit": f"1000000x{minutes}",
        "estimator_takeovers": f"1x{minutes}",
        "estimator_checkpoint_timestamp_seconds": f"0+60x{minutes}",
        "queue_depth": f"7x{minutes}",
    }
    return together(*(plain(name, values) for name, values in (usual | changed).items()))


def received(counter: str, bad: str, values: str, good: str = "taken") -> Callable[[str], Series]:
    """Return requests or traces, nine a minute that are well, and others."""
    which = {"outcome": bad}
    return together(
        plain(f"received_{counter}_total", "0+9x120", outcome=good),
        plain(f"received_{counter}_total", values, **which),
        plain("open_traces", "40x120"),
        plain("open_traces_bytes", f"{3 * 2**20}x120"),
    )


ON_STREAM = "taken by workers: 2; settled, for the estimator: 4; workers: 1."
FLEET = (
    Case(
        alert="RagMonitorStreamDown",
        bad=fleet(stream_up="1x40 0x80"),
        good=fleet(),
        restarted=fleet(stream_up="1x55 0x1 1x60"),
        fires_restarted=False,
        at="1h",
        labels={"service": "bot", "severity": "ticket"},
        description=(
            "bot: of 1 processes 0 reach the stream's server. Applications keep what fits their "
            "buffer and try again each second; the rest is counted as stream_down. Waiting in the "
            "applications, or in workers: 7."
        ),
        dashboard=f"{PIPELINE}{SINCE}",
    ),
    Case(
        alert="RagMonitorStreamLag",
        bad=fleet(stream_oldest_seconds="0x40 700x80"),
        good=fleet(stream_oldest_seconds="500x120"),
        restarted=fleet(stream_oldest_seconds="700x30 _x5 0x85"),
        fires_restarted=False,
        at="1h",
        labels={"service": "bot", "severity": "ticket"},
        description=(
            "bot: the oldest answer on the stream is 11m 40s old, and so late are scores and "
            f"alarms. Waiting: 3; {ON_STREAM}"
        ),
        dashboard=f"{PIPELINE}{SINCE}",
    ),
    Case(
        alert="RagMonitorStreamFilling",
        bad=fleet(stream_waiting="0+5000x120"),
        good=fleet(stream_waiting="0+3000x120"),
        restarted=fleet(stream_waiting="900000x40 _x5 0x75"),
        fires_restarted=False,
        at="1h40m",
        labels={"service": "bot", "severity": "ticket"},
        description=(
            "bot: 500000 answers wait, and 1000000 may. Beyond, applications put none, and count "
            f"them as queue_full. Waiting: 500000; {ON_STREAM}"
        ),
        dashboard=f"{PIPELINE}{SINCE}",
    ),
    Case(
        alert="RagMonitorWorkersGone",
        bad=fleet(stream_waiting="3x40 _x80"),
        good=fleet(),
        restarted=fleet(stream_waiting="3x55 _x3 3x60"),
        fires_restarted=False,
        at="1h",
        labels={"service": "bot", "severity": "ticket"},
        description=(
            "bot: processes use a stream, and no worker of it is scraped. Nothing is scored until "
            "one runs; what is put meanwhile waits."
        ),
        dashboard=f"{PIPELINE}{SINCE}",
    ),
    Case(
        alert="RagMonitorEstimatorGone",
        # It is there, and keeps nothing any more.
        bad=fleet(estimator_checkpoint_timestamp_seconds="0+60x40 2400x80"),
        good=fleet(),
        restarted=fleet(estimator_checkpoint_timestamp_seconds="0+60x58 _ 3600+60x60"),
        fires_restarted=False,
        at="1h",
        labels={"service": "bot", "severity": "ticket"},
        description=(
            "bot: workers score answers, and no estimator has kept its state in the last minute: "
            "there are no means, alarms or exports. Last kept: 1970-01-01 00:40:00 +0000 UTC. "
            "Settled answers that wait: 4."
        ),
        dashboard=f"{PIPELINE}{SINCE}",
    ),
    Case(
        alert="RagMonitorEstimatorTakeovers",
        bad=fleet(estimator_takeovers="1x30 2x5 3x5 4x5 6x80"),
        good=fleet(estimator_takeovers="1x30 2x5 3x90"),
        restarted=fleet(estimator_takeovers="1x30 _x1 2x20 _x1 3x70"),
        fires_restarted=False,
        at="1h",
        labels={"service": "bot", "severity": "ticket"},
        description=(
            "bot: 5 takeovers in the last hour. Numbers and alarms go on over each, up to ten "
            "seconds later; histograms and what the page shows begin anew."
        ),
        dashboard=f"{PIPELINE}{SINCE}",
    ),
    Case(
        alert="RagMonitorRecordsBuried",
        bad=fleet(stream_buried="0x30 2x90"),
        good=fleet(),
        restarted=fleet(stream_buried="0x30 _x2 0x90"),
        fires_restarted=False,
        at="1h",
        labels={"service": "bot", "severity": "ticket"},
        description=(
            "bot: 2 records are buried: three workers died of each, or it cannot be read. They "
            "count as unscored; `ragmonitor stream inspect` says why."
        ),
        dashboard=f"{PIPELINE}{SINCE}",
    ),
    Case(
        alert="RagMonitorSpansRefused",
        bad=received("requests", "full", "0+1x120"),
        good=received("requests", "full", "0+0.3x120"),
        restarted=received("requests", "full", "0+0.3x60 0+0.3x60"),
        fires_restarted=False,
        at="1h",
        labels={"service": "bot", "outcome": "full", "severity": "ticket"},
        description=(
            "bot: 10% of the last 15 minutes' requests with spans were refused, outcome full. Open "
            "traces: 40, about 3 MiB. Senders try again after `full`, as long as they can wait; "
            "after the others their spans are lost."
        ),
        dashboard=f"{PIPELINE}{SINCE}",
    ),
    Case(
        alert="RagMonitorTracesGivenUp",
        bad=received("traces", "too_large", "0+1x120", "interaction"),
        # Most traces of an application are no questions.
        good=received("traces", "none", "0+200x120", "interaction"),
        restarted=received("traces", "too_large", "_x60 0x60", "interaction"),
        fires_restarted=False,
        at="1h10m",
        labels={"service": "bot", "outcome": "too_large", "severity": "ticket"},
        description="bot: 10% of the last hour's traces: too_large. Answers found: 540.",
        dashboard=f"{PIPELINE}{SINCE}",
    ),
)


# --- absence --------------------------------------------------------------------------------------

PROCESS = {"job": "rag", "instance": "bot-0:9464"}


def target(up: str, info: str) -> Callable[[str], Series]:
    """Return a process of a service, as Prometheus scrapes it."""

    def of(service: str) -> Series:
        instance = f"{service}-0:9464"
        return {
            labelled("build_info", service=service, version="1", job="rag", instance=instance): (
                info
            ),
            f'up{{job="rag",instance="{instance}"}}': up,
        }

    return of


ABSENCE = (
    Case(
        alert="RagMonitorAbsent",
        bad=plain("build_info", "1x30 _x90", version="1"),
        good=plain("build_info", "1x120", version="1"),
        restarted=plain("build_info", "1x55 _x4 1x60", version="2"),
        fires_restarted=False,
        at="1h",
        labels={"service": "bot", "severity": "ticket"},
        description=(
            "bot: Prometheus scrapes nothing of its monitor. No alert about its answers can fire."
        ),
        dashboard=f"{PIPELINE}{SINCE}",
    ),
    Case(
        alert="RagMonitorTargetDown",
        bad=target("1x30 0x90", "1x30 _x90"),
        good=target("1x120", "1x120"),
        restarted=target("1x50 0x4 1x66", "1x50 _x4 1x66"),
        fires_restarted=False,
        at="1h",
        labels={"service": "bot", "job": "rag", "instance": "bot-0:9464", "severity": "ticket"},
        description=(
            "bot: bot-0:9464 (job rag) does not answer. Its answers are missing in every estimate."
        ),
        dashboard=f"{PIPELINE}{SINCE}",
    ),
    Case(
        alert="RagMonitorNothingScraped",
        bad=lambda service: {f'up{{job="{service}"}}': "0x120"},
        good=plain("build_info", "1x120", version="1"),
        restarted=plain("build_info", "1x50 _x4 1x66", version="1"),
        fires_restarted=False,
        at="1h",
        labels={"severity": "ticket"},
        description=(
            "Prometheus has no series of any ragmonitor. No alert about answers can fire. Is the "
            "scrape configuration loaded?"
        ),
        dashboard=f"{GRAFANA}/ragmonitor-pipeline",
        fires_without_data=frozenset(("",)),
    ),
)

CASES = (*QUALITY, *INPUT, *JUDGING, *OPERATION, *FLEET, *ABSENCE)
