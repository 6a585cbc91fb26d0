"""Makes statistics of settings: what is estimated of answers, and the alarms that rest on it."""

from __future__ import annotations

import fnmatch
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from ragmonitor.causes import Causes
from ragmonitor.causes.answer_slices import AnswerSlices
from ragmonitor.evaluators import table
from ragmonitor.export.content import PROCESS_KEY, ContentPolicy
from ragmonitor.pipeline.judging import JudgeConfig
from ragmonitor.runtime.errors import SettingsError, did_you_mean
from ragmonitor.runtime.protocols import Judge
from ragmonitor.settings import Settings
from ragmonitor.stats.feedback import PeoplesFeedback
from ragmonitor.stats.goldens import GoldenQuestions, golden_streams
from ragmonitor.stats.parts import Part
from ragmonitor.stats.references import ReferenceAnswers
from ragmonitor.stats.retrieval_drift import RetrievalDrift
from ragmonitor.stats.service import Statistics, Watching
from ragmonitor.stats.signals import (
    FROM_ASSESSMENT,
    HALLUCINATION,
    MINOR_HALLUCINATION,
    REFUSAL,
)
from ragmonitor.stats.streams import Stream, streams
from ragmonitor.store import DAY_S, Memory, Store, open_store

REFERENCE_ANSWERS_PER_DAY: Final = 20
"""Old answers that the judge reads again each day."""


def store_of(settings: Settings) -> Store:
    """Return where sums and histories are kept; its first call opens it, on the pipeline's thread.

    Raises:
        SettingsError: The address cannot be understood.
        MissingExtraError: `redis` is not installed.
    """
    place = settings.state
    if place is None or isinstance(place, Path):
        return open_store(place, settings.service)
    return open_store(place.get_secret_value(), settings.service)


def estimates_of(
    settings: Settings, reader: Judge, judging: JudgeConfig | None, store: Store | None = None
) -> Statistics:
    """Return what is estimated of the answers, and the alarms that rest on it.

    Args:
        settings: The settings.
        reader: The judge of every answer.
        judging: The judges of a share of them.
        store: Where sums and histories are; None: in memory.

    Raises:
        SettingsError: A signal of the settings is none.
    """
    store = Memory() if store is None else store
    judge = None if judging is None else judging.judge.identity.name
    name = reader.identity.name
    higher_is_better = _higher_is_better(settings)
    watching = _watching(settings, name, judge, higher_is_better)
    # A new statistic is one more part: of every answer here, of a judge's verdicts below.
    parts: list[Part] = [
        RetrievalDrift(store),
        _causes(settings, store, watching, higher_is_better),
        PeoplesFeedback(store),
    ]
    return Statistics(
        parts,
        store=store,
        watching=watching,
        references=None
        if judge is None
        else ReferenceAnswers(
            store,
            judge=judge,
            per_day=REFERENCE_ANSWERS_PER_DAY,
            keeps_texts=settings.content.policy == "all",
        ),
        goldens=GoldenQuestions(
            judge=judge or name,
            shows_texts=settings.content.policy == "all",
            store=store,
        ),
    )


def _watching(
    settings: Settings, reader: str, judge: str | None, higher_is_better: frozenset[str]
) -> Watching:
    """Return what has an alarm."""
    return Watching(
        streams=(*_streams(settings, reader, judge), *golden_streams(judge or reader)),
        reader=reader,
        judge=judge,
        every_days=settings.alarms.false_alarm_every_days,
        higher_is_better=higher_is_better,
        versions={entry.name: entry.version for entry in table.select(settings.evaluators)},
        slices_of=AnswerSlices(
            version=settings.service_version,
            shown=settings.estimation.group_by,
        ),
        shown=settings.estimation.group_by,
        versions_by=settings.estimation.compare_by,
    )


def _causes(
    settings: Settings, store: Store, watching: Watching, higher_is_better: frozenset[str]
) -> Causes:
    """Return what finds the causes of alarms."""
    judge = watching.quality_judge
    names = {HALLUCINATION, REFUSAL, *(entry.name for entry in table.select(settings.evaluators))}
    return Causes(
        store,
        signals={watching.series(name, judge): name for name in names - {MINOR_HALLUCINATION}},
        service_version=settings.service_version,
        compare_by=settings.estimation.compare_by,
        policy=_content(settings),
        judge=judge,
        higher_is_better=higher_is_better.__contains__,
        threshold_s=settings.alarms.false_alarm_every_days * DAY_S,
    )


def _content(settings: Settings) -> ContentPolicy:
    """Return what documents may be called."""
    return ContentPolicy(content=settings.content.shown, key=settings.content.key or PROCESS_KEY)


def _higher_is_better(settings: Settings) -> frozenset[str]:
    """Return the signals that are the better the higher they are, as most scores are."""
    entries = table.select(settings.evaluators)
    return frozenset(entry.name for entry in entries if not entry.lower_is_better) - {
        *FROM_ASSESSMENT
    }


def _streams(settings: Settings, builtin: str, judge: str | None) -> Sequence[Stream]:
    """Return what may raise an alarm.

    Raises:
        SettingsError: `alarms.signals` or `objectives` names what is no signal, or an objective has
            no judge that can hold it.
    """
    entries = table.select(settings.evaluators)

    def chosen(judge: str | None, patterns: Sequence[str]) -> Sequence[Stream]:
        return streams(
            evaluators=[entry.name for entry in entries],
            lower_is_better=[entry.name for entry in entries if entry.lower_is_better],
            builtin=builtin,
            judge=judge,
            patterns=patterns,
            objectives=settings.objectives,
            versions={entry.name: entry.version for entry in entries},
        )

    if settings.judge.model is None and settings.judge.builtin is None:
        quality = {each.signal for each in chosen(None, ("*",)) if each.kind == "quality"}
        for signal, objective in settings.objectives.items():
            if signal in quality:
                raise SettingsError(
                    f"objectives: {signal}={objective:g} is a limit that the built-in judge alone "
                    "cannot hold: its rates are off by up to tens of points, always alike. Name a "
                    "judge, as judge='openai/gpt-4o-mini'; or leave this out: what is usual is "
                    "learned, and a rise beyond that raises the alarm"
                )
    # Those of a judge may be named where there is none yet.
    known = [stream.signal for stream in chosen(judge or "any", ("*",))]
    for name, patterns in (
        ("alarms.signals", settings.alarms.signals),
        ("objectives", tuple(settings.objectives)),
    ):
        for pattern in patterns:
            if not fnmatch.filter(known, pattern):
                raise SettingsError(
                    f"{name}: {pattern!r} is no signal; signals are {', '.join(known)}"
                    f"{did_you_mean(pattern, known)}"
                )
    return chosen(judge, settings.alarms.signals)
