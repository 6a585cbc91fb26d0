"""Which sessions have bet on which streams within the hour."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from typing import Any

from ragmonitor.estimation.alarms.watches import number

SESSION_S = 3_600.0
SESSIONS_MOST = 10_000
SESSIONS_SHARED = 128
"""The newest, which processes that share a file tell each other of."""


class Sessions:
    """Remembers the newest sessions; one bets once an hour on each stream."""

    def __init__(self) -> None:
        """Know of none."""
        self._sessions: OrderedDict[str, list[int]] = OrderedDict()
        """By digest: the second of its first bet, and one bit for each stream it has bet on."""

    def has_bet(self, session: str, place: int, at_s: float) -> bool:
        """Return whether this session has bet on the signal within the hour; if not, it has now."""
        # Answers of one session fail together, so that five of them are not five pieces of
        # evidence. Counted each for one, where all answers are judged, they made 42 false alarms
        # of one in simulations. The first is as good as their mean, and need not wait for the end.
        digest = hashlib.blake2b(session.encode(errors="replace"), digest_size=6).hexdigest()
        bit = 1 << place
        entry = self._sessions.get(digest)
        if entry is not None and abs(at_s - entry[0]) < SESSION_S:
            before = entry[1]
            entry[1] = before | bit
            return bool(before & bit)
        self._sessions[digest] = [int(at_s), bit]
        self._sessions.move_to_end(digest)
        while len(self._sessions) > SESSIONS_MOST:
            self._sessions.popitem(last=False)
        return False

    def meet(self, told: Any) -> None:
        """Take over which sessions have bet in other processes."""
        if not isinstance(told, dict):
            return
        for digest, entry in told.items():
            try:
                at_s, bits = int(number(entry[0])), int(entry[1])
            except (TypeError, ValueError, IndexError):
                continue  # a session may then bet twice, once
            mine = self._sessions.get(digest)
            if mine is None or at_s - mine[0] >= SESSION_S:
                self._sessions[digest] = [at_s, bits]
                self._sessions.move_to_end(digest)
            else:
                mine[1] |= bits

    def dump(self) -> dict[str, list[int]]:
        """Return the newest ones, which `meet` takes over in other processes."""
        return dict(list(self._sessions.items())[-SESSIONS_SHARED:])
