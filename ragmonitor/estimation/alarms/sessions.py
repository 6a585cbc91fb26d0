"""The verdicts on each session, which update the evidence as one that grows.

Answers of a session fail together: counted each for one, five of them are five pieces of evidence,
and made 42 false alarms of one in simulations where all answers were judged. One verdict for each
session, on the other hand, throws nearly everything away where sessions are long. So within a
session updates add up and are not multiplied. Of a session whose verdicts x_1, x_2, ... have the
importance weights w_1, w_2, ..., part k of the mixture, with the update size b, has the factor

    V_n = 1 + b (w_1 (x_1 - m) + ... + w_n (x_n - m)),

and each further verdict multiplies evidence by V_n / V_(n-1). It takes verdicts as long as
b m (w_1 + ... + w_n) <= 0.9, so that V_n stays above 0: large updates stop after some verdicts,
small ones go on.

Why this is fair. Let sessions be independent of each other and each have a rate r of its own, by
whatever law, with E[r] <= m; given r its verdicts are independent. A verdict changes evidence by
b w (x - m) times what all else has come to, divided by what this session's factor was when the
capital came in, if no alarm has been raised before. By the mean over x that is (r - m) times a
figure that, seen as a function of the session's own earlier verdicts, only falls as they get worse:
the factor in the denominator rises with them, and an alarm comes the sooner. Figures that rise and
fall with independent verdicts in opposite directions are negatively correlated given r, and over r
too, since worse sessions have worse verdicts (Esary, Proschan & Walkup 1967, "Association of random
variables", Annals of Mathematical Statistics 38(5)). So the expected change is at most
E[r - m] times the figure's mean, and that is not above 0. The product over verdicts has no such
property: E[(1 + b (r - m))^2] exceeds 1 by b^2 Var(r). Nor has the running mean of a session, in
which an alarm may stop at the highest point that chance allows.

Sessions that were open when evidence begins anew have been looked at, and update no more. A session
is over after an hour without a verdict. One that goes on for more than four hours is taken for a
new one then: this bounds how long it says nothing, and it is a premise that such parts of one
session are independent.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from functools import cache
from typing import Any, Final

from pydantic import TypeAdapter

from ragmonitor.estimation.alarms.signal_monitor import Number
from ragmonitor.estimation.detector import SPENT, Block
from ragmonitor.usual_session import UsualSession

SESSION_S: Final = 3_600.0
"""A session is over after so long without a verdict."""
SESSION_MOST_S: Final = 14_400.0
"""One that goes on is taken for a new one after so long."""
MAX_SESSIONS: Final = 10_000
MAX_SHARED: Final = 512
"""Blocks, newest first, which processes that share a file tell each other of."""


@cache
def _entries() -> TypeAdapter[tuple[Number, Number, list[tuple[int, Number, Number]]]]:
    return TypeAdapter(tuple[Number, Number, list[tuple[int, Number, Number]]])


class Sessions:
    """Remembers the newest sessions."""

    def __init__(self) -> None:
        """Know of none."""
        self._sessions: OrderedDict[str, tuple[int, int, dict[int, Block]]] = OrderedDict()
        """The sessions by digest: the seconds of the first and the last verdict, and the block of
        each stream."""
        self._latest: tuple[str, float, dict[int, Block]] = ("", 0.0, {})
        """The session that was asked for last, when, and its blocks: an answer updates many
        streams."""
        self.usual = UsualSession("judged answers", "taken for answers without a session")

    def block(self, session: str, place: int, at_s: float) -> Block | None:
        """Return what a session has come to; None: it is taken for no session."""
        if not session or session == self.usual.constant:
            return None
        if (session, at_s) != self._latest[:2]:
            self._latest = session, at_s, self._blocks(session, at_s)
        blocks = self._latest[2]
        known = blocks.get(place)
        if known is None:
            known = blocks[place] = Block()
        return known

    def _blocks(self, session: str, at_s: float) -> dict[int, Block]:
        """Return what a session has come to, by stream, and note that it has a verdict now."""
        text = session.encode(errors="replace")
        digest = hashlib.blake2b(text, digest_size=6).hexdigest()
        first_s, last_s, blocks = self._sessions.get(digest, (int(at_s), int(at_s), {}))
        if abs(at_s - last_s) >= SESSION_S or abs(at_s - first_s) >= SESSION_MOST_S:
            first_s, last_s, blocks = int(at_s), int(at_s), {}
        self._sessions[digest] = first_s, max(last_s, int(at_s)), blocks
        self._sessions.move_to_end(digest)
        while len(self._sessions) > MAX_SESSIONS:
            self._sessions.popitem(last=False)
        return blocks

    def spend(self, place: int) -> None:
        """Let open sessions update a stream no more, whose evidence begins anew."""
        for _, _, blocks in self._sessions.values():
            if place in blocks:
                blocks[place] = Block(SPENT)

    def meet(self, told: Any) -> None:
        """Take over what sessions came to in other processes: whoever wrote last knew of all."""
        if not isinstance(told, dict):
            return
        self._latest = ("", 0.0, {})
        for digest, entry in told.items():
            try:
                first_s, last_s, blocks = _entries().validate_python((*entry[:2], entry[2:]))
            except (ValueError, TypeError):
                continue  # a session may then count anew, once
            known = {place: Block(*sums) for place, *sums in blocks}
            self._sessions[str(digest)] = int(first_s), int(last_s), known
            self._sessions.move_to_end(str(digest))

    def dump(self) -> dict[str, list[Any]]:
        """Return the newest ones, which `meet` takes over in other processes."""
        newest: list[tuple[str, list[Any]]] = []
        room = MAX_SHARED
        for digest, (first_s, last_s, blocks) in reversed(self._sessions.items()):
            room -= len(blocks)
            if room < 0:
                break
            sums = [[place, block.total_weight, block.weighted] for place, block in blocks.items()]
            newest.append((digest, [first_s, last_s, *sums]))
        return dict(reversed(newest))
