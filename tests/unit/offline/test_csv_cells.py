"""Texts in the cells of a CSV: nobody's formulas, and the same again when they are read."""

import time
import timeit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragmonitor.runtime.tables import guarded, unguarded


@pytest.mark.parametrize(
    "text", ["=1+1", " @SUM(A1)", "\t-1", "\n+1", "\uff1d1", "'=1", "' \uff0b1"]
)
def test_a_formula_is_guarded(text: str) -> None:
    """Whatever stands before its sign, and whatever its sign's width."""
    assert guarded(text) == f"'{text}"


@given(text=st.text(st.sampled_from("'=+-@ \t\n\r\uff1da1")))
def test_a_cell_is_read_as_it_was(text: str) -> None:
    """Also one that looks guarded already."""
    assert unguarded(guarded(text)) == text


def test_a_cell_of_spaces_takes_time_that_grows_with_its_length():
    """Not with its square: eight times the length takes less than 32 times as long."""

    def seconds(n):
        cell = " " * n + "x"
        return min(timeit.repeat(lambda: guarded(cell), timer=time.thread_time, number=9, repeat=5))

    assert seconds(200_000) < 32 * seconds(25_000) + 0.01
