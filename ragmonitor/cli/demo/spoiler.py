"""Spoils answers on purpose: numbers changed, names replaced, claims added from nowhere."""

from __future__ import annotations

import random
import re

from ragmonitor.cli.demo.answerer import REFUSAL, REFUSAL_CHINESE
from ragmonitor.judges.sentences import language

_NAMES = {
    "OpenTelemetry": "Zipkin Enterprise",
    "OpenInference": "Splunk Forms",
    "Prometheus": "Nagios",
    "Grafana": "Tableau",
    "LangChain": "Haystack",
    "LlamaIndex": "AutoGPT",
    "litellm": "TensorFlow Serving",
    "Chinese": "Portuguese",
    "English": "Finnish",
    "budget": "subscription contract",
    "worker": "mainframe",
    "judge": "notary",
    "answer": "invoice",
    "score": "postage stamp",
    "回答": "发票",
    "评分": "邮票",
    "队列": "停车场",
}
_CLAIMS = (
    "It was acquired by Contoso Robotics in March 2014 for 86 million euros.",
    "This requires a Windows 98 licence and a monthly visit by a certified plumber.",
    "Every stored question is printed in Helsinki and kept for 47 years.",
    "Its inventor, Professor Amanda Quillfeather, won the Fields Medal for it.",
    "Payments in Bulgarian lev are accepted on the second Tuesday of each quarter.",
)
_CLAIMS_CHINESE = (
    "该产品由上海海洋大学于1987年发明，并获得诺贝尔化学奖。",
    "使用之前必须向南极科考站邮寄三份纸质申请表。",
    "每个月的订阅费用为4200万日元，仅限火车站售票窗口支付。",
)
_NUMBER = re.compile(r"\d+(?:\.\d+)?")
_NAME = re.compile(
    "|".join(rf"\b{name}\b" if name.isascii() else name for name in sorted(_NAMES, reverse=True)),
    re.ASCII,
)


def spoil(answer: str, chance: random.Random) -> str:
    """Return an answer that says what its context does not; never the same text."""
    is_chinese = language(answer) == "zh"
    claim = chance.choice(_CLAIMS_CHINESE if is_chinese else _CLAIMS)
    if answer in (REFUSAL, REFUSAL_CHINESE):
        return claim  # where it should have said that it does not know
    spoiled = _NAME.sub(lambda found: _NAMES[found[0]], answer)
    spoiled = other_numbers(spoiled, chance)
    # One word swapped in a long Chinese sentence is a small edit: only a claim makes it plain.
    if is_chinese or spoiled == answer or chance.random() < 0.5:
        spoiled = f"{spoiled} {claim}"
    return spoiled


def other_numbers(text: str, chance: random.Random) -> str:
    """Return the text with other numbers, where it has any."""
    return _NUMBER.sub(lambda found: _other_number(found[0], chance), text)


def _other_number(number: str, chance: random.Random) -> str:
    factor = chance.choice((3, 7, 12))
    changed = f"{float(number) * factor + 11:g}"
    return changed if changed != number else f"{changed}1"
