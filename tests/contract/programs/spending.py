"""Starts some monitors, asks all of them at once, and prints how many answers were judged."""

import sys
from concurrent.futures import ThreadPoolExecutor

from ragmonitor import Monitor
from tests.contract.kit import JudgeObject, settings

judge = JudgeObject()
options = settings(sample=1.0, judge=judge, budget="calls_per_hour=40", state="kept.db")


def ask(monitor: Monitor) -> None:
    """Answer questions of which each is to be judged for certain, if the budget bears it."""
    for number in range(10):
        with monitor.interaction(query=str(number), tags=["user_feedback"]) as i:
            i.retrieved(["It was built in 1889."])
            i.answered("It was built in 1889.")


monitors = [Monitor(**options) for _ in range(int(sys.argv[1]))]
with ThreadPoolExecutor(len(monitors)) as pool:
    list(pool.map(ask, monitors))
for monitor in monitors:
    assert monitor.flush(20)
    monitor.close(5)
print(len(judge.asked))
