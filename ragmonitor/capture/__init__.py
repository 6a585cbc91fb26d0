"""The request path: events of frameworks and of plain code are noted here, and nothing more."""

from ragmonitor.capture.assembly import Translator
from ragmonitor.capture.coercion import sound
from ragmonitor.capture.current_id import InteractionIdMiddleware, current_id
from ragmonitor.capture.decorators import answers, name_of, retrieves
from ragmonitor.capture.plain import InteractionRecorder, Record, current_interaction
from ragmonitor.capture.recorder import INTERACTION_TAG, Recorder

__all__ = [
    "INTERACTION_TAG",
    "InteractionIdMiddleware",
    "InteractionRecorder",
    "Record",
    "Recorder",
    "Translator",
    "answers",
    "current_id",
    "current_interaction",
    "name_of",
    "retrieves",
    "sound",
]
