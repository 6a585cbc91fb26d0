# ruff: noqa: INP001  # a script that people run by hand
"""Writes the tables of docs/settings.md from the models of `ragmonitor.settings`.

    python tools/settings_page.py [--check]

`--check` writes nothing and fails if the page is not what the models say.
"""

from __future__ import annotations

import sys
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin

from pydantic import SecretStr

from ragmonitor.settings import GROUPS, OPTIONS, Budget, Group, Option

PAGE = Path(__file__).resolve().parent.parent / "docs" / "settings.md"

MARK = "<!-- options -->\n"
"""What stands above is the page's own text."""

COLUMNS = "| option | variable | type | default | what it is |\n|---|---|---|---|---|\n"


def rendered(text: str) -> str:
    """Return the page with the options as the models have them."""
    head, mark, _ = text.partition(MARK)
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
    return COLUMNS + "".join(_row(option) for option in rows)


def _row(option: Option) -> str:
    cells = (
        f"`{option.name}`",
        "in code only" if _is_function(option) else f"`{option.variable}`",
        ", ".join((_type(option.field.annotation), *_limits(option))),
        _default(option),
        option.description,
    )
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |\n"


def _is_function(option: Option) -> bool:
    return any(get_origin(each) is Callable for each in get_args(option.field.annotation))


def _type(annotation: Any) -> str:
    if annotation is Any:
        return "text or object"
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Callable:
        return "function"
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
