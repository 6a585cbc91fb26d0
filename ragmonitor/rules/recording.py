"""Recording rules: means over three windows and any number of processes.

A process counts, for each signal of each judge, the sum of its pseudo-outcomes of the value (Y) and
of "the signal applies" (D). Both add up over processes and time, and Y / D is the unbiased mean
(docs/statistics.md). Each sum is the difference of two counters, since counters must not fall.
Intervals are the monitor's own gauges; these means have none.
"""

from __future__ import annotations

from typing import Final

WINDOWS: Final = {"5m": "30s", "1h": "1m", "1d": "2m"}
"""Each with how often it is computed. Above 5m/2 a missed evaluation would leave a gap."""
LEVEL: Final = "service_signal_judge"
OUTRANKED: Final = "service_judge:ragmonitor_answers:outranked"
"""1 for the built-in judge of a service that has a model as judge, too."""

CONTEXT: Final = {
    # By what exists and not by what is judged just now: a model that is down must not make the
    # built-in judge's scores alarm. `builtin:NAME` is an encoder that reads every answer in the
    # place of the rules; `none` is the judge in series of signals that need none.
    OUTRANKED: (
        'group by (service, judge) (ragmonitor_answers_total{judge=~"builtin(:.*)?"})\n'
        "and on (service)\n"
        'group by (service) (ragmonitor_answers_total{judge!~"builtin(:.*)?|none"})\n'
        "or\n"
        'group by (service, judge) (ragmonitor_answers_total{judge="builtin"})\n'
        "and on (service)\n"
        'group by (service) (ragmonitor_answers_total{judge=~"builtin:.*"})'
    ),
}
"""The rules that alerts look things up in, by what they record."""


def means(window: str) -> dict[str, str]:
    """Return the rules of one window by what they record: answers, judged answers, their mean."""

    def increase(series: str) -> str:
        return f"sum by (service, signal, judge) (increase({series}[{window}]))"

    def summed(of: str) -> str:
        up, down = (
            increase(f'ragmonitor_estimate_total{{of="{of}",sign="{sign}"}}')
            for sign in ("positive", "negative")
        )
        return f"({up} - {down})"

    judged = f"{LEVEL}:ragmonitor_judged_answers:increase{window}"
    return {
        f"{LEVEL}:ragmonitor_answers:increase{window}": increase("ragmonitor_answers_total"),
        judged: increase("ragmonitor_judged_answers_total"),
        # Without a verdict the sums are predictions alone, and a prediction is no estimate.
        f"{LEVEL}:ragmonitor_estimate:mean{window}": (
            f"clamp({summed('value')}\n/ ({summed('applies')} > 0), 0, 1)\nand {judged} > 0"
        ),
    }
