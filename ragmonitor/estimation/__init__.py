"""Means that no sampling rule can bias, each with an interval, and the alarms that rest on them."""

from ragmonitor.estimation.alarm_streams import streams
from ragmonitor.estimation.alarms import Alarms
from ragmonitor.estimation.anchors import Anchors
from ragmonitor.estimation.golden_questions import GoldenQuestions
from ragmonitor.estimation.interval import summarise
from ragmonitor.estimation.judge_drift import JudgeDrift
from ragmonitor.estimation.labels import HumanLabels
from ragmonitor.estimation.means import WindowedMeans
from ragmonitor.estimation.parts import Part
from ragmonitor.estimation.peoples_feedback import PeoplesFeedback
from ragmonitor.estimation.predictions import Predictions
from ragmonitor.estimation.statistics import Statistics
from ragmonitor.estimation.suspicion import Suspicion

__all__ = [
    "Alarms",
    "Anchors",
    "GoldenQuestions",
    "HumanLabels",
    "JudgeDrift",
    "Part",
    "PeoplesFeedback",
    "Predictions",
    "Statistics",
    "Suspicion",
    "WindowedMeans",
    "streams",
    "summarise",
]
