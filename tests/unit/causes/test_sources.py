"""What a document's answers came to, and which documents are kept."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ragmonitor import Chunk
from ragmonitor.causes import sources
from ragmonitor.causes.sources import Sources, name_of
from ragmonitor.export.content import ContentPolicy
from ragmonitor.integration import Retrieval
from ragmonitor.records import Verdict
from tests.support.slice_answers import answer

POLICY = ContentPolicy(content="all")


def chunk(source: str) -> Chunk:
    return Chunk(text=f"Of {source}.", metadata={"source": source})


def test_counts_are_of_answers():
    """One that was shown two chunks of a document counts once; what was kept from it, as found."""
    part = Sources(POLICY)
    shown, found = (chunk("a.md"), chunk("a.md")), (chunk("a.md"), chunk("b.md"))
    retrieval = Retrieval(query="", chunks=found, started_ns=0, ended_ns=1)
    part.add(answer(1, chunks=shown, retrievals=(retrieval,)))
    listed = {each["document"]: each for each in part.views()["documents"]["listed"]}
    assert (listed["a.md"]["retrieved"], listed["a.md"]["shown"]) == (1, 1)
    assert (listed["b.md"]["retrieved"], listed["b.md"]["shown"]) == (1, 0)


@pytest.mark.parametrize("verdict", ["supported", "contradicted"])
def test_what_sentences_rest_on_and_what_contradicts_them_is_counted(verdict):
    """By the judge of quality; of the chunks that contradict a sentence the first."""
    part, given = Sources(POLICY), answer(1, chunks=(chunk("a.md"), chunk("b.md")))
    sentence = given.report.assessment.sentences[0]
    assessment = replace(
        given.report.assessment,
        sentences=(replace(sentence, verdict=Verdict(verdict), chunks=(1,)),),
    )
    report = replace(given.report, assessment=assessment)
    key = "judged" if given.completed.judged is not None else "builtin"
    part.add(given._replace(completed=replace(given.completed, **{key: report})))
    listed = {each["document"]: each for each in part.views()["documents"]["listed"]}
    counts = [(listed[n]["rests_on"], listed[n]["contradicted"]) for n in ("a.md", "b.md")]
    assert counts == [(0, 0), (1, 0) if verdict == "supported" else (0, 1)]


def test_the_newest_and_the_worst_are_kept(monkeypatch):
    """A document that contradicted an answer outlives those that were only retrieved."""
    monkeypatch.setattr(sources, "CAPACITY", 10)
    part = Sources(POLICY)
    for number in range(100):
        part.add(answer(number, at_s=float(number), chunks=(chunk(f"{number}.md"),)))
        if number == 0:
            part._sources["0.md"].contradicted = 1
    kept = part._sources.keys()
    assert len(kept) <= 20
    assert {"0.md", "99.md"} <= kept


@pytest.mark.parametrize(
    ("content", "name"), [("all", "hr/handbook.md"), ("hashed", "c-1"), ("none", "c-1")]
)
def test_a_source_is_a_text_and_an_id_is_none(content, name):
    """Without an id there is a hash of the source."""
    policy = ContentPolicy(content=content)
    assert name_of(Chunk(text="t", id="c-1", metadata={"source": "hr/handbook.md"}), policy) == name
    hashed = name_of(chunk("hr/handbook.md"), policy)
    assert (hashed == "hr/handbook.md") is (content == "all")
    assert content == "all" or hashed.startswith("document-")
