"""The built-in judge: no model, no network, milliseconds, evidence for every sentence.

It sees content that the chunks lack, and numbers, units, dates, negations and names that they say
otherwise. It does not see roles exchanged (who bought whom), facts joined wrongly out of words
that are all there, causes invented between true facts, or units converted; and it takes paraphrase
without a common word for invention. Its `risk` orders answers: calibrate it before reading it as a
rate.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ragmonitor.judges.lexical.assessing import IDENTITY, assess
from ragmonitor.judges.lexical.limits import Limits
from ragmonitor.judges.lexical.referring import read_reference
from ragmonitor.records import Assessment, Interaction, JudgeIdentity

__all__ = ["LexicalJudge", "Limits", "assess"]


class LexicalJudge:
    """Judges by words, numbers and names. Keeps nothing between answers."""

    def __init__(self, limits: Limits | None = None) -> None:
        """Judge answers within limits; None: those of `Limits`."""
        self._limits = limits or Limits()

    @property
    def identity(self) -> JudgeIdentity:
        """Name and version of these rules; the version changes with any of them."""
        return IDENTITY

    def read(self, interaction: Interaction) -> Assessment:
        """Return what the chunks bear out of the answer, within milliseconds.

        Raises:
            JudgeError: The texts are longer than the limits, or take longer: cause `too_long`.
        """
        texts: Sequence[str] = [chunk.text for chunk in interaction.chunks]
        query, answer, reference = interaction.query, interaction.answer, interaction.reference
        self._limits.check(IDENTITY.name, [query, answer, reference, *texts])
        watch = self._limits.watch(IDENTITY.name)
        found = assess(query, texts, answer, tick=watch)
        if not reference.strip():
            return found
        read = read_reference(texts, answer, reference, found, tick=watch)
        return replace(found, reference=read)

    async def assess(self, interaction: Interaction) -> Assessment:
        """Return the same, as every judge does."""
        return self.read(interaction)
