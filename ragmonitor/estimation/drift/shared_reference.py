"""Collects and freezes the reference of a service, over all its processes."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from functools import partial
from threading import Event
from typing import Any, Final

from ragmonitor.apart import EXECUTOR
from ragmonitor.estimation.drift.embedding_queue import STAGE
from ragmonitor.estimation.drift.reference import Asked, Collected, Reference
from ragmonitor.guard import record_error
from ragmonitor.protocols import Clock
from ragmonitor.state import State

_WHAT: Final = "the reference of input drift"
_LOOK_EVERY_S: Final = 30.0
_LOOK_SOON_S: Final = 5.0
"""Between two looks at the file, while there is much to bring or the reference is full."""
_MANY: Final = 64
_CLAIM_S: Final = 3_600.0
"""The time for which others wait for the process that fits; then another does."""
_SLICE_S: Final = 0.01
_EFFORT: Final = 0.1
"""A fit takes at most that share of the time, and at most that long at once."""


class _Fit:
    """A reference that is being made on a thread of its own, a slice at a time."""

    def __init__(self, make: Callable[..., Reference], *, is_new: bool) -> None:
        """Begin. Raises `RuntimeError`: the system has no further thread."""
        self.is_new = is_new
        """It is fitted; else it is read from the disk."""
        self.hurry = Event()
        """Set: the fit does not rest any more."""
        self.is_abandoned = False
        self._resumed_at_s = time.perf_counter()
        self.made: Future[Reference] = EXECUTOR.submit(make, pause=self._pause)

    def _pause(self) -> None:
        took_s = time.perf_counter() - self._resumed_at_s
        if took_s >= _SLICE_S:
            self.hurry.wait(took_s * (1 / _EFFORT - 1))
            self._resumed_at_s = time.perf_counter()
        if self.is_abandoned:
            raise InterruptedError("nobody wants the reference any more")

    def abandon(self) -> None:
        """End the thread at its next pause."""
        self.is_abandoned = True
        self.hurry.set()


class SharedReference:
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
        file: State | None,
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
        self._own_file = file
        self._clock = clock
        self._wall = wall
        self.clear()

    def clear(self) -> None:
        """Forget everything but the file; for a forked child."""
        self.reference: Reference | None = None
        """The frozen one; None: it is still collected."""
        self._file = self._own_file
        """None: there is none, it fails, or another release of the service has it now."""
        self._pending = Collected()
        self._shared = 0
        """Interactions that the file had when last looked at."""
        self._looked_at_s: float | None = None
        self._fit: _Fit | None = None

    @property
    def ratio(self) -> float:
        """The share of the reference that is collected, 0 to 1."""
        return min(1.0, (self._shared + self._pending.count) / self._size)

    @property
    def takes(self) -> bool:
        """Whether another interaction is wanted; once the reference is complete it is not."""
        return self.reference is None and self._fit is None and self.ratio < 1

    def add(self, interaction_id: str, asked: Asked) -> None:
        """Collect one interaction, while it `takes` any."""
        self._pending.add(interaction_id, asked)

    def advance(self) -> None:
        """Look at the file if it is time to, and freeze what has been made."""
        if self._fit is not None:
            if self._fit.made.done():
                self._finish(self._fit)
        elif self.reference is None and self._is_due():
            self.share()

    def close(self) -> None:
        """Keep what was collected, for other processes; what is half fitted another one fits."""
        if self.takes and self._pending.count:
            self.share()
        fit, self._fit = self._fit, None
        if fit is not None:
            fit.abandon()
            if fit.is_new:
                self._update(lambda state: {**state, "claimed_until_s": 0.0})

    # --- collecting -----------------------------------------------------------------------------

    def _is_due(self) -> bool:
        if self._file is None:
            return self.ratio >= 1
        if self._looked_at_s is None:
            return True
        is_soon = self._pending.count >= _MANY or self.ratio >= 1
        since_s = self._clock() - self._looked_at_s
        return since_s >= (_LOOK_SOON_S if is_soon else _LOOK_EVERY_S)

    def share(self) -> None:
        """Bring what was collected together with what others did; begin to fit when it is full."""
        exchanged: list[tuple[Collected, bool]] = []
        is_kept = self._update(partial(self._exchange, exchanged))
        self._looked_at_s = self._clock()
        if is_kept:
            for collected, is_claimed in exchanged:
                self._pending, self._shared = Collected(), collected.count
                if is_claimed:
                    self._begin_fit(collected)
        elif self._pending.count >= self._size:
            self._file = None  # it may come back; a full reference does not wait for it
            self._begin_fit(self._pending)

    def _exchange(
        self, exchanged: list[tuple[Collected, bool]], state: Mapping[str, Any]
    ) -> Mapping[str, Any] | None:
        """Merge what we collected into the file's; note it, and whether the fit is ours."""
        is_taken_over = False
        if state.get("made_of", self._made_of) != self._made_of:
            if self._looked_at_s is not None:
                # Another release of the service, with another embedding, has the file now.
                self._file, self._shared = None, 0
                return None
            state, is_taken_over = {}, True
        if "reference" in state:
            self._begin(partial(Reference.restored, state["reference"]), is_new=False)
            return None
        collected, claimed_until_s = _collected_of(state)
        collected.merge(self._pending)
        now = self._wall()
        is_claimed = collected.count >= self._size and not now < claimed_until_s <= now + _CLAIM_S
        exchanged.append((collected, is_claimed))
        if not (self._pending.count or is_claimed or is_taken_over):
            return None
        return {
            "made_of": self._made_of,
            "collected": collected.state(),
            "claimed_until_s": now + _CLAIM_S if is_claimed else claimed_until_s,
        }

    # --- freezing -------------------------------------------------------------------------------

    def _begin_fit(self, collected: Collected) -> None:
        self._begin(partial(Reference.fitted, collected, dense=self._dense), is_new=True)

    def _begin(self, make: Callable[..., Reference], *, is_new: bool) -> None:
        try:
            self._fit = _Fit(partial(make, made_of=self._made_of), is_new=is_new)
        except RuntimeError as error:
            record_error(STAGE, error)

    def _finish(self, fit: _Fit) -> None:
        """Freeze what was made; what another process froze meanwhile stands."""
        self._fit = None
        try:
            reference = fit.made.result()
        except Exception as error:  # noqa: BLE001 - whatever a file or an embedding held
            record_error(STAGE, error)
            self._begin_anew(fit)
            return
        if fit.is_new:
            self._update(partial(self._freeze, reference))
        if self._fit is None:
            self.reference, self._pending = reference, Collected()

    def _freeze(self, reference: Reference, state: Mapping[str, Any]) -> Mapping[str, Any] | None:
        if state.get("made_of") == self._made_of and "reference" in state:
            self._begin(partial(Reference.restored, state["reference"]), is_new=False)
            return None
        return {"made_of": self._made_of, "reference": reference.state}

    def _begin_anew(self, failed: _Fit) -> None:
        """Forget what was collected, or what was on disk: it made no reference."""
        self._pending, self._shared = Collected(), 0

        def emptied(state: Mapping[str, Any]) -> Mapping[str, Any] | None:
            if failed.is_new and "reference" in state:
                return None
            return {"made_of": self._made_of, "collected": Collected().state()}

        self._update(emptied)

    def _update(self, change: Callable[[Mapping[str, Any]], Mapping[str, Any] | None]) -> bool:
        return self._file is not None and self._file.update(change, stage=STAGE, what=_WHAT)


def _collected_of(state: Mapping[str, Any]) -> tuple[Collected, float]:
    """Return what a file holds, and until when a process has claimed the fit."""
    try:
        collected = Collected.restored(state["collected"]) if "collected" in state else Collected()
        return collected, float(state.get("claimed_until_s", 0.0))
    except (ValueError, KeyError, TypeError) as error:
        record_error(STAGE, error)
        return Collected(), 0.0
