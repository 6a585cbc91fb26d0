"""Documents in their formats."""

from __future__ import annotations

import os
import zipfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragmonitor.goldens.document_formats import MAX_UNPACKED_BYTES
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


def test_html_keeps_its_text_and_loses_what_is_around_it(tmp_path):
    """Headings and tables stay; scripts and navigation go."""
    pytest.importorskip("markdownify")
    page = tmp_path / "page.html"
    page.write_text(
        f"<html><head><title>t</title></head><body><nav>Home</nav><h2>Harbour</h2><p>{LONG}</p>"
        "<table><tr><th>boat</th><th>price</th></tr><tr><td>small</td><td>40</td></tr></table>"
        "<script>var x = 1</script><footer>Imprint</footer></body></html>",
        "utf-8",
    )
    text = texts(read_documents(page))
    assert text.startswith("## Harbour")
    assert "| small | 40 |" in text
    assert not any(word in text for word in ("Home", "var x", "Imprint"))


def test_docx_keeps_its_headings(tmp_path):
    """As Markdown."""
    pytest.importorskip("mammoth")
    pytest.importorskip("markdownify")
    main = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
    office = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
    package = "http://schemas.openxmlformats.org/package/2006"
    document = (
        f'<w:document xmlns:w="{main}"><w:body><w:p><w:pPr><w:pStyle w:val="Heading1"/></w:pPr>'
        f"<w:r><w:t>Harbour</w:t></w:r></w:p><w:p><w:r><w:t>{LONG}</w:t></w:r></w:p></w:body>"
        "</w:document>"
    )
    path = tmp_path / "letter.docx"
    with zipfile.ZipFile(path, "w") as file:
        file.writestr(
            "[Content_Types].xml",
            f'<Types xmlns="{package}/content-types"><Default Extension="rels" ContentType='
            '"application/vnd.openxmlformats-package.relationships+xml"/><Override PartName='
            '"/word/document.xml" ContentType="application/vnd.openxmlformats-officedocument.'
            'wordprocessingml.document.main+xml"/></Types>',
        )
        file.writestr(
            "_rels/.rels",
            f'<Relationships xmlns="{package}/relationships"><Relationship Id="r1" '
            f'Type="{office}/officeDocument" Target="word/document.xml"/></Relationships>',
        )
        file.writestr("word/document.xml", document)
    assert texts(read_documents(path)) == f"# Harbour\n\n{LONG}"


def test_pdf_gives_its_text(tmp_path):
    """Of all pages; a broken one is left out, with the reason."""
    pytest.importorskip("pypdf")
    (tmp_path / "good.pdf").write_bytes(_pdf(LONG))
    (tmp_path / "broken.pdf").write_bytes(b"%PDF-1.4 broken")
    found = read_documents(tmp_path)
    assert texts(found).strip() == LONG
    assert [problem.partition(":")[0] for problem in found.problems] == ["broken.pdf"]


def _pdf(text: str) -> bytes:
    """Return a document of one page with one line."""
    line = text.replace("(", r"\(").replace(")", r"\)").encode()
    stream = b"BT /F1 8 Tf 10 100 Td (" + line + b") Tj ET"
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 600 200] /Contents 4 0 R /Resources 6 0 R >>",
        b"<< /Length %d >>\nstream\n%s\nendstream" % (len(stream), stream),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
        b"<< /Font << /F1 5 0 R >> >>",
    ]
    data, offsets = b"%PDF-1.4\n", []
    for number, body in enumerate(objects, 1):
        offsets.append(len(data))
        data += b"%d 0 obj\n%s\nendobj\n" % (number, body)
    table = b"".join(b"%010d 00000 n \n" % offset for offset in offsets)
    data += b"xref\n0 7\n0000000000 65535 f \n" + table
    return data + (
        b"trailer\n<< /Size 7 /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF" % data.index(b"xref\n0 7")
    )


# --- what cannot be read --------------------------------------------------------------------------


def left_out(folder, name) -> str:
    """Return why a document beside a good one was left out."""
    (folder / "good.md").write_text(LONG, "utf-8")
    found = read_documents(folder)
    assert texts(found) == LONG
    (problem,) = found.problems
    assert problem.startswith(f"{name}: ")
    return problem


def test_text_in_another_encoding_is_left_out_and_said(tmp_path):
    """A model is asked nothing about characters that were lost."""
    (tmp_path / "gbk.txt").write_bytes(("包裹最重四十公斤。" * 20).encode("gb18030"))
    assert "iconv" in left_out(tmp_path, "gbk.txt")


def test_a_pdf_without_text_is_left_out_and_said(tmp_path):
    """A scan holds pictures alone."""
    writer = pytest.importorskip("pypdf").PdfWriter()
    writer.add_blank_page(200, 200)
    writer.write(tmp_path / "scan.pdf")
    assert "OCR" in left_out(tmp_path, "scan.pdf")


@pytest.mark.parametrize("name", ["word/document.xml", "_rels/.rels"])
def test_a_docx_that_unpacks_to_too_much_is_not_read(tmp_path, name):
    """Its size on disk says nothing."""
    with zipfile.ZipFile(tmp_path / "bomb.docx", "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr(name, b" " * (MAX_UNPACKED_BYTES + 1))
    assert "50 MB" in left_out(tmp_path, "bomb.docx")


def test_a_page_that_takes_too_much_memory_ends_only_its_reader(tmp_path, monkeypatch):
    """A page of attributes takes gigabytes."""
    attributes = " ".join(f"a{n}=b" for n in range(1_500_000))
    (tmp_path / "page.html").write_text(f"<p {attributes}>{LONG}</p>", "utf-8")
    assert "memory" in left_out(tmp_path, "page.html")


def test_a_link_out_of_the_folder_is_not_read(tmp_path):
    """What it leads to was not named."""
    (tmp_path / "docs").mkdir()
    (tmp_path / "secret.md").write_text(f"The password. {LONG}", "utf-8")
    (tmp_path / "docs" / "link.md").symlink_to(tmp_path / "secret.md")
    assert "outside" in left_out(tmp_path / "docs", "link.md")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no named pipes")
def test_a_pipe_in_a_folder_is_not_waited_for(tmp_path):
    """Nor a loop of links followed."""
    os.mkfifo(tmp_path / "p.md")
    (tmp_path / "loop").symlink_to(tmp_path)
    assert "no regular file" in left_out(tmp_path, "p.md")
