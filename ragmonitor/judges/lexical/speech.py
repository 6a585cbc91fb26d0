"""What sentences do besides claiming: refuse, ask back, greet, announce a list."""

from __future__ import annotations

import re
from collections.abc import Sequence
from enum import Enum, auto
from typing import Final

from ragmonitor.judges.lexical.words import terms


class Act(Enum):
    """What a sentence does."""

    CLAIM = auto()
    QUESTION = auto()
    COURTESY = auto()
    """Greetings, thanks, offers, advice to ask elsewhere."""
    HEADING = auto()
    """Headings and announcements: `Here are the steps:`."""
    REFUSAL = auto()
    """Declines to answer, or says that the sources do not tell."""
    ABOUT_SOURCES = auto()
    """Says what the sources are about: `The passages discuss dogs.`"""


_LOOKED_AT: Final = 400
"""Characters of a sentence that are searched for set phrases: they stand at its beginning."""

_SOURCES = (
    r"(?:context|passages?|texts?|documents?|sources?|articles?|excerpts?|snippets?|materials?"
    r"|information|search results?|results|knowledge base|data|content|references?|chunks?|manual)"
)
_NOT = r"(?:(?:does|do|did|is|are|was|were|can|could|has|have) ?not?|(?:does|do|did|is|are|was|were|has|have|ca|could)n['’]?t|cannot|never|fails? to|lacks?)"
_TELL = (
    r"(?:mention(?:ed)?|contain(?:ed)?|includ(?:e|ed|ing)|provid(?:e|ed|ing)|specif(?:y|ied)|say|state[ds]?"
    r"|give[ns]?|discuss(?:ed)?|cover(?:ed)?|address(?:ed)?|indicate[ds]?|offer|have|tell|list(?:ed)?|answer(?:ed)?"
    r"|describe[ds]?|explain(?:ed)?|available|found|enough|sufficient|any|explicitly|directly|clearly|specifically)"
)

_REFUSALS: Final = re.compile(
    "|".join(
        (
            r"\bi (?:really |just |honestly )?(?:do not|don['’]?t|do n['’]t|cannot|can['’]?t|can not|could not|couldn['’]?t)"
            r" (?:really |actually |currently |be able to )?(?:know|answer|find|determine|provide|tell|confirm|help"
            r"|assist|locate|identify|give|verify|have (?:any |enough |sufficient |the |that |this |specific |access"
            r"|an? )[^.]{0,40}?(?:information|answer|details?|data|context|knowledge|idea|access))\b",
            r"\b(?:i am|i['’]?m|we are|we['’]re|i was) (?:not sure|unsure|not certain|not aware|unable|not able)\b",
            r"\bunable to (?:answer|find|determine|provide|locate|confirm|help|assist|identify)\b",
            rf"\b{_SOURCES}\b[^.!?]{{0,80}}?\b{_NOT} (?:\w+ ){{0,2}}?{_TELL}\b",
            rf"\b(?:there is|there['’]?s|there are|there was|i (?:found|see|have)|contains?|provides?|has) (?:no|not any|not enough|insufficient)"
            rf" (?:\w+ ){{0,3}}?(?:information|mention|details?|data|answer|evidence|references?|indication|{_SOURCES})\b",
            r"\b(?:no|not enough|insufficient) (?:\w+ ){0,2}?(?:information|details?|data|answer|context|results)\b"
            r"[^.!?]{0,40}?(?:\b(?:found|available|provided|given|is|was|were|to answer)\b|\Z)",
            r"\b(?:cannot|can['’]?t|can not|could not|couldn['’]?t) be (?:determined|answered|found|inferred|established|known)\b",
            rf"\bnot (?:\w+ )?(?:mentioned|provided|specified|stated|available|found|given|included|covered|discussed|answered)"
            rf" (?:in|by|within|from) (?:the|this|these|any|my|our|your)\b[^.!?]{{0,30}}?\b{_SOURCES}\b",
            r"\A\W{0,4}(?:not (?:mentioned|specified|stated|provided|available|enough information)|unanswerable|unknown|no answer|n/a)\W{0,4}\Z",
            r"\bas an ai\b[^.!?]{0,60}?\b(?:cannot|can['’]?t|not able|unable|don['’]?t)\b",
            r"(?:无法|不能|没法|难以|没办法)(?:直接|准确|为您|给您|给你|为你|从中|据此|确切|明确|根据.{0,12}?){0,2}(?:回答|确定|提供|得知|判断|找到|给出|确认|获知|解答|答复|得出)",
            r"(?:我|本人|目前|暂时|抱歉|对不起)[，,]?(?:我)?(?:也)?(?:并)?不(?:太)?(?:知道|清楚|了解|确定)",
            r"\A\W{0,4}不(?:知道|清楚|详)\W{0,4}\Z",
            r"(?:资料|文档|文件|上下文|材料|文中|文章|原文|信息|内容|知识库|段落|检索结果|背景|手册|参考)[^。！？]{0,24}?(?:没有|并没有|并未|未|均未|都没有|不|没)"
            r"(?:有)?(?:直接|明确|具体|曾|能)?(?:找到|提及|提到|提供|说明|包含|包括|涉及|给出|记载|指出|显示|足够|任何|相关|关于|描述|列出|介绍|回答)",
            r"(?:没有|未能?|暂无|找不到|查不到|缺乏|缺少)(?:找到|查到|检索到|搜索到|提供|得到)?(?:任何|与.{0,20}?|关于.{0,20}?|足够的?|相关的?|具体的?|有关.{0,20}?){0,3}(?:信息|资料|内容|答案|记录|数据|文档|依据)",
            r"信息不足|资料不足|超出.{0,8}?范围",
        )
    ),
    re.IGNORECASE,
)

_ABOUT_SOURCES: Final = re.compile(
    rf"\A(?:(?:the|these|this|all|both|it)\b[^.!?]{{0,30}}?\b{_SOURCES}|it|they)\b[^.!?]{{0,40}}?"
    r"\b(?:only|mainly|instead|discuss(?:es)?|focus(?:es)?|mentions?|talks?|describes?|covers?|contains?|provides?|is about|are about)\b"
    r"|\A(?:这些|该|所?提供的?|给定的?|上述|以上)?(?:资料|文档|上下文|材料|文章|内容|信息|段落)[^。！？]{0,12}?(?:只|仅|主要|讨论|介绍|提到|涉及|描述|关于)",
    re.IGNORECASE,
)
"""Only read as such beside a refusal: otherwise it is a claim like any other."""

_WHOLE_COURTESY: Final = re.compile(
    r"\A\W{0,4}(?:(?:please |just )?(?:let me know|feel free|do not hesitate|don['’]?t hesitate)|(?:i )?hope (?:this|that|it|you)\b"
    r"|if you (?:have|need|would like|['’]?d like|want|could|can|provide|let|wish|are looking)|is there anything|(?:please |kindly )(?:provide|contact|consult|check|refer|visit|ask|note|share|clarify|rephrase|reach|let|try)"
    r"|you (?:may|might|can|could) (?:want|wish|try|check|contact|consult|ask|refer|need)|i(?:['’]?d| would) (?:recommend|suggest|advise|be happy|be glad|need)|i (?:recommend|suggest)|(?:i['’]?m|i am) (?:happy|glad|here) to|(?:try|consider) "
    r"|(?:could|can|would) you (?:please )?(?:provide|share|clarify|rephrase|tell)"
    r"|希望(?:这|以上|我的)?.{0,10}?(?:帮助|帮到|有用)|如果?(?:您|你)?.{0,16}?(?:请|可以|欢迎|随时|告诉)|如有.{0,16}?请|请(?:您|你)?(?:咨询|参考|查阅|联系|提供|告诉|随时|访问|补充|核实)|建议(?:您|你)?(?:咨询|查阅|参考|联系|查看|核实)|欢迎|您?可以(?:尝试)?(?:咨询|查阅|联系|参考))",
    re.IGNORECASE,
)
"""Phrases that make a courtesy of all that follows them."""

_COURTESY: Final = re.compile(
    r"(?:\b(?:sure(?: thing)?|certainly|of course|absolutely|great|good question|great question|that['’]?s a (?:great|good) question|interesting question|thanks?(?: you)?(?: (?:so|very) much| for (?:asking|your question|the question|reaching out))?|you['’]?re welcome"
    r"|hello|hi|hey|dear|(?:i['’]?m|i am|we['’]?re|we are)? ?(?:very |so |really )?sorry(?: about that| for the \w+)?|(?:i|we|my) ?apologi[sz]e(?:s)?(?: for \w+ \w+)?|apologies|unfortunately|no problem|happy to help|glad to help|good luck|have a (?:nice|great|good) day|goodbye|bye|best regards|enjoy|welcome|all right|alright)\b"
    r"|好的|当然(?:可以)?|没问题|您好|你好|谢谢(?:您|你)?(?:的(?:提问|问题))?|感谢(?:您|你)?(?:的(?:提问|问题))?|不客气|(?:很|非常|十分)?抱歉|对不起|不好意思|很高兴(?:为您|为你)?(?:服务|解答)?|祝您?.{0,6}|再见|这是(?:一)?个(?:很)?好(?:的)?问题|遗憾的是|亲)",
    re.IGNORECASE,
)

_ANNOUNCES: Final = re.compile(
    r"\b(?:here(?: are| is|['’]?s)|following|below|as follows|these|steps?|some|several|summary|overview|reasons?|answer)\b"
    r"|以下|如下|下列|下面|这些|几点|几个|步骤|总结|综上|包括",
    re.IGNORECASE,
)
_HEADING: Final = re.compile(
    r"\s{0,3}(?:#{1,6}\s|(?:\*\*|__)[^*_\n]{1,120}(?:\*\*|__)[:：]?\s*\Z|【[^】\n]{1,40}】\s*\Z|={3,}|-{3,}|\*{3,})"
)
_ENDS_ASKING: Final = re.compile("[?？][!！?？]*[\"'”’」』）)*_\\s]{0,8}\\Z")
_CLAUSES: Final = re.compile(
    r"\b(?:but|however|although|though|nevertheless|nonetheless|while|whereas|that said|instead)\b"
    r"|[;；]|但是|但|不过|然而|只是|虽然|尽管",
    re.IGNORECASE,
)
_LONGEST_ANNOUNCEMENT: Final = 7
"""Terms with content; a longer sentence before a colon claims something itself."""
_SAYS_SOMETHING: Final = 3
"""Terms with content from which a clause beside a refusal counts as an answer."""


def act_of(text: str) -> Act:
    """Return what a sentence does; `CLAIM` where there is any doubt."""
    if _HEADING.match(text):
        return Act.HEADING
    head = text[:_LOOKED_AT]
    if _is_refusal(head):
        return Act.REFUSAL
    if _WHOLE_COURTESY.match(head):
        return Act.COURTESY
    if _ENDS_ASKING.search(text, max(0, len(text) - 16)):
        return Act.QUESTION
    if text.rstrip(" *_")[-1:] in {":", "："} and _announces(text):
        return Act.HEADING
    if (_COURTESY.match(head.lstrip("*_ \t")) or head[:1] in "好当抱") and not _content(_COURTESY.sub(" ", head)):
        return Act.COURTESY
    return Act.CLAIM


def is_evasive(sentences: Sequence[str], acts: Sequence[Act]) -> bool:
    """Return whether an answer declines to answer: it refuses, and nothing in it answers.

    A sentence that says what the sources lack is no refusal beside sentences that answer.
    """
    if Act.REFUSAL not in acts:
        return False
    return not any(
        act is Act.CLAIM and not _ABOUT_SOURCES.match(text[:_LOOKED_AT]) and _content(text) > 1
        for text, act in zip(sentences, acts, strict=True)
    )


def _is_refusal(head: str) -> bool:
    if not _REFUSALS.search(head):
        return False
    clauses = _CLAUSES.split(head)
    if len(clauses) == 1:
        return True
    refuses = False
    for clause in clauses:
        if _REFUSALS.search(clause):
            refuses = True
        elif not _ABOUT_SOURCES.match(clause.strip()) and not _WHOLE_COURTESY.match(clause.strip()):
            if _content(_COURTESY.sub(" ", clause)) >= _SAYS_SOMETHING:
                return False
    # A refusal that the split itself tore apart ("does not, however, mention") is one all the same.
    return refuses or _content(head) < 2 * _SAYS_SOMETHING


def _announces(text: str) -> bool:
    count = _content(text[:_LOOKED_AT])
    if len(text) > _LOOKED_AT or any(term.kind == "number" for term in terms(text)):
        return False
    limit = _LONGEST_ANNOUNCEMENT if _ANNOUNCES.search(text) else _SAYS_SOMETHING
    return count <= limit


def _content(text: str) -> int:
    """Return how many terms with content a text has; Chinese pairs count half."""
    found = [term for term in terms(text) if term.weight]
    pairs = sum(term.kind == "pair" for term in found)
    return len(found) - pairs // 2
