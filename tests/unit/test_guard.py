"""Where our own exceptions stop."""

import logging

import pytest

from ragmonitor import guard


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


def test_what_is_no_error_passes():
    """Interrupts and exits are the host's."""
    with pytest.raises(KeyboardInterrupt), guard.shielded("testing"):
        raise KeyboardInterrupt
