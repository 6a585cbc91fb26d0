"""Where an application with reference answers loses them."""

from __future__ import annotations

from ragmonitor.offline.bottleneck import Bottleneck, bottleneck_of
from ragmonitor.records import JudgeIdentity, Scored

JUDGE = JudgeIdentity(name="j", version="1", kind="CODE")
NAMES = ("answer_correctness", "context_recall", "context_precision")


def test_a_threshold_itself_is_high():
    """0.7, 0.8 and 0.5."""

    def found(*scores: float) -> Bottleneck | None:
        pairs = zip(NAMES, scores, strict=True)
        return bottleneck_of(Scored(evaluator=f"{n}@1", judge=JUDGE, score=s) for n, s in pairs)

    assert found(0.7, 0.8, 0.5) is Bottleneck.NONE
    assert found(0.69, 0.8, 0.5) is Bottleneck.MODEL
    assert found(0.69, 0.79, 0.5) is Bottleneck.TOO_FEW_CHUNKS
    assert found(0.69, 0.8, 0.49) is Bottleneck.NOISE
