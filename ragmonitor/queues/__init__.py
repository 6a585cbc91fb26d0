"""Holds finished interactions, and counts of refused ones, for the worker."""

from ragmonitor.queues.memory import MemoryQueue
from ragmonitor.queues.notes import Notes

__all__ = ["MemoryQueue", "Notes"]
