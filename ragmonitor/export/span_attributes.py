"""From records to the names and attributes of spans and events. Pure functions.

Each span is filled from the most important attribute to the least, within its `SpanBudget`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from functools import cache, lru_cache
from itertools import islice
from typing import Any, Final, TypeGuard

from ragmonitor import conventions as names
from ragmonitor.export.content import (
    UNTYPED_ERROR,
    ContentPolicy,
    encodable,
    is_unsupported,
    size_bytes,
    texts_json,
)
from ragmonitor.export.span_budget import Attributes, SpanBudget, SpanLimits, cut
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

MAX_EVALUATIONS = 10
MAX_EXPLANATION_BYTES = 4096
MAX_OWN_ATTRIBUTES = 20
MAX_SENTENCES = 20
MAX_SENTENCE_BYTES = 2048
MAX_TAGS = 50
MAX_TAG_BYTES = 256

_TEXT = "text/plain"
SHOW_ALL = ContentPolicy()
DEFAULTS = SpanLimits()


def root_name(interaction: Interaction) -> str:
    """Return the root span's name."""
    return f"{names.GENAI_OPERATION_WORKFLOW} {interaction.name}".rstrip()


def root_attributes(
    interaction: Interaction,
    reports: Sequence[Report],
    *,
    policy: ContentPolicy = SHOW_ALL,
    limits: SpanLimits = DEFAULTS,
    cost_usd: float | None = None,
    version: str = "",
) -> Attributes:
    """Return the root span's attributes: the interaction, and the scores known by now.

    Args:
        interaction: The interaction.
        reports: On it.
        policy: Which texts may be shown.
        limits: Of values and spans.
        cost_usd: What its model calls cost; None: that is not known.
        version: The service's own; empty: it says none.
    """
    budget = SpanBudget(limits)
    budget.reserve(_error_bytes(interaction.error, policy, limits))
    query, answer = policy.text(interaction.query), policy.text(interaction.answer)
    if policy.shows:
        budget.add_texts({names.OI_INPUT_VALUE: query, names.OI_OUTPUT_VALUE: answer})
    about: Attributes = {
        names.OI_SPAN_KIND: names.OI_KIND_CHAIN,
        names.GENAI_OPERATION_NAME: names.GENAI_OPERATION_WORKFLOW,
        names.INTERACTION_ID: limits.clipped(interaction.id),
        names.STATUS: interaction.status,
    }
    if interaction.first_token_s is not None:
        about[names.FIRST_TEXT] = interaction.first_token_s
    if cost_usd is not None:
        about[names.COST_USD] = cost_usd
    about |= _verdict(reports)
    if version:
        about[names.OTEL_SERVICE_VERSION] = limits.clipped(version)
    budget.add_each(about | _context(interaction, limits))
    _add_unsupported(budget, reports, policy)
    _add_evaluations(budget, reports, policy)
    if policy.shows:
        budget.add_each({names.OI_INPUT_MIME_TYPE: _TEXT, names.OI_OUTPUT_MIME_TYPE: _TEXT})
        _add_message(budget, names.GENAI_INPUT_MESSAGES, "user", query)
        _add_message(budget, names.GENAI_OUTPUT_MESSAGES, "assistant", answer)
    if not interaction.generations:
        budget.add_each(_tokens(interaction.usage))
    _add_not_shown(budget, interaction.not_shown)
    _add_labels(budget, interaction)
    if interaction.chunks:
        _add_ids_and_scores(budget, interaction.chunks)
        if not any(retrieval.chunks for retrieval in interaction.retrievals):
            # Plain code names its chunks without a retrieval: no other span would carry them.
            _add_documents(budget, interaction.chunks, policy)
    return budget.attributes()


def retrieval_name(retrieval: Retrieval) -> str:
    """Return a retrieval span's name."""
    return f"{names.GENAI_OPERATION_RETRIEVAL} {retrieval.name}".rstrip()


def retrieval_attributes(
    retrieval: Retrieval, *, policy: ContentPolicy = SHOW_ALL, limits: SpanLimits = DEFAULTS
) -> Attributes:
    """Return a retrieval span's attributes; without content, ids and scores only."""
    budget = SpanBudget(limits)
    budget.reserve(_error_bytes(retrieval.error, policy, limits))
    query = policy.text(retrieval.query)
    if policy.shows:
        budget.add_texts({names.OI_INPUT_VALUE: query})
    about: Attributes = {
        names.OI_SPAN_KIND: names.OI_KIND_RETRIEVER,
        names.GENAI_OPERATION_NAME: names.GENAI_OPERATION_RETRIEVAL,
        names.DOCUMENTS_FOUND: len(retrieval.chunks),
    }
    if retrieval.error:
        about[names.OTEL_ERROR_TYPE] = error_type(retrieval.error) or UNTYPED_ERROR
    if policy.shows:
        about[names.OI_INPUT_MIME_TYPE] = _TEXT
    budget.add_each(about)
    if policy.shows:
        budget.add_texts({names.GENAI_RETRIEVAL_QUERY_TEXT: query})
    if retrieval.chunks:
        _add_ids_and_scores(budget, retrieval.chunks)
    else:
        budget.add({names.GENAI_RETRIEVAL_DOCUMENTS: "[]"})
    _add_documents(budget, retrieval.chunks, policy)
    return budget.attributes()


def generation_name(generation: Generation) -> str:
    """Return a model call's span name."""
    return f"{names.GENAI_OPERATION_CHAT} {generation.model}".rstrip()


def generation_attributes(
    generation: Generation, *, policy: ContentPolicy = SHOW_ALL, limits: SpanLimits = DEFAULTS
) -> Attributes:
    """Return a model call's attributes: its output first, then its prompt."""
    budget = SpanBudget(limits)
    budget.reserve(_error_bytes(generation.error, policy, limits))
    output = policy.text(generation.output)
    if policy.shows:
        budget.add_texts({names.OI_OUTPUT_VALUE: output})
    about: Attributes = {
        names.OI_SPAN_KIND: names.OI_KIND_LLM,
        names.GENAI_OPERATION_NAME: names.GENAI_OPERATION_CHAT,
    }
    if generation.error:
        about[names.OTEL_ERROR_TYPE] = error_type(generation.error) or UNTYPED_ERROR
    if generation.model:
        model = limits.clipped(generation.model)
        about |= {names.GENAI_REQUEST_MODEL: model, names.OI_LLM_MODEL_NAME: model}
    if generation.provider:
        provider = limits.clipped(generation.provider)
        about |= {names.GENAI_PROVIDER_NAME: provider, names.OI_LLM_PROVIDER: provider}
    if generation.finish_reason:
        about[names.GENAI_FINISH_REASONS] = [limits.clipped(generation.finish_reason)]
    about |= _tokens(generation.usage)
    if generation.first_token_s is not None:
        about[names.GENAI_FIRST_CHUNK] = generation.first_token_s
    if policy.shows:
        about[names.OI_OUTPUT_MIME_TYPE] = _TEXT
    budget.add_each(about)
    if policy.shows:
        budget.add_texts(
            {names.OI_LLM_OUTPUT_ROLE: "assistant", names.OI_LLM_OUTPUT_CONTENT: output}
        )
        _add_message(budget, names.GENAI_OUTPUT_MESSAGES, "assistant", output)
        _add_prompt(budget, generation.input, policy)
    return budget.attributes()


def carrier_name(reports: Sequence[Report]) -> str:
    """Return the name of a span that carries scores of a span that has been sent already."""
    return f"{names.GENAI_OPERATION_EVALUATION} {_last_scored(reports).judge.name}"


def carrier_attributes(
    reports: Sequence[Report],
    *,
    policy: ContentPolicy = SHOW_ALL,
    limits: SpanLimits = DEFAULTS,
) -> Attributes:
    """Return the attributes of such a span (OI spec/annotations.md).

    All reports are of one interaction.
    """
    budget = SpanBudget(limits)
    budget.reserve(MAX_EXPLANATION_BYTES)  # for the description of its status
    about: Attributes = {
        names.OI_SPAN_KIND: names.OI_KIND_EVALUATOR,
        names.GENAI_OPERATION_NAME: names.GENAI_OPERATION_EVALUATION,
        names.INTERACTION_ID: limits.clipped(reports[0].interaction.id),
    }
    budget.add_each(about | _verdict(reports))
    _add_unsupported(budget, reports, policy)
    _add_evaluations(budget, reports, policy)
    return budget.attributes()


_FAILURES: Final = frozenset(
    {
        Cause.JUDGE_ERROR,
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
    limits: SpanLimits = DEFAULTS,
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
        names.INTERACTION_ID: limits.clipped(report.interaction.id),
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
        attributes[names.GENAI_EVALUATION_EXPLANATION] = limits.clipped(
            policy.text(explanation), MAX_EXPLANATION_BYTES
        )
    return attributes


def alarm_attributes(
    event: AlarmEvent, *, policy: ContentPolicy = SHOW_ALL, limits: SpanLimits = DEFAULTS
) -> Attributes:
    """Return the attributes of one alarm's log event."""
    attributes: Attributes = {
        names.ALARM_SIGNAL: encodable(event.signal),
        names.ALARM_KIND: event.kind,
        names.ALARM_STATE: "raised" if event.raised else "cleared",
        names.ALARM_EVIDENCE: event.evidence_s,
        names.ALARM_OBJECTIVE_VALUE: event.objective,
        names.ALARM_RISING_SINCE: event.since_s,
        names.JUDGE: encodable(event.judge),
    }
    found = event.telling
    if found is not None:
        attributes |= {
            names.ALARM_MEAN: found.mean,
            names.ALARM_LOWER: found.lower,
            names.ALARM_UPPER: found.upper,
            names.ALARM_EFFECTIVE_N: found.effective_n,
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
        budget = SpanBudget(limits)
        examples = [_alarm_example(example, policy) for example in event.examples]
        budget.add_json(names.ALARM_EXAMPLES, examples, cut)
        attributes |= budget.attributes()
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


def status_description(error: str, policy: ContentPolicy, limits: SpanLimits = DEFAULTS) -> str:
    """Return the description of an ERROR status; empty if there is no error."""
    return limits.clipped(policy.error(error), MAX_EXPLANATION_BYTES)


def _error_bytes(error: str, policy: ContentPolicy, limits: SpanLimits) -> int:
    """Return what an error takes: as the status' description, and as an `exception` event."""
    return 2 * size_bytes(status_description(error, policy, limits))


def exception_attributes(error: str, policy: ContentPolicy, limits: SpanLimits) -> Attributes:
    """Return the attributes of an `exception` event: the type, and the message if it may leave."""
    kind = error_type(error)
    attributes: Attributes = {names.OTEL_EXCEPTION_TYPE: encodable(kind or UNTYPED_ERROR)}
    message = policy.text((error.partition(":")[2] if kind else error).strip())
    if message:
        attributes[names.OTEL_EXCEPTION_MESSAGE] = limits.clipped(message, MAX_EXPLANATION_BYTES)
    return attributes


def failure_description(detail: str, policy: ContentPolicy, limits: SpanLimits = DEFAULTS) -> str:
    """Return the description of a judge's failure; empty where no text may leave."""
    return limits.clipped(policy.text(detail), MAX_EXPLANATION_BYTES)


def _context(interaction: Interaction, limits: SpanLimits) -> Attributes:
    attributes: Attributes = {}
    if interaction.error:
        attributes[names.OTEL_ERROR_TYPE] = error_type(interaction.error) or UNTYPED_ERROR
    if interaction.capture_incomplete:
        attributes[names.CAPTURE_INCOMPLETE] = True
    if interaction.redacted:
        attributes[names.REDACTED] = interaction.redacted
    attributes[names.FRAMEWORK] = encodable(interaction.framework)
    if interaction.name:
        attributes[names.GENAI_WORKFLOW_NAME] = limits.clipped(interaction.name)
    if interaction.session_id:
        session = limits.clipped(interaction.session_id)
        attributes |= {names.OI_SESSION_ID: session, names.GENAI_CONVERSATION_ID: session}
    if interaction.user_id:
        attributes[names.OI_USER_ID] = limits.clipped(interaction.user_id)
    return attributes


def _add_labels(budget: SpanBudget, interaction: Interaction) -> None:
    if interaction.tags:
        tags = [budget.limits.clipped(t, MAX_TAG_BYTES) for t in interaction.tags[:MAX_TAGS]]
        budget.add({names.OI_TAGS: tags})
    own = dict(list(interaction.attributes.items())[:MAX_OWN_ATTRIBUTES])
    for name, value in own.items():
        key = names.ATTRIBUTE.format(name=encodable(str(name)))
        budget.add_texts({key: str(value)})
    if own:
        budget.add_json(
            names.OI_METADATA, list(own.items()), lambda some, size: cut(dict(some), size)
        )


def _add_not_shown(budget: SpanBudget, chunks: Sequence[Chunk]) -> None:
    if not chunks:
        return
    budget.add({names.DOCUMENTS_NOT_SHOWN: len(chunks)})
    ids = [chunk.id for chunk in chunks if chunk.id]
    budget.add_json(names.DOCUMENTS_NOT_SHOWN_IDS, ids, cut)


def _add_documents(budget: SpanBudget, chunks: Sequence[Chunk], policy: ContentPolicy) -> None:
    if not policy.shows:
        return
    # Built again for every length that is tried: what does not depend on it is made once.
    text_of = cache(lambda n: policy.text(chunks[n].text))
    metadata_of = cache(lambda n: budget.limits.json_object(policy.metadata(chunks[n].metadata)))

    def build(some: Sequence[Chunk], max_bytes: int) -> Attributes:
        attributes: Attributes = {}
        if len(some) < len(chunks):
            attributes[names.DOCUMENTS_LEFT_OUT] = len(chunks) - len(some)
        for n, chunk in enumerate(some):
            content, identity, score, about = _document_names(n)
            attributes[content] = budget.limits.clipped(text_of(n), max_bytes)
            if chunk.id:
                attributes[identity] = budget.limits.clipped(chunk.id)
            if _is_finite(chunk.score):
                attributes[score] = float(chunk.score)
            if chunk.metadata:
                metadata = metadata_of(n)(max_bytes)
                if metadata is not None:
                    attributes[about] = metadata
        return attributes

    budget.add_fitted(chunks, build)


@lru_cache(maxsize=256)
def _document_names(n: int) -> Sequence[str]:
    fields = ("content", "id", "score", "metadata")
    return [names.OI_DOCUMENT.format(n=n, field=field) for field in fields]


def _is_finite(score: float | None) -> TypeGuard[float]:
    return score is not None and math.isfinite(score)


def _add_ids_and_scores(budget: SpanBudget, chunks: Sequence[Chunk]) -> None:
    def build(some: Sequence[Chunk], max_bytes: int) -> list[dict[str, Any]]:
        entries: list[dict[str, Any]] = []
        for chunk in some:
            entry: dict[str, Any] = {"id": cut(chunk.id, max_bytes)}
            if _is_finite(chunk.score):
                entry["score"] = float(chunk.score)
            entries.append(entry)
        return entries

    budget.add_json(names.GENAI_RETRIEVAL_DOCUMENTS, chunks, build)


def _add_message(budget: SpanBudget, name: str, role: str, text: str) -> None:
    budget.add_json(
        name,
        (text,),
        lambda some, size: [_message(role, cut(t, size)) for t in some],
        encode=texts_json,
    )


def _add_prompt(budget: SpanBudget, messages: Sequence[Message], policy: ContentPolicy) -> None:
    """Add a model's prompt, in both conventions; of a long conversation its end."""
    if not messages:
        return
    newest_first = [Message(role=m.role, text=policy.text(m.text)) for m in reversed(messages)]

    def build(some: Sequence[Message], max_bytes: int) -> Attributes:
        attributes: Attributes = {}
        if len(some) < len(messages):
            attributes[names.MESSAGES_LEFT_OUT] = len(messages) - len(some)
        for n, message in enumerate(reversed(some)):
            role = budget.limits.clipped(message.role, MAX_TAG_BYTES)
            text = budget.limits.clipped(message.text, max_bytes)
            attributes[names.OI_LLM_INPUT_MESSAGE.format(n=n, field="role")] = role
            attributes[names.OI_LLM_INPUT_MESSAGE.format(n=n, field="content")] = text
        return attributes

    def build_json(some: Sequence[Message], max_bytes: int) -> list[dict[str, Any]]:
        return [
            _message(cut(m.role, MAX_TAG_BYTES), cut(m.text, max_bytes)) for m in reversed(some)
        ]

    # Three forms of the same texts: none of them may take the room of the others.
    budget.add({names.OI_INPUT_MIME_TYPE: _TEXT})
    budget.add_texts({names.OI_INPUT_VALUE: newest_first[0].text}, max_bytes=budget.left_bytes // 3)
    budget.add_json(
        names.GENAI_INPUT_MESSAGES,
        newest_first,
        build_json,
        max_bytes=budget.left_bytes // 2,
        encode=texts_json,
    )
    budget.add_fitted(newest_first, build)


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


def _add_evaluations(budget: SpanBudget, reports: Sequence[Report], policy: ContentPolicy) -> None:
    """Add the scores under OpenInference's names, which has none for a missing score."""
    groups: list[tuple[Attributes, Attributes]] = []
    """Of each score what stands together or not at all, and its explanation."""
    together: Attributes = {}
    for n, scored in enumerate(islice(_scores(reports), MAX_EVALUATIONS)):
        name, score, kind, identifier, why = _evaluation_names(n)
        fields: Attributes = {
            name: encodable(evaluator_name(scored.evaluator)),
            score: scored.score,
            kind: scored.judge.kind,
            identifier: encodable(f"{scored.evaluator} {scored.judge}"),
        }
        explanation: Attributes = {}
        if scored.explanation and policy.shows:
            text = policy.text(scored.explanation)
            explanation[why] = budget.limits.clipped(text, MAX_EXPLANATION_BYTES)
        groups.append((fields, explanation))
        together |= fields | explanation
    if budget.add(together):  # as nearly always
        return
    for fields, explanation in groups:
        if not budget.add(fields):
            break
        budget.add(explanation)


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


def _add_unsupported(budget: SpanBudget, reports: Sequence[Report], policy: ContentPolicy) -> None:
    assessment = _last_scored(reports).assessment if reports else None
    if assessment is None:
        return
    unsupported = [s for s in assessment.sentences or () if is_unsupported(s)]
    entries = [policy.sentence(sentence) for sentence in unsupported[:MAX_SENTENCES]]
    carried = budget.add_json(
        names.UNSUPPORTED_SENTENCES,
        entries,
        lambda some, size: cut(list(some), min(size, MAX_SENTENCE_BYTES)),
    )
    if carried < len(unsupported):
        budget.add({names.SENTENCES_LEFT_OUT: len(unsupported) - carried})
