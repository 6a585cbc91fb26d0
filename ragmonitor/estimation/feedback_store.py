"""Keeps what feedback is joined with: the newest answers by id, and what people said of them."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ragmonitor.feedback import Feedback, JoinedFeedback
from ragmonitor.guard import record_problem, record_unkept
from ragmonitor.records import SpanReference
from ragmonitor.state import StateFile

if TYPE_CHECKING:
    import sqlite3

    from ragmonitor.state.redis_rows import RedisRows

STATE_VERSION: Final = 1
MAX_ANSWERS: Final = 200_000
"""Newest answers that people may speak of later; about 150 bytes each."""
MAX_IN_MEMORY: Final = 20_000
"""Answers that are known where there is no state folder."""
MAX_FEEDBACK: Final = 50_000
"""Newest pieces of feedback of which the agreement is worked out."""
LOCK_WAIT_S: Final = 0.2
_SUBJECT: Final = "feedback"
_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS answers (
  id TEXT PRIMARY KEY, at_s REAL, reader TEXT, read INTEGER, judge TEXT, judged INTEGER,
  trace_id TEXT, span_id TEXT, sampled INTEGER, trace_state TEXT);
CREATE TABLE IF NOT EXISTS feedback (
  id TEXT, kind TEXT, at_s REAL, good INTEGER, reader TEXT, read INTEGER, judge TEXT,
  judged INTEGER, PRIMARY KEY (id, kind));
"""


class KnownAnswer(NamedTuple):
    """The row of an answer until people speak, in the order of the table's columns."""

    id: str
    at_s: float
    reader: str
    """Identity of the judge that scores every answer."""
    read: bool | None
    """It found the answer hallucinated; None: it did not say."""
    judge: str
    """Identity of the judge that scores a sample; empty: it did not score this one."""
    judged: bool | None
    trace_id: str
    """With the next three the root span; empty: no trace was emitted."""
    span_id: str
    sampled: bool
    trace_state: str


class Agreement(NamedTuple):
    """Answers of which both a judge and people said whether they are good."""

    both_good: int
    both_bad: int
    people_only: int
    """People found the answer bad and the judge did not."""
    judge_only: int
    """The judge found the answer bad and people did not."""

    @property
    def answers(self) -> int:
        """All of them."""
        return sum(self)


class FeedbackStore:
    """A SQLite database: in the state folder, where processes share it, or in memory.

    It is open only while a batch is exchanged, so that no fork copies it. What cannot be read is
    set aside; where the disk fails it goes on in memory.
    """

    def __init__(
        self,
        path: Path | None,
        *,
        max_answers: int = MAX_ANSWERS,
        shared: RedisRows | None = None,
    ) -> None:
        """Touch nothing yet.

        Args:
            path: Of the file; None: in memory.
            max_answers: The newest ones that are kept; in memory at most `MAX_IN_MEMORY`.
            shared: Where answers are found that other processes gave.
        """
        self._shared = shared
        self._path = path
        self._max_answers = max_answers
        self._memory: sqlite3.Connection | None = None

    def forget(self) -> None:
        """Drop what is in memory; for a forked child."""
        self._memory = None

    def exchange(
        self, answers: Sequence[KnownAnswer], feedback: Sequence[Feedback]
    ) -> list[JoinedFeedback] | None:
        """Keep answers, and return the feedback that is about a known one; None: not now.

        Of one answer and kind the newest feedback counts.
        """
        import sqlite3

        known = _storable_rows(answers)
        known += self._of_others(known, feedback)
        try:
            with self._open() as opened:
                marks = ",".join("?" * len(KnownAnswer._fields))
                opened.executemany(
                    f"INSERT OR REPLACE INTO answers VALUES ({marks})",  # noqa: S608
                    known,
                )
                joined = [found for each in feedback if (found := _joined(opened, each))]
                for table, most in (("answers", self._most), ("feedback", MAX_FEEDBACK)):
                    opened.execute(
                        f"DELETE FROM {table} WHERE rowid <="  # noqa: S608
                        f" (SELECT max(rowid) FROM {table}) - ?",
                        (most,),
                    )
                return joined
        except sqlite3.OperationalError as error:
            if "locked" not in str(error):
                self._leave_disk(OSError(str(error)))
        except sqlite3.DatabaseError as error:
            self._set_aside(error)
        except OSError as error:
            self._leave_disk(error)
        return None

    def _of_others(
        self, mine: Sequence[tuple[Any, ...]], feedback: Sequence[Feedback]
    ) -> list[tuple[Any, ...]]:
        """Tell other processes of this one's answers; return theirs that feedback is about."""
        if self._shared is None:
            return []
        asked = {_storable(each.interaction_id) for each in feedback} - {row[0] for row in mine}
        try:
            if mine:
                self._shared.keep({row[0]: row for row in mine})
            rows = self._shared.find([*asked]).values() if asked else ()
            return [tuple(KnownAnswer(*row)) for row in rows]
        except OSError as error:
            record_unkept(_SUBJECT, "Redis", error)
        except (ValueError, TypeError) as error:
            record_problem("estimate", f"an answer in `state` cannot be understood: {error}")
        return []

    def agreement(self, judge: str, *, since_s: float, sampled: bool) -> Agreement | None:
        """Return how people and a judge agree; None: it cannot be read now.

        Args:
            judge: The judge's identity: verdicts of other versions of it do not count.
            since_s: Feedback that is older does not count.
            sampled: It is the judge that scores a sample, and not the one of every answer.
        """
        import sqlite3

        name, verdict = ("judge", "judged") if sampled else ("reader", "read")
        # The newest feedback of an answer: beside a maximum, SQLite takes the maximum's own row.
        query = (
            f"SELECT good, {verdict}, count(*) FROM (SELECT max(at_s), good, {verdict}"  # noqa: S608
            f" FROM feedback WHERE good IS NOT NULL AND {verdict} IS NOT NULL AND {name} = ?"
            f" AND at_s >= ? GROUP BY id) GROUP BY good, {verdict}"
        )
        try:
            with self._open() as opened:
                cells = {
                    (bool(g), bool(v)): n for g, v, n in opened.execute(query, (judge, since_s))
                }
        except (sqlite3.Error, OSError):  # the next exchange says so
            return None
        return Agreement(
            both_good=cells.get((True, False), 0),
            both_bad=cells.get((False, True), 0),
            people_only=cells.get((False, False), 0),
            judge_only=cells.get((True, True), 0),
        )

    @property
    def _most(self) -> int:
        return self._max_answers if self._path else min(self._max_answers, MAX_IN_MEMORY)

    @contextlib.contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        """Open it for one transaction. Raises `sqlite3.Error`, `OSError`."""
        import sqlite3

        if self._path is None:
            if self._memory is None:
                self._memory = sqlite3.connect(":memory:", check_same_thread=False)
                self._memory.executescript(_SCHEMA)
            with self._memory as opened:
                yield opened
            return
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if self._path.is_symlink():
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(self._path))
        # Only a new file is opened here: to close a second descriptor of one that is open would
        # drop the locks that SQLite holds on it elsewhere in this process.
        with contextlib.suppress(FileExistsError):
            os.close(os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
        with contextlib.closing(sqlite3.connect(self._path, timeout=LOCK_WAIT_S)) as opened:
            # A process that dies leaves the file whole; one that a power cut tears begins anew.
            opened.execute("PRAGMA synchronous = OFF")
            opened.executescript(_SCHEMA)
            with opened:
                yield opened

    def _set_aside(self, error: Exception) -> None:
        if self._path is None:
            self._memory = None
            record_problem("estimate", f"feedback begins anew: {error}")
        else:
            StateFile(self._path, version=STATE_VERSION).set_aside(str(error))

    def _leave_disk(self, error: OSError) -> None:
        record_unkept(_SUBJECT, "memory" if self._path is None else str(self._path.parent), error)
        self._path = None


def _storable(value: Any) -> Any:
    """Return the value; in a text, what UTF-8 has no bytes for is replaced, as on the wire."""
    if isinstance(value, str) and not value.isascii():
        return value.encode("utf-8", "replace").decode()
    return value


def _storable_rows(answers: Sequence[KnownAnswer]) -> list[tuple[Any, ...]]:
    texts = [each for answer in answers for each in answer if isinstance(each, str)]
    try:
        "".join(texts).encode()
    except UnicodeEncodeError:
        return [tuple(map(_storable, answer)) for answer in answers]
    return [*answers]


def _joined(opened: sqlite3.Connection, feedback: Feedback) -> JoinedFeedback | None:
    """Join feedback with its answer, and keep it; None: there is no such answer."""
    found = opened.execute(
        "SELECT * FROM answers WHERE id = ?", (_storable(feedback.interaction_id),)
    ).fetchone()
    if found is None:
        return None
    answer = KnownAnswer(*found)
    opened.execute(
        "INSERT OR REPLACE INTO feedback VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        (
            *(answer.id, _storable(feedback.kind), feedback.at_s, feedback.is_good),
            *(answer.reader, answer.read, answer.judge, answer.judged),
        ),
    )
    target = None
    if answer.trace_id:
        target = SpanReference(
            trace_id=answer.trace_id,
            span_id=answer.span_id,
            sampled=bool(answer.sampled),
            trace_state=answer.trace_state,
        )
    return JoinedFeedback(feedback=feedback, answered_s=answer.at_s, target=target)
