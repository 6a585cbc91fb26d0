"""A reference answer read by a model: one more call, nothing of it guessed."""

from dataclasses import replace

import pytest

from ragmonitor.judges.builtin import BuiltinJudge
from ragmonitor.judges.calls import Breaker, Calls
from ragmonitor.judges.long_evidence import Part
from ragmonitor.judges.provider import Completer, Completion
from ragmonitor.judges.reference_checks import SYSTEM, read_reference
from ragmonitor.records import Cause, JudgeUsage
from tests.support.stories import assessment, interaction

TOLD = interaction(
    texts=("The tower was built in 1887.", "Cats sleep all day."),
    answer="Hello! The tower was built in 1887. It cost nothing.",
    reference="The tower was built in 1887. Cats sleep all day. It is red.",
)


class Saying(Completer):
    """Says one text after the other, the last one again and again."""

    def __init__(self, *texts):
        self.texts = list(texts)

    async def complete(self, _prompt, *, max_tokens):
        text = self.texts.pop(0) if len(self.texts) > 1 else self.texts[0]
        return Completion(text=text, model="m", is_cut=False, usage=JudgeUsage())


def saying(*texts):
    return Calls(completer=Saying(*texts), breaker=Breaker(), timeout_s=30.0, pause=lambda _: None)


# What a reply says


async def read(text, *, chunks=2, told=TOLD):
    """Return what a reply to a question about these many chunks says."""
    found = assessment("no_claim", "supported", "absent")
    parts = [Part(position=at, text="x") for at in range(chunks)]
    read = await read_reference(saying(text), told, found, [parts])
    return read.reference or read.reference_cause


async def test_a_whole_reply():
    """Flags, chunks from 0, and what claims nothing."""
    found = await read('{"a":[0,1,0],"r":[[1,2],[],"-"],"in":[1,0,0]}')
    assert found.answer_claims == (True, False)
    assert [s.chunks for s in found.sentences] == [(0, 1), ()]
    assert [s.in_answer for s in found.sentences] == [True, False]


@pytest.mark.parametrize(
    "text",
    [
        '{"a":[1,1],"r":[[1]],"in":[1]}',
        '{"a":[1],"r":[[3]],"in":[1]}',
        '{"a":[1],"r":[["one"]],"in":[1]}',
        '{"a":[1],"r":[[1]],"in":[[1]]}',
        '{"a":[1],"r":[[1]]',
    ],
)
async def test_what_is_about_something_else_is_not_read(text):
    """Wrong counts, chunks that are not there, other values."""
    one = replace(TOLD, answer="It is red.", reference="It is red.")
    assert await read(text, told=one) is Cause.UNREADABLE


async def test_the_prompts_own_example_is_no_reply():
    """A model that repeats it has judged nothing; nor is it one of two."""
    four = replace(TOLD, reference=f"{TOLD.reference} It is old.")
    for system in SYSTEM.values():
        example = system[system.index('{"a"') :]
        assert await read(example, chunks=12, told=four) is Cause.UNREADABLE
        honest = '{"a":[0,0,0],"r":[[],[],[],[]],"in":[0,0,0,0]}'
        found = await read(f"Like {example}: {honest}", chunks=12, told=four)
        assert found.answer_claims == (False, False)


# Long evidence


async def test_shares_of_long_evidence_are_joined():
    """A sentence of the reference rests on what any share entails, numbered as in the whole."""
    calls = saying(
        '{"a":[0,1,0],"r":[[1],[],"-"],"in":[1,0,0]}',
        '{"a":[0,1,0],"r":[[],[2],[]],"in":[1,0,0]}',
    )
    found = assessment("no_claim", "supported", "absent")
    shares = [
        [Part(position=0, text="x")],
        [Part(position=1, text="y"), Part(position=2, text="z")],
    ]
    read = (await read_reference(calls, TOLD, found, shares)).reference
    assert read.answer_claims == (True, False)
    assert [s.chunks for s in read.sentences] == [(0,), (2,), ()]


# Without a model


def test_the_builtin_judge_reads_it_too():
    """In the same reading, from the same texts."""
    found = BuiltinJudge().read(TOLD)
    assert [(s.chunks, s.in_answer) for s in found.reference.sentences] == [
        ((0,), True),
        ((1,), False),
        ((), False),
    ]
    assert found.reference.answer_claims == (True, False)
    assert BuiltinJudge().read(replace(TOLD, reference="")).reference is None
