"""Judges: what reads an interaction once and says what it found."""

from ragmonitor.judges.builtin import BuiltinJudge
from ragmonitor.judges.cache import AssessmentCache
from ragmonitor.judges.encoder import EncoderJudge
from ragmonitor.judges.function import FunctionJudge
from ragmonitor.judges.llm import LlmJudge

__all__ = ["AssessmentCache", "BuiltinJudge", "EncoderJudge", "FunctionJudge", "LlmJudge"]
