"""Least numbers of judged answers for each value of an attribute: a route, a tenant."""

from __future__ import annotations

import math
from typing import Final

from ragmonitor.records import Interaction

PER_S: Final = 9.0 / 3_600.0
"""Answers per second that are judged at least, for each value: nine an hour."""
FADING_PER_S: Final = math.log(2) / 600.0
"""Of a value's arrivals. A rare one has too few in the two minutes that all traffic is given."""
MAX_SHARE: Final = 0.5
"""The share of what the budget bears, for all floors together."""
MAX_VALUES: Final = 100
"""Values beyond this number share one floor."""
IDLE_S: Final = 3_600.0
"""A value that was not seen for so long makes room for others."""
_REST: Final = ""


class Floors:
    """Probabilities by which each value of an attribute has its share of the judged answers.

    The share is nine an hour, or all where fewer arrive; at most an equal part of half of what the
    budget bears. A new value has its first answers judged until its rate is known: one or two.
    """

    def __init__(self, attribute: str) -> None:
        """Begin without any value; interactions without the attribute have no floor."""
        self._attribute = attribute
        self._values: dict[str, tuple[float, float, float]] = {}
        """When each was seen first and last, and its fading arrivals per second; last seen last."""

    def least(self, interaction: Interaction, now: float, *, bearable_per_s: float) -> float:
        """Return the least probability of this answer, 0 to 1; it has arrived from now on.

        Args:
            interaction: What was answered.
            now: In seconds of one clock.
            bearable_per_s: Readings per second that the budget bears; infinite without one.
        """
        value = interaction.attributes.get(self._attribute)
        if not value:
            return 0.0
        for name, (_, last_s, _) in [*self._values.items()]:
            if now - last_s <= IDLE_S:
                break
            self._values.pop(name, None)
        if value not in self._values and len(self._values) >= MAX_VALUES:
            value = _REST
        first_s, last_s, per_s = self._values.pop(value, (now, now, 0.0))
        # A clock that was put back lets nothing fade.
        per_s *= math.exp(-FADING_PER_S * max(0.0, now - last_s))
        self._values[value] = first_s, now, per_s + FADING_PER_S
        # Without the present one, which would make it too high; over the time since the first.
        seen = -math.expm1(-FADING_PER_S * max(0.0, now - first_s))
        part = MAX_SHARE * bearable_per_s / (PER_S * len(self._values))
        return min(1.0, part) * (PER_S * seen / per_s if per_s > PER_S * seen else 1.0)
