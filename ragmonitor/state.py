"""What outlives a process: a small file for each thing, replaced as a whole by one at a time."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

try:
    import fcntl
except ImportError:  # not a POSIX system: a file then serves one process
    fcntl = None  # type: ignore[assignment]


class StateFile:
    """A JSON object on disk, shared by the processes that name the same path.

    Who holds `alone()` owns it: reads, changes and writes it while nobody else does. Who dies
    meanwhile leaves the old state.
    """

    def __init__(self, path: Path, *, version: int) -> None:
        """Touch nothing yet.

        Args:
            path: Of the file; its folder is made when needed.
            version: Of the state's shape; a file of another version is unreadable.
        """
        self.path = path
        self._version = version

    @classmethod
    def of_service(cls, folder: Path, what: str, service: str, *, version: int) -> StateFile:
        """Return the file for `what` of this service in the folder."""
        # Two names may look alike once their signs are gone; and a file's has an end.
        name = re.sub(r"[^A-Za-z0-9.-]+", "_", service)[:80]
        digest = hashlib.blake2b(service.encode(), digest_size=4).hexdigest()
        return cls(folder / f"{what}-{name}-{digest}.json", version=version)

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        """Keep other processes and threads from the file meanwhile. Raises `OSError`."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        if fcntl is None:
            yield
            return
        with self.path.with_name(f"{self.path.name}.lock").open("ab") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield  # closing lets go

    def read(self) -> dict[str, Any] | None:
        """Return the state; None: there is none yet.

        Raises:
            ValueError: It cannot be read: broken, or of another version.
            OSError: The file cannot be opened.
        """
        try:
            told = json.loads(self.path.read_bytes())
        except FileNotFoundError:
            return None
        except RecursionError:
            raise ValueError(f"{self.path} is nested too deeply") from None
        if not isinstance(told, dict) or told.get("version") != self._version:
            raise ValueError(f"{self.path} is not of version {self._version}")
        return told

    def write(self, state: Mapping[str, Any]) -> None:
        """Replace the state. Raises `OSError`; the old one then stands."""
        draft = self.path.with_name(f"{self.path.name}.{os.getpid()}.{threading.get_ident()}.tmp")
        try:
            draft.write_text(json.dumps({"version": self._version, **state}), encoding="utf-8")
            draft.replace(self.path)
        except OSError:
            with contextlib.suppress(OSError):
                draft.unlink(missing_ok=True)
            raise
