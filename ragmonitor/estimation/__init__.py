"""Means that no sampling rule can bias, each with an interval, and the alarms that rest on them."""

from ragmonitor.estimation.alarms import Alarms
from ragmonitor.estimation.anchors import Anchors
from ragmonitor.estimation.early_warning import EarlyWarning
from ragmonitor.estimation.interval import summarise
from ragmonitor.estimation.labels import HumanLabels
from ragmonitor.estimation.statistics import Statistics, Watchers
from ragmonitor.estimation.streams import streams

__all__ = [
    "Alarms",
    "Anchors",
    "EarlyWarning",
    "HumanLabels",
    "Statistics",
    "Watchers",
    "streams",
    "summarise",
]
