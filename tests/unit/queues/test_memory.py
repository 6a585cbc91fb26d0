"""The bounded queue."""

import tracemalloc
from types import SimpleNamespace

from hypothesis import given
from hypothesis import strategies as st

from ragmonitor.runtime.queues import MemoryQueue, weight_of


def taken_from(queue, most):
    """Return what waits, oldest first; `most` at most."""
    return [each for _ in range(most) if (each := queue.take()) is not None]


@given(
    size=st.integers(1, 5),
    steps=st.lists(st.one_of(st.just("put"), st.integers(1, 4)), max_size=60),
)
def test_what_is_taken_is_what_was_put_in_its_order(size, steps):
    """Never more than `size` wait; nothing is lost, doubled or overtaken."""
    queue, accepted, taken = MemoryQueue(size), [], []
    for n, step in enumerate(steps):
        if step == "put":
            if queue.put(n):
                accepted.append(n)
        else:
            taken.extend(taken_from(queue, step))
        assert len(queue) <= size
    assert taken + taken_from(queue, 100) == accepted


def test_a_request_does_not_wait_for_the_weighing_of_what_is_large():
    """No code of the application's runs, and nothing is copied whole."""

    class Lazy(dict):
        def values(self):
            raise AssertionError

    class Rows(list):
        def __getitem__(self, index):
            raise AssertionError

    large = dict.fromkeys(range(1_000_000))
    held = [large, SimpleNamespace(**Lazy(a="x" * 10_000)), Lazy(b="x" * 10_000), Rows(["x"])]
    tracemalloc.start()
    weight = weight_of(SimpleNamespace(held=held[1:]))
    assert 20_000 < weight < 21_000
    weight_of(SimpleNamespace(held=held))
    assert tracemalloc.get_traced_memory()[1] < 1_000_000
    tracemalloc.stop()
