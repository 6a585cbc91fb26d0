"""Decorators for applications without a framework: functions that answer, and that retrieve."""

from __future__ import annotations

import functools
import inspect
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import aclosing
from types import CoroutineType
from typing import Any, ParamSpec, TypeVar, cast

from ragmonitor.capture.coercion import error_text, status_of, text_in
from ragmonitor.capture.conversations import answer_in
from ragmonitor.capture.plain import InteractionRecorder, current_interaction
from ragmonitor.capture.streams import Listener, ending, entered
from ragmonitor.records import Chunk
from ragmonitor.runtime.guard import shielded

P = ParamSpec("P")
R = TypeVar("R")

Begin = Callable[[str], InteractionRecorder]
"""From the question to the recorder of its interaction."""
_Call = InteractionRecorder | Listener


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

    def begin_call(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> InteractionRecorder:
        i = begin(read(args, kwargs))
        i.reads = text
        return i

    return _noted(function, begin_call, has_pieces=True)


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

    def begin_call(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Listener | None:
        i = current_interaction()
        return None if i is None else _Search(i, read(args, kwargs), name, chunks)

    return _noted(function, begin_call, has_pieces=False)


class _Search(Listener):
    """Notes what a function retrieves for an interaction."""

    def __init__(
        self,
        recorder: InteractionRecorder,
        query: str,
        name: str,
        chunks: Callable[[Any], Sequence[Chunk | str]] | None,
    ) -> None:
        self._recorder, self._chunks = recorder, chunks
        self._run = recorder.noted("retriever", name, query)
        self._run.started_ns = time.time_ns()

    def end(self, failure: BaseException | None = None, *, whole: bool = False) -> None:  # noqa: ARG002
        """Note that the search failed."""
        if failure is not None and status_of(failure) == "error":
            self._run.error = error_text(failure)
        self.give(())

    def give(self, result: Any) -> Any:
        """Note what the search found."""
        self._recorder.found(self._run, result, self._chunks)
        return result


def _inner(function: Any) -> Any:
    is_method = isinstance(function, classmethod | staticmethod)
    return function.__func__ if is_method else function


def _noted(
    decorated: Callable[P, R],
    begin: Callable[[tuple[Any, ...], Mapping[str, Any]], _Call | None],
    *,
    has_pieces: bool,
) -> Callable[P, R]:
    """Return a function of the same kind, each call of which is noted.

    What it does, returns and raises stays as it is.

    Args:
        decorated: The function.
        begin: From a call's arguments to its notes; None: it has none.
        has_pieces: Whether what a generator function yields is noted, or is passed on unread.
    """
    function = _inner(decorated)

    def call(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> _Call:
        with shielded("capture"):
            return begin(args, kwargs) or Listener()
        return Listener()

    def plain(*args: Any, **kwargs: Any) -> Any:
        noted = call(args, kwargs)
        with ending(noted), entered(noted):
            result = function(*args, **kwargs)
        return awaited(result, noted) if type(result) is CoroutineType else noted.give(result)

    async def awaited(coming: Any, noted: _Call) -> Any:
        with ending(noted), entered(noted):
            result = await coming
        return noted.give(result)

    async def coroutine(*args: Any, **kwargs: Any) -> Any:
        return await awaited(function(*args, **kwargs), call(args, kwargs))

    def generator(*args: Any, **kwargs: Any) -> Any:
        return (yield from plain(*args, **kwargs))

    async def async_generator(*args: Any, **kwargs: Any) -> Any:
        async with aclosing(plain(*args, **kwargs)) as pieces:
            async for piece in pieces:
                yield piece

    # Of an object that is called, its class says what the call is.
    called = getattr(type(function), "__call__", None)  # noqa: B004 - the method is what is wanted

    def is_any(kind: Callable[[Any], bool]) -> bool:
        return kind(function) or kind(called)

    wrapped: Any = plain
    if is_any(inspect.iscoroutinefunction):
        wrapped = coroutine
    elif has_pieces and is_any(inspect.isasyncgenfunction):
        wrapped = async_generator
    elif has_pieces and is_any(inspect.isgeneratorfunction):
        wrapped = generator
    wrapped = functools.wraps(function)(wrapped)
    if isinstance(decorated, classmethod | staticmethod):
        wrapped = type(decorated)(wrapped)
    return cast("Callable[P, R]", wrapped)


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
