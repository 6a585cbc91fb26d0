"""The tick: a function of the state and the sums, run every few seconds by whoever has the lease.

It reads the bets since the last closed bucket, moves alarms on, forms the means of the windows,
compares slices, folds what is old, and commits all of it at once if nobody else has meanwhile. A
tick that dies has done nothing; of two that run at once one counts.
"""

from __future__ import annotations

import contextlib
import json
import math
import uuid
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from ragmonitor.records import AlarmEvent, Estimate
from ragmonitor.stats.alarm import Alarm
from ragmonitor.stats.beta import clopper_pearson
from ragmonitor.stats.comparison import (
    ALPHA,
    Difference,
    compare_block,
    difference,
    e_bh,
    e_value,
)
from ragmonitor.stats.interval import Mean, estimate
from ragmonitor.stats.streams import Stream
from ragmonitor.stats.sums import ALL, BAD, OPEN, WEIGHT
from ragmonitor.store import (
    BET_S,
    DAY_S,
    HOUR_S,
    MEAN_S,
    Change,
    Increments,
    Key,
    Rows,
    Store,
    merge,
    takes_lease,
)

WATERMARK_S: Final = 600.0
"""A verdict that is later than this bets in no alarm: its draw has counted as fine."""
LOOKBACK_S: Final = 1_800.0
"""Buckets of bets are kept for so long after they were closed."""
RECENT_S: Final = 1_700.0
"""Of so long ago there are bets, where the means of whole buckets say nothing yet."""
LEARNED_S: Final = 30 * DAY_S
TICK: Final = "tick"
"""Kind of the rows that an evaluation writes: alarms, and the means of windows."""
OBJECTIVES: Final = ("objective", "all")
"""Kind and key of the row that says which objectives hold."""
_FOLDED: Final = (("r", "h", HOUR_S), ("p", "q", DAY_S))
"""Kinds of buckets, the kind that they become part of, and after which time."""
_ENDED: Final = (("h", HOUR_S + DAY_S), ("c", MEAN_S + DAY_S), ("q", DAY_S + LEARNED_S))
"""Kinds of buckets, and the age at which they end."""


@dataclass(frozen=True, slots=True)
class Evaluation:
    """What a tick found."""

    events: Sequence[AlarmEvent]
    """Those of this tick, without their spans."""
    alarms: Mapping[str, Alarm]
    """By series, as far as is known: open draws count as fine."""
    means: Mapping[str, Mapping[str, Mean]]
    """By window (`1h`, `24h`) and series."""
    at_s: float = 0.0
    """By the store's clock."""


@dataclass(slots=True)
class _Known:
    """What one process remembers: what it wrote last, as long as nobody else has written."""

    version: int = -1
    state: dict[str, Any] = field(default_factory=dict)
    alarms: dict[str, Alarm] = field(default_factory=dict)
    means: dict[str, dict[str, Mean]] = field(default_factory=dict)


class Tick:
    """Evaluates the sums of a service, in any number of processes at once.

    >>> from ragmonitor.store import Memory
    >>> tick = Tick(Memory(lambda: 1_000.0), [Stream(series="refusal")])
    >>> tick.run().alarms["refusal"].objective is None
    True
    """

    def __init__(
        self,
        store: Store,
        watched: Sequence[Stream] = (),
        *,
        false_alarm_every_days: float = 30.0,
    ) -> None:
        """Touch nothing yet.

        Args:
            store: Whose sums are evaluated.
            watched: What has an alarm, as this process was told. Of several processes the last one
                that began decides.
            false_alarm_every_days: How often all alarms together may be false.
        """
        self._store, self._watched = store, watched
        self._every_days = false_alarm_every_days
        self.holder = uuid.uuid4().hex
        """Name of this process."""
        self._is_announced = False
        self._known = _Known()
        self._objectives: dict[str, float | None] = {}

    def look(self) -> Evaluation:
        """Return what another process found last. Raises `StoreUnavailableError`."""
        known = self._newest()
        return Evaluation((), known.alarms, known.means, self._store.now())

    def run(self, *, is_due: bool = False) -> Evaluation | None:
        """Evaluate; None: another process has the lease, or was faster.

        Args:
            is_due: Means are formed anew in any case, and not each ten seconds; bets of the last
                moments count before their ten seconds are over.

        Raises:
            StoreUnavailableError: Nothing has changed, or all of it.
        """
        self._announce()
        if not takes_lease(self._store, self.holder):
            return None
        now_s, known = self._store.now(), self._newest()
        self._known = _Known()  # until it is committed nothing is known
        return self._evaluate(known, now_s, is_due=is_due)

    def _announce(self) -> None:
        """Write the objectives once: the service has one for each series."""
        if self._is_announced:
            return
        row = self._store.row(*OBJECTIVES)
        known = _objectives_of(row)
        told = known | {each.series: each.objective for each in self._watched}
        # Where another process was faster it is tried again at the next tick.
        self._is_announced = told == known or self._store.keep(
            *OBJECTIVES, json.dumps(told).encode(), expected=row
        )

    def _newest(self) -> _Known:
        """Return what is known as of the newest commit."""
        version, state = self._store.state()
        if version == self._known.version:
            return self._known
        known = self._known = _Known(version, state)
        for name, row in self._store.rows(TICK).items():
            kind, _, key = name.partition(":")
            with contextlib.suppress(msgspec.MsgspecError):  # of another release: it begins anew
                if kind == "alarm":
                    known.alarms[key] = msgspec.msgpack.decode(row, type=Alarm)
                elif kind == "window":
                    known.means[key] = msgspec.json.decode(row, type=dict[str, Mean])
        self._objectives = {}
        return known

    def _evaluate(self, known: _Known, now_s: float, *, is_due: bool) -> Evaluation | None:
        store, state = self._store, known.state
        closed = state.get("closed", -1)
        is_minute = is_due or now_s // 60 != state.get("minute")
        # Where somebody waits for it, what is known of the bucket of now is looked at, too.
        end_s = math.inf if is_due else math.floor(now_s) - BET_S + 1
        bets = {t: _by_series(rows) for t, rows in self._read("b", closed + 1, end_s)}
        closing = _closing(bets, now_s)
        rows: dict[Key, bytes | None] = {}
        self._window_rows(known, now_s, rows, is_minute=is_minute)
        if is_minute or not self._objectives:
            self._objectives = _objectives_of(store.row(*OBJECTIVES))
        events: list[AlarmEvent] = []
        alarms: dict[str, Alarm] = {}
        for each in self._watched:
            alarm = self._alarm(known, each)
            alarms[each.series], happened = _advance(alarm, each, bets, closing, now_s)
            events += happened
            if is_minute:
                alarm.forget(now_s)
            if closing or happened or not known.version:
                rows[TICK, f"alarm:{each.series}"] = msgspec.msgpack.encode(alarm)
        last = closing[-1] if closing else closed
        gains, compared = self._comparisons(state.get("compared", -1), last)
        moves, drops = self._folding(now_s, min(last, compared + MEAN_S - 1), is_minute=is_minute)
        known.state = state | {
            "closed": last,
            "compared": compared,
            "minute": now_s // 60,
            "ten": now_s // 10,
        }
        if rows or moves or drops or gains or not known.version:
            change = Change(increments=gains, rows=rows, moves=moves, drops=drops)
            if not store.commit(known.version, known.state, change):
                return None
            known.version += 1
        self._known = known
        return Evaluation(events, alarms, known.means, now_s)

    def _alarm(self, known: _Known, each: Stream) -> Alarm:
        """Return an alarm, in line with the objective that holds for the service."""
        threshold_days = self._every_days / each.share
        reserve = each.reserve * threshold_days
        objective = self._objectives.get(each.series, each.objective)
        alarm = known.alarms.get(each.series)
        if alarm is None or alarm.given != objective:  # another one is other evidence
            alarm = Alarm.begin(objective, threshold_days, reserve)
        alarm.threshold_days, alarm.max_reserve = threshold_days, reserve
        known.alarms[each.series] = alarm
        return alarm

    # --- means ----------------------------------------------------------------------------------

    def _window_rows(
        self, known: _Known, now_s: float, rows: dict[Key, bytes | None], *, is_minute: bool
    ) -> None:
        """Form the means of the last 60 to 65 minutes and, each minute, of 24 to 25 hours."""
        if now_s // 10 == known.state.get("ten") and not is_minute:
            return
        windows = {"1h": now_s - HOUR_S}
        if is_minute:
            windows["24h"] = now_s - DAY_S
        for name, since_s in windows.items():
            kinds = "r" if name == "1h" else "rh"
            # Slices once a minute: quantiles are most of what a tick with many series takes.
            found = {
                series: mean
                for series, row in self.sums(since_s, kinds=kinds).items()
                if (is_minute or "|" not in series) and (mean := Mean.of(row))
            }
            if not is_minute:
                found = {s: e for s, e in known.means.get(name, {}).items() if "|" in s} | found
            known.means[name] = found
            rows[TICK, f"window:{name}"] = msgspec.json.encode(found)

    def level(self, each: Stream, since_s: float, until_s: float = math.inf) -> Estimate | None:
        """Return the mean of a series within a time; None: too little is known.

        Of the last half an hour it is that of the bets, to ten seconds: verdicts have their
        importance weights, and each group counts as one. Else it is that of the buckets that lie
        within the time, or of what there are bets of.
        """
        oldest_s = self._store.now() - RECENT_S
        if since_s < oldest_s:
            row = self.sums(since_s, until_s, is_within=True).get(each.series)
            known = None if row is None else estimate(row)
            if known is not None:
                return known
        cells = self._bets(max(since_s, oldest_s), until_s).get(each.series, {})
        heard = [cell for group, cell in cells.items() if group != ALL and cell[WEIGHT] > 0]
        weight = math.fsum(cell[WEIGHT] for cell in heard)
        if weight <= 0:
            return None
        bad = math.fsum(cell[BAD] for cell in heard) / weight
        mean = 1 - bad if each.higher_is_better else bad
        n = weight**2 / math.fsum(cell[WEIGHT] ** 2 for cell in heard)
        lower, upper = clopper_pearson(mean * n, n)
        return Estimate(mean, min(mean, lower), max(mean, upper), n, weight, 1.0)

    def sums(
        self,
        since_s: float,
        until_s: float = math.inf,
        *,
        is_within: bool = False,
        kinds: str = "rh",
    ) -> Rows:
        """Return the sums of all answers within a time, to the bucket.

        Args:
            since_s: When it begins.
            until_s: When it ends.
            is_within: Leave out the bucket in which it begins, of which a part lies before it.
            kinds: Of buckets of means.
        """
        total: Rows = {}
        for kind in kinds:
            width_s = MEAN_S if kind == "r" else HOUR_S
            first_s = since_s if is_within else since_s - width_s + BET_S
            for _, rows in self._read(kind, first_s, until_s - width_s + BET_S):
                merge(total, rows)
        return total

    def _read(
        self, kind: str, since_s: float = -math.inf, until_s: float = math.inf
    ) -> Iterator[tuple[int, Rows]]:
        """Yield the buckets of a kind that begin within a time, its end left out; oldest first."""
        for t in self._store.names(kind):
            if since_s <= t < until_s:
                yield t, self._store.read(f"{kind}{t}")

    def _bets(self, since_s: float, until_s: float = math.inf) -> dict[str, Rows]:
        """Return the bets of some buckets, by series and group."""
        total: Rows = {}
        for _, rows in self._read("b", since_s, until_s):
            merge(total, rows)
        return _by_series(total)

    # --- comparisons ----------------------------------------------------------------------------

    def _comparisons(self, done: int, closed: int) -> tuple[Increments, int]:
        """Return the log gains of the next block whose bets are all in, and that block."""
        end = closed // MEAN_S * MEAN_S
        blocks = {t // MEAN_S * MEAN_S for t in self._store.names("b")}
        block = min((each for each in blocks if done < each < end), default=None)
        if block is None:
            return {}, done
        bets = self._bets(block, block + MEAN_S)
        return {f"c{block}": compare_block(bets, self.usual(block))}, block

    def usual(self, block: float) -> dict[str, float]:
        """Return the mean badness of the hour before a block, by signal."""
        past: Rows = {}
        for _, rows in self._read("c", block - HOUR_S, block):
            merge(past, rows)
        return {s: row[1] / row[0] for s, row in past.items() if "|" not in s and row[0] > 0}

    def named(
        self, signal: str, since_s: float, ahead: Mapping[str, list[float]] | None = None
    ) -> list[str]:
        """Return the slices that were worse than the others since then; empty: it is everywhere.

        Answers of blocks that are not closed are compared as they are now, so that nobody waits
        for the block to end. That is an e-value at each look, and no process over the looks within
        one block.

        Args:
            signal: Which got worse.
            since_s: When its rise began.
            ahead: Log gains of slices whose bets are elsewhere, from blocks that are not closed.
        """
        compared = self._store.state()[1].get("compared", -MEAN_S)
        total = dict(ahead or {})
        for _, rows in self._read("c", since_s - MEAN_S + BET_S):
            merge(total, rows)
        first = compared + MEAN_S
        usual = self.usual(first)
        for block in sorted({t // MEAN_S * MEAN_S for t in self._store.names("b") if t >= first}):
            bets = self._bets(max(block, since_s), block + MEAN_S)
            merge(total, compare_block(bets, usual))
        values = {s: e_value(logs) for s, logs in total.items() if s.startswith(f"{signal}|")}
        return [series.partition("|")[2] for series in e_bh(values)]

    def differences(
        self, pairs: Collection[tuple[str, str]]
    ) -> dict[tuple[str, str, str], Difference]:
        """Return the differences of pairs of slices over the last day, as far as they are known.

        Args:
            pairs: A version and its baseline.

        Returns:
            By signal, version and baseline.
        """
        found: dict[tuple[str, str, str], list[tuple[list[float], list[float]]]] = {}
        for _, rows in (*self._read("r"), *self._read("h")):
            for series, row in rows.items():
                signal, _, slice_ = series.partition("|")
                for version, baseline in pairs:
                    other = rows.get(f"{signal}|{baseline}")
                    if slice_ == version and other is not None:
                        found.setdefault((signal, version, baseline), []).append((row, other))
        signals = len({signal for signal, _, _ in found})
        return {
            key: each
            for key, rows in found.items()
            if (each := difference(rows, ALPHA / signals)) is not None
        }

    # --- folding --------------------------------------------------------------------------------

    def _folding(
        self, now_s: float, done: float, *, is_minute: bool
    ) -> tuple[list[tuple[str, str]], list[str]]:
        """Return which buckets become part of longer ones, and which end.

        Args:
            now_s: By the store's clock.
            done: Bets until then are evaluated and compared.
            is_minute: Whether to look at means, too.
        """
        names, moves = self._store.names, []
        end_s = now_s - LOOKBACK_S - BET_S
        drops = [f"b{t}" for t in names("b") if t <= done and t < end_s]
        if is_minute:
            for kind, longer, width in _FOLDED:
                old = [t for t in names(kind) if t + MEAN_S < now_s - width]
                moves += [(f"{kind}{t}", f"{longer}{t // width * width}") for t in old]
            for kind, age_s in _ENDED:
                drops += [f"{kind}{t}" for t in names(kind) if t < now_s - age_s]
        return moves, drops


def _advance(
    alarm: Alarm,
    stream: Stream,
    bets: Mapping[int, Mapping[str, Rows]],
    closing: Sequence[int],
    now_s: float,
) -> tuple[Alarm, list[AlarmEvent]]:
    """Move an alarm on by closed buckets; return it as it is shown, and what happened.

    Buckets with open draws are taken in again with each tick, on a copy, as if what is open were
    fine, and without what was put aside: that comes in by what is known for good. That is a lower
    bound of what they will come to, so an alarm may be raised on it; it then begins anew.
    """
    ahead, series = alarm, stream.series
    events: list[AlarmEvent] = []
    held: set[str] = set()
    lasts = {*closing[-1:], *[*bets][-1:]}
    for t, cells in bets.items():
        is_closed = t in closing
        if not is_closed and ahead is alarm:
            ahead = alarm.copy()
        # Between buckets with answers time adds evenly.
        is_empty = series not in cells and t not in lasts and ahead.at_s >= 0
        if is_empty or t + BET_S <= ahead.at_s:
            continue
        since_s = ahead.raised_at_s
        what = ahead.step(t + BET_S, cells.get(series, {}), held=None if is_closed else held)
        if what is None:
            continue
        at_s = min(t + BET_S, now_s)  # the end of its bucket may be yet to come
        if what == "raised":
            ahead.raised_at_s, since_s = at_s, ahead.began_s
        events.append(
            AlarmEvent(
                signal=stream.signal,
                judge=stream.judge,
                kind=stream.kind,
                raised=what == "raised",
                at_s=at_s,
                since_s=since_s,
                objective=stream.on_its_scale(alarm.objective) or 0.0,
                higher_is_better=stream.higher_is_better,
            )
        )
        if not is_closed:
            # What was seen so far has raised (or cleared) it, and is not to do so again.
            alarm.take_over(ahead.copy())
    return ahead, events


def _objectives_of(row: bytes | None) -> dict[str, float | None]:
    """Return the objectives by series; a row that cannot be read is written anew."""
    with contextlib.suppress(msgspec.MsgspecError):
        return msgspec.json.decode(row or b"{}", type=dict[str, float | None])
    return {}


def _by_series(rows: Rows) -> dict[str, Rows]:
    found: dict[str, Rows] = {}
    for name, cell in rows.items():
        series, _, group = name.rpartition("@")
        found.setdefault(series, {})[group] = cell
    return found


def _closing(bets: Mapping[int, Mapping[str, Rows]], now_s: float) -> list[int]:
    """Return the buckets that are closed now: none may be before one that is not.

    A bucket that has ended gets no more draws, since these go to the bucket of now; it is closed as
    soon as no draw of it is open, so that each bet is read about once.
    """
    closing = []
    for t, series in bets.items():
        cells = (c for groups in series.values() for g, c in groups.items() if g != ALL)
        is_open = any(cell[OPEN] > 1e-9 for cell in cells)
        if t + BET_S > now_s - (WATERMARK_S if is_open else 0.0):
            break
        closing.append(t)
    return closing
