"""Golden questions made of documents: what the second reading keeps, drops, and costs."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from ragmonitor.goldens.generating import Generator
from ragmonitor.judges.kept_replies import KeepingJudge, KeptReplies
from ragmonitor.records import Chunk
from ragmonitor.runtime.capabilities import as_judge
from ragmonitor.sampling import RunBudget
from tests.support.golden_model import GoldenModel, scripted_judge

SUBJECTS = ("bicycles", "kettles", "violins", "lanterns", "compasses", "umbrellas")
TOWNS = ("Aarhus", "Brno", "Coimbra", "Debrecen", "Esbjerg", "Funchal")
ADVERBS = ("slowly", "cheaply", "gladly", "rarely", "quietly", "proudly")


def chunks(documents: int = 6, each: int = 4) -> list[Chunk]:
    """Return chunks that share a subject within and across documents, and no sentence."""
    return [
        Chunk(
            text=f"{TOWNS[d]} sells {SUBJECTS[part]} by hand {ADVERBS[(d + part) % 6]}, of which "
            f"{1900 + 10 * d + part} were made there in {TOWNS[d]} alone. Closed on day {part}.",
            metadata={"source": f"{d}.md"},
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

    def generator(self, budget: float = 1.0, source=None) -> Generator:
        judge = KeepingJudge(as_judge(self.judge).within_budget("usd"), KeptReplies(self.path))
        return Generator(source or chunks(), judge, RunBudget(budget, unit="usd"))

    async def run(self, n=6, *, budget=1.0, source=None) -> Generator:
        made = self.generator(budget, source)
        await made.run(n)
        return made

    def replies(self, task: str, **fields) -> None:
        """Have all replies to a task be these."""
        self.model.given[task] = lambda _asked: fields


@pytest.fixture
def workshop(tmp_path) -> Workshop:
    return Workshop(tmp_path)


def reasons(result: Generator) -> set[str]:
    assert not result.goldens
    return {reason for counts in result.counts.values() for reason in counts}


# --- what is kept ---------------------------------------------------------------------------------


async def test_the_readings_are_independent(workshop):
    """Who reads with chunks sees no reference answer."""
    await workshop.run(2)
    shown = {asked.task: set(asked.sections) for asked in workshop.model.asked}
    assert shown == {
        "write": {"CHUNKS"},
        "read": {"CHUNKS", "QUESTION"},
        "compare": {"QUESTION", "ANSWER", "REFERENCE"},
    }


# --- what is dropped ------------------------------------------------------------------------------

ANSWERED = {"says": "answered", "reply": "Made by hand."}


@pytest.mark.parametrize(
    ("task", "fields", "reason"),
    [
        ("read", {"says": "absent", "reply": ""}, "not_answerable"),
        ("read", {**ANSWERED, "says": "maybe"}, "unreadable"),
        ("compare", {"same": "yes"}, "unreadable"),
        ("write", {"question": "How?", "answer": ""}, "unreadable"),
    ],
)
async def test_a_question_is_dropped_with_its_reason(workshop, task, fields, reason):
    """Whatever the writer meant it to be."""
    workshop.replies(task, **fields)
    result = await workshop.run(1)
    assert reasons(result) <= {reason, "duplicate"}
    assert reason in reasons(result)


async def test_an_unanswerable_question_is_looked_up_in_other_documents(workshop):
    """What its own chunk lacks may stand elsewhere."""
    elsewhere = Chunk(text="Zebra crossings of the quarter were painted by Orsolya Feher.")
    workshop.replies("write", question="Who painted the zebra crossings of the quarter?", answer="")
    await workshop.run(5, source=[*chunks(), elsewhere])
    read = [asked for asked in workshop.model.asked if asked.task == "read"]
    assert read
    assert all(elsewhere.text in asked.chunks for asked in read)


# --- what it costs --------------------------------------------------------------------------------


async def test_a_second_run_pays_nothing(workshop):
    """It makes the same, from the replies that were kept."""
    first = await workshop.run(5)
    calls = len(workshop.model.asked)
    again = await workshop.run(5)
    assert again.goldens == first.goldens
    assert len(workshop.model.asked) == calls


@pytest.mark.parametrize("budget", [0.0005, 0.002, 0.004, 0.006])
async def test_nothing_is_spent_beyond_the_budget_and_a_larger_one_goes_on(workshop, budget):
    """In all runs together; what was paid before is not paid again."""
    whole = Workshop(workshop.path.parent / "..")
    whole.path = workshop.path.with_name("whole")
    wanted = await whole.run(6)
    paid = await workshop.run(6, budget=budget)
    assert paid.budget.is_spent
    assert paid.usage.cost_usd <= budget
    result = await workshop.run(6)
    assert result.goldens == wanted.goldens
    assert len(workshop.model.asked) == len(whole.model.asked)


async def test_a_call_that_is_cancelled_is_paid(workshop):
    """The provider goes on and bills: its cost is kept, and no later run has that money again."""
    workshop.completer.released = asyncio.Event()
    made = workshop.generator()
    running = asyncio.create_task(made.run(1))
    await workshop.completer.arrived.acquire()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert KeptReplies(workshop.path).usage.input_tokens > 100
    assert made.usage.cost_usd > 0


async def test_what_is_under_way_when_the_run_is_to_end_is_kept(workshop):
    """It is waited for, and nothing further is asked; another run does not pay for it again."""
    workshop.completer.released = asyncio.Event()
    made = workshop.generator()
    running = asyncio.create_task(made.run(4))
    for _ in range(4):
        await workshop.completer.arrived.acquire()
    made.stopping.set()
    workshop.completer.released.set()
    await running
    assert (made.goldens, made.budget.is_spent, made.failure) == ([], False, "")
    assert len(workshop.model.asked) == 4
    await workshop.run(4)
    assert sum(asked.task == "write" for asked in workshop.model.asked) == 4
