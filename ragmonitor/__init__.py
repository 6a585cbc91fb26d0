"""Observability for live RAG applications: every answer traced, scored and summed up honestly.

Importing this package is cheap; what it names is loaded on first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ragmonitor.capture.current_id import InteractionIdMiddleware as InteractionIdMiddleware
    from ragmonitor.capture.plain import current_interaction as current_interaction
    from ragmonitor.evaluators import evaluator as evaluator
    from ragmonitor.evaluators import rubric as rubric
    from ragmonitor.export import JsonLines as JsonLines
    from ragmonitor.export import Langfuse as Langfuse
    from ragmonitor.export import Phoenix as Phoenix
    from ragmonitor.judges import EncoderJudge as EncoderJudge
    from ragmonitor.judges import FunctionJudge as FunctionJudge
    from ragmonitor.judges import LlmJudge as LlmJudge
    from ragmonitor.monitor import Monitor as Monitor
    from ragmonitor.offline import evaluate as evaluate
    from ragmonitor.records import Assessment as Assessment
    from ragmonitor.records import Cause as Cause
    from ragmonitor.records import Chunk as Chunk
    from ragmonitor.records import Interaction as Interaction
    from ragmonitor.records import JudgeIdentity as JudgeIdentity
    from ragmonitor.records import JudgeUsage as JudgeUsage
    from ragmonitor.records import Report as Report
    from ragmonitor.records import Scored as Scored
    from ragmonitor.records import SentenceVerdict as SentenceVerdict
    from ragmonitor.records import Unscored as Unscored
    from ragmonitor.runtime.errors import JudgeError as JudgeError
    from ragmonitor.runtime.errors import NotScorableError as NotScorableError
    from ragmonitor.runtime.errors import RagMonitorError as RagMonitorError
    from ragmonitor.runtime.errors import SettingsError as SettingsError
    from ragmonitor.runtime.protocols import Exporter as Exporter
    from ragmonitor.runtime.protocols import Judge as Judge
    from ragmonitor.settings import Budget as Budget
    from ragmonitor.settings import CaptureSettings as CaptureSettings
    from ragmonitor.settings import ExportSettings as ExportSettings
    from ragmonitor.settings import JudgeSettings as JudgeSettings
    from ragmonitor.settings import ServerSettings as ServerSettings

__version__ = "0.1.0"

_NAMES = {
    "capture.current_id": ("InteractionIdMiddleware",),
    "capture.plain": ("current_interaction",),
    "evaluators": ("evaluator", "rubric"),
    "export": ("JsonLines", "Langfuse", "Phoenix"),
    "judges": ("EncoderJudge", "FunctionJudge", "LlmJudge"),
    "monitor": ("Monitor",),
    "offline": ("evaluate",),
    "records": (
        *("Assessment", "Cause", "Chunk", "Interaction", "JudgeIdentity", "JudgeUsage"),
        *("Report", "Scored", "SentenceVerdict", "Unscored"),
    ),
    "runtime.errors": ("JudgeError", "NotScorableError", "RagMonitorError", "SettingsError"),
    "runtime.protocols": ("Exporter", "Judge"),
    "settings": (
        "Budget",
        *("CaptureSettings", "ExportSettings", "JudgeSettings", "ServerSettings"),
    ),
}
"""The names that are loaded on first use, by their module."""
_HOMES = {name: module for module, names in _NAMES.items() for name in names}

__all__ = [*_HOMES, "__version__"]  # noqa: PLE0604 - texts


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
