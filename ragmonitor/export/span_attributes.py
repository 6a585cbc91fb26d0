"""From records to the names and attributes of spans and events. Pure functions.

Every text has a fixed cap, and so have all documents and all messages of a span together: a
collector drops a batch that is too large, with the spans of others in it. The SDK evicts the oldest
attribute beyond its limit (128), so attributes come least important first.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import islice
from typing import Any, Final, TypeGuard

from ragmonitor.export.content import (
    UNTYPED_ERROR,
    ContentPolicy,
    clipped,
    encodable_json,
    is_unsupported,
    mapped,
    size_bytes,
    texts_json,
)
from ragmonitor.records import (
    AlarmEvent,
    Assessment,
    Cause,
    Chunk,
    Evaluation,
    Example,
    Generation,
    Interaction,
    Message,
    Report,
    Retrieval,
    Scored,
    Usage,
    error_type,
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

_TEXT = "text/plain"
SHOW_ALL = ContentPolicy()


def root_name(interaction: Interaction) -> str:
    """Return the root span's name."""
    return f"{names.GENAI_OPERATION_WORKFLOW} {interaction.name}".rstrip()


def root_attributes(
    interaction: Interaction,
    reports: Sequence[Report],
    *,
    policy: ContentPolicy = SHOW_ALL,
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
    attributes: Attributes = {}
    if policy.shows:
        query, answer = (
            _text(policy.text(interaction.query)),
            _text(policy.text(interaction.answer)),
        )
        attributes |= {
            names.OI_INPUT_VALUE: query,
            names.OI_OUTPUT_VALUE: answer,
            names.OI_INPUT_MIME_TYPE: _TEXT,
            names.OI_OUTPUT_MIME_TYPE: _TEXT,
            names.GENAI_INPUT_MESSAGES: texts_json([_message("user", query)]),
            names.GENAI_OUTPUT_MESSAGES: texts_json([_message("assistant", answer)]),
        }
    attributes |= {
        names.OI_SPAN_KIND: names.OI_KIND_CHAIN,
        names.GENAI_OPERATION_NAME: names.GENAI_OPERATION_WORKFLOW,
        names.INTERACTION_ID: _text(interaction.id),
        names.STATUS: interaction.status,
    }
    if interaction.first_token_s is not None:
        attributes[names.FIRST_TEXT] = interaction.first_token_s
    if cost_usd is not None:
        attributes[names.COST_USD] = cost_usd
    attributes |= _verdict(reports)
    if version:
        attributes[names.OTEL_SERVICE_VERSION] = _text(version)
    attributes |= _context(interaction)
    attributes |= _unsupported(reports, policy)
    attributes |= _evaluations(reports, policy)
    if not interaction.generations:
        attributes |= _tokens(interaction.usage)
    attributes |= _not_shown(interaction.not_shown)
    attributes |= _labels(interaction)
    if interaction.chunks:
        attributes[names.GENAI_RETRIEVAL_DOCUMENTS] = _ids_and_scores(interaction.chunks)
        if not any(retrieval.chunks for retrieval in interaction.retrievals):
            # Plain code names its chunks without a retrieval: no other span would carry them.
            attributes |= _documents(interaction.chunks, policy)
    return _least_first(attributes)


def retrieval_name(retrieval: Retrieval) -> str:
    """Return a retrieval span's name."""
    return f"{names.GENAI_OPERATION_RETRIEVAL} {retrieval.name}".rstrip()


def retrieval_attributes(retrieval: Retrieval, *, policy: ContentPolicy = SHOW_ALL) -> Attributes:
    """Return a retrieval span's attributes; without content, ids and scores only."""
    attributes: Attributes = {}
    if policy.shows:
        query = _text(policy.text(retrieval.query))
        attributes |= {
            names.OI_INPUT_VALUE: query,
            names.OI_INPUT_MIME_TYPE: _TEXT,
            names.GENAI_RETRIEVAL_QUERY_TEXT: query,
        }
    attributes |= {
        names.OI_SPAN_KIND: names.OI_KIND_RETRIEVER,
        names.GENAI_OPERATION_NAME: names.GENAI_OPERATION_RETRIEVAL,
        names.DOCUMENTS_FOUND: len(retrieval.chunks),
    }
    if retrieval.error:
        attributes[names.OTEL_ERROR_TYPE] = error_type(retrieval.error) or UNTYPED_ERROR
    attributes[names.GENAI_RETRIEVAL_DOCUMENTS] = _ids_and_scores(retrieval.chunks)
    attributes |= _documents(retrieval.chunks, policy)
    return _least_first(attributes)


def generation_name(generation: Generation) -> str:
    """Return a model call's span name."""
    return f"{names.GENAI_OPERATION_CHAT} {generation.model}".rstrip()


def generation_attributes(
    generation: Generation, *, policy: ContentPolicy = SHOW_ALL
) -> Attributes:
    """Return a model call's attributes: its output first, then its prompt."""
    attributes: Attributes = {
        names.OI_SPAN_KIND: names.OI_KIND_LLM,
        names.GENAI_OPERATION_NAME: names.GENAI_OPERATION_CHAT,
    }
    if generation.error:
        attributes[names.OTEL_ERROR_TYPE] = error_type(generation.error) or UNTYPED_ERROR
    if generation.model:
        model = _text(generation.model)
        attributes |= {names.GENAI_REQUEST_MODEL: model, names.OI_LLM_MODEL_NAME: model}
    if generation.provider:
        provider = _text(generation.provider)
        attributes |= {names.GENAI_PROVIDER_NAME: provider, names.OI_LLM_PROVIDER: provider}
    if generation.finish_reason:
        attributes[names.GENAI_FINISH_REASONS] = [_text(generation.finish_reason)]
    attributes |= _tokens(generation.usage)
    if generation.first_token_s is not None:
        attributes[names.GENAI_FIRST_CHUNK] = generation.first_token_s
    if policy.shows:
        output = _text(policy.text(generation.output))
        attributes |= {
            names.OI_OUTPUT_VALUE: output,
            names.OI_OUTPUT_MIME_TYPE: _TEXT,
            names.OI_LLM_OUTPUT_ROLE: "assistant",
            names.OI_LLM_OUTPUT_CONTENT: output,
            names.GENAI_OUTPUT_MESSAGES: texts_json([_message("assistant", output)]),
        }
        attributes |= _prompt(generation.input, policy)
    return _least_first(attributes)


def carrier_name(reports: Sequence[Report]) -> str:
    """Return the name of a span that carries scores of a span that has been sent already."""
    return f"{names.GENAI_OPERATION_EVALUATION} {_last_scored(reports).judge.name}"


def carrier_attributes(
    reports: Sequence[Report], *, policy: ContentPolicy = SHOW_ALL
) -> Attributes:
    """Return the attributes of such a span (OI spec/annotations.md).

    All reports are of one interaction.
    """
    attributes: Attributes = {
        names.OI_SPAN_KIND: names.OI_KIND_EVALUATOR,
        names.GENAI_OPERATION_NAME: names.GENAI_OPERATION_EVALUATION,
        names.INTERACTION_ID: _text(reports[0].interaction.id),
    }
    attributes |= _verdict(reports)
    attributes |= _unsupported(reports, policy)
    attributes |= _evaluations(reports, policy)
    return _least_first(attributes)


_FAILURES: Final = frozenset(
    {
        Cause.JUDGE_ERROR,
        Cause.JUDGE_REFUSED,
        Cause.JUDGE_TIMEOUT,
        Cause.JUDGE_DOWN,
        Cause.UNREADABLE,
        Cause.EVALUATOR_ERROR,
        Cause.INTERNAL_ERROR,
    }
)
"""Causes by which an evaluation ended in an error. A refusal, an answer without claims and a
question that was not asked are none."""


def event_attributes(
    evaluation: Evaluation,
    report: Report,
    *,
    policy: ContentPolicy = SHOW_ALL,
) -> Attributes:
    """Return the attributes of one `gen_ai.evaluation.result` event.

    The convention has no name for the judge, so it stands under our own names.
    """
    attributes: Attributes = {
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
        attributes[names.EVALUATION_UNSCORED] = evaluation.cause.value
        if evaluation.cause in _FAILURES:
            attributes[names.OTEL_ERROR_TYPE] = evaluation.cause.value
        explanation = evaluation.detail
    if explanation and policy.shows:
        shown = clipped(policy.text(explanation), MAX_EXPLANATION_BYTES)
        attributes[names.GENAI_EVALUATION_EXPLANATION] = shown
    return attributes


def alarm_attributes(event: AlarmEvent, *, policy: ContentPolicy = SHOW_ALL) -> Attributes:
    """Return the attributes of one alarm's log event."""
    attributes: Attributes = {
        names.ALARM_SIGNAL: encodable(event.signal),
        names.ALARM_KIND: event.kind,
        names.ALARM_STATE: "raised" if event.raised else "cleared",
        names.ALARM_OBJECTIVE_VALUE: event.objective,
        names.ALARM_RISING_SINCE: event.since_s,
        names.JUDGE: encodable(event.judge),
    }
    if event.span is not None:
        attributes |= {
            names.ALARM_SPAN_SINCE: event.span.since_s,
            names.ALARM_SPAN_SCORED: event.span.scored,
            names.ALARM_SPAN_MEAN: event.span.mean,
        }
        if event.span.before is not None:
            attributes[names.ALARM_SPAN_BEFORE] = event.span.before
    if event.examples:
        examples = [_alarm_example(example, policy) for example in event.examples]
        attributes[names.ALARM_EXAMPLES] = encodable_json(_cut(examples, MAX_SENTENCE_BYTES))
    return attributes


def _alarm_example(example: Example, policy: ContentPolicy) -> dict[str, Any]:
    entry: dict[str, Any] = {"id": example.interaction.id, "badness": example.badness}
    if example.target is not None:
        entry |= {"trace_id": example.target.trace_id, "span_id": example.target.span_id}
    if policy.shows:
        entry["question"] = policy.text(example.interaction.query)
        entry["answer"] = policy.text(example.interaction.answer)
    sentences = () if example.assessment is None else example.assessment.sentences or ()
    unsupported = islice(filter(is_unsupported, sentences), MAX_SENTENCES)
    entry["unsupported"] = [policy.sentence(sentence) for sentence in unsupported]
    return entry


def exception_attributes(error: str, policy: ContentPolicy) -> Attributes:
    """Return the attributes of an `exception` event: the type, and the message if it may leave."""
    kind = error_type(error)
    attributes: Attributes = {names.OTEL_EXCEPTION_TYPE: encodable(kind or UNTYPED_ERROR)}
    message = policy.text((error.partition(":")[2] if kind else error).strip())
    if message:
        attributes[names.OTEL_EXCEPTION_MESSAGE] = clipped(message, MAX_EXPLANATION_BYTES)
    return attributes


def _text(text: str) -> str:
    return clipped(text, MAX_TEXT_BYTES)


def _fitting(texts: Iterable[str]) -> Iterator[str]:
    """Yield texts, cut, for as long as there is room for another."""
    room = MAX_TEXTS_BYTES
    for text in texts:
        if room < MIN_TEXT_BYTES:
            return
        fitting = clipped(text, min(MAX_TEXT_BYTES, room))
        room -= size_bytes(fitting)
        yield fitting


def _cut(value: Any, max_bytes: int) -> Any:
    """Return a value for JSON with every text in it cut."""
    return mapped(
        value,
        lambda each: (
            each
            if each is None or isinstance(each, bool | int | float)
            else clipped(str(each), max_bytes)
        ),
    )


def _least_first(attributes: Attributes) -> Attributes:
    return dict(reversed(attributes.items()))


def _context(interaction: Interaction) -> Attributes:
    attributes: Attributes = {}
    if interaction.error:
        attributes[names.OTEL_ERROR_TYPE] = error_type(interaction.error) or UNTYPED_ERROR
    if interaction.capture_incomplete:
        attributes[names.CAPTURE_INCOMPLETE] = True
    if interaction.redacted:
        attributes[names.REDACTED] = interaction.redacted
    attributes[names.FRAMEWORK] = encodable(interaction.framework)
    if interaction.name:
        attributes[names.GENAI_WORKFLOW_NAME] = _text(interaction.name)
    if interaction.session_id:
        session = _text(interaction.session_id)
        attributes |= {names.OI_SESSION_ID: session, names.GENAI_CONVERSATION_ID: session}
    if interaction.user_id:
        attributes[names.OI_USER_ID] = _text(interaction.user_id)
    return attributes


def _labels(interaction: Interaction) -> Attributes:
    attributes: Attributes = {}
    if interaction.tags:
        attributes[names.OI_TAGS] = [clipped(t, MAX_TAG_BYTES) for t in interaction.tags[:MAX_TAGS]]
    own = dict(islice(interaction.attributes.items(), MAX_OWN_ATTRIBUTES))
    for name, value in own.items():
        attributes[names.ATTRIBUTE.format(name=encodable(str(name)))] = _text(str(value))
    if own:
        attributes[names.OI_METADATA] = encodable_json(_cut(own, MAX_SENTENCE_BYTES))
    return attributes


def _not_shown(chunks: Sequence[Chunk]) -> Attributes:
    if not chunks:
        return {}
    attributes: Attributes = {names.DOCUMENTS_NOT_SHOWN: len(chunks)}
    ids = [clipped(chunk.id, MAX_TAG_BYTES) for chunk in chunks if chunk.id][:MAX_IDS]
    if ids:
        attributes[names.DOCUMENTS_NOT_SHOWN_IDS] = encodable_json(ids)
    return attributes


def _documents(chunks: Sequence[Chunk], policy: ContentPolicy) -> Attributes:
    if not policy.shows:
        return {}
    attributes: Attributes = {}
    texts = list(_fitting(policy.text(chunk.text) for chunk in chunks[:MAX_DOCUMENTS]))
    if len(texts) < len(chunks):
        attributes[names.DOCUMENTS_LEFT_OUT] = len(chunks) - len(texts)
    for n, (chunk, text) in enumerate(zip(chunks, texts, strict=False)):
        content, identity, score, about = _document_names(n)
        attributes[content] = text
        if chunk.id:
            attributes[identity] = clipped(chunk.id, MAX_TAG_BYTES)
        if _is_finite(chunk.score):
            attributes[score] = float(chunk.score)
        if chunk.metadata:
            metadata = encodable_json(policy.metadata(chunk.metadata))
            if size_bytes(metadata) > MAX_METADATA_BYTES:
                metadata = encodable_json(_cut(policy.metadata(chunk.metadata), MAX_TAG_BYTES))
            if size_bytes(metadata) <= MAX_METADATA_BYTES:
                attributes[about] = metadata
    return attributes


@lru_cache(maxsize=MAX_DOCUMENTS)
def _document_names(n: int) -> Sequence[str]:
    fields = ("content", "id", "score", "metadata")
    return [names.OI_DOCUMENT.format(n=n, field=field) for field in fields]


def _is_finite(score: float | None) -> TypeGuard[float]:
    return score is not None and math.isfinite(score)


def _ids_and_scores(chunks: Sequence[Chunk]) -> str:
    entries: list[dict[str, Any]] = []
    for chunk in chunks[:MAX_IDS]:
        entry: dict[str, Any] = {"id": clipped(chunk.id, MAX_TAG_BYTES)}
        if _is_finite(chunk.score):
            entry["score"] = float(chunk.score)
        entries.append(entry)
    return encodable_json(entries)


def _prompt(messages: Sequence[Message], policy: ContentPolicy) -> Attributes:
    """Return a model's prompt in both conventions; of a long conversation its end."""
    if not messages:
        return {}
    attributes: Attributes = {}
    newest_first = messages[: -MAX_MESSAGES - 1 : -1]
    texts = list(_fitting(policy.text(message.text) for message in newest_first))
    roles = [clipped(message.role, MAX_TAG_BYTES) for message in newest_first]
    shown = list(zip(roles, texts, strict=False))[::-1]
    if len(shown) < len(messages):
        attributes[names.MESSAGES_LEFT_OUT] = len(messages) - len(shown)
    attributes[names.GENAI_INPUT_MESSAGES] = texts_json([_message(*each) for each in shown])
    for n, (role, text) in enumerate(shown):
        attributes[names.OI_LLM_INPUT_MESSAGE.format(n=n, field="role")] = role
        attributes[names.OI_LLM_INPUT_MESSAGE.format(n=n, field="content")] = text
    return attributes


def _message(role: str, text: str) -> dict[str, Any]:
    return {"role": role, "parts": [{"type": "text", "content": text}]}


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


def _evaluations(reports: Sequence[Report], policy: ContentPolicy) -> Attributes:
    """Return the scores under OpenInference's names, which has none for a missing score."""
    attributes: Attributes = {}
    for n, scored in enumerate(islice(_scores(reports), MAX_EVALUATIONS)):
        name, score, kind, identifier, why = _evaluation_names(n)
        attributes |= {
            name: encodable(evaluator_name(scored.evaluator)),
            score: scored.score,
            kind: scored.judge.kind,
            identifier: encodable(f"{scored.evaluator} {scored.judge}"),
        }
        if scored.explanation and policy.shows:
            attributes[why] = clipped(policy.text(scored.explanation), MAX_EXPLANATION_BYTES)
    return attributes


@lru_cache(maxsize=MAX_EVALUATIONS)
def _evaluation_names(n: int) -> Sequence[str]:
    fields = ("name", "score", "annotator_kind", "identifier", "explanation")
    return [names.OI_EVALUATION.format(n=n, field=field) for field in fields]


def _scores(reports: Sequence[Report]) -> Iterator[Scored]:
    for report in reversed(reports):  # the latest judge's come first, should there be too many
        for evaluation in report.evaluations:
            if isinstance(evaluation, Scored):
                yield evaluation


def _last_scored(reports: Sequence[Report]) -> Report:
    """Return the report of the last judge that scored the interaction, or else the first."""
    return next((r for r in reversed(reports) if r.assessment is not None), reports[0])


def _verdict(reports: Sequence[Report]) -> Attributes:
    """Return the verdict of the last judge that scored the interaction, under our own names."""
    if not reports:
        return {}
    report = _last_scored(reports)
    attributes: Attributes = {names.JUDGE: encodable(str(report.judge)), **_inclusion(reports)}
    attributes |= _assessed(report.assessment) if report.assessment is not None else {}
    if report.diagnosis is not None:
        attributes[names.DIAGNOSIS] = report.diagnosis.value
    risks = [r.assessment.risk for r in reports if r.assessment and r.assessment.risk is not None]
    if risks:
        attributes[names.RISK] = risks[0]
    predicted = next((r.predicted for r in reports if r.predicted is not None), None)
    if predicted is not None:
        attributes[names.PREDICTED] = predicted
    for evaluation in report.evaluations[:MAX_EVALUATIONS]:
        evaluator = encodable(evaluator_name(evaluation.evaluator))
        if isinstance(evaluation, Scored):
            attributes[names.SCORE.format(evaluator=evaluator)] = evaluation.score
        else:
            attributes[names.UNSCORED.format(evaluator=evaluator)] = evaluation.cause.value
    return attributes


def _inclusion(reports: Sequence[Report]) -> Mapping[str, str | float]:
    """Return the probability of the judge that samples: the built-in judge's is always 1."""
    decision = min(
        (report.decision for report in reports), key=lambda decision: decision.inclusion_probability
    )
    attributes: dict[str, str | float] = {names.JUDGE_CHANCE: decision.inclusion_probability}
    if decision.cause is not None:
        attributes[names.JUDGE_REASON] = decision.cause.value
    return attributes


def _assessed(assessment: Assessment) -> Attributes:
    attributes: Attributes = {}
    if assessment.hallucinated is not None:
        attributes[names.HALLUCINATED] = assessment.hallucinated
    if assessment.evasive is not None:
        attributes[names.EVASIVE] = assessment.evasive
    attributes[names.LANGUAGE] = assessment.language
    return attributes


def _unsupported(reports: Sequence[Report], policy: ContentPolicy) -> Attributes:
    assessment = _last_scored(reports).assessment if reports else None
    found = [s for s in (assessment and assessment.sentences) or () if is_unsupported(s)]
    if not found:
        return {}
    entries = [policy.sentence(sentence) for sentence in found[:MAX_SENTENCES]]
    attributes: Attributes = {
        names.UNSUPPORTED_SENTENCES: encodable_json(_cut(entries, MAX_SENTENCE_BYTES))
    }
    if len(entries) < len(found):
        attributes[names.SENTENCES_LEFT_OUT] = len(found) - len(entries)
    return attributes
