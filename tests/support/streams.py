"""Simulated traffic of which the truth is known: seeded answers, as records that estimates read.

A built-in score is binormal: standard normal for sound answers, shifted for hallucinated ones so
that its AUROC is the one asked for (Hanley & McNeil 1982, AUROC = Phi(shift / sqrt 2)), then
squashed to a risk from 0 to 1.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from statistics import NormalDist
from typing import NamedTuple

from ragmonitor.evaluators.table import Entry, table
from ragmonitor.records import (
    Assessment,
    Cause,
    Chunk,
    Diagnosis,
    Evaluation,
    Interaction,
    JudgeIdentity,
    Language,
    Report,
    SamplingDecision,
    Scored,
    SentenceVerdict,
    Unscored,
    Verdict,
)

MINUTE_S = 60.0
HOUR_S = 3_600.0
DAY_S = 86_400.0

Course = Callable[[float], float]
"""A figure over time: seconds since the stream began -> value."""


def steady(value: float) -> Course:
    """Return a figure that never changes."""
    return lambda _: value


def step(before: float, after: float, *, at_s: float) -> Course:
    """Return a figure that changes at once and stays."""
    return lambda t: before if t < at_s else after


def spike(base: float, peak: float, *, at_s: float, for_s: float) -> Course:
    """Return a figure that is `peak` for a while."""
    return lambda t: peak if at_s <= t < at_s + for_s else base


def drift(before: float, after: float, *, at_s: float, over_s: float) -> Course:
    """Return a figure that moves in a straight line."""
    return lambda t: before + (after - before) * min(1.0, max(0.0, (t - at_s) / over_s))


def rhythm(low: float, high: float) -> Course:
    """Return a figure that swings between two values over each day."""
    middle, swing = (low + high) / 2, (high - low) / 2
    return lambda t: middle + swing * math.sin(2 * math.pi * t / DAY_S)


class Answer(NamedTuple):
    """One answer, with what nobody knows of it."""

    at_s: float
    """Since the stream began."""
    number: int
    score: float
    """The built-in judge's, before it is squashed."""
    hallucinated: bool
    """The truth, given that the answer claims something."""
    refused: bool
    supported: float
    """Share of its claims that hold; 1 if it is not hallucinated."""
    relevancy: float
    """What a judge says of its relevancy; 0 to 1."""
    embedded_relevancy: float
    """What the built-in judge says of it; correlated 0.5 before squashing."""
    session: str
    language: Language
    luck: float
    """A number of its own from 0 to 1, for a judge that errs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bursts:
    """Short times of much traffic, in which answers may be worse."""

    per_day: float = 6.0
    for_s: float = 600.0
    traffic: float = 10.0
    """Times as many answers."""
    worse: float = 1.0
    """Times as high a rate."""

    def times(self, rng: random.Random, for_s: float) -> list[float]:
        """Return when they begin, in order."""
        count = round(self.per_day * for_s / DAY_S)
        return sorted(rng.uniform(0, for_s) for _ in range(count))


@dataclass(frozen=True, slots=True, kw_only=True)
class Stream:
    """What is simulated. The same stream twice gives the same answers."""

    seed: int = 0
    for_s: float = DAY_S
    per_minute: float = 60.0
    swing: float = 0.0
    """Traffic goes up and down by this share over a day."""
    bursts: Bursts | None = None
    rate: Course = field(default_factory=lambda: steady(0.04))
    """Share of answers that are hallucinated, of those that claim something."""
    auroc: Course = field(default_factory=lambda: steady(0.8))
    """Of the built-in judge's score."""
    score_moves: Course = field(default_factory=lambda: steady(0.0))
    """What is added to the built-in judge's score of every answer, in standard deviations."""
    refusals: float = 0.0
    chinese: float = 0.0
    session_length: float = 1.0
    """Mean number of answers in a session."""
    session_correlation: float = 0.0
    """Of two answers' truths within a session (beta-binomial)."""
    sessions_open: int = 8

    def answers(self) -> Iterator[Answer]:
        """Return the answers in order of time."""
        rng = random.Random(self.seed)
        bursts = self.bursts.times(rng, self.for_s) if self.bursts is not None else []
        sessions = _Sessions(self, rng)
        at_s, number = 0.0, 0
        while True:
            in_burst = False
            if self.bursts is not None:
                while bursts and bursts[0] + self.bursts.for_s < at_s:
                    bursts.pop(0)
                in_burst = bool(bursts) and bursts[0] <= at_s
            # Traffic changes slowly beside the gaps between answers.
            at_s += rng.expovariate(self._per_second(at_s, in_burst=in_burst))
            if at_s >= self.for_s:
                return
            rate = self.rate(at_s)
            if in_burst and self.bursts is not None:
                rate = min(1.0, rate * self.bursts.worse)
            session, chance = sessions.next(rate)
            hallucinated = rng.random() < chance
            shift = _shift(self.auroc(at_s)) if hallucinated else 0.0
            latent = rng.gauss(0, 1)
            yield Answer(
                at_s=at_s,
                number=number,
                score=rng.gauss(0, 1) + shift + self.score_moves(at_s),
                hallucinated=hallucinated,
                refused=self.refusals > 0 and rng.random() < self.refusals,
                supported=rng.choice(SUPPORTED) if hallucinated else 1.0,
                relevancy=_squash(1.5 + latent),
                embedded_relevancy=_squash(1.5 + 0.5 * latent + 0.866 * rng.gauss(0, 1)),
                session=session,
                language="zh" if self.chinese > 0 and rng.random() < self.chinese else "en",
                luck=rng.random(),
            )
            number += 1

    def _per_second(self, at_s: float, *, in_burst: bool) -> float:
        traffic = self.bursts.traffic if in_burst and self.bursts is not None else 1.0
        daily = 1 + self.swing * math.sin(2 * math.pi * at_s / DAY_S)
        return self.per_minute / MINUTE_S * traffic * daily


SUPPORTED = (0.0, 0.25, 1 / 3, 0.5, 0.5, 2 / 3, 0.75)
"""Share of the claims of a hallucinated answer that hold; one as likely as the other."""


def _shift(auroc: float) -> float:
    found = _SHIFTS.get(auroc)
    if found is None:
        found = _SHIFTS[auroc] = math.sqrt(2) * NormalDist().inv_cdf(auroc)
    return found


_SHIFTS: dict[float, float] = {}


def _squash(value: float) -> float:
    return 1 / (1 + math.exp(-value))


class _Sessions:
    """Who speaks next, and how likely that session's answers are hallucinated."""

    def __init__(self, stream: Stream, rng: random.Random) -> None:
        self._stream = stream
        self._rng = rng
        self._count = 0
        self._open: list[tuple[str, int, float]] = [("", 0, 0.0)] * stream.sessions_open

    def next(self, rate: float) -> tuple[str, float]:
        stream, rng = self._stream, self._rng
        if stream.session_length <= 1:
            return "", rate
        slot = rng.randrange(len(self._open))
        name, left, quantile = self._open[slot]
        if left <= 0:
            self._count += 1
            name, quantile = f"s{self._count}", rng.random()
            left = 1
            while rng.random() > 1 / stream.session_length:
                left += 1
        self._open[slot] = (name, left - 1, quantile)
        return name, _session_rate(rate, quantile, stream.session_correlation)


def _session_rate(rate: float, quantile: float, correlation: float) -> float:
    """Return a session's own rate, with that mean and within-session correlation.

    Two kinds of sessions: those whose answers are bad with chance h, a share rate / h of all, and
    those without any. Their correlation is (h - rate) / (1 - rate).
    """
    if correlation <= 0 or not 0 < rate < 1:
        return rate
    bad = rate + correlation * (1 - rate)
    return bad if quantile < rate / bad else 0.0


LEXICAL = JudgeIdentity(name="builtin", version="1", kind="CODE")
JUDGE = JudgeIdentity(name="judge", version="1", kind="LLM")

_LEVELS = 200
_FINE = 16
_SENTENCES = {
    verdict: SentenceVerdict(text="So it is.", start=0, end=9, verdict=verdict)
    for verdict in Verdict
}
_CHUNKS = (
    Chunk(text="So it is, and so it was.", score=0.8),
    Chunk(text="So it was.", score=0.6),
)
_ASKED = ("How high is", "Who built", "When was the opening of", "What does it cost to visit")
_THINGS = ("tower", "wall", "river", "bridge", "museum", "harbour", "garden", "library", "station")
_PLACES = ("Paris", "Lyon", "Lille", "Nantes", "Nice", "Rennes", "Reims", "Dijon", "Brest", "Tours")
_CONTEXT = (0.75, 0.25)


def _question(number: int) -> str:
    asked, thing = _ASKED[number % len(_ASKED)], _THINGS[number // 4 % len(_THINGS)]
    return f"{asked} the {thing} of {_PLACES[number // 36 % len(_PLACES)]}?"


class Records:
    """Turns answers into what the classes under test read; equal parts are made once."""

    def __init__(
        self,
        *,
        began_s: float = 1_800_000_000.0,
        judge: JudgeIdentity = JUDGE,
        evaluators: Sequence[str] = (),
        questions: bool = False,
        seed: int = 0,
    ) -> None:
        """Begin.

        Args:
            began_s: Seconds since the epoch at which streams begin.
            judge: Who gives the verdicts.
            evaluators: Whose scores are in the reports; empty: the default ones.
            questions: Whether they have texts; without, what watches questions costs nothing.
            seed: Of the ids, and so of the coins.
        """
        self.began_s = began_s
        self.judge = judge
        self._questions = questions
        self._seed = seed
        self._entries = tuple(table.select(evaluators))
        self._read: dict[
            tuple[object, ...], tuple[Assessment, tuple[Evaluation, ...], Diagnosis]
        ] = {}

    @property
    def evaluators(self) -> tuple[str, ...]:
        """Names of those whose scores are in the reports."""
        return tuple(entry.name for entry in self._entries)

    def interaction(self, answer: Answer) -> Interaction:
        """Return what was asked and answered."""
        at_ns = int((self.began_s + answer.at_s) * 1e9)
        return Interaction(
            id=f"{self._seed:08x}{answer.number:024x}",
            query=_question(answer.number) if self._questions else "",
            chunks=_CHUNKS,
            answer="So it is.",
            framework="python",
            started_ns=at_ns,
            ended_ns=at_ns,
            session_id=answer.session,
        )

    def builtin(self, answer: Answer, interaction: Interaction) -> Report:
        """Return the built-in judge's report."""
        # A tenth of the sound answers lie above 1.28 and look hallucinated.
        risk = round(_squash(1.5 * (answer.score - 1.28)) * _LEVELS)
        relevancy = round(answer.embedded_relevancy * _FINE)
        return self._report(interaction, LEXICAL, risk, relevancy, answer)

    def judged(
        self, answer: Answer, interaction: Interaction, decision: SamplingDecision
    ) -> Report:
        """Return the judge's report."""
        return self.verdict(answer, interaction, decision, hallucinated=answer.hallucinated)

    def verdict(
        self,
        answer: Answer,
        interaction: Interaction,
        decision: SamplingDecision,
        *,
        hallucinated: bool,
    ) -> Report:
        """Return the report of a judge that says so, rightly or not."""
        supported = 1.0
        if hallucinated:
            supported = answer.supported if answer.hallucinated else 0.5
        relevancy = round(answer.relevancy * _FINE)
        return self._report(interaction, self.judge, None, relevancy, answer, supported, decision)

    def failed(self, interaction: Interaction, decision: SamplingDecision) -> Report:
        """Return the report of a judge that gave nothing."""
        return Report(
            interaction=interaction,
            judge=self.judge,
            evaluations=tuple(
                Unscored(evaluator=entry.identity, judge=self.judge, cause=Cause.JUDGE_TIMEOUT)
                for entry in self._entries
            ),
            assessment=None,
            decision=decision,
        )

    def _report(  # noqa: PLR0917
        self,
        interaction: Interaction,
        judge: JudgeIdentity,
        risk: int | None,
        relevancy: int,
        answer: Answer,
        supported: float = 1.0,
        decision: SamplingDecision | None = None,
    ) -> Report:
        key = (risk, relevancy, answer.refused, answer.language, supported, judge)
        found = self._read.get(key)
        if found is None:
            found = self._read[key] = _reading(*key, self._entries)
        assessment, evaluations, diagnosis = found
        if decision is None:
            return Report(
                interaction=interaction,
                judge=judge,
                evaluations=evaluations,
                assessment=assessment,
                diagnosis=diagnosis,
            )
        return Report(
            interaction=interaction,
            judge=judge,
            evaluations=evaluations,
            assessment=assessment,
            decision=decision,
            diagnosis=diagnosis,
        )


def _reading(  # noqa: PLR0917
    risk: int | None,
    relevancy: int,
    refused: bool,
    language: Language,
    supported: float,
    judge: JudgeIdentity,
    entries: Sequence[Entry],
) -> tuple[Assessment, tuple[Evaluation, ...], Diagnosis]:
    share = None if risk is None else risk / _LEVELS
    if share is not None and share > 0.5:
        supported = 1 - math.ceil((share - 0.5) * 10) / 5
    bad = supported < 1
    assessment = Assessment(
        judge=judge,
        language=language,
        sentences=(_SENTENCES[Verdict.ABSENT if bad else Verdict.SUPPORTED],),
        answer_relevancy=relevancy / _FINE,
        evasive=refused,
        chunk_relevance=_CONTEXT,
        risk=share,
    )
    scores = {
        "faithfulness": None if refused else supported,
        "answer_relevancy": None if refused else relevancy / _FINE,
        "context_relevance": sum(_CONTEXT) / 2 * (1 + relevancy / _FINE) / 2,
        "context_utilization": None if refused else (0.5 if bad else 1.0),
        "hallucination": None if refused else float(bad),
    }
    evaluations: list[Evaluation] = []
    for entry in entries:
        score = scores.get(entry.name)
        evaluations.append(
            Unscored(evaluator=entry.identity, judge=judge, cause=Cause.REFUSAL)
            if score is None
            else Scored(evaluator=entry.identity, judge=judge, score=score)
        )
    diagnosis = (
        Diagnosis.REFUSAL if refused else Diagnosis.UNSUPPORTED_ADDITION if bad else Diagnosis.OK
    )
    return assessment, tuple(evaluations), diagnosis
