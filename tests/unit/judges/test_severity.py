"""The severity of findings: what the prompt decides, how replies say it, and what counts."""

import json
from dataclasses import replace

import pytest

from ragmonitor.evaluators.reference_free import hallucination, minor_hallucination
from ragmonitor.judges import BuiltinJudge
from ragmonitor.judges.long_evidence import Part, join
from ragmonitor.judges.reply import ParsedReply, read_reply
from ragmonitor.judges.sentences import Sentence
from ragmonitor.records import SentenceVerdict, Severity, Verdict
from tests.support.stories import assessment, interaction

MINOR, MAJOR = Severity.MINOR, Severity.MAJOR

# Reading


def read(bad, sentence="It lasts two minor hours."):
    reply = {"s": ["N"], "bad": bad, "rel": 3, "evasive": False, "ctx": [1]}
    given = [Sentence(sentence, 0, len(sentence))]
    (entry,) = read_reply(json.dumps(reply), sentences=given, chunks=["x"]).sentences
    return entry


@pytest.mark.parametrize(
    ("bad", "words", "severity"),
    [
        ([[1, "two", 1]], ("two",), MINOR),
        ([[1, "two", "hours", 1]], ("two", "hours"), MINOR),
        ([[1, "two", 1], [1, "elsewhere", 2]], ("two",), None),
        ([[1, "two"]], ("two",), None),
        ([[1, "two", True]], ("two",), None),
        ([[1, "two", [1]]], ("two",), None),
        ([[1, "two", 1], [1, "hours", 1]], ("two", "hours"), MINOR),
        (None, (), None),
    ],
)
def test_a_severity_is_read_strictly_and_may_be_missing(bad, words, severity):
    """1 or 2, behind the words; anything else rates nothing and costs no words."""
    entry = read(bad)
    assert (entry.verdict, entry.words, entry.severity) == (Verdict.ABSENT, words, severity)


@pytest.mark.parametrize(
    ("verdict", "said", "severity"),
    [
        ("absent", (MAJOR, MINOR), MINOR),
        ("absent", (MAJOR, None), MAJOR),
        ("contradicted", (MAJOR, MINOR), MAJOR),
        ("contradicted", (MINOR, MINOR), MINOR),
    ],
)
def test_of_spread_evidence_the_call_that_saw_most_rates(verdict, said, severity):
    """Absent: who finds it minor has seen what it stretches. Contradicted: the worst counts."""
    found = SentenceVerdict(text="x", start=0, end=1, verdict=Verdict(verdict))
    readings = [ParsedReply(sentences=(replace(found, severity=each),)) for each in said]
    parts = [[Part(position=n, text="x")] for n in range(len(said))]
    (entry,) = join(readings, parts, n_chunks=len(said)).sentences
    assert (entry.verdict, entry.severity) == (verdict, severity)


# The built-in judge


@pytest.mark.parametrize(
    ("answer", "verdict", "severity"),
    [
        ("The river museum opens at 9 on weekdays.", "supported", None),
        ("The river museum opens at 8 on weekdays.", "contradicted", MAJOR),
        ("The river museum has long queues, gardens and cafés.", "absent", MAJOR),
        ("Visitors happily leave heavy coats and bags near the museum.", "absent", MINOR),
    ],
)
def test_the_built_in_judge_rates_by_what_failed(answer, verdict, severity):
    """Minor: half of it stands in the chunks, and no number, date, name or negation fails."""
    chunk = "The river museum opens at 9 on weekdays. Visitors leave bags at the desk."
    found = BuiltinJudge().read(interaction("When does it open?", [chunk], answer))
    (only,) = found.counted_findings or found.sentences
    assert (only.verdict, only.severity) == (verdict, severity)


# What counts


def rated(*severities, **changes):
    """Return an assessment with a supported sentence and findings of these severities."""
    made = assessment("supported", *["absent"] * len(severities), **changes)
    ok, *found = made.sentences
    return replace(
        made,
        sentences=(
            ok,
            *(replace(s, severity=each) for s, each in zip(found, severities, strict=True)),
        ),
    )


@pytest.mark.parametrize(
    ("severities", "counts", "is_minor"),
    [
        ((), False, False),
        ((MINOR,), False, True),
        ((MAJOR,), True, False),
        ((None,), True, False),
        ((MINOR, MAJOR), True, False),
        ((MINOR, None), True, False),
        ((MINOR, MINOR), False, True),
    ],
)
def test_major_findings_count(severities, counts, is_minor):
    """Both rates: what counts, and what is minor only. What is not rated is major."""
    found = rated(*severities)
    assert found.hallucinated is counts
    assert hallucination(interaction(), found) == counts
    assert minor_hallucination(interaction(), found) == is_minor
    assert found.has_minor_findings_only is is_minor
    assert found.sentences[0].finding is None


def test_a_sentence_that_is_fine_has_no_finding():
    """Whatever severity a judge gives it."""
    fine = SentenceVerdict(text="x", start=0, end=1, verdict=Verdict.SUPPORTED, severity=MAJOR)
    assert fine.finding is None
