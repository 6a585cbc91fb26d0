"""Options of monitors, put together as the settings do it."""

from collections.abc import Mapping
from typing import Any

from ragmonitor import settings


def merged(*sources: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of all sources; of a group, what a later one sets wins, name by name."""
    values: dict[str, Any] = {}
    for source in sources:
        for (*groups, name), value in settings._by_path(source).items():
            place = values.setdefault(groups[0], {}) if groups else values
            place[name] = value
    return values
