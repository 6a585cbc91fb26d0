"""Several processes, one endpoint: what they leave in `PROMETHEUS_MULTIPROC_DIR` for each other."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from prometheus_client import values
from prometheus_client.metrics_core import Metric
from prometheus_client.multiprocess import MultiProcessCollector, mark_process_dead
from prometheus_client.samples import Exemplar

from ragmonitor.export.families import Exemplars, LabelPairs
from ragmonitor.guard import logger, shielded

VARIABLE = "PROMETHEUS_MULTIPROC_DIR"

_SIDECAR = "ragmonitor_exemplars_{pid}_{number}.json"
_OF_A_PROCESS = re.compile(
    r"(?:gauge_live[a-z]*|ragmonitor_exemplars)_(\d+)(?:_\d+)?\.(?:db|json|json\.tmp)"
)
_numbers = itertools.count()
"""Several monitors in one process must not write the same file."""


class SharedFolder:
    """The folder through which processes add up their numbers."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._number = next(_numbers)
        self._written: dict[tuple[LabelPairs, float], Exemplar] = {}

    def counted(self) -> Iterable[Metric]:
        """Return all processes' families, summed; live gauges of the living only."""
        self.bury_the_dead()
        # Typed by the library as if it needed a registry.
        collector = MultiProcessCollector(None, str(self._folder))  # type: ignore[no-untyped-call]
        found: Iterable[Metric] = collector.collect()  # type: ignore[no-untyped-call]
        return found

    def bury_the_dead(self) -> None:
        """Remove what only the living may have: live gauges and exemplars. Counters stay."""
        for pid in {pid for pid in self._pids() if not _is_alive(pid)}:
            with contextlib.suppress(FileNotFoundError):  # another process was faster
                mark_process_dead(pid, str(self._folder))  # type: ignore[no-untyped-call]
            for sidecar in self._folder.glob(_SIDECAR.format(pid=pid, number="*") + "*"):
                sidecar.unlink(missing_ok=True)

    def living(self) -> int:
        """Return how many processes count here now."""
        return sum(_is_alive(pid) for pid in set(self._pids()))

    def write_exemplars(self, exemplars: Exemplars) -> None:
        """Put this process's newest exemplars where others find them.

        The library drops exemplars in this mode without a word.
        """
        if exemplars == self._written:
            return
        entries = [
            {
                "series": dict(series),
                "le": str(bound),
                "labels": exemplar.labels,
                "value": exemplar.value,
                "time": float(exemplar.timestamp or 0.0),
            }
            for (series, bound), exemplar in exemplars.items()
        ]
        sidecar = self._folder / _SIDECAR.format(pid=os.getpid(), number=self._number)
        draft = sidecar.with_suffix(".json.tmp")
        draft.write_text(json.dumps(entries), encoding="utf-8")
        draft.replace(sidecar)
        self._written = dict(exemplars)

    def read_exemplars(self) -> dict[tuple[LabelPairs, float], Exemplar]:
        """Return the newest exemplar of each bucket over all living processes."""
        newest: dict[tuple[LabelPairs, float], Exemplar] = {}
        for sidecar in self._folder.glob(_SIDECAR.format(pid="*", number="*")):
            with shielded("metrics"):
                for key, exemplar in _read(sidecar):
                    known = newest.get(key)
                    if known is None or _time(known) < _time(exemplar):
                        newest[key] = exemplar
        return newest

    def after_fork_in_child(self) -> None:
        """Begin a sidecar of our own."""
        self._written = {}

    def _pids(self) -> Iterable[int]:
        with contextlib.suppress(OSError):
            for file in self._folder.iterdir():
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
    return SharedFolder(folder)


def _read(sidecar: Path) -> Iterable[tuple[tuple[LabelPairs, float], Exemplar]]:
    try:
        entries = json.loads(sidecar.read_text(encoding="utf-8"))
    except FileNotFoundError:  # its process died between the look and the reading
        return
    for entry in entries:
        key = (frozenset(entry["series"].items()), float(entry["le"]))
        yield key, Exemplar(entry["labels"], entry["value"], entry["time"])


def _time(exemplar: Exemplar) -> float:
    return float(exemplar.timestamp or 0.0)


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:  # it lives, and belongs to somebody else
        return True
    return True
