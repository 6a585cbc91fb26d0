"""The embedded judge: no model, no network, milliseconds, evidence for every sentence.

It sees content that the chunks lack, and numbers, units, dates, negations and names that they say
otherwise. It does not see roles exchanged (who bought whom), facts joined wrongly out of words
that are all there, causes invented between true facts, or units converted; and it takes paraphrase
without a common word for invention. Its `risk` orders answers: calibrate it before reading it as a
rate.
"""

from __future__ import annotations

from dataclasses import replace

from ragmonitor.judges.lexical.assessing import IDENTITY, assess
from ragmonitor.judges.lexical.referring import read_reference
from ragmonitor.records import Assessment, Interaction, JudgeIdentity

__all__ = ["LexicalJudge", "assess"]


class LexicalJudge:
    """Judges by words, numbers and names. Keeps nothing between answers."""

    @property
    def identity(self) -> JudgeIdentity:
        """Name and version of these rules; the version changes with any of them."""
        return IDENTITY

    def read(self, interaction: Interaction) -> Assessment:
        """Return what the chunks bear out of the answer. Raises nothing; takes milliseconds."""
        texts = [chunk.text for chunk in interaction.chunks]
        found = assess(interaction.query, texts, interaction.answer)
        reference = interaction.reference
        if not reference.strip():
            return found
        return replace(found, reference=read_reference(texts, interaction.answer, reference, found))

    async def assess(self, interaction: Interaction) -> Assessment:
        """Return the same, as every judge does."""
        return self.read(interaction)
