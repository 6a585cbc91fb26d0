"""Observability for live RAG applications: every answer traced, scored and summed up honestly.

Importing this package is cheap; what it names is loaded on first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ragmonitor.capture import (
        INTERACTION_TAG,
        InteractionIdMiddleware,
        InteractionRecorder,
        Recorder,
        Root,
        Run,
        RunKind,
        Translator,
        chunk_in,
        current_interaction,
        documents_in,
        error_text,
        finish_reason_of,
        json_of,
        labels_of,
        result_texts,
        score_of,
        usage_of,
    )
    from ragmonitor.errors import (
        FeedbackError,
        InputError,
        JudgeError,
        MissingExtraError,
        NotScorableError,
        RagMonitorError,
        SettingsError,
    )
    from ragmonitor.evaluators import evaluator, rubric
    from ragmonitor.export import JsonLines, Langfuse, Phoenix
    from ragmonitor.forks import ForkSafeLock, survive_forks
    from ragmonitor.guard import record_error, shielded
    from ragmonitor.judges import EncoderJudge, FunctionJudge, LlmJudge
    from ragmonitor.monitor import Monitor
    from ragmonitor.offline import EvaluationResult, aevaluate, evaluate
    from ragmonitor.protocols import Exporter, Judge
    from ragmonitor.records import (
        Assessment,
        Cause,
        Chunk,
        Diagnosis,
        Generation,
        Interaction,
        JudgeIdentity,
        JudgeUsage,
        Message,
        Report,
        Retrieval,
        Scored,
        SentenceVerdict,
        Severity,
        SpanReference,
        Unscored,
        Usage,
        Verdict,
    )
    from ragmonitor.settings import (
        AlarmSettings,
        Budget,
        CaptureSettings,
        ContentSettings,
        EstimationSettings,
        ExportSettings,
        JudgeSettings,
        SamplingSettings,
        ServerSettings,
        Settings,
        StreamSettings,
    )

__version__ = "0.1.0"

_HOMES = {
    "capture": (
        "INTERACTION_TAG",
        "InteractionIdMiddleware",
        "InteractionRecorder",
        "Recorder",
        "Root",
        "Run",
        "RunKind",
        "Translator",
        "current_interaction",
        "error_text",
        "chunk_in",
        "documents_in",
        "finish_reason_of",
        "json_of",
        "labels_of",
        "result_texts",
        "score_of",
        "usage_of",
    ),
    "errors": (
        "FeedbackError",
        "InputError",
        "JudgeError",
        "MissingExtraError",
        "NotScorableError",
        "RagMonitorError",
        "SettingsError",
    ),
    "evaluators": ("evaluator", "rubric"),
    "export": ("JsonLines", "Langfuse", "Phoenix"),
    "forks": ("ForkSafeLock", "survive_forks"),
    "guard": ("record_error", "shielded"),
    "judges": ("EncoderJudge", "FunctionJudge", "LlmJudge"),
    "monitor": ("Monitor",),
    "offline": ("EvaluationResult", "aevaluate", "evaluate"),
    "protocols": ("Exporter", "Judge"),
    "records": (
        "Assessment",
        "Cause",
        "Chunk",
        "Diagnosis",
        "Generation",
        "Interaction",
        "JudgeIdentity",
        "JudgeUsage",
        "Message",
        "Report",
        "Retrieval",
        "Scored",
        "SentenceVerdict",
        "Severity",
        "SpanReference",
        "Unscored",
        "Usage",
        "Verdict",
    ),
    "settings": (
        "AlarmSettings",
        "Budget",
        "CaptureSettings",
        "ContentSettings",
        "EstimationSettings",
        "ExportSettings",
        "JudgeSettings",
        "SamplingSettings",
        "ServerSettings",
        "Settings",
        "StreamSettings",
    ),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "INTERACTION_TAG",
    "AlarmSettings",
    "Assessment",
    "Budget",
    "CaptureSettings",
    "Cause",
    "Chunk",
    "ContentSettings",
    "Diagnosis",
    "EncoderJudge",
    "EstimationSettings",
    "EvaluationResult",
    "ExportSettings",
    "Exporter",
    "FeedbackError",
    "ForkSafeLock",
    "FunctionJudge",
    "Generation",
    "InputError",
    "Interaction",
    "InteractionIdMiddleware",
    "InteractionRecorder",
    "JsonLines",
    "Judge",
    "JudgeError",
    "JudgeIdentity",
    "JudgeSettings",
    "JudgeUsage",
    "Langfuse",
    "LlmJudge",
    "Message",
    "MissingExtraError",
    "Monitor",
    "NotScorableError",
    "Phoenix",
    "RagMonitorError",
    "Recorder",
    "Report",
    "Retrieval",
    "Root",
    "Run",
    "RunKind",
    "SamplingSettings",
    "Scored",
    "SentenceVerdict",
    "ServerSettings",
    "Settings",
    "SettingsError",
    "Severity",
    "SpanReference",
    "StreamSettings",
    "Translator",
    "Unscored",
    "Usage",
    "Verdict",
    "__version__",
    "aevaluate",
    "chunk_in",
    "current_interaction",
    "documents_in",
    "error_text",
    "evaluate",
    "evaluator",
    "finish_reason_of",
    "json_of",
    "labels_of",
    "record_error",
    "result_texts",
    "rubric",
    "score_of",
    "shielded",
    "survive_forks",
    "usage_of",
]


def __getattr__(name: str) -> Any:
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
