"""The limits of a span, and how its attributes share them.

A collector drops a batch that is too large, with the spans of others in it, and the SDK evicts the
oldest attribute beyond its limit. So every span is filled from the most important attribute to the
least, within its limits, and its attributes are set the other way round.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import accumulate
from typing import Any, TypeVar

from ragmonitor.export.content import clipped, encodable_json, size_bytes

Value = str | bool | int | float | list[str]
Attributes = dict[str, Value]
Item = TypeVar("Item")
Built = TypeVar("Built")

MAX_ATTRIBUTE_BYTES = 32 * 1024
MAX_SPAN_BYTES = 256 * 1024
MAX_ATTRIBUTES = 128
"""The SDK's default limit for a span."""
MIN_TEXT_BYTES = 256
"""Below this a text is left out rather than cut."""
_MIN_JSON_TEXT_BYTES = 16
"""Bytes to which texts in JSON of the application's own are cut before a value is left out."""
FEW = 16
"""Items up to which all are tried at once: as many as an answer usually has."""
_OVERHEAD_BYTES = 8
"""The bytes of one attribute in OTLP's encoding beside its name and value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SpanLimits:
    """The limits of what one span may hold."""

    attribute_bytes: int = MAX_ATTRIBUTE_BYTES
    """UTF-8 bytes of one value."""
    span_bytes: int = MAX_SPAN_BYTES
    """The bytes of all names and values together."""
    attributes: int | None = MAX_ATTRIBUTES
    """The number of attributes; None: any number."""
    characters: int | None = None
    """The characters of one value, beyond which the SDK cuts it; None: any number."""

    def clipped(self, text: str, max_bytes: int | None = None) -> str:
        """Return the text cut to one value's limits, and to `max_bytes`."""
        own = self.attribute_bytes
        most = own if max_bytes is None or max_bytes > own else max_bytes
        if len(text) <= most and self.characters is None and text.isascii():  # as nearly always
            return text
        return clipped(text, most, self.characters)

    def holds(self, text: str, max_bytes: int | None = None) -> bool:
        """Return whether the text fits into one value, and into `max_bytes`."""
        within = self.characters is None or len(text) <= self.characters
        own = self.attribute_bytes
        return within and size_bytes(text) <= (own if max_bytes is None else min(max_bytes, own))

    def json_object(self, values: Mapping[str, Any]) -> Callable[[int], str | None]:
        """Return a function from a number of bytes to the values as a JSON object of at most that.

        First the texts in it are cut, then values are left out from the end; None: nothing fits.
        """
        whole = encodable_json(values)
        some = list(values.items())

        @cache
        def at_least() -> list[int]:
            # The fewest bytes of the first n: 2 braces, and each its own part and a comma.
            each = (size_bytes(self._encoded([item], _MIN_JSON_TEXT_BYTES)) - 1 for item in some)
            return list(accumulate(each, initial=1))[1:]

        def within(max_bytes: int) -> str | None:
            max_bytes = min(max_bytes, self.attribute_bytes)
            if self.holds(whole, max_bytes):
                return whole

            def fits(text: str) -> bool:
                return self.holds(text, max_bytes)

            possible = some[: bisect_right(at_least(), max_bytes)]
            fitting = fitted(
                possible, self._encoded, fits, min_bytes=_MIN_JSON_TEXT_BYTES, max_bytes=max_bytes
            )
            return None if fitting is None or not fitting[1] else fitting[0]

        return within

    @staticmethod
    def _encoded(some: Sequence[tuple[str, Any]], max_bytes: int) -> str:
        return encodable_json({name: cut(value, max_bytes) for name, value in some})


def fitted(
    items: Sequence[Item],
    build: Callable[[Sequence[Item], int], Built],
    fits: Callable[[Built], bool],
    *,
    max_bytes: int,
    min_bytes: int = MIN_TEXT_BYTES,
) -> tuple[Built, int] | None:
    """Return what is built of as many items as fit, and of how many it is; None: not even of none.

    Their texts are cut before an item is left out: as short as `min_bytes` for as many items as
    possible, then as long as fits for those.

    Args:
        items: In the order of importance.
        build: Of some of the items, their texts cut to so many bytes.
        fits: Whether what was built may stay.
        max_bytes: Bytes of a text that are never exceeded.
        min_bytes: Bytes below which no text is cut.
    """
    whole = _whole(items, build, fits, max_bytes)
    if whole is not None:
        return whole, len(items)
    min_bytes = min(min_bytes, max_bytes)
    count = _count_that_fits(len(items), lambda n: fits(build(items[:n], min_bytes)))
    if count is None:
        return None
    some = items[:count]
    uncut = build(some, max_bytes)
    if fits(uncut):  # there were too many of them, none too long
        return uncut, count
    cut = _largest(min_bytes, max_bytes, lambda n: fits(build(some, n)))
    return build(some, min_bytes if cut is None else cut), count


def _whole(
    items: Sequence[Item],
    build: Callable[[Sequence[Item], int], Built],
    fits: Callable[[Built], bool],
    max_bytes: int,
) -> Built | None:
    """Return what is built of all items, if it fits. It stops at the first part that does not."""
    count = FEW
    while count < len(items):
        if not fits(build(items[:count], max_bytes)):
            return None
        count *= 4
    whole = build(items, max_bytes)
    return whole if fits(whole) else None


def _count_that_fits(count: int, fits: Callable[[int], bool]) -> int | None:
    """Return how many items fit, in work that grows with that number and not with `count`."""
    low, high = 0, FEW
    while high < count and fits(high):
        low, high = high, 4 * high
    return _largest(low, min(high, count), fits)


def _largest(low: int, high: int, fits: Callable[[int], bool]) -> int | None:
    """Return the largest number that fits, if all below it do; None: not even the lowest."""
    if not fits(low):
        return None
    while low < high:
        middle = (low + high + 1) // 2
        if fits(middle):
            low = middle
        else:
            high = middle - 1
    return low


_NUMBERS = frozenset({bool, int, float})


def cut(value: Any, max_bytes: int) -> Any:
    """Return a value for JSON with every text in it cut to so many bytes."""
    kind = type(value)
    if kind is str:
        is_short = len(value) <= max_bytes and value.isascii()
        return value if is_short else clipped(value, max_bytes)
    if value is None or kind in _NUMBERS:
        return value
    if kind is list:
        return [cut(inner, max_bytes) for inner in value]
    if isinstance(value, float | int):
        return value
    if isinstance(value, dict):
        return {str(key): cut(inner, max_bytes) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [cut(inner, max_bytes) for inner in value]
    return clipped(value if isinstance(value, str) else str(value), max_bytes)


class SpanBudget:
    """The room that is left on one span while it is filled, the most important first."""

    def __init__(self, limits: SpanLimits) -> None:
        self.limits = limits
        self.left_bytes = limits.span_bytes
        self._groups: list[Attributes] = []
        self._count = 0

    def reserve(self, size: int) -> None:
        """Take bytes away that the span holds beside its attributes."""
        self.left_bytes -= size

    def holds(self, attributes: Attributes) -> bool:
        """Return whether all of them, none of which is there yet, fit into what is left."""
        return self._has_room(attributes, _size(attributes))

    def _has_room(self, attributes: Attributes, size: int) -> bool:
        allowed = self.limits.attributes
        if allowed is not None and self._count + len(attributes) > allowed:
            return False
        return size <= self.left_bytes

    def add(self, attributes: Attributes) -> bool:
        """Take all of them or none; return whether they were taken."""
        size = _size(attributes)
        if not self._has_room(attributes, size):
            return False
        self.left_bytes -= size
        self._count += len(attributes)
        self._groups.append(attributes)
        return True

    def add_each(self, attributes: Attributes) -> None:
        """Take of them what fits."""
        if self.add(attributes):  # as nearly always
            return
        for name, value in attributes.items():
            self.add({name: value})

    def add_texts(self, texts: Mapping[str, str], max_bytes: int | None = None) -> None:
        """Take each under its name, all of them cut alike if they do not fit whole.

        Args:
            texts: By their names.
            max_bytes: Bytes of each beyond which it is cut in any case.
        """

        def build(groups: Sequence[Mapping[str, str]], cut_to: int) -> Attributes:
            cut_to = cut_to if max_bytes is None else min(cut_to, max_bytes)
            return {
                name: self.limits.clipped(text, cut_to)
                for some in groups
                for name, text in some.items()
            }

        self.add_fitted((texts,), build)

    def add_json(
        self,
        name: str,
        items: Sequence[Item],
        build: Callable[[Sequence[Item], int], Any],
        max_bytes: int | None = None,
        *,
        encode: Callable[[Any], str] = encodable_json,
    ) -> int:
        """Take a value as JSON in one attribute; return of how many items it is.

        Args:
            name: The attribute's.
            items: In the order of importance; none: nothing is taken.
            build: The value of some of them, their texts cut to so many bytes.
            max_bytes: Bytes of the whole.
            encode: Makes encodable JSON of it.
        """

        def encoded(some: Sequence[Item], max_bytes: int) -> str:
            return encode(build(some, max_bytes))

        def is_short(text: str) -> bool:
            return self.limits.holds(text, max_bytes)

        def fits(text: str) -> bool:
            return is_short(text) and self.holds({name: text})

        longest = self.limits.attribute_bytes
        if 0 < len(items) <= FEW:  # as nearly always
            whole = encoded(items, longest)
            if is_short(whole) and self.add({name: whole}):
                return len(items)
        fitting = fitted(items, encoded, fits, max_bytes=longest)
        if fitting is None or not fitting[1]:
            return 0
        self.add({name: fitting[0]})
        return fitting[1]

    def add_fitted(
        self, items: Sequence[Item], build: Callable[[Sequence[Item], int], Attributes]
    ) -> int:
        """Take what is built of as many items as fit, their texts cut; return of how many."""
        max_bytes = self.limits.attribute_bytes
        if len(items) <= FEW and self.add(build(items, max_bytes)):  # as nearly always
            return len(items)
        fitting = fitted(items, build, self.holds, max_bytes=max_bytes)
        if fitting is None:
            return 0
        self.add(fitting[0])
        return fitting[1]

    def attributes(self) -> Attributes:
        """Return all that was taken, what may be missed first: the SDK evicts from there."""
        return {
            name: value
            for group in reversed(self._groups)
            for name, value in reversed(group.items())
        }


def _size(attributes: Attributes) -> int:
    # A plain loop: every attribute of every span comes here.
    size = _OVERHEAD_BYTES * len(attributes) + size_bytes("".join(attributes))
    for value in attributes.values():
        if isinstance(value, str):
            size += len(value) if value.isascii() else len(value.encode())
        elif isinstance(value, list):
            size += sum([size_bytes(text) + _OVERHEAD_BYTES for text in value])
        else:
            size += 8
    return size
