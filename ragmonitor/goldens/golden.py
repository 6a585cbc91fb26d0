"""The golden question, and the file that keeps golden questions: JSON lines, or a CSV."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final, Literal

import msgspec

from ragmonitor.offline.shapes import read_chunks
from ragmonitor.records import Chunk
from ragmonitor.runtime.errors import InputError
from ragmonitor.runtime.tables import owners_alone, table_rows, write_csv

MINED: Final = "mined"
"""The beginning of `source` where a question was taken from live traffic."""
_OTHERS: Final = {
    "question": ("user_input", "query"),
    "answer": ("reference", "ground_truth", "ground_truths", "gt_answer"),
    "id": ("query_id",),
    "chunks": ("reference_contexts",),
}
"""Columns of RAGAS, RAGChecker and recorded interactions, which go before ours: there `answer` is
what the application said."""

GoldenKind = Literal["single_fact", "unanswerable"]
"""`unanswerable`: the documents do not hold the answer, and a refusal is right."""
ReviewStatus = Literal["candidate", "accepted", "rejected"]
"""`candidate`: nobody has looked at it yet."""


class GoldensError(InputError):
    """A file of golden questions cannot be read; the message names the line and what to do."""


class ReferenceChunk(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A chunk from which the reference answer follows."""

    text: str
    id: str = ""
    """The store's id of the chunk; empty: not known, and chunks are compared by their text."""
    source: str = ""
    """The document it comes from: a path or an address."""


class Golden(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A question whose right answer is known."""

    question: str
    answer: str = ""
    """The reference answer; may only be empty where a refusal is right, or the question is not
    asked: rejected, or mined and before its review."""
    id: str = ""
    """Stable over edits of the answer; where none is given, the question determines it."""
    chunks: tuple[ReferenceChunk, ...] = ()
    kind: GoldenKind = "single_fact"
    source: str = ""
    """The way in which it came to be, such as `generated`, `mined` or `written`."""
    interaction_id: str = ""
    """The interaction it was mined from."""
    status: ReviewStatus = "candidate"
    comment: str = ""

    def __post_init__(self) -> None:
        if not self.id:
            msgspec.structs.force_setattr(self, "id", golden_id(self.question))

    @property
    def expects_refusal(self) -> bool:
        """Whether the right answer is that the documents do not say."""
        return self.kind == "unanswerable"

    @property
    def is_askable(self) -> bool:
        """Whether an application may be measured by it: not rejected, and if mined, accepted.

        The answer of a mined question is the application's own until somebody has decided.
        """
        if self.status == "candidate":
            return not self.source.startswith(MINED)
        return self.status == "accepted"

    @property
    def reference_chunks(self) -> tuple[Chunk, ...]:
        """The chunks as an interaction's records hold them."""
        return tuple(
            Chunk(
                text=each.text, id=each.id, metadata={"source": each.source} if each.source else {}
            )
            for each in self.chunks
        )


def golden_id(question: str) -> str:
    """Return 16 hexadecimal digits that the question determines."""
    return hashlib.sha256(msgspec.json.encode([question])).hexdigest()[:16]


def read_goldens(path: str | os.PathLike[str]) -> list[Golden]:
    """Return the golden questions of a file in its order: JSON lines, JSON, CSV or Parquet.

    The columns are ours (docs/goldens.md), RAGAS' or RAGChecker's. Of a recorded interaction the
    reference answer is the right one, and not what the application said.

    Raises:
        GoldensError: The file cannot be read, a record is no golden question, is to be asked and
            has neither an answer nor the kind `unanswerable`, or has the id of one before it.
        MissingExtraError: It is Parquet, and pyarrow is not installed.
    """
    name = os.fspath(path)
    unit = "row" if Path(path).suffix.lower() in (".csv", ".tsv", ".parquet") else "line"
    by_id: dict[str, Golden] = {}
    try:
        for row in table_rows(path):
            where = f"{name}, {unit} {row.number}"
            if row.error:
                raise InputError(f"{where}: {row.error}")
            try:
                golden = _golden(row.value)
            except (InputError, ValueError) as error:
                raise InputError(f"{where}: {error}; docs/goldens.md lists the fields") from error
            if golden.id in by_id:
                raise InputError(f"{where}: the id {golden.id!r} is there already")
            by_id[golden.id] = golden
    except InputError as error:
        raise GoldensError(str(error)) from error
    return list(by_id.values())


def _golden(value: object) -> Golden:
    """Return the golden question that a record is. Raises `InputError`."""
    if not isinstance(value, dict):
        raise InputError(f"expected an object, not a {type(value).__name__}")
    given = {name: cell for name, cell in value.items() if cell not in ("", None)}
    record: dict[str, Any] = {"question": ""}
    for name in Golden.__struct_fields__:
        names = (*_OTHERS.get(name, ()), name)
        found = next((given[each] for each in names if each in given), None)
        if found is None:
            continue
        if name == "answer" and isinstance(found, list) and len(found) == 1:
            found = found[0]  # as old files of RAGAS have it
        if name == "chunks":
            found = [
                {"text": text, "id": id_, "source": source}
                for text, id_, source in read_chunks(found, name)
            ]
        if name in ("status", "kind") and isinstance(found, str):
            found = found.strip().lower()  # as people write, and spreadsheets correct
        record[name] = found
    try:
        golden = msgspec.convert(record, Golden)
    except msgspec.ValidationError as error:
        raise InputError(str(error)) from error
    if not golden.question.strip():
        raise InputError("`question` is empty")
    if golden.is_askable and not (golden.answer.strip() or golden.expects_refusal):
        raise InputError("`answer` is empty; give the reference answer, or kind `unanswerable`")
    return golden


def askable(goldens: Sequence[Golden], name: str) -> list[Golden]:
    """Return the questions by which an application may be measured.

    Raises:
        GoldensError: None of them is to be asked.
    """
    left = [each for each in goldens if each.is_askable]
    if not left:
        raise GoldensError(
            f"{name} has no golden question to ask: they were rejected, or mined and await their "
            "review: put the answer right, and set `status` to `accepted`"
        )
    return left


def write_goldens(path: str | os.PathLike[str], goldens: Iterable[Golden]) -> None:
    """Write a CSV or JSON lines, by the file's suffix; it is replaced in one step, or left.

    Raises:
        OSError: The folder cannot be written.
    """
    target = Path(path).resolve()  # a link stays a link
    draft = target.with_name(f".{target.name}.draft")
    if target.suffix.lower() == ".csv":
        rows = []
        for golden in goldens:
            row = msgspec.to_builtins(golden)
            if golden.chunks:
                row["chunks"] = msgspec.json.encode(row["chunks"]).decode()
            # A person fills these in, so that their defaults are written, too.
            rows.append(row | {"kind": golden.kind, "status": golden.status})
        write_csv(draft, Golden.__struct_fields__, rows)
    else:
        with open(draft, "wb", opener=owners_alone) as file:
            file.writelines(msgspec.json.encode(golden) + b"\n" for golden in goldens)
    if target.exists():
        draft.chmod(target.stat().st_mode)
    draft.replace(target)


def add_goldens(path: str | os.PathLike[str], new: Iterable[Golden]) -> None:
    """Add those that are not there yet to what stands in the file by now, if there is one.

    Raises:
        GoldensError: The file cannot be read.
        OSError: The folder cannot be written.
    """
    known = read_goldens(path) if Path(path).exists() else []
    ids = {golden.id for golden in known}
    write_goldens(path, [*known, *(golden for golden in new if golden.id not in ids)])
