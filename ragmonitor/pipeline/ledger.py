"""Captured = scored + unscored, by construction: what is taken owes a report of each judge.

Whoever takes an interaction opens an `Account` for it and closes it, whatever happens in between.
What was not reported by then is counted as unscored, with the cause of the closing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal

from ragmonitor.evaluators import Table, unscored
from ragmonitor.records import Cause, Interaction, JudgeIdentity, JudgeRole, Report, Status
from ragmonitor.runtime.guard import contained
from ragmonitor.runtime.protocols import Finished
from ragmonitor.runtime.queues import Notes

if TYPE_CHECKING:
    from ragmonitor.export.prometheus import PrometheusExporter

ROLES: Final[tuple[JudgeRole, ...]] = ("builtin", "sampled")
"""The roles that report on every interaction."""


def is_probe(finished: Finished) -> bool:
    """Return whether it is known, before it is built, that a golden question is answered."""
    return getattr(finished, "is_probe", False) is True


class Ledger:
    """The accounts of one pipeline, and the notes of what it was not given.

    Notes take no lock: they are made on the request path, or in a finaliser that runs while its own
    thread holds a lock of the counters. They are counted now and then, and before each scrape.
    """

    def __init__(
        self, meters: PrometheusExporter, entries: Table, judges: Sequence[JudgeIdentity]
    ) -> None:
        """Owe nothing yet.

        Args:
            meters: Where everything is counted.
            entries: The evaluators.
            judges: Who reports on every interaction, in the order of `ROLES`.
        """
        self._meters = meters
        self._entries = entries
        self._judges = dict(zip(ROLES, judges, strict=False))
        self._open: dict[int, Account] = {}
        self._notes: Notes[tuple[Any, ...]] = Notes()

    # --- notes ----------------------------------------------------------------------------------

    def refuse(self, finished: Finished, cause: Cause) -> None:
        """Note an interaction that is not taken; the answer to a golden question is no traffic.

        What is none, feedback for example, says in `lost_as` how it is counted.
        """
        # It lets go of its runs, which a cycle may hold, or tells who sent it.
        for name in ("release", "closed"):
            if (call := getattr(finished, name, None)) is not None:
                call()
        lost_as = "probe" if is_probe(finished) else getattr(finished, "lost_as", None)
        if lost_as is not None:
            self.give_up(lost_as)
        else:
            self._notes.note(("refused", finished.framework, finished.status, cause))

    def give_up(self, reason: str, n: int = 1) -> None:
        """Note runs that were given up."""
        self._notes.note(("dropped", reason), n)

    def note_check(self, of: str, outcome: str) -> None:
        """Note what was decided of answers, or of sentences, before they were seen."""
        self._notes.note(("check", of, outcome))

    def take(self) -> list[tuple[Sequence[Any], int]]:
        """Return what was noted since the last time, as `take_over` takes it."""
        return [*self._notes.take().items()]

    def take_over(self, noted: Iterable[tuple[Sequence[Any], int]]) -> None:
        """Note what another process has noted."""
        for key, n in noted:
            self._notes.note(tuple(key), n)

    def count_notes(self) -> None:
        """Count what was noted."""
        count: dict[str, Callable[..., None]] = {
            "dropped": self._meters.dropped,
            "check": self._meters.checked,
            "refused": self._count_refused,
        }
        for (kind, *labels), n in self._notes.take().items():
            with contained("count"):
                count[kind](*labels, n)

    def _count_refused(self, framework: str, status: Status, cause: str, n: int) -> None:
        self.captured(framework, status, n)
        for role in self._judges:
            self.unscored(role, Cause(cause), n)
        self._meters.dropped(str(cause), n)

    # --- accounts -------------------------------------------------------------------------------

    def open(self, finished: Finished) -> Account:
        """Return the account of an interaction that was taken; to be closed."""
        account = Account(self, finished, () if is_probe(finished) else ("capture", *self._judges))
        self._open[id(account)] = account
        return account

    def close_all(self, cause: Cause) -> None:
        """Close what is open: who had it in hand is gone."""
        for account in tuple(self._open.values()):
            account.close(cause)

    def captured(self, framework: str, status: Status, n: int = 1) -> None:
        """Count interactions."""
        with contained("count"):
            self._meters.interaction(framework, status, n)

    def unscored(self, role: JudgeRole, cause: Cause, n: int = 1) -> None:
        """Count that a judge scored nothing."""
        with contained("count"):
            self._meters.evaluations(unscored(self._entries, self._judges[role], cause), n)

    def forget(self, account: Account) -> None:
        """Have an account closed that owes nothing more."""
        self._open.pop(id(account), None)


class Account:
    """The debts of one interaction. Each is paid once, from whatever thread."""

    __slots__ = ("_framework", "_is_closed", "_ledger", "_on_closed", "_owed", "_status")

    def __init__(
        self, ledger: Ledger, finished: Finished, owed: Iterable[JudgeRole | Literal["capture"]]
    ) -> None:
        self._ledger = ledger
        self._framework, self._status = finished.framework, finished.status
        self._is_closed = False
        self._on_closed: Callable[[], None] | None = getattr(finished, "closed", None)
        # Popping a key is atomic: of two threads that pay, one does.
        self._owed = dict.fromkeys(owed)

    def captured(self, interaction: Interaction) -> bool:
        """Count it as what it turned out to be; return False if somebody closed the account."""
        if self._pays("capture"):
            self._ledger.captured(interaction.framework, interaction.status)
        return not self._is_closed

    def reported(self, report: Report) -> bool:
        """Return whether a report may be counted: once of each judge, and before the end."""
        return self._pays(report.role)

    def close(self, cause: Cause | None) -> None:
        """Count what is owed as unscored, unless it was no interaction (None); tell who sent it."""
        self._is_closed = True
        if cause is None:
            self._owed.clear()
        if self._pays("capture"):
            self._ledger.captured(self._framework, self._status)
        for role in ROLES:
            if self._pays(role) and cause is not None:
                self._ledger.unscored(role, cause)
        self._ledger.forget(self)
        on_closed, self._on_closed = self._on_closed, None
        if on_closed is not None:
            on_closed()

    def _pays(self, debt: JudgeRole | Literal["capture"]) -> bool:
        return self._owed.pop(debt, self) is None
