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
from itertools import cycle, zip_longest
from typing import Any, Final

from ragmonitor.goldens.golden import Golden, GoldenKind, ReferenceChunk
from ragmonitor.goldens.golden_prompts import (
    Task,
    compare_task,
    prompts_version,
    read_task,
    write_task,
)
from ragmonitor.goldens.gram_index import GramIndex
from ragmonitor.judges import sentences as splitter
from ragmonitor.judges.kept_replies import KeepingJudge
from ragmonitor.records import Assessment, Cause, Chunk, Interaction, JudgeUsage, Language
from ragmonitor.runtime.errors import JudgeError, RagMonitorError, SettingsError
from ragmonitor.sampling import RunBudget, TotalBudget, spent_in

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


class BudgetSpentError(RagMonitorError):
    """The next call might cost more than is left."""


class StoppedError(RagMonitorError):
    """No further call is made: the run is to end."""


class PaidModel:
    """The judge's model, asked about chunks and questions within the budget of all runs."""

    def __init__(self, judge: KeepingJudge, budget: TotalBudget | None) -> None:
        """Take what earlier runs have spent out of the budget.

        Args:
            judge: Its `asker` is asked; it counts in the budget's unit.
            budget: For all runs together that share the file of replies; None: the judge is free.
        """
        self._judge = judge
        self._run_budget = RunBudget(budget)
        self.paid_calls = 0
        """The number of calls of this run."""
        self.stopping = asyncio.Event()
        """Once it is set nothing further is asked; what is under way is waited for."""
        if budget is not None and not budget.reserve(spent_in(budget.unit, self.usage)):
            self._run_budget.is_spent = True

    @property
    def name(self) -> str:
        """The judge's name, and the version of what it is asked."""
        return f"{self._judge.identity.name}@{prompts_version()}"

    @property
    def usage(self) -> JudgeUsage:
        """The cost of all runs together."""
        return self._judge.replies.usage

    async def ask(self, task: Task, shown: Interaction) -> Mapping[str, Any]:
        """Return the fields of the reply, from the file or from the model.

        Raises:
            BudgetSpentError: It might cost more than is left; nothing was asked.
            InputError: The file of replies cannot be written.
            JudgeError: There is no usable reply.
            SettingsError: The judge cannot be asked.
            StoppedError: The run is to end; nothing was asked.
        """
        nothing_read = Assessment(
            judge=self._judge.identity,
            language="zh" if shown.name == "zh" else "en",
            sentences=(),
            answer_relevancy=None,
            evasive=None,
            chunk_relevance=None,
        )
        asker = self._judge.asker(shown, nothing_read)
        if asker is None:
            raise SettingsError(
                f"judge {self._judge.identity.name} cannot be asked; questions are made by a "
                "language model, such as --judge openai/gpt-4o-mini"
            )
        kept = asker.kept(task.instructions, task.fields, task.shown)
        if kept is not None:
            return kept
        if self.stopping.is_set():
            raise StoppedError("interrupted")
        cost = self._judge.expected_cost(shown)
        if not await self._run_budget.reserve(cost):
            raise BudgetSpentError("the budget is spent")
        self.paid_calls += 1
        try:
            return await asker.ask(task.instructions, fields=task.fields, shown=task.shown)
        finally:
            self._run_budget.refund(cost, asker.usage)


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
            replies, counts as made; others that say the same are dropped.
        concurrency: Questions under way at once.
        progressed: Called after each few questions.
    """
    result = Generation()
    maker = _Maker(chunks, model, known)
    planned = _planned(chunks, MAX_TRIES * n, languages, seed)
    while len(result.goldens) < n and not (
        result.is_budget_spent or result.failure or model.stopping.is_set()
    ):
        width = min(concurrency, n - len(result.goldens))
        plans = [plan for _, plan in zip(range(width), planned, strict=False)]
        if not plans:
            break
        made = await asyncio.gather(*(maker.made(*plan) for plan in plans), return_exceptions=True)
        for (_, _, kind), outcome in zip(plans, made, strict=True):
            if isinstance(outcome, Golden):
                result.goldens.append(outcome)
            elif isinstance(outcome, _DroppedError):
                result.dropped.append((kind, outcome.reason))
            elif isinstance(outcome, BudgetSpentError):
                result.is_budget_spent = True
            elif isinstance(outcome, JudgeError) and outcome.cause is Cause.UNREADABLE:
                result.dropped.append((kind, DropReason.UNREADABLE))
            elif isinstance(outcome, JudgeError):
                result.dropped.append((kind, DropReason.JUDGE_FAILED))
            elif not isinstance(outcome, StoppedError):
                raise outcome
        if all(
            isinstance(each, JudgeError) and each.cause is not Cause.UNREADABLE for each in made
        ):
            result.failure = str(made[-1])
        progressed(result)
    return result


def _planned(
    chunks: Sequence[ReferenceChunk], tries: int, languages: Sequence[Language], seed: int
) -> Iterator[tuple[ReferenceChunk, Language, GoldenKind]]:
    """Yield what to ask about: the first chunk of each document before the second of any."""
    draw = random.Random(seed)
    by_document: dict[str, list[ReferenceChunk]] = {}
    for position, chunk in enumerate(chunks):
        by_document.setdefault(chunk.source or str(position), []).append(chunk)
    documents = [*by_document.values()]
    draw.shuffle(documents)
    for document in documents:
        draw.shuffle(document)
    order = [each for turn in zip_longest(*documents) for each in turn if each is not None]
    for number, chunk in zip(range(tries), cycle(order), strict=False):
        is_answered = (number + 1) % UNANSWERED_EVERY > 0
        language = languages[number % len(languages)] if languages else None
        kind = GoldenKind.SINGLE_FACT if is_answered else GoldenKind.UNANSWERABLE
        yield chunk, language or splitter.language(chunk.text), kind


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

    async def made(self, chunk: ReferenceChunk, language: Language, kind: GoldenKind) -> Golden:
        """Return a question that passed its checks. Raises why there is none."""
        golden = await self._written(chunk, language, kind)
        if golden.id in self._known:
            self._known.remove(golden.id)  # a second time it is a duplicate
            return golden
        if self._made.similarity(_text_of(golden)) >= DUPLICATE_FROM:
            raise _DroppedError(DropReason.DUPLICATE)
        self._made.add(_text_of(golden))
        await self._check(golden, chunk)
        return golden

    async def _written(self, chunk: ReferenceChunk, language: Language, kind: GoldenKind) -> Golden:
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

    async def _check(self, golden: Golden, chunk: ReferenceChunk) -> None:
        language, chunks = golden.language, [chunk]
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
            return
        if says == "absent":
            raise _DroppedError(DropReason.NOT_ANSWERABLE)
        shown = _shown(language, query=golden.question, answer=text, reference=golden.answer)
        same = (await self._model.ask(compare_task(language), shown)).get("same")
        if not isinstance(same, bool):
            raise _DroppedError(DropReason.UNREADABLE)
        if not same:
            raise _DroppedError(DropReason.DIFFERENT_ANSWER)


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
