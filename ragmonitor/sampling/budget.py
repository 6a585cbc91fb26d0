"""Holds the limits of what judging may cost, over threads, processes and restarts."""

from __future__ import annotations

import contextlib
import math
import os
import secrets
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

from pydantic import SecretStr

from ragmonitor.guard import logger, record_unkept
from ragmonitor.protocols import BudgetUnit, Clock
from ragmonitor.records import JudgeUsage
from ragmonitor.state import State, StateUnavailableError, state_of_service

HOUR_S: Final = 3_600.0
DAY_S: Final = 86_400.0
DAY_BURST_SHARE: Final = 1 / 12
"""The share of a day's budget that may be spent at once: two hours' worth."""
HOUR_BURST_SHARE: Final = 1 / 4
"""The share of an hour's: fifteen minutes' worth."""
SPENT: Final = "what the judge has spent"
VERSION: Final = 1
HELD_FOR_S: Final = 3_600.0
"""An amount of which its holder does not speak for so long counts as spent: the process is gone."""
MAX_HOLDERS: Final = 10_000
"""Processes that hold something, in a file that can be read."""
_RESIDUE: Final = 1e-9
"""Share of a reservation below which what is left of it is what adding and taking away left."""
_STALE_S: Final = 1.0
"""The age that our view of other processes' spending may have when a probability is fixed."""


Unit = BudgetUnit
Span = Literal["hour", "day", "run"]


class BudgetStatus(NamedTuple):
    """The amounts that a budget allows as of now, in its unit."""

    level: float
    """The amount that may be spent now; below 0 while estimates were too low."""
    pace_per_s: float
    """The amount that may be spent per second from now on, so that it lasts."""


class Limit(NamedTuple):
    """One limit, for people."""

    per: Span
    level: float
    """The amount that may be spent now."""
    most: float
    """The limit in any hour, or in any 24 hours."""


def budget_state(
    place: Path | SecretStr | None, *, service: str, unit: Unit, of: str = ""
) -> State | None:
    """Return where the budget of this service is kept; None: in memory.

    Args:
        place: As the setting `state`.
        service: The service.
        unit: What is spent.
        of: What alone it is for; empty: for all that is judged.
    """
    name = f"budget-{of}-{unit}" if of else f"budget-{unit}"
    return state_of_service(place, name, service, version=VERSION)


@dataclass(slots=True, kw_only=True)
class Bucket:
    """One limit: never more than `limit` in any `window_s`.

    It holds `capacity` at most, what is reserved included, and refills with the rest of the limit
    over the window, so that a full bucket plus a window's refill is the limit.
    """

    name: Span
    limit: float
    window_s: float
    burst_share: float
    capacity: float = field(init=False)
    """The most it holds."""
    refill_per_s: float = field(init=False)
    """The rate at which it fills."""
    level: float = field(init=False)
    """The amount that may be spent now; below 0 while estimates were too low."""

    def __post_init__(self) -> None:
        if self.limit <= 0:
            raise ValueError(f"a budget is above 0, not {self.limit}")
        self.capacity = self.limit * self.burst_share
        self.refill_per_s = (self.limit - self.capacity) / self.window_s
        self.level = self.capacity / 2

    def pace_per_s(self, cost: float) -> float:
        """Return how much may be spent per second: what is left over half the time of a filling.

        What is left is the level less `cost`, so that the last reading is not spent at once. Near
        it, where that would soon be nothing, it bends: an answer that can be paid may still be
        drawn.
        """
        level = max(0.0, self.level)
        left = level - cost if level >= 2 * cost else level * level / (4 * cost)
        return left * 2 * self.refill_per_s / self.capacity

    def refill(self, elapsed_s: float, held: float) -> None:
        """Let time pass. What is reserved has its place kept, in case it comes back."""
        room = self.capacity - held - self.level
        if room > 0:
            self.level += min(room, max(0.0, elapsed_s) * self.refill_per_s)


class Budget:
    """Reserves before a call and refunds after it: never more than the limits, in whatever unit.

    In any hour at most `per_hour`, in any 24 hours at most `per_day`, as far as no call costs more
    than was reserved for it. It starts half full: a service that restarts again and again does not
    spend a burst each time.

    With a `file` the state outlives the process, and the processes that share the file share the
    budget; what a process had reserved when it died counts as spent. A file that cannot be read is
    an empty bucket. Without one it is this process's own. Safe to use from any thread.
    """

    def __init__(
        self,
        per_day: float | None = None,
        *,
        per_hour: float | None = None,
        total: float | None = None,
        unit: Unit = "usd",
        file: State | None = None,
        clock: Clock = time.monotonic,
        now: Clock | None = None,
    ) -> None:
        """Begin, or go on where the file says.

        Args:
            per_day: Limit of any 24 hours; None: there is none.
            per_hour: Limit of any hour; None: there is none.
            total: Limit of a whole run, which may spend all of it at once; None: there is none. One
                limit is needed.
            unit: What the limits count, and whoever reserves.
            file: Where the state is kept, of version `VERSION`; None: in memory.
            clock: For the refill of a budget without a file.
            now: Seconds since the epoch, for that of one with a file; by default its own.
        """
        self._buckets: list[Bucket] = []
        if per_day is not None:
            self._buckets.append(
                Bucket(name="day", limit=per_day, window_s=DAY_S, burst_share=DAY_BURST_SHARE)
            )
        if per_hour is not None:
            self._buckets.append(
                Bucket(name="hour", limit=per_hour, window_s=HOUR_S, burst_share=HOUR_BURST_SHARE)
            )
        if total is not None:
            run = Bucket(name="run", limit=total, window_s=math.inf, burst_share=1.0)
            run.level = run.capacity
            self._buckets.append(run)
        if not self._buckets:
            raise ValueError("a budget has a limit per day or per hour, or in total")
        self.unit: Unit = unit
        self._file = file
        self._clock = clock if file is None else now or file.now
        self._filled_at = self._clock()
        self._read_at = -1.0
        self._begin()
        if file is None:
            return
        try:
            with self._lock, self._shared():
                self._write()
        except StateUnavailableError:  # until it is to be had nothing is spent
            for bucket in self._buckets:
                bucket.level = min(bucket.level, 0.0)

    def _begin(self) -> None:
        self._pid = os.getpid()
        self._lock = threading.RLock()
        self._me = secrets.token_hex(8)
        self._held = 0.0
        self._held_by_others: dict[str, tuple[float, float]] = {}
        """The amount that each process holds, and until when it counts, in seconds of `now`."""

    # --- asking and spending --------------------------------------------------------------------

    def level(self) -> float:
        """Return what may be spent now; below 0 while estimates were too low."""
        return self.status(0.0).level

    def status(self, cost: float) -> BudgetStatus:
        """Return what may be spent now, and how fast from now on, so that it lasts.

        Args:
            cost: Of one reading, typically.

        Raises:
            OSError: The file cannot be opened.
        """
        with self._mine():
            self._look()
            level = pace_per_s = math.inf
            for bucket in self._buckets:  # a plain loop: every answer comes by here
                level = min(level, bucket.level)
                pace_per_s = min(pace_per_s, bucket.pace_per_s(cost))
            return BudgetStatus(level, pace_per_s)

    @property
    def capacity(self) -> float:
        """The most that it ever holds: what costs more is never paid."""
        return min(bucket.capacity for bucket in self._buckets)

    @property
    def place(self) -> str:
        """The place in which what was spent is kept, for people."""
        return "memory" if self._file is None else self._file.place

    def limits(self) -> Sequence[Limit]:
        """Return each limit and what is left of it. Raises `OSError`: the file cannot be opened."""
        with self._mine():
            self._look()
            return [
                Limit(bucket.name, level=bucket.level, most=bucket.limit)
                for bucket in self._buckets
            ]

    def limits_out_of_reach(self) -> Sequence[Limit]:
        """Return each limit while the file cannot be opened: nothing may be spent then."""
        return [Limit(bucket.name, level=0.0, most=bucket.limit) for bucket in self._buckets]

    def reserve(self, amount: float) -> bool:
        """Take `amount` out if every bucket has it, and return whether it has.

        Raises:
            OSError: The file cannot be written; nothing may be spent then.
            ValueError: The amount is negative or no number.
        """
        if not 0 <= amount < math.inf:
            raise ValueError(f"{amount} cannot be reserved")
        with self._mine(), self._shared():
            if any(bucket.level < amount for bucket in self._buckets):
                return False
            self._take(amount)
            self._held += amount
            try:
                self._write()
            except OSError:
                self._take(-amount)
                self._held -= amount
                raise
            return True

    def refund(self, reserved: float, spent: float) -> None:
        """Put back what was reserved and not spent, or take what was spent beyond it.

        What cannot have been spent is taken as what may be: not less than nothing, at most each
        limit, and the reservation where it is no number. A file that cannot be written is logged
        and counted; the reservation then stays taken.
        """
        spent = reserved if math.isnan(spent) else max(0.0, spent)
        with self._mine():
            # What was reserved before a fork is the parent's to refund.
            returned = min(reserved, self._held)
            left = self._held - returned
            try:
                with self._shared():  # with all that is held: time passes around it
                    self._held = 0.0 if left < _RESIDUE * reserved else left
                    for bucket in self._buckets:
                        bucket.level += returned - min(spent, max(bucket.limit, reserved))
                    self._write()
            except OSError as error:
                self._held = left
                record_unkept(SPENT, self.place, error)

    def _take(self, amount: float) -> None:
        for bucket in self._buckets:
            bucket.level -= amount

    # --- the state ------------------------------------------------------------------------------

    def _mine(self) -> threading.RLock:
        """Return the lock; in a forked child begin anew, since the parent may have held it."""
        if os.getpid() != self._pid:
            self._begin()
        return self._lock

    @contextlib.contextmanager
    def _shared(self) -> Iterator[None]:
        """See the newest state; with a file, alone among the processes that share it."""
        if self._file is None:
            self._pass_time()
            yield
            return
        with self._file.alone():
            self._read()
            yield

    def _look(self) -> None:
        """Bring our view up to now; other processes' spending at most a second late."""
        if self._file is not None and abs(self._clock() - self._read_at) > _STALE_S:
            with self._shared():
                return
        self._pass_time()

    def _pass_time(self) -> None:
        now = self._clock()
        held = self._held
        for amount, until in self._held_by_others.values():
            if until > now:
                held += amount
        for bucket in self._buckets:
            # Clocks that jump back refill nothing and lose nothing.
            bucket.refill(now - self._filled_at, held)
        self._filled_at = now

    def _read(self) -> None:
        assert self._file is not None  # noqa: S101 - for the type; `_shared` looked
        self._read_at = self._clock()
        try:
            saved = self._file.read()
            if saved is not None:
                self._take_over(saved)
        except StateUnavailableError:  # somebody else may have it, whole: nothing replaces it
            raise
        except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
            logger.warning(
                "ragmonitor: the budget's state in %s cannot be read (%s: %s); taken as spent",
                self._file.name,
                type(error).__name__,
                error,
            )
            for bucket in self._buckets:
                bucket.level = min(bucket.level, 0.0)
            self._filled_at = self._clock()
            self._write()
        self._pass_time()

    def _take_over(self, saved: Mapping[str, Any]) -> None:
        now = self._clock()
        at = min(_number(saved["at"]), now)  # of the future: a clock was put back
        levels = {
            # Overdrawn by more than a whole limit it would be for good.
            bucket.name: max(_number(saved["buckets"][bucket.name]["level"]), -bucket.limit)
            for bucket in self._buckets
            if bucket.name in saved["buckets"]
        }
        most = max(bucket.capacity for bucket in self._buckets)
        if len(saved["held"]) > MAX_HOLDERS:
            raise ValueError(f"{len(saved['held'])} processes hold something of it")
        held = {
            # What others hold is kept free for them; less than nothing would be room for more.
            str(process): (min(max(0.0, _number(amount)), most), _until(until, now))
            for process, (amount, until) in saved["held"].items()
            if process != self._me
        }
        # Only now that all of it was read: half of a broken file is nothing.
        for bucket in self._buckets:
            bucket.level = min(levels.get(bucket.name, bucket.level), bucket.capacity)
        self._held_by_others = {p: (a, u) for p, (a, u) in held.items() if u > now}
        self._filled_at = at

    def _write(self) -> None:
        if self._file is None:
            return
        held = {process: list(entry) for process, entry in self._held_by_others.items()}
        if self._held > 0:
            held[self._me] = [self._held, self._clock() + HELD_FOR_S]
        self._file.write(
            {
                "at": self._filled_at,
                "buckets": {bucket.name: {"level": bucket.level} for bucket in self._buckets},
                "held": held,
            }
        )


def _until(value: Any, now: float) -> float:
    return min(_number(value), now + HELD_FOR_S)


def _number(value: Any) -> float:
    """Return an amount or a time. Raises `ValueError`, `TypeError`: it is none."""
    if isinstance(value, (bool, str)):
        raise TypeError(f"{value!r} is no amount")
    try:
        number = float(value)
    except OverflowError as error:  # of an integer that a float cannot hold
        raise ValueError("an amount is too large") from error
    if not -1e15 < number < 1e15:
        raise ValueError(f"{number} is no amount")
    return number


def spent_in(unit: Unit, usage: JudgeUsage) -> float:
    """Return what a reading cost, in the unit of a budget."""
    if unit == "usd":
        return usage.cost_usd
    if unit == "tokens":
        return usage.input_tokens + usage.output_tokens
    # A judge of the user's own that counts nothing made one call; only a cache makes none.
    return usage.calls or float(not usage.cache_hits)
