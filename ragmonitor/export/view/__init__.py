"""A page beside /metrics: the numbers of now, the last hours, the alarms and the worst answers."""

from ragmonitor.export.view.access import Access, is_loopback
from ragmonitor.export.view.page import View

__all__ = ["Access", "View", "is_loopback"]
