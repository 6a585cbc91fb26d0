"""Asks the code that reads other people's objects; what raises there costs one answer."""

from __future__ import annotations

from functools import partial
from typing import Any

from ragmonitor.runtime.guard import record_error


class SafeReader:
    """A translator, or a convention, whose methods never raise.

    Where a method raises, the error is recorded and the answer is that of the protocol's own
    method, which is empty.
    """

    def __init__(self, reader: Any, protocol: type) -> None:
        """Wrap a reader.

        Args:
            reader: Answers questions about a run, which has to outlive this object: each question
                is asked once of each run.
            protocol: Its public methods are the questions.
        """
        self._reader = reader
        self._protocol = protocol
        self._answers: dict[tuple[str, int], Any] = {}
        self.lost = False
        """A method has raised."""

    def __getattr__(self, name: str) -> Any:
        if callable(getattr(self._protocol, name, None)):
            return partial(self._answer, name)
        return getattr(self._reader, name)

    def _answer(self, question: str, run: Any) -> Any:
        key = question, id(run)
        if key not in self._answers:
            empty = partial(getattr(self._protocol, question), self._reader)
            try:  # a translator need not know of all of them
                self._answers[key] = getattr(self._reader, question, empty)(run)
            except Exception as error:  # noqa: BLE001 - objects of the application's own classes
                record_error("capture", error)
                self.lost = True
                self._answers[key] = empty(run)
        return self._answers[key]
