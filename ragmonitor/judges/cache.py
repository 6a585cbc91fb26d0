"""The cache of readings: exact duplicates of question, chunks and answer are read once."""

from __future__ import annotations

import hashlib
import time
from collections import OrderedDict
from dataclasses import replace
from typing import Final

from ragmonitor.records import Assessment, Interaction, JudgeIdentity, JudgeUsage
from ragmonitor.runtime.protocols import Clock

AGE_S: Final = 3_600.0
SIZE: Final = 1_000


class AssessmentCache:
    """Keeps up to `size` whole assessments for `age_s`, in memory; the least lately used leave.

    Keys are hashes. An assessment with gaps is not kept: the next reading may have none.
    Duplicates that are read at the same time are each read.
    """

    def __init__(
        self, *, size: int = SIZE, age_s: float = AGE_S, clock: Clock = time.monotonic
    ) -> None:
        self._size = size
        self._age_s = age_s
        self._clock = clock
        self._kept: OrderedDict[bytes, tuple[float, Assessment]] = OrderedDict()

    def get(self, key: bytes) -> Assessment | None:
        """Return the assessment that is kept for a key (`key_of`), as one that cost nothing."""
        since, assessment = self._kept.get(key, (0.0, None))
        if assessment is None or self._clock() - since > self._age_s:
            return None
        self._kept.move_to_end(key)
        return replace(assessment, usage=JudgeUsage(cache_hits=1))

    def keep(self, key: bytes, assessment: Assessment) -> None:
        """Keep an assessment, if it is whole."""
        is_whole = None not in (
            assessment.sentences,
            assessment.answer_relevancy,
            assessment.evasive,
            assessment.chunk_relevance,
        )
        if is_whole and assessment.reference_cause is None:
            self._kept[key] = (self._clock(), assessment)
            self._kept.move_to_end(key)
            while len(self._kept) > self._size:
                self._kept.popitem(last=False)


def key_of(interaction: Interaction, judge: JudgeIdentity, *others: str) -> bytes:
    """Return 16 bytes that are equal for equal prompts to a judge.

    Args:
        interaction: Its question, chunks' texts, answer and reference count.
        judge: Its version counts too: another version reads anew.
        others: Further texts that stand in the prompt, such as the day.
    """
    digest = hashlib.blake2b(digest_size=16)
    texts = (
        str(judge),
        *others,
        interaction.query,
        interaction.answer,
        interaction.reference,
        *(chunk.text for chunk in interaction.chunks),
    )
    for text in texts:
        encoded = text.encode("utf-8", "surrogatepass")
        digest.update(len(encoded).to_bytes(8, "big"))
        digest.update(encoded)
    return digest.digest()
