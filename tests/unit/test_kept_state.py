"""The same laws for a state in a folder and for one in Redis, and what only Redis can do to it."""

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from pydantic import SecretStr

from ragmonitor import guard
from ragmonitor.sampling import Budget
from ragmonitor.settings import Settings
from ragmonitor.state import StateUnavailableError, redis_state, rows_of_service, state_of_service
from ragmonitor.state.kept_state import LaterStateError, StateLockedError
from ragmonitor.state.redis_state import RedisServer, RedisState, server_at
from tests.support.prometheus_server import free_port
from tests.support.redis_server import running_redis
from tests.support.waiting import until

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


def test_each_writing_leaves_a_mark(state):
    """Who looks often need not read what has not changed."""
    kept(state, a=1)
    first = state.mark()
    assert state.mark() == first
    kept(state, a=22)
    assert state.mark() != first


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


def test_parts_stand_beside_it(state):
    """They are written while it is held alone, and removed one by one."""
    with state.alone():
        for name in ("one", "two"):
            state.part(name).write({"text": name})
        state.part("one").remove()
    assert state.read() is None
    assert state.part("one").read() is None
    assert state.part("two").read() == {"version": 3, "text": "two"}


def test_one_of_another_version_begins_anew(place, service, state):
    """It is put aside and said; the next one stands."""
    before = guard.errors["state"]
    kept(state, a=1)
    newer = state_of_service(place, "thing", service, version=4)
    with pytest.raises(ValueError, match=r"not of version 4.*kept as .*bad"):
        newer.read()
    assert newer.read() is None
    assert guard.errors["state"] == before + 1
    kept(newer, a=2)
    assert newer.read() == {"version": 4, "a": 2}


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


def test_threads_of_one_process_have_a_lock_each(redis, service):
    """A thread whose lock ran out does not write with that of another thread."""
    state = state_of_service(SecretStr(redis.url), "thing", service, version=3)
    holds, is_done = threading.Event(), threading.Event()

    def hold():
        with state.alone():
            holds.set()
            assert is_done.wait(20)

    with state.alone():
        with redis.client() as client:
            client.delete(f"ragmonitor:{{{service}}}:state:thing:lock")
        thread = threading.Thread(target=hold)
        thread.start()
        assert holds.wait(20)
        with pytest.raises(StateLockedError):
            state.write({"by": "the first"})
    is_done.set()
    thread.join()


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


def test_who_has_waited_is_before_who_comes_again(redis, service, monkeypatch):
    """A process that lets go of a lock and takes it at once would keep all others from it."""
    monkeypatch.setattr(redis_state, "PATIENCE_S", 0.0)
    monkeypatch.setattr(redis_state, "LOCK_PAUSE_S", 0.2)  # it looks rarely
    busy, patient = (
        state_of_service(SecretStr(redis.url), "thing", service, version=3) for _ in range(2)
    )

    def wait():
        with patient.alone():
            patient.write({"by": "who waited"})

    key = f"ragmonitor:{{{service}}}:state:thing:lock:turn"
    with ThreadPoolExecutor(1) as pool, redis.client() as client:
        with busy.alone():
            waits = pool.submit(wait)
            until("it has a turn", lambda: client.exists(key))
        with busy.alone():
            assert busy.read() == {"version": 3, "by": "who waited"}
        waits.result()
        assert not client.exists(key)


def test_who_has_waited_longest_is_next(redis, service):
    """Also where it asks later than who waits for less; a turn that nobody asks for ends."""
    server = server_at(redis.url)
    keys = [f"ragmonitor:{{{service}}}:lock", f"ragmonitor:{{{service}}}:lock:turn"]

    def takes(token, waited_ms):
        return bool(
            server.evaluate(redis_state._LOCK, keys, [token, 60_000, 60_000, waited_ms, 100])
        )

    with redis.client() as client:
        client.set(keys[0], "a process that died")
        assert not takes("short", 200)
        assert not takes("long", 10_000)
        client.delete(keys[0])
        assert not takes("new", 0)
        assert not takes("short", 300)
        assert takes("long", 10_100)
        client.delete(keys[0])
        assert takes("new", 0), "who waits says so again at once"
        assert not takes("short", 400)
        client.delete(keys[0])
        client.pexpire(keys[1], 1)
        until("its turn has ended", lambda: not client.exists(keys[1]))
        assert takes("new", 0)


@pytest.mark.parametrize(
    "content", [b"", b"{", b"null", b"[]", b"\xff", b"[" * 100_000, b'{"version": 3, "a": 1e999}']
)
def test_what_is_no_state_is_put_aside(redis, service, content):
    """Whoever wrote it: people find it under another key."""
    state = state_of_service(SecretStr(redis.url), "thing", service, version=3)
    key = f"ragmonitor:{{{service}}}:state:thing"
    with redis.client() as client:
        client.set(key, content)
        with pytest.raises(ValueError, match="kept as"):
            state.read()
        assert client.get(f"{key}:bad") == content
    assert state.read() is None


def test_rows_are_found_by_id_and_the_newest_stay(redis, service):
    """In batches, replaced where they come again, and bounded."""
    rows = rows_of_service(SecretStr(redis.url), "rows", service, max_rows=1_200)
    rows.keep({f"r{n}": [n, "ä", None, True] for n in range(1_300)})
    rows.keep({"r1299": ["again"]})
    found = rows.find([f"r{n}" for n in range(1_300)] + ["none"])
    assert set(found) == {f"r{n}" for n in range(100, 1_300)}
    assert (found["r100"], found["r1299"]) == ([100, "ä", None, True], ["again"])
    with redis.client() as client:
        keys = list(client.scan_iter(match=f"ragmonitor:{{{service}}}:*"))
        assert len(keys) == 2


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


def test_its_clock_is_the_servers(redis, service, monkeypatch):
    """Buckets that fill by two clocks would fill twice."""
    state = state_of_service(SecretStr(redis.url), "thing", service, version=3)
    server_s = server_at(redis.url).now_s()
    monkeypatch.setattr("ragmonitor.state.redis_state.time.time", lambda: server_s + 4_000)
    with state.alone():
        assert abs(state.now() - server_s) < 60


@pytest.mark.parametrize(
    ("given", "kind"),
    [("folder", Path), ("a:b", Path), ("redis://h/0", SecretStr), ("rediss://:p@h", SecretStr)],
)
def test_the_setting_is_a_folder_or_an_address(given, kind):
    """An address is kept as the secret that it may hold."""
    found = Settings.load(state=given).state
    assert isinstance(found, kind)
    assert "p@h" not in repr(found)


def test_another_address_is_an_error():
    """Not a folder of that name."""
    with pytest.raises(Exception, match=r"state: .*redis://host"):
        Settings.load(state="postgres://h/0")


def test_what_is_kept_is_plain_json(redis, service):
    """For people with redis-cli."""
    kept(state_of_service(SecretStr(redis.url), "thing", service, version=3), a=1)
    with redis.client() as client:
        content = client.get(f"ragmonitor:{{{service}}}:state:thing")
    assert json.loads(content) == {"version": 3, "a": 1}
