"""The application that `chaos.py` runs in every mode; all its settings are variables.

It measures each of its own answers, so that nothing of the server around it is in the figures, and
appends what it measured to the file `CHAOS_ANSWERED`.
"""

from __future__ import annotations

import asyncio
import atexit
import json
import logging
import os
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

MODE = os.environ["CHAOS_MODE"]
WORK_S = 0.002
CHUNKS = ("A parcel may weigh 40 kg.", "Parcels are picked up on Mondays.")
ANSWERS = ("A parcel may weigh 40 kg.", "A parcel may weigh 90 kg. It is picked up on Mondays.")

logging.basicConfig(level=logging.WARNING, format="%(name)s|%(levelname)s|%(message)s")
_file = os.open(os.environ["CHAOS_ANSWERED"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)


@atexit.register  # before the monitor's, so it is called after that
def _ended() -> None:
    file = Path(os.environ["CHAOS_ENDED"]) / str(os.getpid())
    file.write_text(str(time.monotonic()), encoding="utf-8")


def _monitor() -> Any:
    if os.environ.get("CHAOS_ALONE"):
        return None
    from ragmonitor import Monitor

    return Monitor("chaos")


monitor = _monitor()


def _told(began: float, error: str) -> bytes:
    line = json.dumps({"s": time.perf_counter() - began, "error": error}).encode() + b"\n"
    os.write(_file, line)
    return line


def answered(number: int) -> bytes:
    """Answer once; return what was measured."""
    began, error = time.perf_counter(), ""
    try:
        if monitor is None:
            time.sleep(WORK_S)
        else:
            with monitor.interaction(query=f"How heavy may parcel {number} be?") as i:
                i.retrieved(CHUNKS)
                time.sleep(WORK_S)
                i.answered(ANSWERS[number % 2])
    except BaseException as raised:  # noqa: BLE001 - what would reach the user
        error = repr(raised)
    return _told(began, error)


async def answered_async(number: int) -> bytes:
    """Answer once on an event loop."""
    began, error = time.perf_counter(), ""
    try:
        if monitor is None:
            await asyncio.sleep(WORK_S)
        else:
            with monitor.interaction(query=f"How heavy may parcel {number} be?") as i:
                i.retrieved(CHUNKS)
                await asyncio.sleep(WORK_S)
                i.answered(ANSWERS[number % 2])
    except BaseException as raised:  # noqa: BLE001 - what would reach the user
        error = repr(raised)
    return _told(began, error)


# --- servers


def wsgi(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
    """Answer gunicorn."""
    body = answered(int(environ["PATH_INFO"].rpartition("/")[2] or 0))
    start_response("200 OK", [("Content-Length", str(len(body)))])
    return [body]


async def asgi(scope: Any, receive: Any, send: Any) -> None:
    """Answer uvicorn."""
    if scope["type"] == "http":
        body = await answered_async(int(scope["path"].rpartition("/")[2] or 0))
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": body})
    elif scope["type"] == "lifespan":
        await _lived(receive, send)


async def _lived(receive: Any, send: Any) -> None:
    """Close at the end, as docs/metrics.md says: uvicorn ends by the signal itself."""
    while (event := (await receive())["type"]) != "lifespan.shutdown":
        await send({"type": f"{event}.complete"})
    if monitor is not None:
        await asyncio.to_thread(monitor.close, 5.0)
    await send({"type": "lifespan.shutdown.complete"})


if MODE == "celery prefork":
    from celery import Celery
    from celery.signals import worker_process_shutdown

    _folder = os.environ["CHAOS_BROKER"]
    celery = Celery("chaos", broker="filesystem://")
    celery.conf.update(
        broker_transport_options={
            "data_folder_in": _folder,
            "data_folder_out": _folder,
            "control_folder": f"{_folder}/../control",
            "polling_interval": 0.02,
        },
        task_ignore_result=True,
        worker_hijack_root_logger=False,
        broker_connection_retry_on_startup=True,
    )
    task = celery.task(name="chaos.answer")(answered)

    @worker_process_shutdown.connect
    def closed(**_: Any) -> None:
        """Close at the end: the pool's processes run no exit handler."""
        if monitor is not None:
            monitor.close(5.0)


# --- scripts: each line of the standard input asks for so many answers


def _forked(numbers: list[int], pause_s: float) -> None:
    for half in (numbers[::2], numbers[1::2]):
        if os.fork() == 0:
            for number in half:
                answered(number)
                time.sleep(2 * pause_s)
            sys.exit()


async def _on_one_loop() -> None:
    loop = asyncio.get_running_loop()
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        asked = json.loads(line)
        for number in range(asked["n"]):
            await answered_async(number)
            await asyncio.sleep(asked["pause_s"])


def main() -> None:
    """Answer until the standard input ends."""
    answered(0)
    if MODE == "async":
        asyncio.run(_on_one_loop())
        return
    for line in sys.stdin:
        asked = json.loads(line)
        if MODE == "fork":
            _forked([*range(asked["n"])], asked["pause_s"])
            continue
        for number in range(asked["n"]):
            answered(number)
            time.sleep(asked["pause_s"])


if __name__ == "__main__":
    main()
