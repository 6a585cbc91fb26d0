"""Collects from the reports, as they come, what the demo shows; in bounded memory."""

from __future__ import annotations

import threading
import time
from bisect import bisect_right
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ragmonitor.cli.demo.demo_goldens import GoldenFigures
from ragmonitor.cli.demo.phases import PHASES, Phase
from ragmonitor.records import (
    AlarmCause,
    AlarmEvent,
    Assessment,
    Estimate,
    Report,
    Scored,
    SentenceVerdict,
    Snapshot,
    Verdict,
    evaluator_name,
)
from ragmonitor.stats.score_mean import ScoreMean

MAX_ASKED = 2_000
"""Per framework; answers come back long before as many new questions are asked."""
MAX_BINS = 2_000
MAX_WORST = 3
MAX_LATEST = 3
MAX_ALARMS = 50


@dataclass(slots=True, kw_only=True)
class PhaseSums:
    """Sums over the answers of one phase."""

    interactions: int = 0
    refusals: int = 0
    faithfulness: ScoreMean = field(default_factory=ScoreMean)
    hallucinated: ScoreMean = field(default_factory=ScoreMean)

    @property
    def mean_faithfulness(self) -> Estimate | None:
        """The mean with its interval; None: nothing was scored."""
        return self.faithfulness.estimate

    @property
    def hallucination_rate(self) -> Estimate | None:
        """Share of answers with an unsupported claim, with its interval."""
        return self.hallucinated.estimate


@dataclass(frozen=True, slots=True, kw_only=True)
class UnsupportedAnswer:
    """An answer with a sentence that its context does not support."""

    framework: str
    phase: Phase
    question: str
    answer: str
    sentence: SentenceVerdict
    """The first of its unsupported sentences."""
    faithfulness: float
    risk: float

    def as_json(self) -> dict[str, Any]:
        """Return an object for JSON."""
        return {
            "framework": self.framework,
            "phase": self.phase,
            "question": self.question,
            "answer": self.answer,
            "sentence": self.sentence.text,
            "verdict": self.sentence.verdict.value,
            "words": list(self.sentence.words),
            "faithfulness": round(self.faithfulness, 4),
            "risk": round(self.risk, 4),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceivedAlarm:
    """An alarm, and when the demo received it."""

    event: AlarmEvent
    at_s: float
    """The time by `time.monotonic`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeBin:
    """Sums over a short time of the demo: one column of the chart."""

    total: float = 0.0
    scored: int = 0
    during: int = 0
    """The number of them that were asked in a spike."""


class Collector:
    """An exporter that is also told of every question before it is asked."""

    def __init__(self, *, bin_s: float) -> None:
        self.bin_s = bin_s
        self.began_ns = time.time_ns()
        self.asked: Counter[str] = Counter()
        """The numbers by framework."""
        self.failures: Counter[str] = Counter()
        """The numbers by framework."""
        self.last_failure = ""
        self.phases: dict[Phase, PhaseSums] = {phase: PhaseSums() for phase in PHASES}
        self.latest: deque[UnsupportedAnswer] = deque(maxlen=MAX_LATEST)
        self.worst: list[UnsupportedAnswer] = []
        self.bins: dict[int, TimeBin] = {}
        self.alarms: deque[ReceivedAlarm] = deque(maxlen=MAX_ALARMS)
        self.cause: AlarmCause | None = None
        """The cause of the newest alarm, as soon as it is known."""
        self.goldens = GoldenFigures()
        self.phase_now: Callable[[], Phase] = lambda: "before"
        self._asked_at: dict[str, deque[tuple[int, Phase]]] = {}
        self._lock = threading.Lock()

    # --- from the askers ------------------------------------------------------------------------

    def asking(self, framework: str, phase: Phase) -> None:
        """Note that a question is about to be asked."""
        with self._lock:
            self.asked[framework] += 1
            noted = self._asked_at.setdefault(framework, deque(maxlen=MAX_ASKED))
            noted.append((time.time_ns(), phase))

    def failed(self, framework: str, error: Exception) -> None:
        """Note that an application raised."""
        with self._lock:
            self.failures[framework] += 1
            self.last_failure = f"{type(error).__name__}: {error}"

    # --- from the worker ------------------------------------------------------------------------

    def export(self, report: Report) -> None:
        """Take in one report of the built-in judge; another judge's would count twice."""
        if report.role != "builtin":
            return
        interaction, assessment = report.interaction, report.assessment
        with self._lock:
            phase = self._phase(interaction.framework, interaction.started_ns)
            sums = self.phases[phase]
            sums.interactions += 1
            if assessment is None:
                return
            sums.refusals += bool(assessment.evasive)
            if assessment.hallucinated is not None and interaction.chunks:
                sums.hallucinated.add(float(assessment.hallucinated))
            faithfulness = _score(report)
            if faithfulness is None:
                return
            sums.faithfulness.add(faithfulness)
            self._into_bin(interaction.started_ns, faithfulness, phase)
            sentence = _unsupported(assessment)
            if sentence is not None:
                self._keep_unsupported(
                    UnsupportedAnswer(
                        framework=interaction.framework,
                        phase=phase,
                        question=interaction.query,
                        answer=interaction.answer,
                        sentence=sentence,
                        faithfulness=faithfulness,
                        risk=assessment.risk or 0.0,
                    )
                )

    def alarm(self, event: AlarmEvent) -> None:
        """Take note of an alarm."""
        self.alarms.append(ReceivedAlarm(event=event, at_s=time.monotonic()))

    def snapshot(self, snapshot: Snapshot) -> None:
        """Take note of the alarm's cause, once it is known, and of the golden questions."""
        if snapshot.gauges:
            self.goldens.note(self.phase_now(), snapshot.gauges)
        if snapshot.cause is not None and snapshot.cause.cause != "unknown":
            self.cause = snapshot.cause

    @property
    def active(self) -> ReceivedAlarm | None:
        """The newest alarm about the answers that is not cleared; None: there is none."""
        latest: dict[str, ReceivedAlarm] = {}
        for received in tuple(self.alarms):
            if is_of_traffic(received.event):
                latest[received.event.signal] = received
        raised = [each for each in latest.values() if each.event.raised]
        return max(raised, key=lambda each: each.at_s, default=None)

    def unsupported_answers(self, event: AlarmEvent) -> list[UnsupportedAnswer]:
        """Return the worst answers behind an alarm."""
        found = []
        for example in event.examples:
            sentence = _unsupported(example.assessment)
            if sentence is None:
                continue
            with self._lock:
                phase = self._phase(example.interaction.framework, example.interaction.started_ns)
            found.append(
                UnsupportedAnswer(
                    framework=example.interaction.framework,
                    phase=phase,
                    question=example.interaction.query,
                    answer=example.interaction.answer,
                    sentence=sentence,
                    faithfulness=1 - example.badness,
                    risk=1.0,
                )
            )
        return found

    def flush(self, timeout_s: float) -> bool:
        """Have nothing to send."""
        return timeout_s >= 0

    def close(self) -> None:
        """Have nothing to release."""

    def _phase(self, framework: str, started_ns: int) -> Phase:
        """Return the phase in which an interaction's question was asked.

        An asker asks one question after the other, so it is the last one noted before the start.
        """
        noted = self._asked_at.get(framework)
        if not noted:
            return "before"
        position = bisect_right(noted, started_ns, key=lambda note: note[0])
        return noted[max(0, position - 1)][1]

    def _into_bin(self, started_ns: int, faithfulness: float, phase: Phase) -> None:
        number = max(0, int((started_ns - self.began_ns) / 1e9 / self.bin_s))
        known = self.bins.get(number, TimeBin())
        self.bins[number] = TimeBin(
            total=known.total + faithfulness,
            scored=known.scored + 1,
            during=known.during + (phase == "during"),
        )
        while len(self.bins) > MAX_BINS:
            del self.bins[next(iter(self.bins))]

    def _keep_unsupported(self, unsupported: UnsupportedAnswer) -> None:
        self.latest.appendleft(unsupported)
        known = [o for o in self.worst if o.answer != unsupported.answer]
        self.worst = sorted([*known, unsupported], key=lambda o: (o.faithfulness, -o.risk))[
            :MAX_WORST
        ]


def is_of_traffic(event: AlarmEvent) -> bool:
    """Return whether an alarm is about the answers to the demo's users."""
    return event.kind == "quality" and not event.signal.startswith("golden_")


def _unsupported(assessment: Assessment | None) -> SentenceVerdict | None:
    """Return the first sentence that the context does not support."""
    claims = () if assessment is None else assessment.claims or ()
    return next((claim for claim in claims if claim.verdict is not Verdict.SUPPORTED), None)


def _score(report: Report) -> float | None:
    for evaluation in report.evaluations:
        if evaluator_name(evaluation.evaluator) == "faithfulness":
            return evaluation.score if isinstance(evaluation, Scored) else None
    return None
