# ruff: noqa: INP001  # a script that people run by hand
"""Writes the tables of docs/metrics.md from `ragmonitor.semconv.metrics`, between its own texts.

    python tools/metrics_page.py [--check]

A table stands between the lines `<!-- metrics -->` and `<!-- end -->` below its heading. `--check`
writes nothing and fails if the page is not what the table of metrics says.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from ragmonitor.semconv.metrics import TABLE, Metric

PAGE = Path(__file__).resolve().parent.parent / "docs" / "metrics.md"
_TABLE = re.compile(
    r"^### (?P<section>[^\n]+)\n(?:(?!^### ).)*?"
    r"^<!-- metrics -->\n(?P<rows>.*?)(?=^<!-- end -->$)",
    re.MULTILINE | re.DOTALL,
)
_HEAD = "| name | type | labels | meaning |\n|---|---|---|---|\n"
_OF_A_MEAN = re.compile(r"_(lower|upper)$")
"""What stands beside a mean in a row of its own; the page explains each once, above the tables."""


def rendered(text: str) -> str:
    """Return the page with every table as `ragmonitor.semconv.metrics` has it.

    Raises:
        ValueError: A section of metrics has no heading on the page, or a heading no metrics.
    """
    headings = [match["section"] for match in _TABLE.finditer(text)]
    sections = list(dict.fromkeys(metric.section for metric in TABLE.values() if metric.section))
    if headings != sections:
        raise ValueError(f"the page has {headings}, and the table of metrics {sections}")
    return _TABLE.sub(
        lambda match: match[0].removesuffix(match["rows"]) + _HEAD + _rows(match["section"]), text
    )


def _rows(section: str) -> str:
    return "".join(_row(metric) for metric in TABLE.values() if metric.section == section)


def _row(metric: Metric) -> str:
    if _OF_A_MEAN.search(metric.series):
        return f"| `{metric.series}` ||||\n"
    kind = "gauge" if metric.kind == "info" else metric.kind
    labels = ", ".join(metric.labels)
    return f"| `{metric.series}` | {kind} | {labels} | {metric.help} |\n"


def main() -> int:
    """Write the page, or check it."""
    old = PAGE.read_text(encoding="utf-8")
    new = rendered(old)
    if "--check" in sys.argv[1:]:
        return int(old != new)
    PAGE.write_text(new, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
