"""Stops our own exceptions: each is logged once and counted by stage, and the host sees none."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import re
import threading
import traceback
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final, Self

from ragmonitor.runtime.printable import printable

if TYPE_CHECKING:
    _Adapter = logging.LoggerAdapter[logging.Logger]
else:
    _Adapter = logging.LoggerAdapter


class _Logger(_Adapter):
    """Logs, and passes on no exception that a handler of the application raises."""

    def log(self, level: int, msg: object, *args: object, **kwargs: Any) -> None:
        with contextlib.suppress(Exception):
            # Handlers may send the arguments as well as the line, and of a record of ours its
            # `repr`, which has texts in it that its `str` leaves out.
            args = tuple(
                each if isinstance(each, int | float) else printable(str(each), has_lines=True)
                for each in args
            )
            # One frame further out: the record names who logs, and not this method.
            super().log(level, msg, *args, **{"stacklevel": 2, **kwargs})


logger = _Logger(logging.getLogger("ragmonitor"), {})

errors: Counter[str] = Counter()
"""Errors so far in this process, by stage."""

_logged: set[Hashable] = set()
_MAX_LOGGED = 200
_MESSAGE = "ragmonitor: error in stage %s; the application is not affected\n%s"
_NO_DESCRIPTORS = (
    "ragmonitor: this process has no file descriptor left; answers wait, and are counted as "
    "unscored where they cannot: raise its limit (ulimit -n), or find what leaks"
)
_MAX_FRAMES = 50


class _Quoting:
    """Says how much of an error's message the log of this process may show."""

    withheld = False
    clean: Callable[[str], str] = str


_quoting = _Quoting()


def withhold_messages() -> None:
    """Log no message of anybody's exceptions from now on: they quote questions and answers.

    It holds for the whole process and is not taken back: several monitors may live in it, an error
    does not say whose it is, and so the strictest of them decides, after its end too.
    """
    _quoting.withheld = True


def clean_messages(clean: Callable[[str], str]) -> None:
    """Log messages of exceptions only as this function returns them, from now on.

    Args:
        clean: Takes secrets out of a text, on any thread. Where it raises, nothing is quoted.
    """
    _quoting.clean = clean


class shielded:  # noqa: N801 - reads as a statement: `with shielded("capture"):`
    """A context manager that swallows, logs and counts every fault of one stage; see `is_fault`.

    The first error of its kind (stage, type, line) is logged at WARNING with its traceback,
    further ones at DEBUG: a fault that repeats on every request must not flood the host's log.
    Instances hold no state of a call, so one may be shared and nested.
    """

    __slots__ = ("stage",)

    def __init__(self, stage: str) -> None:
        self.stage = stage

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> bool:
        if error is None or not is_fault(error):
            return False
        record_error(self.stage, error)
        return True


class contained(shielded):  # noqa: N801 - likewise
    """A `shielded` for threads of our own: it swallows every `BaseException` too.

    What is no `Exception` (a panic of an extension module, `SystemExit`) would end the thread, and
    all that it does. Only a task that was asked to end is let go.
    """

    __slots__ = ()

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> bool:
        if error is None or is_asked_to_end(error):
            return False
        with contextlib.suppress(BaseException):  # a handler of the application's may raise one
            record_error(self.stage, error)
        return True


def is_asked_to_end(error: BaseException) -> bool:
    """Return whether the error is the running task's cancellation, and was not raised by code."""
    if not isinstance(error, asyncio.CancelledError):
        return False
    try:
        task = asyncio.current_task()
    except RuntimeError:  # there is no loop
        return False
    return task is not None and task.cancelling() > 0


def is_fault(error: BaseException) -> bool:
    """Return whether an error means that code failed, and not that the process is to end.

    An extension module's panic (`pyo3_runtime.PanicException`) is a fault and no `Exception`.
    """
    return not isinstance(
        error, KeyboardInterrupt | SystemExit | GeneratorExit | asyncio.CancelledError
    )


def ends_the_task(error: BaseException) -> bool:
    """Return whether an error of anybody's code is the running task's own end, or Ctrl-C.

    Its `sys.exit()` is neither: what was called has failed, and whoever called it goes on.
    """
    # On another thread it is no Ctrl-C, but what the code raised.
    is_interrupt = isinstance(error, KeyboardInterrupt)
    return (
        is_asked_to_end(error)
        or isinstance(error, GeneratorExit)
        or (is_interrupt and threading.current_thread() is threading.main_thread())
    )


def record_error(stage: str, error: BaseException) -> None:
    """Count and log an error of ours, where a `with` block does not fit (hot callbacks).

    `withhold_messages` and `clean_messages` decide how much of its message the log shows; its type
    and its place are always shown.
    """
    errors[stage] += 1
    if isinstance(error, OSError) and error.errno in {errno.EMFILE, errno.ENFILE}:
        with contextlib.suppress(Exception):
            logger.log(_level(errno.EMFILE), _NO_DESCRIPTORS)
        return
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    level = _level((stage, type(error), trace.tb_lineno if trace is not None else 0))
    # A host's handler may raise, and nothing of ours may reach the host.
    with contextlib.suppress(Exception):
        if not logger.isEnabledFor(level):
            return
        logger.log(level, _MESSAGE, stage, _as_shown(error))


def record_problem(stage: str, problem: str, *, about: str = "") -> None:
    """Count and log in one line a problem outside of the code: a full disk, a limit reached.

    Args:
        stage: Where it is counted.
        problem: The problem, the loss and the remedy, without a text of the host's. It is
            logged at WARNING once, whatever numbers are in it, and then at DEBUG.
        about: Its subject; one problem of each subject is logged at WARNING.
    """
    errors[stage] += 1
    level = _level((stage, about or re.sub(r"\d+", "0", problem)))
    with contextlib.suppress(Exception):
        logger.log(level, "ragmonitor: %s", problem)


def record_outage(error: Exception) -> None:
    """Count (stage `stream`) and log in one line that the server of the stream fails.

    Each reason is logged at WARNING once, and then at DEBUG.
    """
    record_problem(
        "stream",
        f"{reason(error)}; answers wait meanwhile, and ragmonitor_stream_up is 0: see "
        "that the stream's server answers this process",
    )


def reason(error: BaseException) -> str:
    """Return an error's message in one line, as far as a log may show it, or else its type.

    Of the operating system's errors it is the system's own words with the path.
    """
    if isinstance(error, OSError) and error.strerror:
        path = "" if error.filename is None else f": {error.filename}"
        return f"{error.strerror}{path}"
    message = _message(error)
    return " ".join(message.split())[:300] if message else type(error).__name__


_silence: ContextVar[frozenset[str]] = ContextVar("ragmonitor_silence", default=frozenset())


class _NotOurs(logging.Filter):
    def filter(self, record: logging.LogRecord) -> bool:
        return record.name not in _silence.get()


_NOT_OURS: Final = _NotOurs()


@contextlib.contextmanager
def silenced(loggers: Iterable[str]) -> Iterator[None]:
    """Keep what libraries log of our calls from the host's log.

    A context variable says which calls are ours, and a filter on the loggers asks it. Levels,
    handlers and switches are the host's and stay so.

    Args:
        loggers: Names of loggers; of their children too, which a filter does not see.
    """
    names = frozenset(loggers)
    for name in names:
        logging.getLogger(name).addFilter(_NOT_OURS)  # once: a second time changes nothing
    token = _silence.set(names)
    try:
        yield
    finally:
        _silence.reset(token)


def _level(seen: Hashable) -> int:
    if seen in _logged or len(_logged) >= _MAX_LOGGED:
        return logging.DEBUG
    _logged.add(seen)
    return logging.WARNING


def _message(error: BaseException) -> str:
    """Return the quotable part of an error's message; empty: there is none."""
    try:
        if _quoting.withheld and getattr(error, "quotes_no_text", False) is not True:
            return ""
        return _quoting.clean(str(error))
    except Exception:  # noqa: BLE001 - messages are anybody's code
        return ""


def _as_shown(error: BaseException) -> str:
    """Return an error's traceback as the log may have it; no handler gets the error itself."""
    try:
        if not _quoting.withheld:
            text = "".join(traceback.format_exception(error))
            return printable(_quoting.clean(text), has_lines=True)
    except Exception:  # noqa: BLE001, S110 - messages and hooks are anybody's code
        pass
    # Its place and its type; of its causes nothing is said.
    name = f"{type(error).__module__}.{type(error).__qualname__}".removeprefix("builtins.")
    return (
        "".join(traceback.format_tb(error.__traceback__, -_MAX_FRAMES))
        + f"{name}: {_message(error)}".removesuffix(": ")
        + "\n(messages of errors are left out: they may quote what content or redaction withholds)"
    )
