"""Keeps what a judge replied, so that nothing is paid twice: an hour in memory, or in a file.

What a monitor's sampled judge, `ragmonitor score`, `ragmonitor goldens generate` and
pytest's recorded verdicts have in common: a judge in front of its own replies.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import msgspec

from ragmonitor.records import Assessment, Cause, Interaction, JudgeIdentity, JudgeUsage
from ragmonitor.runtime.capabilities import CapableJudge
from ragmonitor.runtime.errors import InputError, JudgeError, file_errors
from ragmonitor.runtime.protocols import Asker, Clock, Section
from ragmonitor.runtime.tables import owners_alone

SUFFIX: Final = ".replies"
"""Behind the name of an output: the file of the replies that were paid for it."""
AGE_S: Final = 3_600.0
SIZE: Final = 1_000
"""Replies in memory; the oldest leave."""


class _Line(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    key: str
    question: str = ""
    """For people who read a change of the file."""
    reply: Any = None
    """None: paid, and not readable."""
    usage: JudgeUsage = msgspec.field(default_factory=JudgeUsage)


class KeptReplies:
    """Replies by a key of what was asked.

    In a file each is one JSON object a line, appended with one write, so that parallel processes
    may share it.
    """

    def __init__(self, path: Path | None = None, *, clock: Clock = time.monotonic) -> None:
        """Read what earlier runs kept. A last line that was cut short is passed over.

        Args:
            path: A file; None: in memory, for an hour.
            clock: For the age of what is in memory.

        Raises:
            InputError: The file cannot be read, or is no such file.
        """
        self.path = path
        self.usage = JudgeUsage()
        """The usage of all runs together."""
        self._clock = clock
        self._replies: dict[str, tuple[float, Any]] = {}
        self._torn_bytes = 0
        if path is None or not path.exists():
            return
        with file_errors(path):
            whole, _, torn = path.read_bytes().rpartition(b"\n")
        try:
            for line in msgspec.json.Decoder(_Line).decode_lines(whole):
                self._take(line)
        except msgspec.MsgspecError as error:
            raise InputError(
                f"{path}: {error}; it keeps replies of earlier runs: move it away to begin anew"
            ) from error
        self._torn_bytes = len(torn)

    def _take(self, line: _Line) -> None:
        self.usage += line.usage
        if line.reply is not None:
            self._replies[line.key] = self._clock(), line.reply
        if self.path is None and len(self._replies) > SIZE:
            del self._replies[next(iter(self._replies))]

    def get(self, key: str) -> Any:
        """Return the reply; None: it was not asked, gave nothing, or is too old."""
        since, reply = self._replies.get(key, (0.0, None))
        return None if self.path is None and self._clock() - since > AGE_S else reply

    def add(self, key: str, reply: Any, usage: JudgeUsage, *, question: str = "") -> None:
        """Keep what a call gave and cost. Raises `InputError`: the file cannot be written."""
        line = _Line(key=key, question=question, reply=reply, usage=usage)
        self._take(line)
        if self.path is None:
            return
        # What a model may write and no file of JSON holds: halves of a character, and infinity.
        text = json.dumps(msgspec.to_builtins(line), ensure_ascii=False).encode("utf-8", "replace")
        path, opener = self.path, owners_alone
        with file_errors(path), open(path, "ab", buffering=0, opener=opener) as file:
            if self._torn_bytes:
                file.truncate(file.tell() - self._torn_bytes)
            file.write(msgspec.json.encode(json.loads(text)) + b"\n")
        self._torn_bytes = 0


def replies_of(output: Path) -> KeptReplies:
    """Return the replies that were paid for an output: `FILE.replies` beside it."""
    return KeptReplies(output.with_name(f"{output.name}{SUFFIX}"))


class KeepingJudge(CapableJudge):
    """A judge that is asked only for what is not kept; kept replies cost nothing.

    Duplicates that are read at the same time are each read.
    """

    def __init__(self, judge: CapableJudge, replies: KeptReplies, *, advice: str = "") -> None:
        """Put the replies before the judge.

        Args:
            judge: Asked for the rest.
            replies: Its own; those of others have other keys.
            advice: The judge is never asked: what is not kept raises `JudgeError`, with this
                advice. Empty: it is asked.
        """
        vars(self).update(vars(judge))  # the same judge, with every capability
        self.replies = replies
        self._advice = advice

    def within_budget(self, unit: Any) -> CapableJudge:
        """Return this judge with `expected_cost` in the unit of a budget."""
        return KeepingJudge(super().within_budget(unit), self.replies, advice=self._advice)

    async def assess(self, interaction: Interaction) -> Assessment:
        """Return what the judge found, now or before. Raises what the judge raises."""
        key = key_of(interaction, self.identity)
        kept = self.replies.get(key)
        if kept is not None:
            free = JudgeUsage(cache_hits=1)
            return replace(msgspec.convert(kept, Assessment), usage=free)
        if self._advice:
            problem = f"{self.replies.path} has no reply to this answer: {self._advice}"
            raise JudgeError(str(self.identity), problem, cause=Cause.JUDGE_ERROR)
        reply, usage = None, JudgeUsage()
        try:
            assessment = await super().assess(interaction)
            usage = assessment.usage
            # A provider that fails once does not leave the reference unread for ever.
            if assessment.reference_cause is None:
                reply = msgspec.to_builtins(assessment)
            return assessment
        except JudgeError as error:
            usage = error.usage
            raise
        finally:
            if reply or usage.calls:
                self.replies.add(key, reply, usage, question=interaction.query)

    def asker(self, interaction: Interaction, assessment: Assessment) -> KeepingAsker | None:
        """Return whom evaluators ask about one answer; None: the judge cannot be asked."""
        if (asker := super().asker(interaction, assessment)) is None:
            return None
        return KeepingAsker(asker, key_of(interaction, asker.identity), self.replies)


class KeepingAsker:
    """An asker behind kept replies."""

    def __init__(self, asker: Asker, about: str, replies: KeptReplies) -> None:
        """Put the replies before the asker; `about` is the key of the answer that it reads."""
        self._asker, self._about, self._replies = asker, about, replies
        self.identity: JudgeIdentity = asker.identity

    @property
    def sentence_counts(self) -> Sequence[int]:
        """The number of sentences of each chunk."""
        return self._asker.sentence_counts

    @property
    def usage(self) -> JudgeUsage:
        """The cost of asking so far."""
        return self._asker.usage

    def kept(
        self, instructions: str, fields: Mapping[str, str], shown: Sequence[Section]
    ) -> Mapping[str, object] | None:
        """Return the kept reply to a question; None: there is none."""
        reply: Mapping[str, object] | None = self._replies.get(
            _digest(self._about, instructions, dict(fields), [*shown])
        )
        return reply

    async def ask(
        self,
        instructions: str,
        *,
        fields: Mapping[str, str],
        shown: Sequence[Section] = ("chunks", "question", "answer"),
    ) -> Mapping[str, object]:
        """Return the fields of the judge's reply, kept or from the judge."""
        reply = self.kept(instructions, fields, shown)
        if reply is not None:
            return reply
        before = self._asker.usage
        try:
            reply = dict(await self._asker.ask(instructions, fields=fields, shown=shown))
            return reply
        finally:
            usage = self._asker.usage - before
            if usage.calls:
                key = _digest(self._about, instructions, dict(fields), [*shown])
                self._replies.add(key, reply, usage)


def key_of(interaction: Interaction, judge: JudgeIdentity) -> str:
    """Return a text that is equal for equal prompts to a judge.

    Args:
        interaction: Its question, chunks' texts, answer, reference and day count.
        judge: Its version counts too: another version reads anew.
    """
    return _digest(
        str(judge),
        interaction.started_ns // (86_400 * 10**9),
        interaction.query,
        interaction.answer,
        interaction.reference,
        [chunk.text for chunk in interaction.chunks],
    )


def _digest(*what: Any) -> str:
    return hashlib.blake2b(json.dumps(what).encode(), digest_size=16).hexdigest()
