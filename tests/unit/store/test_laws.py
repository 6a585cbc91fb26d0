"""What holds of every store."""

from __future__ import annotations

import threading

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ragmonitor.store import (
    BET_S,
    OTHER,
    Admission,
    Change,
    Memory,
    Settlement,
    Sqlite,
    merge_buckets,
    takes_lease,
)
from ragmonitor.store.interface import LEASE_S, MAX_SLICES, MAX_VALUES

_share_a_store = settings(
    max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
vectors = st.lists(st.integers(-1000, 1000).map(lambda n: n / 8), min_size=3, max_size=3)
increments = st.dictionaries(
    st.sampled_from(["r0", "r300", "h0", "q0", "series", "b99999999990"]),
    st.dictionaries(st.sampled_from(["hallucination", "refusal|tenant=ä"]), vectors, max_size=2),
    max_size=4,
)


def sums_of(store) -> dict:
    names = [f"{kind}{t}" for kind in "rhqb" for t in store.names(kind)]
    return {name: rows for name in [*names, "series"] if (rows := store.read(name))}


@_share_a_store
@given(parts=st.lists(increments, max_size=6))
def test_sums_are_the_sum_of_what_was_added_in_any_split_and_order(new_store, parts):
    """Three stores hold the same numbers as one dictionary."""
    store, expected = new_store(), {}
    for part in parts:
        store.add(part)
    for part in reversed(parts):
        merge_buckets(expected, part)
    assert sums_of(store) == {name: rows for name, rows in expected.items() if rows}


def test_a_draw_goes_to_the_bucket_of_now_and_its_verdict_to_the_same(store):
    """The store's clock places draws; `add` says where."""
    before = store.now()
    bucket = store.add({"b": {"s@1": [0.0, 0.0, 1.0]}}).bucket
    assert before - BET_S < bucket <= store.now()
    assert store.add({f"b{bucket}": {"s@1": [2.0, 1.0, -1.0]}}).bucket >= bucket
    assert store.read(f"b{bucket}") == {"s@1": [2.0, 1.0, 0.0]}


def test_a_verdict_on_a_closed_bucket_is_left_out_of_bets_and_counted(store):
    """Means take the verdict all the same."""
    bucket = store.add({"b": {"s@1": [0.0, 0.0, 1.0]}}).bucket
    assert store.commit(0, {"closed": bucket})
    added = store.add({f"b{bucket}": {"s@1": [2.0, 1.0, -1.0]}, "r0": {"s": [1.0]}})
    assert store.read(f"b{bucket}") == {"s@1": [0.0, 0.0, 1.0]}
    assert store.read("r0") == {"s": [1.0]}
    assert added.late == 1


def test_no_draw_goes_to_a_closed_bucket(store):
    """A clock that steps back opens nothing."""
    ahead = int(store.now() // BET_S) * BET_S + 1_000
    store.commit(0, {"closed": ahead})
    assert store.add({"b": {"s@1": [0.0, 0.0, 1.0]}}).bucket == ahead + BET_S
    assert store.names("b") == [ahead + BET_S]


def test_a_record_is_settled_once(store):
    """The second settlement is refused, and nothing of its batch is added; whatever its id."""
    store.add({"r0": {"s": [0.0]}}, [Settlement("1", entry="1-1"), Settlement("s")])
    store.add({"r0": {"s": [1.0]}}, [Settlement("one")])
    added = store.add({"r0": {"s": [1.0]}}, [Settlement("two"), Settlement("one")])
    assert added.refused == {"one"}
    assert store.read("r0") == {"s": [1.0]}
    assert not store.add({"r0": {"s": [1.0]}}, [Settlement("two")]).refused
    assert store.read("r0") == {"s": [2.0]}


def test_a_drawn_record_has_its_decision_until_it_is_settled(store):
    """Whoever takes it over repeats the decision, and knows the bucket of the draw."""
    draw = Settlement("one", decision='{"chance": 0.5}')
    bucket = store.add({"b": {"s@1": [0.0, 0.0, 1.0]}}, [draw]).bucket
    assert store.decision("one") == (bucket, '{"chance": 0.5}')
    assert store.decision("two") is None
    assert store.add({"b": {"s@1": [0.0, 0.0, 1.0]}}, [draw]).refused == {"one"}
    store.add({}, [Settlement("one")])
    assert store.decision("one") is None
    assert store.add({}, [draw]).refused == {"one"}


def test_a_commit_happens_whole_or_not_at_all(store):
    """The version decides, and folding happens within the store."""
    store.add({"r0": {"s": [1.0]}, "r300": {"s": [2.0]}, "h0": {"s": [4.0]}, "b50": {"x": [9.0]}})
    assert store.state() == (0, {})
    change = Change(
        moves=[("r0", "h0"), ("r300", "h0"), ("r600", "h3600")],
        drops=["b50"],
        increments={"c0": {"s": [0.5]}},
        rows={("tick", "alarm:s"): b"\x00\xff"},
    )
    assert store.commit(0, {"closed": 50}, change)
    lost = Change(drops=["h0"], rows={("tick", "alarm:s"): b""})
    assert not store.commit(0, {"closed": 60}, lost)
    assert store.state() == (1, {"closed": 50})
    assert (store.names("r"), store.names("b"), store.names("c")) == ([], [], [0])
    assert store.read("h0") == {"s": [7.0]}
    assert store.rows("tick") == {"alarm:s": b"\x00\xff"}


@pytest.mark.parametrize("spoiled", [b"[]", b"\xff", b'[1, {"closed": "x"}]'])
def test_a_state_that_cannot_be_read_begins_anew(store, spoiled):
    """Sums are what counts: they are added, and the next evaluation puts another in its place."""
    store.keep("state", "all", spoiled)
    assert store.add({"r0": {"s": [1.0]}}).bucket > 0
    assert store.state() == (0, {})
    assert store.commit(0, {"closed": 5})
    assert store.state() == (1, {"closed": 5})


def test_what_cannot_be_encoded_is_no_outage(store):
    """It is said, and keeps nothing else out."""
    with pytest.raises(UnicodeEncodeError):
        store.add({"r0": {"half \ud800": [1.0]}})
    with pytest.raises(UnicodeEncodeError):
        store.row("answer", "half \ud800")
    assert store.add({"r0": {"s": [1.0]}}).bucket > 0
    assert store.read("r0") == {"s": [1.0]}


def test_one_holder_has_the_lease(store):
    """Who has it keeps it; nobody else gets it meanwhile."""
    assert takes_lease(store, "a")
    assert not takes_lease(store, "b")
    assert takes_lease(store, "a")


def test_a_lease_ends_by_itself_and_with_a_clock_that_was_put_back(tmp_path):
    """A dead holder, or one of the future, keeps nobody out."""
    now = [1_000.0]
    for store in (Memory(lambda: now[0]), Sqlite(tmp_path / "a.db", "s", clock=lambda: now[0])):
        now[0] = 1_000.0
        assert takes_lease(store, "a")
        now[0] += LEASE_S + 1
        assert takes_lease(store, "b")
        now[0] -= 600
        assert takes_lease(store, "c")


def test_twenty_values_of_a_dimension_and_a_hundred_in_all_have_series(store):
    """The rest is `other`, whoever asks."""
    first, second = (Admission(store) for _ in range(2))
    names = [first.slices({"d0": f"v{n}"})[0] for n in range(MAX_VALUES + 5)]
    assert names[: MAX_VALUES + 1] == [*(f"d0=v{n}" for n in range(MAX_VALUES)), f"d0={OTHER}"]
    assert second.slices({"d0": "v3"}) == ("d0=v3",)
    assert second.slices({"d0": "new"}) == (f"d0={OTHER}",)
    admitted = {
        name
        for d in range(8)
        for n in range(MAX_VALUES)
        for name in second.slices({f"d{d}": f"v{n}"})
        if not name.endswith(OTHER)
    }
    assert len(admitted) == MAX_SLICES


def test_values_from_many_threads_at_once_are_admitted_once(store):
    """Sixty values from four sides: twenty, and `other`."""
    found: set[str] = set()

    def ask(start: int) -> None:
        admission = Admission(store)
        for n in range(start, start + 60, 4):
            found.update(admission.slices({"tenant": f"t{n % 60}"}))

    threads = [threading.Thread(target=ask, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == MAX_VALUES + 1


def test_a_small_history_keeps_what_was_written_last(store):
    """It has a size; what is written again is new."""
    for n in range(5):
        assert store.keep("incident", f"{n}", b"%d" % n, most=5)
    store.keep("incident", "1", b"one", most=5)
    store.keep("incident", "5", b"5", most=3)
    assert store.rows("incident") == {"4": b"4", "1": b"one", "5": b"5"}
    assert list(store.rows("incident")) == ["4", "1", "5"]
    assert store.row("incident", "0") is None
    store.keep("incident", "4", None)
    assert store.row("incident", "4") is None
    with pytest.raises(ValueError, match="at most"):
        store.keep("incident", "big", b"x" * 300_000)


def test_a_row_is_written_if_it_holds_what_is_expected(store):
    """Compare-and-set."""
    assert store.keep("budget", "judge", b"1", expected=None)
    assert not store.keep("budget", "judge", b"2", expected=None)
    assert not store.keep("budget", "judge", b"2", expected=b"0")
    assert store.keep("budget", "judge", b"2", expected=b"1")
    assert store.row("budget", "judge") == b"2"
