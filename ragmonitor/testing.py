"""Fakes that keep the protocols, and the contract that every integration keeps.

For tests of applications and of integrations; needs no test framework.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal

from opentelemetry import trace

from ragmonitor.monitor import Monitor
from ragmonitor.records import (
    Assessment,
    Chunk,
    Interaction,
    JudgeIdentity,
    Report,
    Status,
    Usage,
)
from ragmonitor.runtime.protocols import BudgetUnit, Exporter
from ragmonitor.settings import ExportSettings


class ManualClock:
    """A clock that a test advances."""

    def __init__(self, now_s: float = 0.0) -> None:
        self.now_s = now_s

    def __call__(self) -> float:
        """Return the time, in seconds."""
        return self.now_s

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self.now_s += seconds


class ScriptedJudge:
    """A judge that follows a script.

    The script maps an interaction to an `Assessment`; an exception it raises is the judge's own.
    It costs nothing, whatever a budget counts.
    """

    budget_unit: BudgetUnit | None = None

    def __init__(
        self, script: Callable[[Interaction], Assessment], *, name: str = "scripted"
    ) -> None:
        self.identity = JudgeIdentity(name=name, version="1", kind="CODE")
        self.asked: list[Interaction] = []
        self._script = script

    def expected_cost(self, interaction: Interaction) -> float:  # noqa: ARG002 - of the protocol
        """Return 0."""
        return 0.0

    async def assess(self, interaction: Interaction) -> Assessment:
        """Return what the script says."""
        self.asked.append(interaction)
        return self._script(interaction)


class ListExporter(Exporter):
    """Keeps every report, in the order they came."""

    def __init__(self) -> None:
        self.reports: list[Report] = []

    def export(self, report: Report) -> None:
        """Keep it."""
        self.reports.append(report)

    def interactions(self) -> Iterable[Interaction]:
        """Return each interaction once, in order."""
        return {r.interaction.id: r.interaction for r in self.reports}.values()


_USAGE = Usage(input_tokens=40, output_tokens=12)


@dataclass(frozen=True, slots=True, kw_only=True)
class Story:
    """One case of the contract: a question to an application of a real framework.

    The integration's test builds the framework's own application around a retriever that returns
    `chunks` and a model that returns `answer` and counts `usage`.
    """

    name: str
    query: str
    chunks: tuple[Chunk, ...]
    """The retriever's chunks, in order, with ids and scores."""
    pieces: tuple[str, ...]
    """The model's answer, piece by piece; streamed if `streamed`."""
    usage: Usage = _USAGE
    streamed: bool = False
    read: int | None = None
    """The stream is closed after so many pieces; None: read to its end."""
    fails: Literal["", "retriever", "model"] = ""
    """The part that raises `RuntimeError(story.failure)`; empty: none."""
    failure: str = "the index is gone"

    @property
    def answer(self) -> str:
        """The model's whole answer."""
        return "".join(self.pieces)

    @property
    def seen(self) -> str:
        """The part of the answer that the user sees."""
        return "" if self.fails else "".join(self.pieces[: self.read])

    @property
    def status(self) -> Status:
        """The status of the interaction."""
        if self.fails:
            return "error"
        return "ok" if self.read is None else "partial"

    def __str__(self) -> str:
        return self.name


_TOWER = (
    Chunk(id="tower-1", score=0.9, text="The Eiffel Tower was built from 1887 to 1889."),
    Chunk(id="tower-2", score=0.5, text="It is 330 metres tall and stands in Paris."),
)
_WALL = (
    Chunk(id="wall-1", score=0.8, text="长城全长约21196公里，是世界上最长的城墙。"),
    Chunk(id="wall-2", score=0.4, text="长城始建于春秋战国时期。"),
)
_ENGLISH = ("The tower ", "was built ", "from 1887 ", "to 1889.")
_CHINESE = ("长城", "全长约", "21196公里。")

STORIES: tuple[Story, ...] = (
    Story(name="english", query="When was it built?", chunks=_TOWER, pieces=_ENGLISH),
    Story(name="chinese", query="长城有多长？", chunks=_WALL, pieces=_CHINESE),
    Story(
        name="awkward texts",
        query='What does {"a": [1]} mean? <b>&amp;</b> \U0001f642',
        chunks=(Chunk(id="odd", score=0.1, text='Braces {a} and \\n and \U0001f642 & "quotes".'),),
        pieces=("It means ", '{"a": [1]} ', "\U0001f642."),
    ),
    Story(
        name="streamed", query="When was it built?", chunks=_TOWER, pieces=_ENGLISH, streamed=True
    ),
    Story(
        name="stream closed early",
        query="When was it built?",
        chunks=_TOWER,
        pieces=_ENGLISH,
        streamed=True,
        read=2,
    ),
    Story(
        name="retriever fails",
        query="When was it built?",
        chunks=(),
        pieces=_ENGLISH,
        fails="retriever",
    ),
    Story(
        name="model fails",
        query="When was it built?",
        chunks=_TOWER,
        pieces=_ENGLISH,
        fails="model",
        failure="the model is gone",
    ),
)
"""The cases of the contract. An integration without a retriever of its own leaves out the
retriever's failure."""


def check_story(story: Story, run: Callable[[Story, Monitor], None]) -> None:
    """Run a framework's application on a story and compare the captured interaction with it.

    Args:
        story: One of `STORIES`.
        run: Attaches the integration to the monitor, runs the framework's application on the
            story (reads and closes the stream as the story says; may let its error out), and
            detaches.

    Raises:
        AssertionError: The interaction differs from the story; the message names every difference.
    """
    exporter = ListExporter()
    began_ns = time.time_ns()
    context = trace.SpanContext(
        secrets.randbits(128) | 1, secrets.randbits(64) | 1, is_remote=False
    )
    with (
        Monitor(
            service="contract",
            exporters=[exporter],
            server=False,
            worker="thread",
            export=ExportSettings(traces=False),
        ) as monitor,
        trace.use_span(trace.NonRecordingSpan(context)),
    ):
        try:
            run(story, monitor)
        except RuntimeError as error:
            if not story.fails or story.failure not in str(error):
                raise
        left_open = monitor.open_runs
        monitor.flush()
    interactions = [*exporter.interactions()]
    if len(interactions) != 1:
        raise AssertionError(f"{story}: {len(interactions)} interactions instead of one")
    (record,) = interactions
    wrong = [
        f"{subject}: {was!r} instead of {expected!r}"
        for subject, was, expected in (
            ("query", record.query, story.query),
            ("chunks", *_chunks_of(record, story)),
            ("not shown", record.not_shown, ()),
            ("answer", record.answer, story.seen),
            ("status", record.status, story.status),
            ("error", record.error, f"RuntimeError: {story.failure}" if story.fails else ""),
            ("usage", record.usage, story.usage if story.status == "ok" else record.usage),
            ("retrievals", len(record.retrievals), 1),
            ("model calls", len(record.generations), 0 if story.fails == "retriever" else 1),
            ("prompt shows the chunks", _prompts_show(record), True),
            (
                "caller's trace",
                record.caller and record.caller.trace_id,
                f"{context.trace_id:032x}",
            ),
            ("caller's span", record.caller and record.caller.span_id, f"{context.span_id:016x}"),
            ("capture_incomplete", record.capture_incomplete, False),
            (
                "times in order",
                began_ns <= record.started_ns <= record.ended_ns <= time.time_ns(),
                True,
            ),
            ("first token in time", _has_first_token(record, story), story.streamed),
            ("runs left open", left_open, 0),
        )
        if was != expected
    ]
    if wrong:
        raise AssertionError(f"{story}: " + "; ".join(wrong))


def _has_first_token(interaction: Interaction, story: Story) -> bool:
    """Return whether the first token has a time; one of a stream closed early may have none."""
    if interaction.first_token_ns:
        return interaction.started_ns <= interaction.first_token_ns <= interaction.ended_ns
    return story.streamed and interaction.status != "ok"


def _chunks_of(interaction: Interaction, story: Story) -> tuple[list[object], list[object]]:
    def parts(chunks: Iterable[Chunk]) -> list[object]:
        return [(chunk.id, chunk.text, chunk.score) for chunk in chunks]

    return parts(interaction.chunks), parts(story.chunks)


def _prompts_show(interaction: Interaction) -> bool:
    return all(
        any(chunk.text in message.text for message in generation.input)
        for generation in interaction.generations
        for chunk in interaction.chunks
    )
