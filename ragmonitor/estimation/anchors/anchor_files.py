"""Keeps the anchors and their texts on disk, and reads a person's own ones."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

import msgspec
from pydantic import TypeAdapter, ValidationError

from ragmonitor.errors import InputError
from ragmonitor.estimation.anchors.anchor_set import Anchor, AnchorSet, digest
from ragmonitor.estimation.anchors.membership import MAX_ANCHORS
from ragmonitor.guard import logger, reason, record_error, record_problem
from ragmonitor.records import Chunk, Interaction
from ragmonitor.state import State

VERSION: Final = 3
"""The version of the state's shape."""


@cache
def _adapter() -> TypeAdapter[AnchorSet]:
    return TypeAdapter(AnchorSet)


def anchors_of(state: Mapping[str, Any]) -> AnchorSet:
    """Return what a state holds; of one that cannot be understood: nothing.

    Values are checked by the declared types: one field of another type would fail at every check.
    """
    try:
        return _adapter().validate_python(state)
    except (ValueError, LookupError, TypeError, AttributeError, ArithmeticError) as error:
        # Anchors come again by themselves; a monitor that stops over them would be worse.
        why = reason(error)
        if isinstance(error, ValidationError):
            why = ", ".join(".".join(map(str, each["loc"][:3])) for each in error.errors()[:3])
        record_problem("estimation", f"the reference answers begin anew: {why}")
        return AnchorSet()


def state_of(anchors: AnchorSet) -> dict[str, Any]:
    """Return what JSON can hold of the anchors."""
    state: dict[str, Any] = _adapter().dump_python(anchors, mode="json")
    return state


# --- the texts ------------------------------------------------------------------------------------

# Texts have files of their own: the state is read and written at every check, and parsing a
# megabyte would hold up the application's threads meanwhile.


def texts_file(file: State, identity: str) -> State:
    """Return where one anchor's texts are, beside the state."""
    return file.part(digest(identity).hex())


def write_texts(file: State, texts: Interaction) -> None:
    """Write an anchor's texts beside the state, held alone. Raises `OSError`."""
    kept = texts_file(file, texts.id)
    fields: dict[str, Any] = {name: getattr(texts, name) for name in (*_TEXTS, *_TIMES)}
    kept.write(fields | {"chunks": [[chunk.id, chunk.text] for chunk in texts.chunks]})


_TEXTS: Final = ("id", "query", "answer", "framework")
_TIMES: Final = ("started_ns", "ended_ns")


def read_texts(file: State, identity: str) -> Interaction | None:
    """Return an anchor's texts; None: there are none, or, an error of ours, they are unreadable."""
    try:
        state = texts_file(file, identity).read()
        if state is None:
            return None
        fields: dict[str, Any] = {name: str(state[name]) for name in _TEXTS}
        fields |= {name: int(state[name]) for name in _TIMES}
        chunks = tuple(Chunk(id=str(name), text=str(text)) for name, text in state["chunks"])
        return Interaction(chunks=chunks, **fields)
    except (OSError, ValueError, LookupError, TypeError, ArithmeticError) as error:
        record_error("estimation", error)
        return None


# --- a person's own -------------------------------------------------------------------------------


def read_own(path: Path) -> dict[str, tuple[Anchor, Interaction]]:
    """Return the anchors of a file of JSON lines and their texts, by id; no judge has read them.

    Raises:
        InputError: The file, or a line of it, cannot be read.
    """
    own: dict[str, tuple[Anchor, Interaction]] = {}
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        problem = error.strerror if isinstance(error, OSError) else "no UTF-8"
        raise InputError(f"{path}: {problem or error}") from error
    for number, line in enumerate(lines, 1):
        if line.strip():
            try:
                line_read = msgspec.json.decode(line, type=_OwnLine)
            except (msgspec.MsgspecError, RecursionError, UnicodeEncodeError) as error:
                raise InputError(f"{path}, line {number}: {error}") from error
            anchor, texts = _own_anchor(line_read)
            own[anchor.id] = anchor, texts
    if len(own) > MAX_ANCHORS:
        logger.warning(
            "ragmonitor: %s: of %d reference answers the first %d are used",
            path,
            len(own),
            MAX_ANCHORS,
        )
    return dict([*own.items()][:MAX_ANCHORS])


class _OwnLine(msgspec.Struct):
    question: str
    contexts: list[str]
    answer: str
    hallucinated: bool


def _own_anchor(given: _OwnLine) -> tuple[Anchor, Interaction]:
    texts = json.dumps([given.question, given.contexts, given.answer])
    identity = f"given-{digest(texts).hex()}"
    interaction = Interaction(
        id=identity,
        query=given.question,
        chunks=tuple(Chunk(text=text) for text in given.contexts),
        answer=given.answer,
        framework="python",
        started_ns=0,
        ended_ns=0,
    )
    return Anchor(
        id=identity, hallucinated=None, joined_s=0.0, label=given.hallucinated
    ), interaction
