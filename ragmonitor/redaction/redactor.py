"""Every text of a record, rewritten before a judge or an exporter sees it."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, TypeVar

from ragmonitor.errors import RagMonitorError, SettingsError
from ragmonitor.guard import record_error
from ragmonitor.records import (
    Chunk,
    Generation,
    Interaction,
    Message,
    Retrieval,
    error_type,
)
from ragmonitor.redaction.credentials import is_secret_under, secrets_in, without_secrets
from ragmonitor.redaction.detections import MARK, Detection, redacted
from ragmonitor.redaction.personal import PersonalData

Redact = Callable[[str], str]
"""Returns the text with what must not leave replaced."""

Rewrite = Callable[[str, str], str]
"""Returns the text rewritten, given its name in a mapping or else nothing."""

BUILT_IN = ("secrets", "personal")

MAX_DEPTH = 10
"""The depth of metadata; what is nested deeper is rewritten as the text that it prints as."""
MIN_KNOWN = 6
"""Characters from which on a secret is recognised again where nothing gives it away."""
MIN_KNOWN_WORD = 8
"""The same of one without a digit, which may be a word of everyday language."""
MAX_KNOWN = 200
MAX_CLEAN = 256
"""Texts without a secret that are remembered as such: none that holds one is."""
MAX_CLEAN_CHARACTERS = 6_000


class RedactionError(RagMonitorError):
    """A redaction failed; the message says with which type of error, and where."""

    quotes_no_text = True


class Redactor:
    """Rewrites records: secrets first, then personal data, then the application's functions.

    A secret that one text gives away (`api_key=...`) is replaced in the others too: an answer that
    quotes it would leak it otherwise, and would be judged against a chunk in which it is gone.
    """

    def __init__(
        self,
        redactions: Sequence[str | Redact] = ("secrets",),
        *,
        personal: PersonalData | None = None,
    ) -> None:
        """Check what is asked for.

        Args:
            redactions: Names of the built-in ones, and functions of the application's, which are
                called with every text.
            personal: How personal data are found, if `redactions` has `personal`.

        Raises:
            SettingsError: There is no such redaction, or a model for it is not installed.
            MissingExtraError: What it needs is not installed.
        """
        own = [each for each in redactions if not isinstance(each, str)]
        unknown = [name for name in redactions if isinstance(name, str) and name not in BUILT_IN]
        unknown += [repr(each) for each in own if not callable(each)]
        if unknown:
            raise SettingsError(
                f"content.redaction: unknown {', '.join(unknown)}; known: {', '.join(BUILT_IN)}"
            )
        self._secrets = "secrets" in redactions
        self._steps: list[Redact] = []
        if "personal" in redactions:
            if personal is None:
                raise SettingsError("redaction: `personal` needs personal=PersonalData(entities)")
            personal.check()
            self._steps.append(personal)
        self._steps += own

    def __call__(self, interaction: Interaction) -> Interaction:
        """Return the record with every text rewritten.

        Where that fails nothing may leak: the record then comes back without any text, marked
        `capture_incomplete`, so that it is counted and not scored.
        """
        if not (self._secrets or self._steps):
            return interaction
        try:
            return self._redacted(interaction)
        except Exception as error:  # noqa: BLE001 - the hook is anybody's code
            record_error("redact", _withheld(error))
            return _without_texts(interaction)

    def text(self, text: str, name: str = "") -> str:
        """Return one text that belongs to no record (what a judge's provider says) rewritten.

        Args:
            text: Any text.
            name: Its name, where it has one: what stands under `password` is a secret.
        """
        try:
            if self._secrets:
                is_secret = name and is_secret_under(name, text)
                text = MARK.format(kind="secret") if is_secret else without_secrets(text)
            return self._stepped(text)
        except Exception as error:  # noqa: BLE001 - the hook is anybody's code
            record_error("redact", _withheld(error))
            return ""

    def _redacted(self, interaction: Interaction) -> Interaction:
        # By text and name: a chunk stands in a record twice, and as the same text.
        cleaned: dict[tuple[str, str], str] = {}
        if self._secrets:
            cleaned = _without_secrets(interaction)
            if not self._steps and all(text == original for (original, _), text in cleaned.items()):
                return interaction
        rewritten: dict[tuple[str, str], str] = {}

        def rewrite(text: str, name: str) -> str:
            key = text, name
            if text and key not in rewritten:
                rewritten[key] = self._stepped(cleaned.get(key, text))
            return rewritten[key] if text else text

        def rewrite_label(text: str, name: str) -> str:
            # The application's own names for an interaction: no hook for questions gets them.
            return cleaned.get((text, name), text)

        record = _rewritten(interaction, rewrite, rewrite_label)
        labels = interaction.attributes.items()
        changed = {original for (original, _), text in rewritten.items() if text != original}
        changed |= {text for name, text in labels if rewrite_label(text, name) != text}
        return replace(record, redacted=len(changed)) if changed else record

    def _stepped(self, text: str) -> str:
        for step in self._steps:
            text = step(text)
            if not isinstance(text, str):
                raise TypeError(f"the redaction returned {type(text).__name__}, not a text")
        return text


class _FoundError(Exception):
    """There are secrets in a text; raised, because what raises is not kept."""


@lru_cache(maxsize=MAX_CLEAN)
def _expect_clean(text: str) -> None:
    """Do nothing, at once for a text in which nothing was found lately.

    Raises:
        _FoundError: With the secrets that were found.
    """
    secrets = secrets_in(text)
    if secrets:
        raise _FoundError(secrets)


def _secrets_in(text: str) -> Sequence[Detection]:
    """Return the secrets in a text; faster for chunks that are retrieved again and again."""
    if len(text) > MAX_CLEAN_CHARACTERS:
        return secrets_in(text)
    try:
        _expect_clean(text)
    except _FoundError as error:
        secrets: Sequence[Detection] = error.args[0]
        return secrets
    return ()


def _without_secrets(interaction: Interaction) -> dict[tuple[str, str], str]:
    """Return the texts of a record without secrets, by text and name."""
    cleaned: dict[tuple[str, str], str] = {}
    known: dict[str, str] = {}

    def clean(text: str, name: str) -> str:
        if text and (text, name) not in cleaned:
            secrets = _secrets_in(text)
            cleaned[text, name] = redacted(text, secrets)
            for secret in secrets:
                known.setdefault(text[secret.start : secret.end], secret.kind)
            if name and is_secret_under(name, text):
                cleaned[text, name] = MARK.format(kind="secret")
                known.setdefault(text, "secret")
        return text  # nothing changes, so no record is made

    _rewritten(interaction, clean, clean)
    again = {value: kind for value, kind in known.items() if _is_recognised(value)}
    if again:
        values = sorted(list(again)[:MAX_KNOWN], key=len, reverse=True)
        anywhere = re.compile(
            r"(?<![A-Za-z0-9])(?:" + "|".join(map(re.escape, values)) + r")(?![A-Za-z0-9])"
        )
        for key, text in cleaned.items():
            cleaned[key] = anywhere.sub(lambda match: MARK.format(kind=again[match[0]]), text)
    return cleaned


def _is_recognised(value: str) -> bool:
    has_digit = any(map(str.isdigit, value))
    return len(value) >= (MIN_KNOWN if has_digit else MIN_KNOWN_WORD)


def _rewritten(
    interaction: Interaction, text: Rewrite, label: Rewrite, *, with_metadata: bool = True
) -> Interaction:
    """Return the record with its texts rewritten by `text`, and its attributes by `label`."""

    def metadata(of: Mapping[str, Any]) -> Mapping[str, Any]:
        if not of and type(of) is dict:  # as nearly always
            return of
        return _mapping(of, text, 1) if with_metadata else {}

    def chunks(of: tuple[Chunk, ...]) -> tuple[Chunk, ...]:
        return _each(
            of,
            lambda chunk: _with(
                chunk, text=text(chunk.text, ""), metadata=metadata(chunk.metadata)
            ),
        )

    return _with(
        interaction,
        query=text(interaction.query, ""),
        chunks=chunks(interaction.chunks),
        not_shown=chunks(interaction.not_shown),
        answer=text(interaction.answer, ""),
        reference=text(interaction.reference, ""),
        reference_chunks=chunks(interaction.reference_chunks),
        error=text(interaction.error, ""),
        retrievals=_each(
            interaction.retrievals,
            lambda r: _with(
                r, query=text(r.query, ""), chunks=chunks(r.chunks), error=text(r.error, "")
            ),
        ),
        generations=_each(
            interaction.generations,
            lambda g: _with(
                g,
                input=_each(g.input, lambda m: _with(m, text=text(m.text, ""))),
                output=text(g.output, ""),
                error=text(g.error, ""),
            ),
        ),
        attributes=_same_or(
            interaction.attributes,
            {
                name: label(value, name) if isinstance(value, str) else value
                for name, value in interaction.attributes.items()
            },
        ),
    )


Record = TypeVar("Record", Chunk, Retrieval, Generation, Message, Interaction)


def _with(record: Record, **fields: Any) -> Record:
    """Return the record with these fields; the same one where each is the same already."""
    for name, value in fields.items():
        if getattr(record, name) is not value:
            return replace(record, **fields)
    return record


def _each(records: tuple[Record, ...], rewrite: Callable[[Record], Record]) -> tuple[Record, ...]:
    rewritten = tuple([rewrite(record) for record in records])
    return records if all(map(operator.is_, rewritten, records)) else rewritten


def _same_or(values: Mapping[Any, Any], rewritten: dict[Any, Any]) -> Mapping[Any, Any]:
    """Return the rewritten mapping; the one that it was made of where that holds the same."""
    if type(values) is dict and all(map(operator.is_, rewritten.values(), values.values())):
        return values
    return rewritten


def _mapping(values: Mapping[Any, Any], text: Rewrite, depth: int) -> Mapping[Any, Any]:
    return _same_or(
        values, {name: _value(value, str(name), text, depth) for name, value in values.items()}
    )


def _value(value: Any, name: str, text: Rewrite, depth: int) -> Any:
    """Return metadata with its texts rewritten; keys stay, and so do numbers.

    What is neither would leave as the text that it prints as, so that is what is rewritten.
    """
    if isinstance(value, str):
        return text(str(value), name)
    if value is None or isinstance(value, bool | int | float):
        return value
    if depth < MAX_DEPTH:
        if isinstance(value, Mapping):
            return _mapping(value, text, depth + 1)
        if isinstance(value, list | tuple | set | frozenset):
            return [_value(inner, name, text, depth + 1) for inner in value]
    return text(str(value), name)


def _without_texts(interaction: Interaction) -> Interaction:
    def empty(_text: str, _name: str) -> str:
        return ""

    emptied = _rewritten(interaction, empty, empty, with_metadata=False)
    return replace(
        emptied, attributes={}, error=error_type(interaction.error), capture_incomplete=True
    )


def _withheld(error: Exception) -> Exception:
    """Return an error with the traceback of this one but without its message: it may quote."""
    # The type of the first is part of the second's text, and not its cause: causes are printed.
    withheld = RedactionError(
        f"{type(error).__name__} in a redaction; its message may quote the text"
    )
    return withheld.with_traceback(error.__traceback__)
