"""Replaces names, addresses and numbers of people.

Names are found by spaCy's models, telephone numbers by phonenumbers, all else by the formats of
`ragmonitor.redaction.personal_formats`. Nothing is downloaded.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final, Literal

from ragmonitor.redaction.detections import Detection, apart, redacted
from ragmonitor.redaction.personal_formats import formatted_in, plain_digits
from ragmonitor.runtime.errors import MissingExtraError
from ragmonitor.runtime.guard import logger
from ragmonitor.runtime.patterns import lazy_pattern

Language = Literal["en", "zh"]

_NAMES: Final = frozenset(("PERSON", "PER"))
"""How spaCy's models label names of people. Places, dates and organisations stay: without them few
answers can be judged."""

MODELS: dict[Language, tuple[str, ...]] = {
    "en": ("en_core_web_lg", "en_core_web_md", "en_core_web_sm", "en_core_web_trf"),
    "zh": ("zh_core_web_lg", "zh_core_web_md", "zh_core_web_sm", "zh_core_web_trf"),
}
"""spaCy's models; of each language the first that is installed is taken."""

PHONE_REGIONS = ("US", "GB", "CN")
"""Regions whose numbers are recognised without their country's prefix; with it, all are."""

_PHONE = lazy_pattern(r"(?<![\d+])(?:\+|\()?+\d(?:[ ()./\u2010-\u2015-]{0,2}+\d){6,24}+")
"""Where a telephone number may stand: only there is it looked for, since the search of the library
`phonenumbers` is for texts of people, and takes its time over others."""

_CJK = lazy_pattern(r"[\u3400-\u9fff]")
_LONG_WORD = lazy_pattern(r"\S{64}")
_LATIN = lazy_pattern(r"[A-Za-z]")


class PersonalData:
    """Replaces personal data in English and Chinese texts; loaded with the first text.

    Called from the worker only.
    """

    def __init__(self) -> None:
        """Check that everything is installed, and load nothing yet.

        Raises:
            MissingExtraError: The extra `personal` is not installed.
        """
        self._pipelines: dict[str, Any] | None = None
        if any(find_spec(needed) is None for needed in ("spacy", "phonenumbers", "stdnum")):
            raise MissingExtraError("content.redaction 'personal'", "personal")
        missing = [language for language in MODELS if _best_model(language) is None]
        if missing:
            logger.warning(
                "ragmonitor: redaction 'personal' finds no names in these languages, for want of a "
                "spaCy model: %s; run: %s",
                ", ".join(missing),
                "; ".join(f"python -m spacy download {MODELS[each][2]}" for each in missing),
            )

    def __call__(self, text: str) -> str:
        """Return the text with a mark for each that was found: `[redacted:person]`.

        Raises:
            Exception: A model cannot be loaded.
        """
        if self._pipelines is None:
            best = ((language, _best_model(language)) for language in MODELS)
            self._pipelines = {
                language: import_module("spacy").load(name) for language, name in best if name
            }
        plain = plain_digits(text)
        found = [*formatted_in(plain), *_phones_in(plain)]
        for language in languages_of(text):
            if language in self._pipelines:
                words = self._pipelines[language](_with_short_words(text, language))
                found += [
                    Detection(each.start_char, each.end_char, "PERSON")
                    for each in words.ents
                    if each.label_ in _NAMES
                ]
        return redacted(text, (each._replace(kind=each.kind.lower()) for each in apart(found)))


def languages_of(text: str) -> tuple[Language, ...]:
    """Return the languages in which a text is analysed: a mixed text in both."""
    chinese, latin = len(_CJK.findall(text)), len(_LATIN.findall(text))
    if not chinese:
        return ("en",)
    return ("zh", "en") if latin > chinese else ("zh",)


def _phones_in(text: str) -> Iterator[Detection]:
    from phonenumbers import Leniency, PhoneNumberMatcher

    for match in _PHONE.finditer(text):
        # What stands around it tells the library whether it is a part of something longer.
        start, end = max(0, match.start() - 2), min(len(text), match.end() + 2)
        for region in PHONE_REGIONS:
            for phone in PhoneNumberMatcher(text[start:end], region, leniency=Leniency.VALID):
                yield Detection(start + phone.start, start + phone.end, "PHONE_NUMBER")


def _with_short_words(text: str, language: Language) -> str:
    """Return a text of the same length in which spaCy's time per word has a bound.

    Its tokenizer takes off one sign after the other at both ends of a word and looks through all of
    the rest each time: 20 kB of `+` without a space took it a minute. No name is as long as that.
    Chinese is separated otherwise, and has no spaces to look for.
    """
    return text if language == "zh" else _LONG_WORD.sub(lambda match: f"{match[0][:-1]} ", text)


def _best_model(language: Language) -> str | None:
    return next((model for model in MODELS[language] if find_spec(model) is not None), None)
