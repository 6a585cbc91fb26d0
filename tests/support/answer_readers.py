"""What reads in the processes of a pool: importable there."""

from __future__ import annotations

import os

from ragmonitor.pipeline.judging import Reading
from ragmonitor.records import Chunk, Report
from tests.support import stories


class NamingReader:
    """Returns readings that name their process; the id `die` ends it."""

    async def prepare(self):
        """Be ready."""

    async def read(self, interaction):
        """Read, or fail."""
        if interaction.id == "die":
            os._exit(7)
        assessment = stories.assessment("supported")
        return Reading(
            report=Report(
                interaction=stories.interaction(
                    id=interaction.id, chunks=(Chunk(text=str(os.getpid())),)
                ),
                judge=assessment.judge,
                evaluations=(),
                assessment=assessment,
            )
        )
