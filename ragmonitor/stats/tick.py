"""The tick: a function of the state and the sums, run every few seconds by whoever has the lease.

It reads the bets since the last closed bucket, moves alarms on, forms the means of the windows,
compares slices, folds what is old, and commits all of it at once if nobody else has meanwhile. A
tick that dies has done nothing; of two that run at once one counts.
"""

from __future__ import annotations

import json
import math
import uuid
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import msgspec

from ragmonitor.records import Estimate
from ragmonitor.stats.alarm import Alarm, Event
from ragmonitor.stats.beta import clopper_pearson
from ragmonitor.stats.comparison import (
    ALPHA,
    Difference,
    compare_block,
    difference,
    e_bh,
    e_value,
)
from ragmonitor.stats.interval import Coverage, coverage, estimate
from ragmonitor.stats.sums import ALL, BAD, OPEN, WEIGHT
from ragmonitor.stats.suspicion import Suspicion
from ragmonitor.store import (
    BET_S,
    DAY_S,
    HOUR_S,
    MEAN_S,
    Increments,
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
OBJECTIVES: Final = ("objective", "all")
"""Kind and key of the row that says which objectives hold."""
_NONE: Final = (0.0, 0.0, 0.0, 0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Watched:
    """A series that has an alarm."""

    series: str
    """Its name in the sums."""
    objective: float | None = None
    """The mean badness that is accepted; None: it is learned."""
    share: float = 1.0
    """The share of all false alarms that are allowed; those of all together at most 1."""
    reserve: float = 0.0
    """The share of its threshold that is put aside for when the built-in judge's score rises."""
    higher_is_better: bool = False


class AlarmEvent(NamedTuple):
    """An alarm that was raised or cleared."""

    series: str
    what: Event
    at_s: float
    """By the store's clock."""
    since_s: float
    """When the rise began; of a clearing, when the alarm was raised."""


class Shown(NamedTuple):
    """Where an alarm stands, as far as is known: open draws count as fine."""

    objective: float | None
    """None: it is being learned, or what is usual is nearly the worst: there is no alarm then."""
    learned: float
    """The share of what it takes to learn the objective; 1: it is known."""
    evidence_days: float = 0.0
    raised_at_s: float = -1.0
    began_s: float = -1.0
    """When the rise began; -1: there is none."""

    @property
    def is_active(self) -> bool:
        """Whether the alarm is raised."""
        return self.raised_at_s >= 0


class Mean(NamedTuple):
    """What is known of a series over a window."""

    covered: Coverage
    estimate: Estimate | None
    """None: too little was observed."""

    @classmethod
    def of(cls, row: Sequence[float]) -> Mean | None:
        """Return what sums say; None: there were no answers."""
        covered = coverage(row)
        return None if covered is None else cls(covered, estimate(row))


@dataclass(frozen=True, slots=True)
class Evaluation:
    """What a tick found."""

    at_s: float
    events: Sequence[AlarmEvent]
    """Those of this tick."""
    alarms: Mapping[str, Shown]
    means: Mapping[str, Mapping[str, Mean]]
    """By window (`1h`, `24h`) and series."""


@dataclass(slots=True)
class _Known:
    """What one process remembers: what it wrote last, as long as nobody else has written."""

    version: int = -1
    state: dict[str, Any] = field(default_factory=dict)
    alarms: dict[str, Alarm] = field(default_factory=dict)
    suspicions: dict[str, Suspicion] = field(default_factory=dict)
    means: dict[str, dict[str, Mean]] = field(default_factory=dict)
    shown: bytes = b""


class Tick:
    """Evaluates the sums of a service, in any number of processes at once.

    >>> from ragmonitor.store import Memory
    >>> tick = Tick(Memory(lambda: 1_000.0), [Watched(series="refusal")])
    >>> tick.run().alarms["refusal"].objective is None
    True
    """

    def __init__(
        self,
        store: Store,
        watched: Sequence[Watched] = (),
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
        version, state = self._store.state()
        if version != self._known.version:
            self._load(version, state)
        known = self._known
        shown = msgspec.json.decode(known.shown or b"{}", type=dict[str, Shown])
        return Evaluation(self._store.now(), (), shown, known.means)

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
        now_s = self._store.now()
        version, state = self._store.state()
        if version != self._known.version:
            self._load(version, state)
        known, self._known = self._known, _Known()  # until it is committed nothing is known
        return self._evaluate(known, now_s, is_due=is_due)

    def _announce(self) -> None:
        """Write the objectives once: the service has one for each series."""
        if self._is_announced:
            return
        row = self._store.row(*OBJECTIVES)
        known = json.loads(row or b"{}")
        told = known | {each.series: each.objective for each in self._watched}
        # Where another process was faster it is tried again at the next tick.
        self._is_announced = told == known or self._store.keep(
            *OBJECTIVES, json.dumps(told).encode(), expected=row
        )

    def _load(self, version: int, state: dict[str, Any]) -> None:
        rows = self._store.rows("tick")
        known = self._known = _Known(version, state, shown=rows.get("states", b""))
        for name, row in rows.items():
            kind, _, key = name.partition(":")
            if kind == "watch":
                known.alarms[key] = Alarm.load(row, rows.get(f"bets:{key}", b""))
            elif kind == "rise":
                known.suspicions[key] = msgspec.msgpack.decode(row, type=Suspicion)
            elif kind == "window":
                known.means[key] = msgspec.json.decode(row, type=dict[str, Mean])
        self._objectives = {}

    def _evaluate(self, known: _Known, now_s: float, *, is_due: bool) -> Evaluation | None:
        store, state = self._store, known.state
        closed = state.get("closed", -1)
        is_minute = is_due or now_s // 60 != state.get("minute")
        names = store.names("b")
        # Where somebody waits for it, what is known of the bucket of now is looked at, too.
        fresh = [t for t in names if t > closed and (is_due or t + BET_S <= now_s)]
        bets = {t: _by_series(store.read(f"b{t}")) for t in fresh}
        closing = _closing(fresh, bets, now_s)
        rows: dict[str, bytes] = {}
        self._window_rows(known, now_s, rows, is_minute=is_minute)
        if is_minute or not self._objectives:
            self._objectives = json.loads(store.row(*OBJECTIVES) or b"{}")
        events: list[AlarmEvent] = []
        alarms: dict[str, Shown] = {}
        for each in self._watched:
            suspicions = self._suspicions(known, each, bets, closing, rows)
            alarm = self._alarm(known, each)
            before_s = alarm.raised_at_s
            ahead, happened = _advance(alarm, each.series, bets, closing, suspicions)
            for _, at_s, _ in happened:
                for each_alarm in (alarm, ahead):
                    if each_alarm.raised_at_s == at_s:  # the end of its bucket may be yet to come
                        each_alarm.raised_at_s = min(at_s, now_s)
            if is_minute:
                alarm.forget(now_s)
            if closing or happened or not known.version:
                rows[f"watch:{each.series}"] = alarm.numbers()
            if alarm.is_touched:
                rows[f"bets:{each.series}"], alarm.is_touched = alarm.groups(), False
            learned = 1.0 if alarm.learning is None else alarm.learning.share(now_s)
            alarms[each.series] = Shown(
                alarm.objective, learned, ahead.evidence, ahead.raised_at_s, ahead.began_s
            )
            for what, at_s, began_s in happened:
                since_s = began_s if what == "raised" else before_s
                before_s = min(at_s, now_s)
                events.append(AlarmEvent(each.series, what, before_s, since_s))
        last = closing[-1] if closing else closed
        gains, compared = self._comparisons(state.get("compared", -1), last, names)
        moves, drops = self._folding(now_s, names, last, is_minute=is_minute)
        shown = msgspec.json.encode(alarms)
        if shown != known.shown:
            rows["states"] = known.shown = shown
        known.state = state | {
            "closed": last,
            "compared": compared,
            "minute": now_s // 60,
            "ten": now_s // 10,
        }
        if rows or moves or drops or gains or not known.version:
            if not store.commit(
                known.version, known.state, moves=moves, drops=drops, increments=gains, rows=rows
            ):
                return None
            known.version += 1
        self._known = known
        return Evaluation(now_s, events, alarms, known.means)

    # --- alarms ---------------------------------------------------------------------------------

    def _alarm(self, known: _Known, each: Watched) -> Alarm:
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

    def _suspicions(
        self,
        known: _Known,
        each: Watched,
        bets: Mapping[int, Mapping[str, Rows]],
        closing: Sequence[int],
        rows: dict[str, bytes],
    ) -> dict[int, float]:
        """Return the suspicion before each bucket that is closed."""
        if not each.reserve or not closing:
            return {}
        suspicion = known.suspicions.setdefault(each.series, Suspicion())
        found = {}
        for t in closing:
            found[t] = suspicion.value
            cells = bets[t].get(each.series, {})
            _, risk, risks, _ = cells.get(ALL, _NONE)
            bad = math.fsum(cell[BAD] for group, cell in cells.items() if group != ALL)
            suspicion.step(t + BET_S, risk + bad, risks)
        rows[f"rise:{each.series}"] = msgspec.msgpack.encode(suspicion)
        return found

    # --- means ----------------------------------------------------------------------------------

    def _window_rows(
        self, known: _Known, now_s: float, rows: dict[str, bytes], *, is_minute: bool
    ) -> None:
        """Form the means of the last 60 to 65 minutes and, each minute, of 24 to 25 hours."""
        if now_s // 10 == known.state.get("ten") and not is_minute:
            return
        hour: Rows = {}
        for t in self._store.names("r"):
            if t + MEAN_S > now_s - HOUR_S:
                merge(hour, self._store.read(f"r{t}"))
        windows = {"1h": hour}
        if is_minute:
            windows["24h"] = self.sums(now_s - DAY_S)
        for name, window in windows.items():
            # Slices once a minute: quantiles are most of what a tick with many series takes.
            wanted = {s: row for s, row in window.items() if is_minute or "|" not in s}
            found = {s: each for s, row in wanted.items() if (each := Mean.of(row))}
            if not is_minute:
                found = {s: e for s, e in known.means.get(name, {}).items() if "|" in s} | found
            known.means[name] = found
            rows[f"window:{name}"] = msgspec.json.encode(found)

    def level(self, each: Watched, since_s: float, until_s: float = math.inf) -> Estimate | None:
        """Return the mean of a series within a time; None: too little is known.

        Of the last half an hour it is that of the bets, to ten seconds: verdicts have their
        importance weights, and each group counts as one. Else it is that of the buckets that lie
        within the time, or of what there are bets of.
        """
        oldest_s = self._store.now() - RECENT_S
        if since_s < oldest_s:
            row = self.sums(since_s, until_s).get(each.series)
            known = None if row is None else estimate(row)
            if known is not None:
                return known
        found = self._by_bets(each.series, max(since_s, oldest_s), until_s)
        if found is None or not each.higher_is_better:
            return found
        return found._replace(mean=1 - found.mean, lower=1 - found.upper, upper=1 - found.lower)

    def _by_bets(self, series: str, since_s: float, until_s: float) -> Estimate | None:
        """Return the mean *badness* by the bets within a time."""
        times = [t for t in self._store.names("b") if since_s < t + BET_S <= until_s]
        bets = self._bets(times).get(series, {})
        cells = [cell for group, cell in bets.items() if group != ALL and cell[WEIGHT] > 0]
        weight = math.fsum(cell[WEIGHT] for cell in cells)
        if weight <= 0:
            return None
        mean = math.fsum(cell[BAD] for cell in cells) / weight
        n = weight**2 / math.fsum(cell[WEIGHT] ** 2 for cell in cells)
        lower, upper = clopper_pearson(mean * n, n)
        return Estimate(mean, min(mean, lower), max(mean, upper), n, weight, 1.0)

    def sums(self, since_s: float, until_s: float | None = None) -> Rows:
        """Return the sums of all answers since a moment, to the bucket.

        With an end they are those of the buckets that lie within the time.
        """
        total: Rows = {}
        for kind, width_s in (("r", MEAN_S), ("h", HOUR_S)):
            for t in self._store.names(kind):
                ends_s = t + width_s
                if until_s is not None:
                    is_within = since_s <= t and ends_s <= until_s
                else:
                    is_within = ends_s > since_s
                if is_within:
                    merge(total, self._store.read(f"{kind}{t}"))
        return total

    # --- comparisons ----------------------------------------------------------------------------

    def _comparisons(self, done: int, closed: int, names: Sequence[int]) -> tuple[Increments, int]:
        """Return the log gains of blocks whose bets are all in, and the last such block."""
        end = closed // MEAN_S * MEAN_S if closed >= 0 else -1
        blocks = sorted({t // MEAN_S * MEAN_S for t in names if done < t // MEAN_S * MEAN_S < end})
        gains: Increments = {}
        for block in blocks:
            times = [t for t in names if t // MEAN_S * MEAN_S == block]
            usual = self.usual(block, gains.values())
            gains[f"c{block}"] = compare_block(self._bets(times), usual)
        return gains, blocks[-1] if blocks else done

    def _bets(self, times: Iterable[int]) -> dict[str, Rows]:
        """Return the bets of some buckets, by series and group."""
        cells: dict[str, Rows] = {}
        for t in times:
            for series, found in _by_series(self._store.read(f"b{t}")).items():
                merge(cells.setdefault(series, {}), found)
        return cells

    def usual(self, block: float, more: Iterable[Rows] = ()) -> dict[str, float]:
        """Return the mean badness of the hour before a block, by signal."""
        past: Rows = {}
        for t in self._store.names("c"):
            if block - HOUR_S <= t < block:
                merge(past, self._store.read(f"c{t}"))
        for rows in more:
            merge(past, rows)
        return {s: row[1] / row[0] for s, row in past.items() if "|" not in s and row[0] > 0}

    def named(
        self, signal: str, since_s: float, ahead: Mapping[str, list[float]] = MappingProxyType({})
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
        total = dict(ahead)
        for t in self._store.names("c"):
            if t + MEAN_S > since_s:
                merge(total, self._store.read(f"c{t}"))
        usual = self.usual(compared + MEAN_S)
        is_open: dict[int, list[int]] = {}
        for t in self._store.names("b"):
            if t >= compared + MEAN_S and t + BET_S > since_s:
                is_open.setdefault(t // MEAN_S, []).append(t)
        for times in is_open.values():
            merge(total, compare_block(self._bets(times), usual))
        values = {s: e_value(logs) for s, logs in total.items() if s.startswith(f"{signal}|")}
        return [series.partition("|")[2] for series in e_bh(values)]

    def differences(
        self, pairs: Collection[tuple[str, str]], alpha: float = ALPHA
    ) -> dict[tuple[str, str, str], Difference]:
        """Return the differences of pairs of slices over the last day, as far as they are known.

        Args:
            pairs: A version and its baseline.
            alpha: Of all signals of a pair together.

        Returns:
            By signal, version and baseline.
        """
        found: dict[tuple[str, str, str], list[tuple[list[float], list[float]]]] = {}
        for kind in "rh":
            for t in self._store.names(kind):
                rows = self._store.read(f"{kind}{t}")
                for series, row in rows.items():
                    signal, _, slice_ = series.partition("|")
                    for version, baseline in pairs:
                        other = rows.get(f"{signal}|{baseline}")
                        if slice_ == version and other is not None:
                            key = signal, version, baseline
                            found.setdefault(key, []).append((row, other))
        signals = len({signal for signal, _, _ in found})
        return {
            key: each
            for key, rows in found.items()
            if (each := difference(rows, alpha / signals)) is not None
        }

    # --- folding --------------------------------------------------------------------------------

    def _folding(
        self, now_s: float, names: Sequence[int], closed: int, *, is_minute: bool
    ) -> tuple[list[tuple[str, str]], list[str]]:
        """Return which buckets become part of longer ones, and which end."""
        drops = [f"b{t}" for t in names if t <= closed and t + BET_S < now_s - LOOKBACK_S]
        moves: list[tuple[str, str]] = []
        if is_minute:
            for kind, longer, width, after in (
                ("r", "h", HOUR_S, HOUR_S),
                ("p", "q", DAY_S, DAY_S),
            ):
                moves += [
                    (f"{kind}{t}", f"{longer}{t // width * width}")
                    for t in self._store.names(kind)
                    if t + MEAN_S < now_s - after
                ]
            for kind, width, after in (
                ("h", HOUR_S, DAY_S),
                ("c", MEAN_S, DAY_S),
                ("q", DAY_S, LEARNED_S),
            ):
                ended = [t for t in self._store.names(kind) if t + width < now_s - after]
                drops += [f"{kind}{t}" for t in ended]
        return moves, drops


def _advance(
    alarm: Alarm,
    series: str,
    bets: Mapping[int, Mapping[str, Rows]],
    closing: Sequence[int],
    suspicions: Mapping[int, float],
) -> tuple[Alarm, list[tuple[Event, float, float]]]:
    """Move an alarm on by closed buckets; return it as it is shown, and what happened.

    Buckets with open draws are taken in again with each tick, on a copy, as if what is open were
    fine, and without what was put aside: that comes in by what is known for good. That is a lower
    bound of what they will come to, so an alarm may be raised on it; it then begins anew. What
    happened is told with its time, and with that of the rise's beginning.
    """
    happened: list[tuple[Event, float, float]] = []
    done = set(closing)
    for t in _betted(alarm, series, bets, closing):
        began_s = alarm.began_s
        event = alarm.step(t + BET_S, _cells(bets[t], series), suspicion=suspicions.get(t, 0.0))
        if event:
            happened.append((event, t + BET_S, alarm.began_s if event == "raised" else began_s))
    times = _betted(alarm, series, bets, [t for t in bets if t not in done])
    ahead = alarm.copy(with_groups=any(_cells(bets[t], series) for t in times))
    held: set[int] = set()
    for t in times:
        cells = _cells(bets[t], series)
        event = ahead.step(t + BET_S, cells, held=held)
        if event:
            happened.append((event, t + BET_S, ahead.began_s))
            # What was seen so far has raised (or cleared) it, and is not to do so again.
            alarm.take_over(ahead.copy())
    return ahead, happened


def _betted(
    alarm: Alarm, series: str, bets: Mapping[int, Mapping[str, Rows]], times: Iterable[int]
) -> list[int]:
    """Return the buckets with bets of a series, and the last one: between them time adds evenly."""
    ahead = [t for t in times if t + BET_S > alarm.at_s]
    return [t for t in ahead if t == ahead[-1] or alarm.at_s < 0 or _cells(bets[t], series)]


def _cells(bucket: Mapping[str, Rows], series: str) -> dict[int, Sequence[float]]:
    """Return the bets of a series by group."""
    cells = bucket.get(series, {})
    return {int(group): cell for group, cell in cells.items() if group != ALL}


def _by_series(rows: Rows) -> dict[str, Rows]:
    found: dict[str, Rows] = {}
    for name, cell in rows.items():
        series, _, group = name.rpartition("@")
        found.setdefault(series, {})[group] = cell
    return found


def _closing(
    fresh: Sequence[int], bets: Mapping[int, Mapping[str, Rows]], now_s: float
) -> list[int]:
    """Return the buckets that are closed now: none may be before one that is not.

    A bucket that has ended gets no more draws, since these go to the bucket of now; it is closed as
    soon as no draw of it is open, so that each bet is read about once.
    """
    closing = []
    for t in fresh:
        cells = (c for groups in bets[t].values() for g, c in groups.items() if g != ALL)
        is_open = any(cell[OPEN] > 1e-9 for cell in cells)
        if t + BET_S > now_s - (WATERMARK_S if is_open else 0.0):
            break
        closing.append(t)
    return closing
