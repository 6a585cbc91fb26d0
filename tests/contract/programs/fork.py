"""Forks while an answer waits, and answers on both sides."""

import os

from tests.contract.programs.application import answered, monitor

answered(0)
if (child := os.fork()) == 0:
    for number in range(1, 6):
        answered(number)
    os._exit(0 if monitor.close(5) else 1)
for number in range(6, 11):
    answered(number)
assert os.waitpid(child, 0)[1] == 0
