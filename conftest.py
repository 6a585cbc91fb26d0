"""Where monitors of tests work; `tests/pipeline/conftest.py` runs them in the other place, too."""

import os

# A helper process takes a second to start, which hundreds of tests would wait for.
os.environ.setdefault("RAGMONITOR_WORKER", "thread")
