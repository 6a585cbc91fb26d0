"""What the processes share, as JSON; and the texts, each in a file of its own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, fields
from typing import Any, Final

from ragmonitor.estimation.anchors.records import (
    Anchor,
    Batch,
    Inquiry,
    Rise,
    RulerChange,
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
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        # Anchors come again by themselves; a monitor that stops over them would be worse.
        record_problem("estimation", f"{file.path}: anchors begin anew: {reason(error)}")
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
    """Return the state. Raises `ValueError`, `KeyError`, `TypeError`, `AttributeError`."""
    batch, change, inquiry = told["batch"], told["last_change"], told["inquiry"]
    pairs, pairs_flipped = told["pairs"]
    anchors = [Anchor(**anchor) for anchor in told["anchors"]]
    return State(
        judge=str(told["judge"]),
        began_s=float(told["began_s"]),
        next_at_s=float(told["next_at_s"]),
        draws=int(told["draws"]),
        refreeze=bool(told["refreeze"]),
        aliases={str(asked): str(by) for asked, by in told["aliases"].items()},
        past={str(name): float(at_s) for name, at_s in told["past"].items()},
        left=[str(identity) for identity in told["left"]],
        recent=[bool(flipped) for flipped in told["recent"]],
        batch=None if batch is None else Batch(**batch),
        last_change=None if change is None else RulerChange(**change),
        inquiry=None if inquiry is None else _inquiry_of_json(inquiry),
        pairs=float(pairs),
        pairs_flipped=float(pairs_flipped),
        anchors={anchor.id: anchor for anchor in anchors},
    )


def _inquiry_of_json(told: Mapping[str, Any]) -> Inquiry:
    rise = told["rise"]
    return Inquiry(**{**told, "rise": None if rise is None else Rise(**rise)})


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
    except (OSError, ValueError, KeyError, TypeError) as error:
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
