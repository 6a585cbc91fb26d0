"""What topics of questions are about, beside the alarms that name them by their number."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from ragmonitor.addresses import shown
from ragmonitor.cli.monitor_client import Page
from ragmonitor.errors import RagMonitorError
from ragmonitor.estimation.signals import slice_of

_TOPIC: Final = "topic="


def topic_of(name: str) -> str:
    """Return the topic that a slice's name names, by its number; empty: it names none."""
    return name.removeprefix(_TOPIC) if name.startswith(_TOPIC) else ""


def add_titles(
    alarms: Mapping[str, Iterable[dict[str, Any]]], open_page: Callable[[], Page]
) -> str:
    """Add to each alarm of a topic its `title`, as the page has it.

    Args:
        alarms: By service, as /metrics.json serves them.
        open_page: Returns the page, which knows the topics of its own service; called only if an
            alarm names a topic. /metrics.json holds no texts.

    Returns:
        Why titles are missing; empty: none is, or none is needed.
    """
    of_topics = [
        (service, topic, alarm)
        for service, each in alarms.items()
        for alarm in each
        if (topic := topic_of(slice_of(alarm["signal"])))
    ]
    if not of_topics:
        return ""
    try:
        page = open_page()
        state = page.json("state.json", "topics", "service")
    except RagMonitorError as error:
        return str(error)
    for service, topic, alarm in of_topics:
        title = state["topics"].get(topic)
        if title and service == state["service"]:
            alarm["title"] = title
    if all(service == state["service"] for service, _, _ in of_topics):
        return ""
    return f"{shown(page.url)} is the page of {state['service']} alone"
