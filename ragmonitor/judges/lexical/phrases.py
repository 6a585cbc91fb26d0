"""Set phrases by which sentences are known to claim nothing. Data only.

Patterns are lower case, for `re.IGNORECASE`; gaps are bounded, so that none of them is slow.
"""

from __future__ import annotations

from typing import Final


def _any(*patterns: str) -> str:
    return "(?:" + "|".join(patterns) + ")"


def _words(text: str) -> str:
    return _any(*text.split())


SOURCES: Final = _any(
    _words("contexts? passages? texts? documents? sources? articles? excerpts? snippets?"),
    _words("materials? information results? data content references? chunks? manual"),
    "search results?",
    "knowledge base",
)
"""What English answers call the chunks."""

_APOSTROPHE = "(?: ?n['’]?t)"
_LACKS = _any(
    rf"(?:does|do|did|is|are|was|were|has|have|could|can|ca)(?: not|{_APOSTROPHE})",
    "cannot", "never", "fails? to",
)  # fmt: skip
_TELL = _any(
    _words("mention(?:ed)? contain(?:ed)? includ(?:e|ed|ing) provid(?:e|ed|ing) specif(?:y|ied)"),
    _words("say state[ds]? give[ns]? discuss(?:ed)? cover(?:ed)? address(?:ed)? indicate[ds]?"),
    _words("offer have tell list(?:ed)? answer(?:ed)? describe[ds]? explain(?:ed)? available"),
    _words("found enough sufficient any explicitly directly clearly specifically"),
)
_KNOW = _any(
    _words("know answer find determine provide tell confirm help assist locate identify give"),
    "verify",
    r"have (?:any |enough |sufficient |the |that |this |specific |access|an? )"
    r"[^.]{0,40}?(?:information|answer|details?|data|context|knowledge|idea|access)",
)
_FACTS = _any(
    _words("information mention details? data answer evidence references? indication"), SOURCES
)
_CHINESE_SOURCES = _any(
    _words(
        """
        资料 文档 文件 上下文 材料 文中 文章 原文 信息 内容 知识库 段落 检索结果 背景 手册 参考
        """
    )
)
_CHINESE_TELL = _any(
    _words(
        """
        找到 提及 提到 提供 说明 包含 包括 涉及 给出 记载 指出 显示 足够 任何 相关 关于 描述
        列出 介绍 回答
        """
    )
)
_CHINESE_FACTS = _any(
    _words(
        """
        信息 资料 内容 答案 记录 数据 文档 依据
        """
    )
)

REFUSALS: Final = _any(
    r"\bi (?:really |just |honestly )?(?:do not|do ?n['’]?t|cannot|ca ?n['’]?t|can not|could not"
    rf"|could ?n['’]?t) (?:really |actually |currently |be able to )?{_KNOW}\b",
    r"\b(?:i am|i ?['’]m|we are|we ?['’]re|i was)"
    r" (?:not sure|unsure|not certain|not aware|unable|not able)\b",
    r"\bunable to (?:answer|find|determine|provide|locate|confirm|help|assist|identify)\b",
    rf"\b{SOURCES}\b[^.!?]{{0,80}}?\b{_LACKS} (?:\w+ ){{0,2}}?{_TELL}\b",
    rf"\bthey {_LACKS} (?:\w+ ){{0,2}}?(?:mention|specify|state|say)\b",
    r"\b(?:there is|there['’]?s|there are|there was|i (?:found|see|have)|contains?|provides?|has)"
    rf" (?:no|not any|not enough|insufficient) (?:\w+ ){{0,3}}?{_FACTS}\b",
    r"\b(?:no|not enough|insufficient) (?:\w+ ){0,2}?(?:information|details?|data|answer|context"
    r"|results)\b[^.!?]{0,40}?(?:\b(?:found|available|provided|given|is|was|were|to answer)\b|\Z)",
    r"\b(?:cannot|ca ?n['’]?t|can not|could not|could ?n['’]?t) be"
    r" (?:determined|answered|found|inferred|established|known)\b",
    r"\bnot (?:\w+ )?(?:mentioned|provided|specified|stated|available|found|given|included|covered"
    r"|discussed|answered) (?:in|by|within|from) (?:the|this|these|any|my|our|your)\b"
    rf"[^.!?]{{0,30}}?\b{SOURCES}\b",
    r"\A\W{0,4}(?:not (?:mentioned|specified|stated|provided|available|enough information)"
    r"|unanswerable|unknown|no answer|n/a)\W{0,4}\Z",
    r"\bas an ai\b[^.!?]{0,60}?\b(?:cannot|can['’]?t|not able|unable|don['’]?t)\b",
    "(?:无法|不能|没法|难以|没办法)(?:直接|准确|为您|给您|给你|为你|从中|据此|确切|明确|根据.{0,12}?){0,2}"
    "(?:回答|确定|提供|得知|判断|找到|给出|确认|获知|解答|答复|得出)",
    "(?:我|本人|目前|暂时|抱歉|对不起)[，,]?我?也?并?不太?(?:知道|清楚|了解|确定)",
    r"\A\W{0,4}不(?:知道|清楚|详)\W{0,4}\Z",
    f"{_CHINESE_SOURCES}[^。！？]{{0,24}}?(?:没|未|不)有?(?:直接|明确|具体|曾|能)?{_CHINESE_TELL}",
    "(?:没有|未能?|暂无|找不到|查不到|缺乏|缺少)(?:找到|查到|检索到|搜索到|提供|得到)?"
    "(?:任何|与.{0,20}?|关于.{0,20}?|足够的?|相关的?|具体的?|有关.{0,20}?){0,3}"
    f"{_CHINESE_FACTS}",
    "(?:信息|资料)不足|超出.{0,8}?范围",
)  # fmt: skip
"""Declines to answer, or says that the sources do not tell."""

ENGLISH_SIGNS: Final = (
    "not", "n't", "n’t", "no ", "never", "fail", "unable", "unsure", "insufficient", "unknown",
    "unanswerable", "n/a", "as an ai", "snt ", "dnt ", "dont ", "cant ", "cannt ", "arent ",
    "werent ", "havent ", " nt ",
)  # fmt: skip
CHINESE_SIGNS: Final = frozenset("不没未无难缺超")
"""What declines holds, in lower case, one of these: to look for them is quicker."""

FIRST_PERSON: Final = r"\b(?:i|we|my|our)\b|我|无法|抱歉|对不起"
"""In a refusal: somebody declines, rather than that the matter has no evidence."""

ABOUT_SOURCES: Final = _any(
    rf"\A(?:(?:the|these|this|all|both|it)\b[^.!?]{{0,30}}?\b{SOURCES}|it|they)\b[^.!?]{{0,40}}?\b"
    + _any(
        _words("only mainly instead discuss(?:es)? focus(?:es)? mentions? talks? describes?"),
        _words("covers? contains? provides?"),
        "(?:is|are) about",
    )
    + r"\b",
    r"\A(?:这些|该|所?提供的?|给定的?|上述|以上)?(?:资料|文档|上下文|材料|文章|内容|信息|段落)"
    "[^。！？]{0,12}?(?:只|仅|主要|讨论|介绍|提到|涉及|描述|关于)",
)
"""Says what the sources are about. Only read so beside a refusal: else it is a claim."""

OFFERS: Final = r"\A\W{0,4}" + _any(
    r"(?:please |just )?(?:let me know|feel free|do not hesitate|don['’]?t hesitate)",
    r"(?:i )?hope (?:this|that|it|you)\b",
    r"if you (?:have|need|would like|['’]?d like|want|could|can|provide|let|wish|are looking)\b",
    r"is there anything\b",
    r"(?:please |kindly )(?:provide|contact|consult|check|refer|visit|ask|note|share|clarify"
    r"|rephrase|reach|let|try)\b",
    r"you (?:may|might|can|could) (?:want|wish|try|check|contact|consult|ask|refer|need)\b",
    r"i(?:['’]?d| would) (?:recommend|suggest|advise|be happy|be glad|need)\b",
    r"i (?:recommend|suggest)\b",
    r"(?:i['’]?m|i am) (?:happy|glad|here) to\b",
    r"(?:could|can|would) you (?:please )?(?:provide|share|clarify|rephrase|tell)\b",
    "希望(?:这|以上|我的)?.{0,10}?(?:帮助|帮到|有用)",
    "如果?(?:您|你)?.{0,16}?(?:请|欢迎|随时|告诉)",
    "如有.{0,16}?请",
    "请(?:您|你)?(?:咨询|参考|查阅|联系|提供|告诉|随时|访问|补充|核实)",
    "建议(?:您|你)?(?:咨询|查阅|参考|联系|查看|核实)",
    "欢迎",
    "您?可以(?:尝试)?(?:咨询|查阅|联系|参考)",
)
"""Makes a courtesy of all that follows: an offer, advice to ask elsewhere."""

_VERDICT_WORDS = _any(
    _words("true right correct great cool awesome nice interesting amazing terrible awful sad"),
    _words("funny good bad fascinating wonderful shame"),
    "good (?:point|idea|question)",
    "great question",
)
COURTESIES: Final = _any(
    r"\b"
    + _any(
        "sure(?: thing)?",
        _words("certainly absolutely great hello hi hey dear unfortunately goodbye bye enjoy"),
        _words("welcome alright yep yup nope lol haha wow exactly indeed right true apologies"),
        "of course", "all right", "no problem", "good luck", "best regards", "same here",
        "(?:good|great|interesting) question", "me (?:too|neither)",
        "have a (?:nice|great|good) day", "(?:happy|glad) to help",
        r"thanks?(?: you)?(?: (?:so|very) much| for (?:asking|your question|the question))?",
        r"(?:i['’]?m |i am |we['’]re )?(?:very |so |really )?sorry"
        r"(?: about that| for the \w+| to hear that)?",
        r"(?:i|we|my) ?apologi[sz]es?(?: for \w+ \w+)?",
        r"(?:that|this|it|how)(?: ?['’]s| is| was| sounds)? (?:very |so |really |pretty |quite |a "
        rf"|an )?{_VERDICT_WORDS}",
        "i (?:totally |completely |fully |do )?(?:agree|see|understand)",
        r"you(?: ?['’]re| are) (?:absolutely |quite )?(?:right|correct|welcome)",
    )
    + r"\b",
    _words(
        """
        好的 没问题 您好 你好 不客气 对不起 不好意思 再见 遗憾的是 明白了 没错 确实如此
        """
    ),
    "当然(?:可以)?",
    "(?:谢谢|感谢)(?:您|你)?(?:的(?:提问|问题))?",
    "(?:很|非常|十分)?抱歉",
    "很高兴(?:为您|为你)?(?:服务|解答)?",
    "祝您?.{0,6}",
    "让您久等了?|打扰了?|请稍[等候]",
    "这是一?个很?好的?问题",
)  # fmt: skip
"""Greets, thanks, agrees, excuses: says nothing of the matter."""

ANNOUNCES: Final = _any(
    r"\b"
    + _any("here(?: are| is|['’]?s)", "as follows", _words("following below these steps? some"),
           _words("several summary overview reasons? answer"))
    + r"\b",
    _words(
        """
        以下 如下 下列 下面 这些 几点 几个 步骤 总结 综上 包括
        """
    ),
)  # fmt: skip
"""Before a colon: announces a list."""

CLAUSES: Final = _any(
    r"\b"
    + _words("but however although though nevertheless nonetheless while whereas instead")
    + r"\b",
    r"\bthat said\b",
    "[;；]",
    _words(
        """
        但是 但 不过 然而 只是 虽然 尽管
        """
    ),
)
"""Between clauses of which one may answer and another decline."""
