"""The verdicts on each answer, as updates of the alarms on its signals."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from ragmonitor.estimation.parts import Answer, Observation, Part
from ragmonitor.estimation.signals import HALLUCINATION, Outcome, Outcomes, outcomes
from ragmonitor.records import Example, Report


class Verdicts(Part):
    """Turns an answer's verdicts into observations: of the sampled judge, where there is one."""

    def __init__(
        self, *, is_sampled: bool, reader: str, higher_is_better: Callable[[str], bool]
    ) -> None:
        """Hold nothing.

        Args:
            is_sampled: Whether a judge scores a sample; else the built-in judge's verdicts count.
            reader: Name of the judge that scores every answer; what another one scored in its
                place updates no alarm, since the two have little in common.
            higher_is_better: Whether a signal is the better the higher it is.
        """
        self._reader = reader
        self._is_sampled = is_sampled
        self._higher_is_better = higher_is_better

    def add(self, answer: Answer) -> Iterator[Observation]:
        """Return an observation for every signal that applies to the answer."""
        completed = answer.completed
        if not self._is_sampled:
            if completed.builtin.judge.name == self._reader:
                yield from self._of(answer, completed.builtin, answer.builtin, 1.0)
        elif answer.judged is not None and completed.decision is not None:
            weight = completed.decision.importance_weight
            if completed.judged is not None:
                yield from self._of(answer, completed.judged, answer.judged, weight)
            # An alarm takes the verdict of whichever judge there is.
            if completed.stand_in is not None:
                yield from self._of(
                    answer, completed.stand_in, outcomes(completed.stand_in), weight
                )

    def _of(
        self, answer: Answer, report: Report, found: Outcomes, weight: float
    ) -> Iterator[Observation]:
        at_s, interaction = answer.at_s, answer.interaction
        for signal, outcome in found:
            if outcome is not None and outcome.scored:
                example = partial(self._example, answer, report, signal, outcome)
                # By position, for the time that names take: this runs for every score.
                whose = interaction.session_id, interaction.id
                yield Observation(signal, outcome.value, at_s, weight, *whose, example)

    def _example(self, answer: Answer, report: Report, signal: str, outcome: Outcome) -> Example:
        """Return the answer as an example of what is wrong; the worse for more bad claims."""
        badness = 1 - outcome.value if self._higher_is_better(signal) else outcome.value
        assessment = report.assessment
        if signal == HALLUCINATION and assessment is not None and assessment.claims:
            badness = len(assessment.counted_findings) / len(assessment.claims)
        return Example(
            interaction=answer.interaction,
            assessment=assessment,
            badness=badness,
            at_s=answer.at_s,
            target=answer.completed.target,
        )
