"""`ragmonitor rollout`: waits until live traffic decides whether a version may be rolled out."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any, Final

from ragmonitor.causes.versions import VersionDifference
from ragmonitor.cli.monitor_client import address, numbers
from ragmonitor.cli.options import RolloutOptions
from ragmonitor.cli.terminal import FINE, print_json, say
from ragmonitor.runtime.addresses import shown
from ragmonitor.runtime.durations import duration_s
from ragmonitor.runtime.errors import InputError
from ragmonitor.stats.comparison import Decision

EXIT: Final[dict[Decision, int]] = {"better": 0, "equivalent": 3, "worse": 4, "undecided": 5}
_ACCEPTED: Final[tuple[Decision, ...]] = ("better", "equivalent", "undecided")
"""Best first."""
EVERY_S: Final = 10.0
"""Between two looks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RolloutDecision:
    """The decision on a candidate, and its reason."""

    options: RolloutOptions
    found: VersionDifference | None
    """None: no verdicts on both versions are known."""
    why: str
    """Why there is no decision yet."""
    waited_s: float

    @property
    def decision(self) -> Decision:
        """The decision that the interval permits."""
        return "undecided" if self.found is None else self.found.decision(self.options.max_worse)

    @property
    def exit_code(self) -> int:
        """The exit code of the command; 0: the decision is accepted."""
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
    timeout_s, url = duration_s(options.timeout, "--timeout"), address(options.address)
    began, last_shown = clock(), ""
    while True:
        now = _look(url, options, waited_s=clock() - began)
        if now.decision != "undecided" or now.waited_s >= timeout_s:
            break
        if now.why != last_shown and not options.json_output:
            say(f"waiting: {now.why}")
        last_shown = now.why
        wait(min(EVERY_S, timeout_s - now.waited_s))
    if options.json_output:
        print_json(now.as_json())
    else:
        say(str(now))
    return now.exit_code


def _look(url: str, options: RolloutOptions, *, waited_s: float) -> RolloutDecision:
    found, why = None, "the interval is still too wide"
    try:
        found = _difference(url, options)
    except (InputError, ValueError, KeyError, TypeError, AttributeError) as error:
        why = str(error)
    else:
        if found is None:
            why = (
                f"no verdicts yet of {options.by} {options.candidate!r} and {options.baseline!r} "
                f"on {options.signal} at the same time"
            )
    return RolloutDecision(options=options, found=found, why=why, waited_s=waited_s)


def _difference(url: str, options: RolloutOptions) -> VersionDifference | None:
    """Return the difference that a monitor serves. All that share its store serve the same."""
    record = next((each for each in numbers(url) if each.get("service") == options.service), None)
    if record is None:
        raise InputError(f"{shown(url)} serves no service {options.service!r}")
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
