"""Citation correctness: whether what the answer cites for a sentence supports that sentence."""

from __future__ import annotations

import re

from ragmonitor.evaluators.reference_free import claims_of
from ragmonitor.evaluators.table import evaluator
from ragmonitor.records import Assessment, Cause, Interaction, Verdict
from ragmonitor.runtime.errors import NotScorableError
from ragmonitor.runtime.patterns import lazy_pattern

_NUMBER = (
    r"(?:source|doc(?:ument)?|passage|chunk|来源|资料|文档|段落|來源|資料|文檔)?"
    r"\s{0,2}[#^]?\d{1,3}(?:†[^\]】]{0,40})?"
)
_NUMBERED = lazy_pattern(
    rf"[\[【]\s?({_NUMBER}(?:\s?[,，、;；–-]\s?{_NUMBER}){{0,9}})\s?[\]】]", re.IGNORECASE
)
_RANGE = lazy_pattern(r"(\d{1,3})\s?[–-]\s?[#^]?(\d{1,3})")
_PLACE = lazy_pattern(r"†[^,，、;；]*")
"""The place in the source, behind a number."""
_CODE = lazy_pattern(r"```.*?(?:```|\Z)|`[^`\n]*`", re.DOTALL)


@evaluator("citation_correctness", version=2, by_default=False)
def citation_correctness(_interaction: Interaction, assessment: Assessment) -> float:
    """Return citations whose chunk is among those that support their sentence / citations.

    `[1]`, `[1, 3]`, `[2-4]`, `【1】`, `[doc 2]` count chunks from 1, or from 0 where the answer
    cites 0. A citation of what does not exist is wrong; one on a sentence that claims nothing is
    left out, and so is a source that is named.

    Returns:
        0 (every citation is wrong) to 1 (every one is right). A judge names the chunks that it
        needs as evidence: of two chunks that say the same, the one it left out counts as wrong.

    Raises:
        NotScorableError: Nothing is cited, the answer refuses, claims nothing, or its verdicts are
            unreadable.

    Source:
        Citation precision of Gao et al., "Enabling Large Language Models to Generate Text with
        Citations" (2023), section 4, arXiv:2305.14627, over whole sentences.
    """
    claims = claims_of(assessment)
    numbered = [numbers(claim.text) for claim in claims]
    first = 0 if any(0 in cited for cited in numbered) else 1
    right = total = 0
    for claim, cited in zip(claims, numbered, strict=True):
        support = claim.chunks if claim.verdict is Verdict.SUPPORTED else ()
        right += sum(number - first in support for number in cited)
        total += len(cited)
    if not total:
        raise NotScorableError(Cause.NO_CITATIONS)
    return right / total


def numbers(text: str) -> list[int]:
    """Return the numbers that a text cites, in order; code is left out."""
    cited: list[int] = []
    for citation in _NUMBERED.finditer(_CODE.sub(" ", text)):
        spelled = _RANGE.sub(_enumerated, _PLACE.sub("", citation[1]))
        cited += [int(number) for number in re.findall(r"\d+", spelled)]
    return cited


def _enumerated(match: re.Match[str]) -> str:
    begin, end = int(match[1]), int(match[2])
    if not begin < end <= begin + 20:
        return f"{begin},{end}"
    return ",".join(map(str, range(begin, end + 1)))
