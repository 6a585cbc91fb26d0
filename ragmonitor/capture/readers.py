"""Asks the code that reads other people's objects; what raises there costs one answer."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from ragmonitor.runtime.guard import record_error


class SafeReader:
    """A translator, or a convention, whose methods never raise.

    Where a method raises, the error is recorded and the answer is that of the protocol's own
    method, which is empty.
    """

    def __init__(
        self,
        reader: Any,
        protocol: type,
        *,
        note_loss: Callable[[Any], None] | None = None,
    ) -> None:
        """Wrap a reader.

        Args:
            reader: Answers questions about a run, or a span.
            protocol: Its public methods are the questions; each takes a run or a span.
            note_loss: Called with the run or span of a question that raised. None: each question is
                asked once of each run, which has to outlive this object, and `lost` notes a loss.
        """
        self._reader = reader
        self._protocol = protocol
        self._note_loss = note_loss
        self._answers: dict[tuple[str, int], Any] = {}
        self.lost = False
        """A method has raised."""

    def __getattr__(self, name: str) -> Any:
        if callable(getattr(self._protocol, name, None)):
            return partial(self._known if self._note_loss is None else self._answer, name)
        return getattr(self._reader, name)

    def _known(self, question: str, subject: Any) -> Any:
        key = question, id(subject)
        if key not in self._answers:
            self._answers[key] = self._answer(question, subject)
        return self._answers[key]

    def _answer(self, question: str, subject: Any) -> Any:
        try:
            if not hasattr(self._reader, question):  # it need not know of all of them
                return getattr(self._protocol, question)(self._reader, subject)
            return getattr(self._reader, question)(subject)
        except Exception as error:  # noqa: BLE001 - objects of the application's own classes
            record_error("capture", error)
            self.lost = True
            if self._note_loss is not None:
                self._note_loss(subject)
            return getattr(self._protocol, question)(self._reader, subject)
