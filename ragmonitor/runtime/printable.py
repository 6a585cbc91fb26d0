"""Cleans texts of others on their way out to people: terminals, logs, chats, files, assistants."""

from __future__ import annotations

from typing import Any


def printable(text: str, *, has_lines: bool = False) -> str:
    """Return one line without what a terminal takes for a command to itself.

    Questions, names and attributes are other people's: what they send must neither hide a line nor
    pretend to be one, nor turn its direction, nor reach the clipboard of whoever reads it. Lone
    surrogates, which no encoding takes, go with it.

    Args:
        text: Any text.
        has_lines: The ends of its lines are ours, and stay.

    >>> printable(chr(27) + "[31m red " + chr(0x202E) + "drow")
    '[31m red drow'
    """
    if text.isprintable():
        return text
    return "".join(
        each if each.isprintable() or (each == "\n" and has_lines) else " " * each.isspace()
        for each in text
    )


def printable_json(value: Any) -> Any:
    """Return an object of JSON with every text in it `printable`; the ends of lines stay."""
    if isinstance(value, str):
        return printable(value, has_lines=True)
    if isinstance(value, dict):
        return {printable(str(name)): printable_json(each) for name, each in value.items()}
    return [printable_json(each) for each in value] if isinstance(value, list | tuple) else value


def encodable(text: str) -> str:
    """Return the text with every lone surrogate replaced by `?`.

    One of them in one attribute would fail the encoding of its whole batch of spans, or of sums.
    """
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "replace").decode()
    return text
