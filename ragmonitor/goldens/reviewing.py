"""A person's review of golden questions: a page on this machine, or a CSV.

The page is served on loopback alone, under a name of loopback, to whoever has its token; the token
stands in the address' fragment, which browsers send to nobody. Each decision is written at once.
"""

from __future__ import annotations

import json
import secrets
import threading
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from email.message import Message
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec

from ragmonitor.errors import InputError
from ragmonitor.export.server import BoundedServer, Reply
from ragmonitor.export.view.access import Access
from ragmonitor.export.view.page import SAFE_HEADERS
from ragmonitor.goldens.golden import (
    Golden,
    ReviewStatus,
    changing,
    read_goldens,
    write_goldens,
)
from ragmonitor.goldens.golden_tables import read_any

EDITABLE: Final = ("question", "answer", "kind", "difficulty", "comment")
"""Fields that a reviewer may change; the id stays."""
MAX_BODY_BYTES: Final = 1_000_000
_FILES: Final = {
    "/": ("goldens/review_page/index.html", "text/html; charset=utf-8"),
    "/review.js": ("goldens/review_page/review.js", "text/javascript; charset=utf-8"),
    "/review.css": ("goldens/review_page/review.css", "text/css; charset=utf-8"),
    "/icon.svg": ("export/view/files/icon.svg", "image/svg+xml"),
}


class Review:
    """The questions of a file, and what a reviewer decides of them."""

    def __init__(
        self,
        path: Path,
        reviewer: str,
        *,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        """Read the file once, so that one that cannot be read is said at the beginning.

        Args:
            path: Read before and written after each decision: others may write it meanwhile.
            reviewer: Who decides.
            now: The time.

        Raises:
            GoldensError: The file cannot be read.
        """
        self.path = path
        self.reviewer = reviewer
        self._now = now
        self._lock = threading.Lock()
        read_goldens(path)

    def goldens(self) -> list[Golden]:
        """Return the questions as they stand in the file. Raises `GoldensError`."""
        return read_goldens(self.path)

    def decide(self, id_: str, status: str, changes: Mapping[str, Any]) -> Golden:
        """Keep a decision with who made it and when, and return the question.

        Args:
            id_: Of the question.
            status: `accepted`, `rejected`, or `candidate` to take a decision back.
            changes: New values by field, of `EDITABLE`.

        Raises:
            InputError: There is no such question, a value is none, or what is then asked lacks its
                answer.
            OSError: The file cannot be written.
        """
        with self._lock, changing(self.path):
            goldens = self.goldens()
            at = next((n for n, golden in enumerate(goldens) if golden.id == id_), None)
            if at is None:
                raise InputError(f"there is no question {id_!r} any more")
            goldens[at] = self._decided(goldens[at], status, changes)
            write_goldens(self.path, goldens)
            return goldens[at]

    def _decided(self, golden: Golden, status: str, changes: Mapping[str, Any]) -> Golden:
        unknown = [name for name in changes if name not in EDITABLE]
        if unknown:
            raise InputError(f"{', '.join(unknown)} cannot be changed in a review")
        is_open = status == ReviewStatus.CANDIDATE
        record = msgspec.to_builtins(golden) | dict(changes)
        record |= {
            "status": status,
            "reviewed_by": "" if is_open else self.reviewer,
            "reviewed_at": "" if is_open else self._now().isoformat(timespec="seconds"),
        }
        try:
            decided = msgspec.convert(record, Golden)
        except msgspec.ValidationError as error:
            raise InputError(str(error)) from error
        if not decided.question.strip():
            raise InputError("the question is empty")
        if decided.lacks_answer:
            raise InputError("the answer is empty; write it, or choose the kind unanswerable")
        return decided

    def take(self, table: Path) -> tuple[int, list[str]]:
        """Take the decisions of a CSV that `--csv-out` wrote and a person has filled in.

        A field whose column was deleted stays as it is; an empty cell empties it.

        Returns:
            How many questions changed, and what could not be taken, one line each.

        Raises:
            InputError: The table cannot be read, or has another tool's columns.
        """
        read = read_any(table)
        if others := [name for name in read.formats if name != "ragmonitor"]:
            raise InputError(f"{table} has columns of {', '.join(others)}; --csv-out writes ours")
        taken = [name for name in EDITABLE if name in read.columns]
        known = {golden.id: golden for golden in self.goldens()}
        problems, changed = list(read.errors), 0
        for row in read.goldens:
            golden = known.get(row.id)
            if golden is None:
                problems.append(f"{row.id}: not in {self.path}")
                continue
            changes: dict[str, Any] = {
                name: msgspec.to_builtins(getattr(row, name))
                for name in taken
                if getattr(row, name) != getattr(golden, name)
            }
            status = row.status if "status" in read.columns else golden.status
            if not changes and status == golden.status:
                continue
            try:
                self.decide(row.id, status.value, changes)
                changed += 1
            except InputError as error:
                problems.append(f"{row.id}: {error}")
        return changed, problems


class ReviewServer(BoundedServer):
    """Serves the page of a review on loopback."""

    def __init__(self, review: Review, port: int = 0) -> None:
        """Listen; nothing is answered before `serve_forever`.

        Args:
            review: What is reviewed.
            port: 0: any free one.

        Raises:
            OSError: The port is taken.
        """
        self._review = review
        self.token = secrets.token_urlsafe(24)
        self._host_check, self._token_check = Access(), Access(self.token)
        super().__init__(
            "127.0.0.1",
            port,
            self._shown,
            count=lambda _rejection: None,
            admit=lambda _target, headers: self._refusal(headers),
            receive=self._received,
            max_body_bytes=MAX_BODY_BYTES,
        )

    @property
    def url(self) -> str:
        """The page's address, with its token in the fragment."""
        return f"http://127.0.0.1:{self.server_port}/#{self.token}"

    def _refusal(self, headers: Message, *, needs_token: bool = True) -> Reply | None:
        """Return why a request is refused; None: it is not."""
        if self._host_check.refusal(headers) is not None:
            return _reply(403)
        is_refused = needs_token and self._token_check.refusal(headers) is not None
        return _reply(401) if is_refused else None

    def _shown(self, target: str, headers: Message) -> Reply:
        path = urlsplit(target).path
        refusal = self._refusal(headers, needs_token=path not in _FILES)
        if refusal is not None:
            return refusal
        if path in _FILES:
            name, kind = _FILES[path]
            return _reply(200, _page_file(name), kind)
        return _answer(self._all) if path == "/goldens.json" else _reply(404)

    def _all(self) -> Any:
        review = self._review
        return {
            "file": str(review.path),
            "reviewer": review.reviewer,
            "goldens": [msgspec.to_builtins(golden) for golden in review.goldens()],
        }

    def _received(self, method: str, target: str, _headers: Message, body: bytes) -> Reply:
        if (method, target) != ("POST", "/decide"):
            return _reply(404)
        return _answer(lambda: self._decide(body))

    def _decide(self, body: bytes) -> Any:
        try:
            asked = json.loads(body)
            id_, status = str(asked["id"]), str(asked["status"])
            changes = dict(asked.get("changes") or {})
        except (ValueError, TypeError, KeyError) as error:
            raise InputError("expected an object with id, status and changes") from error
        return msgspec.to_builtins(self._review.decide(id_, status, changes))


def _answer(make: Callable[[], Any]) -> Reply:
    try:
        status, value = 200, make()
    except InputError as error:
        status, value = 409, {"error": str(error)}
    except OSError as error:
        status, value = 500, {"error": f"{error.filename}: {error.strerror}"}
    return _reply(status, msgspec.json.encode(value), "application/json")


def _reply(status: int, body: bytes = b"", kind: str = "text/plain") -> Reply:
    return Reply(status=status, content_type=kind, body=body, headers=SAFE_HEADERS)


@cache
def _page_file(name: str) -> bytes:
    return resources.files("ragmonitor").joinpath(name).read_bytes()
