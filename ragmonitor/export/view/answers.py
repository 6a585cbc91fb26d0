"""The worst answers of late and the newest ones, in bounded memory."""

from __future__ import annotations

import hashlib
import json
import math
from collections import OrderedDict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from heapq import heapify, heappop, heapreplace
from operator import attrgetter
from typing import Any, Final, Literal, NamedTuple

from ragmonitor.export.content import Content, ContentPolicy, compact_json, is_unsupported
from ragmonitor.feedback import Feedback, joining_id
from ragmonitor.patterns import lazy_pattern
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

Basis = Literal["judged", "builtin", "unscored"]
"""`judged`: the sampling judge scored it; `builtin`: the built-in judge alone; `unscored`: none."""

Shelf = Literal["judged", "builtin", "unscored", "recent"]
"""The first three hold the worst answers of that basis; `recent`: the newest of all others."""

CAPACITY: Final[dict[Shelf, int]] = {"judged": 120, "builtin": 60, "unscored": 20, "recent": 100}
MAX_BYTES: Final = 4_000_000
"""The bytes of all that are kept together, as JSON."""
CAPACITY_LEFT: Final = 100
"""The number of the worst that are left to a successor."""
MAX_BYTES_LEFT: Final = 1_000_000
BAD_FROM: Final = 0.15
HALF_LIFE_S: Final = 3_600.0
"""An answer that is twice as bad is kept as long as one that came this much later."""
MAX_RECENT: Final = 500
"""Answers whose built-in scores are kept for the sampling judge's report, which comes later."""

MAX_QUESTION: Final = 1_000
MAX_ANSWER: Final = 6_000
MAX_SENTENCE: Final = 1_500
MAX_CHUNKS: Final = 6
MAX_CHUNK: Final = 2_000
MAX_WORDS: Final = 40
MAX_LABELS: Final = 12
MAX_LABEL: Final = 120
MAX_ID: Final = 200
MAX_COMMENT: Final = 500
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
"""A low score alone is less than a claim that nothing bears out."""
_OF_RETRIEVAL: Final = ("context_", "document_")
"""Begin evaluators that score the chunks: an answer that uses one chunk of four is not bad."""
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
class KeptAnswer:
    """One answer, ready to be sent."""

    number: int
    interaction: str
    basis: Basis
    shelf: Shelf
    ended_ns: int
    rank: float
    revision: int
    same: bytes
    """Equal for equal questions and answers."""
    times: int
    """The number of times that it was given since it is kept."""
    data: bytes = b""
    """A JSON object; empty: it is not written yet."""


@dataclass(slots=True, kw_only=True)
class _Unwritten:
    """The reports from which the JSON of a kept answer is written, once somebody asks for it."""

    report: Report
    badness: float
    cause: Cause | None
    builtin: _BuiltinScores | None
    """The report of the built-in judge, where the other report is another's."""
    characters: int
    """The characters of its texts."""
    judge_cause: str = ""
    """Why the sampling judge gave no score, where the report is the built-in judge's."""


class _BuiltinScores(NamedTuple):
    evaluations: Sequence[Evaluation]
    predicted: float | None


class Answers:
    """Keeps the worst answers, of two equally bad ones the newer; and the newest, good or bad."""

    def __init__(
        self,
        *,
        content: Content,
        lower_is_better: Collection[str] = (),
        max_bytes: int = MAX_BYTES,
    ) -> None:
        """Keep nothing yet.

        Args:
            content: Whether texts may be kept at all.
            lower_is_better: Evaluators whose 1 is bad.
            max_bytes: Of all that are kept together.
        """
        self._content: Content = content
        self._lower_is_better = frozenset(lower_is_better)
        self._max_bytes = max_bytes
        self._kept: dict[int, KeptAnswer] = {}
        self._by_interaction: dict[str, KeptAnswer] = {}
        self._by_text: dict[tuple[Basis, bytes], KeptAnswer] = {}
        self._shelves: dict[Shelf, dict[int, KeptAnswer]] = {name: {} for name in CAPACITY}
        self._recent: OrderedDict[str, _BuiltinScores] = OrderedDict()
        """The additions of the built-in judge's report to another judge's, of newer answers."""
        self._unwritten: dict[int, _Unwritten] = {}
        """The answers by number. Most answers make way for others before anybody asks for them."""
        self._unwritten_characters = 0
        self._size_bytes = 0
        self._last = 0

    def __len__(self) -> int:
        """Return how many are kept."""
        self._write_all()
        return len(self._kept)

    @property
    def size_bytes(self) -> int:
        """The bytes that they take as JSON."""
        self._write_all()
        return self._size_bytes

    def add(self, report: Report, *, revision: int) -> bool:
        """Take in a report; return whether anything that is kept has changed."""
        if report.role == "builtin":
            return self._add_builtin(report, revision)
        if report.assessment is None:
            return self._add_unscored(report, revision)
        return self._add_judged(report, revision)

    def add_feedback(self, told: Feedback, *, revision: int) -> bool:
        """Keep what a person said beside its answer; return whether that is kept."""
        kept = next(
            (k for k in self._kept.values() if joining_id(k.interaction) == told.interaction_id),
            None,
        )
        if kept is None:
            return False
        label = told.shown_label(lambda text: text if self._content == "all" else "")
        shown: dict[str, Any] = {"score": told.score, "label": label}
        if self._content == "all" and told.comment:
            shown["comment"] = _cut(told.comment, MAX_COMMENT)
        known = json.loads(self._data_of(kept)).get("feedback", {})
        known.pop(told.kind, None)
        latest = dict([*known.items(), (told.kind, shown)][-MAX_KINDS:])
        self._note(kept, "feedback", latest, revision)
        return True

    def _note(self, kept: KeptAnswer, name: str, value: object, revision: int) -> None:
        """Say something more of an answer that is kept."""
        self._set_data(kept, json.loads(self._data_of(kept)) | {name: value})
        kept.revision = revision

    def worst(self, since_s: float) -> list[KeptAnswer]:
        """Return the worst answers since then for a successor, the worst first.

        At most `CAPACITY_LEFT` of them, which take `MAX_BYTES_LEFT` at most.
        """
        self._write_all()
        found: list[KeptAnswer] = []
        room = MAX_BYTES_LEFT
        for kept in sorted(self._kept.values(), key=_worth, reverse=True):
            if kept.shelf != "recent" and kept.ended_ns >= since_s * 1e9:
                room -= len(kept.data)
                if room < 0 or len(found) == CAPACITY_LEFT:
                    break
                found.append(kept)
        return found

    def restore(self, kept: Sequence[KeptAnswer], *, revision: int) -> None:
        """Keep what `worst` returned in another process."""
        for each in reversed(kept):
            self._last += 1
            restored = replace(each, number=self._last, revision=revision, data=b"")
            self._put(restored)
            self._set_data(restored, json.loads(each.data) | {"number": self._last})

    def numbers(self) -> list[int]:
        """Return the numbers of all kept answers: the worst of each basis, then the newest."""
        self._write_all()
        order = {"judged": 0, "builtin": 1, "unscored": 2, "recent": 3}

        def place(kept: KeptAnswer) -> tuple[int, float]:
            return order[kept.shelf], -(kept.ended_ns if kept.shelf == "recent" else kept.rank)

        return [kept.number for kept in sorted(self._kept.values(), key=place)]

    def since(self, revision: int, max_answers: int) -> tuple[list[bytes], int | None]:
        """Return the answers after a revision as JSON.

        The number is the last one's revision if there are more; None: these are all.
        """
        self._write_all()
        newer = sorted(
            (kept for kept in self._kept.values() if kept.revision > revision),
            key=lambda kept: kept.revision,
        )
        upto = newer[max_answers - 1].revision if len(newer) > max_answers else None
        return [kept.data for kept in newer[:max_answers]], upto

    # --- by basis -----------------------------------------------------------------

    def _add_builtin(self, report: Report, revision: int) -> bool:
        interaction = report.interaction
        self._recent[interaction.id] = _BuiltinScores(report.evaluations, report.predicted)
        while len(self._recent) > MAX_RECENT:
            self._recent.popitem(last=False)
        if report.assessment is None:
            cause = _cause(report)
            return self._keep(report, "unscored", float(cause in _FAILURES), revision, cause=cause)
        badness = self._badness(report)
        risk = report.assessment.risk
        if risk is not None:
            badness *= (1 + risk) / 2
        return self._keep(report, "builtin", badness, revision)

    def _add_unscored(self, report: Report, revision: int) -> bool:
        cause = _cause(report)
        known = self._by_interaction.get(report.interaction.id)
        failed = cause in _FAILURES
        if known is not None and not (
            failed and (known.basis, known.shelf) == ("builtin", "recent")
        ):
            if known.basis != "builtin" or cause is None:
                return False
            unwritten = self._unwritten.get(known.number)
            if unwritten is not None:
                if unwritten.judge_cause:
                    return False
                unwritten.judge_cause = cause.value
            elif b'"judge_cause"' in known.data:  # the name stands in it nowhere else
                return False
            else:
                self._set_data(known, json.loads(known.data) | {"judge_cause": cause.value})
            known.revision = revision
            return True
        if not failed:
            return False
        return self._keep(report, "unscored", 1.0, revision, cause=cause)

    def _add_judged(self, report: Report, revision: int) -> bool:
        known = self._by_interaction.get(report.interaction.id)
        if known is not None and known.basis == "judged":
            return False
        return self._keep(report, "judged", self._badness(report), revision)

    def _badness(self, report: Report) -> float:
        """Return how bad an answer is, 0 to 1."""
        assessment = report.assessment
        badness = _BADNESS.get(report.diagnosis, 0.0) if report.diagnosis is not None else 0.0
        if assessment is not None and assessment.hallucinated:
            badness = max(badness, 0.5 + 0.5 * assessment.finding_share)
        for evaluation in report.evaluations:
            name = evaluator_name(evaluation.evaluator)
            if isinstance(evaluation, Scored) and not name.startswith(_OF_RETRIEVAL):
                lost = evaluation.score if name in self._lower_is_better else 1 - evaluation.score
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
        equal = self._by_text.get((basis, same))
        if equal is not None:  # the list is of different answers: the newest stands for all
            self._drop(equal)
        self._last += 1
        kept = KeptAnswer(
            number=self._last,
            interaction=interaction.id,
            basis=basis,
            shelf=basis if badness >= BAD_FROM else "recent",
            ended_ns=interaction.ended_ns,
            rank=math.log2(max(badness, 1e-3)) + interaction.ended_ns / 1e9 / HALF_LIFE_S,
            revision=revision,
            same=same,
            times=1 + (0 if equal is None else equal.times),
        )
        self._put(kept)
        self._write_later(kept, report, badness, cause)
        self._make_room(kept.shelf)
        return known is not None or equal is not None or kept.number in self._kept

    def _put(self, kept: KeptAnswer) -> None:
        self._kept[kept.number] = self._shelves[kept.shelf][kept.number] = kept
        self._by_interaction[kept.interaction] = self._by_text[kept.basis, kept.same] = kept

    def _make_room(self, shelf: Shelf) -> None:
        """Keep within the capacities."""
        recent, rivals = self._shelves["recent"], self._shelves[shelf]
        if shelf != "recent" and len(rivals) > CAPACITY[shelf]:
            least = min(rivals.values(), key=attrgetter("rank", "number"))
            least.shelf = "recent"
            recent[least.number] = rivals.pop(least.number)
        if len(recent) > CAPACITY["recent"]:
            self._drop(min(recent.values(), key=attrgetter("ended_ns", "number")))

    def _drop(self, kept: KeptAnswer) -> None:
        del self._kept[kept.number], self._shelves[kept.shelf][kept.number]
        self._by_interaction.pop(kept.interaction, None)
        if self._by_text.get((kept.basis, kept.same)) is kept:
            del self._by_text[kept.basis, kept.same]
        self._size_bytes -= len(kept.data)
        self._forget_unwritten(kept.number)

    # --- writing --------------------------------------------------------------------------------

    def _write_later(
        self, kept: KeptAnswer, report: Report, badness: float, cause: Cause | None
    ) -> None:
        """Have an answer written when somebody asks, or before the texts that wait are too many."""
        interaction = report.interaction
        unwritten = self._unwritten[kept.number] = _Unwritten(
            report=report,
            badness=badness,
            cause=cause,
            builtin=None if report.role == "builtin" else self._recent.get(interaction.id),
            characters=len(interaction.answer)
            + sum([len(chunk.text) for chunk in interaction.chunks]),
        )
        self._unwritten_characters += unwritten.characters
        if self._unwritten_characters > self._max_bytes:
            self._write_all()

    def _forget_unwritten(self, number: int) -> _Unwritten | None:
        unwritten = self._unwritten.pop(number, None)
        if unwritten is not None:
            self._unwritten_characters -= unwritten.characters
        return unwritten

    def _data_of(self, kept: KeptAnswer) -> bytes:
        """Return an answer's JSON, and write it if it is not written yet."""
        unwritten = self._forget_unwritten(kept.number)
        if unwritten is not None:
            self._set_data(kept, self._entry(kept, unwritten))
        return kept.data

    def _set_data(self, kept: KeptAnswer, entry: dict[str, Any]) -> None:
        self._size_bytes -= len(kept.data)
        # What UTF-8 cannot hold, a lone surrogate, is written as JSON's own escape for it.
        kept.data = compact_json(entry).encode("utf-8", "backslashreplace")
        self._size_bytes += len(kept.data)

    def _write_all(self) -> None:
        """Write what is not written yet, and keep within the bytes: at least what is judged bad."""
        for number in list(self._unwritten):
            self._data_of(self._kept[number])
        while self._size_bytes > self._max_bytes and self._kept:
            self._drop(min(self._kept.values(), key=_worth))

    def _entry(self, kept: KeptAnswer, unwritten: _Unwritten) -> dict[str, Any]:
        report, badness, cause = unwritten.report, unwritten.badness, unwritten.cause
        interaction, assessment = report.interaction, report.assessment
        shows = self._content == "all"
        policy = ContentPolicy(content="all" if shows else "none")
        sentences = (assessment.sentences if assessment is not None else None) or ()
        entry: dict[str, Any] = {
            "number": kept.number,
            "id": interaction.id[:MAX_ID],
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
            "model": interaction.generations[-1].model[:MAX_LABEL]
            if interaction.generations
            else "",
            "tokens": [interaction.usage.input_tokens, interaction.usage.output_tokens],
            "basis": kept.basis,
            "judge": report.judge.name[:MAX_LABEL],
            "cause": None if cause is None else cause.value,
            "diagnosis": None if report.diagnosis is None else report.diagnosis.value,
            "badness": round(badness, 3),
            "bad": badness >= BAD_FROM,
            "answered_without_chunks": answered_without_chunks(report),
            "evaluations": list(map(self._evaluation, report.evaluations)),
            "trace_id": "" if report.target is None else report.target.trace_id,
            "span_id": "" if report.target is None else report.target.span_id,
            "chunks_found": len(interaction.chunks),
            "chunks": _chunks(interaction, sentences, report, shows=shows),
            "predicted": report.predicted,
        }
        if report.role != "builtin":
            found = unwritten.builtin
            entry["builtin"] = [] if found is None else list(map(self._evaluation, found[0]))
            if found is not None:
                entry["predicted"] = found.predicted
        if entry["predicted"] is not None:
            entry["predicted"] = round(entry["predicted"], 4)
        if shows:
            entry["question"] = _cut(interaction.query, MAX_QUESTION)
            entry["answer"] = marked(interaction.answer, sentences)
        else:
            entry["verdicts"] = [
                {
                    "verdict": each.verdict.value,
                    "severity": each.finding,
                    "reasons": policy.reasons(each),
                }
                for each in sentences[:100]
            ]
        entry["times"] = kept.times
        if unwritten.judge_cause:
            entry["judge_cause"] = unwritten.judge_cause
        return entry

    def _evaluation(self, evaluation: Evaluation) -> dict[str, Any]:
        entry: dict[str, Any] = {"evaluator": evaluator_name(evaluation.evaluator)[:MAX_LABEL]}
        if isinstance(evaluation, Scored):
            return entry | {"score": round(evaluation.score, 4)}
        return entry | {"cause": evaluation.cause.value}


def answered_without_chunks(report: Report) -> bool:
    """Return whether nothing was retrieved, and the answer does not say so by declining."""
    interaction, assessment = report.interaction, report.assessment
    return (
        not interaction.chunks
        and not interaction.capture_incomplete
        and interaction.status == "ok"
        and assessment is not None
        and assessment.evasive is False
    )


def _worth(kept: KeptAnswer) -> tuple[int, float]:
    """Return what is given up first, the lowest: the oldest, then the least bad."""
    if kept.shelf == "recent":
        return 0, kept.ended_ns
    return 1 + (kept.shelf == "judged"), kept.rank


def _cause(report: Report) -> Cause | None:
    return next((e.cause for e in report.evaluations if isinstance(e, Unscored)), None)


def _digest(interaction: Interaction) -> bytes:
    text = f"{interaction.status} {len(interaction.query)} {interaction.query}{interaction.answer}"
    return hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=16).digest()


def _cut(text: str, length: int) -> str:
    return text if len(text) <= length else text[: length - 1] + "…"


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
    entries = []
    wrong = [sentence.text for sentence in sentences if is_unsupported(sentence)][:10]
    for position in [p for p in order if 0 <= p < len(interaction.chunks)][:MAX_CHUNKS]:
        chunk = interaction.chunks[position]
        score = chunk.score
        entry: dict[str, Any] = {
            "position": position,
            "id": chunk.id[:MAX_ID],
            "score": None if score is None or not math.isfinite(score) else round(score, 4),
            "relevance": round(relevance[position], 3) if position < len(relevance) else None,
        }
        if shows:
            entry["parts"] = closest(chunk.text, wrong)
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
        if shared < max(_MIN_SHARED, _SHARED_SHARE * len(tokens)):
            continue
        if closeness > best:
            best, near = closeness, match.span()
    if near is None:
        return [(_cut(text, MAX_CHUNK), False)]
    start = near[0] + len(text[near[0] : near[1]]) - len(text[near[0] : near[1]].lstrip())
    end = min(near[1], start + MAX_CHUNK // 2)
    room = (MAX_CHUNK - (end - start)) // 2
    before, after = text[:start], text[end:]
    if len(before) > room:
        before = "…" + before[-room:]
    parts = ((before, False), (text[start:end], True), (_cut(after, room), False))
    return [(part, marked) for part, marked in parts if part]


def _tokens(text: str) -> list[str]:
    return _TOKEN.findall(text.lower())


def marked(answer: str, sentences: Sequence[SentenceVerdict]) -> list[dict[str, Any]]:
    """Return the answer in consecutive pieces, each with its verdict.

    A piece without a sentence has no verdict. An unsupported sentence has `parts` in place of the
    text, each with whether it is among the unsupported words. Where the answer is too long the
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
    marked_pieces: list[dict[str, Any]] = []
    for (text, of), kept in zip(pieces, keeps, strict=True):
        if kept:
            marked_pieces.append(_piece(text[:kept], of))
        if kept < len(text):
            if marked_pieces and "cut" in marked_pieces[-1]:
                marked_pieces[-1]["cut"] += len(text) - kept
            else:
                marked_pieces.append({"cut": len(text) - kept})
    return marked_pieces


def _within_room(pieces: Sequence[tuple[str, SentenceVerdict | None]]) -> list[int]:
    """Return how many characters of each piece there is room for."""
    room = MAX_ANSWER
    keeps = [0] * len(pieces)
    for wanted in (True, False):
        for n, (text, of) in enumerate(pieces):
            if (of is not None and is_unsupported(of)) == wanted:
                keeps[n] = min(len(text), room, MAX_SENTENCE)
                room -= keeps[n]
    return keeps


def _piece(text: str, sentence: SentenceVerdict | None) -> dict[str, Any]:
    if sentence is None:
        return {"text": text}
    piece: dict[str, Any] = {
        "verdict": sentence.verdict.value,
        "chunks": list(sentence.chunks[:10]),
    }
    if not is_unsupported(sentence):
        return piece | {"text": text}
    return piece | {
        "severity": sentence.finding,
        "reasons": list(sentence.reasons),
        "parts": parts(text, sentence.words[:MAX_WORDS]),
    }


def parts(text: str, words: Iterable[str]) -> list[tuple[str, bool]]:
    """Return the text in parts, each with whether it is one of the words."""
    # Each word's next place, as (place, -length, word): the first one counts, of several the
    # longest. A pattern of all words would be another one for every sentence, and take ten times
    # as long to make as to use.
    places = [
        (place, -len(word), word)
        for word in {word for word in words if word.strip()}
        if (place := _place_of(word, text, 0)) >= 0
    ]
    heapify(places)
    split: list[tuple[str, bool]] = []
    reached = 0
    while places:
        start, _, word = places[0]
        if start >= reached:
            if start > reached:
                split.append((text[reached:start], False))
            split.append((word, True))
            reached = start + len(word)
        following = _place_of(word, text, reached)
        if following < 0:
            heappop(places)
        else:
            heapreplace(places, (following, -len(word), word))
    if reached < len(text):
        split.append((text[reached:], False))
    return split


def _place_of(word: str, text: str, start: int) -> int:
    """Return where a word stands in a text from a place on; -1: nowhere.

    "3" does not stand within "30"; Chinese has no spaces to go by.
    """
    at = text.find(word, start)
    while at >= 0:
        end = at + len(word)
        is_joined = (at > 0 and _is_ascii_word(text[at - 1]) and _is_ascii_word(word[0])) or (
            end < len(text) and _is_ascii_word(text[end]) and _is_ascii_word(word[-1])
        )
        if not is_joined:
            return at
        at = text.find(word, at + 1)
    return -1


def _is_ascii_word(character: str) -> bool:
    return character.isascii() and (character.isalnum() or character == "_")
