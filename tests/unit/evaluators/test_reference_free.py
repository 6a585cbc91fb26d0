"""Evaluators of live answers, and the diagnosis: what they count and what they leave unscored."""

from dataclasses import replace

import pytest

from ragmonitor.evaluators import evaluate, table
from ragmonitor.evaluators.language_match import prose_language
from ragmonitor.records import Cause, Scored, SentenceVerdict, Verdict
from tests.support.stories import assessment, interaction


def outcome(name, told, found):
    (evaluation,) = evaluate(table.select([name]), told, found)
    return evaluation.score if isinstance(evaluation, Scored) else evaluation.cause


def test_the_default_ones_are_few():
    """More series are a choice; none of them needs a reference or asks anything."""
    default = table.select()
    assert [entry.name for entry in default] == [
        "faithfulness",
        "answer_relevancy",
        "context_relevance",
        "context_utilization",
        "hallucination",
    ]
    assert not any(entry.asks for entry in default)
    assert not any(entry.needs_reference for entry in default)


def test_patterns_select_families():
    """`ragchecker_*` is all eleven; a name that comes twice is selected once."""
    chosen = table.select(["ragchecker_f1", "ragchecker_*"])
    assert len(chosen) == 11
    assert next(iter(chosen)).name == "ragchecker_f1"


# Citations


def cites(text, *chunks, verdict="supported"):
    return SentenceVerdict(
        text=text, start=0, end=len(text), verdict=Verdict(verdict), chunks=chunks
    )


def citing(*sentences):
    return replace(assessment(), sentences=sentences)


@pytest.mark.parametrize(
    ("sentence", "expected"),
    [
        (cites("It was built in 1887 [1].", 0), 1),
        (cites("It was built in 1887 [2].", 0), 0),
        (cites("It was built in 1887 [1][2].", 0, 1), 1),
        (cites("It was built in 1887 [1, 2].", 0), 0.5),
        (cites("It was built in 1887 [1-2].", 0, 1), 1),
        (cites("It was built in 1887 [^1].", 0), 1),
        (cites("It was built in 1887 [doc 2].", 1), 1),
        (cites("建成于1887年【1】。", 0), 1),
        (cites("建成于1887年【1†source】。", 0), 1),
        (cites("建成于1887年【1†L10-L12】。", 0), 1),
        (cites("建成于1887年[资料2]。", 1), 1),
        (cites("It was built in 1887 [9].", 0), 0),
        (cites("It was built in 1999 [1].", 0, verdict="contradicted"), 0),
        (cites("It was built in 1887.", 0), Cause.NO_CITATIONS),
        (cites("Use `rows[1]` for that.", 0), Cause.NO_CITATIONS),
        (cites("It was built in 1887 (source: tower.pdf).", 0), Cause.NO_CITATIONS),
        (cites("In [2024] it was closed.", 0), Cause.NO_CITATIONS),
    ],
)
def test_a_citation_is_right_if_its_chunk_supports_the_sentence(sentence, expected):
    """In the forms that models use, counted from 1; wrong if there is no such chunk."""
    assert outcome("citation_correctness", interaction(), citing(sentence)) == expected


def test_who_cites_zero_counts_from_zero():
    """Then [1] is the second chunk."""
    found = citing(cites("One [0].", 0), cites("Two [1].", 1))
    assert outcome("citation_correctness", interaction(), found) == 1


# Language


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("如何在 docker compose file 里 mount volume？", "zh"),
        ("Kubernetes Horizontal Pod Autoscaler 是什么？", "zh"),
        ("What does 幻觉 mean in RAG?", "en"),
        ("使用 `kubectl apply -f the.yaml` 即可，见 https://example.com/the/of", "zh"),
        ("Quelle est la capitale de la France ?", "en"),
        ("巴黎。", "zh"),
        ("Paris.", None),
        ("GPT-4", None),
        ("42", None),
        ("東京は日本の首都です。", None),
    ],
)
def test_the_language_of_prose(text, expected):
    """Technical words do not decide; a name or a number has none."""
    assert prose_language(text) == expected


@pytest.mark.parametrize(
    ("query", "answer", "expected"),
    [
        ("How do I mount a volume?", "Use the -v option of docker run.", 1),
        ("How do I mount a volume?", "使用 docker run 的 -v 选项。", 0),
        ("怎么挂载卷？", "Use the -v option of docker run.", 0),
        ("怎么挂载卷？", "在 docker compose file 里写 volumes 即可。", 1),
        ("怎么挂载卷？", "docker", Cause.UNREADABLE),
        (" ", "Use the -v option of docker run.", Cause.NO_QUERY),
    ],
)
def test_question_and_answer_in_one_language(query, answer, expected):
    """1 or 0; what is too short to tell is not called a mismatch."""
    told = interaction(query=query, answer=answer)
    assert outcome("language_match", told, assessment("supported")) == expected
