"""The framing of what a sentence claims: source markers, attributions, labels, rules.

`According to the passages, the mill stands [2].` claims that the mill stands. Gaps in patterns are
bounded, so that none of them is slow; each is tried only where one of its signs stands.
"""

from __future__ import annotations

import re
from typing import Final

from ragmonitor.judges.builtin.speech_act_phrases import CHINESE_SOURCES, SOURCES, TELLS, any_of
from ragmonitor.judges.builtin.word_lists import words
from ragmonitor.judges.sentences import marker_end
from ragmonitor.runtime.patterns import lazy_pattern


def in_lower_case(text: str) -> str:
    """Return a text in lower case, of the same length."""
    if not text.isascii():
        text = text.replace("\u0130", "i").replace("\u0131", "i").replace("\u017f", "s")
    return text.lower()


_NUMBERED: Final = (
    rf"(?:{SOURCES}|citations?)(?:_?id)?[ \t:]{{0,2}}(?:[#№\[]|no\.? )?\d{{1,3}}\]?"
    r"(?:[ \t]{0,2}(?:,|and|or|&|to|-|–)[ \t]{0,2}\[?\d{1,3}\]?){0,6}"
)
_PAGE: Final = (
    r"(?:(?:pages?|sections?|chapters?|articles?|paragraphs?) ?|(?:pp?|sec|ch)\. ?|§ ?)"
    r"\d{1,4}(?:\.\d{1,3}){0,3}(?: ?[-–] ?\d{1,4})?|第 ?\d{1,4} ?[页章节条段]"
)
_LOCATOR: Final = any_of(
    _NUMBERED,
    r"https?://[^\s()\[\]]{1,300}|\[[^\]\n]{1,80}\]\(https?://[^\s()]{1,300}\)",
    r"[\w.-]{1,60}\.(?:pdf|docx?|md|txt|html?|csv|xlsx?|pptx?|json|ya?ml)\b",
    _PAGE,
    r"\w{1,12}_id: ?[\w-]{1,40}|《[^》\n]{1,40}》",
)
_LOCATORS: Final = rf"{_LOCATOR}(?:[,;，、；\s]{{0,3}}{_LOCATOR}){{0,4}}"
"""Where something stands: files, pages, links, titles, numbers of passages."""
_CHINESE_NUMBER: Final = r"(?:第?\[?[\d一二三四五六七八九十]{1,3}\]?[篇段条份号]?)"
_CHINESE_NUMBERED: Final = (
    rf"{CHINESE_SOURCES}[ \t]?{_CHINESE_NUMBER}"
    rf"(?:[、，,和与及]{{1,2}}{CHINESE_SOURCES}?[ \t]?{_CHINESE_NUMBER}){{0,6}}"
)
_THE_SOURCES: Final = (
    rf"(?:{_NUMBERED}|(?:(?:the|this|these|your|all|above|given|provided|retrieved|supplied"
    rf"|available|relevant) ){{1,3}}(?:{SOURCES}|{_NUMBERED}))"
    r"(?: (?:you )?(?:provided|given|above|below|supplied|retrieved)\b)?"
)
_BRACKETED: Final = lazy_pattern(
    any_of(
        r"[(（\[【［]\s?(?:(?:see|sources?|from|cf\.?|ref\.?|as per|in|参?见|来源|出处|[引源]自"
        rf"|参考|据)[:： ]{{0,2}})?(?:{_LOCATORS}|{_CHINESE_NUMBERED}|{CHINESE_SOURCES})"
        r"\s?[)）\]】］]",
        r"\[\^\d{1,3}\^?\]|［\d{1,3}］|【\d{1,3}(?::\d{1,3})?†[^】\n]{0,40}】",
        r"[\[【]\d{1,3}(?:[,，、-] ?\d{1,3}){0,8}[\]】](?![a-z\d])|<sup>\d{1,3}</sup>",
        r"##\d{1,3}\$\$",
        r"[(（]\d{1,2}[)）](?=[\s.。!！*\"”]{0,4}\Z)",
    )
)
"""Source markers in brackets; a bare number in round ones only at the end."""
_ATTRIBUTED: Final = lazy_pattern(
    any_of(
        r"\b(?:according to|based (?:solely |only )?on|as per|per|from"
        r"|as (?:stated|mentioned|noted|described|shown) (?:in|by|on))"
        rf" (?:{_THE_SOURCES}(?!\.?\w)(?: alone)?|{_LOCATORS}(?: \(?{_PAGE}\)?)?"
        r"(?: of the (?:\w+ )?(?:manual|document|handbook|guide|report|contract|policy))?),?",
        rf"(?:\A|(?<=[,;:.(] ))(?:as )?{_THE_SOURCES} (?:also |clearly |explicitly )?"
        rf"(?:{TELLS}|shows?|confirms?|notes?|reports?|suggests?)(?: that\b|,|:)",
        r"\A(?:this|that|it|the|these|all)(?: (?:information|answer|details?|facts?))? "
        r"(?:comes?|is|are|was|were|can be)(?: \w+)? (?:in|on|from|by) "
        rf"{_THE_SOURCES}(?=\W{{0,3}}\Z)",
        rf"(?<!\w){_NUMBERED}(?!\w)",
        rf"\A\W{{0,4}}{_LOCATORS}\W{{0,4}}\Z",
    )
)
"""Attributions: the source before the claim, or behind it; or nothing else."""
_SIGNS: Final = words("""
    passage doc source chunk excerpt snippet text article result information material page section
    knowledge citation reference chapter paragraph § http _id .pdf .md .txt .htm .csv .xls .ppt
    .json .y 《 p. ch. sec.
""")
"""Texts of which every attribution holds one: to look for them is quicker."""
_CHINESE_ATTRIBUTED: Final = lazy_pattern(
    any_of(
        "(?:根据|依据|按照|基于|参照|结合|从(?!《)|据)"
        "(?:(?:您|你|用户)?(?:所?提供|给出|给定|上述|以上|检索到|相关|现有|已有|这些|该)的?){0,3}"
        f"(?:{_CHINESE_NUMBERED}|{CHINESE_SOURCES}|{_LOCATORS})"
        "(?:中?的?(?:内容|信息|描述|说明|记载|介绍))?中?(?:可知|可以看出|来看|所述)?[，,]?",
        rf"(?:\A|(?<=[，,；;：:])){CHINESE_SOURCES}[ \t]?{_CHINESE_NUMBER}?"
        rf"(?:中|里|内容)?(?:还|也|明确)?(?:提[到及]|指出|显示|说明|表明|描述|记载|介绍|写道|称|中说|给出|列出)"
        "[了的]?[，,：:]?",
        "(?:该|此|这些?|上述|以上)(?:信息|内容|答案|回答)(?:来自|源自|出自|引自|见|取自)于?"
        f"(?:{_CHINESE_NUMBERED}|{CHINESE_SOURCES})",
        _CHINESE_NUMBERED,
    )
)
_LABELS: Final = lazy_pattern(
    r"\A\W{0,4}(?:references?|sources?|citations?|(?:final |short )?answer|summary"
    "|(?:in )?conclusion|(?:参考|引用)?(?:资料|文献|来源|出处)(?:来源)?"
    r"|(?:最终)?(?:答案|回答|总结|结论))\W{0,4}[:：]"
)


_CHINESE_SIGN: Final = lazy_pattern(f"{CHINESE_SOURCES}|[据照]《")


def without_framing(text: str) -> str:
    """Return a sentence without its list marker, source markers, attributions and labels.

    A sentence that has none is returned as it is.
    """
    said = text
    marker = marker_end(text)
    if marker < len(text):
        said = text[marker:]
    if any(map(said.__contains__, "([【［（<#")):
        said = _without(_BRACKETED, said)
    if any(map(in_lower_case(said).__contains__, _SIGNS)):
        said = _without(_ATTRIBUTED, said)
    if not said.isascii() and _CHINESE_SIGN.search(said):
        said = _without(_CHINESE_ATTRIBUTED, said)
    if ":" in said or "：" in said:
        said = _without(_LABELS, said)
    return text if said == text else said.strip()


def _without(pattern: re.Pattern[str], text: str) -> str:
    """Return a text without what matches a pattern that is written in lower case."""
    kept: list[str] = []
    at = 0
    for found in pattern.finditer(in_lower_case(text)):
        kept.append(text[at : found.start()])
        at = found.end()
    return "".join([*kept, text[at:]]) if kept else text
