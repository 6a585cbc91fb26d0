"""Texts as weighted terms, which are equal where two texts say the same in other forms.

The judge spends its time here: so there is one pass over a text, one tuple per term, and loops run
in C where the language has them.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import pairwise
from operator import add
from typing import Final, Literal, NamedTuple

from ragmonitor.judges.builtin import day_times, quantities
from ragmonitor.judges.builtin.quantities import Quantity
from ragmonitor.judges.builtin.stems import stem, stem_and_weight
from ragmonitor.judges.builtin.word_lists import (
    CHINESE_COMMON,
    CHINESE_DIGITS,
    CHINESE_NEGATIONS,
    CHINESE_SCALES,
    CHINESE_STOP,
    DENIALS,
    HARMLESS_BEHIND_NEGATION,
    IRREGULAR,
    MONTHS,
    NEGATION_ENDS,
    NEGATIONS,
    NOT_NEGATIONS,
    ORDINALS,
    STOP_WORDS,
    WEEKDAYS,
)
from ragmonitor.judges.sentences import HAN
from ragmonitor.patterns import lazy_pattern

Kind = Literal["word", "name", "number", "date", "pair", "negation"]


_new = tuple.__new__
"""Builds a term faster than its constructor, which is written in Python."""


class Term(NamedTuple):
    """One term of a text: a word's stem, a number, a pair of Chinese characters."""

    start: int
    end: int
    key: str
    """It is equal for terms that count as the same."""
    prefix: str
    """First letters of a longer stem, with a tilde; of a time of day, what it is found by where a
    text says its half or does not; empty if there is no such looser match."""
    weight: float
    """From 0 (signs of negation, `one`) to 1 (rare words, numbers)."""
    kind: Kind
    unit: str = ""
    """A number's unit: a name from `UNITS`, or empty."""


PREFIX: Final = 5
"""Letters that two stems must share to count as loosely the same."""
NUMBER_WEIGHT: Final = 1.0
SMALL_NUMBER_WEIGHT: Final = 0.6
"""Weight of whole numbers below 10 without a unit: they stand in most texts."""
DATE_WEIGHT: Final = 0.8
PAIR_WEIGHT: Final = 0.5
COMMON_PAIR_WEIGHT: Final = 0.25
SINGLE_WEIGHT: Final = 0.2
"""Weight of a Chinese character that stands alone between two that say little."""

_SYLLABIC = f"{HAN}\u3040-\u30ff\uac00-\ud7af"
"""Scripts that write no spaces or little of them, read by pairs of characters."""
_INVISIBLE = "\u0300-\u036f\u00ad"
"""Accents that are characters of their own (decomposed text), and soft hyphens."""
_E_MAIL = "[eE]-[mM][aA][iI][lL][a-zA-Z]{0,3}"
_WORD_PATTERN = (
    rf"\b(?:[A-Za-z]\.){{2,8}}|\b{_E_MAIL}|[^\W\d_{_SYLLABIC}]+"
    rf"(?:(?:['’]|[{_INVISIBLE}]{{1,4}})[^\W\d_{_SYLLABIC}]+)*"
)
_CITATION_PATTERN = r"[\[【]\d{1,3}(?:[,，、-] ?\d{1,3}){0,8}[\]】]"
_OTHER_TOKENS = rf"|{quantities.NUMBER}|(?P<citation>{_CITATION_PATTERN})"
_TOKEN = lazy_pattern(rf"(?P<pairs>[{_SYLLABIC}]+)|(?P<word>{_WORD_PATTERN}){_OTHER_TOKENS}")
_WORD = lazy_pattern(_WORD_PATTERN)
_NUMBER = lazy_pattern(quantities.NUMBER)
_CITATION = lazy_pattern(_CITATION_PATTERN)
_LETTER = lazy_pattern(rf"[^\W\d_{_SYLLABIC}]")
_SYLLABLE = lazy_pattern(rf"[{_SYLLABIC}]")

# The same for texts in ASCII, as most are in English: they take half of the time.
# What comes first in each alternative is one character: the other looks are seldom taken.
_ASCII_WORD_PATTERN = (
    r"[A-Za-z](?:\.(?<=\b[A-Za-z]\.)(?:[A-Za-z]\.){1,7}"
    rf"|-(?<=\b[eE]-){_E_MAIL.removeprefix('[eE]-')}|[A-Za-z]*(?:'[A-Za-z]+)*)"
)
_ASCII_TOKEN = lazy_pattern(
    rf"(?=[A-Za-z\d\[])(?:(?P<word>{_ASCII_WORD_PATTERN}){_OTHER_TOKENS})", re.ASCII
)
_ASCII_WORD = lazy_pattern(_ASCII_WORD_PATTERN, re.ASCII)
_ASCII_NUMBER = lazy_pattern(quantities.NUMBER, re.ASCII)
_ASCII_LETTER = lazy_pattern("[A-Za-z]")
NEGATION: Final = "!"
"""Key of a sign of negation."""
NEGATION_END: Final = "!|"
"""Key of a word at which a negation ends."""
SIGNS: Final = frozenset({NEGATION, NEGATION_END})
HOLDS_SIGN: Final = lazy_pattern(
    f"[{''.join(CHINESE_NEGATIONS)}]|n['’]t|(?<![a-z])(?:{'|'.join(sorted(NEGATIONS))})"
    rf"|(?![\x00-\x7f])[^\W\d_{_SYLLABIC}]"
)
"""All that reads as a sign of negation, in lower case, holds one of these, or another letter than
`a` to `z`, which may be one with an accent."""
DENYING: Final = frozenset(map(stem, DENIALS))
"""Keys of the words that negate what goes before them."""
MAY_NEGATE: Final = SIGNS | DENYING | {stem("free")}
"""Keys of which every text that negates anything holds one."""
_BEHIND = max(map(len, HARMLESS_BEHIND_NEGATION)) + 1
_MAX_WORD: Final = 48
"""Characters of a word that are looked at: bounds the cache and the work on one-word texts."""


def in_lower_case(text: str) -> str:
    """Return a text in lower case, of the same length, as patterns that ignore case see it."""
    if not text.isascii():
        # To them the three letters are an `i` or an `s`.
        text = text.replace("\u0130", "i").replace("\u0131", "i").replace("\u017f", "s")
    return text.lower()


def terms(text: str, *, with_pairs: bool = True) -> list[Term]:
    """Return the terms of a text in order. Never raises; linear in the text's length.

    Args:
        text: Any text.
        with_pairs: Whether plain pairs of Chinese characters are among them.
    """
    is_ascii = text.isascii()
    if not (_ASCII_LETTER if is_ascii else _LETTER).search(text):
        return _terms_of_chinese(text, with_pairs=with_pairs)
    found: list[Term] = []
    for token in (_ASCII_TOKEN if is_ascii else _TOKEN).finditer(text):
        kind = token.lastgroup
        if kind == "word":
            surface = token[0]
            if len(surface) > _MAX_WORD or surface in _IN_PLACE:
                surface = _in_place(text, token)
            reading = _word_term(surface)
            if reading is not None:
                start, end = token.span()
                key, prefix, weight, word_kind = reading
                if word_kind == "number":
                    _append_number_word(found, text, start, end, key)
                elif key != NEGATION or not _negates_nothing(text, end):
                    found.append(_new(Term, (start, end, key, prefix, weight, word_kind, "")))
        elif kind == "pairs":
            start, end = token.span()
            start = max(start, found[-1].end) if found else start  # the `点` of a time
            _append_pairs(found, text, start, end, with_plain=with_pairs)
        elif kind == "number":
            _append_number(found, text, token)
    return found


def _terms_of_chinese(text: str, *, with_pairs: bool) -> list[Term]:
    """Return the terms of a text without words: figures, and what stands between them."""
    found: list[Term] = []
    for start, end, figures in _figures(text):
        if with_pairs:
            _append_plain_pairs(found, text, start, end)
        found += figures
    return found


def _figures(text: str) -> Iterator[tuple[int, int, Sequence[Term]]]:
    """Yield the offsets of each plain stretch of a text without words, and the figures after it."""
    floor = 0
    for candidate in _FIGURE.finditer(text):
        at = candidate.start()
        if at < floor:
            continue
        figures: list[Term] = []
        end = _append_figure(figures, text, at, floor)
        if end:
            yield floor, at, figures
            floor = end
    yield floor, len(text), ()


class TermKeys(NamedTuple):
    """The keys of a text's terms, without their places."""

    exact: set[str]
    """Keys, signs of negation left out."""
    prefixes: set[str]
    numbers: Sequence[str]
    """The keys of numbers."""
    may_negate: bool
    """Whether there is a sign of negation, perhaps in form only."""
    figures: Sequence[Term] | None
    """Of a text without words, all that is more than plain characters; None: it may have words."""


def keys(text: str) -> TermKeys:
    """Return the keys and the prefixes of `terms(text)`, signs of negation left out; faster."""
    if text.isascii() or not _SYLLABLE.search(text):
        return _keys_of_words(text) or _keys_in_order(text)
    return _keys_in_order(text) if _LETTER.search(text) else _keys_of_chinese(text)


def _keys_of_words(text: str) -> TermKeys | None:
    """Return the keys of a text of words and figures; None: it must be read in order."""
    is_ascii = text.isascii()
    find_words = (_ASCII_WORD if is_ascii else _WORD).findall
    words: list[str] = []
    figures: list[Term] = []
    floor = 0
    for number in (_ASCII_NUMBER if is_ascii else _NUMBER).finditer(text):
        start = number.start()
        if start < floor:  # in the citation before it
            continue
        words += find_words(text, floor, start)
        citation = _CITATION.match(text, start - 1) if start else None
        if citation is None:
            _append_number(figures, text, number)
        floor = (citation or number).end()
    words += find_words(text, floor)
    if not _IN_PLACE.isdisjoint(words) or max(map(len, words), default=0) > _MAX_WORD:
        return None
    readings = [reading for reading in map(_word_term, words) if reading is not None]
    if not readings:
        return _term_keys(set(), set(), figures)
    exact, prefixes, _, kinds = zip(*readings, strict=True)
    if "number" in kinds:  # may join the one before it
        return None
    return _term_keys(set(exact), set(prefixes), figures)


def _keys_of_chinese(text: str) -> TermKeys:
    """Return the keys of a text without words: its plain characters are read all together."""
    figures: list[Term] = []
    stretches: list[str] = []
    for start, end, behind in _figures(text):
        stretches.append(text[start:end])
        figures += behind
    plain = "\n".join(stretches)
    exact = set(_PAIR.findall(plain))
    exact.update(_ALONE.findall(plain))
    return _term_keys(exact, set(), figures, is_all=True)


def _append_figure(found: list[Term], text: str, at: int, floor: int) -> int:
    """Append the number, sign or date that stands at an offset; return its end, 0 for none."""
    if text[at].isdecimal():
        number = _NUMBER.match(text, at)
        if number:
            _append_number(found, text, number)
        return found[-1].end if number else 0
    if text[at] in "[【":
        citation = _CITATION.match(text, at)
        return citation.end() if citation else 0
    special = _special(text, at, floor)
    if special:
        found.append(special)
    return special.end if special else 0


def _keys_in_order(text: str) -> TermKeys:
    exact: set[str] = set()
    prefixes: set[str] = set()
    others: list[Term] = []
    for token in (_ASCII_TOKEN if text.isascii() else _TOKEN).finditer(text):
        kind = token.lastgroup
        if kind == "pairs":
            start, end = token.span()
            _add_pairs(exact, others, text, max(start, others[-1].end) if others else start, end)
        elif kind == "word":
            surface = token[0]
            if len(surface) > _MAX_WORD or surface in _IN_PLACE:
                surface = _in_place(text, token)
            reading = _word_term(surface)
            if reading is not None:
                key, prefix, _, word_kind = reading
                if word_kind == "number":
                    _append_number_word(others, text, *token.span(), key)
                else:
                    exact.add(key)
                    prefixes.add(prefix)
        elif kind == "number":
            _append_number(others, text, token)
    return _term_keys(exact, prefixes, others)


def _term_keys(
    exact: set[str], prefixes: set[str], others: Sequence[Term], *, is_all: bool = False
) -> TermKeys:
    """Return the keys of a text, out of those that were read apart and the terms read in order.

    `is_all` says that no other terms but plain characters were read apart.
    """
    if others:
        exact.update([term.key for term in others])
    may_negate = not exact.isdisjoint(MAY_NEGATE)
    exact -= SIGNS
    prefixes.discard("")
    for term in others:
        if term.unit == day_times.UNIT:
            prefixes.update(day_times.prefixes(term.key))
    numbers = tuple([term.key for term in others if term.kind == "number"]) if others else ()
    figures = others if is_all else None
    return _new(TermKeys, (exact, prefixes, numbers, may_negate, figures))


WordTerm = tuple[str, str, float, Kind]


def _in_place(text: str, token: re.Match[str]) -> str:
    """Return a word, cut to `_MAX_WORD`, and in lower case if it is a `May` that is no month.

    So is the `US` of `US$20`, and one among capitals, which may be `us`.
    """
    surface = token[0][:_MAX_WORD]
    start, end = token.span()
    if surface == _COUNTRY:
        is_other = text[end : end + 1] == "$" or text[max(0, start - 3) : start - 1].isupper()
        return surface.lower() if is_other else surface
    if surface in _IN_PLACE and not _NEAR_DATE.search(text[max(0, start - 8) : end + 4]):
        return surface.lower()
    return surface


@lru_cache(maxsize=16_384)
def _word_term(surface: str) -> WordTerm | None:
    """Return a word's key, prefix, weight and kind; None for a word that says little."""
    if surface[-1:] == "s" and surface[:-1].isupper() and len(surface) > _PLURAL_FROM:
        surface = surface[:-1]
    word = _unaccented(surface).lower().replace("’", "'")
    is_capital = surface[0].isupper()
    if len(word) > 1 and word.isalpha() and word not in _NOT_PLAIN:
        return _plain_word(word, is_capital=is_capital)
    if word in NEGATIONS or word.endswith("n't"):
        return NEGATION, "", 0.0, "negation"
    if word in NEGATION_ENDS:
        return NEGATION_END, "", 0.0, "negation"
    word = word.removesuffix("'s").removesuffix("'").rstrip(".")
    if not word.isalpha() and word not in IRREGULAR and word not in STOP_WORDS:
        word = word.replace(".", "").replace("-", "")  # `E.U.` is `EU`, `e-mail` is `email`
    if surface in quantities.FRACTIONS:
        spelled = quantities.spelled(quantities.FRACTIONS[surface])
        return spelled, "", SMALL_NUMBER_WEIGHT, "number"
    date = _calendar(word, is_capital=is_capital)
    if date:
        return date, "", DATE_WEIGHT, "date"
    if surface == _COUNTRY:
        return _plain_word(word, is_capital=True)
    if word in STOP_WORDS or len(word) <= 1:
        return None
    value = quantities.word_value(word)
    if value is not None:
        return quantities.spelled(value), "", SMALL_NUMBER_WEIGHT, "number"
    return _plain_word(word, is_capital=is_capital)


_NOT_PLAIN: Final = frozenset().union(
    NEGATIONS, NEGATION_ENDS, MONTHS, WEEKDAYS, STOP_WORDS, quantities.NUMBER_VALUES
)
"""Words that are more than a stem, or less."""


def _plain_word(word: str, *, is_capital: bool) -> WordTerm:
    base, weight = stem_and_weight(word)
    prefix = f"{base[:PREFIX]}~" if len(base) >= PREFIX else ""
    return base, prefix, weight, "name" if is_capital else "word"


_PLURAL_FROM = 2
"""Characters beyond which capitals with an `s` are a plural: `CNNs`, not `Is`."""


def _unaccented(surface: str) -> str:
    """Return a word without accents and soft hyphens, in ordinary width: `Pokémon`, `Pokemon`."""
    if surface.isascii():
        return surface
    letters = unicodedata.normalize("NFKD", surface).replace("\u00ad", "")
    return "".join(letter for letter in letters if not unicodedata.combining(letter))


def _negates_nothing(text: str, end: int) -> bool:
    """Return whether the sign of negation that ends there is one in form only."""
    if text[end - 3 : end + 1].lower() == "non-":
        return False
    return text[end : end + _BEHIND].lstrip(" ").startswith(HARMLESS_BEHIND_NEGATION)


_COUNTRY = "US"
"""In lower case it is a stop word."""
_IN_PLACE = frozenset({"May", "March", "Mar", "Sun", "Sat", "Wed", "Mon", "Dec", "Jan", _COUNTRY})
"""Words of which what stands around them tells what they are."""
_NEAR_DATE = lazy_pattern(
    r"\d|\b(?:in|of|on|by|since|until|till|from|to|early|late|mid|last|next|and)[ -]+[A-Z]"
)
_ALSO_PLAIN_WORDS = frozenset({"may", "march", "mar", "sun", "sat", "wed", "mon", "dec", "jan"})


def _calendar(word: str, *, is_capital: bool) -> str:
    """Return the key of a month or weekday, or nothing; `may` and its like need their capital."""
    if word in _ALSO_PLAIN_WORDS and not is_capital:
        return ""
    if word in MONTHS:
        return f"month#{MONTHS[word]}"
    return f"weekday#{WEEKDAYS[word]}" if word in WEEKDAYS else ""


# --- numbers --------------------------------------------------------------------------------


def _append_number(found: list[Term], text: str, token: re.Match[str]) -> None:
    """Append a number in digits, or a time of day; nothing of what a time before it holds."""
    start, end = token.span()
    if found and found[-1].end > start:
        return
    if end - start <= _HOUR_DIGITS:
        time = _time_term(text, start, end, int(token[0])) if token[0].isdecimal() else None
        if time is not None:
            found.append(time)
            return
    ordinal = ORDINALS.get(token[0].lower()) if token["ordinal"] else None
    if ordinal is not None and not _is_day_of_month(text, start, end):
        base, weight = stem_and_weight(ordinal)
        found.append(Term(*token.span(), base, "", weight, "word"))
    else:
        found.append(_number_term(text, quantities.read_number(text, token)))


def _is_day_of_month(text: str, start: int, end: int) -> bool:
    """Return whether an ordinal is a day: `March 4th`, `4th of March`."""
    before = _MONTH_BEFORE.search(text, max(0, start - _MAX_MONTH), start)
    return before is not None or _MONTH_BEHIND.match(text, end) is not None


_MONTH: Final = (
    "(?:jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?"
    "|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)"
)
_MAX_MONTH: Final = 16
"""Characters of a month and what stands between it and its day."""
_MONTH_BEFORE = lazy_pattern(rf"\b{_MONTH}\.?,? (?:the )?\Z", re.IGNORECASE)
_MONTH_BEHIND = lazy_pattern(rf",? (?:day )?(?:of )?{_MONTH}\b", re.IGNORECASE)
_HOUR_DIGITS = 2


def _time_term(text: str, start: int, end: int, hour: int) -> Term | None:
    time = day_times.day_time_at(text, start, end, hour)
    if time is None:
        return None
    return Term(start, time.end, time.key, time.prefix, NUMBER_WEIGHT, "number", day_times.UNIT)


def _append_number_word(found: list[Term], text: str, start: int, end: int, value: str) -> None:
    """Append a number word, joined with the one before it: `twenty-five`, `two hundred million`.

    A fraction of one character is added to the whole number before it: `1½`.
    """
    number = float(value)
    last = found[-1] if found else None
    if (
        last is not None
        and text[start] in quantities.FRACTIONS
        and last.kind == "number"
        and text[last.end : start] in {"", " "}
        and text[last.end - 1].isdecimal()
        and len(last.key) <= _MAX_WHOLE
        and last.key[1:].isdecimal()
    ):
        found.pop()
        start, number = last.start, float(last.key[1:]) + number
    elif (
        last is not None
        and last.kind == "number"
        and last.key[0] == "#"
        and text[last.end : start] in _JOINTS
    ):
        joined = quantities.join(last.key[1:], number)
        is_spoken = text[last.end - 1].isalpha() or (joined is not None and number >= 100)
        if joined is not None and is_spoken:
            found.pop()
            start, number = last.start, joined
    unit = quantities.unit_behind(text, end)
    weight = SMALL_NUMBER_WEIGHT if number < 10 and not unit else NUMBER_WEIGHT
    if number == 1 and not unit:
        weight = 0.0  # `one` is a pronoun more often than a number: it supports a 1, no more
    found.append(Term(start, end, f"#{quantities.spelled(number)}", "", weight, "number", unit))


_MAX_WHOLE = 7
"""Characters of the key of a whole number that a fraction is added to."""
_PERHAPS_ONE = frozenset({"一"})
_JOINTS = frozenset({" ", "-", " and "})
"""The words that stand between the words of one number."""
_TWELVE = frozenset(str(number) for number in range(1, 13))


def _is_month_of_date(text: str, start: int, end: int) -> bool:
    """Return whether a number is the month of `2021-03-05` or `2021/3/5`."""
    sign = text[end : end + 1]
    return (
        sign in _DATE_SIGNS
        and _YEAR_AND_SIGN.fullmatch(text, max(0, start - 6), start) is not None
        and text[start - 1] == sign
        and _DAY_BEHIND.match(text, end + 1) is not None
    )


_DATE_SIGNS = frozenset("-/")
_YEAR_AND_SIGN = lazy_pattern(r"\D?[12]\d{3}[-/]")
_DAY_BEHIND = lazy_pattern(r"\d{1,2}(?!\d)")


def _number_term(text: str, quantity: Quantity) -> Term:
    start, end, value, unit = quantity
    is_month = unit == quantities.CALENDAR_MONTH
    if value in _TWELVE and (is_month or _is_month_of_date(text, start, end)):
        return Term(start, end, f"month#{value}", "", DATE_WEIGHT, "date")
    if is_month:  # `24月`
        unit = "month"
    weight = SMALL_NUMBER_WEIGHT if len(value) == 1 and not unit else NUMBER_WEIGHT
    if text[start:end] in _PERHAPS_ONE:
        weight = 0.0
    return _new(Term, (start, end, f"#{value}", "", weight, "number", unit))


# --- Chinese --------------------------------------------------------------------------------

_NUMERALS = "".join((*CHINESE_DIGITS, *CHINESE_SCALES))
_SIGNS = "".join(CHINESE_NEGATIONS)
_BEGIN_SPECIAL = f"{_SIGNS}{''.join(CHINESE_DIGITS)}十拾百周期拜"
_IS_SPECIAL = (
    f"(?<=[{_SIGNS}])"
    "|(?:(?<=周)|(?<=星期|礼拜))(?=[一二三四五六日天])"
    f"|(?<=百)(?=分之[{_NUMERALS}])"
    rf"|(?<=[{''.join(CHINESE_DIGITS)}十拾])(?=[{_NUMERALS}{quantities.MEASURES}]|\Z)"
)
# A class comes first in both, as that is what a search skips ahead by.
_SPECIAL = lazy_pattern(f"[{_BEGIN_SPECIAL}](?:{_IS_SPECIAL})")
"""Where `_special` is worth a try: all that it reads begins so, and little else does."""
_FIGURE = lazy_pattern(rf"[{_BEGIN_SPECIAL}\d\[【](?:(?<=[\d\[【])|{_IS_SPECIAL})")
"""The pattern of numbers in digits and of citations."""
_AFTER_NEGATION = frozenset("有能会是曾可得法需须必止")
_FORBIDS = re.compile("禁(?=止)|除(?=[^，。；、\\n]{1,12}?外(?![，,]?[还也另又更并均都]))")
"""Characters that are a sign of negation only before certain others: `除周一外`."""
_HARMLESS = lazy_pattern("|".join(sorted(NOT_NEGATIONS, key=len, reverse=True)))
_WEEKDAY = lazy_pattern("(?:(?<=星)期|(?<=礼)拜|周)([一二三四五六日天])(?![期末年])")


def _without(stop: Iterable[str], first: int = 0x4E00, last: int = 0x9FFF) -> str:
    """Return the ranges of the common Chinese characters, for a class, but for some."""
    ranges: list[str] = []
    for code in [*sorted(map(ord, stop)), last + 1]:
        if code > first:
            ranges.append(f"{chr(first)}-{chr(code - 1)}")
        first = code + 1
    return "".join(ranges)


_SAYS = _SYLLABIC.replace("\u4e00-\u9fff", _without(CHINESE_STOP))
_SAYING = lazy_pattern(f"[{_SAYS}]+")
_PAIR = lazy_pattern(f"(?=([{_SAYS}]{{2}}))")
_ALONE = lazy_pattern(f"(?<![{_SAYS}])[{_SAYS}](?![{_SAYS}])")


def _append_pairs(found: list[Term], text: str, start: int, end: int, *, with_plain: bool) -> None:
    """Append what a run of Chinese says."""
    for special in _specials(text, start, end):
        if with_plain:
            _append_plain_pairs(found, text, start, special.start)
        found.append(special)
        start = special.end
    if with_plain:
        _append_plain_pairs(found, text, start, end)


def _add_pairs(exact: set[str], specials: list[Term], text: str, start: int, end: int) -> None:
    """Add the keys of what `_append_pairs` would append."""
    for special in _specials(text, start, end):
        _add_plain_pairs(exact, text, start, special.start)
        specials.append(special)
        start = special.end
    _add_plain_pairs(exact, text, start, end)


def _specials(text: str, start: int, end: int) -> list[Term]:
    """Return the negations, weekdays and numbers of a run of Chinese."""
    found: list[Term] = []
    for candidate in _SPECIAL.finditer(text, start, end):
        at = candidate.start()
        if at >= start:
            term = _special(text, at, start)
            if term is not None:
                found.append(term)
                start = term.end
    return found


def _special(text: str, start: int, floor: int) -> Term | None:
    """Return the negation, weekday or number at `start`, or None if it is an ordinary character."""
    if text[start] in "禁除" and not _FORBIDS.match(text, start):
        return None
    if text[start] in CHINESE_NEGATIONS:
        for begin in range(max(floor, start - 2), start + 1):
            word = _HARMLESS.match(text, begin)
            if word and word.end() > start:
                return None
        is_longer = text[start] != "除" and text[start + 1 : start + 2] in _AFTER_NEGATION
        end = start + 1 + is_longer
        return Term(start, end, NEGATION, "", 0.0, "negation")
    weekday = _WEEKDAY.match(text, start)
    if weekday:
        day = "一二三四五六日".find(weekday[1].replace("天", "日")) + 1
        return Term(start, weekday.end(), f"weekday#{day}", "", DATE_WEIGHT, "date")
    number = quantities.CHINESE_NUMBER.match(text, start)
    if number is None:
        return None
    quantity = quantities.read_chinese(text, number)
    if quantity is None:
        return None
    if quantity.value.isdecimal() and not number["parts"] and len(quantity.value) <= _HOUR_DIGITS:
        time = _time_term(text, *number.span(), int(quantity.value))
        if time is not None:
            return time
    return _number_term(text, quantity)


def _append_plain_pairs(found: list[Term], text: str, start: int, end: int) -> None:
    """Append the pairs of neighbouring characters between those that say little."""
    common, append = CHINESE_COMMON, found.append
    for run in _SAYING.finditer(text, start, end):
        characters = run[0]
        at = run.start()
        if len(characters) == 1:
            append(Term(at, at + 1, characters, "", SINGLE_WEIGHT, "pair"))
            continue
        # A term a character: the constructor written in Python would be a third of the time.
        for left, right in pairwise(characters):
            weight = COMMON_PAIR_WEIGHT if left in common and right in common else PAIR_WEIGHT
            append(_new(Term, (at, at + 2, left + right, "", weight, "pair", "")))
            at += 1


def _add_plain_pairs(exact: set[str], text: str, start: int, end: int) -> None:
    """Add the keys that `_append_plain_pairs` would append."""
    for run in _SAYING.findall(text, start, end):
        if len(run) == 1:
            exact.add(run)
        else:
            exact.update(map(add, run, run[1:]))
