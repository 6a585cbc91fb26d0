"""Where an application with reference answers loses them."""

from __future__ import annotations

from ragmonitor.offline.bottleneck import Bottleneck, bottleneck


def test_a_threshold_itself_is_high():
    """0.7, 0.8 and 0.5."""
    assert bottleneck(0.7, 0.8, 0.5) is Bottleneck.NONE
    assert bottleneck(0.69, 0.8, 0.5) is Bottleneck.MODEL
    assert bottleneck(0.69, 0.79, 0.5) is Bottleneck.TOO_FEW_CHUNKS
    assert bottleneck(0.69, 0.8, 0.49) is Bottleneck.NOISE
