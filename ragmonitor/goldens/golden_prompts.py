"""Asks the model to write a golden question, and to answer and compare it on its own.

The instructions stand in the frame of a judge's further questions (`InteractionAsker`): all that
comes from documents is bordered, and data. The reader never sees what the writer meant.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from ragmonitor.runtime.protocols import Section


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """One kind of question to the model."""

    instructions: str
    fields: Mapping[str, str]
    shown: tuple[Section, ...]


_WRITE: Final = """\
Write one question that a user of an assistant over these documents would type, and its answer, \
both in the language of the CHUNKS. {kind}
The user has not seen the CHUNKS: the question names what it is about and never says "the text", \
"the chunk" or "this document". It can be understood in one way only. It cannot be answered from \
general knowledge: ask for what these documents alone say. At most 40 words (60 Chinese \
characters); the answer at most 60 words, as short as it can be, and nothing in it that the CHUNKS \
do not say.
If the CHUNKS hold nothing to ask so, reply with an empty question."""
_WRITTEN: Final = {
    "question": "a text: the question; empty: there is none",
    "answer": "a text: the answer; empty for a question that cannot be answered",
}

WRITE_ANSWERED: Final = Task(
    instructions=_WRITE.format(kind="It asks for one fact that chunk C1 states."),
    fields=_WRITTEN,
    shown=("chunks",),
)
WRITE_UNANSWERED: Final = Task(
    instructions=_WRITE.format(
        kind="It asks for a detail that belongs to the subject of chunk C1, that a user would "
        "expect there, and that the CHUNKS do not give, not even in part."
    ),
    fields=_WRITTEN,
    shown=("chunks",),
)
READ: Final = Task(
    instructions="Answer the QUESTION from the CHUNKS alone, not from what you know, and in the "
    "language of the QUESTION.",
    fields={
        "says": '"answered" if the CHUNKS answer all of it, be it with a no; "absent" if they lack '
        "the answer or a part of it",
        "reply": "a text: the answer from the CHUNKS; else empty",
    },
    shown=("chunks", "question"),
)
COMPARE: Final = Task(
    instructions="Compare the ANSWER to the QUESTION with the REFERENCE answer.",
    fields={
        "same": "true if they say the same of what is asked; other words, more or fewer details "
        "beside it do not matter",
    },
    shown=("question", "answer", "reference"),
)
