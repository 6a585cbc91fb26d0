"""Judges: what reads an interaction once and says what it found."""

from ragmonitor.judges.lexical import LexicalJudge
from ragmonitor.judges.llm import LlmJudge
from ragmonitor.judges.process import ProcessJudge

__all__ = ["LexicalJudge", "LlmJudge", "ProcessJudge"]
