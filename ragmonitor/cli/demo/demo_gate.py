"""The gate on the demo's two versions: the one of `ragmonitor rollout`, beside the traffic."""

from __future__ import annotations

import threading
from typing import Final

from ragmonitor.cli.demo.causes_of_spikes import VERSIONS
from ragmonitor.cli.demo.phases import DemoClock
from ragmonitor.cli.monitor_options import RolloutOptions
from ragmonitor.cli.rollout import RolloutDecision, decide

EVERY: Final = "1s"
AT_MOST: Final = "1h"
"""Of a demo without an end; else it waits until the demo is over."""
LOOK_S: Final = 0.1
JOIN_TIMEOUT_S: Final = 15.0


class VersionGate(threading.Thread):
    """Waits, from the spike on, until it is decided of the new version of the prompt."""

    def __init__(self, *, service: str, address: str, clock: DemoClock) -> None:
        """Prepare; `start` begins.

        Args:
            service: The demo's.
            address: Where its monitor serves /metrics.
            clock: Says when the spike begins, and with it the new version.
        """
        super().__init__(name="demo-gate", daemon=True)
        self._clock = clock
        self._options = RolloutOptions(
            service=service,
            by="prompt_version",
            candidate=VERSIONS[1],
            baseline=VERSIONS[0],
            address=address,
            every=EVERY,
            timeout=AT_MOST,
        )
        self._end = threading.Event()
        self.latest: RolloutDecision | None = None
        """Of the last look; None: there was none yet."""

    def run(self) -> None:
        """Decide."""
        while self._clock.phase == "before":
            if self._end.wait(LOOK_S):
                return
        self.latest = decide(self._options, undecided=self._look, wait=self._end.wait)

    def _look(self, now: RolloutDecision) -> None:
        self.latest = now

    def finish(self) -> None:
        """Let it look once more, if it has decided nothing yet, and wait for that."""
        self._end.set()
        if self.is_alive():
            self.join(JOIN_TIMEOUT_S)
