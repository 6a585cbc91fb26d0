"""Templates of alert texts, which query Prometheus for numbers when an alert fires."""

from __future__ import annotations

from ragmonitor import metrics as names
from ragmonitor.rules.recording import DIAGNOSED, ESTIMATE, JUDGED

SIGNAL = ("service", "signal", "judge")
"""The labels that an estimate is looked up by."""

SERVICE = "{{ $labels.service }}"
JUDGE = "{{ $labels.judge }}"


def queried(expression: str, *labels: str) -> str:
    """Return the start of a template's pipeline that has the series of an expression.

    Args:
        expression: PromQL, with `%q` where the value of one of the alert's labels goes, each in
            quotes of its own; a `%` of PromQL is `%%`.
        labels: Of the alert, one for each `%q`, in their order.
    """
    values = "".join(f" $labels.{label}" for label in labels)
    return f"printf `{expression}`{values} | query"


def number(expression: str, *labels: str, form: str = "%.3g", without: str = "unknown") -> str:
    """Return a template that prints the value of an expression's first series.

    Args:
        expression: As in `queried`.
        labels: As in `queried`.
        form: Of Go's `printf`, for one float.
        without: What is printed if there is no such series.
    """
    printed = f'{{{{ . | first | value | printf "{form}" }}}}'
    query = queried(expression, *labels)
    return f"{{{{ with {query} }}}}{printed}{{{{ else }}}}{without}{{{{ end }}}}"


def moment(expression: str, *labels: str, without: str) -> str:
    """Return a template that prints a value in seconds since the epoch as a time (UTC)."""
    printed = "{{ . | first | value | humanizeTimestamp }}"
    query = queried(expression, *labels)
    return f"{{{{ with {query} }}}}{printed}{{{{ else }}}}{without}{{{{ end }}}}"


def percentage(series: str, *labels: str) -> str:
    """Return a template that prints a share of 0 to 1 in percent."""
    return number(f"100 * {series}", *labels, form="%.1f %%", without="unknown")


def labelled(labels: tuple[str, ...]) -> str:
    """Return the matchers of a selector, without its braces, for `queried`."""
    return ",".join(f"{label}=%q" for label in labels)


def estimate(window: str, *, is_share: bool) -> str:
    """Return a template that prints a mean, its interval and the number of judged answers."""
    inside = f"{{{labelled(SIGNAL)}}}"

    def shown(operation: str) -> str:
        series = f"{ESTIMATE}:{operation}{window}{inside}"
        if is_share:
            return percentage(series, *SIGNAL)
        return number(series, *SIGNAL, form="%.3f")

    judged = number(f"{JUDGED}:increase{window}{inside}", *SIGNAL, form="%.0f", without="0")
    return f"{shown('mean')} (95 % interval {shown('lower')} to {shown('upper')}, {judged} judged)"


def limit(*, is_share: bool) -> str:
    """Return a template that prints the alarm's limit: its objective, set or learned."""
    series = f"max({names.ALARM_OBJECTIVE}{{{labelled(SIGNAL)}}})"
    if is_share:
        return percentage(series, *SIGNAL)
    return number(series, *SIGNAL, form="%.3f")


def evidence() -> str:
    """Return a template that prints an alarm's evidence, and since when it has been raised."""
    share = number(
        f"100 * max({names.ALARM_EVIDENCE_SECONDS}{{{labelled(SIGNAL)}}})"
        f" / max({names.ALARM_THRESHOLD_SECONDS}{{service=%q}})",
        *SIGNAL,
        "service",
        form="%.0f %%",
    )
    since = moment(
        f"min({names.ALARM_SINCE}{{{labelled(SIGNAL)}}})",
        *SIGNAL,
        without="not by the monitor yet",
    )
    return f"evidence at {share} of the threshold; raised: {since}"


def cause() -> str:
    """Return a template that says whether the judge or the application explains an alarm."""
    series = f"max by (cause) ({names.ALARM_CAUSE}{{service=%q,judge=%q}}) == 1"
    known = f"{{{{ with {queried(series, 'service', 'judge')} }}}}"
    counts = [
        number(f"max({name}{{service=%q,judge=%q}})", "service", "judge", form="%.0f", without="0")
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
    """Return a template that lists what went wrong with the last hour's judged answers."""
    series = f'{DIAGNOSED}_increase1h{{service=%q,judge=%q,diagnosis!="ok"}}'
    listed = queried(f"sort_desc(100 * {series} >= 1)", "service", "judge")
    each = '{{ if $i }}, {{ end }}{{ $d.Labels.diagnosis }} {{ printf "%.0f" $d.Value }} %'
    return (
        f"{{{{ range $i, $d := {listed} }}}}{each}{{{{ else }}}}none{{{{ end }}}} "
        "(unweighted share of the judged answers)"
    )
