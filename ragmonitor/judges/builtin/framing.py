"""The framing of a sentence: source markers, attributions and rules, which claim nothing.

`According to Passage 2, it is 330 m tall [3].` claims that it is 330 m tall. What a source is
called or numbered stands in no chunk, and is not looked for in one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final

from ragmonitor.judges.builtin.text_terms import Term, in_lower_case
from ragmonitor.patterns import lazy_pattern


def _any(*patterns: str) -> str:
    return "(?:" + "|".join(patterns) + ")"


def _words(text: str) -> str:
    return _any(*text.split())


_NUMBERED: Final = (
    _words("passages? documents? docs? sources? chunks? contexts? excerpts? snippets?")
    + r"[ \t]{0,2}(?:[#№\[]|no\.? )?\d{1,3}\]?"
    + r"(?:[ \t]{0,2}(?:,|and|or|&|to|-|–)[ \t]{0,2}\[?\d{1,3}\]?){0,6}"
)
_CHINESE_SOURCE: Final = _words(
    """
    参考资料 资料 文档 文件 段落 片段 来源 上下文 材料 检索结果 检索内容 知识库
    原文 文中 文本 参考信息
    """
)
_CHINESE_NUMBER: Final = r"(?:第?\[?[\d一二三四五六七八九十]{1,3}\]?[篇段条份号]?)"
_CHINESE_NUMBERED: Final = (
    rf"{_CHINESE_SOURCE}[ \t]?{_CHINESE_NUMBER}"
    rf"(?:[、，,和与及]{{1,2}}{_CHINESE_SOURCE}?[ \t]?{_CHINESE_NUMBER}){{0,6}}"
)
_SOURCES: Final = (
    "(?:"
    + _words("the this these your all above given provided retrieved supplied available relevant")
    + " ){0,3}"
    + _any(
        _NUMBERED,
        "(?:search |retrieved )?"
        + _words("context passage document source text excerpt snippet article information")
        + "s?",
        "(?:material|result|chunk|knowledge base)s?",
    )
    + r"(?: (?:you )?(?:provided|given|above|below|supplied|retrieved)\b)?"
)
_TELLS: Final = _words(
    "states? says? mentions? notes? indicates? explains? shows? confirms? reports? specify"
    " specifies describes? suggests?"
)
_CHINESE_TELLS: Final = (
    _words("提到 提及 指出 显示 说明 表明 描述 记载 介绍 写道 称 中说 给出 列出") + "[了的]?"
)
_SIGN_WORDS: Final = """
    --- === *** **_ *_* *__ _** _*_ __* ___
    passage doc source chunk context excerpt snippet text article result
    information material knowledge references citations answer summary conclusion
    资料 文档 文件 段落 片段 来源 上下文 材料 检索结果 检索内容 知识库
    原文 文中 文本 参考信息 内容 信息 文章 出处 引用 文献 答 总结 结论
    """
_SIGNS: Final = (*"[【［(（†", *_SIGN_WORDS.split())
"""All framing holds one of these, in lower case: to look for them is quicker."""
_ASCII_SIGNS: Final = tuple(sign for sign in _SIGNS if sign.isascii())
_LATIN: Final = lazy_pattern("[a-z]")
_CHINESE_SIGNS: Final = tuple(s for s in _SIGNS if not (s.isascii() and s.isalpha()))
"""The signs of a text in ASCII, and of one without Latin letters."""
_FRAMING: Final = lazy_pattern(
    _any(
        # Rules above or below, labels in front.
        r"\A(?:-{3,}|={3,}|\*{3,}|_{3,})\s",
        r"\s(?:-{3,}|={3,}|\*{3,}|_{3,})\Z",
        r"\A\W{0,4}"
        + _any(
            "references?|sources?|citations?|(?:final |short )?answer|summary|(?:in )?conclusion",
            "(?:参考|引用)?(?:资料|文献|来源|出处)(?:来源)?|(?:最终)?(?:答案|回答|总结|结论)",
        )
        + r"\W{0,4}[:：]",
        # Markers in brackets; a bare number only at the end.
        r"[(（\[【［](?:(?:see|source|sources|from|cf\.?|ref\.?|as per|in)[:： ]{1,2})?"
        rf"(?:{_NUMBERED}|(?:see |source: )(?:section|page|article|p\.) ?\d{{1,4}})[)）\]】］]",
        r"[(（\[【［](?:(?:参?见|来源|出处|引自|源自|参考|据)[:：]?[ \t]?)?"
        rf"(?:{_CHINESE_NUMBERED}|{_CHINESE_SOURCE})[)）\]】］]",
        r"\[\^\d{1,3}\]|［\d{1,3}］|【\d{1,3}(?::\d{1,3})?†[^】\n]{0,40}】",
        r"[(（]\d{1,2}[)）](?=[\s.。!！*\"”]{0,4}\Z)",
        # Attributions: the source before the claim, or behind it.
        r"\b(?:according to|based (?:solely |only )?on|as per|per|from"
        r"|as (?:stated|mentioned|noted|described|shown) (?:in|by))"
        rf" {_SOURCES}(?!\w)(?: alone)?,?",
        r"(?:\A|(?<=[,;:.(] ))(?:as )?"
        rf"{_SOURCES} (?:also |clearly |explicitly )?{_TELLS}(?: that\b|,|:)",
        r"\A(?:this|that|it|the|these|all)(?: (?:information|answer|details?|facts?))? "
        r"(?:comes?|is|are|was|were|can be)(?: (?:stated|mentioned|found|given|taken|based"
        rf"|drawn|described|provided|sourced))? (?:in|on|from|by) {_SOURCES}(?=\W{{0,3}}\Z)",
        rf"(?<!\w){_NUMBERED}(?!\w)",
        "(?:根据|依据|按照|基于|参照|结合|从|据)(?:(?:您|你|用户)?"
        + _words("所?提供 给出 给定 上述 以上 检索到 相关 现有 已有 这些 该")
        + f"的?){{0,3}}(?:{_CHINESE_NUMBERED}|{_CHINESE_SOURCE}|内容|信息|文章)"
        "(?:中?的?(?:内容|信息|描述|说明|记载|介绍))?中?(?:可知|可以看出|来看|所述)?[，,]?",
        rf"(?:\A|(?<=[，,；;：:])){_CHINESE_SOURCE}[ \t]?{_CHINESE_NUMBER}?"
        rf"(?:中|里|内容)?(?:还|也|明确)?{_CHINESE_TELLS}[，,：:]?",
        "(?:该|此|这些?|上述|以上)(?:信息|内容|答案|回答)(?:来自|源自|出自|引自|见|取自)于?"
        f"(?:{_CHINESE_NUMBERED}|{_CHINESE_SOURCE})",
        _CHINESE_NUMBERED,
    ),
    re.IGNORECASE,
)


def framing(text: str) -> Sequence[tuple[int, int]]:
    """Return the offsets (start, end) of a sentence's framing, ascending, without overlap."""
    lowered = in_lower_case(text)
    signs = _SIGNS
    if text.isascii():
        signs = _ASCII_SIGNS
    elif not _LATIN.search(lowered):
        signs = _CHINESE_SIGNS
    if not any(map(lowered.__contains__, signs)):
        return ()
    return [found.span() for found in _FRAMING.finditer(text)]


def without(text: str, spans: Sequence[tuple[int, int]]) -> str:
    """Return a text without some stretches of it."""
    kept: list[str] = []
    at = 0
    for start, end in spans:
        kept.append(text[at:start])
        at = end
    return "".join([*kept, text[at:]]).strip()


def outside(content: Iterable[Term], spans: Sequence[tuple[int, int]]) -> list[Term]:
    """Return the terms, given in order, that no stretch holds; in linear time."""
    kept: list[Term] = []
    left = iter([*spans, (1 << 62, 1 << 62)])
    start, end = next(left)
    for term in content:
        while end <= term.start:
            start, end = next(left)
        if term.end <= start:
            kept.append(term)
    return kept
