"""What each topic of questions is about, in words of its questions: a topic is a number else."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any, Final

from ragmonitor.causes.slice_names import Slice
from ragmonitor.estimation.parts import Answer, Observation, Part
from ragmonitor.judges.builtin.word_lists import CHINESE_STOP, STOP_WORDS
from ragmonitor.patterns import lazy_pattern
from ragmonitor.protocols import Clock
from ragmonitor.records import Interaction

TOPIC: Final = "topic"
"""The dimension."""
MAX_QUESTIONS: Final = 32
"""Of one topic that are kept, each text once; the newest."""
MAX_CHARACTERS: Final = 200
"""Of a question that is kept."""
MIN_QUESTIONS: Final = 3
"""Of a topic that have a word, or it is not typical: it may be one person's."""
MIN_SHARE: Final = 0.1
"""The same, of the topic's questions."""
MIN_WORDS: Final = 2
"""Below so many typical words a question is quoted."""
MAX_WORDS: Final = 3
MAX_QUOTED: Final = 60
"""Characters."""
TELLS: Final = 1.5
"""How many times the share of other questions a typical word has in its topic."""
EVERY_S: Final = 5.0
"""How often titles are worked out anew, at most."""
TIME_SHARE: Final = 0.001
"""Of the time, that this may take."""

_HAN: Final = "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
_WORD: Final = lazy_pattern(f"[{_HAN}]+|[^\\W\\d_{_HAN}]{{3,}}")
_IS_HAN: Final = lazy_pattern(f"[{_HAN}]")
_HAN_LENGTHS: Final = (2, 3, 4)
_SAYS_LITTLE: Final = CHINESE_STOP | frozenset("什怎哪几谁何请问")
"""Characters of words that stand in questions about anything."""
_STEM: Final = 5
"""Words with the same first letters count as one word in two forms."""


class TopicWords(Part):
    """Knows what each topic of questions is about: words that tell its questions from the others.

    Topics are numbers of a reference that holds no text, so that what they are about is learned
    from the questions that come. It is made only where texts may be shown.
    """

    def __init__(
        self, topic: Callable[[Interaction], str], *, clock: Clock = time.monotonic
    ) -> None:
        """Begin without a question.

        Args:
            topic: Returns the topic of a question; empty: not known.
            clock: Of how often titles are worked out.
        """
        self._topic = topic
        self._clock = clock
        self.clear()

    def clear(self) -> None:
        """Forget every question."""
        self._questions: dict[str, dict[str, None]] = {}
        self._titles: Mapping[str, str] = {}
        self._due_s = -math.inf

    def add(self, answer: Answer) -> Iterable[Observation]:
        """Keep the question of an answer."""
        interaction = answer.interaction
        topic = self._topic(interaction)
        text = interaction.query[:MAX_CHARACTERS]
        if topic and text:
            kept = self._questions.setdefault(topic, {})
            kept[text] = None
            if len(kept) > MAX_QUESTIONS:
                del kept[next(iter(kept))]
        return ()

    def views(self) -> Mapping[str, Any]:
        """Return what each topic is about."""
        known = self._known()
        return {"topics": known} if known else {}

    def of(self, each: Slice) -> str:
        """Return what the questions of a slice are about; empty: it is no topic, or not known."""
        dimension, value = each
        return self._known().get(value, "") if dimension == TOPIC else ""

    def _known(self) -> Mapping[str, str]:
        began_s = self._clock()
        if began_s >= self._due_s:
            self._titles = titles(self._questions)
            ended_s = self._clock()
            self._due_s = ended_s + max(EVERY_S, (ended_s - began_s) / TIME_SHARE)
        return self._titles


def titles(questions: Mapping[str, Collection[str]]) -> dict[str, str]:
    """Return what each topic is about: its most typical words, else its most typical question.

    Args:
        questions: By topic, each text once.
    """
    counts = {
        topic: Counter(word for text in texts for word in set(_words(text)))
        for topic, texts in questions.items()
    }
    everywhere: Counter[str] = Counter()
    for each in counts.values():
        everywhere.update(each)
    total = sum(map(len, questions.values()))
    found = {}
    for topic, texts in questions.items():
        own, size = counts[topic], len(texts)
        shares = {
            word: (n / size, (everywhere[word] - n + 0.5) / (total - size + 1))
            for word, n in own.items()
            if n >= max(MIN_QUESTIONS, MIN_SHARE * size)
        }
        words = list(_different(_typical(shares)))
        found[topic] = ", ".join(words) if len(words) >= MIN_WORDS else _quoted(texts, own)
    return found


def _typical(shares: Mapping[str, tuple[float, float]]) -> list[str]:
    """Return the words of a topic that tell it from the others, the most typical first.

    A word is the more typical the larger the share p of the topic's questions that have it, and the
    smaller the share q of the others: by p log(p / q).

    Source:
        A term of the Kullback-Leibler divergence of the topic from the rest, as it is used to label
        clusters: Carmel, Roitman & Zwerdling (2009), "Enhancing cluster labeling using Wikipedia",
        SIGIR, section 3.2.
    """

    def rank(word: str) -> tuple[float, str]:
        share, elsewhere = shares[word]
        # Of Chinese the longer of two parts with nearly the same questions is the word.
        return -share * math.log(share / elsewhere) * math.sqrt(len(word)), word

    typical = [word for word, (share, elsewhere) in shares.items() if share > TELLS * elsewhere]
    return sorted(typical, key=rank)


def _quoted(texts: Collection[str], own: Counter[str]) -> str:
    """Return the question that has most in common with the others of its topic."""

    def common(text: str) -> float:
        words = set(_words(text))
        shared = sum(own[word] - 1 for word in words)
        return shared / math.sqrt(len(words) + 1)

    flat = " ".join(max(texts, key=common).split())
    # What a terminal would take for a command to itself is no text.
    text = "".join(each for each in flat if each.isprintable())
    return f"“{text}”" if len(text) <= MAX_QUOTED else f"“{text[: MAX_QUOTED - 1]}…”"


def _words(text: str) -> Iterator[str]:
    """Yield the words of a text; of Chinese its parts of two to four characters."""
    for token in _WORD.findall(text.casefold()):
        if not _IS_HAN.match(token):
            if token not in STOP_WORDS:
                yield token
            continue
        for length in _HAN_LENGTHS:
            for at in range(len(token) - length + 1):
                part = token[at : at + length]
                if _SAYS_LITTLE.isdisjoint(part):
                    yield part


def _different(ranked: Iterable[str]) -> Iterator[str]:
    """Yield the first few words of which none is a form or a part of one before."""
    chosen: list[str] = []
    for word in ranked:
        if any(_overlap(word, other) for other in chosen):
            continue
        chosen.append(word)
        yield word
        if len(chosen) == MAX_WORDS:
            return


def _overlap(one: str, other: str) -> bool:
    if not _IS_HAN.match(one):
        return one[:_STEM] == other[:_STEM]
    ends = range(1, min(len(one), len(other)))
    return (
        one in other
        or other in one
        or any(one[-n:] == other[:n] or other[-n:] == one[:n] for n in ends)
    )
