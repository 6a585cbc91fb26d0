"""What parts are told of an answer: whose verdicts count, and each for how much."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from ragmonitor.estimation import Alarms, Part, Predictions, Statistics, WindowedMeans
from ragmonitor.estimation.parts import Answer
from ragmonitor.records import CompletedAnswer, JudgeIdentity, Report, SamplingDecision
from ragmonitor.testing import ManualClock
from tests.support.stories import assessment, interaction

READER = JudgeIdentity(name="builtin:encoder", version="1", kind="CODE")
RULES = JudgeIdentity(name="builtin", version="1", kind="CODE")
MODEL = JudgeIdentity(name="model", version="1", kind="LLM")
DRAWN = SamplingDecision(inclusion_probability=0.25, drawn=True, rate=0.5)


class Seen(Part):
    """Keeps the answers."""

    def __init__(self) -> None:
        self.answers: list[Answer] = []

    def add(self, answer: Answer) -> Sequence:
        self.answers.append(answer)
        return ()


def told(
    completed: CompletedAnswer, *, judge: str | None, now: Callable[[], float] = time.time
) -> Answer:
    """Return the answer as parts see it."""
    seen = Seen()
    Statistics(
        [seen],
        means=WindowedMeans(builtin=READER.name, judge=judge, clock=ManualClock()),
        alarms=Alarms((), false_alarm_every_days=30.0, now=now),
        predictions=None if judge is None else Predictions(judge=judge),
    ).add(completed)
    return seen.answers[0]


def report(judge: JudgeIdentity, verdict: str) -> Report:
    return Report(
        interaction=interaction(), judge=judge, evaluations=(), assessment=assessment(verdict)
    )


def test_without_a_sampled_judge_the_readers_verdicts_count():
    """Each for one answer."""
    read = told(CompletedAnswer(builtin=report(READER, "absent")), judge=None)
    assert read.verdicts is read.builtin
    assert (read.weight, read.importance_weight) == (1.0, 1.0)
    assert read.report.judge == READER


def test_verdicts_of_who_stood_in_for_the_reader_do_not_count():
    """The two have little in common."""
    read = told(CompletedAnswer(builtin=report(RULES, "absent")), judge=None)
    assert read.verdicts is None


def test_with_a_sampled_judge_its_verdicts_alone_count():
    """An answer that it did not read has none, whatever the reader says."""
    builtin, judged = report(READER, "absent"), report(MODEL, "supported")
    drawn = told(CompletedAnswer(builtin=builtin, decision=DRAWN, judged=judged), judge=MODEL.name)
    assert drawn.verdicts is drawn.judged
    assert (drawn.weight, drawn.importance_weight) == (4.0, 2.0)
    assert drawn.report.judge == MODEL
    others = told(CompletedAnswer(builtin=builtin, decision=DRAWN), judge=MODEL.name)
    assert others.verdicts is None


def test_no_answer_was_given_later_than_now():
    """One whose clock was ahead would leave others behind in slices, documents and versions."""
    builtin = report(READER, "absent")
    ended_s = builtin.interaction.ended_ns / 1e9
    ahead = told(CompletedAnswer(builtin=builtin), judge=None, now=lambda: ended_s - 60)
    assert ahead.at_s == ended_s - 60
    on_time = told(CompletedAnswer(builtin=builtin), judge=None, now=lambda: ended_s + 60)
    assert on_time.at_s == ended_s
