"""Laws of the input's drift."""

from __future__ import annotations

import itertools
import json
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragmonitor.estimation.drift import STATE_VERSION, InputDrift
from ragmonitor.estimation.drift.centroids import packed
from ragmonitor.estimation.drift.features import BUCKETS, features
from ragmonitor.estimation.drift.input_drift import SIGNALS
from ragmonitor.estimation.drift.reference import Asked, Collected, Scores
from ragmonitor.records import Chunk
from ragmonitor.state import StateFile
from ragmonitor.testing import ManualClock
from tests.support.questions import ASKED, UNASKED, complete, interaction, questions

ROOT = Path(__file__).resolve().parent.parent.parent
SIZE = 150

anything = st.text(max_size=80)
scores = st.one_of(st.none(), st.floats(allow_nan=True, allow_infinity=True))


def frozen(asked: list[tuple[str, str]], **options: object) -> InputDrift:
    """Return a drift whose reference are these ids and questions."""
    drift = InputDrift(**{"size": len(asked), "clock": ManualClock(), **options})  # type: ignore[arg-type]
    for at, (id_, query) in enumerate(asked):
        drift.observe(interaction(query, id_=id_), at_s=at)
    assert complete(drift)
    drift.take()
    return drift


def outcomes(drift: InputDrift, asked: list[str]) -> list[dict[str, bool]]:
    """Return what each question shows."""
    for at, query in enumerate(asked):
        drift.observe(interaction(query, id_=f"fresh-{at}"), at_s=1e5 + at)
    return [dict(observed.outcomes) for observed in drift.take()]


SHOP = [(f"asked-{at}", query) for at, query in enumerate(questions(ASKED, SIZE))]
FRESH = questions(ASKED, 40, seed=1) + questions(UNASKED, 40, seed=2)


@pytest.fixture(scope="module")
def shop() -> InputDrift:
    """Give a drift that is only asked, never changed by what is asked."""
    return frozen(SHOP)


@given(text=anything)
def test_features_are_bounded_ascending_and_each_once(text: str) -> None:
    """Whatever a question holds."""
    found = features(text)
    assert list(found) == sorted(set(found))
    assert all(0 <= feature < BUCKETS for feature in found)


@given(words=st.lists(st.text(min_size=1, max_size=30), max_size=6))
def test_features_of_a_text_are_those_of_its_words(words: list[str]) -> None:
    """Each word's own, whatever was asked before."""
    together = {feature for word in words for feature in features(word)}
    assert set(features("\n".join(words))) == together


@given(query=anything, found=st.lists(scores, max_size=5), at_s=st.floats(0, 1e10))
@settings(max_examples=60)
def test_every_interaction_gives_one_record_of_known_signals(
    shop: InputDrift, query: str, found: list[float | None], at_s: float
) -> None:
    """Whatever it holds: nothing raises, nothing else comes out."""
    chunks = tuple(Chunk(text="", score=score) for score in found)
    shop.observe(interaction(query, id_="any", chunks=chunks), at_s=at_s)
    (observed,) = shop.take()
    assert set(observed.outcomes) <= set(SIGNALS)
    assert all(type(outcome) is bool for outcome in observed.outcomes.values())


@given(seed=st.integers(0, 1_000))
@settings(max_examples=5, deadline=None)
def test_the_order_of_the_reference_does_not_matter(shop: InputDrift, seed: int) -> None:
    """The same questions in another order are the same reference, of the same version."""
    asked = list(SHOP)
    random.Random(seed).shuffle(asked)
    other = frozen(asked)
    assert other.reference is not None
    assert shop.reference is not None
    assert other.reference.version == shop.reference.version


@given(cuts=st.lists(st.integers(0, SIZE), max_size=4), seed=st.integers(0, 1_000))
def test_collected_parts_merge_to_the_whole(cuts: list[int], seed: int) -> None:
    """However many processes collected, and in whatever order they tell."""

    def told(part: list[tuple[str, str]]) -> Collected:
        found = Collected()
        for id_, query in part:
            found.add(id_, Asked(point=packed(features(query)), scores=Scores(falling=1)))
        return found

    edges = [0, *sorted(cuts), SIZE]
    parts = [told(SHOP[low:high]) for low, high in itertools.pairwise(edges)]
    random.Random(seed).shuffle(parts)
    merged = Collected()
    for part in parts:
        merged.merge(Collected.restored(json.loads(json.dumps(part.state()))))
    whole = told(SHOP)
    assert (merged.count, merged.falling) == (whole.count, whole.falling)
    assert [one.point for one in merged.ordered()] == [one.point for one in whole.ordered()]


@given(asked=st.lists(anything, min_size=100, max_size=130))
@settings(max_examples=5, deadline=None)
def test_any_questions_make_a_reference_that_survives_a_restart(
    tmp_path_factory: pytest.TempPathFactory, asked: list[str]
) -> None:
    """What is read back judges like what was frozen."""
    folder = tmp_path_factory.mktemp("drift")
    file = StateFile.of_service(folder, "drift", "shop", version=STATE_VERSION)
    first = frozen([(str(at), query) for at, query in enumerate(asked)], state=file)
    second = InputDrift(size=len(asked), state=file, clock=ManualClock())
    assert complete(second)
    assert second.reference is not None
    assert second.reference.version == first.reference.version  # type: ignore[union-attr]
    assert outcomes(second, FRESH) == outcomes(first, FRESH)


PROGRAM = """
import json
from tests.property.test_drift import FRESH, SHOP, frozen, outcomes
drift = frozen(SHOP)
print(json.dumps([drift.reference.version, outcomes(drift, FRESH)]))
"""


@pytest.mark.parametrize("seed", ["0", "1", "random"])
def test_another_process_says_the_same(shop: InputDrift, seed: str) -> None:
    """Neither Python's hash seed nor anything else of a process decides."""
    assert shop.reference is not None
    told = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        check=True,
        text=True,
        timeout=120,
    )
    assert json.loads(told.stdout) == [shop.reference.version, outcomes(shop, FRESH)]
