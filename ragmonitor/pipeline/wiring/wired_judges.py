"""Makes judges of settings: who scores every answer, who scores a share, what it may cost."""

from __future__ import annotations

import time
from functools import cache, partial
from importlib.util import find_spec
from typing import Final

from ragmonitor.evaluators import table
from ragmonitor.judges import JUDGES, BuiltinJudge, EncoderJudge, LlmJudge
from ragmonitor.judges.every_answer import EveryAnswerReader
from ragmonitor.judges.kept_replies import KeepingJudge, KeptReplies
from ragmonitor.pipeline.golden_reading import BUDGET_SHARE, GoldenBudget, GoldenReader
from ragmonitor.pipeline.judging import JUDGE_GRACE_S, JudgeConfig
from ragmonitor.records import is_builtin
from ragmonitor.redaction import Redact
from ragmonitor.runtime.addresses import shown
from ragmonitor.runtime.capabilities import CapableJudge, as_judge
from ragmonitor.runtime.errors import SettingsError, did_you_mean
from ragmonitor.runtime.guard import logger
from ragmonitor.runtime.prices import Prices, litellm_price
from ragmonitor.runtime.protocols import (
    Judge,
)
from ragmonitor.sampling import AdaptiveSampler, spent_in
from ragmonitor.settings import Settings
from ragmonitor.store import Budget, Memory, Store

ALWAYS: Final = ("ragmonitor:judge", "user_feedback")
"""Tags, or names of attributes, of answers that are judged for certain, budget permitting."""
CONCURRENCY: Final = 8
"""Answers that the judge reads at once."""


def builtin_judge() -> CapableJudge:
    """Return the rules, which read every answer."""
    return as_judge(BuiltinJudge())


def encoder_of(settings: Settings) -> EncoderJudge | None:
    """Return the encoder that the setting `judge.builtin` names; None: it names none."""
    named = settings.judge.builtin
    if not isinstance(named, str):
        return None
    return EncoderJudge(named.partition(":")[2])


def reader_of(settings: Settings) -> EveryAnswerReader | None:
    """Return what reads every answer slowly; None: the built-in rules read each at once."""
    judge = encoder_of(settings) or settings.judge.builtin
    if judge is None:
        return None
    return EveryAnswerReader(judge)


def judging_of(settings: Settings, store: Store | None = None) -> JudgeConfig | None:
    """Return the judge that reads a share of the answers, with its sampler; None: none does.

    Args:
        settings: The settings.
        store: Where its budget is; None: in memory.

    Raises:
        SettingsError: It costs money and has no budget.
    """
    if settings.judge.model is None:
        return None
    named = settings.judge.name
    judge = _within_budget(
        settings.judge.model if named is None else paid_judge(settings, named), settings
    )
    if named is not None:
        judge = KeepingJudge(judge, KeptReplies())
    if is_builtin(judge.identity.name):
        raise SettingsError(
            f"judge: {judge.identity.name!r} is a name of the built-in judge, which reads every "
            "answer already; their scores would be one series; give the judge's identity another "
            "name"
        )
    _warn_once(judge_doubt(settings))
    asking = sum(entry.asks for entry in table.select(settings.evaluators))
    return JudgeConfig(
        judge=judge,
        sampler=AdaptiveSampler(
            settings.sample.rate,
            clock=time.monotonic,
            budget=budget_of(settings, store),
            # What an evaluator asks is shown no more than a reading is.
            expected_cost=lambda interaction: judge.expected_cost(interaction) * (1 + asking),
            always=ALWAYS,
        ),
        concurrency=CONCURRENCY,
        reading_timeout_s=2 * settings.judge.timeout_s,
        spent=partial(spent_in, settings.budget.unit),
    )


@cache
def _warn_once(doubt: str) -> None:
    if doubt:
        logger.warning("ragmonitor: %s", doubt)


def judge_doubt(settings: Settings) -> str:
    """Return why the judge that the settings name can never read; empty: nothing speaks against it.

    Nobody is asked, and litellm is not imported: its table of prices is looked at.
    """
    named = settings.judge.name
    if named is None or named.partition(":")[0] in JUDGES or find_spec("litellm") is None:
        return ""
    model = named.partition("@")[0]
    provider, _, bare = model.partition("/")
    is_priced = litellm_price(model) is not None
    if not bare and not is_priced:
        return (
            f"judge {shown(named)}: the name has no provider, and litellm does not know it; write "
            f"for example openai/{provider}"
        )
    if settings.budget.usd_per_day is None and settings.budget.usd_per_hour is None:
        return ""
    if is_priced or Prices(settings.estimation.prices).given(model) is not None:
        return ""
    return (
        f"judge {shown(named)}: its price is not known, so a budget in dollars lets it read "
        "nothing; set estimation.prices, or budget.tokens_per_day"
    )


def golden_reader(
    settings: Settings,
    builtin: CapableJudge,
    judging: JudgeConfig | None,
    clean: Redact,
    store: Store | None = None,
) -> GoldenReader:
    """Return what has answers to golden questions judged.

    By the judge of a share of the traffic, where there is one; else by the built-in one.

    Args:
        settings: The settings.
        builtin: The built-in judge.
        judging: The judges of a share of the answers.
        clean: Redacts one text.
        store: Where what they spend is; None: in memory.
    """
    judge, timeout_s = builtin, None
    if judging is not None:
        judge = judging.judge.uncached()
        timeout_s = judging.reading_timeout_s + JUDGE_GRACE_S
    return GoldenReader(
        judge,
        clean=clean,
        timeout_s=timeout_s,
        budget=_golden_budget(settings, judging, store),
    )


def _golden_budget(
    settings: Settings, judging: JudgeConfig | None, store: Store | None
) -> GoldenBudget | None:
    """Return what golden questions may spend of the judges' budget; None: there is none."""
    if judging is None or not settings.budget.is_given:
        return None
    return GoldenBudget(
        sampler=judging.sampler,
        share=_budget(settings, store, "golden", BUDGET_SHARE),
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


def judge_named(settings: Settings, named: str) -> Judge:
    """Return the judge that a text names: `encoder:model` of `JUDGES`, else a model of litellm."""
    name, _, rest = named.partition(":")
    make = JUDGES.get(name)
    if make is None or not rest:
        return _llm_judge(settings, named)
    return make(rest)


def _llm_judge(settings: Settings, named: str) -> LlmJudge:
    """Return the judge of that name: `model`, or `model@http://address` on another server."""
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


def budget_of(settings: Settings, store: Store | None) -> Budget | None:
    """Return what all judges may spend together; None: there is no limit.

    What a process has reserved is taken out at once, for every process, so that nothing is spent
    twice; what one had reserved when it died counts as spent.

    Args:
        settings: The settings.
        store: Where processes share it; None: it is in memory.
    """
    return _budget(settings, store, "judge", 1.0) if settings.budget.is_given else None


def _budget(settings: Settings, store: Store | None, name: str, share: float) -> Budget:
    """Return a budget of a share of the limits."""
    per_day, per_hour = (
        None if limit is None else limit * share for limit in settings.budget.limits
    )
    return Budget(
        Memory() if store is None else store,
        per_day=per_day,
        per_hour=per_hour,
        unit=settings.budget.unit,
        name=name,
    )
