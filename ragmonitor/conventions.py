"""Every name that leaves the process, each with its specification.

The strings stand here and are not imported: the constants of
`opentelemetry.semconv._incubating` are deprecated since the GenAI conventions moved to a
repository of their own (2026-05), and all of GenAI is in development.

- OI: OpenInference semantic conventions, https://github.com/Arize-ai/openinference/tree/main/spec
- GENAI: https://github.com/open-telemetry/semantic-conventions-genai
- OTEL: https://opentelemetry.io/docs/specs/semconv/
"""

from __future__ import annotations

from typing import Final

SCOPE: Final = "ragmonitor"
"""Instrumentation scope of our spans and log records."""

# --- span attributes: OpenInference -------------------------------------------------------------
OI_SPAN_KIND: Final = "openinference.span.kind"
OI_KIND_CHAIN: Final = "CHAIN"
OI_KIND_RETRIEVER: Final = "RETRIEVER"
OI_KIND_LLM: Final = "LLM"
OI_KIND_EVALUATOR: Final = "EVALUATOR"
OI_INPUT_VALUE: Final = "input.value"
OI_INPUT_MIME_TYPE: Final = "input.mime_type"
OI_OUTPUT_VALUE: Final = "output.value"
OI_OUTPUT_MIME_TYPE: Final = "output.mime_type"
OI_DOCUMENT: Final = "retrieval.documents.{n}.document.{field}"
"""`field`: id, content, score, metadata (a JSON string)."""
OI_LLM_MODEL_NAME: Final = "llm.model_name"
OI_LLM_PROVIDER: Final = "llm.provider"
OI_LLM_OUTPUT_ROLE: Final = "llm.output_messages.0.message.role"
OI_LLM_OUTPUT_CONTENT: Final = "llm.output_messages.0.message.content"
OI_TOKENS_PROMPT: Final = "llm.token_count.prompt"
OI_TOKENS_COMPLETION: Final = "llm.token_count.completion"
OI_TOKENS_TOTAL: Final = "llm.token_count.total"
OI_SESSION_ID: Final = "session.id"
OI_USER_ID: Final = "user.id"
OI_TAGS: Final = "tag.tags"
OI_METADATA: Final = "metadata"
OI_EVALUATION: Final = "evaluations.{n}.evaluation.{field}"
"""OI spec/annotations.md. `field`: name, score, label, explanation, annotator_kind, identifier."""

# --- span attributes and the event: OpenTelemetry GenAI -----------------------------------------
GENAI_OPERATION_NAME: Final = "gen_ai.operation.name"
GENAI_OPERATION_WORKFLOW: Final = "invoke_workflow"
GENAI_OPERATION_RETRIEVAL: Final = "retrieval"
GENAI_OPERATION_CHAT: Final = "chat"
GENAI_OPERATION_EVALUATION: Final = "evaluation"
"""Not in the conventions yet (semantic-conventions-genai#185); custom values are allowed."""
GENAI_WORKFLOW_NAME: Final = "gen_ai.workflow.name"
GENAI_INPUT_MESSAGES: Final = "gen_ai.input.messages"
GENAI_OUTPUT_MESSAGES: Final = "gen_ai.output.messages"
GENAI_CONVERSATION_ID: Final = "gen_ai.conversation.id"
GENAI_RETRIEVAL_QUERY_TEXT: Final = "gen_ai.retrieval.query.text"
GENAI_RETRIEVAL_DOCUMENTS: Final = "gen_ai.retrieval.documents"
"""A JSON string of objects with `id` and `score`; the convention defines no text."""
GENAI_PROVIDER_NAME: Final = "gen_ai.provider.name"
GENAI_REQUEST_MODEL: Final = "gen_ai.request.model"
GENAI_USAGE_INPUT_TOKENS: Final = "gen_ai.usage.input_tokens"
GENAI_USAGE_OUTPUT_TOKENS: Final = "gen_ai.usage.output_tokens"
GENAI_EVALUATION_EVENT: Final = "gen_ai.evaluation.result"
GENAI_EVALUATION_NAME: Final = "gen_ai.evaluation.name"
GENAI_EVALUATION_SCORE_VALUE: Final = "gen_ai.evaluation.score.value"
GENAI_EVALUATION_SCORE_LABEL: Final = "gen_ai.evaluation.score.label"
GENAI_EVALUATION_EXPLANATION: Final = "gen_ai.evaluation.explanation"
OTEL_ERROR_TYPE: Final = "error.type"

# --- span attributes: ours ----------------------------------------------------------------------
INTERACTION_ID: Final = "ragmonitor.interaction.id"
FRAMEWORK: Final = "ragmonitor.framework"
STATUS: Final = "ragmonitor.status"
LANGUAGE: Final = "ragmonitor.language"
RISK: Final = "ragmonitor.risk"
EVASIVE: Final = "ragmonitor.evasive"
SCORE: Final = "ragmonitor.score.{evaluator}"
UNSCORED: Final = "ragmonitor.unscored.{evaluator}"
"""The cause; a score and a cause never stand together."""
UNSUPPORTED_SENTENCES: Final = "ragmonitor.unsupported_sentences"
"""A JSON string: sentence, verdict, words, chunks."""
JUDGE: Final = "ragmonitor.judge"
JUDGE_CHANCE: Final = "ragmonitor.judge.p"
JUDGE_REASON: Final = "ragmonitor.judge.reason"
ATTRIBUTE: Final = "ragmonitor.attribute.{name}"

# --- Prometheus ---------------------------------------------------------------------------------
# Names follow https://prometheus.io/docs/practices/naming/; `_total` is added by the client.
INTERACTIONS: Final = "ragmonitor_interactions"
EVALUATIONS: Final = "ragmonitor_evaluations"
SCORE_HISTOGRAM: Final = "ragmonitor_score"
SCORE_MEAN: Final = "ragmonitor_score_mean"
SCORE_LOWER: Final = "ragmonitor_score_lower"
SCORE_UPPER: Final = "ragmonitor_score_upper"
SCORE_EFFECTIVE_N: Final = "ragmonitor_score_effective_n"
HALLUCINATION_RATE: Final = "ragmonitor_hallucination_rate"
HALLUCINATION_RATE_LOWER: Final = "ragmonitor_hallucination_rate_lower"
HALLUCINATION_RATE_UPPER: Final = "ragmonitor_hallucination_rate_upper"
REFUSAL_RATE: Final = "ragmonitor_refusal_rate"
ANSWERS: Final = "ragmonitor_answers"
ESTIMATE_SUM_POSITIVE: Final = "ragmonitor_estimate_sum_positive"
ESTIMATE_SUM_NEGATIVE: Final = "ragmonitor_estimate_sum_negative"
JUDGE_CALLS: Final = "ragmonitor_judge_calls"
JUDGE_TOKENS: Final = "ragmonitor_judge_tokens"
JUDGE_COST_USD: Final = "ragmonitor_judge_cost_usd"
JUDGE_SECONDS: Final = "ragmonitor_judge_seconds"
QUEUE_DEPTH: Final = "ragmonitor_queue_depth"
OPEN_RUNS: Final = "ragmonitor_open_runs"
DROPPED: Final = "ragmonitor_dropped"
INTERNAL_ERRORS: Final = "ragmonitor_internal_errors"
LAST_SCORE_TIMESTAMP: Final = "ragmonitor_last_score_timestamp_seconds"
UNCOVERED_RATIO: Final = "ragmonitor_uncovered_ratio"
BUILD_INFO: Final = "ragmonitor_build"
