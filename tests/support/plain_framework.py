"""A framework whose runs are given and give plain values, to drive a `Recorder` with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ragmonitor import Chunk
from ragmonitor.integration import Message, Run, Translator, Usage


class Plain(Translator):
    """Its translator. Roots and retrievers are given a text, models a list of texts."""

    framework = "plain"

    def query(self, run: Run) -> str:
        return run.inputs if isinstance(run.inputs, str) else ""

    def chunks(self, run: Run) -> Sequence[Chunk]:
        if isinstance(run.outputs, str):
            return [Chunk(text=run.outputs)]
        return [Chunk(text=text) for text in run.outputs or ()]

    def shown(self, root: Run) -> Sequence[Chunk] | None:
        return None

    def prompt(self, run: Run) -> Sequence[Message]:
        return [Message(role="user", text=text) for text in run.inputs or ()]

    def answer(self, run: Run) -> str:
        return run.outputs if isinstance(run.outputs, str) else ""

    def model(self, run: Run) -> tuple[str, str]:
        return "openai", "m"

    def usage(self, run: Run) -> Usage:
        return Usage(input_tokens=1, output_tokens=2)

    def labels(self, root: Run) -> dict[str, Any]:
        return dict(root.details) if isinstance(root.details, Mapping) else {}
