"""Scores in Langfuse, on the interaction's root observation.

Langfuse takes traces by OTLP and scores by its public API only.
"""

from __future__ import annotations

import json
import time
import uuid
from base64 import b64encode
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any

from pydantic import SecretStr

from ragmonitor.export.batcher import Limits
from ragmonitor.export.content import Content
from ragmonitor.export.posting import (
    PostingExporter,
    Recipient,
    secret,
    server_address,
)
from ragmonitor.export.scores import (
    annotated,
    explanation,
    score_identity,
    score_metadata,
    score_name,
)
from ragmonitor.records import Report, Scored, SpanReference
from ragmonitor.runtime.errors import SettingsError
from ragmonitor.runtime.feedback import JoinedFeedback

PATH = "/api/public/ingestion"
"""Takes many scores at once in every version of Langfuse. `/api/public/scores` takes one, or a list
in the newest only; what is deprecated here are traces and observations, not scores."""
CHECK_PATH = "/api/public/projects"

_NAMESPACE = uuid.UUID("5bd1a0a6-6a2c-5a53-9d0c-0a3b8f0a7d11")
"""The namespace of score ids; any fixed one will do."""


def score_event(
    evaluation: Scored,
    report: Report,
    target: SpanReference,
    *,
    time_ns: int,
    content: Content = "all",
) -> dict[str, Any]:
    """Return one `score-create` event.

    The score's own id follows from span, evaluator and judge, so that the same again is an update;
    the event's id is new each time, for Langfuse drops what it has seen.

    Source:
        Langfuse's API definition, fern/apis/server/definition/ingestion.yml: `ScoreEvent`.
    """
    identity = score_identity(evaluation)
    score_id = uuid.uuid5(_NAMESPACE, f"{target.trace_id} {target.span_id} {identity}")
    body: dict[str, Any] = {
        "id": str(score_id),
        "traceId": target.trace_id,
        "observationId": target.span_id,
        "name": score_name(evaluation),
        "value": evaluation.score,
        "dataType": "NUMERIC",
        "metadata": score_metadata(evaluation, report),
    }
    if text := explanation(evaluation, content):
        body["comment"] = text
    moment = datetime.fromtimestamp(time_ns / 1e9, tz=UTC).isoformat(timespec="milliseconds")
    return {
        "id": str(uuid.uuid4()),
        "timestamp": moment.replace("+00:00", "Z"),
        "type": "score-create",
        "body": body,
    }


def refusals(reply: bytes) -> Sequence[str]:
    """Return why events of a batch were not taken, from a 207's body."""
    try:
        return [
            f"{error['status']}: {error.get('error') or error.get('message') or ''}"
            for error in json.loads(reply).get("errors", [])
        ]
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return ()  # the batch was taken, and the reply has another form


class Langfuse(PostingExporter):
    """Scores root observations in Langfuse, a batch at a time, from a thread of its own.

    Where there is no score nothing is sent: Langfuse has no numeric score without a value.
    """

    def __init__(
        self,
        url: str,
        *,
        public_key: str | None = None,
        secret_key: SecretStr | str | None = None,
        limits: Limits | None = None,
        clock_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        """Connect to nothing yet.

        Args:
            url: Address of Langfuse, `https://cloud.langfuse.com`.
            public_key: `pk-lf-...`, of the project that the traces go to; None: the variable
                `LANGFUSE_PUBLIC_KEY`.
            secret_key: `sk-lf-...`; None: the variable `LANGFUSE_SECRET_KEY`.
            limits: Of memory and time.
            clock_ns: Nanoseconds since the epoch.

        Raises:
            SettingsError: A key is missing, or the address is not one of a server.
        """
        self.arguments = (
            {"url": url, "public_key": public_key, "secret_key": secret_key}
            if limits is None
            else None
        )
        """With these a worker makes another like it; None: it cannot."""
        address = server_address(url)
        public = secret(public_key, "LANGFUSE_PUBLIC_KEY")
        private = secret(secret_key, "LANGFUSE_SECRET_KEY")
        if not public or not private:
            raise SettingsError(
                "exporters: Langfuse needs public_key and secret_key; give both, or set "
                "LANGFUSE_PUBLIC_KEY and LANGFUSE_SECRET_KEY"
            )
        self._clock_ns = clock_ns
        keys = b64encode(f"{public}:{private}".encode()).decode()
        super().__init__(
            Recipient(
                name="Langfuse",
                address=address,
                url=address + PATH,
                check_url=address + CHECK_PATH,
                key_setting="LANGFUSE_PUBLIC_KEY and LANGFUSE_SECRET_KEY",
                envelope=(b'{"batch":[', b"]}"),
                authorization=f"Basic {keys}",
                refusals=refusals,
            ),
            limits=limits,
        )

    def export(self, report: Report) -> None:
        """Pass a report's scores on, if its trace is in a backend at all."""
        target = annotated(report)
        if target is None:
            return
        now_ns = self._clock_ns()
        for evaluation in report.evaluations:
            if isinstance(evaluation, Scored):
                self.put(
                    score_event(evaluation, report, target, time_ns=now_ns, content=self._content)
                )

    def feedback(self, joined: JoinedFeedback) -> None:
        """Pass on what a person said, as a score by people."""
        self.export(joined.report)
