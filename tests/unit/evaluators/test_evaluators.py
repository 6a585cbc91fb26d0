"""The evaluators' formulas and what they leave unscored."""

from dataclasses import replace

import pytest

from ragmonitor.evaluators import Table, evaluate, evaluator, table
from ragmonitor.evaluators.table import Entry
from ragmonitor.records import Cause, Scored, Unscored
from ragmonitor.runtime.errors import NotScorableError, SettingsError
from tests.support.stories import assessment, interaction


def outcome(name, told, found):
    (evaluation,) = evaluate(table.select([name]), told, found)
    return evaluation.score if isinstance(evaluation, Scored) else evaluation.cause


def test_an_explanation_is_in_the_answer_s_language():
    """Whoever reads a Chinese answer reads Chinese."""
    found = assessment("contradicted", language="zh")
    named = replace(found.sentences[0], text="塔建于1920年。", words=("1920年",))
    (evaluation,) = evaluate(
        table.select(["faithfulness"]), interaction(), replace(found, sentences=(named,))
    )
    assert evaluation.explanation == "与资料矛盾：塔建于1920年。 [1920年]"


@pytest.mark.parametrize("result", [float("nan"), 1.5, -0.1, "high", None])
def test_what_is_no_score_is_an_evaluator_error(result):
    """A value that is no number from 0 to 1 is counted as the evaluator's error."""
    own = Table([Entry(name="odd", version=1, evaluator=lambda *_: result)])
    (evaluation,) = evaluate(own, interaction(), assessment("supported"))
    assert isinstance(evaluation, Unscored)
    assert evaluation.cause is Cause.EVALUATOR_ERROR


@pytest.mark.parametrize("error", [RuntimeError("mine"), SystemExit(2)], ids=["error", "exit"])
def test_a_raising_evaluator_spoils_no_other(error):
    """The others keep their scores, also where it means to end the process."""

    def broken(_told, _found):
        raise error

    def declines(_told, _found):
        raise NotScorableError(Cause.NO_CLAIMS, "nothing said")

    entries = Table(
        [
            Entry(name="broken", version=1, evaluator=broken),
            Entry(name="declines", version=1, evaluator=declines),
            *table.select(["faithfulness"]),
        ]
    )
    first, second, third = evaluate(entries, interaction(), assessment("supported"))
    assert (first.cause, second.cause, third.score) == (
        Cause.EVALUATOR_ERROR,
        Cause.NO_CLAIMS,
        1.0,
    )


def test_an_evaluator_without_a_name_is_refused():
    """Without parentheses the decorator would lose the function in silence."""
    with pytest.raises(SettingsError, match=r'@evaluator\("brevity"\)'):

        @evaluator
        def brevity(_told, _found):
            return 1.0


def test_unknown_names_are_refused_with_the_known_ones():
    """Selecting a misspelt evaluator says what there is."""
    with pytest.raises(SettingsError, match=r"unknown evaluator faithfullness.*faithfulness"):
        table.select(["faithfullness"])


def test_a_name_and_version_is_one_formula():
    """Registering another function under the same version is refused."""
    own = Table([Entry(name="one", version=1, evaluator=lambda *_: 1.0)])
    with pytest.raises(SettingsError, match="raise its version"):
        own.register(Entry(name="one", version=1, evaluator=lambda *_: 0.0))


def test_what_is_awaited_asks_the_judge():
    """A coroutine function or an object that is called like one; nothing else says so."""
    own = Table()

    class Kindness:
        async def __call__(self, _told, _found, _asker):
            return 1.0

    @evaluator("politeness", into=own)
    async def politeness(_told, _found, _asker):
        return 1.0

    evaluator("kindness", into=own)(Kindness())
    evaluator("brevity", into=own)(lambda *_: 1.0)
    assert [entry.asks for entry in own] == [True, True, False]
