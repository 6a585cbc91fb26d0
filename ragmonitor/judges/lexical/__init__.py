"""The embedded judge: no model, no network, milliseconds, evidence for every sentence."""

from __future__ import annotations

from ragmonitor.judges.lexical.assessing import IDENTITY, assess
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
        return assess(interaction.query, texts, interaction.answer)

    async def assess(self, interaction: Interaction) -> Assessment:
        """Return the same, as every judge does."""
        return self.read(interaction)
