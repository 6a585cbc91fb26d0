"""What is taken as feedback, and by which id it finds its answer."""

import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragmonitor.runtime.errors import FeedbackError
from ragmonitor.runtime.feedback import Feedback, feedback_of, joining_id


def told(value=True, identity="a", **changes):
    return feedback_of(identity, value, **({"kind": "thumbs", "at_s": 1.0} | changes))


@pytest.mark.parametrize(
    ("value", "score", "direction"),
    [
        (True, 1.0, "good"),
        (-1, 0.0, "bad"),
        (0.5, 0.5, "neither"),
        ("\N{THUMBS UP SIGN}\N{EMOJI MODIFIER FITZPATRICK TYPE-4}", 1.0, "good"),
        ("thumbs_down", 0.0, "bad"),
    ],
)
def test_values_have_a_direction(value, score, direction):
    found = told(value)
    assert (found.score, found.direction) == (score, direction)


@pytest.mark.parametrize(
    "wrong", [{"identity": ""}, {"identity": 5}, {"identity": "x" * 201}, {"kind": "A b"}]
)
def test_an_id_or_a_kind_that_is_none_is_refused(wrong):
    with pytest.raises(FeedbackError):
        told(**wrong)


@given(st.uuids())
def test_every_spelling_of_a_run_id_is_one_id(run: uuid.UUID):
    """As LangChain takes it, as LangSmith shows it, and as an interaction has it."""
    assert {joining_id(each) for each in (run, str(run), str(run).upper(), run.hex)} == {run.hex}


@given(st.text(max_size=30), st.text(max_size=9_000))
def test_what_is_taken_is_bounded(identity: str, comment: str):
    try:
        found = told(identity=identity, comment=comment)
    except FeedbackError:
        return
    assert isinstance(found, Feedback)
    assert found.comment == comment[:4_000]
