"""Answers in threads, and ends without a word to the monitor."""

from concurrent.futures import ThreadPoolExecutor

from tests.contract.programs.application import answered

with ThreadPoolExecutor(4) as pool:
    list(pool.map(answered, range(11)))
