"""A JSON object that outlives a process, and that several processes change in turn."""

from __future__ import annotations

import errno
import json
import math
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Mapping
from contextlib import AbstractContextManager
from typing import Any, Final, Self

from ragmonitor.guard import record_problem, record_unkept

MAX_SIZE_BYTES: Final = 64 * 2**20
"""Bytes of a state; what is larger is none of ours."""
_MAX_DIGITS: Final = 21


class StateUnavailableError(OSError):
    """A state cannot be had for the moment, while other processes may go on changing it."""


class StateLockedError(StateUnavailableError):
    """Another process keeps a state to itself."""


class LaterStateError(StateUnavailableError):
    """A later release keeps a state in a shape that this one does not know.

    It is left as it is: in a rolling update both would else begin anew in turn, with a budget that
    nobody has spent of.
    """


class State(ABC):
    """One thing of a service, shared by the processes that name the same place.

    A process that holds `alone()` reads, changes and writes it while no other one does. If it dies
    meanwhile, the old state stands.
    """

    version: int
    """The version of the state's shape; a state of an earlier one cannot be understood."""

    @property
    @abstractmethod
    def name(self) -> str:
        """The name of the place, for people; without credentials."""

    @property
    @abstractmethod
    def place(self) -> str:
        """The place of it and other states, for people: the folder, or the server."""

    @abstractmethod
    def alone(self) -> AbstractContextManager[None]:
        """Keep other processes and threads from the state meanwhile.

        Raises:
            StateLockedError: They keep it to themselves for longer than `LOCK_WAIT_S`.
            OSError: The place cannot be reached.
        """

    @abstractmethod
    def read(self) -> dict[str, Any] | None:
        """Return the state; None: there is none yet.

        What cannot be understood is put aside, to be looked at, so that the next one begins anew.

        Raises:
            ValueError: It cannot be read: broken, too large, or of an earlier version.
            LaterStateError: It is of a later version.
            OSError: The place cannot be reached.
        """

    @abstractmethod
    def write(self, state: Mapping[str, Any]) -> None:
        """Replace the state; only `alone()`. Raises `OSError`; the old one then stands."""

    @abstractmethod
    def remove(self) -> None:
        """Remove the state, if there is one. Raises `OSError`."""

    @abstractmethod
    def mark(self) -> Hashable:
        """Return what is another after each writing; None: there is no state. Raises `OSError`."""

    @abstractmethod
    def part(self, name: str) -> Self:
        """Return a state beside this one, which is written while this one is held alone."""

    def now(self) -> float:
        """Return the seconds since the epoch by the clock of those who share the state."""
        return time.time()

    def update(
        self,
        change: Callable[[dict[str, Any]], Mapping[str, Any] | None],
        *,
        stage: str,
        what: str,
    ) -> bool:
        """Read the state and write another one, while nobody else does; report what fails.

        Args:
            change: Returns what is to be written instead of the state; None: nothing. The state is
                empty if there is none yet, or none that can be understood.
            stage: Where a state that cannot be understood is counted; a place that fails is
                counted as `state`.
            what: What is kept here, for the log.

        Returns:
            False: the place failed, and the old state stands.
        """
        try:
            with self.alone():
                try:
                    state = self.read() or {}
                except ValueError as error:
                    record_problem(stage, f"{what} begins anew: {error}")
                    state = {}
                changed = change(state)
                if changed is not None:
                    self.write(changed)
        except OSError as error:
            record_unkept(what, self.place, error)
            return False
        return True

    def _content(self, state: Mapping[str, Any]) -> bytes:
        content = json.dumps({"version": self.version, **state}).encode()
        if len(content) > MAX_SIZE_BYTES:
            raise OSError(errno.EFBIG, f"{len(content)} bytes are no state", self.name)
        return content

    def _understood(self, content: bytes) -> dict[str, Any]:
        """Return what is kept.

        Raises:
            ValueError: It is no state of this version, nor of a later one.
            LaterStateError: It is of a later one.
        """
        if len(content) > MAX_SIZE_BYTES:
            raise ValueError(f"it is larger than {MAX_SIZE_BYTES} bytes")
        try:
            state = json.loads(
                content, parse_int=_bounded, parse_float=_finite, parse_constant=_finite
            )
        except (RecursionError, MemoryError):
            raise ValueError("it is nested too deeply") from None
        if not isinstance(state, dict):
            raise ValueError("it is no object of JSON")  # noqa: TRY004 - as the others
        version = state.get("version")
        if type(version) is int and version > self.version:
            raise LaterStateError(
                errno.EPROTO, "a later release of ragmonitor keeps its own there", self.name
            )
        if version != self.version:
            raise ValueError(f"it is not of version {self.version}")
        return state


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text} is no number of a state")
    return number


def _bounded(text: str) -> int:
    # What is longer is none of ours: 64 bits have 20 digits. And past them a float is infinite.
    if len(text) > _MAX_DIGITS:
        raise ValueError(f"a number of {len(text)} digits is none of a state")
    return int(text)
