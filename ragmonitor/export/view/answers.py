"""The worst answers of late and the newest ones, in bounded memory."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal

from ragmonitor.export.content import Content, ContentPolicy, compact_json, is_unsupported
from ragmonitor.records import (
    FAILURES,
    Assessment,
    Cause,
    Diagnosis,
    Evaluation,
    Report,
    Scored,
    SentenceVerdict,
    Unscored,
    evaluator_name,
)
from ragmonitor.runtime.feedback import Feedback, joining_id
from ragmonitor.runtime.patterns import lazy_pattern

Basis = Literal["judged", "builtin", "unscored"]
"""`judged`: the sampled judge scored it; `builtin`: the built-in judge alone; `unscored`: none."""

MAX_WORST: Final = 200
MAX_NEWEST: Final = 100
MAX_CHARACTERS: Final = 2_000_000
"""The characters of all texts that are kept together."""
BAD_FROM: Final = 0.15
HALF_LIFE_S: Final = 3_600.0
"""An answer that is twice as bad is kept as long as one that came this much later."""

MAX_ANSWER: Final = 6_000
MAX_CHUNKS: Final = 6
MAX_TEXT: Final = 2_000
"""The characters of a question, a chunk, or a comment that are shown."""
MAX_WORDS: Final = 40
MAX_LABELS: Final = 12
MAX_LABEL: Final = 200
MAX_KINDS: Final = 4
"""Kinds of feedback that are kept of one answer, the newest of each."""

_BADNESS: Final = {
    Diagnosis.CONTRADICTION: 0.9,
    Diagnosis.RETRIEVAL_MISS: 0.8,
    Diagnosis.IGNORED_CONTEXT: 0.8,
    Diagnosis.WRONG_REFUSAL: 0.7,
    Diagnosis.UNSUPPORTED_ADDITION: 0.6,
    Diagnosis.OFF_TOPIC: 0.6,
    Diagnosis.REFUSAL: 0.1,  # right as far as the chunks tell, so below `BAD_FROM`
}
_TOKEN: Final = lazy_pattern(r"[a-z0-9_]*[0-9][a-z0-9_]*|[a-z_]{4,}|[\u3400-\u9fff]")
_PASSAGE: Final = lazy_pattern(r"[^\n.!?。！？]+(?:[.!?。！？](?!\s)[^\n.!?。！？]*)*[.!?。！？]*")
_PASSAGES_WITHIN: Final = 8_000
"""Characters of a chunk that are looked through."""
_MIN_SHARED: Final = 3
_SHARED_SHARE: Final = 0.3
"""The share of a passage's words. Below these two, what words have in common is chance."""
_SCORES_COUNT: Final = 0.4
"""A low score alone is less than a claim that nothing supports."""
_OF_RETRIEVAL: Final = ("context_", "document_")
"""Begin evaluators that score the chunks: an answer that uses one chunk of four is not bad."""


@dataclass(slots=True, kw_only=True)
class Kept:
    """One answer with its reports."""

    report: Report
    """The sampled judge's, where there is one; without the prompts."""
    basis: Basis
    badness: float
    """0 to 1."""
    same: tuple[str, str]
    """Equal for equal questions and answers of one basis."""
    characters: int
    model: str
    times: int = 1
    """How often the same answer was given to the same question."""
    feedback: dict[str, dict[str, Any]] = field(default_factory=dict)
    rank: tuple[bool, float] = (False, 0.0)
    """Whether it is bad; and what sorts it, the highest first."""

    def __post_init__(self) -> None:
        """Rank it: of two equally bad answers the newer comes first, of others the newest."""
        hours = self.report.interaction.ended_ns / 1e9 / HALF_LIFE_S
        self.rank = False, hours
        if self.badness >= BAD_FROM:
            # What the sampled judge found is kept before what the built-in judge found.
            self.rank = True, math.log2(self.badness) + hours + 2.0 * (self.basis == "judged")


class Answers:
    """Keeps the worst answers, of two equally bad ones the newer; and the newest, good or bad."""

    def __init__(self, *, content: Content, lower_is_better: Collection[str] = ()) -> None:
        """Keep nothing yet.

        Args:
            content: Whether texts may be shown at all.
            lower_is_better: Evaluators whose 1 is bad.
        """
        self._shows = content == "all"
        self._lower_is_better = frozenset(lower_is_better)
        self._kept: dict[str, Kept] = {}
        """By the interaction's id."""
        self._same: dict[tuple[str, str], str] = {}
        """The id of the answer that stands for all equal ones, by question and answer."""
        self.characters = 0
        """The characters of all texts that are kept."""

    def __len__(self) -> int:
        """Return how many are kept."""
        return len(self._kept)

    def add(self, report: Report) -> None:
        """Take in a report: the sampled judge's stands for the built-in judge's."""
        interaction, assessment = report.interaction, report.assessment
        known = self._kept.get(interaction.id)
        basis: Basis = "judged"
        if assessment is None:
            basis = "unscored"
            badness = float(
                _cause(report) in FAILURES
                or interaction.status != "ok"
                or interaction.capture_incomplete
            )
            if report.role != "builtin" and (known is not None or not badness):
                return
        else:
            badness = self._badness(report, assessment)
            if report.role == "builtin":
                basis = "builtin"
                badness *= 1.0 if assessment.risk is None else (1 + assessment.risk) / 2
            elif known is not None and known.basis == "judged":
                return
        self._keep(report, basis, badness)

    def add_feedback(self, told: Feedback) -> None:
        """Keep what a person said beside its answer, if that is kept."""
        kept = next(
            (k for id_, k in self._kept.items() if joining_id(id_) == told.interaction_id), None
        )
        if kept is None:
            return
        shown: dict[str, Any] = {"score": told.score, "label": told.label}
        if self._shows and told.comment:
            shown["comment"] = _cut(told.comment, MAX_TEXT)
        kept.feedback.pop(told.kind, None)
        kept.feedback = dict([*kept.feedback.items(), (told.kind, shown)][-MAX_KINDS:])

    def found(self, *, search: str = "", newest: bool = False) -> list[Kept]:
        """Return the answers that fit, the worst first, or the newest first.

        Args:
            search: A text that is shown of the answer, in any case; empty: any.
            newest: Whether the newest come first.
        """
        wanted = search.strip().casefold()
        found = [each for each in self._kept.values() if not wanted or wanted in self._texts(each)]

        def place(kept: Kept) -> Any:
            return kept.report.interaction.ended_ns if newest else kept.rank

        return sorted(found, key=place, reverse=True)

    def _texts(self, kept: Kept) -> str:
        """Return what a search looks through: what is shown, and each text as a whole."""
        interaction = kept.report.interaction
        texts = [interaction.query, interaction.answer] if self._shows else []
        return "\n".join([compact_json(self.entry(kept)), *texts]).casefold()

    def _badness(self, report: Report, assessment: Assessment) -> float:
        """Return how bad an answer is, 0 to 1."""
        badness = 0.0 if report.diagnosis is None else _BADNESS.get(report.diagnosis, 0.0)
        if assessment.hallucinated:
            badness = max(badness, 0.5 + 0.5 * assessment.finding_share)
        for evaluation in report.evaluations:
            name = evaluator_name(evaluation.evaluator)
            if isinstance(evaluation, Scored) and not name.startswith(_OF_RETRIEVAL):
                lost = evaluation.score if name in self._lower_is_better else 1 - evaluation.score
                badness = max(badness, _SCORES_COUNT * lost)
        return min(1.0, badness)

    # --- keeping --------------------------------------------------------------------------------

    def _keep(self, report: Report, basis: Basis, badness: float) -> None:
        interaction = report.interaction
        known = self._drop(interaction.id)
        same = interaction.query, f"{interaction.status} {basis} {interaction.answer}"
        equal = self._drop(self._same.get(same, ""))  # the newest stands for all equal ones
        texts = (interaction.query, interaction.answer, *(each.text for each in interaction.chunks))
        kept = Kept(
            # The prompts hold the chunks again, and nobody sees them here.
            report=replace(report, interaction=replace(interaction, generations=())),
            basis=basis,
            badness=badness,
            same=same,
            characters=sum(map(len, texts)),
            model=interaction.generations[-1].model if interaction.generations else "",
            times=1 if equal is None else 1 + equal.times,
            feedback={} if known is None else known.feedback,
        )
        self._kept[interaction.id] = kept
        self._same[same] = interaction.id
        self.characters += kept.characters
        self._make_room()

    def _make_room(self) -> None:
        """Keep within the capacities: the least bad of the bad, and the oldest of the others."""
        while self._kept:
            bad = [each for each in self._kept.values() if each.rank[0]]
            if len(bad) > MAX_WORST:
                victims = bad
            elif len(self._kept) - len(bad) > MAX_NEWEST or self.characters > MAX_CHARACTERS:
                victims = list(self._kept.values())
            else:
                return
            self._drop(min(victims, key=lambda kept: kept.rank).report.interaction.id)

    def _drop(self, id_: str) -> Kept | None:
        kept = self._kept.pop(id_, None)
        if kept is not None:
            self.characters -= kept.characters
            self._same.pop(kept.same, None)
        return kept

    # --- showing --------------------------------------------------------------------------------

    def entry(self, kept: Kept) -> dict[str, Any]:
        """Return an answer for JSON, without what may not be shown."""
        report = kept.report
        interaction, sentences = report.interaction, _sentences(report)
        policy = ContentPolicy(content="all" if self._shows else "none")
        cause = _cause(report) if report.assessment is None else None
        entry: dict[str, Any] = {
            "id": interaction.id[:MAX_LABEL],
            "at_s": round(interaction.ended_ns / 1e9, 3),
            "framework": interaction.framework[:MAX_LABEL],
            "name": interaction.name[:MAX_LABEL],
            "status": interaction.status,
            "error": policy.error(interaction.error)[:MAX_LABEL],
            "attributes": {
                str(name)[:MAX_LABEL]: str(value)[:MAX_LABEL]
                for name, value in list(interaction.attributes.items())[:MAX_LABELS]
            },
            "latency_s": round(interaction.latency_s, 3),
            "session": interaction.session_id[:MAX_LABEL],
            "model": kept.model[:MAX_LABEL],
            "tokens": [interaction.usage.input_tokens, interaction.usage.output_tokens],
            "basis": kept.basis,
            "judge": report.judge.name[:MAX_LABEL],
            "cause": None if cause is None else cause.value,
            "diagnosis": None if report.diagnosis is None else report.diagnosis.value,
            "badness": round(kept.badness, 3),
            "bad": kept.rank[0],
            "evaluations": list(map(_evaluation, report.evaluations)),
            "trace_id": "" if report.target is None else report.target.trace_id,
            "chunks_found": len(interaction.chunks),
            "chunks": _chunks(report, shows=self._shows),
            "times": kept.times,
            "feedback": kept.feedback,
        }
        if self._shows:
            entry["question"] = _cut(interaction.query, MAX_TEXT)
            entry["answer"] = marked(interaction.answer, sentences)
        else:
            entry["verdicts"] = list(map(policy.sentence, sentences[:100]))
        return entry


def _sentences(report: Report) -> Sequence[SentenceVerdict]:
    return (report.assessment.sentences if report.assessment is not None else None) or ()


def _evaluation(evaluation: Evaluation) -> dict[str, Any]:
    entry: dict[str, Any] = {"evaluator": evaluator_name(evaluation.evaluator)[:MAX_LABEL]}
    if isinstance(evaluation, Scored):
        return entry | {"score": round(evaluation.score, 4)}
    return entry | {"cause": evaluation.cause.value}


def _cause(report: Report) -> Cause | None:
    return next((e.cause for e in report.evaluations if isinstance(e, Unscored)), None)


def _cut(text: str, length: int) -> str:
    return text if len(text) <= length else text[: length - 1] + "…"


def _chunks(report: Report, *, shows: bool) -> list[dict[str, Any]]:
    """Return the chunks that belong beside the answer.

    First those that bad sentences speak of, then those that others rest on, then the rest.
    """
    chunks, sentences = report.interaction.chunks, _sentences(report)
    relevance = (report.assessment.chunk_relevance if report.assessment is not None else None) or ()
    bad = [sentence for sentence in sentences if is_unsupported(sentence)]
    named = (position for of in (bad, sentences) for each in of for position in each.chunks)
    order = dict.fromkeys((*named, *range(len(chunks))))
    entries = []
    for position in [each for each in order if each < len(chunks)][:MAX_CHUNKS]:
        chunk = chunks[position]
        entry: dict[str, Any] = {
            "position": position,
            "id": chunk.id[:MAX_LABEL],
            "relevance": round(relevance[position], 3) if position < len(relevance) else None,
        }
        if shows:
            entry["parts"] = closest(chunk.text, [sentence.text for sentence in bad[:10]])
            entry["source"] = chunk.source[:MAX_LABEL]
        entries.append(entry)
    return entries


def closest(text: str, wrong: Iterable[str]) -> list[tuple[str, bool]]:
    """Return a chunk in parts, with the passage marked that is closest to the wrong sentences.

    It is a guess by words in common, for the eye only: no score rests on it. A long chunk is cut
    around the passage.
    """
    sought = {token for sentence in wrong for token in _tokens(sentence)}
    best, near = 0.0, None
    for match in _PASSAGE.finditer(text[:_PASSAGES_WITHIN] if sought else ""):
        tokens = set(_tokens(match.group()))
        shared = len(tokens & sought)
        # Long passages share words by chance.
        closeness = shared / math.sqrt(max(1.0, len(tokens) / 12))
        if shared >= max(_MIN_SHARED, _SHARED_SHARE * len(tokens)) and closeness > best:
            best, near = closeness, match
    if near is None:
        return [(_cut(text, MAX_TEXT), False)]
    passage = near.group().strip()[: MAX_TEXT // 2]
    start = text.index(passage, near.start())
    before, after = text[:start], text[start + len(passage) :]
    room = (MAX_TEXT - len(passage)) // 2
    if len(before) > room:
        before = "…" + before[-room:]
    parts = ((before, False), (passage, True), (_cut(after, room), False))
    return [(part, marked) for part, marked in parts if part]


def _tokens(text: str) -> list[str]:
    return _TOKEN.findall(text.lower())


def marked(answer: str, sentences: Sequence[SentenceVerdict]) -> list[dict[str, Any]]:
    """Return the answer in consecutive pieces, each with its verdict.

    A piece without a sentence has no verdict. An unsupported sentence has `parts`, too, each with
    whether it is among the unsupported words. `cut` counts the characters that a
    long answer has beyond the last piece.
    """
    pieces: list[dict[str, Any]] = []
    shown, reached = answer[:MAX_ANSWER], 0
    for sentence in sorted(sentences, key=lambda each: each.start):
        start, end = max(reached, sentence.start), min(len(shown), sentence.end)
        if start < end:
            if reached < start:
                pieces.append({"text": shown[reached:start]})
            text, piece = shown[start:end], ContentPolicy().sentence(sentence)
            if is_unsupported(sentence):
                piece["parts"] = parts(text, sentence.words[:MAX_WORDS])
            pieces.append(piece | {"text": text})
            reached = end
    if reached < len(shown):
        pieces.append({"text": shown[reached:]})
    return pieces if shown == answer else [*pieces, {"cut": len(answer) - len(shown)}]


def parts(text: str, words: Iterable[str]) -> list[tuple[str, bool]]:
    """Return the text in parts, each with whether it is one of the words."""
    # Of two words that begin at one place the longest counts. "3" does not stand within "30", nor
    # "at" in "data"; Chinese has no spaces to go by, so that any place will do.
    choices = [
        rf"(?!\B\w){re.escape(word)}(?<!\w\B)"
        for word in sorted({word for word in words if word.strip()}, key=len, reverse=True)
    ]
    if not choices:
        return [(text, False)]
    split = re.split(f"({'|'.join(choices)})", text, flags=re.ASCII)  # every other part is a word
    return [(part, n % 2 == 1) for n, part in enumerate(split) if part]
