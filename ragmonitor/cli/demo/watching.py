"""Takes from the reports, as they come, what the demo shows; in bounded memory."""

from __future__ import annotations

import threading
import time
from bisect import bisect_right
from collections import Counter, deque
from dataclasses import dataclass
from typing import Any, Final

from ragmonitor.cli.demo.spikes import PHASES, Phase
from ragmonitor.records import (
    AlarmCause,
    AlarmEvent,
    JudgeRole,
    Report,
    SentenceVerdict,
    Snapshot,
    Verdict,
)

MAX_ASKED: Final = 2_000
"""Per framework; answers come back long before as many new questions are asked."""
MAX_SHOWN: Final = 3
MAX_ALARMS: Final = 50


@dataclass(slots=True)
class PhaseCounts:
    """Counts over the answers of one phase."""

    answers: int = 0
    refusals: int = 0
    claiming: int = 0
    """Answers that claim something."""
    bad: int = 0
    """Those of them with a claim that their chunks do not support."""

    @property
    def rate(self) -> float | None:
        """The hallucination rate; None: nothing was claimed."""
        return self.bad / self.claiming if self.claiming else None


@dataclass(frozen=True, slots=True, kw_only=True)
class BadAnswer:
    """An answer with a sentence that its chunks do not support."""

    framework: str
    phase: Phase
    question: str
    answer: str
    sentence: SentenceVerdict
    badness: float
    """Share of its claims that are not supported."""

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
        }


class Watching:
    """An exporter that is also told of every question before it is asked."""

    def __init__(self) -> None:
        self.role: JudgeRole = "builtin"
        """Whose reports are counted: another judge's would count twice."""
        self.asked: Counter[str] = Counter()
        """The numbers by framework."""
        self.failures: Counter[str] = Counter()
        self.last_failure = ""
        self.phases = {phase: PhaseCounts() for phase in PHASES}
        self.spike_s: list[float] = []
        """When the first spike began and ended, in seconds since the epoch."""
        self.latest: deque[BadAnswer] = deque(maxlen=MAX_SHOWN)
        self.worst: list[BadAnswer] = []
        self.alarms: deque[AlarmEvent] = deque(maxlen=MAX_ALARMS)
        self.cause: AlarmCause | None = None
        """The cause of the newest alarm, as soon as it is known."""
        self._asked_at: dict[str, deque[tuple[int, Phase]]] = {}
        self._lock = threading.Lock()

    # --- from the askers ------------------------------------------------------------------------

    def asking(self, framework: str, phase: Phase) -> None:
        """Note that a question is about to be asked."""
        with self._lock:
            self.asked[framework] += 1
            if len(self.spike_s) < PHASES.index(phase):
                self.spike_s.append(time.time())
            noted = self._asked_at.setdefault(framework, deque(maxlen=MAX_ASKED))
            noted.append((time.time_ns(), phase))

    def failed(self, framework: str, error: Exception) -> None:
        """Note that an application raised."""
        with self._lock:
            self.failures[framework] += 1
            self.last_failure = f"{type(error).__name__}: {error}"

    # --- from the worker ------------------------------------------------------------------------

    def export(self, report: Report) -> None:
        """Take in one report."""
        interaction, assessment = report.interaction, report.assessment
        if report.role != self.role or assessment is None:
            return
        with self._lock:
            phase = self._phase(interaction.framework, interaction.started_ns)
            counts = self.phases[phase]
            counts.answers += 1
            counts.refusals += bool(assessment.evasive)
            if assessment.hallucinated is None or not interaction.chunks:
                return
            counts.claiming += 1
            counts.bad += assessment.hallucinated
            claims = assessment.claims or ()
            bad = [each for each in claims if each.verdict is not Verdict.SUPPORTED]
            if not bad:
                return
            found = BadAnswer(
                framework=interaction.framework,
                phase=phase,
                question=interaction.query,
                answer=interaction.answer,
                sentence=bad[0],
                badness=len(bad) / len(claims),
            )
            self.latest.appendleft(found)
            others = [each for each in self.worst if each.answer != found.answer]
            # With words to mark where there are any.
            self.worst = sorted(
                [found, *others], key=lambda each: (-each.badness, not each.sentence.words)
            )[:MAX_SHOWN]

    def alarm(self, event: AlarmEvent) -> None:
        """Take note of an alarm on the answers."""
        if event.kind == "quality":
            self.alarms.append(event)

    def snapshot(self, snapshot: Snapshot) -> None:
        """Take note of the alarm's cause, once it is known."""
        if snapshot.cause is not None and snapshot.cause.cause != "unknown":
            self.cause = snapshot.cause

    @property
    def active(self) -> AlarmEvent | None:
        """The newest alarm that is not cleared; None: there is none."""
        latest = {event.signal: event for event in tuple(self.alarms)}
        return next((each for each in reversed(latest.values()) if each.raised), None)

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
