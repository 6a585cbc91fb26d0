"""How a reference comes to be: collected by all processes together, and fitted by one."""

from __future__ import annotations

import time
import uuid
from collections.abc import Generator, Mapping
from typing import Any, Final

from ragmonitor.estimation.drift.embedding import STAGE
from ragmonitor.estimation.drift.reference import Asked, Collected, Reference
from ragmonitor.guard import record_error, record_unkept
from ragmonitor.protocols import Clock
from ragmonitor.state import StateFile

_SHARE_EVERY_S: Final = 30.0
_SHARE_AT: Final = 64
_SHARE_APART_S: Final = 5.0
"""Seconds between two looks at the file: at least, with so many questions; and at most."""
_CLAIM_S: Final = 3_600.0
"""How long others wait for the process that fits; then another does."""
LONGEST_S: Final = 0.03
SHORTEST_S: Final = 0.001
_EFFORT: Final = 0.1
"""Fitting takes at most that share of the time, and at most that long at once."""


class Collecting:
    """Collects the service's first interactions until they make a reference.

    With a file all processes collect together: what each has is added to it now and then, the one
    that finds it full claims the fit, and the others take over what that one froze. Without one,
    or where the disk fails, each process is on its own. Used from one thread.
    """

    def __init__(
        self,
        *,
        size: int,
        made_of: str,
        dense: bool,
        file: StateFile | None,
        clock: Clock,
        wall: Clock,
    ) -> None:
        """Touch no disk yet.

        Args:
            size: Interactions of the reference.
            made_of: What it is made of, in words; a file that was made of something else is not
                taken over.
            dense: The points are vectors of an embedding; else hashed features.
            file: Where all of it is kept and shared; None: in memory only.
            clock: For how often to look at the file.
            wall: Seconds since the epoch, as other processes have them.
        """
        self._size = size
        self._made_of = made_of
        self._dense = dense
        self._file = file
        self._clock = clock
        self._wall = wall
        self.clear()

    def clear(self) -> None:
        """Forget everything but the file; for a forked child."""
        self.reference: Reference | None = None
        """The frozen one; None: it is still collected."""
        self.words: dict[int, str] = {}
        """By feature, for the labels of topics; may be added to until the reference is frozen."""
        self._pending = Collected()
        self._shared = 0
        """Interactions that the file had when last looked at."""
        self._shared_at: float | None = None
        self._attached = self._file is not None
        self._opened = False
        self._fit: Generator[None, None, Reference] | None = None
        self._restoring = False
        """The generator builds what is on disk; else it fits."""
        self._fitted_at_s = time.perf_counter()
        self._me = uuid.uuid4().hex

    @property
    def ratio(self) -> float:
        """How much of the reference is collected, 0 to 1."""
        return min(1.0, (self._shared + self._pending.count) / self._size)

    @property
    def is_fitting(self) -> bool:
        """Whether it is under way from what was collected, or what is on disk, to a reference."""
        return self._fit is not None

    @property
    def takes(self) -> bool:
        """Whether another interaction is wanted; once the reference is complete it is not."""
        return self._fit is None and self._shared + self._pending.count < self._size

    def add(self, interaction_id: str, asked: Asked) -> None:
        """Collect one interaction, while it `takes` any."""
        self._pending.add(interaction_id, asked)

    def advance(self) -> None:
        """Look at the file if it is time to, and spend a slice on fitting."""
        if self.reference is not None:
            return
        if self._fit is None:
            if self._is_due():
                self.share()
            return
        began = time.perf_counter()
        since = began - self._fitted_at_s
        if since < SHORTEST_S / _EFFORT:
            return
        self.step(until=began + min(LONGEST_S, since * _EFFORT))

    def step(self, *, until: float) -> None:
        """Fit until this reading of `time.perf_counter`; without a fit under way do nothing."""
        if self._fit is None:
            return
        try:
            while time.perf_counter() < until:
                next(self._fit)
        except StopIteration as end:
            self._fit = None
            self._keep(end.value)
        except Exception as error:  # noqa: BLE001 - whatever a file or an embedding held
            record_error(STAGE, error)
            self._fit = None
            self._forget()
        self._fitted_at_s = time.perf_counter()

    def _is_due(self) -> bool:
        if not self._attached:
            return self._pending.count >= self._size
        if self._shared_at is None:
            return True
        since = self._clock() - self._shared_at
        full = self._shared + self._pending.count >= self._size
        many = self._pending.count >= _SHARE_AT or (full and self._pending.count > 0)
        return since >= (_SHARE_APART_S if many else _SHARE_EVERY_S)

    def share(self) -> None:
        """Bring what was collected together with what others did; begin to fit when it is full."""
        self._shared_at = self._clock()
        if self._file is not None and self._attached:
            try:
                with self._file.alone():
                    self._merge(self._file, self._read(self._file))
            except OSError as error:
                record_unkept(STAGE, "the reference of input drift", error)
                # The disk may come back; a full reference does not wait for it.
                if self._pending.count >= self._size:
                    self._attached = False
            else:
                return
        if self._pending.count >= self._size and self._fit is None:
            self._start(self._pending)

    def _merge(self, file: StateFile, told: Mapping[str, Any]) -> None:
        taken_over = False
        if told.get("made_of", self._made_of) != self._made_of:
            if self._opened:
                # Another release of the service, with another embedding, has the file now.
                self._attached = False
                self._shared = 0
                return
            told, taken_over = {}, True
        try:
            if "reference" in told:
                self._opened = True
                self._restore(told["reference"])
                return
            collected = (
                Collected.restored(told["collected"]) if "collected" in told else Collected()
            )
            claim = dict(told.get("claim", {}))
            claimed_until_s = float(claim.get("until_s", 0.0))
        except (ValueError, KeyError, TypeError) as error:
            record_error(STAGE, error)
            collected, claim, claimed_until_s = Collected(), {}, 0.0
        self._opened = True
        collected.merge(self._pending)
        now = self._wall()
        mine = collected.count >= self._size and now >= claimed_until_s
        if mine:
            claim = {"by": self._me, "until_s": now + _CLAIM_S}
        if self._pending.count or mine or taken_over:
            file.write({"made_of": self._made_of, "collected": collected.state(), "claim": claim})
        self._pending, self._shared = Collected(), collected.count
        if mine:
            self._start(collected)

    def _read(self, file: StateFile) -> Mapping[str, Any]:
        try:
            return file.read() or {}
        except ValueError as error:
            record_error(STAGE, error)
            return {}

    def _start(self, collected: Collected) -> None:
        self._fitted_at_s = time.perf_counter()
        self._restoring = False
        self._fit = Reference.fitted(
            collected,
            dense=self._dense,
            made_of=self._made_of,
            words=self.words,
        )

    def _restore(self, state: Mapping[str, Any]) -> None:
        self._fitted_at_s = time.perf_counter()
        self._fit = Reference.restored(state, made_of=self._made_of)
        self._restoring = True

    def _keep(self, reference: Reference) -> None:
        """Freeze; what another process froze meanwhile stands."""
        if self._file is not None and self._attached and not self._restoring:
            try:
                with self._file.alone():
                    told = self._read(self._file)
                    if told.get("made_of") == self._made_of and "reference" in told:
                        self._restore(told["reference"])
                        return
                    self._file.write({"made_of": self._made_of, "reference": reference.state()})
            except OSError as error:
                record_unkept(STAGE, "the reference of input drift", error)
        self.reference = reference
        self._pending, self.words = Collected(), {}

    def _forget(self) -> None:
        """Collect anew: what was collected, or what was on disk, made no reference."""
        self._pending, self._shared = Collected(), 0
        if self._file is None or not self._attached:
            return
        try:
            with self._file.alone():
                told = self._read(self._file)
                if self._restoring or "reference" not in told:
                    self._file.write({"made_of": self._made_of, "collected": Collected().state()})
        except OSError as error:
            record_unkept(STAGE, "the reference of input drift", error)

    def close(self) -> None:
        """Keep what was collected, for other processes; what is half fitted another one fits."""
        if self.reference is None and self._fit is None and self._pending.count:
            self.share()
        if self._fit is not None:
            self._fit = None
            self._release()

    def _release(self) -> None:
        """Give the claim back, so that another process fits."""
        if self._file is None or not self._attached:
            return
        try:
            with self._file.alone():
                told = {**self._read(self._file)}
                claim = told.get("claim")
                if isinstance(claim, dict) and claim.get("by") == self._me:
                    told["claim"] = {}
                    del told["version"]  # the file's own
                    self._file.write(told)
        except OSError as error:
            record_unkept(STAGE, "the reference of input drift", error)
