"""Makes golden questions of documents: written by a model, then read again by it independently.

A question is kept only if the second reading bears it out, and each reading is a call of its own
that sees nothing of the others:

1. with the chunks and without the reference answer: does it follow from them alone, are they
   silent (`unanswerable`), do they deny what it takes for granted (`false_premise`);
2. what was answered there, compared with the reference answer;
3. without the chunks: is it clear, and is its answer general knowledge;
4. where that reading knew an answer, this one compared with the reference answer.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

from ragmonitor.errors import JudgeError
from ragmonitor.goldens.golden import Golden, GoldenKind, ReferenceChunk, Turn
from ragmonitor.goldens.golden_prompts import (
    compare_task,
    read_task,
    read_without_task,
    write_task,
)
from ragmonitor.goldens.gram_index import GramIndex
from ragmonitor.goldens.paid_replies import BudgetSpentError, PaidModel, StoppedError
from ragmonitor.goldens.question_plan import JOINED, PlannedQuestion, QuestionPlan
from ragmonitor.judges import sentences as splitter
from ragmonitor.records import Chunk, Interaction, Language

DUPLICATE_FROM: Final[Mapping[Language, float]] = {"en": 0.9, "zh": 0.8}
"""Cosine of two questions' pieces of words from which on they are the same question, if their
answers are alike too: one name is often all that two questions differ in."""
SAME_FROM: Final = 0.97
"""Cosine from which on they are the same question whatever their answers."""
ANSWERS_ALIKE_FROM: Final = 0.5
_NEAR: Final = 5
SEARCHED: Final = 6
"""Chunks of all documents, beside its own, that must be silent on an unanswerable question."""


class DropReason(StrEnum):
    """Why a question was not kept."""

    NO_RELATED_CHUNK = "no_related_chunk"
    """It needs two chunks, and no other one is of the same subject."""
    NOTHING_TO_ASK = "nothing_to_ask"
    """The model found nothing of this kind in the chunks."""
    UNREADABLE = "unreadable"
    """A reply of the model had not the fields that were asked for."""
    WRONG_LANGUAGE = "wrong_language"
    DUPLICATE = "duplicate"
    NOT_ANSWERABLE = "not_answerable"
    """Its chunks alone do not answer it."""
    DIFFERENT_ANSWER = "different_answer"
    """Whoever answers it from the chunks says something else than the reference answer."""
    ONE_CHUNK_SUFFICES = "one_chunk_suffices"
    ANSWERABLE = "answerable"
    """The documents do answer what was to be unanswerable."""
    PREMISE_NOT_DENIED = "premise_not_denied"
    """The chunks do not deny what was to be a false premise."""
    GENERAL_KNOWLEDGE = "general_knowledge"
    """It is answered without any document."""
    AMBIGUOUS = "ambiguous"
    NEEDS_NO_HISTORY = "needs_no_history"
    """The fault of a follow-up turn that is understood without the turns before it."""
    JUDGE_FAILED = "judge_failed"
    """The model gave nothing; another run tries again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Dropped:
    """One question that was not kept."""

    kind: GoldenKind
    reason: DropReason
    question: str = ""
    """Empty: none was written."""
    detail: str = ""


@dataclass(slots=True, kw_only=True)
class Generation:
    """The result of one run, or of a run and those that it went on with."""

    goldens: list[Golden] = field(default_factory=list)
    dropped: list[Dropped] = field(default_factory=list)
    is_budget_spent: bool = False
    failure: str = ""
    """Why it ended early, where the model gave nothing any more."""

    def counts(self) -> dict[str, Counter[str]]:
        """Return by kind how many were kept, under `kept`, and how many dropped, by reason."""
        counts: dict[str, Counter[str]] = {}
        for golden in self.goldens:
            counts.setdefault(golden.kind.value, Counter())["kept"] += 1
        for drop in self.dropped:
            counts.setdefault(drop.kind.value, Counter())[drop.reason.value] += 1
        return counts


class _DroppedError(Exception):
    def __init__(self, reason: DropReason, detail: str = "") -> None:
        super().__init__(reason)
        self.reason = reason
        self.detail = detail


async def generate(
    plan: QuestionPlan,
    model: PaidModel,
    *,
    known: Iterable[Golden] = (),
    concurrency: int = 4,
    progressed: Callable[[Generation], None] = lambda _result: None,
) -> Generation:
    """Make the planned questions until there are as many as wanted, or no more can be asked.

    The budget is then spent, the model fails, or the run is to end (`PaidModel.stopping`).

    Args:
        plan: What is to be made of which chunks.
        model: Who writes and reads.
        known: Questions that are there already. One that is made again, by an earlier run's
            replies, counts as made and is not checked again; others that say the same are dropped.
        concurrency: Questions under way at once.
        progressed: Called after each few questions.
    """
    result = Generation()
    asked = _Asked(known)
    while not (result.is_budget_spent or result.failure or model.stopping.is_set()):
        planned = [each for _ in range(concurrency) if (each := plan.next()) is not None]
        if not planned:
            break
        makers = [_Maker(each, plan, model) for each in planned]
        await asyncio.gather(*(maker.write() for maker in makers))
        for maker in makers:  # in order, so that a run that goes on decides the same
            asked.take(maker)
        await asyncio.gather(*(maker.check() for maker in makers))
        for maker in makers:
            _take(maker, plan, result)
        failed = [m for m in makers if m.drop and m.drop.reason is DropReason.JUDGE_FAILED]
        if len(failed) == len(makers):
            result.failure = failed[-1].drop.detail if failed[-1].drop else ""
        progressed(result)
    return result


def _take(maker: _Maker, plan: QuestionPlan, result: Generation) -> None:
    is_unfinished = maker.is_unpaid or maker.is_stopped
    is_kept = maker.golden is not None and maker.drop is None and not is_unfinished
    if not is_kept:
        plan.dropped(maker.planned)
    result.is_budget_spent |= maker.is_unpaid
    if maker.drop is not None:
        result.dropped.append(maker.drop)
    elif is_kept and maker.golden is not None:
        result.goldens.append(maker.golden)


class _Asked:
    """The questions that there are, so that none is asked twice."""

    def __init__(self, known: Iterable[Golden]) -> None:
        self._ids: set[str] = set()
        self._questions = {language: GramIndex() for language in DUPLICATE_FROM}
        self._answers: dict[Language, list[str]] = {language: [] for language in DUPLICATE_FROM}
        for golden in known:
            self._ids.add(golden.id)
            self._add(golden)

    def take(self, maker: _Maker) -> None:
        """Drop what was asked before; what is new counts as asked."""
        golden = maker.golden
        if golden is None or maker.drop is not None:
            return
        if golden.id in self._ids:
            self._ids.discard(golden.id)  # a second time it is a duplicate
            maker.is_checked = True
            return
        if self._has(golden):
            maker.give_up(DropReason.DUPLICATE)
        self._add(golden)

    def _add(self, golden: Golden) -> None:
        self._questions[golden.language].add(_whole(golden.question, golden.history))
        self._answers[golden.language].append(golden.answer)

    def _has(self, golden: Golden) -> bool:
        text = _whole(golden.question, golden.history)
        answer = GramIndex([golden.answer])
        for near in self._questions[golden.language].nearest(text, _NEAR):
            known = self._answers[golden.language][near.position]
            if near.similarity >= SAME_FROM:
                return True
            if near.similarity >= DUPLICATE_FROM[golden.language] and (
                known == golden.answer or answer.similarity(known) >= ANSWERS_ALIKE_FROM
            ):
                return True
        return False


class _Maker:
    """Makes one question."""

    def __init__(self, planned: PlannedQuestion, plan: QuestionPlan, model: PaidModel) -> None:
        self.planned = planned
        self._plan = plan
        self._model = model
        self.golden: Golden | None = None
        self.drop: Dropped | None = None
        self.is_checked = False
        self.is_unpaid = False
        """The budget ended before it was done; another run goes on with it."""
        self.is_stopped = False
        """The run was to end before it was done; likewise."""

    async def write(self) -> None:
        await self._do(self._write)

    async def check(self) -> None:
        if self.golden is not None and self.drop is None and not self.is_checked:
            await self._do(self._check)

    async def _do(self, step: Callable[[], Awaitable[None]]) -> None:
        try:
            await step()
        except BudgetSpentError:
            self.is_unpaid = True
        except StoppedError:
            self.is_stopped = True
        except _DroppedError as error:
            self.give_up(error.reason, error.detail)
        except JudgeError as error:
            unreadable = error.cause.value == "unreadable"
            reason = DropReason.UNREADABLE if unreadable else DropReason.JUDGE_FAILED
            self.give_up(reason, error.problem)

    def give_up(self, reason: DropReason, detail: str = "") -> None:
        """Drop it."""
        self.drop = Dropped(
            kind=self.planned.kind,
            reason=reason,
            question="" if self.golden is None else self.golden.question,
            detail=detail,
        )

    async def _write(self) -> None:
        planned = self.planned
        if planned.kind in JOINED and len(planned.chunks) < 2:
            raise _DroppedError(DropReason.NO_RELATED_CHUNK)
        task = write_task(planned.kind, planned.difficulty, planned.language)
        reply = await self._model.ask(task, self._shown(chunks=planned.chunks))
        texts = {name: _text(reply, name) for name in task.fields}
        if not texts["question"]:
            raise _DroppedError(DropReason.NOTHING_TO_ASK)
        expects_refusal = planned.kind is GoldenKind.UNANSWERABLE
        if not expects_refusal and not all(texts.values()):
            raise _DroppedError(DropReason.UNREADABLE, "a text that was asked for is empty")
        history: tuple[Turn, ...] = ()
        if planned.kind is GoldenKind.FOLLOW_UP:
            history = (
                Turn(role="user", text=texts["first_question"]),
                Turn(role="assistant", text=texts["first_answer"]),
            )
        self.golden = Golden(
            question=texts["question"],
            answer="" if expects_refusal else texts["answer"],
            chunks=() if expects_refusal else planned.chunks,
            kind=planned.kind,
            difficulty=planned.difficulty,
            language=planned.language,
            history=history,
            source=f"generated:{self._model.name}",
        )
        if not _is_in(planned.language, texts["question"]):
            raise _DroppedError(DropReason.WRONG_LANGUAGE)

    # --- the second reading ---------------------------------------------------------------------

    async def _check(self) -> None:
        kind = self.planned.kind
        second_answer = await self._read_with_chunks()
        if kind is GoldenKind.UNANSWERABLE:
            if second_answer != "":
                raise _DroppedError(DropReason.ANSWERABLE, second_answer)
        elif not await self._is_same(second_answer):
            raise _DroppedError(DropReason.DIFFERENT_ANSWER, second_answer)
        guess = await self._read_without_chunks()
        if guess and (kind is GoldenKind.UNANSWERABLE or await self._is_same(guess)):
            raise _DroppedError(DropReason.GENERAL_KNOWLEDGE, guess)

    async def _read_with_chunks(self) -> str:
        """Return what the chunks answer; empty: they are silent, as they are to be."""
        kind = self.planned.kind
        chunks = self.planned.chunks
        if kind is GoldenKind.UNANSWERABLE:
            near = self._plan.near(self._question(), SEARCHED)
            chunks = (*chunks, *(chunk for chunk in near if chunk not in chunks))
        task = read_task(self.planned.language)
        reply = await self._model.ask(task, self._shown(chunks=chunks, query=self._question()))
        says, text = _text(reply, "says").lower(), _text(reply, "reply")
        if says not in ("answered", "absent", "denied") or (says != "absent" and not text):
            raise _DroppedError(DropReason.UNREADABLE, f"says {says!r}, reply {text!r}")
        if kind is GoldenKind.UNANSWERABLE:
            return "" if says == "absent" else text
        if kind is GoldenKind.FALSE_PREMISE:
            if says != "denied":
                raise _DroppedError(DropReason.PREMISE_NOT_DENIED, text)
        elif says != "answered":
            raise _DroppedError(DropReason.NOT_ANSWERABLE, text)
        if kind in JOINED and len(_numbers(reply, "used", len(chunks))) < 2:
            raise _DroppedError(DropReason.ONE_CHUNK_SUFFICES)
        return text

    async def _read_without_chunks(self) -> str:
        """Return the answer that is known without any document; empty: none is."""
        kind = self.planned.kind
        task = read_without_task(kind, self.planned.language)
        reply = await self._model.ask(task, self._shown(query=self._question()))
        if not _flag(reply, "clear"):
            raise _DroppedError(DropReason.AMBIGUOUS)
        if kind is GoldenKind.FOLLOW_UP and _flag(reply, "alone"):
            raise _DroppedError(DropReason.NEEDS_NO_HISTORY)
        return _text(reply, "guess") if _flag(reply, "known") else ""

    async def _is_same(self, answer: str) -> bool:
        golden = self.golden
        if golden is None:
            raise RuntimeError("nothing was written")
        shown = self._shown(query=self._question(), answer=answer, reference=golden.answer)
        return _flag(await self._model.ask(compare_task(self.planned.language), shown), "same")

    def _question(self) -> str:
        golden = self.golden
        return "" if golden is None else _whole(golden.question, golden.history)

    def _shown(
        self,
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
            name=self.planned.language,
        )


def _whole(question: str, history: Sequence[Turn]) -> str:
    """Return the conversation in lines, of which the last is the question."""
    lines = [f"{turn.role}: {' '.join(turn.text.split())}" for turn in history]
    return "\n".join([*lines, " ".join(question.split())])


def _is_in(language: Language, question: str) -> bool:
    """Return whether a question is in the language; a Chinese one may hold many English names."""
    if language == "zh":
        return any("\u4e00" <= character <= "\u9fff" for character in question)
    return splitter.language(question) == language


def _text(reply: Mapping[str, Any], name: str) -> str:
    value = reply.get(name)
    if not isinstance(value, str):
        raise _DroppedError(DropReason.UNREADABLE, f"{name} is no text")
    return value.strip()


def _flag(reply: Mapping[str, Any], name: str) -> bool:
    value = reply.get(name)
    if not isinstance(value, bool):
        raise _DroppedError(DropReason.UNREADABLE, f"{name} is not true or false")
    return value


def _numbers(reply: Mapping[str, Any], name: str, most: int) -> set[int]:
    value = reply.get(name)
    if not isinstance(value, list) or not all(
        isinstance(each, int) and not isinstance(each, bool) and 1 <= each <= most for each in value
    ):
        raise _DroppedError(DropReason.UNREADABLE, f"{name} is no list of chunks' numbers")
    return set(value)
