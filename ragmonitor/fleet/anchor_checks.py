"""Reference answers in a fleet: the estimator asks for readings, and a worker has them made.

A check is a `Report` of the role `anchor`. It goes to the workers without an assessment, on the
stream of records, and comes back with what the judge says, on that of settled answers.
"""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import Final

from ragmonitor.estimation import Statistics
from ragmonitor.guard import contained
from ragmonitor.judging import JudgeRunner
from ragmonitor.records import Interaction, JudgeIdentity, Report
from ragmonitor.wire import encode_report

ASKED_FOR_S: Final = 3_600.0
"""A reading is waited for so long at most; then the reference answer may be due again."""


class AnchorChecks:
    """Asks for readings of reference answers, a batch at a time, and takes each in once."""

    def __init__(
        self, estimates: Statistics, judge: JudgeIdentity, asked: MutableMapping[str, float]
    ) -> None:
        """Ask for nothing yet.

        Args:
            estimates: They know which reference answers are due.
            judge: The judge that is to read them.
            asked: What a predecessor has asked for: ids, and when, in seconds since the epoch of
                the server's clock. Changed as readings are asked for and come.
        """
        self._estimates = estimates
        self._judge = judge
        self._asked = asked

    def due(self, now_s: float) -> list[bytes]:
        """Return the checks that are to be put on the stream; none while others are under way."""
        for identity, asked_s in [*self._asked.items()]:
            if not 0 <= now_s - asked_s < ASKED_FOR_S:
                del self._asked[identity]
        if self._asked:
            return []
        due = self._estimates.due()
        checks = [encode_report(self._report(each), compressed=True) for each in due]
        self._asked.update(dict.fromkeys((each.id for each in due), now_s))
        return checks

    def _report(self, interaction: Interaction) -> Report:
        return Report(
            interaction=interaction,
            judge=self._judge,
            evaluations=(),
            assessment=None,
            role="anchor",
        )

    def take_in(self, report: Report) -> None:
        """Take in what came of a check; a reading that nobody waits for any more says nothing."""
        if self._asked.pop(report.interaction.id, None) is None:
            return
        with contained("estimate"):
            # Where the judge was not asked, the reference answer is due again.
            was_asked = report.usage is not None
            self._estimates.checked(report.interaction, report if was_asked else None)


async def read_again(runner: JudgeRunner | None, check: Report, anchor: Interaction) -> Report:
    """Return what the judge says now; the check as it came if it cannot be asked, or be paid.

    Args:
        runner: Asks the judges; None: there are none.
        check: What the estimator asks for.
        anchor: Its interaction, as the judge may see it.
    """
    if runner is None or runner.is_down:
        return check
    decision = runner.reserve(anchor)
    if decision is None:
        return check
    report = await runner.check_anchor(anchor, decision)
    return check if report is None else report
