"""`ragmonitor status`: shows a running monitor on one screen."""

from __future__ import annotations

import contextlib
import time
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from ragmonitor.cli.monitor_client import Page, address, numbers
from ragmonitor.cli.monitor_options import StatusOptions
from ragmonitor.cli.terminal import (
    FINE,
    SOMETHING_WRONG,
    accounted_for,
    print_json,
    say,
)
from ragmonitor.export.content import finite
from ragmonitor.records import AlarmSpan, is_builtin, is_difference
from ragmonitor.runtime.addresses import shown
from ragmonitor.runtime.errors import InputError
from ragmonitor.runtime.printable import printable
from ragmonitor.semconv import metrics as names

WINDOW: Final = "1h"
"""The window of the rates."""
LEAST_SHOWN: Final = 0.0005
EVERY_S: Final = 2.0
SETTLE_S: Final = 20.0
"""An answer that waits in no queue and has no outcome after this time is unaccounted for."""
MAX_WIDTH: Final = 110
MAX_RATES: Final = 12
MAX_ALARMS: Final = 4
MAX_NEWEST: Final = 20
FIRST: Final = ("hallucination", "faithfulness", "refusal")
BAD: Final = ("contradicted", "absent")


def run(options: StatusOptions) -> int:
    """Show the monitor, and return the exit code.

    Raises:
        RagMonitorError: Nothing answers at the address, or it is not a monitor.
    """
    reader = Reader(options)
    if options.watch:
        return _watch(reader)
    status = reader.read()
    until_s = time.monotonic() + SETTLE_S
    captured = [each["answers"]["captured"] for each in status["services"]]
    while _is_behind(status, captured) and time.monotonic() < until_s:
        time.sleep(0.5)
        status = reader.read()
    is_settled = not _is_behind(status, captured)
    if options.json_output:
        print_json(status | {"all_accounted_for": is_settled})
    else:
        _print(lines(status, is_settled=is_settled))
    has_alarm = any(a["active"] for each in status["services"] for a in each["alarms"])
    return SOMETHING_WRONG if has_alarm or not is_settled else FINE


def _is_behind(status: Mapping[str, Any], captured: Sequence[int]) -> bool:
    """Return whether some of the answers that were captured then have no outcome now."""
    answers = [each["answers"] for each in status["services"]]
    return any(
        sum(now["outcomes"].values()) + now["waiting"] < then
        for now, then in zip(answers, captured, strict=False)
    )


def _watch(reader: Reader) -> int:
    """Print the screen, then new answers as they come, and the screen anew when alarms change."""
    shown_alarms: list[bool] | None = None
    seen: deque[str] | None = None
    problem = ""
    with contextlib.suppress(KeyboardInterrupt):
        while True:
            try:
                status, problem = reader.read(), ""
            except InputError as error:
                if str(error) != problem:
                    say(str(error))
                problem = str(error)
                time.sleep(EVERY_S)
                continue
            alarms = [alarm["active"] for each in status["services"] for alarm in each["alarms"]]
            if alarms != shown_alarms:
                shown_alarms = alarms
                _print(lines(status))
            if seen is None:  # an answer that was there before is not new
                seen = deque((each["id"] for each in reader.newest), maxlen=10_000)
            new = [each for each in reader.newest if each["id"] not in seen]
            seen.extend(each["id"] for each in new)
            _print(_one_line(_answer_line(_brief(each))) for each in new)
            time.sleep(EVERY_S)
    return FINE


def _print(texts: Iterable[str]) -> None:
    for text in texts:
        print(text, flush=True)  # noqa: T201


class Reader:
    """Reads the state of a monitor, and its page where that is served."""

    def __init__(self, options: StatusOptions) -> None:
        """Read nothing yet."""
        self._url = address(options.address)
        self._page = Page(options.address)
        self.newest: list[dict[str, Any]] = []
        """The newest answers, the oldest of them first."""

    def read(self) -> dict[str, Any]:
        """Return what is shown.

        Raises:
            InputError: Nothing answers, or it is not a monitor.
        """
        records = numbers(self._url)
        page: dict[str, Any] = {}
        self.newest, problem = [], ""
        try:
            page = self._page.json("state.json", "worst", "incidents", "service")
            self.newest = self._page.answers(order="newest", n=MAX_NEWEST)["answers"][::-1]
        except InputError as error:
            problem = str(error)
        services = [_service(record) for record in records]
        for each in services:
            if each["service"] == page.get("service"):
                incidents = page.get("incidents") or [{}]
                newest = incidents[0].get("id")
                each["worst"] = [_brief(answer) for answer in page["worst"]]
                each["mute"] = page.get("mute")
                each["incident"] = newest and f"{self._page.url}incidents/{newest}"
        return {"address": shown(self._url), "services": services, "page_problem": problem}


def _brief(answer: Mapping[str, Any]) -> dict[str, Any]:
    """Return an answer with its worst sentence, where texts are served."""
    known = {key: answer.get(key) for key in ("id", "trace_id", "diagnosis", "question")}
    return known | {"sentence": marked(answer)}


def marked(answer: Mapping[str, Any]) -> str:
    """Return the worst sentence of an answer; empty: none is marked, or texts are not served."""
    bad = [each for each in answer.get("answer") or () if each.get("verdict") in BAD]
    worst: Mapping[str, Any] = min(bad, key=lambda each: BAD.index(each["verdict"]), default={})
    return "".join(str(part[0]) for part in worst.get("parts", ()))


def _service(record: Mapping[str, Any]) -> dict[str, Any]:
    series = [(each["name"], each["labels"], each["value"]) for each in record["series"]]

    def of(name: str) -> Iterator[tuple[dict[str, str], float]]:
        return ((labels, value) for found, labels, value in series if found == name)

    def total(name: str) -> float:
        return sum(value for _, value in of(name))

    rates = [
        {"signal": each["signal"], "judge": each["judge"]}
        | {key: each[key] for key in ("mean", "lower", "upper", "effective_n", "coverage")}
        for each in record["numbers"]
        if each["window"] == WINDOW and not each["dimension"]
    ]
    rates.sort(key=lambda each: FIRST.index(each["signal"]) if each["signal"] in FIRST else 9)
    causes = {labels["judge"]: labels["cause"] for labels, n in of(names.ALARM_CAUSE) if n}
    days = record["threshold_days"]
    alarms = [
        {key: each[key] for key in ("signal", "judge", "kind", "active", "since_s", "span")}
        | {
            "evidence": each["evidence_days"] / days if days else None,
            "objective": each["objective"],
            "higher_is_better": each["higher_is_better"],
            "cause": causes.get(each["judge"]) if each["active"] else None,
        }
        for each in record["alarms"]
    ]
    alarms.sort(key=lambda each: (not each["active"], -(each["evidence"] or 0.0)))
    asked = {labels["judge"]: value for labels, value in of(names.MAX_SAMPLING_RATE)}
    levels = {(x["unit"], x["per"]): value for x, value in of(names.BUDGET_LEVEL)}
    captured = round(total(f"{names.INTERACTIONS}_total"))
    info = next((labels["version"] for labels, _ in of(names.SERVICE_INFO)), "")
    status = {
        "service": record["service"],
        "service_version": info,
        "ragmonitor": record["version"],
        "rates": rates,
        "alarms": alarms,
        "sampling": [
            {"judge": x["judge"], "rate": rate, "asked": asked.get(x["judge"], 1.0)}
            for x, rate in of(names.SAMPLING_RATE)
        ],
        "answers_per_second": total(names.ARRIVALS),
        "spent_usd": total(f"{names.JUDGE_COST_USD}_total"),
        "budget": [
            x | {"limit": limit, "left_now": levels.get((x["unit"], x["per"]), 0.0)}
            for x, limit in of(names.BUDGET_LIMIT)
        ],
        "providers_down": [x["judge"] for x, state in of(names.JUDGE_BREAKER_STATE) if state],
        "answers": {
            "captured": captured,
            "outcomes": _outcomes(of(f"{names.EVALUATIONS}_total")),
            "waiting": round(total(names.QUEUE_DEPTH)),
        },
        "dropped": {x["reason"]: round(n) for x, n in of(f"{names.DROPPED}_total") if n},
    }
    return dict(finite(status))


def _outcomes(evaluations: Iterator[tuple[dict[str, str], float]]) -> dict[str, int]:
    """Return how many answers had which outcome, by the judge that is asked beside the built-in.

    Every captured answer has one outcome of each evaluator. The evaluator with the fewest is
    taken: what one of them lacks is not hidden by the others.
    """
    found: dict[tuple[bool, str], Counter[str]] = {}
    for labels, n in evaluations:
        key = is_builtin(labels["judge"]), labels["evaluator"]
        found.setdefault(key, Counter())[labels["outcome"]] += round(n)
    judged = {key: each for key, each in found.items() if not key[0]} or found
    return min(judged.values(), key=Counter.total, default=Counter())


def lines(status: Mapping[str, Any], *, is_settled: bool | None = None) -> Iterator[str]:
    """Return the screen, line by line, without commands to the terminal.

    Args:
        status: What a `Reader` has read.
        is_settled: Whether every answer has an outcome; None: unknown.
    """
    for each in status["services"]:
        yield from map(_one_line, _lines(each, is_settled=is_settled))
        if "worst" not in each:
            yield "page: not read, so no sentences and no incident: set server.ui and its token"


def _one_line(text: str) -> str:
    line = printable(text)
    return line if len(line) <= MAX_WIDTH else f"{line[: MAX_WIDTH - 1]}…"


def _lines(now: Mapping[str, Any], *, is_settled: bool | None) -> Iterator[str]:
    version = f" {now['service_version']}" if now["service_version"] else ""
    yield f"{now['service']}{version} (ragmonitor {now['ragmonitor']})"
    active = [each for each in now["alarms"] if each["active"]]
    yield f"{len(active)} of {len(now['alarms'])} alarms active"
    for alarm in active[:MAX_ALARMS]:
        yield from _alarm_lines(alarm)
    if len(active) > MAX_ALARMS:
        yield f"  and {len(active) - MAX_ALARMS} more: --json lists all"
    yield f"rates of {WINDOW}           judge               mean  95 % interval     sample observed"
    for rate in now["rates"][:MAX_RATES]:
        name = rate["signal"].replace("_", " ")
        scale = f"{_percent(rate['lower'])} to {_percent(rate['upper'])}"
        yield (
            f"  {name:<20.20} {rate['judge']:<16.16} {_percent(rate['mean']):>6}  {scale:<17} "
            f"{rate['effective_n'] or 0:>6,.0f}  {_percent(rate['coverage'])}"
        )
    if len(now["rates"]) > MAX_RATES:
        yield f"  and {len(now['rates']) - MAX_RATES} more: --json lists all"
    yield from _sampling_lines(now)
    yield from _answer_lines(now, is_settled=is_settled)


def _alarm_lines(alarm: Mapping[str, Any]) -> Iterator[str]:
    since = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(alarm["since_s"] or 0.0))
    limit, bound = alarm["objective"], "learned"
    if limit is not None:
        shown_limit = f"{2 * limit - 1:+.3g}" if is_difference(alarm["signal"]) else _percent(limit)
        bound = f"at {'least' if alarm['higher_is_better'] else 'most'} {shown_limit}"
    span = alarm["span"] and AlarmSpan(**alarm["span"]).of(alarm["signal"])
    yield f"  ALARM {alarm['signal']} ({alarm['judge']}): raised {since}"
    yield f"    evidence {_percent(alarm['evidence'])} of the threshold; limit {bound}"
    yield f"    {span or 'no span is known'}; cause: {alarm['cause'] or 'not yet known'}"


def _sampling_lines(now: Mapping[str, Any]) -> Iterator[str]:
    speed = f"{now['answers_per_second']:.3g} answers/s"
    if not now["sampling"]:
        yield f"sampling: the built-in judge reads every answer, at {speed}; no judge is sampled"
    for each in now["sampling"]:
        rate, asked = _percent(each["rate"]), _percent(each["asked"])
        if each["rate"] < 0.995 * each["asked"]:
            text = f"the budget permits {rate} at {speed}; asked: {asked}"
        else:
            text = f"{rate}, as asked, at {speed}"
        yield f"sampling ({each['judge']}): {text}"
    if now.get("mute"):
        cause, detail = now["mute"]["cause"].replace("_", " "), now["mute"]["detail"]
        yield f"NOT READING: {cause}{f': {detail}' if detail else ''}"
    if now["providers_down"]:
        yield f"NOT READING: the provider of {', '.join(now['providers_down'])} fails"
    limits = [
        f"{_amount(x['limit'], x['unit'])} per {x['per']}, of which "
        f"{_amount(x['left_now'], x['unit'])} may be spent now"
        for x in now["budget"]
    ]
    yield (
        f"money: {_amount(now['spent_usd'], 'usd')} spent since the start; "
        f"budget: {'; '.join(limits) or 'none'}"
    )


def _answer_lines(now: Mapping[str, Any], *, is_settled: bool | None) -> Iterator[str]:
    answers = now["answers"]
    outcomes = dict(answers["outcomes"])
    scored = outcomes.pop("scored", 0)
    under_way = answers["captured"] - scored - sum(outcomes.values())
    text = "answers" if is_settled is None else f"answers, {accounted_for(is_complete=is_settled)}"
    text += f": {answers['captured']:,} captured = {scored:,} scored"
    if under_way:
        text += f" + {under_way:,} under way"
    text += f" + {sum(outcomes.values()):,} not scored{_by_reason(outcomes)}"
    yield text
    yield f"dropped: {sum(now['dropped'].values()):,}{_by_reason(now['dropped'])}"
    for each in now.get("worst", ()):
        yield _answer_line(each)
    if "incident" in now:
        yield f"newest incident: {now['incident'] or 'none'}"


def _by_reason(counts: Mapping[str, int]) -> str:
    parts = [f"{reason} {n:,}" for reason, n in sorted(counts.items(), key=lambda x: -x[1])]
    return f" ({', '.join(parts)})" if parts else ""


def _answer_line(answer: Mapping[str, Any]) -> str:
    quote = f"»{answer['sentence']}«" if answer["sentence"] else "no sentence is marked"
    name = answer["question"] or answer["trace_id"] or answer["id"]
    return f"  {answer['diagnosis'] or 'not judged'}: {quote} to {name}"


def _percent(share: float | None) -> str:
    if share is None:
        return "-"
    return f"{100 * share:.3g} %" if share >= LEAST_SHOWN or not share else "0 %"


def _amount(amount: float, unit: str) -> str:
    return f"${amount:.4g}" if unit == "usd" else f"{amount:,.0f} {unit}"
