"""Golden questions: scores beside each question's own history, and whose fault a fall is."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from ragmonitor.judges import BuiltinJudge
from ragmonitor.records import (
    Assessment,
    Chunk,
    Interaction,
    JudgeIdentity,
    Probe,
    Report,
    Scored,
)
from ragmonitor.semconv import metrics
from ragmonitor.stats.goldens import (
    GoldenQuestions,
    golden_streams,
)
from ragmonitor.stats.service import Statistics, Watching
from ragmonitor.store import Memory, Sqlite

JUDGE = JudgeIdentity(name="judge", version="1", kind="LLM")
OTHER = JudgeIdentity(name="judge", version="2", kind="LLM")
TEXT = "The tower is 330 metres tall."
HOUR_S = 3_600.0


class Asking:
    """Asks questions of a part, an hour between two rounds."""

    def __init__(self, folder: Path | None = None) -> None:
        self.now = 1_700_000_000.0
        self.folder = folder
        self.begin()

    def begin(self) -> None:
        place = "" if self.folder is None else self.folder / "a.db"
        store = Sqlite(place, "shop", clock=self.clock) if place else Memory(self.clock)
        self.part = GoldenQuestions(judge="judge", now=self.clock, store=store)
        watching = Watching(streams=golden_streams("judge"), reader="builtin", judge="judge")
        self.service = Statistics(store=store, watching=watching, goldens=self.part, now=self.clock)
        self.events = []

    def clock(self) -> float:
        return self.now

    def round(
        self,
        scores: dict[str, float],
        *,
        outcome: str = "answered",
        judge: JudgeIdentity = JUDGE,
        version: int = 1,
    ) -> None:
        """Ask these questions, whose answers score so."""
        self.now += HOUR_S
        for golden, score in scores.items():
            self.service.probed(
                answer(
                    golden,
                    score,
                    self.now,
                    outcome=outcome,
                    judge=judge,
                    version=version,
                )
            )
        for _ in range(2):  # what is noted, and then evaluated
            self.events += self.service.tick()
            self.now += 10

    def gauge(self, name: str, **labels: str) -> float | None:
        return next(
            (
                each.value
                for each in self.part.gauges()
                if each.name == name and labels.items() <= dict(each.labels).items()
            ),
            None,
        )


def interaction(golden: str, at_s: float, outcome: str) -> Interaction:
    return Interaction(
        id=golden,
        query=f"{golden}?",
        chunks=(Chunk(text=TEXT),),
        answer=TEXT,
        reference=TEXT,
        reference_chunks=(Chunk(text=TEXT),),
        framework="python",
        started_ns=round((at_s - 2) * 1e9),
        ended_ns=round(at_s * 1e9),
        probe=Probe(golden=golden, outcome=outcome),
    )


def answer(
    golden: str,
    score: float,
    at_s: float,
    *,
    outcome: str = "answered",
    judge: JudgeIdentity = JUDGE,
    version: int = 1,
) -> Report:
    record = interaction(golden, at_s, outcome)
    if outcome != "answered":
        return Report(interaction=record, judge=judge, evaluations=(), assessment=None)
    read: Assessment = BuiltinJudge().read(Interaction(**{**fields(record), "reference": ""}))

    return Report(
        interaction=record,
        judge=judge,
        evaluations=(Scored(evaluator=f"answer_correctness@{version}", judge=judge, score=score),),
        assessment=read,
    )


def fields(record: Interaction) -> dict[str, object]:
    return {name: getattr(record, name) for name in Interaction.__dataclass_fields__}


def usual(n: int = 100) -> dict[str, float]:
    """Return scores of questions that differ much from each other."""
    return {f"g{each}": (0.1, 0.5, 0.9, 1.0)[each % 4] for each in range(n)}


def fallen(n: int = 100) -> dict[str, float]:
    return {
        golden: score * (0.2 if int(golden[1:]) % 3 else 1) for golden, score in usual(n).items()
    }


def test_a_fall_shows_at_once_and_raises_the_alarm():
    """A hundred questions are enough: one round after it, the alarm of the answers is raised."""
    asking = Asking()
    for _ in range(5):
        asking.round(usual())
    assert asking.gauge(
        metrics.GOLDEN_SCORE, evaluator="answer_correctness", window="1h"
    ) == pytest.approx(0.625)
    assert asking.events == []
    asking.round(fallen())
    upper = asking.gauge(
        metrics.GOLDEN_SCORE, evaluator="answer_correctness", window="1h", bound="upper"
    )
    assert upper is not None
    assert upper < 0.5
    assert [(each.signal, each.kind) for each in asking.events] == [
        ("golden_answer_correctness", "quality")
    ]


def test_a_judge_of_another_version_begins_a_new_history():
    """Its lower scores are no fall of the application."""
    asking = Asking()
    for _ in range(5):
        asking.round(usual())
    for _ in range(2):
        asking.round(fallen(), judge=OTHER)
    assert asking.events == []


def test_an_application_that_is_gone_is_not_a_bad_answer():
    """Availability falls and raises its alarm; no score does."""
    asking = Asking()
    asking.round(usual(20))
    asking.round(usual(20), outcome="refused")
    assert [each.signal for each in asking.events] == ["golden_availability"]
    assert asking.gauge(metrics.GOLDEN_SCORE, evaluator="availability", window="24h") == 0.0
    assert asking.gauge(metrics.GOLDEN_ASKS, outcome="refused") == 20
    asking.now += 1
    assert asking.gauge(metrics.GOLDEN_SCORE, evaluator="answer_correctness", window="1h") is None


def test_histories_and_alarms_outlive_a_restart(tmp_path: Path):
    """The first round afterwards is compared with what was before."""
    asking = Asking(tmp_path)
    for _ in range(5):
        asking.round(usual())
    asking.service.close()
    asking.begin()
    asking.round(fallen())
    assert [each.signal for each in asking.events] == ["golden_answer_correctness"]
    assert all(b"tall" not in each.read_bytes() for each in tmp_path.iterdir())


@pytest.mark.slow
def test_noise_alone_raises_no_alarm():
    """Two months of a hundred questions a day whose scores are drawn at random: no alarm."""
    chance = random.Random(3)
    asking = Asking()
    levels = usual()
    for _ in range(60 * 24):
        asking.round(
            {g: float(chance.random() < p) for g, p in chance.sample([*levels.items()], 4)}
        )
    assert asking.events == []
