"""Judges: what reads an interaction once and says what it found."""

from collections.abc import Callable

from ragmonitor.judges.builtin import BuiltinJudge
from ragmonitor.judges.encoder import EncoderJudge
from ragmonitor.judges.function import FunctionJudge
from ragmonitor.judges.llm import LlmJudge
from ragmonitor.runtime.protocols import Judge

JUDGES: dict[str, Callable[[str], Judge]] = {
    "encoder": EncoderJudge,
}
"""The judges that the setting `judge` may name, as `name:rest`, beside models of litellm; each
makes its judge of the rest."""

__all__ = ["JUDGES", "BuiltinJudge", "EncoderJudge", "FunctionJudge", "LlmJudge"]
