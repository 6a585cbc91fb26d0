"""Documents in their formats."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragmonitor.goldens.source_documents import (
    CHUNK_CHARACTERS,
    cut,
    read_documents,
)
from ragmonitor.runtime.errors import InputError

LONG = "The harbour of the old town opens at nine and closes at six, on Sundays at four."


def texts(found) -> str:
    return "\n".join(chunk.text for chunk in found.chunks)


# --- cutting --------------------------------------------------------------------------------------


@given(
    text=st.lists(
        st.sampled_from(["# A", "word " * 30, "Short.", "", "```", "| a | b |"]), max_size=60
    )
)
def test_cutting_loses_no_word(text):
    """In order, and no chunk is longer than it may be unless one block is."""
    joined = "\n".join(text)
    chunks = cut(joined)
    assert " ".join(chunks).split() == joined.split()
    blocks_are_short = "```" not in text and "| a | b |" not in text
    assert not blocks_are_short or all(len(chunk) <= CHUNK_CHARACTERS for chunk in chunks)


# --- files ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("named", ["nowhere", "picture.png", "empty"])
def test_what_holds_no_documents_is_refused(tmp_path, monkeypatch, named):
    """With what was expected."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    (tmp_path / "picture.png").write_bytes(b"\x89PNG")
    with pytest.raises(InputError):
        read_documents(Path(named))


# --- what cannot be read --------------------------------------------------------------------------


def left_out(folder, name) -> str:
    """Return why a document beside a good one was left out."""
    (folder / "good.md").write_text(LONG, "utf-8")
    found = read_documents(folder)
    assert texts(found) == LONG
    (problem,) = found.problems
    assert problem.startswith(f"{name}: ")
    return problem


def test_a_link_out_of_the_folder_is_not_read(tmp_path):
    """What it leads to was not named."""
    (tmp_path / "docs").mkdir()
    (tmp_path / "secret.md").write_text(f"The password. {LONG}", "utf-8")
    (tmp_path / "docs" / "link.md").symlink_to(tmp_path / "secret.md")
    assert "outside" in left_out(tmp_path / "docs", "link.md")
