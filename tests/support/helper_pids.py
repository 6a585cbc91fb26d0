"""Which process works for a monitor."""

from typing import Any


def helper_pid(owner: Any) -> int | None:
    """Return the process id of the helper of a back half; None: there is none."""
    helper = owner._helper
    return None if helper is None else helper.pid
