"""Names in Chinese texts, which no capital tells: by titles, suffixes, quotes and surnames.

Only what such a cue marks is a name; everything else is compared by pairs of characters alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from ragmonitor.judges.builtin.text_terms import Term
from ragmonitor.judges.builtin.word_lists import (
    CHINESE_FIRMS,
    CHINESE_GENERIC,
    CHINESE_PLACES,
    CHINESE_SURNAMES,
    CHINESE_TITLES,
    CHINESE_TRANSLITERATIONS,
)
from ragmonitor.judges.sentences import HAN
from ragmonitor.patterns import lazy_pattern


class ChineseName(NamedTuple):
    """A name in a text."""

    start: int
    end: int
    kind: str
    """`person`, `work`, `quote`, `foreign`; of an organisation or place, what its name ends in."""
    needs_rival: bool
    """Whether it is a name only where another of its kind stands in its place."""


_SURNAME: Final = f"(?:欧阳|司马|上官|诸葛|令狐|皇甫|[{CHINESE_SURNAMES}])"
_NOT_GIVEN: Final = "的了在于是和与及或等不有也都就为被把从向对到说称表认指曾已将任出毕获创"
_PERSON: Final = f"{_SURNAME}(?:(?![{_NOT_GIVEN}])[{HAN}]){{1,2}}"
_GOES_ON: Final = (
    rf"(?=\Z|[^{HAN}]|[的了在于是和与及或为被把从向对曾已将任以说称]|表示|认为|指出|介绍|告诉|出生"
    "|毕业|担任|获得|创立|创办|创建|出任|当选|出席|主持|宣布|强调|透露)"
)
_FOREIGN: Final = f"[{CHINESE_TRANSLITERATIONS}]{{1,6}}"


def _any(words: Iterable[str]) -> str:
    words = sorted(words, key=len, reverse=True)
    # One look at the first character spares one for each word.
    first = "".join(dict.fromkeys(word[0] for word in words))
    return f"(?=[{first}])(?:{'|'.join(words)})"


_PATTERNS: Final = {
    "work": r"《(?P<work>[^《》\n]{1,40})》",
    "quote": _any(["名为", "名叫", "称为", "题为", "叫做", "产品", "品牌", "项目", "软件", "应用"])
    + rf"“(?P<quote>[{HAN}A-Za-z0-9·]{{2,12}})”",
    "foreign": f"(?P<foreign>{_FOREIGN}(?:[·•]{_FOREIGN}){{1,3}})",
    "person": f"(?P<person>{_PERSON})(?={_any(CHINESE_TITLES)})",
    "titled": f"{_any(CHINESE_TITLES)}(?P<titled>{_PERSON}){_GOES_ON}",
    "bare": f"(?<![{HAN}])(?P<bare>{_PERSON}){_GOES_ON}",
    "place": f"(?P<place>[{HAN}]{{2}}(?P<ending>{_any(CHINESE_PLACES)}))(?![场民政值面中级长里内])",
    "firm": f"(?:(?<![{HAN}])|(?<=[在于和与由被向对从的]))"
    f"(?P<firm>[{HAN}]{{2,4}}?(?P<kind>{_any(CHINESE_FIRMS)}))",
}
_NAME: Final = lazy_pattern("|".join(_PATTERNS.values()))
_MARKS: Final = {"work": "《", "quote": "“", "foreign": "·•"}
"""Signs of which every name of a kind holds one."""
_PLAIN_NAME: Final = lazy_pattern(
    "|".join(pattern for name, pattern in _PATTERNS.items() if name not in _MARKS)
)
_EVERY_MARK: Final = frozenset("".join(_MARKS.values()))
_NEED_RIVALS: Final = frozenset({"quote", "bare", "place", "firm"})


def chinese_names(text: str) -> list[ChineseName]:
    """Return the names of a text in order, without overlap, in time linear in its length."""
    names: list[ChineseName] = []
    pattern = _PLAIN_NAME if _EVERY_MARK.isdisjoint(text) else _NAME
    for found in pattern.finditer(text):
        group = found.lastgroup or ""  # the outer one, as it ends last
        kind = found["ending"] or found["kind"] or _SAME_KIND.get(group, group)
        start, end = found.span(group)
        core = text[start : end - len(kind)] if group in {"place", "firm"} else ""
        if not core or not _is_generic(core):
            names.append(ChineseName(start, end, kind, group in _NEED_RIVALS))
    return names


_SAME_KIND: Final = {"titled": "person", "bare": "person"}


def _is_generic(core: str) -> bool:
    """Return whether what stands before an ending names nothing: `这家科技` before `公司`."""
    return not CHINESE_GENERIC.isdisjoint({core[:2], core[-2:], *core})


def missing_names(
    text: str, missing: Sequence[Term], near: Iterable[Sequence[tuple[str, str]]]
) -> Iterator[tuple[Term, bool]]:
    """Yield the names of a sentence that the chunks lack, and whether they have another there.

    Args:
        text: What the terms' offsets point into.
        missing: The terms that stand nowhere in the chunks, in order.
        near: The names, by kind and text, of each passage near by; read once at most.
    """
    left = iter([term for term in missing if term.kind == "pair" and term.end - term.start > 1])
    rivals: set[str] | None = None
    term = next(left, None)
    for name in chinese_names(text):
        while term is not None and term.start < name.start:
            term = next(left, None)
        if term is None:
            return
        if term.end > name.end:
            continue
        if rivals is None:
            near_by = [each for names in near for each in names[:_MAX_RIVALS]]
            rivals = {kind for kind, surface in near_by if surface not in text}
        has_rival = name.kind in rivals
        if has_rival or not name.needs_rival:
            surface = text[name.start : name.end]
            yield Term(name.start, name.end, surface, "", 0.0, "name"), has_rival


_MAX_RIVALS: Final = 16
"""Names of a passage that are compared."""
