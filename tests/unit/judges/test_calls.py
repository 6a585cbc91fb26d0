"""What the calls of one reading cost."""

import pytest

from ragmonitor.judges.calls import Calls
from ragmonitor.judges.provider import Completion, Price
from ragmonitor.records import JudgeUsage
from ragmonitor.testing import ManualClock


class Counting:
    """A model whose provider counts what it is told to."""

    price = Price(input_usd=1e-6, output_usd=10e-6)
    thinking_tokens = 0

    def __init__(self, usage):
        self._usage = usage

    async def complete(self, messages, *, max_tokens, within_s, strict=None):
        return Completion(
            text="word " * 70, model="m", form="text", is_cut=False, usage=self._usage
        )


@pytest.mark.parametrize(
    ("counted", "inputs", "outputs"),
    [
        (JudgeUsage(calls=1, input_tokens=900, output_tokens=60, cost_usd=0.5), 900, 60),
        (JudgeUsage(calls=1, input_tokens=900), 900, 100),
        (JudgeUsage(calls=1, output_tokens=60), 10, 60),
        (JudgeUsage(calls=1), 10, 100),
    ],
)
async def test_what_a_provider_does_not_count_is_estimated(counted, inputs, outputs):
    """Of input and output each by itself, in tokens and in dollars."""

    async def pause(_seconds):
        raise AssertionError

    calls = Calls(Counting(counted), within_s=10.0, clock=ManualClock(), pause=pause)
    await calls.ask([{"role": "user", "content": "word " * 7}], max_tokens=100)
    assert (calls.usage.input_tokens, calls.usage.output_tokens) == (inputs, outputs)
    expected = counted.cost_usd or Counting.price.of(inputs, outputs)
    assert calls.usage.cost_usd == pytest.approx(expected)
