"""Ctrl-C while a command of ours waits for the replies of a model."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence

from tests.support.waiting import until


def environment(**more: str) -> Mapping[str, str]:
    """Return the variables with which a process of its own imports what this one does."""
    return {**os.environ, **more, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}


def interrupted(
    command: Sequence[str],
    variables: Mapping[str, str],
    *,
    is_time: Callable[[], bool],
    replies: threading.Event,
) -> None:
    """Run a command, and interrupt it once; it waits for what is under way, and says so.

    Args:
        command: The command.
        variables: Its environment.
        is_time: Whether it has got so far that it is interrupted.
        replies: Set when it has been: the model holds its replies back until then.
    """
    with subprocess.Popen(command, env=variables, stderr=subprocess.PIPE, text=True) as running:
        assert running.stderr is not None
        until("it is far enough", is_time, within_s=60)
        running.send_signal(signal.SIGINT)
        assert "replies under way are waited for" in running.stderr.readline()
        replies.set()
        told = running.stderr.read()
        assert running.wait(60) == 130
    assert "goes on from here" in told
