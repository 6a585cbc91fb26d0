"""The golden question, and the file that keeps golden questions: JSON lines, or a CSV."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Any, Final, Literal

import msgspec

from ragmonitor.judges import sentences as splitter
from ragmonitor.offline.shapes import read_chunks
from ragmonitor.records import Chunk, Language
from ragmonitor.runtime.errors import InputError
from ragmonitor.runtime.tables import NO_UTF_8, Table, owners_alone, write_csv

MAX_WAIT_S: Final = 5.0
"""How long a command waits for another one that writes the same file."""
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
_WORDS: Final = frozenset({"status", "kind", "language"})
_NESTED: Final = ("chunks", "history", "attributes")


class GoldensError(InputError):
    """A file of golden questions cannot be read; the message names the line and what to do."""


class GoldenKind(StrEnum):
    """The kinds of question, by what each asks of the application."""

    SINGLE_FACT = "single_fact"
    """One chunk holds the answer."""
    SEVERAL_CHUNKS = "several_chunks"
    """The answer needs more than one chunk."""
    COMPARISON = "comparison"
    """The answer compares what two or more chunks say."""
    UNANSWERABLE = "unanswerable"
    """The documents do not hold the answer: a refusal is right."""
    FALSE_PREMISE = "false_premise"
    """The question supposes something that the documents deny; the answer says so."""
    FOLLOW_UP = "follow_up"
    """The question can only be understood after the turns of `history`."""


class ReviewStatus(StrEnum):
    """Where a golden question stands in the review."""

    CANDIDATE = "candidate"
    """Nobody has looked at it yet."""
    ACCEPTED = "accepted"
    REJECTED = "rejected"


class ReferenceChunk(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A chunk from which the reference answer follows."""

    text: str
    id: str = ""
    """The store's id of the chunk; empty: not known, and chunks are compared by their text."""
    source: str = ""
    """The document it comes from: a path or an address."""


class Turn(msgspec.Struct, frozen=True, kw_only=True):
    """One message of the conversation before the question."""

    role: Literal["user", "assistant"]
    text: str


class Golden(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A question whose right answer is known."""

    question: str
    answer: str = ""
    """The reference answer; may only be empty where a refusal is right, or the question is not
    asked: rejected, or mined and before its review."""
    id: str = ""
    """Stable over edits of the answer; where none is given, question and history determine it."""
    chunks: tuple[ReferenceChunk, ...] = ()
    kind: GoldenKind = GoldenKind.SINGLE_FACT
    language: Language = ""  # type: ignore[assignment]  # set below
    """Where none is given, the question determines it."""
    history: tuple[Turn, ...] = ()
    attributes: dict[str, str] = {}
    """Slices of the traffic that it stands for, such as its route or tenant."""
    source: str = ""
    """The way in which it came to be, such as `generated`, `mined`, `written` or another tool's
    name."""
    interaction_id: str = ""
    """The interaction it was mined from."""
    status: ReviewStatus = ReviewStatus.CANDIDATE
    comment: str = ""

    def __post_init__(self) -> None:
        if not self.language:
            msgspec.structs.force_setattr(self, "language", splitter.language(self.question))
        if not self.id:
            msgspec.structs.force_setattr(self, "id", golden_id(self.question, self.history))

    @property
    def expects_refusal(self) -> bool:
        """Whether the right answer is that the documents do not say."""
        return self.kind is GoldenKind.UNANSWERABLE

    @property
    def awaits_review(self) -> bool:
        """Whether it was mined and nobody has decided: its answer is the application's, or none."""
        return self.status is ReviewStatus.CANDIDATE and self.source.startswith(MINED)

    @property
    def is_askable(self) -> bool:
        """Whether an application may be measured by it: not rejected, and no mined candidate."""
        return self.status is not ReviewStatus.REJECTED and not self.awaits_review

    @property
    def lacks_answer(self) -> bool:
        """Whether it is asked, and nobody knows the right answer."""
        return self.is_askable and not (self.answer.strip() or self.expects_refusal)

    @property
    def reference_chunks(self) -> tuple[Chunk, ...]:
        """The chunks as an interaction's records hold them."""
        return tuple(
            Chunk(
                text=each.text, id=each.id, metadata={"source": each.source} if each.source else {}
            )
            for each in self.chunks
        )


def golden_id(question: str, history: tuple[Turn, ...] = ()) -> str:
    """Return 16 hexadecimal digits that question and history determine."""
    parts = [question, *(part for turn in history for part in (turn.role, turn.text))]
    return hashlib.sha256(msgspec.json.encode(parts)).hexdigest()[:16]


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
        for row in Table(path):
            where = f"{name}, {unit} {row.number}"
            if row.error:
                advice = f"; {NO_UTF_8}" if "no UTF-8" in row.error else ""
                raise InputError(f"{where}: {row.error}{advice}")
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
    record: dict[str, Any] = {}
    for name in Golden.__struct_fields__:
        found = next(
            (given[each] for each in (*_OTHERS.get(name, ()), name) if each in given), None
        )
        if found is None:
            continue
        if name == "answer" and isinstance(found, list) and len(found) == 1:
            found = found[0]  # as old files of RAGAS have it
        if name in ("history", "attributes") and isinstance(found, str):
            found = msgspec.json.decode(found)
        if name == "attributes" and isinstance(found, list):  # a map of Parquet comes as pairs
            found = dict(found)
        if name == "chunks":
            found = [
                {"text": text, "id": id_, "source": source}
                for text, id_, source in read_chunks(found, name)
            ]
        if name in _WORDS and isinstance(found, str):
            found = found.strip().lower()  # as people write, and spreadsheets correct
        record[name] = found
    try:
        golden = msgspec.convert({"question": ""} | record, Golden)
    except msgspec.ValidationError as error:
        raise InputError(str(error)) from error
    if not golden.question.strip():
        raise InputError("`question` is empty")
    if golden.lacks_answer:
        raise InputError("`answer` is empty; give the reference answer, or kind `unanswerable`")
    return golden


def askable(goldens: Sequence[Golden], name: str) -> list[Golden]:
    """Return the questions by which an application may be measured.

    Raises:
        GoldensError: There are questions, and none of them is to be asked.
    """
    left = [each for each in goldens if each.is_askable]
    if goldens and not left:
        raise GoldensError(
            f"{name} has no golden question to ask: all were rejected, or mined and await their "
            "review: put the answer right, and set `status` to `accepted`"
        )
    return left


def write_goldens(path: str | os.PathLike[str], goldens: Iterable[Golden]) -> None:
    """Write a CSV or JSON lines, by the file's suffix; it is replaced in one step, or left.

    Raises:
        OSError: The folder cannot be written.
    """
    with _replaced(Path(path)) as draft:
        _write(draft, goldens)


def add_goldens(path: str | os.PathLike[str], new: Iterable[Golden]) -> None:
    """Add those that are not there yet to what stands in the file by now, if there is one.

    Raises:
        GoldensError: The file cannot be read.
        OSError: The folder cannot be written.
    """
    with _replaced(Path(path)) as draft:
        known = read_goldens(path) if Path(path).exists() else []
        ids = {golden.id for golden in known}
        _write(draft, [*known, *(golden for golden in new if golden.id not in ids)])


@contextmanager
def _replaced(path: Path) -> Iterator[Path]:
    """Give a draft that takes the file's place; of several processes one has it at a time."""
    target = path.resolve()  # a link stays a link
    draft = target.with_name(f".{target.name}.draft")
    until = time.monotonic() + MAX_WAIT_S
    while True:
        try:
            os.close(owners_alone(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL))
            break
        except FileExistsError:
            if time.monotonic() > until:
                raise OSError(
                    f"{draft} is there: another command writes; remove it if none does"
                ) from None
            time.sleep(0.05)
    try:
        yield draft
        if target.exists():
            draft.chmod(target.stat().st_mode)
        draft.replace(target)
    except BaseException:  # an interruption, too: the next command finds no draft
        draft.unlink()
        raise


def _write(path: Path, goldens: Iterable[Golden]) -> None:
    if path.stem.lower().endswith(".csv"):
        write_csv(path, Golden.__struct_fields__, map(_cells, goldens))
    else:
        path.write_bytes(b"".join(msgspec.json.encode(golden) + b"\n" for golden in goldens))


def _cells(golden: Golden) -> dict[str, str]:
    record: dict[str, Any] = msgspec.to_builtins(golden)
    nested = {n: msgspec.json.encode(record[n]).decode() for n in _NESTED if record.get(n)}
    # A person fills these in, so that their defaults are written, too.
    words = {"kind": golden.kind, "status": golden.status}
    return record | nested | {name: str(word) for name, word in words.items()}
