"""Scores as annotations in Phoenix, on the interaction's root span.

OTLP alone does not carry scores there: Phoenix keeps evaluation attributes and events as they are
and shows neither as an annotation. Its REST API does, and takes an annotation before its span.
"""

from __future__ import annotations

from typing import Any

from pydantic import SecretStr

from ragmonitor.export.posting import PostingExporter, secret
from ragmonitor.records import Cause, Evaluation, Report, Scored, SpanReference

_OF_THE_ANSWER = frozenset({Cause.REFUSAL, Cause.NO_CLAIMS, Cause.NO_CONTEXT})
"""Causes that are a property of the answer: labels to filter by. The others are about the
monitoring (`not_sampled`, `judge_error`): they stand on the root span, and in Prometheus."""


class Phoenix(PostingExporter):
    """Annotates root spans in Phoenix, a batch at a time, from a thread of its own.

    Relevances of single chunks are not among the annotations: Phoenix keeps them on the retrieval
    span, and reports know the root span only.
    """

    name = "Phoenix"
    path = "/v1/span_annotations"
    check_path = "/v1/projects?limit=1"
    key_setting = "PHOENIX_API_KEY"
    envelope = (b'{"data":[', b"]}")

    def __init__(self, url: str, *, api_key: SecretStr | str | None = None) -> None:
        """Connect to nothing yet.

        Args:
            url: Address of Phoenix, `http://localhost:6006`.
            api_key: Where Phoenix asks for one; None: the variable `PHOENIX_API_KEY`.

        Raises:
            SettingsError: The address is not one of a server.
        """
        self.arguments = {"url": url, "api_key": api_key}
        """With these a worker makes another like it."""
        key = secret(api_key, self.key_setting)
        super().__init__(url, f"Bearer {key}" if key else "")

    def record(
        self, evaluation: Evaluation, report: Report, target: SpanReference
    ) -> dict[str, Any] | None:
        """Return one element of the body's `data`; None: there is nothing to show.

        Where there is no score there is none here either: a refusal is a label without a score.

        Source:
            Phoenix's OpenAPI, `annotateSpans`; upserts on (name, span, identifier).
        """
        result: dict[str, Any]
        if isinstance(evaluation, Scored):
            result = {"score": evaluation.score}
            if text := self.explanation(evaluation):
                result["explanation"] = text
        elif evaluation.cause in _OF_THE_ANSWER:
            result = {"label": evaluation.cause.value}
        else:
            return None
        return {
            "span_id": target.span_id,
            "name": self.score_name(evaluation),
            "annotator_kind": evaluation.judge.kind,
            "result": result,
            "metadata": self.score_metadata(evaluation, report),
            "identifier": self.score_identity(evaluation),
        }
