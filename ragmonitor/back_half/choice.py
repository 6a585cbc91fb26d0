"""Chooses where the work behind the request path is done."""

from __future__ import annotations

from collections.abc import Callable

from ragmonitor.back_half.local import LocalBackHalf
from ragmonitor.back_half.seam import BackHalf
from ragmonitor.guard import logger
from ragmonitor.redaction import Redactor
from ragmonitor.settings import Settings


def back_half_of(settings: Settings, *, redactor: Redactor, poll: Callable[[], int]) -> BackHalf:
    """Return what works behind the request path, as the settings `stream` and `worker` say.

    Args:
        settings: The settings.
        redactor: What every text passes before a judge or an exporter sees it.
        poll: Called now and then; gives up abandoned runs and returns how many are open.

    Raises:
        SettingsError: The settings cannot be carried out.
    """
    if settings.stream.url is not None:
        from ragmonitor.back_half.stream_sender import StreamBackHalf

        return StreamBackHalf(settings, redactor=redactor, poll=poll)
    if settings.worker == "process":
        from ragmonitor.back_half.process import ProcessBackHalf
        from ragmonitor.back_half.setup import reason_to_stay

        why = reason_to_stay(settings)
        if not why:
            return ProcessBackHalf(settings, redactor=redactor, poll=poll)
        logger.info("ragmonitor: working on a thread of this process: %s", why)
    return LocalBackHalf(settings, redactor=redactor, poll=poll)
