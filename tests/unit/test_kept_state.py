"""The same laws for a state in a folder and for one in Redis, and what only Redis can do to it."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from pydantic import SecretStr

from ragmonitor.sampling import Budget
from ragmonitor.settings import Settings
from ragmonitor.state import StateUnavailableError, redis_state, state_of_service
from ragmonitor.state.kept_state import LaterStateError, StateLockedError
from ragmonitor.state.redis_state import RedisServer, RedisState
from tests.support.prometheus_server import free_port
from tests.support.redis_server import running_redis

PASSWORD = "correct-horse"


@pytest.fixture(scope="module")
def redis(tmp_path_factory):
    with running_redis(tmp_path_factory.mktemp("redis"), password=PASSWORD) as server:
        yield server


@pytest.fixture(params=["folder", "redis"])
def place(request, tmp_path):
    if request.param == "folder":
        return tmp_path
    return SecretStr(request.getfixturevalue("redis").url)


@pytest.fixture
def service(request):
    """One of its own for each test: they share the server."""
    return request.node.name


@pytest.fixture
def state(place, service):
    return state_of_service(place, "thing", service, version=3)


def kept(state, **values):
    with state.alone():
        state.write(values)


def test_what_a_later_release_keeps_stays_and_its_own_begins_anew_once(place, service, state):
    """The two do not put each other's aside in turn, while a rolling update goes on."""
    kept(state, value=1)
    later = state_of_service(place, "thing", service, version=4)
    with pytest.raises(ValueError, match="not of version 4"):
        later.read()
    kept(later, value=2)
    with pytest.raises(LaterStateError, match="a later release of ragmonitor"):
        state.read()
    assert not state.update(lambda told: {**told, "value": 3}, stage="test", what="the thing")
    assert later.read() == {"version": 4, "value": 2}


def test_what_was_written_is_read_until_it_is_removed(state):
    """Numbers to the last bit, texts of any language."""
    assert (state.read(), state.mark()) == (None, None)
    kept(state, values=[0.1 + 0.2, None, 2**63, "长城\x00"], by_name={"a": {"b": True}})
    assert state.read() == {
        "version": 3,
        "values": [0.1 + 0.2, None, 2**63, "长城\x00"],
        "by_name": {"a": {"b": True}},
    }
    with state.alone():
        state.remove()
    assert (state.read(), state.mark()) == (None, None)


def test_one_adds_after_the_other(place, service):
    """What several read, change and write is the sum of all changes."""

    def add(_):
        mine = state_of_service(place, "thing", service, version=3)

        def one_more(before):
            return {"n": before.get("n", 0) + 1}

        assert all(mine.update(one_more, stage="state", what="a number") for _ in range(10))

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(add, range(4)))
    assert state_of_service(place, "thing", service, version=3).read()["n"] == 40


def test_services_and_things_are_apart(place, service):
    """Also where their names look alike."""
    states = [
        state_of_service(place, what, service + end, version=1)
        for what in ("a", "b")
        for end in ("", "/", "_", "{}")
    ]
    for number, each in enumerate(states):
        kept(each, number=number)
    assert [each.read()["number"] for each in states] == [*range(8)]


def test_a_budget_is_one(place, service):
    """What one process has taken out is gone for the other."""
    budgets = [
        Budget(24.0, unit="calls", file=state_of_service(place, "budget", service, version=1))
        for _ in range(2)
    ]
    assert budgets[0].reserve(1.0)
    assert not budgets[1].reserve(0.5)
    budgets[0].refund(1.0, 0.0)
    assert budgets[1].reserve(0.5)


# --- Redis alone ----------------------------------------------------------------------------------


def test_who_was_paused_beyond_its_lock_writes_nothing(redis, service):
    """Another process has had the state meanwhile: its writing stands."""
    place = SecretStr(redis.url)
    paused, other = (state_of_service(place, "thing", service, version=3) for _ in range(2))
    with paused.alone():
        with redis.client() as client:
            client.delete(f"ragmonitor:{{{service}}}:state:thing:lock")  # it has run out
        kept(other, by="other")
        with pytest.raises(StateLockedError, match="lock was lost"):
            paused.write({"by": "paused"})
    assert other.read()["by"] == "other"
    kept(other, by="other, again")  # nor did the paused one take the lock away from somebody


def test_who_keeps_it_is_not_waited_for_long(redis, service, monkeypatch):
    """Its lock ends by itself, should it have died."""
    monkeypatch.setattr(redis_state, "LOCK_WAIT_S", 0.02)
    state, other = (
        state_of_service(SecretStr(redis.url), "thing", service, version=3) for _ in range(2)
    )
    with state.alone():
        with pytest.raises(StateLockedError, match="another process"), other.alone():
            pass
        with redis.client() as client:
            left_ms = client.pttl(f"ragmonitor:{{{service}}}:state:thing:lock")
    assert 0 < left_ms <= redis_state.LOCK_S * 1_000


def test_a_server_that_is_down_is_left_alone_for_a_while(monkeypatch):
    """One command finds out; until the next try all fail at once, and nobody sees the password."""
    server = RedisServer(f"redis://:{PASSWORD}@127.0.0.1:{free_port()}/0")
    tries = []
    execute = type(server._redis).execute_command

    def counted(self, *arguments, **options):
        tries.append(arguments)
        return execute(self, *arguments, **options)

    monkeypatch.setattr(type(server._redis), "execute_command", counted)
    state = RedisState(server, "k", version=1)
    for _ in range(3):
        with pytest.raises(StateUnavailableError, match="ConnectionError") as caught:
            state.read()
        assert PASSWORD not in repr(caught.value)
    assert len(tries) == 1
    monkeypatch.setattr(redis_state, "DOWN_S", -1.0)
    server.rest("now")
    with pytest.raises(StateUnavailableError):
        state.read()
    assert len(tries) == 2


def test_a_budget_without_its_server_spends_nothing_and_goes_on_with_it(tmp_path, monkeypatch):
    """Others may be spending it: neither at the start nor later is anything free."""
    monkeypatch.setattr(redis_state, "DOWN_S", -1.0)
    port = free_port()
    state = RedisState(RedisServer(f"redis://127.0.0.1:{port}/0"), "budget", version=1)
    now = [1e9]
    budget = Budget(24.0, unit="calls", file=state, now=lambda: now[0])
    with pytest.raises(StateUnavailableError):
        budget.reserve(0.001)
    with running_redis(tmp_path, port=port):
        assert not budget.reserve(0.5)
        now[0] += 3_600
        assert budget.reserve(0.5)


@pytest.mark.parametrize(
    ("given", "kind"),
    [("folder", Path), ("a:b", Path), ("redis://h/0", SecretStr), ("rediss://:p@h", SecretStr)],
)
def test_the_setting_is_a_folder_or_an_address(given, kind):
    """An address is kept as the secret that it may hold."""
    found = Settings.load(state=given).state
    assert isinstance(found, kind)
    assert "p@h" not in repr(found)
