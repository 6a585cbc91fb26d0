"""Posts small JSON records to a scoring API: what Phoenix and Langfuse have in common."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from pydantic import SecretStr

from ragmonitor.export.batcher import Batcher, DeliveryError, Limits
from ragmonitor.export.content import Content
from ragmonitor.runtime.addresses import HIDDEN, shown
from ragmonitor.runtime.errors import SettingsError
from ragmonitor.runtime.forks import survive_forks
from ragmonitor.runtime.protocols import ExportContext

if TYPE_CHECKING:
    from requests import PreparedRequest, Response, Session

CONNECT_S = 5.0
REPLY_S = 10.0
RETRIES: Final = 7
"""With the pauses below: about a minute. A trace's own spans are not kept for longer."""
FIRST_PAUSE_S: Final = 0.5
"""Doubles with each attempt; some of it is random and keeps processes apart."""
MAX_PAUSE_S: Final = 30.0
MAX_RETRY_AFTER_S: Final = 600
"""A server that asks for a longer pause is asked again after this one."""
REPLY_SHOWN: Final = 200
"""Characters of a refusal that are logged."""
_TRY_AGAIN: Final = frozenset({408, 425, 429, *range(500, 600)})
_KEY_REFUSED: Final = frozenset({401, 403})
_TOO_LARGE: Final = 413


class Record(NamedTuple):
    """One element of a posted list."""

    id: str
    """The name by which the server calls it in its reply."""
    body: bytes
    """JSON."""


class Refusal(NamedTuple):
    """Why a server did not take one record of a batch that it took."""

    status: int
    """The HTTP status."""
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipient:
    """A server that is posted to, and the form of its requests."""

    name: str
    """`Phoenix`."""
    address: str
    """The address of the server itself, for people."""
    url: str
    check_url: str
    """Answers a GET with 200 to whoever may post."""
    key_setting: str
    """The setting to correct where the key is refused."""
    envelope: tuple[bytes, bytes]
    """The bytes before and after the records of a request's body, which commas separate."""
    authorization: str = ""
    """The header of that name; empty: none."""
    refusals: Callable[[bytes], Mapping[str, Refusal]] = field(default=lambda _: {})
    """Reads the reply to a batch that was taken: the records, by id, that were not."""


class PostingExporter:
    """The base of the exporters to scoring APIs; `export` is each one's own."""

    def __init__(self, recipient: Recipient, *, limits: Limits | None = None) -> None:
        """Connect to nothing yet.

        Args:
            recipient: The server.
            limits: Of memory and batches.
        """
        self.recipient = recipient
        self.batches = Batcher(recipient.name, self._post, limits=limits)
        self._content: Content = "all"
        self._session: Session | None = None
        survive_forks(self)

    def configure(self, context: ExportContext) -> None:
        """Heed the monitor's settings.

        Raises:
            SettingsError: There are no traces to put scores on.
        """
        if not context.has_traces:
            raise SettingsError(
                f"exporters: {self.recipient.name} puts scores on traces; it needs export.traces"
            )
        self._content = context.content
        self.batches.lost = context.lost

    def put(self, record: Record) -> None:
        """Take a record, or count it as lost if there is no room."""
        self.batches.put(record, len(record.body))

    def flush(self, timeout_s: float) -> bool:
        """Send what waits; return whether all that was sent since the last flush was taken."""
        return self.batches.flush(timeout_s)

    def close(self) -> None:
        """Stop. What still waits is counted as lost: flush first."""
        self.batches.close()
        session, self._session = self._session, None
        if session is not None:
            session.close()

    def check(self, timeout_s: float) -> None:
        """Ask whether what is posted would be taken, and post nothing.

        Raises:
            DeliveryError: The server is not reached, or does not accept the key.
        """
        import requests

        recipient = self.recipient
        with _one_line_errors(recipient.name, recipient.check_url):
            reply = requests.get(
                recipient.check_url,
                auth=_authorization(recipient),
                timeout=timeout_s,
                allow_redirects=False,
            )
        _check(reply, recipient)

    def _post(self, batch: Sequence[Record], timeout_s: float) -> None:
        """Post a batch; what is refused of one that was taken is posted again if it may be."""
        lost: list[Refusal] = []
        for attempt in range(RETRIES + 1):
            refusals = self.recipient.refusals(self._taken(batch, timeout_s))
            busy = {each for each, why in refusals.items() if why.status in _TRY_AGAIN}
            if attempt == RETRIES or timeout_s < math.inf:
                busy.clear()
            lost += [refusals[record.id] for record in batch if record.id in refusals.keys() - busy]
            batch = [record for record in batch if record.id in busy]
            if not batch:
                break
            time.sleep(min(FIRST_PAUSE_S * 2**attempt, MAX_PAUSE_S))
        if lost:
            raise DeliveryError(
                f"{self.recipient.name} refused {len(lost)} evaluations, the first with "
                f"{lost[0].status}: {lost[0].message[:REPLY_SHOWN]}",
                lost=len(lost),
            )

    def _taken(self, batch: Sequence[Record], timeout_s: float) -> bytes:
        """Post a batch and return the body of the reply.

        Raises:
            DeliveryError: The server has not taken it.
        """
        import requests

        recipient = self.recipient
        if self._session is None:
            self._session = requests.Session()
            kind = {"Content-Type": "application/json", "User-Agent": "ragmonitor"}
            self._session.headers.update(kind)
            for scheme in ("http://", "https://"):
                # At the interpreter's exit there is no time for a second try.
                retries = _retries() if timeout_s == math.inf else 0
                self._session.mount(scheme, requests.adapters.HTTPAdapter(max_retries=retries))
        before, after = recipient.envelope
        with _one_line_errors(recipient.name, recipient.url):
            reply = self._session.post(
                recipient.url,
                data=before + b",".join(record.body for record in batch) + after,
                auth=_authorization(recipient),
                timeout=(min(CONNECT_S, timeout_s), min(REPLY_S, timeout_s)),
                allow_redirects=False,
            )
        _check(reply, recipient)
        return reply.content

    def after_fork_in_child(self) -> None:
        """Let go of the parent's connection."""
        self._session = None


@cache
def _retries() -> Any:
    """Return when to try again: urllib3's own way, heeding a server that asks for a pause."""
    from urllib3.util import Retry

    class Patient(Retry):
        def parse_retry_after(self, retry_after: str) -> float:
            return min(super().parse_retry_after(retry_after), MAX_RETRY_AFTER_S)

    return Patient(
        total=RETRIES,
        redirect=0,
        allowed_methods=None,
        status_forcelist=_TRY_AGAIN,
        backoff_factor=FIRST_PAUSE_S,
        backoff_jitter=FIRST_PAUSE_S,
        backoff_max=MAX_PAUSE_S,
        raise_on_status=False,
    )


def _check(reply: Response, recipient: Recipient) -> None:
    status = reply.status_code
    answer = f"{recipient.name} at {shown(reply.url)} answers {status}"
    if 200 <= status < 300:
        if reply.headers.get("Content-Type", "").lower().startswith("text/html"):
            # Of another program, or of whoever asks people to log in: nothing was taken.
            raise DeliveryError(f"{answer} with a web page; is it {recipient.name}'s own address?")
        return
    if status in _TRY_AGAIN:
        raise DeliveryError(answer, why="failed")
    if status in _KEY_REFUSED:
        raise DeliveryError(f"{answer}; check {recipient.key_setting}")
    if 300 <= status < 400:
        location = shown(reply.headers.get("Location", "")) or "elsewhere"
        raise DeliveryError(f"{answer}: it has moved to {location}")
    text = reply.text
    for part in recipient.authorization.split():
        text = text.replace(part, HIDDEN)
    raise DeliveryError(f"{answer}: {text[:REPLY_SHOWN]}", is_too_large=status == _TOO_LARGE)


@contextmanager
def _one_line_errors(name: str, url: str) -> Iterator[None]:
    """Turn the HTTP library's errors, with tracebacks of sixty lines, into errors of one line."""
    import requests

    try:
        yield
    except requests.Timeout:
        problem = f"{name} at {shown(url)} does not answer in time"
        raise DeliveryError(problem, why="failed") from None
    except requests.RequestException as error:
        problem = f"{name} at {shown(url)} is not reached: {_cause(error)}"
        raise DeliveryError(problem, why="failed") from None


def server_address(url: str) -> str:
    """Return the address of a server itself, without a slash at its end.

    Raises:
        SettingsError: It is no address of HTTP, or one of an API.
    """
    if not url.startswith(("http://", "https://")):
        raise SettingsError(f"exporters: {shown(url)}: an address begins with http:// or https://")
    if "/v1/" in url or "/api/" in url:
        raise SettingsError(
            f"exporters: {shown(url)}: give the server's own address, without the path of an API"
        )
    return url.rstrip("/")


def secret(value: SecretStr | str | None, variable: str) -> str:
    """Return a key as it is given, else as a variable holds it; empty: there is none."""
    if isinstance(value, SecretStr):
        return value.get_secret_value()
    return value or os.environ.get(variable, "")


def _authorization(recipient: Recipient) -> Callable[[PreparedRequest], PreparedRequest] | None:
    # By `auth` rather than as a header: a `.netrc` would go before the header.
    def authorise(request: PreparedRequest) -> PreparedRequest:
        request.headers["Authorization"] = recipient.authorization
        return request

    return authorise if recipient.authorization else None


def _cause(error: BaseException) -> str:
    """Return the system's own message, from under the libraries' exceptions around it."""
    inner: BaseException | None = error
    while inner is not None:
        error = inner
        wrapped = getattr(error, "reason", None) or next(iter(error.args), None)
        inner = (
            wrapped if isinstance(wrapped, BaseException) else error.__cause__ or error.__context__
        )
    message = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return " ".join(message.split())[:REPLY_SHOWN]
