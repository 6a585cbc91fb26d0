"""Makes golden questions of documents: a model writes each, and reads it again independently.

A question counts only once it was checked, in calls that see nothing of what the writer meant: with
the chunk and without the reference answer, does the answer follow from it; and does it say the same
as the reference answer. One question in `UNANSWERED_EVERY` is to be unanswerable: its own chunk,
and those of all documents that are written most like the question, must be silent on it.
The instructions stand in the frame of a judge's further questions (`InteractionAsker`): all that
comes from documents is bordered, and data.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import cycle, islice, zip_longest
from typing import Any, Final

from ragmonitor.goldens.asking import Reply, interaction_of
from ragmonitor.goldens.golden import Golden, GoldenKind
from ragmonitor.goldens.gram_index import GramIndex
from ragmonitor.judges.kept_replies import KeepingJudge
from ragmonitor.records import Assessment, Cause, Chunk, JudgeUsage
from ragmonitor.runtime.errors import JudgeError, SettingsError
from ragmonitor.runtime.protocols import Section
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


# --- what the model is asked ----------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """One kind of question to the model."""

    instructions: str
    fields: Mapping[str, str]
    shown: tuple[Section, ...]


_WRITE: Final = """\
Write one question that a user of an assistant over these documents would type, and its answer, \
both in the language of the CHUNKS. {kind}
The user has not seen the CHUNKS: the question names what it is about and never says "the text", \
"the chunk" or "this document". It can be understood in one way only. It cannot be answered from \
general knowledge: ask for what these documents alone say. At most 40 words (60 Chinese \
characters); the answer at most 60 words, as short as it can be, and nothing in it that the CHUNKS \
do not say.
If the CHUNKS hold nothing to ask so, reply with an empty question."""
_KINDS: Final[Mapping[GoldenKind, str]] = {
    "single_fact": "It asks for one fact that chunk C1 states.",
    "unanswerable": "It asks for a detail that belongs to the subject of chunk C1, that a user "
    "would expect there, and that the CHUNKS do not give, not even in part.",
}
WRITE: Final[Mapping[GoldenKind, Task]] = {
    kind: Task(
        instructions=_WRITE.format(kind=text),
        fields={
            "question": "a text: the question; empty: there is none",
            "answer": "a text: the answer; empty for a question that cannot be answered",
        },
        shown=("chunks",),
    )
    for kind, text in _KINDS.items()
}
READ: Final = Task(
    instructions="Answer the QUESTION from the CHUNKS alone, not from what you know, and in the "
    "language of the QUESTION.",
    fields={
        "says": '"answered" if the CHUNKS answer all of it, be it with a no; "absent" if they lack '
        "the answer or a part of it",
        "reply": "a text: the answer from the CHUNKS; else empty",
    },
    shown=("chunks", "question"),
)
COMPARE: Final = Task(
    instructions="Compare the ANSWER to the QUESTION with the REFERENCE answer.",
    fields={
        "same": "true if they say the same of what is asked; other words, more or fewer details "
        "beside it do not matter",
    },
    shown=("question", "answer", "reference"),
)


# --- the generator --------------------------------------------------------------------------------


class _DroppedError(Exception):
    """A question was not kept, for this reason. Without one, nothing was asked.

    The run is then to end, or the next call might cost more than is left.
    """


class Generator:
    """Makes questions of documents by a judge's model, within the budget of all runs together.

    | reason | why a question was dropped |
    |---|---|
    | `nothing_to_ask` | the model found nothing of this kind in the chunk |
    | `unreadable` | a reply of the model had not the fields that were asked for |
    | `duplicate` | another one says the same |
    | `not_answerable` | its chunk alone does not answer it |
    | `different_answer` | the answer that the chunk gives is not the reference answer |
    | `answerable` | the documents do answer what was to be unanswerable |
    | `judge_failed` | the model gave nothing; another run tries again |
    """

    def __init__(
        self,
        chunks: Sequence[Chunk],
        judge: KeepingJudge,
        budget: RunBudget | None,
        known: Iterable[Golden] = (),
    ) -> None:
        """Take what earlier runs have spent out of the budget.

        Args:
            chunks: Of all documents; not empty.
            judge: Its `asker` writes and reads; it counts in the budget's unit.
            budget: For all runs together that share the file of replies; None: the judge is free.
            known: Questions that are there already. One that is made again, by an earlier run's
                replies, counts as made; others that say the same are dropped.
        """
        self.goldens: list[Golden] = []
        """The questions that were kept, by this run and those that it goes on with."""
        self.counts: dict[GoldenKind, Counter[str]] = {}
        """By kind: how many were kept, under `kept`, and how many dropped, by reason."""
        self.failure = ""
        """Why it ended early, where the model gave nothing any more."""
        self.stopping = asyncio.Event()
        """Once it is set nothing further is asked; what is under way is waited for."""
        self._chunks, self._judge = chunks, judge
        self.budget = budget or RunBudget()
        self.budget.has_spent(self.usage)
        self._near = GramIndex((each.text for each in chunks), by_rarity=True)
        known = [*known]
        self._known = {golden.id for golden in known}
        self._made = GramIndex(map(_text_of, known))

    @property
    def usage(self) -> JudgeUsage:
        """The cost of all runs together."""
        return self._judge.replies.usage

    async def run(self, n: int, progressed: Callable[[], None] = lambda: None) -> None:
        """Make questions until there are as many as wanted, or no more can be asked.

        The budget is then spent, the model fails, the tries are used up, or the run is to end.

        Args:
            n: How many questions are wanted.
            progressed: Called after each few questions.

        Raises:
            InputError: The file of replies cannot be written.
            SettingsError: The judge cannot be asked.
        """
        planned = islice(_planned(self._chunks), MAX_TRIES * n)
        while len(self.goldens) < n and not (
            self.budget.is_spent or self.failure or self.stopping.is_set()
        ):
            plans = [*islice(planned, min(CONCURRENCY, n - len(self.goldens)))]
            if not plans:
                break
            outcomes = await asyncio.gather(*(self._tried(*plan) for plan in plans))
            self.goldens += (each for each in outcomes if isinstance(each, Golden))
            if all(isinstance(each, JudgeError) for each in outcomes):
                self.failure = str(outcomes[-1])
            progressed()

    async def _tried(self, chunk: Chunk, kind: GoldenKind) -> Golden | JudgeError | None:
        """Return a question, or how the judge failed; None: dropped, or nothing was asked."""
        outcome: Golden | JudgeError | None = None
        try:
            outcome = await self._written(chunk, kind)
            await self._check(outcome, chunk)
            count = "kept"
        except _DroppedError as error:
            outcome, count = None, str(error)
        except JudgeError as error:
            is_read = error.cause is Cause.UNREADABLE
            outcome, count = (None, "unreadable") if is_read else (error, "judge_failed")
        if count:
            self.counts.setdefault(kind, Counter())[count] += 1
        return outcome

    async def _written(self, chunk: Chunk, kind: GoldenKind) -> Golden:
        reply = await self._ask(WRITE[kind], Golden(question="", chunks=(chunk,)))
        question, answer = _text(reply, "question"), _text(reply, "answer")
        is_answered = kind == "single_fact"
        if not question:
            raise _DroppedError("nothing_to_ask")
        if is_answered and not answer:
            raise _DroppedError("unreadable")
        return Golden(
            question=question,
            answer=answer if is_answered else "",
            chunks=(chunk,) if is_answered else (),
            kind=kind,
            source=f"generated:{self._judge.identity.name}",
        )

    async def _check(self, golden: Golden, chunk: Chunk) -> None:
        """Raise why a question is not kept."""
        if golden.id in self._known:
            self._known.remove(golden.id)  # a second time it is a duplicate
            return
        text = _text_of(golden)
        if any(similarity >= DUPLICATE_FROM for _, similarity in self._made.nearest(text)):
            raise _DroppedError("duplicate")
        self._made.add(text)
        chunks = [chunk]
        if golden.expects_refusal:
            near = self._near.nearest(golden.question, SEARCHED)
            chunks += [c for at, _ in near if (c := self._chunks[at]) != chunk]
        reply = await self._ask(READ, Golden(question=golden.question, chunks=tuple(chunks)))
        says, answer = _text(reply, "says").lower(), _text(reply, "reply")
        if says not in ("answered", "absent") or (says == "answered" and not answer):
            raise _DroppedError("unreadable")
        if golden.expects_refusal:
            if says == "answered":
                raise _DroppedError("answerable")
            return
        if says == "absent":
            raise _DroppedError("not_answerable")
        both = Golden(question=golden.question, answer=golden.answer)
        same = (await self._ask(COMPARE, both, answer)).get("same")
        if same is not True:
            raise _DroppedError("different_answer" if same is False else "unreadable")

    async def _ask(self, task: Task, golden: Golden, answer: str = "") -> Mapping[str, Any]:
        """Return the fields of the reply to what is shown, from the file or from the model."""
        reply = Reply(answer=answer, chunks=golden.chunks)
        # Of no day: a reply is kept for longer.
        shown = replace(interaction_of(golden, reply), started_ns=0)
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
        if self.stopping.is_set() or not await self.budget.reserve(cost):
            raise _DroppedError
        try:
            return await asker.ask(task.instructions, fields=task.fields, shown=task.shown)
        finally:
            self.budget.refund(cost, asker.usage)


def _planned(chunks: Sequence[Chunk]) -> Iterator[tuple[Chunk, GoldenKind]]:
    """Yield what to ask about: the first chunk of each document before the second of any."""
    draw = random.Random(SEED)
    by_document: dict[str, list[Chunk]] = {}
    for position, chunk in enumerate(chunks):
        by_document.setdefault(chunk.source or str(position), []).append(chunk)
    documents = [*by_document.values()]
    draw.shuffle(documents)
    for document in documents:
        draw.shuffle(document)
    order = [each for turn in zip_longest(*documents) for each in turn if each is not None]
    for number, chunk in enumerate(cycle(order), 1):
        yield chunk, "single_fact" if number % UNANSWERED_EVERY else "unanswerable"


def _text_of(golden: Golden) -> str:
    return f"{golden.question} {golden.answer}"


def _text(reply: Mapping[str, Any], name: str) -> str:
    value = reply.get(name)
    if not isinstance(value, str):
        raise _DroppedError("unreadable")
    return value.strip()
