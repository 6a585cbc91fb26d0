"""Asks the judge's model within a budget, and never pays for the same question twice.

Each reply is kept in a file beside the output as soon as it is there. The key is what was asked,
so that a run that was interrupted goes on where it stood.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from ragmonitor.capabilities import CapableJudge
from ragmonitor.errors import InputError, RagMonitorError, SettingsError, file_errors
from ragmonitor.export.content import encodable
from ragmonitor.export.jsonl import owners_alone
from ragmonitor.goldens.golden_prompts import Task, prompts_version
from ragmonitor.offline.reply_file import ReplyFile
from ragmonitor.protocols import Asker
from ragmonitor.records import Assessment, Interaction, JudgeUsage
from ragmonitor.sampling import RunBudget, TotalBudget, spent_in

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

SUFFIX: Final = ".replies"


class BudgetSpentError(RagMonitorError):
    """The next call might cost more than is left."""


class StoppedError(RagMonitorError):
    """No further call is made: the run is to end."""


@contextmanager
def alone(path: Path) -> Iterator[None]:
    """Keep a file of replies to one run: two would each spend the budget of all.

    Raises:
        InputError: The file cannot be written, or another run has it.
    """
    with file_errors(path):
        file = open(path, "ab", opener=owners_alone)  # noqa: SIM115 - closed below
    with file:
        try:
            if fcntl is not None:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InputError(
                f"{path}: another run with this output is under way; wait for its end, or choose "
                "another output"
            ) from None
        except OSError:  # a file system without locks
            pass
        try:
            yield
        finally:
            if not os.fstat(file.fileno()).st_size:
                path.unlink(missing_ok=True)


class PaidModel:
    """The judge's model, asked about chunks and questions."""

    def __init__(
        self,
        judge: CapableJudge,
        budget: TotalBudget | None,
        replies: ReplyFile,
        *,
        concurrency: int = 4,
    ) -> None:
        """Take what earlier runs have spent out of the budget.

        Args:
            judge: Its `asker` is asked; it counts in the budget's unit.
            budget: For all runs together that share the file of replies; None: the judge is free.
            replies: What was paid for already.
            concurrency: Calls in flight.
        """
        self._judge = judge
        self._run_budget = RunBudget(budget)
        self._replies = replies
        self._slots = asyncio.Semaphore(concurrency)
        self.paid_calls = 0
        """The number of calls of this run."""
        self.stopping = asyncio.Event()
        """Once it is set nothing further is asked; what is under way is waited for."""
        if budget is not None and not budget.reserve(spent_in(budget.unit, replies.usage)):
            self._run_budget.is_spent = True

    @property
    def name(self) -> str:
        """The judge's name, and the version of what it is asked."""
        return f"{self._judge.identity.name}@{prompts_version()}"

    @property
    def usage(self) -> JudgeUsage:
        """The cost of all runs together."""
        return self._replies.usage

    async def ask(self, task: Task, shown: Interaction) -> Mapping[str, Any]:
        """Return the fields of the reply, from the file or from the model.

        Raises:
            BudgetSpentError: It might cost more than is left; nothing was asked.
            InputError: The file of replies cannot be written.
            JudgeError: There is no usable reply.
            SettingsError: The judge cannot be asked.
            StoppedError: The run is to end; nothing was asked.
        """
        asker = self._judge.asker(shown, _nothing_read(self._judge, shown))
        if asker is None:
            raise SettingsError(
                f"judge {self._judge.identity.name} cannot be asked; questions are made by a "
                "language model, such as --judge openai/gpt-4o-mini"
            )
        key = _key(asker, task, shown)
        kept: Mapping[str, Any] | None = self._replies.get(key)
        if kept is not None:
            return kept
        async with self._slots:
            if self.stopping.is_set():
                raise StoppedError("interrupted")
            cost = self._judge.expected_cost(shown)
            if not await self._run_budget.reserve(cost):
                raise BudgetSpentError("the budget is spent")
            return await self._call(asker, task, key, cost)

    async def _call(
        self, asker: Asker, task: Task, key: str, reserved: float
    ) -> Mapping[str, object]:
        reply: Mapping[str, object] | None = None
        self.paid_calls += 1
        try:
            said = await asker.ask(task.instructions, fields=task.fields, shown=task.shown)
            # No file holds half of a character, and what was paid for is to be kept.
            reply = json.loads(encodable(json.dumps(said, ensure_ascii=False)))
            return reply
        finally:
            usage = asker.usage
            self._run_budget.refund(reserved, usage)
            if usage.calls:
                self._keep(key, reply, usage)

    def _keep(self, key: str, reply: Mapping[str, object] | None, usage: JudgeUsage) -> None:
        try:
            self._replies.add(key, reply, usage)
        except OSError as error:
            raise InputError(
                f"{self._replies.path}: {error.strerror or error}; a reply was paid for and cannot "
                "be kept, so that no further one is asked for"
            ) from error


def _nothing_read(judge: CapableJudge, shown: Interaction) -> Assessment:
    """Return an assessment of an answer that nobody gave: the asker takes its language."""
    return Assessment(
        judge=judge.identity,
        language="zh" if shown.name == "zh" else "en",
        sentences=(),
        answer_relevancy=None,
        evasive=None,
        chunk_relevance=None,
    )


def _key(asker: Asker, task: Task, shown: Interaction) -> str:
    texts = [
        str(asker.identity),
        task.instructions,
        dict(task.fields),
        task.shown,
        shown.query,
        shown.answer,
        shown.reference,
        [chunk.text for chunk in shown.chunks],
    ]
    return hashlib.blake2b(json.dumps(texts).encode(), digest_size=16).hexdigest()
