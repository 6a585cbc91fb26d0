"""Reads the documents that questions are made of: files, or the store of a framework.

Markdown and text are read as they are. HTML becomes Markdown by markdownify, docx by mammoth and
markdownify, PDF text by pypdf: the extra `documents`.
"""

from __future__ import annotations

import codecs
import importlib
import os
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from ragmonitor.errors import InputError, MissingExtraError
from ragmonitor.goldens.golden import ReferenceChunk
from ragmonitor.imports import imported
from ragmonitor.judges import sentences as splitter
from ragmonitor.patterns import lazy_pattern
from ragmonitor.records import SOURCES, Language

CHUNK_CHARACTERS: Final = 1_200
"""A chunk has at most so many, unless one sentence, table or block of code alone is longer."""
MIN_CHUNK_CHARACTERS: Final[Mapping[Language, int]] = {"en": 80, "zh": 30}
"""Shorter chunks hold nothing to ask about; a Chinese character says as much as three letters."""
MAX_FILE_BYTES: Final = 50_000_000
MAX_DOCX_BYTES: Final = 20_000_000
"""The size of a docx's XML once it is unpacked; some thousand pages."""
MAX_CHUNKS: Final = 20_000
_CROWD: Final = 50
"""Chunks asked of a vector store at once."""
_OUTSIDE_THE_TEXT: Final = ("script", "style", "noscript", "template", "nav", "footer", "form")
_HEADING: Final = lazy_pattern(r"^#{1,6}[ \t]")
_FENCE: Final = lazy_pattern(r"^[ \t]{0,3}(?:```|~~~)")


@dataclass(slots=True, kw_only=True)
class SourceChunks:
    """The chunks of all documents, and what could not be read."""

    chunks: list[ReferenceChunk] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    """One line for each document that was left out."""

    @property
    def documents(self) -> int:
        """The number of documents that they are of."""
        return len({chunk.source for chunk in self.chunks})


def read_documents(named: str, *, queries: Sequence[str] = ()) -> SourceChunks:
    """Return the chunks of a file, a folder, or an object given as `module:object`.

    Args:
        named: A path that exists is a path; else `module:object`, see `store_chunks`.
        queries: To begin with, where a retriever can only be asked.

    Raises:
        InputError: There is no such thing, or it holds nothing that could be asked about.
        MissingExtraError: A document needs what is not installed.
    """
    path = Path(named)
    if path.exists():
        source = _of_folder(path)
    elif ":" in named:
        source = SourceChunks(chunks=store_chunks(imported(named), queries=queries, name=named))
    else:
        raise InputError(f"{named}: no such file or folder, and no module:object")
    of_any_length = len(source.chunks)
    source.chunks = [chunk for chunk in source.chunks if _says_enough(chunk.text)]
    if not source.chunks:
        why = "; ".join(source.problems[:3]) or (
            f"each of its {of_any_length} texts is shorter than "
            f"{MIN_CHUNK_CHARACTERS['en']} characters, or {MIN_CHUNK_CHARACTERS['zh']} in Chinese"
            if of_any_length
            else f"expected {', '.join(sorted(READERS))}"
            if path.exists()
            else "nothing was found there"
        )
        raise InputError(f"{named}: nothing to ask about ({why})")
    return source


def _says_enough(text: str) -> bool:
    return len(text.strip()) >= MIN_CHUNK_CHARACTERS[splitter.language(text)]


# --- files ----------------------------------------------------------------------------------------


def _of_folder(path: Path) -> SourceChunks:
    collected = SourceChunks()
    for file in _files(path):
        name = file.name if path.is_file() else file.relative_to(path).as_posix()
        read = READERS.get(file.suffix.lower())
        if read is None:
            if path.is_file():
                raise InputError(f"{file}: expected one of {', '.join(sorted(READERS))}")
            continue
        try:
            text = _text_of(file, read)
        except MissingExtraError:
            raise
        except InputError as error:
            collected.problems.append(f"{name}: {error}")
            continue
        except Exception as error:  # noqa: BLE001 - whatever a library raises of a broken file
            collected.problems.append(f"{name}: {type(error).__name__}: {error}")
            continue
        collected.chunks += [ReferenceChunk(text=part, source=name) for part in cut(text)]
        if len(collected.chunks) > MAX_CHUNKS:
            raise InputError(f"{path}: more than {MAX_CHUNKS:,} chunks; give a part of it")
    return collected


def _text_of(file: Path, read: Callable[[Path], str]) -> str:
    """Return the text of a file.

    Raises:
        InputError: There is none in it, or it is not to be read: a pipe, a device, too large.
    """
    if not file.is_file():  # a pipe would be waited for, a device may have no end
        raise InputError("no regular file")
    if file.stat().st_size > MAX_FILE_BYTES:
        raise InputError(f"larger than {MAX_FILE_BYTES // 1_000_000} MB")
    text = read(file)
    if not text.strip():
        is_pdf = file.suffix.lower() == ".pdf"
        raise InputError("no text in it" + ("; a scan needs OCR first" if is_pdf else ""))
    return text


def _files(path: Path) -> Iterator[Path]:
    """Yield the files of a folder in the order of their names; nothing whose name is hidden."""
    if path.is_file():
        yield path
        return
    for folder, folders, names in os.walk(path):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        yield from (Path(folder) / name for name in sorted(names) if not name.startswith("."))


def _read_text(file: Path) -> str:
    data = file.read_bytes()
    is_wide = data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    try:
        return data.decode("utf-16" if is_wide else "utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(
            "neither UTF-8 nor UTF-16; convert it, of GBK by: iconv -f GB18030 -t UTF-8"
        ) from error


def _read_html(file: Path) -> str:
    return _markdown(file.read_bytes())


def _read_docx(file: Path) -> str:
    mammoth = _library("mammoth")
    with zipfile.ZipFile(file) as parts:
        unpacked = sum(each.file_size for each in parts.infolist() if each.filename.endswith("xml"))
    if unpacked > MAX_DOCX_BYTES:
        raise InputError(f"its text unpacks to more than {MAX_DOCX_BYTES // 1_000_000} MB")
    with file.open("rb") as opened:
        return _markdown(mammoth.convert_to_html(opened).value)


def _read_pdf(file: Path) -> str:
    pages = _library("pypdf").PdfReader(file).pages
    return "\n\n".join(page.extract_text() for page in pages)


def _markdown(html: str | bytes) -> str:
    soup = _library("bs4").BeautifulSoup(html, "html.parser")
    for element in soup.find_all(_OUTSIDE_THE_TEXT):
        element.decompose()
    converter = _library("markdownify").MarkdownConverter(heading_style="ATX", strip=["img"])
    return str(converter.convert_soup(soup.body or soup))


def _library(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise MissingExtraError(f"{name}, which reads HTML, PDF and docx,", "documents") from error


READERS: Final[Mapping[str, Callable[[Path], str]]] = {
    ".md": _read_text,
    ".markdown": _read_text,
    ".rst": _read_text,
    ".txt": _read_text,
    ".htm": _read_html,
    ".html": _read_html,
    ".docx": _read_docx,
    ".pdf": _read_pdf,
}
"""The readers by suffix; other files of a folder are passed over."""


def cut(text: str, *, most: int = CHUNK_CHARACTERS) -> list[str]:
    """Return a Markdown text in chunks: a heading begins one, and paragraphs are filled up to it.

    Args:
        text: Of a document.
        most: Characters of a chunk. A longer paragraph is cut between sentences.
    """
    chunks: list[str] = []
    room = 0
    for block in _blocks(text):
        begins = bool(_HEADING.match(block))
        for part in _pieces(block, most):
            if chunks and not begins and len(part) + 2 <= room:
                chunks[-1] += f"\n\n{part}"
            else:
                chunks.append(part)
            begins = False
            room = most - len(chunks[-1])
    return chunks


def _blocks(text: str) -> Iterator[str]:
    """Yield headings, paragraphs, and blocks of code with the empty lines within them."""
    block: list[str] = []
    in_code = False
    for line in text.splitlines():
        is_heading = not in_code and bool(_HEADING.match(line))
        if _FENCE.match(line):
            in_code = not in_code
        if block and ((not line.strip() and not in_code) or is_heading):
            yield "\n".join(block)
            block = []
        if line.strip() or in_code:
            block.append(line.rstrip())
    if block:
        yield "\n".join(block)


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


# --- a framework's store --------------------------------------------------------------------------


def store_chunks(
    store: Any, *, queries: Sequence[str] = (), name: str = ""
) -> list[ReferenceChunk]:
    """Return the chunks of a vector store, an index, a retriever, or any iterable of documents.

    Recognised by what it has, without its framework: what lists its documents (`docstore` of
    LlamaIndex's indexes and of LangChain's FAISS, `store` of LangChain's `InMemoryVectorStore`,
    `get` of its Chroma) is listed. What can only be asked (`similarity_search`, `invoke`,
    `retrieve`, `as_retriever`) is explored: each chunk that is found is the next query, beginning
    with `queries`, until nothing new comes. A function is called for one of these.

    Raises:
        InputError: It is none of these, a retriever without a query to begin with, or it fails.
    """
    try:
        documents = _listed(store)
        if documents is None and not _asks(store) and callable(store):
            return store_chunks(store(), queries=queries, name=name)
        if documents is None:
            documents = _explored(store, queries, name)
        chunks = {chunk.text: chunk for chunk in map(_chunk_of, documents) if chunk.text.strip()}
    except InputError:
        raise
    except Exception as error:
        raise InputError(f"{name or store!r}: {type(error).__name__}: {error}") from error
    return [*chunks.values()]


def _listed(store: Any) -> Iterable[Any] | None:
    docstore = getattr(store, "docstore", None)
    for holder, attribute in ((docstore, "docs"), (docstore, "_dict"), (store, "store")):
        values = getattr(holder, attribute, None)
        if isinstance(values, Mapping):
            return [*values.values()]
    if isinstance(store, Mapping):
        return [*store.values()]
    if hasattr(store, "get") and hasattr(store, "similarity_search"):
        columns = store.get()
        rows = zip(columns["ids"], columns["documents"], columns["metadatas"], strict=True)
        return [{"id": id_, "text": text, "metadata": more or {}} for id_, text, more in rows]
    # A retriever of LangChain can be iterated over too: it gives the names of its settings.
    if isinstance(store, Iterable) and not isinstance(store, str | bytes) and not _asks(store):
        return [*store]
    return None


def _asks(store: Any) -> bool:
    return any(
        hasattr(store, name) for name in ("similarity_search", "invoke", "retrieve", "as_retriever")
    )


def _asker(store: Any, name: str) -> Callable[[str], Iterable[Any]]:
    if hasattr(store, "similarity_search"):
        return lambda query: store.similarity_search(query, k=_CROWD)
    for method in ("retrieve", "invoke"):
        if hasattr(store, method):
            asked: Callable[[str], Iterable[Any]] = getattr(store, method)
            return asked
    if hasattr(store, "as_retriever"):
        return _asker(store.as_retriever(), name)
    raise InputError(
        f"{name}: a {type(store).__name__} is no vector store, no retriever and no iterable of "
        "documents; docs/goldens.md lists what is recognised"
    )


def _explored(store: Any, queries: Sequence[str], name: str) -> list[Any]:
    """Return what a retriever finds for the queries, and for what it finds itself."""
    ask = _asker(store, name)
    if not queries:
        raise InputError(
            f"{name}: a {type(store).__name__} lists no documents, it can only be asked; name "
            "what to begin with by --query (repeatable)"
        )
    waiting, by_text = list(queries), dict[str, Any]()
    asked: set[str] = set()
    while waiting and len(by_text) < MAX_CHUNKS:
        query = waiting.pop(0)
        if query in asked:
            continue
        asked.add(query)
        for document in ask(query):
            text = _chunk_of(document).text
            if text.strip() and text not in by_text:
                by_text[text] = document
                waiting.append(text[:200])
    return [*by_text.values()]


def _chunk_of(document: Any) -> ReferenceChunk:
    """Return a document of LangChain, a node of LlamaIndex, a mapping or a text as a chunk.

    Raises:
        InputError: It is none of these.
    """
    if isinstance(document, str):
        return ReferenceChunk(text=document)
    node = getattr(document, "node", document)

    def value(*names: str) -> Any:
        if isinstance(node, Mapping):
            return next((node[name] for name in names if node.get(name) is not None), None)
        return next((got for name in names if (got := getattr(node, name, None)) is not None), None)

    text = value("page_content", "text")
    if not isinstance(text, str):
        raise InputError(f"a {type(document).__name__} has no text: no page_content, no text")
    id_, metadata = value("node_id", "id"), value("metadata")
    metadata = metadata if isinstance(metadata, Mapping) else {}
    source = next((metadata[name] for name in SOURCES if metadata.get(name)), "")
    return ReferenceChunk(text=text, id=id_ if isinstance(id_, str) else "", source=str(source))
