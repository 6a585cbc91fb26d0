"""What a commit on Kafka remembers of each record."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragmonitor.streams.kafka_progress import MAX_WINDOW, Progress


def hand_out(progress: Progress, count: int) -> None:
    for entry in progress.hand_out(count):
        entry.deliveries += 1


def again(progress: Progress, end: int) -> Progress:
    """Return what another process makes of the commit, after it read the records again."""
    found = Progress(0, progress.first, progress.text())
    for offset in range(found.first, end):
        found.add(offset, b"%d" % offset, 1.0)
    return found


steps = st.lists(
    st.one_of(
        st.tuples(st.just("take"), st.integers(1, 20)),
        st.tuples(st.just("settle"), st.integers(0, 60)),
        st.tuples(st.just("restart"), st.just(0)),
        st.tuples(st.just("retake"), st.integers(1, 20)),
    ),
    max_size=40,
)


@given(steps=steps)
@settings(max_examples=200, deadline=None)
def test_a_successor_knows_what_is_settled_and_what_was_handed_out(steps):
    """Nothing that is settled comes again, everything else does, and no count is too high."""
    end = 60
    progress = again(Progress(0, 0), end)
    settled: set[int] = set()
    counts: dict[int, int] = {}
    for step, n in steps:
        if step == "take":
            hand_out(progress, n)
        elif step == "retake":
            for entry in list(progress.open.values())[:n]:
                entry.deliveries += 1
        elif step == "settle" and n in progress.open:
            progress.settle(n)
            settled.add(n)
        elif step == "restart":
            progress = again(progress, end)
        now = {each.offset: each.deliveries for each in progress.open.values()}
        assert now.keys() == (counts.keys() | now.keys()) - settled
        if step == "restart":
            assert all(now[each] <= counts[each] for each in now)
        counts = now
        waits = {each.offset for each in progress.ahead}
        assert settled | counts.keys() | waits == set(range(end))
        assert len(settled) + len(counts) + len(waits) == end
        assert (progress.waiting, progress.in_hand) == (len(waits), len(counts))
        unread = Progress(0, progress.first, progress.text())
        unread.end = end
        assert (unread.waiting, unread.in_hand) == (len(waits), len(counts))


@given(counts=st.lists(st.integers(1, 4), min_size=1, max_size=7))
def test_counts_outlive_a_restart(counts):
    """As long as they change seldom along the partition."""
    progress = again(Progress(0, 5), 5 + len(counts))
    for entry, count in zip(progress.hand_out(99), counts, strict=True):
        entry.deliveries = count
    successor = again(progress, 5 + len(counts))
    assert [each.deliveries for each in successor.open.values()] == counts


@given(settled=st.sets(st.integers(1, MAX_WINDOW - 1), max_size=50))
@settings(max_examples=10, deadline=None)
def test_a_commit_always_fits(settled):
    """Whatever is settled behind the oldest record: brokers take 4,096 bytes."""
    progress = again(Progress(0, 2**60), 2**60)
    for offset in range(MAX_WINDOW + 100):
        progress.add(2**60 + offset, b"", 1.0)
    for number, entry in enumerate(progress.hand_out(MAX_WINDOW + 100)):
        entry.deliveries = 1_000 + number % 2
    assert len(progress.open) == MAX_WINDOW
    for offset in settled:
        progress.settle(2**60 + offset)
    progress.settle(2**60 + MAX_WINDOW - 1)
    assert len(progress.text()) <= 3_100
    assert progress.hand_out(9) == []
    progress.settle(2**60)
    assert len(progress.hand_out(100)) >= 1


def test_what_is_missing_is_left_out_and_counted():
    """Records that retention deleted are done; those of them that were settled are no loss."""
    progress = again(Progress(0, 0), 10)
    hand_out(progress, 6)
    progress.settle(4)
    successor = Progress(0, progress.first, progress.text())
    assert successor.skip(8) == 7
    assert (successor.first, successor.next) == (8, 8)
    progress.add(500, b"", 1.0)
    for offset in (0, 1, 2, 3, 5):
        progress.settle(offset)
    hand_out(progress, 9)
    for offset in (6, 7, 8, 9):
        progress.settle(offset)
    assert progress.first == 500


@pytest.mark.parametrize("text", ["x", "2;;", "1;!!;", "1;;3", "1;;a:b"])
def test_what_another_wrote_is_refused(text):
    with pytest.raises(ValueError):
        Progress(0, 0, text)
