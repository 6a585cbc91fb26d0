"""The worst answers of late, in bounded memory: what a judge has read first."""

from __future__ import annotations

import hashlib
import math
import re
from collections import OrderedDict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from ragmonitor.export.texts import Content, ContentPolicy, compact_json, is_unsupported
from ragmonitor.records import (
    Cause,
    Diagnosis,
    Evaluation,
    Interaction,
    Report,
    Scored,
    SentenceVerdict,
    Unscored,
    evaluator_name,
)

Basis = Literal["judged", "builtin", "unread"]
"""Who found it bad: a judge; the built-in judge alone; nobody, since it could not be read."""

KEPT: Final[dict[Basis, int]] = {"judged": 120, "builtin": 60, "unread": 20}
BYTES_MOST: Final = 4_000_000
"""Of all that are kept together, as JSON."""
BAD_FROM: Final = 0.15
HALF_LIFE_S: Final = 3_600.0
"""An answer that is twice as bad is kept as long as one that came this much later."""
RECENT_MOST: Final = 500
"""Of how many answers the built-in judge's scores are remembered, for a judge that comes later."""

QUESTION_MOST: Final = 1_000
ANSWER_MOST: Final = 6_000
SENTENCE_MOST: Final = 1_500
CHUNKS_MOST: Final = 6
CHUNK_MOST: Final = 2_000
WORDS_MOST: Final = 40
LABELS_MOST: Final = 12
LABEL_MOST: Final = 120
ID_MOST: Final = 200

_BADNESS: Final = {
    Diagnosis.CONTRADICTION: 0.9,
    Diagnosis.RETRIEVAL_MISS: 0.8,
    Diagnosis.IGNORED_CONTEXT: 0.8,
    Diagnosis.WRONG_REFUSAL: 0.7,
    Diagnosis.UNSUPPORTED_ADDITION: 0.6,
    Diagnosis.OFF_TOPIC: 0.6,
    Diagnosis.REFUSAL: 0.2,
}
_TOKEN: Final = re.compile(r"[a-z0-9_]*[0-9][a-z0-9_]*|[a-z_]{4,}|[\u3400-\u9fff]")
_PASSAGE: Final = re.compile(r"[^\n.!?。！？]+(?:[.!?。！？](?!\s)[^\n.!?。！？]*)*[.!?。！？]*")
_PASSAGES_WITHIN: Final = 8_000
"""Characters of a chunk that are looked through."""
_SHARED_LEAST: Final = 3
_SHARED_SHARE: Final = 0.3
"""Of a passage's words. Below these two, what words have in common is chance."""
_SCORES_COUNT: Final = 0.4
"""A low score alone is less than a claim that nothing bears out."""
_FAILURES: Final = frozenset(
    (
        Cause.APPLICATION_ERROR,
        Cause.CAPTURE_INCOMPLETE,
        Cause.EVALUATOR_ERROR,
        Cause.EVIDENCE_TOO_LONG,
        Cause.JUDGE_DOWN,
        Cause.JUDGE_ERROR,
        Cause.JUDGE_TIMEOUT,
        Cause.PARTIAL,
        Cause.TOO_LONG,
        Cause.UNREADABLE,
    )
)


@dataclass(slots=True, kw_only=True)
class Kept:
    """One answer, ready to be sent."""

    number: int
    interaction: str
    basis: Basis
    rank: float
    revision: int
    same: bytes
    """Equal for equal questions and answers."""
    times: int
    """How often it was given since it is kept."""
    data: bytes
    """A JSON object."""


class Answers:
    """Keeps the worst, the newer the likelier."""

    def __init__(
        self,
        *,
        builtin: str,
        content: Content,
        lower_is_better: Collection[str] = (),
        bytes_most: int = BYTES_MOST,
    ) -> None:
        """Keep nothing yet.

        Args:
            builtin: Name of the judge that reads every answer.
            content: Whether texts may be kept at all.
            lower_is_better: Evaluators whose 1 is bad.
            bytes_most: Of all that are kept together.
        """
        self._builtin = builtin
        self._content: Content = content
        self._lower_is_better = frozenset(lower_is_better)
        self._bytes_most = bytes_most
        self._kept: dict[int, Kept] = {}
        self._by_interaction: dict[str, Kept] = {}
        self._recent: OrderedDict[str, list[dict[str, Any]]] = OrderedDict()
        self._bytes = 0
        self._last = 0

    def __len__(self) -> int:
        """Return how many are kept."""
        return len(self._kept)

    @property
    def size_bytes(self) -> int:
        """What they take as JSON."""
        return self._bytes

    def add(self, report: Report, *, revision: int) -> bool:
        """Take in a report; return whether anything that is kept has changed."""
        if report.judge.name == self._builtin:
            return self._add_builtin(report, revision)
        if report.assessment is None:
            return self._add_unread(report, revision)
        return self._add_judged(report, revision)

    def numbers(self) -> list[int]:
        """Return the numbers of all that are kept, the best reason to look first."""
        order = {"judged": 0, "builtin": 1, "unread": 2}
        found = sorted(self._kept.values(), key=lambda kept: (order[kept.basis], -kept.rank))
        return [kept.number for kept in found]

    def since(self, revision: int, most: int) -> tuple[list[bytes], int | None]:
        """Return what is newer than a revision as JSON, and up to which, if not all."""
        newer = sorted(
            (kept for kept in self._kept.values() if kept.revision > revision),
            key=lambda kept: kept.revision,
        )
        upto = newer[most - 1].revision if len(newer) > most else None
        return [kept.data for kept in newer[:most]], upto

    # --- by what is known of it -----------------------------------------------------------------

    def _add_builtin(self, report: Report, revision: int) -> bool:
        interaction = report.interaction
        self._recent[interaction.id] = list(map(self._evaluation, report.evaluations))
        while len(self._recent) > RECENT_MOST:
            self._recent.popitem(last=False)
        if report.assessment is None:
            cause = _cause(report)
            if cause in _FAILURES:
                return self._keep(report, "unread", 1.0, revision, cause=cause)
            return False
        badness = self._badness(report)
        risk = report.assessment.risk
        if risk is not None:
            badness *= (1 + risk) / 2
        return badness >= BAD_FROM and self._keep(report, "builtin", badness, revision)

    def _add_unread(self, report: Report, revision: int) -> bool:
        cause = _cause(report)
        known = self._by_interaction.get(report.interaction.id)
        if known is not None:
            if known.basis != "builtin" or cause is None or b'"judge_cause"' in known.data:
                return False
            self._bytes -= len(known.data)
            # In place of parsing it: it ends the object, and the name stands in it nowhere else.
            known.data = known.data[:-1] + f',"judge_cause":"{cause.value}"}}'.encode()
            self._bytes += len(known.data)
            known.revision = revision
            return True
        if cause not in _FAILURES:
            return False
        return self._keep(report, "unread", 1.0, revision, cause=cause)

    def _add_judged(self, report: Report, revision: int) -> bool:
        known = self._by_interaction.get(report.interaction.id)
        if known is not None and known.basis == "judged":
            return False  # by the first judge: a second one is there to be compared with it
        if known is not None:
            self._drop(known)
        badness = self._badness(report)
        kept = badness >= BAD_FROM and self._keep(report, "judged", badness, revision)
        return kept or known is not None

    def _badness(self, report: Report) -> float:
        """Return how bad an answer is, 0 to 1."""
        assessment = report.assessment
        claims = (assessment.claims if assessment is not None else None) or ()
        badness = _BADNESS.get(report.diagnosis, 0.0) if report.diagnosis is not None else 0.0
        if assessment is not None and assessment.hallucinated:
            badness = max(badness, 0.5 + 0.5 * sum(map(is_unsupported, claims)) / len(claims))
        for evaluation in report.evaluations:
            if isinstance(evaluation, Scored):
                lower = evaluator_name(evaluation.evaluator) in self._lower_is_better
                lost = evaluation.score if lower else 1 - evaluation.score
                badness = max(badness, _SCORES_COUNT * lost)
        return min(1.0, badness)

    # --- keeping --------------------------------------------------------------------------------

    def _keep(
        self,
        report: Report,
        basis: Basis,
        badness: float,
        revision: int,
        *,
        cause: Cause | None = None,
    ) -> bool:
        interaction = report.interaction
        known = self._by_interaction.get(interaction.id)
        if known is not None:
            self._drop(known)
        same = _digest(interaction)
        equal = next((k for k in self._kept.values() if k.basis == basis and k.same == same), None)
        if equal is not None:  # the list is of different answers: the newest stands for all
            self._drop(equal)
        rank = math.log2(max(badness, 1e-3)) + interaction.ended_ns / 1e9 / HALF_LIFE_S
        rivals = [kept for kept in self._kept.values() if kept.basis == basis]
        if len(rivals) >= KEPT[basis]:
            least = min(rivals, key=lambda kept: kept.rank)
            if least.rank >= rank:
                return known is not None or equal is not None
            self._drop(least)
        self._last += 1
        times = 1 + (0 if equal is None else equal.times)
        told = self._told(report, basis, badness, cause) | {"times": times}
        # What UTF-8 cannot hold, a lone surrogate, is written as JSON's own escape for it.
        data = compact_json(told).encode("utf-8", "backslashreplace")
        kept = Kept(
            number=self._last,
            interaction=interaction.id,
            basis=basis,
            rank=rank,
            revision=revision,
            same=same,
            times=times,
            data=data,
        )
        self._kept[kept.number] = self._by_interaction[interaction.id] = kept
        self._bytes += len(data)
        while self._bytes > self._bytes_most and self._kept:
            self._drop(
                min(self._kept.values(), key=lambda each: (each.basis == "judged", each.rank))
            )
        return True

    def _drop(self, kept: Kept) -> None:
        del self._kept[kept.number]
        self._by_interaction.pop(kept.interaction, None)
        self._bytes -= len(kept.data)

    def _told(
        self, report: Report, basis: Basis, badness: float, cause: Cause | None
    ) -> dict[str, Any]:
        interaction, assessment = report.interaction, report.assessment
        shows = self._content == "all"
        disclosed = ContentPolicy(content="all" if shows else "none")
        sentences = (assessment.sentences if assessment is not None else None) or ()
        told: dict[str, Any] = {
            "number": self._last,
            "id": interaction.id[:ID_MOST],
            "at_s": round(interaction.ended_ns / 1e9, 3),
            "framework": interaction.framework[:LABEL_MOST],
            "name": interaction.name[:LABEL_MOST],
            "status": interaction.status,
            "error": disclosed.error(interaction.error)[:LABEL_MOST],
            "attributes": {
                str(name)[:LABEL_MOST]: str(value)[:LABEL_MOST]
                for name, value in list(interaction.attributes.items())[:LABELS_MOST]
            },
            "latency_s": round(interaction.latency_s, 3),
            "basis": basis,
            "judge": report.judge.name[:LABEL_MOST],
            "cause": None if cause is None else cause.value,
            "diagnosis": None if report.diagnosis is None else report.diagnosis.value,
            "badness": round(badness, 3),
            "evaluations": list(map(self._evaluation, report.evaluations)),
            "trace_id": "" if report.target is None else report.target.trace_id,
            "span_id": "" if report.target is None else report.target.span_id,
            "chunks_found": len(interaction.chunks),
            "chunks": _chunks(interaction, sentences, report, shows=shows),
        }
        if basis == "judged":
            told["builtin"] = self._recent.get(interaction.id, [])
        if shows:
            told["question"] = _cut(interaction.query, QUESTION_MOST)
            told["answer"] = marked(interaction.answer, sentences)
        else:
            told["verdicts"] = [
                {"verdict": each.verdict.value, "reasons": disclosed.reasons(each)}
                for each in sentences[:100]
            ]
        return told

    def _evaluation(self, evaluation: Evaluation) -> dict[str, Any]:
        told: dict[str, Any] = {"evaluator": evaluator_name(evaluation.evaluator)[:LABEL_MOST]}
        if isinstance(evaluation, Scored):
            return told | {"score": round(evaluation.score, 4)}
        return told | {"cause": evaluation.cause.value}


def _cause(report: Report) -> Cause | None:
    return next((e.cause for e in report.evaluations if isinstance(e, Unscored)), None)


def _digest(interaction: Interaction) -> bytes:
    text = f"{interaction.status} {len(interaction.query)} {interaction.query}{interaction.answer}"
    return hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=16).digest()


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"


def _chunks(
    interaction: Interaction,
    sentences: Iterable[SentenceVerdict],
    report: Report,
    *,
    shows: bool,
) -> list[dict[str, Any]]:
    """Return the chunks that belong beside the answer.

    First those that bad sentences speak of, then those that others rest on, then by relevance.
    """
    relevance = (report.assessment.chunk_relevance if report.assessment is not None else None) or ()
    order: dict[int, None] = {}
    for wanted in (True, False):
        for sentence in sentences:
            if is_unsupported(sentence) == wanted:
                order.update(dict.fromkeys(sentence.chunks))
    rest = range(len(interaction.chunks))
    order.update(
        dict.fromkeys(sorted(rest, key=lambda p: -relevance[p] if p < len(relevance) else 0.0))
    )
    found = []
    wrong = [sentence.text for sentence in sentences if is_unsupported(sentence)][:10]
    for position in [p for p in order if 0 <= p < len(interaction.chunks)][:CHUNKS_MOST]:
        chunk = interaction.chunks[position]
        score = chunk.score
        told: dict[str, Any] = {
            "position": position,
            "id": chunk.id[:ID_MOST],
            "score": None if score is None or not math.isfinite(score) else round(score, 4),
            "relevance": round(relevance[position], 3) if position < len(relevance) else None,
        }
        if shows:
            told["parts"] = closest(chunk.text, wrong)
        found.append(told)
    return found


def closest(text: str, wrong: Iterable[str]) -> list[tuple[str, bool]]:
    """Return a chunk in parts, the passage marked that speaks most of what the answer got wrong.

    A guess by words in common, for the eye only: no score rests on it. What is too long is cut
    around the passage.
    """
    sought = {token for sentence in wrong for token in _tokens(sentence)}
    best, near = 0.0, None
    for match in _PASSAGE.finditer(text[:_PASSAGES_WITHIN]):
        tokens = set(_tokens(match.group()))
        shared = len(tokens & sought)
        # Long passages share words by chance.
        closeness = shared / math.sqrt(max(1.0, len(tokens) / 12))
        if shared < max(_SHARED_LEAST, _SHARED_SHARE * len(tokens)):
            continue
        if closeness > best:
            best, near = closeness, match.span()
    if near is None:
        return [(_cut(text, CHUNK_MOST), False)]
    start = near[0] + len(text[near[0] : near[1]]) - len(text[near[0] : near[1]].lstrip())
    end = min(near[1], start + CHUNK_MOST // 2)
    room = (CHUNK_MOST - (end - start)) // 2
    before, after = text[:start], text[end:]
    if len(before) > room:
        before = "…" + before[-room:]
    found = [(before, False), (text[start:end], True), (_cut(after, room), False)]
    return [(part, marked) for part, marked in found if part]


def _tokens(text: str) -> list[str]:
    return _TOKEN.findall(text.lower())


def marked(answer: str, sentences: Sequence[SentenceVerdict]) -> list[dict[str, Any]]:
    """Return the answer in pieces that together are the answer, each with its verdict.

    A piece without a sentence has no verdict. Of an unsupported sentence `parts` are given in place
    of the text: each with whether these are the words that offend. Where the answer is too long the
    unsupported sentences are kept before others, and `cut` counts the characters left out.
    """
    pieces: list[tuple[str, SentenceVerdict | None]] = []
    reached = 0
    for sentence in sorted(sentences, key=lambda each: each.start):
        start, end = max(reached, sentence.start), min(len(answer), sentence.end)
        if start >= end:
            continue
        if start > reached:
            pieces.append((answer[reached:start], None))
        pieces.append((answer[start:end], sentence))
        reached = end
    if reached < len(answer):
        pieces.append((answer[reached:], None))
    keeps = _within_room(pieces)
    told: list[dict[str, Any]] = []
    for (text, of), kept in zip(pieces, keeps, strict=True):
        if kept:
            told.append(_piece(text[:kept], of))
        if kept < len(text):
            if told and "cut" in told[-1]:
                told[-1]["cut"] += len(text) - kept
            else:
                told.append({"cut": len(text) - kept})
    return told


def _within_room(pieces: Sequence[tuple[str, SentenceVerdict | None]]) -> list[int]:
    """Return how many characters of each piece there is room for."""
    room = ANSWER_MOST
    keeps = [0] * len(pieces)
    for wanted in (True, False):
        for n, (text, of) in enumerate(pieces):
            if (of is not None and is_unsupported(of)) == wanted:
                keeps[n] = min(len(text), room, SENTENCE_MOST)
                room -= keeps[n]
    return keeps


def _piece(text: str, sentence: SentenceVerdict | None) -> dict[str, Any]:
    if sentence is None:
        return {"text": text}
    told: dict[str, Any] = {"verdict": sentence.verdict.value, "chunks": list(sentence.chunks[:10])}
    if not is_unsupported(sentence):
        return told | {"text": text}
    return told | {
        "reasons": list(sentence.reasons),
        "parts": parts(text, sentence.words[:WORDS_MOST]),
    }


def parts(text: str, words: Iterable[str]) -> list[tuple[str, bool]]:
    """Return the text in parts, each with whether it is one of the words."""
    sought = sorted({word for word in words if word.strip()}, key=len, reverse=True)
    if not sought:
        return [(text, False)]
    pattern = re.compile("|".join(map(_whole, sought)))
    found: list[tuple[str, bool]] = []
    reached = 0
    for match in pattern.finditer(text):
        if match.start() > reached:
            found.append((text[reached : match.start()], False))
        found.append((match.group(), True))
        reached = match.end()
    if reached < len(text):
        found.append((text[reached:], False))
    return found


def _whole(word: str) -> str:
    # "3" is not marked within "30"; Chinese has no spaces to go by.
    before = r"(?<![A-Za-z0-9_])" if _is_ascii_word(word[0]) else ""
    after = r"(?![A-Za-z0-9_])" if _is_ascii_word(word[-1]) else ""
    return before + re.escape(word) + after


def _is_ascii_word(character: str) -> bool:
    return character.isascii() and (character.isalnum() or character == "_")
