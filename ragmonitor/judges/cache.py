"""The cache of readings: exact duplicates of question, chunks and answer are read once."""

from __future__ import annotations

import hashlib
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Final

from ragmonitor.records import Assessment, Interaction, JudgeIdentity, JudgeUsage
from ragmonitor.runtime.protocols import Clock

AGE_S: Final = 3_600.0
SIZE: Final = 1_000


class AssessmentCache:
    """Keeps up to `size` whole assessments for `age_s`, in memory; the least lately used leave.

    Keys are hashes. An assessment with gaps is not kept: the next reading may have none.
    """

    def __init__(
        self, *, size: int = SIZE, age_s: float = AGE_S, clock: Clock = time.monotonic
    ) -> None:
        self._size = size
        self._age_s = age_s
        self._clock = clock
        self._kept: OrderedDict[bytes, tuple[float, Assessment]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._kept)

    async def read(
        self,
        key: bytes,
        reading: Callable[[], Awaitable[Assessment]],
        *,
        with_reference: bool = False,
    ) -> Assessment:
        """Return the assessment kept for `key`, at no cost, or the one that `reading` gives.

        Args:
            key: Identifies what is read; see `key_of`.
            reading: Makes the assessment.
            with_reference: Whether there is a reference answer, without whose checks the
                assessment has a gap.

        Raises:
            JudgeError: `reading` raised it.
        """
        kept = self._fresh(key)
        if kept is not None:
            return replace(kept, usage=JudgeUsage(cache_hits=1))
        assessment = await reading()
        if not with_reference or assessment.reference is not None:
            self._keep(key, assessment)
        return assessment

    def _fresh(self, key: bytes) -> Assessment | None:
        kept = self._kept.get(key)
        if kept is None:
            return None
        since, assessment = kept
        if self._clock() - since > self._age_s:
            self._kept.pop(key, None)
            return None
        self._kept.move_to_end(key)
        return assessment

    def _keep(self, key: bytes, assessment: Assessment) -> None:
        fields = (
            assessment.sentences,
            assessment.answer_relevancy,
            assessment.evasive,
            assessment.chunk_relevance,
        )
        if any(field is None for field in fields):
            return
        self._kept[key] = (self._clock(), assessment)
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
