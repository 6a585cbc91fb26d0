"""Least numbers of judged answers for each value of an attribute: a route, a tenant."""

from __future__ import annotations

import math
from typing import Final

from ragmonitor.records import Interaction
from ragmonitor.sampling.arrivals import Arrivals

HALF_LIFE_S: Final = 600.0
"""The half-life of a value's arrivals. A rare route has too few in the two minutes that all traffic
is given: what is wanted is a number per hour, so that ten minutes are soon enough."""
FLOOR_PER_HOUR: Final = 9.0
"""Answers that are judged per hour, at least, for each value."""
MAX_SHARE: Final = 0.5
"""The share of what the budget bears, for all floors together."""
MAX_VALUES: Final = 100
"""Values beyond this number share one floor."""
IDLE_S: Final = 3_600.0
"""A value that was not seen for so long makes room for others."""
_TOTAL_AGE_S: Final = 1.0


class Floors:
    """Probabilities that give every value of an attribute so many judged answers per hour.

    `per_hour / (arrivals of the value per hour)`, 1 where fewer arrive. A value that was not seen
    before has all of its first answers judged until its rate is known: that is one or two.
    """

    def __init__(self, attribute: str, per_hour: float = FLOOR_PER_HOUR) -> None:
        """Begin without any value.

        Args:
            attribute: Of interactions; those without it have no floor.
            per_hour: Judged answers wanted for each value, above 0.
        """
        if not 0 < per_hour < math.inf:
            raise ValueError(f"a floor is above 0, not {per_hour}")
        self._attribute = attribute
        self._per_s = per_hour / 3_600.0
        self._values: dict[str, Arrivals] = {}
        self._others = Arrivals(HALF_LIFE_S)
        self._wanted_per_s = 0.0
        self._totalled_at = -math.inf

    def of(
        self, interaction: Interaction, now: float, *, bearable_per_s: float
    ) -> tuple[tuple[str, float], ...]:
        """Return the least probability, 0 to 1, in each slice of this answer that has a floor.

        It counts as an arrival from now on.

        Args:
            interaction: What was answered.
            now: In seconds of one clock.
            bearable_per_s: Readings per second that the budget bears; infinite without one.
        """
        value = interaction.attributes.get(self._attribute)
        if not value:
            return ()
        # A clock that was put back would keep the total for as long.
        if abs(now - self._totalled_at) >= _TOTAL_AGE_S:
            self._total(now)
        arrivals = self._values.get(value)
        if arrivals is None:
            if len(self._values) < MAX_VALUES:
                arrivals = self._values[value] = Arrivals(HALF_LIFE_S)
            else:
                arrivals = self._others
        most_per_s = MAX_SHARE * bearable_per_s
        share = most_per_s / self._wanted_per_s if self._wanted_per_s > most_per_s else 1.0
        # Without the present one: who counts an arrival at its own moment sees a rate too high.
        per_s = arrivals.per_s_since_first(now)
        arrivals.note(now)
        least = 1.0 if per_s <= self._per_s else self._per_s / per_s
        return ((f"{self._attribute}={value}", share * least),)

    def _total(self, now: float) -> None:
        """Add up what all values want, and let go of those that are gone."""
        self._totalled_at = now
        # Copies: draws of another thread may add a value meanwhile.
        for value, arrivals in tuple(self._values.items()):
            if now - arrivals.seen_at > IDLE_S:
                self._values.pop(value, None)
        self._wanted_per_s = sum(
            min(self._per_s, arrivals.per_s_since_first(now))
            for arrivals in (*self._values.values(), self._others)
        )
