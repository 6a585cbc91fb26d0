"""Captured = scored + unscored, by construction: what is taken owes a report of each judge.

Whoever takes an interaction opens an `Account` for it and closes it, whatever happens in between.
What was not reported by then is counted as unscored, with the cause of the closing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal

from ragmonitor.evaluators import Table, unscored
from ragmonitor.records import Cause, Interaction, JudgeRole, Report, Status
from ragmonitor.runtime.guard import contained
from ragmonitor.runtime.protocols import Finished, Judge
from ragmonitor.runtime.queues import Notes

if TYPE_CHECKING:
    from ragmonitor.export.prometheus import PrometheusExporter

ROLES: Final[tuple[JudgeRole, ...]] = ("builtin", "sampled")
"""The roles that report on every interaction."""


def is_probe(finished: Finished) -> bool:
    """Return whether it is known, before it is built, that a golden question is answered."""
    return getattr(finished, "is_probe", False) is True


class LedgerNotes:
    """Notes of what was not taken, and of what was decided of answers, from any thread.

    They take no lock: this is the request path, or a finaliser that runs while its own thread holds
    a lock of the counters. Others count them, now and then and before each scrape.
    """

    def __init__(self) -> None:
        self._given_up: Notes[str] = Notes()
        self._refused: Notes[tuple[str, Status, Cause]] = Notes()
        self._checks: Notes[tuple[str, str]] = Notes()
        self._all: tuple[Notes[Any], ...] = self._given_up, self._refused, self._checks

    def refuse(self, finished: Finished, cause: Cause) -> None:
        """Note an interaction that is not taken; the answer to a golden question is no traffic."""
        let_go: Callable[[], None] | None = getattr(finished, "release", None)
        if let_go is not None:
            let_go()  # of its runs, which a cycle may hold
        if is_probe(finished):
            self.give_up("probe")
        else:
            self.note_refused(finished.framework, finished.status, cause)

    def note_refused(self, framework: str, status: Status, cause: Cause) -> None:
        """Note an interaction that is not taken."""
        self._refused.note((framework, status, cause))

    def give_up(self, reason: str, n: int = 1) -> None:
        """Note runs that were given up."""
        self._given_up.note(reason, n)

    def note_check(self, of: str, outcome: str) -> None:
        """Note what was decided of answers, or of sentences, before they were seen."""
        self._checks.note((of, outcome))

    def take(self) -> tuple[dict[Any, int], ...]:
        """Return what was noted since the last time, as `take_over` takes it."""
        return tuple(dict(notes.take()) for notes in self._all)

    def take_over(self, *noted: Mapping[Any, int]) -> None:
        """Note what another process, or another stage of this one, has noted."""
        for notes, counted in zip(self._all, noted, strict=True):
            for each, n in counted.items():
                notes.note(each, n)

    def clear(self) -> None:
        """Forget everything; for a forked child, whose parent keeps what it took."""
        for notes in self._all:
            notes.clear()


class Ledger(LedgerNotes):
    """The accounts of one worker, and the notes of what it was not given."""

    def __init__(
        self, meters: PrometheusExporter, entries: Table, judges: Callable[[], Sequence[Judge]]
    ) -> None:
        """Owe nothing yet.

        Args:
            meters: Where everything is counted.
            entries: The evaluators.
            judges: Who reports on every interaction, in the order of `ROLES`.
        """
        super().__init__()
        self._meters = meters
        self._entries = entries
        self._judges = judges
        self._open: dict[int, Account] = {}

    def clear(self) -> None:
        """Forget everything; for a forked child, whose parent keeps what it took."""
        super().clear()
        self._open = {}

    def refuse(self, finished: Finished, cause: Cause) -> None:
        """Note an interaction that is not taken, and tell who sent it that nothing is owed."""
        super().refuse(finished, cause)
        closed: Callable[[], None] | None = getattr(finished, "closed", None)
        if closed is not None:
            closed()

    # --- counting -------------------------------------------------------------------------------

    def open(self, finished: Finished) -> Account:
        """Return the account of an interaction that was taken; to be closed."""
        account = Account(self, finished)
        self._open[id(account)] = account
        return account

    def close_all(self, cause: Cause) -> None:
        """Close what is open: who had it in hand is gone."""
        while self._open:
            try:
                _, account = self._open.popitem()
            except KeyError:  # another thread closed the last one
                return
            account.close(cause)

    def count_notes(self) -> None:
        """Count what was noted."""
        for reason, n in self._given_up.take().items():
            with contained("count"):
                self._meters.dropped(reason, n)
        for (of, outcome), n in self._checks.take().items():
            with contained("count"):
                self._meters.checked(of, outcome, n)
        for (framework, status, cause), n in self._refused.take().items():
            with contained("count"):
                self._meters.dropped(cause.value, n)
            self.captured(framework, status, n)
            for role in self.roles():
                self.unscored(role, cause, n)

    def roles(self) -> tuple[JudgeRole, ...]:
        """Return who reports on every interaction."""
        return ROLES[: len(self._judges())]

    def captured(self, framework: str, status: Status, n: int = 1) -> None:
        """Count interactions."""
        with contained("count"):
            self._meters.interaction(framework, status, n)

    def unscored(self, role: JudgeRole, cause: Cause, n: int = 1) -> None:
        """Count that a judge scored nothing."""
        with contained("count"):
            identity = self._judges()[ROLES.index(role)].identity
            self._meters.evaluations(unscored(self._entries, identity, cause), n)

    def forget(self, account: Account) -> None:
        """Have an account closed that owes nothing more."""
        self._open.pop(id(account), None)
        account.tell()


class Account:
    """The debts of one interaction. Each is paid once, from whatever thread."""

    __slots__ = ("_framework", "_is_closed", "_ledger", "_on_closed", "_owed", "_status")

    def __init__(self, ledger: Ledger, finished: Finished) -> None:
        self._ledger = ledger
        self._framework, self._status = finished.framework, finished.status
        self._is_closed = False
        self._on_closed: Callable[[], None] | None = getattr(finished, "closed", None)
        # Popping a key is atomic: of two threads that pay, one does.
        self._owed: dict[JudgeRole | Literal["capture"], None] = dict.fromkeys(
            () if is_probe(finished) else ("capture", *ledger.roles())
        )

    def captured(self, interaction: Interaction) -> bool:
        """Count it as what it turned out to be; return False if somebody closed the account."""
        if self._pays("capture"):
            self._ledger.captured(interaction.framework, interaction.status)
        return not self._is_closed

    def reported(self, report: Report) -> bool:
        """Return whether a report may be counted: once of each judge, and before the end."""
        return self._pays(report.role) if report.role in ROLES else not self._is_closed

    def tell(self) -> None:
        """Tell who sent the interaction that nothing more is owed; once."""
        on_closed, self._on_closed = self._on_closed, None
        if on_closed is not None:
            on_closed()

    def void(self) -> None:
        """Close it without a count: it was no interaction."""
        self._is_closed = True
        self._owed.clear()
        self._ledger.forget(self)

    def close(self, cause: Cause) -> bool:
        """Count what is still owed as unscored; return whether anything was."""
        self._is_closed = True
        self._ledger.forget(self)
        if self._pays("capture"):
            self._ledger.captured(self._framework, self._status)
        left = [role for role in ROLES if self._pays(role)]
        for role in left:
            self._ledger.unscored(role, cause)
        return bool(left)

    def _pays(self, debt: JudgeRole | Literal["capture"]) -> bool:
        return self._owed.pop(debt, self) is None
