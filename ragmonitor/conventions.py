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
OI_PROJECT_NAME: Final = "openinference.project.name"
"""A resource attribute: the project that Phoenix files the traces under."""
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
OI_LLM_INPUT_MESSAGE: Final = "llm.input_messages.{n}.message.{field}"
"""`field`: role, content."""
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
GENAI_FIRST_CHUNK: Final = "gen_ai.response.time_to_first_chunk"
"""Seconds from a streamed call to the first text of its output."""
GENAI_USAGE_INPUT_TOKENS: Final = "gen_ai.usage.input_tokens"
GENAI_USAGE_OUTPUT_TOKENS: Final = "gen_ai.usage.output_tokens"
GENAI_EVALUATION_EVENT: Final = "gen_ai.evaluation.result"
GENAI_EVALUATION_NAME: Final = "gen_ai.evaluation.name"
GENAI_EVALUATION_SCORE_VALUE: Final = "gen_ai.evaluation.score.value"
GENAI_EVALUATION_EXPLANATION: Final = "gen_ai.evaluation.explanation"
OTEL_ERROR_TYPE: Final = "error.type"

# --- span attributes: ours ----------------------------------------------------------------------
INTERACTION_ID: Final = "ragmonitor.interaction.id"
FRAMEWORK: Final = "ragmonitor.framework"
STATUS: Final = "ragmonitor.status"
FIRST_TEXT: Final = "ragmonitor.time_to_first_token_seconds"
"""From the question to the first token of a streamed answer."""
COST_USD: Final = "ragmonitor.cost_usd"
"""Price of the tokens of the answer's model calls, in US dollars; left out where not known."""
LANGUAGE: Final = "ragmonitor.language"
RISK: Final = "ragmonitor.risk"
PREDICTED: Final = "ragmonitor.predicted"
"""Chance that the judge who scores a sample would find it hallucinated, as earlier verdicts teach;
left out until there are verdicts enough."""
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
DIAGNOSIS: Final = "ragmonitor.diagnosis"
"""What went wrong with the answer, in one word; `ok` if nothing did."""
HALLUCINATED: Final = "ragmonitor.hallucinated"
"""Whether any sentence is unsupported and at least of `estimation.min_severity`; left out for a
refusal and where nothing is claimed."""
EVALUATOR: Final = "ragmonitor.evaluator"
"""Name and version."""
JUDGE_KIND: Final = "ragmonitor.judge.kind"
CAPTURE_INCOMPLETE: Final = "ragmonitor.capture_incomplete"
DOCUMENTS_FOUND: Final = "ragmonitor.documents.found"
DOCUMENTS_LEFT_OUT: Final = "ragmonitor.documents.left_out"
"""How many documents the span does not carry, for want of room."""
DOCUMENTS_NOT_SHOWN: Final = "ragmonitor.documents.not_shown"
"""How many documents were retrieved and then kept from the model."""
DOCUMENTS_NOT_SHOWN_IDS: Final = "ragmonitor.documents.not_shown_ids"
"""A JSON string: the ids of those that have one."""
MESSAGES_LEFT_OUT: Final = "ragmonitor.messages.left_out"
"""How many messages of a prompt, from its beginning, the span does not carry."""
REDACTED: Final = "ragmonitor.redacted"
"""How many texts of the interaction, each counted once, redaction changed; left out if none."""
SENTENCES_LEFT_OUT: Final = "ragmonitor.unsupported_sentences.left_out"

# --- the event of an alarm: ours ------------------------------------------------------------------
ALARM_EVENT: Final = "ragmonitor.alarm"
ALARM_SIGNAL: Final = "ragmonitor.alarm.signal"
ALARM_KIND: Final = "ragmonitor.alarm.kind"
"""`quality`, `input` or `judge`: the answers, what comes in, or the judge itself."""
ALARM_STATE: Final = "ragmonitor.alarm.state"
"""`raised` or `cleared`."""
ALARM_EVIDENCE: Final = "ragmonitor.alarm.evidence_seconds"
ALARM_OBJECTIVE_VALUE: Final = "ragmonitor.alarm.objective"
ALARM_RISING_SINCE: Final = "ragmonitor.alarm.since"
"""Seconds since the epoch: since when the evidence had been rising; of a cleared one, since it was
raised."""
ALARM_MEAN: Final = "ragmonitor.alarm.mean"
"""With `ALARM_LOWER`, `ALARM_UPPER`, `ALARM_EFFECTIVE_N`: the last hour's estimate, where its
interval does not contradict the alarm."""
ALARM_LOWER: Final = "ragmonitor.alarm.lower"
ALARM_UPPER: Final = "ragmonitor.alarm.upper"
ALARM_EFFECTIVE_N: Final = "ragmonitor.alarm.effective_n"
ALARM_SPAN_SINCE: Final = "ragmonitor.alarm.span.since"
"""Seconds since the epoch: when the rise (of a cleared alarm: the recovery) began."""
ALARM_SPAN_SCORED: Final = "ragmonitor.alarm.span.scored"
ALARM_SPAN_MEAN: Final = "ragmonitor.alarm.span.mean"
ALARM_SPAN_BEFORE: Final = "ragmonitor.alarm.span.before"
"""The mean before it."""
ALARM_EXAMPLES: Final = "ragmonitor.alarm.examples"
"""A JSON string: of the worst answers id, trace_id, span_id, badness; where content may stand there
question, answer and unsupported sentences too."""

# --- the mark of golden questions: ours -----------------------------------------------------------
PROBE_BAGGAGE: Final = "ragmonitor.probe"
"""A member of the W3C baggage (https://www.w3.org/TR/baggage/), and a tag: the golden question that
is being answered."""
PROBE_HEADER: Final = "x-ragmonitor-probe"
"""The same as a header of a request, percent-encoded."""
