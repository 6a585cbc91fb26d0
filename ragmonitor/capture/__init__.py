"""The request path: what a framework reports is noted here, and nothing more."""

from ragmonitor.capture.assembly import Translator
from ragmonitor.capture.plain import InteractionRecorder, Record
from ragmonitor.capture.recorder import Recorder
from ragmonitor.capture.runs import Run, RunKind

__all__ = ["InteractionRecorder", "Record", "Recorder", "Run", "RunKind", "Translator"]
