"""`ragmonitor rollout`: waits until live traffic decides whether a version may be rolled out."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, replace
from typing import Final

from ragmonitor.causes.versions import VersionDifference
from ragmonitor.cli.monitor_client import RunningMonitor
from ragmonitor.cli.options import RolloutOptions
from ragmonitor.cli.terminal import print_json, say
from ragmonitor.runtime.addresses import shown
from ragmonitor.runtime.durations import duration_s
from ragmonitor.runtime.errors import InputError
from ragmonitor.stats.comparison import Decision

EXIT: Final[dict[Decision, int]] = {"better": 0, "equivalent": 3, "worse": 4, "undecided": 5}
EVERY_S: Final = 10.0
"""Between two looks."""


def run(
    options: RolloutOptions,
    *,
    wait: Callable[[float], None] = time.sleep,
    clock: Callable[[], float] = time.monotonic,
) -> int:
    """Wait for a decision, print it, and return its exit code.

    Args:
        options: The versions, and the address of a monitor of either.
        wait: Waits for some seconds.
        clock: Measures how long this has waited.

    Raises:
        RagMonitorError: A duration or an address is wrong.
    """
    if options.candidate == options.baseline:
        raise InputError(f"--candidate and --baseline are both {options.candidate!r}")
    timeout_s = duration_s(options.timeout, "--timeout")
    monitor = RunningMonitor(options.address)
    began, last_shown = clock(), ""
    while True:
        found, why = _look(monitor, options)
        decision = "undecided" if found is None else found.decision(options.max_worse)
        waited_s = clock() - began
        if decision != "undecided" or waited_s >= timeout_s:
            break
        if why != last_shown and not options.json_output:
            say(f"waiting: {why}")
        last_shown = why
        wait(min(EVERY_S, timeout_s - waited_s))
    exit_code = EXIT[decision]
    if options.json_output:
        asked = ("service", "by", "candidate", "baseline", "signal", "max_worse")
        print_json(
            {
                "decision": decision,
                "exit_code": exit_code,
                **{name: getattr(options, name) for name in asked},
                "comparison": None if found is None else asdict(found),
                "reason": why if decision == "undecided" else None,
                "waited_s": round(waited_s, 1),
            }
        )
        return exit_code
    text = f"{decision}: {options.candidate} against {options.baseline}"
    text += "" if found is None else f": {found}"
    say(f"{text}; {why}" if decision == "undecided" else text)
    return exit_code


def _look(monitor: RunningMonitor, options: RolloutOptions) -> tuple[VersionDifference | None, str]:
    """Return the difference that is served, and why there may be no decision yet."""
    try:
        found = _difference(monitor, options)
    except (InputError, ValueError, KeyError, TypeError, AttributeError) as error:
        return None, str(error)
    if found is not None:
        return found, "the interval is still too wide"
    return None, (
        f"no verdicts yet of {options.by} {options.candidate!r} and {options.baseline!r} "
        f"on {options.signal} at the same time"
    )


def _difference(monitor: RunningMonitor, options: RolloutOptions) -> VersionDifference | None:
    """Return the difference that a monitor serves. All that share its store serve the same."""
    record = next(
        (each for each in monitor.numbers() if each.get("service") == options.service), None
    )
    if record is None:
        raise InputError(f"{shown(monitor.url)} serves no service {options.service!r}")
    wanted = options.by, options.signal, {options.candidate, options.baseline}
    for served in record.get("records", {}).get("versions", ()):
        each = VersionDifference(**served)
        if (each.by, each.signal, {each.candidate, each.baseline}) != wanted:
            continue
        if each.candidate == options.candidate:
            return each
        return replace(
            each,
            candidate=each.baseline,
            baseline=each.candidate,
            difference=-each.difference,
            lower=-each.upper,
            upper=-each.lower,
        )
    return None
