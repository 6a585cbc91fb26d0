"""Monitors of tests work on a thread, unless they are told otherwise."""

import os

# A worker takes a second to start, which hundreds of tests would wait for.
os.environ.setdefault("RAGMONITOR_WORKER", "thread")
