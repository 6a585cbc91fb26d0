"""Golden questions made of documents: what the second reading keeps, drops, and costs."""

from __future__ import annotations

import asyncio
from itertools import islice
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragmonitor.capabilities import as_judge
from ragmonitor.errors import InputError, SettingsError
from ragmonitor.goldens import Golden, GoldenKind, ReferenceChunk, ReviewStatus
from ragmonitor.goldens.generating import DropReason, Generation, _in_turn, generate
from ragmonitor.goldens.golden_prompts import compare_task, read_task, write_task
from ragmonitor.goldens.paid_replies import PaidModel
from ragmonitor.goldens.source_documents import read_documents
from ragmonitor.judges import BuiltinJudge
from ragmonitor.judges.llm import _FRAME_TOKENS
from ragmonitor.judges.provider import ProviderError
from ragmonitor.judges.tokens import estimate_tokens
from ragmonitor.offline.reply_file import ReplyFile
from ragmonitor.records import Chunk, Interaction
from ragmonitor.sampling import Budget
from tests.support.golden_model import GoldenModel, scripted_judge
from tests.support.scripts import ROOT

SUBJECTS = ("bicycles", "kettles", "violins", "lanterns", "compasses", "umbrellas")
TOWNS = ("Aarhus", "Brno", "Coimbra", "Debrecen", "Esbjerg", "Funchal")
ADVERBS = ("slowly", "cheaply", "gladly", "rarely", "quietly", "proudly")


def chunks(documents: int = 6, each: int = 4) -> list[ReferenceChunk]:
    """Return chunks that share a subject within and across documents, and no sentence."""
    return [
        ReferenceChunk(
            text=f"{TOWNS[d]} sells {SUBJECTS[part]} by hand {ADVERBS[(d + part) % 6]}, of which "
            f"{1900 + 10 * d + part} were made there in {TOWNS[d]} alone. Closed on day {part}.",
            source=f"{d}.md",
        )
        for d in range(documents)
        for part in range(each)
    ]


class Workshop:
    """A scripted model, and runs that share a file of replies."""

    def __init__(self, folder: Path) -> None:
        self.model = GoldenModel()
        self.judge, self.completer = scripted_judge(self.model)
        self.path = folder / "goldens.jsonl.replies"

    def paid(self, budget: float = 1.0) -> PaidModel:
        return PaidModel(
            as_judge(self.judge).within_budget("usd"),
            Budget(total=budget, unit="usd"),
            ReplyFile(self.path),
        )

    async def run(self, n=6, *, budget=1.0, languages=("en",), paid=None, source=None, **options):
        paid = paid or self.paid(budget)
        result = await generate(source or chunks(), n, paid, languages=languages, **options)
        return result, paid

    def replies(self, task: str, **fields) -> None:
        """Have all replies to a task be these."""
        self.model.given[task] = lambda _asked: fields


@pytest.fixture
def workshop(tmp_path) -> Workshop:
    return Workshop(tmp_path)


def reasons(result: Generation) -> set[DropReason]:
    assert not result.goldens
    return {reason for _, reason in result.dropped}


# --- what is kept ---------------------------------------------------------------------------------


@pytest.mark.parametrize("language", ["en", "zh"])
async def test_questions_are_made_in_each_language(workshop, language):
    """With their answers and chunks, and where they come from; one in five is unanswerable."""
    result, _ = await workshop.run(5, languages=(language,))
    kinds = [golden.kind for golden in result.goldens]
    assert kinds == [GoldenKind.SINGLE_FACT] * 4 + [GoldenKind.UNANSWERABLE]
    for golden in result.goldens:
        assert golden.language == language
        assert golden.source.startswith(f"generated:{workshop.judge.identity.name}@")
        assert bool(golden.answer) == bool(golden.chunks) == (not golden.expects_refusal)
        assert golden.status is ReviewStatus.CANDIDATE
    assert len({golden.id for golden in result.goldens}) == 5


async def test_the_readings_are_independent(workshop):
    """Who reads with chunks sees no reference answer."""
    await workshop.run(2)
    shown = {asked.task: set(asked.sections) for asked in workshop.model.asked}
    assert shown == {
        "write": {"CHUNKS"},
        "read": {"CHUNKS", "QUESTION"},
        "compare": {"QUESTION", "ANSWER", "REFERENCE"},
    }


@pytest.mark.slow
async def test_of_this_repository_s_own_documents(tmp_path):
    """Spread over the documents, in both languages."""
    source = read_documents(ROOT / "docs").chunks
    result, paid = await Workshop(tmp_path).run(20, languages=("en", "zh"), source=source)
    assert {golden.language for golden in result.goldens} == {"en", "zh"}
    asked_about = [g.chunks[0].source for g in result.goldens if g.chunks]
    assert len(set(asked_about)) == len(asked_about)
    assert 0 < paid.usage.cost_usd < 1


# --- what is dropped ------------------------------------------------------------------------------

ANSWERED = {"says": "answered", "reply": "Made by hand."}


@pytest.mark.parametrize(
    ("task", "fields", "reason"),
    [
        ("read", {"says": "absent", "reply": ""}, "not_answerable"),
        ("read", ANSWERED, "different_answer"),
        ("read", {**ANSWERED, "says": "maybe"}, "unreadable"),
        ("read", {**ANSWERED, "reply": ""}, "unreadable"),
        ("compare", {"same": "yes"}, "unreadable"),
        ("write", {"question": "", "answer": ""}, "nothing_to_ask"),
        ("write", {"question": "How?", "answer": ""}, "unreadable"),
        ("write", {"question": ["How?"], "answer": "So."}, "unreadable"),
        ("write", {"question": "它是什么颜色的?", "answer": "So."}, "wrong_language"),
    ],
)
async def test_a_question_is_dropped_with_its_reason(workshop, task, fields, reason):
    """Whatever the writer meant it to be."""
    workshop.replies(task, **fields)
    result, _ = await workshop.run(1)
    assert reasons(result) <= {DropReason(reason), DropReason.DUPLICATE}
    assert DropReason(reason) in reasons(result)


async def test_what_the_documents_answer_is_not_unanswerable(workshop):
    """Whoever wrote it overlooked the answer."""
    workshop.replies("read", **ANSWERED)
    workshop.replies("compare", same=True)
    result, _ = await workshop.run(5)
    assert result.counts()["unanswerable"]["answerable"] > 0
    assert not any(golden.expects_refusal for golden in result.goldens)


async def test_an_unanswerable_question_is_looked_up_in_other_documents(workshop):
    """What its own chunk lacks may stand elsewhere."""
    elsewhere = ReferenceChunk(
        text="Zebra crossings of the quarter were painted by Orsolya Feher.", source="far.md"
    )
    workshop.replies("write", question="Who painted the zebra crossings of the quarter?", answer="")
    await workshop.run(5, source=[*chunks(), elsewhere])
    read = [asked for asked in workshop.model.asked if asked.task == "read"]
    assert read
    assert all(elsewhere.text in asked.chunks for asked in read)


async def test_two_questions_may_differ_in_one_name(workshop):
    """What is written alike and answered otherwise is another question."""
    texts = ("Which colour have the kettles of the second shop?", "Blue.")
    known = [Golden(id="x", question=texts[0].replace("second", "seventh"), answer="Red as rust.")]
    workshop.replies("write", question=texts[0], answer=texts[1])
    workshop.replies("read", says="answered", reply=texts[1])
    result, _ = await workshop.run(1, known=known)
    assert len(result.goldens) == 1


async def test_a_question_that_was_asked_before_is_dropped_unread(workshop):
    """Of this run, or of the file that it is added to."""
    question = "Which colour have the kettles of the second shop?"
    workshop.replies("write", question=question, answer="101.")
    known = [Golden(id="x", question=f"{question} ", answer="101.")]
    result, _ = await workshop.run(2, known=known)
    assert reasons(result) == {DropReason.DUPLICATE}
    assert {asked.task for asked in workshop.model.asked} == {"write"}


# --- what it costs --------------------------------------------------------------------------------


async def test_a_second_run_pays_nothing(workshop):
    """It makes the same, from the replies that were kept."""
    first, _ = await workshop.run(5)
    calls = len(workshop.model.asked)
    again, paid = await workshop.run(5)
    assert again.goldens == first.goldens
    assert (len(workshop.model.asked), paid.paid_calls) == (calls, 0)


@pytest.mark.parametrize("budget", [0.0005, 0.002, 0.004, 0.006])
async def test_nothing_is_spent_beyond_the_budget_and_a_larger_one_goes_on(workshop, budget):
    """In all runs together; what was paid before is not paid again."""
    whole = Workshop(workshop.path.parent / "..")
    whole.path = workshop.path.with_name("whole")
    wanted, _ = await whole.run(6)
    result, paid = await workshop.run(6, budget=budget)
    assert result.is_budget_spent
    assert paid.usage.cost_usd <= budget
    result, _ = await workshop.run(6)
    assert result.goldens == wanted.goldens
    assert len(workshop.model.asked) == len(whole.model.asked)


async def test_a_call_that_is_cancelled_is_paid(workshop):
    """The provider goes on and bills: its cost is kept, and no later run has that money again."""
    workshop.completer.released = asyncio.Event()
    paid = workshop.paid()
    running = asyncio.create_task(workshop.run(1, paid=paid))
    await workshop.completer.arrived.acquire()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert ReplyFile(workshop.path).usage.input_tokens > 100
    assert paid.usage.cost_usd > 0


async def test_half_of_a_character_in_a_reply_loses_nothing_that_was_paid(workshop):
    """No file holds one; the reply is kept with a mark in its place."""
    workshop.replies("write", question="How many are made \ud83d?", answer="1900 are made there.")
    _, paid = await workshop.run(1)
    assert paid.usage.cost_usd > 0
    assert ReplyFile(workshop.path).usage == paid.usage
    assert b"made ?" in workshop.path.read_bytes()


async def test_what_is_under_way_when_the_run_is_to_end_is_kept(workshop):
    """It is waited for, and nothing further is asked; another run does not pay for it again."""
    workshop.completer.released = asyncio.Event()
    paid = workshop.paid()
    running = asyncio.create_task(workshop.run(4, paid=paid))
    for _ in range(4):
        await workshop.completer.arrived.acquire()
    paid.stopping.set()
    workshop.completer.released.set()
    result, _ = await running
    assert (result.goldens, result.is_budget_spent, result.failure) == ([], False, "")
    assert len(workshop.model.asked) == 4
    await workshop.run(4)
    assert sum(asked.task == "write" for asked in workshop.model.asked) == 4


async def test_a_line_that_was_cut_short_is_written_anew(workshop):
    """As of a process that was killed; any other broken line is said."""
    first, _ = await workshop.run(2)
    whole = workshop.path.read_bytes()
    workshop.path.write_bytes(whole[:-40])
    again, paid = await workshop.run(2)
    assert again.goldens == first.goldens
    assert paid.paid_calls == 1
    assert len(workshop.path.read_bytes().splitlines()) == len(whole.splitlines())
    workshop.path.write_bytes(b"{}\n")
    with pytest.raises(InputError, match="line 1"):
        ReplyFile(workshop.path)


async def test_a_provider_that_is_down_ends_it(workshop):
    """With the reason; the questions are tried again by the next run."""
    workshop.completer.refusals.extend(
        ProviderError("no such model", kind="permanent") for _ in "1234"
    )
    result, _ = await workshop.run(3)
    assert "no such model" in result.failure
    assert reasons(result) == {DropReason.JUDGE_FAILED}
    result, _ = await workshop.run(3)
    assert len(result.goldens) == 3


async def test_a_reviewed_question_stands_as_it_is(workshop):
    """Made again from the replies it counts as made, and is not checked again."""
    first, _ = await workshop.run(3)
    edited = msgspec.structs.replace(first.goldens[0], question="Edited entirely?")
    calls = len(workshop.model.asked)
    again, _ = await workshop.run(3, known=[edited, *first.goldens[1:]])
    assert [golden.id for golden in again.goldens] == [golden.id for golden in first.goldens]
    assert len(workshop.model.asked) == calls


async def test_a_judge_that_is_no_language_model_says_so(tmp_path):
    """The built-in one cannot be asked."""
    paid = PaidModel(as_judge(BuiltinJudge()), None, ReplyFile(tmp_path / "replies"))
    with pytest.raises(SettingsError, match="language model"):
        await generate(chunks(), 1, paid)


def test_what_is_asked_fits_the_reservation():
    """The judge reserves for a prompt's frame; no request of ours has a longer one."""
    judge, _ = scripted_judge(GoldenModel())
    shown = Interaction(
        id="", query="", chunks=(Chunk(text=""),), answer="", framework="", started_ns=0, ended_ns=0
    )
    tasks = [write_task(to, is_answered=each) for each in (True, False) for to in ("en", "zh")]
    tasks += [task(to) for task in (read_task, compare_task) for to in ("en", "zh")]
    asker = judge.asker(shown, _read_nothing(judge))
    for task in tasks:
        prompt = asker.prompt(task.instructions, task.fields, task.shown)
        tokens = sum(estimate_tokens(each["content"]) for each in prompt.messages)
        assert tokens <= _FRAME_TOKENS


def _read_nothing(judge):
    from ragmonitor.goldens.paid_replies import _nothing_read

    return _nothing_read(
        as_judge(judge),
        Interaction(id="", query="", chunks=(), answer="", framework="", started_ns=0, ended_ns=0),
    )


# --- the order ------------------------------------------------------------------------------------


@given(sizes=st.lists(st.integers(1, 5), min_size=1, max_size=6), seed=st.integers(0, 9))
def test_every_document_is_asked_about_before_one_is_asked_about_twice(sizes, seed):
    """And each chunk once before any twice."""
    source = [
        ReferenceChunk(text=f"{document} {at}", source=str(document))
        for document, size in enumerate(sizes)
        for at in range(size)
    ]
    drawn = [*islice(_in_turn(source, seed), len(source))]
    assert len({chunk.source for chunk in drawn[: len(sizes)]}) == len(sizes)
    assert sorted(chunk.text for chunk in drawn) == sorted(chunk.text for chunk in source)
