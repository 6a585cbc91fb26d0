"""Turns one HTML, docx or PDF document into Markdown, in a process of its own with limits.

`python -m ragmonitor.goldens.document_formats FILE` writes the text to standard output, or the
reason why there is none to standard error. A file from anywhere may unpack to gigabytes, or keep
its reader busy for hours: the system then ends this process and no other.
"""

from __future__ import annotations

import importlib
import subprocess
import sys
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from ragmonitor.runtime.errors import InputError, MissingExtraError

MAX_MEMORY_BYTES: Final = 1 << 30
MAX_CPU_S: Final = 60
MAX_TEXT_BYTES: Final = 10_000_000
MAX_UNPACKED_BYTES: Final = 50_000_000
"""The size of a docx once it is unpacked, without its images, which are never opened."""
_MISSING: Final = 3
_OUTSIDE_THE_TEXT: Final = ("script", "style", "noscript", "template", "nav", "footer", "form")


def read_apart(file: Path) -> str:
    """Return a document as Markdown.

    Raises:
        InputError: It cannot be read within the limits; says why.
        MissingExtraError: Its reader is not installed.
    """
    command = [sys.executable, "-m", __name__, str(file.absolute())]
    try:
        ended = subprocess.run(  # noqa: S603 - this interpreter, this module
            command, capture_output=True, timeout=2 * MAX_CPU_S, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise InputError(f"not read within {2 * MAX_CPU_S} s") from error
    if ended.returncode == _MISSING:
        name = ended.stderr.decode("utf-8", "replace").strip()
        raise MissingExtraError(f"{name}, which reads HTML, PDF and docx,", "documents")
    if ended.returncode:
        lines = ended.stderr.decode("utf-8", "replace").split("\n")
        reason = " ".join(lines[0].split())[:300]
        raise InputError(reason or "it takes more memory or time than a document may")
    return ended.stdout.decode("utf-8")


def _limit() -> None:
    try:
        import resource
    except ImportError:  # Windows has no such limits; the time is bounded by `read_apart`
        return
    resource.setrlimit(resource.RLIMIT_AS, (MAX_MEMORY_BYTES, MAX_MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CPU, (MAX_CPU_S, MAX_CPU_S))


def _html(file: Path) -> str:
    return _markdown(file.read_bytes())


def _docx(file: Path) -> str:
    mammoth = importlib.import_module("mammoth")
    with zipfile.ZipFile(file) as parts:
        sizes = (e.file_size for e in parts.infolist() if not e.filename.startswith("word/media/"))
        if sum(sizes) > MAX_UNPACKED_BYTES:
            raise InputError(f"it unpacks to more than {MAX_UNPACKED_BYTES // 1_000_000} MB")
    no_images = mammoth.images.img_element(lambda _image: {})
    with file.open("rb") as opened:
        return _markdown(mammoth.convert_to_html(opened, convert_image=no_images).value)


def _pdf(file: Path) -> str:
    pages = importlib.import_module("pypdf").PdfReader(file).pages
    return "\n\n".join(page.extract_text() for page in pages)


def _markdown(html: str | bytes) -> str:
    soup: Any = importlib.import_module("bs4").BeautifulSoup(html, "html.parser")
    for element in soup.find_all(_OUTSIDE_THE_TEXT):
        element.decompose()
    markdownify = importlib.import_module("markdownify")
    converter = markdownify.MarkdownConverter(heading_style="ATX", strip=["img"])
    return str(converter.convert_soup(soup.body or soup))


FORMATS: Final[Mapping[str, Callable[[Path], str]]] = {
    ".htm": _html,
    ".html": _html,
    ".docx": _docx,
    ".pdf": _pdf,
}


def main() -> int:
    """Write the text of the document that the command line names."""
    _limit()
    file = Path(sys.argv[1])
    try:
        data = FORMATS[file.suffix.lower()](file).encode("utf-8", "replace")
        if len(data) > MAX_TEXT_BYTES:
            raise InputError(f"its text is longer than {MAX_TEXT_BYTES // 1_000_000} MB")
    except ImportError as error:
        sys.stderr.write(error.name or "a library")
        return _MISSING
    except MemoryError:
        return 1
    except Exception as error:  # noqa: BLE001 - whatever a library raises of a broken file
        reason = str(error) if isinstance(error, InputError) else f"{type(error).__name__}: {error}"
        sys.stderr.write(reason)
        return 1
    sys.stdout.buffer.write(data)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
