"""Structured chunks are read as fields, and what an answer says is checked against them."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from ragmonitor.judges.builtin import assess, evidence
from ragmonitor.judges.builtin.structured import formats
from ragmonitor.records import SentenceVerdict, Verdict
from tests.support.judge_caches import clear_kept
from tests.support.scripts import ROOT
from tests.support.structured import Case, assessed, cases, is_flagged, names_field

SUPPORTED, ABSENT, CONTRADICTED = Verdict.SUPPORTED, Verdict.ABSENT, Verdict.CONTRADICTED
DATA = ROOT.parent / "shared" / "data"
BUILT_WITH = [case for case in cases() if not case.is_held_out]
SHOP = {
    "name": "Elm Books",
    "hours": {"Monday": "9:0-18:0", "Sunday": None},
    "wifi": False,
    "parking": None,
    "stars": 4.5,
    "reviews": [{"stars": 5, "text": "The staff is kind."}, {"stars": 4, "text": "Too warm."}],
}


def only(answer: str, *chunks: str) -> SentenceVerdict:
    (sentence,) = assess("", chunks or [json.dumps(SHOP)], answer).sentences or ()
    return sentence


@pytest.mark.parametrize("case", BUILT_WITH, ids=lambda case: f"{case.name}: {case.sentence}")
def test_a_sentence_about_a_structured_chunk(case: Case):
    """What a field says is supported in any words; what it says otherwise names the field."""
    found = assessed(case)
    assert is_flagged(found) == bool(case.field)
    assert not case.field or names_field(case, found)


def test_sentences_that_the_reader_was_not_built_with():
    """It carries over to chunks that were not looked at while it grew."""
    read = [(case, assessed(case)) for case in cases() if case.is_held_out]
    good = [not is_flagged(found) for case, found in read if not case.field]
    bad = [is_flagged(found) and names_field(case, found) for case, found in read if case.field]
    assert sum(good) / len(good) >= HELD_OUT_PASS
    assert sum(bad) / len(bad) >= HELD_OUT_NAMED


HELD_OUT_PASS, HELD_OUT_NAMED = 0.9, 0.9


FORMS = {
    "json": '{"model": "Brio", "price": "$40", "dimmable": false}',
    "json without its end": '{"model": "Brio", "price": "$40", "dimmable": false, "color',
    "python": "{'model': 'Brio', 'price': '$40', 'dimmable': False}",
    "yaml": "model: Brio\nprice: $40\ndimmable: false\n",
    "bullets": "- **Model**: Brio\n- **Price**: $40\n- **Dimmable**: no",
    "one line": "Model: Brio | Price: $40 | Dimmable: no",
    "csv": "model,price,dimmable\nBrio,$40,no\nCelo,$55,yes",
    "csv of long cells": 'model,note,price,dimmable\nBrio,"new,\nold",$40,no\nCelo,,$55,yes',
    "tsv": "Model\tPrice\tDimmable\nBrio\t$40\tno",
    "markdown": "| Model | Price | Dimmable |\n|---|---|---|\n| Brio | $40 | no |",
    "html": "<table><tr><th>Model</th><th>Price</th><th>Dimmable</th></tr>"
    "<tr><td>Brio</td><td>$40</td><td>no</td></tr></table>",
    "fields and values": "| Field | Value |\n|---|---|\n| Model | Brio |\n| Price | $40 |\n"
    "| Dimmable | no |",
}


@pytest.mark.parametrize("form", FORMS)
def test_every_format_says_the_same(form: str):
    """The same fields support and contradict the same sentences."""
    chunk = FORMS[form]
    assert only("The Brio costs $40.", chunk).verdict is SUPPORTED
    assert only("The Brio is not dimmable.", chunk).verdict is SUPPORTED
    for answer, field in (("The Brio costs $55.", "price"), ("The Brio is dimmable.", "dimmable")):
        sentence = only(answer, chunk)
        assert (sentence.verdict, sentence.reasons[0]) == (CONTRADICTED, "field")
        assert field in sentence.reasons[1].lower()


def test_a_table_with_stray_carriage_returns_is_read():
    """They are no error of the reader of commas, and no end of a line."""
    chunk = FORMS["csv"].replace("dimmable\n", "dimmable\r \r\n")
    assert only("The Brio costs $40.", chunk).verdict is SUPPORTED


def test_json_without_its_end_keeps_what_is_inside_what():
    """A field is named with the objects around it, as in the whole."""
    chunk = json.dumps(SHOP | {"attributes": {"dogs": False, "tv": True}}).removesuffix("}}")
    assert only("Dogs are allowed.", chunk + ', "bar').reasons[-1] == "attributes.dogs: False"


@pytest.mark.parametrize(
    "prose",
    [
        "The tower opened in 1889: it was a success.\nIt is 330 metres tall.",
        "Alice: I will come.\nBob: So will I, I think.\nAlice: See you there, then.",
        "Paris, Lyon, Nice\nRome, Milan, Turin\nBerlin, Bonn, Mainz",
        '["one sentence.", "another one."]',
        "He said {sic} that [it] was | fine.",
        "120 of 200; wifi: no; parking: no; city: Austin",
    ],
)
def test_prose_stays_prose(prose: str):
    """Colons, commas and brackets alone make no record."""
    assert formats.records_of(prose) is None


def test_hours_from_a_time_to_the_same_say_neither():
    """`0:0-0:0` is written where it is closed, and where it never is."""
    chunk = json.dumps({"name": "Elm", "hours": {"Monday": "0:0-0:0", "Friday": "9:0-17:0"}})
    sentence = only("Elm is open on Monday.", chunk)
    assert (sentence.verdict, sentence.reasons[-1]) == (Verdict.ABSENT, "hours.Monday: 0:0-0:0")


def test_a_field_without_a_value_says_neither():
    """Null is no `false`: what is said of it is in no chunk, whichever it is."""
    said = ["It has parking.", "They have parking.", "It does not provide parking."]
    for answer in (*said, "Parking is not available."):
        sentence = only(answer)
        assert (sentence.verdict, sentence.reasons[-2:]) == (ABSENT, ("field", "parking: null"))
    assert only("It is open on Sundays.").reasons[-2:] == ("field", "hours.Sunday: null")
    assert only("Whether it has parking is not known.").verdict is not CONTRADICTED


def test_lists_are_counted_and_summed_up():
    """Neither the number of reviews nor their average stands anywhere in the chunk."""
    assert only("Two reviews give it 4.5 stars on average.").verdict is SUPPORTED
    assert only("It has three reviews.").reasons == ("field", "reviews: 2 items")


PUB = {
    "name": "The Vaults",
    "near": "Raja Indian Cuisine",
    "familyFriendly": "no",
    "wifi": "yes",
    "customer rating": "1 out of 5",
    "priceRange": "moderate",
}


@pytest.mark.parametrize(
    ("answer", "label"),
    [
        ("The Vaults is a pub near Raja Indian Cuisine that is not family friendly.", ""),
        ("The Vaults isn't child-friendly but has wifi.", ""),
        ("The Vaults has a customer rating of 1 out of 5.", ""),
        ("The Vaults has a customer rating of 5 out of 5.", "customer rating: 1 out of 5"),
    ],
)
def test_what_is_denied_and_what_is_a_scale(answer: str, label: str):
    """A `not` denies the field behind it, and the 5 of `1 out of 5` is no rating."""
    sentence = only(answer, json.dumps(PUB))
    assert (sentence.verdict is CONTRADICTED) == bool(label)
    assert sentence.reasons[1:2] == () if not label else label in sentence.reasons[1]


def test_one_of_several_records_is_meant_by_its_name():
    """What is true of one row contradicts a sentence that names another."""
    other = json.dumps({"name": "Oak Cafe", "wifi": True})
    shop = json.dumps(SHOP)
    assert only("Oak Cafe has Wi-Fi.", shop, other).verdict is SUPPORTED
    assert only("Elm Books has no Wi-Fi.", shop, other).verdict is SUPPORTED
    assert only("Elm Books has Wi-Fi.", shop, other).reasons == ("field", "wifi: False")
    assert only("It has Wi-Fi.", shop, other).verdict is SUPPORTED  # of one of them it is true


def test_prose_around_a_table_is_read_as_prose():
    """A chunk may hold both."""
    chunk = f"Our lamps are made in Norway.\n\n{FORMS['markdown']}\n\nEach has a switch."
    assert only("The lamps are made in Norway.", chunk).verdict is SUPPORTED
    assert only("The Brio is dimmable.", chunk).verdict is CONTRADICTED


@pytest.mark.slow
@pytest.mark.skipif(not DATA.is_dir(), reason="the folder with recorded answers is not there")
def test_answers_without_structured_chunks_are_read_as_before(monkeypatch: pytest.MonkeyPatch):
    """Of 4,408 recorded answers those over prose have the assessment that they have without it."""

    def read() -> list[str]:
        return [repr(assess(row["question"], row["contexts"], row["answer"])) for row in rows]

    files = sorted(Path(DATA).glob("*.jsonl"))
    every = [json.loads(line) for file in files for line in file.read_text("utf-8").splitlines()]
    rows = [row for row in every if not any(map(formats.records_of, row["contexts"]))]
    assert len(rows) > 0.98 * len(every)  # they are prose indeed
    after = read()
    monkeypatch.setattr(evidence, "records_of", lambda chunk: None)
    clear_kept()
    assert read() == after
    clear_kept()


def test_what_prose_says_is_not_held_against_a_table():
    """A sentence of prose is repeated, and a table beside it speaks of something else."""
    table = "| option | variable | default |\n|---|---|---|\n| `host` | `HOST` | `127.0.0.1` |\n"
    prose = "The setting server.port (variable SERVER_PORT, default 9464): Port to listen on."
    answer = "The setting server.port (variable SERVERPORT, default 9464): Port to listen on."
    found = assess("On which port?", [prose, table], answer)
    assert [
        reason for s in found.sentences or () for reason in s.reasons if "field" in reason
    ] == []


def test_a_number_counts_what_stands_right_behind_it():
    """`three reviews` is a count, `(variable X, default 1)` is none."""
    rows = '{"variable": [{"name": "a"}, {"name": "b"}, {"name": "c"}]}'
    wrong = assess("How many?", [rows], "There are 4 variables.")
    assert "field" in (wrong.sentences or ())[0].reasons
    other = assess("Which?", [rows], "The setting (variable a, default 1) is the first.")
    assert "field" not in (other.sentences or ())[0].reasons


def test_an_assessment_is_the_same_in_every_process():
    """What fields bear out is added up in the sentence's order, not in that of hashes."""
    pairs = " | ".join(f"key{n}x: {n}" for n in range(16))
    script = f"""
from ragmonitor.judges.builtin import assess
print([repr(assess("", [{pairs!r}], {pairs!r}[:end] + " 4711").risk) for end in range(20, 150)])
"""
    found = {
        subprocess.run(
            [sys.executable, "-c", script],
            env={**os.environ, "PYTHONHASHSEED": str(seed), "PYTHONPATH": str(ROOT)},
            capture_output=True,
            check=True,
            text=True,
        ).stdout
        for seed in range(3)
    }
    assert len(found) == 1
