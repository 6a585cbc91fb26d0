"""An application with a monitor, as servers, pools and scripts of the tests import it."""

from __future__ import annotations

import os
from typing import Any

from ragmonitor import Monitor
from tests.contract.kit import JudgeObject, settings

REPORTS = "reports.jsonl"

monitor = Monitor(**settings(sample=1.0, judge=JudgeObject(), exporters=f"jsonl:{REPORTS}"))


def answered(number: int) -> str:
    """Answer one question; the number tells it apart."""
    with monitor.interaction(query=str(number)) as i:
        i.retrieved(["It was built in 1889."])
        i.answered("It was built in 1889.")
    return str(os.getpid())


async def aanswered(number: int) -> str:
    """Answer one question on an event loop."""
    async with monitor.interaction(query=str(number)) as i:
        i.retrieved(["It was built in 1889."])
        i.answered("It was built in 1889.")
    return str(os.getpid())


def wsgi(environ: dict[str, Any], start_response: Any) -> list[bytes]:
    """Answer the question whose number is the path; the body is the process."""
    body = answered(int(environ["PATH_INFO"].strip("/"))).encode()
    start_response("200 OK", [("Content-Length", str(len(body)))])
    return [body]


async def asgi(scope: dict[str, Any], receive: Any, send: Any) -> None:
    """Do the same for a server with an event loop."""
    body = (await aanswered(int(scope["path"].strip("/")))).encode()
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": body})
