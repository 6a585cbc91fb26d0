"""Templates of alert texts, which query Prometheus for numbers when an alert fires."""

from __future__ import annotations

import re

from ragmonitor import metrics as names
from ragmonitor.rules.recording import DIAGNOSED, ESTIMATE, JUDGED

BY_SIGNAL = "service=%q,signal=%q,judge=%q"
"""The matchers of an estimate's series, for `queried`."""

NOT_KNOWN = "not known yet"
"""Stands where Prometheus has no value, as in the first hour: it is not that nothing happened."""

SERVICE = "{{ $labels.service }}"
JUDGE = "{{ $labels.judge }}"


def queried(expression: str) -> str:
    """Return the start of a template's pipeline that has the series of an expression.

    Args:
        expression: PromQL. In `label=%q` the alert's own value of that label is put, in quotes; a
            `%` of PromQL is `%%`.
    """
    values = "".join(f" $labels.{label}" for label in re.findall(r"(\w+)=%q", expression))
    return f"printf `{expression}`{values} | query"


def number(expression: str, *, form: str = "%.3g", without: str = NOT_KNOWN) -> str:
    """Return a template that prints the value of an expression's first series.

    Args:
        expression: As in `queried`.
        form: Of Go's `printf`, for one float.
        without: What is printed if there is no such series.
    """
    return _printed(expression, f'printf "{form}"', without)


def moment(expression: str, *, without: str) -> str:
    """Return a template that prints a value in seconds since the epoch as a time (UTC)."""
    return _printed(expression, "humanizeTimestamp", without)


def _printed(expression: str, form: str, without: str) -> str:
    printed = f"{{{{ . | first | value | {form} }}}}"
    return f"{{{{ with {queried(expression)} }}}}{printed}{{{{ else }}}}{without}{{{{ end }}}}"


def percentage(series: str) -> str:
    """Return a template that prints a share of 0 to 1 in percent."""
    return number(f"100 * {series}", form="%.1f %%")


def _value(series: str, *, is_share: bool) -> str:
    return percentage(series) if is_share else number(series, form="%.3f")


def estimate(window: str, *, is_share: bool) -> str:
    """Return a template that prints a mean, its interval and the number of judged answers."""
    mean, lower, upper = (
        _value(f"{ESTIMATE}:{operation}{window}{{{BY_SIGNAL}}}", is_share=is_share)
        for operation in ("mean", "lower", "upper")
    )
    judged = number(f"{JUDGED}:increase{window}{{{BY_SIGNAL}}}", form="%.0f")
    return f"{mean} (95 % interval {lower} to {upper}, scored answers: {judged})"


def limit(*, is_share: bool) -> str:
    """Return a template that prints the alarm's limit: its objective, set or learned."""
    return _value(f"max({names.ALARM_OBJECTIVE}{{{BY_SIGNAL}}})", is_share=is_share)


def _of_highest(name: str) -> str:
    """Return a series of the process, or folder of processes, whose evidence is highest."""
    whose = f"topk(1, {names.ALARM_EVIDENCE_SECONDS}{{{BY_SIGNAL}}})"
    return f"({name}{{{BY_SIGNAL}}} and on (job, instance) {whose})"


_BEGAN = f"{_of_highest(names.ALARM_RISE_START)} > 0"
"""The time when the mean of an alarm's signal began to rise, if that is known."""


def rise(*, is_share: bool) -> str:
    """Return a template that says since when the mean has been worse, its mean since and before.

    All of it is of the one process, or folder of processes, whose evidence is highest.
    """
    mean = _value(_of_highest(names.ALARM_RISE_MEAN), is_share=is_share)
    # NaN, by which files of several processes say that it is not known, is above nothing.
    before = _value(f"({_of_highest(names.ALARM_RISE_MEAN_BEFORE)} > -Inf)", is_share=is_share)
    answers = number(_of_highest(names.ALARM_RISE_ANSWERS), form="%.0f")
    return (
        f"{{{{ with {queried(_BEGAN)} }}}}since {{{{ . | first | value | humanizeTimestamp }}}} a "
        f"mean of {mean} over {answers} scored answers; before: {before}{{{{ else }}}}when the "
        "rise began is not known yet{{ end }}"
    )


def evidence() -> str:
    """Return a template that prints an alarm's evidence, and since when it has been raised."""
    share = number(
        f"100 * max({names.ALARM_EVIDENCE_SECONDS}{{{BY_SIGNAL}}})"
        f" / max({names.ALARM_THRESHOLD_SECONDS}{{service=%q}})",
        form="%.0f %%",
    )
    since = moment(
        # 0 is of a process whose alarm is not active.
        f"min({names.ALARM_SINCE}{{{BY_SIGNAL}}} > 0)",
        without="not by the monitor yet",
    )
    return f"evidence at {share} of the threshold; raised: {since}"


def cause() -> str:
    """Return a template that says whether the judge or the application explains an alarm."""
    series = f"max by (cause) ({names.ALARM_CAUSE}{{service=%q,judge=%q}}) == 1"
    known = f"{{{{ with {queried(series)} }}}}"
    counts = [
        number(f"max({name}{{service=%q,judge=%q}})", form="%.0f", without="0")
        for name in (names.ALARM_CAUSE_FLIPPED, names.ALARM_CAUSE_REREAD)
    ]
    flipped, reread = counts
    # Within `with` the dot is the query's result; `$labels` stay what they are.
    return (
        f'{known}{{{{ . | first | label "cause" }}}} ({flipped} of {reread} old answers without a '
        "hallucination flipped when they were judged again; a cause is wrong for at most 1 alarm "
        "in 20){{ else }}not examined{{ end }}"
    )


def diagnoses() -> str:
    """Return a sentence that lists what went wrong with the last hour's scored answers."""
    share = f"{DIAGNOSED}_increase1h{{service=%q,judge=%q"
    listed = queried(f'sort_desc(100 * {share},diagnosis!="ok"}} >= 1)')
    none = f"{{{{ if {queried(share + '}')} }}}}none{{{{ else }}}}{NOT_KNOWN}{{{{ end }}}}"
    return f"What went wrong in the last hour: {_shares(listed, none)}."


def diagnoses_of_rise() -> str:
    """Return a sentence that lists what went wrong since an alarm's rise began.

    A range of PromQL is fixed; that of a query that a template puts together is not. Where the
    beginning is not known, it is the last hour.
    """
    counted = f"increase({names.DIAGNOSES}_total{{service=%q,judge=%q"
    whose = "$labels.service $labels.judge $span"
    listed = (
        f'printf `sort_desc(100 * sum by (diagnosis) ({counted},diagnosis!="ok"}}[%s])) / '
        f"scalar(sum({counted}}}[%s]))) >= 1)` {whose} {whose} | query"
    )
    span = '{{ $span := . | first | value | printf "%.0fs" }}'
    return (
        f"{{{{ with {queried(f'time() - ({_BEGAN})')} }}}}{span}"
        f"What went wrong since then: {_shares(listed, 'none')}."
        f"{{{{ else }}}}{diagnoses()}{{{{ end }}}}"
    )


def _shares(listed: str, none: str) -> str:
    each = '{{ if $i }}, {{ end }}{{ $d.Labels.diagnosis }} {{ printf "%.0f" $d.Value }} %'
    return (
        f"{{{{ range $i, $d := {listed} }}}}{each}{{{{ else }}}}{none}{{{{ end }}}} "
        "(unweighted share of the scored answers)"
    )
