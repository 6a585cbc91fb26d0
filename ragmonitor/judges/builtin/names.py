"""Chinese names, by titles, suffixes, quotes and surnames; and who does what to whom."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from ragmonitor.judges.builtin import word_lists
from ragmonitor.judges.builtin.stems import stem
from ragmonitor.judges.builtin.terms import Key, Term, pair_key
from ragmonitor.judges.sentences import HAN
from ragmonitor.runtime.patterns import lazy_pattern


def _any(words: Iterable[str]) -> str:
    """Return a pattern of words; a look at their first characters spares most places the rest."""
    words = sorted(words, key=len, reverse=True)
    return f"(?=[{''.join(dict.fromkeys(word[0] for word in words))}])(?:{'|'.join(words)})"


_PERSON: Final = (
    f"(?:欧阳|司马|上官|诸葛|令狐|皇甫|[{word_lists.CHINESE_SURNAMES}])"
    "(?:(?![的了在于是和与及或等不有也都就为被把从向对到说称表认指曾已将任出毕获创])"
    f"[{HAN}]){{1,2}}"
)
_GOES_ON: Final = (
    rf"(?=\Z|[^{HAN}]|[的了在于是和与及或为被把从向对曾已将任以说称]|表示|认为|指出|介绍|告诉|出[生任席]"
    "|毕业|担任|获得|创[立办建作]|当选|主[持演编]|宣布|强调|透露|执导|牵头|负责|设计|撰写|领导|率领|发明)"
)
_FOREIGN: Final = f"[{word_lists.CHINESE_TRANSLITERATIONS}]{{1,6}}"
_TITLE: Final = _any(word_lists.CHINESE_TITLES)
_NAME: Final = lazy_pattern(
    r"《(?P<work>[^《》\n]{1,40})》|"
    + _any(["名为", "名叫", "称为", "题为", "叫做", "产品", "品牌", "项目", "软件", "应用"])
    + rf"“(?P<quote>[{HAN}A-Za-z0-9·]{{2,12}})”"
    rf"|(?P<foreign>{_FOREIGN}(?:[·•]{_FOREIGN}){{1,3}})"
    f"|(?P<person>{_PERSON})(?={_TITLE})|{_TITLE}(?P<titled>{_PERSON}){_GOES_ON}"
    f"|(?:(?<![{HAN}])|(?<=[由是]))(?P<bare>{_PERSON}){_GOES_ON}"
    f"|(?P<place>[{HAN}]{{2}}(?P<ending>{_any(word_lists.CHINESE_PLACES)}))"
    "(?![场民政值面中级长里内])"
    f"|(?:(?<![{HAN}])|(?<=[在于和与由被向对从的]))"
    f"(?P<firm>[{HAN}]{{2,4}}?(?P<kind>{_any(word_lists.CHINESE_FIRMS)}))"
)


class Name(NamedTuple):
    """A Chinese name."""

    start: int
    end: int
    kind: str
    """`person`, `work`, ..., or the ending of a place or firm: what it may be mistaken for."""
    needs_rival: bool
    """Whether it is one only where another of its kind stands in its place."""


def chinese_names(text: str) -> Iterator[Name]:
    """Yield the names of a Chinese text, in order."""
    for found in _NAME.finditer(text):
        group = found.lastgroup or ""
        ending = found["ending"] or found["kind"] or ""
        start, end = found.span(group)
        core = text[start : end - len(ending)] if ending else ""
        if not core or word_lists.CHINESE_GENERIC.isdisjoint({core[:2], core[-2:], *core}):
            kind = ending or ("person" if group in {"titled", "bare"} else group)
            yield Name(start, end, kind, group in {"quote", "bare", "place", "firm"})


_SURNAME: Final = lazy_pattern(f"[{word_lists.CHINESE_SURNAMES}](?=[{HAN}]{{2}})")
_BEHIND_A_NAME: Final = frozenset(("", *"是为负担任，。；、：,.;: \n）)"))


def may_be_persons(said: str) -> Iterator[tuple[int, int]]:
    """Yield where three characters stand that may be a person's name."""
    for found in _SURNAME.finditer(said):
        yield found.start(), found.start() + 3


def is_off_by_one(said: str, start: int, text: str) -> bool:
    """Return whether a text has a person's name of three characters but for one of them.

    What follows the two must be the same, or end a name: 王建华 is not the 王建国 of 由王建国牵头.
    """
    name, follows = said[start : start + 3], said[start + 3 : start + 4]
    at = -1 if name in text else text.find(name[0])
    while at >= 0:
        other, goes_on = text[at : at + 3], text[at + 3 : at + 4]
        is_same = follows == goes_on or {follows, goes_on} <= _BEHIND_A_NAME
        if is_same and _THREE.fullmatch(other) and sum(map(str.__ne__, name, other)) == 1:
            return True
        at = text.find(name[0], at + 1)
    return False


_THREE: Final = lazy_pattern(f"[{HAN}]{{3}}")
_ACT: Final = lazy_pattern(
    rf"(?P<left>[{HAN}A-Za-z]{{2,20}}?)(?P<passive>被(?P<by>[{HAN}A-Za-z]{{2,20}}?))?"
    "(?:以[^，。]{1,8}?|全资|成功|最终|正式)?"
    rf"(?P<verb>{_any(word_lists.CHINESE_ACTS)})了?(?P<right>[{HAN}A-Za-z]{{2,20}})?"
)
ACTS: Final = frozenset(pair_key(verb) for verb in word_lists.CHINESE_ACTS)
_MUTUAL: Final = frozenset(map(stem, word_lists.MUTUAL))
_KINDS: Final = frozenset({"公司", "集团", "银行", "科技"})


Act = tuple[frozenset[Key], frozenset[Key]]
"""The doer of a verb and the other: names, or how they begin and end in Chinese."""
Acts = dict[str, list[Act]]
"""Maps a verb to who does it to whom."""
_MAX_ACTS: Final = 16


def acts_of(text: str) -> Acts:
    """Return who does what to whom in a Chinese text; of one verb, a few."""
    acts: Acts = {}
    for found in _ACT.finditer(text):
        doer, other = found["left"], found["right"]
        if found["passive"]:
            doer, other = found["by"], found["left"]
        same = acts.setdefault(found["verb"], [])
        if doer and other and not {"没", "和"} & {*found["left"]} and len(same) < _MAX_ACTS:
            one, two = (frozenset((side[:2], side[-2:])) - _KINDS for side in (doer, other))
            same.append((one, two))
    return acts


def _are_exchanged(said: Act, acts: Sequence[Act]) -> bool:
    """Return whether acts of the same verb have the doer and the other the other way round."""
    doer, other = said
    if any(doer & one and other & two for one, two in acts):
        return False
    return any(doer & two and other & one and not doer & one for one, two in acts)


def exchanged_in_chinese(said: str, texts: Sequence[Acts]) -> str:
    """Return a verb whose doer and other the texts exchange; empty: there is none."""
    for verb, acts in acts_of(said).items():
        same = [act for text in texts for act in text.get(verb, ())]
        if any(_are_exchanged(act, same) for act in acts):
            return verb
    return ""


def exchanged(
    content: Sequence[Term], orders: Sequence[Sequence[Key]], known: Container[Key]
) -> str:
    """Return an English verb whose doer and other, the names beside it, the chunks exchange.

    Args:
        content: A sentence's terms.
        orders: The keys of the chunks, in order.
        known: Keys that stand in a chunk.
    """
    keys = [term.key for term in content]
    names = {term.key for term in content if term.kind == "name"}
    for at, verb in enumerate(content):
        is_act = verb.kind == "word" and verb.key in known and verb.key not in _MUTUAL
        if not is_act or not at or keys[at - 1] not in names:
            continue
        doer, other = _sides(keys, at, names)
        said = doer - other, other - doer  # `Alpha Corp` and `Beta Corp`
        orders_here = orders if all(said) else ()
        found = [_sides(order, n, names) for order in orders_here for n in _places(order, verb.key)]
        if _are_exchanged(said, found):
            return verb.surface
    return ""


def _places(order: Sequence[Key], key: Key) -> Iterator[int]:
    at = -1
    for _ in range(min(order.count(key), _MAX_ACTS)):
        at = order.index(key, at + 1)
        yield at


_BEFORE: Final = 2
_BEHIND: Final = 6
"""Keys before and behind a verb that are looked at for the names of its sides."""


def _sides(order: Sequence[Key], at: int, names: set[Key]) -> Act:
    """Return the names before and behind a verb, the doer's first."""
    is_passive = order[at + 1 : at + 2] == [">by"]
    behind = at + 1 + is_passive
    sides = order[max(0, at - _BEFORE) : at], order[behind : behind + _BEHIND]
    before, after = (frozenset(names.intersection(side)) for side in sides)
    return (after, before) if is_passive else (before, after)
