"""What an answer cost, and when that is not known."""

import pytest

from ragmonitor.records import Generation, Interaction, Usage
from ragmonitor.runtime.errors import SettingsError
from ragmonitor.runtime.prices import Prices, litellm_price


def interaction(*calls: tuple[str, int | None, int | None], provider: str = "") -> Interaction:
    """Return one whose answer took these calls: model, tokens in, tokens out."""
    generations = tuple(
        Generation(
            output="",
            started_ns=0,
            ended_ns=1,
            model=model,
            provider=provider,
            usage=Usage(input_tokens=into, output_tokens=out),
        )
        for model, into, out in calls
    )
    return Interaction(
        id="a",
        query="",
        chunks=(),
        answer="",
        framework="python",
        started_ns=0,
        ended_ns=1,
        generations=generations,
    )


def test_given_prices_are_per_million_tokens():
    """Two calls add up."""
    prices = Prices(["mine=0.5/1.5"])
    found = prices.cost_usd(interaction(("mine", 1_000, 200), ("mine", 1_000, 0)))
    assert found == pytest.approx((2_000 * 0.5 + 200 * 1.5) / 1e6)


def test_litellms_table_knows_the_others_and_a_given_price_comes_first():
    """By the model's name, or with its provider before it."""
    pytest.importorskip("litellm")
    into, out = litellm_price("gpt-4o-mini") or (0, 0)
    assert 0 < into < out
    asked = interaction(("gpt-4o-mini", 100, 10), provider="openai")
    assert Prices().cost_usd(asked) == pytest.approx(100 * into + 10 * out)
    assert Prices(["gpt-4o-mini=0/0"]).cost_usd(asked) == 0.0


@pytest.mark.parametrize(
    "calls", [(), (("mine", None, 5),), (("mine", 1, 1), ("unheard-of", 1, 1)), (("", 1, 1),)]
)
def test_what_is_not_known_is_no_zero(calls):
    """No call, no tokens, no price, no name."""
    assert Prices(["mine=1/1"]).cost_usd(interaction(*calls)) is None


@pytest.mark.parametrize("text", ["mine", "mine=1", "=1/2", "mine=a/b", "mine=-1/2", "mine=nan/1"])
def test_what_is_no_price(text):
    """It is said when the monitor is made."""
    with pytest.raises(SettingsError, match="is no price"):
        Prices([text])
