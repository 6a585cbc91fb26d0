"""Makes golden questions of documents: a model writes each, and reads it again independently.

A question counts only once it was checked, in calls that see nothing of what the writer meant: with
the chunk and without the reference answer, does the answer follow from it; and does it say the same
as the reference answer. One question in `UNANSWERED_EVERY` is to be unanswerable: its own chunk,
and those of all documents that are written most like the question, must be silent on it.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import count, zip_longest
from typing import Any, Final

from ragmonitor.errors import JudgeError
from ragmonitor.goldens.golden import Golden, GoldenKind, ReferenceChunk
from ragmonitor.goldens.golden_prompts import compare_task, read_task, write_task
from ragmonitor.goldens.gram_index import GramIndex
from ragmonitor.goldens.paid_replies import BudgetSpentError, PaidModel, StoppedError
from ragmonitor.judges import sentences as splitter
from ragmonitor.records import Chunk, Interaction, Language

UNANSWERED_EVERY: Final = 5
DUPLICATE_FROM: Final = 0.9
"""Cosine, of the pieces of words of question and answer together, from which on two are one: a name
is often all that two questions differ in."""
MAX_TRIES: Final = 4
"""For each question that is wanted, at most so many are tried."""
SEARCHED: Final = 6
"""Chunks of all documents, beside its own, that must be silent on an unanswerable question."""


class DropReason(StrEnum):
    """Why a question was not kept."""

    NOTHING_TO_ASK = "nothing_to_ask"
    """The model found nothing of this kind in the chunk."""
    UNREADABLE = "unreadable"
    """A reply of the model had not the fields that were asked for."""
    WRONG_LANGUAGE = "wrong_language"
    DUPLICATE = "duplicate"
    NOT_ANSWERABLE = "not_answerable"
    """Its chunk alone does not answer it."""
    DIFFERENT_ANSWER = "different_answer"
    """The answer that the chunk gives is not the reference answer."""
    ANSWERABLE = "answerable"
    """The documents do answer what was to be unanswerable."""
    JUDGE_FAILED = "judge_failed"
    """The model gave nothing; another run tries again."""


@dataclass(slots=True, kw_only=True)
class Generation:
    """The result of one run, or of a run and those that it went on with."""

    goldens: list[Golden] = field(default_factory=list)
    dropped: list[tuple[GoldenKind, DropReason]] = field(default_factory=list)
    is_budget_spent: bool = False
    failure: str = ""
    """Why it ended early, where the model gave nothing any more."""

    def counts(self) -> dict[str, Counter[str]]:
        """Return by kind how many were kept, under `kept`, and how many dropped, by reason."""
        counts: dict[str, Counter[str]] = {}
        for golden in self.goldens:
            counts.setdefault(golden.kind.value, Counter())["kept"] += 1
        for kind, reason in self.dropped:
            counts.setdefault(kind.value, Counter())[reason.value] += 1
        return counts


class _DroppedError(Exception):
    def __init__(self, reason: DropReason) -> None:
        super().__init__(reason)
        self.reason = reason


async def generate(
    chunks: Sequence[ReferenceChunk],
    n: int,
    model: PaidModel,
    *,
    languages: Sequence[Language] = (),
    seed: int = 1,
    known: Iterable[Golden] = (),
    concurrency: int = 4,
    progressed: Callable[[Generation], None] = lambda _result: None,
) -> Generation:
    """Make questions until there are as many as wanted, or no more can be asked.

    The budget is then spent, the model fails, the tries are used up, or the run is to end
    (`PaidModel.stopping`). The same seed and documents ask the same, so that a run that goes on
    finds its replies.

    Args:
        chunks: Of all documents; not empty.
        n: How many questions are wanted.
        model: Who writes and reads.
        languages: In turn; empty: each question is in its chunk's language.
        seed: Fixes the order of the chunks.
        known: Questions that are there already. One that is made again, by an earlier run's
            replies, counts as made and is not checked again; others that say the same are dropped.
        concurrency: Questions under way at once.
        progressed: Called after each few questions.
    """
    result = Generation()
    maker = _Maker(chunks, model, known)
    order = _in_turn(chunks, seed)
    numbers = iter(range(MAX_TRIES * n))
    while len(result.goldens) < n and not (
        result.is_budget_spent or result.failure or model.stopping.is_set()
    ):
        width = min(concurrency, n - len(result.goldens))
        planned: list[tuple[ReferenceChunk, Language, GoldenKind]] = []
        for number, chunk in zip(numbers, order, strict=False):
            is_answered = (number + 1) % UNANSWERED_EVERY > 0
            language = languages[number % len(languages)] if languages else None
            kind = GoldenKind.SINGLE_FACT if is_answered else GoldenKind.UNANSWERABLE
            planned.append((chunk, language or splitter.language(chunk.text), kind))
            if len(planned) == width:
                break
        if not planned:
            break
        written = await _gathered(maker.written(*each) for each in planned)
        new = [maker.new(each) for each in written]  # in order: a run that goes on decides the same
        checked = await _gathered(
            maker.checked(golden, chunk) for golden, (chunk, _, _) in zip(new, planned, strict=True)
        )
        failures = []
        for (_, _, kind), outcome in zip(planned, checked, strict=True):
            if isinstance(outcome, Golden):
                result.goldens.append(outcome)
            elif isinstance(outcome, _DroppedError):
                result.dropped.append((kind, outcome.reason))
            elif isinstance(outcome, BudgetSpentError):
                result.is_budget_spent = True
            elif isinstance(outcome, JudgeError):
                is_unreadable = outcome.cause.value == "unreadable"
                reason = DropReason.UNREADABLE if is_unreadable else DropReason.JUDGE_FAILED
                result.dropped.append((kind, reason))
                failures += [] if is_unreadable else [outcome.problem]
        if len(failures) == len(planned):
            result.failure = failures[-1]
        progressed(result)
    return result


def _in_turn(chunks: Sequence[ReferenceChunk], seed: int) -> Iterator[ReferenceChunk]:
    """Yield chunks without end: the first of each document before the second of any."""
    draw = random.Random(seed)
    by_document: dict[str, list[ReferenceChunk]] = {}
    for position, chunk in enumerate(chunks):
        by_document.setdefault(chunk.source or str(position), []).append(chunk)
    documents = [*by_document.values()]
    draw.shuffle(documents)
    for document in documents:
        draw.shuffle(document)
    order = [each for turn in zip_longest(*documents) for each in turn if each is not None]
    return (order[at % len(order)] for at in count())


Outcome = Golden | BudgetSpentError | StoppedError | JudgeError | _DroppedError
"""A question as far as it came, or why it is none."""


async def _gathered(steps: Iterable[Any]) -> list[Outcome]:
    async def outcome(step: Any) -> Outcome:
        try:
            made: Golden = await step
        except (BudgetSpentError, StoppedError, JudgeError, _DroppedError) as error:
            return error
        return made

    return await asyncio.gather(*map(outcome, steps))


class _Maker:
    """Writes and checks questions."""

    def __init__(
        self, chunks: Sequence[ReferenceChunk], model: PaidModel, known: Iterable[Golden]
    ) -> None:
        self._chunks = chunks
        self._model = model
        self._near = GramIndex((each.text for each in chunks), by_rarity=True)
        known = [*known]
        self._known = {golden.id for golden in known}
        self._made = GramIndex(map(_text_of, known))
        self._remade: set[str] = set()

    async def written(self, chunk: ReferenceChunk, language: Language, kind: GoldenKind) -> Golden:
        is_answered = kind is GoldenKind.SINGLE_FACT
        task = write_task(language, is_answered=is_answered)
        reply = await self._model.ask(task, _shown(language, chunks=[chunk]))
        question, answer = _text(reply, "question"), _text(reply, "answer")
        if not question:
            raise _DroppedError(DropReason.NOTHING_TO_ASK)
        if is_answered and not answer:
            raise _DroppedError(DropReason.UNREADABLE)
        # A Chinese question may hold many English names.
        has_chinese = any("\u4e00" <= each <= "\u9fff" for each in question)
        if not (has_chinese if language == "zh" else splitter.language(question) == "en"):
            raise _DroppedError(DropReason.WRONG_LANGUAGE)
        return Golden(
            question=question,
            answer=answer if is_answered else "",
            chunks=(chunk,) if is_answered else (),
            kind=kind,
            language=language,
            source=f"generated:{self._model.name}",
        )

    def new(self, outcome: Outcome) -> Outcome:
        """Drop a question that was asked before; one that is new counts as asked."""
        if not isinstance(outcome, Golden):
            return outcome
        if outcome.id in self._known and outcome.id not in self._remade:
            self._remade.add(outcome.id)  # a second time it is a duplicate
            return outcome
        if self._made.similarity(_text_of(outcome)) >= DUPLICATE_FROM:
            return _DroppedError(DropReason.DUPLICATE)
        self._made.add(_text_of(outcome))
        return outcome

    async def checked(self, outcome: Outcome, chunk: ReferenceChunk) -> Golden:
        if not isinstance(outcome, Golden):
            raise outcome
        golden, language = outcome, outcome.language
        if golden.id in self._known:
            return golden
        chunks = [chunk]
        if golden.expects_refusal:
            near = self._near.nearest(golden.question, SEARCHED)
            chunks += [c for each in near if (c := self._chunks[each.position]) != chunk]
        shown = _shown(language, chunks=chunks, query=golden.question)
        reply = await self._model.ask(read_task(language), shown)
        says, text = _text(reply, "says").lower(), _text(reply, "reply")
        if says not in ("answered", "absent") or (says == "answered" and not text):
            raise _DroppedError(DropReason.UNREADABLE)
        if golden.expects_refusal:
            if says == "answered":
                raise _DroppedError(DropReason.ANSWERABLE)
            return golden
        if says == "absent":
            raise _DroppedError(DropReason.NOT_ANSWERABLE)
        shown = _shown(language, query=golden.question, answer=text, reference=golden.answer)
        reply = await self._model.ask(compare_task(language), shown)
        if not isinstance(reply.get("same"), bool):
            raise _DroppedError(DropReason.UNREADABLE)
        if not reply["same"]:
            raise _DroppedError(DropReason.DIFFERENT_ANSWER)
        return golden


def _text_of(golden: Golden) -> str:
    return f"{golden.question} {golden.answer}"


def _shown(
    language: Language,
    *,
    chunks: Sequence[ReferenceChunk] = (),
    query: str = "",
    answer: str = "",
    reference: str = "",
) -> Interaction:
    return Interaction(
        id="",
        query=query,
        chunks=tuple(Chunk(text=chunk.text) for chunk in chunks),
        answer=answer,
        reference=reference,
        framework="python",
        started_ns=0,
        ended_ns=0,
        name=language,
    )


def _text(reply: Mapping[str, Any], name: str) -> str:
    value = reply.get(name)
    if not isinstance(value, str):
        raise _DroppedError(DropReason.UNREADABLE)
    return value.strip()
