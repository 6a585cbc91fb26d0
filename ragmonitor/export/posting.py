"""Posts batches to a server over HTTP: scores to Phoenix and Langfuse, spans to a collector."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Final
from urllib.parse import unquote

from pydantic import SecretStr

from ragmonitor.export.batcher import Batcher, DeliveryError
from ragmonitor.export.content import Content, clipped, compact_json
from ragmonitor.records import Evaluation, Report, Scored, SpanReference, evaluator_name
from ragmonitor.runtime.addresses import HIDDEN, shown
from ragmonitor.runtime.errors import SettingsError
from ragmonitor.runtime.feedback import JoinedFeedback
from ragmonitor.runtime.forks import survive_forks
from ragmonitor.runtime.guard import silenced
from ragmonitor.runtime.http_pool import http_pool
from ragmonitor.runtime.printable import encodable
from ragmonitor.runtime.protocols import ExportContext, Exporter

if TYPE_CHECKING:
    from urllib3 import BaseHTTPResponse, PoolManager

CONNECT_S = 5.0
REPLY_S = 10.0
RETRIES: Final = 6
"""With the pauses below: about half a minute."""
FIRST_PAUSE_S: Final = 0.5
"""Doubles with each attempt; some of it is random and keeps processes apart."""
MAX_PAUSE_S: Final = 30.0
MAX_RETRY_AFTER_S: Final = 600
"""A server that asks for a longer pause is asked again after this one."""
REPLY_SHOWN: Final = 200
"""Characters of a refusal that are logged."""
MAX_EXPLANATION_BYTES: Final = 4096
"""Longer than anybody reads beside a trace."""
_TRY_AGAIN: Final = frozenset({408, 425, 429, *range(500, 600)})
_KEY_REFUSED: Final = frozenset({401, 403})
_LOGGERS: Final = ("urllib3.connectionpool", "urllib3.util.retry")


class Server:
    """A server that is asked over one kept connection, again where it is away or busy."""

    def __init__(
        self,
        name: str,
        *,
        headers: Mapping[str, str],
        key_setting: str,
        reply_s: float | None = None,
        tls: Mapping[str, str] | None = None,
    ) -> None:
        """Connect to nothing yet.

        Args:
            name: `Phoenix`.
            headers: Of every request; what they hold is shown nowhere.
            key_setting: The setting to correct where the key is refused.
            reply_s: The time that a reply may take; None: the usual.
            tls: Options of urllib3's for certificates.
        """
        self.name = name
        self._headers = {"User-Agent": "ragmonitor", **headers}
        self._key_setting = key_setting
        self._reply_s = reply_s
        self._tls = dict(tls or {})
        self._pool: PoolManager | None = None
        survive_forks(self)

    def ask(
        self, url: str, body: bytes | None = None, *, timeout_s: float = math.inf
    ) -> BaseHTTPResponse:
        """Return the reply to a GET, or to a POST of what is given; a redirect is not followed.

        Args:
            url: The address.
            body: What is posted; None: nothing is.
            timeout_s: The time that is left; where it has an end there is no second attempt.

        Raises:
            DeliveryError: The server is not reached, or has not taken it.
        """
        import urllib3

        if not url.startswith(("http://", "https://")):
            raise DeliveryError(  # it is not shown: nobody can tell where a password stands
                f"{self.name}'s address does not begin with http:// or https://", why="failed"
            )
        reply_s = self._reply_s or REPLY_S
        try:
            user = unquote(urllib3.util.parse_url(url).auth or "")
            if self._pool is None:
                self._pool = http_pool(url, **self._tls)
            with silenced(_LOGGERS):
                reply = self._pool.request(
                    "GET" if body is None else "POST",
                    url,
                    body=body,
                    headers=(urllib3.make_headers(basic_auth=user) if user else {}) | self._headers,
                    timeout=urllib3.Timeout(
                        connect=min(CONNECT_S, timeout_s), read=min(reply_s, timeout_s)
                    ),
                    # urllib3's own way, heeding a server that asks for a pause.
                    retries=urllib3.Retry(
                        total=RETRIES if timeout_s == math.inf else 0,
                        redirect=0,
                        allowed_methods=None,
                        status_forcelist=_TRY_AGAIN,
                        backoff_factor=FIRST_PAUSE_S,
                        backoff_jitter=FIRST_PAUSE_S,
                        backoff_max=MAX_PAUSE_S,
                        retry_after_max=MAX_RETRY_AFTER_S,
                        raise_on_status=False,
                    ),
                    redirect=False,
                )
        except ValueError as error:  # whose message may quote a key
            raise DeliveryError(
                f"{self.name} at {shown(url)} cannot be asked ({type(error).__name__}); is its "
                f"address one, and does {self._key_setting} hold no line break?",
                why="failed",
            ) from None
        except urllib3.exceptions.HTTPError as error:
            inner = getattr(error, "reason", None) or error
            problem = f"{self.name} at {shown(url)} is not reached: {inner}"
            raise DeliveryError(problem[:REPLY_SHOWN], why="failed") from None
        self._check(reply, url)
        return reply

    def _check(self, reply: BaseHTTPResponse, url: str) -> None:
        status, kind = reply.status, reply.headers.get("Content-Type", "").lower()
        if 200 <= status < 300 and not kind.startswith("text/html"):
            return
        if status < 300:  # of another program, or of whoever asks people to log in
            problem = f" with a web page; is it {self.name}'s own address?"
        elif status < 400:
            location = shown(reply.headers.get("Location", "")) or "elsewhere"
            problem = f": it has moved to {location}"
        elif status in _TRY_AGAIN:
            problem = ""
        elif status in _KEY_REFUSED:
            problem = f"; check {self._key_setting}"
        else:
            text = reply.data.decode("utf-8", "replace")
            for part in " ".join(self._headers.values()).split():
                text = text.replace(part, HIDDEN)
            problem = f": {text[:REPLY_SHOWN]}"
        why = "failed" if status in _TRY_AGAIN else "refused"
        raise DeliveryError(f"{self.name} at {shown(url)} answers {status}{problem}", why=why)

    def close(self) -> None:
        """Close the connection; the next request opens another."""
        pool, self._pool = self._pool, None
        if pool is not None:
            pool.clear()

    def after_fork_in_child(self) -> None:
        """Let go of the parent's connection."""
        self._pool = None


class PostingExporter(Exporter):
    """The base of the exporters to scoring APIs: what a server is posted is each one's own."""

    name: ClassVar[str]
    """`Phoenix`."""
    path: ClassVar[str]
    """Of the requests, below the server's address."""
    check_path: ClassVar[str]
    """Answers a GET with 200 to whoever may post."""
    key_setting: ClassVar[str]
    """The setting to correct where the key is refused."""
    envelope: ClassVar[tuple[bytes, bytes]]
    """The bytes before and after the records of a request's body, which commas separate."""

    def __init__(self, url: str, authorization: str = "") -> None:
        """Connect to nothing yet.

        Args:
            url: The address of the server itself.
            authorization: The header of that name; empty: none.

        Raises:
            SettingsError: The address is not one of a server.
        """
        self.address = _server_address(url)
        self._batches = Batcher(self.name, self._post)
        self._content: Content = "all"
        self._server = Server(
            self.name,
            headers={"Content-Type": "application/json"}
            | ({"Authorization": authorization} if authorization else {}),
            key_setting=self.key_setting,
        )

    def record(
        self, evaluation: Evaluation, report: Report, target: SpanReference
    ) -> dict[str, Any] | None:
        """Return what is posted of one evaluation; None: nothing."""
        raise NotImplementedError

    def refusals(self, reply: bytes) -> Sequence[str]:  # noqa: ARG002 - of who takes batches in part
        """Return why records of a batch that was taken were not."""
        return ()

    def configure(self, context: ExportContext) -> None:
        """Heed the monitor's settings.

        Raises:
            SettingsError: There are no traces to put scores on.
        """
        if not context.has_traces:
            raise SettingsError(
                f"exporters: {self.name} puts scores on traces; it needs export.traces"
            )
        self._content = context.content
        self._batches.lost = context.lost

    def export(self, report: Report) -> None:
        """Post a report's evaluations, if its trace is in a backend at all."""
        target = report.target
        if target is None or not target.sampled:
            return
        for evaluation in report.evaluations:
            record = self.record(evaluation, report, target)
            if record is not None:
                body = compact_json(record).encode()
                self._batches.put(body, len(body))

    def feedback(self, joined: JoinedFeedback) -> None:
        """Post what a person said, as a score by people."""
        self.export(joined.report)

    def flush(self, timeout_s: float) -> bool:
        """Send what waits; return whether all that was sent since the last flush was taken."""
        return self._batches.flush(timeout_s)

    def close(self) -> None:
        """Stop. What still waits is counted as lost: flush first."""
        self._batches.close()
        self._server.close()

    def check(self, timeout_s: float) -> None:
        """Ask whether what is posted would be taken, and post nothing.

        Raises:
            DeliveryError: The server is not reached, or does not accept the key.
        """
        self._server.ask(self.address + self.check_path, timeout_s=timeout_s)

    def _post(self, batch: Sequence[bytes], timeout_s: float) -> None:
        before, after = self.envelope
        body = before + b",".join(batch) + after
        reply = self._server.ask(self.address + self.path, body, timeout_s=timeout_s)
        refusals = self.refusals(reply.data)
        if refusals:
            raise DeliveryError(
                f"{self.name} refused {len(refusals)} evaluations, the first with "
                f"{refusals[0][:REPLY_SHOWN]}",
                lost=len(refusals),
            )

    def explanation(self, evaluation: Scored) -> str:
        """Return why; empty where content may not leave as it is: it quotes the answer."""
        shows = self._content == "all"
        return clipped(evaluation.explanation, MAX_EXPLANATION_BYTES) if shows else ""

    @staticmethod
    def score_name(evaluation: Evaluation) -> str:
        """Return the name of the score in a backend: `faithfulness (builtin)`.

        Backends average what has one name. Scores of two judges are on two scales, and a mean of
        both would move with the share that the second one scores.
        """
        return encodable(f"{evaluator_name(evaluation.evaluator)} ({evaluation.judge.name})")

    @staticmethod
    def score_identity(evaluation: Evaluation) -> str:
        """Return evaluator and judge, with versions; the same identity again updates the score."""
        return encodable(f"{evaluation.evaluator} {evaluation.judge}")

    @staticmethod
    def score_metadata(evaluation: Evaluation, report: Report) -> dict[str, str | float]:
        """Return the versions of judge and evaluator, and the inclusion probability."""
        return {
            "evaluator": encodable(evaluation.evaluator),
            "judge": encodable(str(evaluation.judge)),
            "chance": report.decision.inclusion_probability,
            "interaction_id": encodable(report.interaction.id),
        }


def _server_address(url: str) -> str:
    """Return the address of a server itself, without a slash at its end."""
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
