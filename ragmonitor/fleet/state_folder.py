"""The state folder of an estimator: its files are fields of each checkpoint."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
import weakref
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from ragmonitor.fleet.estimator_state import file_field, file_of

SETTLED_S: Final = 2.0
"""A file that was written within so long is read again: another one may have its time and size."""


class StateFolder:
    """A folder for as long as an estimator works, with the files that its predecessor kept."""

    def __init__(self, kept: Mapping[str, bytes]) -> None:
        """Write the files of the predecessor.

        Args:
            kept: The fields of its checkpoint.
        """
        self.path = Path(tempfile.mkdtemp(prefix="ragmonitor-"))
        """Readable by this process's user alone."""
        self.remove = weakref.finalize(self, shutil.rmtree, self.path, True)
        """Removes the folder."""
        self._marks: dict[str, tuple[int, int, int]] = {}
        for name, content in kept.items():
            file = self.path / file_of(name)
            if content and file_of(name) and self.path in file.parents and ".." not in file.parts:
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_bytes(content)

    def changed(self, kept: Mapping[str, bytes]) -> dict[str, bytes]:
        """Return the fields of files that are others than was kept; empty: the file is gone.

        Args:
            kept: The fields of the last checkpoint, which had what was returned before.
        """
        found: dict[str, bytes] = {}
        there: set[str] = set()
        newest_ns = time.time_ns() - int(SETTLED_S * 1e9)
        for name, entry in _files(self.path):
            there.add(name)
            status = entry.stat()
            mark = status.st_ino, status.st_mtime_ns, status.st_size
            if self._marks.get(name) == mark and status.st_mtime_ns < newest_ns:
                continue
            self._marks[name] = mark
            content = Path(entry.path).read_bytes()
            if kept.get(name) != content:
                found[name] = content
        gone = {name for name, content in kept.items() if content and file_of(name)} - there
        for name in gone:
            self._marks.pop(name, None)
        return found | dict.fromkeys(gone, b"")


def _files(folder: Path | str, within: str = "") -> Iterator[tuple[str, os.DirEntry[str]]]:
    """Yield the files of a folder and of those in it, with their fields."""
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                yield from _files(entry.path, f"{within}{entry.name}/")
            elif entry.name.endswith(".json"):
                yield file_field(within + entry.name), entry
