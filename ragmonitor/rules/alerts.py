"""The alerts, a row each. A monitor without data must not look healthy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ragmonitor.rules.model import PREFIX, Alert, Scope, gained
from ragmonitor.rules.recording import OUTRANKED
from ragmonitor.semconv import metrics as names

WORKER_UNSEEN_S: Final = 120
"""The worker shows itself every two seconds; a long answer may hold it up for half a minute."""
MAX_AGE_S: Final = 600
"""An alarm that is ten minutes late is one that somebody should know of."""

HALLUCINATION: Final = 'signal="hallucination"'
RETRIEVAL: Final = "empty_retrieval|weak_retrieval"
SENT: Final = '"(otlp|phoenix|langfuse|jsonl|notify|feedback)_.+"'
"""Reasons of drops that cost no answer its score."""
REFUSED: Final = "full|unauthorized|malformed|too_large|too_many|too_slow"
BY_JUDGE: Final = {"judge": "judge"}
OVERVIEW: Final[Mapping[str, Any]] = {"dashboard": "overview", "has_incident": True}
INVESTIGATE: Final[Mapping[str, Any]] = {"dashboard": "investigate", "variables": BY_JUDGE}


def quality(scope: Scope) -> tuple[Alert, ...]:
    """Return the alerts on answers that got worse, by the monitor's alarms."""

    def alarm(name: str, *matchers: str, **fields: Any) -> Alert:
        return _alert(name, _raised(scope, *matchers), lasts="0m", **fields)

    return (
        alarm(
            "HallucinationSpike",
            'kind="quality"',
            HALLUCINATION,
            severity="critical",
            variables=BY_JUDGE,
            **OVERVIEW,
        ),
        alarm(
            "QualityDrift",
            'kind="quality"',
            f'signal!~"hallucination|refusal|golden_.*|version_worse|{RETRIEVAL}"',
            variables=BY_JUDGE,
            **OVERVIEW,
        ),
        alarm("RefusalSurge", 'signal="refusal"', has_incident=True, **INVESTIGATE),
        alarm("RetrievalDrift", f'signal=~"{RETRIEVAL}"', has_incident=True, **INVESTIGATE),
        alarm("GoldenQuestions", 'signal=~"golden_.*"', **INVESTIGATE),
        alarm("VersionWorse", 'signal="version_worse"', **INVESTIGATE),
    )


def judging(scope: Scope) -> tuple[Alert, ...]:
    """Return the alerts on the judge, its budget and what it needs to alarm."""
    readings = f"{names.JUDGE_SECONDS}_count"
    failed = scope.pick(readings, 'outcome!~"ok|cached"')
    made = scope.pick(readings, 'outcome!="cached"')
    level = f"min by (service, unit, per) ({scope.pick(names.BUDGET_LEVEL)})"
    return (
        _alert(
            "JudgeDown",
            "max by (service, judge) "
            f"(min_over_time({scope.pick(names.JUDGE_BREAKER_STATE)}[5m])) > 0\n"
            "or\n"
            "(\n"
            f"  sum by (service, judge) (increase({failed}[15m]))\n"
            f"  / sum by (service, judge) (increase({made}[15m]))\n"
            "  > 0.5\n"
            "  and\n"
            f"  sum by (service, judge) (increase({failed}[15m])) >= 5\n"
            ")\n"
            "or\n"
            "max by (service, judge) "
            f"(min_over_time({scope.pick(names.MISSING_RATIO)}[30m])) > 0.1",
            variables=BY_JUDGE,
        ),
        _alert(
            "JudgeDrift",
            _raised(scope, 'kind="judge"'),
            lasts="0m",
            has_incident=True,
            variables=BY_JUDGE,
        ),
        _alert(
            "BudgetExhausted",
            f"{level}\n"
            "< on (service, unit) group_left ()\n"
            f"min by (service, unit) ({scope.pick(names.EXPECTED_COST)})\n"
            "or\n"
            f"{level} <= 0",
            lasts="15m",
        ),
        _alert(
            "NotArmed",
            f"group by (service) ({scope.pick(f'{names.BUILD_INFO}_info')})\n"
            "unless on (service)\n"
            f"group by (service) ({scope.pick(names.ALARM_OBJECTIVE, HALLUCINATION)})",
            lasts="1d",
            severity="info",
            dashboard="overview",
        ),
    )


def operation(scope: Scope) -> tuple[Alert, ...]:
    """Return the alerts on answers that are lost before they are scored, and on missing data."""
    evaluations = f"{names.EVALUATIONS}_total"
    incomplete = scope.pick(evaluations, 'outcome="capture_incomplete"')
    incomplete = f"sum by (service) (increase({incomplete}[1h]))"
    every = scope.pick(evaluations)
    interactions = scope.pick(f"{names.INTERACTIONS}_total")
    arrived = f"clamp_min(sum by (service) (increase({interactions}[15m])), 1)"
    return (
        _alert(
            "AnswersDropped",
            "sum by (service, reason) "
            f"{gained(scope, names.DROPPED, '15m', f'reason!~{SENT}')}\n"
            f"/ on (service) group_left ()\n{arrived}\n> 0.01",
        ),
        _alert(
            "CaptureIncomplete",
            f"{incomplete}\n/ sum by (service) (increase({every}[1h]) > 0)\n> 0.05\n"
            f"and\n{incomplete} >= 5",
            lasts="10m",
        ),
        _alert(
            "DeliveryFailing",
            f"sum by (service, reason) {gained(scope, names.DROPPED, '15m', f'reason=~{SENT}')}\n"
            f"> on (service) group_left ()\n(0.01 * {arrived})",
        ),
        _alert(
            "WorkerFailing",
            f"max by (service) (time() - {scope.pick(names.WORKER_SEEN)}) > {WORKER_UNSEEN_S}\n"
            "or\n"
            f"sum by (service) {gained(scope, names.INTERNAL_ERRORS, '1h')} > 0",
            lasts="0m",
        ),
        _alert("Absent", _absent(scope), lasts="10m"),
    )


def fleet(scope: Scope) -> tuple[Alert, ...]:
    """Return the alert on a stream and what works on it."""
    up = scope.pick(names.STREAM_UP)
    return (
        _alert(
            "FleetFailing",
            f"min by (service) ({up}) == 0\n"
            "or\n"
            f"max by (service) ({scope.pick(names.STREAM_OLDEST_SECONDS)}) > {MAX_AGE_S}\n"
            "or\n"
            f"group by (service) ({up}) unless on (service)\n"
            f"group by (service) ({scope.pick(names.STREAM_RECORDS)})",
        ),
    )


def receive(scope: Scope) -> tuple[Alert, ...]:
    """Return the alert on `ragmonitor receive`."""

    def share(what: str, outcomes: str) -> str:
        total = scope.pick(f"{names.RECEIVED}_total", f'what="{what}"')
        grown = gained(scope, names.RECEIVED, "15m", f'what="{what}"', f'outcome=~"{outcomes}"')
        return (
            f"sum by (service, outcome) {grown}\n"
            "/ on (service) group_left ()\n"
            f"(sum by (service) (increase({total}[15m])) >= 20)"
        )

    return (
        _alert(
            "SpansRefused",
            f"{share('requests', REFUSED)}\n> 0.05\n"
            f"or\n{share('traces', 'too_large|unreadable')}\n> 0.01\n"
            f"or\n{share('traces', 'none')}\n> 0.99",
            lasts="10m",
        ),
    )


def _alert(name: str, expr: str, **fields: Any) -> Alert:
    return Alert(name=f"{PREFIX}{name}", expr=expr, **fields)


def _raised(scope: Scope, *matchers: str) -> str:
    """Return an expression for alarms that are raised.

    The built-in judge has no say where a model judges.
    """
    active = scope.pick(names.ALARM_ACTIVE, *matchers)
    return (
        f"max by (service, kind, signal, judge) ({active}) == 1\n"
        f"unless on (service, judge)\n{scope.pick(OUTRANKED)}"
    )


def _absent(scope: Scope) -> str:
    """Return an expression for services, and processes of services, that are not scraped."""
    build = f"{names.BUILD_INFO}_info"
    known = f"last_over_time({scope.pick(build)}[1d])"
    down = f"group by (service) ({known} and on (job, instance) up == 0)"
    if scope.services:
        # A service that is named should be there, however long it has been gone.
        gone = "\nor\n".join(f"absent({Scope((name,)).pick(build)})" for name in scope.services)
    else:
        gone = (
            f"group by (service) (last_over_time({build}[3d]))\n"
            f"unless on (service)\ngroup by (service) ({build})\n"
            f"or\nabsent({build})"
        )
    return f"{gone}\nor\n{down}"
