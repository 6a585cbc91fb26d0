"""What is known of documents, and which are named."""

import json
import random
from collections.abc import Sequence

import pytest

from ragmonitor.causes.conflicting_chunks import ConflictingChunks
from ragmonitor.causes.document_causes import Documents, explained
from ragmonitor.errors import JudgeError
from ragmonitor.estimation.parts import Answer
from ragmonitor.estimation.signals import outcomes
from ragmonitor.export.content import Content, ContentPolicy
from ragmonitor.judges.builtin import BuiltinJudge
from ragmonitor.records import (
    Assessment,
    Cause,
    Chunk,
    CompletedAnswer,
    Interaction,
    JudgeIdentity,
    Report,
    Retrieval,
    SamplingDecision,
    SentenceVerdict,
    Verdict,
)

JUDGE = JudgeIdentity(name="model", version="1", kind="LLM")
START_S = 1_000_000.0


def chunk(name: str) -> Chunk:
    """Return a chunk of a document without an id of the store's."""
    return Chunk(text=f"What {name} says.", metadata={"source": name})


def answer(
    chunks: Sequence[Chunk],
    *,
    bad: bool = False,
    at_s: float = START_S,
    decision: SamplingDecision | None = None,
    relevance: Sequence[float] | None = None,
    sentence: SentenceVerdict | None = None,
    retrievals: Sequence[Retrieval] = (),
    query: str = "How long is the warranty?",
    session: str = "",
) -> Answer:
    """Return a completed answer; judged if it has no decision, or was drawn."""
    interaction = Interaction(
        id=f"i{at_s}",
        query=query,
        chunks=tuple(chunks),
        answer="The warranty lasts two years.",
        framework="python",
        started_ns=0,
        ended_ns=int(at_s * 1e9),
        retrievals=tuple(retrievals),
        session_id=session,
    )
    verdict = sentence or SentenceVerdict(
        text=interaction.answer,
        start=0,
        end=len(interaction.answer),
        verdict=Verdict.ABSENT if bad else Verdict.SUPPORTED,
        chunks=() if bad or not chunks else (0,),
    )
    assessment = Assessment(
        judge=JUDGE,
        language="en",
        sentences=(verdict,),
        answer_relevancy=1.0,
        evasive=False,
        chunk_relevance=tuple(1.0 for _ in chunks) if relevance is None else tuple(relevance),
    )
    report = Report(interaction=interaction, judge=JUDGE, evaluations=(), assessment=assessment)
    judged = report if decision is not None and decision.drawn else None
    found = outcomes(report)
    return Answer(
        completed=CompletedAnswer(builtin=report, decision=decision, judged=judged),
        interaction=interaction,
        at_s=at_s,
        group=-1,
        builtin=found,
        judged=found if judged is not None else None,
        weight=1 / decision.inclusion_probability if decision is not None else 0.0,
    )


def documents(
    *, is_sampled: bool = False, content: Content = "all", capacity: int = 2_000
) -> Documents:
    """Return the part, whose lists are drawn up whenever they are asked for."""
    ticks = iter(range(0, 10**9, 100))
    return Documents(
        is_sampled=is_sampled,
        read=BuiltinJudge().read,
        policy=ContentPolicy(content=content, key=b"key"),
        capacity=capacity,
        clock=lambda: float(next(ticks)),
        now=lambda: START_S + 3_600.0,
    )


def fed(
    found: Documents, answers: int, *, bad_document: str = "", judged: float = 1.0, seed: int = 7
) -> Documents:
    """Feed answers of three of twenty documents each; one goes bad halfway."""
    rng = random.Random(seed)
    for turn in range(answers):
        names = [f"d{at}.md" for at in rng.sample(range(20), 3)]
        is_spoilt = bad_document in names and turn > answers / 2
        bad = rng.random() < (0.7 if is_spoilt else 0.05)
        decision = None
        if judged < 1:
            drawn = rng.random() < judged
            decision = SamplingDecision(inclusion_probability=judged, drawn=drawn, rate=judged)
        found.add(
            answer([chunk(name) for name in names], bad=bad, at_s=START_S + turn, decision=decision)
        )
    return found


def view(found: Documents) -> dict:
    """Return the lists."""
    return found.views()["documents"]


def test_a_document_that_goes_bad_is_named_and_no_other():
    """It is the first cause, since the time it went bad, and explains the rise."""
    found = fed(documents(), 1_000, bad_document="d7.md")
    first, *others = found.candidates("hallucination", START_S + 500)
    assert (first.name, first.kind, first.is_discovery) == ("d7.md", "document", True)
    assert not any(each.is_discovery for each in others)
    assert first.now is not None
    assert first.before is not None
    assert first.now.lower > 0.4 > first.before.upper
    assert first.explained is not None
    assert first.explained_lower is not None
    assert first.explained_lower < first.explained
    assert first.explained > 0.5
    assert first.examples
    assert all(each.at_s >= START_S + 500 for each in first.examples)
    listed = view(found)["misleading"][0]
    assert listed["document"] == "d7.md"
    assert listed["is_discovery"]
    assert listed["with"]["lower"] > listed["without"]["upper"]


def test_a_sample_of_the_verdicts_is_enough():
    """Of answers that are drawn with a chance of 30 % the same document is named."""
    found = fed(documents(is_sampled=True), 3_000, bad_document="d7.md", judged=0.3)
    assert [each.name for each in found.candidates("faithfulness", 0) if each.is_discovery] == [
        "d7.md"
    ]


def test_nothing_is_named_where_nothing_is_wrong():
    """All documents alike: no discovery."""
    found = fed(documents(), 2_000)
    assert not any(each.is_discovery for each in found.candidates("hallucination", 0))
    assert not any(each["is_discovery"] for each in view(found)["misleading"])


def test_other_signals_have_no_cause_here():
    """What does not rest on these verdicts is not explained by them."""
    assert fed(documents(), 300, bad_document="d7.md").candidates("refusal", 0) == ()


def test_one_session_counts_once_in_a_row():
    """Somebody who asks again and again about one document is no evidence against it."""
    found = documents()
    for turn in range(300):
        found.add(answer([chunk("other.md")], at_s=START_S + turn))
        found.add(answer([chunk("d.md")], bad=True, at_s=START_S + turn, session="one"))
    assert not any(each.is_discovery for each in found.candidates("hallucination", 0))


def test_counts_by_hand():
    """Retrieved, shown, relevant, rested on, contradicted: each answer for one."""
    found = documents()
    contradicted = SentenceVerdict(
        text="It lasts two years.", start=0, end=19, verdict=Verdict.CONTRADICTED, chunks=(1,)
    )
    both = [chunk("a.md"), chunk("b.md")]
    brought = Retrieval(query="q", chunks=(*both, chunk("c.md")), started_ns=0, ended_ns=1)
    for turn in range(5):
        found.add(answer(both, at_s=START_S + turn, relevance=(1, 0), retrievals=[brought]))
    found.add(answer(both, at_s=START_S + 9, relevance=(1, 0), sentence=contradicted))
    by_name = {each.name: each for each in found._table}
    a, b, c = (by_name[name] for name in ("a.md", "b.md", "c.md"))
    assert (a.retrieved, a.shown, a.relevant, a.rests_on, a.contradicted) == (6, 6, 6, 5, 0)
    assert (b.retrieved, b.shown, b.relevant, b.rests_on, b.contradicted) == (6, 6, 0, 0, 1)
    assert (c.retrieved, c.shown, c.rated) == (5, 0, 0)


def test_noise_is_retrieved_often_and_never_relevant():
    """One that was relevant once is none."""
    found = documents()
    for turn in range(12):
        relevance = (1.0, 0.0, float(turn == 3))
        names = ("good.md", "noise.md", "rare.md")
        found.add(answer(list(map(chunk, names)), at_s=START_S + turn, relevance=relevance))
    assert [each["document"] for each in view(found)["noise"]] == ["noise.md"]


def test_missing_questions_are_put_together():
    """Questions for which nothing relevant was found, the largest cluster first, with examples."""
    found = documents()
    asked = (
        "How do I cancel my subscription?",
        "Can I cancel the subscription online?",
        "Where is the subscription cancelled, please?",
        "Which colours does the sofa come in?",
    )
    others = ("How long is the warranty?", "What does the delivery cost?", "Is the shop open now?")
    for turn in range(60):
        found.add(answer([chunk("a.md")], at_s=START_S + turn, query=others[turn % 3]))
        found.tick()
    for turn, query in enumerate(asked):
        found.add(answer([chunk("a.md")], at_s=START_S + turn, relevance=(0.5,), query=query))
    found.tick()
    missing = view(found)["missing"]
    assert [each["judged"] for each in missing] == [3, 1]
    assert missing[0]["examples"][0]["question"] == asked[2]
    assert view(found)["missing_questions"] == 4.0


def test_chunks_that_disagree_are_found():
    """The judge follows one chunk; the built-in judge finds that the other says otherwise."""
    found = documents()
    old = Chunk(text="Refunds are possible within 14 days of delivery.", id="old")
    new = Chunk(text="Refunds are possible within 30 days of delivery.", id="new")
    said = "Refunds are possible within 30 days of delivery."
    sentence = SentenceVerdict(
        text=said, start=0, end=len(said), verdict=Verdict.SUPPORTED, chunks=(1,)
    )
    found.add(answer([old, new], sentence=sentence))
    found.add(answer([chunk("a.md"), chunk("b.md")], at_s=START_S + 1))
    found.tick()
    (pair,) = view(found)["conflicting"]
    assert (pair["supports"], pair["contradicts"], pair["sentence"]) == ("new", "old", said)


def test_a_chunk_that_cannot_be_read_conflicts_with_nothing():
    """A chunk beyond the built-in judge's limits is passed over."""

    def refuses(_: Interaction) -> Assessment:
        raise JudgeError("model", "too long", retryable=False, cause=Cause.TOO_LONG)

    pairs = ConflictingChunks(refuses, ContentPolicy())
    one = answer([chunk("a.md"), chunk("b.md")])
    assert one.completed.builtin.assessment is not None
    pairs.add(one.completed, one.completed.builtin.assessment, ["a.md", "b.md"], START_S)
    pairs.tick()
    assert pairs.record(9) == []


def test_the_turn_that_lost_it_is_shown():
    """Of two retrievals, the second brought nothing relevant in the bad answers."""
    found = documents()
    for turn in range(6):
        first = Retrieval(query="q", chunks=(chunk("a.md"),), started_ns=0, ended_ns=1, name="kb")
        second = Retrieval(query="q", chunks=(chunk("b.md"),), started_ns=0, ended_ns=1, name="web")
        third = Retrieval(query="q", chunks=(), started_ns=0, ended_ns=1, name="web")
        found.add(
            answer(
                [chunk("a.md"), chunk("b.md")],
                at_s=START_S + turn,
                bad=turn % 2 == 0,
                relevance=(1.0, 0.0),
                retrievals=[first, second, third],
            )
        )
    rows = {(row["retriever"], row["turn"]): row for row in view(found)["retrievals"]}
    assert rows["kb", 1]["relevant"]["mean"] == 1.0
    assert rows["kb", 1]["lost"] == 0
    assert (rows["web", 2]["relevant"]["mean"], rows["web", 2]["lost"]) == (0.0, 3)
    assert rows["web", 3]["empty"] == 6


def test_memory_is_bounded_and_the_frequent_ones_stay():
    """Among fifty thousand documents that come once, the one of every tenth answer is kept."""
    found = documents(capacity=500)
    for turn in range(10_000):
        names = [f"d{5 * turn + at}" for at in range(5)]
        if turn % 10 == 0:
            names[0] = "often.md"
        found.add(answer(list(map(chunk, names)), at_s=START_S + turn))
    kept = {each.name: each for each in found._table}
    assert len(kept) <= 1_000
    assert kept["often.md"].retrieved == 1_000


@pytest.mark.parametrize("content", ["none", "hashed"])
def test_no_text_is_kept_where_none_may_leave(content: Content):
    """Neither of questions nor of chunks, sources included; ids of the store stay."""
    found = documents(content=content)
    secret = Chunk(
        text="CANARY refunds are possible within 14 days of delivery.",
        metadata={"source": "CANARY.md"},
    )
    plain = Chunk(text="CANARY refunds are possible within 30 days of delivery.", id="store-1")
    sentence = SentenceVerdict(
        text="CANARY refunds are possible within 30 days of delivery.",
        start=0,
        end=56,
        verdict=Verdict.SUPPORTED,
        chunks=(1,),
    )
    for turn in range(20):
        relevance = (1.0, 1.0) if turn % 2 else (0.0, 0.0)
        found.add(
            answer(
                [secret, plain],
                at_s=START_S + turn,
                relevance=relevance,
                sentence=sentence,
                query="What about CANARY?",
            )
        )
        found.add(answer([secret], bad=True, at_s=START_S + turn))
        found.tick()
    lists = json.dumps(view(found))
    assert "CANARY" not in lists
    assert "store-1" in lists
    assert ("hmac-sha256" in lists) == (content == "hashed")
    assert not any(each.examples for each in found.candidates("hallucination", 0))


def test_explained_by_hand():
    """Half of the answers rise from 0.1 to 0.5 and the others stay: all of the rise is theirs."""
    now, before = [100, 100, 100, 50, 50, 50], [100, 100, 100, 10, 10, 10]
    all_now, all_before = [200, 200, 200, 60, 60, 60], [200, 200, 200, 20, 20, 20]
    found = explained(now, before, all_now, all_before)
    assert found is not None
    value, lower, upper = found
    assert value == pytest.approx(1.0)
    assert 0.3 < lower < 1.0 < upper < 1.7


def test_a_child_process_begins_anew():
    """What belongs to the parent of a fork is forgotten."""
    found = fed(documents(), 50)
    found.clear()
    assert found.views() == {}
    assert found.candidates("hallucination", 0) == []
