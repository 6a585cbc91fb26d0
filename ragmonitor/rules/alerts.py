"""The alerts, in groups. A monitor without data must not look healthy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ragmonitor import metrics as names
from ragmonitor.rules.error_budgets import Burn, Objective
from ragmonitor.rules.fleet_alerts import fleet, receivers
from ragmonitor.rules.model import Alert, Group, Scope, gained
from ragmonitor.rules.recording import (
    ARRIVED,
    ESTIMATE,
    IS_BUILTIN,
    IS_MODEL,
    JUDGED,
    NO_JUDGE,
    OUTRANKED,
)
from ragmonitor.rules.wording import (
    BY_SIGNAL,
    JUDGE,
    NOT_KNOWN,
    SERVICE,
    cause,
    diagnoses,
    diagnoses_of_rise,
    estimate,
    evidence,
    limit,
    moment,
    number,
    percentage,
    rise,
)

DAY_S = 86_400.0
TICKET_SHARE = 0.1
"""The share of the threshold that pages: a level that is reached ten times as often is worth a
ticket."""

WORKER_UNSEEN_S = 120
"""The worker shows itself every two seconds; a long answer may hold it up for half a minute."""

HALLUCINATION = 'signal="hallucination"'
SENT = '"(otlp|phoenix|langfuse|jsonl|notify|feedback)_.+"'
"""Reasons of drops that cost no answer its score."""
IN_THE_HOUR = 'window="1h"'
BY_JUDGE = {"judge": "judge"}
BY_EVALUATOR = {"judge": "judge", "evaluator": "signal"}


def alert_groups(
    scope: Scope, prefix: str, *, threshold_days: float, objectives: Sequence[Objective]
) -> tuple[Group, ...]:
    """Return every alert.

    Args:
        scope: Whose.
        prefix: Of the groups' names.
        threshold_days: Evidence that pages: without a change it is reached once in so many days.
        objectives: Each gets alerts on its error budget.
    """
    groups = {
        "quality": quality(scope, threshold_days),
        "objectives": tuple(
            budget_burn(scope, objective, burn)
            for objective in objectives
            for burn in objective.burns()
        ),
        "input": inputs(scope, threshold_days),
        "judging": judging(scope, threshold_days),
        "operation": operation(scope),
        "fleet": fleet(scope),
        "receive": receivers(scope),
        "absence": absence(scope),
    }
    return tuple(
        Group(name=f"{prefix}-{name}", interval="30s", rules=rules)
        for name, rules in groups.items()
        if rules
    )


# --- quality --------------------------------------------------------------------------------------


def raised(scope: Scope, level_days: float, *matchers: str) -> str:
    """Return an expression for the evidence of alarms that are raised or past a level.

    An alarm that the monitor raised counts whatever the level: its own threshold may be lower. The
    built-in judge has no say where a model judges.
    """
    evidence_of = scope.pick(names.ALARM_EVIDENCE_SECONDS, *matchers)
    active = scope.pick(names.ALARM_ACTIVE, *matchers)
    days = f"max by (service, kind, signal, judge) ({evidence_of})"
    return (
        "(\n"
        f"  {days} >= {level_days * DAY_S:.15g}\n"
        "  or\n"
        f"  {days}\n"
        "  and\n"
        f"  max by (service, kind, signal, judge) ({active}) == 1\n"
        ")\n"
        f"unless on (service, judge)\n{scope.pick(OUTRANKED)}"
    )


def quality(scope: Scope, threshold_days: float) -> tuple[Alert, ...]:
    """Return the alerts on answers that got worse."""
    ticket_days = threshold_days * TICKET_SHARE

    def alert(
        name: str,
        signal: str,
        summary: str,
        finding: str,
        *,
        is_share: bool,
        level_days: float = ticket_days,
        more: str = "",
        **fields: Any,
    ) -> Alert:
        return Alert(
            name=name,
            expr=raised(scope, level_days, 'kind="quality"', signal),
            has_incident=True,
            summary=summary,
            description=(
                f"{SERVICE}: {finding} ({limit(is_share=is_share)}): {rise(is_share=is_share)}; "
                f"{evidence()}. {more}{diagnoses_of_rise()}"
            ),
            **fields,
        )

    return (
        alert(
            "RagMonitorHallucinationSpike",
            HALLUCINATION,
            "More answers are hallucinated than the limit permits.",
            f"{JUDGE} finds more hallucinations than the limit permits",
            is_share=True,
            level_days=threshold_days,
            more=f"Judge or application: {cause()}. ",
            severity="page",
            dashboard="overview",
            variables=BY_JUDGE,
        ),
        alert(
            "RagMonitorFaithfulnessDrift",
            'signal="faithfulness"',
            "Answers are less faithful to what was retrieved than they were.",
            f"mean faithfulness by {JUDGE} is below its limit",
            is_share=False,
            lasts="5m",
            dashboard="overview",
            variables=BY_EVALUATOR,
        ),
        alert(
            "RagMonitorQualityDrift",
            'signal!~"hallucination|faithfulness|refusal|golden_.*|version_worse"',
            "A score of the answers is worse than it was.",
            f"mean {{{{ $labels.signal }}}} by {JUDGE} is beyond its limit",
            is_share=False,
            lasts="5m",
            dashboard="overview",
            variables=BY_EVALUATOR,
        ),
        alert(
            "RagMonitorRefusalSurge",
            'signal="refusal"',
            "More questions are declined than the limit permits.",
            f"{JUDGE} finds more questions declined than the limit permits",
            is_share=True,
            lasts="5m",
            dashboard="investigate",
            variables=BY_JUDGE,
        ),
        golden_questions(scope, ticket_days),
        version_worse(scope),
        slice_worse(scope),
    )


def golden_questions(scope: Scope, level_days: float) -> Alert:
    """Return the alert on golden questions that are answered worse than they were, or not at all.

    Args:
        scope: Whose.
        level_days: Evidence from which it fires.
    """
    hour = f"service=%q,{IN_THE_HOUR}"
    correct = names.GOLDEN_SCORES["answer_correctness"]
    return Alert(
        name="RagMonitorGoldenQuestions",
        expr=raised(scope, level_days, 'kind="quality"', 'signal=~"golden_.*"'),
        lasts="5m",
        summary="Golden questions are answered worse than they were, or not at all.",
        description=(
            f"{SERVICE}: {{{{ $labels.signal }}}} by {JUDGE} is below what the questions' own "
            f"history lets expect: {evidence()}. In the last hour answers are correct to "
            f"{number(f'avg({correct}{{{hour}}})')}, and "
            f"{percentage(f'avg({names.GOLDEN_AVAILABILITY}{{{hour}}})')} of the questions got "
            "one; reference answers that the judge rejects: "
            f"{number(f'max({names.GOLDEN_FAULTS}{{service=%q}})', form='%.0f')}."
        ),
        dashboard="investigate",
        variables=BY_JUDGE,
    )


def version_worse(scope: Scope) -> Alert:
    """Return the alert on a version that is worse than its baseline."""
    active = scope.pick(names.ALARM_ACTIVE, 'signal="version_worse"')
    difference = number(
        f'100 * max({names.VERSION_DIFFERENCE}{{service=%q,judge=%q,signal="hallucination"}})',
        form="%+.1f",
    )
    lower, upper = (
        number(f'100 * max({name}{{service=%q,judge=%q,signal="hallucination"}})', form="%+.1f")
        for name in (names.VERSION_DIFFERENCE_LOWER, names.VERSION_DIFFERENCE_UPPER)
    )
    return Alert(
        name="RagMonitorVersionWorse",
        expr=(
            f"max by (service, kind, signal, judge) ({active}) == 1\n"
            f"unless on (service, judge)\n{scope.pick(OUTRANKED)}"
        ),
        summary="A version of the application is worse than the one before.",
        description=(
            f"{SERVICE}: by {JUDGE}, the newest version is worse than its baseline in the "
            "hallucination rate, refusals or a score. Hallucination rate: "
            f"{difference} points (95 % confidence sequence {lower} to {upper}). A version that is "
            "no worse is found so with a chance of 5 % at most, however long it runs. The incident "
            "on the monitor's page names the version and the signal."
        ),
        dashboard="investigate",
        variables=BY_JUDGE,
    )


def slice_worse(scope: Scope) -> Alert:
    """Return the alert on a slice; silent while all answers have the alarm, and for an hour."""
    active = scope.pick(names.SLICE_ALARM_ACTIVE)
    whole = scope.pick(names.ALARM_ACTIVE, HALLUCINATION)
    of_slice = "service=%q,slice=%q,judge=%q"
    share = number(
        f"100 * max({names.SLICE_ALARM_EVIDENCE_SECONDS}{{{of_slice}}})"
        f" / max({names.ALARM_THRESHOLD_SECONDS}{{service=%q}})",
        form="%.0f %%",
    )
    return Alert(
        name="RagMonitorSliceWorse",
        expr=(
            f"max by (service, slice, judge) ({active}) == 1\n"
            f"unless on (service)\nmax by (service) (max_over_time({whole}[1h])) == 1\n"
            f"unless on (service, judge)\n{scope.pick(OUTRANKED)}"
        ),
        summary="A part of the traffic has more hallucinations than its limit permits.",
        description=(
            f"{SERVICE}: in {{{{ $labels.slice }}}}, {JUDGE} finds more hallucinations than the "
            f"limit permits ({percentage(f'max({names.SLICE_ALARM_OBJECTIVE}{{{of_slice}}})')}); "
            f"evidence at {share} of the threshold. The rate of all answers may hardly show it."
        ),
        labels={"kind": "quality"},
        dashboard="investigate",
        variables=BY_JUDGE,
    )


def budget_burn(scope: Scope, objective: Objective, burn: Burn) -> Alert:
    """Return the alert over one pair of windows.

    Both windows speak through their intervals: the long one shows that the budget burns so fast,
    and the short one does not show that this is over. So few judged answers neither raise it nor
    end it, and a short window without any is no recovery.
    """
    threshold = objective.threshold(burn)
    matchers = [f'signal="{objective.signal}"', *([IS_MODEL] if objective.models_only else [])]

    def bound(operation: str, window: str) -> str:
        return scope.pick(f"{ESTIMATE}:{operation}{window}", *matchers)

    if objective.is_floor:
        shows = f"1 - {bound('upper', burn.long)} > {threshold:g}"
        over = f"1 - {bound('lower', burn.short)} < {threshold:g}"
        errors = f"1 - {ESTIMATE}:mean{burn.long}"
    else:
        shows = f"{bound('lower', burn.long)} > {threshold:g}"
        over = f"{bound('upper', burn.short)} < {threshold:g}"
        errors = f"{ESTIMATE}:mean{burn.long}"
    expr = f"{shows}\nunless\n{over}"
    if not objective.models_only:
        expr = f"({expr})\nunless on (service, judge)\n{scope.pick(OUTRANKED)}"
    rate = number(f"({errors}{{{BY_SIGNAL}}}) / {objective.budget:g}", form="%.1f")
    return Alert(
        name="RagMonitorErrorBudgetBurn",
        expr=expr,
        lasts=burn.lasts,
        severity=burn.severity,
        labels={
            "kind": "quality",
            "objective": str(objective),
            "burn": f"{burn.factor:g}",
            "long": burn.long,
            "short": burn.short,
        },
        summary="An error budget burns too fast.",
        description=(
            f"{SERVICE}: by {JUDGE}, {objective.signal} over {burn.long} is "
            f"{estimate(burn.long, is_share=not objective.is_floor)}, and the objective is "
            f"{objective}. The budget of {objective.budget:g} burns {rate} times as fast as it "
            f"may; this alert is over {burn.factor:g} times, an error share of {threshold:g}, "
            f"which the interval over {burn.long} shows and the one over {burn.short} does not "
            f"contradict. {diagnoses()}"
        ),
        dashboard="overview",
        variables=BY_EVALUATOR if objective.is_floor else BY_JUDGE,
    )


# --- input ----------------------------------------------------------------------------------------


def inputs(scope: Scope, threshold_days: float) -> tuple[Alert, ...]:
    """Return the alerts on questions and retrievals that changed."""
    ticket_days = threshold_days * TICKET_SHARE

    def alert(name: str, signal: str, summary: str, what: str, severity: str = "ticket") -> Alert:
        return Alert(
            name=name,
            expr=raised(scope, ticket_days, 'kind="input"', f'signal="{signal}"'),
            has_incident=True,
            lasts="5m",
            severity=severity,
            summary=summary,
            description=(
                f"{SERVICE}: {what} is above its limit ({limit(is_share=True)}): "
                f"{rise(is_share=True)}; {evidence()}."
            ),
            dashboard="investigate",
        )

    return (
        alert(
            "RagMonitorRetrievalEmpty",
            "empty_retrieval",
            "Nothing is retrieved for more questions than the limit permits.",
            "the share of questions for which nothing was retrieved",
        ),
        alert(
            "RagMonitorRetrievalWeak",
            "weak_retrieval",
            "Retrieved chunks fit their questions worse than they did.",
            "the share of retrievals weaker than the reference's weakest 5 %",
        ),
    )


# --- judging --------------------------------------------------------------------------------------

MIN_DISTINGUISHING_N = 30
"""Judged answers a day below which a rate of 5 % cannot be distinguished from one of 20 %."""
MIN_EXPECTED = 5
"""Expected judged answers from which none at all is no chance: exp(-5) is below 1 %."""


def judging(scope: Scope, threshold_days: float) -> tuple[Alert, ...]:
    """Return the alerts on the judge and its budget."""
    calls = f"{names.JUDGE_SECONDS}_count"
    failed = scope.pick(calls, 'outcome!~"ok|cached"')
    made = scope.pick(calls, 'outcome!="cached"')
    rate = scope.pick(names.SAMPLING_RATE)
    arrived = scope.pick(f"{ARRIVED}:increase1h", f'judge!="{NO_JUDGE}"')
    interactions = scope.pick(f"{names.INTERACTIONS}_total", 'status="ok"')
    arrived_day = scope.pick(f"{ARRIVED}:increase1d", HALLUCINATION, f'judge!="{NO_JUDGE}"')
    enough = scope.pick(f"{ESTIMATE}:effective_n1d", HALLUCINATION)
    of_judge = "{service=%q,judge=%q}"
    of_service = "{service=%q}"
    failures = percentage(
        f'sum(increase({calls}{{service=%q,judge=%q,outcome!~"ok|cached"}}[15m])) / '
        f'sum(increase({calls}{{service=%q,judge=%q,outcome!="cached"}}[15m]))',
    )
    level, limit = scope.pick(names.BUDGET_LEVEL), names.BUDGET_LIMIT
    reading = scope.pick(names.EXPECTED_COST)
    return (
        Alert(
            name="RagMonitorJudgeDown",
            expr=(
                "max by (service, judge) (min_over_time("
                f"{scope.pick(names.JUDGE_BREAKER_STATE)}[5m])) > 0\n"
                "or\n"
                "(\n"
                f"  sum by (service, judge) (increase({failed}[15m]))\n"
                f"  / sum by (service, judge) (increase({made}[15m]))\n"
                "  > 0.5\n"
                "  and\n"
                f"  sum by (service, judge) (increase({failed}[15m])) >= 5\n"
                ")"
            ),
            lasts="5m",
            summary="The judge does not answer.",
            description=(
                f"{SERVICE}: the circuit breaker of {JUDGE} has been open for at least five "
                f"minutes, or most of its calls fail. Failed in the last 15 minutes: {failures} of "
                "the answers to judge; without a verdict in the last day: "
                f"{percentage(f'max({names.MISSING_RATIO}{of_judge})')} of "
                "the drawn answers. Meanwhile only the built-in judge scores, and it never pages."
            ),
            variables=BY_JUDGE,
        ),
        Alert(
            name="RagMonitorVerdictsMissing",
            expr=f"max by (service, judge) ({scope.pick(names.MISSING_RATIO)}) > 0.1",
            lasts="30m",
            summary="Many answers that were drawn have no verdict.",
            description=(
                f"{SERVICE}: {JUDGE} gave no verdict on {{{{ $value | humanizePercentage }}}} of "
                "the answers that were drawn in the last day. Intervals are wider by what these "
                "might have been, and below half of a window's answers its mean is not shown. "
                f"Hallucination rate over the last day: {_day('lower')} to {_day('upper')}; "
                f"observed: {_day('coverage_ratio')} of the answers."
            ),
            variables=BY_JUDGE,
        ),
        Alert(
            name="RagMonitorJudgingStopped",
            expr=(
                "(\n"
                "  (\n"
                f"    max by (service, judge) ({arrived})\n"
                "    * on (service, judge)\n"
                f"    max by (service, judge) (avg_over_time({rate}[1h]))\n"
                f"    >= {MIN_EXPECTED}\n"
                "    or\n"
                "    max by (service, judge) "
                f"({scope.pick(f'{ARRIVED}:increase1h', IS_BUILTIN)}) >= {MIN_EXPECTED}\n"
                "  )\n"
                "  unless on (service, judge)\n"
                f"  max by (service, judge) ({scope.pick(f'{JUDGED}:increase1h')}) > 0\n"
                ")\n"
                "or\n"
                # The worker itself stands still: answers are not even counted.
                "(\n"
                f"  sum by (service) (increase({interactions}[1h])) >= 20\n"
                "  unless on (service)\n"
                "  sum by (service) "
                f"(increase({scope.pick(f'{names.ANSWERS}_total')}[1h])) > 0\n"
                ")"
            ),
            lasts="10m",
            summary="Answers arrive and none is judged.",
            description=(
                f"{SERVICE}: {{{{ with $labels.judge }}}}{{{{ . }}}} has judged none of "
                "{{ else }}not even counted are {{ end }}the last hour's answers "
                "({{ with $labels.judge }}expected by now: {{ else }}finished interactions: "
                '{{ end }}{{ $value | printf "%.0f" }}). Last score: {{ if $labels.judge }}'
                f"{_last_score('{service=%q,judge=%q}')}{{{{ else }}}}{_last_score(of_service)}"
                "{{ end }}."
            ),
            variables=BY_JUDGE,
        ),
        Alert(
            name="RagMonitorTooFewJudged",
            expr=(
                f"(\n  max by (service, judge) ({arrived_day}) >= 100\n"
                "  unless on (service, judge)\n"
                f"  max by (service, judge) ({enough}) >= {MIN_DISTINGUISHING_N}\n)\n"
                f"unless on (service, judge)\n{scope.pick(OUTRANKED)}"
            ),
            lasts="1h",
            severity="info",
            summary="Too few answers are judged to know how good they are.",
            description=(
                f'{SERVICE}: of the last day\'s {{{{ $value | printf "%.0f" }}}} answers {JUDGE} '
                "judged "
                + number(
                    f'{JUDGED}:increase1d{{service=%q,judge=%q,signal="hallucination"}}',
                    form="%.0f",
                )
                + "; the effective sample size is "
                + number(
                    f'{ESTIMATE}:effective_n1d{{service=%q,judge=%q,signal="hallucination"}}',
                    form="%.0f",
                )
                + f", and {MIN_DISTINGUISHING_N} are needed to distinguish a rate of 5 % from one "
                "of 20 %."
            ),
            variables=BY_JUDGE,
        ),
        Alert(
            name="RagMonitorBudgetExhausted",
            expr=(
                f"min by (service, unit, per) ({level})\n"
                "< on (service, unit) group_left ()\n"
                f"min by (service, unit) ({reading})\n"
                "or\n"
                f"min by (service, unit, per) ({level}) <= 0"
            ),
            lasts="15m",
            summary="The judge's budget does not pay for one more answer.",
            description=(
                f'{SERVICE}: {{{{ $value | printf "%.4f" }}}} {{{{ $labels.unit }}}} of '
                + number(
                    f"max({limit}{{service=%q,unit=%q,per=%q}})",
                    form="%.4g",
                )
                + " per {{ $labels.per }} are left, and judging one answer takes "
                + number(
                    f"min({names.EXPECTED_COST}{{service=%q,unit=%q}})",
                    form="%.4f",
                )
                + ". Until it fills up again only the built-in judge scores. Sampling rate now: "
                + percentage(f"min({names.SAMPLING_RATE}{of_service})")
                + "."
            ),
        ),
        Alert(
            name="RagMonitorJudgeDrift",
            # At the threshold and not before: it holds pages back.
            expr=raised(scope, threshold_days, 'kind="judge"'),
            has_incident=True,
            summary="The judge's verdicts differ from its old ones.",
            description=(
                f"{SERVICE}: {JUDGE} by {{{{ $labels.signal }}}}: {evidence()}. Share of "
                "reference answers with a changed verdict: "
                f"{percentage(f'max({names.ANCHOR_FLIP_RATE}{of_judge})')}; "
                f"cause of the active alarm: {cause()}; "
                "share of answers judged twice on which it disagrees with itself: "
                f"{percentage(f'max({names.JUDGE_FLIP_RATE}{of_judge})')}. "
                f"Versions now: {_versions()}."
            ),
            variables=BY_JUDGE,
        ),
        Alert(
            name="RagMonitorObjectivesDiffer",
            expr=f"max by (service, signal) ({scope.pick(names.ALARM_OBJECTIVES)}) > 1",
            lasts="30m",
            summary="Processes of one service have different objectives.",
            description=(
                f"{SERVICE}: processes of one state folder set {{{{ $value }}}} different "
                "objectives for {{ $labels.signal }}. The strictest holds for all: "
                + number(f"max({names.ALARM_OBJECTIVE}{{service=%q,signal=%q}})")
                + ". A deployment that changes it takes less time than that."
            ),
        ),
        Alert(
            name="RagMonitorNotArmed",
            expr=(
                f"group by (service) ({scope.pick(f'{names.BUILD_INFO}_info')})\n"
                "unless on (service)\n"
                "group by (service) "
                f"({scope.pick(names.ALARM_OBJECTIVE, HALLUCINATION)})"
            ),
            lasts="1d",
            severity="info",
            summary="No hallucination alarm is armed.",
            description=(
                f"{SERVICE}: the monitor has not learned yet what is normal ("
                + percentage(
                    f'max({names.ALARM_LEARNED_RATIO}{{service=%q,signal="hallucination"}})',
                )
                + " of the verdicts it needs), or its alarms are turned off. Until then nothing "
                "pages on hallucinations."
            ),
            dashboard="overview",
        ),
    )


def _day(expression: str) -> str:
    series = f'{names.HALLUCINATION_RATE}_{expression}{{service=%q,judge=%q,window="24h"}}'
    pick = "max" if expression == "upper" else "min"
    return percentage(f"{pick}({series})")


def _last_score(of_service: str) -> str:
    return moment(f"max({names.LAST_SCORE_TIMESTAMP}{of_service})", without=NOT_KNOWN)


def _versions() -> str:
    query = f"printf `group by (version) ({names.JUDGE_INFO}{{service=%q,judge=%q}})`"
    return (
        f"{{{{ range {query} $labels.service $labels.judge | query }}}}"
        "{{ .Labels.version }} {{ else }}unknown{{ end }}"
    )


# --- operation ------------------------------------------------------------------------------------


def operation(scope: Scope) -> tuple[Alert, ...]:
    """Return the alerts on answers that are lost before they are scored."""
    evaluations = f"{names.EVALUATIONS}_total"
    incomplete = scope.pick(evaluations, 'outcome="capture_incomplete"')
    every = scope.pick(evaluations)
    interactions = scope.pick(f"{names.INTERACTIONS}_total")
    dropped = f"{names.DROPPED}_total"
    return (
        Alert(
            name="RagMonitorCaptureIncomplete",
            expr=(
                f"sum by (service) (increase({incomplete}[1h]))\n"
                f"/ sum by (service) (increase({every}[1h]) > 0)\n"
                "> 0.05\n"
                "and\n"
                f"sum by (service) (increase({incomplete}[1h])) >= 5"
            ),
            lasts="10m",
            summary="Parts of interactions are not captured, so they have no score.",
            description=(
                f"{SERVICE}: {{{{ $value | humanizePercentage }}}} of the last hour's evaluations "
                "have no score because question, chunks or answer were not captured."
            ),
        ),
        Alert(
            name="RagMonitorAnswersUncovered",
            expr=(
                f"max by (service, judge) ({scope.pick(names.UNCOVERED_RATIO, IN_THE_HOUR)}) > 0.2"
            ),
            lasts="30m",
            summary="Many answers have no chance to be judged.",
            description=(
                f"{SERVICE}: {{{{ $value | humanizePercentage }}}} of the last hour's answers "
                f"could not be drawn for {JUDGE}: means are of the others, and intervals are wider "
                "by what these might have been."
            ),
            variables=BY_JUDGE,
        ),
        Alert(
            name="RagMonitorQueueDropping",
            expr=(
                "sum by (service, reason) "
                f"{gained(scope, dropped, '15m', f'reason!~{SENT}')}\n"
                "/ on (service) group_left ()\n"
                f"clamp_min(sum by (service) (increase({interactions}[15m])), 1)\n"
                "> 0.01"
            ),
            lasts="5m",
            summary="Answers are dropped before they are scored.",
            description=(
                f"{SERVICE}: {{{{ $value | humanizePercentage }}}} of the last 15 minutes' "
                "interactions were dropped, reason {{ $labels.reason }}. Waiting now: "
                + number(f"sum({names.QUEUE_DEPTH}{{service=%q}})", form="%.0f")
                + "; open runs: "
                + number(f"sum({names.OPEN_RUNS}{{service=%q}})", form="%.0f")
                + "."
            ),
        ),
        Alert(
            name="RagMonitorDeliveryFailing",
            expr=(
                "sum by (service, reason) "
                f"{gained(scope, dropped, '15m', f'reason=~{SENT}')}\n"
                "> on (service) group_left ()\n"
                f"(0.01 * clamp_min(sum by (service) (increase({interactions}[15m])), 1))"
            ),
            lasts="5m",
            summary="Traces, scores or notices do not arrive where they are sent.",
            description=(
                f"{SERVICE}: in the last 15 minutes "
                '{{ $value | printf "%.0f" }} spans, events, scores, lines, notices or words of '
                "people were lost, reason {{ $labels.reason }}. Answers are scored as ever, and "
                "alarms rely on nothing of it. The application's log, logger ragmonitor, says "
                "what does not take them."
            ),
        ),
        Alert(
            name="RagMonitorWorkerFailing",
            expr=(
                f"sum by (service) {gained(scope, f'{names.WORKER_RESTARTS}_total', '15m')} > 0\n"
                "or\n"
                f"max by (service) (time() - {scope.pick(names.WORKER_SEEN)}) > {WORKER_UNSEEN_S}"
            ),
            summary="The worker that scores answers fails, or stands still.",
            description=(
                f"{SERVICE}: in the last 15 minutes the worker was ended by an error and began "
                "again, or it has done nothing for two minutes. Answers wait, or are counted as "
                "internal_error; do not rely on alarms on quality. The application's log, "
                "logger ragmonitor, says why."
            ),
        ),
        Alert(
            name="RagMonitorInternalErrors",
            expr=(
                "sum by (service, stage) "
                f"{gained(scope, f'{names.INTERNAL_ERRORS}_total', '1h')} > 0"
            ),
            summary="The monitor itself fails; the application does not notice.",
            description=(
                f"{SERVICE}: errors in stage {{{{ $labels.stage }}}} in the last hour: "
                '{{ $value | printf "%.0f" }}. '
                "The application's log has the first of each kind, logger ragmonitor."
            ),
        ),
    )


# --- absence --------------------------------------------------------------------------------------


def absence(scope: Scope) -> tuple[Alert, ...]:
    """Return the alerts on missing data, which never counts as good."""
    build = f"{names.BUILD_INFO}_info"
    if scope.services:
        # A service that is named should be there, however long it has been gone.
        gone = "\nor\n".join(f"absent({Scope((name,)).pick(build)})" for name in scope.services)
    else:
        gone = (
            f"group by (service) (last_over_time({build}[3d]))\n"
            "unless on (service)\n"
            f"group by (service) ({build})"
        )
    absent = Alert(
        name="RagMonitorAbsent",
        expr=gone,
        lasts="10m",
        summary="A monitored service has no series any more.",
        description=(
            f"{SERVICE}: Prometheus scrapes nothing of its monitor. No alert about its answers "
            "can fire."
        ),
    )
    down = Alert(
        name="RagMonitorTargetDown",
        expr=(
            f"group by (service, job, instance) (last_over_time({scope.pick(build)}[1d]))\n"
            "and on (job, instance)\n"
            "up == 0"
        ),
        lasts="10m",
        summary="A process of a monitored service cannot be scraped.",
        description=(
            f"{SERVICE}: {{{{ $labels.instance }}}} (job {{{{ $labels.job }}}}) does not answer. "
            "Its answers are missing in every estimate."
        ),
    )
    nothing = Alert(
        name="RagMonitorNothingScraped",
        expr=f"absent({build})",
        lasts="15m",
        summary="No monitored service is scraped at all.",
        description=(
            "Prometheus has no series of any ragmonitor. No alert about answers can fire. Is the "
            "scrape configuration loaded?"
        ),
        has_service=False,
    )
    return (absent, down) if scope.services else (absent, down, nothing)
