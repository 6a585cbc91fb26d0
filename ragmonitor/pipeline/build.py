"""Makes stages of settings: who judges, what is estimated, where it goes, who serves it."""

from __future__ import annotations

import fnmatch
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Final

from ragmonitor.causes import Causes
from ragmonitor.causes.answer_slices import AnswerSlices
from ragmonitor.evaluators import table
from ragmonitor.export import (
    EXPORTERS,
    FeedbackIntake,
    NewestReports,
    OtelExporter,
    PrometheusExporter,
    View,
    is_loopback,
)
from ragmonitor.export.content import PROCESS_KEY, ContentPolicy
from ragmonitor.incidents import IncidentKeeper, Journal
from ragmonitor.incidents.incident_pages import IncidentPages
from ragmonitor.incidents.notices import Notifier
from ragmonitor.judges import JUDGES, BuiltinJudge, LlmJudge
from ragmonitor.judges.every_answer import EveryAnswerReader
from ragmonitor.judges.kept_replies import KeepingJudge, KeptReplies
from ragmonitor.pipeline.exports import Exports
from ragmonitor.pipeline.judging import JUDGE_GRACE_S, JudgeRunner, ReadingEngine
from ragmonitor.records import JudgeIdentity
from ragmonitor.redaction import Redactor, without_secrets
from ragmonitor.runtime.addresses import shown
from ragmonitor.runtime.capabilities import as_judge
from ragmonitor.runtime.errors import SettingsError, did_you_mean
from ragmonitor.runtime.feedback import Feedback
from ragmonitor.runtime.guard import clean_messages, logger, withhold_messages
from ragmonitor.runtime.prices import Prices
from ragmonitor.runtime.protocols import ExportContext, Exporter, Judge, TraceExporter
from ragmonitor.sampling import AdaptiveSampler, Floors, spent_in
from ragmonitor.settings import Settings
from ragmonitor.stats.feedback import PeoplesFeedback
from ragmonitor.stats.goldens import GoldenQuestions, golden_streams
from ragmonitor.stats.parts import Part
from ragmonitor.stats.references import ReferenceAnswers
from ragmonitor.stats.retrieval_drift import RetrievalDrift
from ragmonitor.stats.service import Statistics, Watching
from ragmonitor.stats.signals import FROM_ASSESSMENT
from ragmonitor.stats.streams import Stream, streams
from ragmonitor.store import Budget, Store, open_store


class Stages:
    """What the pipeline hands an answer to."""

    def __init__(
        self,
        settings: Settings,
        *,
        feedback: Callable[[Feedback], bool] | None = None,
        emitter: Callable[[OtelExporter], TraceExporter] = lambda own: own,
        store: Store | None = None,
    ) -> None:
        """Make what works for one pipeline; nothing runs yet.

        Args:
            settings: The settings.
            feedback: Takes feedback that comes by HTTP; None: nobody does.
            emitter: From what emits traces as the settings say to what emits them.
            store: Where sums are; None: as the settings say, or memory where that fails.

        Raises:
            SettingsError: The settings cannot be carried out.
        """

        def lost(reason: str, n: int) -> None:
            meters.dropped(reason, n)

        self.redactor = redactor_of(settings)
        """What every text passes before a judge or an exporter sees it."""
        self.builtin = as_judge(BuiltinJudge())
        """The rules."""
        slow = settings.judge.builtin
        if isinstance(slow, str):
            slow = judge_named(settings, slow)
        self.reader = None if slow is None else EveryAnswerReader(slow)
        """Reads every answer in the place of the rules; None: they read all."""
        if store is None:
            store = open_store(settings.state, settings.service)
        entries = table.select(settings.evaluators)
        # Over all calls of one reading; what an evaluator asks is shown no more than a reading is.
        timeout_s = 2 * settings.judge.timeout_s + JUDGE_GRACE_S
        self.engine = ReadingEngine(entries, self.redactor.text, timeout_s, timeout_s)
        self.runner = judging_of(settings, store, self.engine)
        """Asks the judge that reads a share of the answers; None: there is none."""
        self.judges = [(self.reader or self.builtin).identity]
        """Who reports on every answer."""
        if self.runner is not None:
            self.judges.append(self.runner.judge.identity)
        incidents = incidents_of(settings, lost, store, is_judged=self.runner is not None)
        self.estimates = estimates_of(settings, self.judges[0], self.runner, store)
        """The windowed means and the alarms."""
        self.causes = next(each for each in self.estimates.parts if isinstance(each, Causes))
        incidents.explain = self.causes.explain
        self.newest = NewestReports()
        server = settings.server
        is_guarded = server.token is not None or is_loopback(server.host)
        if not is_guarded and (server.ui or server.feedback):
            logger.warning(
                "ragmonitor: the page is not served, and no feedback is taken by HTTP: /metrics "
                "listens on %s, where others could read questions and answers; set server.token, "
                "or server.host to 127.0.0.1",
                server.host,
            )
        self.shows_page = server.ui and is_guarded
        view, intake = None, None
        if self.shows_page:
            view = View(
                settings,
                builtin=self.judges[0].name,
                judge=None if self.runner is None else self.judges[1].name,
                lower_is_better=[each.name for each in entries if each.lower_is_better],
                incidents=IncidentPages(incidents.journal, server.ui_trace_url or ""),
            )
        if feedback is not None and server.feedback and is_guarded:
            intake = FeedbackIntake(feedback, token=server.token)
        meters = PrometheusExporter(
            settings,
            pages=None if view is None else view.reply,
            receive=intake,
            shared=store if isinstance(settings.state, Path) else None,
        )
        # The others are to be told of an incident first.
        seen = [] if view is None else [view]
        exporters = [*seen, *exporters_of(settings, lost), incidents, self.newest]
        traces = emitter(OtelExporter(settings, lost=lost))
        self.exports = Exports(traces, meters, exporters, self.redactor.text)
        """The places for traces, series and reports."""


# --- Judges: who scores every answer, who scores a share, what it may cost ---

ALWAYS: Final = ("ragmonitor:judge", "user_feedback")
"""Tags, or names of attributes, of answers that are judged for certain, budget permitting."""
CONCURRENCY: Final = 8
"""Answers that the judge reads at once."""


def judging_of(settings: Settings, store: Store, engine: ReadingEngine) -> JudgeRunner | None:
    """Return the judge that reads a share of the answers, with its sampler; None: none does.

    Args:
        settings: The settings.
        store: Where its budget is.
        engine: Has it read.

    Raises:
        SettingsError: It costs money and has no budget.
    """
    if settings.judge.model is None:
        return None
    named, spending, sample = settings.judge.name, settings.budget, settings.sample
    given = settings.judge.model if named is None else paid_judge(settings, named)
    judge = as_judge(given).within_budget(spending.unit if spending.is_given else None)
    if named is not None:
        judge = KeepingJudge(judge, KeptReplies())
    asking = sum(entry.asks for entry in engine.entries)
    budget = None
    if spending.is_given:
        per_day, per_hour = spending.limits
        budget = Budget(store, per_day=per_day, per_hour=per_hour, unit=spending.unit)
    sampler = AdaptiveSampler(
        sample.rate,
        clock=time.monotonic,
        budget=budget,
        expected_cost=lambda interaction: judge.expected_cost(interaction) * (1 + asking),
        always=ALWAYS,
        floors=Floors(sample.floor_by) if sample.floor_by else None,
    )
    return JudgeRunner(judge, sampler, engine, CONCURRENCY, partial(spent_in, spending.unit))


def paid_judge(settings: Settings, named: str) -> Judge:
    """Return the judge that a text names, if the budget of the settings can pay for it.

    Args:
        settings: The settings.
        named: The judge's name.

    Raises:
        SettingsError: It costs something, and there is no budget.
    """
    judge = judge_named(settings, named)
    if not settings.budget.is_given and as_judge(judge).budget_unit is not None:
        name, colon, _ = named.partition(":")
        hint = did_you_mean(name, JUDGES, spelt="{}:...") if colon and name not in JUDGES else ""
        raise SettingsError(
            f"judge {shown(named)!r} costs money and has no budget; give budget=Budget(...) with "
            "usd_per_day, tokens_per_day or calls_per_day, or RAGMONITOR_BUDGET=usd_per_day=5"
            f"{hint}"
        )
    return judge


def judge_named(settings: Settings, named: str) -> Judge:
    """Return the judge that a text names: `encoder:model` of `JUDGES`, else a model of litellm.

    That is `model`, or `model@http://address` on another server.
    """
    name, _, rest = named.partition(":")
    make = JUDGES.get(name)
    if make is not None and rest:
        return make(rest)
    model, api_base = _split_address(named)
    is_own = named == settings.judge.model
    return LlmJudge(
        model,
        # The judge's server knows the judge's model.
        api_base=api_base or (settings.judge.api_base if is_own else None),
        fallbacks=dict(map(_split_address, settings.judge.fallbacks)) if is_own else {},
        timeout_s=settings.judge.timeout_s,
        price=Prices(settings.estimation.prices).given(model),
        budget_unit=settings.budget.unit,
        tokens_per_call=settings.judge.tokens_per_call,
    )


def _split_address(named: str) -> tuple[str, str | None]:
    model, at, address = named.partition("@http")
    return model, f"http{address}" if at else None


# --- Statistics, and the alarms that rest on them ---


def estimates_of(
    settings: Settings, reader: JudgeIdentity, judging: JudgeRunner | None, store: Store
) -> Statistics:
    """Return what is estimated of the answers, and the alarms that rest on it.

    Args:
        settings: The settings.
        reader: The judge of every answer.
        judging: The judges of a share of them.
        store: Where sums and histories are.

    Raises:
        SettingsError: A signal of the settings is none.
    """
    judge = None if judging is None else judging.judge.identity.name
    name, shows_texts = reader.name, settings.content.policy == "all"
    entries, shown = table.select(settings.evaluators), settings.estimation.group_by
    watching = Watching(
        streams=(*_streams(settings, name, judge), *golden_streams(judge or name)),
        reader=name,
        judge=judge,
        every_days=settings.alarms.false_alarm_every_days,
        # As most scores are.
        higher_is_better=frozenset(entry.name for entry in entries if not entry.lower_is_better)
        - {*FROM_ASSESSMENT},
        versions={entry.name: entry.version for entry in entries},
        slices_of=AnswerSlices(version=settings.service_version, shown=shown),
        shown=shown,
        versions_by=settings.estimation.compare_by,
    )
    # A new statistic is one more part: of every answer here, of a judge's verdicts below.
    parts: list[Part] = [
        RetrievalDrift(store),
        *Causes(
            store,
            watching,
            service_version=settings.service_version,
            policy=_content(settings),
        ).parts,
        PeoplesFeedback(store),
    ]
    references = None
    if judge is not None:
        references = ReferenceAnswers(store, judge=judge, keeps_texts=shows_texts)
    return Statistics(
        parts,
        store=store,
        watching=watching,
        references=references,
        goldens=GoldenQuestions(judge=judge or name, shows_texts=shows_texts, store=store),
    )


def _content(settings: Settings) -> ContentPolicy:
    """Return what documents may be called."""
    return ContentPolicy(content=settings.content.shown, key=settings.content.key or PROCESS_KEY)


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

    # Those of a judge may be named where there is none yet.
    known = {stream.signal: stream.kind for stream in chosen(judge or "any", ("*",))}
    named = [("alarms.signals", each) for each in settings.alarms.signals]
    named += [("objectives", each) for each in settings.objectives]
    for option, pattern in named:
        if not fnmatch.filter(known, pattern):
            raise SettingsError(
                f"{option}: {pattern!r} is no signal; signals are {', '.join(known)}"
                f"{did_you_mean(pattern, known)}"
            )
    if settings.judge.model is None and settings.judge.builtin is None:
        for signal, objective in settings.objectives.items():
            if known.get(signal) == "quality":
                raise SettingsError(
                    f"objectives: {signal}={objective:g} is a limit that the built-in judge alone "
                    "cannot hold: its rates are off by up to tens of points, always alike. Name a "
                    "judge, as judge='openai/gpt-4o-mini'; or leave this out: what is usual is "
                    "learned, and a rise beyond that raises the alarm"
                )
    return chosen(judge, settings.alarms.signals)


# --- Exports: what leaves the process, what is replaced in it, who serves it ---


def redactor_of(settings: Settings) -> Redactor:
    """Return what every text passes before a judge or an exporter sees it.

    What may not leave by any other way is kept out of our log from now on, too.

    Raises:
        SettingsError: There is no such redaction.
        MissingExtraError: A redaction needs what is not installed.
    """
    redaction = settings.content.redaction
    if settings.content.shown != "all" or any(each != "secrets" for each in redaction):
        withhold_messages()
    if "secrets" in redaction:
        clean_messages(without_secrets)
    return Redactor(redaction)


def exporters_of(settings: Settings, lost: Callable[[str, int], None]) -> list[Exporter]:
    """Return the places for reports, told of the settings that they heed.

    Args:
        settings: Their field `exporters` names them, or holds them.
        lost: Counts reports that did not arrive, by reason.

    Raises:
        SettingsError: There is no exporter of a name, or it cannot work under these settings.
    """
    exporters = [
        _exporter_named(each) if isinstance(each, str) else each for each in settings.exporters
    ]
    context = ExportContext(
        service=settings.service,
        service_version=settings.service_version,
        content=settings.content.shown,
        hash_key=settings.content.key,
        has_traces=settings.export.traces,
        lost=lost,
    )
    for exporter in exporters:
        if (configure := getattr(exporter, "configure", None)) is not None:
            configure(context)
    return exporters


def _exporter_named(text: str) -> Exporter:
    """Return the exporter that a text such as `phoenix:http://localhost:6006` names."""
    name, _, rest = (part.strip() for part in text.partition(":"))
    make = EXPORTERS.get(name)
    if make is None:
        hint = did_you_mean(name, EXPORTERS, spelt="{}:...")
        known = ", ".join(f"{each}:..." for each in EXPORTERS)
        raise SettingsError(f"exporters: {shown(text)!r} is no exporter; known are {known}{hint}")
    if not rest:
        raise SettingsError(f"exporters: {name!r} needs an address or a file: '{name}:...'")
    return make(rest)


def incidents_of(
    settings: Settings, lost: Callable[[str, int], None], store: Store, *, is_judged: bool
) -> IncidentKeeper:
    """Return what makes incidents of alarms.

    Args:
        settings: The settings.
        lost: Counts notices that did not arrive, by reason.
        store: Where they are.
        is_judged: Whether a judge reads a share of the answers.

    Raises:
        MissingExtraError: Notices need what is not installed.
        SettingsError: An address of theirs is none.
    """
    notifier = None
    if settings.alarms.notify:
        notifier = Notifier(
            [url.get_secret_value() for url in settings.alarms.notify],
            lost=lost,
            page_url=settings.server.page_url,
            language=settings.alarms.notify_language,
        )
    return IncidentKeeper(
        Journal(store, settings.content.shown),
        is_judged=is_judged,
        notices=notifier,
        service=settings.service,
        policy=_content(settings),
        now=store.now,
    )
