"""Recording rules: means over three windows and any number of processes.

A process counts, for each signal of each judge, the sum of its pseudo-outcomes of the value (Y) and
of "the signal applies" (D). Both add up over processes and time, and Y / D is the unbiased mean
(docs/statistics.md). Each sum is the difference of two counters, since counters must not fall.
Intervals are the monitor's own gauges; these means have none.
"""

from __future__ import annotations

from typing import Final

from ragmonitor.rules.model import Scope
from ragmonitor.semconv import metrics as names

WINDOWS: Final = {"5m": "30s", "1h": "1m", "1d": "2m"}
"""Each with how often it is computed. Above 5m/2 a missed evaluation would leave a gap."""

LEVEL: Final = "service_signal_judge"
MEAN: Final = f"{LEVEL}:ragmonitor_estimate:mean"
JUDGED: Final = f"{LEVEL}:{names.JUDGED_ANSWERS}:increase"
ARRIVED: Final = f"{LEVEL}:{names.ANSWERS}:increase"
OUTRANKED: Final = f"service_judge:{names.ANSWERS}:outranked"
"""1 for the built-in judge of a service that has a model as judge, too."""
IS_RULES: Final = 'judge="builtin"'
IS_ENCODER: Final = 'judge=~"builtin:.*"'
IS_BUILTIN: Final = 'judge=~"builtin(:.*)?"'
"""The rules, or an encoder that reads every answer in their place."""
IS_MODEL: Final = 'judge!~"builtin(:.*)?|none"'
"""`none` is the judge in series of signals that need none."""


def means(scope: Scope, window: str) -> dict[str, str]:
    """Return the rules of one window by what they record: answers, judged answers, their mean."""

    def increase(counter: str, *labels: str) -> str:
        picked = scope.pick(f"{counter}_total", *labels)
        return f"sum by (service, signal, judge) (increase({picked}[{window}]))"

    value, count = (
        "({} - {})".format(
            *(
                increase(names.ESTIMATE, f'of="{of}"', f'sign="{sign}"')
                for sign in ("positive", "negative")
            )
        )
        for of in ("value", "applies")
    )
    return {
        f"{ARRIVED}{window}": increase(names.ANSWERS),
        f"{JUDGED}{window}": increase(names.JUDGED_ANSWERS),
        # Without a verdict the sums are predictions alone, and a prediction is no estimate.
        f"{MEAN}{window}": (
            f"clamp({value}\n/ ({count} > 0), 0, 1)\nand {scope.pick(JUDGED + window)} > 0"
        ),
    }


def context(scope: Scope) -> dict[str, str]:
    """Return the rules that alerts and their texts look things up in."""
    answers = f"{names.ANSWERS}_total"
    return {
        # By what exists and not by what is judged just now: a model that is down must not make
        # the built-in judge's scores alarm.
        OUTRANKED: (
            f"group by (service, judge) ({scope.pick(answers, IS_BUILTIN)})\n"
            "and on (service)\n"
            f"group by (service) ({scope.pick(answers, IS_MODEL)})\n"
            "or\n"
            f"group by (service, judge) ({scope.pick(answers, IS_RULES)})\n"
            "and on (service)\n"
            f"group by (service) ({scope.pick(answers, IS_ENCODER)})"
        ),
    }
