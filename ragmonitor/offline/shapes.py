"""Reads recorded interactions in the formats of several tools into `Interaction` records."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from typing import Any, Literal, get_args

from ragmonitor.errors import InputError
from ragmonitor.records import Chunk, Interaction, Status

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
LISTS = frozenset(
    name
    for choices in COLUMNS.values()
    for columns in choices
    for name in (columns.contexts, columns.reference_contexts, "not_shown", "ground_truths")
)
"""Columns that hold lists; in a table they may hold a list as text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One line of a file, or one of given records: an interaction, or why it is none."""

    number: int
    """From 1; of a table or of one JSON document, the position of the record."""
    interaction: Interaction | None = None
    error: str = ""


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
            self._columns = self._recognised(number, value)
        try:
            interaction = read_record(value, self._columns, number)
        except InputError as error:
            return Line(number=number, error=str(error))
        return Line(number=number, interaction=interaction)

    def _recognised(self, number: int, record: Mapping[str, Any]) -> tuple[Columns, ...]:
        fitting = _fitting(record)
        if fitting:
            return fitting
        raise _unknown_columns(
            f"{self._name or 'records'}, record {number}",
            record,
            "To go on in spite of this record, name the format with --format" if self._name else "",
        )


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


def records_of(document: object) -> Iterator[object]:
    """Return the records of one JSON document.

    They stand in a list, in one under `results` (RAGChecker; `input_data` in its older files), or
    as one list for each column (a data set, or a table of pandas, as JSON).
    """
    if isinstance(document, list):
        yield from document
        return
    if isinstance(document, dict):
        for name in ("results", "input_data"):
            if isinstance(document.get(name), list):
                yield from document[name]
                return
        if (columns := _columnar(document)) is not None:
            for row in zip(*columns.values(), strict=True):
                yield dict(zip(columns, row, strict=True))
            return
    yield document


def is_columnar(value: object) -> bool:
    """Return whether a JSON value holds its records as one list for each column."""
    return isinstance(value, dict) and _columnar(value) is not None


def _columnar(document: Mapping[str, Any]) -> dict[str, list[Any]] | None:
    columns = {
        name: [*column.values()] if isinstance(column, dict) else column
        for name, column in document.items()
    }
    lists = {name: column for name, column in columns.items() if isinstance(column, list)}
    for choices in COLUMNS.values():
        for choice in choices:
            # A question that is a list is no question: this is what tells it from a record.
            if choice.fit(lists):
                length = len(lists[choice.question])
                return {name: column for name, column in lists.items() if len(column) == length}
    return None


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
        chunks=_chunks(value[chosen.contexts], chosen.contexts),
        not_shown=_chunks(value.get("not_shown") or [], "not_shown"),
        answer=_text(value, chosen.answer),
        reference=_reference(value, chosen.reference),
        reference_chunks=_chunks(
            value.get(chosen.reference_contexts) or [], chosen.reference_contexts
        ),
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
        int: "a number",
        float: "a number",
        type(None): "null",
    }
    return kinds.get(type(value)) or f"a {type(value).__name__}"
