"""Holds finished interactions, and counts of refused ones, for the worker."""

from ragmonitor.runtime.queues.memory import MemoryQueue
from ragmonitor.runtime.queues.notes import Notes

__all__ = ["MemoryQueue", "Notes"]
