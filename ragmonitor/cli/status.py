"""`ragmonitor status`: shows a running monitor on one screen."""

from __future__ import annotations

import contextlib
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from ragmonitor.cli.monitor_client import RunningMonitor
from ragmonitor.cli.options import StatusOptions
from ragmonitor.cli.terminal import FINE, SOMETHING_WRONG, accounted_for, print_json, say
from ragmonitor.records import AlarmSpan, is_builtin, is_difference
from ragmonitor.runtime.addresses import shown
from ragmonitor.runtime.errors import InputError
from ragmonitor.runtime.printable import printable
from ragmonitor.semconv import metrics as names

WINDOW: Final = "1h"
"""The window of the rates."""
EVERY_S: Final = 2.0
WAIT_S: Final = 20.0
"""An answer that waits in no queue and has no outcome after this time is unaccounted for."""
MAX_WIDTH: Final = 110
MAX_ROWS: Final = 12
MAX_NEWEST: Final = 20
FIRST: Final = ("hallucination", "faithfulness", "refusal")
BAD: Final = ("contradicted", "absent")


def run(options: StatusOptions) -> int:
    """Show the monitor, and return the exit code.

    Raises:
        RagMonitorError: Nothing answers at the address, or it is not a monitor.
    """
    monitor = RunningMonitor(options.address)
    if options.watch:
        return _watch(monitor)
    records = monitor.numbers()
    captured = [_answers(each)["captured"] for each in records]
    until_s = time.monotonic() + WAIT_S
    while not (is_complete := _is_complete(records, captured)) and time.monotonic() < until_s:
        time.sleep(0.5)
        records = monitor.numbers()
    services = [each | _of_page(monitor, each["service"]) for each in records]
    if options.json_output:
        status = {"services": services, "all_accounted_for": is_complete}
        print_json({"address": shown(monitor.url)} | status)
    else:
        _print(lines(services, is_complete=is_complete))
    has_alarm = any(alarm["active"] for each in records for alarm in each["alarms"])
    return SOMETHING_WRONG if has_alarm or not is_complete else FINE


def _is_complete(records: list[dict[str, Any]], captured: list[int]) -> bool:
    """Return whether the answers that were captured at first have an outcome, or wait."""
    now = [_answers(each) for each in records]
    return all(
        sum(each["outcomes"].values()) + each["waiting"] >= then
        for each, then in zip(now, captured, strict=False)
    )


def _watch(monitor: RunningMonitor) -> int:
    """Print the screen, then new answers as they come, and the screen anew when alarms change."""
    alarms: list[bool] | None = None
    seen: set[str] | None = None
    with contextlib.suppress(KeyboardInterrupt):
        while True:
            try:
                records = monitor.numbers()
                newest = monitor.answers(order="newest", n=MAX_NEWEST)["answers"][::-1]
            except InputError as error:
                say(str(error))
                time.sleep(EVERY_S)
                continue
            now = [alarm["active"] for each in records for alarm in each["alarms"]]
            if now != alarms:
                alarms = now
                _print(lines([each | _of_page(monitor, each["service"]) for each in records]))
            if seen is not None:  # an answer that was there before is not new
                _print(_answer_line(each) for each in newest if each["id"] not in seen)
            seen = {each["id"] for each in newest}
            time.sleep(EVERY_S)
    return FINE


def _print(texts: Iterable[str]) -> None:
    for text in texts:
        line = printable(text)
        line = line if len(line) <= MAX_WIDTH else f"{line[: MAX_WIDTH - 1]}…"
        print(line, flush=True)  # noqa: T201


def _of_page(monitor: RunningMonitor, service: str) -> dict[str, Any]:
    """Return a service's worst answers and newest incident; empty: the page cannot be read."""
    with contextlib.suppress(InputError):
        state = monitor.json("state.json", "worst", "incidents", "service")
        if state["service"] == service:
            incidents = [f"{monitor.page_url}incidents/{each['id']}" for each in state["incidents"]]
            newest = incidents[0] if incidents else None
            return {"worst": state["worst"], "mute": state.get("mute"), "incident": newest}
    return {}


def _series(record: Mapping[str, Any], name: str) -> list[tuple[dict[str, str], float]]:
    """Return the labels and values of a series."""
    return [(each["labels"], each["value"]) for each in record["series"] if each["name"] == name]


def _total(record: Mapping[str, Any], name: str) -> float:
    return sum(value for _, value in _series(record, name))


def _answers(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return how many answers were captured, wait, and had which outcome.

    Every captured answer has one outcome of each evaluator, by the sampled judge if there is one.
    The evaluator with the fewest is taken, so that the others do not hide its gaps.
    """
    found: dict[tuple[bool, str], Counter[str]] = {}
    for labels, n in _series(record, f"{names.EVALUATIONS}_total"):
        key = is_builtin(labels["judge"]), labels["evaluator"]
        found.setdefault(key, Counter())[labels["outcome"]] += round(n)
    judged = {key: each for key, each in found.items() if not key[0]} or found
    fewest: Counter[str] = min(judged.values(), key=Counter.total, default=Counter())
    return {
        "captured": round(_total(record, f"{names.INTERACTIONS}_total")),
        "outcomes": dict(fewest),
        "waiting": round(_total(record, names.QUEUE_DEPTH)),
    }


def lines(services: Iterable[Mapping[str, Any]], *, is_complete: bool | None = None) -> list[str]:
    """Return the screen, line by line.

    Args:
        services: The records that the monitor serves, with the parts of its page.
        is_complete: Whether every answer has an outcome; None: unknown.
    """
    found: list[str] = []
    for record in services:
        version = next((x["version"] for x, _ in _series(record, names.SERVICE_INFO)), "")
        head = " ".join(filter(None, (record["service"], version)))
        found.append(f"{head} (ragmonitor {record['version']})")
        found += _alarm_lines(record)
        found += _rate_lines(record)
        found += _sampling_lines(record)
        found += _answer_lines(record, is_complete=is_complete)
    return found


def _alarm_lines(record: Mapping[str, Any]) -> Iterator[str]:
    active = [each for each in record["alarms"] if each["active"]]
    yield f"{len(active)} of {len(record['alarms'])} alarms active"
    causes = {x["judge"]: x["cause"] for x, n in _series(record, names.ALARM_CAUSE) if n}
    for alarm in active:
        since = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(alarm["since_s"] or 0.0))
        limit, bound = alarm["objective"], "learned"
        if limit is not None:
            is_share = not is_difference(alarm["signal"])
            text = _percent(limit) if is_share else f"{2 * limit - 1:+.3g}"
            bound = f"at {'least' if alarm['higher_is_better'] else 'most'} {text}"
        days = record["threshold_days"]
        evidence = _percent(alarm["evidence_days"] / days if days else None)
        span = alarm["span"] and AlarmSpan(**alarm["span"]).of(alarm["signal"])
        yield f"  ALARM {alarm['signal']} ({alarm['judge']}): raised {since}"
        yield f"    evidence {evidence} of the threshold; limit {bound}"
        yield f"    {span or 'no span is known'}; cause: {causes.get(alarm['judge']) or 'unknown'}"


def _rate_lines(record: Mapping[str, Any]) -> Iterator[str]:
    of_all = [x for x in record["numbers"] if x["window"] == WINDOW and not x["dimension"]]
    of_all.sort(key=lambda x: FIRST.index(x["signal"]) if x["signal"] in FIRST else len(FIRST))
    yield f"rates of {WINDOW}           judge               mean  95 % interval     sample observed"
    for rate in of_all[:MAX_ROWS]:
        name = rate["signal"].replace("_", " ")
        interval = f"{_percent(rate['lower'])} to {_percent(rate['upper'])}"
        yield (
            f"  {name:<20.20} {rate['judge']:<16.16} {_percent(rate['mean']):>6}  {interval:<17} "
            f"{rate['effective_n'] or 0:>6,.0f}  {_percent(rate['coverage'])}"
        )
    if len(of_all) > MAX_ROWS:
        yield f"  and {len(of_all) - MAX_ROWS} more: --json lists all"


def _sampling_lines(record: Mapping[str, Any]) -> Iterator[str]:
    speed = f"{_total(record, names.ARRIVALS):.3g} answers/s"
    sampled = _series(record, names.SAMPLING_RATE)
    if not sampled:
        yield f"sampling: the built-in judge reads every answer, at {speed}; no judge is sampled"
    asked = {x["judge"]: value for x, value in _series(record, names.MAX_SAMPLING_RATE)}
    for labels, rate in sampled:
        wanted = asked.get(labels["judge"], 1.0)
        text = f"{_percent(rate)}, as asked, at {speed}"
        if rate < 0.995 * wanted:
            text = f"the budget permits {_percent(rate)} at {speed}; asked: {_percent(wanted)}"
        yield f"sampling ({labels['judge']}): {text}"
    if mute := record.get("mute"):
        yield f"NOT READING: {mute['cause'].replace('_', ' ')}: {mute['detail']}"
    for labels, state in _series(record, names.JUDGE_BREAKER_STATE):
        if state:
            yield f"NOT READING: the provider of {labels['judge']} fails"
    levels = {(x["unit"], x["per"]): value for x, value in _series(record, names.BUDGET_LEVEL)}
    limits = [
        f"{_amount(limit, x['unit'])} per {x['per']}, of which "
        f"{_amount(levels.get((x['unit'], x['per']), 0.0), x['unit'])} may be spent now"
        for x, limit in _series(record, names.BUDGET_LIMIT)
    ]
    spent = _amount(_total(record, f"{names.JUDGE_COST_USD}_total"), "usd")
    yield f"money: {spent} spent since the start; budget: {'; '.join(limits) or 'none'}"


def _answer_lines(record: Mapping[str, Any], *, is_complete: bool | None) -> Iterator[str]:
    answers = _answers(record)
    outcomes, captured = answers["outcomes"], answers["captured"]
    under_way = captured - sum(outcomes.values())
    scored = outcomes.pop("scored", 0)
    text = f"answers{'' if is_complete is None else f', {accounted_for(is_complete=is_complete)}'}"
    text += f": {captured:,} captured = {scored:,} scored"
    text += f" + {under_way:,} under way" if under_way else ""
    yield f"{text} + {sum(outcomes.values()):,} not scored{_by_reason(outcomes)}"
    dropped = {x["reason"]: round(n) for x, n in _series(record, f"{names.DROPPED}_total") if n}
    yield f"dropped: {sum(dropped.values()):,}{_by_reason(dropped)}"
    if "worst" not in record:
        yield "page: not read, so no sentences and no incident: set server.ui and its token"
        return
    yield from map(_answer_line, record["worst"])
    yield f"newest incident: {record['incident'] or 'none'}"


def _by_reason(counts: Mapping[str, int]) -> str:
    parts = [f"{reason} {n:,}" for reason, n in sorted(counts.items(), key=lambda x: -x[1])]
    return f" ({', '.join(parts)})" if parts else ""


def _answer_line(answer: Mapping[str, Any]) -> str:
    """Return an answer with its worst sentence, where the page serves texts."""
    bad = [each for each in answer.get("answer") or () if each.get("verdict") in BAD]
    worst: Mapping[str, Any] = min(bad, key=lambda each: BAD.index(each["verdict"]), default={})
    sentence = "".join(str(part[0]) for part in worst.get("parts", ()))
    quote = f": »{sentence}«" if sentence else ""
    name = answer.get("question") or answer.get("trace_id") or answer["id"]
    return f"  {answer.get('diagnosis') or 'not judged'}: {name}{quote}"


def _percent(share: float | None) -> str:
    if share is None:
        return "-"
    return f"{100 * share:.3g} %" if share >= 0.0005 or not share else "0 %"


def _amount(amount: float, unit: str) -> str:
    return f"${amount:.4g}" if unit == "usd" else f"{amount:,.0f} {unit}"
