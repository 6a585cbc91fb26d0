"""Keeps which records of a Kafka partition are settled, and how often others were handed out.

Kafka remembers one offset for a group and partition, and a text beside it. The offset is that below
which all is settled; the text says which records above it are settled, too, and how often those
below some offset were handed out (as Confluent's Parallel Consumer encodes what is acknowledged).
"""

from __future__ import annotations

import base64
import time
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import groupby
from typing import Final

MAX_WINDOW: Final = 16_384
"""Offsets from the oldest unsettled record to the newest that is handed out. Their bits are 2,732
characters; a broker takes 4,096 (`offset.metadata.max.bytes`)."""
MAX_RUNS: Final = 8
EARLIER: Final = "\0earlier"
"""The consumer of what another process took."""


@dataclass(slots=True)
class Entry:
    """One record in hand."""

    offset: int
    data: bytes
    stored_s: float
    """Seconds since the epoch."""
    consumer: str = ""
    taken_s: float = 0.0
    """The time when it was taken, by the monotonic clock."""
    deliveries: int = 0


class Progress:
    """One partition's."""

    def __init__(self, partition: int, first: int, text: str = "") -> None:
        """Go on where a commit says.

        Args:
            partition: Its number.
            first: The committed offset.
            text: The text beside it; empty: nothing was handed out.

        Raises:
            ValueError: Nobody of ours wrote the text.
        """
        self.partition, self.first = partition, first
        self._bits, self._inherited = _read(text)
        self._inherited = [(first + until, count) for until, count in self._inherited]
        self._gaps: deque[tuple[int, int]] = deque()
        self.until = self._inherited[-1][0] if self._inherited else first
        """The offset below which another process handed records out."""
        self.next = first
        """The offset below which records were read."""
        self.end = first
        """The offset below which records are stored, as far as is known."""
        self.open: dict[int, Entry] = {}
        """Handed out and not settled, oldest first."""
        self.ahead: deque[Entry] = deque()
        """Read and not handed out."""
        self.lost = 0
        """Records that retention deleted before they were settled, found when this was read."""
        self.is_changed = self.is_paused = False

    def is_settled(self, offset: int) -> bool:
        """Return whether a record is done."""
        return offset < self.first or bool(self._bits >> (offset - self.first) & 1)

    def add(self, offset: int, data: bytes, stored_s: float) -> None:
        """Take in the next record that was read."""
        if offset < self.next:
            return
        self.skip(offset)
        self.next = offset + 1
        self.end = max(self.end, self.next)
        if offset >= self.until:
            self.ahead.append(Entry(offset, data, stored_s))
        elif not self.is_settled(offset):
            count = next(n for until, n in self._inherited if offset < until)
            self.open[offset] = Entry(offset, data, stored_s, EARLIER, time.monotonic(), count)

    def skip(self, offset: int) -> int:
        """Leave out what is not there below an offset; return how many of it were not settled."""
        if offset <= self.next:
            return 0
        start = max(self.next, self.first)
        count = min(max(0, offset - start), self._bits.bit_length())
        known = (self._bits >> (start - self.first)) & ((1 << count) - 1)
        missing = max(0, offset - start) - known.bit_count()
        self._gaps.append((self.next, offset))
        self.next = offset
        self._advance()
        return missing

    def settle(self, offset: int) -> None:
        """Mark a record as done."""
        if self.first <= offset < max(self.next, self.until):
            self._bits |= 1 << (offset - self.first)
            self.open.pop(offset, None)
            self._advance()
            self.is_changed = True

    def _advance(self) -> None:
        while True:
            before = self.first
            ones = (~self._bits & (self._bits + 1)).bit_length() - 1
            if self._gaps and self._gaps[0][0] <= self.first + ones:
                self._move(max(self.first + ones, self._gaps.popleft()[1]))
            else:
                self._move(self.first + ones)
            if self.first == before:
                return

    def _move(self, first: int) -> None:
        self._bits >>= first - self.first
        self.first = first

    def has_room(self, offset: int) -> bool:
        """Return whether the text beside the commit has room for a record's bit."""
        return offset - self.first < MAX_WINDOW

    def hand_out(self, count: int) -> list[Entry]:
        """Return new records that there is room for."""
        taken: list[Entry] = []
        while self.ahead and len(taken) < count and self.has_room(self.ahead[0].offset):
            entry = self.ahead.popleft()
            self.open[entry.offset] = entry
            taken.append(entry)
        return taken

    @property
    def waiting(self) -> int:
        """Records that nobody has had, as far as is known."""
        return len(self.ahead) + max(0, self.end - max(self.next, self.until))

    @property
    def in_hand(self) -> int:
        """Records that were handed out and are not settled, also such as were not read yet."""
        unread = max(0, self.until - max(self.next, self.first))
        bits = self._bits >> max(0, self.next - self.first)
        return len(self.open) + unread - bits.bit_count()

    def oldest(self) -> int:
        """Return the offset of the oldest record that is not settled, if there is one."""
        if self.open:
            return next(iter(self.open))
        return self.ahead[0].offset if self.ahead else max(self.first, self.next)

    def text(self) -> str:
        """Return what stands beside the committed offset."""
        bits = self._bits.to_bytes((self._bits.bit_length() + 7) // 8, "little")
        handed = self.ahead[0].offset if self.ahead else self.next
        runs = _runs(self.open.values(), max(handed, self.until, self.first))
        counts = ",".join(f"{until - self.first}:{n}" for until, n in runs)
        return f"1;{base64.b64encode(bits).decode()};{counts}"


def _runs(entries: Iterable[Entry], until: int) -> list[tuple[int, int]]:
    """Return up to which offset records were handed out how often, with few steps.

    Where there are too many, the smaller number stands for both: no record is buried early.
    """
    groups = [
        (n, next(iter(some)).offset) for n, some in groupby(entries, lambda each: each.deliveries)
    ]
    if not groups:
        return [(until, 1)]
    begins = [begin for _, begin in groups[1:]]
    runs = [(end, n) for (n, _), end in zip(groups, [*begins, until], strict=True)]
    size = -(-len(runs) // MAX_RUNS)
    chunks = [runs[at : at + size] for at in range(0, len(runs), size)]
    runs = [(chunk[-1][0], min(n for _, n in chunk)) for chunk in chunks]
    return runs


def _read(text: str) -> tuple[int, list[tuple[int, int]]]:
    """Return the bits of settled records and the runs, both counted from the committed offset."""
    if not text:
        return 0, []
    version, bits, counts = text.split(";")
    if version != "1":
        raise ValueError("written by another version")
    pairs = [each.split(":") for each in counts.split(",") if each]
    runs = [(int(until), int(count)) for until, count in pairs]
    return int.from_bytes(base64.b64decode(bits, validate=True), "little"), runs
