"""Limits of what judging may cost, held over all processes that share a store."""

from __future__ import annotations

import math
import random
import secrets
import time
from collections.abc import Callable, Mapping
from typing import Final, Literal, NamedTuple

import msgspec

from ragmonitor.runtime.guard import record_problem
from ragmonitor.store.buckets import DAY_S, HOUR_S
from ragmonitor.store.interface import TRIES, Store, StoreUnavailableError

HELD_FOR_S: Final = 3_600.0
"""What a process reserved and does not speak of for so long counts as spent: it is gone."""
STALE_S: Final = 1.0
"""The age that our view of other processes' spending may have when a probability is fixed."""
_RESIDUE: Final = 1e-9
"""What is held below it is what rounding left."""

Per = Literal["hour", "day"]
_WINDOWS: Final[Mapping[Per, tuple[float, float]]] = {
    "hour": (HOUR_S, 1 / 4),
    "day": (DAY_S, 1 / 12),
}
"""The seconds of each window, and the share of its limit that may be spent at once: a quarter of an
hour's worth, and two hours'."""


class BudgetStatus(NamedTuple):
    """What a budget allows as of now, in its unit."""

    levels: Mapping[Per, float]
    """The amount that may be spent now of each limit; below 0 while estimates were too low."""
    pace_per_s: float
    """The amount that may be spent per second from now on, so that it lasts."""

    @property
    def level(self) -> float:
        """The amount that may be spent now."""
        return min(self.levels.values())


class Limit(NamedTuple):
    """Never more than `limit` in any window.

    A bucket holds `capacity` at most, what is reserved included, and refills with the rest of the
    limit over the window, so that a full bucket plus a window's refill is the limit. It begins half
    full: a service that restarts again and again does not spend a burst each time.
    """

    limit: float
    capacity: float
    refill_per_s: float

    def refilled(self, level: float, elapsed_s: float, held: float) -> float:
        """Return the level later. What is reserved has its place kept, in case it comes back."""
        # Overdrawn by more than a whole limit it would be for good.
        level = max(-self.limit, min(level, self.capacity))
        room = max(0.0, self.capacity - held - level)
        return level + min(room, max(0.0, elapsed_s) * self.refill_per_s)

    def pace_per_s(self, level: float, cost: float) -> float:
        """Return how much may be spent per second: what is left over half the time of a filling.

        What is left is the level less `cost`, so that the last reading is not spent at once. Near
        it, where that would soon be nothing, it bends: an answer that can be paid may still be
        drawn.
        """
        level = max(0.0, level)
        left = level - cost if level >= 2 * cost else level * level / (4 * cost)
        return left * 2 * self.refill_per_s / self.capacity


class _Account(msgspec.Struct):
    """What is left of each limit, and what processes hold."""

    at: float
    levels: dict[Per, float]
    held: dict[str, tuple[float, float]]
    """The amount that each process has reserved, and until when that is believed."""

    def take(self, amount: float) -> None:
        """Take an amount out of every limit."""
        self.levels = {per: level - amount for per, level in self.levels.items()}


class Budget:
    """Reserves before a call and settles after it: never more than the limits, over all processes.

    In any hour at most `per_hour`, in any 24 hours at most `per_day`, as far as no call costs more
    than was reserved for it. Its account is one row of the store, which is changed by
    compare-and-set; where the store is away nothing may be spent, and that is recorded. What a
    process had reserved when it died counts as spent.

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
    ) -> None:
        """Touch nothing yet.

        Args:
            store: Where the account is.
            per_hour: Limit of any hour, above 0; None: there is none.
            per_day: Limit of any 24 hours, above 0; None: there is none. One is needed.
            unit: What the limits count, and whoever reserves.
        """
        self.limits: dict[Per, Limit] = {}
        """What may be spent in each window."""
        given: Mapping[Per, float | None] = {"hour": per_hour, "day": per_day}
        for per, limit in given.items():
            if limit is not None:
                window_s, burst = _WINDOWS[per]
                self.limits[per] = Limit(limit, burst * limit, (1 - burst) * limit / window_s)
        self._store, self._name = store, f"judge {unit}"
        self.unit = unit
        self._holder = secrets.token_hex(8)
        self._seen_s, self._seen = -math.inf, _Account(0.0, {}, {})

    @property
    def capacity(self) -> float:
        """The most that may be spent at once: what costs more is never paid."""
        return min(each.capacity for each in self.limits.values())

    def reserve(self, amount: float) -> bool:
        """Take an amount out, and return whether every limit had it. Raises `ValueError`.

        The amount is then negative or no number.
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

        Where the store is away the reservation stays taken.
        """
        most = max(reserved, *(each.limit for each in self.limits.values()))
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
        """
        try:
            if abs(time.monotonic() - self._seen_s) > STALE_S:
                self._read()
        except StoreUnavailableError as error:
            _record_away(error)
            return BudgetStatus(dict.fromkeys(self.limits, 0.0), 0.0)
        levels = self._seen.levels
        paces = [each.pace_per_s(levels[per], cost) for per, each in self.limits.items()]
        return BudgetStatus({per: levels[per] for per in self.limits}, min(paces))

    def _read(self) -> tuple[bytes | None, _Account]:
        """Return the account's row, and the account as of now."""
        row, now_s = self._store.row("budget", self._name), self._store.now()
        account = _Account(now_s, {}, {})
        usual = {per: each.capacity / 2 for per, each in self.limits.items()}
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
            per: each.refilled(levels[per], now_s - account.at, held)
            for per, each in self.limits.items()
        }
        account.at = now_s
        self._seen, self._seen_s = account, time.monotonic()
        return row, account

    def _hold(self, account: _Account, amount: float) -> None:
        held = account.held.pop(self._holder, (0.0, 0.0))[0] + amount
        if held > _RESIDUE:
            account.held[self._holder] = held, account.at + HELD_FOR_S

    def _change(self, change: Callable[[_Account], bool]) -> bool:
        try:
            for _ in range(TRIES):
                known, account = self._read()
                if not change(account):
                    return False
                row = msgspec.json.encode(account)
                if self._store.keep("budget", self._name, row, expected=known):
                    return True
                time.sleep(random.uniform(0, 0.002))
        except StoreUnavailableError as error:
            _record_away(error)
        else:
            _record_away("too many processes spend from one budget at once")
        return False


def _record_away(why: object) -> None:
    record_problem("state", f"{why}: nothing is judged that costs anything until it is back")
