"""Reads recorded interactions in the formats of several tools into `Interaction` records."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, get_args

from ragmonitor.export import is_feedback
from ragmonitor.records import SOURCES, Chunk, Interaction, Status
from ragmonitor.runtime.errors import InputError
from ragmonitor.runtime.tables import MAX_NESTING, Row, read_list, records_of, table_rows


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
COLUMNS: dict[str, Columns] = {
    # RAGAS before 0.2 had the same names as we have, and names of its own for the reference.
    "ragmonitor": Columns(
        question="question",
        contexts="contexts",
        answer="answer",
        reference=("reference", "ground_truth", "ground_truths"),
    ),
    "ragas": Columns(question="user_input", contexts="retrieved_contexts", answer="response"),
    "ragchecker": Columns(
        question="query",
        contexts="retrieved_context",
        answer="response",
        id="query_id",
        reference=("gt_answer",),
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One line of a file, or one of given records: an interaction, or why it is none."""

    number: int
    """From 1; of a table or of one JSON document, the position of the record."""
    interaction: Interaction | None = None
    error: str = ""


def read_file(path: str) -> Iterator[Line]:
    """Yield every line of a file (`-`: standard input) that is not blank, as it is asked for.

    What people said of answers is passed over.

    Raises:
        InputError: The file is not there, or cannot be read; the columns of the first record belong
            to no format that we know; or the whole file is broken.
        MissingExtraError: It is Parquet, and pyarrow is not installed.
    """
    rows = table_rows(path, columns=chain(*(columns.known for columns in COLUMNS.values())))
    name = "standard input" if path == "-" else path
    return _lines((row for row in rows if not is_feedback(row.value)), name)


def read_given(
    records: Iterable[Interaction | Mapping[str, Any]] | Mapping[str, Any],
) -> Iterator[Line]:
    """Yield a line for each of the records, which may be of several formats.

    Args:
        records: One after the other; or what a JSON document of them would hold, as `records_of`.

    Raises:
        InputError: The first is no record at all: a text was given, or a table of pandas; or a
            mapping of no format that we know.
    """
    source = records_of(dict(records)) if isinstance(records, Mapping) else records
    rows = (
        Row(number=number, value=dict(record) if isinstance(record, Mapping) else record)
        for number, record in enumerate(source, 1)
    )
    first = next(rows, None)
    if first is None:
        return iter(())
    if not isinstance(first.value, Interaction | dict):
        raise InputError(
            f"records, record 1: expected a mapping or an Interaction, not a "
            f"{type(first.value).__name__}; `ragmonitor score FILE` reads files; of a pandas table "
            "give table.to_dict('records'), of RAGAS' EvaluationDataset dataset.to_list()"
        )
    return _lines(chain([first], rows), "records")


def _lines(rows: Iterable[Row], name: str) -> Iterator[Line]:
    is_known = False
    for row in rows:
        if row.error:
            yield Line(number=row.number, error=row.error)
        elif isinstance(row.value, Interaction):
            yield Line(number=row.number, interaction=row.value)
        else:
            if not is_known and isinstance(row.value, dict):
                # Not caught here: whoever gave the wrong file hears it once, not per line.
                columns_of(row.value, f"{name}, record {row.number}")
                is_known = True
            yield read_line(row.value, row.number)


def columns_of(names: Iterable[str], source: str) -> Columns:
    """Return the columns of the format that a record or a table is of.

    Args:
        names: Of its columns.
        source: What the message calls it.

    Raises:
        InputError: It is of no format that we know.
    """
    known = {*names}
    for columns in COLUMNS.values():
        if known.issuperset(columns.required):
            return columns
    formats = (f"{form}: {', '.join(each.required)}" for form, each in COLUMNS.items())
    raise InputError(
        f"{source}: no format has the columns {', '.join(map(repr, [*names][:8])) or '(none)'}; "
        f"expected {'; '.join(formats)}. Rename the columns; where nothing was retrieved the "
        "contexts are []; give the input of `ragmonitor score`, since its output has no texts"
    )


def read_line(value: object, number: int) -> Line:
    """Return the interaction that a JSON value describes, or why it is none."""
    try:
        return Line(number=number, interaction=_interaction(value, number))
    except InputError as error:
        return Line(number=number, error=str(error))


def _interaction(value: object, number: int) -> Interaction:
    """Return the interaction that a JSON value describes. Raises `InputError`: it describes none.

    Args:
        value: Anything that JSON can hold.
        number: Stands in for a missing id.
    """
    if not isinstance(value, dict):
        raise InputError(f"expected an object, not {_kind(value)}")
    chosen = columns_of(value, "the record")
    value = {name: _plain(each) for name, each in value.items()}
    if value.get("content") == "hashed":
        raise InputError("its texts are hashes; record with content='all' to read them again")
    identity = value.get(chosen.id)
    if identity is not None and (isinstance(identity, bool) or not isinstance(identity, str | int)):
        raise InputError(f"{chosen.id}: expected text or a whole number, not {_kind(identity)}")
    status, session = value.get("status"), value.get("session_id")
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
        status=_STATUS.get(status, "ok") if isinstance(status, str) else "ok",
        session_id=session if isinstance(session, str) else "",
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
