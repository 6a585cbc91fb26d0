"""Sentences of English, Chinese and mixed text, with exact offsets into it.

No character that is not a space is ever lost: a bare list marker ("1.", "Passage 1:") belongs to
the sentence that it introduces, closing quotes, brackets and citations ("[2]") to the sentence
that they close, a rule ("---") to its neighbour. Every decision looks at a bounded
neighbourhood, so that the time is linear in the text's length, whatever it holds.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from ragmonitor.records import Language
from ragmonitor.runtime.patterns import lazy_pattern

HAN = "\u3007\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003134f"
"""Chinese characters, for use inside a character class."""


@dataclass(frozen=True, slots=True)
class Sentence:
    """One sentence, and where it stands: `text == source[start:end]`, no space at either end."""

    text: str
    start: int
    end: int


def split(text: str) -> list[Sentence]:
    """Return the sentences of a text in order, without overlap.

    A line break ends a sentence unless the line was plainly wrapped; a table row, a heading and
    a fenced code block are one sentence each. Empty if there is nothing but space.
    """
    return [Sentence(text[start:end], start, end) for start, end in spans(text)]


def spans(text: str) -> list[tuple[int, int]]:
    """Return the offsets (start, end) of `split`'s sentences, without copying their texts."""
    text = without_thoughts(text)
    pieces: list[tuple[int, int]] = []
    for start, end, is_prose in _blocks(text):
        pieces.extend(_prose(text, start, end) if is_prose else [(start, end)])
    return _merged(text, pieces)


def without_thoughts(text: str) -> str:
    """Return a text with the thoughts of a reasoning model as spaces; all else stays in its place.

    They stand at the beginning, between tags; the first tag may be missing where the application
    took it for its own, and the last where the answer was cut off.
    """
    if "think" not in text and "reasoning>" not in text:
        return text
    opening = _OPENING_THOUGHT.match(text)
    if opening:
        closing = text.find(f"</{opening[1]}>", opening.end())
        end = closing + len(opening[1]) + 3 if closing >= 0 else len(text)
    else:
        last = _CLOSING_THOUGHT.search(text)
        end = last.end() if last and f"<{last[1]}" not in text[: last.start()] else 0
    return " " * end + text[end:]


_OPENING_THOUGHT = lazy_pattern(
    r"\s{0,8}<((?:seed:)?think|thinking|thought|reasoning)>", re.IGNORECASE
)
_CLOSING_THOUGHT = lazy_pattern(r"</((?:seed:)?think(?:ing)?)>[ \t]{0,8}(?=\n|\Z)", re.IGNORECASE)


def marker_end(text: str) -> int:
    """Return how many characters of list markers and labels a sentence begins with; 0: none."""
    match = _LEADING_MARKER.match(text, 0, _MAX_MARKER)
    return match.end() if match else 0


def language(text: str) -> Language:
    """Return `zh` if the text has more Chinese characters than words in other letters."""
    if text.isascii():
        return "en"
    han = sum(map(len, _HAN_RUN.findall(text)))
    return "zh" if han > len(_OTHER_WORD.findall(text)) else "en"


_HAN_CHARACTER = lazy_pattern(f"[{HAN}]")
_HAN_RUN = lazy_pattern(f"[{HAN}]+")
_OTHER_WORD = lazy_pattern(rf"[^\W\d_{HAN}]+")

# --- lines to blocks ------------------------------------------------------------------------

_LINE = lazy_pattern(r"[^\n\r\x0b\x0c\x85\u2028\u2029]+")
_LINE_HEAD = lazy_pattern(
    r"[ \t]{0,12}(?:(?P<fence>```|~~~)|(?P<row>\|))|(?P<heading>[ \t]{0,3}#{1,6}[ \t])"
)
"""The head of a line that is no prose."""

_CHINESE_DIGITS = "一二三四五六七八九十百零〇"
_CIRCLED = "\u2460-\u24ff\u2776-\u2793\u3220-\u3229\u3280-\u3289"
_MARKER = (
    r"(?:[-*+•‣◦▪▫●○■□◆◇►▶➢✓✔✗✘·–—]"
    r"|[(（\[【]?(?:\d{1,3}|[A-Za-z]|[ivxIVX]{1,5})[.)）\]】、．:：]"
    rf"|[(（]?[{_CHINESE_DIGITS}]{{1,4}}[、.．)）:：]"
    rf"|第[{_CHINESE_DIGITS}\d]{{1,4}}[、，,:：.．]"
    rf"|[{_CIRCLED}][.、．]?"
    r"|>)"
)
_LABEL = (
    r"(?:passage|step|section|part|chapter|source|document|doc|item|point|question|answer"
    r"|option|note|example|段落|步骤|资料|文档|来源|例|注)"
    r"[ \t]{0,2}(?:[#№]?\d{1,3}|[A-Z]|[ivxIVX]{1,5})?[ \t]?[:：.)）、]"
)
_BARE_MARKER = lazy_pattern(
    rf"(?:(?:\*\*|__)?(?:{_MARKER}|{_LABEL})(?:\*\*|__)?\s{{0,4}}){{1,3}}", re.IGNORECASE
)
_LEADING_MARKER = lazy_pattern(
    rf"(?:(?:\*\*|__)?(?:{_MARKER}|{_LABEL})(?:\*\*|__)?(?:\s{{1,4}}|(?=[{HAN}]))){{1,3}}",
    re.IGNORECASE,
)
_STARTS_ITEM = lazy_pattern(rf"[ \t]{{0,12}}(?:\*\*|__)?(?:{_MARKER}[ \t*]|{_MARKER}(?=[{HAN}]))")
_MAX_MARKER = 32
"""Characters; anything longer is no bare marker, and is not looked at."""

_WRAPPED_FROM = 40
"""Characters from which a line without a stop, followed by a small letter, counts as wrapped."""


def _blocks(text: str) -> Iterator[tuple[int, int, bool]]:
    """Yield (start, end, is_prose): what sentences never cross."""
    open_at = fence_at = -1
    last_end = 0
    fence = ""
    for start, end in _lines(text):
        head = _LINE_HEAD.match(text, start)
        mark = head["fence"] if head else None
        if fence:
            if mark == fence:
                yield fence_at, end, False
                fence = ""
            last_end = end
            continue
        if open_at >= 0 and (head or not _continues(text, open_at, last_end, start, end)):
            yield open_at, last_end, True
            open_at = -1
        if mark:
            fence, fence_at = mark, start
        elif head:
            yield start, end, False
        elif open_at < 0:
            open_at = start
        last_end = end
    if fence:
        yield fence_at, len(text), False
    elif open_at >= 0:
        yield open_at, last_end, True


def _lines(text: str) -> Sequence[tuple[int, int]]:
    """Return the offsets of the lines of a text that are not empty."""
    if text.splitlines() == [text]:  # most texts are one line, and this is quicker to see
        return [(0, len(text))]
    return [line.span() for line in _LINE.finditer(text)]


def _continues(text: str, block: int, last_end: int, start: int, end: int) -> bool:
    """Return whether a line goes on with the block before it, wrapped in mid-sentence."""
    breaks = text[last_end : min(start, last_end + 3)]
    if breaks not in {"\n", "\r\n", "\r"}:
        return False
    last = _last_visible(text, block, last_end)
    first = _first_visible(text, start, end)
    if last < 0 or first < 0 or text[last] in _ENDERS or _STARTS_ITEM.match(text, start):
        return False
    if text[last] in ",，、":
        return True
    return text[first].islower() and last_end - block >= _WRAPPED_FROM


_ENDERS = set(".!?。！？；…:：;｡．”」』|")
_NEIGHBOURHOOD = 64
"""Characters that any decision looks at to either side."""


def _last_visible(text: str, start: int, end: int) -> int:
    for at in range(end - 1, max(start, end - _NEIGHBOURHOOD) - 1, -1):
        if not text[at].isspace():
            return at
    return -1


def _first_visible(text: str, start: int, end: int) -> int:
    end = min(end, start + _NEIGHBOURHOOD)
    while start < end and text[start].isspace():
        start += 1
    return start if start < end else -1


# --- prose to sentences ---------------------------------------------------------------------

_CLOSERS = "\"'”’」』）)】\\]》〉*_"
_STOPS = "[.!?…。！？；｡．]"
# The class comes first and alone, as that is what a search skips ahead by.
_STOP = lazy_pattern(
    rf"(?P<stop>{_STOPS}{_STOPS}*)(?P<closers>(?:[{_CLOSERS}]|\[\d{{1,3}}(?=\]))*)"
)
_WIDE = set("。！？；｡")
_QUOTES = set("\"'”’」』）)")


def _listed(text: str) -> list[str]:
    return text.split()


_NEVER_LAST = frozenset(
    _listed(
        """
        dr mr mrs ms mx prof st mt ft gen rep sen gov capt cpt col lt sgt maj rev hon pres supt
        messrs vs v cf eg e.g ie i.e viz approx est esp incl resp ca circa al ed eds trans
        """
    )
)
"""Abbreviations that never end a sentence: the abbreviated name follows."""
_BEFORE_NUMBER = frozenset(
    _listed(
        """
        no nos nr fig figs eq eqs vol vols pp p pg pgs art arts sec secs ch chap para ver v op
        ref tab jan feb mar apr jun jul aug sep sept oct nov dec
        """
    )
)
"""Words that are abbreviations only where a number follows; else they may end a sentence."""
_PERHAPS_LAST = frozenset(
    _listed(
        """
        inc ltd co corp llc plc bros etc jr sr a.m p.m am pm dept univ assn ave blvd rd hwy ph.d
        m.d b.a m.a b.sc m.sc d.c u.s u.k u.n e.u u.s.a d.phil jan feb mar apr jun jul aug sep
        sept oct nov dec mon tue tues wed thu thur thurs fri sat sun
        """
    )
)
"""Abbreviations that may end a sentence: they do before a word that starts one."""
_UNITS = frozenset(_listed("min mins hr hrs sec secs max oz lb lbs tbsp tsp gal sq cu"))
"""Abbreviations that end a sentence, as any word does, unless a small letter follows."""
_STARTERS = frozenset(
    _listed(
        """
        the a an this that these those he she it they we i you his her its their our my there
        here in on at by for from with after before during since when while if although though
        because however but and or so then thus also as to what who why how where which one no
        not yes
        """
    )
)
"""Words that, with a capital, start a sentence rather than follow an abbreviation."""

_WORD_BACKWARDS = lazy_pattern(r"[^\W\d_]+(?:\.[^\W\d_]+)*")
_LONGER = 1 + max(map(len, (_NEVER_LAST | _BEFORE_NUMBER | _PERHAPS_LAST | _UNITS)))
"""Letters of a word that is longer than every abbreviation."""
_WORD_AFTER = lazy_pattern(r"[^\W\d_]+")
_GLUED = lazy_pattern(r"[A-Z][a-z]*(?=[ ,'’])")
_GLUED_BEFORE = lazy_pattern(r"(?:[a-z]{2}|\d{2}|[)\]\"”%])\Z")


def _prose(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Yield the pieces between stops that end sentences."""
    at = start
    for match in _STOP.finditer(text, start, end):
        if _ends_sentence(text, at, match, end):
            yield at, match.end()
            at = match.end()
    yield at, end


def _ends_sentence(text: str, start: int, match: re.Match[str], end: int) -> bool:
    stop, after = match["stop"], match.end()
    if after >= end:
        return True
    if not _WIDE.isdisjoint(stop):
        return True
    following = text[after]
    if following.isspace():
        at = _first_visible(text, after, end)
        following = text[at] if at >= 0 else " "
        is_apart = True
    else:
        is_apart = False
    closes_quote = not _QUOTES.isdisjoint(match["closers"])
    if stop[-1] in "!?" or "?" in stop or "!" in stop:
        return _shout_ends(following, is_apart=is_apart, closes_quote=closes_quote)
    if len(stop) > 1 or stop == "…":
        return is_apart and not following.islower()
    if not is_apart:
        return _glued_stop_ends(text, match.start(), after, following)
    return _dot_ends(text, start, match, following, closes_quote=closes_quote)


def _shout_ends(following: str, *, is_apart: bool, closes_quote: bool) -> bool:
    if is_apart:
        return not (closes_quote and following.islower())
    return bool(_HAN_CHARACTER.match(following)) or following in '“「『（【"*'


def _glued_stop_ends(text: str, dot: int, after: int, following: str) -> bool:
    """Return whether a stop without a space behind it ends a sentence ("1846).First for")."""
    before = text[max(0, dot - _NEIGHBOURHOOD) : dot]
    if _HAN_CHARACTER.match(following):
        return not before[-1:].isdigit() and not _is_address(before)
    if not _GLUED.match(text, after) or not _GLUED_BEFORE.search(before):
        return False
    return not _is_address(before)


def _is_address(before: str) -> bool:
    """Return whether the text before a dot ends in the middle of a link or an e-mail address."""
    word = before.rsplit(maxsplit=1)[-1] if before.split() else ""
    return "/" in word or "@" in word or word.startswith("www")


def _dot_ends(
    text: str, start: int, match: re.Match[str], following: str, *, closes_quote: bool
) -> bool:
    """Return whether a single dot with a space behind it ends a sentence."""
    dot = match.start()
    if dot + 1 - start <= _MAX_MARKER and _is_marker(text[start : dot + 1]):
        return False
    if dot - start >= _LONGER and text[dot - _LONGER : dot].isalpha():
        return True
    backwards = _WORD_BACKWARDS.match(text[max(start, dot - 20) : dot][::-1])
    if backwards is None:
        return True
    surface = backwards[0][::-1]
    word = surface.lower()
    if closes_quote and word not in _PERHAPS_LAST:
        return True
    if word in _NEVER_LAST:
        return False
    if word in _BEFORE_NUMBER and following.isdigit():
        return False
    if word in _UNITS and following.islower():
        return False
    is_initial = len(word) == 1 and surface.isupper() and not following.isdigit()
    if word in _PERHAPS_LAST or is_initial or _is_dotted_letters(word):
        return following in '“"「' or _is_starter(text, match.end())
    return True


def _is_dotted_letters(word: str) -> bool:
    return len(word) > 2 and all(len(part) == 1 for part in word.split("."))


def _is_starter(text: str, at: int) -> bool:
    at = _first_visible(text, at, len(text))
    word = _WORD_AFTER.match(text, at, at + 20) if at >= 0 else None
    return word is not None and word[0][0].isupper() and word[0].lower() in _STARTERS


def _is_marker(piece: str) -> bool:
    """Return whether a piece, without space at its end, is a bare marker."""
    if len(piece) > _MAX_MARKER or piece[-1] in _NO_MARKER_ENDS:
        return False
    return _BARE_MARKER.fullmatch(piece.strip()) is not None


# --- pieces to sentences --------------------------------------------------------------------

_SAYS_SOMETHING = lazy_pattern(r"[^\W_]")
_NO_MARKER_ENDS = frozenset("。！？；!?")
"""What many sentences end in, and no marker."""


def _merged(text: str, pieces: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the pieces stripped, with markers and mere signs joined to their sentences."""
    joined: list[tuple[int, int]] = []
    held = -1  # where markers or signs begin whose sentence is still to come
    for begin, finish in pieces:
        start, end = _stripped(text, begin, finish)
        if start == end:
            continue
        says_something = text[start].isalnum() or _SAYS_SOMETHING.search(text, start, end)
        if says_something and not _is_marker(text[start:end]):
            joined.append((start if held < 0 else held, end))
            held = -1
        elif held < 0:
            if joined and not _is_marker(text[start:end]):
                joined[-1] = (joined[-1][0], end)
            else:
                held = start
    if held >= 0:  # a marker that nothing followed belongs to the sentence before it
        end = len(text.rstrip())
        start = joined.pop()[0] if joined else held
        joined.append((start, end))
    return joined


def _stripped(text: str, start: int, end: int) -> tuple[int, int]:
    while start < end and text[start].isspace():
        start += 1
    while end > start and text[end - 1].isspace():
        end -= 1
    return start, end
