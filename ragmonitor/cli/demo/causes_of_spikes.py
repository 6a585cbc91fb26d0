"""Makes the demo's spike: by a document, a prompt's version, a route, or the judge."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import Final, Literal

from ragmonitor.cli.demo.answerer import readable_sentences
from ragmonitor.cli.demo.phases import Phase
from ragmonitor.cli.demo.spoiler import other_numbers

SpikeCause = Literal["document", "version", "route", "judge"]

REPLACED: Final = "reference/settings.md"
"""The document that is replaced: many questions are answered from it."""
ROUTES: Final = ("help", "billing")
SPOILED_ROUTE: Final = "billing"
VERSIONS: Final = ("1.0", "1.1")
PLANTED: Final[Mapping[SpikeCause, str]] = {
    "document": REPLACED,
    "version": f"prompt_version={VERSIONS[1]}",
    "route": f"route={SPOILED_ROUTE}",
    "judge": "judge",
}
"""The cause that an incident should name."""


class WrongEdition:
    """Another edition of a document, which says otherwise, and a model that knows an older one.

    The model was trained on the older edition, and says what stood there whatever it is shown: what
    it is shown does not bear that out, and where there is a number it is wrong, too.
    """

    def __init__(self, text: str) -> None:
        """Take the right edition, in Markdown."""
        chance = random.Random(REPLACED)
        older = random.Random(f"older {REPLACED}")
        right = dict.fromkeys(readable_sentences(text))
        self._older = {
            _otherwise(sentence, chance): other_numbers(sentence, older) for sentence in right
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


def spoiled_share(
    cause: SpikeCause, phase: Phase, attributes: Mapping[str, str], spike_share: float
) -> float:
    """Return the share of the answers with these attributes that are spoiled.

    Args:
        cause: What makes the spike.
        phase: Of the demo.
        attributes: As `attributes_of` has them.
        spike_share: The share where the spike spoils answers.
    """
    is_spoiled = (cause == "route" and attributes["route"] == SPOILED_ROUTE) or (
        cause == "version" and attributes["prompt_version"] == VERSIONS[1]
    )
    return spike_share if is_spoiled and phase == "during" else 0.0
