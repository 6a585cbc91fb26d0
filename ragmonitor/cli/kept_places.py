"""Where commands find what a service keeps: in its state, or in the checkpoint of its fleet."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from pydantic import SecretStr

from ragmonitor.fleet.fleet_stream import FleetStream
from ragmonitor.fleet.state_folder import StateFolder
from ragmonitor.redis_client import is_redis
from ragmonitor.settings import Settings


@contextmanager
def kept_place(settings: Settings) -> Iterator[Path | SecretStr | None]:
    """Give the place of a service's states; None: nothing outlives its processes.

    Without the setting `state`, but with a stream on Redis, it is a copy of what the estimator has
    kept last. What is changed in it changes nothing.

    Raises:
        RagMonitorError: The stream's server cannot be asked.
    """
    url = settings.stream.url
    if settings.state is not None or url is None or not is_redis(url.get_secret_value()):
        yield settings.state
        return
    with closing(FleetStream.of(settings)) as stream:
        kept = stream.kept()
    if not kept:
        yield None
        return
    folder = StateFolder(kept)
    try:
        yield folder.path
    finally:
        folder.remove()
