"""Posts small JSON records to a server in batches, from a thread of its own.

Records wait in a bounded buffer; a batch is retried while
the server may still take it, then given up. Nothing is lost silently: each lost record is counted,
and the first failure of its kind is logged.
"""

from __future__ import annotations

import math
import os
import random
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from opentelemetry import context
from pydantic import SecretStr

from ragmonitor.addresses import HIDDEN, shown
from ragmonitor.errors import RagMonitorError, SettingsError
from ragmonitor.export.content import Content
from ragmonitor.forks import survive_forks
from ragmonitor.guard import contained, reason, record_error, record_problem, shielded
from ragmonitor.protocols import ExportContext

if TYPE_CHECKING:
    from requests import PreparedRequest, Response, Session

CLOSE_WAIT_S = 0.1
"""For the request that is under way; it is left to itself afterwards."""
MAX_RETRY_AFTER_S = 600.0
"""A server that asks for a longer pause is asked again after this one."""
REPLY_SHOWN = 200
"""Characters of a refusal that are logged."""

_TRY_AGAIN = frozenset({408, 425, 429})
_IN_VAIN = frozenset({"failed", "refused"})
_KEY_REFUSED = frozenset({401, 403})
_TOO_LARGE = 413

Lost = Callable[[str, int], None]
"""Takes why records were lost (`phoenix_full`) and how many."""


class Record(NamedTuple):
    """One element of a posted list."""

    id: str
    """The name by which the server calls it in its reply."""
    body: bytes
    """JSON."""


class Refusal(NamedTuple):
    """Why a server did not take one record of a batch that it took."""

    status: int
    """The HTTP status: from 500, and 429, it may be taken later."""
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipient:
    """A server that is posted to, and the form of its requests."""

    name: str
    """`Phoenix`; in lower case it begins the reasons that are counted."""
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Limits of what may wait, and of how long the server is given."""

    max_records: int = 10_000
    max_bytes: int = 16 * 2**20
    max_batch_records: int = 200
    max_batch_bytes: int = 512 * 1024
    """Below the 1 MiB of body that usual proxies let through."""
    linger_s: float = 1.0
    """The time for which a batch may gather."""
    connect_timeout_s: float = 5.0
    reply_timeout_s: float = 10.0
    max_attempts: int = 8
    """With the pauses below: about a minute. A trace's own spans are not kept for longer."""
    first_backoff_s: float = 0.5
    """Doubles with each attempt; the half of it that is random keeps processes apart."""
    max_backoff_s: float = 30.0


class DeliveryError(RagMonitorError):
    """A server did not take what was posted; the message says why and what to do."""

    quotes_no_text = True

    def __init__(
        self,
        problem: str,
        *,
        retryable: bool,
        retry_after_s: float | None = None,
        is_too_large: bool = False,
    ) -> None:
        super().__init__(problem)
        self.retryable = retryable
        self.retry_after_s = retry_after_s
        self.is_too_large = is_too_large
        """A smaller batch may be taken."""


class Poster:
    """Takes records from one thread and posts them from another, in order.

    The thread starts with the first record, and again in a forked child, which does not send what
    its parent has waiting.
    """

    def __init__(
        self, recipient: Recipient, *, lost: Lost | None = None, limits: Limits | None = None
    ) -> None:
        """Connect to nothing yet.

        Args:
            recipient: The server.
            lost: Counts records that do not arrive; may be called from any thread.
            limits: Of memory and time.
        """
        self.recipient = recipient
        self._count_lost = lost
        self._limits = limits or Limits()
        self._closed = False
        self._begin()
        survive_forks(self)

    def _begin(self) -> None:
        self._changed = threading.Condition()
        """Guards everything below; notified when there is work, and when some is done."""
        self._buffer: deque[Record] = deque()
        self._buffered_bytes = 0
        self._taken = 0
        self._finished = 0
        """The number of those taken that were sent or given up, in order: a flush knows when it is
        done."""
        self._in_hand: list[Record] | None = None
        """The batch that is being sent, and that nobody has counted as lost."""
        self._missed = self._told = 0
        """Records that were sent in vain, and of how many the last flush knew."""
        self._max_batch_bytes = self._limits.max_batch_bytes
        """Less than the limit once a server, or a proxy before it, has found a batch too large."""
        self._flushes = 0
        """The number of flushes that wait; batches then go out without lingering."""
        self._thread: threading.Thread | None = None
        self._session: Session | None = None

    # --- the caller's side ----------------------------------------------------------------------

    def put(self, record: Record) -> None:
        """Take a record, or count it as lost if there is no room. Never waits for the network."""
        limits = self._limits
        with self._changed:
            closed = self._closed
            full = (
                len(self._buffer) >= limits.max_records
                or self._buffered_bytes + len(record.body) > limits.max_bytes
            )
            if not (closed or full):
                self._buffer.append(record)
                self._buffered_bytes += len(record.body)
                self._taken += 1
                self._start()
                if len(self._buffer) in (1, limits.max_batch_records):
                    self._changed.notify_all()
                return
        self._lose(1, "closed" if closed else "full")
        record_problem("export", self._no_room(closed=closed))

    def flush(self, timeout_s: float) -> bool:
        """Send what waits; return whether the server took all that was sent since the last one."""
        deadline = time.monotonic() + timeout_s
        with self._changed:
            goal = self._taken
            started = self._finished >= goal or self._start()
            if started:
                self._flushes += 1
                self._changed.notify_all()
                try:
                    self._changed.wait_for(lambda: self._finished >= goal, timeout_s)
                finally:
                    self._flushes -= 1
        if not started:
            self._send_here(deadline)
        with self._changed:
            missed, self._told = self._missed - self._told, self._missed
            return self._finished >= goal and not missed

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

    def close(self) -> None:
        """Stop. What still waits is counted as lost: flush first."""
        with self._changed:
            self._closed = True
            left = len(self._buffer)
            self._buffer.clear()
            self._buffered_bytes = 0
            self._finished += left
            thread, self._thread = self._thread, None
            self._changed.notify_all()
        if left:
            self._lose(left, "closed")
        if thread is not None:
            thread.join(CLOSE_WAIT_S)
        with self._changed:  # the process may end before the server replies
            in_hand, self._in_hand = self._in_hand, None
        if in_hand:
            self._lose(len(in_hand), "closed")

    def _no_room(self, *, closed: bool) -> str:
        if closed:
            return f"{self.recipient.name}: evaluations that came after the end are lost"
        return (
            f"{self.recipient.name}: evaluations come faster than they are taken; the newest are "
            "lost"
        )

    def _lose(self, n: int, why: str) -> None:
        if why in _IN_VAIN:
            with self._changed:
                self._missed += n
        if self._count_lost is not None:
            with shielded("export"):
                self._count_lost(f"{self.recipient.name.lower()}_{why}", n)

    def _start(self) -> bool:
        """Return whether there is a thread that sends. The caller holds the lock."""
        if self._thread is None and not self._closed:
            name = f"ragmonitor-{self.recipient.name.lower()}"
            thread = threading.Thread(target=self._run, name=name, daemon=True)
            try:
                thread.start()
            except RuntimeError:  # the interpreter is going down and starts no more threads
                return False
            self._thread = thread
        return self._thread is not None

    # --- sending --------------------------------------------------------------------------------

    def _run(self) -> None:
        # On our own thread only: our posts must not be traced as traffic of the application.
        context.attach(context.set_value("suppress_instrumentation", True))
        while batch := self._gathered():
            # A BaseException must not end the thread, or nothing that comes later would be sent.
            with contained("export"):
                self._send(batch, deadline=math.inf)
        with contained("export"):
            self._disconnect()

    def _send_here(self, deadline: float) -> None:
        while time.monotonic() < deadline and (batch := self._batch()):
            self._send(batch, deadline=deadline)
        self._disconnect()

    def _gathered(self) -> list[Record]:
        """Wait for a batch; empty: closed."""
        limits = self._limits
        with self._changed:
            self._changed.wait_for(lambda: self._buffer or self._closed)
            self._changed.wait_for(
                lambda: (
                    self._closed or self._flushes or len(self._buffer) >= limits.max_batch_records
                ),
                limits.linger_s,
            )
            return self._batch()

    def _batch(self) -> list[Record]:
        batch: list[Record] = []
        size = 0
        with self._changed:
            while self._buffer and len(batch) < self._limits.max_batch_records:
                size += len(self._buffer[0].body)
                if batch and size > self._max_batch_bytes:
                    break
                batch.append(self._buffer.popleft())
                self._buffered_bytes -= len(batch[-1].body)
            self._in_hand = batch or None  # in one step: who closes looks into both
        return batch

    def _send(self, batch: list[Record], *, deadline: float) -> None:
        taken, why = len(batch), "failed"
        try:
            self._deliver(batch, deadline)
        except Exception as error:  # noqa: BLE001 - whatever it is, the next batch is sent
            if isinstance(error, DeliveryError):
                record_problem("export", f"{reason(error)}; {len(batch)} evaluations are lost")
                why = why if error.retryable else "refused"
            else:
                record_error("export", error)
        finally:
            with self._changed:
                is_counted, self._in_hand = self._in_hand is not batch, None
            if batch and not is_counted:
                self._lose(len(batch), why)
            with self._changed:
                self._finished += taken
                self._changed.notify_all()

    def _deliver(self, waiting: list[Record], deadline: float) -> None:
        """Post until the server has taken everything; what it has taken leaves `waiting`.

        Raises:
            DeliveryError: It will not take the rest, or not soon enough.
        """
        limits = self._limits
        backoff_s = limits.first_backoff_s
        for attempt in range(1, limits.max_attempts + 1):
            try:
                self._post(waiting, deadline)
                return
            except DeliveryError as error:
                if error.is_too_large and len(waiting) > 1:
                    self._deliver_halves(waiting, deadline)
                    return
                pause_s = error.retry_after_s
                if pause_s is None:
                    pause_s = backoff_s * random.uniform(0.5, 1.0)
                    backoff_s = min(2 * backoff_s, limits.max_backoff_s)
                in_time = time.monotonic() + pause_s < deadline
                if not error.retryable or attempt == limits.max_attempts or not in_time:
                    raise
            with self._changed:
                if self._changed.wait_for(lambda: self._closed, pause_s):
                    problem = f"{self.recipient.name}: closed before it took everything"
                    raise DeliveryError(problem, retryable=True)

    def _deliver_halves(self, waiting: list[Record], deadline: float) -> None:
        """Post what was too large at once in two parts; what one of them lacks is not the other's.

        Raises:
            DeliveryError: The server will not take the rest, or not soon enough.
        """
        size = sum(len(record.body) for record in waiting)
        self._max_batch_bytes = min(self._max_batch_bytes, size // 2)
        middle = len(waiting) // 2
        halves = waiting[:middle], waiting[middle:]
        failure: DeliveryError | None = None
        for half in halves:
            try:
                self._deliver(half, deadline)
            except DeliveryError as error:
                failure = error
            waiting[:] = [record for each in halves for record in each]
        if failure is not None:
            raise failure

    def _post(self, waiting: list[Record], deadline: float) -> None:
        reply = self._replied(waiting, deadline)
        _check(reply, self.recipient)
        refusals = self.recipient.refusals(reply.content)
        refused = [(record, refusals[record.id]) for record in waiting if record.id in refusals]
        waiting[:] = [record for record, why in refused if _may_be_taken_later(why.status)]
        if not refused:
            return
        _, first = refused[0]
        problem = DeliveryError(
            f"{self.recipient.name} refused {len(refused)} evaluations, the first with "
            f"{first.status}: {first.message[:REPLY_SHOWN]}",
            retryable=True,
        )
        hopeless = len(refused) - len(waiting)
        if hopeless:
            self._lose(hopeless, "refused")
            record_problem("export", reason(problem))
        if waiting:
            raise problem

    def _replied(self, waiting: list[Record], deadline: float) -> Response:
        import requests

        if self._session is None:
            self._session = requests.Session()
            self._session.headers.update(
                {"Content-Type": "application/json", "User-Agent": "ragmonitor"}
            )
        recipient, limits = self.recipient, self._limits
        before, after = recipient.envelope
        left_s = max(0.1, deadline - time.monotonic())
        with _one_line_errors(recipient.name, recipient.url):
            return self._session.post(
                recipient.url,
                data=before + b",".join(record.body for record in waiting) + after,
                auth=_authorization(recipient),
                timeout=(
                    min(limits.connect_timeout_s, left_s),
                    min(limits.reply_timeout_s, left_s),
                ),
                allow_redirects=False,
            )

    def _disconnect(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            session.close()

    # --- forks ----------------------------------------------------------------------------------

    def after_fork_in_child(self) -> None:
        """Begin anew: the thread, its connection, and what waits, stayed with the parent."""
        self._begin()


def _check(reply: Response, recipient: Recipient) -> None:
    status = reply.status_code
    answer = f"{recipient.name} at {shown(reply.url)} answers {status}"
    if 200 <= status < 300:
        if reply.headers.get("Content-Type", "").lower().startswith("text/html"):
            # Of another program, or of whoever asks people to log in: nothing was taken.
            problem = f"{answer} with a web page; is it {recipient.name}'s own address?"
            raise DeliveryError(problem, retryable=False)
        return
    if _may_be_taken_later(status):
        raise DeliveryError(answer, retryable=True, retry_after_s=_retry_after_s(reply))
    if status in _KEY_REFUSED:
        raise DeliveryError(f"{answer}; check {recipient.key_setting}", retryable=False)
    if 300 <= status < 400:
        location = shown(reply.headers.get("Location", "")) or "elsewhere"
        raise DeliveryError(f"{answer}: it has moved to {location}", retryable=False)
    text = reply.text
    for part in recipient.authorization.split():
        text = text.replace(part, HIDDEN)
    problem = f"{answer}: {text[:REPLY_SHOWN]}"
    raise DeliveryError(problem, retryable=False, is_too_large=status == _TOO_LARGE)


@contextmanager
def _one_line_errors(name: str, url: str) -> Iterator[None]:
    """Turn the HTTP library's errors, with tracebacks of sixty lines, into errors of one line."""
    import requests

    try:
        yield
    except requests.Timeout:
        problem = f"{name} at {shown(url)} does not answer in time"
        raise DeliveryError(problem, retryable=True) from None
    except requests.RequestException as error:
        problem = f"{name} at {shown(url)} is not reached: {_cause(error)}"
        raise DeliveryError(problem, retryable=True) from None


def _may_be_taken_later(status: int) -> bool:
    return status in _TRY_AGAIN or status >= 500


class PostingExporter(Poster):
    """The base of the exporters to scoring APIs; `export` is each one's own."""

    def __init__(self, recipient: Recipient, *, limits: Limits | None = None) -> None:
        """Connect to nothing yet; the arguments are those of `Poster`."""
        super().__init__(recipient, limits=limits)
        self._content: Content = "all"

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
        self._count_lost = context.lost


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


def _retry_after_s(reply: Response) -> float | None:
    """Return the pause that the server asks for, in seconds or as a date (RFC 9110, 10.2.3)."""
    from urllib3.exceptions import InvalidHeader
    from urllib3.util import Retry

    value = reply.headers.get("Retry-After")
    if value is None:
        return None
    try:
        return min(Retry().parse_retry_after(value), MAX_RETRY_AFTER_S)
    except (InvalidHeader, ValueError, OverflowError):  # also a date that is none
        return None


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
