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
from ragmonitor.runtime.printable import encodable
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
            *whole, last = path.read_bytes().split(b"\n")
        for number, line in enumerate(whole, 1):
            if line.strip():
                try:
                    self._take(msgspec.json.decode(line, type=_Line))
                except msgspec.MsgspecError as error:
                    raise InputError(
                        f"{path}, line {number}: {error}; it keeps replies of earlier runs: move "
                        "it away to begin anew"
                    ) from error
        self._torn_bytes = len(last)

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

    def add(
        self, key: str, reply: Any, usage: JudgeUsage | None = None, *, question: str = ""
    ) -> None:
        """Keep what a call gave and cost. Raises `InputError`: the file cannot be written."""
        line = _Line(key=key, question=question, reply=reply, usage=usage or JudgeUsage())
        self._take(line)
        if self.path is None:
            return
        with (
            file_errors(self.path),
            open(self.path, "ab", buffering=0, opener=owners_alone) as file,
        ):
            if self._torn_bytes:
                file.truncate(file.tell() - self._torn_bytes)
            text = json.dumps(msgspec.to_builtins(line), ensure_ascii=False)
            file.write(encodable(text).encode() + b"\n")
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
        question = interaction.query
        try:
            assessment = await super().assess(interaction)
        except JudgeError as error:
            if error.usage.calls:
                self.replies.add(key, None, error.usage, question=question)
            raise
        reply = msgspec.to_builtins(assessment)
        # A provider that fails once does not leave the reference unread for ever.
        is_whole = assessment.reference_cause is None
        usage = assessment.usage
        self.replies.add(key, reply if is_whole else None, usage, question=question)
        return assessment

    def asker(self, interaction: Interaction, assessment: Assessment) -> KeepingAsker | None:
        """Return whom evaluators ask about one answer; None: the judge cannot be asked."""
        asker = super().asker(interaction, assessment)
        return None if asker is None else KeepingAsker(asker, interaction, self.replies)


class KeepingAsker:
    """An asker behind kept replies."""

    def __init__(self, asker: Asker, interaction: Interaction, replies: KeptReplies) -> None:
        self._asker = asker
        self._interaction = interaction
        self._replies = replies
        self.identity: JudgeIdentity = asker.identity
        self.sentence_counts = asker.sentence_counts

    @property
    def usage(self) -> JudgeUsage:
        """The cost of asking so far."""
        return self._asker.usage

    def kept(
        self, instructions: str, fields: Mapping[str, str], shown: Sequence[Section]
    ) -> Mapping[str, object] | None:
        """Return the kept reply to a question; None: there is none."""
        reply: Mapping[str, object] | None = self._replies.get(
            self._key(instructions, fields, shown)
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
        kept = self.kept(instructions, fields, shown)
        if kept is not None:
            return kept
        before, reply = self._asker.usage, None
        try:
            said = await self._asker.ask(instructions, fields=fields, shown=shown)
            reply = dict(said)
            return said
        finally:
            usage = _less(self._asker.usage, before)
            if usage.calls:
                self._replies.add(self._key(instructions, fields, shown), reply, usage)

    def _key(self, instructions: str, fields: Mapping[str, str], shown: Sequence[Section]) -> str:
        about = key_of(self._interaction, self.identity)
        return _digest(about, instructions, dict(fields), [*shown])


def _less(now: JudgeUsage, before: JudgeUsage) -> JudgeUsage:
    return JudgeUsage(
        calls=now.calls - before.calls,
        input_tokens=now.input_tokens - before.input_tokens,
        output_tokens=now.output_tokens - before.output_tokens,
        cost_usd=now.cost_usd - before.cost_usd,
    )


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
