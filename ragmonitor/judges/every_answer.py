"""Has a slow judge read every answer, and leaves to the rules what it does not read in time."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Final

from ragmonitor.records import BUILTIN, Assessment, Cause, Interaction
from ragmonitor.runtime.errors import JudgeError
from ragmonitor.runtime.guard import record_error
from ragmonitor.runtime.protocols import Judge

TIMEOUT_S: Final = 10.0
"""The time for one answer; the rules read what is not through by then."""
MAX_WAITING: Final = 100
"""Answers that may wait for their turn; the rules read what is before them."""


class EveryAnswerReader:
    """Reads one answer after the other, under the name `builtin:` and the judge's own.

    While a reading goes on that was too slow, as the one that loads the model, it reads nothing.
    """

    def __init__(self, judge: Judge, *, timeout_s: float = TIMEOUT_S) -> None:
        """Read nothing yet.

        Args:
            judge: The judge.
            timeout_s: For one answer.
        """
        self._judge = judge
        self._timeout_s = timeout_s
        identity = judge.identity
        self.identity = replace(identity, name=f"{BUILTIN}:{identity.name}")
        """The judge's, in a name that says that it reads every answer."""
        self._late: asyncio.Task[Assessment] | None = None

    async def read(self, interaction: Interaction) -> Assessment | Cause:
        """Return what the judge found, or why it found nothing; it raises nothing."""
        if self._late is not None and not self._late.done():
            return Cause.JUDGE_BUSY
        reading = asyncio.ensure_future(self._judge.assess(interaction))
        try:
            await asyncio.wait({reading}, timeout=self._timeout_s)
        finally:
            if not reading.done():
                self._late = reading
                # Whatever it raises then comes too late to be said of an answer.
                reading.add_done_callback(lambda each: each.cancelled() or each.exception())
        if not reading.done():
            return Cause.JUDGE_TIMEOUT
        try:
            return replace(reading.result(), judge=self.identity)
        except Exception as error:  # noqa: BLE001 - a judge is anybody's code
            cause = error.cause if isinstance(error, JudgeError) else Cause.JUDGE_ERROR
            if cause is Cause.JUDGE_ERROR:
                record_error("judge", error)
            return cause
