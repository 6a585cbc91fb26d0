"""Scores in Langfuse, on the interaction's root observation.

Langfuse takes traces by OTLP and scores by its public API only.
"""

from __future__ import annotations

import json
import time
import uuid
from base64 import b64encode
from collections.abc import Sequence
from typing import Any

from pydantic import SecretStr

from ragmonitor.export.content import iso_time
from ragmonitor.export.posting import PostingExporter, secret
from ragmonitor.records import Evaluation, Report, Scored, SpanReference
from ragmonitor.runtime.errors import SettingsError

_NAMESPACE = uuid.UUID("5bd1a0a6-6a2c-5a53-9d0c-0a3b8f0a7d11")
"""The namespace of score ids; any fixed one will do."""


class Langfuse(PostingExporter):
    """Scores root observations in Langfuse, a batch at a time, from a thread of its own.

    Where there is no score nothing is sent: Langfuse has no numeric score without a value.
    """

    name = "Langfuse"
    path = "/api/public/ingestion"
    """Takes many scores at once in every version of Langfuse. `/api/public/scores` takes one, or a
    list in the newest only; what is deprecated here are traces and observations, not scores."""
    check_path = "/api/public/projects"
    key_setting = "LANGFUSE_PUBLIC_KEY and LANGFUSE_SECRET_KEY"
    envelope = (b'{"batch":[', b"]}")

    def __init__(
        self,
        url: str,
        *,
        public_key: str | None = None,
        secret_key: SecretStr | str | None = None,
    ) -> None:
        """Connect to nothing yet.

        Args:
            url: Address of Langfuse, `https://cloud.langfuse.com`.
            public_key: `pk-lf-...`, of the project that the traces go to; None: the variable
                `LANGFUSE_PUBLIC_KEY`.
            secret_key: `sk-lf-...`; None: the variable `LANGFUSE_SECRET_KEY`.

        Raises:
            SettingsError: A key is missing, or the address is not one of a server.
        """
        self.arguments = {"url": url, "public_key": public_key, "secret_key": secret_key}
        """With these a worker makes another like it."""
        public = secret(public_key, "LANGFUSE_PUBLIC_KEY")
        private = secret(secret_key, "LANGFUSE_SECRET_KEY")
        if not public or not private:
            raise SettingsError(
                "exporters: Langfuse needs public_key and secret_key; give both, or set "
                "LANGFUSE_PUBLIC_KEY and LANGFUSE_SECRET_KEY"
            )
        super().__init__(url, f"Basic {b64encode(f'{public}:{private}'.encode()).decode()}")

    def record(
        self, evaluation: Evaluation, report: Report, target: SpanReference
    ) -> dict[str, Any] | None:
        """Return one `score-create` event; None: there is no score.

        The score's own id follows from span, evaluator and judge, so that the same again is an
        update; the event's id is new each time, for Langfuse drops what it has seen.

        Source:
            Langfuse's API definition, fern/apis/server/definition/ingestion.yml: `ScoreEvent`.
        """
        if not isinstance(evaluation, Scored):
            return None
        identity = f"{target.trace_id} {target.span_id} {self.score_identity(evaluation)}"
        body: dict[str, Any] = {
            "id": str(uuid.uuid5(_NAMESPACE, identity)),
            "traceId": target.trace_id,
            "observationId": target.span_id,
            "name": self.score_name(evaluation),
            "value": evaluation.score,
            "dataType": "NUMERIC",
            "metadata": self.score_metadata(evaluation, report),
        }
        if text := self.explanation(evaluation):
            body["comment"] = text
        return {
            "id": str(uuid.uuid4()),
            "timestamp": iso_time(time.time_ns()),
            "type": "score-create",
            "body": body,
        }

    def refusals(self, reply: bytes) -> Sequence[str]:
        """Return why events of a batch were not taken, from a 207's body."""
        try:
            return [
                f"{error['status']}: {error.get('error') or error.get('message') or ''}"
                for error in json.loads(reply).get("errors", [])
            ]
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            return ()  # the batch was taken, and the reply has another form
