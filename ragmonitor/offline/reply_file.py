"""Keeps what a judge replied in a file, so that nothing is paid twice and a run can go on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from ragmonitor.errors import InputError, file_errors
from ragmonitor.export.jsonl import owners_alone
from ragmonitor.records import JudgeUsage


class _Line(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    key: str
    question: str = ""
    """For people who read a change of the file."""
    reply: Any = None
    """None: paid, and not readable."""
    usage: JudgeUsage = msgspec.field(default_factory=JudgeUsage)


class ReplyFile:
    """Replies by a key of what was asked, one JSON object a line; appended to as they come.

    A line is appended with one write, so that parallel processes may share the file.
    """

    def __init__(self, path: Path) -> None:
        """Read what earlier runs kept. A last line that was cut short is passed over.

        Raises:
            InputError: The file cannot be read, or is no such file.
        """
        self.path = path
        self.usage = JudgeUsage()
        """The usage of all runs together."""
        self._replies: dict[str, Any] = {}
        with file_errors(path):
            *whole, last = path.read_bytes().split(b"\n") if path.exists() else [b""]
        for number, line in enumerate(whole, 1):
            if line.strip():
                try:
                    self._take(msgspec.json.decode(line, type=_Line))
                except msgspec.MsgspecError as error:
                    raise InputError(
                        f"{path}, line {number}: {error}; it keeps replies of earlier runs: move "
                        "it away to begin anew"
                    ) from error
        self._torn_bytes, self._is_open = 0, False
        if last:
            try:
                self._take(msgspec.json.decode(last, type=_Line))
                self._is_open = True  # an editor left the last line's end out
            except msgspec.MsgspecError:
                self._torn_bytes = len(last)

    def _take(self, line: _Line) -> None:
        self.usage += line.usage
        if line.reply is not None:
            self._replies[line.key] = line.reply

    def get(self, key: str) -> Any:
        """Return the reply; None: it was not asked, or gave nothing."""
        return self._replies.get(key)

    def add(
        self, key: str, reply: Any, usage: JudgeUsage | None = None, *, question: str = ""
    ) -> None:
        """Keep what a call gave and cost. Raises `OSError`."""
        line = _Line(key=key, question=question, reply=reply, usage=usage or JudgeUsage())
        with open(self.path, "ab", buffering=0, opener=owners_alone) as file:
            if self._torn_bytes:
                file.truncate(file.tell() - self._torn_bytes)
            file.write(b"\n" * self._is_open + msgspec.json.encode(line) + b"\n")
        self._torn_bytes, self._is_open = 0, False
        self._take(line)
