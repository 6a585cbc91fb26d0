"""`ragmonitor rollout`: waits until live traffic decides whether a version may be rolled out."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Final
from urllib.parse import urlencode

from ragmonitor.causes.versions import VersionDifference
from ragmonitor.cli.monitor_client import address, numbers, served
from ragmonitor.cli.monitor_options import RolloutOptions
from ragmonitor.cli.terminal import FINE, print_json, say
from ragmonitor.evaluators import table
from ragmonitor.runtime.addresses import shown
from ragmonitor.runtime.durations import duration_s
from ragmonitor.runtime.errors import InputError
from ragmonitor.semconv import metrics
from ragmonitor.stats.comparison import Decision
from ragmonitor.stats.signals import FROM_ASSESSMENT

EXIT: Final[dict[Decision, int]] = {"better": 0, "equivalent": 3, "worse": 4, "undecided": 5}
_ACCEPTED: Final[tuple[Decision, ...]] = ("better", "equivalent", "undecided")
"""Best first."""
_BOUNDS: Final = {"difference": "mean", "lower": "lower", "upper": "upper"}


@dataclass(frozen=True, slots=True, kw_only=True)
class RolloutDecision:
    """What was decided of a candidate, and by what."""

    options: RolloutOptions
    found: VersionDifference | None
    """None: no verdicts of both versions are known."""
    why: str
    """What a decision still lacks."""
    waited_s: float

    @property
    def decision(self) -> Decision:
        """What may be said for certain."""
        return "undecided" if self.found is None else self.found.decision(self.options.max_worse)

    @property
    def exit_code(self) -> int:
        """Of the command: 0 for what is accepted."""
        accepted = _ACCEPTED[: _ACCEPTED.index(self.options.accept) + 1]
        return FINE if self.decision in accepted else EXIT[self.decision]

    def as_json(self) -> dict[str, Any]:
        """Return an object for JSON."""
        options = self.options
        return {
            "decision": self.decision,
            "exit_code": self.exit_code,
            "service": options.service,
            "by": options.by,
            "candidate": options.candidate,
            "baseline": options.baseline,
            "signal": options.signal,
            "max_worse": options.max_worse,
            "comparison": None if self.found is None else asdict(self.found),
            "reason": self.why if self.decision == "undecided" else None,
            "waited_s": round(self.waited_s, 1),
        }

    def __str__(self) -> str:
        """Return it in a line."""
        text = f"{self.decision}: {self.options.candidate} against {self.options.baseline}"
        if self.found is not None:
            text += f": {self.found}"
        return f"{text}; {self.why}" if self.decision == "undecided" else text


def run(
    options: RolloutOptions,
    *,
    wait: Callable[[float], None] = time.sleep,
    clock: Callable[[], float] = time.monotonic,
) -> int:
    """Wait for a decision, say it, and return its exit code.

    Raises:
        RagMonitorError: A duration or an address is none.
    """
    last_shown = ""

    def tell(now: RolloutDecision) -> None:
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
    options: RolloutOptions,
    *,
    undecided: Callable[[RolloutDecision], object],
    wait: Callable[[float], bool | None],
    clock: Callable[[], float] = time.monotonic,
) -> RolloutDecision:
    """Wait for a decision and return it.

    Args:
        options: Which versions, and where their numbers are.
        undecided: Told of each look that decided nothing and is not the last.
        wait: Waits so many seconds at most; returns whether the next look is to be the last.
        clock: Of how long was waited.

    Raises:
        RagMonitorError: A duration or an address is none.
    """
    if options.candidate == options.baseline:
        raise InputError(
            f"--candidate and --baseline are both {options.candidate!r}: a version is as good as "
            "itself"
        )
    timeout_s = duration_s(options.timeout, "--timeout")
    every_s = duration_s(options.every, "--every")
    read, began = _reader(options), clock()
    is_last: bool | None = False
    while True:
        found, why = None, ""
        try:
            found = read()
        except (InputError, ValueError, KeyError, TypeError, AttributeError) as error:
            why = str(error)
        if not why and found is None:
            why = (
                f"no verdicts yet of {options.by} {options.candidate!r} and {options.baseline!r} "
                f"on {options.signal} at the same time"
            )
        why = why or "the interval is still too wide"
        now = RolloutDecision(options=options, found=found, why=why, waited_s=clock() - began)
        if now.decision != "undecided" or is_last or now.waited_s >= timeout_s:
            return now
        undecided(now)
        is_last = wait(min(every_s, timeout_s - now.waited_s))


# --- where the difference comes from --------------------------------------------------------------


def _reader(options: RolloutOptions) -> Callable[[], VersionDifference | None]:
    """Return what reads the difference of now.

    Raises:
        InputError: An address is none.
    """
    if options.prometheus is not None:
        base = address(options.prometheus).removesuffix("/metrics.json")
        return lambda: _of_prometheus(base, options)
    url = address(options.address)
    return lambda: _of_monitor(url, options)


def _of_monitor(url: str, options: RolloutOptions) -> VersionDifference | None:
    """Return what a monitor serves; all that share its store serve the same."""
    for record in numbers(url):
        if record.get("service") == options.service:
            found = record.get("records", {}).get("versions", ())
            differences = [VersionDifference(**each) for each in found]
            wanted = options.by, options.signal, {options.candidate, options.baseline}
            for each in differences:
                if (each.by, each.signal, {each.candidate, each.baseline}) == wanted:
                    is_turned = each.candidate == options.baseline
                    return _turned(each) if is_turned else each
            return None
    raise InputError(f"{shown(url)} serves no service {options.service!r}")


def _turned(found: VersionDifference) -> VersionDifference:
    """Return it with candidate and baseline exchanged."""
    return replace(
        found,
        candidate=found.baseline,
        baseline=found.candidate,
        difference=-found.difference,
        lower=-found.upper,
        upper=-found.lower,
    )


def _of_prometheus(base: str, options: RolloutOptions) -> VersionDifference | None:
    """Return what Prometheus has scraped; every target says the same, so any of them does."""
    ends = {}
    for end, bound in _BOUNDS.items():
        values = _query(base, f"max({_matcher(bound, options)})")
        if not values:
            return None
        ends[end] = float(values[0]["value"][1])
    return VersionDifference(
        by=options.by,
        candidate=options.candidate,
        baseline=options.baseline,
        signal=options.signal,
        judged=None,
        higher_is_better=_is_higher_better(options.signal),
        **ends,
    )


def _is_higher_better(signal: str) -> bool:
    return signal not in FROM_ASSESSMENT and not table.lower_is_better(signal)


def _matcher(bound: str, options: RolloutOptions) -> str:
    wanted = ("service", "by", "candidate", "baseline", "signal")
    labels = {label: getattr(options, label) for label in wanted} | {"bound": bound}
    name = metrics.VERSION_DIFFERENCE
    # What JSON quotes is a string of PromQL as well.
    return f"{name}{{{','.join(f'{label}={json.dumps(each)}' for label, each in labels.items())}}}"


def _query(base: str, expression: str) -> list[Mapping[str, Any]]:
    """Return the series of an instant query.

    Raises:
        InputError: Nothing answers, or not as Prometheus does.
    """
    body = served(f"{base}/api/v1/query?{urlencode({'query': expression})}")
    try:
        return list(json.loads(body)["data"]["result"])
    except (ValueError, TypeError, KeyError) as error:
        raise InputError(f"{shown(base)} does not answer as Prometheus does") from error
