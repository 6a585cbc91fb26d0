"""The built-in judge under another name: a judge of all answers that a worker can import."""

from __future__ import annotations

from dataclasses import replace

from ragmonitor.judges.builtin import BuiltinJudge
from ragmonitor.records import Assessment, Interaction, JudgeIdentity
from ragmonitor.testing import ScriptedJudge

READER = BuiltinJudge()


def verdict(interaction: Interaction) -> Assessment:
    """Return what the built-in judge says, as if another one had."""
    identity = JudgeIdentity(name="renamed", version="1", kind="CODE")
    return replace(READER.read(interaction), judge=identity)


JUDGE = ScriptedJudge(verdict, name="renamed")
