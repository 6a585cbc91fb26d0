"""Makes the demo's spike: by a document, a prompt's version, a route, or the judge."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, Literal

from ragmonitor.cli.demo.answerer import REFUSAL, REFUSAL_CHINESE, readable_sentences
from ragmonitor.judges.sentences import language

Phase = Literal["before", "during", "after"]
PHASES: Final[tuple[Phase, ...]] = ("before", "during", "after")
SpikeCause = Literal["document", "version", "route", "judge"]

REPLACED: Final = "reference/settings.md"
"""The document that is replaced: many questions are answered from it."""
ROUTES: Final = ("help", "billing")
VERSIONS: Final = ("1.0", "1.1")
PLANTED: Final[Mapping[SpikeCause, str]] = {
    "document": REPLACED,
    "version": f"prompt_version={VERSIONS[1]}",
    "route": f"route={ROUTES[1]}",
    "judge": "judge",
}
"""The cause that an incident should name."""
_CLAIMS: Final = (
    "It was acquired by Contoso Robotics in March 2014 for 86 million euros.",
    "This requires a Windows 98 licence and a monthly visit by a certified plumber.",
    "Every stored question is printed in Helsinki and kept for 47 years.",
    "Payments in Bulgarian lev are accepted on the second Tuesday of each quarter.",
)
_CLAIMS_CHINESE: Final = (
    "该产品由上海海洋大学于1987年发明，并获得诺贝尔化学奖。",
    "使用之前必须向南极科考站邮寄三份纸质申请表。",
)
_NUMBER: Final = re.compile(r"\d+(?:\.\d+)?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """A spike, recovery, and, if `again_s` is given, a spike again and again."""

    before_s: float = 60.0
    spike_s: float = 45.0
    again_s: float | None = 180.0
    """The time for which it stays well between two spikes; None: there is one spike only."""

    @classmethod
    def within(cls, seconds: float) -> Schedule:
        """Return the schedule of a demo that ends: 40 % before, 30 % spike, 30 % after."""
        return cls(before_s=0.4 * seconds, spike_s=0.3 * seconds, again_s=None)

    def phase(self, elapsed_s: float) -> Phase:
        """Return the phase, so many seconds after the start."""
        since_s = elapsed_s - self.before_s
        if since_s < 0:
            return "before"
        if self.again_s is not None:
            since_s %= self.spike_s + self.again_s
        return "during" if since_s < self.spike_s else "after"


class WrongEdition:
    """Another edition of a document, which says otherwise, and a model that knows an older one.

    The model says what stood in the older edition, whatever it is shown: the chunks do not support
    that, and where there is a number it is wrong, too.
    """

    def __init__(self, text: str) -> None:
        """Take the right edition, in Markdown."""
        chance, older = random.Random(REPLACED), random.Random(f"older {REPLACED}")
        self._older = {
            _otherwise(sentence, chance): other_numbers(sentence, older)
            for sentence in dict.fromkeys(readable_sentences(text))
        }
        self.text = "\n\n".join(self._older)

    def remembering(self, respond: Callable[[str], str]) -> Callable[[str], str]:
        """Return a model that says what the older edition says in place of the wrong one."""

        def answer(prompt: str) -> str:
            reply = respond(prompt)
            for wrong, older in self._older.items():
                reply = reply.replace(wrong, older)
            return reply

        return answer


def _otherwise(sentence: str, chance: random.Random) -> str:
    """Return a sentence about the same that says something else: other numbers, or a withdrawal."""
    changed = other_numbers(sentence, chance)
    if changed != sentence:
        return changed
    subject, colon, _ = sentence.partition(": ")
    words = sentence.split()
    return f"{subject if colon else ' '.join(words[: len(words) // 2])}: withdrawn, does nothing."


def attributes_of(cause: SpikeCause, phase: Phase, chance: random.Random) -> dict[str, str]:
    """Return the attributes of a question's interaction: a route, and the prompt's version."""
    is_new = cause == "version" and phase == "during" and chance.random() < 0.5
    return {"route": chance.choice(ROUTES), "prompt_version": VERSIONS[is_new]}


def is_hit(cause: SpikeCause, phase: Phase, attributes: Mapping[str, str]) -> bool:
    """Return whether the spike may spoil an answer with these attributes."""
    hit = {"route": ("route", ROUTES[1]), "version": ("prompt_version", VERSIONS[1])}.get(cause)
    return phase == "during" and hit is not None and attributes[hit[0]] == hit[1]


def spoil(answer: str, chance: random.Random) -> str:
    """Return an answer that says what its context does not; never the same text."""
    claim = chance.choice(_CLAIMS_CHINESE if language(answer) == "zh" else _CLAIMS)
    if answer in (REFUSAL, REFUSAL_CHINESE):
        return claim  # where it should have said that it does not know
    return f"{other_numbers(answer, chance)} {claim}"


def other_numbers(text: str, chance: random.Random) -> str:
    """Return the text with other numbers, where it has any."""
    return _NUMBER.sub(lambda found: _other_number(found[0], chance), text)


def _other_number(number: str, chance: random.Random) -> str:
    changed = f"{float(number) * chance.choice((3, 7, 12)) + 11:g}"
    return changed if changed != number else f"{changed}1"
