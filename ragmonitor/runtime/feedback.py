"""Checks people's feedback on an answer where it comes in."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final
from uuid import UUID

from ragmonitor.records import (
    Interaction,
    JudgeIdentity,
    Report,
    Scored,
    SpanReference,
)
from ragmonitor.runtime.errors import FeedbackError
from ragmonitor.runtime.printable import encodable

PEOPLE: Final = JudgeIdentity(name="people", version="1", kind="HUMAN")
"""The judge in scores that are made of feedback."""
MAX_ID_CHARACTERS: Final = 200
MAX_COMMENT_CHARACTERS: Final = 4_000
"""A longer comment is cut."""
DEFAULT_KIND: Final = "thumbs"
_KIND: Final = re.compile(r"[a-z][a-z0-9_]{0,39}")
_UUID: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
_GOOD: Final = frozenset(
    (
        *("up", "thumbs up", "thumbs_up", "\N{THUMBS UP SIGN}", "+1", "赞", "好"),
        *("good", "positive", "like", "helpful", "correct", "yes", "true"),
    )
)
_BAD: Final = frozenset(
    (
        *("down", "thumbs down", "thumbs_down", "\N{THUMBS DOWN SIGN}", "-1", "踩", "差"),
        *("bad", "negative", "dislike", "unhelpful", "incorrect", "wrong", "no", "false"),
    )
)
_MODIFIERS: Final = dict.fromkeys((0xFE0F, *range(0x1F3FB, 0x1F400)))
"""What may follow an emoji: that a picture is to be shown, and the colour of a skin."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Feedback:
    """A person's feedback on one answer."""

    interaction_id: str
    """The id as `joining_id` returns it."""
    score: float
    """0 (bad) to 1 (good)."""
    label: str = ""
    """The word that was given; empty: it was a number or a yes or no."""
    comment: str = ""
    kind: str = DEFAULT_KIND
    at_s: float
    """The time when it was given, in seconds since the epoch."""

    @property
    def direction(self) -> str:
        """`good`, `bad` or `neither`, as a label of series."""
        if self.score == 0.5:
            return "neither"
        return "good" if self.score > 0.5 else "bad"

    def redacted(self, clean: Callable[[str], str]) -> Feedback:
        """Return it with what the person wrote redacted."""
        return replace(self, comment=clean(self.comment))


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinedFeedback:
    """Feedback with what is known of the answer that it is about."""

    feedback: Feedback
    answered_s: float
    """The time when the answer was given, in seconds since the epoch."""
    target: SpanReference | None = None
    """The answer's root span; None: no trace was emitted."""

    @property
    def report(self) -> Report:
        """The feedback as scores are exported: by people, with the comment as its explanation.

        The interaction has its id and times only: texts are not kept until people speak.
        """
        told, at_ns = self.feedback, int(self.answered_s * 1e9)
        interaction = Interaction(
            id=told.interaction_id,
            query="",
            chunks=(),
            answer="",
            framework="python",
            started_ns=at_ns,
            ended_ns=at_ns,
        )
        scored = Scored(
            evaluator=f"{told.kind}@1",
            judge=PEOPLE,
            score=told.score,
            explanation=told.comment,
        )
        return Report(
            interaction=interaction,
            judge=PEOPLE,
            evaluations=(scored,),
            assessment=None,
            target=self.target,
            late=True,
        )


def joining_id(interaction_id: object) -> str:
    """Return the id by which feedback finds its interaction: UUIDs without their dashes.

    So an interaction's id, and the run id that LangChain or LangSmith show of it, are the same.
    """
    if isinstance(interaction_id, UUID):
        return interaction_id.hex
    text = str(interaction_id).strip()
    return text.replace("-", "").lower() if _UUID.fullmatch(text) else text


def feedback_of(
    interaction_id: object, value: object, *, comment: object = "", kind: object, at_s: float
) -> Feedback:
    """Return one piece of feedback.

    Args:
        interaction_id: Of the interaction: a text or a UUID.
        value: True or False; a number from 0 (bad) to 1 (good), or -1 for a thumb down; or `up`,
            `down` or a word like them.
        comment: In the person's own words.
        kind: What was asked of the person: `thumbs`, `stars`; lower case.
        at_s: When, in seconds since the epoch.

    Raises:
        FeedbackError: The id is empty or too long, or the value or the kind is none.
    """
    key = joining_id(interaction_id) if isinstance(interaction_id, str | UUID) else ""
    if not 0 < len(key) <= MAX_ID_CHARACTERS:
        raise FeedbackError(
            f"the id of an interaction is a text of 1 to {MAX_ID_CHARACTERS} characters"
        )
    if not isinstance(kind, str) or not _KIND.fullmatch(kind):
        raise FeedbackError("kind is up to 40 lower-case letters, digits and underscores: 'stars'")
    if not isinstance(comment, str):
        raise FeedbackError("comment is a text")
    return Feedback(
        interaction_id=key,
        score=_score_of(value),
        label=value if isinstance(value, str) else "",
        comment=encodable(comment[:MAX_COMMENT_CHARACTERS]),
        kind=kind,
        at_s=at_s,
    )


def _score_of(value: object) -> float:
    if isinstance(value, str):
        word = value.strip().translate(_MODIFIERS).casefold()
        if word in _GOOD | _BAD:
            return float(word in _GOOD)
    if not isinstance(value, int | float):
        raise FeedbackError("value is true or false, a number from 0 to 1, or up or down")
    if value == -1:
        return 0.0
    if not 0 <= value <= 1:
        raise FeedbackError(
            "a number is from 0 (bad) to 1 (good), or -1; of n stars out of five give (n - 1) / 4"
        )
    return float(value)
