"""Every text of a record, rewritten before a judge or an exporter sees it."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from ragmonitor.records import (
    Chunk,
    Generation,
    Interaction,
    Message,
    Retrieval,
    error_type,
)
from ragmonitor.redaction.credentials import (
    is_secret_under,
    secrets_in,
    suspicions,
    without_secrets,
)
from ragmonitor.redaction.detections import MARK, Detection, redacted
from ragmonitor.redaction.personal import PersonalData
from ragmonitor.runtime.errors import RagMonitorError, SettingsError
from ragmonitor.runtime.guard import record_error

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
MIN_SEARCHED = 200
MAX_SEARCHED = 1_000_000
"""The characters of a text from which on it is looked for in the longest, and of all such looks."""

TEXTS: Final[Mapping[type, tuple[str, ...]]] = {
    Interaction: ("query", "answer", "reference", "error"),
    Retrieval: ("query", "error"),
    Generation: ("output", "error"),
    Message: ("text",),
    Chunk: ("text",),
}
"""The fields of each record that are texts..."""
RECORDS: Final[Mapping[type, tuple[str, ...]]] = {
    Interaction: ("chunks", "not_shown", "reference_chunks", "retrievals", "generations"),
    Retrieval: ("chunks",),
    Generation: ("input",),
}
"""... and those that are tuples of records."""


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
    ) -> None:
        """Check what is asked for.

        Args:
            redactions: Names of the built-in ones, and functions of the application's, which are
                called with every text.

        Raises:
            SettingsError: There is no such redaction.
            MissingExtraError: What it needs is not installed.
        """
        unknown = [each for each in redactions if each not in BUILT_IN and not callable(each)]
        if unknown:
            raise SettingsError(
                f"content.redaction: unknown {', '.join(map(str, unknown))}; "
                f"known: {', '.join(BUILT_IN)}"
            )
        self._secrets = "secrets" in redactions
        self._steps: list[Redact] = []
        if "personal" in redactions:
            self._steps.append(PersonalData())
        self._steps += [each for each in redactions if not isinstance(each, str)]

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
        secrets = _without_secrets(interaction) if self._secrets else {}
        if not (secrets or self._steps):
            return interaction
        # By text and name: a chunk stands in a record twice, and as the same text.
        cleaned: dict[tuple[str, str], str] = {}

        def without_secret(text: str, name: str) -> str:
            return secrets.get((text, name), text)

        def rewrite(text: str, name: str) -> str:
            if text and (text, name) not in cleaned:
                cleaned[text, name] = self._stepped(without_secret(text, name))
            return cleaned.get((text, name), text)

        # The application's own names for an interaction: no hook for questions gets them.
        record: Interaction = _rewritten(interaction, rewrite, of_labels=without_secret)
        made = (*secrets.items(), *cleaned.items())
        changed = {text for (text, _), new in made if new != text}
        return replace(record, redacted=len(changed)) if changed else interaction

    def _stepped(self, text: str) -> str:
        for step in self._steps:
            text = step(text)
            if not isinstance(text, str):
                raise TypeError(f"the redaction returned {type(text).__name__}, not a text")
        return text


def _without_secrets(interaction: Interaction) -> dict[tuple[str, str], str]:
    """Return those texts of a record that hold secrets, without these, by text and name."""
    texts = _texts(interaction)
    suspected = suspicions(_joined({text for text, _ in texts}))
    cleaned: dict[tuple[str, str], str] = {}
    known: dict[str, str] = {}
    for text, name in texts:
        if name and is_secret_under(name, text):
            secrets: Sequence[Detection] = (Detection(0, len(text), "secret"),)
        else:
            secrets = secrets_in(text, suspected)
        if secrets:
            cleaned[text, name] = redacted(text, secrets)
        for secret in secrets:
            value = text[secret.start : secret.end]
            if len(value) >= (MIN_KNOWN if any(map(str.isdigit, value)) else MIN_KNOWN_WORD):
                known.setdefault(value, secret.kind)
    if known:
        values = sorted(list(known)[:MAX_KNOWN], key=len, reverse=True)
        anywhere = re.compile(
            r"(?<![A-Za-z0-9])(?:" + "|".join(map(re.escape, values)) + r")(?![A-Za-z0-9])"
        )
        for key in texts:
            text = cleaned.get(key, key[0])
            cleaned[key] = anywhere.sub(lambda match: MARK.format(kind=known[match[0]]), text)
    return cleaned


def _joined(texts: Collection[str]) -> str:
    """Return a text in which each of these stands: a prompt has most of them in it already."""
    longest = max(texts, key=len, default="")
    if len(texts) * len(longest) < MAX_SEARCHED:
        texts = [text for text in texts if len(text) < MIN_SEARCHED or text not in longest]
    return "\n".join((longest, *texts))


def _texts(interaction: Interaction) -> Collection[tuple[str, str]]:
    """Return every text of a record once, in order, with its name in metadata, else nothing."""
    found: dict[tuple[str, str], None] = {}

    def note(text: str, name: str) -> str:
        if text:
            found[text, name] = None
        return text

    _rewritten(interaction, note, of_labels=note)
    return found


def _rewritten(
    record: Any,
    rewrite: Rewrite,
    *,
    of_labels: Rewrite = lambda text, _name: text,
    with_metadata: bool = True,
) -> Any:
    """Return a record with its texts rewritten; the same one where each stays the same."""
    changes: dict[str, Any] = {}
    for name in TEXTS[type(record)]:
        text = getattr(record, name)
        if text and (rewritten := rewrite(text, "")) is not text:
            changes[name] = rewritten
    for name in RECORDS.get(type(record), ()):
        records = getattr(record, name)
        made = tuple([_rewritten(each, rewrite, with_metadata=with_metadata) for each in records])
        if any(map(operator.is_not, made, records)):
            changes[name] = made
    if type(record) is Chunk:
        changes["metadata"] = _mapping(record.metadata, rewrite, 1) if with_metadata else {}
    elif type(record) is Interaction:
        changes["attributes"] = _mapping(record.attributes, of_labels, 1)
    is_same = all(getattr(record, name) is value for name, value in changes.items())
    return record if is_same else replace(record, **changes)


def _mapping(values: Mapping[Any, Any], rewrite: Rewrite, depth: int) -> Mapping[Any, Any]:
    made = {name: _value(value, str(name), rewrite, depth) for name, value in values.items()}
    is_same = type(values) is dict and all(map(operator.is_, made.values(), values.values()))
    return values if is_same else made


def _value(value: Any, name: str, rewrite: Rewrite, depth: int) -> Any:
    """Return metadata with its texts rewritten; keys stay, and so do numbers.

    What is neither would leave as the text that it prints as, so that is what is rewritten.
    """
    if value is None or isinstance(value, (bool, int, float)):
        return value
    if depth < MAX_DEPTH and type(value) is not str:  # to ask an abstract class takes longer
        if isinstance(value, Mapping):
            return _mapping(value, rewrite, depth + 1)
        if isinstance(value, list | tuple | set | frozenset):
            return [_value(inner, name, rewrite, depth + 1) for inner in value]
    return rewrite(str(value), name)


def _without_texts(interaction: Interaction) -> Interaction:
    emptied: Interaction = _rewritten(interaction, lambda _text, _name: "", with_metadata=False)
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
