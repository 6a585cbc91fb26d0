"""Lists what the demo's users ask: about this project, now and then about something else."""

from __future__ import annotations

import random
from collections.abc import Iterator

from ragmonitor.settings import OPTIONS

ABOUT_THE_PROJECT = (
    "What is observability for live RAG applications?",
    "How many lines do I add to a LangChain application?",
    "How many tokens may the judge use in 24 hours?",
    "Is there a default model for the judge?",
    "Why is a budget mandatory?",
    "On which port is /metrics served?",
    "On which address does /metrics listen?",
    "How many framework runs may be open at once?",
    "Where do traces go if no OTEL_EXPORTER_OTLP_ENDPOINT is set?",
    "How do I append every report to a file as JSON?",
    "How many judge calls may be in flight?",
    "What does the evaluator faithfulness give?",
    "What is answer relevancy?",
    "What does context relevance measure?",
    "What is the hallucination rate?",
    "What is the refusal rate?",
    "Does the built-in judge need a network?",
    "In which languages does the built-in judge read answers?",
    "How does the chance of being judged follow the budget?",
    "What does the series ragmonitor_evaluations_total count?",
    "What are the ends of the 95 % interval?",
    "Which conventions do the spans follow?",
    "How do scores go out that come later?",
    "What counts as a refusal?",
    "Why is a missing score not a zero?",
    "What does ragmonitor doctor show?",
)
ABOUT_SETTINGS = tuple(f"What does the setting {each.name} mean?" for each in OPTIONS[::2])
ABOUT_SOMETHING_ELSE = (
    "Who won the football championship in Brazil?",
    "What is the boiling point of mercury?",
    "How do I bake sourdough bread?",
    "When does the last train to Edinburgh leave?",
)
IN_CHINESE = (
    "内置评审需要网络吗？",
    "内置评审支持中文和英文吗？",
    "大模型评审的默认抽样比例是多少？",
    "今天北京的天气怎么样？",
)


def questions(seed: str, *, chinese: bool) -> Iterator[str]:
    """Yield questions without end, all of them in a new order again and again.

    Args:
        seed: The same seed gives the same questions.
        chinese: Whether some are Chinese.
    """
    known = [*ABOUT_THE_PROJECT, *ABOUT_SETTINGS, *ABOUT_SOMETHING_ELSE]
    return _again(seed, known + list(IN_CHINESE) * chinese)


def about_settings(seed: str) -> Iterator[str]:
    """Yield questions about settings without end: those that the replaced document answers."""
    return _again(f"{seed} settings", list(ABOUT_SETTINGS))


def _again(seed: str, known: list[str]) -> Iterator[str]:
    chance = random.Random(seed)
    while True:
        chance.shuffle(known)
        yield from known
