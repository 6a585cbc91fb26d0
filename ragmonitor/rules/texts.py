"""What alerts say, in English and Chinese: templates that query Prometheus when an alert fires."""

from __future__ import annotations

import re
from typing import Final, Literal

Language = Literal["en", "zh"]

_OF: Final = "service=%q,signal=%q,judge=%q"
_NUMBER: Final = '. | first | value | printf "%.3g"'
_QUERIES: Final = {
    "mean": (f'max(ragmonitor_alarm_rise_mean{{{_OF},side="since"}})', _NUMBER),
    "limit": (f"max(ragmonitor_alarm_objective{{{_OF}}})", _NUMBER),
    # NaN, by which a process says that it is not known, is above nothing.
    "before": (f'max(ragmonitor_alarm_rise_mean{{{_OF},side="before"}} > -Inf)', _NUMBER),
    "began": (
        f"max(ragmonitor_alarm_rise_start_timestamp_seconds{{{_OF}}}) > 0",
        '(. | first | value | toTime).Format "15:04 UTC"',
    ),
    "cause": (
        "max by (cause) (ragmonitor_alarm_cause{service=%q,judge=%q}) == 1",
        '. | first | label "cause"',
    ),
}
"""What stands in texts: an expression, and how a Go template shows its first value.

In an expression `label=%q` gets the alert's own value of that label."""


def filled(text: str, language: Language) -> str:
    """Return a text as a template of Prometheus; any other `%(NAME)s` is the alert's label NAME."""
    # Where Prometheus has no value, as in the first hour, it is not that nothing happened.
    unknown = {"en": "not known yet", "zh": "尚不知道"}[language]

    def piece(found: re.Match[str]) -> str:
        name = found[1]
        if name in _QUERIES:
            expression, form = _QUERIES[name]
            labels = "".join(f" $labels.{label}" for label in re.findall(r"(\w+)=%q", expression))
            query = f"{{{{ with printf `{expression}`{labels} | query }}}}{{{{ {form} }}}}"
            return f"{query}{{{{ else }}}}{unknown}{{{{ end }}}}"
        return (
            "{{ $value | humanizePercentage }}" if name == "share" else f"{{{{ $labels.{name} }}}}"
        )

    return re.sub(r"%\((\w+)\)s", piece, text)
