"""What `make docs` does to the pages before MkDocs reads them (a hook of mkdocs.yml)."""  # noqa: INP001 - a hook, no package

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

DOCS = Path(__file__).parents[1] / "docs"
_OBJECT = re.compile(r"^(::: .+)(?:\n    options:)?$", re.MULTILINE)
_LINK = re.compile(r"\[([^\]]*)\]\(([^)#:]+)(#[^)]*)?\)")


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> str:
    """Name the project's files that are not on the site instead of linking to them.

    An object that is documented on the Chinese page, too, is linked to on the English one.
    """
    if page.file.src_uri.startswith("zh/"):
        markdown = _OBJECT.sub(r"\1\n    options:\n      skip_local_inventory: true", markdown)
    folder = (DOCS / page.file.src_uri).parent

    def shown(link: re.Match[str]) -> str:
        target = (folder / link[2]).resolve()
        if target.is_relative_to(DOCS) or not target.exists():
            return link[0]
        return f"{link[1]} (`{target.relative_to(DOCS.parent)}`)"

    return _LINK.sub(shown, markdown)


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    """Make the site's first page of the README, whose links are then those of a page in docs/."""
    text = (DOCS.parent / "README.md").read_text(encoding="utf-8")
    text = re.sub(r"\]\((?!https?:|docs/|#)([^)]+)\)", r"](../\1)", text).replace("](docs/", "](")
    files.append(File.generated(config, "index.md", content=text))
    return files


def on_config(config: Any) -> Any:
    """Put the pages of a folder in the navigation where `folder/` stands."""
    config.nav = _expanded(config.nav)
    return config


def _expanded(entry: Any) -> Any:
    if isinstance(entry, list):
        return [_expanded(each) for each in entry]
    if isinstance(entry, dict):
        return {title: _expanded(value) for title, value in entry.items()}
    if entry.endswith("/"):
        paths = sorted((DOCS / entry).glob("*.md"), key=lambda path: (path.stem != "README", path))
        return [path.relative_to(DOCS).as_posix() for path in paths]
    return entry
