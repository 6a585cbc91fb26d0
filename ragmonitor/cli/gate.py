"""`ragmonitor gate`: waits until it is decided whether a version may be rolled out."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any, Final
from urllib.parse import urlencode

from ragmonitor import metrics
from ragmonitor.addresses import shown
from ragmonitor.causes.arms import SLOT_S, Arm, Arms, Sums
from ragmonitor.causes.comparison import (
    FIELDS,
    MIN_COVERAGE,
    MIN_JUDGED,
    Comparison,
    Decision,
    compare,
)
from ragmonitor.causes.version_sums import AMOUNTS
from ragmonitor.cli.monitor_client import address, numbers, served
from ragmonitor.cli.options import GateOptions
from ragmonitor.cli.terminal import FINE, print_json, say
from ragmonitor.durations import duration_s
from ragmonitor.errors import InputError
from ragmonitor.evaluators import table
from ragmonitor.stats.signals import FROM_ASSESSMENT

EXIT: Final[dict[Decision, int]] = {"better": 0, "equivalent": 3, "worse": 4, "undecided": 5}
OF_LIVE: Final = (
    "service",
    "candidate",
    "max_worse",
    "by",
    "timeout",
    "every",
    "address",
    "prometheus",
)
"""The options that count for live versions alone."""
OF_GOLDENS: Final = (
    "url",
    "callable",
    "question_field",
    "answer_path",
    "contexts_path",
    "history_field",
    "header",
    "max_drop",
    "save",
    "junit",
    "markdown",
    "repeat",
    "judge",
    "budget_usd",
    "budget_tokens",
    "answer_timeout",
    "concurrency",
)
"""The options that count with golden questions alone."""
FIRST_SCRAPE_S: Final = 60.0
"""Prometheus may not have scraped a process for so long after its first answer."""
MAX_WINDOW_S: Final = 7 * 86_400.0
"""Prometheus is asked for a baseline's last seven days at most."""
_ACCEPTED: Final[tuple[Decision, ...]] = ("better", "equivalent", "undecided")
"""Best first."""


@dataclass(slots=True, kw_only=True)
class Reading:
    """The sums that the sources have at one moment."""

    sums: tuple[Sums, Sums] | None = None
    """The sums of the candidate and of its baseline; None: one of them is not known there."""
    not_concurrent: str = ""
    """Why the sums are not of the same time; then the hours may differ, and nothing is decided."""
    higher_is_better: bool | None = None
    problems: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class GateDecision:
    """What was decided of a candidate, and by what."""

    options: GateOptions
    decision: Decision
    comparison: Comparison | None
    """None: no verdicts of both versions are known."""
    why: str
    """What a decision still lacks."""
    waited_s: float

    @property
    def exit_code(self) -> int:
        """Of `ragmonitor gate`: 0 for what is accepted."""
        accepted = _ACCEPTED[: _ACCEPTED.index(self.options.accept or "better") + 1]
        return FINE if self.decision in accepted else EXIT[self.decision]

    def as_json(self) -> dict[str, Any]:
        """Return an object for JSON."""
        options, comparison = self.options, self.comparison
        return {
            "decision": self.decision,
            "exit_code": self.exit_code,
            "service": options.service,
            "by": options.by,
            "candidate": options.candidate,
            "baseline": options.baseline,
            "signal": options.signal,
            "max_worse": options.max_worse,
            "comparison": None if comparison is None else asdict(comparison),
            "reason": self.why if self.decision == "undecided" else None,
            "waited_s": round(self.waited_s, 1),
        }

    def __str__(self) -> str:
        """Return it in a line."""
        options, comparison = self.options, self.comparison
        text = f"{self.decision}: {options.candidate} against {options.baseline}"
        if comparison is not None:
            text += f": {comparison.said(options.signal or 'hallucination')}"
        return f"{text}; {self.why}" if self.decision == "undecided" else text


def run(
    options: GateOptions,
    *,
    wait: Callable[[float], None] = time.sleep,
    clock: Callable[[], float] = time.monotonic,
) -> int:
    """Wait for a decision, say it, and return its exit code.

    Raises:
        RagMonitorError: A duration or an address is none, or an option is missing.
    """
    last_shown = ""

    def tell(now: GateDecision) -> None:
        nonlocal last_shown
        if now.why != last_shown and not options.json_output:
            last_shown = now.why
            say(f"waiting: {now.why}")

    decided = decide(options, undecided=tell, wait=wait, clock=clock)
    if options.json_output:
        print_json(decided.as_json())
    else:
        say(str(decided))
    return decided.exit_code


def decide(
    options: GateOptions,
    *,
    undecided: Callable[[GateDecision], object],
    wait: Callable[[float], bool | None],
    clock: Callable[[], float] = time.monotonic,
) -> GateDecision:
    """Wait for a decision and return it.

    Args:
        options: Which versions, and where their numbers are.
        undecided: Told of each look that decided nothing and is not the last.
        wait: Waits so many seconds at most; returns whether the next look is to be the last.
        clock: Of how long was waited.

    Raises:
        RagMonitorError: A duration or an address is none, or an option is missing.
    """
    options = _checked(options)
    timeout_s = duration_s(options.timeout, "--timeout")
    every_s = duration_s(options.every, "--every")
    read, began = _reader(options), clock()
    is_last: bool | None = False
    while True:
        reading = read()
        comparison = None
        if reading.sums is not None:
            comparison = compare(*reading.sums, is_share=options.signal not in AMOUNTS)
        is_higher = reading.higher_is_better
        if is_higher is None:
            is_higher = _is_higher_better(options.signal)
        decision: Decision = "undecided"
        if comparison is not None and not reading.not_concurrent:
            decision = comparison.decision(options.max_worse, higher_is_better=is_higher)
        now = GateDecision(
            options=options,
            decision=decision,
            comparison=comparison,
            why=_why(options, reading, comparison),
            waited_s=clock() - began,
        )
        if decision != "undecided" or is_last or now.waited_s >= timeout_s:
            return now
        undecided(now)
        is_last = wait(min(every_s, timeout_s - now.waited_s))


def _checked(options: GateOptions) -> GateOptions:
    """Return the options of live versions.

    Raises:
        InputError: One is missing, or is for golden questions, or both versions are one.
    """
    if not (options.service and options.candidate and options.baseline):
        raise InputError("give GOLDENS, or --service, --candidate and --baseline")
    if options.candidate == options.baseline:
        raise InputError(
            f"--candidate and --baseline are both {options.candidate!r}: a version is as good as "
            "itself"
        )
    refuse(options, OF_GOLDENS, "is for golden questions; give their file, too")
    return replace(options, signal=options.signal or "hallucination")


def refuse(options: GateOptions, names: Sequence[str], advice: str) -> None:
    """See that options of the other way to decide have their defaults.

    Raises:
        InputError: One has another value, which would count for nothing.
    """
    for each in fields(options):
        if each.name in names and getattr(options, each.name) != each.default:
            raise InputError(f"--{each.name.replace('_', '-')} {advice}")


def _is_higher_better(signal: str) -> bool:
    return signal not in (*FROM_ASSESSMENT, *AMOUNTS) and not table.lower_is_better(signal)


def _why(options: GateOptions, reading: Reading, comparison: Comparison | None) -> str:
    """Return what a decision still lacks."""
    if reading.problems:
        return "; ".join(reading.problems)
    if reading.sums is None or comparison is None:
        return (
            f"no verdicts yet of {options.by} {options.candidate!r} and {options.baseline!r} on "
            f"{options.signal}"
        )
    if reading.not_concurrent:
        return (
            f"{reading.not_concurrent}: the difference may be that of the hour, and not of the "
            "version"
        )
    for version, mean in (
        (options.candidate, comparison.candidate),
        (options.baseline, comparison.baseline),
    ):
        if mean.judged < MIN_JUDGED:
            judged = math.floor(mean.judged)
            return f"{version!r} has {judged} of {MIN_JUDGED} judged answers while both answered"
        if mean.coverage < MIN_COVERAGE:
            return (
                f"only {100 * mean.coverage:.0f} % of the answers of {version!r} were observed; a "
                f"decision needs {100 * MIN_COVERAGE:.0f} %"
            )
    return "the interval is still too wide"


# --- where the sums come from ---------------------------------------------------------------------


def _reader(options: GateOptions) -> Callable[[], Reading]:
    """Return what reads the sums of now.

    Raises:
        InputError: An address is none.
    """
    if options.prometheus is not None:
        base = address(options.prometheus).removesuffix("/metrics.json")
        return lambda: _of_prometheus(base, options)
    urls = [address(each) for each in options.address or (None,)]
    return lambda: _of_monitors(urls, options)


def _of_monitors(urls: Sequence[str], options: GateOptions) -> Reading:
    """Add up what monitors serve; those that share a state folder serve the same."""
    reading, arms = Reading(), Arms()
    newest: dict[str, tuple[Mapping[str, Any], Mapping[str, Any]]] = {}
    """The record and its versions, by source. Of those that share a folder each may lag behind."""
    for url in urls:
        try:
            records = [each for each in numbers(url) if each.get("service") == options.service]
        except InputError as error:
            reading.problems.append(str(error))
            continue
        if not records:
            reading.problems.append(f"{shown(url)} serves no service {options.service!r}")
        for record in records:
            state = record.get("records", {}).get("versions")
            if state and state["at_s"] >= newest.get(state["source"], (record, state))[1]["at_s"]:
                newest[state["source"]] = record, state
    for newest_record, state in newest.values():
        if options.signal in state["higher_is_better"]:
            reading.higher_is_better = True
        try:
            arms.merge(_arms(newest_record, state, options))
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            reading.problems.append(f"no versions that are understood: {error!r}")
        if not _has_times(newest_record, state):
            reading.not_concurrent = (
                "several processes at one address without a `state` folder do not tell when each "
                "version answered"
            )
    _compare(reading, arms, options)
    return reading


def _compare(reading: Reading, arms: Arms, options: GateOptions) -> None:
    """Note the sums of the slots that both versions share; else of all that is known of them."""
    versions = arms.get(options.by, {})
    if options.candidate not in versions or options.baseline not in versions:
        return
    pair = (options.candidate, options.baseline, options.signal)
    concurrent = None if reading.not_concurrent else arms.concurrent_sums(options.by, *pair)
    if concurrent is None:
        candidate, baseline = (versions[each].total(options.signal) for each in pair[:2])
        reading.sums = candidate, baseline
        reading.not_concurrent = reading.not_concurrent or (
            f"{options.candidate!r} and {options.baseline!r} have not answered at the same time"
        )
    else:
        reading.sums = concurrent


def _has_times(record: Mapping[str, Any], state: Mapping[str, Any]) -> bool:
    """Return whether one endpoint says when each version answered."""
    return bool(state["is_shared"]) or not record["is_shared"]


def _arms(record: Mapping[str, Any], state: Mapping[str, Any], options: GateOptions) -> Arms:
    """Return the versions of one endpoint: by its counters where several processes share it."""
    if _has_times(record, state):
        return Arms.of_json(state["arms"])
    arms = Arms({options.by: {}})
    now_s = time.time()
    for each in record["series"]:
        labels = each["labels"]
        if labels.get("by") != options.by or labels.get("signal") != options.signal:
            continue
        if each["name"] != f"{metrics.VERSION_SUMS}_total":
            continue
        arm = arms[options.by].setdefault(labels["version"], Arm(first_s=now_s, last_s=now_s))
        arm.add(int(now_s // SLOT_S), options.signal, _sums({labels["sum"]: each["value"]}))
    return arms


def _sums(values: Mapping[str, float]) -> Sums:
    """Return sums in the order of `FIELDS` from counters by their label `sum`."""
    return [values.get(name, 0.0) - values.get(f"{name}_negative", 0.0) for name in FIELDS]


def _of_prometheus(base: str, options: GateOptions) -> Reading:
    """Add up what Prometheus has scraped of all processes, since the candidate came."""
    reading, now_s = Reading(), time.time()
    try:
        first = {}
        for version in (options.candidate, options.baseline):
            series = _matcher(metrics.VERSION_FIRST_SEEN, options, version, signal=False)
            values = _query(base, f"min(min_over_time({series}[{MAX_WINDOW_S:.0f}s]))")
            if not values:
                return reading
            first[version] = float(values[0]["value"][1])

        arms = Arms()

        def read(version: str, since_s: float) -> None:
            series = _matcher(f"{metrics.VERSION_SUMS}_total", options, version)
            # So that the first scrape of the version's process lies within.
            window_s = min(MAX_WINDOW_S, now_s - since_s + FIRST_SCRAPE_S)
            slots = max(1, math.ceil(window_s / SLOT_S))
            arm = Arm(first_s=since_s, last_s=now_s)
            for labels, at_s, value in _query_slots(base, series, now_s, slots):
                arm.add(int(at_s // SLOT_S), options.signal, _sums({labels["sum"]: value}))
            arms.setdefault(options.by, {})[version] = arm

        read(options.candidate, first[options.candidate])
        read(options.baseline, first[options.candidate])
        _compare(reading, arms, options)
        if reading.not_concurrent:
            read(options.baseline, first[options.baseline])
            _compare(reading, arms, options)
    except (InputError, ValueError, KeyError, TypeError) as error:
        reading.problems.append(f"Prometheus: {error}")
    return reading


def _matcher(name: str, options: GateOptions, version: str, *, signal: bool = True) -> str:
    labels = {"service": options.service, "by": options.by, "version": version}
    if signal:
        labels["signal"] = options.signal
    # What JSON quotes is a string of PromQL as well.
    pairs = (f"{label}={json.dumps(value)}" for label, value in labels.items())
    return f"{name}{{{','.join(pairs)}}}"


def _query(base: str, expression: str) -> list[dict[str, Any]]:
    """Return the series of an instant query.

    Raises:
        InputError: Nothing answers, or not as Prometheus does.
    """
    return _result(base, "query", {"query": expression})


def _query_slots(
    base: str, series: str, now_s: float, slots: int
) -> Iterator[tuple[Mapping[str, str], float, float]]:
    """Yield the labels, the time and the value of a counter's increase in each slot up to now.

    Raises:
        InputError: As of `_query`.
    """
    parameters = {
        "query": f"sum by (sum) (increase({series}[{SLOT_S}s]))",
        "start": f"{now_s - (slots - 1) * SLOT_S:.3f}",
        "end": f"{now_s:.3f}",
        "step": str(SLOT_S),
    }
    for each in _result(base, "query_range", parameters):
        for at_s, value in each["values"]:
            yield each["metric"], float(at_s), float(value)


def _result(base: str, how: str, parameters: Mapping[str, str]) -> list[dict[str, Any]]:
    body = served(f"{base}/api/v1/{how}?{urlencode(parameters)}")
    try:
        return list(json.loads(body)["data"]["result"])
    except (ValueError, TypeError, KeyError) as error:
        raise InputError(f"{shown(base)} does not answer as Prometheus does") from error
