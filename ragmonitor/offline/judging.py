"""Which judge an offline run has, and what it may cost."""

from __future__ import annotations

from dataclasses import dataclass

from ragmonitor.errors import SettingsError
from ragmonitor.judges import LexicalJudge, LlmJudge
from ragmonitor.judges.builtin import Limits
from ragmonitor.judges.pricing import priced_in
from ragmonitor.offline.scoring import RunBudget
from ragmonitor.protocols import Judge, PricedJudge
from ragmonitor.settings import Settings

LEXICAL = "builtin"


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeConfig:
    """A judge with its means."""

    judge: Judge
    run_budget: RunBudget | None
    """None: it costs nothing."""
    concurrency: int
    within_s: float = 60.0
    """For an evaluator's own question to the judge."""


def judging_of(
    judge: Judge | str | None,
    *,
    budget_usd: float | None = None,
    budget_tokens: int | None = None,
    concurrency: int | None = None,
    api_base: str | None = None,
    builtin_max_characters: int | None = None,
) -> JudgeConfig:
    """Return who judges, within which budget.

    Args:
        judge: None or `builtin`: the built-in judge. Another text: a model, as litellm names it,
            with the settings of a monitor's. Else it is taken as it is.
        budget_usd: The most that a run may spend, in dollars. What costs money needs a budget.
        budget_tokens: The same, in tokens.
        concurrency: Readings in flight; None: the setting `judge.concurrency`.
        api_base: Address of an OpenAI-compatible server; None: the setting `judge.api_base`.
        builtin_max_characters: Most characters of question, chunks and answer together that the
            built-in judge reads; None: the setting `judge.builtin_max_characters`.

    Raises:
        SettingsError: There is no budget, or there are two, or the judge cannot say what it costs
            in the budget's unit; or a setting is wrong.
    """
    if judge is None or judge == LEXICAL:
        # A monitor's model, which would need a budget, has no part in this.
        most = builtin_max_characters or Settings.load(judge="").judge.builtin_max_characters
        return JudgeConfig(
            judge=LexicalJudge(Limits(max_characters=most)), run_budget=None, concurrency=1
        )
    run_budget = _purse(budget_usd, budget_tokens)
    if not isinstance(judge, str):
        if run_budget is not None:
            judge = priced_in(judge, run_budget.unit)
        elif isinstance(judge, PricedJudge) and judge.budget_unit is not None:
            raise _no_budget(judge.identity.name)
        return JudgeConfig(judge=judge, run_budget=run_budget, concurrency=concurrency or 8)
    settings = Settings.load()
    if run_budget is None:
        raise _no_budget(judge)
    made = LlmJudge(
        judge,
        api_base=api_base or settings.judge.api_base,
        timeout_s=settings.judge.timeout_s,
        reading_timeout_s=settings.judge.reading_timeout_s,
        reply_format=settings.judge.reply_format,
        tokens_per_call=settings.judge.tokens_per_call,
        max_calls=settings.judge.max_calls,
        input_usd_per_million_tokens=settings.judge.input_usd_per_million_tokens,
        output_usd_per_million_tokens=settings.judge.output_usd_per_million_tokens,
        budget_unit=run_budget.unit,
    )
    return JudgeConfig(
        judge=made,
        run_budget=run_budget,
        concurrency=concurrency or settings.judge.concurrency,
        within_s=settings.judge.reading_timeout_s or 2 * settings.judge.timeout_s,
    )


def _purse(budget_usd: float | None, budget_tokens: int | None) -> RunBudget | None:
    if budget_usd is not None and budget_tokens is not None:
        raise SettingsError("give one budget: budget_usd or budget_tokens")
    if budget_usd is not None:
        return RunBudget(total=budget_usd, unit="usd")
    if budget_tokens is not None:
        return RunBudget(total=budget_tokens, unit="tokens")
    return None


def _no_budget(name: str) -> SettingsError:
    return SettingsError(
        f"judge {name} costs money and has no budget; add budget_usd=X or budget_tokens=N, the "
        "most this run may spend"
    )
