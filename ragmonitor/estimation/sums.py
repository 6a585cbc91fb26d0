"""Sums over answers from which unbiased means follow, whatever was sampled."""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

from ragmonitor.estimation.signals import Outcome
from ragmonitor.records import SUMS, Moments, Totals

SESSIONS_MOST: Final = 1_000
"""Sessions whose answers are still taken together; a session of long ago begins anew."""
RESIDUALS_KEPT: Final = 200.0
"""How many verdicts the mean residual remembers, that stands in for verdicts that are missing."""


class Sums:
    """One signal by one judge, since the process began.

    Each answer has a chance pi to be judged, fixed beforehand, and a prediction from past verdicts
    only: `scored`, that the signal applies to it, and `value`, its mean if it does. With d (it
    applies) and y (its value), what is summed are the pseudo-outcomes

        phi_y = m_y + 1[judged] / pi (d y - m_y),   m_y = scored * value
        phi_d = m_d + 1[judged] / pi (d - m_d),     m_d = scored

    whose expectations are d y and d exactly, however poor the prediction is: augmented inverse
    probability weighting. The mean over answers to which the signal applies is the ratio of the two
    sums. Where the answers of a session are told apart from others', the products of their
    pseudo-outcomes are summed too, so that an interval takes the session as its unit.

    A verdict that was drawn and never came is stood in for by the mean residual of recent ones, as
    if it were missing at random; what it would change if it were not is kept beside.

    Source:
        Robins, Rotnitzky & Zhao (1994), JASA 89(427), for the pseudo-outcome; Zrnic & Candes,
        "Active Statistical Inference" (2024), section 4, arXiv:2403.03208, for chances that follow
        a prediction; Angelopoulos et al., "Prediction-Powered Inference" (2023),
        arXiv:2301.09633; Saerndal, Swensson & Wretman, "Model Assisted Survey Sampling" (1992),
        section 5.6, for the ratio, and chapter 4 for clusters.
    """

    __slots__ = (
        "answers",
        "certain",
        "certain_square",
        "certain_value",
        "corrected_down",
        "corrected_scored_down",
        "corrected_scored_up",
        "corrected_up",
        "cross_scored_scored",
        "cross_value_scored",
        "cross_value_value",
        "difference_squares",
        "drawn",
        "expected",
        "expected_scored",
        "expected_variance",
        "judged",
        "judged_value",
        "judged_value_squared",
        "missing",
        "missing_high",
        "missing_low",
        "missing_scored",
        "residual",
        "residual_scored",
        "residual_weight",
        "scored_scored",
        "sessions",
        "value_value",
    )

    def __init__(self) -> None:
        for name in self.__slots__:
            setattr(self, name, 0.0)
        self.sessions: OrderedDict[str, tuple[float, float]] = OrderedDict()

    answers: float
    certain: float
    certain_value: float
    certain_square: float
    expected: float
    expected_scored: float
    expected_variance: float
    corrected_up: float
    corrected_down: float
    corrected_scored_up: float
    corrected_scored_down: float
    value_value: float
    scored_scored: float
    difference_squares: float
    cross_value_value: float
    cross_value_scored: float
    cross_scored_scored: float
    judged: float
    judged_value: float
    judged_value_squared: float
    drawn: float
    missing: float
    missing_low: float
    missing_high: float
    missing_scored: float
    residual: float
    residual_scored: float
    residual_weight: float

    def exact(self, outcome: Outcome | None, session: str = "") -> None:
        """Take in an answer that was judged for certain; None: no verdict, it is left out."""
        if outcome is None:
            return
        self.answers += 1
        if not outcome.scored:
            return
        value = outcome.value
        off = value - 1.0
        # What is the same for all of them is counted once, and added when it is asked for.
        self.certain += 1
        self.certain_value += value
        square = value * value
        self.certain_square += square
        self.value_value += square
        self.difference_squares += off * off
        if session:
            self._join(session, value, 1.0)

    def unread(self, expected: tuple[float, float], chance: float, session: str = "") -> None:
        """Take in an answer that had a chance and was not drawn.

        Args:
            expected: As in `Prediction.expected`.
            chance: Above 0.
            session: Of the answer; empty: it stands alone.
        """
        scored, mean = expected
        self.answers += 1
        if scored <= 0:
            return
        value = scored * mean
        self._expect(scored, mean, value, chance)
        self.value_value += value * value
        off = value - scored
        self.difference_squares += off * off
        self.scored_scored += scored * scored
        if session:
            self._join(session, value, scored)

    def read(
        self,
        expected: tuple[float, float],
        chance: float,
        outcome: Outcome | None,
        session: str = "",
    ) -> None:
        """Take in an answer that was drawn; None: no verdict came."""
        scored, mean = expected
        value = scored * mean
        weight = 1.0 / chance
        self.answers += 1
        self._expect(scored, mean, value, chance)
        self.drawn += weight
        if outcome is None:
            correction = weight * self._mean(self.residual)
            correction_scored = weight * self._mean(self.residual_scored)
            self.missing += weight
            self.missing_low -= weight * value + correction
            self.missing_high += weight * (1.0 - value) - correction
            self.missing_scored += weight * (1.0 - scored) - correction_scored
        else:
            applies = 1.0 if outcome.scored else 0.0
            residual, residual_scored = outcome.value - value, applies - scored
            correction, correction_scored = weight * residual, weight * residual_scored
            self._remember(residual, residual_scored, weight)
            self.judged += applies
            self.judged_value += outcome.value
            self.judged_value_squared += outcome.value * outcome.value
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
        if session:
            self._join(session, value, scored)

    def _expect(self, scored: float, mean: float, value: float, chance: float) -> None:
        self.expected += value
        self.expected_scored += scored
        if scored > 0:
            spread = value - scored * self.expected / self.expected_scored
            self.expected_variance += scored * mean * (1.0 - mean) / chance + spread * spread

    def _remember(self, residual: float, residual_scored: float, weight: float) -> None:
        keep = 1.0 - 1.0 / RESIDUALS_KEPT
        self.residual = self.residual * keep + weight * residual
        self.residual_scored = self.residual_scored * keep + weight * residual_scored
        self.residual_weight = self.residual_weight * keep + weight

    def _mean(self, residual: float) -> float:
        return residual / self.residual_weight if self.residual_weight > 0 else 0.0

    def _join(self, session: str, value: float, scored: float) -> None:
        """Add the products with what the session's earlier answers came to."""
        sessions = self.sessions
        known = sessions.get(session)
        if known is None:
            sessions[session] = (value, scored)
            if len(sessions) > SESSIONS_MOST:
                sessions.popitem(last=False)
            return
        self.cross_value_value += 2 * value * known[0]
        self.cross_value_scored += value * known[1] + scored * known[0]
        self.cross_scored_scored += 2 * scored * known[1]
        sessions[session] = (known[0] + value, known[1] + scored)
        sessions.move_to_end(session)

    # --- what they come to ----------------------------------------------------------------------

    def moments(self) -> Moments:
        """Return the sums, of equal weight each."""
        return Moments(**dict(zip(SUMS, self.row(), strict=True)))

    def row(self) -> tuple[float, ...]:
        """Return the same numbers, in the order of `SUMS`."""
        certain = self.certain
        return (
            self.answers,
            self.certain_value + self.expected + self.corrected_up - self.corrected_down,
            certain + self.expected_scored + self.corrected_scored_up - self.corrected_scored_down,
            self.value_value + self.cross_value_value,
            self._product() + self.cross_value_scored,
            certain + self.scored_scored + self.cross_scored_scored,
            self.expected,
            self.expected_scored,
            self.expected_variance,
            certain + self.judged,
            certain + self.judged,
            self.certain_value + self.judged_value,
            self.certain_square + self.judged_value_squared,
            self.missing,
            certain + self.drawn,
            self.missing_low,
            self.missing_high,
            self.missing_scored,
        )

    def _product(self) -> float:
        # The squares of the difference are what is summed, and not taken from the products: a
        # counter that falls by a rounding error is a restart from 0 to Prometheus.
        squares = self.value_value + self.certain + self.scored_scored
        return (squares - self.difference_squares) / 2

    def totals(self) -> Totals:
        """Return what counters show. Products within sessions are not among it: they may fall."""
        return Totals(
            answers=self.answers,
            value_positive=self.certain_value + self.expected + self.corrected_up,
            value_negative=self.corrected_down,
            scored_positive=self.certain + self.expected_scored + self.corrected_scored_up,
            scored_negative=self.corrected_scored_down,
            value_squares=self.value_value,
            scored_squares=self.certain + self.scored_scored,
            difference_squares=self.difference_squares,
            judged=self.certain + self.judged,
            missing=self.missing,
        )


def difference(new: Moments, old: Moments) -> Moments:
    """Return what was added since."""
    return Moments(**{name: getattr(new, name) - getattr(old, name) for name in SUMS})
