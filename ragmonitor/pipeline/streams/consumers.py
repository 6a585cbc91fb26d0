"""Names the processes that take records, and says which records they die of."""

from __future__ import annotations

import os
import socket
from typing import Final
from uuid import uuid4

from ragmonitor.pipeline.streams.deliveries import Delivery
from ragmonitor.runtime.guard import record_problem

MAX_DELIVERIES: Final = 3
"""A record that so many workers died of, or let lie, is buried."""


def name_of_process() -> str:
    """Return a name that begins with the machine's and that no other process has."""
    return f"{socket.gethostname()}-{os.getpid()}-{uuid4().hex[:8]}"


class Consumer:
    """A process that takes records."""

    def __init__(self) -> None:
        self.name = name_of_process()
        self.failures = 0
        """How often it may have been given records without hearing of it."""

    def died_of(self, delivery: Delivery) -> str:
        """Return why a record is to be buried; empty: nobody died of it so far."""
        # What this process lost by itself says nothing of the record.
        if delivery.deliveries <= MAX_DELIVERIES + self.failures:
            return ""
        return f"delivered {delivery.deliveries - 1} times and never settled"


def log_burial(reason: str) -> None:
    """Tell people that a record was put aside; of each reason in one line."""
    record_problem("stream", f"a record was buried, and the next ones like it are: {reason}")
