"""Prints messages, progress, tables and JSON for the commands."""

from __future__ import annotations

import io
import json
import os
import signal
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from ragmonitor.runtime.printable import printable

if TYPE_CHECKING:
    from asyncio import Event

    from ragmonitor.records import JudgeUsage

FINE = 0
SOMETHING_WRONG = 1
"""Finished, but something in the data was wrong, or a check failed."""
USAGE = 2
"""Not begun: wrong use, a missing file, bad settings."""
INTERRUPTED = 130
"""The exit code of a process that ended by SIGINT."""
EXIT_CODES = (
    "Exit codes: 0 all fine; 1 finished, but something in the data was wrong or a check failed; "
    "2 not begun: wrong use, a missing file, bad settings."
)


def prepare_streams() -> None:
    """Have the standard streams take every text.

    One that is closed becomes the null device, before a file that is opened takes its number.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            # It stays open as long as the process.
            setattr(sys, name, Path(os.devnull).open(mode, encoding="utf-8"))  # noqa: SIM115
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")


def say(message: str) -> None:
    """Write one line for people."""
    typer.echo(printable(message, has_lines=True), err=True)


def accounted_for(*, is_complete: bool) -> str:
    """Return for people whether captured = scored + unscored, and nothing was lost."""
    return "all accounted for" if is_complete else "NOT ALL ACCOUNTED FOR"


def usage_text(usage: JudgeUsage) -> str:
    """Return for people what a judge has used."""
    calls = "1 call" if usage.calls == 1 else f"{usage.calls} calls"
    return f"{calls}, {usage.input_tokens + usage.output_tokens} tokens, {usage.cost_usd:.6f} USD"


def print_json(value: Any) -> None:
    """Write one JSON object on one line of standard output."""
    is_unicode = "utf" in (sys.stdout.encoding or "").lower()
    typer.echo(json.dumps(value, ensure_ascii=not is_unicode))


def print_table(
    columns: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    texts: Collection[str] = (),
    err: bool = False,
) -> None:
    """Print a table of names and the figures behind them, for people.

    Its cells are shown as they stand: nothing in them is markup, or a command to the terminal.

    Args:
        columns: The titles; the first is of the names.
        rows: The cells.
        texts: Titles of further columns that hold texts.
        err: Whether it goes to standard error.
    """
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE, pad_edge=False)
    for column in columns:
        # Figures stay whole: a terminal of 80 columns has room for them.
        if column == columns[0] or column in texts:
            table.add_column(column, overflow="fold")
        else:
            table.add_column(column, justify="right", no_wrap=True)
    for row in rows:
        table.add_row(*(Text(printable(cell, has_lines=True)) for cell in row))
    Console(stderr=err, highlight=False).print(table)


@contextmanager
def progress(text: Callable[[], str], *, quiet: bool = False) -> Iterator[Callable[[], None]]:
    """Rewrite one line while the block runs, if standard error is a terminal.

    The block gets a function that shows the result of `text`.
    """
    is_shown = not quiet and sys.stderr.isatty()

    def advance() -> None:
        if is_shown:
            sys.stderr.write(f"\r\x1b[K{printable(text())}")
            sys.stderr.flush()

    try:
        yield advance
    finally:
        if is_shown:
            sys.stderr.write("\r\x1b[K")


def be_interruptible(stopping: Event) -> None:
    """Have Ctrl-C set an event, and a second one cancel the current task, until the loop closes.

    Replies of a model that are under way are paid for, so they are awaited.

    Args:
        stopping: Once it is set nothing further is begun; what is under way is waited for.
    """
    from asyncio import current_task, get_running_loop

    loop, task = get_running_loop(), current_task()

    def interrupt() -> None:
        if stopping.is_set() and task is not None:
            task.cancel()
        else:
            say("interrupted: replies under way are waited for; Ctrl-C again to give them up")
        stopping.set()

    # On Windows, and beside the main thread, there is no such way: Python's own stays.
    with suppress(NotImplementedError, RuntimeError, ValueError):
        loop.add_signal_handler(signal.SIGINT, interrupt)
