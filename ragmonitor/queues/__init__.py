"""Between the application and the worker."""

from ragmonitor.queues.memory import MemoryQueue

__all__ = ["MemoryQueue"]
