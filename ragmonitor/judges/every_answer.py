"""Has a slow judge read every answer, in batches and beside the application.

An encoder takes tens to hundreds of milliseconds for an answer, where the built-in rules take one
or two. It reads several at once, in a helper process (`ragmonitor.judges.encoder_helper`), and what
it has not read within its time is left to the rules: nothing ever waits longer for it than that.
"""

from __future__ import annotations

import asyncio
import os
import pickle
import sys
import time
from collections.abc import Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final, Protocol, TypeAlias

from ragmonitor.apart import EXECUTOR
from ragmonitor.errors import JudgeError, RagMonitorError
from ragmonitor.forks import survive_forks, without_forks
from ragmonitor.guard import logger, reason, record_error
from ragmonitor.judges.encoder_helper import Helper, HelperError
from ragmonitor.records import BUILTIN, Assessment, Cause, Interaction, JudgeIdentity

MAX_STARTS: Final = 4
"""After so many helpers that died, the built-in rules read everything."""
STARTING_S: Final = 600.0
"""Time to load the model, which may have to be downloaded."""
HUNG_S: Final = 60.0
"""Beyond the time for a batch, after which its helper is ended."""
GRACE_S: Final = 0.5
"""For the way to the helper and back."""
MAX_WAIT_S: Final = 30.0
"""Answers that would wait longer than this for their turn are left to the rules."""

Found: TypeAlias = "Assessment | JudgeError"


class BatchJudge(Protocol):
    """A judge that reads several answers at once, and slowly."""

    @property
    def identity(self) -> JudgeIdentity:
        """The name, version and kind of the judge."""
        ...

    def read_batch(
        self, interactions: Sequence[Interaction], *, within_s: float
    ) -> Sequence[Found]:
        """Return what was found of each answer in their order, or why nothing was.

        Nothing is begun after `within_s` seconds. Loads what is needed with the first call, which
        may have no answers. Raises `RagMonitorError`: it cannot read at all, and never will.
        """
        ...


class EveryAnswerReader:
    """Reads every answer by a `BatchJudge`, under the name `builtin:` and the judge's own.

    It reads in a helper process of its own, which loads the model with the first answers, on POSIX
    and where the judge can be pickled; elsewhere on a thread. To be called on one event loop at a
    time, one batch after the other.
    """

    def __init__(self, inner: BatchJudge, *, batch: int, timeout_s: float) -> None:
        """Start nothing yet.

        Args:
            inner: The judge.
            batch: Answers that are read at once, at most.
            timeout_s: For one batch, from when its turn comes.
        """
        self._inner = inner
        self._timeout_s = timeout_s
        self._is_apart = os.name == "posix" and _can_travel(inner)
        self.batch = batch
        identity = inner.identity
        self.identity = replace(identity, name=f"{BUILTIN}:{identity.name}")
        """The judge's, in a name that says that it reads every answer."""
        self._begin()
        survive_forks(self)

    def _begin(self) -> None:
        self._helper: Helper | None = None
        self._starts = 0
        self._failure: JudgeError | None = None
        """Why it will never read again."""
        self._reading: Future[list[Found]] | None = None
        """The batch, or the loading, that is under way."""
        self._due_s = 0.0
        """The time until which that is waited for, in seconds of `time.monotonic`."""
        self._has_loaded = False
        self._batch_s = 0.0

    @property
    def max_waiting(self) -> int:
        """Answers that may wait for their turn, by how long the last batch took."""
        turns = MAX_WAIT_S / max(self._batch_s, MAX_WAIT_S / 1_000)
        return max(4, int(turns)) * self.batch

    async def read(
        self, interactions: Sequence[Interaction], *, hurry: asyncio.Event
    ) -> list[Found]:
        """Return what the judge found of each answer, or why it found nothing; raises nothing.

        Nothing is waited for any more once `hurry` is set: the application is at its end.

        The causes are `judge_timeout` (not within its time), `judge_busy` (an earlier batch is
        still under way), `judge_down` (the model is not loaded yet), `judge_error` (it cannot be
        loaded, or its process died), `shutdown`, and those of the judge itself.
        """
        if self._reading is None and not self._has_loaded and self._failure is None:
            self._submit([])  # to load is the first thing it does, and takes its own time
        await self._wait(hurry)
        if self._reading is not None and not self._reading.done():
            cause = Cause.JUDGE_BUSY if self._has_loaded else Cause.JUDGE_DOWN
            return self._missed(interactions, cause, "it is not ready")
        if self._failure is None and self._reading is not None:
            self._take(self._reading)  # what came too late, or what loading came to
        if self._failure is not None:
            return [self._failure] * len(interactions)
        began = time.monotonic()
        reading = self._submit(interactions)
        await self._wait(hurry)
        if not reading.done():
            cause = Cause.SHUTDOWN if hurry.is_set() else Cause.JUDGE_TIMEOUT
            self._batch_s = time.monotonic() - began
            return self._missed(interactions, cause, f"not read within {self._timeout_s:g} s")
        self._reading = None
        outcomes = self._take(reading)
        self._batch_s = time.monotonic() - began
        if outcomes is None:
            return self._missed(interactions, Cause.JUDGE_ERROR, "it failed; see the log")
        for each in outcomes:
            if isinstance(each, JudgeError) and each.cause is Cause.JUDGE_ERROR:
                record_error("judge", each)
        return [self._named(each) for each in outcomes]

    async def assess(self, interaction: Interaction) -> Assessment:
        """Return what it found of one answer. Raises `JudgeError`."""
        (outcome,) = await self.read([interaction], hurry=asyncio.Event())
        if isinstance(outcome, JudgeError):
            raise outcome
        return outcome

    def _submit(self, interactions: Sequence[Interaction]) -> Future[list[Found]]:
        self._reading = reading = EXECUTOR.submit(self._ask, interactions)
        self._due_s = time.monotonic() + self._timeout_s + GRACE_S
        return reading

    async def _wait(self, hurry: asyncio.Event) -> None:
        """Wait for what is under way, until it is due."""
        reading, left_s = self._reading, self._due_s - time.monotonic()
        if reading is None or reading.done() or left_s <= 0:
            return
        coming: asyncio.Future[list[Found]] = asyncio.wrap_future(reading)
        # Whatever it raises is looked at once it is needed.
        coming.add_done_callback(lambda each: each.cancelled() or each.exception())
        hurrying = asyncio.ensure_future(hurry.wait())
        both: set[asyncio.Future[Any]] = {coming, hurrying}
        try:
            await asyncio.wait(both, timeout=left_s, return_when=asyncio.FIRST_COMPLETED)
        finally:
            hurrying.cancel()

    def _take(self, reading: Future[list[Found]]) -> list[Found] | None:
        """Return what a finished call found; None: its helper died, and the next has another."""
        try:
            outcomes = reading.result()
        except (HelperError, TimeoutError, OSError) as error:
            record_error("judge", error)
            if self._starts >= MAX_STARTS:
                self._give_up(f"{MAX_STARTS} helper processes of it died; see the log above")
            return None
        except RagMonitorError as error:
            self._give_up(reason(error))
            return None
        except Exception as error:  # noqa: BLE001 - a judge is anybody's code
            record_error("judge", error)
            return None
        self._has_loaded = True
        return outcomes

    def _give_up(self, why: str) -> None:
        self._failure = JudgeError(
            self.identity.name, why, cause=Cause.JUDGE_ERROR, retryable=False
        )
        logger.error(
            "ragmonitor: %s cannot read, and the built-in rules score every answer in its place, "
            "as judge %s: %s. Correct the setting judge.builtin, or unset it; `ragmonitor doctor` "
            "says whether it can read",
            self.identity.name,
            BUILTIN,
            why,
        )

    def _missed(self, interactions: Sequence[Interaction], cause: Cause, why: str) -> list[Found]:
        error = JudgeError(self.identity.name, why, cause=cause, retryable=True)
        return [error] * len(interactions)

    def _named(self, outcome: Found) -> Found:
        if isinstance(outcome, Assessment):
            return replace(outcome, judge=self.identity)
        return outcome

    # --- on a thread ----------------------------------------------------------------------------

    def _ask(self, interactions: Sequence[Interaction]) -> list[Found]:
        if not self._is_apart:
            return list(self._inner.read_batch(interactions, within_s=self._timeout_s))
        if self._helper is None:
            self._starts += 1
            # Known from its beginning: a fork, or the end, may come while it loads its model.
            with without_forks():
                self._helper = helper = Helper()
            try:
                helper.load(self._inner, starting_s=STARTING_S)
            except (HelperError, RagMonitorError):
                self._helper = None
                raise
        helper = self._helper
        if helper is None:
            raise HelperError("it was stopped")
        if not interactions:
            return []
        asked = [each.texts() for each in interactions], self._timeout_s
        try:
            reply = helper.ask(asked, self._timeout_s + HUNG_S)
        except (HelperError, TimeoutError):
            if self._helper is helper:
                self._helper = None
            helper.end()
            raise
        if isinstance(reply, Exception):
            raise reply
        if not isinstance(reply, list) or len(reply) != len(interactions):
            raise HelperError("the helper process replied something else")
        return reply

    # --- its end, and forks ---------------------------------------------------------------------

    def stop(self) -> None:
        """End the helper, whatever it is doing."""
        helper, self._helper = self._helper, None
        if helper is not None:
            helper.kill()
            with suppress(OSError):
                helper.end()

    def after_fork_in_child(self) -> None:
        """Let go of the parent's helper: this process loads a model of its own if it needs one."""
        helper = self._helper
        self._begin()
        if helper is not None:
            helper.forget()


def _can_travel(inner: Any) -> bool:
    """Return whether the judge can be sent to another process, which can import its class."""
    module = type(inner).__module__
    if module == "__main__" or module not in sys.modules:
        return False
    try:
        pickle.dumps(inner)
    except Exception:  # noqa: BLE001 - anybody's code
        return False
    return True
