"""Whether a release answers golden questions as well as its baseline did, and how that is said.

For pull requests in Markdown, for build servers in JUnit, and for programs.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from html import escape
from typing import Any, Final, Literal
from xml.etree import ElementTree as ET

from ragmonitor.evaluators import table
from ragmonitor.goldens.scored_runs import ScoredGolden, ScoredRun
from ragmonitor.runtime.errors import InputError
from ragmonitor.stats.comparison import Decision
from ragmonitor.stats.paired import Difference, paired_difference

CORRECTNESS: Final = "correctness"
"""The answer correctness of a question with a reference answer, and of an unanswerable one whether
the answer declines."""
_OF_CORRECTNESS: Final = ("answer_correctness", "refusal_correctness")
RIGHT_FROM: Final = 0.5
"""The score from which an answer counts as right."""
MIN_COVERAGE: Final = 0.9
"""Share of the questions that must be scored on both sides."""

Change = Literal["broken", "fixed", "same"]
"""The change of one question: `broken` was right and is wrong, `fixed` the reverse."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestionChange:
    """One question in both releases, and what became of it."""

    golden: ScoredGolden
    """The question as the candidate answered it."""
    before: float
    """Score of its answer by the baseline, 0 to 1; the higher the better."""
    now: float

    @property
    def change(self) -> Change:
        """What became of the question."""
        was, now = self.before >= RIGHT_FROM, self.now >= RIGHT_FROM
        if was == now:
            return "same"
        return "fixed" if now else "broken"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseComparison:
    """A candidate beside its baseline, on one signal turned so that higher is better."""

    signal: str
    max_drop: float
    decision: Decision
    why: str
    """The reason why there is no decision; empty: there is one."""
    is_covered: bool
    """Whether enough of the questions were scored on both sides."""
    difference: Difference | None
    """None: no question was scored on both sides."""
    questions: Sequence[QuestionChange]
    uncounted: int
    """Questions that only one of the two has answers to, and those that were edited since the
    baseline answered them: asked was another question, or right another answer."""
    others: Mapping[str, Difference]
    """The differences of the other scores, by evaluator."""

    def of(self, *changes: Change) -> list[QuestionChange]:
        """Return the questions that changed so, the largest drop first."""
        changed = [each for each in self.questions if each.change in changes]
        return sorted(changed, key=lambda each: each.now - each.before)

    @property
    def passes(self) -> bool:
        """Whether it is better or equivalent, or where too few questions decide, was seen to be.

        A drop is then seen without its interval, and at most 10 % of the questions lack a score.
        """
        if self.decision != "undecided" or self.difference is None or not self.is_covered:
            return self.decision in ("better", "equivalent")
        return -self.difference.difference <= self.max_drop


def compare_releases(
    candidate: ScoredRun, baseline: ScoredRun, *, max_drop: float, signal: str = CORRECTNESS
) -> ReleaseComparison:
    """Return how a candidate's scores differ from its baseline's, question by question.

    The interval is that of `paired_difference`: Bonett and Price's for paired proportions, scaled.
    A question without an answer scores worst: nobody was served.

    Args:
        candidate: The release to be decided on.
        baseline: What it is compared with.
        max_drop: So much lower is still equivalent; 0 or more.
        signal: An evaluator's name, or `CORRECTNESS`.

    Raises:
        InputError: Another judge, or another version of an evaluator, scored the baseline; or
            neither has a score of that name.
    """
    changed = set(candidate.scored_by) ^ set(baseline.scored_by)
    evaluators = [each.partition("@")[0] for each in changed]
    has_other_versions = len({*evaluators}) < len(evaluators)
    if candidate.scored_by[0] != baseline.scored_by[0] or has_other_versions:
        raise InputError(
            f"the baseline was scored by other rules ({', '.join(sorted(changed))}): a changed "
            "judge must not look like a changed application; save it anew with this one"
        )
    before = {each.id: each for each in baseline.goldens}
    both = [(before[each.id], each) for each in candidate.goldens if each.id in before]
    pairs = [pair for pair in both if pair[0].asked == pair[1].asked]
    applying = [pair for pair in pairs if any(each.scores.keys() & _names(signal) for each in pair)]
    if not applying:
        raise InputError(f"no question that both were asked has a score named {signal!r}")
    questions, difference = _compared(applying, signal)
    coverage = len(questions) / len(applying)
    decision, why = _decision(difference, max_drop, coverage)
    names = dict.fromkeys(name for _, now in pairs for name in now.scores if name != signal)
    return ReleaseComparison(
        signal=signal,
        max_drop=max_drop,
        decision=decision,
        why=why,
        is_covered=coverage >= MIN_COVERAGE,
        difference=difference,
        questions=questions,
        uncounted=len(before.keys() | {each.id for each in candidate.goldens}) - len(pairs),
        others={
            f"1 - {name}" if table.lower_is_better(name) else name: each
            for name in names
            if (each := _compared(pairs, name)[1]) is not None
        },
    )


def _names(signal: str) -> set[str]:
    return {*_OF_CORRECTNESS} if signal == CORRECTNESS else {signal}


def _compared(
    pairs: Sequence[tuple[ScoredGolden, ScoredGolden]], signal: str
) -> tuple[list[QuestionChange], Difference | None]:
    """Return the questions that were scored on both sides, and how the sides differ."""
    questions = [
        QuestionChange(golden=now, before=first, now=second)
        for before, now in pairs
        if (first := _value(before, signal)) is not None
        and (second := _value(now, signal)) is not None
    ]
    return questions, paired_difference([(each.before, each.now) for each in questions])


def _value(golden: ScoredGolden, signal: str) -> float | None:
    """Return the score of the answer, turned so that higher is better; 0 where there is none."""
    if golden.error:
        return 0.0
    name = next((each for each in _names(signal) if each in golden.scores), None)
    if name is None:
        return None
    score = golden.scores[name]
    return 1 - score if table.lower_is_better(name) else score


def _decision(
    difference: Difference | None, max_drop: float, coverage: float
) -> tuple[Decision, str]:
    """Return the decision, and what it lacks if there is none."""
    if difference is None or coverage < MIN_COVERAGE:
        return "undecided", (
            f"only {coverage:.0%} of the questions were scored on both sides; a decision needs "
            f"{MIN_COVERAGE:.0%}"
        )
    if difference.lower > 0:
        return "better", ""
    if -difference.lower <= max_drop:
        return "equivalent", ""
    if -difference.upper > max_drop:
        return "worse", ""
    return "undecided", f"{difference.pairs} questions leave the interval too wide"


# --- for people and for build servers -------------------------------------------------------------

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
    changes: tuple[Change, ...] = ("broken", "fixed")
    for kind in changes:
        changed = comparison.of(kind)
        if changed:
            lines += [f"<details><summary>{kind.title()}: {len(changed)}</summary>", ""]
        for each in changed[:MAX_LISTED]:
            question = _plain(each.golden.question)
            lines.append(f"- {question} ({each.before:.2f} → {each.now:.2f})")
            lines += [f"  - {_plain(line)}" for line in _what(each)]
        if len(changed) > MAX_LISTED:
            lines.append(f"- and {len(changed) - MAX_LISTED} more")
        if changed:
            lines += ["", "</details>", ""]
    lines.append(not_counted(comparison))
    return "\n".join(lines).rstrip() + "\n"


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

    def add(name: str, kind: str = "", message: str = "", text: str = "") -> None:
        case = ET.SubElement(suite, "testcase", classname="goldens", name=_xml(name))
        if kind:
            ET.SubElement(case, kind, message=_xml(message)).text = _xml(text)

    for golden in run.goldens:
        name = f"{golden.question[:200]} [{golden.id}]"
        change = changes.get(golden.id)
        if golden.error:
            add(name, "error", golden.error)
        elif change is not None and change.change == "broken":
            message = f"broken: {change.before:.2f} -> {change.now:.2f}"
            add(name, "failure", message, "\n".join(_what(change)))
        elif change is None and comparison is not None:
            add(name, "skipped", "not scored on both sides")
        else:
            add(name)
    if comparison is not None:
        kinds: dict[Decision, str] = {"worse": "failure", "undecided": "skipped"}
        add("decision", kinds.get(comparison.decision, ""), headline(comparison))
    for kind, attribute in (("failure", "failures"), ("error", "errors"), ("skipped", "skipped")):
        suite.set(attribute, str(len(suite.findall(f"testcase/{kind}"))))
    suite.set("tests", str(len(suite)))
    return bytes(ET.tostring(suite, encoding="utf-8", xml_declaration=True))


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
