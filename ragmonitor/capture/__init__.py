"""The request path: events of frameworks and of plain code are noted here, and nothing more."""

from ragmonitor.capture.assembly import Translator
from ragmonitor.capture.coercion import (
    chunk_in,
    error_text,
    finish_reason_of,
    json_of,
    score_of,
    sound,
    usage_of,
)
from ragmonitor.capture.current_id import InteractionIdMiddleware, current_id
from ragmonitor.capture.decorators import answers, name_of, retrieves
from ragmonitor.capture.documents import documents_in
from ragmonitor.capture.interaction_labels import labels_of
from ragmonitor.capture.plain import InteractionRecorder, Record, current_interaction
from ragmonitor.capture.recorder import INTERACTION_TAG, Recorder
from ragmonitor.capture.runs import Root, Run, RunKind

__all__ = [
    "INTERACTION_TAG",
    "InteractionIdMiddleware",
    "InteractionRecorder",
    "Record",
    "Recorder",
    "Root",
    "Run",
    "RunKind",
    "Translator",
    "answers",
    "chunk_in",
    "current_id",
    "current_interaction",
    "documents_in",
    "error_text",
    "finish_reason_of",
    "json_of",
    "labels_of",
    "name_of",
    "retrieves",
    "score_of",
    "sound",
    "usage_of",
]
