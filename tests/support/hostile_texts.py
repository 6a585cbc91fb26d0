"""Texts that are hard to read in linear time: one writer for each kind, English and Chinese.

A writer returns its n-th piece; equal numbers give equal pieces. A shape makes a question, chunks
and an answer of a wanted size out of one writer's pieces.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import count

Write = Callable[[int], str]
"""Returns the n-th piece of a text."""
Texts = tuple[str, list[str], str]
"""A question, chunks and an answer."""

_SYLLABLES = ("ra", "ten", "mo", "lis", "ver", "ko", "stan", "bel", "ur", "ap", "qui", "zo", "fen")
_HAN = "东西江河山林农村土气温度期比赛队球员冠军记录书报纸影音乐美食酒店旅游客户支持提高减少"
_DIGITS = "一二三四五六七八九"


def _word(n: int) -> str:
    letters = _SYLLABLES[n % 13]
    while n := n // 13:
        letters += _SYLLABLES[n % 13]
    return f"{letters}x"


def _letters(n: int) -> str:
    return chr(65 + n % 26) + chr(65 + n // 26 % 26) + chr(65 + n // 676 % 26)


def _han(n: int) -> str:
    size = len(_HAN)
    return _HAN[n % size] + _HAN[n // size % size] + _HAN[n // size // size % size]


ENGLISH: dict[str, Write] = {
    "words": lambda n: f"{_word(n)} ",
    "one word": lambda n: "tower ",
    "common words": lambda n: ("house ", "people ", "water ", "country ", "year ")[n % 5],
    "stop words": lambda n: "of the and ",
    "numbers": lambda n: f"{n + 1000} ",
    "decimals": lambda n: f"{n}.{n % 97} ",
    "one number": lambda n: "17 ",
    "units": lambda n: f"{n + 10} {('km', 'kg', 'miles', 'hours', 'GB')[n % 5]} ",
    "one number, many units": lambda n: f"17 {('km', 'kg', 'miles', 'hours', 'GB')[n % 5]} ",
    "money": lambda n: f"${n:,}.50 million, ",
    "percentages": lambda n: f"{n % 1000}.{n // 1000}% ",
    "number words": lambda n: f"{('twenty', 'hundred', 'million', 'five', 'thirty')[n % 5]} ",
    "years": lambda n: f"in {1000 + n % 1200} ",
    "dates": lambda n: f"{n % 28 + 1} {('May', 'March', 'April')[n % 3]} {1000 + n}, ",
    "iso dates": lambda n: f"{1000 + n}-{n % 12 + 1:02}-{n % 28 + 1:02}T12:00:00Z ",
    "acronyms": lambda n: f"{_letters(n)} ",
    "dotted acronyms": lambda n: f"{'.'.join(_letters(n))}. ",
    "acronyms spelled": lambda n: f"the a{_word(n)} of b{_word(n + 1)} ABX ",
    "names": lambda n: f"{_word(n).title()} {_word(n + 7).title()} ",
    "acts": lambda n: f"{_word(n).title()} was bought by {_word(n + 7).title()}. ",
    "negations": lambda n: f"not {_word(n)} never ",
    "denials": lambda n: f"{_word(n)} is prohibited except {_word(n + 1)}-free, only ",
    "affirmations": lambda n: f"Yes, you can {_word(n)}. No {_word(n)}. ",
    "opposites": lambda n: f"{('increase', 'decrease', 'rise', 'fall', 'first', 'last')[n % 6]} ",
    "contractions": lambda n: f"don't wasn’t {_word(n)}'s ",
    "quotes": lambda n: f'"{_word(n)}" “x” ',
    "open quotes": lambda n: '"“(',
    "brackets": lambda n: f"({_word(n)} [{n}]) ",
    "open brackets": lambda n: "([{",
    "citations": lambda n: f"{_word(n)} [{n % 900}] ",
    "table rows": lambda n: f"| {_word(n)} | {n} | no |\n",
    "markdown": lambda n: f"- **{_word(n)}**: `{n}`\n",
    "headings": lambda n: f"## {_word(n)}\n",
    "rules": lambda n: "---\n",
    "stars": lambda n: "**_*",
    "fences": lambda n: f"```\n{_word(n)}\n",
    "list markers": lambda n: f"{n % 99 + 1}. ",
    "labels": lambda n: f"Step {n % 99}: ",
    "json": lambda n: f'{{"{_word(n)}": [{n}, null, true]}}, ',
    "json rows": lambda n: f'{{"name": "{_word(n)}", "price": {n}, "is_open": false}}\n',
    "equal json rows": lambda n: '{"name": "ratenx", "price": 17, "wifi": false}\n',
    "json of one object": lambda n: (
        f'{"" if n else "{"}"{_word(n)}": {{"wifi": null, "x": "{n}"}}, '
    ),
    "json hours": lambda n: f'{{"name": "{_word(n)}", "hours": {{"Monday": "9:0-1{n % 9}:0"}}}}\n',
    "deep json": lambda n: f'{{"{_word(n)}": ',
    "deep lists": lambda n: '[{"a":',
    "python literals": lambda n: f"{{'{_word(n)}': {n % 2 == 0}, 'b': None}}; ",
    "escaped quotes": lambda n: '{"\\"',
    "literals in literals": lambda n: '{"a": "{\'b\': True}"}',
    "keys": lambda n: f"{_word(n)}: {n}\n",
    "one key": lambda n: f"ratenx: {_word(n)}\n",
    "nested keys": lambda n: f"{' ' * (n % 30)}{_word(n)}:\n",
    "items of keys": lambda n: f"- {_word(n % 5)}: yes\n  - {_word(n)}\n",
    "keys in a line": lambda n: f"{_word(n)}: {n} | ",
    "csv": lambda n: f"{_word(n)},{n},no\n" if n else "name,price,open\n",
    "csv without a head": lambda n: f"{n},{_word(n)},no\n",
    "csv of many widths": lambda n: f"{_word(n)}{',a' * (n % 3 + 1)}\n",
    "csv quotes": lambda n: f'"{_word(n)},",1\n',
    "tabs between": lambda n: f"{_word(n)}\t{_word(n + 1)}\n",
    "markdown tables": lambda n: f"| {_word(n)} | {n} |\n{'' if n else '|---|---|' + chr(10)}",
    "markdown tables of one column": lambda n: f"| {_word(n)} |\n|---|\n",
    "times and dates": lambda n: f"{n % 24} to {n % 12}:30 pm on 2021-{n % 12}-{n % 28}, ",
    "table heads": lambda n: f"| {_word(n)} | b |\n|---|---|\n",
    "wide tables": lambda n: f"| {_word(n)} | {n} ",
    "html tables": lambda n: f"<tr><td>{_word(n)}</td><td>{n}</td></tr>",
    "html heads": lambda n: f"<table><tr><th>{_word(n)}</th><th>b</th></tr>",
    "open tags": lambda n: "<td ",
    "entities": lambda n: "<tr><td>&amp;&#x41",
    "clauses of fields": lambda n: f"ratenx is {n}, and price is no; wifi but ",
    "open hours": lambda n: f"open from {n % 12}:00 to 5 pm Mon-Fri, ",
    "times": lambda n: f"{n % 24}:{n % 60:02} ",
    "links": lambda n: f"https://{_word(n)}.example/{n}?q={n} ",
    "code": lambda n: f"def {_word(n)}(x): return x[{n}] != 0; ",
    "letters": lambda n: "a",
    "capitals": lambda n: "A",
    "digits": lambda n: "7",
    "thousands": lambda n: "111,",
    "dots": lambda n: ".",
    "dotted letters": lambda n: "a.",
    "dots and spaces": lambda n: ". ",
    "commas": lambda n: ",",
    "hyphens": lambda n: "a-",
    "apostrophes": lambda n: "a'",
    "shouts": lambda n: "?!",
    "spaces": lambda n: "   ",
    "tabs": lambda n: "\t",
    "lines": lambda n: "\n",
    "blank lines": lambda n: f"{_word(n)}\n\n \n",
    "wrapped lines": lambda n: f"{_word(n)} and {_word(n + 3)} which was said to be of\n",
    "emoji": lambda n: "😀👨‍👩‍👧",
    "zero width": lambda n: "a\u200b\u200d\ufeff",
    "right to left": lambda n: f"שלום {_word(n)} \u202eمرحبا ",
    "accents": lambda n: "e\u0301\u0302",
    "no letters": lambda n: "\u0000\ufffd",
    "refusals": lambda n: "I do not know. The context does not mention it. ",
    "near refusals": lambda n: "the context there is no not any ",
    "apologies": lambda n: "I am sorry, thank you, ",
    "offers": lambda n: "If you need more information please let me know ",
    "questions": lambda n: f"Is {_word(n)} in {_word(n + 1)}? ",
    "announcements": lambda n: f"Here are the {_word(n)}: ",
    "announcements without a colon": lambda n: f"Here is the {_word(n)} as follows ",
    "source markers": lambda n: f"(Passage {n % 99}) [^{n % 99}] [doc {n % 99}, ",
    "attributions": lambda n: f"According to the provided passages {n % 99}, {n % 9} and ",
    "near attributions": lambda n: "the given provided source based on all the documents ",
    "clauses": lambda n: f"but {_word(n)}; however ",
    "initials": lambda n: f"J. R. {_word(n).title()} et al. ",
    "abbreviations": lambda n: "Dr. Mr. vs. e.g. No. ",
    "yes and no": lambda n: "No. Yes. ",
    "small sentences": lambda n: f"{_word(n).title()} is {n}. ",
}
CHINESE: dict[str, Write] = {
    "characters": _han,
    "one character": lambda n: "塔",
    "common characters": lambda n: "一不有人上",
    "particles": lambda n: "的了在是",
    "numbers": lambda n: f"{n}年{n}月",
    "units": lambda n: f"共{n}{('公里', '公斤', '小时', '元', '吨')[n % 5]}",
    "Chinese numbers": lambda n: f"有{_DIGITS[n % 9]}百{_DIGITS[n // 9 % 9]}十万",
    "ordinals": lambda n: f"第{_DIGITS[n % 9]}",
    "digits": lambda n: _DIGITS[n % 9],
    "scales": lambda n: "百千万亿",
    "percentages": lambda n: "百分之",
    "percentages of numbers": lambda n: f"百分之{_DIGITS[n % 9]}十",
    "weekdays": lambda n: f"星期{'一二三四五六日'[n % 7]}周末",
    "weeks": lambda n: "星期礼拜周",
    "dates": lambda n: f"{1000 + n}年{n % 12 + 1}月{n % 28 + 1}日，",
    "negations": lambda n: f"不{_han(n)}没有",
    "signs of negation": lambda n: "不",
    "denials": lambda n: f"禁止{_han(n)}除外，除",
    "harmless negations": lambda n: "不断不仅未来非常",
    "opposites": lambda n: ("增加", "减少", "上涨", "下跌")[n % 4],
    "acronyms": lambda n: f"{_letters(n)}公司",
    "names": lambda n: f"{_han(n)}·{_han(n + 3)}说",
    "acts": lambda n: f"{_han(n)}收购{_han(n + 7)}，",
    "one long act": lambda n: f"{_han(n)}被收购",
    "titled names": lambda n: f"王{_han(n)[:2]}教授{_han(n)}大学《{_han(n)}》",
    "foreign names": lambda n: "史蒂文·斯皮尔·",
    "quotes": lambda n: f"“{_han(n)}”『{_han(n)}』",
    "brackets": lambda n: f"（{_han(n)}【{n % 999}】）",
    "table rows": lambda n: f"| {_han(n)} | {n} | 否 |\n",
    "markdown": lambda n: f"- **{_han(n)}**：`{n}`\n",
    "list markers": lambda n: f"{_DIGITS[n % 9]}、",
    "labels": lambda n: f"步骤{n % 99}：",
    "json": lambda n: f'{{"{_han(n)}": {n}}}，',
    "json rows": lambda n: f'{{"名称": "{_han(n)}", "外卖": false, "评分": {n}}}\n',
    "keys": lambda n: f"{_han(n)}：{n}元\n",
    "csv": lambda n: f"{_han(n)},{n},是\n" if n else "姓名,工资,在职\n",
    "markdown tables": lambda n: f"| {_han(n)} | {n} |\n{'' if n else '|---|---|' + chr(10)}",
    "times and shares": lambda n: f"上午{n % 12}点半至{n % 24}时，三分之{n % 9}，",
    "hours": lambda n: f"周{'一二三四五六日'[n % 7]}上午{n % 12}点营业至晚上9点半，",
    "stops": lambda n: "。",
    "commas": lambda n: "，",
    "refusals": lambda n: "我不知道。资料没有提到。",
    "near refusals": lambda n: "根据与关于有关资料上下文没有任何",
    "more near refusals": lambda n: "无法根据没有与关于",
    "courtesies": lambda n: "好的，谢谢您，祝您",
    "offers": lambda n: "如果您需要更多信息，请",
    "questions": lambda n: f"{_han(n)}是否{_han(n + 1)}吗？",
    "announcements": lambda n: f"以下{_han(n)}：",
    "source markers": lambda n: f"（资料{n % 99}）【{n % 99}†来源】文档{n % 99}、",
    "attributions": lambda n: f"根据您提供的资料{n % 99}和资料中提到",
    "mixed": lambda n: f"{_han(n)}{_word(n)}{n}",
    "Japanese": lambda n: "東京タワーは高い",
    "Korean": lambda n: "서울은 한국의 수도",
    "rare characters": lambda n: "\U00020000\U00020001",
    "full width": lambda n: "１２３ＡＢＣ，",
    "yes and no": lambda n: "是的。不是。",
    "small sentences": lambda n: f"{_han(n)}是{n}。",
}
WRITERS: dict[str, Write] = {f"en {name}": write for name, write in ENGLISH.items()} | {
    f"zh {name}": write for name, write in CHINESE.items()
}


def texts(write: Write, size: int, start: int = 0) -> str:
    pieces: list[str] = []
    for n in count(start):
        pieces.append(write(n))
        size -= len(pieces[-1])
        if size <= 0:
            return "".join(pieces)
    raise AssertionError


def _sentences(write: Write, size: int, start: int = 0, stop: str = ".\n") -> str:
    """Return the pieces, a stop behind every third."""
    return texts(lambda n: write(n) + (stop if n % 3 == 0 else ""), size, start)


_FAR = 100_003
"""Piece from which on no piece has been in a text before."""


def _short(write: Write) -> str:
    return write(1) + write(5) + write(_FAR)


SHAPES: dict[str, Callable[[Write, int], Texts]] = {
    "long answer": lambda w, n: (_short(w), [_short(w)], texts(w, n)),
    "long chunk": lambda w, n: (_short(w), [texts(w, n)], _short(w)),
    "answer is the chunk": lambda w, n: (_short(w), [texts(w, n)], texts(w, n)),
    "other answer": lambda w, n: (_short(w), [texts(w, n)], texts(w, n, _FAR)),
    "nearly the chunk": lambda w, n: (_short(w), [texts(w, n)], "Zork " + texts(w, n) + " 4711"),
    "other sentences": lambda w, n: (_short(w), [_sentences(w, n)], _sentences(w, n, _FAR)),
    "other sentences and one passage": lambda w, n: (
        _short(w),
        [texts(w, n)],
        _sentences(w, n, _FAR),
    ),
    "one passage and sentences": lambda w, n: (_short(w), [_sentences(w, n)], texts(w, n, 1)),
    "many chunks": lambda w, n: (texts(w, n), _chunks(w, n), texts(w, n)),
    "sentences and many chunks": lambda w, n: (_short(w), _chunks(w, n), _sentences(w, n)),
    "equal chunks": lambda w, n: (_short(w), [_short(w)] * (n // 20), _sentences(w, n)),
    "question, chunk and answer": lambda w, n: (
        _sentences(w, n),
        [_sentences(w, n)],
        _sentences(w, n),
    ),
}


def _chunks(write: Write, size: int) -> list[str]:
    """Return short chunks of one or two pieces each."""
    chunks: list[str] = []
    for n in count():
        chunks.append(write(2 * n) + write(2 * n + 1))
        size -= len(chunks[-1])
        if size <= 0:
            return chunks
    raise AssertionError
