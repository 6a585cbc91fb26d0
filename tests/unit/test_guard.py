"""Where our own exceptions stop."""

import logging

from ragmonitor.runtime import guard


def test_an_error_is_swallowed_logged_once_and_counted(caplog):
    """The same fault on every request is one warning."""
    before = guard.errors["testing"]
    with caplog.at_level(logging.DEBUG, "ragmonitor"):
        for _ in range(3):
            with guard.shielded("testing"):
                raise LookupError("ours")
    assert guard.errors["testing"] == before + 3
    levels = [r.levelno for r in caplog.records]
    assert levels == [logging.WARNING, logging.DEBUG, logging.DEBUG]


def test_a_log_handler_that_raises_reaches_nobody():
    """The host's handlers are the host's, and so is the thread that we are called on."""

    class Broken(logging.Handler):
        def emit(self, record):
            raise OSError("no space left")

    handler = Broken()
    guard.logger.logger.addHandler(handler)
    try:
        with guard.shielded("testing"):
            raise LookupError("ours")
        guard.record_problem("testing", "the disk is full")
    finally:
        guard.logger.logger.removeHandler(handler)


def test_beyond_the_kinds_that_are_remembered_nothing_is_a_warning(caplog):
    """What cannot be remembered as logged would be logged at every request."""
    with caplog.at_level(logging.WARNING, "ragmonitor"):
        for number in range(500):
            guard.record_problem("testing", f"problem {'x' * number}")
    assert len(caplog.records) == guard._MAX_LOGGED


def test_a_problem_is_one_line_whatever_its_numbers(caplog):
    """A full disk is no fault in the code: no traceback, and not again for each report."""
    before = guard.errors["testing"]
    for number in range(3):
        guard.record_problem("testing", f"{number} verdicts too many")
    assert [r.getMessage() for r in caplog.records] == ["ragmonitor: 0 verdicts too many"]
    assert guard.errors["testing"] == before + 3


def test_a_message_that_cannot_be_made_or_cleaned_is_left_out(caplog):
    """`__str__` is anybody's code, and so is what a redaction does with the text."""

    class UnspeakableError(Exception):
        def __str__(self):
            raise RuntimeError

    def clean(_text):
        raise ValueError

    guard.clean_messages(clean)
    with guard.shielded("testing"):
        raise UnspeakableError
    assert "UnspeakableError" in caplog.text
    assert guard.reason(UnspeakableError()) == "UnspeakableError"


def test_what_others_wrote_commands_no_terminal_that_shows_the_log(caplog):
    """Neither a server's reply nor an error's message."""
    hostile = "a\x1b]0;owned\x07 \u202eb"
    with guard.shielded("terminal"):
        raise LookupError(hostile)
    guard.record_problem("terminal", f"the server says {hostile}")
    for record in caplog.records:
        text = logging.Formatter().format(record)
        assert not any(each in text for each in "\x1b\x07\u202e"), text
