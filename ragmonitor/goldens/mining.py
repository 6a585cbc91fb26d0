"""Chooses answers of live traffic that a person should make golden questions of.

An answer is a candidate for one or more reasons, each with a weight from 0 to 1. Reasons and slices
take turns; in its turn each takes the candidate with the largest maximal marginal relevance,
`lambda * weight - (1 - lambda) * (largest similarity to what is chosen or known)`: Carbonell and
Goldstein, "The Use of MMR, Diversity-Based Reranking" (SIGIR 1998), with similarities of
`GramIndex`.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, Final

from ragmonitor.errors import InputError, SettingsError
from ragmonitor.export.content import encodable
from ragmonitor.feedback import joining_id
from ragmonitor.goldens.golden import MINED, Golden, GoldenKind, ReferenceChunk
from ragmonitor.goldens.gram_index import GramIndex
from ragmonitor.records import Cause, is_builtin

LAMBDA: Final = 0.7
"""Weight of the reason against that of being unlike what is chosen already."""
BAD_FROM: Final = 0.5
SAME_FROM: Final = 0.97
"""Cosine of two questions' pieces of words from which on they are the same question."""
NOVEL_FROM: Final = 0.6
"""Distance (1 - cosine) to the nearest other question from which on a question is novel."""
MAX_SLICES: Final = 30
"""Values of attributes that are slices of their own; the most frequent ones."""


_UNANSWERED: Final = frozenset({Cause.REFUSAL.value, Cause.NO_ANSWER.value})


class MineReason(StrEnum):
    """Why an answer of the traffic should become a golden question."""

    WORST = "worst"
    """A judge found it bad."""
    DISAGREEMENT = "disagreement"
    """Two judges say opposite things of it."""
    NOVEL = "novel"
    """No other question, and no known golden one, is written like it."""
    UNANSWERED = "unanswered"
    """The application declined, failed, or said nothing."""
    THUMBS_DOWN = "thumbs_down"
    """A person found it bad."""


@dataclass(slots=True, kw_only=True)
class TrafficAnswer:
    """One answer, as the reports of all judges have it."""

    id: str
    at_s: float = 0.0
    """The time when it was given, in seconds since the epoch; 0: not known."""
    question: str = ""
    answer: str = ""
    chunks: tuple[ReferenceChunk, ...] = ()
    attributes: dict[str, str] = field(default_factory=dict)
    verdicts: dict[str, float] = field(default_factory=dict)
    """The badness of the answer by each judge, 0 to 1."""
    is_unanswered: bool = False
    feedback: float | None = None
    """The worst that a person said, 0 (bad) to 1 (good)."""

    @property
    def badness(self) -> float:
        """The sampled judge's badness, else the built-in judge's."""
        sampled = [bad for judge, bad in self.verdicts.items() if not is_builtin(judge)]
        return max(sampled or self.verdicts.values(), default=0.0)

    def reasons(self, novelty: float) -> dict[MineReason, float]:
        """Return the reasons for it, with their weights.

        Args:
            novelty: Distance to the nearest other question.
        """
        by_reason: dict[MineReason, float] = {}
        if self.badness >= BAD_FROM:
            by_reason[MineReason.WORST] = self.badness
        spread = max(self.verdicts.values(), default=0) - min(self.verdicts.values(), default=0)
        if spread >= BAD_FROM:
            by_reason[MineReason.DISAGREEMENT] = spread
        if novelty >= NOVEL_FROM:
            by_reason[MineReason.NOVEL] = novelty
        if self.is_unanswered:
            by_reason[MineReason.UNANSWERED] = 1.0
        if self.feedback is not None and self.feedback < BAD_FROM:
            by_reason[MineReason.THUMBS_DOWN] = 1.0 - self.feedback
        return by_reason


@dataclass(slots=True, kw_only=True)
class Traffic:
    """Answers, as reports or a page tell of them."""

    answers: dict[str, TrafficAnswer] = field(default_factory=dict)
    """The answers by id."""
    without_text: int = 0
    """Answers of which the monitor's setting `content` lets no text be seen."""
    bad_lines: int = 0
    has_feedback: bool = False

    def candidates(self) -> list[TrafficAnswer]:
        """Return those that have a question."""
        return [answer for answer in self.answers.values() if answer.question.strip()]

    def restrict(self, *, since_s: float = 0.0, slices: Sequence[str] = ()) -> None:
        """Forget what is older, or is of another slice.

        Args:
            since_s: In seconds since the epoch.
            slices: `name=value`; of one name either value will do, of several names all must.

        Raises:
            SettingsError: A slice is no name and value.
        """
        wanted: dict[str, set[str]] = {}
        for text in slices:
            name, equals, value = text.partition("=")
            if not (equals and name.strip()):
                raise SettingsError(f"--slice {text!r}: expected name=value, such as route=billing")
            wanted.setdefault(name.strip(), set()).add(value.strip())
        self.answers = {
            id_: answer
            for id_, answer in self.answers.items()
            if answer.at_s >= since_s
            and all(answer.attributes.get(name) in values for name, values in wanted.items())
        }


# --- reading --------------------------------------------------------------------------------------


def read_reports(lines: Iterable[bytes], *, redact: Callable[[str], str]) -> Traffic:
    """Return the answers of a file of reports, as the exporter `jsonl` writes it.

    Args:
        lines: Of the file.
        redact: Rewrites each text that is kept.
    """
    traffic = Traffic()
    unseen: set[str] = set()
    for raw in lines:
        if not raw.strip():
            continue
        try:
            line = json.loads(raw)
            answer = _answer(traffic, line["id"])
            if isinstance(line.get("feedback"), dict):
                _take_feedback(traffic, answer, line["feedback"])
                continue
            if line.get("time"):
                answer.at_s = datetime.fromisoformat(line["time"]).astimezone(UTC).timestamp()
            _take_report(answer, line)
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            traffic.bad_lines += 1
            continue
        if line.get("content", "all") != "all" or not isinstance(line.get("question"), str):
            unseen.add(answer.id)
        elif not answer.question:
            answer.question = redact(line["question"])
            answer.answer = redact(str(line.get("answer") or ""))
            texts = line.get("contexts") or ()
            answer.chunks = tuple(ReferenceChunk(text=redact(str(text))) for text in texts)
    traffic.without_text = len(unseen)
    return traffic


def _answer(traffic: Traffic, id_: str) -> TrafficAnswer:
    # Feedback names a UUID without its dashes, as run ids of LangSmith come with them.
    return traffic.answers.setdefault(joining_id(id_), TrafficAnswer(id=str(id_)))


def _take_report(answer: TrafficAnswer, line: Mapping[str, Any]) -> None:
    outcomes: Mapping[str, Any] = line["evaluations"]
    scores = {name: each["score"] for name, each in outcomes.items() if "score" in each}
    causes = {each.get("unscored") for each in outcomes.values()}
    judge = str(line["judge"]).partition("@")[0]
    bad = _badness(scores, line.get("risk"))
    if bad is not None:
        answer.verdicts[judge] = bad
    refused = line.get("diagnosis") in ("refusal", "wrong_refusal") or bool(_UNANSWERED & causes)
    answer.is_unanswered |= refused or line.get("status") == "error"
    attributes = line.get("attributes")
    if isinstance(attributes, dict):
        answer.attributes = {str(name): str(value) for name, value in attributes.items()}


def _badness(scores: Mapping[str, Any], risk: object) -> float | None:
    """Return how bad an answer is by one report: hallucinated, unfaithful, or beside the point."""
    if scores.get("hallucination") is None and scores.get("faithfulness") is None:
        return None
    bad = max(
        float(scores.get("hallucination") or 0.0),
        1.0 - float(scores.get("faithfulness", 1.0)),
        0.4 * (1.0 - float(scores.get("answer_relevancy", 1.0))),
    )
    # The built-in judge's yes or no is rough: its risk says how sure it is.
    return bad * (1.0 + risk) / 2 if isinstance(risk, int | float) else bad


def _take_feedback(traffic: Traffic, answer: TrafficAnswer, entry: Mapping[str, Any]) -> None:
    traffic.has_feedback = True
    score = entry.get("score")
    if isinstance(score, int | float) and 0 <= score <= 1:
        answer.feedback = min(float(score), 1.0 if answer.feedback is None else answer.feedback)


def read_page(state: Mapping[str, Any], *, redact: Callable[[str], str]) -> Traffic:
    """Return the answers that a monitor's page keeps: the worst ones, and the newest.

    Args:
        state: As the page serves it, with all answers.
        redact: Rewrites each text that is kept.

    Raises:
        InputError: It is no such state.
    """
    traffic = Traffic()
    try:
        for entry in state["answers"]:
            answer = _answer(traffic, entry["id"])
            answer.at_s = float(entry["at_s"])
            if entry["basis"] != "unscored":
                answer.verdicts[str(entry["judge"])] = float(entry["badness"])
            for feedback in (entry.get("feedback") or {}).values():
                _take_feedback(traffic, answer, feedback)
            for each in entry.get("builtin") or ():
                if each["evaluator"] == "hallucination" and "score" in each:
                    answer.verdicts.setdefault(str(state["builtin"]), float(each["score"]))
            causes = {each.get("cause") for each in entry["evaluations"]}
            answer.is_unanswered = entry["status"] == "error" or bool(_UNANSWERED & causes)
            answer.is_unanswered |= entry["diagnosis"] in ("refusal", "wrong_refusal")
            answer.attributes = dict(entry["attributes"])
            if "question" not in entry:
                traffic.without_text += 1
                continue
            answer.question = redact(entry["question"])
            answer.answer = redact("".join(map(_piece, entry["answer"])))
            answer.chunks = tuple(_page_chunk(each, redact) for each in entry["chunks"])
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise InputError(f"no page of a monitor of this version: {error!r}") from error
    return traffic


def _piece(piece: Mapping[str, Any]) -> str:
    if "cut" in piece:
        return "…"
    return str(piece["text"]) if "text" in piece else _joined(piece["parts"])


def _joined(parts: Iterable[Sequence[Any]]) -> str:
    return "".join(str(text) for text, _ in parts)


def _page_chunk(entry: Mapping[str, Any], redact: Callable[[str], str]) -> ReferenceChunk:
    return ReferenceChunk(
        text=redact(_joined(entry["parts"])), id=entry["id"], source=entry.get("source", "")
    )


# --- choosing -------------------------------------------------------------------------------------

Turn = tuple[MineReason, str]
"""A reason, and the slice it is looked at in; empty: all answers."""


@dataclass(slots=True, kw_only=True)
class Mined:
    """The candidates that were chosen, and how many there were by reason."""

    goldens: list[Golden] = field(default_factory=list)
    found: Counter[str] = field(default_factory=Counter)
    """Answers by reason, before any was chosen; one may have several reasons."""
    chosen: Counter[str] = field(default_factory=Counter)
    """The number of goldens, by the reason in whose turn they were chosen."""


def mine(
    traffic: Traffic,
    n: int,
    *,
    known: Iterable[Golden] = (),
    reasons: Iterable[MineReason] = MineReason,
    slice_by: Sequence[str] = (),
) -> Mined:
    """Return at most `n` candidates, diverse and none like a question that is known.

    Args:
        traffic: The answers.
        n: How many.
        known: Golden questions that there are already.
        reasons: Those that count.
        slice_by: Attributes whose values are slices; empty: all that answers carry.
    """
    chooser = _Chooser(traffic.candidates(), [golden.question for golden in known])
    mined = Mined()
    queues = chooser.queues(frozenset(reasons), _slices(traffic.candidates(), slice_by))
    for (reason, slice_), members in queues.items():
        if not slice_:
            mined.found[reason.value] = len(members)
    while queues and len(mined.goldens) < n:
        for turn in list(queues):
            position = chooser.best(queues[turn]) if len(mined.goldens) < n else None
            if position is None:
                del queues[turn]
                continue
            mined.goldens.append(candidate(chooser.answers[position], chooser.why[position]))
            mined.chosen[turn[0].value] += 1
    return mined


class _Chooser:
    """Chooses answers one after the other, each unlike the ones before."""

    def __init__(self, answers: Sequence[TrafficAnswer], known: Sequence[str]) -> None:
        self.answers = answers
        self._index = GramIndex(answer.question for answer in answers)
        self._nearest = [0.0] * len(answers)
        """Similarity to the nearest question that is known or chosen."""
        for question in known:
            self._count(question)
        self.why = [answer.reasons(self._novelty(at)) for at, answer in enumerate(answers)]

    def _count(self, question: str) -> None:
        for near in self._index.nearest(question, len(self.answers)):
            at = near.position
            self._nearest[at] = max(self._nearest[at], near.similarity)

    def _novelty(self, at: int) -> float:
        near = self._index.nearest(self.answers[at].question, 2)
        others = [each.similarity for each in near if each.position != at]
        return 1.0 - max(self._nearest[at], *others, 0.0)

    def queues(
        self, reasons: frozenset[MineReason], slices: Mapping[str, set[int]]
    ) -> dict[Turn, dict[int, float]]:
        """Return the candidates of each turn, with their weights; none that has no candidate."""
        queues: dict[Turn, dict[int, float]] = {}
        for reason in MineReason:
            if reason not in reasons:
                continue
            members = {at: why[reason] for at, why in enumerate(self.why) if reason in why}
            queues[reason, ""] = members
            for name, within in slices.items() if reason is MineReason.WORST else ():
                queues[reason, name] = {at: w for at, w in members.items() if at in within}
        return {turn: members for turn, members in queues.items() if members}

    def best(self, members: dict[int, float]) -> int | None:
        """Return the best of them by marginal relevance, which is then chosen; None: none is left.

        What is the same question as one that is chosen or known leaves the members.
        """
        for at in [at for at in members if self._nearest[at] >= SAME_FROM]:
            del members[at]
        if not members:
            return None
        best = max(members, key=lambda at: LAMBDA * members[at] - (1 - LAMBDA) * self._nearest[at])
        del members[best]
        self._count(self.answers[best].question)
        return best


def _slices(answers: Sequence[TrafficAnswer], by: Sequence[str]) -> dict[str, set[int]]:
    members: dict[str, set[int]] = {}
    for at, answer in enumerate(answers):
        for name, value in answer.attributes.items():
            if not by or name in by:
                members.setdefault(f"{name}={value}", set()).add(at)
    ranked = sorted(members, key=lambda name: -len(members[name]))
    return {name: members[name] for name in ranked[:MAX_SLICES]}


def candidate(answer: TrafficAnswer, why: Mapping[MineReason, float]) -> Golden:
    """Return a candidate; its answer is the application's own, for a person to put right."""
    reasons = ", ".join(f"{reason.value} {weight:.2f}" for reason, weight in why.items())
    # A report may hold half of a character, which no other file can.
    return Golden(
        question=encodable(answer.question),
        answer=encodable(answer.answer),
        chunks=tuple(
            ReferenceChunk(
                text=encodable(each.text), id=encodable(each.id), source=encodable(each.source)
            )
            for each in answer.chunks
        ),
        kind=GoldenKind.SINGLE_FACT,
        attributes={encodable(name): encodable(v) for name, v in answer.attributes.items()},
        source=f"{MINED}:{','.join(reason.value for reason in why)}",
        interaction_id=encodable(answer.id),
        comment=reasons,
    )
