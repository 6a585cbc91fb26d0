"""Reading a judge's reply: tolerant of its form, strict about its content."""

import json

import pytest

from ragmonitor.judges.reply import read_reply, unknown_figures
from ragmonitor.judges.sentences import Sentence

SENTENCES = ["It lasts three hours.", "It is red.", "Paris is in Spain.", "You're welcome!"]
CHUNKS = ["It is red.", "Paris is in France."]
REPLY = {
    "s": ["N", [1], ["X", 2], "-"],
    "bad": [[1, "three hours"], [3, "Spain"]],
    "rel": 2,
    "evasive": False,
    "ctx": [2, 0],
}
TEXT = json.dumps(REPLY)


def read(text, sentences=SENTENCES, chunks=CHUNKS, **more):
    given = [Sentence(each, 0, len(each)) for each in sentences]
    return read_reply(text, sentences=given, chunks=chunks, **more)


def changed(**fields):
    return read(json.dumps(REPLY | fields))


@pytest.mark.parametrize(
    "text",
    [
        f"```json\n{TEXT}\n```",
        f"Sure! Here it is:\n{TEXT}\nI hope this helps {{really}}.",
        f"<thinking>S1 is {{odd}}, so {json.dumps({'s': [[1]]})}</thinking>\n{TEXT}",
        json.dumps(REPLY | {"note": "so } it ] is"}),
        json.dumps(REPLY | {"rel": "2", "ctx": ["2", 0], "evasive": "false"}),
        json.dumps(REPLY | {"s": {"1": "N", "2": [1], "3": ["X", 2], "4": None}}),
    ],
)
def test_the_form_is_forgiven(text):
    """Fences, prose, thoughts, commas, quotes and wrappers change nothing."""
    expected, reading = read(TEXT), read(text)
    assert [e.verdict for e in reading.sentences] == [e.verdict for e in expected.sentences]
    assert [e.chunks for e in reading.sentences] == [e.chunks for e in expected.sentences]
    assert reading.relevancy == expected.relevancy
    assert reading.evasive is expected.evasive
    assert reading.chunk_relevance == expected.chunk_relevance


@pytest.mark.parametrize(
    "value",
    [
        [[1], [1], "N"],
        [[3], [1], "N", "-"],
        [[], [1], "N", "-"],
        [[1.5], [1], "N", "-"],
        [["N", "X"], [1], "N", "-"],
        7,
        {"S1": "N"},
    ],
)
def test_wrong_verdicts_are_none_and_leave_the_rest(value):
    """A wrong count, an index out of range or an unknown word unreads `s`, and `s` alone."""
    reading = changed(s=value)
    assert reading.sentences is None
    assert reading.relevancy is not None
    assert reading.chunk_relevance == (1.0, 0.0)
    assert len(reading.problems) == 1
    assert reading.problems[0].startswith("s ")


@pytest.mark.parametrize("value", [4, -1, 2.5, True, None, "high", [2], float("nan"), 10**400])
def test_a_wrong_relevancy_is_none(value):
    """What is no whole number from 0 to 3 is no relevancy."""
    assert changed(rel=value).relevancy is None
    assert changed(rel=value).sentences is not None


@pytest.mark.parametrize("value", [[2], [2, 0, 1], [2, 3], [2, None], 2, "20", [2, False]])
def test_wrong_ratings_are_none(value):
    """Ratings of other chunks than were asked about are none."""
    assert changed(ctx=value).chunk_relevance is None


def test_two_replies_that_differ_are_none():
    """A draft and a correction, or an example and a reply: which is meant would be a guess."""
    reading = read(TEXT + "\nor rather\n" + json.dumps(REPLY | {"rel": 0}))
    assert not reading.is_usable


def test_words_that_the_sentence_lacks_are_left_out():
    """A quote is evidence only if it stands in its sentence, as it stands there."""
    reading = changed(bad=[[1, "four hours"], [1, "THREE  hours."], [9, "x"], [3], "x", [3, 4]])
    assert reading.sentences[0].words == ("three hours",)
    assert reading.sentences[2].words == ()


@pytest.mark.parametrize("bad", [[[2, "red", 2]], [[4, "welcome", 1]], [[2, "elsewhere"]]])
def test_a_sentence_that_bad_names_is_not_supported(bad):
    """A reply that says both of one sentence says neither: its verdicts are not read."""
    reading = changed(bad=[*REPLY["bad"], *bad])
    assert reading.sentences is None
    assert reading.relevancy is not None
    assert "bad calls it wrong" in reading.problems[0]


@pytest.mark.parametrize("verdicts", [[[0]] * 4, [[0], [0], "-", "-"], ["-"] * 4])
def test_a_whole_answer_that_claims_nothing_is_evasive_or_not_read(verdicts):
    """[0], or no claim, of every sentence of an answer that addresses the question."""
    assert changed(s=verdicts, bad=[]).sentences is None
    assert changed(s=verdicts, bad=[], evasive=True, rel=1).sentences is not None


def test_a_severity_counts_with_a_quote_of_its_sentence_alone():
    """Else a planted quote makes a finding minor."""
    rated = changed(bad=[[1, "three hours", 1], [3, "something else", 1]])
    assert [entry.severity for entry in rated.sentences] == ["minor", None, None, None]
    rated = changed(bad=[[1, "three hours", 2], [1, "something else", 1]])
    assert rated.sentences[0].severity == "major"


def test_a_broken_list_of_words_costs_no_score():
    """`bad` is evidence, not a score; without it the rest is complete."""
    reading = changed(bad="three hours")
    assert reading.problems == ()
    assert reading.sentences is not None


def test_the_numbers_of_what_the_chunks_lack_are_checked_too():
    """`[0]` of one sentence is no way around it."""
    sentences = ["It lasts 5 years.", "It is red."]
    text = '{"bad":[],"s":{"1":[0],"2":[1]},"rel":3,"evasive":false,"ctx":[2]}'
    assert read(text, sentences, ["It is red."]).sentences[0].reasons == ("number",)


@pytest.mark.parametrize(
    "text",
    [
        '{"' + '\\"' * 60_000,
        "{" * 120_000,
        ('"rel": [' + '"') * 15_000,
        ", " * 60_000,
    ],
)
def test_hostile_text_takes_no_long_time(text):
    """Text that would make a careless pattern quadratic is read like any other."""
    assert not read(text).is_usable


@pytest.mark.parametrize(
    ("sentence", "source", "unknown"),
    [
        ("It took 3 years.", "It took 3 years.", ()),
        ("It took 3 years.", "It took 4 years.", ("3",)),
        ("共300万人。", "共3000000人。", ()),
        ("共300人。", "共\uff13\uff10\uff10人。", ()),
        ("增长1.2亿元。", "增长12000万元。", ()),
        ("Use the A4 tray.", "Use the tray.", ()),
        ("自收货之日起的，15天内可退。", "15天内可退。", ()),
        ("The range is [3,15].", "The range is 3 to 14.", ("15",)),
    ],
)
def test_numbers_are_compared_by_value(sentence, source, unknown):
    """Separators, scales, widths and small number words do not make a number another one."""
    assert unknown_figures(sentence, source) == unknown


def test_a_supported_number_is_looked_for_in_the_cited_chunks_only():
    """Another chunk's number does not back the sentence; the question's does."""
    sentences, chunks = ["It lasts 5 years."], ["It lasts 3 years.", "It weighs 5 kg."]
    text = '{"s":[[1]],"bad":[],"rel":3,"evasive":false,"ctx":[2,0]}'
    assert read(text, sentences, chunks).sentences[0].reasons == ("number",)
    assert read(text, sentences, chunks, question="Is it 5 years?").sentences[0].reasons == ()


@pytest.mark.parametrize("tag", ["<think>", "<thinking>\n"])
def test_a_draft_in_thoughts_that_were_cut_is_no_reply(tag: str):
    """A model that has not ended its thoughts has not replied, and is asked again."""
    found = read_reply(f"{tag}Perhaps {TEXT}. But S2", sentences=SENTENCES, chunks=CHUNKS)
    assert not found.is_usable
