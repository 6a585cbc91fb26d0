"""The severity of findings: what the prompt decides, how replies say it, and what counts."""

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragmonitor.capabilities import as_judge
from ragmonitor.errors import NotScorableError
from ragmonitor.evaluators import table
from ragmonitor.evaluators.reference_free import hallucination, minor_hallucination
from ragmonitor.judges import BuiltinJudge, FunctionJudge
from ragmonitor.judges.judge_prompts import SCHEMA, SYSTEM
from ragmonitor.judges.long_evidence import Part, join
from ragmonitor.judges.reply import Entry, ParsedReply, read_reply
from ragmonitor.judging import ReadingEngine
from ragmonitor.records import Diagnosis, SentenceVerdict, Severity, Verdict
from ragmonitor.testing import ScriptedJudge
from tests.support.stories import assessment, interaction

MINOR, MAJOR = Severity.MINOR, Severity.MAJOR
DOCS = Path(__file__).parents[3] / "docs" / "llm-judge.md"

REVIEWS = ("One reviewer found the rooms small. 62 % would come again.", "Breakfast is until 10.")
STEPS = ("First close the valve, then drain the pump.", "Wear gloves.")
REVIEWS_ZH = ("一位住客说房间小。62%的人愿意再来。", "早餐到10点。")
STEPS_ZH = ("先关阀门,再排空水泵。", "戴手套。")
CASES = {
    "a lead-in": (REVIEWS, "Here is what guests say:", "-", REVIEWS_ZH, "住客的看法如下:"),
    "a source mark": (
        REVIEWS,
        "Breakfast is served until 10 (Passage 2).",
        [2],
        REVIEWS_ZH,
        "早餐供应到10点(段落2)。",
    ),
    "a closing remark": (
        REVIEWS,
        "I hope this helps you decide.",
        "-",
        REVIEWS_ZH,
        "希望对您有帮助。",
    ),
    "one reviewer as customers": (
        REVIEWS,
        "Customers find the rooms small.",
        "N",
        REVIEWS_ZH,
        "大家都说房间小。",
    ),
    "a rounding": (
        REVIEWS,
        "About 60 % would come again.",
        [1],
        REVIEWS_ZH,
        "约六成的人愿意再来。",
    ),
    "a fair quantifier": (REVIEWS, "Most would come again.", [1], REVIEWS_ZH, "多数人愿意再来。"),
    "an overstated quantifier": (
        REVIEWS,
        "All would come again.",
        "N",
        REVIEWS_ZH,
        "所有人都愿意再来。",
    ),
    "a loose paraphrase": (
        REVIEWS,
        "Somebody would have liked more space.",
        [1],
        REVIEWS_ZH,
        "有人嫌房间不够大。",
    ),
    "credit to the wrong source": (
        REVIEWS,
        "The manager found the rooms small.",
        ["X", 1],
        REVIEWS_ZH,
        "经理说房间小。",
    ),
    "invented and contradicted": (
        REVIEWS,
        "Breakfast, with fresh juice, is until 11.",
        ["X", 2],
        REVIEWS_ZH,
        "早餐到11点,有鲜榨果汁。",
    ),
    "invented": (REVIEWS, "There is a pool on the roof.", "N", REVIEWS_ZH, "楼顶有泳池。"),
    "a purpose clause": (
        STEPS,
        "To stop the leak in the pump, close the valve first.",
        [1],
        STEPS_ZH,
        "为了止住水泵漏水,先关阀门。",
    ),
    "a bare heading": (STEPS, "Draining the pump", "-", STEPS_ZH, "排空水泵"),
    "a heading that claims": (STEPS, "The pump needs no valve!", "N", STEPS_ZH, "水泵不需要阀门!"),
    "steps of one chunk in a wrong order": (
        STEPS,
        "Drain the pump, then close the valve.",
        ["X", 1],
        STEPS_ZH,
        "先排空水泵,再关阀门。",
    ),
    "a list from two chunks": (
        STEPS,
        "Wear gloves and close the valve.",
        [2, 1],
        STEPS_ZH,
        "戴手套,关阀门。",
    ),
}
"""By case: English chunks and sentence, the entry that the prompt asks for, the Chinese pair."""


def decided():
    """Return the documented decisions: case, entry, severity, English and Chinese words."""
    text = DOCS.read_text(encoding="utf-8")
    rows = re.search(r"<!-- cases -->\n(.*?)<!-- /cases -->", text, re.DOTALL)[1].splitlines()[2:]
    cells = [[cell.strip() for cell in row.strip("|").split("|")] for row in rows]
    return {
        case: (entry.strip("`"), severity, *re.findall(r"`([^`]+)`", words))
        for case, entry, severity, _why, words in cells
    }


def letter(entry):
    if isinstance(entry, str):
        return entry
    return "X" if entry[0] == "X" else "chunks"


def test_every_case_is_documented_and_every_documented_case_is_tried():
    """The table in docs/llm-judge.md and the cases here are the same."""
    assert {case: entry for case, (entry, *_) in decided().items()} == {
        case: letter(told[2]) for case, told in CASES.items()
    }


@pytest.mark.parametrize("case", CASES)
def test_the_prompt_decides_the_case_in_both_languages(case):
    """The words that the table names stand in the system messages."""
    _, _, *words = decided()[case]
    assert len(words) == 2
    for language, said in zip(("en", "zh"), words, strict=True):
        assert said in SYSTEM[language]


@pytest.mark.parametrize("language", ["en", "zh"])
@pytest.mark.parametrize("case", CASES)
async def test_a_reply_as_decided_gives_the_verdict_and_the_severity(case, language):
    """From the model's text to what counts as hallucinated."""
    chunks, sentence, entry = CASES[case][:3]
    if language == "zh":
        chunks, sentence = CASES[case][3:]
    severity = decided()[case][1]
    bad = [[1, sentence[:8], {"minor": 1, "major": 2}[severity]]] if severity else []
    reply = {"s": [entry], "bad": bad, "rel": 3, "evasive": False, "ctx": [2, 0]}
    judge = FunctionJudge(lambda prompts: [json.dumps(reply) for _ in prompts], name="own")
    found = await judge.assess(interaction("How is it?", chunks, sentence))
    (only,) = found.sentences
    verdicts = {"-": "no_claim", "N": "absent", "X": "contradicted", "chunks": "supported"}
    assert only.verdict == verdicts[letter(entry)]
    assert only.severity == (severity or None)
    assert found.hallucinated is (None if entry == "-" else severity == "major")


# Reading


def read(bad, sentence="It lasts two minor hours."):
    reply = {"s": ["N"], "bad": bad, "rel": 3, "evasive": False, "ctx": [1]}
    (entry,) = read_reply(json.dumps(reply), sentences=[sentence], chunks=["x"]).entries
    return entry


@pytest.mark.parametrize(
    ("bad", "words", "severity"),
    [
        ([[1, "two", 1]], ("two",), MINOR),
        ([[1, "two", 2]], ("two",), MAJOR),
        ([[1, "two", "minor"]], ("two",), MINOR),
        ([[1, "two", " Major "]], ("two",), MAJOR),
        ([[1, ["two", "hours"], 1]], ("two", "hours"), MINOR),
        ([[1, "two", "hours", 1]], ("two", "hours"), MINOR),
        ({"S1": ["two", 1]}, ("two",), MINOR),
        ([[1, 1]], (), MINOR),
        ([[1, "elsewhere", 1]], (), MINOR),
        ([[1, "minor"]], ("minor",), None),
        ([[1, "two"]], ("two",), None),
        ([[1, "two", 0]], ("two",), None),
        ([[1, "two", 3]], ("two",), None),
        ([[1, "two", True]], ("two",), None),
        ([[1, "two", None]], ("two",), None),
        ([[1, "two", [1]]], ("two",), None),
        ([[1, "two", 1], [1, "hours", 2]], ("two", "hours"), MAJOR),
        ([[1, "two", 1], [1, "hours"]], ("two", "hours"), None),
        ([[1, "two", 1], [1, "hours", 1]], ("two", "hours"), MINOR),
        ([], (), None),
        (None, (), None),
    ],
)
def test_a_severity_is_read_strictly_and_may_be_missing(bad, words, severity):
    """1 or minor, 2 or major, behind the words; anything else rates nothing and costs no words."""
    entry = read(bad)
    assert (entry.verdict, entry.words, entry.severity) == (Verdict.ABSENT, words, severity)


@pytest.mark.parametrize(("said", "severity"), [(1, MINOR), (2, MAJOR), (0, None), (9, None)])
def test_a_reply_by_the_schema_has_it_in_each_entry(said, severity):
    """As `sev`; of a supported sentence 0, and whatever stands there is none."""
    entries = [
        {"v": "N", "c": [], "w": "two", "sev": said},
        {"v": "S", "c": [1], "w": "", "sev": said},
    ]
    reply = {"s": entries, "rel": 3, "evasive": False, "ctx": [1]}
    found = read_reply(json.dumps(reply), sentences=["It is two.", "x"], chunks=["x"]).entries
    assert [entry.severity for entry in found] == [severity, None]
    assert found[0].words == ("two",)
    assert "sev" in SCHEMA["properties"]["s"]["items"]["required"]


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
        lambda inner: st.lists(inner, max_size=3),
        max_leaves=5,
    )
)
def test_no_severity_costs_a_verdict(said):
    """Whatever stands in its place, the rest of the reply is read as without it."""
    with_it, without = read([[1, "two", said]]), read([[1, "two"]])
    assert with_it.verdict is without.verdict
    assert set(without.words) <= set(with_it.words)
    assert with_it.severity in (None, MINOR, MAJOR)


@pytest.mark.parametrize(
    ("verdict", "said", "severity"),
    [
        ("absent", (MAJOR, MINOR), MINOR),
        ("absent", (None, MINOR), MINOR),
        ("absent", (MAJOR, None), MAJOR),
        ("absent", (None, None), None),
        ("contradicted", (MAJOR, MINOR), MAJOR),
        ("contradicted", (MINOR, None), None),
        ("contradicted", (MINOR, MINOR), MINOR),
    ],
)
def test_of_spread_evidence_the_call_that_saw_most_rates(verdict, said, severity):
    """Absent: who finds it minor has seen what it stretches. Contradicted: the worst counts."""
    readings = [
        ParsedReply(entries=(Entry(verdict=Verdict(verdict), severity=each),)) for each in said
    ]
    parts = [[Part(position=n, text="x")] for n in range(len(said))]
    (entry,) = join(readings, parts, n_chunks=len(said)).entries
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
    ("severities", "by_major", "by_minor", "is_minor"),
    [
        ((), False, False, False),
        ((MINOR,), False, True, True),
        ((MAJOR,), True, True, False),
        ((None,), True, True, False),
        ((MINOR, MAJOR), True, True, False),
        ((MINOR, None), True, True, False),
        ((MINOR, MINOR), False, True, True),
    ],
)
def test_what_counts_follows_the_least_severity(severities, by_major, by_minor, is_minor):
    """Both rates: what counts, and what is minor only. What is not rated is major."""
    for least, expected in ((MAJOR, by_major), (MINOR, by_minor)):
        found = rated(*severities, min_severity=least)
        assert found.hallucinated is expected
        assert hallucination(interaction(), found) == expected
        assert minor_hallucination(interaction(), found) == is_minor
        assert found.has_minor_findings_only is is_minor
    assert found.sentences[0].finding is None


def test_a_refusal_and_an_answer_without_a_claim_have_neither():
    """As for the hallucination rate."""
    for none in (rated(MINOR, evasive=True), assessment("no_claim")):
        assert none.hallucinated is None
        assert none.has_minor_findings_only is None
        with pytest.raises(NotScorableError):
            minor_hallucination(interaction(), none)


def test_the_evaluator_has_a_new_version():
    """The same assessment scores otherwise than before."""
    versions = {entry.name: entry.identity for entry in table}
    assert versions["hallucination"] == "hallucination@2"
    assert versions["faithfulness"] == "faithfulness@1"


async def judged(least, *severities):
    judge = as_judge(ScriptedJudge(lambda _: rated(*severities)))
    engine = ReadingEngine(
        table.select(["hallucination", "minor_hallucination"]), min_severity=least
    )
    reading = await engine.read(judge, "sampled", interaction())
    return reading.report


async def test_the_setting_is_on_every_reading_and_in_the_judge_s_version():
    """With another setting verdicts are another judge's: reference answers are read anew."""
    strict, usual = await judged(MINOR, MINOR), await judged(MAJOR, MINOR)
    assert [each.score for each in strict.evaluations] == [1.0, 1.0]
    assert [each.score for each in usual.evaluations] == [0.0, 1.0]
    assert (strict.diagnosis, usual.diagnosis) == (Diagnosis.UNSUPPORTED_ADDITION, Diagnosis.OK)
    assert strict.judge.version == f"{usual.judge.version}.minor"
    assert "absent (minor): s1" in strict.evaluations[0].explanation


def test_a_sentence_that_is_fine_has_no_finding():
    """Whatever severity a judge gives it."""
    fine = SentenceVerdict(text="x", start=0, end=1, verdict=Verdict.SUPPORTED, severity=MAJOR)
    assert fine.finding is None
