"""Texts as keys, by one look-up per token in dictionaries that read each different token once.

A key is a stem (`bridg`), a quantity (`quantities`), a sign of negation (`!`), a small word that
says what it reaches (`>but`), a border (`.`, `,`) or, as an integer, a pair of Chinese characters.
Equal keys mean equal things. The judge spends its time here, so that loops run in C.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from importlib import resources
from itertools import chain, pairwise
from sys import intern
from typing import Final, NamedTuple, TypeVar

from ragmonitor.judges.builtin import quantities, word_lists
from ragmonitor.judges.builtin.quantities import Atom, Kind, alternatives, chinese_figures
from ragmonitor.judges.builtin.simplified_characters import PLAIN, TRADITIONAL
from ragmonitor.judges.builtin.stems import stem
from ragmonitor.judges.sentences import ABBREVIATIONS, HAN
from ragmonitor.runtime.patterns import lazy_pattern

Key = str | int

MAX_TOKEN: Final = 48
"""Characters of a token that are looked at: bounds what is kept, and the work on long ones."""
_MAX_KEPT: Final = 60_000
"""Tokens of which the reading is kept."""
_Value = TypeVar("_Value")


class Term(NamedTuple):
    """One term of a text."""

    key: Key
    """It is equal for terms that count as the same."""
    weight: float
    """From 0 (signs of negation, `one`) to 1 (rare words, numbers)."""
    kind: Kind
    surface: str
    """The token, as it stands in the text."""
    at: int
    """Offset of the surface in a Chinese text, else -1; see `placed`."""


def _keep(known: dict[str, _Value], token: str, value: _Value) -> _Value:
    if len(known) >= _MAX_KEPT:
        known.clear()
    if len(token) <= MAX_TOKEN:
        known[token] = value
    return value


# --- English ------------------------------------------------------------------------------------

NEGATION: Final = Atom("!", 0.0, "negation")
AND: Final = ">and"
"""A key that only sentences have, not chunks: it may stand between clauses."""
_END: Final = Atom(".", 0.0, "border")
_COMMA: Final = Atom(",", 0.0, "border")
_PERHAPS_DATES: Final = frozenset(["may", "march", "mar", "sun", "sat", "wed", "mon", "dec", "jan"])
"""Months and days that are words, too, where they have no capital."""
UNITS: Final = {n: unit for n, unit in word_lists.UNITS.items() if n not in {"in", "t", "s"}}
_WORD_UNITS: Final = {name: unit for name, unit in UNITS.items() if name not in set("hlgmba")}
"""Units that need no figure glued to them."""
_LETTERS: Final = frozenset("BCDEFGHJKLMNOPQRTUVWXYZ")
"""Letters that name something where they stand alone."""
_COUNTRIES: Final = frozenset({"us", "swiss"})
"""Keys of the countries whose name stands before their currency."""


def _weights() -> dict[str, float]:
    """Return the weight of each common stem: a line of the table is a band of frequency."""
    table = resources.files(__package__).joinpath("frequencies.txt").read_text("utf-8")
    bands = [line.split() for line in table.splitlines() if line and line[0] != "#"]
    return {stem: n for n, band in zip((0.35, 0.6, 1.0), bands, strict=False) for stem in band}


_WEIGHTS: Final = _weights()


def _known() -> dict[str, tuple[Atom, ...]]:
    """Return the words that are no stems; of those that say several things, the last one."""
    known: dict[str, tuple[Atom, ...]] = {}
    for name, unit in _WORD_UNITS.items():
        sign = "¤" if unit in quantities.CURRENCIES else "°"
        known[name] = (Atom(f"{sign}{unit}", quantities.UNIT_WEIGHT, "unit"),)
    for name, value in word_lists.NUMBER_WORDS.items():
        weight = 0.0 if name == "one" else 0.6
        known[name] = (Atom(quantities.number_key(value), weight, "number"),)
    known |= {name: (Atom(f"×{n:g}", 1.0, "number"),) for name, n in quantities.SCALE_WORDS.items()}
    known |= {name: (Atom(f"§{n}", 1.0, "number"),) for name, n in quantities.TENS.items()}
    known |= dict.fromkeys(word_lists.STOP_WORDS, ())
    known["am"], known["pm"] = ((Atom(f"^{half}", 0.0, "sign"),) for half in "ap")
    known["minus"] = (Atom("^-", 0.0, "sign"),)
    known |= dict.fromkeys(word_lists.NEGATIONS, (NEGATION,))
    for words in word_lists.SMALL_WORDS:
        first, *others = words.split()
        known |= dict.fromkeys([first, *others], (Atom(f">{first}", 0.0, "small"),))
    return known | {name: date for name, date in _DATES.items() if name not in _PERHAPS_DATES}


_DATES: Final = {
    **{name: (quantities.date("m", n),) for name, n in word_lists.MONTHS.items()},
    **{
        f"{name}{ending}": (quantities.date("w", n),)
        for name, n in word_lists.WEEKDAYS.items()
        for ending in ("", *("s" if name.endswith("day") else ""))
    },
}
_KNOWN: Final = _known()


def _word(word: str) -> tuple[Atom, ...]:
    """Return what a word says; nothing for a word that says little."""
    low = word.lower()
    if low in _PERHAPS_DATES and word[0].isupper():
        return _DATES[low]
    if len(low) == 1:  # `Plant B`
        return (Atom(low, 1.0, "name"),) if word in _LETTERS else ()
    if low.endswith("n't"):
        return (NEGATION,)
    if "'" in low and low not in _KNOWN:
        low = low.removesuffix("'s").removesuffix("'")
    elif word[-1] == "s" and len(low) > 2 and word[:-1].isupper():  # `PDFs`
        low = low[:-1]
    if low in _KNOWN and word != "US":
        return _KNOWN[low]
    base = intern(stem(low))
    return (Atom(base, _WEIGHTS.get(base, 1.0), "name" if word[0].isupper() else "word"),)


def _parts(token: str) -> Iterator[Atom]:
    for found in quantities.PART.finditer(token):
        word = found["word"] or (found["letters"] or "").replace(".", "")
        if word and word[-1].isdigit():
            yield Atom(word.lower(), 1.0, "name")
        elif word:
            yield from _word(word)
        else:
            atoms, glued = quantities.read_part(found)
            yield from atoms
            yield from _word(glued) if glued else ()


def _atoms(token: str) -> tuple[Atom, ...]:
    """Return what a token says, and the border behind it."""
    bare, last = token.strip(".,:;!?'-/$")[:MAX_TOKEN], token[-1]
    if bare.isalpha():
        atoms = _word(bare)
    elif bare.lower().startswith("e-mail"):
        atoms = _word(bare.replace("-", ""))
    else:
        atoms = tuple(_parts(token[:MAX_TOKEN].lstrip(".,:;!?'/").rstrip(",:;!?'-/")))
    if last.isalnum():
        return atoms
    is_dot_last = (
        last == "." and bare.lower() not in ABBREVIATIONS and "." not in bare and len(bare) > 1
    )
    if last in "!?;" or token in {".", "..."} or is_dot_last:
        return (*atoms, _END)
    if last in ",:":
        return () if atoms == (NEGATION,) else (*atoms, _COMMA)  # `No, ...`
    return atoms


class _Terms(dict[str, tuple[Term, ...]]):
    """The terms of each different token; made when it is first met."""

    def __missing__(self, token: str) -> tuple[Term, ...]:
        return _keep(self, token, tuple([Term(*atom, token, -1) for atom in _atoms(token)]))


class _Keys(dict[str, tuple[Key, ...]]):
    """The keys of each different token of a chunk, all that may be the same."""

    def __missing__(self, token: str) -> tuple[Key, ...]:
        keys = [atom[0] for atom in _atoms(token) if atom[0] != AND]
        if any(key[0] in "@°" for key in keys):
            keys = [other for key in keys for other in alternatives(key)]
        return _keep(self, token, tuple(keys))


TERMS: Final = _Terms()
_KEYS: Final = _Keys()
_SEPARATORS: Final = str.maketrans(dict.fromkeys('()[]{}<>"`*_=~^\\+#&@§×°¤', " ") | {"|": ","})
"""Maps one sign to one: to map to several takes twice as long."""
_PLAIN_SIGNS: Final = (
    ("’", "'"), ("‘", "'"), ("“", '"'), ("”", '"'), ("–", "-"), ("—", " - "), ("−", "-"),
    ("\xa0", " "), ("…", "."), ("•", " "), ("€", "EUR"), ("£", "GBP"), ("¥", "Y$"), ("￥", "Y$"),
    ("²", "2"), ("³", "3"), ("°", " "), ("\u202f", " "), ("\u00ad", ""),
)  # fmt: skip
_FRACTION: Final = re.compile(f"[{quantities.FRACTIONS}]")
_ACCENTED: Final = re.compile("[\x80-\u036f\u1e00-\u20cf]+")
_SYLLABLES: Final = lazy_pattern(f"[{HAN}\u3040-\u30ff\uac00-\ud7af]")
"""Scripts that write no spaces or little of them, read by pairs of characters."""


def in_ascii(text: str) -> str:
    """Return a text with typographic signs and Latin accents plain; other scripts stay."""
    text = _FRACTION.sub(_decimal, text)
    for sign, plain in _PLAIN_SIGNS:
        if sign in text:
            text = text.replace(sign, plain)
    return text if text.isascii() else _ACCENTED.sub(_plain, text)


def _decimal(fraction: re.Match[str]) -> str:
    """Return `0.5` for a half, and `.5` behind a whole number."""
    value, at = f"{unicodedata.numeric(fraction[0]):.3g}", fraction.start()
    return value[1:] if fraction.string[at - 1 : at].isdigit() else value


def _plain(accented: re.Match[str]) -> str:
    return unicodedata.normalize("NFKD", accented[0]).encode("ascii", "ignore").decode()


_JOINING: Final = "#^§×¤"
"""First characters of the keys of which several may make one."""
_JOINERS: Final = frozenset(
    {
        *("^a", "^p", "^-"),
        *(f"§{value}" for value in quantities.TENS.values()),
        *(f"×{value:g}" for value in quantities.SCALE_WORDS.values()),
        *(f"¤{name}" for name in quantities.CURRENCIES),
    }
)


def _runs(keys: Sequence[Key]) -> Iterator[tuple[int, int, list[tuple[str, int]]]]:
    """Yield where numbers, units and what joins them stand, and what they are when joined.

    These are keys, and where each began: `4 million`, `twenty five` and `9 am` are one.
    """
    done = 0
    for at in [at for at, key in enumerate(keys) if key in _JOINERS]:
        if at < done:
            continue
        start, done = at, at + 1
        while start and _may_join(keys[start - 1]):
            start -= 1
        while done < len(keys) and _may_join(keys[done]):
            done += 1
        yield start, done, _joined([str(key) for key in keys[start:done]], start)


def _may_join(key: Key) -> bool:
    return str(key)[0] in "#^§×¤°@" or key in _COUNTRIES


def _joined(plain: Sequence[str], start: int) -> list[tuple[str, int]]:
    """Return the keys of one run, joined, and where each began, counted from `start`.

    A currency stands behind its number: `USD 4 million` is `4 million dollars`.
    """
    out: list[tuple[str, int]] = []
    scaled = 0.0
    """The last scale of the number that is being read."""
    is_negative, currency = False, ""
    for at, key in enumerate(plain, start):
        sign = key[0]
        if sign not in _JOINING or len(key) > 20:
            out.append((key, at))
            scaled = scaled if sign == "°" else 0.0
            is_negative = False
            continue
        back = -2 if sign == "×" and len(out) > 1 and out[-1][0][0] == "°" else -1
        before = out[back][0] if len(out) >= -back else ""
        first = quantities.number_of(before) if before[:1] == "#" else None
        value = quantities.number_of("#" + key[1:]) if sign in "#§×" else None
        if key == "^-":
            is_negative = True
        elif sign == "^":
            if before[:1] == "@" and before[-1] == "?":  # `9:30 am`
                time = divmod(int(before[1:-1]), 60)
                out[-1] = quantities.clock(*time, key[1])[0], out[-1][1]
            elif first is not None and before[1:].isdecimal() and first <= 12:
                out[-1] = quantities.clock(int(first), 0, key[1])[0], out[-1][1]
                earlier = out[-2][0] if len(out) > 1 else ""
                if earlier[:1] == "#" and earlier[1:].isdecimal() and int(earlier[1:]) <= 12:
                    # `9 to 11 am`
                    out[-2] = quantities.clock(int(earlier[1:]), 0, key[1])[0], out[-2][1]
        elif sign == "¤":
            is_behind = before[:1] == "#" or (before in _COUNTRIES and len(out) > 1)
            following = plain[at + 1 - start] if at + 1 - start < len(plain) else ""
            if not is_behind and following[:1] == "#":
                currency = key[1:]
                continue
            if before in _COUNTRIES and len(out) > 1 and out[-2][0][0] == "#":
                del out[-1]
            out.append((f"°{key[1:]}", at))
        elif value is None:
            out.append((key, at))
        elif sign == "×" and first is not None:
            low = first % value if scaled > value else first
            out[back] = quantities.number_key(first - low + (low or 1.0) * value), out[back][1]
            scaled = value
        elif first is not None and scaled > value:
            out[-1] = quantities.number_key(first + value), out[-1][1]
        else:
            value = -value if is_negative else value
            out.append((quantities.number_key(value), at))
            if currency:
                out.append((f"°{currency}", at))
            is_negative, currency = False, ""
            scaled = value if sign == "×" else 10.0 if sign == "§" else 0.0
    return out


def terms(text: str) -> list[Term]:
    """Return the terms of a text in order; linear in its length."""
    if not text.isascii():
        plain = in_ascii(text)
        if not plain.isascii() and _SYLLABLES.search(plain):
            return _chinese_terms(text)
        text = plain
    tokens = text.translate(_SEPARATORS).split()
    if tokens and tokens[0] in {"May", "March"} and not "".join(tokens[1:2])[:1].isdigit():
        del tokens[0]  # `May I ask`
    found = list(chain.from_iterable(map(TERMS.__getitem__, tokens)))
    while found and found[-1].kind == "border":
        del found[-1]
    keys = [term.key for term in found]
    if _JOINERS.isdisjoint(keys):
        return found
    for start, end, joined in reversed(list(_runs(keys))):
        read: list[Term] = []
        for (key, at), (_, behind) in pairwise([*joined, ("", end)]):
            parts = found[at : max(behind, at + 1)]
            is_same = key == keys[at]
            read.append(parts[0] if is_same else _joined_term(key, parts))
        found[start:end] = read
    return found


def _joined_term(key: str, parts: Sequence[Term]) -> Term:
    kinds: dict[str, Kind] = {"@": "time", "#": "number", "°": "unit"}
    kind = kinds[key[0]]
    weight = quantities.UNIT_WEIGHT if kind == "unit" else 0.6 if len(key) == 2 else 1.0
    surface = " ".join(dict.fromkeys([each.surface for each in parts]))
    return Term(key, weight, kind, surface, -1)


def placed(text: str, found: Sequence[Term] = ()) -> list[Term]:
    """Return the terms of a text, which may be known, with the offsets of their surfaces."""
    out: list[Term] = []
    at, last = 0, ""
    for term in found or terms(text):
        if term.at >= 0:
            out.append(term)
            continue
        if term.surface != last:  # else two terms of one token
            start = text.find(term.surface.split(" ", 1)[0], at + len(last.split(" ", 1)[0]))
            at = start if start >= 0 else at
            last = term.surface
        surface = text[at : at + len(term.surface)].rstrip(",.:;")
        out.append(Term(term.key, term.weight, term.kind, surface, at))
    return out


class ChunkKeys(NamedTuple):
    """The keys of a chunk."""

    every: set[Key]
    order: list[Key]
    """In order, with borders between; of a Chinese text those of its figures alone."""
    is_chinese: bool


def chunk_keys(text: str) -> ChunkKeys:
    """Return the keys of a chunk. The time is that of a few loops in C."""
    if not text.isascii():
        plain = in_ascii(text)
        if not plain.isascii() and _SYLLABLES.search(plain):
            return _chinese_keys(text)
        text = plain
    if "\n" in text:
        text = text.replace("\n", " . ")
    order = list(chain.from_iterable(map(_KEYS.__getitem__, text.translate(_SEPARATORS).split())))
    keys = set(order)
    if not _JOINERS.isdisjoint(keys):
        for start, end, joined in reversed(list(_runs(order))):
            order[start:end] = [key for key, _ in joined]
        new = set(order) - keys
        keys = {*order, *chain.from_iterable(map(alternatives, map(str, new)))}
    return ChunkKeys(keys, order, False)


# --- Chinese ------------------------------------------------------------------------------------

_SIMPLE: Final = dict(zip(map(ord, TRADITIONAL), PLAIN, strict=True))
_TRADITIONAL: Final = lazy_pattern(f"[{TRADITIONAL}]")


def simplified(text: str) -> str:
    """Return a text with traditional characters as simplified ones, at the same places."""
    if text.isascii() or not _TRADITIONAL.search(text):
        return text
    return text.translate(_SIMPLE)


def _without(stop: str) -> str:
    """Return the ranges of the common Chinese characters, for a class, but for some."""
    codes = [0x4DFF, *sorted(map(ord, stop)), 0xA000]
    return "".join([f"{chr(a + 1)}-{chr(b - 1)}" for a, b in pairwise(codes) if b > a + 1])


_LATIN: Final = re.compile(r"[A-Za-z][A-Za-z0-9'.-]*")
_RUN: Final = lazy_pattern(
    f"[\u3400-\u4dbf{_without(''.join(word_lists.CHINESE_STOP))}\uf900-\ufaff\u3040-\u30ff"
    rf"\uac00-\ud7af]{{2,}}|{_LATIN.pattern}"
)
"""A run of characters that say something, or a word in Latin letters."""
_SIGN: Final = re.compile("[不没未无非否勿禁除]")
_NO_SIGN: Final = lazy_pattern("|".join(sorted(word_lists.NOT_NEGATIONS, key=len, reverse=True)))
_FORBIDS: Final = lazy_pattern("禁止|除(?=[^，。；、\\n]{1,12}?外(?![，,]?[还也另又更并均都]))")


def chinese_signs(text: str) -> Iterator[tuple[int, int]]:
    """Yield where the signs of negation of a Chinese text begin and end."""
    last = 0
    for found in _SIGN.finditer(text):
        at = found.start()
        if at < last:
            continue
        if text[at] in "禁除":
            forbids = _FORBIDS.match(text, at)
            if forbids:
                yield at, forbids.end()
            continue
        words = [_NO_SIGN.match(text, start) for start in range(max(0, at - 2), at + 1)]
        last = max([word.end() for word in words if word and word.end() > at], default=0)
        if not last:
            last = at + 1 + (text[at + 1 : at + 2] in {*"有能会是曾可得法需须必"})
            yield at, last


def pair_key(pair: str) -> int:
    """Return the key of two neighbouring characters."""
    return ord(pair[0]) | ord(pair[1]) << 16


def pair_of(key: Key) -> str:
    """Return the two characters of a key; of a key that is no pair the key, which is no text."""
    return chr(key & 0xFFFF) + chr(key >> 16) if isinstance(key, int) else f"\0{key}"


def pair_keys(text: str) -> set[Key]:
    """Return the keys of all pairs of neighbouring characters, quicker than one by one."""
    raw = memoryview(text.encode("utf-16-le", "surrogatepass"))
    keys: set[Key] = set(raw[: len(raw) - len(raw) % 4].cast("I"))
    if len(raw) > 5:
        keys.update(raw[2 : len(raw) - (len(raw) - 2) % 4].cast("I"))
    return keys


class _Pairs(dict[str, tuple[int, float, Kind]]):
    """The key, weight and kind of each different pair of characters."""

    def __missing__(self, pair: str) -> tuple[int, float, Kind]:
        weight = 0.25 if word_lists.CHINESE_COMMON.issuperset(pair) else 0.5
        return _keep(self, pair, (pair_key(pair), weight, "pair"))


_PAIRS: Final = _Pairs()


def _chinese_keys(text: str) -> ChunkKeys:
    order: list[Key] = []
    for _, _, atoms in chinese_figures(text):
        order += [*(atom.key for atom in atoms), "."]
    keys = pair_keys(text)
    keys.update(chain.from_iterable(map(_KEYS.__getitem__, _LATIN.findall(text))), order)
    for key in order:
        if str(key)[0] in "@°":
            keys.update(alternatives(str(key)))
    return ChunkKeys(keys, order, True)


def _chinese_terms(text: str) -> list[Term]:
    found: list[Term] = []
    marks = list(chinese_figures(text))
    marks += [(start, end, (NEGATION,)) for start, end in chinese_signs(text)]
    at = 0
    for start, end, atoms in (*sorted(marks), (len(text), len(text), ())):
        if start < at:
            continue
        for run in _RUN.finditer(text, at, start):
            said, first = run[0], run.start()
            if said[0] < "\u3000":
                found += [Term(*term[:3], said, first) for term in TERMS[said]]
            else:
                pairs = [said[step : step + 2] for step in range(len(said) - 1)]
                found += [Term(*_PAIRS[pair], pair, first + n) for n, pair in enumerate(pairs)]
        found += [Term(*atom, text[start:end], start) for atom in atoms]
        at = end
    return found
