"""Chooses where the work behind the request path is done."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ragmonitor.pipeline.back_half.setup import UNIX, reason_to_stay, require_texts, wants_worker
from ragmonitor.pipeline.pipeline import Pipeline
from ragmonitor.redaction import Redactor
from ragmonitor.runtime.guard import logger
from ragmonitor.settings import Settings

if TYPE_CHECKING:
    from ragmonitor.pipeline.back_half.stream_sender import StreamSender
    from ragmonitor.pipeline.back_half.worker_sender import WorkerSender

    BackHalf = Pipeline | WorkerSender | StreamSender
    """What takes finished interactions, and scores and exports them, or has it done."""


def back_half_of(settings: Settings, *, redactor: Redactor, poll: Callable[[], object]) -> BackHalf:
    """Return what works behind the request path, as the settings say.

    Args:
        settings: The settings.
        redactor: What every text passes before a judge or an exporter sees it.
        poll: Called now and then; gives up abandoned runs.

    Raises:
        SettingsError: The settings cannot be carried out.
    """

    def sender() -> WorkerSender:
        from ragmonitor.pipeline.back_half.worker_sender import WorkerSender

        return WorkerSender(settings, redactor=redactor, poll=poll)

    url = settings.send_to
    if url is not None and not url.get_secret_value().startswith(UNIX):
        from ragmonitor.pipeline.back_half.stream_sender import StreamSender

        return StreamSender(settings, redactor=redactor, poll=poll)
    if url is not None:
        require_texts(settings)
        return sender()
    if wants_worker(settings):
        why = reason_to_stay(settings)
        if not why:
            return sender()
        logger.info("ragmonitor: answers are scored on a thread of this process: %s", why)
    return Pipeline(settings, redactor=redactor, poll=poll)
