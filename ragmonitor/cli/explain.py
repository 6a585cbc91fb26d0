"""`ragmonitor explain`: what a running monitor's numbers rest on, and at which budget."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from ragmonitor import metrics as names
from ragmonitor.addresses import shown
from ragmonitor.cli.monitor_client import Page, address, fetched
from ragmonitor.cli.monitor_options import ExplainOptions
from ragmonitor.cli.monitor_state import Learned, PlanningRow, Sampling, ServiceState
from ragmonitor.cli.terminal import FINE, figures_table, new_console, print_json, printable, say
from ragmonitor.cli.topic_titles import add_titles
from ragmonitor.errors import InputError
from ragmonitor.estimation.alarms import LEARNED_FROM
from ragmonitor.estimation.detector import DAY_S
from ragmonitor.estimation.early_warning import THRESHOLD_DAYS as EARLY_WARNING_DAYS
from ragmonitor.estimation.signals import EMPTY_RETRIEVAL, NEW_QUESTION, WEAK_RETRIEVAL, slice_of
from ragmonitor.export.content import finite
from ragmonitor.records import Cause, is_difference

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

_INPUTS: Final = (EMPTY_RETRIEVAL, WEAK_RETRIEVAL, NEW_QUESTION)


def run(options: ExplainOptions) -> int:
    """Read the monitor's state, say what it means, and return the exit code.

    Raises:
        RagMonitorError: Nothing answers, or not as a monitor does; there is no such service.
    """
    url = address(options.address)
    states = [
        ServiceState(record, answers_per_hour=options.answers_per_hour) for record in fetched(url)
    ]
    services = [state.service for state in states]
    if options.service not in (None, *services):
        raise InputError(
            f"{shown(url)} serves no service {options.service!r}, but {', '.join(services)}"
        )
    chosen = [state for state in states if options.service in (None, state.service)]
    problem = add_titles(
        {state.service: state.alarms for state in chosen},
        partial(Page, options.address, options.token),
    )
    if options.json_output:
        records = [finite(state.as_json()) for state in chosen]
        print_json({"url": shown(url), "services": records})
    else:
        _print_all(shown(url), chosen)
        if problem:
            say(f"topics are told by their numbers: {problem}")
    return FINE


def _print_all(url: str, states: list[ServiceState]) -> None:
    console = new_console()
    console.print(f"{url}, now", markup=False, soft_wrap=True)
    for state in states:
        console.print()
        _print_service(console, state)


def _print_service(console: Console, state: ServiceState) -> None:
    title = printable(f"{state.service} (ragmonitor {state.version})").replace("[", "\\[")
    console.rule(title, align="left")
    if state.why_no_numbers:
        _print_lines(console, _operation(state))
        return
    _print_lines(console, _judge(state))
    _print_table(console, "Estimates in %, with 95 % intervals", _means(state))
    _print_lines(console, _mean_notes(state))
    began = "process" if state.value(names.ESTIMATOR_TAKEOVERS) is None else "fleet"
    _print_lines(console, _counts(state), title=f"What they are made of, since the {began} began")
    if state.sampling is not None:
        lines = _sampling(state.sampling)
        _print_lines(console, lines, title="Sampling and money, now")
        _print_lines(console, _judge_quality(state), title="The judge")
    days = "-" if state.threshold_days is None else f"{state.threshold_days:g}"
    _print_table(
        console,
        f"Alarms: evidence in % of the threshold (one false alarm in {days} days at most)",
        _alarms(state),
    )
    _print_lines(console, _early_warning(state))
    _print_lines(console, _input(state), title="What comes in")
    _print_table(console, "What would happen at other budgets, all else as now", _planning(state))
    _print_lines(console, _planning_notes(state))


def _print_lines(console: Console, lines: Iterator[str], *, title: str = "") -> None:
    if title:
        console.print(f"\n[bold]{title}[/]")
    for line in lines:
        console.print(printable(line), markup=False)


def _print_table(console: Console, title: str, table: Table) -> None:
    console.print(f"\n[bold]{title}[/]")
    console.print(table if table.row_count else "none yet")


def _operation(state: ServiceState) -> Iterator[str]:
    """Say what a process is that has no numbers of answers, and how its stream is."""
    yield f"This is {state.why_no_numbers}."
    if state.value(names.STREAM_UP) == 0:
        yield "The stream's server does not answer this process."
        return
    waiting = state.value(names.STREAM_WAITING)
    if waiting is not None:
        yield (
            f"On the stream: {waiting:,.0f} waiting, {state.value(names.STREAM_OPEN) or 0:,.0f} in "
            f"hand, {state.value(names.STREAM_BURIED) or 0:,.0f} buried; the oldest is "
            f"{state.value(names.STREAM_OLDEST_SECONDS) or 0:,.0f} s old. Settled, and waiting for "
            f"the estimator: {state.value(names.STREAM_SETTLED) or 0:,.0f}."
        )
    refused = _refused(state)
    if refused:
        yield f"Not put on the stream, and counted as unscored: {_by_cause(refused)}."


def _refused(state: ServiceState) -> Mapping[str, int]:
    """Return how many answers an application could not hand over, by cause."""
    causes = {cause: state.total(names.DROPPED, reason=cause.value) for cause in Cause}
    return {cause.value: round(n) for cause, n in causes.items() if n}


def _judge(state: ServiceState) -> Iterator[str]:
    if state.is_judged:
        yield f"Judge: {state.judge} scores a share; the built-in judge scores every answer."
    else:
        yield (
            "NOT JUDGED: no judge is configured. Every number is by the built-in judge "
            f'(judge="{state.judge}"), which sees what words show; see docs/statistics.md.'
        )
    if state.processes > 1:
        yield (
            f"{state.processes} processes add up their series here; the alarms are those of the "
            "process that answered, which are everybody's where they share a state folder."
        )


def _means(state: ServiceState) -> Table:
    table = figures_table("signal", "window", "mean", "interval", "eff. n", "covers")
    for mean in state.means:
        table.add_row(
            mean["signal"],
            mean["window"],
            f"{100 * mean['mean']:.1f}",
            _range(mean["lower"], mean["upper"]),
            f"{mean['effective_n']:,.0f}",
            _share(mean["coverage"]),
        )
    return table


def _mean_notes(state: ServiceState) -> Iterator[str]:
    if state.means:
        yield (
            "eff. n: the effective sample size, how many answers, drawn evenly and judged, would "
            "tell as much. Covers: the share of the window's answers that the mean speaks of; the "
            "interval is the range if all the others had been good or bad."
        )


def _counts(state: ServiceState) -> Iterator[str]:
    counts = state.answers
    if counts is None:
        yield "Nothing was answered yet."
        return
    judge = "the judge" if state.is_judged else "the built-in judge"
    yield f"{counts.answers:,} answers: {counts.scored:,} scored by {judge}."
    if counts.predicted:
        yield f"Not drawn: {counts.predicted:,}; they enter by what past verdicts predict of them."
    if counts.not_applicable:
        yield f"Not scored, on purpose: {_by_cause(counts.not_applicable)}."
    if counts.without_verdict:
        yield f"No verdict: {_by_cause(counts.without_verdict)}."
    if state.is_judged:
        yield (
            f"Without a verdict, of what was drawn within a day: {_share(counts.missing_ratio)}; "
            "each may have been anything, and the interval says so."
        )
        yield (
            f"Uncovered: {_share(counts.uncovered_ratio)} of the last hour's answers had no chance "
            "to be judged."
        )


def _sampling(sampling: Sampling) -> Iterator[str]:
    bound = "the budget decides"
    if sampling.bound_by == "judge_rate":
        bound = "the setting sample.rate decides"
    yield (
        f"Rate {_share(sampling.rate)} ({bound}), boost x{sampling.boost:g}; "
        f"{sampling.arrivals_per_hour:,.0f} answers an hour arrive, "
        f"{sampling.judged_per_hour:,.0f} are judged."
    )
    if sampling.expected_cost is None:
        yield "Budget: no reading has been estimated yet." if sampling.budget else "Budget: none."
    else:
        yield (
            f"A reading costs about {_amount(sampling.expected_cost, sampling.unit)}: "
            f"{_amount(sampling.cost_per_hour or 0.0, sampling.unit)} an hour at this pace."
        )
    for limit in sampling.budget:
        yield (
            f"Limit {_amount(limit.limit, sampling.unit)} per {limit.per}: "
            f"{_amount(limit.level, sampling.unit)} may be spent at once now, "
            f"{_amount(limit.sustained_per_hour, sampling.unit)} an hour for good."
        )
    if sampling.spent_usd > 0:
        yield f"Spent since the process began: {_amount(sampling.spent_usd, 'usd')}."


def _judge_quality(state: ServiceState) -> Iterator[str]:
    def value(name: str) -> float | None:
        return state.value(name, judge=state.judge)

    saved = [
        f"{mean['efficiency']:.2f} ({mean['window']})"
        for mean in state.means
        if mean["signal"] == "hallucination"
    ]
    yield (
        f"Predictions of the judge's verdicts: AUROC {_number(value(names.BUILTIN_AUROC))}, by the "
        f"built-in judge's risk alone {_number(value(names.UNTRAINED_AUROC))} (0.5 is chance); "
        f"judged answers needed, against a plain sample: {', '.join(saved) or 'not known'}."
    )
    if state.learned is not None:
        yield from _learned(state.learned)
    residual = _number(value(names.CALIBRATION_RESIDUAL), "+.3f")
    yield f"Calibration residual on the riskiest fifth: {residual}."
    anchors = value(names.ANCHORS)
    yield (
        f"Reference answers: {f'{anchors:.0f}' if anchors else 'none yet'}, flipped: "
        f"{_share(value(names.ANCHOR_FLIP_RATE))}."
    )
    for labels, is_cause in state.each(names.ALARM_CAUSE, judge=state.judge):
        if is_cause:
            cause = {"judge": "the judge", "application": "the application"}.get(labels["cause"])
            yield (
                f"What explains the active alarm: {cause or 'not yet known'} "
                f"({value(names.ALARM_CAUSE_FLIPPED) or 0:.0f} of "
                f"{value(names.ALARM_CAUSE_REREAD) or 0:.0f} old answers that were fine flipped "
                "when they were read again; a cause is wrong for at most 1 alarm in 20)."
            )
    breaker = value(names.JUDGE_BREAKER_STATE)
    if breaker:
        pause = "is tried with one reading at a time" if breaker < 2 else "is left alone"
        yield f"Its provider fails and {pause}."
    labels_by_people = state.value(names.HUMAN_LABELS)
    if labels_by_people:
        corrected = value(names.CORRECTED_RATE)
        interval = _range(
            value(f"{names.CORRECTED_RATE}_lower"), value(f"{names.CORRECTED_RATE}_upper")
        )
        yield f"People's labels: {labels_by_people:.0f}; " + (
            "too few for a corrected rate."
            if corrected is None
            else f"corrected rate {_share(corrected)} [{interval}]."
        )


def _learned(learned: Learned) -> Iterator[str]:
    saved = learned.saved
    worth = "what that saves is not known yet"
    if saved is not None:
        does = "saves" if saved >= 0 else "costs"
        worth = f"that {does} {_share(abs(saved))} of the verdicts, against the risk alone"
    yield (
        f"Learned from {learned.verdicts:,.0f} verdicts, trusted to {_share(learned.trust)}; "
        f"{worth}."
    )
    if learned.coefficients:
        weights = "; ".join(f"{name} {value:+.2f}" for name, value in learned.coefficients.items())
        yield f"What tells most (+: rather bad): {weights}."


def _alarms(state: ServiceState) -> Table:
    table = figures_table("signal", "kind", "% of threshold", "objective", "state")
    calm = 0
    for alarm in state.alarms:
        objective = alarm["objective"]
        is_rising = alarm["active"] or alarm["rising_since_s"] is not None
        if alarm["kind"] == "slice" and not is_rising:
            calm += 1
            continue
        table.add_row(
            _called(alarm),
            alarm["kind"],
            _percent(alarm["evidence_days"] / (state.threshold_days or math.inf)),
            "-" if objective is None else _limit(objective, alarm["signal"]),
            _alarm_state(alarm),
        )
    if calm:
        table.add_row(f"{calm} slices of the traffic", "slice", "-", "-", "quiet")
    return table


def _limit(objective: float, signal: str) -> str:
    return f"{2 * objective - 1:+.4g}" if is_difference(signal) else f"{objective:.4g}"


def _called(alarm: Mapping[str, Any]) -> str:
    name = slice_of(alarm["signal"]) or str(alarm["signal"])
    return f"{name} ({alarm['title']})" if "title" in alarm else name


def _alarm_state(alarm: Mapping[str, Any]) -> str:
    if alarm["active"]:
        since = alarm["since_s"]
        when = "" if since is None else f" since {datetime.fromtimestamp(since, UTC):%m-%d %H:%M}Z"
        return f"ACTIVE{when}"
    if alarm["objective"] is None:
        return f"learning, {100 * alarm['learned']:.0f} % done"
    return "quiet"


def _early_warning(state: ServiceState) -> Iterator[str]:
    evidence_s = state.value(names.EARLY_WARNING_EVIDENCE_SECONDS)
    if evidence_s is not None:
        percent = _percent(evidence_s / (EARLY_WARNING_DAYS * DAY_S))
        yield (
            f"Early warning, by the built-in judge's score: {percent} % of its threshold. "
            "It raises the sampling and never pages."
        )


def _input(state: ServiceState) -> Iterator[str]:
    reference = state.value(names.REFERENCE_RATIO)
    if reference is None:
        yield "Not compared with anything yet."
    elif reference < 1:
        yield f"The reference of questions and retrievals is {_share(reference)} collected."
    else:
        yield "Compared with the frozen reference of questions and retrievals."
    ratios = [
        f"{signal} {_share(ratio)}"
        for signal in _INPUTS
        if (ratio := state.mean_of_input(signal)) is not None
    ]
    if ratios:
        yield f"Within a day: {', '.join(ratios)}."


def _planning(state: ServiceState) -> Table:
    rows = state.planning
    delays = max((row.delays for row in rows), key=len, default=())
    unit = "" if state.sampling is None else state.sampling.unit
    table = figures_table(
        "budget",
        "rate",
        "judged/h",
        f"{unit or 'cost'}/h",
        "± 1h",
        "± 24h",
        *(f"to {100 * delay.mean:.3g} %" for delay in delays),
    )
    for row in rows:
        table.add_row(*_planning_cells(row))
    return table


def _planning_cells(row: PlanningRow) -> Iterator[str]:
    yield row.budget
    yield f"{100 * row.rate:.3g} %"
    yield f"{row.judged_per_hour:,.0f}"
    yield "-" if row.cost_per_hour is None else _short(row.cost_per_hour)
    yield _share(row.half_width_1h)
    yield _share(row.half_width_24h)
    for delay in row.delays:
        yield "never" if delay.hours is None else _hours(delay.hours)


def _planning_notes(state: ServiceState) -> Iterator[str]:
    sampling, rows = state.sampling, state.planning
    if not rows:
        if sampling is None:
            yield "How many answers arrive is not known without a judge; say --answers-per-hour."
        else:
            yield "Nothing arrives just now; say --answers-per-hour."
        return
    yield (
        "±: half the 95 % interval of the hallucination rate as it is, in windows that are filled."
    )
    if any(row.delays for row in rows):
        yield (
            "to ...: how long its alarm takes on average if the rate jumps to twice, or four "
            "times, the objective (docs/statistics.md)."
        )
    if sampling is not None and any(
        row.budget == "x1" and row.rate == sampling.judge_rate for row in rows
    ):
        yield (
            f"sample.rate is {sampling.judge_rate:g}, which the budget bears: a larger budget "
            "alone changes nothing."
        )
    alarm = state.hallucination_alarm
    if alarm is None:
        yield "There is no alarm on the hallucination rate (setting alarms)."
    elif alarm["objective"] is None:
        yield (
            f"The objective is being learned, {100 * alarm['learned']:.0f} % done: "
            f"{LEARNED_FROM:,} verdicts and whole days; until then only a spike far above what was "
            "seen raises an alarm. The setting objectives ends that."
        )


def _share(value: float | None) -> str:
    if value is None:
        return "not known"
    percent = 100 * value
    return f"{percent:.2g} %" if 0 < percent < 1 else f"{percent:.1f} %"


def _percent(share: float) -> str:
    percent = 100 * share
    return f"{percent:.0f}" if percent >= 1 else f"{percent:.1g}"


def _range(low: float | None, high: float | None) -> str:
    return "-" if low is None or high is None else f"{100 * low:.1f}, {100 * high:.1f}"


def _number(value: float | None, form: str = ".2f") -> str:
    return "not known yet" if value is None else format(value, form)


def _hours(value: float) -> str:
    if value < 2:
        return f"{60 * value:.0f} min" if 60 * value >= 2 else f"{3600 * value:.0f} s"
    return f"{value:.1f} h" if value < 72 else f"{value / 24:.1f} d"


def _amount(value: float, unit: str) -> str:
    return f"{_short(value)} USD" if unit == "usd" else f"{value:,.0f} {unit}"


def _short(value: float) -> str:
    return f"{value:,.2f}" if value >= 1 else f"{value:.2g}"


def _by_cause(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{n:,} {cause}" for cause, n in sorted(counts.items()))
