"""The seam between a monitor and what works behind the request path."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from prometheus_client import CollectorRegistry

from ragmonitor.feedback import Feedback
from ragmonitor.protocols import Finished
from ragmonitor.records import AlarmState, Cause, Report


class BackHalf(Protocol):
    """Takes finished interactions, scores and exports them. Methods may be called by any thread."""

    @property
    def registry(self) -> CollectorRegistry:
        """Every series, to be mounted in an application's own metrics endpoint."""
        ...

    @property
    def metrics_url(self) -> str | None:
        """The address at which /metrics is served; None if it is not."""
        ...

    @property
    def ui_url(self) -> str | None:
        """The address at which the page is served; None if it is not."""
        ...

    @property
    def alarms(self) -> Sequence[AlarmState]:
        """The state of each signal's evidence, as of a few seconds ago."""
        ...

    def put(self, finished: Finished) -> None:
        """Take an interaction, or count it as `queue_full`; never waits."""
        ...

    def wake(self) -> None:
        """Start to work, or go on."""
        ...

    def refuse(self, finished: Finished, cause: Cause) -> None:
        """Note an interaction that is not taken, so that nothing is missing from the sums."""
        ...

    def give_up(self, reason: str) -> None:
        """Note a run that was given up."""
        ...

    def note_check(self, of: str, outcome: str) -> None:
        """Note what was decided of an answer, or of a sentence, before it was seen."""
        ...

    def newest(self) -> Report | None:
        """Return the report on the newest answer that was scored; None: there was none."""
        ...

    def event(self, name: str, attributes: Mapping[str, str], at_s: float) -> None:
        """Take note of something that happened to the application, in seconds since the epoch."""
        ...

    def feedback(self, feedback: Feedback) -> bool:
        """Take what a person said of an answer; False: too much is waiting, and it is counted."""
        ...

    def refreeze(self) -> None:
        """Accept the judge as it judges now."""
        ...

    def destination(self) -> str:
        """Say where traces go, without secrets."""
        ...

    def flush(self, timeout_s: float) -> bool:
        """Wait until everything taken so far is judged and exported; return whether it is."""
        ...

    def close(self, timeout_s: float) -> bool:
        """Flush and stop; late interactions count as `shutdown`."""
        ...
