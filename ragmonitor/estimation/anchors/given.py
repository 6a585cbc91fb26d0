"""A person's own anchors: a file of JSON lines."""

from __future__ import annotations

import json
from pathlib import Path

from ragmonitor.errors import InputError
from ragmonitor.estimation.anchors.places import ANCHORS_MOST
from ragmonitor.estimation.anchors.records import Anchor, digest
from ragmonitor.guard import logger
from ragmonitor.records import Chunk, Interaction


def read_given(path: Path) -> dict[str, tuple[Anchor, Interaction]]:
    """Return the first anchors of the file and their texts, by id; no judge has read them yet.

    Raises:
        InputError: The file, or a line of it, cannot be read.
    """
    found: dict[str, tuple[Anchor, Interaction]] = {}
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        problem = error.strerror if isinstance(error, OSError) else "no UTF-8"
        raise InputError(f"{path}: {problem or error}") from error
    for number, line in enumerate(lines, 1):
        if line.strip():
            try:
                anchor, texts = _given(json.loads(line))
            except (ValueError, InputError) as error:
                raise InputError(f"{path}, line {number}: {error}") from error
            found[anchor.id] = anchor, texts
    if len(found) > ANCHORS_MOST:
        logger.warning(
            "ragmonitor: %s: of %d anchors the first %d are used", path, len(found), ANCHORS_MOST
        )
    return dict([*found.items()][:ANCHORS_MOST])


def _given(told: object) -> tuple[Anchor, Interaction]:
    if not isinstance(told, dict):
        raise InputError("not a JSON object")
    question, answer = told.get("question"), told.get("answer")
    contexts, hallucinated = told.get("contexts"), told.get("hallucinated")
    if not isinstance(question, str) or not isinstance(answer, str):
        raise InputError("`question` and `answer` are texts, and needed")
    if not isinstance(contexts, list) or not all(isinstance(text, str) for text in contexts):
        raise InputError("`contexts` is a list of texts, and needed")
    if not isinstance(hallucinated, bool):
        raise InputError("`hallucinated` is true or false, and needed")
    identity = f"given-{digest(json.dumps([question, contexts, answer])).hex()}"
    texts = Interaction(
        id=identity,
        query=question,
        chunks=tuple(Chunk(text=text) for text in contexts),
        answer=answer,
        framework="python",
        started_ns=0,
        ended_ns=0,
    )
    anchor = Anchor(id=identity, hallucinated=None, joined_s=0.0, given=True, said=hallucinated)
    return anchor, texts
