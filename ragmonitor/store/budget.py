"""Limits of what judging may cost, held over all processes that share a store."""

from __future__ import annotations

import json
import math
import random
import secrets
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple

from ragmonitor.store.buckets import DAY_S, HOUR_S
from ragmonitor.store.interface import Store, StoreUnavailableError

DAY_BURST: Final = 1 / 12
"""The share of a day's budget that may be spent at once: two hours' worth."""
HOUR_BURST: Final = 1 / 4
"""The share of an hour's: fifteen minutes' worth."""
HELD_FOR_S: Final = 3_600.0
"""What a process reserved and does not speak of for so long counts as spent: it is gone."""
STALE_S: Final = 1.0
"""The age that our view of other processes' spending may have when a probability is fixed."""
TRIES: Final = 200
_RESIDUE: Final = 1e-9
"""Share of a reservation below which what is left of it is what rounding left."""

Per = Literal["hour", "day"]


class BudgetStatus(NamedTuple):
    """What a budget allows as of now, in its unit."""

    level: float
    """The amount that may be spent now; below 0 while estimates were too low."""
    pace_per_s: float
    """The amount that may be spent per second from now on, so that it lasts."""


@dataclass(slots=True, kw_only=True)
class Bucket:
    """One limit: never more than `limit` in any window.

    It holds `capacity` at most, what is reserved included, and refills with the rest of the limit
    over the window, so that a full bucket plus a window's refill is the limit. It begins half full:
    a service that restarts again and again does not spend a burst each time.
    """

    per: Per
    limit: float
    window_s: float = field(init=False)
    capacity: float = field(init=False)
    """The most that it holds."""
    level: float = field(init=False)

    def __post_init__(self) -> None:
        if not 0 < self.limit < math.inf:
            raise ValueError(f"a budget is above 0, not {self.limit}")
        self.window_s = HOUR_S if self.per == "hour" else DAY_S
        self.capacity = self.limit * (HOUR_BURST if self.per == "hour" else DAY_BURST)
        self.level = self.capacity / 2

    @property
    def refill_per_s(self) -> float:
        """The rate at which it fills."""
        return (self.limit - self.capacity) / self.window_s

    def refill(self, elapsed_s: float, held: float) -> None:
        """Let time pass. What is reserved has its place kept, in case it comes back."""
        room = self.capacity - held - self.level
        if room > 0:
            self.level += min(room, max(0.0, elapsed_s) * self.refill_per_s)

    def pace_per_s(self, cost: float) -> float:
        """Return how much may be spent per second: what is left over half the time of a filling.

        What is left is the level less `cost`, so that the last reading is not spent at once. Near
        it, where that would soon be nothing, it bends: an answer that can be paid may still be
        drawn.
        """
        level = max(0.0, self.level)
        left = level - cost if level >= 2 * cost else level * level / (4 * cost)
        return left * 2 * self.refill_per_s / self.capacity


class Budget:
    """Reserves before a call and settles after it: never more than the limits, over all processes.

    In any hour at most `per_hour`, in any 24 hours at most `per_day`, as far as no call costs more
    than was reserved for it. Its account is one row of the store, which is changed by
    compare-and-set; where the store is away nothing may be spent. What a process had reserved when
    it died counts as spent.

    >>> from ragmonitor.store import Memory
    >>> budget = Budget(Memory(), per_hour=8.0)
    >>> budget.reserve(0.75), budget.reserve(0.75)
    (True, False)
    >>> budget.settle(0.75, spent=0.25)
    >>> budget.reserve(0.5)
    True
    """

    def __init__(
        self,
        store: Store,
        *,
        per_hour: float | None = None,
        per_day: float | None = None,
        unit: str = "usd",
        name: str = "judge",
    ) -> None:
        """Touch nothing yet.

        Args:
            store: Where the account is.
            per_hour: Limit of any hour; None: there is none.
            per_day: Limit of any 24 hours; None: there is none. One is needed.
            unit: What the limits count, and whoever reserves.
            name: Of the account: what is paid from it.

        Raises:
            ValueError: There is no limit, or it is not above 0.
        """
        limits: list[tuple[Per, float | None]] = [("hour", per_hour), ("day", per_day)]
        self._limits = [(per, limit) for per, limit in limits if limit is not None]
        if not self._limits:
            raise ValueError("a budget has a limit per hour or per day")
        self._store, self._name = store, f"{name} {unit}"
        self.unit = unit
        self._holder = secrets.token_hex(8)
        self._seen_s, self._seen = -math.inf, _Account(self._empty(), 0.0, {})

    def _empty(self) -> list[Bucket]:
        return [Bucket(per=per, limit=limit) for per, limit in self._limits]

    @property
    def capacity(self) -> float:
        """The most that may be spent at once: what costs more is never paid."""
        return min(bucket.capacity for bucket in self._empty())

    def reserve(self, amount: float) -> bool:
        """Take an amount out, and return whether every limit had it.

        Raises:
            StoreUnavailableError: Nothing may be spent then.
            ValueError: The amount is negative or no number.
        """
        if not 0 <= amount < math.inf:
            raise ValueError(f"{amount} cannot be reserved")
        return self._change(lambda account: account.reserve(self._holder, amount))

    def settle(self, reserved: float, spent: float) -> None:
        """Put back what was reserved and not spent, or take what was spent beyond it.

        Raises:
            StoreUnavailableError: The reservation stays taken.
        """
        spent = reserved if math.isnan(spent) else max(0.0, spent)
        self._change(lambda account: account.settle(self._holder, reserved, spent))

    def status(self, cost: float) -> BudgetStatus:
        """Return what may be spent now, and how fast from now on; a second late at most.

        Args:
            cost: Of one reading, typically.

        Raises:
            StoreUnavailableError: Nothing may be spent then.
        """
        if abs(time.monotonic() - self._seen_s) > STALE_S:
            self._see(self._read()[1])
        buckets = self._seen.buckets
        return BudgetStatus(
            min(bucket.level for bucket in buckets),
            min(bucket.pace_per_s(cost) for bucket in buckets),
        )

    def limits(self) -> Sequence[Bucket]:
        """Return each limit and what is left of it. Raises `StoreUnavailableError`."""
        return self._read()[1].buckets

    def spent_limits(self) -> Sequence[Bucket]:
        """Return each limit as if it were spent: while the store is away nothing may be."""
        buckets = self._empty()
        for bucket in buckets:
            bucket.level = 0.0
        return buckets

    def _see(self, account: _Account) -> None:
        self._seen, self._seen_s = account, time.monotonic()

    def _read(self) -> tuple[bytes | None, _Account]:
        row, now_s = self._store.row("budget", self._name), self._store.now()
        return row, _Account.load(row, self._empty(), now_s)

    def _change(self, change: Callable[[_Account], bool]) -> bool:
        for _ in range(TRIES):
            known, account = self._read()
            is_changed = change(account)
            self._see(account)
            if not is_changed:
                return False
            if self._store.keep("budget", self._name, account.dump(), expected=known):
                return True
            time.sleep(random.uniform(0, 0.002))
        raise StoreUnavailableError("too many processes spend from one budget at once")


@dataclass(slots=True)
class _Account:
    """What is left of each limit, and what processes hold."""

    buckets: list[Bucket]
    at_s: float
    held: dict[str, tuple[float, float]]
    """The amount that each process has reserved, and until when that is believed."""

    @classmethod
    def load(cls, row: bytes | None, buckets: list[Bucket], now_s: float) -> _Account:
        """Return the account as of now; one that cannot be read is taken as spent."""
        if row is None:
            return cls(buckets, now_s, {})
        try:
            saved = json.loads(row)
            held = {str(who): (float(a), float(until)) for who, (a, until) in saved["held"].items()}
            levels = {str(per): float(level) for per, level in saved["levels"].items()}
            elapsed_s = now_s - min(float(saved["at"]), now_s)
        except (ValueError, TypeError, KeyError, AttributeError):
            for bucket in buckets:
                bucket.level = 0.0
            return cls(buckets, now_s, {})
        held = {who: (a, u) for who, (a, u) in held.items() if now_s < u <= now_s + 2 * HELD_FOR_S}
        total = sum(amount for amount, _ in held.values())
        for bucket in buckets:
            level = levels.get(bucket.per, bucket.level)
            # Overdrawn by more than a whole limit it would be for good.
            bucket.level = max(-bucket.limit, min(level, bucket.capacity))
            bucket.refill(elapsed_s, total)
        return cls(buckets, now_s, held)

    def dump(self) -> bytes:
        """Return it as JSON."""
        levels = {bucket.per: bucket.level for bucket in self.buckets}
        return json.dumps({"at": self.at_s, "levels": levels, "held": self.held}).encode()

    def reserve(self, holder: str, amount: float) -> bool:
        """Take an amount out if every bucket has it; return whether it has."""
        if any(bucket.level < amount for bucket in self.buckets):
            return False
        for bucket in self.buckets:
            bucket.level -= amount
        self._hold(holder, amount)
        return True

    def settle(self, holder: str, reserved: float, spent: float) -> bool:
        """Put back what was not spent, as far as the holder still holds it."""
        returned = min(reserved, self.held.get(holder, (0.0, 0.0))[0])
        self._hold(holder, -returned)
        for bucket in self.buckets:
            bucket.level += returned - min(spent, max(bucket.limit, reserved))
        return True

    def _hold(self, holder: str, amount: float) -> None:
        held = self.held.get(holder, (0.0, 0.0))[0] + amount
        self.held.pop(holder, None)
        if held > _RESIDUE * abs(amount):
            self.held[holder] = held, self.at_s + HELD_FOR_S
