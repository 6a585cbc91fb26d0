"""What the demo asks, when the spike is, and how answers are spoiled in it."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, Literal

from ragmonitor.cli.demo.answerer import readable_sentences
from ragmonitor.judges.sentences import language
from ragmonitor.settings import OPTIONS

QUESTIONS: Final = (
    "What is observability for live RAG applications?",
    "How many lines do I add to a LangChain application?",
    "Is there a default model for the judge?",
    "Why is a budget mandatory?",
    "On which port is /metrics served?",
    "What is answer relevancy?",
    "What does context relevance measure?",
    "What is the hallucination rate?",
    "What is the refusal rate?",
    "Does the built-in judge need a network?",
    "In which languages does the built-in judge read answers?",
    "Which conventions do the spans follow?",
    "What counts as a refusal?",
    "What does ragmonitor doctor show?",
    "Who won the football championship in Brazil?",
    "How do I bake sourdough bread?",
    "When does the last train to Edinburgh leave?",
    "大模型评审的默认抽样比例是多少？",
    "大模型评审的超时时间是多少秒？",
    "今天北京的天气怎么样？",
    *(f"What does the setting {each.name} mean?" for each in OPTIONS[::2]),
)
ROUTES: Final = ("help", "billing")
CLAIMS: Final = (
    "It was acquired by Contoso Robotics in March 2014 for 86 million euros.",
    "This requires a Windows 98 licence and a monthly visit by a certified plumber.",
    "Every stored question is printed in Helsinki and kept for 47 years.",
    "Payments in Bulgarian lev are accepted on the second Tuesday of each quarter.",
)
CLAIM_CHINESE: Final = "该产品由上海海洋大学于1987年发明，并获得诺贝尔化学奖。"
EVERY_S: Final = 225.0
"""From one spike to the next, in a demo without an end."""
_NUMBER: Final = re.compile(r"\d+")

Phase = Literal["before", "during", "after"]
PHASES: Final[tuple[Phase, ...]] = ("before", "during", "after")


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """The times of the spike, in seconds since the epoch. Without an end it comes again."""

    began_s: float
    seconds: float | None

    @property
    def spike_s(self) -> tuple[float, float]:
        """Begin and end of the first spike."""
        whole_s = self.seconds or 150.0
        return self.began_s + 0.4 * whole_s, self.began_s + 0.7 * whole_s

    def phase(self, at_s: float) -> Phase:
        """Return the phase at a time."""
        begin_s, end_s = self.spike_s
        if at_s < begin_s:
            return "before"
        since_s = at_s - begin_s
        if self.seconds is None:
            since_s %= EVERY_S
        return "during" if since_s < end_s - begin_s else "after"

    def is_over(self, at_s: float) -> bool:
        """Return whether the demo is to end."""
        return self.seconds is not None and at_s >= self.began_s + self.seconds


class SpoilableModel:
    """A model that, while it is spoiled, invents statements about one document."""

    def __init__(self, respond: Callable[[str], str], document: str) -> None:
        """Take the sound model, and the document."""
        self._respond = respond
        self._document = " ".join(readable_sentences(document))
        self._chance = random.Random(1)
        self.is_spoiled = False

    def __call__(self, prompt: str) -> str:
        """Return the model's reply to a prompt."""
        reply = self._respond(prompt)
        if self.is_spoiled and reply in self._document:
            return spoil(reply, self._chance)
        return reply


def spoil(answer: str, chance: random.Random) -> str:
    """Return an answer with statements that its context does not hold."""
    claim = CLAIM_CHINESE if language(answer) == "zh" else chance.choice(CLAIMS)
    changed = _NUMBER.sub(lambda found: str(int(found[0]) * chance.choice((3, 7)) + 11), answer)
    return f"{changed} {claim}"


def questions() -> Iterator[str]:
    """Yield questions without end, all of them in an order of its own each time."""
    chance, known = random.Random(1), [*QUESTIONS]
    while True:
        chance.shuffle(known)
        yield from known
