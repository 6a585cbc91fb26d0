"""Estimates from golden questions: scores, availability, and whose fault a fall is."""

from __future__ import annotations

import hashlib
import math
import time
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from ragmonitor.records import (
    AlarmEvent,
    AlarmState,
    GaugeValue,
    GoldenAnswer,
    Interaction,
    Report,
    Scored,
    Window,
    evaluator_name,
)
from ragmonitor.runtime.guard import record_error, record_problem
from ragmonitor.semconv import metrics
from ragmonitor.stats.alarm import Alarm
from ragmonitor.stats.beta import beta_cdf
from ragmonitor.stats.golden_history import Level, ScoreHistory, level_of, share_of
from ragmonitor.stats.parts import Means, Observation, Part
from ragmonitor.stats.streams import FLIPS_OBJECTIVE, Stream, alarm_state
from ragmonitor.stats.sums import BET_GROUPS
from ragmonitor.stats.tick import Shown
from ragmonitor.store import DAY_S, Memory, Store, StoreUnavailableError

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
KIND: Final = "golden"
ALARMS: Final = "golden alarm"
WINDOWS: Final[dict[Window, float]] = {"1h": 3_600.0, "24h": 86_400.0}


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


@dataclass(slots=True)
class _Watch:
    """The alarm on one score."""

    stream: Stream
    alarm: Alarm
    cells: dict[int, tuple[float, float, float, float]] = field(default_factory=dict)
    """Bets since the last step."""
    count: int = 0

    def note(self, value: float) -> None:
        """Take in one value; each is independent of the others."""
        self.count += 1
        bad = 1.0 - value if self.stream.higher_is_better else value
        self.cells[self.count % BET_GROUPS] = (1.0, bad, 0.0, 0.0)


class GoldenQuestions(Part):
    """Scores of golden questions, each beside its own history, and the alarms that rest on them.

    An asking compares a question's score with the mean of its own earlier ones, `h`. The alarm on
    a score is on the mean of `(1 + y - h) / 2`, which is one half where nothing has changed and is
    to be at least `(1 - MAX_DROP) / 2`: the e-detector of `stats.alarm`, whose evidence is a number
    of days. As long as the scores of what is asked are, given the past, on average at most
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
        store: Store | None = None,
        now: Callable[[], float] = time.time,
    ) -> None:
        """Begin with what the file holds.

        Args:
            judge: Who reads the answers.
            false_alarm_every_days: Of all alarms of golden questions together.
            shows_texts: Whether the page may show questions.
            store: Keeps histories and alarms; None: memory does.
            now: Seconds since the epoch.
        """
        self._judge = judge
        self._shows_texts = shows_texts
        self._store = Memory() if store is None else store
        self._now = now
        self._every_days = false_alarm_every_days
        kinds = [(f"{GOLDEN}{name}", half(-MAX_DROP)) for name in WATCHED]
        self._streams = [
            Stream(
                signal=signal,
                judge=judge,
                series=signal,
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
        ]
        self._begin()

    def _begin(self) -> None:
        self._watched = {
            each.signal: _Watch(
                each, Alarm.begin(each.badness(each.default_objective), self._days(each))
            )
            for each in self._streams
        }
        self._questions: OrderedDict[str, _Question] = OrderedDict()
        self._asks: deque[tuple[float, bool]] = deque(maxlen=MAX_ASKS)
        self._outcomes: Counter[str] = Counter()
        self._asked = 0
        """The number of the last asking."""
        self._kept_s, self._is_loaded = -math.inf, False
        self._new: set[str] = set()
        """Questions that are to be kept."""

    def _days(self, stream: Stream) -> float:
        return self._every_days / stream.share

    # --- taking in ------------------------------------------------------------------------------

    def probed(self, answer: GoldenAnswer) -> None:
        """Take in what came of one asking."""
        interaction = answer.report.interaction
        probe = interaction.probe
        if probe is None:
            return
        at_s = interaction.ended_ns / 1e9
        self._load()
        question = self._question(probe.golden, interaction)
        question.outcome, question.at_s = probe.outcome, at_s
        is_answered = probe.outcome == "answered"
        self._new.add(probe.golden)
        self._outcomes[probe.outcome] += 1
        self._asks.append((at_s, is_answered))
        self._watched[AVAILABILITY].note(float(is_answered))
        if answer.reference is not None:
            self._take_reference(question, answer.reference)
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

    def _take_reference(self, question: _Question, report: Report) -> None:
        is_borne_out, fault = _borne_out(report)
        if is_borne_out is None:
            return
        question.reference, question.fault = is_borne_out, fault
        if question.first_reference is None:
            question.first_reference = is_borne_out
        elif question.first_reference:
            self._watched[REFERENCES].note(float(not is_borne_out))

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
                    self._watched[f"{GOLDEN}{name}"].note(half(each.score - expected))

    # --- now and then ---------------------------------------------------------------------------

    def tick(self) -> Iterable[Observation]:
        """Keep what is new, every few seconds."""
        self._load()
        if self._new and self._now() - self._kept_s >= KEEP_EACH_S:
            self._keep()
        return ()

    def alarm_events(self) -> Iterable[AlarmEvent]:
        """Return the alarms that were raised or cleared since this was last asked."""
        if not self._questions:
            return
        now_s = self._now()
        for watch in self._watched.values():
            alarm, stream = watch.alarm, watch.stream
            cells, watch.cells = watch.cells, {}
            before_s = alarm.raised_at_s
            event = alarm.step(now_s, cells)
            if event:
                yield AlarmEvent(
                    signal=stream.signal,
                    judge=stream.judge,
                    kind=stream.kind,
                    raised=event == "raised",
                    at_s=now_s,
                    since_s=alarm.began_s if event == "raised" else before_s,
                    evidence_s=self._every_days * DAY_S,
                    threshold_s=self._every_days * DAY_S,
                    objective=stream.default_objective or 0.0,
                    higher_is_better=stream.higher_is_better,
                    detail=self._detail(),
                )

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
        if not self._questions:
            return ()
        return [
            alarm_state(
                each.stream,
                Shown.of(each.alarm, each.alarm, self._now()),
                self._every_days,
            )
            for each in self._watched.values()
        ]

    @property
    def cause(self) -> str:
        """The cause of a fall, as far as is known: `judge`, `application` or `none`.

        The judge is, too, as long as so many reference answers fail that did not, that a judge who
        contradicts itself as seldom as `FLIPS_OBJECTIVE` would do so once in a thousand looks.
        """
        active = {state.signal for state in self.alarm_states() if state.active}
        flips = [not each.reference for each in self._questions.values() if each.first_reference]
        k, n = sum(flips), len(flips)
        has_flipped = k > 0 and beta_cdf(FLIPS_OBJECTIVE, k, n - k + 1) < MANY_FLIPS
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
        ragchecker = (f"ragchecker_{name}" for name in metrics.GOLDEN_RAGCHECKER_SCORES)
        levels = {
            name: self.level(name, since_s) for name in (*metrics.GOLDEN_EVALUATORS, *ragchecker)
        }
        asks = [is_answered for at_s, is_answered in self._asks if at_s >= since_s]
        if asks:
            levels["availability"] = share_of(sum(asks), len(asks))
        for name, level in levels.items():
            if level is not None:
                of = {"evaluator": name, "judge": judge, "window": window}
                yield from GaugeValue.interval(metrics.GOLDEN_SCORE, *level, **of)

    def level(self, evaluator: str, since_s: float) -> Level | None:
        """Return the mean of a score over all questions as of now; as `level_of`."""
        histories = [
            history
            for each in self._questions.values()
            if each.reference is not False and (history := each.scores.get(evaluator)) is not None
        ]
        return level_of(histories, since_s)

    def _plain(self) -> Iterator[GaugeValue]:
        faults = sum(each.reference is False for each in self._questions.values())
        yield GaugeValue.of(metrics.GOLDEN_FAULTS, faults, judge=self._judge)
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
        """Forget what belongs to the parent of a forked process: it asks, and keeps."""
        self._begin()

    def close(self) -> None:
        """Keep what is new."""
        if self._new:
            self._keep()

    def _load(self) -> None:
        """Go on where an earlier process stood."""
        if self._is_loaded:
            return
        try:
            rows, alarms = self._store.rows(KIND), self._store.rows(ALARMS)
            known = {g: msgspec.json.decode(row, type=_Question) for g, row in rows.items()}
            for signal, row in alarms.items():
                if signal in self._watched:
                    watch = self._watched[signal]
                    watch.alarm = Alarm.load(row, b"")
                    watch.alarm.threshold_days = self._days(watch.stream)
        except StoreUnavailableError:
            return  # at the next tick, perhaps
        except (
            ValueError,
            msgspec.MsgspecError,
            IndexError,
        ) as error:  # one and the same from 0.21
            record_error("estimation", error)
            known = {}
        self._is_loaded = True
        self._questions.update(sorted(known.items(), key=lambda each: each[1].asked))
        self._asked = max((each.asked for each in known.values()), default=0)

    def _keep(self) -> None:
        self._kept_s = self._now()
        rows = {
            golden: msgspec.json.encode(
                msgspec.structs.replace(known, text="", outcome="", fault="")
            )
            for golden in self._new
            if (known := self._questions.get(golden)) is not None
        }
        alarms = {signal: each.alarm.numbers() for signal, each in self._watched.items()}
        try:
            self._store.keep_all(KIND, rows, most=MAX_QUESTIONS)
            self._store.keep_all(ALARMS, alarms)
        except StoreUnavailableError as error:
            record_problem("state", f"histories of golden questions: {error}")
            return
        self._new.clear()


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
