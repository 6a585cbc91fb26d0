"""Says what a running monitor's numbers rest on, and what they would be at other budgets."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from http.client import HTTPException
from typing import TYPE_CHECKING, Any
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit, urlunsplit
from urllib.request import HTTPHandler, HTTPSHandler, OpenerDirector, ProxyHandler, build_opener

from ragmonitor.addresses import shown
from ragmonitor.cli.scraped import Alarm, Mean, Row, Sampling, Scrape, Service, read
from ragmonitor.cli.terminal import FINE, print_json
from ragmonitor.errors import InputError
from ragmonitor.estimation.alarms import LEARNED_FROM
from ragmonitor.settings import Settings

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

HTTP_TIMEOUT_S = 10.0
BYTES_MOST = 64 * 1024 * 1024
METRICS = "/metrics"
_LOCAL = re.compile(r"localhost|127(\.\d+){3}|::1")
_ANY_HOST = ("", "0.0.0.0", "::")  # noqa: S104 - compared with, not listened on
_DEFAULT_PORT = 9464
MINUTES_FROM = 2.0
MINUTES_BELOW_HOURS = 2.0
DAYS_FROM_HOURS = 72.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What to explain."""

    url: str | None
    """None: as the settings say."""
    service: str | None
    judge_rate: float | None
    answers_per_hour: float | None
    json: bool


def run(options: Options) -> int:
    """Read the series, say what they mean, and return the exit code.

    Raises:
        RagMonitorError: Nothing answers, or not as a monitor does; there is no such service.
    """
    url = address(options.url)
    scrape = Scrape(fetched(url))
    services = scrape.services
    if not services:
        raise InputError(
            f"{shown(url)} answers, but serves no series of ragmonitor; "
            "give the address of the monitored application's /metrics"
        )
    if options.service is not None and options.service not in services:
        raise InputError(
            f"{shown(url)} serves no service {options.service!r}, but {', '.join(services)}"
        )
    said = [
        read(
            scrape,
            service,
            judge_rate=options.judge_rate,
            answers_per_hour=options.answers_per_hour,
        )
        for service in services
        if options.service in (None, service)
    ]
    if options.json:
        print_json(
            {
                "url": shown(url),
                "services": [_finite(service.as_json()) for service in said],
            }
        )
    else:
        _tell(shown(url), said)
    return FINE


def address(given: str | None) -> str:
    """Return the address to fetch, from what may be a host and a port only.

    Raises:
        InputError: It is no address of HTTP.
        SettingsError: None is given, and the settings cannot be read.
    """
    if given is None:
        settings = Settings.load()
        host = settings.prometheus_host
        host = "127.0.0.1" if host in _ANY_HOST else f"[{host}]" if ":" in host else host
        return f"http://{host}:{settings.prometheus_port or _DEFAULT_PORT}{METRICS}"
    absolute = given if "://" in given else f"http://{given}"
    try:
        parts = urlsplit(absolute)
        fine = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        fine = False
    if not fine:
        raise InputError(
            f"{shown(absolute)!r} is no address of HTTP, such as http://127.0.0.1:9464/metrics"
        )
    return urlunsplit(parts._replace(path=parts.path if parts.path not in ("", "/") else METRICS))


def fetched(url: str) -> str:
    """Return the text that is served there.

    Raises:
        InputError: Nothing answers, or not with a text.
    """
    named = shown(url)
    try:
        with _opener(url).open(url, timeout=HTTP_TIMEOUT_S) as reply:
            found = reply.read(BYTES_MOST + 1)
    except HTTPError as error:
        error.close()
        raise InputError(f"{named} answers with status {error.code}, not with series") from error
    except (URLError, OSError, HTTPException, ValueError) as error:
        reason = getattr(error, "reason", None) or error
        raise InputError(
            f"nothing answers at {named} ({reason}); is the monitored application running? "
            "It serves /metrics from its first interaction on"
        ) from error
    if len(found) > BYTES_MOST:
        raise InputError(f"{named} serves more than {BYTES_MOST // 2**20} MiB")
    try:
        return str(found, "utf-8")
    except UnicodeDecodeError as error:
        raise InputError(f"{named} serves no text of series") from error


def _opener(url: str) -> OpenerDirector:
    # A proxy that the environment names is for other machines, and knows nothing of this one.
    if _LOCAL.fullmatch(urlsplit(url).hostname or ""):
        return build_opener(ProxyHandler({}), HTTPHandler, HTTPSHandler)
    return build_opener()


def _finite(value: Any) -> Any:
    """Return the same with null for what JSON has no number for."""
    if isinstance(value, dict):
        return {key: _finite(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


# --- for people -----------------------------------------------------------------------------------


def _tell(url: str, services: list[Service]) -> None:
    from rich.console import Console

    console = Console(highlight=False)
    console.print(f"{url}, now", markup=False, soft_wrap=True)
    for said in services:
        console.print()
        _tell_service(console, said)


def _tell_service(console: Console, said: Service) -> None:
    def line(text: str) -> None:
        console.print(text, markup=False, soft_wrap=False)

    version = f" (ragmonitor {said.version})" if said.version else ""
    console.rule(f"{said.service}{version}".replace("[", "\\["), align="left")
    if said.judged:
        line(f"Judge: {said.judge}. It reads a share; the built-in judge reads every answer.")
    else:
        line(
            "NOT JUDGED: no judge is configured. Every number is the built-in judge's opinion "
            f'(judge="{said.judge}"), which sees what words show; see docs/statistics.md.'
        )
    _title(console, "Estimates in %, with 95 % intervals")
    _print(console, _means(said.means))
    if said.means:
        line(
            "Like n: how many answers, drawn evenly and judged, would tell as much. Covers: the "
            "share of the window's answers that the mean speaks of; the interval takes each of "
            "the others for 0 at its lower end and for 1 at its upper."
        )
    _title(console, "What they are made of, since the process began")
    for text in _makeup(said):
        line(text)
    if said.sampling is not None:
        _title(console, "Sampling and money, now")
        for text in _sampling(said.sampling):
            line(text)
        _title(console, "The ruler")
        for text in _health(said):
            line(text)
    _title(console, f"Alarms: evidence, in days; the line is at {_line(said.alarms)}")
    _print(console, _alarms(said.alarms))
    if said.warning_evidence_days is not None:
        line(
            f"Early warning, by the built-in judge: {_days(said.warning_evidence_days)} of 3 days. "
            "It raises the sampling and never pages."
        )
    _title(console, "What comes in")
    for text in _input(said):
        line(text)
    _title(console, "What would happen at other budgets, all else as now")
    if said.outlook:
        _print(console, _outlook(said))
    for text in _footnotes(said):
        line(text)


def _title(console: Console, text: str) -> None:
    console.print()
    console.print(f"[bold]{text}[/]")


def _print(console: Console, table: Table) -> None:
    if table.row_count:
        console.print(table)
    else:
        console.print("none yet", markup=False)


def _table(*columns: str) -> Table:
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE, pad_edge=False)
    for number, column in enumerate(columns):
        # Figures stay whole: a terminal of 80 columns has room for them.
        if number == 0:
            table.add_column(column, overflow="fold")
        else:
            table.add_column(column, justify="right", no_wrap=True)
    return table


def _means(means: tuple[Mean, ...]) -> Table:
    table = _table("signal", "window", "mean", "interval", "like n", "covers")
    for mean in means:
        table.add_row(
            mean.signal,
            mean.window,
            f"{100 * mean.mean:.1f}",
            _range(mean.lower, mean.upper),
            "-" if mean.effective_n is None else f"{mean.effective_n:,.0f}",
            "-" if mean.coverage is None else _share(mean.coverage),
        )
    return table


def _makeup(said: Service) -> Iterator[str]:
    found = said.makeup
    if found is None:
        yield "Nothing was answered yet."
        return
    how = "judged" if said.judged else "read by the built-in judge"
    yield f"{found.answers:,} answers: {found.with_value:,} {how}, with a value."
    if found.predicted:
        yield f"Not drawn: {found.predicted:,}; they enter by what past verdicts predict of them."
    if found.without_value:
        yield f"No value, so in no hallucination rate: {_counts(found.without_value)}."
    if found.without_verdict:
        yield f"No verdict: {_counts(found.without_verdict)}."
    if said.judged:
        yield (
            f"Missing, of what was drawn within a day: {_share(found.missing_ratio)}. What the "
            "last column above leaves out may have been anything: the interval says so."
        )
        yield (
            f"Uncovered: {_share(found.uncovered_ratio)} of the last hour's answers had no chance "
            "to be judged."
        )


def _sampling(found: Sampling) -> Iterator[str]:
    bound = (
        "the setting judge_rate decides" if found.bound_by == "judge_rate" else "the budget decides"
    )
    yield (
        f"Rate {_share(found.rate)} ({bound}), boost x{found.boost:g}; "
        f"{found.arrivals_per_hour:,.0f} answers an hour arrive, "
        f"{found.readings_per_hour:,.0f} are judged."
    )
    if found.expected_cost is None:
        yield "Budget: no reading has been estimated yet." if found.budget else "Budget: none."
    else:
        yield (
            f"A reading costs about {_amount(found.expected_cost, found.unit)}: "
            f"{_amount(found.spent_per_hour or 0.0, found.unit)} an hour at this pace."
        )
    for limit in found.budget:
        yield (
            f"Limit {_amount(limit.limit, found.unit)} per {limit.per}: "
            f"{_amount(limit.level, found.unit)} may be spent at once now, "
            f"{_amount(limit.sustained_per_hour, found.unit)} an hour for good."
        )
    if found.spent_usd > 0:
        yield f"Spent since the process began: {_amount(found.spent_usd, 'usd')}."


def _health(said: Service) -> Iterator[str]:
    health = said.health
    if health is None:
        return
    saved = [
        f"{mean.efficiency:.2f} ({mean.window})"
        for mean in said.means
        if mean.signal == "hallucination" and mean.efficiency is not None
    ]
    yield (
        f"Built-in score: AUROC {_number(health.auroc)} against the judge's verdicts (0.5 is a "
        f"coin); judged answers needed, against a plain sample: {', '.join(saved) or 'not known'}."
    )
    yield f"Calibration residual on the riskiest fifth: {_number(health.residual, '+.3f')}."
    anchors = "none yet" if not health.anchors else f"{health.anchors:.0f}"
    yield (
        f"The judge contradicts itself on {_share(health.flip_rate)} of what it reads twice; "
        f"anchors: {anchors}, flipped: {_share(health.anchor_flip_rate)}."
    )
    if health.cause is not None:
        cause = {"judge": "the judge", "application": "the application"}.get(health.cause)
        yield (
            f"What explains the active alarm: {cause or 'not yet known'} "
            f"({health.flipped or 0:.0f} of {health.reread or 0:.0f} old answers that were fine "
            "flipped when they were read again; a cause is wrong for at most 1 alarm in 20)."
        )
    if health.breaker:
        state = "is tried with one reading at a time" if health.breaker < 2 else "is left alone"
        yield f"Its provider fails and {state}."
    if health.human_labels:
        corrected = (
            "too few for a corrected rate"
            if health.corrected is None
            else f"corrected rate {_share(health.corrected)} "
            f"[{_range(health.corrected_lower, health.corrected_upper)}]"
        )
        yield f"People's labels: {health.human_labels:.0f}; {corrected}."


def _alarms(alarms: tuple[Alarm, ...]) -> Table:
    table = _table("signal", "kind", "days", "tolerate", "state")
    for alarm in alarms:
        table.add_row(
            alarm.signal,
            alarm.kind,
            _days(alarm.evidence_days),
            "-" if alarm.tolerate is None else f"{alarm.tolerate:.4g}",
            _state(alarm),
        )
    return table


def _line(alarms: tuple[Alarm, ...]) -> str:
    return next((f"{alarm.line_days:g}" for alarm in alarms), "-")


def _state(alarm: Alarm) -> str:
    if alarm.active:
        since = alarm.since_s
        when = "" if since is None else f" since {datetime.fromtimestamp(since, UTC):%m-%d %H:%M}Z"
        return f"ACTIVE{when}"
    if alarm.tolerate is None:
        return f"learning, {100 * alarm.learned:.0f} % done"
    return "quiet"


def _input(said: Service) -> Iterator[str]:
    found = said.input
    if found.reference is None:
        yield "Not compared with anything yet."
    elif found.reference < 1:
        yield f"The reference of questions and retrievals is {_share(found.reference)} collected."
    else:
        psi = "not known yet" if found.psi is None else f"{found.psi:.2f}"
        yield (
            "Compared with the frozen reference; stability index of topics, less what chance "
            f"gives: {psi}."
        )
    if found.ratios:
        told = (f"{name} {_share(value)}" for name, value in found.ratios.items())
        yield f"Within a day: {', '.join(told)}."


def _outlook(said: Service) -> Table:
    jumps = max((row.jumps for row in said.outlook), key=len)
    unit = said.sampling.unit if said.sampling is not None else ""
    table = _table(
        "budget",
        "rate",
        "judged/h",
        f"{unit or 'cost'}/h",
        "± 1h",
        "± 24h",
        *(f"to {100 * jump.mean:.3g} %" for jump in jumps),
    )
    for row in said.outlook:
        table.add_row(*_cells(row))
    return table


def _cells(row: Row) -> Iterator[str]:
    yield row.budget
    yield f"{100 * row.rate:.3g} %"
    yield f"{row.judged_per_hour:,.0f}"
    yield "-" if row.cost_per_hour is None else _plain(row.cost_per_hour)
    yield _share(row.half_width_1h)
    yield _share(row.half_width_24h)
    for jump in row.jumps:
        yield "never" if jump.hours is None else _hours(jump.hours)


def _footnotes(said: Service) -> Iterator[str]:
    alarm = next((each for each in said.alarms if each.signal == "hallucination"), None)
    if not said.outlook:
        if said.sampling is None:
            yield "How many answers arrive is not known without a judge; say --answers-per-hour."
        else:
            yield "Nothing arrives just now; say --answers-per-hour."
        return
    yield (
        "±: half the 95 % interval of the hallucination rate as it is, in windows that are filled."
    )
    if any(row.jumps for row in said.outlook):
        yield (
            "to ...: how long its alarm takes on average if the rate jumps to twice, or four "
            "times, what is tolerated (docs/statistics.md)."
        )
    sampling = said.sampling
    if sampling is not None and sampling.judge_rate is None:
        yield (
            "The budget decides now, so that the setting judge_rate cannot be seen: rows are as if "
            "it were 1. Say it with --judge-rate."
        )
    elif sampling is not None and any(
        row.budget == "x1" and row.rate == sampling.judge_rate for row in said.outlook
    ):
        yield (
            f"judge_rate is {sampling.judge_rate:g}, which the budget bears: a larger budget alone "
            "changes nothing."
        )
    if alarm is None:
        yield "There is no alarm on the hallucination rate (setting alarms)."
    elif alarm.tolerate is None:
        yield (
            f"What is tolerated is being learned, {100 * alarm.learned:.0f} % done: "
            f"{LEARNED_FROM:,} verdicts and whole days; until then only a spike far above what was "
            "seen is alarmed. The setting tolerate ends that."
        )


def _share(value: float | None) -> str:
    if value is None:
        return "not known"
    percent = 100 * value
    return f"{percent:.2g} %" if 0 < percent < 1 else f"{percent:.1f} %"


def _range(low: float | None, high: float | None, between: str = ", ") -> str:
    if low is None or high is None:
        return "-"
    return f"{100 * low:.1f}{between}{100 * high:.1f}"


def _number(value: float | None, form: str = ".2f") -> str:
    return "not known yet" if value is None else format(value, form)


def _days(value: float) -> str:
    return f"{value:.1f}" if value >= 1 else f"{value:.2g}" if value >= 0.001 else "0"


def _hours(value: float) -> str:
    if value < MINUTES_BELOW_HOURS:
        return f"{60 * value:.0f} min" if 60 * value >= MINUTES_FROM else f"{3600 * value:.0f} s"
    if value < DAYS_FROM_HOURS:
        return f"{value:.1f} h"
    return f"{value / 24:.1f} d"


def _amount(value: float, unit: str) -> str:
    if unit == "usd":
        return f"{_plain(value)} USD"
    return f"{value:,.0f} {unit}"


def _plain(value: float) -> str:
    return f"{value:,.2f}" if value >= 1 else f"{value:.2g}"


def _counts(counts: Any) -> str:
    return ", ".join(f"{n:,} {cause}" for cause, n in sorted(counts.items()))
