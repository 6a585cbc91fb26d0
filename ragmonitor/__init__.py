"""Observability for live RAG applications: every answer traced, scored and summed up honestly.

Importing this package is cheap; what it names is loaded on first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ragmonitor.capture import (
        InteractionIdMiddleware,
        current_interaction,
    )
    from ragmonitor.evaluators import evaluator, rubric
    from ragmonitor.export import JsonLines, Langfuse, Phoenix
    from ragmonitor.judges import EncoderJudge, FunctionJudge, LlmJudge
    from ragmonitor.monitor import Monitor
    from ragmonitor.offline import evaluate
    from ragmonitor.records import (
        Assessment,
        Cause,
        Chunk,
        Interaction,
        JudgeIdentity,
        JudgeUsage,
        Report,
        Scored,
        SentenceVerdict,
        Unscored,
    )
    from ragmonitor.runtime.errors import (
        JudgeError,
        NotScorableError,
        RagMonitorError,
        SettingsError,
    )
    from ragmonitor.runtime.protocols import Exporter, Judge
    from ragmonitor.settings import (
        Budget,
        CaptureSettings,
        ExportSettings,
        JudgeSettings,
        ServerSettings,
    )

__version__ = "0.1.0"

_HOMES = {
    "capture": (
        "InteractionIdMiddleware",
        "current_interaction",
    ),
    "runtime.errors": (
        "JudgeError",
        "NotScorableError",
        "RagMonitorError",
        "SettingsError",
    ),
    "evaluators": ("evaluator", "rubric"),
    "export": ("JsonLines", "Langfuse", "Phoenix"),
    "judges": ("EncoderJudge", "FunctionJudge", "LlmJudge"),
    "monitor": ("Monitor",),
    "offline": ("evaluate",),
    "runtime.protocols": ("Exporter", "Judge"),
    "records": (
        "Assessment",
        "Cause",
        "Chunk",
        "Interaction",
        "JudgeIdentity",
        "JudgeUsage",
        "Report",
        "Scored",
        "SentenceVerdict",
        "Unscored",
    ),
    "settings": (
        "Budget",
        "CaptureSettings",
        "ExportSettings",
        "JudgeSettings",
        "ServerSettings",
    ),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "Assessment",
    "Budget",
    "CaptureSettings",
    "Cause",
    "Chunk",
    "EncoderJudge",
    "ExportSettings",
    "Exporter",
    "FunctionJudge",
    "Interaction",
    "InteractionIdMiddleware",
    "JsonLines",
    "Judge",
    "JudgeError",
    "JudgeIdentity",
    "JudgeSettings",
    "JudgeUsage",
    "Langfuse",
    "LlmJudge",
    "Monitor",
    "NotScorableError",
    "Phoenix",
    "RagMonitorError",
    "Report",
    "Scored",
    "SentenceVerdict",
    "ServerSettings",
    "SettingsError",
    "Unscored",
    "__version__",
    "current_interaction",
    "evaluate",
    "evaluator",
    "rubric",
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
