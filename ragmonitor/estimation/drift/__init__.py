"""Input drift: whether questions and retrievals are still what they used to be."""

from ragmonitor.estimation.drift.input_drift import MIN_OBJECTIVES, STATE_VERSION, InputDrift

__all__ = ["MIN_OBJECTIVES", "STATE_VERSION", "InputDrift"]
