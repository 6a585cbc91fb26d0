"""The three stores, behind one fixture."""

from __future__ import annotations

import itertools

import pytest

from ragmonitor.store import Memory, Redis, Sqlite
from ragmonitor.store.redis import connect
from tests.support.redis_server import running_redis

_numbers = itertools.count()


@pytest.fixture(scope="session")
def redis_url(tmp_path_factory):
    with running_redis(tmp_path_factory.mktemp("redis"), fsync="no") as server:
        yield server.url


@pytest.fixture(params=["memory", "sqlite", "redis"])
def new_store(request, tmp_path):
    """Return a function that gives empty stores; with `again` the same one by another process."""
    if request.param == "memory":
        return Memory
    if request.param == "sqlite":
        return lambda: Sqlite(tmp_path / f"{next(_numbers)}.db", "shop")
    url = request.getfixturevalue("redis_url")
    return lambda: Redis(*connect(url), f"shop{next(_numbers)}")


@pytest.fixture
def store(new_store):
    return new_store()
