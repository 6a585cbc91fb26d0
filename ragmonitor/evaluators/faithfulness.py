"""Faithfulness: how much of what the answer claims the chunks support."""

from __future__ import annotations

from ragmonitor.evaluators.claims import share_of
from ragmonitor.evaluators.table import evaluator
from ragmonitor.records import Assessment, Interaction, Language, Verdict

_SAID: dict[Language, dict[Verdict, str]] = {
    "en": {Verdict.ABSENT: "absent", Verdict.CONTRADICTED: "contradicted"},
    "zh": {Verdict.ABSENT: "资料中没有", Verdict.CONTRADICTED: "与资料矛盾"},
}


def unsupported(assessment: Assessment) -> str:
    """Return the sentences that the chunks do not bear out, one a line, with the words at fault.

    In the answer's language.
    """
    said = _SAID[assessment.language]
    colon, comma = ("：", "、") if assessment.language == "zh" else (": ", ", ")
    return "\n".join(
        f"{said[sentence.verdict]}{colon}{sentence.text}"
        + (f" [{comma.join(sentence.words)}]" if sentence.words else "")
        for sentence in assessment.claims or ()
        if sentence.verdict in said
    )


@evaluator("faithfulness", explain=unsupported)
def faithfulness(_interaction: Interaction, assessment: Assessment) -> float:
    """Return supported sentences / sentences with a claim.

    Returns:
        0 (nothing is supported) to 1 (everything is).

    Raises:
        NotScorableError: The answer refuses, claims nothing, or its verdicts are unreadable.

    Source:
        Es et al., "RAGAS" (2023), section 3, faithfulness, arXiv:2309.15217; over sentences
        instead of generated statements.
    """
    return share_of(assessment, Verdict.SUPPORTED)
