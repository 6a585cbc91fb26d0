"""Sentences of English, Chinese and mixed text, with exact offsets into it.

No character that is not a space is ever lost: a bare list marker ("1.", "Passage 1:") belongs to
the sentence that it introduces, closing quotes, brackets and citations ("[2]") to the sentence
that they close, a rule ("---") to its neighbour. Every decision looks at a bounded
neighbourhood, so that the time is linear in the text's length, whatever it holds.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
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
    """Return the offsets (start, end) of `split`'s sentences, without copying their texts.

    Markers are joined to the sentence behind them, mere signs to the one before.
    """
    text = without_thoughts(text)
    found: list[tuple[int, int]] = []
    held = -1  # where markers or signs begin whose sentence is still to come
    for begin, finish in _pieces(text):
        piece = text[begin:finish]
        start, end = finish - len(piece.lstrip()), begin + len(piece.rstrip())
        if start >= end:
            continue
        is_marker = _is_marker(text, start, end)
        if not is_marker and _SAYS_SOMETHING.search(text, start, end):
            found.append((start if held < 0 else held, end))
            held = -1
        elif held < 0 and found and not is_marker:
            found[-1] = found[-1][0], end
        elif held < 0:
            held = start
    if held >= 0:
        start = found.pop()[0] if found else held
        found.append((start, len(text.rstrip())))
    return found


def without_thoughts(text: str) -> str:
    """Return a text with the thoughts of a reasoning model as spaces; all else stays in its place.

    They stand at the beginning, between tags; the first tag may be missing where the application
    took it for its own, and the last where the answer was cut off.
    """
    if not any(map(text.__contains__, ("think>", "thinking>", "thought>", "reasoning>"))):
        return text
    thoughts = _THOUGHTS.match(text)
    end = thoughts.end() if thoughts else 0
    return " " * end + text[end:]


_TAG = "(?:(?:seed:)?think(?:ing)?|thought|reasoning)"
_THOUGHTS = lazy_pattern(
    rf"\s{{0,8}}<({_TAG})>.*?(?:</\1>|\Z)"
    rf"|(?:(?!<{_TAG}).)*?</{_TAG}>[ \t]{{0,8}}(?=\n|\Z)",
    re.IGNORECASE | re.DOTALL,
)


def marker_end(text: str) -> int:
    """Return how many characters of list markers and labels a sentence begins with; 0: none."""
    match = _MARKER.match(text, 0, _MAX_MARKER)
    return match.end() if match else 0


def language(text: str) -> Language:
    """Return `zh` if the text has more Chinese characters than words in other letters."""
    if text.isascii():
        return "en"
    han = sum(map(len, _HAN_RUN.findall(text)))
    return "zh" if han and han > len(_OTHER_WORD.findall(text)) else "en"


_HAN_RUN = lazy_pattern(f"[{HAN}]+")
_OTHER_WORD = lazy_pattern(rf"[^\W\d_{HAN}]+")
_SAYS_SOMETHING = lazy_pattern(r"[^\W_]")
_CHINESE_DIGITS = "一二三四五六七八九十百零〇"
_MARKER = lazy_pattern(
    r"(?:(?:\*\*|__)?(?:[-*+•‣◦▪▫●○■□◆◇►▶➢✓✔✗✘·–—>]"
    r"|[(（\[【]?(?:\d{1,3}(?:\.\d{1,3}){0,3}|[a-z]|[ivx]{1,5})[.)）\]】、．:：][)）]?"
    rf"|[(（]?[{_CHINESE_DIGITS}]{{1,4}}[、.．)）:：]|第[{_CHINESE_DIGITS}\d]{{1,4}}[、，,:：.．]"
    "|[\u2460-\u24ff\u2776-\u2793\u3220-\u3229\u3280-\u3289][.、．]?"
    r"|(?:passage|step|section|part|chapter|source|document|doc|item|point|question|answer"
    r"|option|note|example|段落|步骤|资料|文档|来源|例|注)"
    r"[ \t]{0,2}(?:[#№]?\d{1,3}|[a-z]|[ivx]{1,5})?[ \t]?[:：.)）、])"
    rf"(?:\*\*|__)?(?:\s{{1,4}}|(?=[{HAN}])|\Z)){{1,3}}",
    re.IGNORECASE,
)
_MAX_MARKER = 32
"""Characters; anything longer is no bare marker, and is not looked at."""
_NEIGHBOURHOOD = 64
"""Characters that any decision looks at to either side."""


def _is_marker(text: str, start: int, end: int) -> bool:
    """Return whether a piece of a text, without space at its end, is a bare marker."""
    is_short = end - start <= _MAX_MARKER and text[end - 1] not in "。！？；!?"
    return is_short and _MARKER.fullmatch(text, start, end) is not None


# --- lines to pieces ------------------------------------------------------------------------

_LINE = lazy_pattern(r"[^\n\r\x0b\x0c\x85\u2028\u2029]+")
_NO_PROSE = lazy_pattern(r"[ \t]{0,12}(?P<fence>```|~~~|\|)|[ \t]{0,3}#{1,6}[ \t]")
"""The head of a line that begins a block of code, or is a row of a table or a heading."""
_WRAPPED_FROM = 40
"""Characters from which a line without a stop, followed by a small letter, counts as wrapped."""


def _pieces(text: str) -> Iterator[tuple[int, int]]:
    """Yield what sentences never cross: parts of paragraphs, rows, headings, blocks of code."""
    block = last = -1
    fence = ""
    for line in _LINE.finditer(text):
        start, end = line.span()
        head = _NO_PROSE.match(text, start)
        mark = (head["fence"] or "").strip("|") if head else ""
        if fence:
            if mark == fence:
                yield block, end
                block, fence = -1, ""
            continue
        if block >= 0 and (head or not _goes_on(text, block, last, start)):
            yield from _sentences(text, block, last)
            block = -1
        fence = mark
        if head and not mark:
            yield start, end
        elif block < 0:
            block = start
        last = end
    if fence:
        yield block, len(text)
    elif block >= 0:
        yield from _sentences(text, block, last)


def _goes_on(text: str, block: int, last: int, start: int) -> bool:
    """Return whether a line goes on with the one before it: it was wrapped in mid-sentence."""
    before = text[max(block, last - _NEIGHBOURHOOD) : last].rstrip()[-1:]
    behind = text[start : start + _NEIGHBOURHOOD].lstrip()
    is_next = text[last:start] in {"\n", "\r\n", "\r"}
    if not (is_next and before and behind) or _MARKER.match(behind):
        return False
    is_wrapped = behind[:1].islower() and last - block >= _WRAPPED_FROM
    return before in ",，、" or (is_wrapped and before not in ".!?。！？；…:：;｡．”」』|")


# --- paragraphs to sentences ----------------------------------------------------------------

# The class comes first and alone, as that is what a search skips ahead by.
_STOP = lazy_pattern(
    r"(?P<stop>[.!?…。！？；｡．][.!?…。！？；｡．]*)"
    r"(?P<closers>(?:[\"'”’」』）)】\]》〉*_]|\[\d{1,3}(?=\]))*)"
)
_ADDRESS = lazy_pattern(r"(?:[/@]|(?<!\S)www)\S*\Z")
_GLUED = lazy_pattern(r"[A-Z][a-z]*(?=[ ,'’])")
_GLUED_BEFORE = lazy_pattern(r"(?:[a-z]{2}|\d{2}|[)\]\"”%])\Z")
_WORD = lazy_pattern(r"[^\W\d_]+(?:\.[^\W\d_]+)*")
_ALWAYS_LAST = frozenset("。！？；｡")
_QUOTES = frozenset("\"'”’」』）)")
_INITIALS = lazy_pattern(r"[A-Z]|[^\W\d_](?:\.[^\W\d_])+")


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_BEFORE_MORE = _words("""
    no nos nr fig figs eq eqs vol vols p pp pg art arts sec secs ch chap para ver op ref tab min
    mins hr hrs max oz lb lbs tbsp tsp gal sq cu
""")
"""Words that are abbreviations where a number or a small letter follows."""
_SELDOM_LAST = _words("""
    dr mr mrs ms mx prof st mt ft gen rep sen gov capt cpt col lt sgt maj rev hon pres supt messrs
    vs v cf eg e.g ie i.e viz approx est esp incl resp ca circa al ed eds trans inc ltd co corp llc
    plc bros etc jr sr a.m p.m am pm dept univ assn ave blvd rd hwy ph.d u.s u.k u.n e.u jan feb
    mar apr jun jul aug sep sept oct nov dec mon tue tues wed thu thur thurs fri sat sun
""")
"""Abbreviations that end a sentence only before a word that starts one."""
ABBREVIATIONS = _BEFORE_MORE | _SELDOM_LAST
"""Words behind whose dot a sentence may go on."""
_STARTERS = _words("""
    the a an this that these those he it she they we i you his her its their our my there here in
    on at by for from with after before during since when while if although though because however
    but and or so then thus also as to what who why how where which one no not yes
""")
"""Words that, with a capital, start a sentence rather than follow an abbreviation."""


def _sentences(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Yield the pieces of a paragraph between stops that end sentences."""
    at = start
    for stop in _STOP.finditer(text, start, end):
        if _ends(text, at, stop, end):
            yield at, stop.end()
            at = stop.end()
    yield at, end


def _ends(text: str, start: int, found: re.Match[str], end: int) -> bool:
    """Return whether a stop ends a sentence."""
    stop, dot, after = found["stop"], found.start(), found.end()
    if after >= end or not _ALWAYS_LAST.isdisjoint(stop):
        return True
    behind = text[after : min(end, after + _NEIGHBOURHOOD)]
    before = text[max(start, dot - _NEIGHBOURHOOD) : dot]
    is_strong = "?" in stop or "!" in stop
    if not behind[0].isspace():
        if is_strong:
            return bool(_HAN_RUN.match(behind)) or behind[0] in '“「『（【"*'
        if len(stop) > 1 or stop == "…" or _ADDRESS.search(before):
            return False
        if _HAN_RUN.match(behind):
            return not before[-1:].isdigit()
        return bool(_GLUED.match(behind) and _GLUED_BEFORE.search(before))  # `1846).First for`
    behind = behind.lstrip()
    is_small = behind[:1].islower()
    closes_quote = not _QUOTES.isdisjoint(found["closers"])
    if is_strong or len(stop) > 1 or stop == "…":
        return not is_small or (is_strong and not closes_quote)
    last = _WORD.match(before[::-1])
    word = last[0][::-1] if last else ""
    is_initial = _INITIALS.fullmatch(word) and not (len(word) == 1 and behind[:1].isdigit())
    if is_initial or word.lower() in _SELDOM_LAST:
        bare = behind.lstrip('"“')
        following = _WORD.match(bare)
        is_quote = len(bare) < len(behind)
        starts = following and (is_quote or following[0].lower() in _STARTERS)
        return bool(starts) and bare[0].isupper()
    goes_on = is_small or behind[:1].isdigit()
    return closes_quote or not (goes_on and word.lower() in _BEFORE_MORE)
