"""Between the application and the worker."""

from ragmonitor.queues.memory import MemoryQueue
from ragmonitor.queues.notes import Notes

__all__ = ["MemoryQueue", "Notes"]
