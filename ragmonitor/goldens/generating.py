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
from itertools import cycle, islice, zip_longest
from typing import Any, Final, Literal

from ragmonitor.goldens.golden import Golden, GoldenKind, ReferenceChunk
from ragmonitor.goldens.golden_prompts import (
    COMPARE,
    READ,
    WRITE_ANSWERED,
    WRITE_UNANSWERED,
    Task,
)
from ragmonitor.goldens.gram_index import GramIndex
from ragmonitor.judges.kept_replies import KeepingJudge
from ragmonitor.records import Assessment, Cause, Chunk, Interaction, JudgeUsage
from ragmonitor.runtime.errors import JudgeError, RagMonitorError, SettingsError
from ragmonitor.sampling import RunBudget

UNANSWERED_EVERY: Final = 5
CONCURRENCY: Final = 4
"""Questions under way at once."""
SEED: Final = 1
"""The same documents are asked about in the same order, so that a run that goes on finds its
replies."""
DUPLICATE_FROM: Final = 0.9
"""Cosine, of the pieces of words of question and answer together, from which on two are one: a name
is often all that two questions differ in."""
MAX_TRIES: Final = 4
"""For each question that is wanted, at most so many are tried."""
SEARCHED: Final = 6
"""Chunks of all documents, beside its own, that must be silent on an unanswerable question."""

DropReason = Literal[
    "nothing_to_ask",  # the model found nothing of this kind in the chunk
    "unreadable",  # a reply of the model had not the fields that were asked for
    "duplicate",
    "not_answerable",  # its chunk alone does not answer it
    "different_answer",  # the answer that the chunk gives is not the reference answer
    "answerable",  # the documents do answer what was to be unanswerable
    "judge_failed",  # the model gave nothing; another run tries again
]
"""Why a question was not kept."""


@dataclass(slots=True, kw_only=True)
class Generation:
    """The result of one run, or of a run and those that it went on with."""

    goldens: list[Golden] = field(default_factory=list)
    counts: dict[GoldenKind, Counter[str]] = field(default_factory=dict)
    """By kind: how many were kept, under `kept`, and how many dropped, by `DropReason`."""
    failure: str = ""
    """Why it ended early, where the model gave nothing any more."""


class _DroppedError(Exception):
    def __init__(self, reason: DropReason) -> None:
        super().__init__(reason)
        self.reason = reason


class EndedError(RagMonitorError):
    """Nothing was asked: the run is to end, or the next call might cost more than is left."""


class PaidModel:
    """The judge's model, asked about chunks and questions within the budget of all runs."""

    def __init__(self, judge: KeepingJudge, budget: RunBudget | None) -> None:
        """Take what earlier runs have spent out of the budget.

        Args:
            judge: Its `asker` is asked; it counts in the budget's unit.
            budget: For all runs together that share the file of replies; None: the judge is free.
        """
        self._judge = judge
        self._run_budget = budget or RunBudget()
        self.stopping = asyncio.Event()
        """Once it is set nothing further is asked; what is under way is waited for."""
        self._run_budget.has_spent(self.usage)

    @property
    def name(self) -> str:
        """The judge's name."""
        return self._judge.identity.name

    @property
    def usage(self) -> JudgeUsage:
        """The cost of all runs together."""
        return self._judge.replies.usage

    @property
    def is_budget_spent(self) -> bool:
        """Whether what is left of the budget may not cover another call."""
        return self._run_budget.is_spent

    async def ask(self, task: Task, shown: Interaction) -> Mapping[str, Any]:
        """Return the fields of the reply, from the file or from the model.

        Raises:
            EndedError: The run is to end, or the budget is spent.
            InputError: The file of replies cannot be written.
            JudgeError: There is no usable reply.
            SettingsError: The judge cannot be asked.
        """
        nothing_read = Assessment(
            judge=self._judge.identity,
            language="en",
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
        cost = self._judge.expected_cost(shown)
        if self.stopping.is_set() or not await self._run_budget.reserve(cost):
            raise EndedError
        try:
            return await asker.ask(task.instructions, fields=task.fields, shown=task.shown)
        finally:
            self._run_budget.refund(cost, asker.usage)


async def generate(
    chunks: Sequence[ReferenceChunk],
    n: int,
    model: PaidModel,
    *,
    known: Iterable[Golden] = (),
    progressed: Callable[[Generation], None] = lambda _result: None,
) -> Generation:
    """Make questions until there are as many as wanted, or no more can be asked.

    The budget is then spent, the model fails, the tries are used up, or the run is to end
    (`PaidModel.stopping`).

    Args:
        chunks: Of all documents; not empty.
        n: How many questions are wanted.
        model: Who writes and reads.
        known: Questions that are there already. One that is made again, by an earlier run's
            replies, counts as made; others that say the same are dropped.
        progressed: Called after each few questions.
    """
    result = Generation()
    maker = _Maker(chunks, model, known)
    planned = islice(_planned(chunks), MAX_TRIES * n)
    while len(result.goldens) < n and not (
        model.is_budget_spent or result.failure or model.stopping.is_set()
    ):
        plans = [*islice(planned, min(CONCURRENCY, n - len(result.goldens)))]
        if not plans:
            break
        made = await asyncio.gather(*(maker.made(*plan) for plan in plans), return_exceptions=True)
        for (_, kind), outcome in zip(plans, made, strict=True):
            counts = result.counts.setdefault(kind, Counter())
            if isinstance(outcome, Golden):
                result.goldens.append(outcome)
                counts["kept"] += 1
            elif isinstance(outcome, _DroppedError):
                counts[outcome.reason] += 1
            elif isinstance(outcome, JudgeError):
                counts["judge_failed" if _is_failure(outcome) else "unreadable"] += 1
            elif not isinstance(outcome, EndedError):
                raise outcome
        if all(map(_is_failure, made)):
            result.failure = str(made[-1])
        progressed(result)
    return result


def _is_failure(outcome: object) -> bool:
    return isinstance(outcome, JudgeError) and outcome.cause is not Cause.UNREADABLE


def _planned(chunks: Sequence[ReferenceChunk]) -> Iterator[tuple[ReferenceChunk, GoldenKind]]:
    """Yield what to ask about: the first chunk of each document before the second of any."""
    draw = random.Random(SEED)
    by_document: dict[str, list[ReferenceChunk]] = {}
    for position, chunk in enumerate(chunks):
        by_document.setdefault(chunk.source or str(position), []).append(chunk)
    documents = [*by_document.values()]
    draw.shuffle(documents)
    for document in documents:
        draw.shuffle(document)
    order = [each for turn in zip_longest(*documents) for each in turn if each is not None]
    for number, chunk in enumerate(cycle(order), 1):
        yield chunk, "single_fact" if number % UNANSWERED_EVERY else "unanswerable"


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

    async def made(self, chunk: ReferenceChunk, kind: GoldenKind) -> Golden:
        """Return a question that passed its checks. Raises why there is none."""
        golden = await self._written(chunk, kind)
        if golden.id in self._known:
            self._known.remove(golden.id)  # a second time it is a duplicate
            return golden
        if self._made.similarity(_text_of(golden)) >= DUPLICATE_FROM:
            raise _DroppedError("duplicate")
        self._made.add(_text_of(golden))
        await self._check(golden, chunk)
        return golden

    async def _written(self, chunk: ReferenceChunk, kind: GoldenKind) -> Golden:
        is_answered = kind == "single_fact"
        task = WRITE_ANSWERED if is_answered else WRITE_UNANSWERED
        reply = await self._model.ask(task, _shown(chunks=[chunk]))
        question, answer = _text(reply, "question"), _text(reply, "answer")
        if not question:
            raise _DroppedError("nothing_to_ask")
        if is_answered and not answer:
            raise _DroppedError("unreadable")
        return Golden(
            question=question,
            answer=answer if is_answered else "",
            chunks=(chunk,) if is_answered else (),
            kind=kind,
            source=f"generated:{self._model.name}",
        )

    async def _check(self, golden: Golden, chunk: ReferenceChunk) -> None:
        chunks = [chunk]
        if golden.expects_refusal:
            near = self._near.nearest(golden.question, SEARCHED)
            chunks += [c for at, _ in near if (c := self._chunks[at]) != chunk]
        shown = _shown(chunks=chunks, query=golden.question)
        reply = await self._model.ask(READ, shown)
        says, text = _text(reply, "says").lower(), _text(reply, "reply")
        if says not in ("answered", "absent") or (says == "answered" and not text):
            raise _DroppedError("unreadable")
        if golden.expects_refusal:
            if says == "answered":
                raise _DroppedError("answerable")
            return
        if says == "absent":
            raise _DroppedError("not_answerable")
        shown = _shown(query=golden.question, answer=text, reference=golden.answer)
        same = (await self._model.ask(COMPARE, shown)).get("same")
        if not isinstance(same, bool):
            raise _DroppedError("unreadable")
        if not same:
            raise _DroppedError("different_answer")


def _text_of(golden: Golden) -> str:
    return f"{golden.question} {golden.answer}"


def _shown(
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
    )


def _text(reply: Mapping[str, Any], name: str) -> str:
    value = reply.get(name)
    if not isinstance(value, str):
        raise _DroppedError("unreadable")
    return value.strip()
