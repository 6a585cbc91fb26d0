"""A framework whose runs are given and give plain values, to drive a `Recorder` with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ragmonitor import Chunk, Message, Run, Usage


class Plain:
    """Its translator. Roots and retrievers are given a text, models a list of texts."""

    framework = "plain"

    def query(self, run: Run) -> str:
        return run.given if isinstance(run.given, str) else ""

    def chunks(self, run: Run) -> Sequence[Chunk]:
        if isinstance(run.gave, str):
            return [Chunk(text=run.gave)]
        return [Chunk(text=text) for text in run.gave or ()]

    def shown(self, root: Run) -> Sequence[Chunk] | None:
        return None

    def prompt(self, run: Run) -> Sequence[Message]:
        return [Message(role="user", text=text) for text in run.given or ()]

    def answer(self, run: Run) -> str:
        return run.gave if isinstance(run.gave, str) else ""

    def model(self, run: Run) -> tuple[str, str]:
        return "openai", "m"

    def usage(self, run: Run) -> Usage:
        return Usage(input_tokens=1, output_tokens=2)

    def labels(self, root: Run) -> dict[str, Any]:
        return dict(root.details) if isinstance(root.details, Mapping) else {}
