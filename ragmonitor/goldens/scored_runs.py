"""The answers of one release to golden questions, scored, and the file that keeps them."""

from __future__ import annotations

import codecs
import hashlib
import os
from collections.abc import Sequence
from pathlib import Path

import msgspec

from ragmonitor.export.content import encodable
from ragmonitor.export.jsonl import owners_alone
from ragmonitor.goldens.golden import Golden, GoldensError, golden_id
from ragmonitor.goldens.golden_scores import GoldenOutcome, GoldenRun
from ragmonitor.records import Report


class ScoredAnswer(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One answer to a golden question."""

    answer: str = ""
    scores: dict[str, float] = {}
    """The score of each evaluator, 0 to 1."""
    error: str = ""
    """Why there is no answer; empty: there is one."""
    shortcomings: tuple[str, ...] = ()
    """The faults of the answer, a line each: the sentence and its chunk."""


class ScoredGolden(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One golden question with every answer that it got."""

    id: str
    question: str
    answers: tuple[ScoredAnswer, ...]
    slices: dict[str, str] = {}
    """Its kind, difficulty, language and attributes."""
    asked: str = ""
    """The hash of what was asked and of what is right, which a review may change; empty: an older
    file does not say."""


class ScoredRun(msgspec.Struct, frozen=True, kw_only=True):
    """All of them, by one judge."""

    scored_by: tuple[str, ...]
    """The judge, its prompts, the least severity and every evaluator, with their versions.

    They must be equal to be compared.
    """
    goldens: tuple[ScoredGolden, ...]


def scored_run(run: GoldenRun) -> ScoredRun:
    """Return what is kept of a run."""
    by_golden: dict[str, list[GoldenOutcome]] = {}
    evaluators: dict[str, None] = {}
    for outcome in run.outcomes:
        by_golden.setdefault(outcome.golden.id, []).append(outcome)
        if outcome.report is not None:
            evaluators.update(dict.fromkeys(e.evaluator for e in outcome.report.evaluations))
    return ScoredRun(
        scored_by=(run.judge, *run.rules, *evaluators),
        goldens=tuple(map(_scored_golden, by_golden.values())),
    )


def _scored_golden(outcomes: Sequence[GoldenOutcome]) -> ScoredGolden:
    golden = outcomes[0].golden
    own = {
        "kind": golden.kind.value,
        "difficulty": golden.difficulty,
        "language": golden.language,
    }
    # One that is called as a field of ours is a slice beside it.
    attributes = {
        f"attribute {name}" if name in own else name: value
        for name, value in golden.attributes.items()
    }
    return ScoredGolden(
        id=golden.id,
        question=golden.question,
        answers=tuple(map(_scored_answer, outcomes)),
        slices=own | attributes,
        asked=_asked(golden),
    )


def _asked(golden: Golden) -> str:
    # Without the chunks: with another cut of the documents, the answers are compared all the same.
    right = [] if golden.expects_refusal else [golden.answer]
    texts = [golden_id(golden.question, golden.history), *right]
    return hashlib.sha256(msgspec.json.encode(texts)).hexdigest()[:16]


def _scored_answer(outcome: GoldenOutcome) -> ScoredAnswer:
    asked, report = outcome.asked, outcome.report
    return ScoredAnswer(
        answer="" if asked.interaction is None else asked.interaction.answer,
        scores=dict(outcome.scores),
        error="" if asked.error is None else f"{asked.error}: {asked.detail}",
        # Names of chunks stand in them, and no file holds half of a character.
        shortcomings=() if report is None else tuple(map(encodable, shortcomings(report))),
    )


def shortcomings(report: Report) -> list[str]:
    """Return what is wrong with an answer: unsupported sentences, and how it misses a reference."""
    lines = [
        f"{each.verdict}: {each.text.strip()!r} ({report.evidence(each)})"
        for each in report.unsupported
    ]
    assessment = report.assessment
    if assessment is None or assessment.reference is None:
        return lines
    claims, reading = assessment.claims or (), assessment.reference
    lines += [
        f"not in the reference answer: {claim.text.strip()!r}"
        for claim, is_right in zip(claims, reading.answer_claims, strict=False)
        if not is_right
    ]
    lines += [
        f"missing from the answer: {each.text.strip()!r}"
        for each in reading.sentences
        if not each.in_answer
    ]
    return lines


def write_scored_run(path: str | os.PathLike[str], run: ScoredRun) -> None:
    """Write it: what scored on the first line, then a golden question a line. Raises `OSError`."""
    encode = msgspec.json.encode
    lines = [encode({"scored_by": run.scored_by}), *map(encode, run.goldens)]
    with open(path, "wb", opener=owners_alone) as file:
        file.write(b"\n".join(lines) + b"\n")


def read_scored_run(path: str | os.PathLike[str]) -> ScoredRun:
    """Return what `write_scored_run` wrote.

    Raises:
        GoldensError: The file cannot be read, or `ragmonitor gate --save` wrote no such file.
    """
    name = os.fspath(path)
    try:
        data = Path(path).read_bytes().removeprefix(codecs.BOM_UTF8)
        if not data.strip():
            raise ValueError("it is empty, as a gate that was killed leaves it")
        head, *lines = data.splitlines()
        scored_by = msgspec.json.decode(head, type=dict[str, tuple[str, ...]])["scored_by"]
        goldens = tuple(msgspec.json.decode(line, type=ScoredGolden) for line in lines if line)
    except OSError as error:
        raise GoldensError(f"{name}: {error.strerror or error}") from error
    except (ValueError, KeyError, msgspec.MsgspecError) as error:
        raise GoldensError(
            f"{name} is no baseline: {error}; `ragmonitor gate GOLDENS --save {name}` writes one"
        ) from error
    return ScoredRun(scored_by=scored_by, goldens=goldens)
