"""What reads in the processes of a pool: importable there."""

from __future__ import annotations

import os

from ragmonitor.pipeline.judging import Reading
from ragmonitor.records import Chunk, Report
from ragmonitor.runtime.errors import SettingsError
from tests.support import stories


class NamingReader:
    """Returns readings that name their process, and does what some ids ask for."""

    def __init__(self, *, is_broken=False):
        self._is_broken = is_broken

    async def prepare(self):
        """Fail if it is to."""
        if self._is_broken:
            raise SettingsError("no model there")

    async def read(self, interaction):
        """Read, or fail."""
        if interaction.id == "die":
            os._exit(7)
        if interaction.id == "exit":
            raise SystemExit(3)
        of_any_type = (lambda: None) if interaction.id == "unpicklable" else None
        chunk = Chunk(text=str(os.getpid()), metadata={"value": of_any_type})
        assessment = stories.assessment("supported")
        return Reading(
            report=Report(
                interaction=stories.interaction(id=interaction.id, chunks=(chunk,)),
                judge=assessment.judge,
                evaluations=(),
                assessment=assessment,
            )
        )
