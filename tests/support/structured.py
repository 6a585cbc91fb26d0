"""Structured chunks with true and false sentences about them, and what a judge makes of them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from ragmonitor.judges.builtin import assess
from ragmonitor.records import Assessment, Verdict

TABLE = Path(__file__).parents[1] / "unit" / "judges" / "structured_chunks.txt"
"""Sections `=== name`, some `| held out`: a chunk, then a line `T ...` for each true sentence and
`F[field] ...` for each false one with a pattern of the field that says otherwise."""


@dataclass(frozen=True, slots=True)
class Case:
    """One sentence about one structured chunk."""

    name: str
    """Name of the chunk."""
    is_held_out: bool
    """Whether it was written before the reader of such chunks and not looked at while it grew."""
    chunk: str
    sentence: str
    field: str
    """Pattern of the field that says otherwise; empty: the sentence is true."""


def cases() -> Iterator[Case]:
    """Yield every sentence of the table, in order."""
    for section in TABLE.read_text("utf-8").split("=== ")[1:]:
        head, _, body = section.partition("\n")
        name, _, held_out = head.partition(" | ")
        lines = body.splitlines()
        chunk = "\n".join(line for line in lines if not _SENTENCE.match(line))
        for line in lines:
            found = _SENTENCE.match(line)
            if found:
                yield Case(name, bool(held_out), chunk.strip("\n"), found[2], found[1] or "")


_SENTENCE = re.compile(r"(?:T|F\[([^\]]+)\]) (.*)")


def assessed(case: Case) -> Assessment:
    """Return the built-in judge's assessment of a sentence as the whole answer."""
    zh = re.search("[\u4e00-\u9fff]", case.sentence)
    return assess(
        "这是什么情况？" if zh else "What is known about it?", [case.chunk], case.sentence
    )


def is_flagged(assessment: Assessment) -> bool:
    """Return whether any sentence is absent or contradicted."""
    flags = (Verdict.ABSENT, Verdict.CONTRADICTED)
    return any(each.verdict in flags for each in assessment.sentences or ())


def names_field(case: Case, assessment: Assessment) -> bool:
    """Return whether a reason names the field that says otherwise."""
    reasons: Sequence[str] = [r for each in assessment.sentences or () for r in each.reasons]
    return any(re.search(case.field, reason, re.IGNORECASE) for reason in reasons)
