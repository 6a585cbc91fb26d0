"""Questions on their way through an embedding of the user's, in a thread of its own."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final, Generic, TypeVar

from ragmonitor.estimation.drift.centroids import packed_dense
from ragmonitor.guard import record_error

STAGE: Final = "drift"

Embed = Callable[[Sequence[str]], Sequence[Sequence[float]]]
"""Returns one vector per text, in order; shape (n_texts, n_dimensions). May wait for a network."""

ROOM: Final = 1_024
"""Questions that may wait; the next ones go without."""
_MOST: Final = 64
"""Questions of one call."""

Item = TypeVar("Item")


class EmbeddingThread(Generic[Item]):
    """Calls an embedding where nobody waits for it. Used from one thread, and safe in a fork.

    No thread before the first question. What cannot be embedded comes back without a point.
    """

    def __init__(self, embed: Embed) -> None:
        self._embed = embed
        self.dropped = 0
        """Questions that found no room."""
        self._thread: threading.Thread | None = None
        self._begin()

    def submit(self, item: Item, text: str) -> bool:
        """Take a question, or return False: too many wait, or it is closed."""
        if self._pid != os.getpid():
            self.clear()
        if self._closed:
            return False
        if len(self._waiting) >= ROOM:
            self.dropped += 1
            return False
        self._waiting.append((item, text))
        self.waiting += 1
        if self._thread is None:
            thread = threading.Thread(
                target=_work,
                args=(self._embed, self._waiting, self._done, self._wake, self._stop),
                name="ragmonitor-embedding",
                daemon=True,
            )
            try:
                thread.start()
            except RuntimeError as error:  # the system has none; the next question asks again
                record_error(STAGE, error)
            else:
                self._thread = thread
        self._wake.set()
        return True

    def done(self) -> list[tuple[Item, bytes | None]]:
        """Return what has been embedded since the last call, in order; None: it could not be."""
        found = []
        while self._done:
            found.append(self._done.popleft())
        self.waiting -= len(found)
        return found

    def close(self, timeout_s: float = 5.0) -> None:
        """End the thread once the call under way returns; what waits is given up."""
        self._closed = True
        self._stop.set()
        self._wake.set()
        if self._thread is not None and self._pid == os.getpid():
            self._thread.join(timeout_s)

    def clear(self) -> None:
        """Begin anew; for a forked child, where the parent's thread does not run."""
        self._begin()

    def _begin(self) -> None:
        self._pid = os.getpid()
        self.waiting = 0
        """Questions that were taken and have not come back."""
        self._closed = False
        self._waiting: deque[tuple[Item, str]] = deque()
        self._done: deque[tuple[Item, bytes | None]] = deque()
        self._wake = threading.Event()
        self._stop = threading.Event()
        self._thread = None


def _work(
    embed: Embed,
    waiting: deque[tuple[Item, str]],
    done: deque[tuple[Item, bytes | None]],
    wake: threading.Event,
    stop: threading.Event,
) -> None:
    while True:
        wake.wait()
        wake.clear()
        while waiting and not stop.is_set():
            batch = [waiting.popleft() for _ in range(min(_MOST, len(waiting)))]
            points = _points(embed, [text for _, text in batch])
            done.extend((item, point) for (item, _), point in zip(batch, points, strict=True))
        if stop.is_set():
            return


def _points(embed: Embed, texts: Sequence[str]) -> list[bytes | None]:
    try:
        vectors = list(embed(texts))
        if len(vectors) != len(texts):
            raise ValueError(f"{len(texts)} texts gave {len(vectors)} vectors")
    except BaseException as error:  # noqa: BLE001 - the user's code, on a thread of ours
        record_error(STAGE, error)
        return [None] * len(texts)
    return [_point(vector) for vector in vectors]


def _point(vector: Sequence[float]) -> bytes | None:
    try:
        return packed_dense([float(value) for value in vector])
    except (TypeError, ValueError, OverflowError) as error:
        record_error(STAGE, error)
        return None
