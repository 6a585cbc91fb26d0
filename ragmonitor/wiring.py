"""From settings to stages: who judges, what is estimated, where it goes."""

from __future__ import annotations

import contextlib
import fnmatch
import os
import time
from collections.abc import Callable, Iterator, Sequence

from ragmonitor.errors import InputError, JudgeError, SettingsError
from ragmonitor.estimation import (
    Alarms,
    Anchors,
    EarlyWarning,
    HumanLabels,
    Statistics,
    Watchers,
    streams,
    summarise,
)
from ragmonitor.estimation.alarms import STATE_VERSION as ALARMS_VERSION
from ragmonitor.estimation.alarms import Stream
from ragmonitor.estimation.anchors import VERSION as ANCHORS_VERSION
from ragmonitor.estimation.drift import STATE_VERSION as DRIFT_VERSION
from ragmonitor.estimation.drift import InputDrift
from ragmonitor.estimation.drift.embedding import Embed
from ragmonitor.evaluators import table
from ragmonitor.export import (
    JsonLinesExporter,
    LangfuseExporter,
    PhoenixExporter,
    PrometheusExporter,
    View,
    is_loopback,
)
from ragmonitor.guard import logger
from ragmonitor.judges import AssessmentCache, LexicalJudge, LlmJudge
from ragmonitor.judges.builtin import Limits
from ragmonitor.judges.pricing import cost_in, priced_in
from ragmonitor.judging import JudgeConfig, Repeating, SecondReading
from ragmonitor.protocols import (
    BudgetUnit,
    BuiltinJudge,
    CachingJudge,
    Exporter,
    Judge,
    RecountingJudge,
)
from ragmonitor.records import Interaction, JudgeUsage
from ragmonitor.sampling import AdaptiveSampler, Budget, Floors, budget_file
from ragmonitor.settings import Settings
from ragmonitor.state import StateFile


def exporters_of(settings: Settings, meters: PrometheusExporter) -> Iterator[Exporter]:
    """Yield the places for reports that the settings name."""
    if settings.jsonl is not None:
        yield JsonLinesExporter(
            settings.jsonl,
            content=settings.content,
            hash_key=settings.hash_key,
            service=settings.service,
            lost=meters.dropped,
        )
    if settings.phoenix_url is not None:
        key = settings.phoenix_api_key
        yield PhoenixExporter(
            settings.phoenix_url,
            api_key=None if key is None else key.get_secret_value(),
            content=settings.content,
            lost=meters.dropped,
        )
    public_key, secret_key = settings.langfuse_public_key, settings.langfuse_secret_key
    if settings.langfuse_url is not None and public_key is not None and secret_key is not None:
        yield LangfuseExporter(
            settings.langfuse_url,
            public_key=public_key,
            secret_key=secret_key.get_secret_value(),
            content=settings.content,
            lost=meters.dropped,
        )


def view_of(settings: Settings, builtin: Judge, judging: JudgeConfig | None) -> View | None:
    """Return the page, if it is wanted and may be served."""
    if not settings.ui:
        return None
    token = settings.ui_token
    if token is None and not is_loopback(settings.prometheus_host):
        logger.warning(
            "ragmonitor: the page is not served: /metrics listens on %s, where others could read "
            "questions and answers; set ui_token, or prometheus_host to 127.0.0.1",
            settings.prometheus_host,
        )
        return None
    judge = None if judging is None else judging.judge.identity
    return View(
        settings.service,
        summarise=summarise,
        builtin=builtin.identity.name,
        judge=None if judge is None else judge.name,
        judge_kind="LLM" if judge is None else judge.kind,
        lower_is_better=[
            entry.name for entry in table.select(settings.evaluators) if entry.lower_is_better
        ],
        content=settings.content,
        token=None if token is None else token.get_secret_value(),
        trace_url=settings.ui_trace_url or "",
        version=settings.service_version,
    )


def embedded_judge(settings: Settings) -> BuiltinJudge:
    """Return the judge that reads every answer."""
    judge = LexicalJudge(Limits(max_characters=settings.builtin_max_characters))
    if settings.scoring_process and os.name == "posix":
        from ragmonitor.judges.process import ProcessJudge

        return ProcessJudge(judge)
    if settings.scoring_process:
        logger.warning("ragmonitor: scoring_process needs a POSIX system; scoring on a thread")
    return judge


def judging_of(settings: Settings, custom: Judge | None) -> JudgeConfig | None:
    """Return the judge that reads a share of the answers, with its sampler; None: there is none.

    Raises:
        SettingsError: A judge is to stand in or to read a second time, and there is no first; or
            the budget's state cannot be kept.
    """
    judge = custom
    if judge is None and settings.judge:
        judge = llm_judge(settings, settings.judge)
    if judge is None:
        if settings.judge_fallbacks or settings.second_judge:
            raise SettingsError("judge_fallbacks and second_judge need a judge; set judge")
        return None
    judge = _counted(judge, settings)
    _check_names(judge, settings)
    fallbacks = tuple(llm_judge(settings, each) for each in settings.judge_fallbacks)
    second = (
        SecondReading(
            judge=llm_judge(settings, settings.second_judge),
            rate=settings.second_judge_rate,
            on_alarm=settings.second_judge_on_alarm,
        )
        if settings.second_judge
        else None
    )
    repeating = Repeating(
        # What it has kept of earlier readings would agree with them.
        judge=judge.uncached() if isinstance(judge, CachingJudge) else judge,
        rate=settings.judge_repeat_rate,
    )
    return JudgeConfig(
        judge=judge,
        fallbacks=fallbacks,
        second=second,
        repeating=repeating,
        sampler=AdaptiveSampler(
            settings.judge_rate,
            clock=time.monotonic,
            budget=_budget(settings),
            expected_cost=_expected_cost(
                (judge, *fallbacks),
                second,
                repeating,
                asking=table.select(settings.evaluators).asking,
                unit=settings.budget_unit,
            ),
            by_session=settings.judge_sample_by == "session",
            always=settings.judge_always,
            floors=Floors(settings.judge_floor_by, settings.judge_floor_per_hour)
            if settings.judge_floor_by
            else None,
        ),
        concurrency=settings.judge_concurrency,
        waiting_most=settings.judge_waiting_most,
        reading_timeout_s=settings.judge_reading_timeout_s or 2 * settings.judge_timeout_s,
        wait_s=settings.judge_wait_s,
        spent=_SPENT[settings.budget_unit],
    )


def _counted(judge: Judge, settings: Settings) -> Judge:
    """Return the judge, saying what it costs in the unit of the budget.

    Raises:
        SettingsError: It cannot: the budget would not hold, or nothing would ever be read.
    """
    if not settings.has_budget:
        # Nothing is reserved; a judge that can count in dollars only needs no price for it.
        return judge.counting("tokens") if isinstance(judge, RecountingJudge) else judge
    try:
        return priced_in(judge, settings.budget_unit)
    except SettingsError as error:
        raise SettingsError(
            f"{error}; or give the monitor a budget in calls instead: budget_calls_per_day or "
            "budget_calls_per_hour"
        ) from error


def _check_names(judge: Judge, settings: Settings) -> None:
    """Check that no two judges would share their series.

    Raises:
        SettingsError: A judge that was given as an object has the name of another one.
    """
    name = judge.identity.name
    others = (*settings.judge_fallbacks, settings.second_judge or "")
    if name == LexicalJudge().identity.name:
        raise SettingsError(
            f"judge: {name!r} is the name of the built-in judge, which reads every answer already; "
            "their scores would be one series; give the judge's identity another name"
        )
    if name in (other.partition("@http")[0] for other in others):
        raise SettingsError(
            f"judge: {name!r} is also named among judge_fallbacks and second_judge; their scores "
            "would be one series; give the judge another name"
        )


def llm_judge(settings: Settings, named: str) -> LlmJudge:
    """Return the judge of that name: `model`, or `model@http://address` on another server."""
    model, at, address = named.partition("@http")
    size = settings.judge_cache_size
    return LlmJudge(
        model,
        # The first judge's server knows the first judge's model.
        api_base=f"http{address}"
        if at
        else settings.judge_api_base
        if named == settings.judge
        else None,
        timeout_s=settings.judge_timeout_s,
        reading_timeout_s=settings.judge_reading_timeout_s,
        price_input_usd=settings.judge_price_input_usd,
        price_output_usd=settings.judge_price_output_usd,
        budget_unit=settings.budget_unit,
        reply_format=settings.judge_reply_format,
        tokens_per_call=settings.judge_tokens_per_call,
        calls_most=settings.judge_calls_most,
        cache=AssessmentCache(size=size, age_s=settings.judge_cache_age_s) if size else None,
    )


def _budget(settings: Settings) -> Budget | None:
    """Return what all judges may spend together; None: there is no limit."""
    if not settings.has_budget:
        return None
    per_day, per_hour = settings.budget
    unit = settings.budget_unit
    folder = settings.state_dir
    file = None if folder is None else budget_file(folder, service=settings.service, unit=unit)
    try:
        return Budget(per_day, per_hour=per_hour, unit=unit, file=file, clock=time.monotonic)
    except OSError as error:
        raise SettingsError(f"state_dir: {folder} cannot be written: {error}") from error


def estimates_of(
    settings: Settings, builtin: Judge, judging: JudgeConfig | None, embedding: Embed | None
) -> Statistics:
    """Return what is estimated of the answers, and the alarms that rest on it."""

    def file(what: str, version: int) -> StateFile | None:
        folder = settings.state_dir
        if folder is None:
            return None
        return StateFile.of_service(folder, what, settings.service, version=version)

    judge = None if judging is None else judging.judge.identity
    watchers = Watchers(
        alarms=Alarms(
            _streams(settings, builtin.identity.name, None if judge is None else judge.name),
            false_alarm_every_days=settings.false_alarm_every_days,
            tolerate=settings.tolerate,
            file=file("alarms", ALARMS_VERSION),
        ),
        warning=EarlyWarning(factor=settings.warning_boost),
        anchors=_anchors(settings, file("anchors", ANCHORS_VERSION)),
        drift=InputDrift(
            size=settings.drift_reference_size,
            embed=embedding,
            embedding=getattr(embedding, "__qualname__", "") or type(embedding).__name__,
            state=file("drift", DRIFT_VERSION),
        ),
        labels=None if settings.human_labels is None else HumanLabels(settings.human_labels),
    )
    return Statistics(
        builtin=builtin.identity.name,
        judge=judge,
        watchers=watchers,
        group_by=settings.group_by,
        false_alarm_every_days=settings.false_alarm_every_days,
        calibration_file=file("calibration", 1),
    )


def _streams(settings: Settings, builtin: str, judge: str | None) -> Sequence[Stream]:
    """Return what may raise an alarm.

    Raises:
        SettingsError: `alarms` or `tolerate` names what is no signal.
    """
    entries = table.select(settings.evaluators)

    def chosen(judge: str | None, patterns: Sequence[str]) -> Sequence[Stream]:
        return streams(
            evaluators=[entry.name for entry in entries],
            lower_is_better=[entry.name for entry in entries if entry.lower_is_better],
            builtin=builtin,
            judge=judge,
            patterns=patterns,
        )

    # Those of a judge may be named where there is none yet.
    known = [stream.signal for stream in chosen(judge or "any", ("*",))]
    for name, given in (("alarms", settings.alarms), ("tolerate", tuple(settings.tolerate))):
        for pattern in given:
            if not fnmatch.filter(known, pattern):
                raise SettingsError(
                    f"{name}: {pattern!r} is no signal; signals are {', '.join(known)}"
                )
    return chosen(judge, settings.alarms)


def _anchors(settings: Settings, file: StateFile | None) -> Anchors:
    """Return the frozen answers, with those of the user's own.

    Raises:
        SettingsError: The user's file cannot be read.
    """
    anchors = Anchors(
        per_day=settings.anchors_per_day, file=file, keep_texts=settings.content == "all"
    )
    if settings.anchors is not None:
        try:
            anchors.load(settings.anchors)
        except InputError as error:
            raise SettingsError(f"anchors: {error}") from error
    return anchors


def _expected_cost(
    judges: Sequence[Judge],
    second: SecondReading | None,
    repeating: Repeating,
    *,
    asking: int,
    unit: BudgetUnit,
) -> Callable[[Interaction], float]:
    """Return what one reading costs at most: of each judge that may be asked, in turn."""

    def cost(interaction: Interaction) -> float:
        first, *others = judges
        total = cost_in(first, unit, interaction)
        if second is not None and second.reads(interaction):
            others.append(second.judge)
        if repeating.reads(interaction):
            others.append(repeating.judge)
        for judge in others:
            # One that could not read it at any cost will not spend any.
            with contextlib.suppress(JudgeError):
                total += cost_in(judge, unit, interaction)
        # What an evaluator asks is shown no more than a reading is.
        return total * (1 + asking)

    return cost


def _dollars(usage: JudgeUsage) -> float:
    return usage.cost_usd


def _tokens(usage: JudgeUsage) -> float:
    return usage.input_tokens + usage.output_tokens


def _calls(usage: JudgeUsage) -> float:
    # A judge of the user's own that counts nothing made one; only a cache makes none.
    return usage.calls or float(not usage.cache_hits)


_SPENT = {"usd": _dollars, "tokens": _tokens, "calls": _calls}
