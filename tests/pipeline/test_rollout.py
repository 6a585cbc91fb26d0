"""A rollout over two real monitors, a stable version's and a canary's."""

from __future__ import annotations

from pathlib import Path

import pytest

from ragmonitor import Chunk, Interaction, Monitor, ServerSettings
from ragmonitor.cli import rollout
from ragmonitor.cli.options import RolloutOptions
from ragmonitor.records import Generation, Usage
from ragmonitor.settings import EstimationSettings

ANSWERS = 120


def watch(version: str, state: Path) -> Monitor:
    return Monitor(
        "support",
        service_version=version,
        state=state,
        server=ServerSettings(enabled=True, port=0),
        estimation=EstimationSettings(prices=("mine=1000/0",)),
    )


def give(monitor: Monitor, *, bad_each: int, tokens: int) -> None:
    """Hand over answers, of which one in `bad_each` is invented."""
    for n in range(ANSWERS):
        weight = 90 if n % bad_each == 0 else 40
        generation = Generation(
            output="",
            started_ns=1,
            ended_ns=2,
            model="mine",
            usage=Usage(input_tokens=tokens, output_tokens=1),
        )
        monitor.observe(
            Interaction(
                id=f"{monitor.settings.service_version}-{n}",
                query="How heavy may a parcel be?",
                chunks=(Chunk(text="A parcel may weigh 40 kg."),),
                answer=f"A parcel may weigh {weight} kg.",
                framework="python",
                started_ns=10**18,
                ended_ns=10**18 + 10**9,
                generations=(generation,),
            )
        )
    assert monitor.flush()


@pytest.mark.slow
def test_a_canary_that_invents_more_is_worse(tmp_path: Path) -> None:
    """Any process of the two versions is asked: they share a state."""
    state = tmp_path / "state"
    with watch("1.4", state) as stable, watch("1.5", state) as canary:
        give(stable, bad_each=40, tokens=100)
        give(canary, bad_each=2, tokens=300)
        options = RolloutOptions(
            service="support",
            candidate="1.5",
            baseline="1.4",
            address=str(canary.metrics_url),
            timeout="2m",
        )
        assert rollout.run(options) == rollout.EXIT["worse"]
