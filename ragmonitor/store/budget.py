"""Limits of what judging may cost, held over all processes that share a store."""

from __future__ import annotations

import math
import random
import secrets
import time
from collections.abc import Callable, Sequence
from typing import Final, Literal, NamedTuple

import msgspec

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
"""What is held below it is what rounding left."""

Per = Literal["hour", "day"]


class BudgetStatus(NamedTuple):
    """What a budget allows as of now, in its unit."""

    level: float
    """The amount that may be spent now; below 0 while estimates were too low."""
    pace_per_s: float
    """The amount that may be spent per second from now on, so that it lasts."""


class Bucket(NamedTuple):
    """One limit: never more than `limit` in any window.

    It holds `capacity` at most, what is reserved included, and refills with the rest of the limit
    over the window, so that a full bucket plus a window's refill is the limit. It begins half full:
    a service that restarts again and again does not spend a burst each time.
    """

    per: Per
    limit: float
    level: float
    """What may be spent now."""

    @property
    def capacity(self) -> float:
        """The most that it holds."""
        return self.limit * (HOUR_BURST if self.per == "hour" else DAY_BURST)

    @property
    def refill_per_s(self) -> float:
        """The rate at which it fills."""
        return (self.limit - self.capacity) / (HOUR_S if self.per == "hour" else DAY_S)

    def refilled(self, elapsed_s: float, held: float) -> Bucket:
        """Return it later. What is reserved has its place kept, in case it comes back."""
        # Overdrawn by more than a whole limit it would be for good.
        level = max(-self.limit, min(self.level, self.capacity))
        room = max(0.0, self.capacity - held - level)
        return self._replace(level=level + min(room, max(0.0, elapsed_s) * self.refill_per_s))

    def pace_per_s(self, cost: float) -> float:
        """Return how much may be spent per second: what is left over half the time of a filling.

        What is left is the level less `cost`, so that the last reading is not spent at once. Near
        it, where that would soon be nothing, it bends: an answer that can be paid may still be
        drawn.
        """
        level = max(0.0, self.level)
        left = level - cost if level >= 2 * cost else level * level / (4 * cost)
        return left * 2 * self.refill_per_s / self.capacity


class _Account(msgspec.Struct):
    """What is left of each limit, and what processes hold."""

    at: float
    levels: dict[str, float]
    held: dict[str, tuple[float, float]]
    """The amount that each process has reserved, and until when that is believed."""

    def take(self, amount: float) -> None:
        """Take an amount out of every limit."""
        self.levels = {per: level - amount for per, level in self.levels.items()}


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
        self._spent = [Bucket(per, limit, 0.0) for per, limit in limits if limit is not None]
        if not self._spent:
            raise ValueError("a budget has a limit per hour or per day")
        for bucket in self._spent:
            if not 0 < bucket.limit < math.inf:
                raise ValueError(f"a budget is above 0, not {bucket.limit}")
        self._store, self._name = store, f"{name} {unit}"
        self.unit = unit
        self._holder = secrets.token_hex(8)
        self._seen_s, self._seen = -math.inf, _Account(0.0, {}, {})

    @property
    def capacity(self) -> float:
        """The most that may be spent at once: what costs more is never paid."""
        return min(bucket.capacity for bucket in self._spent)

    def reserve(self, amount: float) -> bool:
        """Take an amount out, and return whether every limit had it.

        Raises:
            StoreUnavailableError: Nothing may be spent then.
            ValueError: The amount is negative or no number.
        """
        if not 0 <= amount < math.inf:
            raise ValueError(f"{amount} cannot be reserved")

        def change(account: _Account) -> bool:
            if min(account.levels.values()) < amount:
                return False
            account.take(amount)
            self._hold(account, amount)
            return True

        return self._change(change)

    def settle(self, reserved: float, spent: float) -> None:
        """Put back what was reserved and not spent, or take what was spent beyond it.

        Raises:
            StoreUnavailableError: The reservation stays taken.
        """
        most = max(reserved, *(bucket.limit for bucket in self._spent))
        spent = reserved if math.isnan(spent) else min(max(0.0, spent), most)

        def change(account: _Account) -> bool:
            returned = min(reserved, account.held.get(self._holder, (0.0, 0.0))[0])
            self._hold(account, -returned)
            account.take(spent - returned)
            return True

        self._change(change)

    def status(self, cost: float) -> BudgetStatus:
        """Return what may be spent now, and how fast from now on; a second late at most.

        Args:
            cost: Of one reading, typically.

        Raises:
            StoreUnavailableError: Nothing may be spent then.
        """
        if abs(time.monotonic() - self._seen_s) > STALE_S:
            self._read()
        buckets = self._buckets(self._seen)
        return BudgetStatus(
            min(bucket.level for bucket in buckets),
            min(bucket.pace_per_s(cost) for bucket in buckets),
        )

    def limits(self) -> Sequence[Bucket]:
        """Return each limit and what is left of it. Raises `StoreUnavailableError`."""
        return self._buckets(self._read()[1])

    def spent_limits(self) -> Sequence[Bucket]:
        """Return each limit as if it were spent: while the store is away nothing may be."""
        return self._spent

    def _buckets(self, account: _Account) -> list[Bucket]:
        return [each._replace(level=account.levels[each.per]) for each in self._spent]

    def _read(self) -> tuple[bytes | None, _Account]:
        """Return the account's row, and the account as of now."""
        row, now_s = self._store.row("budget", self._name), self._store.now()
        account = _Account(now_s, {}, {})
        usual = {each.per: each.capacity / 2 for each in self._spent}
        if row is not None:
            try:
                account = msgspec.json.decode(row, type=_Account)
            except (msgspec.MsgspecError, ValueError):  # it is taken as spent
                usual = dict.fromkeys(usual, 0.0)
        until_s = now_s + 2 * HELD_FOR_S
        account.held = {w: each for w, each in account.held.items() if now_s < each[1] <= until_s}
        held = sum(amount for amount, _ in account.held.values())
        levels = usual | account.levels
        account.levels = {
            each.per: each._replace(level=levels[each.per]).refilled(now_s - account.at, held).level
            for each in self._spent
        }
        account.at = now_s
        self._seen, self._seen_s = account, time.monotonic()
        return row, account

    def _hold(self, account: _Account, amount: float) -> None:
        held = account.held.pop(self._holder, (0.0, 0.0))[0] + amount
        if held > _RESIDUE:
            account.held[self._holder] = held, account.at + HELD_FOR_S

    def _change(self, change: Callable[[_Account], bool]) -> bool:
        for _ in range(TRIES):
            known, account = self._read()
            if not change(account):
                return False
            row = msgspec.json.encode(account)
            if self._store.keep("budget", self._name, row, expected=known):
                return True
            time.sleep(random.uniform(0, 0.002))
        raise StoreUnavailableError("too many processes spend from one budget at once")
