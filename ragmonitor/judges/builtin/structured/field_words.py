"""The words of fields: which name the same, and which say nothing.

Data only; general knowledge of how records of businesses, products, schedules and services look.
"""

from __future__ import annotations

from typing import Final

from ragmonitor.judges.builtin.stems import stem, stems
from ragmonitor.judges.builtin.word_lists import words

_SAME: Final = """
wifi: wi_fi|wireless_internet|无线网络|无线上网|免费无线
park: car_park|停车位|停车场|停车
takeout: take_out|take_away|takeaway|to_go|carry_out|打包|外带
delivery: deliver|delivers|外卖|送餐|配送
outdoor_seat: patio|terrace|户外座位|露天座位|室外座位
reservation: reserve|booking|预订|预约|预定
credit_card: card_payment|信用卡|刷卡
dog: pet|宠物
wheelchair: wheelchair_accessible|无障碍|轮椅
kid: child|children|family_friendly|kid_friendly|child_friendly|儿童|宝宝
tv: television|电视
alcohol: beer|wine|cocktail|酒水
price: cost|fee|priced|charge|cheapest|expensive|最便宜|最贵|价格|售价|单价|费用
rating: star|rated|score|评分|星级
review: 评论|点评|条评价
weight: weigh|重量
salary: earn|pay|薪水|工资
ambience: ambiance|atmosphere|vibe|氛围|环境
noise: loudness|噪音
breakfast: 早餐
pool: swim_pool|游泳池|泳池
gym: fitness_center|fitness_room|健身房
hour: 营业时间|开放时间
address: located|地址
population: inhabitant|人口
capital: 首都
owner: owned|所有者
version: 版本
stock: 库存
status: 状态
checkin: check_in|入住
checkout: check_out|退房
shuttle: 接送
appointment: 需预约
remote: remotely
battery: 电池
color: colour|颜色
many: lot_of
about: up_to|at_least|at_most
without: lack|disabled|unavailable|prohibited|forbidden|banned|disallowed|missing|excluded|neither
without: turn_off|switch_off|rather_than|instead_of|禁止|谢绝|关闭|停用
unknown: unclear|unspecified|未提及|没有提到|未说明|未知|不清楚|未注明
"""


def _named(text: str) -> dict[str, str]:
    """Return the words of a table, each with the name at the head of its line."""
    lines = [line.split(": ") for line in text.strip().splitlines()]
    return {other: name for name, others in lines for other in others.split("|")}


SAME: Final = {"_".join(map(stem, n.split("_"))): name for n, name in _named(_SAME).items()}
"""Maps a stem, a few of them joined by `_`, or Chinese words to the one that stands for all."""

EMPTY_KEYS: Final = stems(
    """
    is has have accept accepts accepted allow allows allowed good for best business businesses
    restaurant restaurants available availability offer offers offered provide provides provided
    enable enabled include included includes count number num amount value total average mean avg
    info information list details data per of the a an at to by in on with and or free year date
    time day days hours name flag text only monthly type usd eur km kg cm min max up
    """
)
"""Stems in keys that need not be said to speak of the field, if the key has others."""
EMPTY_HAN: Final = "是否|可否|能否|支持|提供|允许|数量|年份|日期|总数|数|率"
"""The words at the ends of Chinese keys."""

JOINING: Final = words("but however although though while whereas and rather instead")
"""Words at which a clause may begin."""
LIMITS: Final = stems(
    "than compared versus about around roughly nearly almost approximately over under above below"
    " exceeding"
)
"""Keys beside which a number is compared, and no value."""
OFFERS: Final = stems(
    "has have had with offer provide include feature allow accept available support there enjoy"
    " relax use welcome come serve take"
)
"""Keys that say that there is something."""
DERIVED: Final = _named("""
average: average|averages|averaging|mean|平均
total: total|altogether|combined|sum|合计|总共|总计|一共
highest: highest|largest|biggest|most|longest|heaviest|maximum|best|top
highest: 最高|最大|最多|最贵|最长|最重
lowest: lowest|smallest|cheapest|least|fewest|shortest|lightest|minimum
lowest: 最低|最小|最少|最便宜|最短|最轻
""")
"""Words for the figures of several rows."""

NAMES: Final = words("name title id sku model product item label 名称 姓名 型号 酒店名称 馆名")
"""Keys whose value names the object."""

YES: Final = words("true yes y ✓ ✔ √ 是 有 支持 可以 允许 available 提供")
NO: Final = words("false no n none ✗ ✘ × 否 无 没有 不支持 不可 不允许 unavailable")
NULL: Final = words("null n/a na unknown - -- — ? 未知 不详 nan") | {""}
"""Values that say nothing."""

FRAMES: Final = stems(
    """
    restaurant business place shop store hotel venue establishment location facility company product
    item model plan order guest customer visitor client user people offer provide provided available
    availability feature accept allow permit serve come run use work start list listed show shown
    contain has rate rated located according record data table field value say state day week time
    total average still currently today open close stay opening closing hour enjoy welcome option
    service equip equipped suitable current highest lowest altogether combined
    """
)
"""Stems that only carry what a field says: a sentence with a supported field needs no source for
them."""
HAN_FRAMES: Final = words(
    """
    餐厅 酒店 商店 这家店 店内 图书馆 提供 支持 设有 没有 共有 目前 表中 三人 员工 顾客 允许
    可以 不 照常 开始 价格是 产品 公司 平均 合计 总共 讲授 工作 位于 属于 距离
    """
)
"""The frames in Chinese."""
