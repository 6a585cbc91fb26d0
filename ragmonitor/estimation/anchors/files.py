"""What the processes share, as JSON; and the texts, each in a file of its own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, fields
from functools import cache
from typing import Any, Final

from pydantic import TypeAdapter, ValidationError

from ragmonitor.estimation.anchors.records import (
    Anchor,
    State,
    digest,
)
from ragmonitor.guard import reason, record_error, record_problem
from ragmonitor.records import Chunk, Interaction
from ragmonitor.state import StateFile

VERSION: Final = 2
"""Of the state's shape."""


# --- the state ------------------------------------------------------------------------------------


def read_state(file: StateFile) -> State:
    """Return what the processes share; of a file that cannot be understood: nothing.

    Raises:
        OSError: It cannot be opened.
    """
    try:
        told = file.read()
        return State() if told is None else state_of_json(told)
    except (ValueError, LookupError, TypeError, AttributeError, ArithmeticError) as error:
        # Anchors come again by themselves; a monitor that stops over them would be worse.
        why = reason(error)
        if isinstance(error, ValidationError):
            why = ", ".join(".".join(map(str, each["loc"][:3])) for each in error.errors()[:3])
        record_problem("estimation", f"{file.path}: anchors begin anew: {why}")
        return State()


def state_to_json(state: State) -> dict[str, Any]:
    """Return what `state_of_json` reads."""
    return {
        "judge": state.judge,
        "began_s": state.began_s,
        "next_at_s": state.next_at_s,
        "draws": state.draws,
        "refreeze": state.refreeze,
        "aliases": state.aliases,
        "past": state.past,
        "left": state.left,
        "recent": state.recent,
        "batch": None if state.batch is None else asdict(state.batch),
        "last_change": None if state.last_change is None else asdict(state.last_change),
        "inquiry": None if state.inquiry is None else asdict(state.inquiry),
        "pairs": [state.pairs, state.pairs_flipped],
        "anchors": [_anchor_to_json(anchor) for anchor in state.anchors.values()],
    }


def _anchor_to_json(anchor: Anchor) -> dict[str, Any]:
    # Not `asdict`, which copies every value: a hundred of these are written at each check.
    return {name: getattr(anchor, name) for name in _KEPT}


_KEPT: Final = tuple(told.name for told in fields(Anchor) if told.init)


def state_of_json(told: Mapping[str, Any]) -> State:
    """Return the state. Raises `ValueError`, `LookupError`, `TypeError`, `AttributeError`."""
    pairs, pairs_flipped = told["pairs"]
    anchors = {anchor["id"]: anchor for anchor in told["anchors"]}
    # By the declared types: one field of another type would fail at every check, for good.
    return _adapter().validate_python(
        {**told, "pairs": pairs, "pairs_flipped": pairs_flipped, "anchors": anchors}
    )


@cache
def _adapter() -> TypeAdapter[State]:
    return TypeAdapter(State)


# --- the texts ------------------------------------------------------------------------------------

# Texts have files of their own: the state is read and written at every check, and parsing a
# megabyte would hold up the application's threads meanwhile.


def texts_file(file: StateFile, identity: str) -> StateFile:
    """Return the file of one anchor's texts, beside that of the state."""
    folder = file.path.with_suffix("")
    return StateFile(folder / f"{digest(identity).hex()}.json", version=VERSION)


def write_texts(file: StateFile, texts: Interaction) -> None:
    """Write an anchor's texts beside the state. Raises `OSError`."""
    kept = texts_file(file, texts.id)
    kept.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    kept.write(_texts_to_json(texts))


def read_texts(file: StateFile, identity: str) -> Interaction | None:
    """Return an anchor's texts; None: there are none, or, an error of ours, they are unreadable."""
    try:
        told = texts_file(file, identity).read()
        return None if told is None else _texts_of_json(told)
    except (OSError, ValueError, LookupError, TypeError, ArithmeticError) as error:
        record_error("estimation", error)
        return None


def _texts_to_json(texts: Interaction) -> dict[str, Any]:
    return {
        "id": texts.id,
        "query": texts.query,
        "chunks": [[chunk.id, chunk.text] for chunk in texts.chunks],
        "answer": texts.answer,
        "framework": texts.framework,
        "started_ns": texts.started_ns,
        "ended_ns": texts.ended_ns,
    }


def _texts_of_json(told: Mapping[str, Any]) -> Interaction:
    return Interaction(
        id=str(told["id"]),
        query=str(told["query"]),
        chunks=tuple(Chunk(id=str(name), text=str(text)) for name, text in told["chunks"]),
        answer=str(told["answer"]),
        framework=str(told["framework"]),
        started_ns=int(told["started_ns"]),
        ended_ns=int(told["ended_ns"]),
    )
