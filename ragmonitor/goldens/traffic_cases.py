"""The worst answers of live traffic as test cases: asked and answered, without a reference answer.

What an application answered badly is no reference. So other tools get it where they keep what was
answered, and their column for the right answer stays empty: RAGAS' `response` and
`retrieved_contexts` (`SingleTurnSample`, 0.4.3), DeepEval's `actual_output` and `retrieval_context`
(`Golden`, 4.3.1), and the metadata of Langfuse's `DatasetItem` (5.0.4), which has no such column.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import msgspec

from ragmonitor.goldens.generating import SAME_FROM
from ragmonitor.goldens.golden import Golden
from ragmonitor.goldens.golden_formats import FORMATS, Record
from ragmonitor.goldens.gram_index import GramIndex
from ragmonitor.goldens.mining import BAD_FROM, MineReason, Traffic, candidate


def worst_answers(traffic: Traffic, n: int) -> list[Golden]:
    """Return at most `n` answers that a judge finds bad, the worst first, each question once.

    Of equally bad ones the newer stands first; a question that is written like one before it
    (`SAME_FROM`) is left out.
    """
    bad = [answer for answer in traffic.candidates() if answer.badness >= BAD_FROM]
    bad.sort(key=lambda answer: (-answer.badness, -answer.at_s))
    index = GramIndex(answer.question for answer in bad)
    cases: list[Golden] = []
    repeated: set[int] = set()
    for position, answer in enumerate(bad):
        if len(cases) == n:
            break
        if position in repeated:
            continue
        cases.append(candidate(answer, {MineReason.WORST: answer.badness}))
        near = index.nearest(answer.question, len(bad))
        repeated.update(each.position for each in near if each.similarity >= SAME_FROM)
    return cases


def _ragas(case: Golden, texts: Sequence[str]) -> Record:
    return {"user_input": case.question, "retrieved_contexts": texts, "response": case.answer}


def _deepeval(case: Golden, texts: Sequence[str]) -> Record:
    answered = {"actual_output": case.answer, "retrieval_context": texts}
    return FORMATS["deepeval"].write(_bare(case)) | answered


def _langfuse(case: Golden, texts: Sequence[str]) -> Record:
    record = FORMATS["langfuse"].write(_bare(case))
    record["metadata"]["output"] = {"answer": case.answer, "contexts": texts}
    return record | {"expectedOutput": None}


def _jsonl(case: Golden, texts: Sequence[str]) -> Record:  # noqa: ARG001 - as the others
    return FORMATS["ragmonitor"].write(case)


def _bare(case: Golden) -> Golden:
    return msgspec.structs.replace(case, answer="", chunks=())


_WRITERS: Final[dict[str, Callable[[Golden, Sequence[str]], Record]]] = {
    "ragas": _ragas,
    "deepeval": _deepeval,
    "langfuse": _langfuse,
    "jsonl": _jsonl,
}


def case_record(case: Golden, name: str) -> dict[str, Any]:
    """Return an answer as a record of `ragas`, `deepeval`, `langfuse` or, `jsonl`, our own."""
    return _WRITERS[name](case, [chunk.text for chunk in case.chunks])
