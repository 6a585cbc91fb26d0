"""Answers in tasks of one event loop, and ends without a word to the monitor."""

import asyncio

from tests.contract.programs.application import aanswered


async def main() -> None:
    """Ask all at once."""
    await asyncio.gather(*(aanswered(number) for number in range(11)))


asyncio.run(main())
