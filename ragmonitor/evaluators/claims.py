"""What evaluators count: the claims of an answer, or why there are none to count."""

from __future__ import annotations

from ragmonitor.errors import NotScorableError
from ragmonitor.records import Assessment, Cause, SentenceVerdict, Verdict


def claims_of(assessment: Assessment) -> tuple[SentenceVerdict, ...]:
    """Return the answer's sentences that assert something; at least one.

    Raises:
        NotScorableError: The answer refuses, claims nothing, or its verdicts are unreadable.
    """
    if assessment.evasive:
        raise NotScorableError(Cause.REFUSAL)
    claims = assessment.claims
    if claims is None:
        raise NotScorableError(Cause.UNREADABLE)
    if not claims:
        raise NotScorableError(Cause.NO_CLAIMS)
    return claims


def share_of(assessment: Assessment, verdict: Verdict) -> float:
    """Return the share of an answer's claims with this verdict, 0 to 1.

    Raises:
        NotScorableError: As `claims_of`.
    """
    claims = claims_of(assessment)
    return sum(claim.verdict is verdict for claim in claims) / len(claims)
