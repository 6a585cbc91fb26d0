"""The errors that this package raises on purpose."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from ragmonitor.records import Cause, JudgeUsage


class RagMonitorError(Exception):
    """Base of every error that this package raises on purpose."""

    quotes_no_text = False
    """Whether its messages can hold nothing that the content switch withholds from logs."""


class SettingsError(RagMonitorError):
    """A setting is missing, unknown or out of range; the message says which and what to do."""

    quotes_no_text = True


def nearest(name: str, known: Iterable[str], *, cutoff: float = 0.6) -> str:
    """Return the known name that a misspelt one is most like; empty: none is like it.

    Args:
        name: As it was written.
        known: The names that there are.
        cutoff: How similar the two are at least, 0 to 1, as `difflib` measures it.
    """
    return next(iter(difflib.get_close_matches(name, known, n=1, cutoff=cutoff)), "")


def did_you_mean(name: str, known: Iterable[str], *, spelt: str = "{}") -> str:
    """Return the end of a message that asks for the nearest known name; empty: none is near.

    Args:
        name: As it was written.
        known: The names that there are.
        spelt: How a name is written there, with `{}` in the name's place.
    """
    near = nearest(name, known)
    return f"; did you mean {spelt.format(near)}?" if near else ""


class MissingExtraError(RagMonitorError):
    """An optional part is not installed; the message names the command that installs it."""

    quotes_no_text = True

    def __init__(self, what: str, extra: str) -> None:
        super().__init__(what, extra)  # as they are: another process makes it again of these

    def __str__(self) -> str:
        what, extra = self.args
        return f"{what} is not installed; run: pip install 'ragmonitor[{extra}]'"


class InputError(RagMonitorError):
    """A file or a record cannot be read; the message says where and what was expected."""


@contextmanager
def file_errors(name: object) -> Iterator[None]:
    """Raise what the system says of a file, or of a port, as an `InputError` that names it."""
    try:
        yield
    except BrokenPipeError:  # of whoever reads what we print
        raise
    except OSError as error:
        raise InputError(f"{name}: {error.strerror or error}") from error


class FeedbackError(InputError):
    """A piece of people's feedback cannot be taken; the message says what it should be."""

    quotes_no_text = True


class WireError(InputError):
    """Bytes are no record that this release can read; the message says why."""


class StreamError(RagMonitorError):
    """A stream of records cannot be reached or used; the message names no credentials."""

    quotes_no_text = True


class NotScorableError(RagMonitorError):
    """Raised by an evaluator: this answer has no such score, and why."""

    def __init__(self, cause: Cause, detail: str = "") -> None:
        super().__init__(detail or cause.value)
        self.cause = cause
        self.detail = detail


class JudgeError(RagMonitorError):
    """A judge gave no usable reply."""

    def __init__(
        self,
        judge: str,
        problem: str,
        *,
        cause: Cause,
        retryable: bool = False,
        usage: JudgeUsage | None = None,
    ) -> None:
        """Describe one failed assessment.

        Args:
            judge: The judge's name.
            problem: What happened, in one line.
            cause: What the evaluations are counted under.
            retryable: Whether asking again may help.
            usage: What was spent all the same.
        """
        super().__init__(f"{judge}: {problem}")
        self.judge = judge
        self.problem = problem
        self.cause = cause
        self.retryable = retryable
        self.usage = usage or JudgeUsage()
