"""Chooses answers of live traffic that a person should make golden questions of.

An answer is a candidate for one or more reasons, each with a weight from 0 to 1. Reasons take
turns; in its turn each takes the candidate with the largest maximal marginal relevance,
`lambda * weight - (1 - lambda) * (largest similarity to what is chosen or known)`: Carbonell and
Goldstein, "The Use of MMR, Diversity-Based Reranking" (SIGIR 1998), with similarities of
`GramIndex`.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, get_args

from ragmonitor.goldens.golden import MINED, Golden, ReferenceChunk
from ragmonitor.goldens.gram_index import GramIndex
from ragmonitor.records import Cause, is_builtin
from ragmonitor.runtime.feedback import joining_id
from ragmonitor.runtime.printable import encodable

LAMBDA: Final = 0.7
"""Weight of the reason against that of being unlike what is chosen already."""
BAD_FROM: Final = 0.5
SAME_FROM: Final = 0.97
"""Cosine of two questions' pieces of words from which on they are the same question."""
_UNANSWERED: Final = frozenset({Cause.REFUSAL.value, Cause.NO_ANSWER.value})


MineReason = Literal[
    "worst",  # a judge found it bad
    "disagreement",  # two judges say opposite things of it
    "unanswered",  # the application declined, failed, or said nothing
    "thumbs_down",  # a person found it bad
]
"""Why an answer of the traffic should become a golden question."""


@dataclass(slots=True, kw_only=True)
class TrafficAnswer:
    """One answer, as the reports of all judges have it."""

    id: str
    question: str = ""
    answer: str = ""
    chunks: tuple[ReferenceChunk, ...] = ()
    verdicts: dict[str, float] = field(default_factory=dict)
    """The badness of the answer by each judge, 0 to 1."""
    is_unanswered: bool = False
    feedback: float = 1.0
    """The worst that a person said, 0 (bad) to 1 (good)."""

    def reasons(self) -> dict[MineReason, float]:
        """Return the reasons for it, with their weights."""
        sampled = [bad for judge, bad in self.verdicts.items() if not is_builtin(judge)]
        verdicts = self.verdicts.values()
        weights: dict[MineReason, float] = {
            "worst": max(sampled or verdicts, default=0.0),
            "disagreement": max(verdicts, default=0.0) - min(verdicts, default=0.0),
            "unanswered": float(self.is_unanswered),
            "thumbs_down": 1.0 - self.feedback,
        }
        return {reason: weight for reason, weight in weights.items() if weight >= BAD_FROM}


@dataclass(slots=True, kw_only=True)
class Traffic:
    """Answers, as reports tell of them."""

    answers: dict[str, TrafficAnswer] = field(default_factory=dict)
    """The answers by id."""
    without_text: int = 0
    """Answers of which the monitor's setting `content` lets no text be seen."""
    bad_lines: int = 0


def read_reports(lines: Iterable[bytes], *, redact: Callable[[str], str]) -> Traffic:
    """Return the answers of a file of reports, as the exporter `jsonl` writes it.

    Args:
        lines: Of the file.
        redact: Rewrites each text that is kept.
    """
    traffic = Traffic()
    unseen: set[str] = set()
    for raw in filter(bytes.strip, lines):
        try:
            line = json.loads(raw)
            # Feedback names a UUID without its dashes, as run ids of LangSmith come with them.
            id_ = joining_id(line["id"])
            answer = traffic.answers.setdefault(id_, TrafficAnswer(id=str(line["id"])))
            if isinstance(line.get("feedback"), dict):
                answer.feedback = min(answer.feedback, float(line["feedback"]["score"]))
                continue
            _take_report(answer, line)
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            traffic.bad_lines += 1
            continue
        if line.get("content", "all") != "all" or not isinstance(line.get("question"), str):
            unseen.add(answer.id)
        elif not answer.question:
            # A report may hold half of a character, which no other file can.
            answer.question = encodable(redact(line["question"]))
            answer.answer = encodable(redact(str(line.get("answer") or "")))
            texts = (encodable(redact(str(text))) for text in line.get("contexts") or ())
            answer.chunks = tuple(ReferenceChunk(text=text) for text in texts)
    traffic.without_text = len(unseen)
    return traffic


def _take_report(answer: TrafficAnswer, line: Mapping[str, Any]) -> None:
    outcomes: Mapping[str, Any] = line["evaluations"]
    scores = {name: each["score"] for name, each in outcomes.items() if "score" in each}
    causes = {each.get("unscored") for each in outcomes.values()}
    if "hallucination" in scores or "faithfulness" in scores:
        judge = str(line["judge"]).partition("@")[0]
        answer.verdicts[judge] = _badness(scores, line.get("risk"))
    refused = line.get("diagnosis") in ("refusal", "wrong_refusal") or bool(_UNANSWERED & causes)
    answer.is_unanswered |= refused or line.get("status") == "error"


def _badness(scores: Mapping[str, Any], risk: object) -> float:
    """Return how bad an answer is by one report: hallucinated, unfaithful, or beside the point."""
    bad = max(
        float(scores.get("hallucination") or 0.0),
        1.0 - float(scores.get("faithfulness", 1.0)),
        0.4 * (1.0 - float(scores.get("answer_relevancy", 1.0))),
    )
    # The built-in judge's yes or no is rough: its risk says how sure it is.
    return bad * (1.0 + risk) / 2 if isinstance(risk, int | float) else bad


def mine(
    traffic: Traffic, n: int, *, known: Iterable[Golden] = ()
) -> tuple[list[Golden], Counter[str]]:
    """Return at most `n` candidates, diverse and none like a question that is known.

    Beside them stands how many answers there were by reason, before any was chosen; one may have
    several reasons.

    Args:
        traffic: The answers.
        n: How many.
        known: Golden questions that there are already.
    """
    answers = [answer for answer in traffic.answers.values() if answer.question.strip()]
    index = GramIndex(answer.question for answer in answers)
    nearest = [0.0] * len(answers)  # similarity to the nearest question that is known or chosen

    def count(question: str) -> None:
        for at, similarity in index.nearest(question, len(answers)):
            nearest[at] = max(nearest[at], similarity)

    for golden in known:
        count(golden.question)
    why = [answer.reasons() for answer in answers]
    queues = {
        reason: {at: reasons[reason] for at, reasons in enumerate(why) if reason in reasons}
        for reason in get_args(MineReason)
    }
    found = Counter({reason: len(each) for reason, each in queues.items()})
    mined: list[Golden] = []
    while any(queues.values()) and len(mined) < n:
        for members in queues.values():
            for at in [at for at in members if nearest[at] >= SAME_FROM]:
                del members[at]
            if members and len(mined) < n:
                best = max(members, key=lambda x: LAMBDA * members[x] - (1 - LAMBDA) * nearest[x])
                del members[best]
                count(answers[best].question)
                mined.append(_candidate(answers[best], why[best]))
    return mined, found


def _candidate(answer: TrafficAnswer, why: Mapping[MineReason, float]) -> Golden:
    """Return a candidate; its answer is the application's own, for a person to put right."""
    return Golden(
        question=answer.question,
        answer=answer.answer,
        chunks=answer.chunks,
        source=f"{MINED}:{','.join(why)}",
        interaction_id=encodable(answer.id),
        comment=", ".join(f"{reason} {weight:.2f}" for reason, weight in why.items()),
    )
