"""Decorators for applications without a framework: functions that answer, and that retrieve."""

from __future__ import annotations

import functools
import inspect
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ParamSpec, TypeVar, cast

from ragmonitor.capture.coercion import error_text, text_in
from ragmonitor.capture.conversations import answer_in
from ragmonitor.capture.plain import InteractionRecorder, StreamedAnswer, current_interaction
from ragmonitor.capture.recorder import status_of
from ragmonitor.capture.streams import Listener, listened
from ragmonitor.records import Chunk
from ragmonitor.runtime.guard import shielded

P = ParamSpec("P")
R = TypeVar("R")

Begin = Callable[[str], InteractionRecorder]
"""From the question to the recorder of its interaction."""


def answers(
    function: Callable[P, R],
    *,
    begin: Begin,
    query: str | None,
    answer: Callable[[Any], str] | None,
) -> Callable[P, R]:
    """Return the function; each of its calls is one interaction.

    Plain and coroutine functions, generators and asynchronous generators of the answer's pieces,
    and functions that return one; methods, objects that can be called, partial functions.
    What the function does, returns and raises stays as it is.

    Args:
        function: Answers a question.
        begin: Starts an interaction.
        query: The parameter that holds the question; None: the first one, `self` left out.
        answer: From what the function returned, or one piece of it, to text; None: texts, and
            what stands under `answer`, `response`, `result` or `output`.

    Raises:
        TypeError: The function has no such parameter.
    """
    read = _query_reader(_inner(function), query)

    def text(value: Any) -> str | None:
        if type(value) is str and answer is None:
            return value
        with shielded("capture"):  # `answer` is anybody's code, an extension module's too
            said = text_in(value if answer is None else answer(value))
            return said if said is not None or answer is not None else answer_in(value) or None
        return None

    def listener(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Listener:
        recorder = begin(read(args, kwargs))
        recorder.gives_way = True
        return StreamedAnswer(recorder, text=text)

    return _listened(function, listener)


def retrieves(
    function: Callable[P, R], *, chunks: Callable[[Any], Sequence[Chunk | str]] | None
) -> Callable[P, R]:
    """Return the function; its results are noted as retrieved for the current interaction.

    It returns a list, now or as a coroutine. A generator or another iterator is handed through
    unread, and the interaction is incomplete, unless `chunks` reads it. Outside an interaction
    nothing is noted.

    Args:
        function: Retrieves.
        chunks: From what it returned to the chunks, in the order the model sees them. None: it
            returns chunks.
    """
    read = _query_reader(_inner(function), None, optional=True)
    name = name_of(_inner(function))

    def listener(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Listener | None:
        i = current_interaction()
        return None if i is None else _Retrieval(i, read(args, kwargs), name, chunks)

    return _listened(function, listener, reads_streams=False)


class _Retrieval(Listener):
    """Notes what a function retrieves for an interaction."""

    reads_streams = False

    def __init__(
        self,
        recorder: InteractionRecorder,
        query: str,
        name: str,
        chunks: Callable[[Any], Sequence[Chunk | str]] | None,
    ) -> None:
        self._recorder = recorder
        self._run = recorder.noted("retriever", name, query)
        self._run.started_ns = time.time_ns()
        self._chunks = chunks

    def end(self, failure: BaseException | None = None, *, whole: bool = False) -> None:  # noqa: ARG002
        """Note that the search failed."""
        if failure is not None and status_of(failure) == "error":
            self._run.error = error_text(failure)
        self.give(())

    def give(self, result: Any) -> None:
        """Note what the search found."""
        self._recorder.found(self._run, result, self._chunks)


def _inner(function: Any) -> Any:
    is_method = isinstance(function, classmethod | staticmethod)
    return function.__func__ if is_method else function


def _listened(
    function: Callable[P, R],
    listener: Callable[[tuple[Any, ...], Mapping[str, Any]], Listener | None],
    *,
    reads_streams: bool = True,
) -> Callable[P, R]:
    def listen(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Listener | None:
        with shielded("capture"):
            return listener(args, kwargs)
        return None

    wrapped: Any = listened(_inner(function), listen, reads_streams=reads_streams)
    kind: Any = type(function)
    is_method = isinstance(function, classmethod | staticmethod)
    return cast("Callable[P, R]", kind(wrapped) if is_method else wrapped)


def name_of(function: Any, name: Any = "") -> str:
    """Return the name if it is one; else that of the function, or of its class, if it has none."""
    if text := text_in(name):
        return text
    while isinstance(function, functools.partial):
        function = function.func
    own = getattr(function, "__name__", None)
    return own if isinstance(own, str) else type(function).__name__


def _query_reader(
    function: Callable[..., Any], name: str | None, *, optional: bool = False
) -> Callable[[tuple[Any, ...], Mapping[str, Any]], str]:
    """Return what finds the question among a call's arguments; empty if it is no text."""
    try:
        parameters = inspect.signature(function).parameters
    except (TypeError, ValueError):  # a builtin that does not say: its first argument, then
        return lambda args, _: text_in(args[0] if args else "") or ""
    kinds = {each: parameter.kind for each, parameter in parameters.items()}
    names = [n for n, kind in kinds.items() if kind is not inspect.Parameter.VAR_KEYWORD]
    asked = name or next((each for each in names if each not in ("self", "cls")), "")
    if name is not None and name not in kinds and len(names) == len(kinds):
        raise TypeError(f"{name_of(function)} has no parameter {name!r}")
    if not asked and not optional:
        raise TypeError(f"{name_of(function)} takes no parameter that could be a question")
    by_name = kinds.get(asked, inspect.Parameter.KEYWORD_ONLY) is inspect.Parameter.KEYWORD_ONLY
    position = sys.maxsize if by_name else names.index(asked)
    default = parameters[asked].default if asked in names else ""

    def read(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> str:
        value = args[position] if position < len(args) else kwargs.get(asked, default)
        return text_in(value) or ""

    return read
