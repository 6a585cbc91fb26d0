"""Answers in processes that multiprocessing starts, by the method that is named, and in its own."""

import multiprocessing
import sys

from tests.contract.programs.application import answered, monitor


def ask(numbers: range) -> None:
    """Answer questions in a child, which runs no exit handler."""
    for number in numbers:
        answered(number)
    assert monitor.flush(20)


if __name__ == "__main__":
    answered(0)
    context = multiprocessing.get_context(sys.argv[1])
    children = [context.Process(target=ask, args=(range(n, n + 5),)) for n in (1, 6)]
    for child in children:
        child.start()
    for child in children:
        child.join()
    assert [child.exitcode for child in children] == [0, 0]
