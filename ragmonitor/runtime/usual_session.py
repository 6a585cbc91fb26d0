"""Finds a session id that tells no conversations apart, since most answers have it."""

from __future__ import annotations

from typing import Final

from ragmonitor.runtime.guard import logger

MOST_OF_TRAFFIC: Final = 0.5
AN_HOUR_S: Final = 3_600.0
LOOK_EACH: Final = 100
"""Answers, in an hour or more, after which it is asked whether one session has most of them."""


class UsualSession:
    """Whether one session id is on most answers: a constant, or a test that never ends.

    An application that gives every answer the same id would have one update an hour, and nobody
    would know. Such an id is said once, and its answers are taken for answers without a session,
    each for one, until it is on less than half of them.

    Source:
        Boyer & Moore (1991), "MJRTY: a fast majority vote algorithm": one counter finds the only
        id that can have more than half.
    """

    __slots__ = (
        *("_answers", "_began_s", "_candidate", "_hits", "_last", "_lead", "_what", "_will_be"),
        "constant",
    )

    def __init__(self, what: str, will_be: str) -> None:
        """Know of no session.

        Args:
            what: The answers that are told of, in the plural, for the log.
            will_be: What those with such an id are done with, for the log.
        """
        self._what = what
        self._will_be = will_be
        self.constant = ""
        """The id; empty: there is none."""
        self._last = ("", 0.0)
        self._begin(0.0)

    def _begin(self, at_s: float) -> None:
        self._answers = self._hits = self._lead = 0
        self._candidate = ""
        self._began_s = at_s

    def see(self, session: str, at_s: float) -> None:
        """Take in one answer's session; several values of one answer count once."""
        if (session, at_s) == self._last:
            return
        self._last = session, at_s
        if not self._answers:
            self._began_s = at_s
        self._answers += 1
        if self._lead == 0:
            self._candidate, self._hits = session, 0
        if session == self._candidate:
            self._lead += 1
            self._hits += 1
        else:
            self._lead -= 1
        if self._answers >= LOOK_EACH and abs(at_s - self._began_s) >= AN_HOUR_S:
            self._look()
            self._begin(at_s)

    def _look(self) -> None:
        # At least: what came before it was the candidate is not counted.
        share = self._hits / max(1, self._answers)  # another thread may just have begun anew
        found = self._candidate if share > MOST_OF_TRAFFIC else ""
        if found and found != self.constant:
            logger.warning(
                "ragmonitor: one session id is on %.0f %% of the %s; they are %s. Is it a "
                "constant? Give session_id only where it tells conversations apart",
                100 * share,
                self._what,
                self._will_be,
            )
        self.constant = found
