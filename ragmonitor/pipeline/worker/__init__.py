"""The order of the back half: take, read, draw, judge, evaluate, estimate, export."""

from ragmonitor.pipeline.worker.exports import Exports
from ragmonitor.pipeline.worker.worker_thread import Worker

__all__ = ["Exports", "Worker"]
