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
_LABEL: Final = re.compile(r"[\w .:/+-]{1,40}")
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
    score: float | None
    """0 (bad) to 1 (good); None: a label that says neither."""
    label: str = ""
    """The label as it was given; empty: it was a number or a yes or no."""
    comment: str = ""
    kind: str = DEFAULT_KIND
    at_s: float
    """The time when it was given, in seconds since the epoch."""

    @property
    def is_good(self) -> bool | None:
        """Whether the person found the answer good; None: they say neither."""
        if self.score is None or self.score == 0.5:
            return None
        return self.score > 0.5

    @property
    def direction(self) -> str:
        """`good`, `bad` or `neither`, as a label of series."""
        return {True: "good", False: "bad", None: "neither"}[self.is_good]

    def shown_label(self, show: Callable[[str], str]) -> str:
        """Return the label: a word that is known here as it is, any other as a text is shown."""
        is_known = self.label.casefold() in _GOOD | _BAD
        return self.label if is_known or not self.label else show(self.label)

    def redacted(self, clean: Callable[[str], str]) -> Feedback:
        """Return it with what the person wrote redacted."""
        return replace(self, comment=clean(self.comment), label=self.shown_label(clean))


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
        evaluations: tuple[Scored, ...] = ()
        if told.score is not None:
            evaluations = (
                Scored(
                    evaluator=f"{told.kind}@1",
                    judge=PEOPLE,
                    score=told.score,
                    explanation=told.comment,
                ),
            )
        return Report(
            interaction=interaction,
            judge=PEOPLE,
            evaluations=evaluations,
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
        value: True or False; a number from 0 (bad) to 1 (good), or -1 for a thumb down; or a label
            of up to 40 letters: `up`, `down` and words like them have a direction, others none.
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
    score, label = _score_of(value)
    return Feedback(
        interaction_id=key,
        score=score,
        label=label,
        comment=encodable(comment[:MAX_COMMENT_CHARACTERS]),
        kind=kind,
        at_s=at_s,
    )


def _score_of(value: object) -> tuple[float | None, str]:
    if isinstance(value, str):
        label = value.strip().translate(_MODIFIERS)
        word = label.casefold()
        if word not in _GOOD | _BAD and not _LABEL.fullmatch(label):
            raise FeedbackError("a label is 1 to 40 letters, digits or spaces; put more in comment")
        return (1.0 if word in _GOOD else 0.0 if word in _BAD else None), label
    if not isinstance(value, int | float):
        raise FeedbackError("value is true or false, a number from 0 to 1, or a label")
    if value == -1:
        return 0.0, ""
    if not 0 <= value <= 1:
        raise FeedbackError(
            "a number is from 0 (bad) to 1 (good), or -1; of n stars out of five give (n - 1) / 4"
        )
    return float(value), ""
