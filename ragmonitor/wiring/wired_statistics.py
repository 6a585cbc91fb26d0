"""Makes statistics of settings: what is estimated of answers, and the alarms that rest on it."""

from __future__ import annotations

import fnmatch
import math
import time
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Final

from ragmonitor.causes.events import STATE_VERSION as EVENTS_VERSION
from ragmonitor.causes.events import Events
from ragmonitor.causes.slices import Slices
from ragmonitor.causes.sources import Sources, name_of
from ragmonitor.causes.versions import STATE_VERSION as VERSIONS_VERSION
from ragmonitor.causes.versions import Versions
from ragmonitor.errors import InputError, SettingsError, did_you_mean
from ragmonitor.evaluators import table
from ragmonitor.export.content import PROCESS_KEY, ContentPolicy
from ragmonitor.judging import JudgeConfig
from ragmonitor.prices import Prices
from ragmonitor.protocols import Judge
from ragmonitor.records import Report, Severity
from ragmonitor.settings import Settings
from ragmonitor.stats.answer_cost import AnswerCost
from ragmonitor.stats.feedback import PeoplesFeedback
from ragmonitor.stats.goldens import GoldenQuestions
from ragmonitor.stats.labels import HumanLabels
from ragmonitor.stats.parts import Part
from ragmonitor.stats.references import ReferenceAnswers
from ragmonitor.stats.retrieval_drift import STATE_VERSION as DRIFT_VERSION
from ragmonitor.stats.retrieval_drift import RetrievalDrift
from ragmonitor.stats.service import Statistics, Watching
from ragmonitor.stats.signals import FROM_ASSESSMENT, HALLUCINATION, language_of
from ragmonitor.stats.streams import Stream, streams
from ragmonitor.stats.sums import MAX_WEIGHT
from ragmonitor.store import DAY_S, Kept, Memory, Store, open_store

LATENCY_CUTS_S: Final = (1.0, 2.0, 4.0, 8.0, 16.0)
_LATENCY_BANDS: Final = (
    "below 1",
    *(f"{low:g} to {high:g}" for low, high in pairwise(LATENCY_CUTS_S)),
    "16 or more",
)


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
        SettingsError: A signal, a limit or a file of the settings is none.
    """
    store = Memory() if store is None else store
    judge = None if judging is None else judging.judge.identity.name
    name = reader.identity.name
    cost_usd = Prices(settings.estimation.prices).cost_usd
    higher_is_better = _higher_is_better(settings)
    # A new statistic is one more part: of every answer here, of a judge's verdicts below.
    parts: list[Part] = [
        RetrievalDrift(
            size=settings.estimation.drift_reference_size,
            file=Kept(store, "drift", version=DRIFT_VERSION),
        ),
        Slices(
            max_importance_weight=1.0 if judging is None else MAX_WEIGHT,
            higher_is_better=higher_is_better.__contains__,
            leave_out=settings.estimation.leave_out,
            source=partial(name_of, policy=_content(settings)),
        ),
        Sources(_content(settings)),
        Versions(
            settings.estimation.compare_by,
            version=settings.service_version,
            reader=name,
            judge=judge,
            higher_is_better=higher_is_better.__contains__,
            threshold_s=settings.alarms.false_alarm_every_days * DAY_S,
            cost_usd=cost_usd,
            file=Kept(store, "versions", version=VERSIONS_VERSION),
        ),
        Events(
            version=settings.service_version,
            is_judged=judge is not None,
            higher_is_better=higher_is_better.__contains__,
            file=Kept(store, "events", version=EVENTS_VERSION),
        ),
        PeoplesFeedback(store),
        AnswerCost(cost_usd, reader=name, judge=judge, clock=time.monotonic),
    ]
    if judge is not None and settings.estimation.human_labels is not None:
        parts.append(HumanLabels(settings.estimation.human_labels))
    return Statistics(
        parts,
        store=store,
        watching=_watching(settings, name, judge, higher_is_better),
        references=None if judge is None else _references(settings, store, judge),
        goldens=GoldenQuestions(
            judge=judge or name,
            false_alarm_every_days=settings.alarms.false_alarm_every_days,
            shows_texts=settings.content.policy == "all",
            store=store,
        ),
    )


def _watching(
    settings: Settings, reader: str, judge: str | None, higher_is_better: frozenset[str]
) -> Watching:
    """Return what has an alarm.

    Raises:
        SettingsError: `alarms.slice_limits` holds what is no limit.
    """
    return Watching(
        streams=_streams(settings, reader, judge),
        reader=reader,
        judge=judge,
        every_days=settings.alarms.false_alarm_every_days,
        objectives=settings.objectives,
        higher_is_better=higher_is_better,
        versions={entry.name: entry.version for entry in table.select(settings.evaluators)},
        min_severity=settings.estimation.min_severity,
        slices_of=_slices_of(settings),
        shown=settings.estimation.group_by,
        slices=settings.alarms.slices,
        slices_share=_slices_share(settings),
        limits=dict(map(_slice_limit, settings.alarms.slice_limits)),
    )


def _slices_of(settings: Settings) -> Callable[[Report], Mapping[str, str]]:
    """Return what gives an answer's slices: its attributes, and what is known of it besides."""
    group_by = settings.estimation.group_by
    leave_out = settings.estimation.leave_out
    wanted: dict[str, bool] = {}

    def is_wanted(name: str) -> bool:
        known = wanted.get(name)
        if known is None:
            known = name in group_by or not any(fnmatch.fnmatchcase(name, p) for p in leave_out)
            if len(wanted) < 1_000:
                wanted[name] = known
        return known

    def slices(builtin: Report) -> Mapping[str, str]:
        interaction = builtin.interaction
        found = {name: value for name, value in interaction.attributes.items() if is_wanted(name)}
        found.setdefault("model", interaction.model)
        found["language"] = language_of(builtin)
        if "latency_s" in group_by:
            found["latency_s"] = _LATENCY_BANDS[bisect_right(LATENCY_CUTS_S, interaction.latency_s)]
        return found

    return slices


def _slice_limit(text: str) -> tuple[str, float]:
    name, _, limit = text.rpartition(":")
    try:
        rate = float(limit)
    except ValueError:
        rate = math.nan
    if "=" not in name or not 0 < rate < 1:
        raise SettingsError(
            f"alarms.slice_limits: {text!r} is no limit; write attribute=value:rate, such as "
            "route=billing:0.12"
        )
    return name, rate


def _content(settings: Settings) -> ContentPolicy:
    """Return what documents may be called."""
    return ContentPolicy(content=settings.content.policy, key=settings.content.key or PROCESS_KEY)


def _higher_is_better(settings: Settings) -> frozenset[str]:
    """Return the signals that are the better the higher they are, as most scores are."""
    entries = table.select(settings.evaluators)
    return frozenset(entry.name for entry in entries if not entry.lower_is_better) - {
        *FROM_ASSESSMENT
    }


def _streams(settings: Settings, builtin: str, judge: str | None) -> Sequence[Stream]:
    """Return what may raise an alarm.

    Raises:
        SettingsError: `alarms.signals` or `objectives` names what is no signal.
    """
    entries = table.select(settings.evaluators)

    def chosen(judge: str | None, patterns: Sequence[str]) -> Sequence[Stream]:
        return streams(
            evaluators=[entry.name for entry in entries],
            lower_is_better=[entry.name for entry in entries if entry.lower_is_better],
            builtin=builtin,
            judge=judge,
            patterns=patterns,
            min_severity=Severity(settings.estimation.min_severity),
            slices_share=_slices_share(settings),
            versions={entry.name: entry.version for entry in entries},
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


def _slices_share(settings: Settings) -> float:
    """Return the share of the false alarms that slices have; 0: no slice has an alarm."""
    is_wanted = any(fnmatch.fnmatch(HALLUCINATION, each) for each in settings.alarms.signals)
    return settings.alarms.slices_share if settings.alarms.slices and is_wanted else 0.0


def _references(settings: Settings, store: Store, judge: str) -> ReferenceAnswers:
    """Return the old answers that the judge reads again, with those of the user's own.

    Raises:
        SettingsError: The user's file cannot be read.
    """
    try:
        return ReferenceAnswers(
            store,
            judge=judge,
            per_day=settings.judge.reference_answers_per_day,
            keeps_texts=settings.content.policy == "all",
            own=settings.judge.reference_answers,
        )
    except InputError as error:
        raise SettingsError(f"judge.reference_answers: {error}") from error
