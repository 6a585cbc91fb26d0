"""What topics of questions are about, beside the alarms that name them by their number."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from ragmonitor.cli.monitor_client import Page
from ragmonitor.errors import InputError
from ragmonitor.estimation.signals import slice_of

_TOPIC: Final = "topic="


def topic_of(signal: str) -> str:
    """Return the topic that a signal's slice names, by its number; empty: it names none."""
    name = slice_of(signal)
    return name.removeprefix(_TOPIC) if name.startswith(_TOPIC) else ""


def add_titles(alarms: Iterable[dict[str, Any]], page: Page) -> str:
    """Add to each alarm of a topic its `title`, as the page has it.

    Args:
        alarms: As /metrics.json serves them.
        page: Is asked only if an alarm names a topic; /metrics.json holds no texts.

    Returns:
        Why the page cannot be read; empty: it can, or need not be.
    """
    of_topics = [each for each in alarms if topic_of(each["signal"])]
    if not of_topics:
        return ""
    try:
        titles = page.json("state.json", "topics")["topics"]
    except InputError as error:
        return str(error)
    for each in of_topics:
        title = titles.get(topic_of(each["signal"]))
        if title:
            each["title"] = title
    return ""
