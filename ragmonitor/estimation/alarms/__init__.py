"""Alarms with a stated false-alarm rate: one detector per signal, shared by all processes."""

from ragmonitor.estimation.alarms.alarm_stream import Stream
from ragmonitor.estimation.alarms.learning import LEARNED_FROM
from ragmonitor.estimation.alarms.service_alarms import STATE_VERSION, Alarms

__all__ = ["LEARNED_FROM", "STATE_VERSION", "Alarms", "Stream"]
