"""Simulated answers as causes are worked out from: rows, of which the truth is known."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from ragmonitor.causes.answer_log import Row
from ragmonitor.causes.candidates import CandidateCause
from ragmonitor.causes.slice_search import SliceSearch

SIGNAL = "hallucination"
SINCE_S = 1_000_000.0
RATE = 0.04

Rates = Callable[[bool, Mapping[str, str]], float]
"""From whether it is since the rise, and the answer's values, to the chance that it is bad."""


def usual(since: bool, values: Mapping[str, str]) -> float:
    """Return 4 %, whatever the answer."""
    return RATE


@dataclass(frozen=True, kw_only=True)
class Traffic:
    """What is simulated: a route, a language, a tenant, and attributes that mean nothing."""

    seed: int = 0
    before: int = 3_000
    """Judged answers before the rise, at inclusion probability 1."""
    now: int = 400
    rates: Rates = usual
    billing: tuple[float, float] = (0.1, 0.1)
    """The share of the route `billing`, before and since."""
    noise: int = 4
    """Attributes of eight values each."""
    probability: float = 1.0
    """Inclusion probability of every answer."""
    in_sessions_of: int = 1
    extra: Mapping[str, Callable[[bool], str]] = field(default_factory=dict)
    """More attributes, by whether it is since the rise."""

    def rows(self) -> Iterator[Row]:
        """Return the answers in order of time; as many judged ones as were asked for, about."""
        rng = random.Random(self.seed)
        answers = round((self.before + self.now) / self.probability)
        first_now = round(self.before / self.probability)
        for number in range(answers):
            since = number >= first_now
            values = self._values(rng, since)
            if number % self.in_sessions_of == 0:
                cluster, luck = rng.getrandbits(32), rng.random()
            if self.in_sessions_of == 1:
                luck = rng.random()
            bad = luck < self.rates(since, values)
            judged = rng.random() < self.probability
            yield Row(
                at_s=SINCE_S + 20.0 * (number - first_now) * self.probability,
                cluster=cluster,
                in_session=self.in_sessions_of > 1,
                slices=tuple(values.items()),
                latency_s=rng.expovariate(1),
                score=rng.random(),
                weight=1 / self.probability,
                importance=1.0,
                copies=1.0,
                expected=(1.0, RATE),
                signals=(SIGNAL,) if judged else (),
                values=(float(bad),) if judged else (),
            )

    def _values(self, rng: random.Random, since: bool) -> dict[str, str]:
        is_billing = rng.random() < self.billing[since]
        return {
            "language": rng.choice(("en", "zh")),
            "route": "billing" if is_billing else rng.choice(("faq", "legal", "sales")),
            **{f"noise_{at}": str(int(8 * rng.random() ** 2)) for at in range(self.noise)},
            **{name: value(since) for name, value in self.extra.items()},
        }

    def search(self) -> SliceSearch:
        """Return a look at the answers."""
        return SliceSearch(self.rows(), SIGNAL, SINCE_S, is_flipped=False, max_weight=1.0)

    def discoveries(self) -> list[str]:
        """Return the names of the slices that are discovered, strongest first."""
        return [each.name for each in self.slices() if each.is_discovery]

    def slices(self) -> list[CandidateCause]:
        """Return the slices that are named, strongest first; empty where nothing rose."""
        search = self.search()
        return list(search.slices(())) if search.is_possible else []


def only(**wanted: str) -> Callable[[float], Rates]:
    """Return rates that go up since the rise, for the answers that have all these values."""

    def to(rate: float) -> Rates:
        def rates(since: bool, values: Mapping[str, str]) -> float:
            is_hit = since and all(values[name] == value for name, value in wanted.items())
            return rate if is_hit else RATE

        return rates

    return to
