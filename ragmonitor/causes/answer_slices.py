"""Names the slices of an answer: the values that come up again of what is known of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from typing import Final

from ragmonitor.records import Interaction, Report
from ragmonitor.store import Admission, Store

SERVICE_VERSION: Final = "service_version"
MAX_ATTRIBUTES: Final = 8
"""Attributes of one answer, in the order of their names."""
MAX_CHARACTERS: Final = 80
"""Characters of a value; a longer one is a text, and names no slice."""
RECURRING: Final = 3
"""A value names a slice from so many answers on: ids and texts of answers never do."""
MAX_COUNTED: Final = 2_000
"""Values that are counted until they recur."""


class AnswerSlices:
    """Returns the slices of an answer, such as `route=billing`.

    Attributes need not be named beforehand. Numbers (latencies, scores, counts of chunks) make no
    slices. The store admits at most 20 values of a dimension and 100 in all; the rest is `other`.
    """

    def __init__(self, store: Store, *, version: str = "", leave_out: Sequence[str] = ()) -> None:
        """Touch nothing yet.

        Args:
            store: Where values are admitted.
            version: The setting `service_version`, where an interaction names no other.
            leave_out: Patterns of attributes that are not looked at: `user*`.
        """
        self._store = store
        self._version = version
        self._leave_out = tuple(leave_out)
        self.clear()

    def clear(self) -> None:
        """Forget what was counted."""
        self._admissions: dict[str, Admission] = {}
        self._counts: Counter[tuple[str, str]] = Counter()
        self._recurring: set[tuple[str, str]] = set()

    def of(self, interaction: Interaction, builtin: Report) -> tuple[str, ...]:
        """Return the slices of an answer. Raises `StoreUnavailableError`.

        Args:
            interaction: The answer.
            builtin: The report of the judge of every answer, which knows its language.
        """
        found: list[str] = []
        for dimension, value in self._known(interaction, builtin):
            if 0 < len(value) <= MAX_CHARACTERS and self._recurs(dimension, value):
                admission = self._admissions.get(dimension)
                if admission is None:
                    admission = self._admissions[dimension] = Admission(self._store, (dimension,))
                found += admission.slices({dimension: value})
        return tuple(found)

    def _known(self, interaction: Interaction, builtin: Report) -> Iterator[tuple[str, str]]:
        attributes = interaction.attributes
        yield SERVICE_VERSION, attributes.get(SERVICE_VERSION) or self._version
        yield "name", interaction.name
        yield "language", builtin.assessment.language if builtin.assessment else ""
        if interaction.generations:
            yield "model", interaction.generations[-1].model
        for name in sorted(attributes)[:MAX_ATTRIBUTES]:
            is_wanted = not any(fnmatchcase(name, each) for each in self._leave_out)
            if is_wanted and name not in (SERVICE_VERSION, "name", "language", "model"):
                yield name, attributes[name]

    def _recurs(self, dimension: str, value: str) -> bool:
        key = dimension, value
        if dimension == SERVICE_VERSION or key in self._recurring:
            return True
        self._counts[key] += 1
        if self._counts[key] >= RECURRING and len(self._recurring) < MAX_COUNTED:
            del self._counts[key]
            self._recurring.add(key)
            return True
        if len(self._counts) > MAX_COUNTED:
            self._counts.clear()
        return False
