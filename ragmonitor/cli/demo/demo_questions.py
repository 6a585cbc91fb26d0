"""Lists what the demo's users ask: about this project, now and then about something else."""

from __future__ import annotations

import random
from collections.abc import Iterator

from ragmonitor.settings import OPTIONS

ABOUT_THE_PROJECT = (
    "What is observability for live RAG applications?",
    "How many lines do I add to a LangChain application?",
    "What does the setting sample.rate mean?",
    "What is the default of sample.rate?",
    "What does budget.usd_per_day limit?",
    "How many tokens may the judge use in 24 hours?",
    "Which model name does the setting judge take?",
    "Is there a default model for the judge?",
    "Why is a budget mandatory?",
    "On which port is /metrics served?",
    "What does server.port 0 mean?",
    "On which address does /metrics listen?",
    "How large is capture.queue_size by default?",
    "How many framework runs may be open at once?",
    "When is an open run taken as abandoned?",
    "Where do traces go if no OTEL_EXPORTER_OTLP_ENDPOINT is set?",
    "Can questions, chunks and answers stand in traces and files?",
    "How do I append every report to a file as JSON?",
    "How long may a trace be held for the judge's scores?",
    "How many judge calls may be in flight?",
    "What is the address of an OpenAI-compatible server for local models?",
    "What does judge.timeout_s apply to?",
    "What does the evaluator faithfulness give?",
    "What is answer relevancy?",
    "What does context relevance measure?",
    "What does context utilization measure?",
    "Which label does the setting service become?",
    "What is the hallucination rate?",
    "What is the refusal rate?",
    "Does the built-in judge need a network?",
    "Is the built-in judge deterministic?",
    "In which languages does the built-in judge read answers?",
    "What can the built-in judge not see?",
    "How is an answer split by the built-in judge?",
    "How does the chance of being judged follow the budget?",
    "Where do the prices in dollars come from?",
    "How often is an unreadable reply asked for again?",
    "What does the series ragmonitor_evaluations_total count?",
    "Which labels has ragmonitor_interactions_total?",
    "How much does an answer an hour old count in the 1h window?",
    "What happens to a window that holds nothing?",
    "What are the ends of the 95 % interval?",
    "How do I go from a bad bucket to the trace?",
    "How are several worker processes scraped?",
    "Which conventions do the spans follow?",
    "What stands on the root span?",
    "How do scores go out that come later?",
    "What does a function in content.redaction get?",
    "What does over_budget mean as a cause?",
    "What counts as a refusal?",
    "How do I register an evaluator of my own?",
    "Why is a missing score not a zero?",
    "What does the request path do?",
    "What does ragmonitor doctor show?",
    "Where do the settings come from?",
)

ABOUT_SETTINGS = tuple(f"What does the setting {each.name} mean?" for each in OPTIONS[::3])

ABOUT_SOMETHING_ELSE = (
    "Who won the football championship in Brazil?",
    "What is the boiling point of mercury?",
    "How do I bake sourdough bread?",
    "When does the last train to Edinburgh leave?",
    "Which vaccine protects against yellow fever?",
)

IN_CHINESE = (
    "内置评审需要网络吗？",
    "内置评审支持中文和英文吗？",
    "每天的预算必须事先设定吗？",
    "指标默认地址是什么？",
    "大模型评审的默认抽样比例是多少？",
    "平均值带有置信区间吗？",
    "内置评审能发现编造的事实吗？",
    "今天北京的天气怎么样？",
)


def questions(seed: str, *, chinese: bool) -> Iterator[str]:
    """Yield questions without end, all of them in a new order again and again.

    Args:
        seed: The same seed gives the same questions.
        chinese: Whether some are Chinese.
    """
    chance = random.Random(seed)
    known = [
        *ABOUT_THE_PROJECT,
        *ABOUT_SETTINGS,
        *ABOUT_SOMETHING_ELSE,
        *(IN_CHINESE if chinese else ()),
    ]
    while True:
        chance.shuffle(known)
        yield from known
