"""A comparison of two releases for pull requests (Markdown), build servers (JUnit) and programs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from html import escape
from typing import Any, Final
from xml.etree import ElementTree as ET

from ragmonitor.goldens.release_comparison import QuestionChange, ReleaseComparison
from ragmonitor.goldens.scored_runs import ScoredGolden, ScoredRun
from ragmonitor.stats.paired import Difference

MAX_LISTED: Final = 20
"""Questions of one kind that a summary lists; a file for programs has all."""
MAX_LINE: Final = 500
"""Characters of a line of a summary: of a whole one GitHub takes a mebibyte, or nothing."""
_NOT_XML: Final = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_MARKS: Final = {"better": "✅", "equivalent": "✅", "worse": "❌", "undecided": "⚠️"}


def headline(comparison: ReleaseComparison) -> str:
    """Return the decision in one sentence."""
    text = f"{comparison.decision}: {comparison.signal}"
    if comparison.difference is not None:
        text += f" {said(comparison.difference)} over {comparison.difference.pairs} questions"
    return f"{text}; {comparison.why}" if comparison.why else text


def not_counted(comparison: ReleaseComparison) -> str:
    """Return how many questions do not count; empty: all do."""
    n = comparison.uncounted
    return f"not asked of both in the same words, and not counted: {n} questions" if n else ""


def said(difference: Difference) -> str:
    """Return a difference with its interval for people."""
    return (
        f"{difference.first_mean:.3f} → {difference.second_mean:.3f} "
        f"({difference.difference:+.3f}, {difference.lower:+.3f} to {difference.upper:+.3f})"
    )


def markdown(comparison: ReleaseComparison) -> str:
    """Return a summary for a pull request."""
    lines = [
        f"### {_MARKS[comparison.decision]} Golden questions: {_plain(headline(comparison))}",
        "",
        f"Limit: {comparison.max_drop:g} lower. Intervals: 95 %, paired by question.",
        "",
        "| score | baseline → now (difference, interval) | questions |",
        "|---|---|---|",
    ]
    rows = {f"**{comparison.signal}**": comparison.difference, **comparison.others}
    for name, difference in rows.items():
        if difference is not None:
            lines.append(f"| {name} | {said(difference)} | {difference.pairs} |")
    lines.append("")
    for title, changes in (
        ("Broken", comparison.of("broken")),
        ("Fixed", comparison.of("fixed")),
    ):
        lines += _question_lines(title, changes)
    lines.append(not_counted(comparison))
    return "\n".join(lines).rstrip() + "\n"


def _question_lines(title: str, changes: Sequence[QuestionChange]) -> Iterator[str]:
    if not changes:
        return
    yield f"<details><summary>{title}: {len(changes)}</summary>"
    yield ""
    for each in changes[:MAX_LISTED]:
        yield f"- {_plain(each.golden.question)} ({each.before:.2f} → {each.now:.2f})"
        for line in _what(each):
            yield f"  - {_plain(line)}"
    if len(changes) > MAX_LISTED:
        yield f"- and {len(changes) - MAX_LISTED} more"
    yield ""
    yield "</details>"
    yield ""


def _what(change: QuestionChange) -> list[str]:
    golden = change.golden
    if golden.error:
        return [f"no answer: {golden.error}"]
    return [f"answer: {golden.answer[:300]}", *golden.shortcomings[:5]]


def _plain(text: str) -> str:
    """Return a text of the application's as one line that Markdown shows as it is, cut if long."""
    line = " ".join(text.split())
    line = line if len(line) <= MAX_LINE else f"{line[:MAX_LINE]} …"
    return re.sub(r"([\\`*_\[\]|#~@])", r"\\\1", escape(line, quote=False))


def junit(run: ScoredRun, comparison: ReleaseComparison | None) -> bytes:
    """Return a test suite with a case for each question, as JUnit XML.

    Broken questions fail; a question without an answer is an error; one whose scores nobody could
    compare is skipped. Without a baseline only the last two are said.
    """
    changes = {} if comparison is None else {each.golden.id: each for each in comparison.questions}
    suite = ET.Element("testsuite", name="ragmonitor gate")
    for golden in run.goldens:
        case = ET.SubElement(
            suite,
            "testcase",
            classname="goldens",
            name=_xml(f"{golden.question[:200]} [{golden.id}]"),
        )
        _judge_case(case, golden, changes.get(golden.id), is_compared=comparison is not None)
    if comparison is not None:
        decided = ET.SubElement(suite, "testcase", classname="goldens", name="decision")
        if comparison.decision in ("worse", "undecided"):
            kind = "failure" if comparison.decision == "worse" else "skipped"
            ET.SubElement(decided, kind, message=_xml(headline(comparison)))
    for kind, attribute in (("failure", "failures"), ("error", "errors"), ("skipped", "skipped")):
        suite.set(attribute, str(len(suite.findall(f"testcase/{kind}"))))
    suite.set("tests", str(len(suite)))
    return bytes(ET.tostring(suite, encoding="utf-8", xml_declaration=True))


def _judge_case(
    case: ET.Element, golden: ScoredGolden, change: QuestionChange | None, *, is_compared: bool
) -> None:
    if golden.error:
        ET.SubElement(case, "error", message=_xml(golden.error))
    elif change is None:
        if is_compared:
            ET.SubElement(case, "skipped", message="not scored on both sides")
    elif change.change == "broken":
        message = f"broken: {change.before:.2f} -> {change.now:.2f}"
        failure = ET.SubElement(case, "failure", message=message)
        failure.text = _xml("\n".join(_what(change)))


def _xml(text: str) -> str:
    return _NOT_XML.sub("?", text)


def as_json(run: ScoredRun, comparison: ReleaseComparison | None) -> dict[str, Any]:
    """Return all of it for programs."""
    result: dict[str, Any] = {
        "scored_by": list(run.scored_by),
        "questions": len(run.goldens),
        "unanswered": sum(bool(each.error) for each in run.goldens),
    }
    if comparison is None:
        return result
    whole = asdict(replace(comparison, questions=()))
    del whole["questions"]
    changes = [
        {
            "id": each.golden.id,
            "question": each.golden.question,
            "change": each.change,
            "before": each.before,
            "now": each.now,
            "what": _what(each),
        }
        for each in comparison.of("broken", "fixed")
    ]
    return result | whole | {"reason": comparison.why or None, "changes": changes}
