"""From records to the names and attributes of spans and events. Pure functions.

The SDK keeps 128 attributes a span and evicts the oldest beyond that, so what may be missed comes
first in every dictionary here, and what must not (scores, question, answer) comes last.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeGuard

from opentelemetry.util.types import AttributeValue

from ragmonitor import conventions as names
from ragmonitor.export.texts import (
    Content,
    clipped,
    compact_json,
    encodable,
    error_text,
    error_type,
    is_unsupported,
    sentence_entry,
)
from ragmonitor.records import (
    Assessment,
    Chunk,
    Evaluation,
    Generation,
    Interaction,
    Report,
    Retrieval,
    Scored,
    Usage,
    evaluator_name,
)

Attributes = dict[str, AttributeValue]

ATTRIBUTES_MOST = 128
"""The SDK's default limit for a span."""
DOCUMENTS_MOST = 20
DOCUMENT_FIELDS = 4
EVALUATIONS_MOST = 10
OWN_ATTRIBUTES_MOST = 20
SENTENCES_MOST = 20
TEXT_MOST = 32_768
"""Characters of one text; ten such attributes stay below the 4 MiB of a usual collector."""

_TEXT = "text/plain"


def root_name(interaction: Interaction) -> str:
    """Return the root span's name."""
    return f"{names.GENAI_OPERATION_WORKFLOW} {interaction.name}".rstrip()


def root_attributes(
    interaction: Interaction,
    reports: Sequence[Report],
    *,
    content: Content = "all",
    text_most: int = TEXT_MOST,
) -> Attributes:
    """Return the root span's attributes: the interaction, and the scores known by now."""
    attributes = _described(interaction)
    attributes |= _evaluations(reports, content)
    attributes |= _verdict(reports, content)
    if not interaction.generations:
        attributes |= _tokens(interaction.usage)
    if interaction.chunks:
        attributes[names.GENAI_RETRIEVAL_DOCUMENTS] = _ids_and_scores(interaction.chunks)
    if interaction.error:
        attributes[names.OTEL_ERROR_TYPE] = error_type(interaction.error)
    attributes |= {
        names.INTERACTION_ID: encodable(interaction.id),
        names.STATUS: interaction.status,
        names.GENAI_OPERATION_NAME: names.GENAI_OPERATION_WORKFLOW,
        names.OI_SPAN_KIND: names.OI_KIND_CHAIN,
    }
    if content == "all":
        attributes |= _asked_and_answered(interaction, text_most)
        if not any(retrieval.chunks for retrieval in interaction.retrievals):
            # Plain code names its chunks without a retrieval: no other span would carry them.
            room = (ATTRIBUTES_MOST - 1 - len(attributes)) // DOCUMENT_FIELDS
            documents = _documents(interaction.chunks, min(DOCUMENTS_MOST, room), text_most)
            attributes = documents | attributes
    return attributes


def retrieval_name(retrieval: Retrieval) -> str:
    """Return a retrieval span's name."""
    return f"{names.GENAI_OPERATION_RETRIEVAL} {retrieval.name}".rstrip()


def retrieval_attributes(
    retrieval: Retrieval, *, content: Content = "all", text_most: int = TEXT_MOST
) -> Attributes:
    """Return a retrieval span's attributes; without content, ids and scores only."""
    attributes: Attributes = {}
    if content == "all":
        attributes |= _documents(retrieval.chunks, DOCUMENTS_MOST, text_most)
    attributes |= {
        names.GENAI_OPERATION_NAME: names.GENAI_OPERATION_RETRIEVAL,
        names.OI_SPAN_KIND: names.OI_KIND_RETRIEVER,
        names.GENAI_RETRIEVAL_DOCUMENTS: _ids_and_scores(retrieval.chunks),
        names.DOCUMENTS_FOUND: len(retrieval.chunks),
    }
    if retrieval.error:
        attributes[names.OTEL_ERROR_TYPE] = error_type(retrieval.error)
    if content == "all":
        query = clipped(retrieval.query, text_most)
        attributes |= {
            names.GENAI_RETRIEVAL_QUERY_TEXT: query,
            names.OI_INPUT_VALUE: query,
            names.OI_INPUT_MIME_TYPE: _TEXT,
        }
    return attributes


def generation_name(generation: Generation) -> str:
    """Return a model call's span name."""
    return f"{names.GENAI_OPERATION_CHAT} {generation.model}".rstrip()


def generation_attributes(
    generation: Generation, *, content: Content = "all", text_most: int = TEXT_MOST
) -> Attributes:
    """Return a model call's attributes."""
    attributes: Attributes = {
        names.GENAI_OPERATION_NAME: names.GENAI_OPERATION_CHAT,
        names.OI_SPAN_KIND: names.OI_KIND_LLM,
    }
    if generation.model:
        attributes[names.GENAI_REQUEST_MODEL] = encodable(generation.model)
        attributes[names.OI_LLM_MODEL_NAME] = encodable(generation.model)
    if generation.provider:
        attributes[names.GENAI_PROVIDER_NAME] = encodable(generation.provider)
        attributes[names.OI_LLM_PROVIDER] = encodable(generation.provider)
    attributes |= _tokens(generation.usage)
    if generation.error:
        attributes[names.OTEL_ERROR_TYPE] = error_type(generation.error)
    if content == "all":
        output = clipped(generation.output, text_most)
        attributes |= {
            names.OI_LLM_OUTPUT_ROLE: "assistant",
            names.OI_LLM_OUTPUT_CONTENT: output,
            names.OI_OUTPUT_VALUE: output,
            names.OI_OUTPUT_MIME_TYPE: _TEXT,
        }
    return attributes


def carrier_name(report: Report) -> str:
    """Return the name of the span that carries a late report."""
    return f"{names.GENAI_OPERATION_EVALUATION} {report.judge.name}"


def carrier_attributes(report: Report, *, content: Content = "all") -> Attributes:
    """Return the attributes of the span that carries a late report (OI spec/annotations.md)."""
    return {
        names.INTERACTION_ID: encodable(report.interaction.id),
        **_evaluations([report], content),
        **_verdict([report], content),
        names.GENAI_OPERATION_NAME: names.GENAI_OPERATION_EVALUATION,
        names.OI_SPAN_KIND: names.OI_KIND_EVALUATOR,
    }


def event_attributes(
    evaluation: Evaluation, report: Report, *, content: Content = "all"
) -> Attributes:
    """Return the attributes of one `gen_ai.evaluation.result` event.

    The convention has no place for who judged, so that stands under our own names.
    """
    attributes: Attributes = {
        names.GENAI_EVALUATION_NAME: encodable(evaluator_name(evaluation.evaluator)),
        names.EVALUATOR: encodable(evaluation.evaluator),
        names.JUDGE: encodable(str(evaluation.judge)),
        names.JUDGE_KIND: evaluation.judge.kind,
        names.JUDGE_CHANCE: report.chance.probability,
        names.INTERACTION_ID: encodable(report.interaction.id),
    }
    if isinstance(evaluation, Scored):
        attributes[names.GENAI_EVALUATION_SCORE_VALUE] = evaluation.score
        explanation = evaluation.explanation
    else:
        attributes[names.OTEL_ERROR_TYPE] = evaluation.cause.value
        explanation = evaluation.detail
    if explanation and content == "all":
        attributes[names.GENAI_EVALUATION_EXPLANATION] = clipped(explanation, TEXT_MOST)
    return attributes


def _described(interaction: Interaction) -> Attributes:
    attributes: Attributes = {}
    own = dict(list(interaction.attributes.items())[:OWN_ATTRIBUTES_MOST])
    for name, value in own.items():
        key = names.ATTRIBUTE.format(name=encodable(str(name)))
        attributes[key] = clipped(str(value), TEXT_MOST)
    if own:
        attributes[names.OI_METADATA] = clipped(compact_json(own), TEXT_MOST)
    if interaction.tags:
        attributes[names.OI_TAGS] = [encodable(tag) for tag in interaction.tags]
    if interaction.user_id:
        attributes[names.OI_USER_ID] = encodable(interaction.user_id)
    if interaction.session_id:
        attributes[names.OI_SESSION_ID] = encodable(interaction.session_id)
        attributes[names.GENAI_CONVERSATION_ID] = encodable(interaction.session_id)
    if interaction.name:
        attributes[names.GENAI_WORKFLOW_NAME] = encodable(interaction.name)
    if interaction.capture_incomplete:
        attributes[names.CAPTURE_INCOMPLETE] = True
    attributes[names.FRAMEWORK] = encodable(interaction.framework)
    return attributes


def _documents(chunks: Sequence[Chunk], most: int, text_most: int) -> Attributes:
    attributes: Attributes = {}
    if len(chunks) > most:
        attributes[names.DOCUMENTS_LEFT_OUT] = len(chunks) - most
    for n, chunk in enumerate(chunks[:most]):
        if chunk.metadata:
            metadata = clipped(compact_json(dict(chunk.metadata)), text_most)
            attributes[names.OI_DOCUMENT.format(n=n, field="metadata")] = metadata
        if _is_finite(chunk.score):
            attributes[names.OI_DOCUMENT.format(n=n, field="score")] = float(chunk.score)
        if chunk.id:
            attributes[names.OI_DOCUMENT.format(n=n, field="id")] = encodable(chunk.id)
        attributes[names.OI_DOCUMENT.format(n=n, field="content")] = clipped(chunk.text, text_most)
    return attributes


def _is_finite(score: float | None) -> TypeGuard[float]:
    return score is not None and math.isfinite(score)


def _ids_and_scores(chunks: Sequence[Chunk]) -> str:
    entries: list[dict[str, Any]] = []
    for chunk in chunks:
        entry: dict[str, Any] = {"id": chunk.id}
        if _is_finite(chunk.score):
            entry["score"] = float(chunk.score)
        entries.append(entry)
    return encodable(compact_json(entries))


def _tokens(usage: Usage) -> Attributes:
    attributes: Attributes = {}
    if usage.input_tokens is not None:
        attributes[names.GENAI_USAGE_INPUT_TOKENS] = usage.input_tokens
        attributes[names.OI_TOKENS_PROMPT] = usage.input_tokens
    if usage.output_tokens is not None:
        attributes[names.GENAI_USAGE_OUTPUT_TOKENS] = usage.output_tokens
        attributes[names.OI_TOKENS_COMPLETION] = usage.output_tokens
    if usage.input_tokens is not None and usage.output_tokens is not None:
        attributes[names.OI_TOKENS_TOTAL] = usage.input_tokens + usage.output_tokens
    return attributes


def _evaluations(reports: Sequence[Report], content: Content) -> Attributes:
    """Return the scores in OpenInference's words; it has none for a missing score."""
    attributes: Attributes = {}
    for n, scored in enumerate(_scores(reports)):
        if n == EVALUATIONS_MOST:
            break
        fields: dict[str, AttributeValue] = {
            "name": encodable(evaluator_name(scored.evaluator)),
            "annotator_kind": scored.judge.kind,
            "identifier": encodable(f"{scored.evaluator} {scored.judge}"),
            "score": scored.score,
        }
        if scored.explanation and content == "all":
            fields["explanation"] = clipped(scored.explanation, TEXT_MOST)
        for field, value in fields.items():
            attributes[names.OI_EVALUATION.format(n=n, field=field)] = value
    return attributes


def _scores(reports: Sequence[Report]) -> Iterator[Scored]:
    for report in reversed(reports):  # the latest reader's come first, should there be too many
        for evaluation in report.evaluations:
            if isinstance(evaluation, Scored):
                yield evaluation


def _verdict(reports: Sequence[Report], content: Content) -> Attributes:
    """Return, in our own words, what the last judge found that read the interaction."""
    if not reports:
        return {}
    read = [report for report in reports if report.assessment is not None]
    report = read[-1] if read else reports[0]
    attributes: Attributes = {names.JUDGE: encodable(str(report.judge))}
    attributes |= _chance(reports)
    if report.assessment is not None:
        attributes |= _found(report.assessment, content)
    risks = [r.assessment.risk for r in read if r.assessment and r.assessment.risk is not None]
    if risks:
        attributes[names.RISK] = risks[0]
    for evaluation in report.evaluations[:EVALUATIONS_MOST]:
        evaluator = encodable(evaluator_name(evaluation.evaluator))
        if isinstance(evaluation, Scored):
            attributes[names.SCORE.format(evaluator=evaluator)] = evaluation.score
        else:
            attributes[names.UNSCORED.format(evaluator=evaluator)] = evaluation.cause.value
    return attributes


def _chance(reports: Sequence[Report]) -> Mapping[str, AttributeValue]:
    """Return the chance of the judge that samples: the embedded one's is always 1."""
    chance = min((report.chance for report in reports), key=lambda chance: chance.probability)
    attributes: Attributes = {names.JUDGE_CHANCE: chance.probability}
    if chance.cause is not None:
        attributes[names.JUDGE_REASON] = chance.cause.value
    return attributes


def _found(assessment: Assessment, content: Content) -> Attributes:
    attributes: Attributes = {names.LANGUAGE: assessment.language}
    unsupported = [s for s in assessment.sentences or () if is_unsupported(s)]
    if unsupported:
        shown = [sentence_entry(s, content) for s in unsupported[:SENTENCES_MOST]]
        attributes[names.UNSUPPORTED_SENTENCES] = encodable(compact_json(shown))
    if len(unsupported) > SENTENCES_MOST:
        attributes[names.SENTENCES_LEFT_OUT] = len(unsupported) - SENTENCES_MOST
    if assessment.evasive is not None:
        attributes[names.EVASIVE] = assessment.evasive
    if assessment.hallucinated is not None:
        attributes[names.HALLUCINATED] = assessment.hallucinated
    return attributes


def _asked_and_answered(interaction: Interaction, text_most: int) -> Attributes:
    query = clipped(interaction.query, text_most)
    answer = clipped(interaction.answer, text_most)
    return {
        names.GENAI_INPUT_MESSAGES: compact_json([_message("user", query)]),
        names.GENAI_OUTPUT_MESSAGES: compact_json([_message("assistant", answer)]),
        names.OI_INPUT_MIME_TYPE: _TEXT,
        names.OI_OUTPUT_MIME_TYPE: _TEXT,
        names.OI_INPUT_VALUE: query,
        names.OI_OUTPUT_VALUE: answer,
    }


def _message(role: str, text: str) -> dict[str, Any]:
    return {"role": role, "parts": [{"type": "text", "content": text}]}


def status_description(error: str, content: Content) -> str:
    """Return the description of an ERROR status."""
    return clipped(error_text(error, content), TEXT_MOST)
