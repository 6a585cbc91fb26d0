"""Alarms with a stated false-alarm rate: one detector per signal, shared by all processes."""

from __future__ import annotations

import hashlib
import logging
import math
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter, itemgetter
from typing import Any

from ragmonitor.estimation.beta import beta_quantile
from ragmonitor.estimation.detector import (
    CLEARED_AT,
    CLEARING_RISKS,
    MULTIPLES,
    TOLERATE_LEAST,
    Clearing,
    Detector,
)
from ragmonitor.guard import record_error, shielded
from ragmonitor.records import AlarmEvent, AlarmKind, AlarmState, Estimate, Example
from ragmonitor.state import StateFile

logger = logging.getLogger("ragmonitor")

STATE_VERSION = 1

LEARNED_FROM = 1_000
"""Verdicts from which `tolerate` is learned, where it is not given."""
LEARNED_HEADROOM = 1.25
LEARNED_CONFIDENCE = 0.95
LEARNED_MOST = 0.95

RISING_FROM = 0.01
"""Evidence is rising from this share of the line on."""
EXAMPLES = 3

PENDING_MOST = 20_000
"""Bets between two ticks."""
LATE_MOST_S = 1_800.0
"""A verdict that is later than this counts as so late: its value matters, its time no more."""

SESSION_S = 3_600.0
SESSIONS_MOST = 10_000
SESSIONS_SHARED = 128
"""The newest, which processes that share a file tell each other of."""

EMBEDDED = "lexical"
"""The embedded judge's name in labels."""

Pending = tuple[float, int, float, float, str, Callable[[], Example] | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Stream:
    """One signal that may raise an alarm."""

    signal: str
    judge: str
    """Whose verdicts bet on it; `none` for what needs no judge."""
    kind: AlarmKind
    share: float
    """Of all false alarms that are allowed; those of all streams together at most 1."""
    falls: bool = False
    """Better the higher it is: `tolerate` is the lowest mean accepted."""
    stake_most: float = 1.0
    """The highest stake of its bets; 2 where the chance of being judged varies."""
    default_tolerate: float | None = None
    """In the signal's own scale; None: learned where it is not given."""
    least_learned: float = 0.0
    """What is learned is at least this, on the scale of badness."""


@dataclass(slots=True, kw_only=True)
class _Learning:
    """Sums over the verdicts from which `tolerate` is learned, on the scale of badness."""

    verdicts: int = 0
    weight: float = 0.0
    weight_squared: float = 0.0
    weighted: float = 0.0

    def add(self, x: float, weight: float) -> None:
        # Weighted by the stake, which is the moment's rate over the answer's chance. Within a
        # moment that undoes the unequal chances, as 1/chance would. Between moments it counts a
        # verdict for one whether it was drawn at a high rate or a low one; that is the mean on
        # which the bets will run, being staked alike, and its effective number stays near that of
        # the verdicts, where weights of 1/chance would let one quiet night outweigh a busy day.
        self.verdicts += 1
        self.weight += weight
        self.weight_squared += weight * weight
        self.weighted += weight * x

    @property
    def share(self) -> float:
        return min(1.0, self.verdicts / LEARNED_FROM)

    def tolerate(self) -> float:
        """Return max(1.25 mean, 95 % upper bound), at most 0.95.

        Source:
            Clopper & Pearson (1934), Biometrika 26(4), one-sided, at the effective sample size of
            Kish (1965), "Survey Sampling", section 11.2. For values between 0 and 1 it is wider
            than need be.
        """
        mean = self.weighted / self.weight
        n = self.weight**2 / self.weight_squared
        upper = beta_quantile(LEARNED_CONFIDENCE, mean * n + 1, (1 - mean) * n)
        return min(LEARNED_MOST, max(TOLERATE_LEAST, LEARNED_HEADROOM * mean, upper))


@dataclass(slots=True, kw_only=True)
class _Watch:
    """Where one stream stands. `tolerate` and `learned` are on the scale of badness."""

    line_days: float
    stake_most: float
    tolerate: float | None = None
    """What the evidence is about; None: not known yet."""
    learned: float | None = None
    learning: _Learning = field(default_factory=_Learning)
    detector: Detector = field(init=False)
    clearing: Clearing | None = None
    """Only while the alarm is active."""
    since_s: float | None = None
    held_days: float = 0.0
    """The evidence that raised the active alarm."""
    rising_since_s: float | None = None
    raised: int = 0
    examples: list[Example] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.restart(self.tolerate)

    def restart(self, tolerate: float | None) -> None:
        """Forget evidence and alarm; from now on the evidence is about this."""
        self.tolerate = tolerate
        self.detector = Detector(
            tolerate=1.0 if tolerate is None else tolerate,
            stake_most=self.stake_most,
            line_days=self.line_days,
        )
        self.clearing = None
        self.since_s = self.rising_since_s = None
        self.held_days = 0.0
        self.examples = []

    @property
    def evidence_days(self) -> float:
        return self.detector.evidence if self.clearing is None else self.held_days

    def dump(self) -> dict[str, Any]:
        learning, clearing = self.learning, self.clearing
        return {
            "tolerate": self.tolerate,
            "learned": self.learned,
            "learning": [
                learning.verdicts,
                learning.weight,
                learning.weight_squared,
                learning.weighted,
            ],
            "evidence": self.detector.parts,
            "at_s": self.detector.at_s,
            "clearing": clearing
            and [clearing.at_s, clearing.age_hours, clearing.stake_most, *clearing.parts],
            "since_s": self.since_s,
            "held_days": self.held_days,
            "rising_since_s": self.rising_since_s,
            "raised": self.raised,
        }

    def load(self, told: Any) -> None:
        """Take over what another process told. Raises `ValueError`, and is unchanged then."""
        try:
            other = _Watch(line_days=self.line_days, stake_most=self.stake_most)
            other.restart(_number(told["tolerate"]))
            other.learned = _number(told["learned"])
            verdicts, *sums = (_must(each) for each in told["learning"])
            weight, weight_squared, weighted = sums
            other.learning = _Learning(
                verdicts=int(verdicts),
                weight=weight,
                weight_squared=weight_squared,
                weighted=weighted,
            )
            other.detector.parts = [_must(each) for each in told["evidence"]]
            if len(other.detector.parts) != len(MULTIPLES):
                raise ValueError("evidence of another mixture")
            other.detector.at_s = _number(told["at_s"])
            other.since_s = _number(told["since_s"])
            other.held_days = _must(told["held_days"])
            other.rising_since_s = _number(told["rising_since_s"])
            other.raised = int(_must(told["raised"]))
            other.clearing = other._clearing(told["clearing"])
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"a stream's state is not as expected: {error!r}") from error
        rising = other.rising_since_s
        other.examples = [
            each for each in self.examples if rising is not None and each.at_s >= rising
        ]
        for name in self.__slots__:
            setattr(self, name, getattr(other, name))

    def _clearing(self, told: Any) -> Clearing | None:
        if told is None:
            return None
        at_s, age_hours, stake_most, *parts = (_must(each) for each in told)
        if self.tolerate is None or self.since_s is None or len(parts) != len(CLEARING_RISKS):
            raise ValueError("a clearance of another mixture")
        clearing = Clearing(tolerate=self.tolerate, stake_most=stake_most, at_s=at_s)
        clearing.restore(parts, age_hours)
        return clearing


def _number(told: Any) -> float | None:
    return None if told is None else _must(told)


def _must(told: Any) -> float:
    """Return a finite number that is not negative. Raises `ValueError`, `TypeError`."""
    number = float(told)
    if not 0 <= number < math.inf:
        raise ValueError(f"{number} cannot be part of an alarm's state")
    return number


@dataclass(frozen=True, slots=True, kw_only=True)
class _Turn:
    """An alarm was raised or cleared; becomes an event once the state is safe."""

    stream: Stream
    raised: bool
    at_s: float
    since_s: float
    evidence_days: float
    tolerate: float
    examples: tuple[Example, ...] = ()


class Alarms:
    """The alarms of one service.

    Bets are noted as verdicts come in and are applied by `settle`, every few seconds. With a
    file, whoever settles owns all streams for that moment: it reads the newest state, applies its
    own bets and writes, so that all processes are one alarm. Without, each process is its own.

    As long as every signal keeps to what is tolerated, all streams together raise at most one
    false alarm in `false_alarm_every_days`, on average: a stream with the share s has its line at
    `false_alarm_every_days / s`, and shows its evidence times s, so that all have the same line.

    One thread at a time.
    """

    def __init__(
        self,
        streams: Sequence[Stream],
        *,
        false_alarm_every_days: float,
        tolerate: Mapping[str, float] | None = None,
        now: Callable[[], float] = time.time,
        file: StateFile | None = None,
    ) -> None:
        """Begin without evidence; the file is not touched yet.

        Args:
            streams: At most one for each signal.
            false_alarm_every_days: The line.
            tolerate: By signal, in its own scale; what the user says. Other signals' are ignored.
            now: Seconds since the epoch.
            file: What outlives the process, and is shared; of version `STATE_VERSION`.

        Raises:
            ValueError: Two streams of one signal, a share of 0, or shares above 1 together.
        """
        self._streams = tuple(streams)
        self._index = {stream.signal: place for place, stream in enumerate(self._streams)}
        if len(self._index) < len(self._streams):
            raise ValueError("two streams of one signal")
        shares = [stream.share for stream in self._streams]
        if min(shares, default=1.0) <= 0 or sum(shares) > 1 + 1e-9:
            raise ValueError("the streams' shares are to be above 0, and at most 1 together")
        self._every_days = false_alarm_every_days
        given = tolerate or {}
        self._given = [
            given.get(stream.signal, stream.default_tolerate) for stream in self._streams
        ]
        self._now = now
        self._file = file
        self.clear()

    def clear(self) -> None:
        """Forget everything: a forked child, whose parent keeps what was noted. The file stays."""
        self._watches = [
            _Watch(
                line_days=self._every_days / stream.share,
                stake_most=stream.stake_most,
                tolerate=self._wanted(place, None),
            )
            for place, stream in enumerate(self._streams)
        ]
        self._pending: list[Pending] = []
        self._lost = 0
        self._sessions: OrderedDict[str, list[int]] = OrderedDict()
        """By digest: the second of its first bet, and one bit for each stream it has bet on."""
        self._seen = ""
        """Which writing of the file this process knows or is ahead of."""
        self._strangers: dict[str, Any] = {}
        """Streams in the file that are not configured now: kept for when they are again."""

    def bet(
        self,
        signal: str,
        *,
        value: float,
        stake: float,
        at_s: float,
        session: str = "",
        example: Callable[[], Example] | None = None,
    ) -> None:
        """Note one verdict; it counts from the next `settle` on. Cheap, and touches no file.

        Args:
            signal: Without a stream of that name nothing is noted.
            value: In the signal's own scale, 0 to 1.
            stake: As `Chance.stake`; without one there is nothing to bet.
            at_s: When the answer was given, in seconds since the epoch.
            session: Of several verdicts on one session within an hour the first one bets.
            example: Called at most once, at the next `settle`, if it is one of the worst.
        """
        place = self._index.get(signal)
        if place is None or not (stake > 0 and math.isfinite(value) and math.isfinite(at_s)):
            return
        if len(self._pending) >= PENDING_MOST:
            self._lost += 1
            return
        x = 1.0 - value if self._streams[place].falls else value
        self._pending.append((at_s, place, min(1.0, max(0.0, x)), stake, session, example))

    def falls(self, signal: str) -> bool:
        """Return whether the signal is better the higher it is."""
        place = self._index.get(signal)
        return place is not None and self._streams[place].falls

    def settle(self, estimate: Callable[[str], Estimate | None]) -> tuple[AlarmEvent, ...]:
        """Apply what was noted, and return the alarms that were raised or cleared by it.

        With a file each is returned by the one process whose bets turned it. A file that cannot
        be read or written is an error of ours, counted and logged once: alarms then go on in
        memory.

        Args:
            estimate: By signal, the last hour's; asked for the signals of events only.
        """
        if self._lost:
            record_error("estimation", OverflowError(f"{self._lost} verdicts too many for alarms"))
            self._lost = 0
        # In order of time, as the guarantee wants it, and then in an order that does not depend
        # on which verdict came in first.
        pending = sorted(self._pending, key=itemgetter(0, 1, 2, 3))
        self._pending = []
        turns = self._turns(pending) if self._file is None else self._shared(self._file, pending)
        return tuple(self._event(turn, estimate) for turn in turns)

    def states(self) -> tuple[AlarmState, ...]:
        """Return where each stream stands, in their order, as of the last `settle`.

        Before the first one, as the file has it: an alarm is not over because a process starts.
        """
        if self._file is not None and not self._seen:
            with shielded("estimation"):
                self._look(self._file)
        return tuple(
            AlarmState(
                signal=stream.signal,
                judge=stream.judge,
                kind=stream.kind,
                evidence_days=watch.evidence_days * stream.share,
                active=watch.clearing is not None,
                since_s=watch.since_s,
                rising_since_s=watch.rising_since_s,
                tolerate=self._own_scale(place, watch.tolerate),
                learned=watch.learning.share if watch.tolerate is None else 1.0,
                falls=stream.falls,
                raised=watch.raised,
            )
            for place, (stream, watch) in enumerate(zip(self._streams, self._watches, strict=True))
        )

    # --- what is tolerated

    def _wanted(self, place: int, learned: float | None) -> float | None:
        """On the scale of badness: what the user says, else what was learned."""
        given = self._given[place]
        if given is None:
            return learned
        return 1.0 - given if self._streams[place].falls else given

    def _own_scale(self, place: int, tolerate: float | None) -> float | None:
        if tolerate is None:
            return None
        given = self._given[place]
        if given is not None and tolerate == self._wanted(place, None):
            return given
        return 1.0 - tolerate if self._streams[place].falls else tolerate

    def _out_of_tune(self) -> list[int]:
        """Streams whose evidence is about another `tolerate` than they are to keep to now."""
        return [
            place
            for place, watch in enumerate(self._watches)
            if watch.tolerate != self._wanted(place, watch.learned)
        ]

    # --- what is shared

    def _shared(self, file: StateFile, pending: Sequence[Pending]) -> list[_Turn]:
        turns: list[_Turn] | None = None
        try:
            # Another process may have moved on; nothing of ours is to be written then.
            if not pending and self._look(file) is None and not self._out_of_tune():
                return []
            with file.alone():
                if (unreadable := self._look(file)) is not None:
                    record_error("estimation", unreadable)
                turns = self._turns(pending)
                writing = secrets.token_hex(4)
                file.write(self._dump(writing))
                self._seen = writing
        except OSError as error:
            record_error("estimation", error)
        return self._turns(pending) if turns is None else turns

    def _look(self, file: StateFile) -> ValueError | None:
        """Take over the newest state, unless this process is the one that is ahead of it.

        It is ahead where its last writing failed: nobody has written since then, or the file
        would tell of another writing.

        Returns:
            Why the file cannot be understood: what this process knows goes on then, at a start
            from nothing, and is to replace it. None: all is well, or there is no file.

        Raises:
            OSError: It cannot be opened.
        """
        try:
            told = file.read()
        except ValueError as error:
            return error
        if told is None or told.get("writing") == self._seen:
            return None
        streams = told.get("streams")
        known = dict(streams) if isinstance(streams, dict) else {}
        for stream, watch in zip(self._streams, self._watches, strict=True):
            entry = known.pop(_key(stream), None)
            if entry is None:
                continue
            try:
                watch.load(entry)
            except ValueError as error:
                record_error("estimation", error)
        self._strangers = known
        if told.get("order") == self._order():
            self._meet(told.get("sessions"))
        self._seen = str(told.get("writing"))
        return None

    def _dump(self, writing: str) -> dict[str, Any]:
        mine = {
            _key(stream): watch.dump()
            for stream, watch in zip(self._streams, self._watches, strict=True)
        }
        newest = list(self._sessions.items())[-SESSIONS_SHARED:]
        return {
            "writing": writing,
            "streams": {**self._strangers, **mine},
            "order": self._order(),
            "sessions": dict(newest),
        }

    def _order(self) -> list[str]:
        return [_key(stream) for stream in self._streams]

    # --- sessions

    def _has_bet(self, session: str, place: int, at_s: float) -> bool:
        """Return whether this session has bet on the signal within the hour; if not, it has now."""
        # Answers of one session fail together, so that five of them are not five pieces of
        # evidence. Counted each for one, where all answers are judged, they made 42 false alarms
        # of one in simulations. The first is as good as their mean, and need not wait for the end.
        digest = hashlib.blake2b(session.encode(errors="replace"), digest_size=6).hexdigest()
        bit = 1 << place
        entry = self._sessions.get(digest)
        if entry is not None and abs(at_s - entry[0]) < SESSION_S:
            before = entry[1]
            entry[1] = before | bit
            return bool(before & bit)
        self._sessions[digest] = [int(at_s), bit]
        self._sessions.move_to_end(digest)
        while len(self._sessions) > SESSIONS_MOST:
            self._sessions.popitem(last=False)
        return False

    def _meet(self, told: Any) -> None:
        """Take over which sessions have bet in other processes."""
        if not isinstance(told, dict):
            return
        for digest, entry in told.items():
            try:
                at_s, bits = int(_must(entry[0])), int(entry[1])
            except (TypeError, ValueError, IndexError):
                continue  # a session may then bet twice, once
            mine = self._sessions.get(digest)
            if mine is None or at_s - mine[0] >= SESSION_S:
                self._sessions[digest] = [at_s, bits]
                self._sessions.move_to_end(digest)
            else:
                mine[1] |= bits

    # --- bets

    def _turns(self, pending: Iterable[Pending]) -> list[_Turn]:
        now_s = self._now()
        turns = []
        for place in self._out_of_tune():
            watch = self._watches[place]
            if watch.clearing is not None and watch.since_s is not None:
                # It was an alarm about something else; who was told of it is told of its end.
                turns.append(self._turn(place, raised=False, at_s=now_s, since_s=watch.since_s))
            watch.restart(self._wanted(place, watch.learned))
        for told_s, place, x, stake, session, example in pending:
            # Nothing is answered in the future, and what is very late has its time behind it.
            at_s = min(now_s, max(told_s, now_s - LATE_MOST_S))
            if session and self._has_bet(session, place, at_s):
                continue
            watch = self._watches[place]
            if watch.tolerate is None:
                self._learn(place, x, stake)
            elif watch.clearing is not None:
                watch.clearing.bet(x, stake, at_s)
                if watch.clearing.evidence >= CLEARED_AT and watch.since_s is not None:
                    turns.append(self._turn(place, raised=False, at_s=at_s, since_s=watch.since_s))
                    watch.restart(watch.tolerate)
            elif self._is_raised(watch, x, stake, at_s, example):
                since_s = at_s if watch.rising_since_s is None else watch.rising_since_s
                turns.append(self._turn(place, raised=True, at_s=at_s, since_s=since_s))
                self._raise(watch, at_s)
        return turns

    def _learn(self, place: int, x: float, stake: float) -> None:
        watch, stream = self._watches[place], self._streams[place]
        watch.learning.add(x, min(stake, stream.stake_most))
        if watch.learning.verdicts < LEARNED_FROM:
            return
        watch.learned = max(stream.least_learned, watch.learning.tolerate())
        watch.restart(watch.learned)
        logger.info(
            "ragmonitor: learned from %d verdicts what is tolerated: a mean %s of %s %.4g",
            watch.learning.verdicts,
            stream.signal,
            "at least" if stream.falls else "at most",
            self._own_scale(place, watch.learned),
        )

    def _is_raised(
        self,
        watch: _Watch,
        x: float,
        stake: float,
        at_s: float,
        example: Callable[[], Example] | None,
    ) -> bool:
        detector = watch.detector
        detector.pass_time(at_s)
        detector.bet(x, stake)
        evidence = detector.evidence
        if evidence < RISING_FROM * watch.line_days:
            if watch.rising_since_s is not None:
                watch.rising_since_s = None
                watch.examples = []
            return False
        if watch.rising_since_s is None:
            watch.rising_since_s = at_s
        if example is not None and x > detector.tolerate:
            _keep_worst(watch.examples, x, example)
        # A lower line than that of the last run may be behind the evidence already. Even so, it is
        # a bad answer that raises an alarm.
        return evidence >= watch.line_days and x > detector.tolerate

    @staticmethod
    def _raise(watch: _Watch, at_s: float) -> None:
        watch.held_days = watch.detector.evidence
        watch.since_s = at_s
        watch.rising_since_s = None
        watch.examples = []
        watch.raised += 1
        watch.detector.restart()
        watch.clearing = Clearing(
            tolerate=watch.detector.tolerate, stake_most=watch.stake_most, at_s=at_s
        )

    def _turn(self, place: int, *, raised: bool, at_s: float, since_s: float) -> _Turn:
        stream, watch = self._streams[place], self._watches[place]
        return _Turn(
            stream=stream,
            raised=raised,
            at_s=at_s,
            since_s=since_s,
            evidence_days=watch.detector.evidence * stream.share,
            tolerate=self._own_scale(place, watch.tolerate) or 0.0,
            examples=tuple(watch.examples) if raised else (),
        )

    @staticmethod
    def _event(turn: _Turn, estimate: Callable[[str], Estimate | None]) -> AlarmEvent:
        stream, found = turn.stream, None
        with shielded("estimation"):
            found = estimate(stream.signal)
        return AlarmEvent(
            signal=stream.signal,
            judge=stream.judge,
            kind=stream.kind,
            raised=turn.raised,
            at_s=turn.at_s,
            since_s=turn.since_s,
            evidence_days=turn.evidence_days,
            tolerate=turn.tolerate,
            falls=stream.falls,
            estimate=found,
            examples=turn.examples,
        )


def _key(stream: Stream) -> str:
    """Return the stream's name in the file.

    A changed judge goes on with the evidence it finds. Not so one that takes over from the
    embedded judge, or gives way to it: their verdicts have little in common.
    """
    return f"{stream.signal}@{EMBEDDED}" if stream.judge == EMBEDDED else stream.signal


def _keep_worst(examples: list[Example], x: float, example: Callable[[], Example]) -> None:
    """Keep the worst, worst first; of equally bad ones the newest, whose trace is still kept."""
    if len(examples) == EXAMPLES and examples[-1].badness > x:
        return
    with shielded("estimation"):
        examples.append(example())
    examples.sort(key=attrgetter("badness", "at_s"), reverse=True)
    del examples[EXAMPLES:]
