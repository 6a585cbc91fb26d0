"""Captured = scored + unscored, by construction: what is taken owes a report of each judge.

Whoever takes an interaction opens an `Account` for it and closes it, whatever happens in between.
What was not reported by then is counted as unscored, with the cause of the closing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

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
        self._meters, self._entries = meters, entries
        self._judges = dict(zip(ROLES, judges, strict=False))
        self._open: dict[int, Account] = {}
        self._notes: Notes[tuple[Any, ...]] = Notes()
        self._count: dict[str, Callable[..., None]] = {
            "dropped": meters.dropped,
            "check": meters.checked,
            "captured": meters.interaction,
            "refused": self._count_refused,
            "unscored": self._count_unscored,
        }

    # --- notes ----------------------------------------------------------------------------------

    def note(self, kind: str, *labels: str, n: int = 1) -> None:
        """Note what is to be counted: of `_count`, with its labels."""
        self._notes.note((kind, *labels), n)

    def give_up(self, reason: str) -> None:
        """Note a run that was given up."""
        self.note("dropped", reason)

    def take(self) -> list[tuple[Sequence[Any], int]]:
        """Return what was noted since the last time, as `take_over` takes it."""
        return [*self._notes.take().items()]

    def take_over(self, noted: Iterable[tuple[Sequence[Any], int]]) -> None:
        """Note what another process has noted."""
        for key, n in noted:
            self._notes.note(tuple(key), n)

    def count_notes(self) -> None:
        """Count what was noted."""
        for (kind, *labels), n in self._notes.take().items():
            with contained("count"):
                self._count[kind](*labels, n)

    def _count_refused(self, framework: str, status: Status, cause: str, n: int) -> None:
        self._meters.interaction(framework, status, n)
        for role in self._judges:
            self._count_unscored(role, cause, n)
        self._meters.dropped(cause, n)

    def _count_unscored(self, role: JudgeRole, cause: str, n: int) -> None:
        self._meters.evaluations(unscored(self._entries, self._judges[role], Cause(cause)), n)

    # --- accounts -------------------------------------------------------------------------------

    def refuse(self, finished: Finished, cause: Cause) -> None:
        """Note an interaction that is not taken."""
        # It lets go of its runs, which a cycle may hold.
        if (release := getattr(finished, "release", None)) is not None:
            release()
        self.open(finished).close(cause)

    def open(self, finished: Finished) -> Account:
        """Return the account of something that was taken; to be closed."""
        account = Account(self, finished, self._judges)
        self._open[id(account)] = account
        return account

    def close_all(self, cause: Cause) -> None:
        """Close what is open: who had it in hand is gone."""
        for account in tuple(self._open.values()):
            account.close(cause)

    def has_open(self, account: Account) -> bool:
        """Return whether nobody has closed an account."""
        return id(account) in self._open

    def forget(self, account: Account) -> bool:
        """Have an account closed; return whether this is the first time."""
        return self._open.pop(id(account), None) is not None


class Account:
    """The debts of one interaction. Each is paid once, from whatever thread.

    The answer to a golden question is no traffic, and owes nothing; nor does what is no
    interaction, which says in `lost_as` how it is counted when it is lost.
    """

    __slots__ = ("_ledger", "_lost_as", "_named", "_on_closed", "_owed")

    def __init__(self, ledger: Ledger, finished: Finished, judges: Iterable[JudgeRole]) -> None:
        self._ledger = ledger
        self._named = finished.framework, finished.status
        self._on_closed: Callable[[], object] | None = getattr(finished, "closed", None)
        lost_as = getattr(finished, "lost_as", None)
        self._lost_as: str | None = "probe" if is_probe(finished) else lost_as
        # Popping a key is atomic: of two threads that pay, one does.
        self._owed = dict.fromkeys(() if self._lost_as else ("capture", *judges))

    def captured(self, interaction: Interaction | Finished) -> bool:
        """Count it as what it turned out to be; return False if somebody closed the account."""
        if self._pays("capture"):
            self._ledger.note("captured", interaction.framework, interaction.status)
        return self._ledger.has_open(self)

    def reported(self, report: Report) -> bool:
        """Return whether a report may be counted: once of each judge, and before the end."""
        return self._pays(report.role)

    def close(self, cause: Cause | None) -> None:
        """Count what is owed as unscored, the first time; tell who sent it.

        Args:
            cause: Why; None: nothing is owed here, as it is no interaction or another's to count.
        """
        if not self._ledger.forget(self):
            return
        if cause is not None:
            if self._lost_as is not None:
                self._ledger.give_up(self._lost_as)
            if self._pays("capture"):  # whoever counts it knows of whom reports are owed
                self._ledger.note("refused", *self._named, cause)
                self._owed.clear()
            for role in ROLES:
                if self._pays(role):
                    self._ledger.note("unscored", role, cause)
        self._owed.clear()
        if self._on_closed is not None:
            self._on_closed()

    def _pays(self, debt: str) -> bool:
        return self._owed.pop(debt, self) is None
