"""The built-in judge: it needs no model and no network, takes milliseconds, and explains itself.

It sees content that the chunks lack, and numbers, units, dates, negations, names and the roles of
two names around a verb that they say otherwise. It does not see facts joined wrongly out of words
that are all there, causes invented between true facts, or units converted; and it takes paraphrase
without a common word for invention. Chunks that are records or tables are read as fields
(`structured`). Its `risk` orders answers: calibrate it before reading it as a rate.
"""

from __future__ import annotations

from dataclasses import replace

from ragmonitor.judges.builtin.assessment import IDENTITY, assess
from ragmonitor.judges.builtin.limits import check_length, deadline
from ragmonitor.judges.builtin.reference_reading import read_reference
from ragmonitor.records import Assessment, Interaction, JudgeIdentity

__all__ = ["BuiltinJudge", "assess"]


class BuiltinJudge:
    """Judges by words, numbers and names. What it keeps between answers changes no assessment.

    The readings of the chunks of at most 6,000 characters that were used last stay in memory, up to
    some 100 MB: 20 KB for each 1,000 characters, 130 KB if they are Chinese, 90 KB if records.
    """

    @property
    def identity(self) -> JudgeIdentity:
        """The name and version of these rules; the version changes with any of them."""
        return IDENTITY

    def read(self, interaction: Interaction) -> Assessment:
        """Return the assessment of an answer, within milliseconds.

        Raises:
            JudgeError: The texts are longer than the limits, or take longer: cause `too_long`.
        """
        texts = [chunk.text for chunk in interaction.chunks]
        query, answer, reference = interaction.query, interaction.answer, interaction.reference
        check_length([query, answer, reference, *texts])
        tick = deadline()
        assessment = assess(query, texts, answer, tick=tick)
        if not reference.strip():
            return assessment
        reading = read_reference(texts, answer, reference, assessment, tick=tick)
        return replace(assessment, reference=reading)

    async def assess(self, interaction: Interaction) -> Assessment:
        """Return the same, as every judge does."""
        return self.read(interaction)
