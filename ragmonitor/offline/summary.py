"""What a run over recorded interactions came to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from ragmonitor.judges import sentences
from ragmonitor.offline.bottleneck import Bottleneck, bottleneck_of
from ragmonitor.offline.scoring import Outcome
from ragmonitor.offline.tally import Tally
from ragmonitor.records import Evaluation, JudgeUsage, Language


@dataclass(slots=True, kw_only=True)
class Summary:
    """Sums over a run. Its size does not grow with the lines."""

    judge: str = ""
    lines: int = 0
    bad_lines: int = 0
    resumed: int = 0
    """Of the lines: finished by an earlier run."""
    is_interrupted: bool = False
    """Further lines were not begun."""
    usage: JudgeUsage = field(default_factory=JudgeUsage)
    tally: Tally = field(default_factory=Tally)
    languages: dict[Language, Tally] = field(default_factory=dict)
    """The same by the answers' language."""
    bottlenecks: Counter[Bottleneck] = field(default_factory=Counter)
    """Of the answers that have the three scores it takes."""

    def add(self, outcome: Outcome) -> None:
        """Take one line in."""
        report = outcome.report
        if report is None:
            self.lines += 1
            self.bad_lines += 1
        else:
            self.add_scores(report.evaluations, sentences.language(report.interaction.answer))

    def add_scores(self, evaluations: Iterable[Evaluation], language: Language) -> None:
        """Take one answer's evaluations in."""
        evaluations = tuple(evaluations)
        self.lines += 1
        self.tally.add(evaluations)
        self.languages.setdefault(language, Tally()).add(evaluations)
        found = bottleneck_of(evaluations)
        if found is not None:
            self.bottlenecks[found] += 1

    @property
    def by_language(self) -> dict[str, Tally]:
        """The tally of each language; empty unless there are two."""
        parts = sorted(self.languages.items()) if len(self.languages) > 1 else ()
        return {str(name): part for name, part in parts}

    def as_json(self) -> dict[str, Any]:
        """Return an object for JSON."""
        usage = self.usage
        return {
            "lines": self.lines,
            "bad_lines": self.bad_lines,
            "resumed": self.resumed,
            "interrupted": self.is_interrupted,
            "judge": self.judge,
            "judge_calls": usage.calls,
            "judge_tokens": usage.input_tokens + usage.output_tokens,
            "judge_cost_usd": round(usage.cost_usd, 6),
            "evaluators": self.tally.as_json(),
            "languages": {name: part.as_json() for name, part in self.by_language.items()},
            "bottlenecks": {
                name.value: self.bottlenecks[name] for name in Bottleneck if self.bottlenecks[name]
            },
        }
