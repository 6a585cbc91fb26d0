"""Sums over answers from which unbiased means follow, whatever was sampled."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import chain, repeat
from operator import sub
from typing import Final

from ragmonitor.estimation.signals import Outcome
from ragmonitor.records import GROUP_SUMS, GROUPS, SUMS, Moments, Totals

ALONE: Final = -1
"""The random group of an answer without a session: none."""


def group_of(session: str) -> int:
    """Return the random group of a session, the same in every process; `ALONE` without one."""
    return zlib.crc32(session.encode("utf-8", "replace")) % GROUPS if session else ALONE


@dataclass(slots=True)
class Sums:
    """One signal by one judge, since the process began.

    Each answer has an inclusion probability pi, fixed beforehand, and a prediction from past
    verdicts only: `scored`, that the signal applies to it, and `value`, its mean if it does. With d
    (it applies) and y (its value), what is summed are the pseudo-outcomes

        phi_y = m_y + 1[judged] / pi (d y - m_y),   m_y = scored * value
        phi_d = m_d + 1[judged] / pi (d - m_d),     m_d = scored

    whose expectations are d y and d exactly, however poor the prediction is: augmented inverse
    probability weighting. The mean over answers to which the signal applies is the ratio of the two
    sums. Of a verdict that was drawn and never came, d and y are 0: the mean then is that of the
    answers whose verdict comes. What the others might change is bounded, and not assumed
    (`estimation.interval`).

    Answers of one session are alike, and its answers may come to different processes. So sessions
    are hashed into a fixed number of random groups, and what is kept of an answer with a session
    are its group's sums: they add up over processes and over time, and the variance is that between
    the groups' totals.

    Source:
        Robins, Rotnitzky & Zhao (1994), JASA 89(427), for the pseudo-outcome; Zrnic & Candes,
        "Active Statistical Inference" (2024), section 4, arXiv:2403.03208, for probabilities that
        follow a prediction; Angelopoulos et al., "Prediction-Powered Inference" (2023),
        arXiv:2301.09633; Saerndal, Swensson & Wretman, "Model Assisted Survey Sampling" (1992),
        section 5.6, for the ratio; Wolter, "Introduction to Variance Estimation" (2007), chapter 2,
        for random groups.
    """

    answers: float = 0.0
    exact_answers: float = 0.0
    certain: float = 0.0
    certain_value: float = 0.0
    certain_square: float = 0.0
    expected: float = 0.0
    expected_scored: float = 0.0
    expected_variance: float = 0.0
    corrected_up: float = 0.0
    corrected_down: float = 0.0
    corrected_scored_up: float = 0.0
    corrected_scored_down: float = 0.0
    value_value: float = 0.0
    scored_scored: float = 0.0
    difference_squares: float = 0.0
    grouped_value_value: float = 0.0
    grouped_scored_scored: float = 0.0
    grouped_difference_squares: float = 0.0
    judged: float = 0.0
    judged_value: float = 0.0
    judged_value_squared: float = 0.0
    drawn_count: float = 0.0
    drawn: float = 0.0
    drawn_squared: float = 0.0
    missing_count: float = 0.0
    missing: float = 0.0
    missing_squared: float = 0.0
    missing_value: float = 0.0
    missing_scored: float = 0.0
    awaited: float = 0.0
    uncovered: float = 0.0
    groups: list[float] = field(default_factory=list)
    """The groups of `Moments.groups`."""

    def add_certain(self, outcome: Outcome | None, group: int = ALONE) -> None:
        """Take in an answer that was judged for certain; None: no verdict came."""
        # What is the same for all of them is counted once, and added when it is asked for.
        self.exact_answers += 1
        if outcome is None:
            self._miss(1.0, 0.0, 0.0, group)
            return
        if not outcome.scored:
            return
        value = outcome.value
        off = value - 1.0
        self.certain += 1
        self.certain_value += value
        square = value * value
        self.certain_square += square
        self.value_value += square
        self.difference_squares += off * off
        if group >= 0:
            self._join(group, value, 1.0)

    def add_not_drawn(
        self, expected: tuple[float, float], probability: float, group: int = ALONE
    ) -> None:
        """Take in an answer that might have been drawn and was not.

        Args:
            expected: As in `Prediction.expected`.
            probability: The inclusion probability; above 0.
            group: Of the answer's session, as `group_of` has it.
        """
        scored, mean = expected
        self.answers += 1
        if scored <= 0:
            return
        value = scored * mean
        self._expect(scored, mean, value, probability)
        self.value_value += value * value
        off = value - scored
        self.difference_squares += off * off
        self.scored_scored += scored * scored
        if group >= 0:
            self._join(group, value, scored)

    def add_drawn(
        self,
        expected: tuple[float, float],
        probability: float,
        outcome: Outcome | None,
        group: int = ALONE,
    ) -> None:
        """Take in an answer that was drawn; None: no verdict came."""
        scored, mean = expected
        value = scored * mean
        weight = 1.0 / probability
        self.answers += 1
        if scored > 0:
            self._expect(scored, mean, value, probability)
        self.drawn_count += 1
        self.drawn += weight
        self.drawn_squared += weight * weight
        applies, found = (0.0, 0.0)
        if outcome is not None:
            applies, found = (1.0 if outcome.scored else 0.0), outcome.value
            self.judged += applies
            self.judged_value += found
            self.judged_value_squared += found * found
        correction, correction_scored = weight * (found - value), weight * (applies - scored)
        if correction > 0:
            self.corrected_up += correction
        else:
            self.corrected_down -= correction
        if correction_scored > 0:
            self.corrected_scored_up += correction_scored
        else:
            self.corrected_scored_down -= correction_scored
        value += correction
        scored += correction_scored
        self.value_value += value * value
        self.difference_squares += (value - scored) ** 2
        self.scored_scored += scored * scored
        if outcome is None:
            self._miss(weight, value, scored, group)
        if group >= 0:
            self._join(group, value, scored)

    def await_verdict(self, probability: float) -> None:
        """Take note of an answer that was drawn and whose verdict is on its way."""
        self.awaited += 1.0 / probability

    def uncover(self) -> None:
        """Take note of an answer that could not be drawn."""
        self.uncovered += 1

    def _miss(self, weight: float, value: float, scored: float, group: int) -> None:
        self.missing_count += 1
        self.missing += weight
        if group >= 0:
            self._grouped()[GROUP_SUMS * group + 2] += weight
        else:
            self.missing_squared += weight * weight
            self.missing_value += weight * value
            self.missing_scored += weight * scored

    def _expect(self, scored: float, mean: float, value: float, probability: float) -> None:
        """Take in a prediction; scored is above 0."""
        self.expected += value
        self.expected_scored += scored
        spread = value - scored * self.expected / self.expected_scored
        self.expected_variance += scored * mean * (1.0 - mean) / probability + spread * spread

    def _join(self, group: int, value: float, scored: float) -> None:
        """Add an answer to its session's random group."""
        groups = self.groups or self._grouped()
        at = GROUP_SUMS * group
        groups[at] += value
        groups[at + 1] += scored
        off = value - scored
        self.grouped_value_value += value * value
        self.grouped_scored_scored += scored * scored
        self.grouped_difference_squares += off * off

    def _grouped(self) -> list[float]:
        if not self.groups:
            self.groups = [0.0] * (GROUP_SUMS * GROUPS)
        return self.groups

    # --- what they come to ----------------------------------------------------------------------

    def moments(self) -> Moments:
        """Return the sums."""
        return moments_of(self.row())

    def row(self) -> tuple[float, ...]:
        """Return the same numbers, in the order of `SUMS`, and then those of the groups."""
        certain, exact = self.certain, self.exact_answers
        value_value = self.value_value - self.grouped_value_value
        scored_scored = certain + self.scored_scored - self.grouped_scored_scored
        # The squares of the difference are what is summed, and not taken from the products: a
        # counter that falls by a rounding error is a restart from 0 to Prometheus.
        differences = self.difference_squares - self.grouped_difference_squares
        return (
            exact + self.answers,
            self.certain_value + self.expected + self.corrected_up - self.corrected_down,
            certain + self.expected_scored + self.corrected_scored_up - self.corrected_scored_down,
            value_value,
            (value_value + scored_scored - differences) / 2,
            scored_scored,
            self.expected,
            self.expected_scored,
            self.expected_variance,
            certain + self.judged,
            self.certain_value + self.judged_value,
            self.certain_square + self.judged_value_squared,
            exact + self.drawn_count,
            exact + self.drawn,
            exact + self.drawn_squared,
            self.missing_count,
            self.missing,
            self.missing_squared,
            self.missing_value,
            self.missing_scored,
            exact + self.awaited,
            self.uncovered,
            *self.groups,
        )

    def totals(self) -> Totals:
        """Return what counters show; sessions are not told apart there."""
        return Totals(
            answers=self.exact_answers + self.answers,
            value_positive=self.certain_value + self.expected + self.corrected_up,
            value_negative=self.corrected_down,
            scored_positive=self.certain + self.expected_scored + self.corrected_scored_up,
            scored_negative=self.corrected_scored_down,
            judged=self.certain + self.judged,
        )


def moments_of(row: Sequence[float]) -> Moments:
    """Return a row of sums by their names."""
    count = len(SUMS)
    return Moments(groups=list(row[count:]), **dict(zip(SUMS, row[:count], strict=True)))


def row_difference(new: Sequence[float], old: Sequence[float]) -> list[float]:
    """Return what was added since, where the groups may have come in between."""
    return list(map(sub, new, chain(old, repeat(0.0))))
