"""Holds finished interactions, and counts of refused ones, for the worker."""

from ragmonitor.runtime.queues.memory import MAX_BYTES, MemoryQueue
from ragmonitor.runtime.queues.notes import Notes

__all__ = ["MAX_BYTES", "MemoryQueue", "Notes"]
