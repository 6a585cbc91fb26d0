"""The files in `PROMETHEUS_MULTIPROC_DIR` by which one endpoint serves several processes."""

from __future__ import annotations

import contextlib
import itertools
import json
import math
import os
import struct
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Final

from prometheus_client import values
from prometheus_client.metrics_core import Metric
from prometheus_client.multiprocess import MultiProcessCollector, mark_process_dead
from prometheus_client.samples import Exemplar

from ragmonitor.export.families import ScrapeSums
from ragmonitor.guard import errors, logger, shielded
from ragmonitor.patterns import lazy_pattern
from ragmonitor.records import Moments

VARIABLE = "PROMETHEUS_MULTIPROC_DIR"

_SIDECAR = "ragmonitor_sums_{pid}_{number}.json"
_OF_A_PROCESS = lazy_pattern(
    r"(?:gauge_live[a-z]*|ragmonitor_sums)_(\d+)(?:_\d+)?\.(?:db|json|json\.tmp)"
)
MIN_FREE_BYTES: Final = 8 << 20
"""With less room on its file system the folder is not used: see `_has_room`."""
_INTEGER = struct.Struct("i")
_HEAD_BYTES: Final = 8
_NUMBERS_BYTES: Final = 16
_numbers = itertools.count()
"""Several monitors in one process must not write the same file."""


class SharedFolder:
    """The folder through which processes add up their numbers."""

    def __init__(self, folder: Path) -> None:
        self.path = folder
        self._number = next(_numbers)
        self._written = ""
        self._unreadable: Counter[str] = Counter()
        self._set_own_aside()

    def counted(self) -> Iterable[Metric]:
        """Return all readable files' families, summed; live gauges of the living only.

        A file that cannot be read (of a process that was killed while it wrote, or of a full disk)
        is left out, logged and counted once.
        """
        with shielded("metrics"):
            self.remove_dead()
        problems = {str(file): _problem(file) for file in sorted(self.path.glob("*.db"))}
        try:
            merged = _merged([file for file, problem in problems.items() if problem is None])
        except Exception:  # noqa: BLE001 - whatever it is, it is in one of the files
            problems = {file: known or _merging_problem(file) for file, known in problems.items()}
            merged = _merged([file for file, problem in problems.items() if problem is None])
        self._report({file: problem for file, problem in problems.items() if problem is not None})
        return merged

    def _report(self, problems: Mapping[str, str]) -> None:
        """Log which files cannot be read, each the second time that it is found so.

        The first time it may be one that its process has just begun.
        """
        self._unreadable = Counter({file: self._unreadable[file] + 1 for file in problems})
        for file, times in self._unreadable.items():
            if times != 2:
                continue
            errors["metrics"] += 1
            logger.warning(
                "ragmonitor: %s cannot be read (%s) and is left out of /metrics; the numbers of "
                "its process are missing, so delete it once that process has ended",
                file,
                problems[file],
            )

    def _set_own_aside(self) -> None:
        """Delete unreadable files under our own process id.

        They are remains of an earlier process of that id, as in containers, where it is always the
        same. Left there, the library would fail at the first series of this process.
        """
        for file in self.path.glob(f"*_{os.getpid()}.db"):
            with shielded("metrics"):
                problem = _problem(file)
                if problem is not None and file.stat().st_size:
                    file.unlink()
                    logger.warning(
                        "ragmonitor: %s, left by an earlier process, could not be read (%s) and "
                        "was deleted",
                        file,
                        problem,
                    )

    def remove_dead(self) -> None:
        """Remove live gauges and sums of processes that have ended. Counters stay."""
        for pid in {pid for pid in self._pids() if not _is_alive(pid)}:
            with contextlib.suppress(FileNotFoundError):  # another process was faster
                mark_process_dead(pid, str(self.path))  # type: ignore[no-untyped-call]
            for file in self.path.glob(_SIDECAR.format(pid=pid, number="*") + "*"):
                file.unlink(missing_ok=True)

    def living(self) -> int:
        """Return the number of living processes that count here."""
        return sum(_is_alive(pid) for pid in set(self._pids()))

    def write(self, sums: ScrapeSums) -> None:
        """Write what this process has beside its counters into a file of its own."""
        text = json.dumps(
            {
                "means": [[key, asdict(moments)] for key, moments in sums.means.items()],
                "exemplars": [
                    [dict(series), bound, [e.labels, e.value, e.timestamp]]
                    for (series, bound), e in sums.exemplars.items()
                ],
            }
        )
        if text == self._written:
            return
        sidecar = self.path / _SIDECAR.format(pid=os.getpid(), number=self._number)
        draft = sidecar.with_suffix(".json.tmp")
        draft.write_text(text, encoding="utf-8")
        draft.replace(sidecar)
        self._written = text

    def read(self) -> ScrapeSums:
        """Return what all living processes have beside their counters."""
        with shielded("metrics"):
            self.remove_dead()
        sums = ScrapeSums()
        for sidecar in self.path.glob(_SIDECAR.format(pid="*", number="*")):
            with shielded("metrics"):
                sums.add(_read(sidecar))
        return sums

    def _pids(self) -> Iterable[int]:
        with contextlib.suppress(OSError):
            for file in self.path.iterdir():
                match = _OF_A_PROCESS.fullmatch(file.name)
                if match:
                    yield int(match.group(1))


def shared_folder(environment: Mapping[str, str]) -> SharedFolder | None:
    """Return the folder that processes share; None: every process counts for itself.

    The folder is made if it is missing.
    """
    path = environment.get(VARIABLE, "")
    if not path:
        return None
    if not getattr(values.ValueClass, "_multiprocess", False):
        logger.warning(
            "ragmonitor: %s was set after prometheus_client had been imported, and is not heeded; "
            "set it before the process starts",
            VARIABLE,
        )
        return None
    folder = Path(path)
    folder.mkdir(parents=True, exist_ok=True)
    return SharedFolder(folder) if _has_room(folder) else None


def _has_room(folder: Path) -> bool:
    """Return whether a process may count there; warn if it may not.

    The library maps files with holes into memory. Where a hole cannot be filled, as on a full
    tmpfs, the kernel ends the process by SIGBUS, in whatever line of the application that is.
    """
    system = os.statvfs(folder)
    if system.f_bavail * system.f_frsize >= MIN_FREE_BYTES:
        return True
    logger.warning(
        "ragmonitor: %s (%s) has no room for this process; at least %d MiB are to be free at the "
        "start of each. It is not used: /metrics has the numbers of one process only. Give it a "
        "larger file system; the kernel ends a process that counts there once it is full (SIGBUS)",
        VARIABLE,
        folder,
        MIN_FREE_BYTES >> 20,
    )
    return False


def _merged(files: list[str]) -> list[Metric]:
    # `MultiProcessCollector.merge`, in its two steps. Between them NaN is left out, by which a
    # process says that it has no number: no maximum is above a NaN that comes first.
    read = MultiProcessCollector._read_metrics(files)  # type: ignore[no-untyped-call]  # noqa: SLF001
    for family in read.values():
        if family.type == "gauge":
            family.samples = [each for each in family.samples if not math.isnan(each.value)]
    accumulated = MultiProcessCollector._accumulate_metrics(read, accumulate=True)  # type: ignore[no-untyped-call]  # noqa: SLF001
    return list(accumulated)


def _merging_problem(file: str) -> str | None:
    try:
        _merged([file])
    except Exception as error:  # noqa: BLE001 - as above
        return type(error).__name__
    return None


def _problem(file: Path) -> str | None:
    """Return what is wrong with the structure of a file of `prometheus_client`'s; None: nothing.

    The library follows whatever lengths stand there, backwards too, and then for ever.
    """
    try:
        data = file.read_bytes()
    except FileNotFoundError:  # its process has ended
        return None
    except OSError as error:
        return type(error).__name__
    if len(data) < _HEAD_BYTES:
        return "it is empty" if not data else "it is cut off"
    (used,) = _INTEGER.unpack_from(data)
    if not 0 <= used <= len(data):
        return "it is cut off"
    at = _HEAD_BYTES
    while at < used:
        (length,) = _INTEGER.unpack_from(data, at) if at + _INTEGER.size <= used else (-1,)
        at += _INTEGER.size + length + 8 - (length + _INTEGER.size) % 8 + _NUMBERS_BYTES
        if length < 0 or at > used:
            return "it is torn"
    return None


def _read(sidecar: Path) -> ScrapeSums:
    try:
        entries = json.loads(sidecar.read_text(encoding="utf-8"))
    except FileNotFoundError:  # its process died between the look and the reading
        return ScrapeSums()
    return ScrapeSums(
        means={tuple(key): Moments(**sums) for key, sums in entries["means"]},
        exemplars={
            (frozenset(_texts(series)), float(bound)): Exemplar(
                dict(_texts(labels)), float(value), float(time_s)
            )
            for series, bound, (labels, value, time_s) in entries["exemplars"]
        },
    )


def _texts(labels: Mapping[str, str]) -> Iterable[tuple[str, str]]:
    for name, value in labels.items():
        (name + value).encode()  # raises for what could not be scraped
        yield name, value


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:  # it lives, and belongs to somebody else
        return True
    return True
