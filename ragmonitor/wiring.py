"""From settings to stages: who judges, what is estimated, where it goes."""

from __future__ import annotations

import contextlib
import fnmatch
import math
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from pydantic import SecretStr

from ragmonitor.addresses import shown
from ragmonitor.capabilities import CapableJudge, as_judge
from ragmonitor.causes.document_causes import Documents
from ragmonitor.causes.events import STATE_VERSION as EVENTS_VERSION
from ragmonitor.causes.events import Events
from ragmonitor.causes.slice_watch import SliceWatch
from ragmonitor.causes.slices import Slices
from ragmonitor.causes.topic_words import TopicWords
from ragmonitor.causes.versions import STATE_VERSION as VERSIONS_VERSION
from ragmonitor.causes.versions import Versions
from ragmonitor.errors import InputError, JudgeError, SettingsError, did_you_mean
from ragmonitor.estimation import (
    Alarms,
    Anchors,
    EarlyWarning,
    GoldenQuestions,
    HumanLabels,
    JudgeDrift,
    Part,
    PeoplesFeedback,
    Predictions,
    Residuals,
    SelfDisagreement,
    Statistics,
    WindowedMeans,
    streams,
    summarise,
)
from ragmonitor.estimation.alarm_streams import MAX_IMPORTANCE_WEIGHT, SLOTS, slice_slots
from ragmonitor.estimation.alarms import STATE_VERSION as ALARMS_VERSION
from ragmonitor.estimation.alarms import Stream
from ragmonitor.estimation.anchors import VERSION as ANCHORS_VERSION
from ragmonitor.estimation.answer_cost import AnswerCost
from ragmonitor.estimation.detector import DAY_S
from ragmonitor.estimation.drift import STATE_VERSION as DRIFT_VERSION
from ragmonitor.estimation.drift import InputDrift
from ragmonitor.estimation.drift.embedding_queue import Embed
from ragmonitor.estimation.feedback_store import MAX_ANSWERS, FeedbackStore
from ragmonitor.estimation.feedback_store import STATE_VERSION as FEEDBACK_VERSION
from ragmonitor.estimation.golden_questions import STATE_VERSION as GOLDENS_VERSION
from ragmonitor.estimation.predictions import STATE_VERSION as PREDICTIONS_VERSION
from ragmonitor.estimation.predictions import state_name
from ragmonitor.estimation.signals import FROM_ASSESSMENT, HALLUCINATION
from ragmonitor.evaluators import table
from ragmonitor.export import (
    EXPORTERS,
    FeedbackIntake,
    OtelExporter,
    PrometheusExporter,
    View,
    is_loopback,
)
from ragmonitor.export.content import PROCESS_KEY, ContentPolicy
from ragmonitor.feedback import Feedback
from ragmonitor.golden_reading import BUDGET_SHARE, GoldenBudget, GoldenReader
from ragmonitor.guard import clean_messages, logger, withhold_messages
from ragmonitor.incidents import IncidentKeeper, Journal
from ragmonitor.incidents.incident_pages import IncidentPages
from ragmonitor.incidents.journal import STATE_VERSION as INCIDENTS_VERSION
from ragmonitor.incidents.notices import Notifier
from ragmonitor.judges import JUDGES, AssessmentCache, BuiltinJudge, EncoderJudge, LlmJudge
from ragmonitor.judges.builtin import Limits
from ragmonitor.judges.every_answer import EveryAnswerReader
from ragmonitor.judging import JUDGE_GRACE_S, JudgeConfig, RepeatJudge, SecondJudge
from ragmonitor.prices import Prices
from ragmonitor.protocols import (
    ConfigurableExporter,
    Cost,
    ExportContext,
    Exporter,
    Judge,
)
from ragmonitor.records import Interaction, JudgeIdentity, Report, Severity, is_builtin
from ragmonitor.redaction import PersonalData, Redact, Redactor, without_secrets
from ragmonitor.sampling import AdaptiveSampler, Budget, Floors, budget_state, spent_in
from ragmonitor.settings import Settings
from ragmonitor.state import State, StateFile, rows_of_service, state_of_service


def meters_of(
    settings: Settings, view: View | None, take: Callable[[Feedback], bool] | None = None
) -> PrometheusExporter:
    """Return the series and their endpoint, which serves the page too where there is one.

    Args:
        settings: The settings.
        view: The page.
        take: Takes feedback that comes by HTTP, False: there is too much of it; None: it is not
            taken here.
    """
    return PrometheusExporter(
        service=settings.service,
        summarise=summarise,
        version=settings.service_version,
        serve=settings.server.enabled,
        host=settings.server.host,
        port=settings.server.port,
        pages=view,
        page_url="" if view is None else settings.server.page_url,
        cost_usd=Prices(settings.estimation.prices).cost_usd,
        receive=_feedback_intake(settings, take),
    )


def _feedback_intake(
    settings: Settings, take: Callable[[Feedback], bool] | None
) -> FeedbackIntake | None:
    """Return what takes feedback by HTTP, if it is wanted and may be served."""
    if take is None or not settings.server.feedback:
        return None
    token = settings.server.feedback_token
    problem = "no feedback is taken by HTTP", "anybody could send it"
    if not _is_guarded(settings, token, *problem, option="server.feedback_token"):
        return None
    return FeedbackIntake(
        take,
        token=None if token is None else token.get_secret_value(),
        origins=settings.server.feedback_origins,
    )


def _is_guarded(
    settings: Settings, token: SecretStr | None, refusal: str, danger: str, *, option: str
) -> bool:
    """Return whether a token guards what is served, or this machine alone; warn if neither does."""
    host = settings.server.host
    if token is not None or is_loopback(host):
        return True
    logger.warning(
        "ragmonitor: %s: /metrics listens on %s, where %s; set %s, or server.host to 127.0.0.1",
        *(refusal, host, danger, option),
    )
    return False


def traces_of(
    settings: Settings,
    lost: Callable[[str, int], None] | None = None,
    *,
    is_repeated: bool = False,
) -> OtelExporter:
    """Return what emits an interaction's trace.

    Args:
        settings: The settings.
        lost: Counts spans and events that did not arrive, by reason.
        is_repeated: Whether another process may emit the same again.
    """
    return OtelExporter(
        service=settings.service,
        version=settings.service_version,
        enabled=settings.export.traces,
        content=settings.content.policy,
        hash_key=settings.content.key,
        max_attribute_bytes=settings.export.max_attribute_bytes,
        max_span_bytes=settings.export.max_span_bytes,
        lost=lost,
        cost_usd=Prices(settings.estimation.prices).cost_usd,
        is_repeated=is_repeated,
    )


def redactor_of(settings: Settings, redact: Redact | None) -> Redactor:
    """Return what every text passes before a judge or an exporter sees it.

    Raises:
        MissingExtraError: A redaction needs what is not installed.
    """
    options = settings.redaction
    personal = PersonalData(options.personal_entities, options.personal_models)
    return Redactor(options.kinds, redact, personal=personal)


def restrict_logs(settings: Settings, redact: Redact | None) -> None:
    """Keep out of our log what may not leave by any other way."""
    if (
        settings.content.policy != "all"
        or redact is not None
        or "personal" in settings.redaction.kinds
    ):
        withhold_messages()
    if "secrets" in settings.redaction.kinds:
        clean_messages(without_secrets)


def exporters_of(
    settings: Settings,
    lost: Callable[[str, int], None],
    view: View | None = None,
    incidents: IncidentKeeper | None = None,
) -> list[Exporter]:
    """Return the places for reports, told of the settings that they heed.

    Args:
        settings: Their field `exporters` names them, or holds them.
        lost: Counts reports that did not arrive, by reason.
        view: The page, which comes first where it is served.
        incidents: Makes incidents of alarms; comes last, as others are to be told of one first.

    Raises:
        SettingsError: There is no exporter of a name, or it cannot work under these settings.
    """
    exporters = [
        exporter_named(each) if isinstance(each, str) else each for each in settings.exporters
    ]
    for exporter in exporters:
        configure(exporter, settings, lost)
    every: list[Exporter | None] = [view, *exporters, incidents]
    return [each for each in every if each is not None]


def configure(exporter: Exporter, settings: Settings, lost: Callable[[str, int], None]) -> None:
    """Tell an exporter of the settings, if it heeds any.

    Raises:
        SettingsError: It cannot work under these settings.
    """
    if isinstance(exporter, ConfigurableExporter):
        exporter.configure(
            ExportContext(
                service=settings.service,
                service_version=settings.service_version,
                content=settings.content.policy,
                hash_key=settings.content.key,
                has_traces=settings.export.traces,
                lost=lost,
            )
        )


def exporter_named(text: str) -> Exporter:
    """Return the exporter that a text such as `phoenix:http://localhost:6006` names.

    Raises:
        SettingsError: There is none of that name, or its address, file or key is wrong.
    """
    name, _, rest = text.partition(":")
    make = EXPORTERS.get(name)
    if make is None:
        hint = did_you_mean(name, EXPORTERS, spelt="{}:...")
        known = ", ".join(f"{each}:..." for each in EXPORTERS)
        raise SettingsError(f"exporters: {shown(text)!r} is no exporter; known are {known}{hint}")
    if not rest:
        raise SettingsError(f"exporters: {name!r} needs an address or a file: '{name}:...'")
    return make(rest)


def view_of(
    settings: Settings, builtin: Judge, judging: JudgeConfig | None, incidents: IncidentKeeper
) -> View | None:
    """Return the page, if it is wanted and may be served."""
    if not settings.server.ui:
        return None
    token = settings.server.ui_token
    problem = "the page is not served", "others could read questions and answers"
    if not _is_guarded(settings, token, *problem, option="server.ui_token"):
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
        content=settings.content.policy,
        token=None if token is None else token.get_secret_value(),
        trace_url=settings.server.ui_trace_url or "",
        version=settings.service_version,
        incidents=IncidentPages(incidents.journal, trace_url=settings.server.ui_trace_url or ""),
    )


def incidents_of(
    settings: Settings, judging: JudgeConfig | None, lost: Callable[[str, int], None]
) -> IncidentKeeper:
    """Return what makes incidents of alarms.

    Args:
        settings: The settings.
        judging: The judges of a share of the answers.
        lost: Counts notices that did not arrive, by reason.

    Raises:
        MissingExtraError: Notices need what is not installed.
        SettingsError: An address of theirs is none.
    """
    file = _kept(settings, "incidents", INCIDENTS_VERSION)
    urls = [url.get_secret_value() for url in settings.notify.urls]
    notifier = None
    if urls:
        notifier = Notifier(
            urls,
            lost=lost,
            page_url=settings.server.page_url,
            texts=settings.notify.texts and settings.content.policy == "all",
            language=settings.notify.language,
        )
    return IncidentKeeper(
        Journal(file),
        is_judged=judging is not None,
        notices=notifier,
        still_on_s=settings.notify.still_on_hours * 3_600.0,
        service=settings.service,
        service_version=settings.service_version,
        summarise=summarise,
        policy=ContentPolicy(
            content=settings.content.policy, key=settings.content.key or PROCESS_KEY
        ),
        leave_out=settings.causes.leave_out,
    )


def builtin_judge(settings: Settings) -> CapableJudge:
    """Return the judge that reads every answer."""
    limits = Limits(max_characters=settings.judge.builtin_max_characters)
    return as_judge(BuiltinJudge(limits))


def encoder_of(settings: Settings) -> EncoderJudge | None:
    """Return the encoder that the setting `judge.builtin` names; None: it names none."""
    named = settings.judge.builtin
    if not isinstance(named, str):
        return None
    return EncoderJudge(named.partition(":")[2], threads=settings.judge.builtin_threads)


def reader_of(settings: Settings) -> EveryAnswerReader | None:
    """Return what reads every answer in batches; None: the built-in rules read each at once."""
    judge = encoder_of(settings) or settings.judge.builtin
    if judge is None:
        return None
    return EveryAnswerReader(
        judge, batch=settings.judge.builtin_batch, timeout_s=settings.judge.builtin_timeout_s
    )


def judging_of(settings: Settings, *, budget: Budget | None = None) -> JudgeConfig | None:
    """Return the judges that read a share of the answers, with their sampler; None: none does.

    Args:
        settings: The settings.
        budget: What they may spend; None: one as the settings have it.

    Raises:
        SettingsError: A judge is to stand in or to read a second time, and there is no first; one
            costs money and has no budget; or the budget's state cannot be kept.
    """
    if settings.judge.model is None:
        if settings.judge.fallbacks or settings.judge.second:
            raise SettingsError(
                "judge.fallbacks and judge.second need a first judge; set judge.model"
            )
        return None
    named = settings.judge.name
    judge = _within_budget(
        settings.judge.model if named is None else paid_judge(settings, named), settings
    )
    _check_names(judge, settings)
    fallbacks = tuple(
        _within_budget(paid_judge(settings, each), settings) for each in settings.judge.fallbacks
    )
    second = (
        SecondJudge(
            judge=_within_budget(paid_judge(settings, settings.judge.second), settings),
            rate=settings.judge.second_rate,
        )
        if settings.judge.second
        else None
    )
    # What it has kept of earlier readings would agree with them.
    repeat = RepeatJudge(judge=judge.uncached(), rate=settings.judge.repeat_rate)
    return JudgeConfig(
        judge=judge,
        fallbacks=fallbacks,
        second=second,
        repeat=repeat,
        sampler=AdaptiveSampler(
            settings.sample.rate,
            clock=time.monotonic,
            budget=budget or budget_of(settings, settings.state),
            expected_cost=_expected_cost(
                (judge, *fallbacks),
                second,
                repeat,
                asking=table.select(settings.evaluators).asking,
            ),
            by_session=settings.sample.by == "session",
            always=settings.sample.always,
            floors=Floors(
                settings.sample.floor_by or "",
                settings.sample.floor_per_hour,
                suspect_per_hour=settings.sample.suspect_per_hour,
            ),
        ),
        concurrency=settings.judge.concurrency,
        max_pending=settings.judge.max_pending,
        reading_timeout_s=settings.judge.reading_timeout_s or 2 * settings.judge.timeout_s,
        wait_s=settings.export.judge_wait_s,
        min_severity=Severity(settings.estimation.min_severity),
        spent=partial(spent_in, settings.budget.unit),
    )


def golden_reader(
    settings: Settings,
    builtin: CapableJudge,
    judging: JudgeConfig | None,
    clean: Redact,
    *,
    place: SecretStr | None = None,
) -> GoldenReader:
    """Return what has answers to golden questions judged.

    By the judge of a share of the traffic, where there is one; else by the built-in one.

    Args:
        settings: The settings.
        builtin: The built-in judge.
        judging: The judges of a share of the answers.
        clean: Redacts one text.
        place: Where the workers of a fleet share what is spent; None: it is this process's own.
    """
    judge, timeout_s = builtin, None
    if judging is not None:
        judge = judging.judge if judging.repeat is None else judging.repeat.judge
        timeout_s = judging.reading_timeout_s + JUDGE_GRACE_S
    return GoldenReader(
        judge,
        clean=clean,
        timeout_s=timeout_s,
        min_severity=Severity(settings.estimation.min_severity),
        budget=_golden_budget(settings, judging, place),
    )


def _golden_budget(
    settings: Settings, judging: JudgeConfig | None, place: SecretStr | None
) -> GoldenBudget | None:
    """Return what golden questions may spend of the judges' budget; None: there is none."""
    if judging is None or not settings.budget.is_given:
        return None
    per_day, per_hour = (
        None if limit is None else limit * BUDGET_SHARE for limit in settings.budget.limits
    )
    unit = settings.budget.unit
    file = budget_state(place, service=settings.service, unit=unit, of="golden")
    return GoldenBudget(
        sampler=judging.sampler,
        share=Budget(per_day, per_hour=per_hour, unit=unit, file=file),
        spent=judging.spent,
    )


def _within_budget(judge: Judge, settings: Settings) -> CapableJudge:
    """Return the judge, saying what it costs in the unit of the budget.

    Raises:
        SettingsError: It cannot: the budget would not hold, or nothing would ever be read.
    """
    try:
        return as_judge(judge).within_budget(
            settings.budget.unit if settings.budget.is_given else None
        )
    except SettingsError as error:
        raise SettingsError(
            f"{error}; or give the monitor a budget in calls instead: budget.calls_per_day or "
            "budget.calls_per_hour"
        ) from error


def _check_names(judge: Judge, settings: Settings) -> None:
    """Check that no two judges would share their series.

    Raises:
        SettingsError: A judge that was given as an object has the name of another one.
    """
    name = judge.identity.name
    others = (*settings.judge.fallbacks, settings.judge.second or "")
    if is_builtin(name):
        raise SettingsError(
            f"judge: {name!r} is a name of the built-in judge, which reads every answer already; "
            "their scores would be one series; give the judge's identity another name"
        )
    if name in (other.partition("@http")[0] for other in others):
        raise SettingsError(
            f"judge: {name!r} is also named among judge.fallbacks and judge.second; their scores "
            "would be one series; give the judge another name"
        )


def paid_judge(settings: Settings, named: str) -> Judge:
    """Return the judge that a text names, if the budget of the settings can pay for it.

    Raises:
        SettingsError: It costs something, and there is no budget.
    """
    judge = judge_named(settings, named)
    if not settings.budget.is_given and as_judge(judge).budget_unit is not None:
        raise SettingsError(
            f"judge {shown(named)!r} costs money and has no budget; give budget=Budget(...) with "
            "usd_per_day, tokens_per_day or calls_per_day, or RAGMONITOR_BUDGET=usd_per_day=5"
            f"{_nearest_judge(named)}"
        )
    return judge


def _nearest_judge(named: str) -> str:
    """Return a question whether a judge of ours was meant; empty: no name is near."""
    name, colon, _ = named.partition(":")
    if not colon or name in JUDGES:
        return ""
    return did_you_mean(name, JUDGES, spelt="{}:...")


def judge_named(settings: Settings, named: str, *, with_cache: bool = True) -> Judge:
    """Return the judge that a text names: `encoder:model` of `JUDGES`, else a model of litellm."""
    name, _, rest = named.partition(":")
    make = JUDGES.get(name)
    if make is None or not rest:
        return llm_judge(settings, named, with_cache=with_cache)
    return make(rest)


def llm_judge(settings: Settings, named: str, *, with_cache: bool = True) -> LlmJudge:
    """Return the judge of that name: `model`, or `model@http://address` on another server."""
    model, at, address = named.partition("@http")
    size = settings.judge.cache_size if with_cache else 0
    return LlmJudge(
        model,
        # The first judge's server knows the first judge's model.
        api_base=f"http{address}"
        if at
        else settings.judge.api_base
        if named == settings.judge.model
        else None,
        timeout_s=settings.judge.timeout_s,
        reading_timeout_s=settings.judge.reading_timeout_s,
        input_usd_per_million_tokens=settings.judge.input_usd_per_million_tokens,
        output_usd_per_million_tokens=settings.judge.output_usd_per_million_tokens,
        budget_unit=settings.budget.unit,
        reply_format=settings.judge.reply_format,
        tokens_per_call=settings.judge.tokens_per_call,
        max_calls=settings.judge.max_calls,
        cache=AssessmentCache(size=size) if size else None,
    )


def budget_of(settings: Settings, place: Path | SecretStr | None) -> Budget | None:
    """Return what all judges may spend together; None: there is no limit.

    What a process has reserved is taken out at once, for every process, so that nothing is spent
    twice; what one had reserved when it died counts as spent.

    Args:
        settings: The settings.
        place: Where processes share it, as the setting `state`; None: it is this process's own.

    Raises:
        SettingsError: The place cannot be used.
    """
    if not settings.budget.is_given:
        return None
    per_day, per_hour = settings.budget.limits
    unit = settings.budget.unit
    file = budget_state(place, service=settings.service, unit=unit)
    try:
        return Budget(per_day, per_hour=per_hour, unit=unit, file=file, clock=time.monotonic)
    except OSError as error:
        raise SettingsError(f"state: {place} cannot be written: {error}") from error


def estimates_of(
    settings: Settings, reader: Judge, judging: JudgeConfig | None, embedding: Embed | None
) -> Statistics:
    """Return what is estimated of the answers, and the alarms that rest on it.

    Args:
        settings: The settings.
        reader: The judge of every answer.
        judging: The judges of a share of them.
        embedding: From questions to vectors.
    """
    file = partial(_kept, settings)
    judge = None if judging is None else judging.judge.identity
    name = None if judge is None else judge.name
    every_days = settings.alarms.false_alarm_every_days
    drift = _input_drift(settings, embedding)
    means = WindowedMeans(
        builtin=reader.identity.name,
        judge=name,
        clock=time.monotonic,
        group_by=settings.estimation.group_by,
        topic=drift.topic,
    )
    alarms = _alarms(settings, reader.identity.name, name)
    topics = TopicWords(drift.topic) if settings.content.policy == "all" else None
    cost_usd = Prices(settings.estimation.prices).cost_usd
    # A new statistic is one more part: of every answer here, of a judge's verdicts below.
    parts: list[Part] = [
        drift,
        *([] if topics is None else [topics]),
        slices_of(settings, reader, judging, drift=drift, alarms=alarms, topics=topics),
        documents_of(settings, judge),
        versions_of(settings, reader.identity.name, name, cost_usd),
        events_of(settings, is_judged=judge is not None),
        feedback_of_people(settings),
        AnswerCost(cost_usd, reader=reader.identity.name, judge=name, clock=time.monotonic),
    ]
    goldens = goldens_of(settings, name or reader.identity.name)
    if judge is None:
        return Statistics(parts, means=means, alarms=alarms, goldens=goldens)
    parts += [Residuals(clock=time.monotonic), SelfDisagreement(clock=time.monotonic)]
    predictions = Predictions(
        judge=judge.name,
        file=file(
            state_name(reader.identity, settings.estimation.min_severity), PREDICTIONS_VERSION
        ),
        reader=reader.identity.name,
        learns=settings.estimation.learn_from_verdicts,
    )
    if settings.estimation.human_labels is not None:
        labels = HumanLabels(
            settings.estimation.human_labels,
            # Labelled answers are read at once, which is too quick for an encoder.
            read=_builtin_reader(settings) if settings.judge.builtin is None else None,
            learn=predictions.learn_labels,
        )
        parts.append(labels)
    return Statistics(
        parts,
        means=means,
        alarms=alarms,
        predictions=predictions,
        early_warning=EarlyWarning(factor=settings.sample.early_warning_boost),
        judge_drift=JudgeDrift(
            _anchors(settings, file("anchors", ANCHORS_VERSION)),
            judge=judge.name,
            threshold_s=every_days * DAY_S,
            now=time.time,
        ),
        goldens=goldens,
    )


def goldens_of(settings: Settings, judge: str) -> GoldenQuestions:
    """Return what keeps the scores of golden questions, which this judge gives."""
    return GoldenQuestions(
        judge=judge,
        false_alarm_every_days=settings.alarms.false_alarm_every_days,
        shows_texts=settings.content.policy == "all",
        file=_kept(settings, "goldens", GOLDENS_VERSION),
        alarms_file=_kept(settings, "golden-alarms", ALARMS_VERSION),
    )


def _alarms(settings: Settings, builtin: str, judge: str | None) -> Alarms:
    return Alarms(
        _streams(settings, builtin, judge),
        false_alarm_every_days=settings.alarms.false_alarm_every_days,
        objectives=settings.objectives,
        slots=_slice_slots(settings, builtin, judge),
        file=_kept(settings, "alarms", ALARMS_VERSION),
    )


def _input_drift(settings: Settings, embedding: Embed | None) -> InputDrift:
    return InputDrift(
        size=settings.estimation.drift_reference_size,
        embed=embedding,
        embedding=getattr(embedding, "__qualname__", "") or type(embedding).__name__,
        state=_kept(settings, "drift", DRIFT_VERSION),
    )


def slices_of(
    settings: Settings,
    reader: Judge,
    judging: JudgeConfig | None,
    *,
    drift: InputDrift,
    alarms: Alarms,
    topics: TopicWords | None,
) -> Slices:
    """Return what finds the slices of the traffic that got worse, and feeds their alarms.

    Args:
        settings: The settings.
        reader: The judge of every answer.
        judging: The judges of a share of the answers.
        drift: Knows the topics of questions.
        alarms: Know which signals are better the higher they are, and have slots for slices.
        topics: Know what topics are about; None: texts may not be shown.

    Raises:
        SettingsError: `alarms.slice_limits` holds what is no limit.
    """
    suspect = None if judging is None else judging.sampler.suspect
    watch = None
    if alarms.slots:
        watch = SliceWatch(
            alarms,
            patterns=settings.alarms.slices,
            limits=dict(map(_slice_limit, settings.alarms.slice_limits)),
            suspect=suspect,
        )
    shows_texts = settings.content.policy == "all"
    return Slices(
        reader=reader.identity.name,
        is_sampled=judging is not None,
        max_importance_weight=1.0 if judging is None else MAX_IMPORTANCE_WEIGHT,
        higher_is_better=alarms.higher_is_better,
        topic=drift.topic,
        title=(lambda _: "") if topics is None else topics.of,
        # A source counts as a text, as it does where documents are named.
        leave_out=(*settings.causes.leave_out, *(() if shows_texts else ("source",))),
        suspect=suspect,
        watch=watch,
    )


def _slice_limit(text: str) -> tuple[str, float]:
    name, _, limit = text.rpartition(":")
    try:
        found = float(limit)
    except ValueError:
        found = math.nan
    if "=" not in name or not 0 < found < 1:
        raise SettingsError(
            f"alarms.slice_limits: {text!r} is no limit; write attribute=value:rate, such as "
            "route=billing:0.12"
        )
    return name, found


def documents_of(settings: Settings, judge: JudgeIdentity | None) -> Documents:
    """Return what finds the documents that go with bad answers.

    Args:
        settings: The settings.
        judge: The judge that scores a sample; None: the built-in judge scores every answer.
    """
    return Documents(
        is_sampled=judge is not None,
        read=BuiltinJudge(Limits(max_characters=settings.judge.builtin_max_characters)).read,
        policy=ContentPolicy(
            content=settings.content.policy, key=settings.content.key or PROCESS_KEY
        ),
    )


def _kept(settings: Settings, what: str, version: int) -> State | None:
    """Return where one thing of a service is kept; None: nothing outlives the process."""
    return state_of_service(settings.state, what, settings.service, version=version)


def versions_of(settings: Settings, reader: str, judge: str | None, cost_usd: Cost) -> Versions:
    """Return what compares versions, by the judge of every answer or by that of a sample."""
    return Versions(
        settings.estimation.compare_by,
        version=settings.service_version,
        reader=reader,
        judge=judge,
        higher_is_better=higher_is_better(settings),
        threshold_s=settings.alarms.false_alarm_every_days * DAY_S,
        cost_usd=cost_usd,
        file=_kept(settings, "versions", VERSIONS_VERSION),
    )


def events_of(settings: Settings, *, is_judged: bool) -> Events:
    """Return what keeps what happened to the application, and when each signal changed."""
    return Events(
        version=settings.service_version,
        is_judged=is_judged,
        higher_is_better=higher_is_better(settings),
        file=_kept(settings, "events", EVENTS_VERSION),
    )


def feedback_of_people(settings: Settings) -> PeoplesFeedback:
    """Return what joins people's feedback with the answers that it is about."""
    file = _kept(settings, "feedback", FEEDBACK_VERSION)
    path = file.path.with_suffix(".sqlite") if isinstance(file, StateFile) else None
    shared = rows_of_service(settings.state, "answers", settings.service, max_rows=MAX_ANSWERS)
    return PeoplesFeedback(FeedbackStore(path, shared=shared))


def higher_is_better(settings: Settings) -> Callable[[str], bool]:
    """Return whether a signal is the better the higher it is: an evaluator's score mostly is."""
    entries = table.select(settings.evaluators)
    higher = {entry.name for entry in entries if not entry.lower_is_better} - {*FROM_ASSESSMENT}
    return higher.__contains__


def _builtin_reader(settings: Settings) -> Callable[[Interaction], Report]:
    """Return what has the built-in judge read an answer, in this process and without evaluators."""
    judge = BuiltinJudge(Limits(max_characters=settings.judge.builtin_max_characters))

    def read(interaction: Interaction) -> Report:
        assessment = judge.read(interaction)
        return Report(
            interaction=interaction, judge=judge.identity, evaluations=(), assessment=assessment
        )

    return read


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


def _anchors(settings: Settings, file: State | None) -> Anchors:
    """Return the frozen answers, with those of the user's own.

    Raises:
        SettingsError: The user's file cannot be read.
    """
    anchors = Anchors(
        per_day=settings.judge.reference_answers_per_day,
        file=file,
        keep_texts=settings.content.policy == "all",
    )
    if settings.judge.reference_answers is not None:
        try:
            anchors.load(settings.judge.reference_answers)
        except InputError as error:
            raise SettingsError(f"judge.reference_answers: {error}") from error
    return anchors


def _expected_cost(
    judges: Sequence[CapableJudge],
    second: SecondJudge | None,
    repeat: RepeatJudge,
    *,
    asking: int,
) -> Callable[[Interaction], float]:
    """Return what one reading costs at most: of each judge that may be asked, in turn."""

    def cost(interaction: Interaction) -> float:
        first, *others = judges
        total = first.expected_cost(interaction)
        others += [
            each.judge for each in (second, repeat) if each is not None and each.reads(interaction)
        ]
        for judge in others:
            # One that could not read it at any cost will not spend any.
            with contextlib.suppress(JudgeError):
                total += judge.expected_cost(interaction)
        # What an evaluator asks is shown no more than a reading is.
        return total * (1 + asking)

    return cost
