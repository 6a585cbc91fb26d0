"""Set phrases by which sentences are known to claim nothing. Data only.

All patterns are for texts in lower case, and their gaps are bounded, so that none of them is slow.
"""

from __future__ import annotations

from typing import Final

from ragmonitor.runtime.patterns import lazy_pattern


def any_of(*patterns: str) -> str:
    """Return a pattern of several."""
    return "(?:" + "|".join(patterns) + ")"


def any_word(text: str) -> str:
    """Return a pattern of the words of a text."""
    return any_of(*text.split())


# --- refusals -----------------------------------------------------------------------------------

SOURCES: Final = any_word("""
    contexts? passages? texts? documents? docs? sources? articles? excerpts? snippets? materials?
    information references? chunks? (?:search\\s)?results? knowledge\\sbase
""")
"""The words by which English answers call the chunks."""
TELLS: Final = (
    "(?:(?:mention|contain|includ|provid|specif|stat|discuss|cover|address|indicat|list|answer"
    "|describ|explain)(?:e|es|ed|ing|s|y|ies|ied)?|says?|said|tells?|gives?|given)"
)
_SOURCES: Final = any_of(SOURCES, any_word("data content manual"))
_FEW: Final = r"(?:\w+ ){0,2}?"
_SOME: Final = rf"(?:the|this|these|that|any|my|our|your) {_FEW}{_SOURCES}"
_NOT: Final = (
    r"(?:(?:does|do|did|is|are|was|were|has|have|could|can|ca)(?: not| ?n['’]?t)"
    "|cannot|never|fails? to)"
)
_TELL: Final = any_of(
    TELLS,
    any_word("offer have available found enough sufficient any explicitly directly clearly"),
    "specifically",
)
_WHETHER: Final = "(?:whether|if|how|when|what|who|which|where)"
_DETAILS: Final = "(?:information|answer|details?|data|context)"
_KNOW: Final = any_of(
    any_word("know answer find determine provide tell confirm help assist locate identify give"),
    f"verify|say {_WHETHER}",
    r"have (?:any |enough |sufficient |the |that |this |specific |access|an? )?[^.]{0,40}?"
    f"(?:{_DETAILS}|access|knowledge|idea)",
    r"(?:quite |fully |really )?understand(?: (?:that|this|you|your|the|what)\b|\W{0,3}\Z)",
)
_FACTS: Final = any_of("mention|details?|answer|evidence|indication|clue|idea", _SOURCES)
_MORE: Final = rf"(?:more|additional|further) (?:\w+ )?{_DETAILS}"
CHINESE_SOURCES: Final = any_word(
    "参考资料 参考信息 资料 文档 文件 上下文 材料 文中 文章 原文 信息 内容 知识库 段落 片段 来源"
    " 检索结果 背景 手册 参考 资讯"
)
_CHINESE_MORE: Final = (
    "(?:更多|更详细|更具体|更完整|进一步|额外|补充|其[他它])的?(?:相关|有关|详细|具体|背景)?的?"
    f"(?:{CHINESE_SOURCES}|细节|描述|说明|数据|问题)"
)
_CHINESE_TELL: Final = any_word(
    "找到 提[及到供] 说明 包[含括] 涉及 给出 记载 指出 显示 足够 任何"
    " 相关 关于 描述 列出 介绍 回答 明确"
)
_CHINESE_FACTS: Final = any_word("信息 资料 内容 答案 记录 数据 文档 依据 资讯 说明 描述 介绍 记载")

WHOLE_REFUSALS: Final = lazy_pattern(
    r"\A\W{0,4}(?:response \d{1,3}: )?"
    + any_of(
        "empty response",  # LlamaIndex's response synthesizers
        "agent stopped due to (?:iteration limit or time limit|max iterations)",  # LangChain's
        "sorry, need more steps to process this request",  # LangGraph's
        r"max iterations of \d{1,6} reached|either something went wrong, or you can .{0,120}?",
        "not (?:provided|available|enough information)|unanswerable|unknown|no answer|no idea|n/a",
        r"null|(?:[^.!?]{1,60} (?:is|are|was|were) )?not (?:mentioned|specified|stated)",
        f"(?:{CHINESE_SOURCES}[中里]?)?(?:并?没有?|并?未){_CHINESE_TELL}",
        f"不(?:知道|清楚|详)|未知|不明|不得而知|没有答案|(?:查无|无)(?:此|相关|可用)?{_CHINESE_FACTS}",
    )
    + r"\W{0,4}\Z|\A(?:[^,，、.!?]{1,24}[,，、] ?)?"
    + any_of(
        "ich wei(?:ß|ss) (?:es |das |die antwort )?(?:leider )?nicht|das wei(?:ß|ss) ich",
        r"ich kann (?:\w+ ){1,3}?(?:nicht|keine) (?:beantworten|sagen|finden|antwort)",
        r"keine (?:\w+ )?(?:informationen|angaben|antwort) (?:gefunden|vorhanden|verfügbar)",
        "je ne (?:sais|connais|peux) pas|je n['’]ai pas (?:trouvé|d['’])",
        "no (?:(?:lo )?sé|puedo (?:responder|contestar)|(?:tengo|encontré) .{0,12}información)",
        "(?:分|わ)かりません|お?答え(?:でき|することができ)ません|情報[がは](?:ありません|見つかりません)",
        "모르겠습니다|알 수 없습니다|답변할 수 없습니다|정보가 없습니다",
    )
)
"""What is a refusal as a whole: what frameworks say where there is no answer, other languages."""
CHINESE_REFUSALS: Final = lazy_pattern(
    any_of(
        "不(?:太)?(?:清楚|明确|确定)[^。！？，]{0,24}?(?:是否|能否|何时|如何|多少|哪)",
        "(?:无法|不能|没法|难以|没有?办法)(?:直接|准确|[为给][您你]|从中|据此|确切|明确|根据.{0,12}?){0,2}"
        "(?:回答|处理|确定|提供|得知|判断|找到|给出|确认|获知|解答|答复|得出|帮)",
        "(?:我|本人|目前|暂时|抱歉|对不起)[，,]?我?也?并?不太?(?:知道|清楚|了解|确定)",
        f"{CHINESE_SOURCES}[^。！？]{{0,24}}?[没未不]有?(?:直接|明确|具体|曾|能|做|作出?)?{_CHINESE_TELL}",
        "(?:没有|未能?|暂无|并无|[找查]不到|缺[乏少])(?:[找查]到|检索到|搜索到|提供|得到)?"
        "(?:任何|(?:与|关于|有关).{0,20}?|足够的?|相关的?|具体的?|[这该]方面的?|此类|该){0,3}"
        f"{_CHINESE_FACTS}",
        "不足以(?:回答|判断|确定|得出|给出|支持[^。！？]{0,6}?(?:回答|结论))",
        f"答案[^。！？]{{0,6}}?不在[^。！？]{{0,12}}?{CHINESE_SOURCES}",
        f"(?:回答|判断|确定|解答)[^。！？]{{0,12}}?需要{_CHINESE_MORE}",
        "(?:信息|资讯|资料)不[足够]|超出.{0,8}?范围",
    )
)
REFUSALS: Final = lazy_pattern(
    r"\b"
    + any_of(
        r"(?:i|we) (?:really |just |honestly )?(?:(?:do|can|could)(?: not| ?n['’]?t)|cannot"
        rf"|ca ?n['’]?t) (?:really |actually |currently |be able to )?{_KNOW}\b",
        r"(?:i|we) did(?: not| ?n['’]?t) (?:find|locate|understand) (?:any|the|that|what|you)",
        r"(?:i|we)(?: am| ?['’](?:m|re)| are| was)"
        r" (?:not (?:sure|certain|aware|able)|unsure|unable)\b",
        rf"unable to {_KNOW}\b",
        rf"{_SOURCES}\b[^.!?]{{0,80}}? {_NOT} {_FEW}{_TELL}\b",
        rf"they {_NOT} {_FEW}(?:mention|specify|state|say)\b",
        rf"(?:i|we) (?:have no|lack {_FEW}) ?{_FACTS}\b",
        rf"(?:there (?:is|was|are|were)|there['’]?s|i (?:found|see|have)|contains?|provides?|has)"
        rf"(?: no| not any| not enough| ?n['’]?t any| insufficient) (?:\w+ ){{0,3}}?{_FACTS}\b",
        rf"(?:no|not enough|insufficient) {_FEW}(?:{_DETAILS}|results|documents?|passages?)\b"
        r"[^.!?]{0,40}?(?:\b(?:found|retrieved|available|provided|given|is|was|were|to answer)\b"
        r"|\Z)",
        rf"{_NOT} be (?:determined|answered|found|inferred|established|known)\b",
        rf"(?:not {_FEW}(?:{_TELL}|in|clear|part)|missing|absent|unclear|outside|beyond)"
        rf" {_FEW}(?:in|by|within|from|of|on) {_SOME}\b",
        r"it(?: is|['’]s) (?:unclear|unknown|not (?:clear|known|certain))(?: \w+){0,3}?"
        rf" {_WHETHER}\b",
        rf"nothing {_FEW}(?:is|was|has been) (?:\w+ )?(?:stated|mentioned|said|specified)\b",
        rf"(?:nothing|none|neither)(?: (?:of|in))?(?: \w+){{0,3}}? {_SOURCES}\b"
        rf"[^.!?]{{0,20}}?\b{TELLS}\b",
        rf"{_SOURCES} (?:\w+ )?(?:lacks? {_FEW}{_FACTS}|(?:is|are) silent|says? nothing)\b",
        rf"{_MORE} (?:is|are|would be) (?:needed|required|necessary)\b|i would need {_MORE}\b",
        r"i (?:can|am able to) only (?:answer|help|assist|provide|discuss|respond)\b",
        r"(?:that|this|it)(?: ?['’]s| is| falls| goes)? (?:outside|beyond)(?: of)? (?:what i|my)\b",
    )
)
"""It declines to answer, or says that the sources do not tell."""

FIRST_PERSON: Final = lazy_pattern(r"\b(?:i|we|my|our)\b|我|无法|抱歉|对不起")
"""In a refusal: somebody declines; without it, the matter may have no evidence."""

ABOUT_SOURCES: Final = lazy_pattern(
    rf"\A(?:(?:the|these|this|all|both|it)\b[^.!?]{{0,30}}?\b{_SOURCES}|it|they)\b[^.!?]{{0,40}}?\b"
    r"(?:only|mainly|instead|discuss(?:es)?|focus(?:es)?|mentions?|talks?|describes?|covers?"
    r"|contains?|provides?|(?:is|are) about)\b"
    r"|\A(?:这些|该|所?提供的?|给定的?|上述|以上)?(?:资料|文档|上下文|材料|文章|内容|信息|段落)"
    "[^。！？]{0,12}?(?:只|仅|主要|讨论|介绍|提到|涉及|描述|关于)"
)
"""A statement of what the sources are about. It is one only beside a refusal, else a claim."""

CLAUSES: Final = lazy_pattern(
    r"\b(?:but|however|although|though|nevertheless|nonetheless|while|whereas|instead)\b"
    "|[;；]|但是?|不过|然而|只是|虽然|尽管"
)
"""A border between clauses of which one may answer and another decline."""

# --- courtesies ---------------------------------------------------------------------------------

_PLEASE: Final = "(?:contact|consult|check|visit|ask|refer|provide|share|clarify|rephrase|try)"
_CHINESE_YOU: Final = "(?:您|你)?"
OFFERS: Final = lazy_pattern(
    r"\A\W{0,4}(?:(?:sure|certainly|absolutely|of course|great|no problem|好的|当然)\W{1,3})?"
    + any_of(
        r"(?:please |just )?(?:let me know|feel free|do(?: not|n['’]?t) hesitate)",
        r"(?:i )?hope (?:this|that|it|you)\b|is there anything\b",
        rf"(?:for|regarding|concerning|about) [^,.!?]{{1,60}}, (?:please|you \w+) {_PLEASE}",
        r"(?:(?:hi|hello|hey)\W{1,3})?i(?:['’]m| am) (?:an?|the|your) (?:[\w-]+ ){0,4}?"
        r"(?:assistant|bot|chatbot)\b",
        r"(?:if|should) you(?:['’]re| are)? (?:have|need|would like|['’]?d like|want|could|can|let"
        r"|provide|wish|require|looking|able)\b",
        rf"(?:if|with) {_MORE}\b[^.!?]{{0,40}}?\b(?:i|we) (?:can|could|would|will|may)\b",
        r"i (?:can|could) (?:help|assist|try|look)\b[^.!?]{0,30}? (?:if you|you with|you to)\b",
        rf"(?:please |kindly )(?:{_PLEASE}|note|reach|let)\b",
        rf"you (?:may|might|can|could) (?:{_PLEASE}|want|wish|need)\b",
        r"i(?:['’]?d| would)? (?:recommend|suggest|advise|be happy|be glad)\b",
        r"i(?:['’]ll| will) (?:try|do my best)\b|(?:i(?: a|['’]?)m )?(?:happy|glad|here) to\b",
        r"i(?:['’]ve| have)? (?:carefully )?(?:reviewed|read|searched|checked|analy[sz]ed"
        rf"|looked (?:at|through)) (?:\w+ ){{0,3}}?{_SOURCES}\b[^.!?\d]{{0,30}}\W{{0,4}}\Z",
        rf"(?:could|can|would) you (?:please )?(?:{_PLEASE}|tell)\b",
        f"(?:关于|对于|有关|至于)[^。！？，,]{{1,20}}[，,]?请{_CHINESE_YOU}(?:联系|咨询|参考|查阅)",
        "(?:[您你]好[，,！!]?)?我是[^。！？，,]{0,12}?(?:助手|客服|机器人)",
        "希望(?:这|以上|我的)?.{0,10}?(?:帮助|帮到|有用)",
        f"如果?有?{_CHINESE_YOU}.{{0,16}}?(?:请|欢迎|随时|告诉)",
        f"(?:如果?|若|假如|要是)?{_CHINESE_YOU}(?:也|还|能够?|可以|愿意|方便|建议){{0,3}}{_CHINESE_YOU}再?"
        f"(?:提供|补充|给出|分享|告知|说明|上传|有|需要?){_CHINESE_MORE}",
        "我?们?[会将也]?(?:很|非常|十分)?(?:乐意|乐于|尽力|尽量)[^。！？]{0,10}?(?:帮|协助|[回解]答|服务)",
        f"(?:请|建议|{_CHINESE_YOU}可以?能?){_CHINESE_YOU}(?:还|进一步|另行|需要|尝试){{0,2}}"
        "(?:咨询|参考|查[阅询看]|联系|提供|告诉|随时|访问|补充|核实)",
        "欢迎|(?:以上|上述)[^。！？，,]{0,16}?(?:介绍|内容|回答|说明|总结|要点|信息|全部)"
        rf"(?:[，,]?仅供{_CHINESE_YOU}参考)?\W{{0,4}}\Z",
        "我(?:已经?)?(?:仔细)?(?:查[阅看]|阅读|检索|分析|浏览)了?(?:一下)?[^。！？，,]{0,10}?"
        rf"{CHINESE_SOURCES}\W{{0,4}}\Z",
    )
)
"""An offer or advice to ask elsewhere makes a courtesy of all that follows."""

_PRAISE: Final = any_word("""
    true right correct great cool awesome nice interesting amazing terrible awful sad funny bad
    fascinating wonderful shame good(?:\\s(?:point|idea))?
""")
_COURTESY: Final = any_of(
    r"\b"
    + any_of(
        any_word("certainly absolutely great hello hi hey dear unfortunately goodbye bye enjoy"),
        any_word("welcome alright yep yup nope lol haha wow exactly indeed right true apologies"),
        "(?:good|great|interesting|excellent) question|sure(?: thing)?|of course|all right",
        "no problem|good luck|best regards|same here|me (?:too|neither)|(?:happy|glad) to help",
        "have a (?:nice|great|good) day|(?:i|we|my) ?apologi[sz]es?(?: for \\w+ \\w+)?",
        r"thanks?(?: you)?(?: (?:so|very) much| for (?:asking|(?:your|the) question))?",
        r"(?:i['’]?m |i am |we['’]re )?(?:very |so |really )?sorry"
        r"(?: about that| for the \w+| to hear that)?",
        r"(?:that|this|it|how)(?: ?['’]?s| is| was| sounds)? (?:very |so |really |pretty |quite "
        rf"|a )?{_PRAISE}",
        r"i (?:totally |completely |fully |do )?(?:agree|see|understand)",
        r"you(?: ?['’]re| are) (?:absolutely |quite )?(?:right|correct|welcome)",
    )
    + r"\b",
    "好的|没问题|[您你]好|不客气|不好意思|再见|遗憾的是|明白了|没错|确实如此|对不起|当然(?:可以)?",
    "[谢感]谢[您你]?(?:的(?:提问|问题))?|(?:很|非常|十分)?抱歉|这是一?个?很?好的?问题",
    "很高兴(?:为[您你])?(?:服务|解答)?|祝您?.{0,6}|让您久等了?|打扰了?|请稍[等候]",
    "すみません|申し訳ありません|죄송합니다",
)
COURTESIES: Final = lazy_pattern(_COURTESY)
"""A greeting, thanks, agreement or excuse says nothing of the matter."""
ONLY_COURTESIES: Final = lazy_pattern(
    rf"\A\W*+(?:(?>{_COURTESY}"
    r"|(?:oh|ok|okay|yes|yeah|no|and|but|so|very|much|for|with|you|to|your|there|i|he|do)\b"
    r")\W*+)++\Z"
)
"""A sentence of nothing else."""
ONE_WORD: Final = lazy_pattern(
    r"\A\W{0,4}(?:(?:(?:the|this|that|your) )?(?:answer|statement|claim|assertion|that|this|it)"
    r"(?: is|['’]s|:| is:)? )?(?:yes|no|true|false|correct|incorrect|right|wrong|it depends"
    r"|depends|maybe|perhaps|both|neither|(?:(?:option|answer|choice) )?[a-e])\W{0,4}\Z"
    r"|\A\W{0,4}(?:(?:该|此|这个?|这种|上述|以上)?(?:说法|陈述|表述|判断|观点|答案)(?:是|为)?)?"
    r"(?:是|不是|对|不对|错|正确|不正确|错误|真|假|否|会|不会|有|没有|能|不能|可以|不可以|不一定)的?"
    r"\W{0,4}\Z"
)
"""An answer of one word to a question of yes or no, of true or false, or of a choice."""

# --- announcements ------------------------------------------------------------------------------

ANNOUNCES: Final = lazy_pattern(
    r"\b(?:here(?: are| is|['’]?s)|as follows|following|below|these|steps?|some|several|summary"
    r"|overview|reasons?|answer)\b|以下|如下|下列|下面|这些|几点|几个|步骤|总结|综上|包括"
)
"""Before a colon, it announces a list."""
ANNOUNCES_ALONE: Final = lazy_pattern(
    r"\A\W{0,4}(?:here(?:['’]s| is| are)|below (?:is|are)|the following (?:is|are))\b[^.!?]{0,60}?"
    r"\b(?:answers?|summary|overview|information|details|what|how|list|explanation|steps|points"
    r"|breakdown|response)\b"
    r"|\A\W{0,4}(?:以下|下面)(?:是|为)"
)
"""At the head of a sentence it announces without a colon."""
