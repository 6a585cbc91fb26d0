"""What verdicts teach of an answer beyond the built-in judge's risk."""

import itertools
import json
import math
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragmonitor.estimation import Predictions, WindowedMeans
from ragmonitor.estimation.answer_features import NAMES, LabelledAnswer, features_of
from ragmonitor.estimation.learned_score import MAX_ODDS, PRIOR_ODDS, REVIVAL, LearnedScore
from ragmonitor.estimation.parts import Answer
from ragmonitor.estimation.signals import outcomes
from ragmonitor.judges.builtin import BuiltinJudge
from ragmonitor.records import (
    Assessment,
    Chunk,
    CompletedAnswer,
    Interaction,
    JudgeIdentity,
    Prediction,
    PredictionBasis,
    Report,
    SamplingDecision,
    SentenceVerdict,
    Verdict,
)
from ragmonitor.state import StateFile

JUDGE = JudgeIdentity(name="judge", version="1", kind="LLM")
BUILTIN = JudgeIdentity(name="builtin", version="1", kind="CODE")
CERTAIN = SamplingDecision(inclusion_probability=1.0, drawn=True)

MEANS = WindowedMeans(builtin="builtin", judge="judge", clock=lambda: 0.0)

chances = st.floats(0.001, 0.999)
features = st.dictionaries(st.integers(0, len(NAMES) - 1), st.floats(-2, 2), max_size=40).map(
    lambda found: tuple(sorted(found.items()))
)
verdicts = st.tuples(features, chances, chances, st.booleans())


def based(of_answer, untrained, learned, trust=0.0):
    """Return what a model would have said that moves one chance to another."""
    shift = math.log(learned / (1 - learned)) - math.log(untrained / (1 - untrained))
    mixed = untrained + trust * (learned - untrained)
    shift = max(-4.0, min(4.0, shift))
    return PredictionBasis(of_answer, untrained, shift, learned, mixed, trust > 0)


def told(model, found, *, weight=1.0):
    for of_answer, untrained, learned, bad in found:
        basis = based(of_answer, untrained, learned, 0.5)
        model.add(basis, value=float(bad), weight=weight)


def report(*, risk, words=(), route="", judge=BUILTIN, verdict=Verdict.SUPPORTED, number=0):
    interaction = Interaction(
        id=f"{number:032x}",
        query="When?",
        chunks=(Chunk(text="From nine to five."),),
        answer="At nine.",
        framework="python",
        started_ns=0,
        ended_ns=0,
        attributes={"route": route} if route else {},
    )
    sentence = SentenceVerdict(
        text="At nine.", start=0, end=8, verdict=verdict, support=1 - risk, words=words
    )
    assessment = Assessment(
        judge=judge,
        language="en",
        sentences=(sentence,),
        answer_relevancy=1.0,
        evasive=False,
        chunk_relevance=(1.0,),
        risk=risk,
    )
    return Report(interaction=interaction, judge=judge, evaluations=(), assessment=assessment)


def judged(predictions, builtin, *, bad, decision=CERTAIN):
    """Predict an answer, have the verdict on it learned, and return the prediction."""
    found = outcomes(builtin)
    prediction = predictions.predict(builtin, found, Prediction())
    verdict = Verdict.ABSENT if bad else Verdict.SUPPORTED
    read = report(risk=0.5, judge=JUDGE, verdict=verdict)
    predictions.add(
        Answer(
            completed=CompletedAnswer(
                builtin=builtin, prediction=prediction, decision=decision, judged=read
            ),
            interaction=builtin.interaction,
            at_s=0.0,
            group=-1,
            builtin=found,
            judged=outcomes(read),
            weight=1 / decision.inclusion_probability,
        )
    )
    return prediction


def learn(predictions, answers):
    """Return the predictions of answers and the verdicts, learned from as ticks come."""
    found = []
    for number, (builtin, bad) in enumerate(answers):
        found.append((judged(predictions, builtin, bad=bad), bad))
        if number % 10 == 9:
            predictions.tick()
    return found


def traffic(n, *, seed, told_by_words):
    """Yield built-in reports and verdicts; the risk says nothing, the missing word may."""
    rng = random.Random(seed)
    for number in range(n):
        word = rng.choice(("parking", "breakfast"))
        bad = rng.random() < (0.75 if told_by_words and word == "parking" else 0.2)
        yield report(risk=rng.random(), words=(word,), number=number), bad


def brier(found, name):
    return sum((getattr(each.basis, name) - bad) ** 2 for each, bad in found) / len(found)


def test_it_learns_what_the_risk_does_not_know():
    """Answers that lack one word are bad three times of four: the error falls well below."""
    predictions = Predictions(judge="judge")
    found = learn(predictions, traffic(500, seed=1, told_by_words=True))
    late = [(each, bad) for each, bad in found[200:] if each.basis is not None]
    assert brier(late, "learned") < 0.9 * brier(late, "untrained")
    assert predictions._model.trust > 0.8
    parking = predictions.predict(
        report(risk=0.5, words=("parking",)),
        outcomes(report(risk=0.5)),
        Prediction(),
    )
    assert 0.55 < parking.hallucination < 0.9


@pytest.mark.parametrize("seed", range(3))
def test_where_there_is_nothing_to_learn_answers_are_ranked_by_their_risk(seed):
    """Over 500 verdicts that no feature tells it is not trusted, whatever else an answer has."""
    predictions = Predictions(judge="judge")
    found = learn(predictions, traffic(500, seed=seed, told_by_words=False))
    assert len([each for each, _ in found if each.basis is not None]) > 400
    assert predictions._model.trust == 0
    rng = random.Random(seed)
    asked = [
        report(risk=step / 300, words=(rng.choice(("parking", "breakfast")),), route="chat")
        for step in range(301)
    ]
    said = [predictions.predict(each, outcomes(each), Prediction()) for each in asked]
    chances = [each.hallucination for each in said]
    assert all(lower < higher for lower, higher in itertools.pairwise(chances))
    assert any(each.basis.shift for each in said)


def test_before_any_verdict_it_says_what_the_untrained_score_says():
    """All weights are 0."""
    found = features_of(report(risk=0.7, words=("parking",)))
    basis = LearnedScore().predict(found, 0.3)
    assert (basis.mixed, basis.is_trusted) == (0.3, False)
    assert basis.learned == pytest.approx(0.3)


@settings(deadline=None, max_examples=30)
@given(st.lists(st.tuples(chances, chances, st.booleans()), max_size=100))
def test_each_time_it_is_trusted_costs_at_most_ln_2(found):
    """Whatever the model says: the summed loss is above the untrained score's by no more."""
    model, lost, times = LearnedScore(), 0.0, 0
    for untrained, learned, bad in found:
        was_trusted = model.trust > 0
        basis = based((), untrained, learned, model.trust)
        lost -= math.log(basis.mixed if bad else 1 - basis.mixed)
        lost += math.log(untrained if bad else 1 - untrained)
        model.add(basis, value=float(bad), weight=1.0)
        model.merge()
        times += model.trust > 0 and not was_trusted
        assert lost <= times * math.log(2) + 1e-9


@settings(deadline=None, max_examples=50)
@given(chances, chances, st.floats(1e-6, 0.999))
def test_evidence_does_not_grow_where_the_untrained_chance_is_true(untrained, learned, odds):
    """On average over the verdict, which is bad with that chance, but for the revival."""
    expected = 0.0
    for bad, chance in ((True, untrained), (False, 1 - untrained)):
        model = LearnedScore()
        model.merge(model.state() | {"odds": odds})
        model.add(based((), untrained, learned), value=float(bad), weight=2.0)
        model.merge()
        expected += chance * model.state()["odds"]
    assert expected <= odds + REVIVAL + 1e-9


def test_it_is_trusted_at_even_odds_until_they_are_back_where_they_began():
    """Between both it stays as it was; odds are bounded, so that it can lose trust in time."""
    model = LearnedScore()
    assert model.state()["odds"] == PRIOR_ODDS

    def trust_after(untrained, learned):
        model.add(based((), untrained, learned), value=1.0, weight=1.0)
        model.merge()
        return model.trust

    assert trust_after(0.4, 0.8) == 0
    assert trust_after(0.4, 0.8) == 0.5
    assert trust_after(0.8, 0.4) == pytest.approx(1 / 3)
    assert trust_after(0.8, 0.4) == 0
    assert max(trust_after(0.1, 0.9) for _ in range(20)) < 1
    assert model.state()["odds"] == MAX_ODDS


def test_a_newer_calibration_alone_is_no_reason_to_trust_it():
    """The untrained chance is far too high for all; what features add says nothing of its own."""
    model, rng = LearnedScore(), random.Random(11)
    for number in range(400):
        risk = rng.gauss(0, 1)
        noise = tuple((at, rng.random()) for at in range(2, 12))
        basis = model.predict(((0, 1.0), (1, risk), *noise), 0.5)
        model.add(basis, value=float(rng.random() < 0.2), weight=1.0)
        model.merge()
        assert model.trust == 0, number


@settings(deadline=None, max_examples=30)
@given(st.lists(verdicts, min_size=1, max_size=30))
def test_what_it_adds_is_uncorrelated_with_the_risk(found):
    """Over the answers that it learned from: with the base rate and with the risk's log odds."""
    model = LearnedScore()
    alike = [
        (((0, 1.0), *(each for each in of_answer if each[0])), untrained, learned, bad)
        for of_answer, untrained, learned, bad in found
    ]
    told(model, alike)
    model.merge()
    model.fit()
    matrix = model._information
    level, both, square = matrix[:3]
    for at in (0, 1) if square - both**2 / level > 1e-3 * square else (0,):
        row = [matrix[max(at, k) * (max(at, k) + 1) // 2 + min(at, k)] for k in range(len(NAMES))]
        told_by = sum(of * weight for of, weight in zip(row, model._weights, strict=True))
        assert told_by == pytest.approx(0, abs=1e-3)


def test_a_prediction_rests_on_earlier_verdicts_only():
    """With the verdicts from some answer on turned round, all up to it are predicted alike."""
    courses = [list(traffic(300, seed=3, told_by_words=True)) for _ in range(2)]
    courses[1][200:] = [(builtin, not bad) for builtin, bad in courses[1][200:]]
    first, second = [
        [prediction.hallucination for prediction, _ in learn(Predictions(judge="judge"), course)]
        for course in courses
    ]
    assert first[:201] == second[:201]
    assert first[201:] != second[201:]


@settings(deadline=None, max_examples=30)
@given(st.lists(verdicts, max_size=8), st.lists(verdicts, max_size=8), st.randoms())
def test_processes_add_up_in_any_order(ours, theirs, rng):
    """Two that exchange their states hold what one holds that saw all verdicts."""
    mixed = [*ours, *theirs]
    rng.shuffle(mixed)
    alone = LearnedScore()
    told(alone, mixed)
    alone.merge()
    first, second = LearnedScore(), LearnedScore()
    told(first, ours)
    told(second, theirs)
    first.merge()
    second.merge(first.state())
    first.merge(second.state())
    for model in (first, second):
        # Later verdicts make earlier ones count a little less, whichever came first.
        assert model.verdicts == pytest.approx(alone.verdicts, rel=0.02)
        for name in ("information", "right", "losses"):
            assert model.state()[name] == pytest.approx(alone.state()[name], rel=0.02, abs=0.02)


@settings(deadline=None, max_examples=30)
@given(st.lists(verdicts, min_size=1, max_size=30), features, chances)
def test_whatever_it_is_told_it_says_a_chance(found, asked, untrained):
    """Above 0 and below 1, with finite weights."""
    model = LearnedScore()
    told(model, found, weight=2.0)
    model.merge()
    model.fit()
    assert 0 < model.predict(asked, untrained).learned < 1
    assert all(math.isfinite(weight) for _, weight in model.largest(len(NAMES)))
    assert 0 <= model.trust < 1


def test_one_that_gets_no_verdicts_follows_those_of_another_however_many_there_were():
    """As a worker of a fleet does; after 4,000 verdicts it still learns what the next 2,000 say."""
    teller, listener = LearnedScore(), LearnedScore()
    for n in range(120):
        told(
            teller, [(((20, side),), 0.3, 0.3, (side > 0) is (n < 80)) for side in (-1.0, 1.0)] * 25
        )
        teller.merge()
        listener.merge(json.loads(json.dumps(teller.state())))
    for side in (-1.0, 1.0):
        expected = teller.predict(((20, side),), 0.3).shift
        assert listener.predict(((20, side),), 0.3).shift == pytest.approx(expected, abs=0.01)


def test_its_state_is_small_and_says_the_same_again():
    """After 3,000 verdicts, through JSON."""
    model = LearnedScore()
    rng = random.Random(4)
    for _ in range(60):
        told(
            model,
            [
                (
                    tuple((at, rng.gauss(0, 1)) for at in range(len(NAMES))),
                    rng.random() * 0.9 + 0.05,
                    0.5,
                    rng.random() < 0.5,
                )
                for _ in range(50)
            ],
        )
        model.merge()
    state = json.dumps(model.state())
    assert len(state) < 40_000
    again = LearnedScore()
    again.merge(json.loads(state))
    asked = ((0, 1.0), (5, -1.0), (40, 0.5))
    model.fit()
    said = [each.predict(asked, 0.3) for each in (model, again)]
    assert said[1].learned == pytest.approx(said[0].learned, abs=1e-4)
    assert again.trust == model.trust


@pytest.mark.parametrize(
    "broken",
    [
        {"features": ["another"]},
        {"information": [1.0]},
        {"right": [math.inf] * len(NAMES)},
        {"odds": 0.0},
        {"odds": math.inf},
        {"behind": [0.0]},
        {"verdicts": None},
    ],
)
def test_a_state_of_another_shape_changes_nothing(broken):
    """It is refused, and what was known stays."""
    model = LearnedScore()
    told(model, [(((0, 1.0),), 0.5, 0.5, True)] * 40)
    model.merge()
    before = model.state()
    with pytest.raises(ValueError, match="model"):
        model.merge(before | broken)
    assert model.state() == before


def test_processes_that_share_a_file_learn_together(tmp_path):
    """One that has seen no verdict itself predicts what the other has learned, after a restart."""

    def file():
        return StateFile.of_service(tmp_path, "calibration", "shop", version=1)

    first = Predictions(judge="judge", file=file())
    learn(first, traffic(300, seed=5, told_by_words=True))
    second = Predictions(judge="judge", file=file())
    asked = report(risk=0.5, words=("parking",))
    expected = first.predict(asked, outcomes(asked), Prediction()).hallucination
    found = second.predict(asked, outcomes(asked), Prediction()).hallucination
    assert found == pytest.approx(expected, abs=0.03)
    assert found > 0.5


def test_one_that_does_not_learn_keeps_what_others_have_learned(tmp_path):
    """Switched off in one process: it predicts by the risk, and the file still holds the model."""

    def file():
        return StateFile.of_service(tmp_path, "calibration", "shop", version=1)

    learning = Predictions(judge="judge", file=file())
    learn(learning, traffic(200, seed=6, told_by_words=True))
    other = Predictions(judge="judge", file=file(), learns=False)
    prediction = judged(other, report(risk=0.5, words=("parking",)), bad=False)
    assert prediction.basis is None
    assert file().read()["model"]["verdicts"] > 100


def test_a_forked_child_does_not_count_its_parents_verdicts_again():
    """What was not merged yet is the parent's; what was learned stays."""
    predictions = Predictions(judge="judge")
    learn(predictions, traffic(100, seed=7, told_by_words=True))
    model = predictions._model
    told(model, [(((0, 1.0),), 0.5, 0.5, True)])
    before = model.verdicts
    predictions.clear()
    assert model.verdicts == pytest.approx(before - 1)
    predictions.tick()
    assert model.verdicts == pytest.approx(before - 1)


def test_features_of_a_real_assessment_are_bounded_and_hold_no_text():
    """Numbers at known places, for an answer with everything and one with nothing."""
    texts = ("Parking is free.", "停车场收费。", "Open from 9 to 5." * 400)
    chunks = tuple(Chunk(text=text) for text in texts)
    for answer in ("Parking costs 7 euros, and dogs may swim. " * 80, "Yes.", "停车场免费。"):
        interaction = Interaction(
            id="0" * 32,
            query="Is there parking?",
            chunks=chunks,
            answer=answer,
            framework="python",
            started_ns=0,
            ended_ns=0,
            name="support",
        )
        read = BuiltinJudge().read(interaction)
        found = features_of(
            Report(interaction=interaction, judge=BUILTIN, evaluations=(), assessment=read)
        )
        assert found is not None
        places = [at for at, _ in found]
        assert len(set(places)) == len(places)
        assert set(places) <= set(range(len(NAMES)))
        assert all(-2 <= value <= 2 for _, value in found)


def test_it_says_what_it_has_learned():
    """Verdicts, trust, both errors and the word that tells, as gauges of the judge."""
    predictions = Predictions(judge="judge")
    learn(predictions, traffic(600, seed=8, told_by_words=True))
    gauges = {
        (each.name, *dict(each.labels).values()): each.value for each in predictions.gauges(MEANS)
    }
    assert gauges["ragmonitor_learned_verdicts", "judge"] > 400
    assert gauges["ragmonitor_learned_trust_ratio", "judge"] > 0.8
    errors = [
        gauges["ragmonitor_prediction_error_ratio", "judge", score]
        for score in ("learned", "untrained")
    ]
    assert errors[0] < 0.9 * errors[1]
    aurocs = [gauges[f"ragmonitor_builtin_{name}auroc", "judge"] for name in ("", "untrained_")]
    assert aurocs[0] > 0.65
    assert aurocs[1] < 0.58
    words = {
        feature
        for name, _, *feature in gauges
        if name == "ragmonitor_learned_coefficient"
        for feature in feature
    }
    assert 0 < len(words) <= 8
    assert any(feature.startswith("missing words") for feature in words)


def test_people_s_labels_move_predictions_and_can_be_taken_back():
    """Forty answers with a word that the judge never saw are bad, forty with another are fine."""
    predictions = Predictions(judge="judge")
    learn(predictions, traffic(100, seed=9, told_by_words=False))
    asked = report(risk=0.5, words=("helicopter",))

    def learned():
        return predictions.predict(asked, outcomes(asked), Prediction()).basis.learned

    before = learned()
    bad = LabelledAnswer(features_of(asked), 0.5, "en", bad=True)
    fine = bad._replace(features=features_of(report(risk=0.5, words=("breakfast",))), bad=False)
    predictions.learn_labels([bad, fine] * 40)
    assert learned() > before + 0.1
    predictions.learn_labels([])
    assert learned() == pytest.approx(before, abs=0.05)
