"""Reads the Markdown and text that questions are made of, and cuts it into chunks."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from ragmonitor.goldens.golden import ReferenceChunk
from ragmonitor.judges import sentences as splitter
from ragmonitor.records import Language
from ragmonitor.runtime.errors import InputError
from ragmonitor.runtime.patterns import lazy_pattern

SUFFIXES: Final = (".md", ".markdown", ".rst", ".txt")
"""Other files of a folder are passed over."""
CHUNK_CHARACTERS: Final = 1_200
"""A chunk has at most so many, unless one sentence, table or block of code alone is longer."""
MIN_CHUNK_CHARACTERS: Final[Mapping[Language, int]] = {"en": 80, "zh": 30}
"""Shorter chunks hold nothing to ask about; a Chinese character says as much as three letters."""
_HEADING: Final = lazy_pattern(r"#{1,6}[ \t]")
_BLOCK_END: Final = lazy_pattern(r"\n[ \t]*(?=\n)|\n(?=#{1,6}[ \t])")
_FENCE: Final = lazy_pattern(r"^[ \t]{0,3}(?:```|~~~)")


@dataclass(slots=True, kw_only=True)
class SourceChunks:
    """The chunks of all documents, and what could not be read."""

    chunks: list[ReferenceChunk] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    """One line for each document that was left out."""


def read_documents(path: Path) -> SourceChunks:
    """Return the chunks of a file or a folder of documents.

    Raises:
        InputError: It is not there, or holds nothing that could be asked about.
    """
    if not path.exists():
        raise InputError(f"{path}: no such file or folder")
    source = SourceChunks()
    for file in _files(path):
        name = file.name if path.is_file() else file.relative_to(path).as_posix()
        try:
            parts = cut(_text_of(file, path))
        except (InputError, OSError) as error:
            source.problems.append(f"{name}: {error}")
            continue
        source.chunks += [
            ReferenceChunk(text=part, source=name)
            for part in parts
            if len(part.strip()) >= MIN_CHUNK_CHARACTERS[splitter.language(part)]
        ]
    if not source.chunks:
        why = "; ".join(source.problems[:3]) or f"expected texts in {', '.join(SUFFIXES)}"
        raise InputError(f"{path}: nothing to ask about ({why})")
    return source


def _files(path: Path) -> Iterator[Path]:
    """Yield the documents of a folder in the order of their names; nothing whose name is hidden."""
    if path.is_file():
        yield path
        return
    for folder, folders, names in os.walk(path):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        files = (Path(folder) / name for name in sorted(names) if not name.startswith("."))
        yield from (file for file in files if file.suffix.lower() in SUFFIXES)


def _text_of(file: Path, path: Path) -> str:
    """Return the text of a file in the named place. Raises `InputError`: there is none in it."""
    if file.suffix.lower() not in SUFFIXES:
        raise InputError(
            f"expected one of {', '.join(SUFFIXES)}; convert others to Markdown, such as by pandoc "
            "or markitdown"
        )
    if not file.resolve().is_relative_to(path.resolve()):
        raise InputError("a link to a place outside of this folder")
    try:
        text = file.read_text("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError("no UTF-8; convert it, of GBK by: iconv -f GB18030 -t UTF-8") from error
    if not text.strip():
        raise InputError("no text in it")
    return text


def cut(text: str, *, most: int = CHUNK_CHARACTERS) -> list[str]:
    """Return a Markdown text in chunks: a heading begins one, and paragraphs are filled up to it.

    Of a block of code an empty line is an end, and a line that begins with `# ` a heading, too.

    Args:
        text: Of a document.
        most: Characters of a chunk. A longer paragraph is cut between sentences.
    """
    chunks: list[str] = []
    room = 0
    for block in (each.strip("\n") for each in _BLOCK_END.split(text) if each.strip()):
        begins = bool(_HEADING.match(block))
        for part in _pieces(block, most):
            if chunks and not begins and len(part) + 2 <= room:
                chunks[-1] += f"\n\n{part}"
            else:
                chunks.append(part)
            begins = False
            room = most - len(chunks[-1])
    return chunks


def _pieces(block: str, most: int) -> list[str]:
    if len(block) <= most or _FENCE.match(block) or block.lstrip().startswith("|"):
        return [block]
    pieces: list[str] = []
    for sentence in splitter.split(block):
        if pieces and len(pieces[-1]) + 1 + len(sentence.text) <= most:
            pieces[-1] += f" {sentence.text.strip()}"
        else:
            pieces.append(sentence.text.strip())
    return pieces
