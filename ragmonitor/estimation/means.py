"""The windowed means of every signal, by judge and by group of the answers."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, Final

from ragmonitor.estimation.interval import summarise
from ragmonitor.estimation.parts import Answer, Observation, Part
from ragmonitor.estimation.signals import HALLUCINATION, NO_JUDGE, Outcome, language_of, outcomes
from ragmonitor.estimation.sums import Sums
from ragmonitor.estimation.windows import Windows
from ragmonitor.protocols import Clock
from ragmonitor.records import (
    Estimate,
    Moments,
    PendingVerdict,
    Prediction,
    Report,
    SamplingDecision,
    SeriesKey,
    Totals,
    Window,
)

MAX_GROUPS: Final = 40
"""The number of groups of one dimension; further values are taken together: an id is no group."""
OTHER_GROUPS: Final = "other"
_NOTHING: Final = (0.0, 0.0)


LATENCY_CUTS_S: Final = (1.0, 2.0, 4.0, 8.0, 16.0)
_LATENCY_BANDS: Final = (
    "below 1",
    *(f"{low:g} to {high:g}" for low, high in pairwise(LATENCY_CUTS_S)),
    "16 or more",
)


def latency_band(seconds: float) -> str:
    """Return the band of an answer's latency, in seconds; the same at all times."""
    return _LATENCY_BANDS[bisect_right(LATENCY_CUTS_S, seconds)]


def pending_verdict(
    builtin: Report,
    prediction: Prediction,
    decision: SamplingDecision,
    group_by: Sequence[str],
) -> PendingVerdict:
    """Return what `WindowedMeans` is to know of a drawn answer until its verdict is there.

    Args:
        builtin: The report of the judge that scores every answer.
        prediction: Of the verdict.
        decision: That it was drawn; its inclusion probability is above 0.
        group_by: The dimensions of the means.
    """
    return PendingVerdict(
        inclusion_probability=decision.inclusion_probability,
        signals=tuple(prediction.expected),
        groups=tuple(_groups_of(builtin, group_by)),
    )


def _groups_of(report: Report, group_by: Sequence[str]) -> list[tuple[str, str]]:
    """Return the dimensions with an answer's values; an empty one is none."""
    found: list[tuple[str, str]] = []
    for dimension in group_by:
        if dimension == "language":
            group = language_of(report)
        elif dimension == "latency_s":
            group = latency_band(report.interaction.latency_s)
        else:
            group = report.interaction.attributes.get(dimension, "")
            if not group and dimension == "model":
                group = report.interaction.model
        if group:
            found.append((dimension, group))
    return found


class _Series(dict[str, Sums]):
    """One judge's sums by signal, made when they are first asked for."""

    def __init__(self, windows: Windows, judge: str) -> None:
        super().__init__()
        self._windows = windows
        self._judge = judge

    def __missing__(self, signal: str) -> Sums:
        key = SeriesKey(signal=signal, judge=self._judge)
        self[signal] = sums = self._windows.sums(key)
        return sums


class WindowedMeans(Part):
    """Sums up every answer's outcomes, whether or not it was judged."""

    def __init__(
        self,
        *,
        builtin: str,
        judge: str | None,
        clock: Clock,
        group_by: Sequence[str] = (),
    ) -> None:
        """Begin without an answer.

        Args:
            builtin: Name of the judge that scores every answer.
            judge: The one that scores a sample; None: there is none.
            clock: For the windows.
            group_by: Dimensions with a hallucination rate of their own for each value: `language`,
                `model`, `latency_s`, or attributes of interactions.
        """
        self.reader = builtin
        """The name of the judge that scores every answer."""
        self._judge = judge
        self.group_by = tuple(group_by)
        """The dimensions, for `pending_verdict`."""
        self._windows = Windows(clock=clock)
        self._begin()

    def _begin(self) -> None:
        self._series: dict[str, _Series] = {}
        """The series by judge, so that no key is built for each answer."""
        self._groups: dict[tuple[str, str, str], Sums] = {}
        """The groups by judge, dimension and value."""

    @property
    def quality_judge(self) -> str:
        """The judge of quality, for `parts.Means`."""
        return self._judge or self.reader

    # --- taking in ------------------------------------------------------------------------------

    def add(self, answer: Answer) -> Sequence[Observation]:
        """Take in one completed answer."""
        report, group = answer.completed.builtin, answer.group
        series = self._of_judge(report.judge.name)
        for signal, outcome in answer.builtin:
            series[signal].add_certain(outcome, group)
        is_stand_in = report.judge.name != self.reader
        if is_stand_in:  # of the judge whose turn it was no verdict came
            series = self._of_judge(self.reader)
            for signal, _ in answer.builtin:
                series[signal].add_certain(None, group)
        judge, decision = self._judge, answer.completed.decision
        if judge is None:
            for sums in self._groups_of(report, self.reader):
                sums.add_certain(None if is_stand_in else answer.builtin[0][1], group)
        elif decision is not None:
            self._add_sampled(answer, report, judge, decision.inclusion_probability)
        return ()

    def _add_sampled(self, answer: Answer, report: Report, judge: str, probability: float) -> None:
        prediction, group = answer.completed.prediction, answer.group
        if probability <= 0:
            for sums in self._sampled_sums(report, prediction, judge):
                sums.uncover()
            return
        predicted = prediction.expected
        hallucinated = predicted.get(HALLUCINATION, _NOTHING)
        series = self._of_judge(judge)
        if answer.judged is None:
            for signal, expected in predicted.items():
                series[signal].add_not_drawn(expected, probability, group)
            for sums in self._groups_of(report, judge):
                sums.add_not_drawn(hallucinated, probability, group)
            return
        # Under the name of those that were not drawn, whatever the assessment calls itself.
        for signal, outcome in answer.judged:
            series[signal].add_drawn(predicted.get(signal, _NOTHING), probability, outcome, group)
        for sums in self._groups_of(report, judge):
            sums.add_drawn(hallucinated, probability, answer.judged[0][1], group)
        if answer.completed.stand_in is not None:
            self._add_stand_in(answer.completed.stand_in, probability, group)

    def _add_stand_in(self, report: Report, probability: float, group: int) -> None:
        """Take in the fallback's report where the judge failed; nothing predicts its verdicts.

        Its means rest on its verdicts by 1 / inclusion probability alone.
        """
        series = self._of_judge(report.judge.name)
        for signal, outcome in outcomes(report):
            series[signal].add_drawn(_NOTHING, probability, outcome, group)

    def await_verdict(self, answer: str, pending: PendingVerdict) -> None:
        """Take note of an answer that was drawn and whose verdict is on its way."""
        judge = self._judge
        if judge is None:
            return
        series = self._of_judge(judge)
        for signal in pending.signals:
            series[signal].await_verdict(pending.inclusion_probability)
        for dimension, group in pending.groups:
            if group and dimension in self.group_by:
                known = self._groups.get((judge, dimension, group))
                sums = self._new_group(judge, dimension, group) if known is None else known
                sums.await_verdict(pending.inclusion_probability)

    def observe(self, observation: Observation, group: int) -> None:
        """Take in one value of a signal that needs no judge."""
        outcome = Outcome(scored=True, value=observation.value)
        self._of_judge(NO_JUDGE)[observation.signal].add_certain(outcome, group)

    def _of_judge(self, judge: str) -> _Series:
        known = self._series.get(judge)
        if known is None:
            known = self._series[judge] = _Series(self._windows, judge)
        return known

    def _sampled_sums(self, report: Report, prediction: Prediction, judge: str) -> Iterator[Sums]:
        """Yield the sums by the judge that an answer would be added to."""
        series = self._of_judge(judge)
        for signal in prediction.expected:
            yield series[signal]
        yield from self._groups_of(report, judge)

    def _groups_of(self, report: Report, judge: str) -> Iterator[Sums]:
        """Yield the sums of the groups of the traffic that an answer is in."""
        for dimension, group in _groups_of(report, self.group_by):
            known = self._groups.get((judge, dimension, group))
            yield self._new_group(judge, dimension, group) if known is None else known

    def _new_group(self, judge: str, dimension: str, group: str) -> Sums:
        """Return the sums of a group that was not met before; of too many, those of the others."""
        if sum(known[:2] == (judge, dimension) for known in self._groups) >= MAX_GROUPS:
            group = OTHER_GROUPS
        name = (judge, dimension, group)
        if name not in self._groups:
            self._groups[name] = self._windows.sums(
                SeriesKey(signal=HALLUCINATION, judge=judge, dimension=dimension, group=group)
            )
        return self._groups[name]

    # --- what they come to ----------------------------------------------------------------------

    def tick(self) -> Sequence[Observation]:
        """Let the windows slide."""
        self._windows.tick()
        return ()

    def estimate(self, signal: str, window: Window = "1h") -> Estimate | None:
        """Return the estimate, as `parts.Means` asks for it."""
        for judge in (self.quality_judge, NO_JUDGE):
            moments = self._windows.of(SeriesKey(signal=signal, judge=judge), window)
            if moments is not None:
                return summarise(moments)
        return None

    def moments(self) -> Iterator[tuple[SeriesKey, Window, Moments]]:
        """Return the sums of each window as of the last tick."""
        return self._windows.moments()

    def totals(self) -> Iterator[tuple[SeriesKey, Totals]]:
        """Return what each series came to since the process began."""
        return self._windows.totals()

    def dump(self) -> dict[str, Any]:
        """Return what `load` takes, as plain values."""
        return self._windows.dump()

    def load(self, dumped: Mapping[str, Any], elapsed_s: float) -> None:
        """Go on where another process stood. Raises as `Windows.load`."""
        self._windows.load(dumped, elapsed_s)
        self._begin()
        for key, _ in self._windows.totals():
            if key.dimension:
                group = (key.judge, key.dimension, key.group)
                self._groups[group] = self._windows.sums(key)

    def clear(self) -> None:
        """Forget everything."""
        self._windows.clear()
        self._begin()
