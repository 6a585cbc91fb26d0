"""The gate on the demo's two versions: the one of `ragmonitor gate`, beside the traffic."""

from __future__ import annotations

import threading
from typing import Final

from ragmonitor.cli.demo.causes_of_spikes import VERSIONS
from ragmonitor.cli.gate import GateDecision, decide
from ragmonitor.cli.options import GateOptions

EVERY: Final = "1s"
AT_MOST: Final = "1h"
"""Of a demo without an end; else it waits until the demo is over."""
JOIN_TIMEOUT_S: Final = 15.0


class VersionGate(threading.Thread):
    """Waits, from the spike on, until it is decided of the new version of the prompt."""

    def __init__(self, *, service: str, address: str, after_s: float) -> None:
        """Prepare; `start` begins.

        Args:
            service: The demo's.
            address: Where its monitor serves /metrics.
            after_s: When the new version comes, from the start on.
        """
        super().__init__(name="demo-gate", daemon=True)
        self._after_s = after_s
        self._options = GateOptions(
            service=service,
            by="prompt_version",
            candidate=VERSIONS[1],
            baseline=VERSIONS[0],
            address=[address],
            every=EVERY,
            timeout=AT_MOST,
        )
        self._end = threading.Event()
        self.latest: GateDecision | None = None
        """Of the last look; None: there was none yet."""

    def run(self) -> None:
        """Decide."""
        if self._end.wait(self._after_s):
            return
        self.latest = decide(self._options, undecided=self._look, wait=self._end.wait)

    def _look(self, now: GateDecision) -> None:
        self.latest = now

    def finish(self) -> None:
        """Let it look once more, if it has decided nothing yet, and wait for that."""
        self._end.set()
        if self.is_alive():
            self.join(JOIN_TIMEOUT_S)
