"""The bounded queue."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragmonitor.runtime.queues import MemoryQueue


def test_a_full_queue_refuses_and_keeps_the_oldest():
    """What waits is not thrown out for what comes later."""
    queue = MemoryQueue(2)
    assert [queue.put(n) for n in range(3)] == [True, True, False]
    assert queue.take(9) == [0, 1]


def test_a_queue_of_nothing_is_refused():
    """A size below one is an error when it is built."""
    with pytest.raises(ValueError, match="at least one"):
        MemoryQueue(0)


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
            taken.extend(queue.take(step))
        assert len(queue) <= size
    assert taken + list(queue.take(100)) == accepted
