"""Estimates from golden questions: scores, availability, and whose fault a fall is."""

from __future__ import annotations

import hashlib
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

import msgspec

from ragmonitor.records import (
    GaugeValue,
    Interaction,
    Report,
    Scored,
    Window,
    evaluator_name,
)
from ragmonitor.semconv import metrics
from ragmonitor.stats.golden_history import Level, ScoreHistory, level_of, share_of
from ragmonitor.stats.kept_rows import KeptRows
from ragmonitor.stats.parts import Observation, Part
from ragmonitor.stats.streams import Stream
from ragmonitor.store import Memory, Store

GOLDEN: Final = "golden_"
"""Begins the names of signals of golden questions."""
CORRECTNESS: Final = "answer_correctness"
AVAILABILITY: Final = "golden_availability"
WATCHED: Final = (CORRECTNESS, "context_recall", "refusal_correctness")
MAX_DROP: Final = 0.05
"""Scores may be so far, on average, below what each question's own history lets expect."""
MIN_AVAILABILITY: Final = 0.95
SHARES: Final = (0.4, 0.2, 0.2, 0.2)
"""The shares of the false alarms that golden questions are allowed: the watched scores, then
availability."""
MAX_QUESTIONS: Final = 5_000
"""Questions with a history; the one asked longest ago gives way."""
GONE_AFTER_ROUNDS: Final = 5
"""A question that was not asked in so many rounds of all that have a history is asked no more, and
is forgotten: who took it out of the set wants it in no mean."""
MAX_SHOWN: Final = 30
"""Questions on the page."""
KIND: Final = "golden"
WINDOWS: Final[dict[Window, float]] = {"1h": 3_600.0, "24h": 86_400.0}


def half(difference: float) -> float:
    """Return a difference, -1 to 1, on a scale from 0 to 1."""
    return (1.0 + difference) / 2


class _Question(msgspec.Struct, kw_only=True, omit_defaults=True):
    """The history of one golden question; no text of it is kept."""

    version: str
    """The version of its texts: other texts are another question."""
    judge: str = ""
    """The judge whose scores these are, with its version."""
    scores: dict[str, ScoreHistory] = {}
    outcome: str = ""
    """What came of its last asking."""
    at_s: float = 0.0
    asked: int = 0
    """The number of its last asking, of the askings of all questions."""


def golden_streams(judge: str) -> tuple[Stream, ...]:
    """Return the alarms on golden questions; their shares are apart from those of the traffic."""
    kinds = [(f"{GOLDEN}{name}", half(-MAX_DROP)) for name in WATCHED]
    kinds.append((AVAILABILITY, MIN_AVAILABILITY))
    return tuple(
        Stream(
            signal=signal,
            judge=judge,
            series=signal,
            kind="quality",
            share=share,
            higher_is_better=True,
            objective=1.0 - objective,
        )
        for (signal, objective), share in zip(kinds, SHARES, strict=True)
    )


class GoldenQuestions(Part):
    """Scores of golden questions, each beside its own history: what their alarms rest on.

    An asking compares a question's score with the mean of its own earlier ones, `h`. The alarm on
    a score is on the mean of `(1 + y - h) / 2`, which is one half where nothing has changed and is
    to be at least `(1 - MAX_DROP) / 2`. As long as the scores of what is asked are, given the
    past, on average at most `MAX_DROP` below their history, and so on for the others, all golden
    alarms together are raised at most once in `alarms.false_alarm_every_days`; they are apart from
    those of the traffic, whose allowance they leave alone.

    Scores of a judge or an evaluator of another version begin a new history.
    """

    def __init__(
        self,
        *,
        judge: str,
        shows_texts: bool = True,
        store: Store | None = None,
        now: Callable[[], float] = time.time,
    ) -> None:
        """Begin with what the file holds.

        Args:
            judge: Who reads the answers.
            shows_texts: Whether the page may show questions.
            store: Keeps histories; None: memory does.
            now: Seconds since the epoch.
        """
        self._judge = judge
        self._shows_texts = shows_texts
        self._now = now
        store = Memory() if store is None else store
        self._kept = KeptRows(store, KIND, _Question, most=MAX_QUESTIONS)
        self.clear()

    def clear(self) -> None:
        """Forget what belongs to the parent of a forked process: it asks, and keeps."""
        self._kept.clear()
        self._texts: dict[str, str] = {}
        """Of questions that were asked since the process began; none is kept."""
        self._observed: list[Observation] = []
        self._outcomes: Counter[str] = Counter()
        self._asked = 0
        """The number of the last asking."""

    # --- taking in ------------------------------------------------------------------------------

    def probed(self, report: Report) -> None:
        """Take in what came of one asking."""
        interaction = report.interaction
        probe = interaction.probe
        if probe is None:
            return
        at_s = interaction.ended_ns / 1e9
        question = self._question(probe.golden, interaction)
        question.outcome, question.at_s = probe.outcome, at_s
        is_answered = probe.outcome == "answered"
        self._outcomes[probe.outcome] += 1
        self._observe(AVAILABILITY, float(is_answered), at_s)
        self._take_scores(question, report, at_s)
        self._kept.put(probe.golden, question)

    def _observe(self, signal: str, value: float, at_s: float) -> None:
        """Note one value of a signal; each is independent of the others."""
        answer = f"{signal} {self._asked} {at_s}"
        self._observed.append(Observation(signal, value, at_s, answer=answer))

    def _question(self, golden: str, interaction: Interaction) -> _Question:
        version = _version(interaction)
        if not self._kept.is_read:
            self._kept.exchange()
        self._asked = 1 + max((each.asked for each in self._kept.rows.values()), default=0)
        known = self._kept.rows.pop(golden, None)
        if known is None or known.version != version:
            known = _Question(version=version)
        self._texts[golden] = interaction.query if self._shows_texts else ""
        known.asked = self._asked
        self._forget_gone()
        return known

    def _forget_gone(self) -> None:
        """Forget the questions that are asked no more."""
        rows = self._kept.rows
        for golden in [*rows]:
            if self._asked - rows[golden].asked > GONE_AFTER_ROUNDS * (len(rows) + 1):
                self._kept.remove(golden)

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

    # --- now and then ---------------------------------------------------------------------------

    def tick(self) -> Iterable[Observation]:
        """Keep what is new; return what the alarms rest on."""
        self._kept.exchange()
        observed, self._observed = self._observed, []
        return observed

    # --- showing --------------------------------------------------------------------------------

    def gauges(self) -> Iterable[GaugeValue]:
        """Return every gauge of golden questions; nothing before the first was asked."""
        if not self._kept.rows:
            return
        for window, length_s in WINDOWS.items():
            yield from self._windowed(window, self._now() - length_s)
        for outcome, n in self._outcomes.items():
            yield GaugeValue.of(metrics.GOLDEN_ASKS, n, outcome=outcome)

    def _windowed(self, window: Window, since_s: float) -> Iterator[GaugeValue]:
        judge = self._judge
        levels = {name: self.level(name, since_s) for name in metrics.GOLDEN_EVALUATORS}
        newest = [each for each in self._kept.rows.values() if each.at_s >= since_s]
        asks = [each.outcome == "answered" for each in newest]
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
            for each in self._kept.rows.values()
            if (history := each.scores.get(evaluator)) is not None
        ]
        return level_of(histories, since_s)

    def views(self) -> Mapping[str, Any]:
        """Return the questions that need somebody: unanswered, or fallen the furthest."""
        if not self._kept.rows:
            return {}
        rows = [self._row(golden, each) for golden, each in self._kept.rows.items()]
        rows.sort(key=lambda row: (row["outcome"] in ("answered", ""), row["change"]))
        level = self.level(CORRECTNESS, self._now() - WINDOWS["24h"])
        return {
            "goldens": {
                "questions": len(rows),
                "answer_correctness": None if level is None else list(level),
                "worst": rows[:MAX_SHOWN],
            }
        }

    def _row(self, golden: str, question: _Question) -> dict[str, Any]:
        history = question.scores.get(CORRECTNESS)
        expected = None if history is None else history.expected
        newest = None if history is None else history.newest
        return {
            "id": golden,
            "question": self._texts.get(golden, ""),
            "outcome": question.outcome,
            "answer_correctness": newest,
            "expected": expected,
            "change": 0.0 if newest is None or expected is None else newest - expected,
        }

    # --- keeping --------------------------------------------------------------------------------

    def close(self) -> None:
        """Keep what is new."""
        self._kept.exchange()


def _version(interaction: Interaction) -> str:
    texts = (
        interaction.query,
        interaction.reference,
        *(chunk.text for chunk in interaction.reference_chunks),
    )
    return hashlib.blake2b("\0".join(texts).encode("utf-8", "replace"), digest_size=8).hexdigest()
