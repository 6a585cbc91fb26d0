"""From records to the names and attributes of spans and events. Pure functions.

Each span is filled from what matters most to what may be missed, within what it may hold (`room`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from itertools import islice
from typing import Any, TypeGuard

from ragmonitor import conventions as names
from ragmonitor.export.room import Attributes, SpanBudget, SpanLimits, cut
from ragmonitor.export.texts import (
    UNTYPED_ERROR,
    ContentPolicy,
    encodable,
    is_unsupported,
    size_bytes,
)
from ragmonitor.records import (
    AlarmEvent,
    Assessment,
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

EVALUATIONS_MOST = 10
EXPLANATION_BYTES_MOST = 4096
OWN_ATTRIBUTES_MOST = 20
SENTENCES_MOST = 20
SENTENCE_BYTES_MOST = 2048
TAGS_MOST = 50
TAG_BYTES_MOST = 256

_TEXT = "text/plain"
ALL = ContentPolicy()
USUAL = SpanLimits()


def root_name(interaction: Interaction) -> str:
    """Return the root span's name."""
    return f"{names.GENAI_OPERATION_WORKFLOW} {interaction.name}".rstrip()


def root_attributes(
    interaction: Interaction,
    reports: Sequence[Report],
    *,
    shown: ContentPolicy = ALL,
    span_limits: SpanLimits = USUAL,
) -> Attributes:
    """Return the root span's attributes: the interaction, and the scores known by now."""
    room = SpanBudget(span_limits)
    room.reserve(size_bytes(status_description(interaction.error, shown, span_limits)))
    query, answer = shown.text(interaction.query), shown.text(interaction.answer)
    if shown.shows:
        room.add_texts({names.OI_INPUT_VALUE: query, names.OI_OUTPUT_VALUE: answer})
    room.add_each(
        {
            names.OI_SPAN_KIND: names.OI_KIND_CHAIN,
            names.GENAI_OPERATION_NAME: names.GENAI_OPERATION_WORKFLOW,
            names.INTERACTION_ID: span_limits.clipped(interaction.id),
            names.STATUS: interaction.status,
        }
    )
    _add_verdict(room, reports)
    room.add_each(_described(interaction, span_limits))
    _add_unsupported(room, reports, shown)
    _add_evaluations(room, reports, shown)
    if shown.shows:
        room.add_each({names.OI_INPUT_MIME_TYPE: _TEXT, names.OI_OUTPUT_MIME_TYPE: _TEXT})
        _add_message(room, names.GENAI_INPUT_MESSAGES, "user", query)
        _add_message(room, names.GENAI_OUTPUT_MESSAGES, "assistant", answer)
    if not interaction.generations:
        room.add_each(_tokens(interaction.usage))
    _add_not_shown(room, interaction.not_shown)
    _add_labels(room, interaction)
    if interaction.chunks:
        _add_ids_and_scores(room, interaction.chunks)
        if not any(retrieval.chunks for retrieval in interaction.retrievals):
            # Plain code names its chunks without a retrieval: no other span would carry them.
            _add_documents(room, interaction.chunks, shown)
    return room.attributes()


def retrieval_name(retrieval: Retrieval) -> str:
    """Return a retrieval span's name."""
    return f"{names.GENAI_OPERATION_RETRIEVAL} {retrieval.name}".rstrip()


def retrieval_attributes(
    retrieval: Retrieval, *, shown: ContentPolicy = ALL, span_limits: SpanLimits = USUAL
) -> Attributes:
    """Return a retrieval span's attributes; without content, ids and scores only."""
    room = SpanBudget(span_limits)
    room.reserve(size_bytes(status_description(retrieval.error, shown, span_limits)))
    query = shown.text(retrieval.query)
    if shown.shows:
        room.add_texts({names.OI_INPUT_VALUE: query})
    room.add_each(
        {
            names.OI_SPAN_KIND: names.OI_KIND_RETRIEVER,
            names.GENAI_OPERATION_NAME: names.GENAI_OPERATION_RETRIEVAL,
            names.DOCUMENTS_FOUND: len(retrieval.chunks),
        }
    )
    if retrieval.error:
        room.add({names.OTEL_ERROR_TYPE: error_type(retrieval.error) or UNTYPED_ERROR})
    if shown.shows:
        room.add({names.OI_INPUT_MIME_TYPE: _TEXT})
        room.add_texts({names.GENAI_RETRIEVAL_QUERY_TEXT: query})
    if retrieval.chunks:
        _add_ids_and_scores(room, retrieval.chunks)
    else:
        room.add({names.GENAI_RETRIEVAL_DOCUMENTS: "[]"})
    _add_documents(room, retrieval.chunks, shown)
    return room.attributes()


def generation_name(generation: Generation) -> str:
    """Return a model call's span name."""
    return f"{names.GENAI_OPERATION_CHAT} {generation.model}".rstrip()


def generation_attributes(
    generation: Generation, *, shown: ContentPolicy = ALL, span_limits: SpanLimits = USUAL
) -> Attributes:
    """Return a model call's attributes: what it gave, then what it was asked."""
    room = SpanBudget(span_limits)
    room.reserve(size_bytes(status_description(generation.error, shown, span_limits)))
    output = shown.text(generation.output)
    if shown.shows:
        room.add_texts({names.OI_OUTPUT_VALUE: output})
    room.add_each(
        {
            names.OI_SPAN_KIND: names.OI_KIND_LLM,
            names.GENAI_OPERATION_NAME: names.GENAI_OPERATION_CHAT,
        }
    )
    if generation.error:
        room.add({names.OTEL_ERROR_TYPE: error_type(generation.error) or UNTYPED_ERROR})
    if generation.model:
        model = span_limits.clipped(generation.model)
        room.add_each({names.GENAI_REQUEST_MODEL: model, names.OI_LLM_MODEL_NAME: model})
    if generation.provider:
        provider = span_limits.clipped(generation.provider)
        room.add_each({names.GENAI_PROVIDER_NAME: provider, names.OI_LLM_PROVIDER: provider})
    room.add_each(_tokens(generation.usage))
    if shown.shows:
        room.add({names.OI_OUTPUT_MIME_TYPE: _TEXT})
        room.add_texts({names.OI_LLM_OUTPUT_ROLE: "assistant", names.OI_LLM_OUTPUT_CONTENT: output})
        _add_message(room, names.GENAI_OUTPUT_MESSAGES, "assistant", output)
        _add_prompt(room, generation.input, shown)
    return room.attributes()


def carrier_name(reports: Sequence[Report]) -> str:
    """Return the name of a span that carries scores of a span that has left."""
    return f"{names.GENAI_OPERATION_EVALUATION} {_telling(reports).judge.name}"


def carrier_attributes(
    reports: Sequence[Report], *, shown: ContentPolicy = ALL, span_limits: SpanLimits = USUAL
) -> Attributes:
    """Return the attributes of such a span (OI spec/annotations.md); all of one interaction."""
    room = SpanBudget(span_limits)
    room.reserve(EXPLANATION_BYTES_MOST)  # for the description of its status
    room.add_each(
        {
            names.OI_SPAN_KIND: names.OI_KIND_EVALUATOR,
            names.GENAI_OPERATION_NAME: names.GENAI_OPERATION_EVALUATION,
            names.INTERACTION_ID: span_limits.clipped(reports[0].interaction.id),
        }
    )
    _add_verdict(room, reports)
    _add_unsupported(room, reports, shown)
    _add_evaluations(room, reports, shown)
    return room.attributes()


def event_attributes(
    evaluation: Evaluation,
    report: Report,
    *,
    shown: ContentPolicy = ALL,
    span_limits: SpanLimits = USUAL,
) -> Attributes:
    """Return the attributes of one `gen_ai.evaluation.result` event.

    The convention has no place for who judged, so that stands under our own names.
    """
    attributes: Attributes = {
        names.GENAI_EVALUATION_NAME: encodable(evaluator_name(evaluation.evaluator)),
        names.EVALUATOR: encodable(evaluation.evaluator),
        names.JUDGE: encodable(str(evaluation.judge)),
        names.JUDGE_KIND: evaluation.judge.kind,
        names.JUDGE_CHANCE: report.decision.inclusion_probability,
        names.INTERACTION_ID: span_limits.clipped(report.interaction.id),
    }
    if isinstance(evaluation, Scored):
        attributes[names.GENAI_EVALUATION_SCORE_VALUE] = evaluation.score
        explanation = evaluation.explanation
    else:
        attributes[names.OTEL_ERROR_TYPE] = evaluation.cause.value
        explanation = evaluation.detail
    if explanation and shown.shows:
        attributes[names.GENAI_EVALUATION_EXPLANATION] = span_limits.clipped(
            shown.text(explanation), EXPLANATION_BYTES_MOST
        )
    return attributes


def alarm_attributes(
    event: AlarmEvent, *, shown: ContentPolicy = ALL, span_limits: SpanLimits = USUAL
) -> Attributes:
    """Return the attributes of one alarm's log event."""
    attributes: Attributes = {
        names.ALARM_SIGNAL: encodable(event.signal),
        names.ALARM_KIND: event.kind,
        names.ALARM_STATE: "raised" if event.raised else "cleared",
        names.ALARM_EVIDENCE: event.evidence_days,
        names.ALARM_OBJECTIVE_VALUE: event.tolerate,
        names.ALARM_RISING_SINCE: event.since_s,
        names.JUDGE: encodable(event.judge),
    }
    if event.estimate is not None:
        attributes |= {
            names.ALARM_MEAN: event.estimate.mean,
            names.ALARM_LOWER: event.estimate.lower,
            names.ALARM_UPPER: event.estimate.upper,
            names.ALARM_EFFECTIVE_N: event.estimate.effective_n,
        }
    if event.examples:
        room = SpanBudget(span_limits)
        examples = [_alarm_example(example, shown) for example in event.examples]
        room.add_json(names.ALARM_EXAMPLES, examples, lambda some, most: cut(list(some), most))
        attributes |= room.attributes()
    return attributes


def _alarm_example(example: Example, shown: ContentPolicy) -> dict[str, Any]:
    told: dict[str, Any] = {"id": example.interaction.id, "badness": example.badness}
    if example.target is not None:
        told |= {"trace_id": example.target.trace_id, "span_id": example.target.span_id}
    if shown.shows:
        told["question"] = shown.text(example.interaction.query)
        told["answer"] = shown.text(example.interaction.answer)
    sentences = () if example.assessment is None else example.assessment.sentences or ()
    unsupported = islice(filter(is_unsupported, sentences), SENTENCES_MOST)
    told["unsupported"] = [shown.sentence(sentence) for sentence in unsupported]
    return told


def status_description(error: str, shown: ContentPolicy, span_limits: SpanLimits = USUAL) -> str:
    """Return the description of an ERROR status; empty if there is no error."""
    return span_limits.clipped(shown.error(error), EXPLANATION_BYTES_MOST)


def detail_shown(detail: str, shown: ContentPolicy, span_limits: SpanLimits = USUAL) -> str:
    """Return what a judge's failure is described with; empty where no text may leave."""
    return span_limits.clipped(shown.text(detail), EXPLANATION_BYTES_MOST)


def _described(interaction: Interaction, span_limits: SpanLimits) -> Attributes:
    attributes: Attributes = {}
    if interaction.error:
        attributes[names.OTEL_ERROR_TYPE] = error_type(interaction.error) or UNTYPED_ERROR
    if interaction.capture_incomplete:
        attributes[names.CAPTURE_INCOMPLETE] = True
    if interaction.redacted:
        attributes[names.REDACTED] = interaction.redacted
    attributes[names.FRAMEWORK] = encodable(interaction.framework)
    if interaction.name:
        attributes[names.GENAI_WORKFLOW_NAME] = span_limits.clipped(interaction.name)
    if interaction.session_id:
        session = span_limits.clipped(interaction.session_id)
        attributes |= {names.OI_SESSION_ID: session, names.GENAI_CONVERSATION_ID: session}
    if interaction.user_id:
        attributes[names.OI_USER_ID] = span_limits.clipped(interaction.user_id)
    return attributes


def _add_labels(room: SpanBudget, interaction: Interaction) -> None:
    if interaction.tags:
        tags = [room.span_limits.clipped(t, TAG_BYTES_MOST) for t in interaction.tags[:TAGS_MOST]]
        room.add({names.OI_TAGS: tags})
    own = dict(list(interaction.attributes.items())[:OWN_ATTRIBUTES_MOST])
    for name, value in own.items():
        key = names.ATTRIBUTE.format(name=encodable(str(name)))
        room.add_texts({key: str(value)})
    if own:
        room.add_json(
            names.OI_METADATA, list(own.items()), lambda some, most: cut(dict(some), most)
        )


def _add_not_shown(room: SpanBudget, chunks: Sequence[Chunk]) -> None:
    if not chunks:
        return
    room.add({names.DOCUMENTS_NOT_SHOWN: len(chunks)})
    ids = [chunk.id for chunk in chunks if chunk.id]
    room.add_json(names.DOCUMENTS_NOT_SHOWN_IDS, ids, lambda some, most: cut(list(some), most))


def _add_documents(room: SpanBudget, chunks: Sequence[Chunk], shown: ContentPolicy) -> None:
    if not shown.shows:
        return
    # Built again for every length that is tried: what does not depend on it is made once.
    text_of = cache(lambda n: shown.text(chunks[n].text))
    metadata_of = cache(lambda n: room.span_limits.json_object(shown.metadata(chunks[n].metadata)))

    def build(some: Sequence[Chunk], most: int) -> Attributes:
        attributes: Attributes = {}
        if len(some) < len(chunks):
            attributes[names.DOCUMENTS_LEFT_OUT] = len(chunks) - len(some)
        for n, chunk in enumerate(some):
            text = room.span_limits.clipped(text_of(n), most)
            attributes[names.OI_DOCUMENT.format(n=n, field="content")] = text
            if chunk.id:
                identity = room.span_limits.clipped(chunk.id)
                attributes[names.OI_DOCUMENT.format(n=n, field="id")] = identity
            if _is_finite(chunk.score):
                attributes[names.OI_DOCUMENT.format(n=n, field="score")] = float(chunk.score)
            if chunk.metadata:
                metadata = metadata_of(n)(most)
                if metadata is not None:
                    attributes[names.OI_DOCUMENT.format(n=n, field="metadata")] = metadata
        return attributes

    room.add_fitted(chunks, build)


def _is_finite(score: float | None) -> TypeGuard[float]:
    return score is not None and math.isfinite(score)


def _add_ids_and_scores(room: SpanBudget, chunks: Sequence[Chunk]) -> None:
    def build(some: Sequence[Chunk], most: int) -> list[dict[str, Any]]:
        entries: list[dict[str, Any]] = []
        for chunk in some:
            entry: dict[str, Any] = {"id": cut(chunk.id, most)}
            if _is_finite(chunk.score):
                entry["score"] = float(chunk.score)
            entries.append(entry)
        return entries

    room.add_json(names.GENAI_RETRIEVAL_DOCUMENTS, chunks, build)


def _add_message(room: SpanBudget, name: str, role: str, text: str) -> None:
    room.add_json(name, (text,), lambda some, most: [_message(role, cut(t, most)) for t in some])


def _add_prompt(room: SpanBudget, messages: Sequence[Message], shown: ContentPolicy) -> None:
    """Add what a model was asked, in both dialects; of a long talk its end."""
    if not messages:
        return
    newest_first = [Message(role=m.role, text=shown.text(m.text)) for m in reversed(messages)]

    def build(some: Sequence[Message], most: int) -> Attributes:
        attributes: Attributes = {}
        if len(some) < len(messages):
            attributes[names.MESSAGES_LEFT_OUT] = len(messages) - len(some)
        for n, message in enumerate(reversed(some)):
            role = room.span_limits.clipped(message.role, TAG_BYTES_MOST)
            text = room.span_limits.clipped(message.text, most)
            attributes[names.OI_LLM_INPUT_MESSAGE.format(n=n, field="role")] = role
            attributes[names.OI_LLM_INPUT_MESSAGE.format(n=n, field="content")] = text
        return attributes

    def build_json(some: Sequence[Message], most: int) -> list[dict[str, Any]]:
        return [_message(cut(m.role, TAG_BYTES_MOST), cut(m.text, most)) for m in reversed(some)]

    # Three times the same in three forms: none of them may take the room of the others.
    room.add({names.OI_INPUT_MIME_TYPE: _TEXT})
    room.add_texts({names.OI_INPUT_VALUE: newest_first[0].text}, most=room.left_bytes // 3)
    room.add_json(names.GENAI_INPUT_MESSAGES, newest_first, build_json, most=room.left_bytes // 2)
    room.add_fitted(newest_first, build)


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


def _add_evaluations(room: SpanBudget, reports: Sequence[Report], shown: ContentPolicy) -> None:
    """Add the scores in OpenInference's words; it has none for a missing score."""
    for n, scored in enumerate(_scores(reports)):
        if n == EVALUATIONS_MOST:
            break
        fields: dict[str, str | float] = {
            "name": encodable(evaluator_name(scored.evaluator)),
            "score": scored.score,
            "annotator_kind": scored.judge.kind,
            "identifier": encodable(f"{scored.evaluator} {scored.judge}"),
        }
        attributes: Attributes = {
            names.OI_EVALUATION.format(n=n, field=field): value for field, value in fields.items()
        }
        if not room.add(attributes):
            break
        if scored.explanation and shown.shows:
            explanation = room.span_limits.clipped(
                shown.text(scored.explanation), EXPLANATION_BYTES_MOST
            )
            room.add({names.OI_EVALUATION.format(n=n, field="explanation"): explanation})


def _scores(reports: Sequence[Report]) -> Iterator[Scored]:
    for report in reversed(reports):  # the latest reader's come first, should there be too many
        for evaluation in report.evaluations:
            if isinstance(evaluation, Scored):
                yield evaluation


def _telling(reports: Sequence[Report]) -> Report:
    """Return the report of the last judge that read the interaction."""
    return next((r for r in reversed(reports) if r.assessment is not None), reports[0])


def _add_verdict(room: SpanBudget, reports: Sequence[Report]) -> None:
    """Add, in our own words, what the last judge found that read the interaction."""
    if not reports:
        return
    report = _telling(reports)
    attributes: Attributes = {names.JUDGE: encodable(str(report.judge)), **_chance(reports)}
    attributes |= _found(report.assessment) if report.assessment is not None else {}
    if report.diagnosis is not None:
        attributes[names.DIAGNOSIS] = report.diagnosis.value
    risks = [r.assessment.risk for r in reports if r.assessment and r.assessment.risk is not None]
    if risks:
        attributes[names.RISK] = risks[0]
    for evaluation in report.evaluations[:EVALUATIONS_MOST]:
        evaluator = encodable(evaluator_name(evaluation.evaluator))
        if isinstance(evaluation, Scored):
            attributes[names.SCORE.format(evaluator=evaluator)] = evaluation.score
        else:
            attributes[names.UNSCORED.format(evaluator=evaluator)] = evaluation.cause.value
    room.add_each(attributes)


def _chance(reports: Sequence[Report]) -> Mapping[str, str | float]:
    """Return the chance of the judge that samples: the built-in one's is always 1."""
    decision = min(
        (report.decision for report in reports), key=lambda decision: decision.inclusion_probability
    )
    attributes: dict[str, str | float] = {names.JUDGE_CHANCE: decision.inclusion_probability}
    if decision.cause is not None:
        attributes[names.JUDGE_REASON] = decision.cause.value
    return attributes


def _found(assessment: Assessment) -> Attributes:
    attributes: Attributes = {}
    if assessment.hallucinated is not None:
        attributes[names.HALLUCINATED] = assessment.hallucinated
    if assessment.evasive is not None:
        attributes[names.EVASIVE] = assessment.evasive
    attributes[names.LANGUAGE] = assessment.language
    return attributes


def _add_unsupported(room: SpanBudget, reports: Sequence[Report], shown: ContentPolicy) -> None:
    assessment = _telling(reports).assessment if reports else None
    if assessment is None:
        return
    unsupported = [s for s in assessment.sentences or () if is_unsupported(s)]
    entries = [shown.sentence(sentence) for sentence in unsupported[:SENTENCES_MOST]]
    carried = room.add_json(
        names.UNSUPPORTED_SENTENCES,
        entries,
        lambda some, most: cut(list(some), min(most, SENTENCE_BYTES_MOST)),
    )
    if carried < len(unsupported):
        room.add({names.SENTENCES_LEFT_OUT: len(unsupported) - carried})
