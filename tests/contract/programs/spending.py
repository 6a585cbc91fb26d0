"""Starts a monitor several times, answers questions each time, and prints how many were judged."""

import sys

from ragmonitor import Monitor
from tests.contract.kit import JudgeObject, settings

judge = JudgeObject()
for _ in range(int(sys.argv[1])):
    monitor = Monitor(
        **settings(sample=1.0, judge=judge, budget="calls_per_hour=40", state="kept.db")
    )
    for number in range(20):
        with monitor.interaction(query=str(number), tags=["user_feedback"]) as i:
            i.retrieved(["It was built in 1889."])
            i.answered("It was built in 1889.")
    assert monitor.flush(20)
    monitor.close(5)
print(len(judge.asked))
