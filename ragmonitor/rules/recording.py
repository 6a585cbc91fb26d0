"""Recording rules: unbiased means with their intervals, over any window and any processes.

The counters of a process are sums of pseudo-outcomes, which add up (docs/statistics.md). Of each
signal of each judge and service, over a window:

- Y, D: the pseudo-outcomes of the value and of "it applies", each the difference of two counters,
  since counters must not fall;
- the mean R = Y / D;
- its variance V = (YY - 2 R YD + R^2 DD) / D^2, where YD = (YY + DD - Q) / 2;
- J: judged answers; the design effect d = V J / (R (1 - R)), drawn towards Kish's W of unequal
  weights (1 where they are equal) as if five more bad answers had shown that: otherwise a window
  without a bad answer, whose V is 0, would be certain. Where d is less than W, bad answers count
  1 / W each, since those that were all but certain to be drawn say nothing of the others' spread;
- Wilson's interval [l, u] at J / d answers, of the answers that were observed;
- C, the share of the answers that were observed: had a chance, and their verdict is there. Below a
  half nothing is recorded;
- U, the answers that were not: no chance, verdict missing or on its way, each of the last two for
  1 / chance; K, the least share D / (D + U) that was observed, less its own sampling error;
- the interval of the mean of all answers, [K l, 1 - K (1 - u)]: at the lower end those that were
  not observed count as 0, at the upper as 1 (Manski's bounds).

Source:
    Manski (2003), "Partial Identification of Probability Distributions", chapter 1; Wilson (1927),
    JASA 22(158); Korn & Graubard (1998), Survey Methodology 24(2), for an interval
    at an effective sample size; Kish (1965), "Survey Sampling", section 8.2, for unequal weights;
    Saerndal, Swensson & Wretman (1992), section 5.6, for the ratio.
"""

from __future__ import annotations

from typing import Final

from ragmonitor import metrics as names
from ragmonitor.rules.model import Group, Recording, Scope

WINDOWS: Final = {
    "5m": "30s",
    "30m": "1m",
    "1h": "1m",
    "2h": "1m",
    "6h": "2m",
    "1d": "2m",
    "3d": "2m",
}
"""Each with how often it is computed. Above 5m/2 a missed evaluation would leave a gap."""

LEVEL: Final = "service_signal_judge"
ESTIMATE: Final = f"{LEVEL}:ragmonitor_estimate"
JUDGED: Final = f"{LEVEL}:{names.JUDGED_ANSWERS}"
ARRIVED: Final = f"{LEVEL}:{names.ANSWERS}"
UNOBSERVED: Final = f"{LEVEL}:ragmonitor_unobserved_answers"
OUTRANKED: Final = f"service_judge:{names.ANSWERS}:outranked"
"""1 for the built-in judge of a service that has a model as judge, too."""
DIAGNOSED: Final = f"service_judge_diagnosis:{names.DIAGNOSES}:share"
BUILTIN: Final = "builtin"
NO_JUDGE: Final = "none"
"""The judge in series of signals that need none."""
IS_BUILTIN: Final = f'judge=~"{BUILTIN}(:.*)?"'
"""The rules, or an encoder that reads every answer in their place."""
IS_RULES: Final = f'judge="{BUILTIN}"'
IS_ENCODER: Final = f'judge=~"{BUILTIN}:.*"'
IS_MODEL: Final = f'judge!~"{BUILTIN}(:.*)?|{NO_JUDGE}"'

Z: Final = 1.96
TRUST: Final = 5
"""Bad answers' worth of trust in a design effect of unequal weights alone."""
MIN_DESIGN_EFFECT: Final = 0.2
MIN_COVERAGE: Final = 0.5
"""Share of a window's answers that must have been observed: as the gauges have it."""


def estimate_groups(scope: Scope, prefix: str) -> tuple[Group, ...]:
    """Return the rules that compute means and intervals, a group for each window."""
    return tuple(
        Group(
            name=f"{prefix}-estimates-{window}", interval=interval, rules=estimates(scope, window)
        )
        for window, interval in WINDOWS.items()
    )


def estimates(scope: Scope, window: str) -> tuple[Recording, ...]:
    """Return the rules of one window. Each reads those before it, so their order counts."""

    def increase(counter: str) -> str:
        picked = scope.pick(f"{counter}_total")
        return f"sum by (service, signal, judge) (increase({picked}[{window}]))"

    def own(metric: str, operation: str = "increase") -> str:
        return scope.pick(f"{metric}:{operation}{window}")

    y = own(f"{LEVEL}:ragmonitor_estimate_sum")
    d = own(f"{LEVEL}:ragmonitor_estimate_count")
    yy = own(f"{LEVEL}:{names.ESTIMATE_SUM_SQUARES}")
    dd = own(f"{LEVEL}:{names.ESTIMATE_COUNT_SQUARES}")
    q = own(f"{LEVEL}:{names.ESTIMATE_DIFFERENCE_SQUARES}")
    j = own(JUDGED)
    drawn, returned = increase(names.DRAWN_ANSWERS), increase(names.RETURNED_ANSWERS)
    missing, uncovered = increase(names.MISSING_ANSWERS), increase(names.UNCOVERED_ANSWERS)
    unobserved = own(UNOBSERVED)
    coverage = own(ESTIMATE, "coverage")
    observed = own(ESTIMATE, "min_observed")
    mean = own(ESTIMATE, "mean")
    variance = own(ESTIMATE, "variance")
    weighting, seen = own(ESTIMATE, "weighting"), own(ESTIMATE, "seen_effect")
    rarer = f"{j}\n    * (0.5 - abs({mean} - 0.5))"
    effect = own(ESTIMATE, "design_effect")
    n = own(ESTIMATE, "effective_n")
    centre = f"{mean}\n    + {Z**2 / 2:.4f} / {n}"
    half = (
        f"{Z} * sqrt(\n"
        f"      {mean} * (1 - {mean})\n"
        f"      / {n}\n"
        f"      + {Z**2 / 4:.4f} / {n} ^ 2\n"
        "    )"
    )
    shrink = f"(1 + {Z**2:.4f} / {n})"
    half_an_answer = f"0.5 / clamp_min({j}, 1)\n        - 0.25 / clamp_min({j}, 1) ^ 2"
    recorded = {
        f"{ARRIVED}:increase": increase(names.ANSWERS),
        f"{JUDGED}:increase": increase(names.JUDGED_ANSWERS),
        f"{LEVEL}:ragmonitor_estimate_sum:increase": (
            f"{increase(names.ESTIMATE_SUM_POSITIVE)}\n- {increase(names.ESTIMATE_SUM_NEGATIVE)}"
        ),
        f"{LEVEL}:ragmonitor_estimate_count:increase": (
            f"{increase(names.ESTIMATE_COUNT_POSITIVE)}\n"
            f"- {increase(names.ESTIMATE_COUNT_NEGATIVE)}"
        ),
        f"{LEVEL}:{names.ESTIMATE_SUM_SQUARES}:increase": increase(names.ESTIMATE_SUM_SQUARES),
        f"{LEVEL}:{names.ESTIMATE_COUNT_SQUARES}:increase": increase(names.ESTIMATE_COUNT_SQUARES),
        f"{LEVEL}:{names.ESTIMATE_DIFFERENCE_SQUARES}:increase": increase(
            names.ESTIMATE_DIFFERENCE_SQUARES
        ),
        f"{UNOBSERVED}:increase": (
            f"{uncovered}\n+ {missing}\n+ clamp_min(\n  {drawn}\n  - {returned},\n  0\n)"
        ),
        f"{ESTIMATE}:coverage": (
            f"{own(ARRIVED)}\n/ (\n  {own(ARRIVED)}\n  + {uncovered}\n  > 0\n)\n"
            f"* clamp(\n  (\n    {returned}\n    - {missing}\n  )\n"
            f"  / (\n    {returned}\n    + clamp_min(\n      {drawn}\n      - {returned},\n"
            "      0\n    )\n    > 0\n  ),\n  0,\n  1\n)"
        ),
        # Without a verdict the sums are predictions alone, and a prediction is no estimate.
        f"{ESTIMATE}:mean": (
            f"clamp({y} / ({d} > 0), 0, 1)\nand {j} > 0\nand {coverage} >= {MIN_COVERAGE}"
        ),
        # K (1 - K) J are what so many verdicts would err by if all of U were verdicts that failed.
        f"{ESTIMATE}:min_observed": (
            "clamp_min(\n"
            f"  {d} / ({d} + {unobserved})\n"
            f"  - {Z} * sqrt(\n"
            f"      {d} * {unobserved}\n"
            f"      / {j}\n"
            "    )\n"
            f"    / ({d} + {unobserved}),\n"
            "  0\n"
            ")\n"
            f"and {mean}"
        ),
        f"{ESTIMATE}:variance": (
            "clamp_min(\n"
            f"  {yy}\n"
            f"  - {mean}\n"
            f"    * ({yy}\n"
            f"       + {dd}\n"
            f"       - {q})\n"
            f"  + {mean} ^ 2\n"
            f"    * {dd},\n"
            "  0\n"
            ")\n"
            f"/ {d} ^ 2"
        ),
        f"{ESTIMATE}:weighting": (
            f"clamp_min(\n  {increase(names.RETURNED_COUNT)}\n"
            f"  * {increase(names.RETURNED_SQUARES)}\n  / ({returned} > 0) ^ 2,\n  1\n)"
        ),
        # R (1 - R) of a mean that is no nearer to 0 or 1 than half an answer.
        f"{ESTIMATE}:seen_effect": (
            f"{variance}\n"
            f"* {j}\n"
            "/ (\n"
            f"  {mean} * (1 - {mean})\n"
            f"  > {half_an_answer}\n"
            "  or\n"
            f"  {half_an_answer}\n"
            ")"
        ),
        # `min(R, 1 - R) J` is how many answers are of the rarer kind.
        f"{ESTIMATE}:design_effect": (
            "clamp_min(\n"
            f"  {weighting}\n"
            f"  + clamp_min({seen} - {weighting}, 0)\n"
            f"    * {rarer}\n"
            f"    / ({rarer} + {TRUST})\n"
            f"  - clamp_min({weighting} - {seen}, 0)\n"
            f"    * {rarer}\n"
            f"    / ({rarer} + {TRUST} * {weighting}),\n"
            f"  {MIN_DESIGN_EFFECT}\n"
            ")"
        ),
        f"{ESTIMATE}:effective_n": f"{j} / {effect}",
        f"{ESTIMATE}:lower": (
            f"{observed}\n* clamp_min(\n  (\n    {centre}\n    - {half}\n  )\n  / {shrink},\n  0\n)"
        ),
        f"{ESTIMATE}:upper": (
            f"1 - {observed}\n"
            f"* clamp_min(\n  1 - (\n    {centre}\n    + {half}\n  )\n  / {shrink},\n  0\n)"
        ),
    }
    return tuple(
        Recording(record=f"{record}{window}", expr=expr) for record, expr in recorded.items()
    )


def context_group(scope: Scope, prefix: str) -> Group:
    """Return the rules that alerts and their texts look things up in."""
    judged = scope.pick(f"{names.DIAGNOSES}_total")
    answers = f"{names.ANSWERS}_total"
    return Group(
        name=f"{prefix}-context",
        interval="1m",
        rules=(
            Recording(
                record=f"{DIAGNOSED}_increase1h",
                expr=(
                    f"sum by (service, judge, diagnosis) (increase({judged}[1h]))\n"
                    "/ on (service, judge) group_left ()\n"
                    f"(sum by (service, judge) (increase({judged}[1h])) > 0)"
                ),
            ),
            # By what exists and not by what is judged just now: a model that is down must not make
            # the built-in judge's scores page.
            Recording(
                record=OUTRANKED,
                expr=(
                    f"group by (service, judge) ({scope.pick(answers, IS_BUILTIN)})\n"
                    "and on (service)\n"
                    f"group by (service) ({scope.pick(answers, IS_MODEL)})\n"
                    "or\n"
                    f"group by (service, judge) ({scope.pick(answers, IS_RULES)})\n"
                    "and on (service)\n"
                    f"group by (service) ({scope.pick(answers, IS_ENCODER)})"
                ),
            ),
        ),
    )
