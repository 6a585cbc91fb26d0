"""The small word lists of the built-in judge. Data only; every word is lower case."""

from __future__ import annotations

from typing import Final


def words(text: str) -> frozenset[str]:
    """Return the words of a text."""
    return frozenset(text.split())


def _pairs(text: str) -> tuple[tuple[str, ...], ...]:
    """Return the pairs of words of a text, which stand as `left/right`."""
    return tuple(tuple(pair.split("/")) for pair in text.split())


def _numbered(text: str) -> dict[str, int]:
    """Return the names in each part of a text between commas, with its number."""
    return {name: n for n, part in enumerate(text.split(","), 1) for name in part.split()}


def _by_first(text: str) -> dict[str, str]:
    """Return the words in each part of a text between commas, with the first of the part."""
    parts = [part.split() for part in text.split(",")]
    return {word: part[0] for part in parts for word in part}


STOP_WORDS: Final = words("""
    an the this that these those there here it its it's itself he him his himself she her hers
    herself they them their theirs themselves we us our ours you your yours me my mine ones who
    whom whose which what when where why how or then than so as of at for with about into onto
    through to in on off out over under again once up down during is are was were be been being do
    does did done doing have has had having can could will would shall should may might must also
    too very own same such each few most other some any another many much several various
    therefore thus hence moreover furthermore additionally finally because since even still yet
    already often usually generally including via per etc eg ie e.g i.e oh yes yeah yea ok okay hi
    hello hey please let lets get gets got like way thing things something anything everything
    someone anyone really quite rather actually basically overall according based regarding
    between among upon toward towards 's 're 've 'll 'd 'm re ve ll
""")

NEGATIONS: Final = words("""
    not no never neither nor nt cannot cant dont doesnt didnt isnt wasnt wont wouldnt n't fails
    failed fail unable refused refuses refuse without nobody none nothing nowhere non
    arent havent werent hasnt shouldnt couldnt hadnt
""")
"""Words that turn the next one into its opposite, besides everything that ends in `n't`."""

DENIALS: Final = frozenset({"prohibit", "prohibition", "forbid", "ban", "disallow"})
"""Words that in the passive negate what goes before them in their clause, or the next one."""

GRANTS: Final = words(
    "accept take allow support provide offer serve include welcome available sell able"
)
"""Words that, negated, deny their object as a whole: `We do not take cash`."""

OPPOSITES: Final = _pairs("""
    increase/decrease rise/fall rose/fell grow/shrink gain/lose gain/loss win/lose won/lost
    profit/loss more/less most/least higher/lower high/low start/end begin/end open/close
    accept/reject approve/reject allow/prohibit allow/forbid allow/ban available/unavailable
    support/oppose agree/disagree include/exclude enable/disable up/down upward/downward
    positive/negative true/false male/female man/woman husband/wife father/mother son/daughter
    brother/sister north/south east/west northern/southern eastern/western left/right old/young
    older/younger oldest/youngest large/small larger/smaller largest/smallest big/small
    bigger/smaller long/short longer/shorter longest/shortest hot/cold warm/cool strong/weak
    stronger/weaker fast/slow faster/slower best/worst better/worse good/bad cheap/expensive
    easy/difficult simple/complex success/failure succeed/fail safe/dangerous legal/illegal
    possible/impossible likely/unlikely able/unable happy/unhappy married/unmarried present/absent
    maximum/minimum majority/minority import/export buy/sell bought/sold borrow/lend
    public/private domestic/foreign internal/external major/minor guilty/innocent alive/dead
    love/hate remember/forget arrive/depart ancient/modern odd/even same/different
""")
"""English pairs: one in the answer and the other in its source is a contradiction."""

CHINESE_OPPOSITES: Final = _pairs("""
    增加/减少 增长/下降 上涨/下跌 上升/下降 提高/降低 扩大/缩小 涨幅/跌幅 收涨/收跌 闭馆/开放
    关门/开门 休息/营业 闭馆/营业 关门/营业 领涨/领跌 盈利/亏损 高于/低于 大于/小于 多于/少于
    早于/晚于 支持/反对 同意/拒绝 接受/拒绝 成功/失败 赢得/输掉 胜利/失败 开始/结束 开放/关闭
    进口/出口 买入/卖出 流入/流出 男性/女性 父亲/母亲 丈夫/妻子 儿子/女儿 哥哥/弟弟 姐姐/妹妹
    最大/最小 最高/最低 最多/最少 最长/最短 第一/最后 东部/西部 南部/北部 左侧/右侧 国内/国外
    公开/保密 合法/非法 安全/危险 有效/无效 正确/错误 积极/消极 顺差/逆差 升值/贬值 超过/不足
    加息/降息 停业/营业 闭馆/开馆 首次/末次 休馆/开放
""")

MUTUAL: Final = words("""
    marry wed meet join merge resemble face fight play date border equal match rival tie contact
    accompany know cost total work partner compete live say like include
""")
"""Verbs of which both names may be the doer, and words that are no acts."""

CHINESE_ACTS: Final = words("""
    收购 并购 击败 战胜 打败 起诉 指控 举报 逮捕 杀害 袭击 攻击 入侵 占领 殖民 领先 超过 超越 取代
    投资 资助 赞助 聘请 雇佣 任命 提拔 邀请 拜访 批评 感谢 帮助 救助 教导 影响 启发 监督 管辖
    隶属于 起源于 输给 卖给 借给 送给 买下 淘汰 逆转 吞并 聘用 控告 解雇 赞扬
""")
"""Chinese verbs whose two sides have different roles."""

CHINESE_SURNAMES: Final = (
    "王李张刘陈杨赵黄周吴徐孙胡朱林郭罗郑梁谢宋唐许邓冯韩曹彭萧蔡潘董袁蒋叶杜苏魏程吕丁沈姚卢傅钟姜崔谭"
    "廖范汪陆韦贾夏邹熊孟秦邱尹薛闫段雷侯陶黎贺顾毛郝龚邵钱戴赖覃孔高马何"
)
"""Surnames of which few begin common words."""

CHINESE_TRANSLITERATIONS: Final = (
    "阿埃艾安奥巴白班鲍贝本比彼伯博布查达戴丹德迪蒂杜多俄恩尔法菲费弗福富盖冈戈格古哈海汉赫亨胡华惠霍基吉加"
    "贾杰金卡凯坎康考科克肯库奎拉莱兰劳勒雷李里丽利莉林琳卢鲁露伦罗洛马玛迈麦曼梅蒙米密摩莫默姆穆纳娜南内尼"
    "妮努诺欧帕潘佩皮珀普奇齐乔切琼让瑞萨塞森莎珊圣施史斯苏索塔泰坦特汤图托万威维韦温文沃伍西希锡夏香肖谢辛休"
    "雅亚扬耶伊依英尤约泽扎詹珍朱兹佐赖佛叶列契佳"
)
"""Characters that foreign names are written in."""

CHINESE_TITLES: Final = words("""
    先生 女士 小姐 教授 博士 院士 医生 律师 老师 法官 警官 同志 主任 经理 总经理 总裁 董事长 部长
    省长 市长 县长 书记 院长 校长 所长 处长 局长 总统 总理 主席 首相 记者 导演 演员 作家 诗人 画家
    歌手 创始人 首席执行官 发言人 研究员 工程师 设计师 教练 队长 上将 将军
""")
"""Titles before or behind a person's name."""

CHINESE_PLACES: Final = words("大学 出版社 研究所 省 市 县 自治区")
CHINESE_FIRMS: Final = words("公司 集团 银行 医院 学院 有限公司 股份公司")
"""The endings of the names of places and of organisations; before the latter stands no other
word."""

CHINESE_GENERIC: Final = words("""
    我们 科技 互联 联网 网络 软件 游戏 地产 建筑 食品 医药 能源 电力 航空 传媒 文化 咨询 租车 快递
    旅游 教育 金融 证券 信托 基金 租赁 广告 清洁 上市 大型 国有 外资 合资 保险 投资 贸易 物流 商业
    中央 人民 公立 私立 民营 知名 著名 重点 名牌 综合 专科 当地 附属 中心 地方 城商 股份 有限 责任
    跨国 控股 汽车 制造 医学 师范 理工 外国 世界 分 子 总 母 该 本 全 各 某 外 城 上 超 夜 门 都
    股 楼 节 反 两 家 所 的 在 于 是 和 与 了 几 多 名 这 那 其 此 他 她 我 你
""")
"""The words that stand before those endings and name nothing."""

MONTHS: Final = _numbered("""
    january jan, february feb, march mar, april apr, may, june jun, july jul, august aug,
    september sep sept, october oct, november nov, december dec
""")
WEEKDAYS: Final = _numbered("""
    monday mon, tuesday tue tues, wednesday wed, thursday thu thur thurs, friday fri,
    saturday sat, sunday sun
""")

NUMBER_WORDS: Final = {
    "zero": 0, "one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7,
    "eight": 8, "nine": 9, "ten": 10, "eleven": 11, "twelve": 12, "thirteen": 13, "fourteen": 14,
    "fifteen": 15, "sixteen": 16, "seventeen": 17, "eighteen": 18, "nineteen": 19, "twenty": 20,
    "thirty": 30, "forty": 40, "fifty": 50, "sixty": 60, "seventy": 70, "eighty": 80,
    "ninety": 90, "dozen": 12, "half": 0.5, "twice": 2, "thrice": 3,
}  # fmt: skip

SCALES: Final = {
    "hundred": 1e2, "thousand": 1e3, "million": 1e6, "billion": 1e9, "trillion": 1e12,
    "bn": 1e9, "k": 1e3, "mn": 1e6, "m": 1e6, "b": 1e9,
}  # fmt: skip

CHINESE_DIGITS: Final = {
    sign: n - 1
    for sign, n in _numbered(
        "零 〇, 一 壹, 二 两 贰, 三 叁, 四 肆, 五 伍, 六 陆, 七 柒, 八 捌, 九 玖"
    ).items()
}
CHINESE_SCALES: Final = {"十": 10, "拾": 10, "百": 100, "千": 1000, "万": 10**4, "亿": 10**8}

_UNITS: Final = _by_first("""
    % ％ percent percentage pct pc, $ usd dollar us$ 美元, € eur euro 欧元, £ gbp pound 英镑, ¥
    cny rmb yuan 元 人民币, yen jpy 日元, CHF chf franc 瑞士法郎 瑞郎, ₹ inr rupee 卢比, HK$ hkd
    hk$ 港元 港币, km kilometer kilometre 公里 千米, m meter metre 米 公尺, cm centimeter
    centimetre 厘米 公分, mm millimeter millimetre 毫米 公厘, nm nanometer 纳米, mile mi 英里,
    foot ft feet 英尺, inch in inches 英寸, yard yd, kg kilogram kilo 公斤 千克, g gram 克, mg
    milligram 毫克, ton t tons tonne 吨, lb lbs, oz ounce 盎司, l liter litre 升, ml milliliter
    millilitre 毫升, gallon 加仑, hectare ha 公顷, acre 英亩, 亩, km2 平方公里 平方千米, m2 sqm
    平方米, m3 立方米, ft2 sqft 平方英尺, mi2 平方英里, second s sec secs 秒, ms millisecond 毫秒,
    minute min mins 分钟, hour h hr hrs 小时, day days 天, week 周 星期, month 个月, year yr yrs
    year-old, decade, century centuries 世纪, 岁, °C °c ℃ celsius 摄氏度, °F °f ℉ fahrenheit
    华氏度, kb 千字节, mb megabyte, gb gigabyte, tb terabyte, mw megawatt 兆瓦, kw kilowatt 千瓦,
    kwh 千瓦时 度, hz hertz 赫兹, mph, watt 瓦, db decibel 分贝
""")
_PLURALS: Final = {f"{name}s": unit for name, unit in _UNITS.items() if len(name) > 3}
UNITS: Final = _PLURALS | _UNITS
"""Every spelling of a unit, and the name that stands for it. Units are compared, not converted."""

CHINESE_STOP: Final = frozenset(
    "的了着是在和与及或而但也都就还又很把被让给以于从向对将其之这那此该们吗呢吧啊呀嘛哦么则您我你他"
    "她它且却因个为等所由并如"
)
"""Characters that say little; runs of Chinese are cut at them."""

CHINESE_COMMON: Final = frozenset(
    "一不有人上大来到时地出会可说得下自年后能过子去要天多然没日家学无心好想看起没用行方又里样事"
    "成只当种同面进间些现部定实经力前开高长已水理情定两内国中新间全各今月第表示认通过作者主"
)
"""Characters in so many texts that a pair of them says little."""

NOT_NEGATIONS: Final = words("""
    不断 不仅 不但 不过 不同 不少 不久 不论 不管 不得不 不禁 不可或缺 不止 不只 不光 不乏 不如
    不俗 未来 非洲 非常 非凡 非遗 无锡 无论 无数 无疑 无人机 无线 无不 除非 否则 是否 能否 可否
    没收 差不多 了不起 对不起 不好意思 不等 不已 不锈 未成年 无条件 无障碍 不是所有 并非所有
    不一定 不凡 莫非 不妨 无非 不愧 不惜 无理由 并非都
""")
"""Words with a sign of negation in them that negate nothing."""

IRREGULAR: Final = _by_first("""
    child children, man men, woman women, person people persons, use used using uses, foot feet,
    tooth teeth, mouse mice, wife wives, life lives, leaf leaves, half halves, write wrote written
    writes, begin began begun, win won, bear born borne, die died dying dies dead death, sell
    sold, hold held, build built, buy bought, make made, take took taken, give gave given, come
    came, go went gone goes, know knew known, grow grew grown, show shown, see saw seen, run ran,
    lead led, leave left, lose lost, meet met, pay paid, say said, sing sang sung, speak spoke
    spoken, spend spent, stand stood, tell told, think thought, teach taught, wear wore worn,
    drive drove driven, fall fell fallen, rise rose risen, break broke broken, choose chose
    chosen, draw drew drawn, eat ate eaten, fight fought, fly flew flown, forget forgot forgotten,
    hear heard, keep kept, send sent, shoot shot, steal stole stolen, swim swam swum, throw threw
    thrown, become became, feel felt, find found, bring brought, catch caught, mean meant, sit
    sat, marry married marries marriage, study studies studied, british britain, french france,
    american america, german germany, chinese china, japanese japan, spanish spain, dutch
    netherlands, swiss switzerland, swedish sweden, danish denmark, polish poland, turkish turkey,
    english england, scottish scotland, irish ireland, greek greece, us u.s u.s.a usa, uk u.k,
    allow permit permits permitted permitting, forbid forbidden forbade forbids, center centre
    centres centred, gray grey, tire tyre tyres, check cheque cheques
""")
"""Forms that no suffix rule brings together."""

SMALL_WORDS: Final = (
    "if unless until till otherwise",
    "but though although however while whereas",
    "by",
    "and well",
    "nor",
    "from",
    "only just sure merely simply necessarily all every always both more less fewer",
    "within",
    "except excluding",
)
"""Words that say what a negation reaches, or who does what; the first of a line stands for all."""
