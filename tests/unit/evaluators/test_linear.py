"""What runs behind every answer grows in proportion to its chunks, sentences and citations."""

import pytest

from ragmonitor.evaluators import evaluate, table
from ragmonitor.evaluators.citations import numbers
from ragmonitor.evaluators.retrieval import context_rouge_l, document_precision
from ragmonitor.records import (
    Assessment,
    Cause,
    Chunk,
    ReferenceReading,
    ReferenceSentence,
    Scored,
    SentenceVerdict,
    Verdict,
)
from ragmonitor.runtime.errors import NotScorableError
from tests.support.counting import counted
from tests.support.stories import JUDGE, interaction
from tests.support.timing import grows_at_most

SMALL, BIG = 200, 800
LINEAR = 5.0
"""Most that four times as much may take of work; quadratic work takes 16 times."""


def story(count, *, cite, chunks=None):
    """Return `count` chunks and as many claims, each of which cites, with their assessment."""
    held = tuple(
        Chunk(text=f"Fact {n}.", id=f"c{n}", metadata={"title": f"page {n}"}) for n in range(count)
    )
    texts = [f"Fact {n} {cite(n)}." for n in range(count)]
    told = interaction(
        answer=" ".join(texts),
        chunks=held,
        reference=" ".join(texts),
        reference_chunks=tuple(Chunk(text=f"Fact {n}.", id=f"c{n}") for n in range(count)),
    )
    supports = chunks or (lambda n: (n,))
    assessment = Assessment(
        judge=JUDGE,
        language="en",
        sentences=tuple(
            SentenceVerdict(
                text=text,
                start=0,
                end=len(text),
                verdict=Verdict.SUPPORTED if n % 3 else Verdict.ABSENT,
                chunks=supports(n) if n % 3 else (),
                words=(str(n),),
            )
            for n, text in enumerate(texts)
        ),
        answer_relevancy=1.0,
        evasive=False,
        chunk_relevance=tuple(n % 5 / 4 for n in range(count)),
        reference=ReferenceReading(
            sentences=tuple(
                ReferenceSentence(text=text, chunks=(n,), in_answer=bool(n % 2))
                for n, text in enumerate(texts)
            ),
            answer_claims=tuple(bool(n % 2) for n in range(count)),
        ),
    )
    return told, assessment


STORIES = {
    "numbers": {"cite": lambda n: f"[{n % 900 + 1}]"},
    "brackets in brackets": {"cite": lambda n: "[" * 40 + str(n % 900) + "]" * 40},
}


@pytest.mark.parametrize("name", STORIES)
def test_four_times_as_much_is_four_times_the_work(name):
    """No evaluator of the table compares every sentence or citation with every chunk."""
    work = []
    for count in (SMALL, BIG):
        told, assessment = story(count, **STORIES[name])
        with counted("evaluators") as lines:
            found = evaluate(table, told, assessment)
        assert sum(isinstance(each, Scored) for each in found) > 25
        work.append(lines[0])
    assert work[1] < LINEAR * work[0]


def test_what_is_too_long_to_compare_is_not_scored():
    """An edit distance of a megabyte to a megabyte would hold the worker for minutes."""
    told, assessment = story(2, **STORIES["numbers"])
    told = interaction(
        chunks=(Chunk(text="ab " * 300_000),),
        reference="cd " * 300_000,
        reference_chunks=(Chunk(text="cd " * 300_000),),
    )
    for evaluator in (document_precision, context_rouge_l):
        with pytest.raises(NotScorableError) as caught:
            evaluator(told, assessment)
        assert caught.value.cause is Cause.TOO_LONG


GIANTS = {
    "one giant list": lambda n: "[" + "1, " * n + "2]",
    "brackets in brackets": lambda n: "[" * n + "1" + "]" * n,
    "long place": lambda n: "[1†" + "a" * n + "]",
    "digits": lambda n: "[" + "1" * n + "]",
    "back-ticks and lines": lambda n: "`a\n" * n,
    "documents": lambda n: "[document " * n,
}


@pytest.mark.parametrize("name", GIANTS)
def test_no_citation_is_tried_again_and_again(name):
    """Patterns of citations take time in proportion; quadratic ones 16 times for four."""
    assert grows_at_most(8, numbers, GIANTS[name](20_000), GIANTS[name](80_000))
