"""Predictions of the sampled judge's verdicts, learned from the past ones."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Final

from ragmonitor import metrics
from ragmonitor.estimation.answer_features import LabelledAnswer, features_of
from ragmonitor.estimation.calibration import Calibration
from ragmonitor.estimation.learned_score import LearnedScore
from ragmonitor.estimation.parts import Answer, Means, Observation, Part
from ragmonitor.estimation.signals import HALLUCINATION, Outcomes, features, language_of
from ragmonitor.guard import logger
from ragmonitor.records import (
    BUILTIN,
    GaugeValue,
    JudgeIdentity,
    Prediction,
    PredictionBasis,
    Report,
)
from ragmonitor.state import State

WHAT: Final = "calibration"
STATE_VERSION: Final = 2
"""The version of the state files, whose names begin so."""
UNCERTAINTY_KEPT: Final = 500.0
"""The number of answers that the mean uncertainty remembers."""
MIN_UNCERTAINTY: Final = 1e-3
MAX_WEIGHT: Final = 2.0
"""The largest weight of one verdict in what the model learns: the largest importance weight that is
sampled."""
MIXED: Final = "mixed"
"""The calibration of the mixed score, beside those of the signals."""
UNTRAINED: Final = "untrained"
"""A tally of the untrained score on the same verdicts, to compare."""
SHOWN_COEFFICIENTS: Final = 8
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
    once there are verdicts enough in both. What it says of hallucination is the untrained score; a
    model learns from then on what else tells bad answers from good ones. Until verdicts bear it
    out the untrained score predicts alone; from then on both are mixed, and the mixture is
    calibrated like every other score. With a file the processes of a service learn together.
    """

    def __init__(
        self,
        *,
        judge: str,
        file: State | None = None,
        learns: bool = True,
        reader: str | None = None,
    ) -> None:
        """Begin with what the file holds, if there is one.

        Args:
            judge: The judge that scores a sample.
            file: Where the calibration outlives the process.
            learns: Whether hallucination is predicted from more than the built-in judge's risk.
            reader: Name of the judge whose scores predict; what another one scored in its place is
                predicted like an answer of which nothing is known. None: whoever scored it.
        """
        self._reader = reader
        self._judge = judge
        self._file = file
        self._learns = learns
        self._labelled: Sequence[LabelledAnswer] = ()
        self._resets = 0
        """The number of times that what was learned was thrown away, by whatever process."""
        self._begin_anew()
        self._exchange()

    def _begin_anew(self) -> None:
        self._calibrations: dict[tuple[str, str], Calibration] = {}
        """The calibrations by signal and language; of all languages under the empty one."""
        self._pooled: dict[str, Calibration] = {}
        """Those of all languages, by signal."""
        self._by_language = False
        """Whether hallucination is predicted by language: both have verdicts enough."""
        self._mean_uncertainty = 0.0
        self._model = LearnedScore() if self._learns else None
        self._has_labels = False
        """Whether the model has learned from people's labels."""

    def predict(self, builtin: Report, outcomes: Outcomes, prediction: Prediction) -> Prediction:
        """Return what past verdicts say of an answer."""
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
        basis = self._basis(builtin, mean)
        if basis is not None and basis.is_trusted:
            mean = self._calibrated(basis.mixed)
        expected[HALLUCINATION] = scored, mean
        deviation = math.sqrt(scored * mean * (1 - mean))
        usual = self._mean_uncertainty or deviation
        self._mean_uncertainty = usual + (deviation - usual) / UNCERTAINTY_KEPT
        return Prediction(
            hallucination=mean,
            uncertainty=deviation / max(MIN_UNCERTAINTY, usual),
            expected=expected,
            basis=basis,
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

    def _basis(self, builtin: Report, untrained: float) -> PredictionBasis | None:
        """Return what the model makes of an answer; None: nothing."""
        model = self._model
        if model is None or not 0 < untrained < 1 or self._risk(builtin) is None:
            return None
        found = features_of(builtin)
        return None if found is None else model.predict(found, untrained)

    def _calibrated(self, mixed: float) -> float:
        calibration = self._pooled.get(MIXED)
        return (calibration.mean_at(_spread(mixed)) if calibration else 0.0) or mixed

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
        self._learn(answer)
        return ()

    def _learn(self, answer: Answer) -> None:
        """Have the model learn from a verdict, and count how well both scores foretold it."""
        completed, verdict = answer.completed, answer.hallucination
        basis, decision = completed.prediction.basis, completed.decision
        if self._model is None or basis is None or verdict is None or decision is None:
            return
        weight = min(MAX_WEIGHT, decision.importance_weight)
        self._model.add(basis, value=verdict.value, weight=weight)
        for name, chance in ((MIXED, basis.mixed), (UNTRAINED, basis.untrained)):
            self._of(name, "").add(
                _spread(chance), scored=True, value=verdict.value, weight=answer.weight
            )

    def learn_labels(self, labels: Sequence[LabelledAnswer]) -> None:
        """Have the model learn from people's verdicts too; they replace those of earlier calls.

        Each counts as one verdict. How far the model is trusted, and its calibration, follow from
        the judge's verdicts alone.
        """
        self._labelled, self._has_labels = labels, False
        self._set_labels()

    def _set_labels(self) -> None:
        """Have the model learn from the labels, once there is an untrained score to begin at."""
        predictor = self._pooled.get(HALLUCINATION)
        if self._model is None or predictor is None or not predictor.is_fitted:
            return
        known = []
        for answer in self._labelled:
            of_language = self._hallucination(answer.language) or predictor
            untrained = of_language.mean_at(answer.risk)
            if 0 < untrained < 1:
                known.append((answer.features, untrained, float(answer.bad)))
        self._model.set_labels(known)
        self._has_labels = True

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
        if self._model is not None:
            self._model.forget_news()

    def close(self) -> None:
        """Keep the newest verdicts."""
        self.keep()

    def gauges(self, means: Means) -> Iterator[GaugeValue]:
        """Return how well predictions tell bad answers from good ones, and what was learned."""
        gauge = partial(GaugeValue.of, judge=self._judge)
        untrained, learned = self._of(UNTRAINED, "").auroc(), self._of(MIXED, "").auroc()
        if untrained is None or learned is None:
            untrained = learned = self._of(HALLUCINATION, "").auroc()
        if untrained is not None and learned is not None:
            yield gauge(metrics.BUILTIN_AUROC, learned)
            yield gauge(metrics.UNTRAINED_AUROC, untrained)
        model = self._model
        if model is None or not model.verdicts:
            return
        yield gauge(metrics.LEARNED_VERDICTS, model.verdicts)
        yield gauge(metrics.LEARNED_TRUST, model.trust)
        for score, share in (model.error_ratios() or {}).items():
            yield gauge(metrics.PREDICTION_ERROR, share, score=score)
        for feature, coefficient in model.largest(SHOWN_COEFFICIENTS):
            yield gauge(metrics.LEARNED_COEFFICIENT, coefficient, feature=feature)

    def _hallucination(self, language: str) -> Calibration | None:
        """Return what predicts it: of the language, where both have verdicts enough."""
        if self._by_language and language:
            return self._calibrations.get((HALLUCINATION, language))
        return self._pooled.get(HALLUCINATION)

    def _of(self, signal: str, language: str) -> Calibration:
        known = self._calibrations.get((signal, language))
        if known is None:
            known = Calibration(_chance if signal == MIXED else None)
            self._calibrations[signal, language] = known
            if not language:
                self._pooled[signal] = known
        return known

    def _exchange(self) -> None:
        file = self._file
        if file is None or not file.update(self._merged, stage="estimate", what="the calibration"):
            self._merge({}, None)

    def _merged(self, state: Mapping[str, object]) -> Mapping[str, object]:
        """Return the file's new state, once its verdicts are merged with ours."""
        signals, model, resets = (state.get(each) for each in ("signals", "model", "resets"))
        if isinstance(resets, int) and resets > self._resets:
            self._begin_anew()
            self._resets = resets
        self._merge(
            signals if isinstance(signals, Mapping) else {},
            model if isinstance(model, Mapping) else None,
        )
        states = {
            f"{signal}/{language}": calibration.state()
            for (signal, language), calibration in self._calibrations.items()
        }
        # One that does not learn leaves what others have learned.
        learned = model if self._model is None else self._model.state()
        return {
            "judge": self._judge,
            "signals": states,
            "model": learned,
            "resets": self._resets,
        }

    def _merge(self, signals: Mapping[str, object], model: Mapping[str, object] | None) -> None:
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
        if self._model is not None:
            try:
                self._model.merge(model)
            except ValueError as error:
                logger.warning("ragmonitor: what was learned of verdicts begins anew: %s", error)
                self._model.merge()
        if self._labelled and not self._has_labels:
            self._set_labels()
        of_both = [self._calibrations.get((HALLUCINATION, each)) for each in ("en", "zh")]
        self._by_language = all(each is not None and each.is_fitted for each in of_both)


def _spread(chance: float) -> float:
    """Return a chance as a value for a calibration, whose steps are too wide for small ones."""
    root = math.sqrt(chance)
    return root / (root + math.sqrt(1 - chance))


def _chance(value: float) -> float:
    """Return the chance that `_spread` made a value of."""
    return value * value / (value * value + (1 - value) * (1 - value))
