"""Interactions read off the spans of other instrumentations, in three dialects.

OpenInference, OpenLLMetry and OpenTelemetry's GenAI conventions; `docs/otel-spans.md` says what
each of them carries. No instrumentation is imported; `processor` imports `opentelemetry-sdk`, which
an application with spans has.
"""
