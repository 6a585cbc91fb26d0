"""Names signals and their values for people, in English and Chinese."""

from __future__ import annotations

import math
from typing import Final, Literal

from ragmonitor.records import is_difference, on_scale
from ragmonitor.stats.signals import SHARES

Language = Literal["en", "zh"]

SIGNALS: Final = {
    "hallucination": ("Hallucination rate", "幻觉率"),
    "minor_hallucination": ("Minor findings only", "仅轻微问题"),
    "refusal": ("Refusal rate", "拒答率"),
    "wrong_refusal": ("Wrong refusals", "错误拒答"),
    "faithfulness": ("Faithfulness", "忠实度"),
    "answer_relevancy": ("Answer relevancy", "回答相关性"),
    "context_relevance": ("Context relevance", "上下文相关性"),
    "context_utilization": ("Context utilization", "上下文利用率"),
    "answer_correctness": ("Answer correctness", "回答正确性"),
    "refusal_correctness": ("Refusal correctness", "拒答正确性"),
    "context_recall": ("Context recall", "上下文召回率"),
    "availability": ("Availability", "可用性"),
    "empty_retrieval": ("Empty retrieval", "空检索"),
    "version_worse": ("Worse version", "变差的版本"),
    "weak_retrieval": ("Weak retrieval", "弱检索"),
    "anchors": ("Reference answers that flipped", "被改判的参考样例"),
}


def signal_name(name: str, language: Language) -> str:
    """Return what a signal is called; a stranger's is shown as it is."""
    if name.startswith("golden_"):
        kind = "参考问题" if language == "zh" else "Golden questions"
        return f"{kind} · {signal_name(name.removeprefix('golden_'), language)}"
    known = SIGNALS.get(name)
    return name.replace("_", " ") if known is None else known[language == "zh"]


def difference(value: float, signal: str) -> str:
    """Return a difference of two means with its sign: of shares in percentage points."""
    return f"{100 * value:+.1f}" if signal in SHARES else f"{value:+.2f}"


def number(value: float, signal: str) -> str:
    """Return a mean: a share in percent, a score as it is, a difference with its sign."""
    if not math.isfinite(value):
        return "–"
    if is_difference(signal):
        return on_scale(value, signal)
    if signal not in SHARES:
        return f"{value:.2f}"
    digits = 1 if 0 < abs(value) < 0.1 else 0
    # Rounded first, and plus 0: what is a little below 0 is not written as -0.
    return f"{round(100 * value, digits) + 0.0:.{digits}f}".removesuffix(".0") + " %"
