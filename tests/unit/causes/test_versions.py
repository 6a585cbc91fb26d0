"""Versions compared live: over processes, at every moment, and with the error that is stated."""

import dataclasses
import math
import random
from collections.abc import Callable

import pytest

from ragmonitor.causes.arms import SLOT_S, Arms
from ragmonitor.causes.comparison import FIELDS, compare, mean_of
from ragmonitor.causes.versions import STATE_VERSION, Versions
from ragmonitor.records import (
    CompletedAnswer,
    Interaction,
    JudgeIdentity,
    Prediction,
    Report,
    SamplingDecision,
)
from ragmonitor.stats.parts import Answer
from ragmonitor.stats.signals import Outcome
from ragmonitor.store import Kept, store_at

RULES = JudgeIdentity(name="builtin", version="1", kind="CODE")
MODEL = JudgeIdentity(name="model", version="1", kind="LLM")
BEGAN_S = 1_800_000_000.0


def answered(
    version: str,
    bad: bool | None,
    *,
    probability: float = 1.0,
    drawn: bool = True,
    expected: float = 0.0,
    at_s: float = BEGAN_S,
    session: str = "",
) -> Answer:
    """Return an answer of one signal; `bad` is None where the verdict is missing."""
    interaction = Interaction(
        id="a",
        query="q",
        chunks=(),
        answer="a",
        framework="python",
        started_ns=int((at_s - 1.0) * 1e9),
        ended_ns=int(at_s * 1e9),
        session_id=session,
        attributes={"service_version": version},
    )
    report = Report(interaction=interaction, judge=RULES, evaluations=(), assessment=None)
    outcome = None if bad is None else Outcome(scored=True, value=float(bad))
    return Answer(
        completed=CompletedAnswer(
            builtin=report,
            prediction=Prediction(expected={"hallucination": (float(expected > 0), expected)}),
            decision=SamplingDecision(inclusion_probability=probability, drawn=drawn),
            judged=dataclasses.replace(report, judge=MODEL) if drawn else None,
        ),
        interaction=interaction,
        at_s=at_s,
        builtin=(("hallucination", outcome),),
        judged=(("hallucination", outcome),) if drawn else None,
        weight=1 / probability if probability else 0.0,
    )


def versions(
    *,
    judge: str | None = "model",
    version: str = "",
    file: Kept | None = None,
    now: Callable[[], float] = lambda: BEGAN_S,
) -> Versions:
    """Return the part, without other processes unless a file is given."""
    return Versions(
        ("service_version",),
        version=version,
        reader="builtin",
        judge=judge,
        higher_is_better=lambda _: False,
        threshold_s=86_400.0,
        file=file,
        now=now,
    )


def feed(part: Versions, version: str, bad: int, good: int, **options: float) -> None:
    """Add judged answers, the bad ones evenly among the others."""
    for n in range(bad + good):
        is_bad = (n + 1) * bad // (bad + good) > n * bad // (bad + good)
        part.add(answered(version, is_bad, **options))  # type: ignore[arg-type]


def sums(bad: int, good: int) -> list[float]:
    """Return the sums of answers that all were judged."""
    n = float(bad + good)
    return [n, 0.0, n, n, 0.0, float(bad), n, float(bad), float(bad), n]


def of_slots(slots: dict[int, dict[str, tuple[int, int]]]) -> Arms:
    """Return versions by the bad and the good answers of each in some slots of ten minutes."""
    arms = Arms({"id": {}})
    for n, counts in slots.items():
        at_s = BEGAN_S + n * SLOT_S
        for value, (bad, good) in counts.items():
            arm = arms.arm("id", value, at_s)
            assert arm is not None
            arm.add(int(at_s // SLOT_S), "hallucination", sums(bad, good))
    return arms


# --- the confidence sequence ---------------------------------------------------------------------


def test_without_a_bad_answer_the_interval_is_not_a_point():
    """Twenty good answers of each say little: the other version may still be 10 points worse."""
    found = compare(sums(0, 20), sums(0, 20))
    assert found is not None
    assert found.upper > 0.1
    assert found.decision(0.02) == "undecided"


@pytest.mark.parametrize(
    ("candidate", "decision"),
    [((0, 4_000), "better"), ((200, 3_800), "equivalent"), ((800, 3_200), "worse")],
)
def test_each_decision(candidate, decision):
    """Against 5 %: 0 % is better, 5 % within 2 points, 20 % is worse."""
    found = compare(sums(*candidate), sums(200, 3_800))
    assert found is not None
    assert found.decision(0.02) == decision


def test_a_signal_that_is_better_the_higher_it_is_turns_the_decision_around():
    """The same difference is worse of hallucination and better of faithfulness."""
    found = compare(sums(800, 3_200), sums(200, 3_800))
    assert found is not None
    assert found.decision(0.02, higher_is_better=True) == "better"


def test_few_verdicts_and_unobserved_answers_decide_nothing():
    """Below 20 judged answers, or with 1 of 8 not observed, it is undecided."""
    few = compare(sums(19, 0), sums(0, 4_000))
    assert few is not None
    assert few.decision(0.02) == "undecided"
    unseen = sums(800, 3_200)
    unseen[FIELDS.index("uncovered")] = 600
    found = compare(unseen, sums(200, 3_800))
    assert found is not None
    assert found.candidate.coverage == pytest.approx(4_000 / 4_600)
    assert found.decision(0.02) == "undecided"


def misses(
    draw: random.Random, *, candidate: float, baseline: float, share: float, answers: int
) -> bool:
    """Return whether the interval ever missed the difference, looked at after each verdict."""
    part = versions()
    for _ in range(answers):
        version = "new" if draw.random() < share else "old"
        bad = draw.random() < (candidate if version == "new" else baseline)
        expected = min(0.9, max(0.005, 0.03 * math.exp(draw.gauss(1.2 * bad, 1.0))))
        probability = min(1.0, 0.1 * (0.5 + 0.5 * math.sqrt(expected * (1 - expected)) / 0.2))
        drawn = draw.random() < probability
        part.add(answered(version, bad, probability=probability, drawn=drawn, expected=expected))
        arms = part._fresh.get("service_version", {})
        if drawn and len(arms) == 2:
            found = compare(*part._fresh.sums("service_version", "new", "old", "hallucination"))
            if found is not None and found.is_observed:
                off = candidate - baseline
                if not found.lower <= off <= found.upper:
                    return True
    return False


@pytest.mark.slow
@pytest.mark.parametrize(
    ("candidate", "baseline", "share"),
    [(0.04, 0.04, 0.5), (0.04, 0.04, 0.1), (0.12, 0.04, 0.3), (0.01, 0.01, 0.5)],
)
def test_the_interval_holds_at_every_moment_under_weighted_sampling(candidate, baseline, share):
    """Looked at after every verdict, it misses the difference in 5 % of the runs at most."""
    draw = random.Random(7)
    runs = 60
    missed = sum(
        misses(draw, candidate=candidate, baseline=baseline, share=share, answers=2_500)
        for _ in range(runs)
    )
    assert missed <= 0.05 * runs + 2 * math.sqrt(0.05 * 0.95 * runs)


# --- the part ------------------------------------------------------------------------------------


def test_sampling_weights_keep_the_mean():
    """Bad answers drawn four times as often as good ones leave the mean where it is."""
    part = versions()
    for n in range(1_000):
        bad = n % 10 == 0
        probability = 0.8 if bad else 0.2
        part.add(answered("1", bad, probability=probability, drawn=n // 10 % 5 < 5 * probability))
    part.tick()
    found = mean_of(part._known["service_version"]["1"].total("hallucination"))
    assert found is not None
    assert found.mean == pytest.approx(0.1)


def test_answers_of_one_session_vary_together():
    """Ten answers of each session that are all alike say as much as one."""
    alone, together = versions(judge=None), versions(judge=None)
    for n in range(400):
        bad = n // 10 % 5 == 0
        alone.add(answered("1", bad))
        together.add(answered("1", bad, session=str(n // 10)))
    variances = []
    for part in (alone, together):
        part.tick()
        found = mean_of(part._known["service_version"]["1"].total("hallucination"))
        assert found is not None
        variances.append(found.variance)
    assert 8 < variances[1] / variances[0] < 12


def test_a_worse_version_raises_one_alarm_and_is_a_cause():
    """It is raised once, stays active while the version answers, and names it."""
    now = [BEGAN_S]
    part = versions(judge=None, now=lambda: now[0])
    feed(part, "1.4", 20, 480, at_s=BEGAN_S + 700)
    feed(part, "1.5", 100, 100, at_s=BEGAN_S + 701)
    part.tick()
    (event,) = part.alarm_events()
    assert event.signal == "version_worse"
    assert "service_version 1.5 is worse than 1.4" in str(event)
    assert event.examples
    part.add(answered("1.5", bad=True, at_s=BEGAN_S + 702))
    part.tick()
    assert part.alarm_events() == []
    (state,) = part.alarm_states()
    assert state.active
    (cause,) = part.candidates("hallucination", BEGAN_S + 800)
    assert (cause.kind, cause.name, cause.is_discovery) == ("version", "version 1.5", True)
    assert cause.now is not None
    assert cause.before is not None
    assert cause.now.mean > cause.before.mean
    now[0] += 3_600
    assert not next(iter(part.alarm_states())).active


def test_an_equal_version_raises_none():
    """Two versions of the same rate."""
    part = versions(judge=None)
    feed(part, "1.4", 20, 480)
    feed(part, "1.5", 20, 480, at_s=BEGAN_S + 1)
    part.tick()
    assert part.alarm_events() == []
    (cause,) = part.candidates("hallucination", BEGAN_S)
    assert not cause.is_discovery


def test_processes_of_one_folder_are_compared_together_and_alarm_once(tmp_path):
    """The canary is another process; a third one reads what the two have seen."""
    parts = []
    for version in ("1.4", "1.5", "1.4"):
        file = Kept(store_at(tmp_path, "s"), "versions", version=STATE_VERSION)
        parts.append(versions(judge=None, version=version, file=file))
    stable, canary, third = parts
    feed(stable, "", 20, 480)
    feed(canary, "", 100, 100, at_s=BEGAN_S + 1)
    events = []
    for part in parts:
        part.tick()
        events += part.alarm_events()
    assert len(events) == 1
    (cause,) = third.candidates("hallucination", BEGAN_S)
    assert cause.name == "version 1.5"
    told = [part.records()["versions"]["source"] for part in (canary, third)]
    assert told[0] == told[1]


def test_a_baseline_that_goes_on_is_compared_at_the_same_time():
    """What the baseline did before the candidate came says nothing of the candidate."""
    part = versions(judge=None)
    feed(part, "1.4", 300, 300, at_s=BEGAN_S)
    feed(part, "1.4", 15, 285, at_s=BEGAN_S + 7_200)
    feed(part, "1.5", 15, 285, at_s=BEGAN_S + 7_201)
    part.tick()
    (cause,) = part.candidates("hallucination", BEGAN_S)
    assert cause.before is not None
    assert cause.before.mean == pytest.approx(0.05)


def test_a_baseline_of_another_time_raises_no_alarm():
    """The rate may swing with the day: a bad hour after three good days is no bad version."""
    part = versions(judge=None)
    feed(part, "1.4", 20, 980, at_s=BEGAN_S)
    feed(part, "1.5", 60, 440, at_s=BEGAN_S + 7_200)
    part.tick()
    assert part.alarm_events() == []
    (cause,) = part.candidates("hallucination", BEGAN_S + 7_200)
    assert cause.before is not None
    assert cause.before.mean == pytest.approx(0.02)


def test_what_the_candidate_gave_after_its_baseline_ended_is_not_compared():
    """The bad evening after a full rollout says nothing of the version."""
    slots = {n: {"1.4": (2, 98), "1.5": (2, 98)} for n in range(12)}
    slots |= {n: {"1.5": (20, 180)} for n in range(12, 20)}
    new, old = of_slots(slots).concurrent_sums("id", "1.5", "1.4", "hallucination") or ([], [])
    assert new == old == sums(24, 1_176)


def test_hours_count_alike_for_both_versions_of_a_canary_whose_share_is_raised():
    """Each slot has 10 % or 2 % bad in both; the split of the traffic makes no difference."""
    slots = {0: {"1.4": (90, 810), "1.5": (10, 90)}, 1: {"1.4": (2, 98), "1.5": (18, 882)}}
    compared = of_slots(slots).concurrent_sums("id", "1.5", "1.4", "hallucination")
    assert compared is not None
    found = compare(*compared)
    assert found is not None
    assert found.difference == pytest.approx(0.0)


def test_a_canary_that_is_no_worse_is_not_found_so_while_its_share_is_raised():
    """The rate is 2 to 6 % over the day, and the share 5, 50, then 90 % of 1,200 an hour."""
    draw = random.Random(7)
    runs = 20
    assert sum(_is_ever_worse(draw) for _ in range(runs)) <= 0.05 * runs


def _is_ever_worse(draw: random.Random) -> bool:
    """Return whether the same version is found worse within a day, looked at every half hour."""
    arms = Arms()
    for n in range(144):
        rate = 0.04 - 0.02 * math.cos(2 * math.pi * n / 144)
        share = 0.05 if n < 48 else 0.5 if n < 96 else 0.9
        new = sum(draw.random() < share for _ in range(200))
        slot = {}
        for value, answers in (("1.4", 200 - new), ("1.5", new)):
            bad = sum(draw.random() < rate for _ in range(answers))
            slot[value] = (bad, answers - bad)
        arms.merge(of_slots({n: slot}))
        compared = arms.concurrent_sums("id", "1.5", "1.4", "hallucination")
        if n % 3 == 0 and compared is not None:
            found = compare(*compared)
            if found is not None and found.decision(0.0) == "worse":
                return True
    return False


def test_answers_without_a_chance_are_not_covered():
    """An inclusion probability of 0 counts as not observed, and its prediction for nothing."""
    part = versions()
    feed(part, "1", 2, 18)
    for _ in range(20):
        part.add(answered("1", None, probability=0.0, drawn=False, expected=0.5))
    part.tick()
    found = mean_of(part._known["service_version"]["1"].total("hallucination"))
    assert found is not None
    assert (found.mean, found.coverage) == (pytest.approx(0.1), 0.5)
