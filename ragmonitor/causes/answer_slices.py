"""Names what slices of answers are made of: values that come up again of what is known of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from functools import lru_cache
from typing import Final

from ragmonitor.records import Report, is_private
from ragmonitor.stats.signals import language_of

SERVICE_VERSION: Final = "service_version"
MAX_ATTRIBUTES: Final = 8
"""Attributes of one answer, in the order of their names."""
MAX_CHARACTERS: Final = 80
"""Characters of a value; a longer one is a text, and names no slice."""
RECURRING: Final = 3
"""A value names a slice from so many answers on: ids and texts of answers never do."""
MAX_COUNTED: Final = 2_000
"""Values that are counted until they recur, and that recur."""

_is_private = lru_cache(MAX_COUNTED)(is_private)


class AnswerSlices:
    """Returns the values by which the slices of an answer are told apart, by attribute.

    Attributes need not be named beforehand. The store admits at most 20 values of a dimension and
    100 in all.
    """

    def __init__(self, *, version: str = "", shown: Collection[str] = ()) -> None:
        """Begin without an answer.

        Args:
            version: The setting `service_version`, where an interaction names no other.
            shown: Dimensions whose rates are shown; they are looked at in any case.
        """
        self._version = version
        self._shown = frozenset(shown)
        self._counts: Counter[tuple[str, str]] = Counter()
        self._recurring: set[tuple[str, str]] = set()

    def __call__(self, builtin: Report) -> Mapping[str, str]:
        """Return the values of an answer, by the report of the judge of every answer."""
        interaction = builtin.interaction
        attributes = interaction.attributes
        known = [
            (name, attributes[name])
            for name in sorted(attributes)[:MAX_ATTRIBUTES]
            if name in self._shown or not _is_private(name)
        ]
        if SERVICE_VERSION not in attributes:
            known.append((SERVICE_VERSION, self._version))
        known += ("name", interaction.name), ("language", language_of(builtin))
        known.append(("model", interaction.model))
        return {
            dimension: value
            for dimension, value in known
            if 0 < len(value) <= MAX_CHARACTERS and self._recurs(dimension, value)
        }

    def _recurs(self, dimension: str, value: str) -> bool:
        key = dimension, value
        if dimension == SERVICE_VERSION or dimension in self._shown or key in self._recurring:
            return True
        self._counts[key] += 1
        if self._counts[key] >= RECURRING and len(self._recurring) < MAX_COUNTED:
            del self._counts[key]
            self._recurring.add(key)
            return True
        if len(self._counts) > MAX_COUNTED:
            self._counts.clear()
        return False
