"""Asks the model, while golden questions are made, to write one and to read it again.

The instructions stand in the frame of a judge's further questions (`InteractionAsker`): all that
comes from documents is bordered, and data. The second reading never sees what the first one meant:
one reader answers the question from the chunks, another without them, and only then are their
answers compared with the reference answer.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from ragmonitor.goldens.golden import Difficulty, GoldenKind
from ragmonitor.protocols import Section
from ragmonitor.records import Language

RULES: Final = 1
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
{difficulty}
If the CHUNKS hold nothing to ask so, reply with an empty question.""",
    "zh": """\
写一个用中文提出的问题及其回答,如这些文档的助手的用户会输入的那样。{kind}
用户没有见过CHUNKS:问题要指明所问之事,不说"文中""上文""本文档"。问题只有一种理解,\
不能凭常识回答,只问这些文档才说的内容。问题最多60字;回答最多100字,尽量短,不含CHUNKS没有说的内容。
{difficulty}
若CHUNKS中没有可这样问的内容,question留空。""",
}
_KINDS: Final[dict[Language, dict[GoldenKind, str]]] = {
    "en": {
        GoldenKind.SINGLE_FACT: "It asks for one fact that chunk C1 states.",
        GoldenKind.SEVERAL_CHUNKS: "Its answer needs something from each of two or more CHUNKS; no "
        "single chunk suffices.",
        GoldenKind.COMPARISON: "It asks how two things compare of which different CHUNKS speak: "
        "what differs or is the same. No single chunk suffices.",
        GoldenKind.UNANSWERABLE: "It asks for a detail that belongs to the subject of chunk C1, "
        "that a user would expect there, and that the CHUNKS do not give, not even in part.",
        GoldenKind.FALSE_PREMISE: "It takes for granted something that chunk C1 denies (a changed "
        "number, name, condition or order), without a hint that it may be wrong. The answer says "
        "what is wrong with it, and what chunk C1 says instead.",
        GoldenKind.FOLLOW_UP: "It follows a first question and its answer, both from chunk C1, and "
        'is understood only after them: it refers to them by words like "it" or "and then".',
    },
    "zh": {
        GoldenKind.SINGLE_FACT: "它问C1中陈述的一个事实。",
        GoldenKind.SEVERAL_CHUNKS: "回答需要两个或更多CHUNKS各自的内容,任何一个单独都不够。",
        GoldenKind.COMPARISON: "它问不同CHUNKS所述两者的异同,任何一个CHUNK单独都不够。",
        GoldenKind.UNANSWERABLE: "它问属于C1主题、用户会期待在此找到、而CHUNKS完全没有给出的细节。",
        GoldenKind.FALSE_PREMISE: "它把C1否定的事(被改动的数字、名称、条件或顺序)当作前提,"
        "且不暗示前提可能有误。回答指出哪里不对,并说出C1的说法。",
        GoldenKind.FOLLOW_UP: '它是追问:接在同样出自C1的第一个问题及其回答之后,用"它""那么"等指代,'
        "只有看过前文才能理解。",
    },
}
_DIFFICULTIES: Final[dict[Language, dict[Difficulty, str]]] = {
    "en": {
        "easy": "Easy: it may use the words of the CHUNKS.",
        "medium": "Medium: it uses other words than the CHUNKS.",
        "hard": "Hard: it describes a situation, and the answer follows only by a step of thought.",
    },
    "zh": {
        "easy": "简单:可使用CHUNKS的原词。",
        "medium": "中等:换用与CHUNKS不同的说法。",
        "hard": "困难:描述一个情形,回答要再推一步才能得出。",
    },
}
_HARD_TO_DECLINE: Final[dict[Language, str]] = {
    "en": "Hard: it describes a situation; what the CHUNKS say comes close, and still does not "
    "answer it.",
    "zh": "困难:描述一个情形,CHUNKS的内容与之相近,却仍不能回答它。",
}
"""The instructions for a question that cannot be answered, from whose answer no step of thought
leads."""
_FIELDS: Final[dict[Language, dict[str, str]]] = {
    "en": {
        "first_question": "a text: the question before it",
        "first_answer": "a text: the answer to that",
        "question": "a text: the question; empty: there is none",
        "answer": "a text: the answer; empty for a question that cannot be answered",
        "says": '"answered" if the CHUNKS answer all of it, be it with a no; "absent" if they lack '
        'the answer or a part of it; "denied" if it takes for granted, and does not ask, something '
        "that they contradict",
        "reply": 'a text: the answer from the CHUNKS; with "denied" what is wrong and what they '
        "say instead; else empty",
        "used": "a list of the numbers of the CHUNKS that are needed, as few as suffice",
        "clear": "true if it names what it is about and can be understood in one way only",
        "known": "true if you know the answer for sure without any document",
        "guess": "a text: that answer, or what is wrong with the question; empty if not known",
        "alone": "true if its last line could be understood without the lines before it",
        "same": "true if they say the same of what is asked; other words, more or fewer details "
        "beside it do not matter",
    },
    "zh": {
        "first_question": "文本:前一个问题",
        "first_answer": "文本:对它的回答",
        "question": "文本:问题;没有则为空",
        "answer": "文本:回答;无法回答的问题为空",
        "says": '"answered":CHUNKS能完整回答,答复为否定也算;"absent":缺少全部或部分答复;'
        '"denied":问题当作前提而并未发问的内容与CHUNKS相矛盾',
        "reply": '文本:据CHUNKS的回答;"denied"时为哪里不对及其说法;否则为空',
        "used": "列表:所需CHUNKS的编号,够用即可",
        "clear": "true:指明了所问之事,且只有一种理解",
        "known": "true:不看任何文档也确知答复",
        "guess": "文本:该答复,或问题哪里不对;不知则为空",
        "alone": "true:不看前面各行也能理解最后一行",
        "same": "true:对所问之事说法相同;用词不同、附带细节多少无关紧要",
    },
}
_READ: Final[dict[Language, str]] = {
    "en": "Answer the QUESTION from the CHUNKS alone, not from what you know. Where lines stand "
    "before its last line, they are the conversation so far; only the last line is to be answered.",
    "zh": "只根据CHUNKS回答QUESTION,不用你的知识。若最后一行之前还有各行,那是之前的对话,"
    "只回答最后一行。",
}
_READ_WITHOUT: Final[dict[Language, str]] = {
    "en": "You see a QUESTION without the documents that it was written for. Judge it as it "
    "stands. Where lines stand before its last line, they are the conversation so far.",
    "zh": "你看到的QUESTION没有附上它所依据的文档,就其本身判断。若最后一行之前还有各行,"
    "那是之前的对话。",
}
_COMPARE: Final[dict[Language, str]] = {
    "en": "Compare the ANSWER to the QUESTION with the REFERENCE answer.",
    "zh": "把对QUESTION的ANSWER与标准回答REFERENCE比较。",
}


def write_task(kind: GoldenKind, difficulty: Difficulty, language: Language) -> Task:
    """Return the request for one question."""
    names = ["question", "answer"]
    if kind is GoldenKind.FOLLOW_UP:
        names = ["first_question", "first_answer", *names]
    level = _DIFFICULTIES[language][difficulty]
    if kind is GoldenKind.UNANSWERABLE and difficulty == "hard":
        level = _HARD_TO_DECLINE[language]
    instructions = _WRITE[language].format(kind=_KINDS[language][kind], difficulty=level)
    return _task(instructions, names, ("chunks",), language)


def read_task(language: Language) -> Task:
    """Return the request to answer a question from chunks alone."""
    return _task(_READ[language], ("says", "reply", "used"), ("chunks", "question"), language)


def read_without_task(kind: GoldenKind, language: Language) -> Task:
    """Return the request to judge a question without any chunk."""
    names = ["clear", "known", "guess"]
    if kind is GoldenKind.FOLLOW_UP:
        names.append("alone")
    return _task(_READ_WITHOUT[language], names, ("question",), language)


def compare_task(language: Language) -> Task:
    """Return the request to compare an answer with the reference answer."""
    return _task(_COMPARE[language], ("same",), ("question", "answer", "reference"), language)


def _task(
    instructions: str, names: list[str] | tuple[str, ...], shown: tuple[Section, ...], to: Language
) -> Task:
    return Task(
        instructions=instructions, fields={name: _FIELDS[to][name] for name in names}, shown=shown
    )


def prompts_version() -> str:
    """Return what changes with every text above and every rule for replies."""
    tables = (
        *(_WRITE, _KINDS, _DIFFICULTIES, _HARD_TO_DECLINE),
        *(_FIELDS, _READ, _READ_WITHOUT, _COMPARE),
    )
    return f"{hashlib.blake2b(repr(tables).encode(), digest_size=4).hexdigest()}.{RULES}"
