"""Decorators for applications without a framework: functions that answer, and that retrieve."""

from __future__ import annotations

import functools
import inspect
from collections.abc import AsyncIterator, Callable, Generator, Mapping, Sequence
from typing import Any, ParamSpec, TypeVar, cast

from ragmonitor.capture.plain import InteractionRecorder, current_interaction
from ragmonitor.guard import record_error
from ragmonitor.records import Chunk

P = ParamSpec("P")
R = TypeVar("R")

Begin = Callable[[str], InteractionRecorder]
"""From the question to the recorder of its interaction."""

_ANSWER_KEYS = ("answer", "response", "result", "output")


def answers(
    function: Callable[P, R],
    *,
    begin: Begin,
    query: str | None,
    answer: Callable[[Any], str] | None,
) -> Callable[P, R]:
    """Return the function, each call of which is one interaction.

    Plain and coroutine functions, generators and asynchronous generators of the answer's pieces.
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
    read = _QueryReader(function, query)
    text_of = answer or _text_of

    def open_(given: tuple[Any, ...], named: Mapping[str, Any]) -> InteractionRecorder:
        return begin(read(given, named))

    def text(value: Any) -> str:
        try:
            return text_of(value)
        except Exception as error:  # noqa: BLE001 - `answer` is anybody's code
            record_error("capture", error)
            return ""

    wrapped: Any = function
    if inspect.isasyncgenfunction(function):
        wrapped = _asynchronous_pieces(wrapped, open_, text)
    elif inspect.isgeneratorfunction(function):
        wrapped = _pieces(wrapped, open_, text)
    elif inspect.iscoroutinefunction(function):
        wrapped = _awaited(wrapped, open_, text)
    else:
        wrapped = _called(wrapped, open_, text)
    return cast("Callable[P, R]", functools.wraps(function)(wrapped))


_Open = Callable[[tuple[Any, ...], Mapping[str, Any]], InteractionRecorder]
_Text = Callable[[Any], str]


def _called(function: Callable[..., Any], open_: _Open, text: _Text) -> Callable[..., Any]:
    def called(*given: Any, **named: Any) -> Any:
        with open_(given, named) as i:
            result = function(*given, **named)
            _note_answer(i, text(result))
        return result

    return called


def _awaited(function: Callable[..., Any], open_: _Open, text: _Text) -> Callable[..., Any]:
    async def awaited(*given: Any, **named: Any) -> Any:
        with open_(given, named) as i:
            result = await function(*given, **named)
            _note_answer(i, text(result))
        return result

    return awaited


def _pieces(function: Callable[..., Any], open_: _Open, text: _Text) -> Callable[..., Any]:
    def pieces(*given: Any, **named: Any) -> Generator[Any, None, Any]:
        i = open_(given, named)
        inner = function(*given, **named)
        said: list[str] = []
        failure: BaseException | None = None
        try:
            while True:
                # Current only while the function runs: its caller shares our context.
                i.enter()
                try:
                    piece = next(inner)
                except StopIteration as stop:
                    return stop.value
                finally:
                    i.exit()
                said.append(text(piece))
                yield piece
        except BaseException as error:
            failure = error
            inner.close()
            raise
        finally:
            i.heard(said, failure, whole=failure is None)
            i.end(failure)

    return pieces


def _asynchronous_pieces(
    function: Callable[..., Any], open_: _Open, text: _Text
) -> Callable[..., Any]:
    async def pieces(*given: Any, **named: Any) -> AsyncIterator[Any]:
        i = open_(given, named)
        inner = function(*given, **named)
        said: list[str] = []
        failure: BaseException | None = None
        try:
            while True:
                i.enter()
                try:
                    piece = await anext(inner)
                except StopAsyncIteration:
                    return
                finally:
                    i.exit()
                said.append(text(piece))
                yield piece
        except BaseException as error:
            failure = error
            await inner.aclose()
            raise
        finally:
            i.heard(said, failure, whole=failure is None)
            i.end(failure)

    return pieces


def retrieves(
    function: Callable[P, R], *, chunks: Callable[[Any], Sequence[Chunk | str]] | None
) -> Callable[P, R]:
    """Return the function, what it returns being noted as retrieved for the current interaction.

    Outside an interaction nothing is noted.

    Args:
        function: Retrieves; plain or a coroutine function.
        chunks: From what it returned to the chunks, in the order the model sees them; None: it
            returns them.
    """
    read = _QueryReader(function, None, optional=True)

    def note(given: tuple[Any, ...], named: Mapping[str, Any], result: Any) -> None:
        i = current_interaction()
        if i is None:
            return
        try:
            found = result if chunks is None else chunks(result)
            i.retrieved(list(found), query=read(given, named), name=function.__name__)
        except Exception as error:  # noqa: BLE001 - `chunks` is anybody's code
            record_error("capture", error)

    if inspect.iscoroutinefunction(function):

        @functools.wraps(function)
        async def awaited(*given: P.args, **named: P.kwargs) -> Any:
            result = await function(*given, **named)
            note(given, named, result)
            return result

        return awaited  # type: ignore[return-value]

    @functools.wraps(function)
    def called(*given: P.args, **named: P.kwargs) -> R:
        result = function(*given, **named)
        note(given, named, result)
        return result

    return called


class _QueryReader:
    """Finds the question among a call's arguments."""

    def __init__(
        self, function: Callable[..., Any], name: str | None, *, optional: bool = False
    ) -> None:
        parameters = inspect.signature(function).parameters
        names = [each for each in parameters if each not in ("self", "cls")]
        if name is not None and name not in parameters:
            raise TypeError(f"{function.__qualname__} has no parameter {name!r}")
        if name is None and not names and not optional:
            raise TypeError(f"{function.__qualname__} takes no parameter that could be a question")
        self._name = name or (names[0] if names else "")
        self._position = [*parameters].index(self._name) if self._name else -1

    def __call__(self, given: Sequence[Any], named: Mapping[str, Any]) -> str:
        if self._name in named:
            value = named[self._name]
        elif 0 <= self._position < len(given):
            value = given[self._position]
        else:
            return ""
        return value if isinstance(value, str) else ""


def _note_answer(i: InteractionRecorder, text: str) -> None:
    if text:
        i.answered(text)


def _text_of(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, Mapping):
        return next((v for k in _ANSWER_KEYS if isinstance(v := value.get(k), str)), "")
    found = (getattr(value, key, None) for key in _ANSWER_KEYS)
    return next((v for v in found if isinstance(v, str)), "")
