"""Counts what each retrieval of an answer brought, by the retriever's name and by its turn."""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from typing import Any, Final

from ragmonitor.causes.document_table import MAX_WAITING, Document, add_verdicts, moments_from
from ragmonitor.estimation import summarise
from ragmonitor.export.service_state import estimate_record

MAX_HOPS: Final = 8
"""Later retrievals of an answer count with this one."""
MAX_KINDS: Final = 60
OTHERS: Final = "other"
_MAX_NAME: Final = 100


class RetrievalHop:
    """One retriever at one turn."""

    __slots__ = ("_sums", "_waiting", "empty", "lost", "retrievals", "unshown")

    def __init__(self) -> None:
        """Begin without a retrieval."""
        self.retrievals = self.empty = 0
        self.unshown = 0
        """Retrievals that found something, of which the model was shown nothing."""
        self.lost = 0
        """Hallucinated answers for which it brought nothing relevant."""
        self._sums = [0.0] * 6
        self._waiting: list[float] = []
        """Weights of answers, negative where it brought something relevant."""

    def add(
        self,
        found: AbstractSet[Document],
        shown: AbstractSet[Document],
        relevant: AbstractSet[Document],
        weight: float,
        *,
        bad: bool,
    ) -> None:
        """Take in one retrieval of a judged answer.

        Args:
            found: The documents that it found.
            shown: Those that the model was shown.
            relevant: Those that the judge found relevant.
            weight: 1 / inclusion probability.
            bad: The answer is hallucinated.
        """
        self.retrievals += 1
        if not found:
            self.empty += 1
        elif found.isdisjoint(shown):
            self.unshown += 1
        if not found.isdisjoint(relevant):
            self._waiting.append(-weight)
        else:
            self._waiting.append(weight)
            if bad:
                self.lost += 1
        if len(self._waiting) >= MAX_WAITING:
            self.sums()

    def sums(self) -> list[float]:
        """Return the sums of its answers as `moments_from` reads them, where bad is relevant."""
        add_verdicts(self._sums, self._waiting)
        self._waiting.clear()
        return self._sums


class RetrievalHops:
    """Counts, per retriever and turn, retrievals that brought nothing relevant.

    Relevance is rated of chunks that the model was shown: of the others nothing is known, and
    a retrieval all of whose chunks were held back brought the model nothing.
    """

    def __init__(self) -> None:
        """Begin without a retrieval."""
        self._hops: dict[tuple[str, int], RetrievalHop] = {}

    def of(self, name: str, turn: int) -> RetrievalHop:
        """Return what is known of a retriever at a turn, counted from 1."""
        known = self._hops.get((name, turn))
        if known is None:
            name, turn = name[:_MAX_NAME], min(turn, MAX_HOPS)
            known = self._hops.get((name, turn))
        if known is None:
            if len(self._hops) >= MAX_KINDS:
                name = OTHERS
            known = self._hops.setdefault((name, turn), RetrievalHop())
        return known

    def record(self) -> Sequence[dict[str, Any]]:
        """Return what is known of each, ready for JSON; the first turns first."""
        rows = []
        for (name, turn), hop in sorted(self._hops.items(), key=lambda each: each[0][::-1]):
            relevant = summarise(moments_from(hop.sums()))
            rows.append(
                {
                    "retriever": name,
                    "turn": turn,
                    "retrievals": hop.retrievals,
                    "empty": hop.empty,
                    "unshown": hop.unshown,
                    "lost": hop.lost,
                    "relevant": None if relevant is None else estimate_record(relevant),
                }
            )
        return rows
