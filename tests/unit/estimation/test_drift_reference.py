"""The frozen reference: features, centroids, what is typical."""

import math
import random

import pytest

from ragmonitor.estimation.drift.centroids import (
    CENTROIDS,
    DenseCentroids,
    HashedCentroids,
    dense,
    packed,
    packed_dense,
)
from ragmonitor.estimation.drift.features import features
from ragmonitor.estimation.drift.reference import (
    FOLDS,
    Asked,
    Collected,
    Reference,
    Scores,
    TypicalDistances,
    fold_of,
)
from tests.support.questions import ASKED, questions


def collected(asked, scores=lambda _: Scores()):
    found = Collected()
    for at, query in enumerate(asked):
        found.add(
            f"id-{at}",
            Asked(point=packed(features(query)), scores=scores(at), fold=at % FOLDS),
        )
    return found


def reference(asked, scores=lambda _: Scores(), **options):
    options = {"dense": False, "made_of": "test", **options}
    return Reference.fitted(collected(asked, scores), **options)


def fitted_centroids(fit):
    """Return how many centroids a reference has."""
    return len(fit.centroids._inverse)


def test_features_are_the_same_everywhere():
    """A reference on disk must mean the same after a restart, on another machine, for years."""
    assert features("退 Ok") == (76118, 228653)


def test_an_inflected_word_shares_features():
    """`delivery` and `delivered` are half the same."""
    one, other = set(features("delivery")), set(features("delivered"))
    assert len(one & other) >= 4


def test_case_and_signs_do_not_count():
    """A question in capitals is the same question."""
    assert features("WHERE IS IT?!") == features("where is it")


@pytest.mark.parametrize("exponent", [0.5, 1.0, 1.5])
def test_questions_that_are_asked_again_blind_nothing(exponent):
    """Under a law of Zipf's, 2,000 questions of 600: another language is novel all the same."""
    luck = random.Random(6)
    different = questions(ASKED, 600)
    often = [1 / (rank + 1) ** exponent for rank in range(len(different))]
    fit = reference(luck.choices(different, often, k=2_000))
    chinese = [f"请问{one}号订单什么时候能够退货退款" for one in range(200)]
    novel = [fit.place(packed(features(query)))[1] for query in chinese]
    assert sum(novel) > 0.95 * len(novel)


def test_k_means_tells_clusters_apart():
    """Questions of one template share a centroid, those of two do not."""
    fit = reference(questions(ASKED, 400))
    places = [
        {fit.place(packed(features(q)))[0] for q in questions((template,), 40, seed=3)}
        for template in ASKED
    ]
    for at, here in enumerate(places):
        assert not any(here & there for there in places[at + 1 :])


def test_dense_k_means_finds_separated_clouds():
    """Three directions with a little noise: every point is next to its own."""
    luck = random.Random(4)
    points = [
        packed_dense([float(axis == at % 3) + luck.gauss(0, 0.05) for axis in range(3)])
        for at in range(90)
    ]
    fit = DenseCentroids.fitted(points, "seed")
    homes = [{fit.nearest(point)[0] for point in points[axis::3]} for axis in range(3)]
    assert not homes[0] & homes[1]
    assert not homes[0] & homes[2]
    assert not homes[1] & homes[2]


def test_there_are_at_most_so_many_centroids():
    """And as few as there are different questions."""
    fit = reference(questions(ASKED, 400))
    assert 2 <= fitted_centroids(fit) <= CENTROIDS
    assert fitted_centroids(reference(["Where is my parcel?"] * 100)) == 1


def test_a_reference_of_one_question_calls_it_usual():
    """No spread at all is no division by zero."""
    fit = reference(["Where is my parcel?"] * 100)
    assert fit.place(packed(features("Where is my parcel?"))) == (0, False)
    assert fit.place(packed(features("Which comet orbits Neptune?"))) == (0, True)


def test_a_vector_keeps_its_direction_in_bytes():
    """To within half a percent of a right angle."""
    luck = random.Random(5)
    vector = [luck.gauss(0, 1) for _ in range(256)]
    length = math.hypot(*vector)
    kept = dense(packed_dense(vector))
    assert math.dist(kept, [value / length for value in vector]) < 0.02


@pytest.mark.parametrize("vector", [[], [0.0], [math.nan, 1.0], [math.inf, 1.0]])
def test_a_vector_without_direction_is_refused(vector):
    """It is near nothing."""
    with pytest.raises(ValueError, match="direction"):
        packed_dense(vector)


def test_a_hashed_centroid_survives_its_state():
    """Distances are the same to the last bit."""
    points = [packed(features(query)) for query in questions(ASKED, 200)]
    fit = HashedCentroids.fitted(points, "seed")
    again = HashedCentroids(fit.state)
    assert [fit.nearest(point) for point in points] == [again.nearest(point) for point in points]


def test_a_dense_centroid_survives_its_state():
    """Distances are the same to the last bit."""
    luck = random.Random(6)
    points = [packed_dense([luck.gauss(0, 1) for _ in range(5)]) for _ in range(80)]
    fit = DenseCentroids.fitted(points, "seed")
    again = DenseCentroids(fit.state)
    assert [fit.nearest(point) for point in points] == [again.nearest(point) for point in points]


def test_the_limit_leaves_one_percent_of_the_held_out_above():
    """The conformal quantile: of 999, nine lie above."""
    held_out = [(10, at / 999) for at in range(999)]
    typical = TypicalDistances.of(held_out)
    above = sum(typical.deviation(extent, d) > typical.limit for extent, d in held_out)
    assert above == 9


def test_a_distance_is_compared_with_those_of_its_length():
    """Short questions lie far from everything, which is not news; of a long one it would be."""
    luck = random.Random(7)
    held_out = [(10, luck.gauss(0.9, 0.01)) for _ in range(500)]
    held_out += [(100, luck.gauss(0.5, 0.01)) for _ in range(500)]
    typical = TypicalDistances.of(held_out)
    assert typical.deviation(10, 0.9) < typical.limit < typical.deviation(100, 0.9)


def test_the_weak_limit_is_the_fifth_percentile():
    """Of 100 best scores 0.00 to 0.99, those below 0.05 are weak."""
    fit = reference(
        ["Where?"] * 100, lambda at: Scores(high=at / 100, low=0.0, rising=0, falling=1)
    )
    assert fit.weak_below == 0.05
    assert fit.is_weak(Scores(high=0.049, low=0.0)) is True
    assert fit.is_weak(Scores(high=0.05, low=0.0)) is False
    assert fit.is_weak(Scores()) is None


@pytest.mark.parametrize(
    ("rising", "falling", "direction"),
    [(0, 10, "falls"), (10, 0, "rises"), (3, 9, "falls"), (9, 3, "rises"), (5, 5, ""), (0, 0, "")],
)
def test_the_direction_is_what_three_of_four_neighbours_say(rising, falling, direction):
    """A few reordered lists do not turn scores into distances."""
    assert Collected(rising=rising, falling=falling).direction == direction


def test_of_very_many_questions_an_even_sample_stays():
    """The first half of a long reference has no more of it than the second."""
    found = Collected()
    for at in range(20_000):
        found.add(str(at), Asked(point=bytes([at % 256]), scores=Scores(high=at)))
    kept = [asked.scores.high for asked in found.ordered()]
    assert found.count == 20_000
    assert sum(kept) / len(kept) == pytest.approx(10_000, rel=0.05)


def test_an_interaction_counts_once():
    """A retried delivery is no second question."""
    found = collected(["Where?"])
    found.add("id-0", Asked(point=b"", scores=Scores()))
    assert found.count == 1


def test_questions_of_a_session_are_held_out_together():
    """Sessions whose questions repeat themselves: a new session's are not novel for that."""
    luck = random.Random(9)
    syllables = ["ka", "lo", "mi", "tu", "re", "so", "pa", "ne", "du", "wi"]

    def session(name):
        own = ["".join(luck.choices(syllables, k=4)) for _ in range(6)]
        fold = fold_of(name)
        return [(" ".join(luck.choices(own, k=5)), fold) for _ in range(10)]

    together, apart = Collected(), Collected()
    for at in range(60):
        for number, (query, fold) in enumerate(session(f"session-{at}")):
            point = packed(features(query))
            for found, part in ((together, fold), (apart, number % FOLDS)):
                found.add(f"{at} {number}", Asked(point=point, scores=Scores(), fold=part))
    fresh = [packed(features(q)) for at in range(40) for q, _ in session(f"new-{at}")]
    shares = []
    for found in (together, apart):
        fit = Reference.fitted(found, dense=False, made_of="test")
        shares.append(sum(fit.place(point)[1] for point in fresh) / len(fresh))
    assert shares[0] < 0.05 < shares[1]


def test_one_session_for_everything_is_as_none():
    """An application that sets a constant as its session is watched all the same."""
    found = Collected()
    for at, query in enumerate(questions(ASKED, 200)):
        point = packed(features(query))
        found.add(str(at), Asked(point=point, scores=Scores(), fold=3))
    fit = Reference.fitted(found, dense=False, made_of="test")
    assert fit.place(packed(features("Which comet orbits Neptune?")))[1] is True
