"""Reads recorded interactions in the formats of several tools into `Interaction` records."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from typing import Any, Literal, get_args

from ragmonitor.export import is_feedback
from ragmonitor.records import SOURCES, Chunk, Interaction, Status
from ragmonitor.runtime.errors import InputError
from ragmonitor.runtime.tables import MAX_NESTING, Table, read_list, records_of

Format = Literal["auto", "ragmonitor", "ragas", "ragchecker"]
"""`auto`: recognised by the columns of the first record."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Columns:
    """The column names of a format."""

    question: str
    contexts: str
    answer: str
    id: str = "id"
    reference: tuple[str, ...] = ("reference",)
    """Columns of the reference answer; the first that is there is taken."""
    reference_contexts: str = "reference_contexts"

    def fit(self, record: Mapping[str, Any]) -> bool:
        """Return whether the record has all of them."""
        return all(name in record for name in self.required)

    @property
    def required(self) -> tuple[str, str, str]:
        """The columns that every record has."""
        return self.question, self.contexts, self.answer

    @property
    def known(self) -> tuple[str, ...]:
        """All columns that are read."""
        return (*self.required, self.id, *self.reference, self.reference_contexts, *_OF_ALL)


_OF_ALL = ("not_shown", "session_id", "content", "status")
_STATUS: dict[object, Status] = {each: each for each in get_args(Status)}
# RAGAS before 0.2 had the same names as we have, and names of its own for the reference.
_OURS = Columns(
    question="question",
    contexts="contexts",
    answer="answer",
    reference=("reference", "ground_truth", "ground_truths"),
)
COLUMNS: dict[Format, tuple[Columns, ...]] = {
    "ragmonitor": (_OURS,),
    "ragas": (
        Columns(question="user_input", contexts="retrieved_contexts", answer="response"),
        _OURS,
    ),
    "ragchecker": (
        Columns(
            question="query",
            contexts="retrieved_context",
            answer="response",
            id="query_id",
            reference=("gt_answer",),
        ),
    ),
}
_KNOWN = frozenset(
    name for choices in COLUMNS.values() for columns in choices for name in columns.known
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One line of a file, or one of given records: an interaction, or why it is none."""

    number: int
    """From 1; of a table or of one JSON document, the position of the record."""
    interaction: Interaction | None = None
    error: str = ""


class Records:
    """The interactions of a file, read as they are asked for; to be gone through once."""

    def __init__(self, path: str, form: Format = "auto") -> None:
        """Look for the file.

        Args:
            path: A file, or `-` for standard input.
            form: The format.

        Raises:
            InputError: It is not there.
        """
        self._table = Table(path, columns=_KNOWN)
        self._reader = Reader(form, name=self._table.name)

    def __iter__(self) -> Iterator[Line]:
        """Yield every line that is not blank, and no feedback of people.

        Raises:
            InputError: The file cannot be read, the columns of the first record belong to no format
                that we know, or the whole file is broken.
            MissingExtraError: It is Parquet, and pyarrow is not installed.
        """
        for row in self._table:
            if row.error:
                yield Line(number=row.number, error=row.error)
            elif not is_feedback(row.value):
                yield self._reader.line(row.number, row.value)


class UnknownColumnsError(InputError):
    """The file is of no format that we know."""


class Reader:
    """Turns the records of one source into lines; the first tells it the format."""

    def __init__(self, form: Format = "auto", *, name: str = "") -> None:
        """Begin.

        Args:
            form: The format.
            name: What messages call the file; empty: there is none.
        """
        self._columns: tuple[Columns, ...] = COLUMNS.get(form, ())
        self._name = name

    def line(self, number: int, value: object) -> Line:
        """Return one line.

        Raises:
            UnknownColumnsError: It is the first record, and of no format that we know.
        """
        if not self._columns and isinstance(value, dict):
            # Not caught here: whoever gave the wrong file hears it once, not per line.
            self._columns = _fitting(value)
            if not self._columns:
                where = f"{self._name or 'records'}, record {number}"
                advice = "To go on in spite of it, name the format with --format"
                raise _unknown_columns(where, value, advice if self._name else "")
        return read_line(value, self._columns, number)


def columns_named(names: Iterable[str], *, source: str) -> Columns:
    """Return the columns of the format that a table with columns of these names is of.

    Args:
        names: Of the table's columns.
        source: What messages call the table.

    Raises:
        UnknownColumnsError: It is of no format that we know.
    """
    record = dict.fromkeys(names)
    fitting = _fitting(record)
    if not fitting:
        raise _unknown_columns(source, record, "Rename the columns")
    return fitting[0]


def _fitting(record: Mapping[str, Any]) -> tuple[Columns, ...]:
    """Return the columns that fit, of the first format of which some do."""
    for columns in COLUMNS.values():
        fitting = tuple(choice for choice in columns if choice.fit(record))
        if fitting:
            return fitting
    return ()


def _unknown_columns(source: str, record: Mapping[str, Any], advice: str) -> UnknownColumnsError:
    return UnknownColumnsError(
        f"{source}: no format has the columns "
        f"{', '.join(map(repr, list(record)[:8])) or '(none)'}; {_lacking(record)}"
        f"expected {expected_columns()}" + (f". {advice}" if advice else "")
    )


def read_given(
    records: Iterable[Interaction | Mapping[str, Any]] | Mapping[str, Any],
) -> Iterator[Line]:
    """Return a line for each of the records, which may be of several formats.

    Args:
        records: One after the other; or what a JSON document of them would hold, as `records_of`.

    Raises:
        InputError: The first is no record at all: a text was given, or a table of pandas.
        UnknownColumnsError: The first mapping is of no format that we know.
    """
    if isinstance(records, str | bytes | PathLike):
        raise InputError(
            "records: expected the records themselves, not a text or a path; "
            "`ragmonitor score FILE` reads files"
        )
    reader = Reader()
    source = records_of(dict(records)) if isinstance(records, Mapping) else records
    for number, record in enumerate(source, 1):
        if isinstance(record, Interaction):
            yield Line(number=number, interaction=record)
        elif isinstance(record, Mapping):
            yield reader.line(number, dict(record))
        elif number == 1:
            raise InputError(
                f"records, record 1: expected a mapping or an Interaction, not a "
                f"{type(record).__name__}; of a pandas table give table.to_dict('records'), of "
                "RAGAS' EvaluationDataset dataset.to_list()"
            )
        else:
            yield reader.line(number, record)


def _lacking(record: Mapping[str, Any]) -> str:
    """Return what alone a record lacks to be of a format, for people; empty: more than one name."""
    for form, choices in COLUMNS.items():
        for choice in choices:
            missing = [name for name in choice.required if name not in record]
            if len(missing) == 1:
                hint = f"as a record of {form} it lacks {missing[0]!r}"
                if missing[0] == choice.contexts:
                    hint += ", which is [] where nothing was retrieved"
                return f"{hint}; "
    return ""


def expected_columns() -> str:
    """Return the formats with their columns, for people."""
    return "; ".join(
        f"{form}: {', '.join(choices[0].required)}" for form, choices in COLUMNS.items()
    )


def read_line(value: object, columns: Sequence[Columns], number: int) -> Line:
    """Return the interaction that a JSON value describes, or why it is none."""
    try:
        return Line(number=number, interaction=read_record(value, columns, number))
    except InputError as error:
        return Line(number=number, error=str(error))


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
    value = {name: _plain(each) for name, each in value.items()}
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
        raise InputError(f"{chosen.id}: expected text or a whole number, not {_kind(identity)}")
    return Interaction(
        id=str(number) if identity in (None, "") else str(identity),
        query=_text(value, chosen.question),
        chunks=_chunks(value, chosen.contexts),
        not_shown=_chunks(value, "not_shown"),
        answer=_text(value, chosen.answer),
        reference=_reference(value, chosen.reference),
        reference_chunks=_chunks(value, chosen.reference_contexts),
        framework="python",
        started_ns=0,
        ended_ns=0,
        # Others call other things a status: what is none of ours says nothing.
        status=_STATUS.get(status, "ok")
        if isinstance(status := value.get("status"), str)
        else "ok",
        session_id=session if isinstance(session := value.get("session_id"), str) else "",
    )


def _plain(value: object) -> object:
    """Return what JSON would hold of a value of pandas or numpy."""
    if hasattr(value, "tolist"):  # numpy's arrays and numbers
        value = value.tolist()
    if isinstance(value, tuple):
        return list(value)
    if isinstance(value, float):
        if math.isnan(value):  # pandas has it where there is no value
            return None
        # A column of integers with a gap is one of floats.
        return int(value) if value.is_integer() else value
    return None if type(value).__name__ in ("NAType", "NaTType") else value


def _text(record: Mapping[str, Any], name: str) -> str:
    text = record[name]
    if not isinstance(text, str):
        raise InputError(f"{name}: expected text, not {_kind(text)}")
    return text


def _reference(record: Mapping[str, Any], names: Sequence[str]) -> str:
    for name in names:
        value = record.get(name)
        if isinstance(value, list) and len(value) == 1:  # as old files of RAGAS have it
            value = value[0]
        if value is None or value == []:
            continue
        if not isinstance(value, str):
            raise InputError(f"{name}: expected a text, not {_kind(value)}")
        return value
    return ""


def _chunks(record: Mapping[str, Any], name: str) -> tuple[Chunk, ...]:
    value = record.get(name)
    if value is None:  # as Parquet has it where there is no list
        return ()
    return tuple(Chunk(text=text, id=id_) for text, id_, _ in read_chunks(value, name))


def read_chunks(value: object, name: str) -> list[tuple[str, str, str]]:
    """Return text, id and source of each chunk in a list, which may hold further lists.

    A chunk is a text, or an object with one under `page_content`, `content` or `text`: also a
    document as LangChain dumps it, or a node as LlamaIndex does.

    Raises:
        InputError: It is no list, or holds something else.
    """
    if isinstance(value, str):
        try:
            value = read_list(value)
        except InputError as error:
            raise InputError(f"{name}: {error}") from error
    if not isinstance(value, list):
        raise InputError(f"{name}: expected a list of texts, not {_kind(value)}")
    chunks: list[tuple[str, str, str]] = []
    for position, item in enumerate(value):
        where = f"{name}[{position}]"
        if isinstance(item, list) and where.count("[") <= MAX_NESTING:
            chunks += read_chunks(item, where)
        else:
            chunks.append(_chunk(item, where))
    return chunks


def _chunk(item: object, name: str) -> tuple[str, str, str]:
    if isinstance(item, str):
        return item, "", ""
    for wrapper in ("kwargs", "node", "__data__"):  # of dumped documents and nodes
        if isinstance(item, dict) and isinstance(item.get(wrapper), dict):
            item = item[wrapper]
    if isinstance(item, dict):
        resource = item.get("text_resource")
        texts = [item.get(key) for key in ("page_content", "content", "text")]
        texts += [resource.get("text")] if isinstance(resource, dict) else []
        text = next((each for each in texts if isinstance(each, str)), None)
        if text is not None:
            ids = (item.get(key) for key in ("doc_id", "id", "id_", "node_id"))
            id_ = next((each for each in ids if isinstance(each, str)), "")
            metadata = item.get("metadata")
            places = [item, metadata if isinstance(metadata, dict) else {}]
            sources = (place.get(key) for place in places for key in ("source", *SOURCES))
            return text, id_, next((each for each in sources if isinstance(each, str)), "")
    raise InputError(
        f"{name}: expected a text, or an object with one under 'page_content', 'content' or 'text'"
    )


def _kind(value: object) -> str:
    return "null" if value is None else f"a value of type {type(value).__name__}"
