"""Finds since when answers are worse, and what happened by then: deployments, index changes."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from operator import attrgetter
from typing import Any, Final, Literal, NamedTuple

from ragmonitor import metrics
from ragmonitor.causes.candidates import CandidateCause, ChangePoint
from ragmonitor.causes.signal_names import signal_name
from ragmonitor.causes.versions import SERVICE_VERSION
from ragmonitor.guard import record_problem
from ragmonitor.records import Estimate, GaugeValue
from ragmonitor.stats.labels.correction import wilson
from ragmonitor.stats.parts import Answer, Means, Observation, Part
from ragmonitor.stats.signals import Outcomes
from ragmonitor.store import Kept

STATE_VERSION: Final = 1
EventKind = Literal["deployment", "judge_change", "event"]
Clean = Callable[[str, str], str]
"""Redacts a text, given the name that it has, or else nothing."""

MAX_EVENTS: Final = 100
"""Newest events that are kept; of one kind and name only the newest."""
MAX_WAITING: Final = 1_000
MAX_LENGTH: Final = 120
MAX_TOLD: Final = 4_000
"""The characters of a name or a value that are looked at; of those `MAX_LENGTH` are kept."""
MAX_ATTRIBUTES: Final = 8
MAX_VERDICTS: Final = 1_500
"""Newest verdicts of a signal that a change is looked for in."""
MAX_ANSWERS: Final = 2_000
"""Newest judged answers, of which the verdicts are."""
MIN_SIDE: Final = 5
"""Verdicts before and since a change, at least."""
BEFORE_S: Final = 900.0
"""An event that was so long before the interval of the change may be its cause, too."""
MAX_VERSIONS: Final = 8
"""Versions of the service that are known to be noted, so that they need not be looked for."""
READ_S: Final = 10.0
SHOWN_S: Final = 300.0
"""A change is shown as long as it was asked for within this time: while its incident is open."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Something that happened to the application."""

    kind: EventKind
    name: str
    """`reindexed`, a version, a judge."""
    at_s: float
    """Seconds since the epoch."""
    attributes: Mapping[str, str]


class _Told(NamedTuple):
    """What the application told of an event."""

    name: str
    attributes: Mapping[str, str]
    at_s: float
    clean: Clean

    def event(self) -> Event:
        """Return it as it is kept: redacted, then cut."""
        texts = {
            self.clean(key, "")[:MAX_LENGTH]: self.clean(value, key)[:MAX_LENGTH]
            for key, value in self.attributes.items()
        }
        name = self.clean(self.name, "")[:MAX_LENGTH]
        return Event(kind="event", name=name, at_s=self.at_s, attributes=texts)


class Verdict(NamedTuple):
    """One verdict on a signal."""

    at_s: float
    value: float
    weight: float
    """1 / inclusion probability."""


def change_point(
    verdicts: Sequence[Verdict], *, higher_is_better: bool = False
) -> ChangePoint | None:
    """Return when a mean got worse; None: there are too few verdicts, or it did not.

    Every moment between two verdicts is as probable beforehand as any other. A moment's likelihood
    is that of two rates, one before and one since, each unknown (Jeffreys' prior); weighted
    verdicts count as many as they are worth (Kish). The interval is the shortest run of moments
    around the most probable one with 95 % of the probability. It supposes that there was a change.

    Args:
        verdicts: In the order of time.
        higher_is_better: The signal is the better the higher it is.

    Source:
        Smith (1975), "A Bayesian approach to inference about a change-point in a sequence of random
        variables", Biometrika 62(2), 407-416; Kish (1965), "Survey Sampling", section 11.7.
    """
    n = len(verdicts)
    total = math.fsum(each.weight for each in verdicts)
    if n < 2 * MIN_SIDE or total <= 0:
        return None
    # So that the weights add up to the effective number of verdicts.
    scale = total / math.fsum(each.weight**2 for each in verdicts)
    bad = scale * math.fsum(each.weight * each.value for each in verdicts)
    total *= scale
    logs: list[float] = []
    seen = seen_bad = 0.0
    for each in verdicts[: n - MIN_SIDE]:
        seen += scale * each.weight
        seen_bad += scale * each.weight * each.value
        rose = (bad - seen_bad) * seen > seen_bad * (total - seen)
        is_worse = rose != higher_is_better and len(logs) + 1 >= MIN_SIDE
        found = _evidence(seen_bad, seen) + _evidence(bad - seen_bad, total - seen)
        logs.append(found if is_worse else -math.inf)
    most = max(logs)
    if most == -math.inf:
        return None
    odds = [math.exp(each - most) for each in logs]
    best = odds.index(max(odds))
    low, high = _run(odds, best)
    return ChangePoint(
        at_s=verdicts[best + 1].at_s,
        lower_s=verdicts[low].at_s,
        upper_s=verdicts[high + 1].at_s,
        before=_mean(verdicts[: best + 1]),
        after=_mean(verdicts[best + 1 :]),
    )


def _evidence(bad: float, n: float) -> float:
    """Return the log likelihood of so many bad ones of n, of any rate."""
    good = max(0.0, n - bad)
    return math.lgamma(bad + 0.5) + math.lgamma(good + 0.5) - math.lgamma(n + 1.0)


def _run(odds: Sequence[float], best: int) -> tuple[int, int]:
    """Return the first and last place of the run around the best that holds 95 %."""
    low = high = best
    inside, wanted = odds[best], 0.95 * math.fsum(odds)
    while inside < wanted:
        left = odds[low - 1] if low > 0 else -1.0
        right = odds[high + 1] if high + 1 < len(odds) else -1.0
        if left >= right:
            low -= 1
            inside += left
        else:
            high += 1
            inside += right
        if left < 0 and right < 0:
            break
    return low, high


def _mean(verdicts: Sequence[Verdict]) -> Estimate:
    weight = math.fsum(each.weight for each in verdicts)
    n = weight**2 / math.fsum(each.weight**2 for each in verdicts)
    mean = math.fsum(each.weight * each.value for each in verdicts) / weight
    lower, upper = wilson(mean, n)
    return Estimate(mean=mean, lower=lower, upper=upper, effective_n=n)


class Events(Part):
    """Keeps what happened to the application, and when each signal changed.

    A deployment is a `service_version` that was not seen before, a judge change another identity of
    the judge; the application says the rest by `Monitor.event`. Processes of one `state` folder
    share them.
    """

    def __init__(
        self,
        *,
        version: str,
        is_judged: bool,
        higher_is_better: Callable[[str], bool],
        file: Kept | None = None,
        now: Callable[[], float] = time.time,
    ) -> None:
        """Begin with nothing.

        Args:
            version: The setting `service_version`.
            is_judged: Whether a judge scores a sample; its verdicts count then.
            higher_is_better: Whether a signal is the better the higher it is.
            file: Of version `STATE_VERSION`; shared by processes.
            now: Seconds since the epoch.
        """
        self._version = version
        self._is_judged = is_judged
        self._higher_is_better = higher_is_better
        self._file = file
        self._now = now
        self.clear()

    def clear(self) -> None:
        """Forget everything; the file stays."""
        self._waiting: deque[Event] = deque(maxlen=MAX_WAITING)
        self._told: deque[_Told] = deque(maxlen=MAX_WAITING)
        self._events: list[Event] = []
        self._judge = ""
        self._newest_versions: set[str] = set()
        """That are known to have been noted: several answer in turn while one is rolled out."""
        self._read_s = -math.inf
        self._judged: deque[tuple[float, float, Outcomes]] = deque(maxlen=MAX_ANSWERS)
        """The time when each was given, 1 / inclusion probability, and what the judge said."""
        self._changes: dict[str, tuple[float, float, ChangePoint | None]] = {}
        """For each signal that was asked for: since when it rose, when it was asked, the answer."""

    def note(
        self,
        name: str,
        attributes: Mapping[str, str],
        at_s: float,
        clean: Clean = lambda text, _: text,
    ) -> None:
        """Take note of an event that the application tells; from any thread, without waiting.

        Args:
            name: Of the event.
            attributes: What else is known of it.
            at_s: When it happened, in seconds since the epoch.
            clean: Is called later, by the worker's thread.
        """
        kept = list(attributes.items())[:MAX_ATTRIBUTES]
        texts = {str(key)[:MAX_TOLD]: str(value)[:MAX_TOLD] for key, value in kept}
        self._told.append(_Told(str(name)[:MAX_TOLD], texts, at_s, clean))

    # --- taking in ------------------------------------------------------------------------------

    def add(self, answer: Answer) -> Sequence[Observation]:
        """Notice a new version or judge, and remember the verdicts."""
        version = answer.interaction.attributes.get(SERVICE_VERSION) or self._version
        if version and version not in self._newest_versions:
            if len(self._newest_versions) == MAX_VERSIONS:
                self._newest_versions.clear()
            self._newest_versions.add(version)
            if not self._knows("deployment", version):
                self._happened("deployment", version, answer.at_s)
        judged = answer.completed.judged
        if judged is not None and answer.hallucination is not None:
            judge = str(judged.judge)
            if self._judge and judge != self._judge:
                self._happened("judge_change", judge, answer.at_s)
            self._judge = judge
        found = answer.judged if self._is_judged else answer.builtin
        weight = answer.weight if self._is_judged else 1.0
        if found and weight > 0:
            self._judged.append((answer.at_s, weight, found))
        return ()

    def _happened(self, kind: EventKind, name: str, at_s: float) -> None:
        self._waiting.append(Event(kind=kind, name=name[:MAX_LENGTH], at_s=at_s, attributes={}))

    def _knows(self, kind: EventKind, name: str) -> bool:
        key = (kind, name[:MAX_LENGTH])
        return any((each.kind, each.name) == key for each in (*self._events, *self._waiting))

    def tick(self) -> Sequence[Observation]:
        """Put what was noted to what is known, and exchange it with other processes."""
        is_due = self._file is not None and not 0 <= self._now() - self._read_s < READ_S
        if not self._waiting and not self._told and not is_due:
            return ()
        new = [self._waiting.popleft() for _ in range(len(self._waiting))]
        new += [self._told.popleft().event() for _ in range(len(self._told))]
        self._read_s = self._now()

        def change(state: Mapping[str, Any]) -> Mapping[str, Any] | None:
            try:
                known = [Event(**each) for each in state.get("events", ())]
                self._events = _merged(known, new)
            except (TypeError, ValueError, AttributeError) as error:
                record_problem("causes", f"events begin anew: {error!r}")
                self._events = _merged(self._events, new)
            return {"events": [asdict(each) for each in self._events]} if new else None

        file = self._file
        if file is None or not file.update(change, stage="causes", what="events"):
            self._events = _merged(self._events, new)
        return ()

    # --- what follows ---------------------------------------------------------------------------

    def change(self, signal: str, since_s: float) -> ChangePoint | None:
        """Return when a signal got worse, of the verdicts up to a day before its evidence rose.

        Once the verdicts that are kept do not reach back to the rise, what they told before holds.
        """
        kept = self._verdicts(signal)
        verdicts = sorted(each for each in kept if each.at_s > since_s - 86_400.0)
        found: ChangePoint | None = None
        if verdicts and verdicts[0].at_s < since_s:
            found = change_point(verdicts, higher_is_better=self._higher_is_better(signal))
        elif signal in self._changes and self._changes[signal][0] == since_s:
            found = self._changes[signal][2]
        if kept:  # so that no more than those are kept
            self._changes[signal] = since_s, self._now(), found
        return found

    def _verdicts(self, signal: str) -> list[Verdict]:
        """Return the newest verdicts on a signal."""
        found: list[Verdict] = []
        for at_s, weight, outcomes in reversed(self._judged):
            outcome = next((each for name, each in outcomes if name == signal), None)
            if outcome is not None and outcome.scored:
                found.append(Verdict(at_s, outcome.value, weight))
                if len(found) == MAX_VERDICTS:
                    break
        return found

    def candidates(self, signal: str, since_s: float) -> Sequence[CandidateCause]:
        """Return what happened shortly before the change, or within its interval; nearest first."""
        change = self.change(signal, since_s)
        if change is None:
            return ()
        near = [
            each
            for each in self._events
            if change.lower_s - BEFORE_S <= each.at_s <= change.upper_s
        ]
        near.sort(key=lambda each: abs(each.at_s - change.at_s))
        return [self._candidate(each, signal, change) for each in near]

    def _candidate(self, event: Event, signal: str, change: ChangePoint) -> CandidateCause:
        attributes = ", ".join(f"{key}={value}" for key, value in event.attributes.items())
        off_s = change.at_s - event.at_s
        side = "after" if off_s >= 0 else "before"
        interval = _clock(change.lower_s), _clock(change.upper_s)
        side_zh = "后" if off_s >= 0 else "前"
        detail_zh = (
            f"{signal_name(signal, 'zh')}在 {interval[0]} 至 {interval[1]} 之间改变（95 %），"
            f"最可能在其{side_zh} {abs(off_s):.0f} 秒；发生在先未必就是起因。"
        )
        detail = (
            f"{signal_name(signal, 'en')} changed between {interval[0]} and {interval[1]} "
            f"(95 %), most probably {abs(off_s):.0f} s {side} it; what comes first need not be the "
            "cause."
        )
        return CandidateCause(
            kind="event",
            name=f"{event.kind.replace('_', ' ')}: {event.name}",
            signal=signal,
            now=change.after,
            before=change.before,
            since_s=event.at_s,
            detail=f"{attributes}. {detail}" if attributes else detail,
            detail_zh=f"{attributes}。{detail_zh}" if attributes else detail_zh,
        )

    def gauges(self, means: Means) -> Iterator[GaugeValue]:  # noqa: ARG002 - of the protocol
        """Return when each was last, and when a signal changed that is asked for now."""
        for each in self._events:
            labels = (("kind", each.kind), ("name", each.name))
            yield GaugeValue(name=metrics.EVENT_TIMESTAMP, value=each.at_s, labels=labels)
        for signal, (_, asked_s, change) in self._changes.items():
            ends: dict[str, float] = dict.fromkeys(("lower", "probable", "upper"), 0.0)
            if change is not None and self._now() - asked_s < SHOWN_S:
                ends = {"lower": change.lower_s, "probable": change.at_s, "upper": change.upper_s}
            # 0 afterwards: a gauge that is no longer set would keep its value.
            for end, at_s in ends.items():
                named = (("signal", signal), ("end", end))
                yield GaugeValue(name=metrics.CHANGE_TIMESTAMP, value=at_s, labels=named)

    def records(self) -> Mapping[str, object]:
        """Return the events, newest last; without their attributes, which may be texts."""
        if not self._events:
            return {}
        return {
            "events": [
                {"kind": each.kind, "name": each.name, "at_s": each.at_s} for each in self._events
            ]
        }

    def close(self) -> None:
        """Keep what was noted."""
        if self._waiting:
            self.tick()


def _merged(known: Sequence[Event], new: Sequence[Event]) -> list[Event]:
    """Return the newest of each kind and name, in the order of time; of a deployment the first."""
    by_name: dict[tuple[str, str], Event] = {}
    for each in (*known, *new):
        key = (each.kind, each.name)
        if key not in by_name or each.kind != "deployment":
            by_name[key] = each
    return sorted(by_name.values(), key=attrgetter("at_s"))[-MAX_EVENTS:]


def _clock(at_s: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%SZ", time.gmtime(at_s))
