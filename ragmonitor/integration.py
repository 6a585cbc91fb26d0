"""What an integration of a framework is made of: the recorder, its runs, and readers of values.

An application needs none of these names.
"""

from ragmonitor.capture.assembly import Translator, is_most_of
from ragmonitor.capture.coercion import (
    chunk_in,
    error_text,
    finish_reason_of,
    json_of,
    member_in,
    score_of,
    usage_of,
)
from ragmonitor.capture.conversations import (
    ANSWER_KEYS,
    answer_in,
    calls_tools,
    content_text,
    holds,
    message_of,
    parsed_in,
    part_text,
    question_in,
    values_in,
)
from ragmonitor.capture.documents import documents_in
from ragmonitor.capture.interaction_labels import labels_of
from ragmonitor.capture.plain import InteractionRecorder
from ragmonitor.capture.recorder import INTERACTION_TAG, Recorder, oldest_of
from ragmonitor.capture.runs import Root, Run, RunKind
from ragmonitor.capture.streams import Listener as StreamListener
from ragmonitor.capture.streams import read as read_stream
from ragmonitor.records import Generation, Message, Retrieval, SpanReference, Usage
from ragmonitor.runtime.errors import MissingExtraError
from ragmonitor.runtime.forks import ForkSafeLock, survive_forks
from ragmonitor.runtime.guard import record_error, shielded

__all__ = [
    "ANSWER_KEYS",
    "INTERACTION_TAG",
    "ForkSafeLock",
    "Generation",
    "InteractionRecorder",
    "Message",
    "MissingExtraError",
    "Recorder",
    "Retrieval",
    "Root",
    "Run",
    "RunKind",
    "SpanReference",
    "StreamListener",
    "Translator",
    "Usage",
    "answer_in",
    "calls_tools",
    "chunk_in",
    "content_text",
    "documents_in",
    "error_text",
    "finish_reason_of",
    "holds",
    "is_most_of",
    "json_of",
    "labels_of",
    "member_in",
    "message_of",
    "oldest_of",
    "parsed_in",
    "part_text",
    "question_in",
    "read_stream",
    "record_error",
    "score_of",
    "shielded",
    "survive_forks",
    "usage_of",
    "values_in",
]
