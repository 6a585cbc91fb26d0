"""Predictions of the sampled judge's verdicts, learned from the past ones."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from ragmonitor import metrics
from ragmonitor.estimation.calibration import Calibration
from ragmonitor.estimation.parts import Answer, Means, Observation, Part
from ragmonitor.estimation.signals import HALLUCINATION, Outcomes, features, language_of
from ragmonitor.guard import logger
from ragmonitor.records import BUILTIN, GaugeValue, JudgeIdentity, Prediction, Report
from ragmonitor.state import State

WHAT: Final = "calibration"
STATE_VERSION: Final = 2
"""The version of the state files, whose names begin so."""
UNCERTAINTY_KEPT: Final = 500.0
"""The number of answers that the mean uncertainty remembers."""
MIN_UNCERTAINTY: Final = 1e-3
_NOTHING: Final = (0.0, 0.0)


def state_name(reader: JudgeIdentity, min_severity: str) -> str:
    """Return what the file of a reader's predictions is called: scores of two say different things.

    Args:
        reader: The judge that scores every answer.
        min_severity: Of what counts as hallucinated: what was learned of another is not mixed in.
    """
    name = f"{WHAT}-{min_severity}"
    if reader.name == BUILTIN:
        return name
    return f"{name}-{hashlib.blake2b(str(reader).encode(), digest_size=4).hexdigest()}"


class Predictions(Part):
    """Predicts each answer's verdicts from what the built-in judge found.

    One calibration for each signal; of hallucination one for each language too, which predicts
    once there are verdicts enough in both. With a file the processes of a service learn together.
    """

    def __init__(
        self,
        *,
        judge: str,
        file: State | None = None,
        reader: str | None = None,
    ) -> None:
        """Begin with what the file holds, if there is one.

        Args:
            judge: The judge that scores a sample.
            file: Where the calibration outlives the process.
            reader: Name of the judge whose scores predict; what another one scored in its place is
                predicted like an answer of which nothing is known. None: whoever scored it.
        """
        self._reader = reader
        self._judge = judge
        self._file = file
        self._calibrations: dict[tuple[str, str], Calibration] = {}
        """The calibrations by signal and language; of all languages under the empty one."""
        self._pooled: dict[str, Calibration] = {}
        """Those of all languages, by signal."""
        self._by_language = False
        """Whether hallucination is predicted by language: both have verdicts enough."""
        self._mean_uncertainty = 0.0
        self._exchange()

    def predict(self, builtin: Report, outcomes: Outcomes) -> Prediction:
        """Return what past verdicts say of an answer, before it may be drawn; each comes once.

        Args:
            builtin: The report of the judge that scores every answer.
            outcomes: Its outcomes.
        """
        pooled = self._pooled
        predictor = self._hallucination(language_of(builtin))
        expected = {}
        for signal, feature in self._features(builtin, outcomes):
            calibration = predictor if signal == HALLUCINATION else pooled.get(signal)
            expected[signal] = _NOTHING if calibration is None else calibration.expected(feature)
        if predictor is None or not predictor.is_fitted:
            return Prediction(expected=expected)
        scored, mean = expected[HALLUCINATION]
        risk = self._risk(builtin)
        if risk is not None:
            mean = predictor.mean_at(risk) or mean
        expected[HALLUCINATION] = scored, mean
        deviation = math.sqrt(scored * mean * (1 - mean))
        usual = self._mean_uncertainty or deviation
        self._mean_uncertainty = usual + (deviation - usual) / UNCERTAINTY_KEPT
        return Prediction(
            hallucination=mean,
            uncertainty=deviation / max(MIN_UNCERTAINTY, usual),
            expected=expected,
        )

    def _features(self, builtin: Report, found: Outcomes) -> Iterable[tuple[str, float | None]]:
        """Return what predicts each signal: scores of two readers have little in common."""
        if self._reader in (None, builtin.judge.name):
            return features(builtin, found)
        return [(signal, None) for signal, _ in found]

    def _risk(self, builtin: Report) -> float | None:
        """Return the risk of an answer; None: not known, or another reader's."""
        if self._reader not in (None, builtin.judge.name) or builtin.assessment is None:
            return None
        return builtin.assessment.risk

    def add(self, answer: Answer) -> Sequence[Observation]:
        """Learn from the verdicts on an answer."""
        if answer.judged is None:
            return ()
        language = language_of(answer.completed.builtin)
        known = dict(self._features(answer.completed.builtin, answer.builtin))
        weight, pooled = answer.weight, self._pooled
        for signal, outcome in answer.judged:
            if outcome is None:
                continue
            feature, (scored, value) = known.get(signal), outcome
            calibration = pooled.get(signal) or self._of(signal, "")
            calibration.add(feature, scored=scored, value=value, weight=weight)
            if signal == HALLUCINATION and language:
                self._of(signal, language).add(feature, scored=scored, value=value, weight=weight)
        return ()

    def tick(self) -> Sequence[Observation]:
        """Learn from what is new."""
        self.keep()
        return ()

    def keep(self) -> None:
        """Learn from the newest verdicts and, with a file, from those of other processes."""
        if any(each.has_news for each in self._calibrations.values()):
            self._exchange()

    def reload(self) -> None:
        """Learn what others have written to the file since."""
        self._exchange()

    def clear(self) -> None:
        """Forget the verdicts that the parent of a forked process keeps itself."""
        for calibration in self._calibrations.values():
            calibration.forget_news()

    def close(self) -> None:
        """Keep the newest verdicts."""
        self.keep()

    def gauges(self, means: Means) -> Iterator[GaugeValue]:
        """Return how well predictions tell bad answers from good ones."""
        auroc = self._of(HALLUCINATION, "").auroc()
        if auroc is not None:
            yield GaugeValue.of(metrics.BUILTIN_AUROC, auroc, judge=self._judge)

    def _hallucination(self, language: str) -> Calibration | None:
        """Return what predicts it: of the language, where both have verdicts enough."""
        if self._by_language and language:
            return self._calibrations.get((HALLUCINATION, language))
        return self._pooled.get(HALLUCINATION)

    def _of(self, signal: str, language: str) -> Calibration:
        known = self._calibrations.get((signal, language))
        if known is None:
            known = Calibration()
            self._calibrations[signal, language] = known
            if not language:
                self._pooled[signal] = known
        return known

    def _exchange(self) -> None:
        file = self._file
        if file is None or not file.update(self._merged, stage="estimate", what="the calibration"):
            self._merge({})

    def _merged(self, state: Mapping[str, object]) -> Mapping[str, object]:
        """Return the file's new state, once its verdicts are merged with ours."""
        signals = state.get("signals")
        self._merge(signals if isinstance(signals, Mapping) else {})
        states = {
            f"{signal}/{language}": calibration.state()
            for (signal, language), calibration in self._calibrations.items()
        }
        return {"judge": self._judge, "signals": states}

    def _merge(self, signals: Mapping[str, object]) -> None:
        for name in signals:
            signal, _, language = name.partition("/")
            self._of(signal, language)
        for (signal, language), calibration in self._calibrations.items():
            state = signals.get(f"{signal}/{language}")
            try:
                calibration.merge(state if isinstance(state, Mapping) else None)
            except ValueError as error:
                logger.warning("ragmonitor: calibration of %s begins anew: %s", signal, error)
                calibration.merge()
        of_both = [self._calibrations.get((HALLUCINATION, each)) for each in ("en", "zh")]
        self._by_language = all(each is not None and each.is_fitted for each in of_both)
