"""Reads and writes files of golden questions in any format: JSON lines, JSON, CSV, Parquet."""

from __future__ import annotations

import csv
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path
from typing import Any, Final

import msgspec

from ragmonitor.errors import InputError, MissingExtraError
from ragmonitor.export.content import encodable
from ragmonitor.export.jsonl import owners_alone
from ragmonitor.goldens.golden import NO_UTF_8, Golden, write_goldens
from ragmonitor.goldens.golden_formats import FORMATS, flattened, recognised
from ragmonitor.offline.tables import guarded, unguarded

TABLES: Final = ("csv", "parquet")
"""Formats with our own columns."""
TOO_DEEP: Final = "it is nested too deeply to be read"
NESTED: Final = ("chunks", "history", "attributes")
_WORDS: Final = frozenset({"status", "kind", "difficulty", "language"})
MAX_CELL_BYTES: Final = 64 * 1024 * 1024


@dataclass(slots=True, kw_only=True)
class GoldensRead:
    """The golden questions of a file, and what was none."""

    goldens: list[Golden] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    """One line for each record that could not be read."""
    formats: Counter[str] = field(default_factory=Counter)
    columns: set[str] = field(default_factory=set)
    """The names in a CSV's header, or in any record of another file."""


def read_any(path: Path) -> GoldensRead:
    """Return the golden questions of a file of any format, recognised record by record.

    Raises:
        InputError: The file cannot be read, its first record is of no known format, or there is
            none but broken ones.
        MissingExtraError: It is Parquet, and pyarrow is not installed.
    """
    read = GoldensRead()
    is_first = True
    try:
        for number, record in enumerate(_records(path, read.columns), 1):
            try:
                if isinstance(record, InputError):
                    raise record
                read.columns.update(record)
                name = recognised(record)
                read.goldens.append(FORMATS[name].read(record))
                read.formats[name] += 1
            except (InputError, KeyError, AttributeError, ValueError, TypeError) as error:
                if is_first and isinstance(error, InputError) and "no format" in str(error):
                    raise InputError(f"{path}: {error}") from error
                read.errors.append(f"record {number}: {error}")
            is_first = is_first and isinstance(record, InputError)
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: {NO_UTF_8}") from error
    except RecursionError as error:
        raise InputError(f"{path}: {TOO_DEEP}") from error
    except (OSError, csv.Error, ValueError) as error:
        raise InputError(f"{path}: {error}") from error
    if is_first and read.errors:
        raise InputError(f"{path}: {read.errors[0]}")
    return read


def write_any(path: Path, goldens: Sequence[Golden], name: str) -> Counter[str]:
    """Write a file, and return in how many of them which fields were lost.

    Raises:
        InputError: The format is none of this suffix.
        OSError: It cannot be written.
        MissingExtraError: It is Parquet, and pyarrow is not installed.
    """
    suffix = path.suffix.lower()
    if name in TABLES and suffix != f".{name}":
        raise InputError(f"{path}: {name} is written to a file whose name ends with .{name}")
    if name == "parquet":
        _write_parquet(path, goldens)
    elif name == "csv" or (suffix == ".csv" and name in ("ragmonitor", "phoenix")):
        if name == "phoenix":
            rows = [flattened(FORMATS[name].write(golden)) for golden in goldens]
        else:
            rows = [_cells(golden) for golden in goldens]
        _write_csv(path, rows)
    elif suffix in (".csv", ".parquet"):
        raise InputError(f"{path}: {name} is written as JSON lines (.jsonl) or as JSON (.json)")
    elif name == "ragmonitor" and suffix != ".json":
        write_goldens(path, goldens)
    else:
        records = [FORMATS[name].write(golden) for golden in goldens]
        with open(path, "w", encoding="utf-8", opener=owners_alone) as file:
            file.write(as_json(records, as_list=suffix == ".json"))
    return _lost(path, goldens)


def as_json(records: Sequence[Mapping[str, Any]], *, as_list: bool = False) -> str:
    """Return records as JSON lines, or as one list."""
    if as_list:
        return json.dumps(records, ensure_ascii=False, indent=1) + "\n"
    return "".join(json.dumps(each, ensure_ascii=False) + "\n" for each in records)


def _lost(path: Path, goldens: Sequence[Golden]) -> Counter[str]:
    """Return what does not come back out of the file: it is read again to see."""
    lost = Counter[str]()
    for golden, back in zip_longest(goldens, read_any(path).goldens):
        for name in Golden.__struct_fields__:
            lost[name] += getattr(back, name, None) != getattr(golden, name, None)
    return +lost


# --- reading --------------------------------------------------------------------------------------


def _records(path: Path, columns: set[str]) -> Iterator[Mapping[str, Any] | InputError]:
    """Yield a file's records without empty cells, or why one is none, and add a CSV's columns."""
    suffix = path.suffix.lower()
    if suffix == ".parquet":
        yield from _parquet_rows(path)
    elif suffix == ".csv":
        yield from _csv_rows(path, columns)
    else:
        text = path.read_text("utf-8-sig")
        if text.lstrip().startswith("["):
            values = _loaded(text)
        else:
            values = (_parsed(line) for line in text.split("\n") if line.strip())
        for value in values:
            if isinstance(value, dict | InputError):
                yield value
            else:
                yield InputError(f"expected objects, not a {type(value).__name__}")


def _loaded(text: str) -> Any:
    """Return the value of a JSON text, with a mark for each half of a character: no file holds it.

    Raises:
        ValueError: It is no JSON.
    """
    value = json.loads(text)
    if "\\ud" in text.lower():
        value = json.loads(encodable(json.dumps(value, ensure_ascii=False)))
    return value


def _parsed(text: str) -> Any:
    """Return the value of a JSON text, or the error that stands for it."""
    try:
        return _loaded(text)
    except ValueError as error:
        return InputError(f"no JSON: {error}")
    except RecursionError:
        return InputError(TOO_DEEP)


def _csv_rows(path: Path, columns: set[str]) -> Iterator[Mapping[str, Any] | InputError]:
    csv.field_size_limit(max(csv.field_size_limit(), MAX_CELL_BYTES))
    with path.open(encoding="utf-8-sig", newline="") as file:
        header = file.readline()
        file.seek(0)
        # Where commas are decimal marks, spreadsheets separate cells by semicolons.
        marks = [mark for mark in ",;\t" if mark in header]
        table = csv.DictReader(file, delimiter=marks[0] if marks else ",")
        columns.update(filter(None, table.fieldnames or ()))
        for row in table:
            yield _csv_row(row)


def _csv_row(row: Mapping[str, str]) -> Mapping[str, Any] | InputError:
    cells: dict[str, Any] = {name: unguarded(cell) for name, cell in row.items() if name and cell}
    if "question" not in row:
        return cells
    cells.setdefault("question", "")  # emptied: a record of ours all the same
    for name in _WORDS & cells.keys():
        cells[name] = cells[name].strip().lower()  # as people write, and spreadsheets correct
    for name in NESTED:
        if name in cells:
            cells[name] = _parsed(cells[name])
            if isinstance(cells[name], InputError):
                return InputError(f"{name}: {cells[name]}")
    return cells


def _parquet_rows(path: Path) -> Iterator[Mapping[str, Any]]:
    parquet = _pyarrow("parquet")
    for row in parquet.read_table(path).to_pylist():
        record = {name: value for name, value in row.items() if value is not None}
        if isinstance(record.get("attributes"), list):  # a map comes as pairs
            record["attributes"] = dict(record["attributes"])
        yield record


# --- writing --------------------------------------------------------------------------------------


def _cells(golden: Golden) -> dict[str, Any]:
    record: dict[str, Any] = msgspec.structs.asdict(golden) | msgspec.to_builtins(golden)
    for name in NESTED:
        record[name] = json.dumps(record[name], ensure_ascii=False) if record[name] else ""
    return record | {"kind": str(golden.kind), "status": str(golden.status)}


def _write_csv(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    columns = list(dict.fromkeys(name for row in rows for name in row))
    # Excel takes UTF-8 for what it is only by this mark, and Chinese for Chinese then.
    with open(path, "w", encoding="utf-8-sig", newline="", opener=owners_alone) as file:
        table = csv.DictWriter(file, columns or list(Golden.__struct_fields__), restval="")
        table.writeheader()
        for row in rows:
            table.writerow(
                {name: guarded(v) if isinstance(v, str) else v for name, v in row.items()}
            )


def _write_parquet(path: Path, goldens: Iterable[Golden]) -> None:
    pa, parquet = _pyarrow(), _pyarrow("parquet")
    text = pa.string()
    kinds = {
        "chunks": pa.list_(pa.struct([("text", text), ("id", text), ("source", text)])),
        "history": pa.list_(pa.struct([("role", text), ("text", text)])),
        "attributes": pa.map_(text, text),
    }
    schema = pa.schema([(name, kinds.get(name, text)) for name in Golden.__struct_fields__])
    rows = []
    for golden in goldens:
        row = msgspec.structs.asdict(golden)
        row["chunks"] = [msgspec.structs.asdict(chunk) for chunk in golden.chunks]
        row["history"] = [msgspec.structs.asdict(turn) for turn in golden.history]
        row["attributes"] = list(golden.attributes.items())
        rows.append(row | {"kind": golden.kind.value, "status": golden.status.value})
    with open(path, "wb", opener=owners_alone) as file:
        parquet.write_table(pa.Table.from_pylist(rows, schema=schema), file)


def _pyarrow(part: str = "") -> Any:
    try:
        import pyarrow as pa
        from pyarrow import parquet
    except ImportError as error:
        raise MissingExtraError("pyarrow, which reads and writes Parquet,", "datasets") from error
    return parquet if part else pa
