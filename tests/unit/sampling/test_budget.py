"""Limits per hour and per day that hold over threads, processes and restarts."""

import json
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragmonitor.sampling import Budget, budget_state
from ragmonitor.sampling.budget import VERSION
from ragmonitor.state import StateFile, StateUnavailableError
from ragmonitor.testing import ManualClock

DAY_S, HOUR_S = 86_400, 3_600


@pytest.fixture
def clock():
    return ManualClock(1_000_000.0)


@pytest.fixture
def file(tmp_path):
    return tmp_path / "state" / "budget.json"


def kept(file, clock, per_day=24.0, **limits):
    state = StateFile(file, version=VERSION)
    return Budget(per_day, file=state, clock=clock, now=clock, **limits)


def test_an_hour_has_a_limit_of_its_own(clock):
    """Both must have the money: a quarter of the hour's at once, half of that at the start."""
    budget = Budget(24.0, per_hour=0.8, clock=clock)
    assert budget.level() == pytest.approx(0.1)
    assert not budget.reserve(0.11)
    assert budget.reserve(0.1)
    budget.refund(0.1, 0.1)
    clock.advance(HOUR_S)
    assert budget.level() == pytest.approx(0.2)


def test_what_is_reserved_keeps_its_place(clock):
    """A bucket does not refill into it: if it came back there would be more than the limit."""
    budget = Budget(24.0, clock=clock)
    assert budget.reserve(1.0)
    clock.advance(DAY_S)
    assert budget.level() == pytest.approx(1.0)
    budget.refund(1.0, 0.0)
    assert budget.level() == pytest.approx(2.0)


def test_an_hour_alone_is_a_budget(clock):
    """And neither is none."""
    assert Budget(per_hour=4.0, clock=clock).reserve(0.5)
    with pytest.raises(ValueError, match="per day or per hour"):
        Budget(clock=clock)


STEPS = st.lists(
    st.tuples(
        st.floats(0.001, 3),  # reserved
        st.floats(0, 1),  # share of it that is spent
        st.floats(0, 7_200),  # until the next
        st.integers(0, 3),  # how many later it is settled
    ),
    min_size=1,
    max_size=120,
)


@settings(max_examples=60, deadline=None)
@given(per_day=st.floats(0.5, 50), per_hour=st.floats(0.1, 5), steps=STEPS)
def test_no_window_costs_more_than_its_limit(per_day, per_hour, steps):
    """Reserved, held for a while, settled in part: whatever the order, no hour and no day."""
    clock = ManualClock(0.0)
    budget = Budget(per_day, per_hour=per_hour, clock=clock)
    spent, open_ = [], []
    for cost, share, pause_s, later in steps:
        if budget.reserve(cost):
            open_.append([later, cost, share, clock.now_s])
        for entry in open_:
            entry[0] -= 1
        for entry in [entry for entry in open_ if entry[0] < 0]:
            _, reserved, part, at = entry
            open_.remove(entry)
            budget.refund(reserved, reserved * part)
            spent.append((at, clock.now_s, reserved * part))
        clock.advance(pause_s)
    for window_s, limit in ((DAY_S, per_day), (HOUR_S, per_hour)):
        for moment in (0, 1):  # counted when it was reserved, or when it was settled
            for began in {entry[moment] for entry in spent}:
                within = [e[2] for e in spent if began <= e[moment] <= began + window_s]
                assert sum(within) <= limit * (1 + 1e-9)


def test_fifty_threads_never_spend_more_than_there_is(clock):
    """Reserve and settle at once from everywhere: the level never goes below 0."""
    budget = Budget(24.0, clock=clock)
    levels, granted = [], []

    def judge(_):
        if budget.reserve(0.05):
            granted.append(0.05)
            levels.append(budget.level())
            budget.refund(0.05, 0.04)

    with ThreadPoolExecutor(50) as pool:
        list(pool.map(judge, range(500)))
    assert min(levels) >= 0
    assert 0.04 * len(granted) <= 1.0
    assert budget.level() == pytest.approx(1.0 - 0.04 * len(granted))


# Over restarts


def test_a_restart_goes_on_where_it_was(file, clock):
    """What was spent stays spent, and the time between refills."""
    first = kept(file, clock)
    assert first.reserve(0.9)
    first.refund(0.9, 0.9)
    assert kept(file, clock).level() == pytest.approx(0.1)
    clock.advance(HOUR_S)
    assert kept(file, clock).level() == pytest.approx(0.1 + 22 / 24)


def test_what_was_reserved_at_a_crash_is_spent(file, clock):
    """Nobody knows whether the call was made: it was."""
    first = kept(file, clock)
    assert first.reserve(0.9)
    second = kept(file, clock)
    assert second.level() == pytest.approx(0.1)
    clock.advance(2 * DAY_S)
    assert kept(file, clock).level() == pytest.approx(2.0)


def test_restarting_again_and_again_gains_nothing(file, clock):
    """A crash loop spends what one process would have."""
    spent = 0.0
    for _ in range(50):
        budget = kept(file, clock)
        while budget.reserve(0.2):
            spent += 0.2
        clock.advance(10)
    assert spent <= 1.0 + 50 * 10 * 22 / DAY_S + 1e-9


def test_a_lower_limit_counts_at_once(file, clock):
    """The bucket is cut to what the new limit may hold."""
    clock.advance(DAY_S)
    kept(file, clock, per_day=240.0)
    clock.advance(DAY_S)
    assert kept(file, clock, per_day=24.0).level() == pytest.approx(2.0)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"null",
        b"[]",
        b'{"version": 1}',
        b'{"version": 1, "at": "x", "buckets": {}, "held": {}}',
        b'{"version": 1, "at": 0, "buckets": {"day": {"level": NaN}}, "held": {}}',
        b'{"version": 1, "at": 0, "buckets": {"day": {"level": 1}}, "held": {"p": 5}}',
        b"\xff\xfe\x00",
    ],
)
def test_a_file_that_cannot_be_read_is_an_empty_bucket(file, clock, caplog, content):
    """With a warning that names it; then it fills, and the file is whole again."""
    file.parent.mkdir()
    file.write_bytes(content)
    budget = kept(file, clock)
    assert budget.level() == 0
    assert str(file) in caplog.text
    caplog.clear()
    clock.advance(HOUR_S)
    assert kept(file, clock).level() == pytest.approx(22 / 24)
    assert caplog.records == []


def test_nothing_is_spent_of_what_a_later_release_keeps(file, clock):
    """Its file stays as it is, so that a rolling update spends a budget once."""
    file.parent.mkdir()
    content = b'{"version": 2, "at": 0, "buckets": {}, "held": {}}'
    file.write_bytes(content)
    budget = kept(file, clock)
    assert budget.level() == 0
    clock.advance(HOUR_S)
    with pytest.raises(StateUnavailableError, match="a later release"):
        budget.level()
    assert file.read_bytes() == content


HOSTILE = {
    "a level that no float holds": {"buckets": {"day": {"level": 10**400}}},
    "a level that is none": {"buckets": {"day": {"level": "NaN"}}},
    "a level beside the point": {"buckets": {"day": 5}},
    "a level far below": {"buckets": {"day": {"level": -1e14}}},
    "a level far above": {"buckets": {"day": {"level": 1e14}}},
    "a true level": {"buckets": {"day": {"level": True}}},
    "buckets in a list": {"buckets": ["day"]},
    "no buckets": {"buckets": None},
    "a time that is none": {"at": float("nan")},
    "a time before all time": {"at": float("-inf")},
    "a time that no float holds": {"at": 10**400},
    "less than nothing held": {"held": {"other": [-1e14, 1e14]}},
    "all and more held": {"held": {"other": [1e14, 1e14]}},
    "nothing held for ever": {"held": {"other": [float("nan"), float("inf")]}},
    "something else held": {"held": {"other": "everything"}},
    "held by nobody": {"held": []},
    "held by too many": {"held": {str(n): [0.0, 1e14] for n in range(20_000)}},
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_file_neither_raises_nor_lifts_nor_kills_the_budget(file, clock, name):
    """There is never more than the bucket holds, and two days later it is full."""
    file.parent.mkdir()
    state = {"version": VERSION, "at": clock(), "buckets": {"day": {"level": 1.0}}, "held": {}}
    file.write_text(json.dumps(state | HOSTILE[name]), encoding="utf-8")
    budget = kept(file, clock)
    assert -24.0 <= budget.level() <= 2.0
    for _ in range(48):
        clock.advance(HOUR_S)
        assert budget.level() <= 2.0
    assert budget.level() == pytest.approx(2.0)
    assert budget.reserve(1.0)


@pytest.mark.parametrize("spent", [float("nan"), float("inf"), 1e300, -1e300, float("-inf")])
def test_what_cannot_have_been_spent_neither_lifts_nor_kills_the_budget(file, clock, spent):
    """At least nothing and at most the limit; what is no number is what was reserved."""
    budget = kept(file, clock)
    assert budget.reserve(0.5)
    budget.refund(0.5, spent)
    assert -24.0 <= budget.level() <= 1.0
    clock.advance(2 * DAY_S)
    assert budget.level() == pytest.approx(2.0)


@pytest.mark.parametrize("amount", [float("nan"), float("inf"), -1.0])
def test_no_such_amount_is_reserved(clock, amount):
    """It would be a level for good."""
    budget = Budget(24.0, clock=clock)
    with pytest.raises(ValueError, match="cannot be reserved"):
        budget.reserve(amount)
    assert budget.level() == pytest.approx(1.0)


def test_a_clock_that_was_put_back_refills_nothing(file, clock):
    """A state of the future is one of now."""
    first = kept(file, clock)
    first.reserve(0.5)
    clock.now_s -= DAY_S
    assert kept(file, clock).level() == pytest.approx(0.5)


def test_the_file_is_replaced_as_a_whole(file, clock):
    """No moment leaves half of it: every reader finds a whole state."""
    budget = kept(file, clock, per_day=1e6)
    stop, broken = threading.Event(), []

    def read():
        while not stop.is_set():
            try:
                json.loads(file.read_bytes())
            except ValueError as error:
                broken.append(error)

    reader = threading.Thread(target=read)
    reader.start()
    for _ in range(200):
        budget.reserve(1.0)
        budget.refund(1.0, 0.5)
    stop.set()
    reader.join()
    assert broken == []
    assert [path.name for path in file.parent.glob("*.tmp")] == []


def test_a_state_that_cannot_be_written_stops_spending(file, clock):
    """What cannot be remembered is not spent; what is settled then is an error of ours, logged."""
    budget = kept(file, clock)
    assert budget.reserve(0.1)
    for path in file.parent.iterdir():
        path.unlink()
    file.parent.rmdir()
    file.parent.write_text("in the way", encoding="utf-8")
    with pytest.raises(OSError, match="state"):
        budget.reserve(0.1)
    budget.refund(0.1, 0.0)


# Over processes

SPENDER = """
import sys
from pathlib import Path
from ragmonitor.sampling import Budget
from ragmonitor.sampling.budget import VERSION
from ragmonitor.state import StateFile

budget = Budget(2_400.0, file=StateFile(Path(sys.argv[1]), version=VERSION))
spent = 0


def spend(times):
    global spent
    for _ in range(times):
        if budget.reserve(1.0):
            budget.refund(1.0, 0.5)
            spent += 1


spend(5)
print("ready", flush=True)
sys.stdin.readline()
spend(395)
print(spent)
"""


def test_processes_that_share_a_file_share_the_budget(file):
    """Four spend at once, and together no more than one could have.

    Each has spent a little before any spends the rest: the lock of a file is not fair.
    """
    running = [
        subprocess.Popen(
            [sys.executable, "-c", SPENDER, str(file)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(4)
    ]
    for process in running:
        assert process.stdout.readline() == "ready\n"
    for process in running:
        process.stdin.write("go\n")
        process.stdin.flush()
    spent = [int(process.communicate(timeout=60)[0]) for process in running]
    # Half full: 100 at most, and a refill of 2,200 a day meanwhile.
    assert 98 <= 0.5 * sum(spent) <= 103
    assert all(count > 0 for count in spent)


def test_what_another_process_spent_is_seen_within_a_second(file, clock):
    """Chances follow the common level, not our own memory of it."""
    ours, theirs = kept(file, clock), kept(file, clock)
    assert theirs.reserve(0.75)
    clock.advance(1.1)
    assert ours.level() == pytest.approx(0.25, abs=0.001)


def test_each_limit_is_told(clock):
    """For people: by hour and by day, what is left and what is most."""
    budget = Budget(24.0, per_hour=4.0, clock=clock)
    assert budget.reserve(0.25)
    assert budget.limits() == [("day", 0.75, 24.0), ("hour", 0.25, 4.0)]


def test_the_pace_is_that_of_the_slower_limit(clock):
    """A full bucket is spent in half the time that it takes to fill, less what is asked for."""
    budget = Budget(240.0, per_hour=4.0, clock=clock)
    clock.advance(DAY_S)
    filled_in_s = 1.0 / (3.0 / HOUR_S)
    assert budget.status(0.0) == (1.0, pytest.approx(1.0 / (filled_in_s / 2)))
    assert budget.status(0.5).pace_per_s == pytest.approx(0.5 / (filled_in_s / 2))


def test_the_pace_ends_with_the_level_and_not_before(clock):
    """Less than two readings left: slower and slower; nothing or less: 0."""
    budget = Budget(24.0, clock=clock)
    clock.advance(DAY_S)  # full: 2
    paces = []
    for left in (2.0, 1.0, 0.5, 0.1, 0.0, -1.0):
        budget.refund(0.0, budget.level() - left)
        paces.append(budget.status(1.0).pace_per_s)
    per_dollar = 2 * (22 / DAY_S) / 2.0
    assert paces == pytest.approx(
        [per_dollar * left for left in (1.0, 0.25, 0.0625, 0.0025, 0.0, 0.0)]
    )


def test_services_and_units_have_files_of_their_own(tmp_path):
    """Two services in one folder do not share a budget, nor do dollars and tokens."""
    paths = {
        budget_state(tmp_path, service=service, unit=unit).path
        for service in ("a b", "a_b")
        for unit in ("usd", "tokens", "calls")
    }
    assert len(paths) == 6
    assert all(path.name.startswith("budget-") for path in paths)


def test_what_could_not_be_written_is_not_held(file, clock):
    """A reservation that failed leaves no place kept for it once the file is back."""
    budget = kept(file, clock)
    budget.level()
    saved = file.read_bytes()
    for path in file.parent.iterdir():
        path.unlink()
    file.parent.rmdir()
    file.parent.write_text("in the way", encoding="utf-8")
    with pytest.raises(OSError, match="state"):
        budget.reserve(0.5)
    file.parent.unlink()
    file.parent.mkdir()
    file.write_bytes(saved)
    clock.advance(2 * DAY_S)
    assert budget.level() == pytest.approx(2.0)
