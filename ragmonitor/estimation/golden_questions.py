"""Estimates from golden questions: scores, availability, and whose fault a fall is."""

from __future__ import annotations

import hashlib
import math
import time
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

import msgspec

from ragmonitor import metrics
from ragmonitor.estimation.alarm_streams import FLIPS_OBJECTIVE
from ragmonitor.estimation.alarms import Alarms, Stream
from ragmonitor.estimation.beta import beta_share
from ragmonitor.estimation.golden_history import Level, ScoreHistory, level_of, share_of
from ragmonitor.estimation.parts import Means, Observation, Part
from ragmonitor.guard import record_error, record_unkept
from ragmonitor.records import (
    AlarmEvent,
    AlarmState,
    Estimate,
    GaugeValue,
    GoldenAnswer,
    Interaction,
    Report,
    Scored,
    Window,
    evaluator_name,
)
from ragmonitor.state import State

GOLDEN: Final = "golden_"
"""Begins the names of signals of golden questions."""
CORRECTNESS: Final = "answer_correctness"
AVAILABILITY: Final = "golden_availability"
REFERENCES: Final = "golden_references"
WATCHED: Final = (CORRECTNESS, "context_recall", "refusal_correctness")
MAX_DROP: Final = 0.05
"""Scores may be so far, on average, below what each question's own history lets expect."""
MIN_AVAILABILITY: Final = 0.95
SHARES: Final = (0.4, 0.15, 0.15, 0.15, 0.15)
"""The shares of the false alarms that golden questions are allowed: the watched scores, then
availability, then reference answers."""
MIN_OWN_SCORE: Final = 0.75
"""Correctness of the reference answer beside itself, below which the judge cannot read it."""
MANY_FLIPS: Final = 0.001
"""Probability of so many flips at once, below which the judge is named."""
MAX_QUESTIONS: Final = 5_000
"""Questions with a history; the one asked longest ago gives way."""
GONE_AFTER_ROUNDS: Final = 5
"""A question that was not asked in so many rounds of all that have a history is asked no more, and
is forgotten: who took it out of the set wants it neither in the mean nor among those at fault."""
MAX_ASKS: Final = 20_000
"""Askings of the last day of which outcome and time are kept."""
MAX_SHOWN: Final = 30
"""Questions on the page."""
KEEP_EACH_S: Final = 10.0
STATE_VERSION: Final = 1
WINDOWS: Final[dict[Window, float]] = {"1h": 3_600.0, "24h": 86_400.0}
PERCENTILES: Final = (50, 95)


def half(difference: float) -> float:
    """Return a difference, -1 to 1, on a scale from 0 to 1."""
    return (1.0 + difference) / 2


class _Question(
    msgspec.Struct, kw_only=True, omit_defaults=True, rename={"first_reference": "first"}
):
    """The history of one golden question; no text of it is kept."""

    version: str
    """The version of its texts: other texts are another question."""
    text: str = ""
    judge: str = ""
    """The judge whose scores these are, with its version."""
    scores: dict[str, ScoreHistory] = {}
    outcome: str = ""
    """What came of its last asking; empty: it was not asked since the process began."""
    at_s: float = 0.0
    asked: int = 0
    """The number of its last asking, of the askings of all questions."""
    first_reference: bool | None = None
    """Whether the judge bore the reference answer out when it first read it; None: not read."""
    reference: bool | None = None
    """Whether it does now."""
    fault: str = ""
    """The fault that it finds with the reference answer."""


class GoldenQuestions(Part):
    """Scores of golden questions, each beside its own history, and the alarms that rest on them.

    An asking compares a question's score with the mean of its own earlier ones, `h`. The alarm on
    a score is on the mean of `(1 + y - h) / 2`, which is one half where nothing has changed and is
    to be at least `(1 - MAX_DROP) / 2`: the e-detector of `estimation.detector`, whose evidence is
    a number of days. As long as the scores of what is asked are, given the past, on average at most
    `MAX_DROP` below their history, and so on for the others, all golden alarms together are raised
    at most once in `false_alarm_every_days`; they are apart from those of the traffic, whose
    allowance they leave alone.

    The reference answer is read by the same judge beside every answer. Where it fails, the judge or
    the golden question is at fault: the question is named, and its score is left out. Where many
    that did not fail now do, the judge has changed: the alarm `golden_references`, of kind `judge`.

    Scores of a judge or an evaluator of another version begin a new history; reference answers do
    not.
    """

    def __init__(
        self,
        *,
        judge: str,
        false_alarm_every_days: float,
        shows_texts: bool = True,
        file: State | None = None,
        alarms_file: State | None = None,
        now: Callable[[], float] = time.time,
    ) -> None:
        """Begin with what the file holds.

        Args:
            judge: Who reads the answers.
            false_alarm_every_days: Of all alarms of golden questions together.
            shows_texts: Whether the page may show questions.
            file: Keeps the histories; of version `STATE_VERSION`.
            alarms_file: Keeps the alarms.
            now: Seconds since the epoch.
        """
        self._judge = judge
        self._shows_texts = shows_texts
        self._file = file
        self._now = now
        kinds = [(f"{GOLDEN}{name}", half(-MAX_DROP)) for name in WATCHED]
        self._alarms = Alarms(
            [
                Stream(
                    signal=signal,
                    judge=judge,
                    kind="judge" if signal == REFERENCES else "quality",
                    share=share,
                    higher_is_better=signal != REFERENCES,
                    default_objective=objective,
                )
                for (signal, objective), share in zip(
                    [*kinds, (AVAILABILITY, MIN_AVAILABILITY), (REFERENCES, FLIPS_OBJECTIVE)],
                    SHARES,
                    strict=True,
                )
            ],
            false_alarm_every_days=false_alarm_every_days,
            now=now,
            file=alarms_file,
        )
        self._questions: OrderedDict[str, _Question] = OrderedDict()
        self._asks: deque[tuple[float, bool, float]] = deque(maxlen=MAX_ASKS)
        self._outcomes: Counter[str] = Counter()
        self._asked = 0
        """The number of the last asking."""
        self._kept_s, self._is_new = -math.inf, False
        self._load()

    # --- taking in ------------------------------------------------------------------------------

    def probed(self, answer: GoldenAnswer) -> None:
        """Take in what came of one asking."""
        interaction = answer.report.interaction
        probe = interaction.probe
        if probe is None:
            return
        at_s = interaction.ended_ns / 1e9
        question = self._question(probe.golden, interaction)
        question.outcome, question.at_s = probe.outcome, at_s
        is_answered = probe.outcome == "answered"
        self._is_new = True
        self._outcomes[probe.outcome] += 1
        self._asks.append((at_s, is_answered, interaction.latency_s))
        self._observe(AVAILABILITY, float(is_answered), at_s)
        if answer.reference is not None:
            self._take_reference(question, answer.reference, at_s)
        if question.reference is not False:
            self._take_scores(question, answer.report, at_s)

    def _question(self, golden: str, interaction: Interaction) -> _Question:
        version = _version(interaction)
        known = self._questions.pop(golden, None)
        if known is None or known.version != version:
            known = _Question(version=version)
        known.text = interaction.query
        self._asked += 1
        known.asked = self._asked
        self._questions[golden] = known
        self._forget_gone()
        return known

    def _forget_gone(self) -> None:
        """Forget the questions that are asked no more, and those beyond `MAX_QUESTIONS`."""
        while True:
            oldest = next(iter(self._questions))
            askings = self._asked - self._questions[oldest].asked
            count = len(self._questions)
            if count <= MAX_QUESTIONS and askings <= GONE_AFTER_ROUNDS * count:
                return
            del self._questions[oldest]

    def _take_reference(self, question: _Question, report: Report, at_s: float) -> None:
        is_borne_out, fault = _borne_out(report)
        if is_borne_out is None:
            return
        question.reference, question.fault = is_borne_out, fault
        if question.first_reference is None:
            question.first_reference = is_borne_out
        elif question.first_reference:
            self._observe(REFERENCES, float(not is_borne_out), at_s)

    def _take_scores(self, question: _Question, report: Report, at_s: float) -> None:
        judge = str(report.judge)
        if report.assessment is not None and question.judge != judge:
            question.judge, question.scores = judge, {}
        for each in report.evaluations:
            if isinstance(each, Scored):
                name = evaluator_name(each.evaluator)
                history = question.scores.get(name)
                if history is None or history.evaluator not in ("", each.evaluator):
                    history = question.scores[name] = ScoreHistory()
                history.evaluator = each.evaluator
                expected = history.add(each.score, at_s)
                if expected is not None and name in WATCHED:
                    self._observe(f"{GOLDEN}{name}", half(each.score - expected), at_s)

    def _observe(self, signal: str, value: float, at_s: float) -> None:
        self._alarms.update(Observation(signal=signal, value=value, at_s=at_s))

    # --- now and then ---------------------------------------------------------------------------

    def tick(self) -> Iterable[Observation]:
        """Keep the histories, every few seconds."""
        if self._is_new and self._now() - self._kept_s >= KEEP_EACH_S:
            self._keep()
        return ()

    def alarm_events(self) -> Iterable[AlarmEvent]:
        """Return the alarms that were raised or cleared since this was last asked."""
        if not self._questions:
            return ()
        return [replace(each, detail=self._detail()) for each in self._alarms.apply(_no_estimate)]

    def _detail(self) -> str:
        level = self.level(CORRECTNESS, self._now() - WINDOWS["24h"])
        told = "Golden questions"
        if level is not None:
            told += f", correct to {level.mean:.2f} ({level.lower:.2f} to {level.upper:.2f})"
        if self.cause == "judge":
            return f"{told}: the judge rejects reference answers that it bore out before"
        return f"{told}: 0 is what each question's earlier answers let expect"

    def alarm_states(self) -> Iterable[AlarmState]:
        """Return where the alarms stand, once a golden question was asked."""
        return self._alarms.states() if self._questions else ()

    @property
    def cause(self) -> str:
        """The cause of a fall, as far as is known: `judge`, `application` or `none`.

        The judge is, too, as long as so many reference answers fail that did not, that a judge who
        contradicts itself as seldom as `FLIPS_OBJECTIVE` would do so once in a thousand looks.
        """
        active = {state.signal for state in self.alarm_states() if state.active}
        flips = [not each.reference for each in self._questions.values() if each.first_reference]
        k, n = sum(flips), len(flips)
        has_flipped = k > 0 and beta_share(FLIPS_OBJECTIVE, k, n - k + 1) < MANY_FLIPS
        if REFERENCES in active or has_flipped:
            return "judge"
        return "application" if active else "none"

    # --- showing --------------------------------------------------------------------------------

    def gauges(self, means: Means) -> Iterable[GaugeValue]:
        """Return every gauge of golden questions; nothing before the first was asked."""
        if not self._questions:
            return
        for window, length_s in WINDOWS.items():
            yield from self._windowed(window, self._now() - length_s)
        yield from self._plain()

    def _windowed(self, window: Window, since_s: float) -> Iterator[GaugeValue]:
        judge = self._judge
        for name, metric in metrics.GOLDEN_SCORES.items():
            if (level := self.level(name, since_s)) is not None:
                yield from GaugeValue.interval(metric, *level, judge=judge, window=window)
        for name in metrics.GOLDEN_RAGCHECKER_SCORES:
            if (level := self.level(f"ragchecker_{name}", since_s)) is not None:
                labels = {"metric": name, "judge": judge, "window": window}
                yield from GaugeValue.interval(metrics.GOLDEN_RAGCHECKER, *level, **labels)
        asks = [each for each in self._asks if each[0] >= since_s]
        times = sorted(seconds for _, is_answered, seconds in asks if is_answered)
        if asks:
            available = share_of(len(times), len(asks))
            yield from GaugeValue.interval(metrics.GOLDEN_AVAILABILITY, *available, window=window)
        for percentile in PERCENTILES if times else ():
            value = times[min(len(times) - 1, percentile * len(times) // 100)]
            labels = {"percentile": str(percentile), "window": window}
            yield GaugeValue.of(metrics.GOLDEN_LATENCY_SECONDS, value, **labels)
        asked = sum(each.at_s >= since_s for each in self._questions.values())
        yield GaugeValue.of(metrics.GOLDEN_QUESTIONS, asked, window=window)

    def level(self, evaluator: str, since_s: float) -> Level | None:
        """Return the mean of a score over all questions as of now; as `level_of`."""
        histories = [
            history
            for each in self._questions.values()
            if each.reference is not False and (history := each.scores.get(evaluator)) is not None
        ]
        return level_of(histories, since_s)

    def _plain(self) -> Iterator[GaugeValue]:
        judge = self._judge
        read = [each for each in self._questions.values() if each.reference is not None]
        faults = sum(each.reference is False for each in read)
        yield GaugeValue.of(metrics.GOLDEN_FAULTS, faults, judge=judge)
        if read:
            yield GaugeValue.of(metrics.GOLDEN_REFERENCES, 1 - faults / len(read), judge=judge)
        for cause in ("judge", "application"):
            is_it = float(self.cause == cause)
            yield GaugeValue.of(metrics.GOLDEN_CAUSE, is_it, judge=judge, cause=cause)
        for outcome, n in self._outcomes.items():
            yield GaugeValue.of(metrics.GOLDEN_ASKS, n, outcome=outcome)

    def views(self) -> Mapping[str, Any]:
        """Return the questions that need somebody: at fault, unanswered, or fallen the furthest."""
        if not self._questions:
            return {}
        rows = [self._row(golden, each) for golden, each in self._questions.items()]
        rows.sort(
            key=lambda row: (-bool(row["fault"]), row["outcome"] in ("answered", ""), row["change"])
        )
        level = self.level(CORRECTNESS, self._now() - WINDOWS["24h"])
        return {
            "goldens": {
                "questions": len(rows),
                "cause": self.cause,
                "answer_correctness": None if level is None else list(level),
                "faults": sum(bool(row["fault"]) for row in rows),
                "worst": rows[:MAX_SHOWN],
            }
        }

    def _row(self, golden: str, question: _Question) -> dict[str, Any]:
        history = question.scores.get(CORRECTNESS)
        expected = None if history is None else history.expected
        newest = None if history is None else history.newest
        return {
            "id": golden,
            "question": question.text if self._shows_texts else "",
            "outcome": question.outcome,
            "answer_correctness": newest,
            "expected": expected,
            "change": 0.0 if newest is None or expected is None else newest - expected,
            "fault": (question.fault if self._shows_texts else "the judge rejects it")
            if question.reference is False
            else "",
        }

    # --- keeping --------------------------------------------------------------------------------

    def clear(self) -> None:
        """Forget what belongs to the parent of a forked process: it asks, and keeps the file."""
        self._questions.clear()
        self._asks.clear()
        self._outcomes.clear()
        self._alarms.clear()
        self._is_new = False

    def close(self) -> None:
        """Keep the histories."""
        if self._is_new:
            self._keep()
        self._alarms.close()

    def _load(self) -> None:
        if self._file is None:
            return
        try:
            told = self._file.read() or {"questions": {}}
            known = msgspec.convert(told.get("questions"), dict[str, _Question])
            self._questions.update(sorted(known.items(), key=lambda each: each[1].asked))
            self._asked = max((each.asked for each in known.values()), default=0)
        except OSError as error:
            record_unkept("histories of golden questions", self._file.place, error)
        except (ValueError, msgspec.MsgspecError) as error:  # one and the same from 0.21 on
            record_error("estimation", error)

    def _keep(self) -> None:
        self._kept_s, self._is_new = self._now(), False
        if self._file is None:
            return
        try:
            with self._file.alone():
                questions = {
                    golden: msgspec.structs.replace(each, text="", outcome="", fault="")
                    for golden, each in self._questions.items()
                }
                self._file.write({"questions": msgspec.to_builtins(questions)})
        except OSError as error:
            record_unkept("histories of golden questions", self._file.place, error)


def _no_estimate(_signal: str) -> Estimate | None:
    """Return None: windowed means are of the traffic."""
    return None


def _version(interaction: Interaction) -> str:
    texts = (
        interaction.query,
        interaction.reference,
        *(chunk.text for chunk in interaction.reference_chunks),
    )
    return hashlib.blake2b("\0".join(texts).encode("utf-8", "replace"), digest_size=8).hexdigest()


def _borne_out(report: Report) -> tuple[bool | None, str]:
    """Return whether the judge bears a reference answer out, and else what it says against it.

    It fails if a sentence of it is not in its own chunks, or if it is not found correct beside
    itself. None: the judge gave nothing, or found that it claims nothing.
    """
    assessment = report.assessment
    if assessment is None:
        return None, ""
    if assessment.hallucinated:
        sentences = [each.text.strip() for each in report.unsupported]
        return False, f"not in its chunks: {' '.join(sentences)[:200]}"
    scores = {
        evaluator_name(each.evaluator): each.score
        for each in report.evaluations
        if isinstance(each, Scored)
    }
    own = scores.get(CORRECTNESS)
    if own is not None and own < MIN_OWN_SCORE:
        return False, f"found correct to {own:.2f} beside itself"
    return (None, "") if own is None and assessment.hallucinated is None else (True, "")
