"""Compares versions of the application live, and finds the one that got worse."""

from __future__ import annotations

import secrets
import time
from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from operator import add
from typing import Any, Final

from ragmonitor import metrics
from ragmonitor.causes.arms import SLOT_S, Arms
from ragmonitor.causes.candidates import CandidateCause
from ragmonitor.causes.comparison import ALPHA, FIELDS, Comparison, Mean, compare
from ragmonitor.causes.version_sums import AMOUNTS, Row, VersionSums
from ragmonitor.guard import record_problem
from ragmonitor.protocols import Cost, unknown_cost
from ragmonitor.records import (
    AlarmEvent,
    AlarmState,
    Estimate,
    Example,
    GaugeValue,
    Interaction,
    Report,
)
from ragmonitor.stats.parts import Answer, Means, Observation, Part
from ragmonitor.stats.signals import (
    HALLUCINATION,
    MINOR_HALLUCINATION,
    Outcomes,
)
from ragmonitor.stats.sums import NOTHING
from ragmonitor.store import Kept

STATE_VERSION: Final = 1
VERSION_WORSE: Final = "version_worse"
"""The alarm."""
SERVICE_VERSION: Final = "service_version"
EXCHANGE_S: Final = 10.0
"""The pause after which the file of other processes is read again, and the longest one after which
new answers are compared."""
FEW_SLOTS: Final = 4
"""So many are compared at each tick that brought an answer."""
PAUSE_PER_SLOT_S: Final = 0.5
"""For each further one: a comparison takes the longer the more slots there are."""
OVER_S: Final = 1_800.0
"""A version that was found worse and has been silent for so long is an alarm no more."""
NEW_S: Final = 86_400.0
MAX_WAITING: Final = 256
"""Answers that are added up at once."""
MAX_COUNTED: Final = 200
"""Series of counters, by attribute, value and signal; each has a handful of sums."""
EXAMPLES: Final = 3
COUNTERS: Final = (*FIELDS, *(f"{name}_negative" for name in FIELDS))
_NEVER: Final = -1e18


class Versions(Part):
    """Sums up every signal by the service's version and by other attributes, and compares.

    A canary is another process. So what this process has seen since the last exchange is added to
    a file that processes of one `state` folder share, and what is compared is what they have seen
    together. Where there is no such folder each process serves its own sums, as counters and beside
    /metrics, which `ragmonitor gate` and Prometheus add up.

    The alarm `version_worse` is raised at most once for each version, and only by the slots in
    which its baseline answered, too: else the hour of the day is compared, and not the version. Its
    error stands beside the false alarms of `alarms.false_alarm_every_days`: a version that is no
    worse than its baseline, in any signal, is found worse with a chance of 5 % at most, however
    long it runs. That follows from the formula where the split of the traffic is constant; where
    it changes, the slots' weights do as they fill, and simulations bear it out.
    """

    def __init__(
        self,
        attributes: Sequence[str],
        *,
        version: str,
        reader: str,
        judge: str | None,
        higher_is_better: Callable[[str], bool],
        threshold_s: float,
        cost_usd: Cost = unknown_cost,
        file: Kept | None = None,
        now: Callable[[], float] = time.time,
    ) -> None:
        """Begin with nothing; the file is not touched yet.

        Args:
            attributes: What is compared by: `service_version`, or attributes of interactions.
            version: The setting `service_version`, where an interaction names no other.
            reader: The judge that scores every answer.
            judge: The one that scores a sample; None: there is none.
            higher_is_better: Whether a signal is the better the higher it is.
            threshold_s: Of all alarms, on whose scale the alarm's evidence is shown.
            cost_usd: What an answer cost; None: it is not known.
            file: Of version `STATE_VERSION`; shared by processes.
            now: Seconds since the epoch.
        """
        self._attributes = tuple(attributes)
        self._version = version
        self._reader = reader
        self._judge = judge
        self._higher_is_better = higher_is_better
        self._threshold_s = threshold_s
        self._cost_usd = cost_usd
        self._file = file
        self._now = now
        self._source = secrets.token_hex(8)
        """The source of the sums as a whole: two monitors of one name have the same."""
        self.clear()

    @property
    def _quality_judge(self) -> str:
        return self._judge or self._reader

    def clear(self) -> None:
        """Forget what the parent of a forked process will keep."""
        self._waiting: defaultdict[tuple[str, str, int], list[Row]] = defaultdict(list)
        """Answers that are added up at the next tick, by attribute, value and slot."""
        self._waiting_bad: defaultdict[tuple[str, str, int], list[Example]] = defaultdict(list)
        """The bad ones among them, with their texts."""
        self._waiting_answers = 0
        self._sums = VersionSums()
        self._unshared = Arms()
        """Not yet in the file."""
        self._known = Arms()
        """All that is known as of the last tick."""
        self._exchanged_s = _NEVER
        self._pause_s = 0.0
        self._counted: dict[tuple[str, str, str], list[float]] = {}
        """The amounts added to each of `FIELDS`, then those taken off, since counters only rise; by
        attribute, value and signal."""
        self._examples: dict[tuple[str, str], deque[Example]] = {}
        self._events: list[AlarmEvent] = []
        self._raised: set[tuple[str, str]] = set()
        self._found: dict[tuple[str, str, str, str], Comparison] = {}
        """The comparisons by attribute, candidate, baseline and signal, as of the last exchange."""
        self._record: Mapping[str, object] = {}
        if self._version and SERVICE_VERSION in self._attributes:
            # From 0 on: what Prometheus first sees of a counter is no increase to it.
            for signal in (HALLUCINATION, *AMOUNTS):
                self._counters(SERVICE_VERSION, self._version, signal)

    # --- taking in ------------------------------------------------------------------------------

    def add(self, answer: Answer) -> Sequence[Observation]:
        """Take in one completed answer."""
        versions = self._values(answer.interaction)
        if versions:
            row, example = self._row(answer), self._example(answer)
            slot = int(answer.at_s // SLOT_S)
            for by, value in versions:
                self._waiting[by, value, slot].append(row)
                if example is not None:
                    self._waiting_bad[by, value, slot].append(example)
            self._waiting_answers += 1
            if self._waiting_answers >= MAX_WAITING:
                self._add_up()
        return ()

    @property
    def _fresh(self) -> Arms:
        """The sums that are not yet in the file, with the answers that wait."""
        if self._waiting:
            self._add_up()
        return self._unshared

    def _add_up(self) -> None:
        waiting, self._waiting, self._waiting_answers = self._waiting, defaultdict(list), 0
        waiting_bad, self._waiting_bad = self._waiting_bad, defaultdict(list)
        for (by, value, slot), rows in waiting.items():
            times = [row[0] for row in rows]
            arm = self._unshared.arm(by, value, min(times))
            if arm is None:
                continue
            arm.last_s = max(arm.last_s, *times)
            for signal, amounts in self._sums.add_up(by, value, rows):
                sums, counters = arm.sums(slot, signal), self._counters(by, value, signal)
                sums[:] = map(add, sums, amounts)
                if min(amounts) >= 0:
                    counters[: len(FIELDS)] = map(add, counters, amounts)
                    continue
                for at, amount in enumerate(amounts):
                    counters[at if amount >= 0 else at + len(FIELDS)] += abs(amount)
            if (by, value, slot) in waiting_bad:
                kept = self._examples.setdefault((by, value), deque(maxlen=EXAMPLES))
                kept.extend(waiting_bad[by, value, slot])

    def _values(self, interaction: Interaction) -> list[tuple[str, str]]:
        """Return the versions that an answer belongs to."""
        found = []
        for by in self._attributes:
            value = interaction.attributes.get(by, "")
            if not value and by == SERVICE_VERSION:
                value = self._version
            if value:
                found.append((by, value))
        return found

    def _row(self, answer: Answer) -> Row:
        """Return what an answer adds to the sums of its versions."""
        interaction, completed = answer.interaction, answer.completed
        drawn, is_covered, missing = 0.0, True, _NONE
        judged: Sequence[float] | None = None
        if self._judge is None:
            is_read = completed.builtin.judge.name == self._reader
            drawn = 1.0
            signals, values, scored, missing = _read(answer.builtin if is_read else ())
        elif answer.judged is not None:
            drawn = answer.weight
            signals, values, scored, judged, missing = _sampled(
                answer.judged, completed.prediction.expected, drawn
            )
        else:
            decision, expected = completed.decision, completed.prediction.expected
            is_covered = decision is not None and decision.inclusion_probability > 0
            signals, judged = tuple(expected), (0.0,) * len(expected)
            values = scored = judged  # where it is not covered, a prediction is no estimate
            if is_covered:
                values = [share * mean for share, mean in expected.values()]
                scored = [share for share, _ in expected.values()]
        cost_usd = self._cost_usd(interaction)
        is_priced = float(cost_usd is not None)
        return Row(
            answer.at_s,
            interaction.session_id,
            signals,
            (interaction.latency_s, cost_usd or 0.0, *values, 1.0, is_priced, *scored),
            None if judged is None else (1.0, is_priced, *judged),
            drawn,
            missing,
            is_covered,
        )

    def _counters(self, by: str, value: str, signal: str) -> list[float]:
        """Return what was counted so far; where there are too many, a list that nobody reads."""
        key = (by, value, signal)
        counters = self._counted.get(key)
        if counters is None:
            counters = [0.0] * len(COUNTERS)
            if len(self._counted) < MAX_COUNTED:
                self._counted[key] = counters
        return counters

    def _example(self, answer: Answer) -> Example | None:
        """Return a bad answer as an example; None: it is not bad."""
        report: Report | None
        if self._judge is None:
            verdict, report = answer.builtin[0][1], answer.completed.builtin
        else:
            verdict, report = answer.hallucination, answer.completed.judged
        if verdict is None or not verdict.value or report is None:
            return None
        return Example(
            interaction=answer.interaction,
            assessment=report.assessment,
            badness=verdict.value,
            at_s=answer.at_s,
            target=answer.completed.target,
        )

    # --- exchanging -----------------------------------------------------------------------------

    def tick(self) -> Sequence[Observation]:
        """Exchange sums with other processes, and look for a version that is worse."""
        if self._attributes and self._is_due():
            self._exchange()
        return ()

    def _is_due(self) -> bool:
        has_new = bool(self._waiting or self._unshared)
        if not has_new and self._file is None:
            return False
        pause_s = self._pause_s if has_new else EXCHANGE_S
        return not 0 <= self._now() - self._exchanged_s < pause_s

    def _exchange(self) -> None:
        self._exchanged_s = self._now()
        is_shared = self._file is not None and self._file.update(
            self._merged, stage="causes", what="the comparison of versions"
        )
        if not is_shared:
            # What a broken disk does not take is lost to the others, whatever the verdicts were.
            self._known.merge(self._fresh)
            self._look_for_worse()
        self._unshared = Arms()
        slots = sum(len(arm.slots) for arms in self._known.values() for arm in arms.values())
        self._pause_s = min(EXCHANGE_S, max(0.0, PAUSE_PER_SLOT_S * (slots - FEW_SLOTS)))
        self._forget_old()
        self._record = self._as_record()
        self._found = {
            (*pair, signal): found
            for pair in self._known.pairs()
            for signal in self._known[pair[0]][pair[1]].signals
            if (found := self._compared(*pair, signal)) is not None
        }

    def _merged(self, state: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """Return what is to be written of what others know and what is new here."""
        try:
            shared = Arms.of_json(state.get("versions", {}))
            source = str(state.get("source", self._source))
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            record_problem("causes", f"the comparison of versions begins anew: {error!r}")
            shared, source = Arms(), self._source
        is_new = bool(self._fresh)
        shared.merge(self._fresh)
        self._unshared = Arms()
        self._known, self._source = shared, source
        self._look_for_worse()
        return {"source": source, "versions": shared.as_json()} if is_new else None

    def _look_for_worse(self) -> None:
        """Note the versions that are found worse now; in a shared file by one process only."""
        for by, candidate, baseline in self._known.pairs():
            arm = self._known[by][candidate]
            if arm.worse_s is not None or (by, candidate) in self._raised:
                continue
            signals = [each for each in arm.signals if _alarms(each)]
            for signal in signals:
                sums = self._known.concurrent_sums(by, candidate, baseline, signal)
                found = None if sums is None else compare(*sums, alpha=ALPHA / len(signals))
                if found is not None and self._is_worse(signal, found):
                    arm.worse_s = self._now()
                    self._raised.add((by, candidate))
                    self._events.append(self._event(by, candidate, baseline, signal, found))
                    break

    def _forget_old(self) -> None:
        """Forget what belongs to versions that are not compared any more."""
        known = {(by, value) for by, arms in self._known.items() for value in arms}
        known |= {(SERVICE_VERSION, self._version)}
        self._counted = {key: each for key, each in self._counted.items() if key[:2] in known}
        self._examples = {key: each for key, each in self._examples.items() if key in known}
        self._raised &= known

    def _is_worse(self, signal: str, found: Comparison) -> bool:
        is_higher = self._higher_is_better(signal)
        return found.decision(0.0, higher_is_better=is_higher) == "worse"

    def _compared(self, by: str, candidate: str, baseline: str, signal: str) -> Comparison | None:
        sums = self._known.sums(by, candidate, baseline, signal)
        return compare(*sums, is_share=signal not in AMOUNTS)

    # --- what follows ---------------------------------------------------------------------------

    def alarm_events(self) -> Sequence[AlarmEvent]:
        """Return the versions that were found worse since this was last asked."""
        events, self._events = self._events, []
        return events

    def _event(
        self, by: str, candidate: str, baseline: str, signal: str, found: Comparison
    ) -> AlarmEvent:
        named = f"{by} {candidate}"
        return AlarmEvent(
            signal=VERSION_WORSE,
            judge=self._quality_judge,
            kind="quality",
            raised=True,
            at_s=self._now(),
            since_s=self._known[by][candidate].first_s,
            evidence_s=self._threshold_s,
            threshold_s=self._threshold_s,
            objective=0.0,
            examples=tuple(self._examples.get((by, candidate), ())),
            detail=f"{named} is worse than {baseline}: {found.said(signal)}",
        )

    def alarm_states(self) -> Iterator[AlarmState]:
        """Return the alarm, where versions are compared."""
        pairs = list(self._known.pairs())
        if not pairs:
            return
        now_s = self._now()
        worse = [
            arm.worse_s
            for by, candidate, _ in pairs
            if (arm := self._known[by][candidate]).worse_s is not None
            and now_s - arm.last_s < OVER_S
        ]
        since_s = max((each for each in worse if each is not None), default=None)
        yield AlarmState(
            signal=VERSION_WORSE,
            judge=self._quality_judge,
            kind="quality",
            evidence_s=0.0 if since_s is None else self._threshold_s,
            active=since_s is not None,
            since_s=since_s,
            objective=0.0,
        )

    def gauges(self, means: Means) -> Iterator[GaugeValue]:  # noqa: ARG002 - of the protocol
        """Return this process's sums as counters, and the differences of all as gauges."""
        judge = self._quality_judge
        for (by, value, signal), counters in self._counted.items():
            for name, amount in zip(COUNTERS, counters, strict=True):
                if not amount and name not in FIELDS:
                    continue
                shown = {"by": by, "version": value, "signal": signal, "judge": judge, "sum": name}
                yield _gauge(metrics.VERSION_SUMS, amount, shown)
        for by, arms in self._known.items():
            for value, arm in arms.items():
                shown = {"by": by, "version": value}
                yield _gauge(metrics.VERSION_FIRST_SEEN, arm.first_s, shown)
        for (by, candidate, baseline, signal), found in self._found.items():
            shown = {"by": by, "candidate": candidate, "baseline": baseline, "signal": signal}
            shown["judge"] = judge
            yield _gauge(metrics.VERSION_DIFFERENCE, found.difference, shown)
            yield _gauge(metrics.VERSION_DIFFERENCE_LOWER, found.lower, shown)
            yield _gauge(metrics.VERSION_DIFFERENCE_UPPER, found.upper, shown)

    def records(self) -> Mapping[str, object]:
        """Return the versions as `ragmonitor gate` reads them."""
        return {"versions": self._record} if self._record else {}

    def _as_record(self) -> Mapping[str, object]:
        every = [arm for arms in self._known.values() for arm in arms.values()]
        signals = {name for arm in every for name in arm.signals}
        return {
            "source": self._source,
            "is_shared": self._file is not None,
            "at_s": self._exchanged_s,
            "judge": self._quality_judge,
            "higher_is_better": sorted(filter(self._higher_is_better, signals)),
            "arms": self._known.as_json(),
        }

    def candidates(self, signal: str, since_s: float) -> Sequence[CandidateCause]:
        """Return the newest version of each attribute that was seen by the time of the rise.

        Its mean is that of all its answers, and `before` that of its baseline. A version that is
        older than a day at the time of the rise is none of its causes.
        """
        found = [
            cause
            for by, candidate, baseline in self._known.pairs()
            if self._known[by][candidate].first_s > since_s - NEW_S
            and (cause := self._candidate(by, candidate, baseline, signal)) is not None
        ]
        return sorted(found, key=lambda each: -each.e_value)

    def _candidate(
        self, by: str, candidate: str, baseline: str, signal: str
    ) -> CandidateCause | None:
        if signal == VERSION_WORSE:
            signal = self._worst(by, candidate, baseline)
        found = self._found.get((by, candidate, baseline, signal))
        if found is None:
            return None
        sign = -1.0 if self._higher_is_better(signal) else 1.0
        is_discovery = self._is_worse(signal, found)
        return CandidateCause(
            kind="version",
            name=f"version {candidate}" if by == SERVICE_VERSION else f"{by} {candidate}",
            signal=signal,
            now=_estimate(found.candidate),
            before=_estimate(found.baseline),
            e_value=found.e_value if sign * found.difference > 0 else min(1.0, found.e_value),
            is_discovery=is_discovery,
            since_s=self._known[by][candidate].first_s,
            detail=found.told(signal, baseline, "en"),
            detail_zh=found.told(signal, baseline, "zh"),
            examples=tuple(self._examples.get((by, candidate), ())),
        )

    def _worst(self, by: str, candidate: str, baseline: str) -> str:
        """Return the signal with the most evidence that the candidate is worse."""
        found = {
            key[3]: each.e_value
            for key, each in self._found.items()
            if key[:3] == (by, candidate, baseline)
            and _alarms(key[3])
            and self._is_worse(key[3], each)
        }
        return max(found, key=found.__getitem__, default=HALLUCINATION)

    def close(self) -> None:
        """Hand over what this process has seen."""
        if self._fresh:
            self._exchange()


def _gauge(name: str, value: float, labels: Mapping[str, str]) -> GaugeValue:
    return GaugeValue(name=name, value=value, labels=tuple(labels.items()))


def _alarms(signal: str) -> bool:
    """Return whether a signal may find a version worse: minor findings by themselves may not."""
    return signal not in (*AMOUNTS, MINOR_HALLUCINATION)


def _estimate(mean: Mean) -> Estimate:
    half = 1.96 * mean.variance**0.5
    return Estimate(
        mean=mean.mean,
        lower=max(0.0, mean.mean - half),
        upper=min(1.0, mean.mean + half),
        effective_n=mean.judged,
        coverage=mean.coverage,
    )


_NONE: Final[tuple[str, ...]] = ()
_Values = tuple[tuple[str, ...], Sequence[float], Sequence[float], tuple[str, ...]]
"""Signals, pseudo-outcomes of their values and of being scored, and those without a verdict."""


def _read(found: Outcomes) -> _Values:
    """Return what a judge that reads every answer says."""
    if not found:
        return (), (), (), ()
    signals, outcomes = zip(*found)  # noqa: B905 - pairs
    missing = _NONE
    if not all(outcomes):
        missing = tuple([signal for signal, outcome in found if outcome is None])
        outcomes = tuple([outcome or NOTHING for outcome in outcomes])
    applies, values = zip(*outcomes)  # noqa: B905 - pairs
    return signals, values, applies, missing


def _sampled(
    found: Outcomes, expected: Mapping[str, tuple[float, float]], weight: float
) -> tuple[tuple[str, ...], Sequence[float], Sequence[float], Sequence[float], tuple[str, ...]]:
    """Return the pseudo-outcomes of a drawn answer, as `estimation.sums` has them."""
    values, scored, judged, missing = [], [], [], []
    for signal, verdict in found:
        share, mean = expected.get(signal, (0.0, 0.0))
        if verdict is None:
            # Of the answers whose verdict comes: a missing one says 0 of both.
            missing.append(signal)
        outcome = verdict or NOTHING
        applies = 1.0 if outcome.scored else 0.0
        values.append(share * mean + weight * (outcome.value - share * mean))
        scored.append(share + weight * (applies - share))
        judged.append(applies)
    return tuple([signal for signal, _ in found]), values, scored, judged, tuple(missing)
