"""Set phrases by which sentences are known to claim nothing. Data only.

Gaps in patterns are bounded, so that none of them is slow.
"""

from __future__ import annotations

import re
from typing import Final

from ragmonitor.judges.builtin.word_lists import listed
from ragmonitor.runtime.patterns import lazy_pattern


def any_of(*patterns: str) -> str:
    """Return a pattern of several."""
    return "(?:" + "|".join(patterns) + ")"


def any_word(text: str) -> str:
    """Return a pattern of the words of a text."""
    return any_of(*text.split())


def _compiled(*patterns: str) -> re.Pattern[str]:
    return lazy_pattern(any_of(*patterns), re.IGNORECASE)


def _in_lower_case(*patterns: str, before: str = "") -> re.Pattern[str]:
    """Return a pattern for texts in lower case: several times as quick as one for any case.

    What stands before all of the patterns is looked at once, and not for each of them.
    """
    return lazy_pattern(before + any_of(*patterns))


_SOURCES: Final = any_of(
    any_word("contexts? passages? texts? documents? sources? articles? excerpts? snippets?"),
    any_word("materials? information results? data content references? chunks? manual"),
    "search results?",
    "knowledge base",
)
"""The words by which English answers call the chunks."""

_APOSTROPHE = "(?: ?n['’]?t)"
_LACKS = any_of(
    rf"(?:does|do|did|is|are|was|were|has|have|could|can|ca)(?: not|{_APOSTROPHE})",
    "cannot", "never", "fails? to",
)  # fmt: skip
_TELL = any_of(
    any_word("mention(?:ed)? contain(?:ed)? includ(?:e|ed|ing) provid(?:e|ed|ing) specif(?:y|ied)"),
    any_word("say state[ds]? give[ns]? discuss(?:ed)? cover(?:ed)? address(?:ed)? indicate[ds]?"),
    any_word("offer have tell list(?:ed)? answer(?:ed)? describe[ds]? explain(?:ed)? available"),
    any_word("found enough sufficient any explicitly directly clearly specifically"),
)
_TELLS = any_of(
    any_word("mentions? answers? states? says? tells? describes? explains? addresses address"),
    any_word("contains? covers? discuss(?:es)? indicates? specif(?:y|ies) provides? gives?"),
)
_KNOW = any_of(
    any_word("know answer find determine provide tell confirm help assist locate identify give"),
    "verify",
    r"say (?:whether|if|how|when|what|who|which|where)|have (?:information|details|data)\b",
    r"have (?:any |enough |sufficient |the |that |this |specific |access|an? )"
    r"[^.]{0,40}?(?:information|answer|details?|data|context|knowledge|idea|access)",
)
_FACTS = any_of(
    any_word("information mention details? data answer evidence references? indication"), _SOURCES
)
_MORE = any_of(
    rf"{any_word('more additional further')} (?:\w+ )?"
    rf"{any_word('information context details? data')}"
)
_CHINESE_MORE = (
    "(?:更多|更详细|更具体|更完整|进一步|额外|补充|其他|其它)的?(?:相关|有关|详细|具体|背景)?的?"
    "(?:信息|资讯|上下文|资料|细节|内容|背景|文档|材料|描述|说明|数据|问题)"
)
_CHINESE_SOURCES = any_of(
    any_word(
        """
        资料 文档 文件 上下文 材料 文中 文章 原文 信息 内容 知识库 段落 检索结果 背景 手册 参考 资讯
        """
    )
)
_CHINESE_TELL = any_of(
    any_word(
        """
        找到 提及 提到 提供 说明 包含 包括 涉及 给出 记载 指出 显示 足够 任何 相关 关于 描述
        列出 介绍 回答
        """
    )
)
_CHINESE_FACTS = any_of(
    any_word(
        """
        信息 资料 内容 答案 记录 数据 文档 依据 资讯
        """
    )
)

_MADE_BY_FRAMEWORKS: Final = any_of(
    "empty response",  # LlamaIndex's response synthesizers
    "agent stopped due to (?:iteration limit or time limit|max iterations)",  # LangChain's agents
    "sorry, need more steps to process this request",  # LangGraph's
    r"(?:model|tool|['\"]?\w{1,60}['\"]? tool) call limits? (?:exceeded|reached)\b.{0,160}?",
    r"do not (?:make additional tool calls|call ['\"]?\w{1,60}['\"]? again)",
    r"(?:model call|tool ['\"]?\w{1,60}['\"]?) failed after \d{1,4} attempts?\b.{0,300}?",
    r"max iterations of \d{1,6} reached|either something went wrong, or you can .{0,120}?",
    "text was found that violates openai['’]s content policy|it was flagged for .{1,80}?",
    "(?:空|无)(?:响应|回复|回答)",
    "(?:智能体|代理|模型)?因?(?:已?达到|超过)最大(?:迭代|循环|调用)次数.{0,20}?",
    "(?:很?抱歉|对不起)[，,]?需要更多步骤.{0,20}?",
)
"""The sentences that frameworks say in place of an answer, when there is none."""
_OTHER_LANGUAGES: Final = any_of(
    "ich wei(?:ß|ss) (?:es |das |die antwort )?(?:leider )?nicht",
    "das wei(?:ß|ss) ich (?:leider )?nicht",
    r"ich kann (?:\w+ ){1,3}?(?:nicht|keine) (?:beantworten|sagen|finden|antwort)",
    r"keine (?:\w+ )?(?:informationen|angaben|antwort) (?:gefunden|vorhanden|verfügbar)",
    "je ne (?:sais|connais) pas|je ne peux pas (?:répondre|vous)",
    "je n['’]ai pas (?:trouvé|d['’])",
    "no (?:lo )?sé|no puedo (?:responder|contestar)",
    "no (?:tengo|encontré|encuentro) (?:suficiente )?información",
    "(?:分|わ)かりません|お?答え(?:でき|することができ)ません",
    "情報[がは](?:ありません|見つかりません)",
    "모르겠습니다|알 수 없습니다|답변할 수 없습니다|정보가 없습니다",
)
"""The phrases of other languages, at the head of a sentence or after an excuse."""

REFUSALS_AT_THE_HEAD: Final = _in_lower_case(
    rf"\W{{0,4}}(?:response \d{{1,3}}: )?{_MADE_BY_FRAMEWORKS}\W{{0,4}}\Z",
    rf"(?:[^,，、.!?]{{1,24}}[,，、] ?)?{_OTHER_LANGUAGES}",
    r"\W{0,4}(?:not (?:mentioned|specified|stated|provided|available|enough information)"
    r"|unanswerable|unknown|no answer|n/a|null)\W{0,4}\Z",
    r"\W{0,4}no (?:idea|clue)\W{0,4}\Z",
    rf"(?:based on|from|according to) (?:\w+ ){{0,3}}?{_SOURCES},? it is (?:unclear|not clear)\b",
    r"[^.!?]{1,60} (?:is|are|was|were) not (?:mentioned|specified|stated)\W{0,3}\Z",
    r"\W{0,4}不(?:知道|清楚|详)\W{0,4}\Z",
    rf"\W{{0,4}}(?:{_CHINESE_SOURCES}(?:中|里)?)?(?:并?没有?|并?未)"
    r"(?:提到|提及|说明|给出|涉及|指出|明确)\W{0,4}\Z",
    r"\W{0,4}(?:未知|不明|不得而知|没有答案|查无(?:此|相关)?信息|无(?:相关|此|可用)?"
    r"(?:信息|内容|资料|答案))\W{0,4}\Z",
    before=r"\A",
)
REFUSALS_IN_WORDS: Final = _in_lower_case(
    r"it(?: is|['’]s) (?:unclear|unknown|not (?:clear|known|certain))(?: \w+){0,3}?"
    r" (?:whether|if|how|when|what|who|which|where)\b",
    r"nothing (?:\w+ ){0,2}?(?:is|was|has been) (?:\w+ )?(?:stated|mentioned|said|specified)\b",
    r"i (?:cannot|can ?not|ca ?n['’]?t) comply with (?:that|this|your)\b",
    r"no (?:relevant |matching |related |such )?(?:docs?|documents?|passages?|matches|entries)"
    r" (?:were |was |could be |have been )?(?:found|retrieved)\b",
    r"i (?:really |just |honestly )?(?:do not|do ?n['’]?t|cannot|ca ?n['’]?t|can not|could not"
    rf"|could ?n['’]?t) (?:really |actually |currently |be able to )?{_KNOW}\b",
    r"(?:i am|i ?['’]m|we are|we ?['’]re|i was)"
    r" (?:not sure|unsure|not certain|not aware|unable|not able)\b",
    r"unable to (?:answer|find|determine|provide|locate|confirm|help|assist|identify)\b",
    rf"{_SOURCES}\b[^.!?]{{0,80}}?\b{_LACKS} (?:\w+ ){{0,2}}?{_TELL}\b",
    rf"they {_LACKS} (?:\w+ ){{0,2}}?(?:mention|specify|state|say)\b",
    r"(?:there is|there['’]?s|there are|there was|i (?:found|see|have)|contains?|provides?|has)"
    rf" (?:no|not any|not enough|insufficient) (?:\w+ ){{0,3}}?{_FACTS}\b",
    r"(?:no|not enough|insufficient) (?:\w+ ){0,2}?(?:information|details?|data|answer|context"
    r"|results)\b[^.!?]{0,40}?(?:\b(?:found|available|provided|given|is|was|were|to answer)\b|\Z)",
    r"(?:cannot|ca ?n['’]?t|can not|could not|could ?n['’]?t) be"
    r" (?:determined|answered|found|inferred|established|known)\b",
    r"not (?:\w+ )?(?:mentioned|provided|specified|stated|available|found|given|included|covered"
    r"|discussed|answered) (?:in|by|within|from) (?:the|this|these|any|my|our|your)\b"
    rf"[^.!?]{{0,30}}?\b{_SOURCES}\b",
    r"(?:i|we) (?:did not|did ?n['’]?t) (?:find|see|locate)"
    rf" (?:anything|(?:any|the) (?:\w+ ){{0,2}}?{_FACTS})\b",
    r"(?:i|we) (?:have no (?:idea|clue)|lack (?:\w+ ){0,2}?information)\b",
    r"not something (?:that )?(?:i|we) (?:can|could|am|are)\b",
    r"there (?:is|was|are|were)(?: not|(?: ?n['’]?t)) any (?:\w+ ){0,3}?"
    rf"{_FACTS}\b",
    rf"(?:nothing|none|neither)(?: (?:of|in))?(?: \w+){{0,3}}? {_SOURCES}\b"
    rf"[^.!?]{{0,20}}?\b{_TELLS}\b",
    r"there (?:is|was|['’]s) nothing (?:\w+ ){0,3}?in (?:the|this|these|your) "
    rf"(?:\w+ ){{0,2}}?{_SOURCES}\b",
    rf"{_SOURCES} (?:\w+ )?(?:lacks? (?:\w+ ){{0,2}}?{_FACTS}|(?:is|are) silent (?:on|about)"
    r"|says? nothing)\b",
    rf"{_SOURCES} (?:\w+ ){{0,2}}?(?:is|are)(?: not (?:\w+ )?(?:relevant|related)|"
    r" (?:irrelevant|unrelated)) to (?:the|your|this) (?:\w+ )?(?:question|query)\b",
    r"answer (?:\w+ ){0,6}?is not (?:\w+ ){0,2}?(?:in|within|part of) (?:the|these|this|any) "
    rf"(?:\w+ ){{0,2}}?{_SOURCES}\b",
    rf"(?:outside|beyond)(?: of)? the scope of (?:\w+ ){{0,3}}?{_SOURCES}\b",
    rf"(?:unclear|not (?:\w+ )?clear) (?:from|in|based on) (?:\w+ ){{0,3}}?{_SOURCES}\b",
    rf"(?:missing|absent) from (?:the|these|this|your) (?:\w+ ){{0,2}}?{_SOURCES}\b",
    rf"{_MORE} (?:is|are|would be|may be|will be) (?:needed|required|necessary)"
    r"(?: (?:to|for) (?:answer|determine|give|provide|help|assist|confirm|tell|an? )|\W{0,3}\Z)",
    rf"i(?:['’]d| would)? need {_MORE}\b",
    r"(?:as|i am|i ?['’]m) (?:just |only |merely )?an ai\b[^.!?]{0,60}?"
    r"\b(?:cannot|can['’]?t|not able|unable|don['’]?t)\b",
    r"i (?:can|am able to) only (?:answer|help|assist|provide|discuss|respond)\b",
    r"i(?: ?['’]m| am) only able to (?:answer|help|assist|provide|discuss|respond)\b",
    r"(?:that|this|it)(?: ?['’]s| is| falls| goes)? (?:outside|beyond)(?: of)? (?:what i|my)\b",
    r"i (?:do not|do ?n['’]?t|did not|did ?n['’]?t) (?:quite |fully |really )?understand"
    r"(?: (?:that|this|you|your|the|what)\b|\W{0,3}\Z)",
    before=r"\b",
)  # fmt: skip
REFUSALS_IN_CHINESE: Final = _in_lower_case(
    "(?:尚|目前|暂)?(?:还)?不(?:太)?(?:清楚|明确|确定)[^。！？，]{0,24}?(?:是否|能否|何时|如何|多少|哪)",
    "(?:没有|未有|并无)(?:任何)?关于[^。！？]{1,20}?的?(?:说明|描述|介绍|记载)",
    "(?:无法|不能|没法|难以|没办法|没有办法)(?:直接|准确|为您|给您|给你|为你|从中|据此|确切|明确|根据.{0,12}?){0,2}"
    "(?:回答|处理|确定|提供|得知|判断|找到|给出|确认|获知|解答|答复|得出)",
    "(?:我|本人|目前|暂时|抱歉|对不起)[，,]?我?也?并?不太?(?:知道|清楚|了解|确定)",
    f"{_CHINESE_SOURCES}[^。！？]{{0,24}}?(?:没|未|不)有?(?:直接|明确|具体|曾|能|作|作出|做)?{_CHINESE_TELL}",
    "(?:没有|未能?|暂无|找不到|查不到|缺乏|缺少)(?:找到|查到|检索到|搜索到|提供|得到)?"
    "(?:任何|与.{0,20}?|关于.{0,20}?|足够的?|相关的?|具体的?|有关.{0,20}?|[这该]方面的?|此类|该){0,3}"
    f"{_CHINESE_FACTS}",
    "我们?(?:不能|无法|没法|没办法)(?:帮助|协助|帮)(?:到)?(?:您|你)|(?:回答|解答|帮)不了(?:您|你|这|该)?",
    "不足以(?:回答|判断|确定|得出|给出|支持[^。！？]{0,6}?(?:回答|结论))",
    f"答案[^。！？]{{0,6}}?不在[^。！？]{{0,12}}?{_CHINESE_SOURCES}",
    f"{_CHINESE_SOURCES}[^。！？]{{0,12}}?[与和跟同][^。！？]{{0,12}}?(?:问题|提问|查询)[^。！？]{{0,4}}?"
    "(?:无关|不相关|没有关系|关系不大)",
    f"需要{_CHINESE_MORE}[^。！？]{{0,4}}?(?:才|来|以便|方)[^。！？]{{0,4}}?"
    "(?:回答|判断|确定|解答|作答|得出|帮)",
    f"(?:回答|判断|确定|解答)[^。！？]{{0,12}}?需要{_CHINESE_MORE}",
    "(?:信息|资讯|资料)不(?:足|够)|超出.{0,8}?范围",
)
"""A refusal, each in lower case: it declines to answer, or says that the sources do not tell."""

ENGLISH_SIGNS: Final = frozenset(
    listed(
        """
        not no n t nt never cannot fail fails failed unable unsure insufficient unknown none neither
        nothing unclear lack lacks silent unrelated irrelevant outside beyond missing absent needed
        required necessary need unanswerable null dont doesnt didnt isnt arent wasnt werent hasnt
        only havent couldnt cant cannt empty agent limit limits max either policy flagged keine je
        """
    )
)
OTHER_SIGNS: Final = (" only ", "either", "nicht", "n/a")
"""Signs that are no words of their own, or say too little alone."""
OFFERING: Final = frozenset(
    listed(
        """
        sure certainly absolutely of great no please just let let's feel do don't dont i i'm i'd
        i'll i've hope if should with for is kindly provide contact consult check refer visit ask
        note share clarify rephrase reach try you happy glad here enjoy could can would
        hi hello hey regarding concerning about
        """
    )
)
"""First words of offers, and of courtesies: all other sentences are spared their patterns."""
POLITE_SIGNS: Final = tuple(
    listed(
        """
        好 谢 歉 祝 久等 打扰 请稍 当然 不客气 对不起 不好意思 再见 没错 确实 没问题 遗憾 明白
        很高兴
        すみ 申し訳 죄송
        """
    )
)
"""Every courtesy in another script holds one of these."""
COURTEOUS: Final = frozenset(
    listed(
        """
        good great interesting excellent sure certainly absolutely hello hi hey dear unfortunately
        goodbye bye enjoy welcome alright yep yup nope lol haha wow exactly indeed right true
        apologies of all no best same me have happy glad thank thanks i'm i im we're sorry my
        apologise apologize that that's this it it's how you you're we
        """
    )
)
CHINESE_SIGNS: Final = frozenset("不没未无难缺超需空达んせ르없")
"""Every refusal holds, in lower case, one of these signs: to look for them is quicker.

A word of `ENGLISH_SIGNS` has no other letter from `a` to `z` beside it."""

FIRST_PERSON: Final = _compiled(
    r"\b(?:i|we|my|our)\b|我|无法|抱歉|对不起",
)
"""In a refusal: somebody declines; without it, the matter may have no evidence."""

ABOUT_SOURCES: Final = _compiled(
    any_of(
        rf"\A(?:(?:the|these|this|all|both|it)\b[^.!?]{{0,30}}?\b{_SOURCES}|it|they)\b[^.!?]{{0,40}}?\b"
        + any_of(
            any_word("only mainly instead discuss(?:es)? focus(?:es)? mentions? talks? describes?"),
            any_word("covers? contains? provides?"),
            "(?:is|are) about",
        )
        + r"\b",
        r"\A(?:这些|该|所?提供的?|给定的?|上述|以上)?(?:资料|文档|上下文|材料|文章|内容|信息|段落)"
        "[^。！？]{0,12}?(?:只|仅|主要|讨论|介绍|提到|涉及|描述|关于)",
    ),
)
"""A statement of what the sources are about. It is one only beside a refusal, else a claim."""

OFFERS: Final = _in_lower_case(
    r"\A\W{0,4}(?:(?:sure|certainly|absolutely|of course|great|no problem|好的|当然)\W{1,3})?"
    + any_of(
        r"(?:please |just )?(?:let me know|feel free|do not hesitate|don['’]?t hesitate)",
        r"(?:i )?hope (?:this|that|it|you)\b",
        r"(?:for|regarding|concerning|about) [^,.!?]{1,60}, please (?:contact|consult|ask|check)\b",
        r"(?:(?:hi|hello|hey)\W{1,3})?i(?:['’]m| am) (?:an?|the|your) (?:[\w-]+ ){0,4}?"
        r"(?:assistant|bot|chatbot)\b",
        r"i can (?:help|assist) you (?:with|find|to)\b",
        "(?:关于|对于|有关|至于)[^。！？，,]{1,20}[，,]?请(?:您|你)?(?:联系|咨询|参考|查阅)",
        "(?:(?:您|你)好[，,！!]?)?我是[^。！？，,]{0,12}?(?:助手|客服|机器人)",
        r"if you (?:have|need|would like|['’]?d like|want|could|can|provide|let|wish"
        r"|are looking)\b",
        r"if you(?:['’]re| are) able\b",
        r"should you (?:have|need|want|wish|require)\b",
        rf"(?:if|with) {_MORE}\b[^.!?]{{0,40}}?\b(?:i|we) (?:can|could|would|will|may)\b",
        rf"for {_MORE},? (?:please |you (?:can|may) )?(?:visit|consult|see|check|contact|refer)\b",
        r"i (?:can|could) (?:help|assist|try|look)\b[^.!?]{0,30}? if you\b",
        r"i(?:['’]ll| will) (?:try|do my best)\b",
        r"is there anything\b",
        r"(?:please |kindly )(?:provide|contact|consult|check|refer|visit|ask|note|share|clarify"
        r"|rephrase|reach|let|try)\b",
        r"you (?:may|might|can|could) (?:want|wish|try|check|contact|consult|ask|refer|need)\b",
        r"i(?:['’]?d| would) (?:recommend|suggest|advise|be happy|be glad|need)\b",
        r"i (?:recommend|suggest)\b",
        r"(?:(?:i['’]?m|i am) )?(?:happy|glad|here) to (?:help|assist|elaborate|explain|answer"
        r"|clarify|provide|share|tell|go)\b",
        r"(?:i['’]?m|i am) (?:happy|glad|here) to\b",
        r"enjoy (?:your|the) (?:\w+ ){0,2}?(?:visit|stay|trip|day|meal|evening|weekend|holiday|time"
        r"|tour|journey|reading)\W{0,4}\Z",
        r"let(?:['’]s| us) (?:break|look|go|take|walk|dive|start|begin)\b[^.!?]{0,60}\W{0,4}\Z",
        r"i(?:['’]ve| have)? (?:carefully )?(?:reviewed|read|searched|checked|analy[sz]ed"
        rf"|looked (?:at|through)|gone through) (?:\w+ ){{0,3}}?{_SOURCES}\b"
        r"[^.!?\d]{0,30}\W{0,4}\Z",
        r"(?:could|can|would) you (?:please )?(?:provide|share|clarify|rephrase|tell)\b",
        "希望(?:这|以上|我的)?.{0,10}?(?:帮助|帮到|有用)",
        "如果?(?:您|你)?.{0,16}?(?:请|欢迎|随时|告诉)",
        "如有.{0,16}?请",
        "(?:如果?|若|假如|要是|倘若)(?:您|你)?(?:还|能够?|可以|愿意|方便){0,2}(?:再)?(?:提供|补充|给出|分享|告知|说明|上传"
        f"|有|需要){_CHINESE_MORE}[^。！？]{{0,12}}?(?:我|帮|协助|[回解]答)",
        "如需(?:更多|进一步|其他)[^。！？]{0,12}?(?:联系|咨询|访问|查阅|参考)",
        "(?:麻烦|烦请|劳烦)(?:您|你)?(?:再|进一步)?(?:提供|补充|告诉|告知|说明)",
        "我?(?:们)?(?:会|将|也)?(?:很|非常|十分)?(?:乐意|乐于|尽力|尽量)[^。！？]{0,10}?(?:帮|协助|[回解]答|服务)",
        f"(?:您|你)(?:也|还)?可以(?:再)?(?:提供|补充){_CHINESE_MORE}",
        f"建议(?:您|你)?(?:提供|补充){_CHINESE_MORE}",
        "(?:您|你)可能(?:还)?需要(?:咨询|查阅|参考|联系)",
        "请(?:您|你)?(?:咨询|参考|查阅|联系|提供|告诉|随时|访问|补充|核实)",
        "建议(?:您|你)?(?:进一步|另行)?(?:咨询|查阅|查询|参考|联系|查看|核实|访问)",
        "欢迎",
        "(?:以上|上述)(?:就是|便是|即为|是|为)?[^。！？，,]{0,16}?(?:介绍|内容|回答|说明|总结|要点|信息|全部)"
        "(?:[，,]?仅供(?:您|你)?参考)?\\W{0,4}\\Z",
        "(?:让|请?允许)?我们?(?:来)?(?:一步一步|逐步|一起|逐一)(?:来|地)?(?:看|分析|说明|梳理)",
        f"我(?:已经?)?(?:仔细)?(?:查阅|阅读|检索|查看|分析|浏览)了?(?:一下)?[^。！？，,]{{0,10}}?{_CHINESE_SOURCES}\\W{{0,4}}\\Z",
        "您?可以(?:尝试)?(?:咨询|查阅|联系|参考)",
    ),
)
"""In lower case: an offer or advice to ask elsewhere makes a courtesy of all that follows."""

_VERDICT_WORDS = any_of(
    any_word("true right correct great cool awesome nice interesting amazing terrible awful sad"),
    any_word("funny good bad fascinating wonderful shame"),
    "good (?:point|idea|question)",
    "great question",
)
_COURTESIES: Final = (
    r"\b"
    + any_of(
        "(?:good|great|interesting|excellent) question",
        "sure(?: thing)?",
        any_word("certainly absolutely great hello hi hey dear unfortunately goodbye bye enjoy"),
        any_word("welcome alright yep yup nope lol haha wow exactly indeed right true apologies"),
        "of course", "all right", "no problem", "good luck", "best regards", "same here",
        "me (?:too|neither)",
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
    any_word(
        """
        好的 没问题 您好 你好 不客气 对不起 不好意思 再见 遗憾的是 明白了 没错 确实如此
        """
    ),
    "当然(?:可以)?",
    "(?:谢谢|感谢)(?:您|你)?(?:的(?:提问|问题))?",
    "(?:很|非常|十分)?抱歉|죄송합니다|すみません|申し訳ありません",
    "很高兴(?:为您|为你)?(?:服务|解答)?",
    "祝您?.{0,6}",
    "让您久等了?|打扰了?|请稍[等候]",
    "这是一?个很?好的?问题",
)  # fmt: skip
ONE_WORD: Final = _in_lower_case(
    r"\A\W{0,4}(?:(?:(?:the|this|that|your) )?(?:answer|statement|claim|assertion|that|this|it)"
    r"(?: is|['’]s|:| is:)? )?(?:yes|no|true|false|correct|incorrect|right|wrong|it depends"
    r"|depends|maybe|perhaps|both|neither|(?:(?:option|answer|choice) )?[a-e])\W{0,4}\Z",
    r"\A\W{0,4}(?:(?:该|此|这个?|这种|上述|以上)?(?:说法|陈述|表述|判断|观点|答案)(?:是|为)?)?"
    r"(?:是|不是|对|不对|错|正确|不正确|错误|真|假|否|会|不会|有|没有|能|不能|可以|不可以|不一定)的?"
    r"\W{0,4}\Z",
)
"""An answer of one word to a question of yes or no, of true or false, or of a choice."""
COURTESIES: Final = _compiled(*_COURTESIES)
"""A greeting, thanks, agreement or excuse says nothing of the matter."""

ANNOUNCES: Final = _compiled(
    r"\b"
    + any_of("here(?: are| is|['’]?s)", "as follows", any_word("following below these steps? some"),
           any_word("several summary overview reasons? answer"))
    + r"\b",
    any_word(
        """
        以下 如下 下列 下面 这些 几点 几个 步骤 总结 综上 包括
        """
    ),
)  # fmt: skip
"""Before a colon, it announces a list."""

ANNOUNCES_ALONE: Final = _in_lower_case(
    r"\A\W{0,4}(?:here(?:['’]s| is| are)|below (?:is|are)|the following (?:is|are))\b"
    r"[^.!?]{0,60}?\b"
    + any_word(
        "answers? summary overview information details what how list explanation steps points"
        " breakdown response"
    )
    + r"\b",
    r"\A[^.!?]{0,120}?\bas follows\W{0,3}\Z",
    r"\A[^。！？]{0,60}?如下\W{0,3}\Z",
    r"\A\W{0,4}(?:以下|下面)(?:是|为)",
)
"""At the head of a sentence, in lower case, it announces without a colon."""

CLAUSES: Final = _compiled(
    r"\b"
    + any_word("but however although though nevertheless nonetheless while whereas instead")
    + r"\b",
    r"\bthat said\b",
    "[;；]",
    any_word(
        """
        但是 但 不过 然而 只是 虽然 尽管
        """
    ),
)
"""A border between clauses of which one may answer and another decline."""
