"""Prices an answer: its model calls' tokens, at given prices or those of litellm's table."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, NamedTuple

from ragmonitor.records import Interaction
from ragmonitor.runtime.errors import SettingsError
from ragmonitor.runtime.guard import record_problem

_TABLE: Final = "model_prices_and_context_window_backup.json"
_MILLION: Final = 1_000_000
MAX_ENTRY_BYTES: Final = 65_536
"""The size of one model's entry in the table."""


class Price(NamedTuple):
    """The price of a model's tokens, in US dollars per token."""

    input_usd: float
    output_usd: float

    def of(self, input_tokens: float, output_tokens: float) -> float:
        """Return the cost in US dollars."""
        return input_tokens * self.input_usd + output_tokens * self.output_usd


class Prices:
    """Knows the prices of models: those that were given, else those of litellm's own table."""

    def __init__(self, given: Sequence[str] = ()) -> None:
        """Take the prices that the settings give.

        Args:
            given: `model=input/output`, in US dollars per million tokens.

        Raises:
            SettingsError: One is written otherwise.
        """
        self._given: dict[str, Price] = {}
        for text in given:
            model, _, prices = text.rpartition("=")
            try:
                into, out = (float(each) / _MILLION for each in prices.split("/"))
            except ValueError:
                into = out = -1.0
            if not model or not (0 <= into < 1 and 0 <= out < 1):
                raise SettingsError(
                    f"estimation.prices: {text!r} is no price; write model=input/output in US "
                    "dollars per million tokens, such as my-model=0.5/1.5"
                )
            self._given[model] = Price(into, out)

    def cost_usd(self, interaction: Interaction) -> float | None:
        """Return what the answer's model calls cost, in US dollars.

        None where it is not known: no call, one without its tokens, or a model without a price.
        """
        total = None
        for each in interaction.generations:
            usage, price = each.usage, self._found(each.model, each.provider)
            if price is None or usage.input_tokens is None or usage.output_tokens is None:
                return None
            total = (total or 0.0) + price.of(usage.input_tokens, usage.output_tokens)
        return total

    def given(self, model: str) -> Price | None:
        """Return the price that the settings give a model; None: they give none."""
        return self._given.get(model)

    def _found(self, model: str, provider: str) -> Price | None:
        if not model:
            return None
        names = (model, f"{provider}/{model}")
        own = next((self._given[name] for name in names if name in self._given), None)
        return own or litellm_price(model) or litellm_price(names[1])


def litellm_price(model: str) -> Price | None:
    """Return the price of a model in litellm's table; None: it is not there, or lacks a price."""
    entry = litellm_entry(model)
    into, out = entry.get("input_cost_per_token"), entry.get("output_cost_per_token")
    if isinstance(into, int | float) and isinstance(out, int | float):
        return Price(float(into), float(out))
    return None


@lru_cache(maxsize=1_000)
def litellm_entry(model: str) -> Mapping[str, Any]:
    """Return what an installed litellm's table says of a model; empty: it is not there.

    A model stands there under its name, or under the part behind its provider. litellm is not
    imported, which would take seconds, and the model's entry alone is parsed: all of the table
    (3 MB) would hold the other threads for 15 ms.
    """
    spec = find_spec("litellm")
    places = () if spec is None else spec.submodule_search_locations or ()
    for place in places:
        try:
            table = (Path(place) / _TABLE).read_bytes()
            return _read(table, model) or _read(table, model.partition("/")[2])
        except (OSError, ValueError) as error:
            record_problem("prices", f"litellm's table of prices cannot be read: {error!r}")
    return {}


def _read(table: bytes, model: str) -> Mapping[str, Any]:
    begins = f"{json.dumps(model)}: {{".encode()
    at = table.find(begins)
    if at < 0:
        return {}
    text = table[at + len(begins) - 1 :][:MAX_ENTRY_BYTES].decode("utf-8", "replace")
    entry: Mapping[str, Any] = json.JSONDecoder().raw_decode(text)[0]
    return entry
