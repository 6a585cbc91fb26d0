"""What every store does alike with its rows: slices are admitted once, one process evaluates."""

from __future__ import annotations

import json
from typing import Final

from ragmonitor.store.interface import (
    LEASE_S,
    MAX_SLICES,
    MAX_VALUES,
    Store,
    StoreUnavailableError,
)

ADMITTED: Final = ("shared", "admitted")
LEASE: Final = ("shared", "lease")
TRIES: Final = 200


class RowsOfStore(Store):
    """The methods of `Store` that need no more than rows, which change by compare-and-set."""

    def admit(self, dimension: str, value: str) -> frozenset[str]:
        for _ in range(TRIES):
            row = self.row(*ADMITTED)
            admitted: dict[str, list[str]] = json.loads(row or b"{}")
            known = admitted.setdefault(dimension, [])
            has_room = len(known) < MAX_VALUES and sum(map(len, admitted.values())) < MAX_SLICES
            if value in known or not has_room:
                return frozenset(known)
            known.append(value)
            if self.keep(*ADMITTED, json.dumps(admitted).encode(), expected=row):
                return frozenset(known)
        raise StoreUnavailableError("too many processes name slices at once")

    def lease(self, holder: str) -> bool:
        row, now_s = self.row(*LEASE), self.now()
        held_by, until_s = json.loads(row) if row is not None else ("", 0.0)
        # A clock that was put back frees it, too.
        is_held = now_s < until_s <= now_s + LEASE_S
        if is_held and (held_by != holder or until_s - now_s > LEASE_S / 2):
            return bool(held_by == holder)
        new = json.dumps([holder, now_s + LEASE_S]).encode()
        return self.keep(*LEASE, new, expected=row)
