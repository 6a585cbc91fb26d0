"""From records to the names and attributes of spans and events. Pure functions.

Every text has a fixed cap, and so have all documents and all messages of a span together: a
collector drops a batch that is too large, with the spans of others in it. The SDK evicts the oldest
attribute beyond its limit (128), so attributes come least important first.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, Final

from ragmonitor.export.content import (
    ContentPolicy,
    clipped,
    encodable_json,
    error_kind,
    error_message,
    finite_score,
    is_unsupported,
    size_bytes,
    with_texts,
)
from ragmonitor.records import (
    FAILURES,
    Chunk,
    Evaluation,
    Generation,
    Interaction,
    Message,
    Report,
    Retrieval,
    Scored,
    Usage,
    evaluator_name,
)
from ragmonitor.runtime.printable import encodable
from ragmonitor.semconv import conventions as names

Attributes = dict[str, str | bool | int | float | list[str]]

MAX_TEXT_BYTES: Final = 32 * 1024
"""UTF-8 bytes of one value."""
MAX_TEXTS_BYTES: Final = 64 * 1024
"""Of all documents of a span, and of all messages of a prompt."""
MIN_TEXT_BYTES: Final = 256
"""With less room a document or message is left out, and counted."""
MAX_DOCUMENTS: Final = 25
MAX_METADATA_BYTES: Final = 4_096
MAX_MESSAGES: Final = 25
MAX_IDS: Final = 200
MAX_EVALUATIONS: Final = 10
MAX_EXPLANATION_BYTES: Final = 4_096
MAX_OWN_ATTRIBUTES: Final = 20
MAX_SENTENCES: Final = 20
MAX_SENTENCE_BYTES: Final = 1_024
MAX_TAGS: Final = 50
MAX_TAG_BYTES: Final = 256

_TEXT: Final = "text/plain"

# What has a name in each of both dialects.
_MODEL: Final = (names.GENAI_REQUEST_MODEL, names.OI_LLM_MODEL_NAME)
_PROVIDER: Final = (names.GENAI_PROVIDER_NAME, names.OI_LLM_PROVIDER)
_SESSION: Final = (names.OI_SESSION_ID, names.GENAI_CONVERSATION_ID)
_QUERY: Final = (names.OI_INPUT_VALUE, names.GENAI_RETRIEVAL_QUERY_TEXT)
_OUTPUT: Final = (names.OI_OUTPUT_VALUE, names.OI_LLM_OUTPUT_CONTENT)
_INPUT_TOKENS: Final = (names.GENAI_USAGE_INPUT_TOKENS, names.OI_TOKENS_PROMPT)
_OUTPUT_TOKENS: Final = (names.GENAI_USAGE_OUTPUT_TOKENS, names.OI_TOKENS_COMPLETION)

_DOCUMENTS: Final = [names.OI_DOCUMENT.format(n=n) for n in range(MAX_DOCUMENTS)]
_MESSAGES: Final = [names.OI_LLM_INPUT_MESSAGE.format(n=n) for n in range(MAX_MESSAGES)]
_EVALUATIONS: Final = [names.OI_EVALUATION.format(n=n) for n in range(MAX_EVALUATIONS)]


def root_attributes(
    interaction: Interaction,
    reports: Sequence[Report],
    policy: ContentPolicy,
    *,
    cost_usd: float | None = None,
    version: str = "",
) -> Attributes:
    """Return the root span's attributes: the interaction, and the scores known by now.

    Args:
        interaction: The interaction.
        reports: On it.
        policy: Which texts may be shown.
        cost_usd: What its model calls cost; None: that is not known.
        version: The service's own; empty: it says none.
    """
    attributes: dict[str, Any] = {}
    if policy.shows:
        query = _text(policy.text(interaction.query))
        answer = _text(policy.text(interaction.answer))
        attributes = {
            names.OI_INPUT_VALUE: query,
            names.OI_OUTPUT_VALUE: answer,
            names.OI_INPUT_MIME_TYPE: _TEXT,
            names.OI_OUTPUT_MIME_TYPE: _TEXT,
            names.GENAI_INPUT_MESSAGES: encodable_json([_message("user", query)]),
            names.GENAI_OUTPUT_MESSAGES: encodable_json([_message("assistant", answer)]),
        }
    attributes |= {
        names.OI_SPAN_KIND: names.OI_KIND_CHAIN,
        names.GENAI_OPERATION_NAME: names.GENAI_OPERATION_WORKFLOW,
        names.INTERACTION_ID: _text(interaction.id),
        names.STATUS: interaction.status,
        names.FIRST_TEXT: interaction.first_token_s,
        names.COST_USD: cost_usd,
        **_verdict(reports),
        names.OTEL_SERVICE_VERSION: _text(version),
        names.OTEL_ERROR_TYPE: error_kind(interaction.error),
        names.CAPTURE_INCOMPLETE: interaction.capture_incomplete or None,
        names.REDACTED: interaction.redacted or None,
        names.FRAMEWORK: encodable(interaction.framework),
        names.GENAI_WORKFLOW_NAME: _text(interaction.name),
        **dict.fromkeys(_SESSION, _text(interaction.session_id)),
        names.OI_USER_ID: _text(interaction.user_id),
        **_unsupported(reports, policy),
        **_evaluations(reports, policy),
    }
    if not interaction.generations:
        attributes |= _tokens(interaction.usage)
    if interaction.not_shown:
        ids = [_tag(chunk.id) for chunk in interaction.not_shown if chunk.id][:MAX_IDS]
        attributes[names.DOCUMENTS_NOT_SHOWN] = len(interaction.not_shown)
        attributes[names.DOCUMENTS_NOT_SHOWN_IDS] = encodable_json(ids) if ids else None
    attributes[names.OI_TAGS] = list(map(_tag, interaction.tags[:MAX_TAGS])) or None
    own = dict(islice(interaction.attributes.items(), MAX_OWN_ATTRIBUTES))
    for name, value in own.items():
        attributes[names.ATTRIBUTE.format(name=_tag(str(name)))] = _text(str(value))
    attributes[names.OI_METADATA] = _json(own, MAX_SENTENCE_BYTES) if own else None
    if interaction.chunks:
        attributes[names.GENAI_RETRIEVAL_DOCUMENTS] = _ids_and_scores(interaction.chunks)
        if not any(retrieval.chunks for retrieval in interaction.retrievals):
            # Plain code names its chunks without a retrieval: no other span would carry them.
            attributes |= _documents(interaction.chunks, policy)
    return _known(attributes)


def retrieval_attributes(retrieval: Retrieval, policy: ContentPolicy) -> Attributes:
    """Return a retrieval span's attributes; without content, ids and scores only."""
    attributes: dict[str, Any] = {}
    if policy.shows:
        attributes = dict.fromkeys(_QUERY, _text(policy.text(retrieval.query)))
        attributes[names.OI_INPUT_MIME_TYPE] = _TEXT
    return _known(
        attributes
        | {
            names.OI_SPAN_KIND: names.OI_KIND_RETRIEVER,
            names.GENAI_OPERATION_NAME: names.GENAI_OPERATION_RETRIEVAL,
            names.DOCUMENTS_FOUND: len(retrieval.chunks),
            names.OTEL_ERROR_TYPE: error_kind(retrieval.error),
            names.GENAI_RETRIEVAL_DOCUMENTS: _ids_and_scores(retrieval.chunks),
            **_documents(retrieval.chunks, policy),
        }
    )


def generation_attributes(generation: Generation, policy: ContentPolicy) -> Attributes:
    """Return a model call's attributes: its output first, then its prompt."""
    reason = generation.finish_reason
    attributes: dict[str, Any] = {
        names.OI_SPAN_KIND: names.OI_KIND_LLM,
        names.GENAI_OPERATION_NAME: names.GENAI_OPERATION_CHAT,
        names.OTEL_ERROR_TYPE: error_kind(generation.error),
        **dict.fromkeys(_MODEL, _text(generation.model)),
        **dict.fromkeys(_PROVIDER, _text(generation.provider)),
        names.GENAI_FINISH_REASONS: [_text(reason)] if reason else None,
        **_tokens(generation.usage),
        names.GENAI_FIRST_CHUNK: generation.first_token_s,
    }
    if policy.shows:
        output = _text(policy.text(generation.output))
        attributes |= {
            **dict.fromkeys(_OUTPUT, output),
            names.OI_OUTPUT_MIME_TYPE: _TEXT,
            names.OI_LLM_OUTPUT_ROLE: "assistant",
            names.GENAI_OUTPUT_MESSAGES: encodable_json([_message("assistant", output)]),
            **_prompt(generation.input, policy),
        }
    return _known(attributes)


def carrier_name(reports: Sequence[Report]) -> str:
    """Return the name of a span that carries scores of a span that has been sent already."""
    return f"{names.GENAI_OPERATION_EVALUATION} {_last_scored(reports).judge.name}"


def carrier_attributes(reports: Sequence[Report], policy: ContentPolicy) -> Attributes:
    """Return the attributes of such a span (OI spec/annotations.md).

    All reports are of one interaction.
    """
    return _known(
        {
            names.OI_SPAN_KIND: names.OI_KIND_EVALUATOR,
            names.GENAI_OPERATION_NAME: names.GENAI_OPERATION_EVALUATION,
            names.INTERACTION_ID: _text(reports[0].interaction.id),
            **_verdict(reports),
            **_unsupported(reports, policy),
            **_evaluations(reports, policy),
        }
    )


def event_attributes(evaluation: Evaluation, report: Report, policy: ContentPolicy) -> Attributes:
    """Return the attributes of one `gen_ai.evaluation.result` event.

    The convention has no name for the judge, so it stands under our own names.
    """
    attributes: dict[str, Any] = {
        names.GENAI_EVALUATION_NAME: encodable(evaluator_name(evaluation.evaluator)),
        names.EVALUATOR: encodable(evaluation.evaluator),
        names.JUDGE: encodable(str(evaluation.judge)),
        names.JUDGE_KIND: evaluation.judge.kind,
        names.JUDGE_CHANCE: report.decision.inclusion_probability,
        names.INTERACTION_ID: _text(report.interaction.id),
    }
    if isinstance(evaluation, Scored):
        attributes[names.GENAI_EVALUATION_SCORE_VALUE] = evaluation.score
        explanation = evaluation.explanation
    else:
        cause, explanation = evaluation.cause, evaluation.detail
        attributes[names.EVALUATION_UNSCORED] = cause.value
        attributes[names.OTEL_ERROR_TYPE] = cause.value if cause in FAILURES else None
    attributes[names.GENAI_EVALUATION_EXPLANATION] = _explanation(explanation, policy)
    return _known(attributes)


def exception_attributes(error: str, policy: ContentPolicy) -> Attributes:
    """Return the attributes of an `exception` event: the type, and the message if it may leave."""
    return _known(
        {
            names.OTEL_EXCEPTION_TYPE: error_kind(error),
            names.OTEL_EXCEPTION_MESSAGE: _explanation(error_message(error), policy),
        }
    )


def _known(attributes: dict[str, Any]) -> Attributes:
    """Return the attributes that have a value, least important first."""
    return {name: value for name, value in reversed(attributes.items()) if value not in (None, "")}


def _text(text: str) -> str:
    return clipped(text, MAX_TEXT_BYTES)


def _tag(text: str) -> str:
    return clipped(text, MAX_TAG_BYTES)


def _explanation(text: str, policy: ContentPolicy) -> str:
    return clipped(policy.text(text), MAX_EXPLANATION_BYTES)


def _fitting(texts: Iterable[str]) -> Iterator[str]:
    """Yield texts, cut, for as long as there is room for another."""
    room = MAX_TEXTS_BYTES
    for text in texts:
        if room < MIN_TEXT_BYTES:
            return
        fitting = clipped(text, min(MAX_TEXT_BYTES, room))
        room -= size_bytes(fitting)
        yield fitting


def _json(value: Any, max_bytes: int) -> str:
    """Return a value as JSON with every text in it cut."""
    whole = encodable_json(value)
    if size_bytes(whole) <= max_bytes:  # as mostly: then no text in it is longer
        return whole
    return encodable_json(with_texts(value, lambda text: clipped(text, max_bytes)))


def _documents(chunks: Sequence[Chunk], policy: ContentPolicy) -> dict[str, Any]:
    if not policy.shows:
        return {}
    texts = list(_fitting(policy.text(chunk.text) for chunk in chunks[:MAX_DOCUMENTS]))
    attributes: dict[str, Any] = {names.DOCUMENTS_LEFT_OUT: len(chunks) - len(texts) or None}
    for document, chunk, text in zip(_DOCUMENTS, chunks, texts, strict=False):
        attributes[f"{document}.content"] = text
        attributes[f"{document}.id"] = _tag(chunk.id)
        attributes[f"{document}.score"] = finite_score(chunk)
        if chunk.metadata:
            metadata = encodable_json(policy.metadata(chunk.metadata))
            if size_bytes(metadata) > MAX_METADATA_BYTES:
                metadata = _json(policy.metadata(chunk.metadata), MAX_TAG_BYTES)
            if size_bytes(metadata) <= MAX_METADATA_BYTES:
                attributes[f"{document}.metadata"] = metadata
    return attributes


def _ids_and_scores(chunks: Sequence[Chunk]) -> str:
    entries: list[dict[str, Any]] = []
    for chunk in chunks[:MAX_IDS]:
        entry: dict[str, Any] = {"id": _tag(chunk.id)}
        if (score := finite_score(chunk)) is not None:
            entry["score"] = score
        entries.append(entry)
    return encodable_json(entries)


def _prompt(messages: Sequence[Message], policy: ContentPolicy) -> dict[str, Any]:
    """Return a model's prompt in both dialects; of a long conversation its end."""
    newest_first = messages[: -MAX_MESSAGES - 1 : -1]
    texts = _fitting(policy.text(message.text) for message in newest_first)
    shown = [(_tag(m.role), text) for m, text in zip(newest_first, texts, strict=False)][::-1]
    if not shown:
        return {}
    attributes: dict[str, Any] = {
        names.MESSAGES_LEFT_OUT: len(messages) - len(shown) or None,
        names.GENAI_INPUT_MESSAGES: encodable_json([_message(*each) for each in shown]),
    }
    for message, (role, text) in zip(_MESSAGES, shown, strict=False):
        attributes |= {f"{message}.role": role, f"{message}.content": text}
    return attributes


def _message(role: str, text: str) -> dict[str, Any]:
    return {"role": role, "parts": [{"type": "text", "content": text}]}


def _tokens(usage: Usage) -> dict[str, int | None]:
    read, written = usage.input_tokens, usage.output_tokens
    total = None if read is None or written is None else read + written
    return {
        **dict.fromkeys(_INPUT_TOKENS, read),
        **dict.fromkeys(_OUTPUT_TOKENS, written),
        names.OI_TOKENS_TOTAL: total,
    }


def _evaluations(reports: Sequence[Report], policy: ContentPolicy) -> dict[str, Any]:
    """Return the scores under OpenInference's names, which has none for a missing score."""
    attributes: dict[str, Any] = {}
    # The latest judge's come first, should there be too many.
    every = (each for report in reversed(reports) for each in report.evaluations)
    scores = (each for each in every if isinstance(each, Scored))
    for evaluation, scored in zip(_EVALUATIONS, scores, strict=False):
        attributes |= {
            f"{evaluation}.name": encodable(evaluator_name(scored.evaluator)),
            f"{evaluation}.score": scored.score,
            f"{evaluation}.annotator_kind": scored.judge.kind,
            f"{evaluation}.identifier": encodable(f"{scored.evaluator} {scored.judge}"),
            f"{evaluation}.explanation": _explanation(scored.explanation, policy),
        }
    return attributes


def _last_scored(reports: Sequence[Report]) -> Report:
    """Return the report of the last judge that scored the interaction, or else the first."""
    return next((r for r in reversed(reports) if r.assessment is not None), reports[0])


def _verdict(reports: Sequence[Report]) -> dict[str, Any]:
    """Return the verdict of the last judge that scored the interaction, under our own names."""
    if not reports:
        return {}
    report = _last_scored(reports)
    # Of the judge that samples: the built-in judge's probability is always 1.
    decision = min((r.decision for r in reports), key=lambda each: each.inclusion_probability)
    attributes: dict[str, Any] = {
        names.JUDGE: encodable(str(report.judge)),
        names.JUDGE_CHANCE: decision.inclusion_probability,
        names.JUDGE_REASON: decision.cause and decision.cause.value,
        names.DIAGNOSIS: report.diagnosis and report.diagnosis.value,
        names.RISK: _first(r.assessment.risk for r in reports if r.assessment is not None),
        names.PREDICTED: _first(r.predicted for r in reports),
    }
    if report.assessment is not None:
        attributes[names.HALLUCINATED] = report.assessment.hallucinated
        attributes[names.EVASIVE] = report.assessment.evasive
        attributes[names.LANGUAGE] = report.assessment.language
    for evaluation in report.evaluations[:MAX_EVALUATIONS]:
        evaluator = encodable(evaluator_name(evaluation.evaluator))
        if isinstance(evaluation, Scored):
            attributes[names.SCORE.format(evaluator=evaluator)] = evaluation.score
        else:
            attributes[names.UNSCORED.format(evaluator=evaluator)] = evaluation.cause.value
    return attributes


def _first(values: Iterable[float | None]) -> float | None:
    return next((value for value in values if value is not None), None)


def _unsupported(reports: Sequence[Report], policy: ContentPolicy) -> dict[str, Any]:
    assessment = _last_scored(reports).assessment if reports else None
    found = [s for s in (assessment and assessment.sentences) or () if is_unsupported(s)]
    if not found:
        return {}
    entries = [policy.sentence(sentence) for sentence in found[:MAX_SENTENCES]]
    return {
        names.UNSUPPORTED_SENTENCES: _json(entries, MAX_SENTENCE_BYTES),
        names.SENTENCES_LEFT_OUT: len(found) - len(entries) or None,
    }
