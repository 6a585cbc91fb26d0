"""Makes statistics of settings: what is estimated of answers, and the alarms that rest on it."""

from __future__ import annotations

import fnmatch
import math
import time
from collections.abc import Callable, Sequence
from functools import partial

from ragmonitor.causes.events import STATE_VERSION as EVENTS_VERSION
from ragmonitor.causes.events import Events
from ragmonitor.causes.slice_watch import SliceWatch
from ragmonitor.causes.slices import Slices
from ragmonitor.causes.sources import Sources, name_of
from ragmonitor.causes.versions import STATE_VERSION as VERSIONS_VERSION
from ragmonitor.causes.versions import Versions
from ragmonitor.errors import InputError, SettingsError, did_you_mean
from ragmonitor.estimation import (
    Alarms,
    Anchors,
    GoldenQuestions,
    HumanLabels,
    JudgeDrift,
    Part,
    PeoplesFeedback,
    Predictions,
    Statistics,
    Suspicion,
    WindowedMeans,
    streams,
)
from ragmonitor.estimation.alarm_streams import MAX_IMPORTANCE_WEIGHT, SLOTS, slice_slots
from ragmonitor.estimation.alarms import STATE_VERSION as ALARMS_VERSION
from ragmonitor.estimation.alarms import Stream
from ragmonitor.estimation.anchors import VERSION as ANCHORS_VERSION
from ragmonitor.estimation.anchors import ForgottenTexts
from ragmonitor.estimation.answer_cost import AnswerCost
from ragmonitor.estimation.detector import DAY_S
from ragmonitor.estimation.feedback_store import MAX_ANSWERS, FeedbackStore
from ragmonitor.estimation.feedback_store import STATE_VERSION as FEEDBACK_VERSION
from ragmonitor.estimation.golden_questions import STATE_VERSION as GOLDENS_VERSION
from ragmonitor.estimation.predictions import STATE_VERSION as PREDICTIONS_VERSION
from ragmonitor.estimation.predictions import state_name
from ragmonitor.estimation.retrieval_drift import STATE_VERSION as DRIFT_VERSION
from ragmonitor.estimation.retrieval_drift import RetrievalDrift
from ragmonitor.estimation.signals import FROM_ASSESSMENT, HALLUCINATION
from ragmonitor.evaluators import table
from ragmonitor.export.content import PROCESS_KEY, ContentPolicy
from ragmonitor.judging import JudgeConfig
from ragmonitor.prices import Prices
from ragmonitor.protocols import Cost, Judge
from ragmonitor.records import Severity
from ragmonitor.settings import Settings
from ragmonitor.state import State, StateFile, rows_of_service, state_of_service


def estimates_of(settings: Settings, reader: Judge, judging: JudgeConfig | None) -> Statistics:
    """Return what is estimated of the answers, and the alarms that rest on it.

    Args:
        settings: The settings.
        reader: The judge of every answer.
        judging: The judges of a share of them.
    """
    file = partial(_kept, settings)
    judge = None if judging is None else judging.judge.identity
    name = None if judge is None else judge.name
    every_days = settings.alarms.false_alarm_every_days
    means = WindowedMeans(
        builtin=reader.identity.name,
        judge=name,
        clock=time.monotonic,
        group_by=settings.estimation.group_by,
    )
    alarms = _alarms(settings, reader.identity.name, name)
    cost_usd = Prices(settings.estimation.prices).cost_usd
    # A new statistic is one more part: of every answer here, of a judge's verdicts below.
    parts: list[Part] = [
        RetrievalDrift(
            size=settings.estimation.drift_reference_size, file=file("drift", DRIFT_VERSION)
        ),
        _slices(settings, judging, alarms),
        Sources(_content(settings)),
        _versions(settings, reader.identity.name, name, cost_usd),
        _events(settings, is_judged=judge is not None),
        _feedback_of_people(settings),
        *_forgotten_texts(settings),
        AnswerCost(cost_usd, reader=reader.identity.name, judge=name, clock=time.monotonic),
    ]
    goldens = _goldens(settings, name or reader.identity.name)
    if judge is None:
        return Statistics(parts, means=means, alarms=alarms, goldens=goldens)
    predictions = Predictions(
        judge=judge.name,
        file=file(
            state_name(reader.identity, settings.estimation.min_severity), PREDICTIONS_VERSION
        ),
        reader=reader.identity.name,
    )
    if settings.estimation.human_labels is not None:
        parts.append(HumanLabels(settings.estimation.human_labels))
    return Statistics(
        parts,
        means=means,
        alarms=alarms,
        predictions=predictions,
        suspicion=Suspicion(),
        judge_drift=JudgeDrift(
            _anchors(settings),
            judge=judge.name,
            threshold_s=every_days * DAY_S,
            now=time.time,
        ),
        goldens=goldens,
    )


def _goldens(settings: Settings, judge: str) -> GoldenQuestions:
    """Return what keeps the scores of golden questions, which this judge gives."""
    return GoldenQuestions(
        judge=judge,
        false_alarm_every_days=settings.alarms.false_alarm_every_days,
        shows_texts=settings.content.shown == "all",
        file=_kept(settings, "goldens", GOLDENS_VERSION),
        alarms_file=_kept(settings, "golden-alarms", ALARMS_VERSION),
    )


def _alarms(settings: Settings, builtin: str, judge: str | None) -> Alarms:
    """Return the alarms of the service and of its slices.

    Raises:
        SettingsError: `alarms.slice_limits` holds what is no limit.
    """
    return Alarms(
        _streams(settings, builtin, judge),
        false_alarm_every_days=settings.alarms.false_alarm_every_days,
        objectives=settings.objectives,
        slots=_slice_slots(settings, builtin, judge),
        limits=dict(map(_slice_limit, settings.alarms.slice_limits)),
        file=_kept(settings, "alarms", ALARMS_VERSION),
    )


def _slices(
    settings: Settings,
    judging: JudgeConfig | None,
    alarms: Alarms,
) -> Slices:
    """Return what finds the slices of the traffic that got worse, and feeds their alarms.

    Args:
        settings: The settings.
        judging: The judges of a share of the answers.
        alarms: Know which signals are better the higher they are, and have slots for slices.
    """
    watch = None
    if alarms.slots:
        watch = SliceWatch(alarms, patterns=settings.alarms.slices)
    return Slices(
        max_importance_weight=1.0 if judging is None else MAX_IMPORTANCE_WEIGHT,
        higher_is_better=alarms.higher_is_better,
        leave_out=settings.estimation.leave_out,
        source=partial(name_of, policy=_content(settings)),
        watch=watch,
    )


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
    return ContentPolicy(content=settings.content.shown, key=settings.content.key or PROCESS_KEY)


def _kept(settings: Settings, name: str, version: int) -> State | None:
    """Return where one thing of a service is kept; None: nothing outlives the process."""
    return state_of_service(settings.state, name, settings.service, version=version)


def _versions(settings: Settings, reader: str, judge: str | None, cost_usd: Cost) -> Versions:
    """Return what compares versions, by the judge of every answer or by that of a sample."""
    return Versions(
        settings.estimation.compare_by,
        version=settings.service_version,
        reader=reader,
        judge=judge,
        higher_is_better=_higher_is_better(settings),
        threshold_s=settings.alarms.false_alarm_every_days * DAY_S,
        cost_usd=cost_usd,
        file=_kept(settings, "versions", VERSIONS_VERSION),
    )


def _events(settings: Settings, *, is_judged: bool) -> Events:
    """Return what keeps what happened to the application, and when each signal changed."""
    return Events(
        version=settings.service_version,
        is_judged=is_judged,
        higher_is_better=_higher_is_better(settings),
        file=_kept(settings, "events", EVENTS_VERSION),
    )


def _feedback_of_people(settings: Settings) -> PeoplesFeedback:
    """Return what joins people's feedback with the answers that it is about."""
    file = _kept(settings, "feedback", FEEDBACK_VERSION)
    path = file.path.with_suffix(".sqlite") if isinstance(file, StateFile) else None
    shared = rows_of_service(settings.state, "answers", settings.service, max_rows=MAX_ANSWERS)
    return PeoplesFeedback(FeedbackStore(path, shared=shared))


def _higher_is_better(settings: Settings) -> Callable[[str], bool]:
    """Return whether a signal is the better the higher it is: an evaluator's score mostly is."""
    entries = table.select(settings.evaluators)
    higher = {entry.name for entry in entries if not entry.lower_is_better} - {*FROM_ASSESSMENT}
    return higher.__contains__


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
            # Of those that are signals by themselves; what hallucination means is a setting's.
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


def _slice_slots(settings: Settings, builtin: str, judge: str | None) -> Sequence[Stream]:
    return slice_slots(
        SLOTS,
        _slices_share(settings),
        judge=judge or builtin,
        is_sampled=judge is not None,
        min_severity=Severity(settings.estimation.min_severity),
    )


def _keeps_anchors(settings: Settings) -> bool:
    """Return whether texts of reference answers may outlive the process."""
    return settings.content.shown == "all" and settings.judge.reference_answers_per_day > 0


def _forgotten_texts(settings: Settings) -> Sequence[Part]:
    """Return what removes texts of reference answers that earlier settings kept."""
    file = _kept(settings, "anchors", ANCHORS_VERSION)
    return () if file is None or _keeps_anchors(settings) else (ForgottenTexts(file),)


def _anchors(settings: Settings) -> Anchors:
    """Return the frozen answers, with those of the user's own.

    Raises:
        SettingsError: The user's file cannot be read.
    """
    anchors = Anchors(
        per_day=settings.judge.reference_answers_per_day,
        file=_kept(settings, "anchors", ANCHORS_VERSION),
        keep_texts=_keeps_anchors(settings),
    )
    if settings.judge.reference_answers is not None:
        try:
            anchors.load(settings.judge.reference_answers)
        except InputError as error:
            raise SettingsError(f"judge.reference_answers: {error}") from error
    return anchors
