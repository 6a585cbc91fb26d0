"""Files of recorded interactions, in the formats of several tools, as `Interaction` records."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Literal, Self

from ragmonitor.errors import InputError
from ragmonitor.records import Chunk, Interaction

Format = Literal["ragmonitor", "ragas", "ragchecker"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Columns:
    """The names under which a format keeps what an interaction is made of."""

    question: str
    contexts: str
    answer: str
    id: str = "id"

    def fit(self, record: Mapping[str, Any]) -> bool:
        """Return whether the record has all of them."""
        return all(name in record for name in self.required)

    @property
    def required(self) -> tuple[str, str, str]:
        """What no record may lack."""
        return self.question, self.contexts, self.answer


_OURS = Columns(question="question", contexts="contexts", answer="answer")
COLUMNS: dict[Format, tuple[Columns, ...]] = {
    "ragmonitor": (_OURS,),
    # RAGAS before 0.2 had the same names as we have.
    "ragas": (
        Columns(question="user_input", contexts="retrieved_contexts", answer="response"),
        _OURS,
    ),
    "ragchecker": (
        Columns(question="query", contexts="retrieved_context", answer="response", id="query_id"),
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One line of a file: an interaction, or why it is none."""

    number: int
    """From 1; of a file that is one JSON document, the position of the record."""
    interaction: Interaction | None = None
    error: str = ""


class Records:
    """The interactions of a file, read as they are asked for; to be gone through once."""

    def __init__(self, path: str, form: Format | None = None) -> None:
        """Open the file.

        Args:
            path: A file, or `-` for standard input.
            form: None: recognised by the columns of the first record.

        Raises:
            InputError: It cannot be opened.
        """
        self.name = "standard input" if path == "-" else path
        self.size_bytes: int | None = None
        self.read_bytes = 0
        self._form = form
        self._columns: tuple[Columns, ...] = COLUMNS[form] if form else ()
        if path == "-":
            self._file: BinaryIO = sys.stdin.buffer
            return
        try:
            self._file = Path(path).open("rb")  # noqa: SIM115 - closed by __exit__
            self.size_bytes = Path(path).stat().st_size
        except OSError as error:
            raise InputError(f"{path}: {error.strerror or error}") from error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._file is not sys.stdin.buffer:
            self._file.close()

    def __iter__(self) -> Iterator[Line]:
        """Yield every line that is not blank.

        Raises:
            InputError: The columns of the first record belong to no format that we know, or the
                whole file is one broken JSON document.
        """
        started = False
        for number, raw in enumerate(self._lines(), 1):
            if not raw.strip():
                continue
            if not started and _begins_document(raw):
                yield from self._document(number, raw)
                return
            started = True
            yield self._line(number, raw)

    def _lines(self) -> Iterator[bytes]:
        try:
            for number, raw in enumerate(self._file):
                self.read_bytes += len(raw)
                yield raw.removeprefix(b"\xef\xbb\xbf") if number == 0 else raw
        except OSError as error:
            raise InputError(f"{self.name}: {error.strerror or error}") from error

    def _line(self, number: int, raw: bytes) -> Line:
        try:
            value = _parsed(raw)
        except InputError as error:
            return Line(number=number, error=str(error))
        return self._told(number, value)

    def _told(self, number: int, value: object) -> Line:
        if not self._columns and isinstance(value, dict):
            # Not caught here: whoever gave the wrong file hears it once, not per line.
            self._columns = self._recognised(number, value)
        try:
            return Line(number=number, interaction=read_record(value, self._columns, number))
        except InputError as error:
            return Line(number=number, error=str(error))

    def _recognised(self, number: int, record: Mapping[str, Any]) -> tuple[Columns, ...]:
        for columns in COLUMNS.values():
            if any(choice.fit(record) for choice in columns):
                return tuple(choice for choice in columns if choice.fit(record))
        raise UnknownColumnsError(
            f"{self.name}, record {number}: no format has the columns "
            f"{', '.join(map(repr, list(record)[:8])) or '(none)'}; expected {expected_columns()}. "
            "To go on in spite of this record, name the format with --format"
        )

    def _document(self, number: int, first: bytes) -> Iterator[Line]:
        """Yield the records of a file that is one JSON document: a list, or {"results": [...]}."""
        rest = self._file.read()
        self.read_bytes += len(rest)
        try:
            value = _parsed(first + rest)
        except InputError as error:
            if _is_json(first):  # a document on its first line alone: JSON lines after all
                lines = [first, *rest.splitlines()]
                yield from (
                    self._line(n, raw) for n, raw in enumerate(lines, number) if raw.strip()
                )
                return
            raise InputError(f"{self.name}: {error}") from error
        if isinstance(value, dict) and isinstance(value.get("results"), list):
            value = value["results"]
        for position, record in enumerate(value if isinstance(value, list) else [value], 1):
            yield self._told(position, record)


class UnknownColumnsError(InputError):
    """The file is of no format that we know."""


def expected_columns() -> str:
    """Return the formats with their columns, for people."""
    return "; ".join(
        f"{form}: {', '.join(choices[0].required)}" for form, choices in COLUMNS.items()
    )


def read_record(value: object, columns: Sequence[Columns], number: int) -> Interaction:
    """Return the interaction that a JSON value describes.

    Args:
        value: Anything that JSON can hold.
        columns: Tried in order; the first whose names are all there is taken. Empty: unknown yet.
        number: Stands in for a missing id.

    Raises:
        InputError: It describes none; the message says what was expected.
    """
    if not isinstance(value, dict):
        raise InputError(f"expected an object, not {_kind(value)}")
    if not columns:
        raise InputError(f"expected one of {expected_columns()}")
    chosen = next((choice for choice in columns if choice.fit(value)), None)
    if chosen is None:
        missing = [name for name in columns[0].required if name not in value]
        raise InputError(f"missing {', '.join(missing)}")
    if value.get("content") == "hashed":
        raise InputError("its texts are hashes; record with content='all' to read them again")
    identity = value.get(chosen.id)
    if identity is not None and (isinstance(identity, bool) or not isinstance(identity, str | int)):
        raise InputError(f"{chosen.id}: expected text or a number, not {_kind(identity)}")
    return Interaction(
        id=str(number) if identity in (None, "") else str(identity),
        query=_text(value, chosen.question),
        chunks=_chunks(value[chosen.contexts], chosen.contexts),
        not_shown=_chunks(value.get("not_shown", []), "not_shown"),
        answer=_text(value, chosen.answer),
        framework="python",
        started_ns=0,
        ended_ns=0,
        session_id=session if isinstance(session := value.get("session_id"), str) else "",
    )


def _text(record: Mapping[str, Any], name: str) -> str:
    text = record[name]
    if not isinstance(text, str):
        raise InputError(f"{name}: expected text, not {_kind(text)}")
    return text


def _chunks(value: object, name: str) -> tuple[Chunk, ...]:
    if not isinstance(value, list):
        raise InputError(f"{name}: expected a list of texts, not {_kind(value)}")
    return tuple(_chunk(item, f"{name}[{position}]") for position, item in enumerate(value))


def _chunk(item: object, name: str) -> Chunk:
    if isinstance(item, str):
        return Chunk(text=item)
    if isinstance(item, dict) and isinstance(item.get("text"), str):
        identity = item.get("doc_id", item.get("id"))
        return Chunk(text=item["text"], id=identity if isinstance(identity, str) else "")
    raise InputError(f"{name}: expected a text, or an object with one under 'text'")


def _kind(value: object) -> str:
    kinds = {
        dict: "an object",
        list: "a list",
        str: "a text",
        bool: "true or false",
        type(None): "null",
    }
    return kinds.get(type(value), "a number")


def _parsed(raw: bytes) -> object:
    try:
        return json.loads(raw.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise InputError(f"no UTF-8: byte {error.start + 1} of the line") from error
    except json.JSONDecodeError as error:
        raise InputError(f"no JSON: {error.msg}, column {error.colno}") from error
    except (ValueError, RecursionError) as error:  # a number, or a nesting, beyond all measure
        raise InputError("no JSON that can be read: a number or a nesting is too large") from error


def _is_json(raw: bytes) -> bool:
    try:
        _parsed(raw)
    except InputError:
        return False
    return True


_DOCUMENT = re.compile(rb'\s*(?:\[|\{\s*\Z|\{\s*"results"\s*:)')


def _begins_document(raw: bytes) -> bool:
    return _DOCUMENT.match(raw) is not None
