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
_MIN_WORDS = 4
"""Latin words from which a text without Chinese counts as prose."""


def prose_language(text: str) -> Language | None:
    """Return the language of a text's prose; None: it has too little of it to tell.

    More Chinese characters than half the Latin words make it Chinese: "如何在 docker compose file
    里 mount volume" is, and "What does 幻觉 mean?" is not. Code, addresses and names tell nothing.
    Japanese and Korean are neither.
    """
    prose = _NO_PROSE.sub(" ", text[:_MAX_CHARACTERS])
    if _OTHER_SCRIPT.search(prose):
        return None
    words = len(_WORD.findall(prose))
    if 2 * len(_HAN.findall(prose)) > words:
        return "zh"
    return "en" if words >= _MIN_WORDS else None


@evaluator("language_match", version=2, needs_query=True, needs_context=False, by_default=False)
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
