"""Names, addresses and numbers of people, found by Microsoft Presidio.

Of Presidio's recognisers only those are loaded that are asked for, and none that asks the network:
its own for e-mail addresses and URLs fetch the list of public suffixes at their first use, and its
default engine downloads a model that is missing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

from ragmonitor.errors import MissingExtraError, SettingsError
from ragmonitor.guard import logger
from ragmonitor.patterns import lazy_pattern
from ragmonitor.redaction.identity_numbers import numbers_in, plain_digits

Language = Literal["en", "zh"]

_BY_MODEL = ("PERSON", "LOCATION", "ORGANIZATION", "NRP")
_BY_PATTERN = (
    "EMAIL_ADDRESS",
    "PHONE_NUMBER",
    "CREDIT_CARD",
    "IBAN_CODE",
    "IP_ADDRESS",
    "CRYPTO",
    "US_SSN",
    "CN_ID_CARD",
    "NATIONAL_ID",
)
_NUMBERS = ("CREDIT_CARD", "CN_ID_CARD", "NATIONAL_ID")
"""The entities that `ragmonitor.redaction.identity_numbers` finds too, or alone."""
ENTITIES = _BY_MODEL + _BY_PATTERN

MODELS: dict[Language, tuple[str, ...]] = {
    "en": ("en_core_web_lg", "en_core_web_md", "en_core_web_sm", "en_core_web_trf"),
    "zh": ("zh_core_web_lg", "zh_core_web_md", "zh_core_web_sm", "zh_core_web_trf"),
}
"""spaCy's models; the first that is installed is taken where none is named."""

PHONE_REGIONS = ("US", "GB", "CN")
"""Regions whose numbers are recognised without their country's prefix; with it, all are."""

SCORES = {"CREDIT_CARD": 0.9, "CN_ID_CARD": 0.9, "NATIONAL_ID": 0.5}
"""Certainty of what our own patterns find: where two find the same, the more certain names it."""
MIN_SCORE = 0.35
"""Presidio gives a phone number 0.4 and its weakest patterns 0.01 to 0.3."""

_EMAIL = (
    r"(?<![A-Za-z0-9._%+-])[A-Za-z0-9._%+-]{1,64}+@(?:[A-Za-z0-9-]{1,63}+\.){1,8}[A-Za-z]{2,24}\b"
)
_CN_MOBILE = r"(?<!\d)(?:(?:\+|00)?86[ -]?)?1[3-9]\d(?:[ -]?\d{4}){2}(?!\d)"
_PHONE = lazy_pattern(r"(?<![\d+])(?:\+|\()?+\d(?:[ ()./\u2010-\u2015-]{0,2}+\d){6,24}+")
"""Where a telephone number may stand: only there is it looked for, since the search of the library
`phonenumbers` is for texts of people, and takes its time over others."""

_LABELS_OF_NO_PERSON = (
    *("CARDINAL", "DATE", "EVENT", "FAC", "LANGUAGE", "LAW", "MISC", "MONEY"),
    *("ORDINAL", "PERCENT", "PRODUCT", "QUANTITY", "TIME", "WORK_OF_ART"),
)
"""Labels of spaCy's; Presidio warns of each label that is neither known to it nor ignored."""

_CJK = lazy_pattern(r"[\u3400-\u9fff]")
_LONG_WORD = lazy_pattern(r"\S{64}")
_LATIN = lazy_pattern(r"[A-Za-z]")


class PersonalData:
    """Replaces personal data in English and Chinese texts; loaded with the first text.

    Called from the worker only.
    """

    def __init__(self, entities: Sequence[str], models: Sequence[str] = ()) -> None:
        """Set what to look for; nothing is loaded yet.

        Args:
            entities: Presidio's names, of those in `ENTITIES`.
            models: spaCy pipelines: names of installed packages, or folders. One a language;
                empty: the best that is installed for each.
        """
        self._entities = tuple(entities)
        self._models = tuple(models)
        self._replace: Callable[[str], str] | None = None
        self._failure: Exception | None = None

    def check(self) -> None:
        """Check that everything is installed, without loading it.

        Raises:
            SettingsError: There is no such entity, or a named model is not installed.
            MissingExtraError: Presidio is not installed.
        """
        unknown = [entity for entity in self._entities if entity not in ENTITIES]
        if unknown:
            raise SettingsError(
                f"personal_entities: unknown {', '.join(unknown)}; known: {', '.join(ENTITIES)}"
            )
        if find_spec("presidio_analyzer") is None or find_spec("presidio_anonymizer") is None:
            raise MissingExtraError(
                "Microsoft Presidio, for content.redaction 'personal',", "presidio"
            )
        for model in self._models:
            if not _is_installed(model):
                raise SettingsError(
                    f"personal_models: {model} is not installed; "
                    f"run: python -m spacy download {model}"
                )
        wanted = [entity for entity in self._entities if entity in _BY_MODEL]
        if wanted and not self._models:
            missing = [language for language in MODELS if _best_model(language) is None]
            if missing:
                logger.warning(
                    "ragmonitor: redaction 'personal' does not find %s in these languages, for "
                    "want of a spaCy model: %s; run: %s",
                    ", ".join(wanted),
                    ", ".join(missing),
                    "; ".join(f"python -m spacy download {MODELS[each][2]}" for each in missing),
                )

    def __call__(self, text: str) -> str:
        """Return the text with a mark for each that was found: `[redacted:person]`.

        Raises:
            Exception: It cannot be loaded; tried once, for trying takes seconds.
        """
        if self._failure is not None:
            raise self._failure
        if self._replace is None:
            try:
                self._replace = _load(self._entities, self._models)
            except Exception as error:
                self._failure = error
                raise
        return self._replace(text)


def languages_of(text: str) -> tuple[Language, ...]:
    """Return the languages in which a text is analysed: a mixed text in both."""
    chinese, latin = len(_CJK.findall(text)), len(_LATIN.findall(text))
    if not chinese:
        return ("en",)
    return ("zh", "en") if latin > chinese else ("zh",)


def phone_candidates(text: str) -> Iterator[tuple[int, str]]:
    """Yield the parts of a text that may hold a telephone number, each with its place."""
    for match in _PHONE.finditer(text):
        # What stands around it tells the library whether it is a part of something longer.
        start, end = max(0, match.start() - 2), min(len(text), match.end() + 2)
        yield start, text[start:end]


def _with_short_words(text: str, language: Language) -> str:
    """Return a text of the same length in which spaCy's time per word has a bound.

    Its tokenizer takes off one sign after the other at both ends of a word and looks through all of
    the rest each time: 20 kB of `+` without a space took it a minute. No name is as long as that.
    Chinese is separated otherwise, and has no spaces to look for.
    """
    return text if language == "zh" else _LONG_WORD.sub(lambda match: f"{match[0][:-1]} ", text)


def _is_installed(model: str) -> bool:
    return (model.isidentifier() and find_spec(model) is not None) or Path(model).is_dir()


def _best_model(language: Language) -> str | None:
    return next((model for model in MODELS[language] if _is_installed(model)), None)


def _load(entities: Sequence[str], models: Sequence[str]) -> Callable[[str], str]:
    from presidio_analyzer import AnalyzerEngine, RecognizerRegistry
    from presidio_analyzer.nlp_engine import NerModelConfiguration, SpacyNlpEngine
    from presidio_anonymizer import AnonymizerEngine
    from presidio_anonymizer.entities import OperatorConfig

    languages: tuple[Language, ...] = ("en", "zh")
    engine = SpacyNlpEngine(
        models=[{"lang_code": language, "model_name": "given"} for language in languages],
        ner_model_configuration=NerModelConfiguration(labels_to_ignore=_LABELS_OF_NO_PERSON),
    )
    # Given ready: loading by name would go to the network for a model that is missing.
    engine.nlp = _pipelines(models)
    analyzer = AnalyzerEngine(
        registry=RecognizerRegistry(
            recognizers=[r for language in languages for r in _recognizers(entities, language)],
            supported_languages=list(languages),
        ),
        nlp_engine=engine,
        supported_languages=list(languages),
        default_score_threshold=MIN_SCORE,
    )
    anonymizer = AnonymizerEngine()
    marks = {
        entity: OperatorConfig("replace", {"new_value": f"[redacted:{entity.lower()}]"})
        for entity in entities
    }

    def replace(text: str) -> str:
        detections: list[Any] = []
        plain = plain_digits(text)
        for language in languages_of(text):
            # The words are another text's, of the same length: patterns see the true one.
            words = engine.process_text(_with_short_words(text, language), language)
            detections += analyzer.analyze(
                plain, language=language, entities=list(entities), nlp_artifacts=words
            )
        if not detections:
            return text
        return str(anonymizer.anonymize(text, analyzer_results=detections, operators=marks).text)

    return replace


def _pipelines(models: Sequence[str]) -> dict[str, Any]:
    """Return a spaCy pipeline a language; without a model, one that only separates words."""
    import spacy

    pipelines: dict[str, Any] = {language: spacy.blank(language) for language in MODELS}
    names = models or [name for language in MODELS if (name := _best_model(language))]
    for name in names:
        pipeline = spacy.load(name)
        if pipeline.lang not in MODELS:
            raise SettingsError(
                f"personal_models: {name} reads {pipeline.lang!r}; texts are read in English "
                "and Chinese"
            )
        pipelines[pipeline.lang] = pipeline
    return pipelines


def _number_recognizer(entities: Sequence[str], language: Language) -> Any:
    from presidio_analyzer import EntityRecognizer, RecognizerResult

    class Numbers(EntityRecognizer):  # type: ignore[misc] # Presidio's, and it is not typed
        """Finds numbers that states and banks give to people."""

        def load(self) -> None:
            """Have nothing to load."""

        def analyze(
            self,
            text: str,
            entities: list[str],
            nlp_artifacts: Any = None,  # noqa: ARG002 - of the base class
        ) -> list[Any]:
            return [
                RecognizerResult(each.kind, each.start, each.end, SCORES[each.kind])
                for each in numbers_in(text)
                if each.kind in entities
            ]

    return Numbers(supported_entities=list(entities), supported_language=language)


def _phone_recognizer(language: Language) -> Any:
    from presidio_analyzer import RecognizerResult
    from presidio_analyzer.predefined_recognizers import PhoneRecognizer

    class Phones(PhoneRecognizer):  # type: ignore[misc] # as above
        """Finds telephone numbers, where there may be one."""

        def analyze(self, text: str, entities: list[str], nlp_artifacts: Any = None) -> list[Any]:
            return [
                RecognizerResult(each.entity_type, start + each.start, start + each.end, each.score)
                for start, part in phone_candidates(text)
                for each in super(Phones, self).analyze(part, entities, nlp_artifacts)
            ]

    return Phones(supported_language=language, supported_regions=PHONE_REGIONS, leniency=1)


def _recognizers(entities: Sequence[str], language: Language) -> list[Any]:
    import regex
    from presidio_analyzer import Pattern, PatternRecognizer
    from presidio_analyzer import predefined_recognizers as presidio

    def pattern(entity: str, regular: str) -> Any:
        return PatternRecognizer(
            supported_entity=entity,
            supported_language=language,
            patterns=[Pattern(entity, regular, 0.9)],
        )

    made: dict[str, list[Any]] = {
        "EMAIL_ADDRESS": [pattern("EMAIL_ADDRESS", _EMAIL)],
        "PHONE_NUMBER": [_phone_recognizer(language), pattern("PHONE_NUMBER", _CN_MOBILE)],
        "CREDIT_CARD": [presidio.CreditCardRecognizer(supported_language=language)],
        "IBAN_CODE": [presidio.IbanRecognizer(supported_language=language)],
        "IP_ADDRESS": [presidio.IpRecognizer(supported_language=language)],
        "CRYPTO": [presidio.CryptoRecognizer(supported_language=language)],
        "US_SSN": [presidio.UsSsnRecognizer(supported_language=language)],
    }
    chosen = [recognizer for entity in entities for recognizer in made.get(entity, ())]
    numbers = [entity for entity in entities if entity in _NUMBERS]
    if numbers:
        chosen.append(_number_recognizer(numbers, language))
    for recognizer in chosen:
        if isinstance(recognizer, PatternRecognizer):
            # Else a number right after a Chinese character would not begin at a word's boundary.
            recognizer.global_regex_flags |= regex.ASCII
    named = [entity for entity in entities if entity in _BY_MODEL]
    if named:
        chosen.append(
            presidio.SpacyRecognizer(supported_language=language, supported_entities=named)
        )
    return chosen
