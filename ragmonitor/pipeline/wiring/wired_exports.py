"""Makes exports of settings: what leaves the process, what is replaced in it, who serves it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

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
from ragmonitor.incidents import IncidentKeeper, Journal
from ragmonitor.incidents.incident_pages import IncidentPages
from ragmonitor.incidents.notices import Notifier
from ragmonitor.pipeline.judging import JudgeConfig
from ragmonitor.pipeline.wiring.wired_judges import judge_doubt
from ragmonitor.redaction import PersonalData, Redactor, without_secrets
from ragmonitor.runtime.addresses import shown
from ragmonitor.runtime.errors import SettingsError, did_you_mean
from ragmonitor.runtime.feedback import Feedback
from ragmonitor.runtime.guard import clean_messages, logger, withhold_messages
from ragmonitor.runtime.prices import Prices
from ragmonitor.runtime.protocols import (
    ConfigurableExporter,
    ExportContext,
    Exporter,
    Judge,
)
from ragmonitor.settings import Settings
from ragmonitor.store import Memory, Store

STILL_ON_S: Final = 4 * 3_600.0
"""After how long people are told again that an alarm is still on."""


def meters_of(
    settings: Settings,
    view: View | None,
    take: Callable[[Feedback], bool] | None = None,
    store: Store | None = None,
) -> PrometheusExporter:
    """Return the series and their endpoint, which serves the page too where there is one.

    Args:
        settings: The settings.
        view: The page.
        take: Takes feedback that comes by HTTP, False: there is too much of it; None: it is not
            taken here.
        store: Where the processes of this machine add up their counters, if it is a file.
    """
    is_file = isinstance(settings.state, Path)
    return PrometheusExporter(
        service=settings.service,
        version=settings.service_version,
        serve=settings.server.enabled,
        host=settings.server.host,
        port=settings.server.port,
        pages=view,
        page_url="" if view is None else settings.server.page_url,
        cost_usd=Prices(settings.estimation.prices).cost_usd,
        receive=_feedback_intake(settings, take),
        shared=store if is_file else None,
    )


def _feedback_intake(
    settings: Settings, take: Callable[[Feedback], bool] | None
) -> FeedbackIntake | None:
    """Return what takes feedback by HTTP, if it is wanted and may be served."""
    if take is None or not settings.server.feedback:
        return None
    token = settings.server.token
    if not _is_guarded(settings, "no feedback is taken by HTTP", "anybody could send it"):
        return None
    return FeedbackIntake(
        take,
        token=None if token is None else token.get_secret_value(),
    )


def _is_guarded(settings: Settings, refusal: str, danger: str) -> bool:
    """Return whether a token guards what is served, or this machine alone; warn if neither does."""
    host = settings.server.host
    if settings.server.token is not None or is_loopback(host):
        return True
    logger.warning(
        "ragmonitor: %s: /metrics listens on %s, where %s; set server.token, or server.host to "
        "127.0.0.1",
        *(refusal, host, danger),
    )
    return False


def traces_of(settings: Settings, lost: Callable[[str, int], None] | None = None) -> OtelExporter:
    """Return what emits an interaction's trace.

    Args:
        settings: The settings.
        lost: Counts spans and events that did not arrive, by reason.
    """
    return OtelExporter(
        service=settings.service,
        version=settings.service_version,
        enabled=settings.export.traces,
        content=settings.content.policy,
        hash_key=settings.content.key,
        lost=lost,
        cost_usd=Prices(settings.estimation.prices).cost_usd,
    )


def redactor_of(settings: Settings) -> Redactor:
    """Return what every text passes before a judge or an exporter sees it.

    Raises:
        SettingsError: There is no such redaction.
        MissingExtraError: A redaction needs what is not installed.
    """
    content = settings.content
    return Redactor(content.redaction, personal=PersonalData())


def restrict_logs(settings: Settings) -> None:
    """Keep out of our log what may not leave by any other way."""
    redaction = settings.content.redaction
    if settings.content.shown != "all" or any(each != "secrets" for each in redaction):
        withhold_messages()
    if "secrets" in redaction:
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
                content=settings.content.shown,
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
    name, _, rest = (part.strip() for part in text.partition(":"))
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
    token = settings.server.token
    danger = "others could read questions and answers"
    if not _is_guarded(settings, "the page is not served", danger):
        return None
    judge = None if judging is None else judging.judge.identity
    return View(
        settings.service,
        builtin=builtin.identity.name,
        judge=None if judge is None else judge.name,
        doubt=judge_doubt(settings),
        lower_is_better=[
            entry.name for entry in table.select(settings.evaluators) if entry.lower_is_better
        ],
        content=settings.content.shown,
        token=None if token is None else token.get_secret_value(),
        trace_url=settings.server.ui_trace_url or "",
        version=settings.service_version,
        incidents=IncidentPages(incidents.journal, trace_url=settings.server.ui_trace_url or ""),
    )


def incidents_of(
    settings: Settings,
    judging: JudgeConfig | None,
    lost: Callable[[str, int], None],
    store: Store | None = None,
) -> IncidentKeeper:
    """Return what makes incidents of alarms.

    Args:
        settings: The settings.
        judging: The judges of a share of the answers.
        lost: Counts notices that did not arrive, by reason.
        store: Where they are; None: in memory.

    Raises:
        MissingExtraError: Notices need what is not installed.
        SettingsError: An address of theirs is none.
    """
    store = Memory() if store is None else store
    urls = [url.get_secret_value() for url in settings.alarms.notify]
    notifier = None
    if urls:
        notifier = Notifier(
            urls,
            lost=lost,
            page_url=settings.server.page_url,
            texts=settings.content.policy == "all",
            language=settings.alarms.notify_language,
        )
    policy = ContentPolicy(content=settings.content.shown, key=settings.content.key or PROCESS_KEY)
    return IncidentKeeper(
        Journal(store, settings.content.shown),
        is_judged=judging is not None,
        notices=notifier,
        still_on_s=STILL_ON_S,
        service=settings.service,
        service_version=settings.service_version,
        policy=policy,
        now=store.now,
    )
