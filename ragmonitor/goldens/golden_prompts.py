"""Asks the model to write a golden question, and to answer and compare it on its own.

The instructions stand in the frame of a judge's further questions (`InteractionAsker`): all that
comes from documents is bordered, and data. The reader never sees what the writer meant.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from ragmonitor.records import Language
from ragmonitor.runtime.protocols import Section

RULES: Final = 2
"""Raised whenever the same reply would be read differently."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """One kind of question to the model."""

    instructions: str
    fields: Mapping[str, str]
    shown: tuple[Section, ...]


_WRITE: Final[dict[Language, str]] = {
    "en": """\
Write one question in English that a user of an assistant over these documents would type, and its \
answer. {kind}
The user has not seen the CHUNKS: the question names what it is about and never says "the text", \
"the chunk" or "this document". It can be understood in one way only. It cannot be answered from \
general knowledge: ask for what these documents alone say. At most 40 words; the answer at most \
60, as short as it can be, and nothing in it that the CHUNKS do not say.
If the CHUNKS hold nothing to ask so, reply with an empty question.""",
    "zh": """\
写一个用中文提出的问题及其回答,如这些文档的助手的用户会输入的那样。{kind}
用户没有见过CHUNKS:问题要指明所问之事,不说"文中""上文""本文档"。问题只有一种理解,\
不能凭常识回答,只问这些文档才说的内容。问题最多60字;回答最多100字,尽量短,不含CHUNKS没有说的内容。
若CHUNKS中没有可这样问的内容,question留空。""",
}
_ANSWERED: Final[dict[Language, str]] = {
    "en": "It asks for one fact that chunk C1 states.",
    "zh": "它问C1中陈述的一个事实。",
}
_UNANSWERED: Final[dict[Language, str]] = {
    "en": "It asks for a detail that belongs to the subject of chunk C1, that a user would expect "
    "there, and that the CHUNKS do not give, not even in part.",
    "zh": "它问属于C1主题、用户会期待在此找到、而CHUNKS完全没有给出的细节。",
}
_READ: Final[dict[Language, str]] = {
    "en": "Answer the QUESTION from the CHUNKS alone, not from what you know.",
    "zh": "只根据CHUNKS回答QUESTION,不用你的知识。",
}
_COMPARE: Final[dict[Language, str]] = {
    "en": "Compare the ANSWER to the QUESTION with the REFERENCE answer.",
    "zh": "把对QUESTION的ANSWER与标准回答REFERENCE比较。",
}
_FIELDS: Final[dict[Language, dict[str, str]]] = {
    "en": {
        "question": "a text: the question; empty: there is none",
        "answer": "a text: the answer; empty for a question that cannot be answered",
        "says": '"answered" if the CHUNKS answer all of it, be it with a no; "absent" if they lack '
        "the answer or a part of it",
        "reply": "a text: the answer from the CHUNKS; else empty",
        "same": "true if they say the same of what is asked; other words, more or fewer details "
        "beside it do not matter",
    },
    "zh": {
        "question": "文本:问题;没有则为空",
        "answer": "文本:回答;无法回答的问题为空",
        "says": '"answered":CHUNKS能完整回答,答复为否定也算;"absent":缺少全部或部分答复',
        "reply": "文本:据CHUNKS的回答;否则为空",
        "same": "true:对所问之事说法相同;用词不同、附带细节多少无关紧要",
    },
}


def write_task(language: Language, *, is_answered: bool) -> Task:
    """Return the request for one question that the chunks answer, or do not answer."""
    kind = (_ANSWERED if is_answered else _UNANSWERED)[language]
    instructions = _WRITE[language].format(kind=kind)
    return _task(instructions, ("question", "answer"), ("chunks",), language)


def read_task(language: Language) -> Task:
    """Return the request to answer a question from chunks alone."""
    return _task(_READ[language], ("says", "reply"), ("chunks", "question"), language)


def compare_task(language: Language) -> Task:
    """Return the request to compare an answer with the reference answer."""
    return _task(_COMPARE[language], ("same",), ("question", "answer", "reference"), language)


def _task(
    instructions: str, names: tuple[str, ...], shown: tuple[Section, ...], language: Language
) -> Task:
    fields = {name: _FIELDS[language][name] for name in names}
    return Task(instructions=instructions, fields=fields, shown=shown)


def prompts_version() -> str:
    """Return what changes with every text above and every rule for replies."""
    tables = (_WRITE, _ANSWERED, _UNANSWERED, _FIELDS, _READ, _COMPARE)
    return f"{hashlib.blake2b(repr(tables).encode(), digest_size=4).hexdigest()}.{RULES}"
