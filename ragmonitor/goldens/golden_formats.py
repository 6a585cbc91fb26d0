"""Golden questions in the dataset files of other tools, out and in.

Column names as of RAGAS 0.4.3 (`Testset.to_list`), DeepEval 4.3.1 (`EvaluationDataset.save_as`),
LangSmith 0.14.17 (`Example`), Langfuse 5.0.4 (`DatasetItem`) and Phoenix 20.26.1 (a dataset's JSONL
and CSV). What a format has no column for stands in its metadata; where it has none, it is lost, and
whoever writes the file says so.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, get_type_hints

import msgspec

from ragmonitor.capture.otel_spans.texts import message_of
from ragmonitor.errors import InputError
from ragmonitor.goldens.golden import REFERENCES, Golden, GoldenKind, Turn
from ragmonitor.patterns import lazy_pattern

Record = dict[str, Any]
_OF_OURS: Final = "ragmonitor_"
"""The beginning of the synthesizers' names in our RAGAS files."""
_TURN: Final = lazy_pattern(r"(user|assistant): (.*)")
_SYNTHESIZERS: Final = {
    "single_hop": GoldenKind.SINGLE_FACT,
    "multi_hop_abstract": GoldenKind.COMPARISON,
    "multi_hop": GoldenKind.SEVERAL_CHUNKS,
}
"""RAGAS' own synthesizers, by what their names begin with."""
_QUESTIONS: Final = ("question", "input", "query", "user_input", "prompt")
_ANSWERS: Final = ("answer", "output", "reference", "expected_output", "ground_truth", "response")
_SAID: Final = ("kind", "difficulty", "language", "source", "status")
_TYPES: Final = get_type_hints(Golden)


@dataclass(frozen=True, slots=True, kw_only=True)
class GoldenFormat:
    """Reads and writes golden questions as one tool has them."""

    fits: Callable[[Mapping[str, Any]], bool]
    """Whether a record is of this tool, by its columns."""
    write: Callable[[Golden], Record]
    read: Callable[[Mapping[str, Any]], Golden]
    """Raises `InputError`."""


def recognised(record: Mapping[str, Any]) -> str:
    """Return the name of the format that a record is of.

    Raises:
        InputError: It is of none; the message names its columns.
    """
    form = next((name for name, each in FORMATS.items() if each.fits(record)), None)
    if form is None:
        columns = ", ".join(map(repr, list(record)[:8])) or "(none)"
        raise InputError(f"no format has the columns {columns}; known: {', '.join(FORMATS)}")
    return form


def _made(record: Mapping[str, Any]) -> Golden:
    """Return the golden question of a record in our own columns.

    Raises:
        InputError: A field has another type, or there is no question.
    """
    try:
        golden = msgspec.convert(dict(record), Golden)
    except msgspec.ValidationError as error:
        raise InputError(str(error)) from error
    if not golden.question.strip():
        raise InputError("the question is empty")
    return golden


# --- metadata -------------------------------------------------------------------------------------


def _metadata(golden: Golden, *without: str) -> Record:
    """Return the fields of ours, also such that have their default: another tool knows none."""
    record = {name: getattr(golden, name) for name in _SAID} | _plain(golden)
    return {name: value for name, value in record.items() if name not in without}


def _plain(golden: Golden) -> Record:
    record: Record = msgspec.json.decode(msgspec.json.encode(golden))
    return record


def _with_metadata(fields: Record, metadata: Any, tool: str) -> Golden:
    """Return a golden question of a tool's own columns and of its metadata.

    Metadata of other people's that are no field of ours become attributes.
    """
    merged: Record = {}
    attributes: dict[str, str] = {}
    for name, value in (_json(metadata) or {}).items():
        if name in _TYPES and _is_one(value, _TYPES[name]):
            merged[name] = value
        elif isinstance(value, str | int | float) and name not in fields:
            attributes[str(name)] = str(value)
    merged |= {name: value for name, value in fields.items() if value or name not in merged}
    if attributes:
        merged["attributes"] = attributes | merged.get("attributes", {})
    merged.setdefault("source", tool)
    return _made(merged)


def _is_one(value: object, kind: Any) -> bool:
    try:
        msgspec.convert(value, kind)
    except msgspec.ValidationError:
        return False
    return True


def _json(value: object) -> Record | None:
    """Return an object, also one that a cell of a table holds as text; None: it is none."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            return None
    return value if isinstance(value, dict) else None


def _messages(cell: object) -> list[Record]:
    """Return the messages that a cell of a table holds as Python writes them; none: it has none."""
    try:
        messages = (
            ast.literal_eval(cell) if isinstance(cell, str) and cell.startswith("[{") else None
        )
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return []
    if not isinstance(messages, list):
        return []
    is_conversation = all(
        isinstance(each, dict) and {"content", "type"} <= each.keys() for each in messages
    )
    return messages if is_conversation else []


def _list(value: object, separator: str | None = None) -> list[str]:
    """Return texts, also those that a cell of a table holds as JSON or as Python writes them."""
    if isinstance(value, str):
        text: str = value
        for parse in (json.loads, ast.literal_eval):
            try:
                value = parse(text)
            except (ValueError, SyntaxError, MemoryError, RecursionError):
                continue
            if isinstance(value, list):
                break
        if not isinstance(value, list):
            value = text.split(separator) if separator else [text]
    return [str(each) for each in value if str(each)] if isinstance(value, list | tuple) else []


# --- questions and answers that are objects -------------------------------------------------------


def _asked(golden: Golden) -> Record:
    history = [{"role": turn.role, "content": turn.text} for turn in golden.history]
    return {"question": golden.question} | ({"chat_history": history} if history else {})


def _question(value: object) -> Record:
    """Return question and history of an input: a text, an object, or a list of messages."""
    inputs = _json(value)
    if inputs is None:
        return {"question": _one(value, _QUESTIONS)}
    messages = inputs.get("messages")
    if isinstance(messages, list) and messages:
        *before, last = _turns(messages)
        return {"question": last["text"], "history": before}
    history = _turns(inputs.get("chat_history") or ())
    return {"question": _one(inputs, _QUESTIONS)} | ({"history": history} if history else {})


def _turns(messages: object) -> list[Record]:
    """Return the turns of a list of messages: of OpenAI's, or as LangChain or LangSmith write them.

    Raises:
        InputError: It is none, or one of them is none.
    """
    if not isinstance(messages, list | tuple):
        raise InputError(f"expected a list of messages, not a {type(messages).__name__}")
    return [_turn(message) for message in messages]


def _turn(message: object) -> Record:
    role, text = message_of(message)
    if not role and isinstance(message, dict):  # with another name for its text, or without one
        said = message.get("role") or message.get("type")
        role, text = str(said or ""), str(message.get("text") or "")
        role = {"human": "user", "ai": "assistant"}.get(role, role)
    if not role:
        raise InputError("expected messages, each with a role and a content")
    return {"role": role, "text": text}


def _one(value: object, names: Sequence[str]) -> str:
    """Return the text of a value: itself, or of an object the first of the names, or its only one.

    Raises:
        InputError: It has none, or several of which none is known.
    """
    whole = _json(value) if names else None
    if whole is not None:
        values = [whole[name] for name in names if isinstance(whole.get(name), str)]
        values = values or [each for each in whole.values() if isinstance(each, str)]
        if len(values) == 1 or any(name in whole for name in names):
            return str(values[0]) if values else ""
        raise InputError(f"expected one of {', '.join(names)}, not {', '.join(whole) or '(none)'}")
    if value is None:
        return ""
    if not isinstance(value, str):
        raise InputError(f"expected a text, not a {type(value).__name__}")
    return value


# --- our own --------------------------------------------------------------------------------------


def _of_ours(record: Mapping[str, Any]) -> Golden:
    """Return a golden question, also of a recorded interaction that has a reference answer.

    The `answer` of such a record, which `ragmonitor score` reads, is what the application said.

    Raises:
        InputError: It is none.
    """
    if "evaluations" in record:
        raise InputError(
            "a report of a monitor, whose answer is the application's own; `ragmonitor goldens "
            "mine` takes it"
        )
    reference = next((name for name in record if name in REFERENCES), None)
    if reference is None:
        return _made(record)
    fields = dict(record) | {"answer": next(iter(_list(record[reference])), "")}
    texts = _list(record.get("reference_contexts"))
    return _made({"chunks": [{"text": text} for text in texts]} | fields)


# --- the tools ------------------------------------------------------------------------------------


def _to_ragas(golden: Golden) -> Record:
    # A conversation in lines, since RAGAS evaluates lists of messages only apart from questions.
    record: Record = {"user_input": _in_lines(golden)}
    if golden.chunks:
        record["reference_contexts"] = [chunk.text for chunk in golden.chunks]
        if all(chunk.id for chunk in golden.chunks):
            record["reference_context_ids"] = [chunk.id for chunk in golden.chunks]
    return record | {
        "reference": golden.answer,
        "synthesizer_name": f"{_OF_OURS}{golden.kind.value}",
    }


def _in_lines(golden: Golden) -> str:
    if not golden.history:
        return golden.question
    turns = [*golden.history, Turn(role="user", text=golden.question)]
    return "\n".join(f"{turn.role}: " + turn.text.replace("\n", " ") for turn in turns)


def _of_lines(text: str) -> Record:
    """Return question and history of a conversation as `_in_lines` writes it."""
    lines = [_TURN.fullmatch(line) for line in text.split("\n")]
    turns = [{"role": line[1], "text": line[2]} for line in lines if line is not None]
    if len(lines) < 2 or len(turns) < len(lines) or turns[-1]["role"] != "user":
        return {"question": text}
    return {"question": turns.pop()["text"], "history": turns}


def _of_ragas(record: Mapping[str, Any]) -> Golden:
    asked = record["user_input"]
    name = str(record.get("synthesizer_name") or "")
    messages = asked if isinstance(asked, list) else _messages(asked)
    if messages:
        fields = _question({"messages": messages})
    elif isinstance(asked, str) and name.startswith(_OF_OURS):
        fields = _of_lines(asked)
    else:
        fields = {"question": asked}
    texts = _list(record.get("reference_contexts") or [])
    ids = _list(record.get("reference_context_ids") or [])
    ids = ids if len(ids) == len(texts) else [""] * len(texts)
    fields["chunks"] = [{"text": t, "id": i} for t, i in zip(texts, ids, strict=True)]
    fields["answer"] = record.get("reference") or ""
    kinds = [kind for kind in GoldenKind if name == f"{_OF_OURS}{kind.value}"]
    kinds += [kind for begin, kind in _SYNTHESIZERS.items() if name.startswith(begin)]
    kinds += [GoldenKind.FOLLOW_UP] if fields.get("history") else []
    return _with_metadata(fields | ({"kind": kinds[0].value} if kinds else {}), None, "ragas")


def _to_deepeval(golden: Golden) -> Record:
    return {
        "input": golden.question,
        "actual_output": None,
        "expected_output": golden.answer or None,
        "context": [chunk.text for chunk in golden.chunks] or None,
        "retrieval_context": None,
        "name": golden.id,
        "comments": golden.comment or None,
        "source_file": next((chunk.source for chunk in golden.chunks if chunk.source), None),
        "additional_metadata": _metadata(golden, "question", "answer", "id", "comment"),
    }


def _of_deepeval(record: Mapping[str, Any]) -> Golden:
    if record.get("scenario"):
        raise InputError("a conversational golden has a scenario and no question")
    source = record.get("source_file") or ""
    fields: Record = {
        "question": record.get("input"),
        "answer": record.get("expected_output") or "",
        "id": record.get("name") or "",
        "comment": record.get("comments") or "",
    }
    metadata = _json(record.get("additional_metadata")) or {}
    texts = _list(record.get("context") or [], "|")
    if texts and "chunks" not in metadata:
        fields["chunks"] = [{"text": text, "source": source} for text in texts]
    return _with_metadata(fields, metadata, "deepeval")


def _to_langsmith(golden: Golden) -> Record:
    return {
        "inputs": _asked(golden),
        "outputs": {"answer": golden.answer},
        "metadata": _metadata(golden, "question", "answer", "history"),
    }


def _of_langsmith(record: Mapping[str, Any]) -> Golden:
    fields = _question(record["inputs"])
    fields["answer"] = _one(record.get("outputs") or None, _ANSWERS)
    return _with_metadata(fields, record.get("metadata"), "langsmith")


def _to_langfuse(golden: Golden) -> Record:
    return {
        "id": golden.id,
        "input": _asked(golden),
        "expectedOutput": {"answer": golden.answer},
        "metadata": _metadata(golden, "question", "answer", "history", "id"),
        "status": "ARCHIVED" if golden.status.value == "rejected" else "ACTIVE",
    }


def _of_langfuse(record: Mapping[str, Any]) -> Golden:
    fields = _question(record["input"])
    fields["answer"] = _one(record.get("expectedOutput") or None, _ANSWERS)
    fields["id"] = str(record.get("id") or "")
    metadata = _json(record.get("metadata")) or {}
    if record.get("status") == "ARCHIVED":
        fields["status"] = "rejected"
    return _with_metadata(fields, metadata, "langfuse")


def _to_phoenix(golden: Golden) -> Record:
    return {
        "id": golden.id,
        "input": _asked(golden),
        "output": {"answer": golden.answer},
        "metadata": _metadata(golden, "question", "answer", "history", "id"),
        "splits": [],
    }


def _of_phoenix(record: Mapping[str, Any]) -> Golden:
    if any(name.startswith("input.") for name in record):
        record = _nested(record)
    fields = _question(record["input"])
    fields["answer"] = _one(record.get("output") or None, _ANSWERS)
    fields["id"] = str(record.get("id") or "")
    return _with_metadata(fields, record.get("metadata"), "phoenix")


def _nested(row: Mapping[str, Any]) -> Record:
    """Return the record of a row of Phoenix' CSV, whose columns are `input.question` and so on."""
    record: Record = {"id": row.get("id")}
    for name, cell in row.items():
        first, *inner = name.split(".")
        if first not in ("input", "output", "metadata") or not inner or cell in (None, ""):
            continue
        place = record.setdefault(first, {})
        for part in inner[:-1]:
            place = place.setdefault(part, {})
        is_list = isinstance(cell, str) and name.split(".")[1:] in _LISTS
        place[inner[-1]] = json.loads(cell) if is_list else cell
    return record


_LISTS: Final = (["chat_history"], ["messages"], ["chunks"])


def flattened(record: Mapping[str, Any]) -> Record:
    """Return a record as a row of Phoenix' CSV: nested names with points, lists as JSON."""
    row: Record = {}
    for name, value in record.items():
        if isinstance(value, dict):
            row |= {f"{name}.{inner}": cell for inner, cell in flattened(value).items()}
        else:
            row[name] = json.dumps(value, ensure_ascii=False) if isinstance(value, list) else value
    return row


def _has(*names: str) -> Callable[[Mapping[str, Any]], bool]:
    return lambda record: any(name in record for name in names)


FORMATS: Final[dict[str, GoldenFormat]] = {
    "ragas": GoldenFormat(fits=_has("user_input"), write=_to_ragas, read=_of_ragas),
    "deepeval": GoldenFormat(
        fits=_has("expected_output", "additional_metadata", "scenario"),
        write=_to_deepeval,
        read=_of_deepeval,
    ),
    "langsmith": GoldenFormat(fits=_has("inputs"), write=_to_langsmith, read=_of_langsmith),
    "langfuse": GoldenFormat(fits=_has("expectedOutput"), write=_to_langfuse, read=_of_langfuse),
    "phoenix": GoldenFormat(
        fits=lambda record: (
            "question" not in record
            and ("input" in record or any(name.startswith("input.") for name in record))
        ),
        write=_to_phoenix,
        read=_of_phoenix,
    ),
    "ragmonitor": GoldenFormat(fits=_has("question"), write=_plain, read=_of_ours),
}
"""The formats by name, in the order in which a record's columns are looked at."""
