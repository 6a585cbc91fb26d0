"""InputDrift of the input: which outcomes come out, and when."""

import random

import pytest

from ragmonitor.estimation.drift import MIN_OBJECTIVES, InputDrift
from ragmonitor.estimation.signals import EMPTY_RETRIEVAL, NEW_QUESTION, WEAK_RETRIEVAL
from ragmonitor.metrics import REFERENCE_INFO, REFERENCE_RATIO
from ragmonitor.records import Chunk, Retrieval
from ragmonitor.testing import ManualClock
from tests.support.questions import ASKED, UNASKED, complete, interaction, questions

SIZE = 300


def frozen(*, scores=lambda luck: (luck.uniform(0.7, 1), 0.5), size=SIZE, **options):
    """Return a drift whose reference is the shop's questions."""
    drift = InputDrift(size=size, clock=ManualClock(), **options)
    luck = random.Random(1)
    for at, query in enumerate(questions(ASKED, size, seed=1)):
        drift.observe(interaction(query, id_=f"asked-{at}", scores=scores(luck)), at_s=at)
    assert complete(drift)
    drift.take()
    return drift


def outcomes(drift, query, **more):
    """Return what one more interaction shows."""
    drift.observe(interaction(query, id_=f"new {query} {more}", **more), at_s=1e6)
    assert complete(drift)
    (observed,) = drift.take()
    return observed.outcomes


@pytest.fixture(scope="module")
def shop():
    return frozen()


def test_before_the_reference_is_frozen_only_empty_retrieval_is_told():
    """Nothing can be novel or weak while there is nothing to compare with."""
    drift = InputDrift(size=SIZE)
    assert outcomes(drift, "Where is my parcel?") == {EMPTY_RETRIEVAL: False}


def test_a_question_of_the_reference_is_not_novel(shop):
    """What the shop is asked every day is no news."""
    assert outcomes(shop, "How do I return shoes that I bought online?")[NEW_QUESTION] is False


def test_a_question_of_another_world_is_novel(shop):
    """Comets are nothing that a shop was asked about."""
    assert outcomes(shop, "Which comet orbits Neptune?")[NEW_QUESTION] is True


def test_the_reference_has_its_own_share_of_new_questions(shop):
    """About 1 %, and below the objective, of fresh questions like the reference's."""
    fresh = [outcomes(shop, q)[NEW_QUESTION] for q in questions(ASKED, 1_000, seed=2)]
    assert sum(fresh) / len(fresh) <= MIN_OBJECTIVES[NEW_QUESTION]


def test_most_questions_of_new_topics_are_novel(shop):
    """Questions without a word in common are seen nearly all."""
    fresh = [outcomes(shop, q)[NEW_QUESTION] for q in questions(UNASKED, 200, seed=3)]
    assert sum(fresh) / len(fresh) > 0.8


@pytest.mark.parametrize("query", ["", "  \n"])
def test_without_a_question_only_empty_retrieval_is_told(shop, query):
    """An interaction without text has no topic, and its retrieval is not blamed."""
    assert outcomes(shop, query) == {EMPTY_RETRIEVAL: False}


def test_a_question_without_a_word_is_not_novel(shop):
    """Signs alone are no features."""
    assert NEW_QUESTION not in outcomes(shop, "?!…")


def test_a_lone_surrogate_does_no_harm(shop):
    """Half a character, as a truncated string may hold it, is text like any other."""
    assert NEW_QUESTION in outcomes(shop, "parcel \ud83d caf\udce9")


def test_a_low_best_score_is_weak(shop):
    """Below the reference's 5th percentile."""
    assert outcomes(shop, "Where is my order?", scores=(0.3, 0.2))[WEAK_RETRIEVAL] is True


def test_a_high_best_score_is_not_weak(shop):
    """The list's best counts, wherever it stands."""
    assert outcomes(shop, "Where is my order?", scores=(0.1, 0.95))[WEAK_RETRIEVAL] is False


def test_of_distances_the_smallest_counts():
    """Where scores rise along the list, a large smallest one is weak."""
    drift = frozen(scores=lambda luck: (luck.uniform(0.1, 0.3), 0.6))
    assert outcomes(drift, "Where is my order?", scores=(0.5, 0.7))[WEAK_RETRIEVAL] is True
    assert outcomes(drift, "Where is my order?", scores=(0.15, 0.9))[WEAK_RETRIEVAL] is False


def test_scores_of_unknown_direction_are_left_out():
    """Lists that rise as often as they fall tell nothing."""
    drift = frozen(scores=lambda luck: (luck.random(), luck.random()))
    assert WEAK_RETRIEVAL not in outcomes(drift, "Where is my order?", scores=(0.0, 0.0))


def test_chunks_without_scores_are_left_out():
    """No score is not a weak one."""
    drift = frozen(scores=lambda _: (None, None))
    assert WEAK_RETRIEVAL not in outcomes(drift, "Where is my order?", scores=(0.1,))


def test_a_score_that_is_no_number_is_left_out(shop):
    """A retriever's nan is not a weak score."""
    told = outcomes(shop, "Where is my order?", scores=(float("nan"),))
    assert WEAK_RETRIEVAL not in told


def test_no_chunk_is_an_empty_retrieval(shop):
    """The model was shown nothing."""
    assert outcomes(shop, "Where is my order?", chunks=())[EMPTY_RETRIEVAL] is True


def test_an_error_before_any_retrieval_is_not_an_empty_one(shop):
    """Nobody searched."""
    told = outcomes(shop, "Where is my order?", chunks=(), status="error")
    assert EMPTY_RETRIEVAL not in told


def test_an_error_after_a_retrieval_without_chunks_is_an_empty_one(shop):
    """The search was made, and found nothing."""
    searched = Retrieval(query="order", chunks=(), started_ns=0, ended_ns=1)
    told = outcomes(shop, "Where is my order?", chunks=(), status="error", retrievals=(searched,))
    assert told[EMPTY_RETRIEVAL] is True


def test_chunks_that_were_not_captured_are_not_an_empty_retrieval(shop):
    """What we did not see is our fault."""
    told = outcomes(shop, "Where is my order?", chunks=(), capture_incomplete=True)
    assert EMPTY_RETRIEVAL not in told


def test_scores_are_looked_for_in_the_retrieval_where_shown_chunks_have_none(shop):
    """Some integrations lose the score on the way to the prompt."""
    found = tuple(Chunk(text="A passage.", score=score) for score in (0.2, 0.1))
    told = outcomes(
        shop,
        "Where is my order?",
        scores=(None,),
        retrievals=(Retrieval(query="order", chunks=found, started_ns=0, ended_ns=1),),
    )
    assert told[WEAK_RETRIEVAL] is True


def test_the_session_and_the_time_are_kept():
    """The alarms bet once per session."""
    drift = InputDrift(size=SIZE)
    drift.observe(interaction("Hello?", id_="1", session_id="s"), at_s=12.5)
    (observed,) = drift.take()
    assert (observed.at_s, observed.session) == (12.5, "s")


def test_an_outcome_is_taken_once(shop):
    """Nothing counts twice."""
    outcomes(shop, "Where is my order?")
    assert shop.take() == []


def test_topics_are_named_by_number(shop):
    """Labels are few and hold no text unless asked to."""
    label = shop.topic(interaction("When will my parcel be delivered to Paris?", id_="t"))
    assert label.startswith("topic-")
    assert " " not in label


def test_no_topic_before_the_reference_is_frozen():
    """Nobody knows the topics yet."""
    assert InputDrift(size=SIZE).topic(interaction("Where is my order?", id_="t")) == ""


def readings(drift):
    return {(reading.name, reading.labels): reading.value for reading in drift.gauges()}


def test_the_share_collected_is_read():
    """Half of the reference is there."""
    drift = InputDrift(size=200)
    for at, query in enumerate(questions(ASKED, 100)):
        drift.observe(interaction(query, id_=str(at)), at_s=at)
    assert readings(drift) == {(REFERENCE_RATIO, ()): 0.5}


def test_the_version_is_read_once_it_is_frozen():
    """A dashboard marks the day on which the reference changed."""
    drift = frozen()
    assert readings(drift)[REFERENCE_INFO, (("version", drift.reference.version),)] == 1
    assert readings(drift)[REFERENCE_RATIO, ()] == 1


def test_clearing_begins_anew():
    """A forked child collects its own, where there is no file."""
    drift = frozen()
    drift.clear()
    assert readings(drift) == {(REFERENCE_RATIO, ()): 0.0}
    assert drift.take() == []


def test_a_reference_without_any_text_is_frozen_too():
    """An application that captures no texts still has weak and empty retrievals."""
    drift = InputDrift(size=100)
    for at in range(100):
        drift.observe(interaction("", id_=str(at), scores=(0.9, 0.5)), at_s=at)
    assert complete(drift)
    drift.take()
    assert outcomes(drift, "Where?", scores=(0.1,)) == {
        EMPTY_RETRIEVAL: False,
        WEAK_RETRIEVAL: True,
    }


def test_freezing_is_spread_over_the_calls():
    """No call lasts as long as the fit, and the fit ends."""
    drift = InputDrift(size=SIZE)
    for at, query in enumerate(questions(ASKED, SIZE)):
        drift.observe(interaction(query, id_=str(at)), at_s=at)
    drift.take()
    assert drift.reference is None
    assert complete(drift)
    assert drift.reference is not None
