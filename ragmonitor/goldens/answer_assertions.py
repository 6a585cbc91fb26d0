"""Assertions on one answer of an application, for its tests: faithful, correct, well retrieved."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from textwrap import shorten
from typing import Any, Final

from ragmonitor.evaluators.retrieval import reference_matches
from ragmonitor.goldens.asking import Reply, chunks_of, interaction_of
from ragmonitor.goldens.golden import Golden
from ragmonitor.goldens.scored_runs import shortcomings
from ragmonitor.judges import BuiltinJudge
from ragmonitor.judges.kept_replies import KeepingJudge, KeptReplies, key_of
from ragmonitor.offline import evaluate
from ragmonitor.offline.scoring import unread_because
from ragmonitor.pipeline.build import judge_named
from ragmonitor.records import BUILTIN, Cause, Chunk, Interaction, Report, Scored
from ragmonitor.runtime.capabilities import as_judge
from ragmonitor.runtime.errors import RagMonitorError, SettingsError
from ragmonitor.runtime.protocols import Judge
from ragmonitor.settings import Settings

EVALUATORS: Final = ("faithfulness", "answer_correctness", "refusal_correctness")
_RECORD: Final = (
    "it, the chunks or the judge's prompts changed. Run the tests once with --ragmonitor-record "
    "and a key, and look at what the judge says now"
)
_NOTHING_CLAIMED: Final = (Cause.REFUSAL, Cause.NO_CLAIMS)

Expected = Golden | str
"""A golden question, or the reference answer itself."""


class NotJudgedError(RagMonitorError):
    """Nothing can be asserted: the judge did not score the answer; says why and what to do."""


class AnswerAssertions:
    """Asserts on answers by one judge, within one budget; each answer is read once."""

    def __init__(
        self,
        judge: Judge | str | None = None,
        *,
        budget_usd: float | None = None,
        replies: Path | None = None,
        records: bool = False,
    ) -> None:
        """Ask nobody yet.

        Args:
            judge: As of `ragmonitor.evaluate`; None: the built-in one.
            budget_usd: The most that all readings may cost.
            replies: A file of recorded verdicts.
            records: Ask the judge for what is not recorded, and record it; otherwise what is not in
                the file fails.

        Raises:
            InputError: The file cannot be read.
            SettingsError: The verdicts of the built-in judge are to be recorded.
        """
        if isinstance(judge, str) and judge != BUILTIN:
            judge = judge_named(Settings.load(judge=""), judge)
        self._judge = BuiltinJudge() if judge is None or isinstance(judge, str) else judge
        if replies is not None:
            if isinstance(self._judge, BuiltinJudge):
                raise SettingsError("the built-in judge needs no recorded replies; name a judge")
            advice = "" if records else _RECORD
            self._judge = KeepingJudge(as_judge(self._judge), KeptReplies(replies), advice=advice)
        self._left_usd = budget_usd
        self._reports: dict[tuple[str, bool], Report] = {}

    # --- what tests call ------------------------------------------------------------------------

    def assert_faithful(
        self, answer: str, chunks: Iterable[Any], question: Expected = "", *, at_least: float = 1.0
    ) -> Report:
        """Assert that the chunks support what an answer claims; one that claims nothing passes.

        Args:
            answer: The whole answer.
            chunks: What the model was shown: texts, `Chunk`s, or documents of a framework.
            question: The golden question, or the question itself.
            at_least: Least share of the sentences with a claim that are supported.
        """
        __tracebackhide__ = True
        golden = question if isinstance(question, Golden) else Golden(question=question)
        report = self.report(answer, chunks, golden)
        score = self._score(report, "faithfulness", passed=_NOTHING_CLAIMED)
        if score is not None and score < at_least:
            raise AssertionError(_failure(f"faithfulness {score:.2f} < {at_least:g}", report))
        return report

    def assert_correct(
        self,
        answer: str,
        expected: Expected,
        chunks: Iterable[Any] = (),
        *,
        question: str = "",
        at_least: float = 0.5,
    ) -> Report:
        """Assert that an answer says what the reference answer says.

        Of a golden question that the documents leave unanswered: that it declines to answer.

        Args:
            answer: The whole answer.
            expected: The golden question, or the reference answer.
            chunks: What the model was shown, where it is known: one reading then serves
                `assert_faithful` too.
            question: Where `expected` is a text.
            at_least: Least `answer_correctness`, 0 to 1.
        """
        __tracebackhide__ = True
        golden = expected
        if isinstance(golden, str):
            golden = Golden(question=question, answer=golden)
        report = self.report(answer, chunks, golden)
        if golden.expects_refusal:
            name, at_least = "refusal_correctness", 1.0
            claim = "the documents do not hold this, and the answer does not say"
        else:
            name, claim = "answer_correctness", f"answer_correctness {{:.2f}} < {at_least:g}"
        score = self._score(report, name)
        if score is not None and score < at_least:
            raise AssertionError(_failure(claim.format(score), report, golden.answer))
        return report

    def assert_retrieves(
        self,
        chunks: Iterable[Any],
        expected: Golden | Sequence[Chunk | str],
        *,
        at_least: float = 1.0,
    ) -> None:
        """Assert that what should be retrieved was. Needs no judge.

        Chunks are compared by ids where both sides have them, else by their texts.

        Args:
            chunks: What was retrieved.
            expected: The golden question, or its reference chunks.
            at_least: Least share of the reference chunks that are among them.

        Raises:
            MissingExtraError: Texts that are not equal are to be compared, and rapidfuzz is not
                installed.
        """
        __tracebackhide__ = True
        if isinstance(expected, Golden):
            expected = expected.reference_chunks
        wanted, retrieved = chunks_of(expected), chunks_of(chunks)
        if not wanted:
            raise NotJudgedError("there are no reference chunks to be retrieved")
        interaction = interaction_of(Golden(question=""), Reply(answer="", chunks=retrieved))
        matches = {*reference_matches(replace(interaction, reference_chunks=wanted))} - {None}
        if len(matches) >= at_least * len(wanted):
            return
        lines = [f"{len(matches)} of {len(wanted)} reference chunks were retrieved"]
        lines += [
            f"  missing: {_brief(each)}" for at, each in enumerate(wanted) if at not in matches
        ]
        lines += [f"  retrieved {n}: {_brief(each)}" for n, each in enumerate(retrieved, 1)]
        raise AssertionError("\n".join(lines))

    # --- reading --------------------------------------------------------------------------------

    def report(self, answer: str, chunks: Iterable[Any], golden: Golden) -> Report:
        """Return what the judge finds in an answer; each is read once.

        Raises:
            AssertionError: It is empty: what says nothing claims nothing, and would be faithful.
            NotJudgedError: The judge gave nothing, or there is no recorded reply.
            TypeError: The answer is no text.
        """
        __tracebackhide__ = True
        if not isinstance(answer, str):
            raise TypeError(f"the answer is to be a text, not {type(answer).__name__}")
        if not answer.strip():
            raise AssertionError("the answer is empty")
        asked = interaction_of(golden, Reply(answer=answer, chunks=chunks_of(chunks)))
        interaction = replace(asked, started_ns=0)  # of no day: a recorded reply holds tomorrow too
        # Whether a refusal is right stands in no prompt.
        key = key_of(interaction, self._judge.identity), golden.expects_refusal
        if key not in self._reports:
            self._reports[key] = self._read(interaction)
        return self._reports[key]

    def _read(self, interaction: Interaction) -> Report:
        """Have the judge read. Raises `NotJudgedError`."""
        (report,) = evaluate(
            [interaction], judge=self._judge, evaluators=EVALUATORS, budget_usd=self._left_usd
        ).reports
        if self._left_usd is not None and report.usage is not None:
            self._left_usd = max(0.0, self._left_usd - report.usage.cost_usd)
        if report.assessment is None:
            raise NotJudgedError(f"the judge gave nothing ({unread_because(report)})")
        return report

    @staticmethod
    def _score(report: Report, name: str, passed: Sequence[Cause] = ()) -> float | None:
        """Return a score; None: there is none, for a cause that passes. Raises `NotJudgedError`."""
        each = report.evaluations[EVALUATORS.index(name)]
        if isinstance(each, Scored):
            return each.score
        if each.cause in passed:
            return None
        raise NotJudgedError(f"no {name}: {each.cause} {each.detail}".strip())


def _failure(claim: str, report: Report, reference: str = "") -> str:
    """Return the message of an assertion: what fell short, sentence by sentence."""
    interaction = report.interaction
    lines = [f"{claim} (by {report.judge})"]
    lines += [f"  {line}" for line in shortcomings(report)]
    if interaction.query:
        lines.append(f"question: {interaction.query}")
    lines.append(f"answer: {interaction.answer}")
    if reference:
        lines.append(f"reference: {reference}")
    lines += [f"chunk {n}: {_brief(each)}" for n, each in enumerate(interaction.chunks, 1)]
    return "\n".join(lines)


def _brief(chunk: Chunk) -> str:
    name = chunk.source or chunk.id
    text = shorten(chunk.text, 160, placeholder=" …")
    return f"{text!r} ({name})" if name else repr(text)
