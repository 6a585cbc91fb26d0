"""Passes questions through an embedding of the user's, where nobody waits for it."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, wait
from typing import Final, Generic, TypeVar

from ragmonitor.apart import EXECUTOR
from ragmonitor.estimation.drift.centroids import packed_dense
from ragmonitor.guard import record_error

STAGE: Final = "drift"

Embed = Callable[[Sequence[str]], Sequence[Sequence[float]]]
"""Returns one vector per text, in order; shape (n_texts, n_dimensions). May wait for a network."""

MAX_WAITING: Final = 1_024
"""Questions; the next ones go without."""
_MAX_BATCH: Final = 64

Item = TypeVar("Item")


class EmbeddingQueue(Generic[Item]):
    """Embeds questions in batches, one call at a time on a thread of its own.

    Used from one thread. What cannot be embedded comes back without a point.
    """

    def __init__(self, embed: Embed) -> None:
        self._embed = embed
        self.clear()

    def clear(self) -> None:
        """Forget what waits; for a forked child, where the parent's call never returns."""
        self._waiting: deque[tuple[Item, str]] = deque()
        self._batch: list[Item] = []
        self._call: Future[list[bytes]] | None = None
        self._done: list[tuple[Item, bytes]] = []

    def submit(self, item: Item, text: str) -> bool:
        """Take a question, or return False: too many wait."""
        if len(self._waiting) >= MAX_WAITING:
            return False
        self._waiting.append((item, text))
        self._advance()
        return True

    def done(self) -> list[tuple[Item, bytes]]:
        """Return the points of what was embedded since the last call, in order.

        A point is empty where there is none.
        """
        self._advance()
        done, self._done = self._done, []
        return done

    def close(self, timeout_s: float) -> None:
        """Wait for the call under way; what waits behind it is given up."""
        self._waiting.clear()
        if self._call is not None:
            wait([self._call], timeout_s)

    def _advance(self) -> None:
        if self._call is not None and self._call.done():
            self._done += zip(self._batch, self._call.result(), strict=True)
            self._call = None
        if self._call is None and self._waiting:
            batch = [self._waiting[at] for at in range(min(_MAX_BATCH, len(self._waiting)))]
            try:
                self._call = EXECUTOR.submit(_points, self._embed, [text for _, text in batch])
            except RuntimeError as error:  # the system has no thread; the next question asks again
                record_error(STAGE, error)
                return
            self._batch = [self._waiting.popleft()[0] for _ in batch]


def _points(embed: Embed, texts: Sequence[str]) -> list[bytes]:
    try:
        vectors = list(embed(texts))
        if len(vectors) != len(texts):
            raise ValueError(f"{len(texts)} texts gave {len(vectors)} vectors")
    except BaseException as error:  # noqa: BLE001 - the user's code, on a thread of ours
        record_error(STAGE, error)
        return [b""] * len(texts)
    return [_point(vector) for vector in vectors]


def _point(vector: Sequence[float]) -> bytes:
    try:
        return packed_dense([float(value) for value in vector])
    except (TypeError, ValueError, OverflowError) as error:
        record_error(STAGE, error)
        return b""
