"""Is it well, and may one believe the numbers: the dashboard that a page leads to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from boards.panels import (
    BLUE,
    DATASOURCE,
    EVALUATOR,
    GREEN,
    GREY,
    JUDGE,
    JUDGED,
    ORANGE,
    PURPLE,
    RED,
    SERVICE,
    SERVICES,
    WINDOW,
    WINDOWED,
    Board,
    Look,
    Panel,
    Query,
    Row,
    Words,
    evidence_share,
    pooled,
)

MEAN = Words("estimate", "估计值")
UPPER = Words("interval, upper end", "区间上限")
LOWER = Words("interval, lower end", "区间下限")
LIMITS = {True: Words("limit", "容忍上限"), False: Words("limit", "容忍下限")}
"""By whether the signal is a rate of something bad."""


def band(
    *,
    title: Words,
    description: Words,
    at: tuple[int, int, int, int],
    series: str,
    signal: str,
    color: str,
    beside: Sequence[Query] = (),
) -> Panel:
    """Return the panel of one estimate in its interval, and of its alarm's limit.

    Args:
        title: What is estimated.
        description: What to do about it.
        at: Place on the grid.
        series: The mean's name; `_lower`, `_upper` and `_effective_n` follow from it.
        signal: What the alarm calls it. An evaluator's name, where the series has that label.
        color: Of the line and its band.
        beside: What else it shows.
    """
    root = series.removesuffix("_mean")
    selector = WINDOWED if root == series else f'{WINDOWED}, evaluator="{signal}"'
    weight = f"{root}_effective_n"
    edge = Look(in_legend=False, color=color, width=0)
    queries = [
        Query(expr=pooled(series, weight, selector), legend=MEAN, look=Look(color=color, width=2)),
        Query(expr=pooled(f"{root}_lower", weight, selector), legend=LOWER, look=edge),
        Query(
            expr=pooled(f"{root}_upper", weight, selector),
            legend=UPPER,
            look=replace(edge, fill_below_to=LOWER),
        ),
        Query(
            expr=f'max by (service) (ragmonitor_alarm_objective{{{JUDGED}, signal="{signal}"}})',
            legend=LIMITS[root == series],
            look=Look(color=RED, dashed=True),
        ),
    ]
    return Panel(
        kind="lines",
        title=title,
        description=description,
        at=at,
        unit="percentunit",
        low=0,
        queries=(*queries, *beside),
        leads_on=True,
    )


NOW = (
    Panel(
        kind="stat",
        title=Words("Alarms active", "活动告警"),
        description=Words(
            "How many alarms of each service are active. Above 0: open the dashboard"
            " “Investigate” and see which signal moved first.",
            "每个服务正在活动的告警数。大于 0：打开“排查”面板，看哪个信号最先变化。",
        ),
        at=(0, 0, 4, 5),
        unit="none",
        thresholds=((None, GREEN), (1, RED)),
        queries=(
            Query(
                expr=f"sum by (service) (max by (service, signal, judge)"
                f" (ragmonitor_alarm_active{{{SERVICE}}}))",
                legend="{{service}}",
            ),
        ),
        leads_on=True,
    ),
    Panel(
        kind="stat",
        title=Words("Evidence, % of the threshold", "证据，占告警阈值的百分比"),
        description=Words(
            "The strongest evidence of any alarm, as a share of the threshold at which an alarm is"
            " raised. At 100 % it is raised; a steady climb is worth a look before that.",
            "所有告警中最强的证据，占告警阈值的百分比。达到 100 % 即告警；若持续上升，宜提前查看。",
        ),
        at=(4, 0, 4, 5),
        unit="percentunit",
        decimals=0,
        thresholds=((None, GREEN), (0.33, ORANGE), (1, RED)),
        queries=(
            Query(
                expr=evidence_share("max by (service)", floor=0),
                legend="{{service}}",
            ),
        ),
        leads_on=True,
    ),
    Panel(
        kind="stat",
        title=Words("Hallucination rate", "幻觉率"),
        description=Words(
            "Share of answers with at least one unsupported sentence, over the window. A number"
            " without its interval: look at it together with the panel below and with “Effective"
            " sample size”.",
            "窗口内至少有一句无依据的回答占比。此处没有区间：请结合下方图表与“有效样本量”一起看。",
        ),
        at=(8, 0, 4, 5),
        unit="percentunit",
        decimals=1,
        queries=(
            Query(
                expr=pooled(
                    "ragmonitor_hallucination_rate",
                    "ragmonitor_hallucination_rate_effective_n",
                    WINDOWED,
                ),
                legend="{{service}}",
            ),
        ),
    ),
    Panel(
        kind="stat",
        title=Words("Faithfulness", "忠实度"),
        description=Words(
            "Mean share of an answer's claims that its chunks support, over the window. Look at it"
            " together with its interval below.",
            "窗口内，回答中有检索片段支持的论断的平均占比。请结合下方的区间一起看。",
        ),
        at=(12, 0, 4, 5),
        unit="percentunit",
        decimals=1,
        queries=(
            Query(
                expr=pooled(
                    "ragmonitor_score_mean",
                    "ragmonitor_score_effective_n",
                    f'{WINDOWED}, evaluator="faithfulness"',
                ),
                legend="{{service}}",
            ),
        ),
    ),
    Panel(
        kind="stat",
        title=Words("Effective sample size", "有效样本量"),
        description=Words(
            "How many answers, drawn at random and judged, would tell as much about the"
            " hallucination rate. Below 20 the interval says little: raise the budget, or look at"
            " the 24h window.",
            "相当于多少条随机抽取并评审的回答。低于 20 时区间说明不了什么：提高预算，或改看 24h"
            " 窗口。",
        ),
        at=(16, 0, 4, 5),
        unit="short",
        decimals=0,
        thresholds=((None, RED), (5, ORANGE), (20, GREEN)),
        queries=(
            Query(
                expr=f"sum by (service) (ragmonitor_hallucination_rate_effective_n{{{WINDOWED}}})",
                legend="{{service}}",
            ),
        ),
    ),
    Panel(
        kind="stat",
        title=Words("Since the last score", "距上次评分"),
        description=Words(
            "Age of the judge's newest score. Old while there is traffic: judging stopped; see"
            " “Judge and pipeline”.",
            "评审最近一次打分距今多久。有流量却很久没有：评审已停，请看“评审与流水线”。",
        ),
        at=(20, 0, 4, 5),
        unit="s",
        decimals=0,
        thresholds=((None, GREEN), (900, ORANGE), (3600, RED)),
        queries=(
            Query(
                expr="time() - max by (service)"
                f" (ragmonitor_last_score_timestamp_seconds{{{JUDGED}}})",
                legend="{{service}}",
            ),
        ),
    ),
)

PER_SERVICE = (
    band(
        title=Words("Hallucination rate", "幻觉率"),
        description=Words(
            "Share of answers with an unsupported sentence, in its 95 % interval. It is bad when"
            " the lower end is above the limit: open “Investigate”. Grey: answers whose findings"
            " are all minor; they raise no alarm by themselves. A wide band means too"
            " few judged answers, or many that were not observed: see the coverage. Where that is"
            " below half nothing is shown.",
            "含无依据句子的回答占比及其 95 % 区间。当区间下限高于容忍上限时才算变差：打开“排查”。"
            "灰线：问题均属轻微的回答，本身不会告警。"
            "区间很宽说明评审的回答太少，或有许多回答未被观测：看覆盖率。"
            "覆盖率低于一半时不显示。",
        ),
        at=(0, 6, 12, 8),
        series="ragmonitor_hallucination_rate",
        signal="hallucination",
        color=ORANGE,
        beside=(
            Query(
                expr=pooled(
                    "ragmonitor_minor_hallucination_rate",
                    "ragmonitor_minor_hallucination_rate_effective_n",
                    WINDOWED,
                ),
                legend=Words("only minor findings", "仅轻微问题"),
                look=Look(color=GREY),
            ),
        ),
    ),
    Panel(
        kind="lines",
        title=Words("Evidence of the alarms, % of the threshold", "告警证据，占告警阈值的百分比"),
        description=Words(
            "At 100 % an alarm is raised: look at which signal crossed the threshold first. While"
            " every objective is met, all alarms together reach an evidence of N days at most once"
            " in N days; the threshold is 30 days unless set.",
            "达到 100 % 即告警：先看最早越过阈值的信号。各目标均达成时，所有告警合计平均至多每 N 天"
            "达到 N 天的证据一次；阈值默认为 30 天。",
        ),
        at=(12, 6, 12, 8),
        unit="percentunit",
        low=0.001,
        logarithmic=True,
        queries=(
            Query(
                expr=evidence_share("max by (service, signal)"),
                legend="{{signal}}",
            ),
            Query(
                expr=f"0 * max by (service) (ragmonitor_alarm_threshold_seconds{{{SERVICE}}}) + 1",
                legend=Words("threshold", "告警阈值"),
                look=Look(color=RED, dashed=True, width=2),
            ),
        ),
        leads_on=True,
    ),
    band(
        title=Words("Faithfulness", "忠实度"),
        description=Words(
            "Mean share of an answer's claims that its chunks support, in its 95 % interval. Bad"
            " when the upper end is below the limit: look at the diagnoses in"
            " “Investigate”.",
            "论断有检索片段支持的平均占比及其 95 % 区间。当区间上限低于容忍下限时才算变差："
            "看“排查”中的诊断。",
        ),
        at=(0, 14, 8, 7),
        series="ragmonitor_score_mean",
        signal="faithfulness",
        color=BLUE,
    ),
    band(
        title=Words("Answer relevancy", "回答相关性"),
        description=Words(
            "How far answers speak to the question, in a 95 % interval. Falling alone, with"
            " faithfulness steady: the prompt or the model changed, not the retrieval.",
            "回答切题的程度及其 95 % 区间。若只有它下降而忠实度平稳：是提示词或模型变了，"
            "而不是检索。",
        ),
        at=(8, 14, 8, 7),
        series="ragmonitor_score_mean",
        signal="answer_relevancy",
        color=GREEN,
    ),
    band(
        title=Words("Context relevance", "上下文相关性"),
        description=Words(
            "How far the retrieved chunks speak to the question, in a 95 % interval. Falling: look"
            " at the index, the embedding model and the retrieval panels in “Investigate”.",
            "检索到的片段与问题的相关程度及其 95 % 区间。下降：检查索引、向量模型，"
            "以及“排查”中的检索图表。",
        ),
        at=(16, 14, 8, 7),
        series="ragmonitor_score_mean",
        signal="context_relevance",
        color=PURPLE,
    ),
    band(
        title=Words("Refusals", "拒答率"),
        description=Words(
            "Share of answers that decline, in its 95 % interval. A surge with the chunks in place"
            " is a wrong refusal (model or prompt); with empty retrievals it is the index.",
            "拒答占比及其 95 % 区间。检索正常却激增，是错误拒答（模型或提示词）；"
            "检索为空则是索引的问题。",
        ),
        at=(0, 21, 8, 7),
        series="ragmonitor_refusal_rate",
        signal="refusal",
        color=ORANGE,
    ),
    Panel(
        kind="lines",
        title=Words("Coverage: share scored", "覆盖率：已评分占比"),
        description=Words(
            "Blue: the share of the window's answers that the hallucination rate speaks of; what is"
            " missing there widens its interval, and below half the rate is not shown. Red: answers"
            " that had no chance. The others: evaluations that gave a score, by judge. A model only"
            " scores its sample, so its line is low by design; a fall of the built-in judge's line"
            " means that capture is incomplete.",
            "蓝线：窗口内幻觉率所代表的回答占比；缺少的部分会使区间变宽，低于一半时不显示幻觉率。"
            "红线：没有机会被评审的回答。其余：打出分数的评估占比（按评审）。"
            "大模型只读抽样，因此低是正常的；内置评审的线下降，说明采集不完整。",
        ),
        at=(8, 21, 8, 7),
        unit="percentunit",
        low=0,
        high=1,
        queries=(
            Query(
                expr="sum by (service, judge) (rate(ragmonitor_evaluations_total"
                f'{{{SERVICE}, evaluator=~"$evaluator", outcome="scored"}}[$__rate_interval]))'
                " / sum by (service, judge) (rate(ragmonitor_evaluations_total"
                f'{{{SERVICE}, evaluator=~"$evaluator"}}[$__rate_interval]))',
                legend=Words("scored by {{judge}}", "{{judge}} 已评分"),
            ),
            Query(
                expr="sum by (service) (increase(ragmonitor_judged_answers_total"
                f'{{{JUDGED}, signal="hallucination"}}[$window]))'
                " / sum by (service) (increase(ragmonitor_answers_total"
                f'{{{JUDGED}, signal="hallucination"}}[$window]))',
                legend=Words("judged for hallucination, over the window", "窗口内参与幻觉评审"),
                look=Look(width=2),
            ),
            Query(
                expr=(
                    f"min by (service) (ragmonitor_hallucination_rate_coverage_ratio{{{WINDOWED}}})"
                ),
                legend=Words("the hallucination rate speaks of", "幻觉率所代表的回答"),
                look=Look(color=BLUE, width=2),
            ),
            Query(
                expr=f"max by (service) (ragmonitor_uncovered_ratio{{{WINDOWED}}})",
                legend=Words("had no chance of being judged", "没有被评审的机会"),
                look=Look(color=RED, dashed=True),
            ),
        ),
    ),
    Panel(
        kind="stacked",
        title=Words("Why drawn answers have no score", "抽中却未评分的原因"),
        description=Words(
            "Evaluations without a score by cause, per minute; those that were only not sampled"
            " are left out. refusal and no_claims are normal; judge_error, judge_timeout and"
            " unreadable ask for a look at the judge, over_budget for a larger budget,"
            " capture_incomplete for a look at the integration.",
            "每分钟未评分的次数，按原因（不含未抽中）。refusal 与 no_claims 属正常；"
            "judge_error、judge_timeout、unreadable 请查看评审；over_budget 说明预算不足；"
            "capture_incomplete 请检查集成。",
        ),
        at=(16, 21, 8, 7),
        unit="opm",
        low=0,
        queries=(
            Query(
                expr="60 * sum by (service, outcome) (rate(ragmonitor_evaluations_total"
                f'{{{JUDGED}, evaluator=~"$evaluator", outcome!~"scored|not_sampled"}}'
                "[$__rate_interval]))",
                legend="{{outcome}}",
            ),
        ),
    ),
    Panel(
        kind="stacked",
        title=Words("Traffic", "流量"),
        description=Words(
            "Interactions per minute by how they ended. Rising errors are the application's own;"
            " rising cancelled or partial: users do not wait for the end.",
            "每分钟的交互数，按结束方式。error 上升是应用自身的问题；cancelled 或 partial 上升："
            "用户等不到结束。",
        ),
        at=(0, 28, 8, 7),
        unit="reqpm",
        low=0,
        queries=(
            Query(
                expr="60 * sum by (service, status)"
                f" (rate(ragmonitor_interactions_total{{{SERVICE}}}[$__rate_interval]))",
                legend="{{status}}",
            ),
        ),
    ),
    Panel(
        kind="lines",
        title=Words("Latency, question to last token", "延迟：从提问到最后一个 Token"),
        description=Words(
            "Half, and 95 % of the interactions took at most this long. Dots are single"
            " interactions: a click opens the trace, where the slow step shows.",
            "一半以及 95 % 的交互耗时不超过此值。圆点是单次交互：点击可打开链路，查看慢在哪一步。",
        ),
        at=(8, 28, 8, 7),
        unit="s",
        low=0,
        queries=tuple(
            Query(
                expr=f"histogram_quantile({quantile}, sum by (service, le)"
                f" (rate(ragmonitor_interaction_seconds_bucket{{{SERVICE}}}[$__rate_interval])))",
                legend=legend,
                exemplars=quantile == "0.95",
            )
            for quantile, legend in (("0.5", "p50"), ("0.95", "p95"))
        ),
    ),
    Panel(
        kind="lines",
        title=Words("Spent, of the budget", "预算已用比例"),
        description=Words(
            "What judging cost in the last hour and day as a share of its limits, over all"
            " processes. At 100 % judging pauses and the sample shrinks, no page is lost: raise the"
            " budget or accept wider intervals.",
            "最近一小时与一天的评审花费占限额的比例（所有进程合计）。到 100 % 时评审暂停、"
            "样本变小，"
            "但不会漏报：提高预算，或接受更宽的区间。",
        ),
        at=(16, 28, 8, 7),
        unit="percentunit",
        low=0,
        thresholds=((None, GREEN), (0.8, ORANGE), (1, RED)),
        lines_at_thresholds=True,
        if_empty=Words("No judge that costs anything", "没有需要花费的评审"),
        queries=(
            Query(
                expr=" or ".join(
                    f"sum by (service) (increase({counter}{{{SERVICE}}}[{window}]))"
                    " / on (service) group_right () max by (service, unit, per)"
                    f' (ragmonitor_budget_limit{{{SERVICE}, unit="{unit}", per="{per}"}})'
                    for unit, counter in (
                        ("usd", "ragmonitor_judge_cost_usd_total"),
                        ("tokens", "ragmonitor_judge_tokens_total"),
                        ("calls", "ragmonitor_judge_calls_total"),
                    )
                    for per, window in (("hour", "1h"), ("day", "1d"))
                ),
                legend=Words("{{unit}} per {{per}}", "{{unit}} / {{per}}"),
            ),
        ),
    ),
)

OVERVIEW = Board(
    uid="ragmonitor-overview",
    title=Words("ragmonitor / Overview", "ragmonitor / 总览"),
    description=Words(
        "Are the answers well, and may one believe the numbers? One row of panels for each"
        " service.",
        "回答是否正常，数字是否可信？每个服务一组图表。",
    ),
    since="now-24h",
    variables=(DATASOURCE, SERVICES, JUDGE, EVALUATOR, WINDOW),
    contents=(*NOW, Row(title="$service", y=5, repeat="service"), *PER_SERVICE),
)
