# ruff: noqa: INP001  # a script that people run by hand
"""Writes the tables of docs/settings.md and docs/metrics.md from what the package declares.

    python tools/pages.py [--check]

The options stand below `<!-- options -->`. A table of series stands between the lines
`<!-- metrics -->` and `<!-- end -->` below its heading. `--check` writes nothing and fails if a
page is not what the models say.
"""

from __future__ import annotations

import re
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin

from pydantic import SecretStr

from ragmonitor.semconv.metrics import TABLE, Metric
from ragmonitor.settings import GROUPS, OPTIONS, Budget, Group, Option

DOCS = Path(__file__).resolve().parent.parent / "docs"
_MARK = "<!-- options -->\n"
_COLUMNS = "| option | variable | type | default | what it is |\n|---|---|---|---|---|\n"
_TABLE = re.compile(
    r"^### (?P<section>[^\n]+)\n(?:(?!^### ).)*?"
    r"^<!-- metrics -->\n(?P<rows>.*?)(?=^<!-- end -->$)",
    re.MULTILINE | re.DOTALL,
)
_HEAD = "| name | type | labels | meaning |\n|---|---|---|---|\n"
_OF_A_MEAN = re.compile(r"_(lower|upper)$")
"""What stands beside a mean in a row of its own; the page explains each once, above the tables."""


def settings_page(text: str) -> str:
    """Return the page with the options as the models have them."""
    head, mark, _ = text.partition(_MARK)
    parts = ["## At the top\n\nIn the file in `[ragmonitor]`.\n\n" + _table("")]
    parts += [_group(name, group) for name, group in GROUPS.items()]
    return head + mark + "\n" + "\n".join(parts)


def _group(name: str, group: type[Group]) -> str:
    short = f" In short: `{name}=...` is `{name}.{group.short}`." if group.short else ""
    if group is Budget:
        short = ' In short: `budget="usd_per_day=5,usd_per_hour=1"`.'
    return (
        f"## `{name}`: {group.__name__}\n\n{(group.__doc__ or '').strip()} In the file in "
        f"`[ragmonitor.{name}]`.{short}\n\n" + _table(name)
    )


def _table(group: str) -> str:
    rows = (
        option for option in OPTIONS if (option.path[0] if len(option.path) > 1 else "") == group
    )
    return _COLUMNS + "".join(_row(option) for option in rows)


def _row(option: Option) -> str:
    cells = (
        f"`{option.name}`",
        f"`{option.variable}`",
        ", ".join((_type(option.field.annotation), *_limits(option))),
        _default(option),
        option.description,
    )
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |\n"


def _type(annotation: Any) -> str:
    if annotation is Any:
        return "text or object"
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Literal:
        return " or ".join(f"`{each}`" for each in arguments)
    if origin in (Union, types.UnionType):
        return " or ".join(_type(each) for each in arguments if each is not type(None))
    if origin is tuple:
        return "list of texts" if arguments[0] is str else "list of texts or objects"
    if origin is dict:
        return "numbers by name"
    names = {
        str: "text",
        int: "whole number",
        float: "number",
        bool: "true or false",
        Path: "path",
        SecretStr: "secret text",
    }
    return names[annotation]


def _limits(option: Option) -> Iterator[str]:
    signs = {"gt": "above", "ge": "at least", "le": "at most", "min_length": "length at least"}
    for part in option.field.metadata:
        for name, sign in signs.items():
            if (limit := getattr(part, name, None)) is not None:
                yield f"{sign} {limit:,}"


def _default(option: Option) -> str:
    if option.name == "service":
        return "`rag`"
    value = option.field.get_default(call_default_factory=True)
    if value is None or value in ((), {}, ""):
        return "none"
    if isinstance(value, tuple):
        return ", ".join(f"`{each}`" for each in value)
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    return f"{value:,}" if isinstance(value, int | float) and value >= 10_000 else f"`{value}`"


def metrics_page(text: str) -> str:
    """Return the page with every table as `ragmonitor.semconv.metrics` has it.

    Raises:
        ValueError: A section of metrics has no heading on the page, or a heading no metrics.
    """
    headings = [match["section"] for match in _TABLE.finditer(text)]
    sections = list(dict.fromkeys(metric.section for metric in TABLE.values() if metric.section))
    if headings != sections:
        raise ValueError(f"the page has {headings}, and the table of metrics {sections}")
    return _TABLE.sub(
        lambda match: match[0].removesuffix(match["rows"]) + _HEAD + _series(match["section"]), text
    )


def _series(section: str) -> str:
    return "".join(_metric(metric) for metric in TABLE.values() if metric.section == section)


def _metric(metric: Metric) -> str:
    if _OF_A_MEAN.search(metric.series):
        return f"| `{metric.series}` ||||\n"
    kind = "gauge" if metric.kind == "info" else metric.kind
    labels = ", ".join(metric.labels)
    return f"| `{metric.series}` | {kind} | {labels} | {metric.help} |\n"


PAGES = {"settings.md": settings_page, "metrics.md": metrics_page}


def main() -> int:
    """Write the pages, or check them."""
    differ = 0
    for name, rendered in PAGES.items():
        old = DOCS.joinpath(name).read_text(encoding="utf-8")
        new = rendered(old)
        differ |= old != new
        if "--check" not in sys.argv[1:]:
            DOCS.joinpath(name).write_text(new, encoding="utf-8")
    return int(differ and "--check" in sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
