"""Language match: whether the answer is in the question's language."""

from __future__ import annotations

import re

from ragmonitor.evaluators.table import evaluator
from ragmonitor.records import Assessment, Cause, Interaction, Language
from ragmonitor.runtime.errors import NotScorableError
from ragmonitor.runtime.patterns import lazy_pattern

_MAX_CHARACTERS = 4000
"""The characters of a text, from its beginning, that are looked at."""
_HAN = lazy_pattern("[\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]")
_OTHER_SCRIPT = lazy_pattern("[\u3040-\u30ff\uac00-\ud7af]")
_WORD = lazy_pattern(r"[A-Za-z]+(?:['’][A-Za-z]+)?")
_NO_PROSE = lazy_pattern(r"```.*?(?:```|\Z)|`[^`\n]*`|https?://\S+|\S+@\S+", re.DOTALL)
_SMALL_WORDS = """
a an the this that these those is are was were be been am do does did has have had can could
will would should may must of to in on at by for from with as into about and or but if not no
what which who whom whose when where why how it its they them their there you your we our i my
he she his her please between than then so because
"""
_ENGLISH_WORDS = frozenset(_SMALL_WORDS.split())
_CHINESE_WORDS = lazy_pattern(
    "什么|怎么|怎样|如何|为何|哪|谁|吗|呢|吧|的|了|是|在|有|和|与|或|把|被|从|对|为|以|及|中|里|上|个|这|那|不|也|都|请|能|会|可"
)
_MIN_WORDS = 4
"""Words without any of a language's small words from which a text counts as English prose."""


def prose_language(text: str) -> Language | None:
    """Return the language of a text's prose; None: it has too little of it to tell.

    Small words decide, not the count of letters: "如何在 docker compose file 里 mount volume" is
    Chinese, and "What does 幻觉 mean?" is English. Code, addresses and names tell nothing. Japanese
    and Korean are neither.
    """
    prose = _NO_PROSE.sub(" ", text[:_MAX_CHARACTERS])
    if _OTHER_SCRIPT.search(prose):
        return None
    words = [word.lower() for word in _WORD.findall(prose)]
    han = len(_HAN.findall(prose))
    english = sum(word in _ENGLISH_WORDS for word in words)
    chinese = len(_CHINESE_WORDS.findall(prose))
    if english != chinese:
        return "en" if english > chinese else "zh"
    if han > len(words):
        return "zh"
    return "en" if len(words) >= max(_MIN_WORDS, han + 1) else None


@evaluator("language_match", needs_query=True, needs_context=False, by_default=False)
def language_match(interaction: Interaction, _assessment: Assessment) -> float:
    """Return 1 if question and answer are in one language, 0 if one is Chinese and one is not.

    Languages in Latin letters count as one.

    Raises:
        NotScorableError: The question or the answer is too short to tell its language, or has none
            (cause `unreadable`): a name, a number, code.
    """
    asked, answered = prose_language(interaction.query), prose_language(interaction.answer)
    if asked is None or answered is None:
        raise NotScorableError(Cause.UNREADABLE, "too little prose to tell the language")
    return float(asked == answered)
