"""The three boards: is it fine, what is bad and why, and does the monitor itself work."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from boards.panels import (
    BLUE,
    DATASOURCE,
    DIMENSION,
    EVALUATOR,
    GREEN,
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
    Column,
    Look,
    Panel,
    Query,
    Row,
    State,
    Words,
    evidence_share,
    gained,
    mean_of_all,
    or_zero,
    shown,
)

lines = partial(Panel, kind="lines", unit="percentunit", low=0)
stacked = partial(Panel, kind="stacked", unit="percentunit", low=0)
stat = partial(Panel, kind="stat")
heatmap = partial(Panel, kind="heatmap")
table = partial(Panel, kind="table", unit="none")

RATE = "[$__rate_interval]"
UPPER = Words("interval, upper end", "区间上限")
LOWER = Words("interval, lower end", "区间下限")
BY_GROUP = "service, dimension, group"
GROUP_RATE = "ragmonitor_group_hallucination_rate"
SINCE = f"max by (service, signal, judge) (ragmonitor_alarm_since_timestamp_seconds{{{SERVICE}}})"
RISE_MEAN = (
    f'max by (service, signal, judge) (ragmonitor_alarm_rise_mean{{{SERVICE}, side="since"}})'
)
OFF_ON = (
    State(value=0, text=Words("quiet", "正常"), color=GREEN),
    State(value=1, text=Words("ALARM", "告警"), color=RED),
)


def band(
    title: Words,
    description: Words,
    at: tuple[int, int, int, int],
    *,
    series: str,
    signal: str,
    color: str,
) -> Panel:
    """Return the panel of one estimate in its interval, and of its alarm's limit.

    Args:
        title: The question that it answers.
        description: What to do about it.
        at: Place on the grid.
        series: The mean's name; `_lower` and `_upper` follow from it.
        signal: What the alarm calls it. An evaluator's name, where the series has that label.
        color: Of the line and its band.
    """
    root = series.removesuffix("_mean")
    selector = WINDOWED if root == series else f'{WINDOWED}, evaluator="{signal}"'
    edge = Look(in_legend=False, color=color, width=0)
    objective = f'ragmonitor_alarm_objective{{{JUDGED}, signal="{signal}"}}'
    queries = (
        Query(
            expr=shown(series, selector),
            legend=Words("estimate", "估计值"),
            look=Look(color=color, width=2),
        ),
        Query(expr=shown(f"{root}_lower", selector), legend=LOWER, look=edge),
        Query(
            expr=shown(f"{root}_upper", selector),
            legend=UPPER,
            look=replace(edge, fill_below_to=LOWER),
        ),
        Query(
            expr=f"max by (service) ({objective})",
            legend=Words("limit", "容忍上限"),
            look=Look(color=RED, dashed=True),
        ),
    )
    return lines(
        title=title,
        description=description,
        at=at,
        queries=queries,
        leads_on=True,
    )


def quantiles(series: str, by: str, legend: str, *, exemplars: bool = False) -> tuple[Query, ...]:
    """Return half and 95 % of a histogram of seconds."""
    return tuple(
        Query(
            expr=f"histogram_quantile({quantile}, sum by ({by}, le)"
            f" (rate({series}_bucket{{{SERVICE}}}{RATE})))",
            legend=f"{legend} · {name}",
            exemplars=exemplars,
        )
        for quantile, name in (("0.5", "p50"), ("0.95", "p95"))
    )


def per_minute(series: str, by: str, selector: str, legend: str) -> Query:
    """Return a counter's rate, per minute."""
    return Query(expr=f"60 * sum by ({by}) (rate({series}{{{selector}}}{RATE}))", legend=legend)


# --- overview -------------------------------------------------------------------------------------

OVERVIEW = Board(
    uid="ragmonitor-overview",
    title=Words("ragmonitor / Overview", "ragmonitor / 总览"),
    description=Words(
        "Is it fine? A row for each service, those with alarms first.",
        "是否正常？每个服务一行，有告警的在前。",
    ),
    since="now-24h",
    variables=(DATASOURCE, SERVICES, JUDGE, EVALUATOR, WINDOW),
    contents=(
        Row(title="$service", y=0, repeat="service"),
        stat(
            title=Words("Is an alarm raised?", "有告警吗？"),
            description=Words(
                "Active alarms. Above 0: open “Investigate” and see which signal moved first.",
                "正在活动的告警数。大于 0：打开“排查”，看哪个信号最先变化。",
            ),
            at=(0, 1, 6, 4),
            unit="none",
            thresholds=((None, GREEN), (1, RED)),
            queries=(
                Query(
                    expr="sum by (service) (max by (service, signal, judge)"
                    f" (ragmonitor_alarm_active{{{SERVICE}}}))",
                    legend="{{service}}",
                ),
            ),
            leads_on=True,
        ),
        stat(
            title=Words("How near is an alarm?", "离告警还有多远？"),
            description=Words(
                "The strongest evidence, in percent of the threshold. At 100 % an alarm is raised.",
                "最强的证据，占告警阈值的百分比。达到 100 % 即告警。",
            ),
            at=(6, 1, 6, 4),
            unit="percentunit",
            decimals=0,
            high=1,
            thresholds=((None, GREEN), (0.33, ORANGE), (1, RED)),
            queries=(
                Query(
                    expr=evidence_share("max by (service)", 0, 1),
                    legend="{{service}}",
                ),
            ),
            leads_on=True,
        ),
        stat(
            title=Words("How many verdicts is it based on?", "依据多少条结论？"),
            description=Words(
                "Judged answers in the window. Below 20 the interval says little: raise the"
                " budget, or look at the 24h window.",
                "窗口内评审过的回答数。低于 20 时区间说明不了什么：提高预算，或改看 24h 窗口。",
            ),
            at=(12, 1, 6, 4),
            unit="short",
            decimals=0,
            thresholds=((None, RED), (5, ORANGE), (20, GREEN)),
            queries=(
                Query(
                    expr="sum by (service) (increase(ragmonitor_judged_answers_total"
                    f'{{{JUDGED}, signal="hallucination"}}[$window]))',
                    legend="{{service}}",
                ),
            ),
        ),
        stat(
            title=Words("How old is the newest score?", "最近一次评分距今多久？"),
            description=Words(
                "Old while there is traffic: judging stopped; see “Pipeline”.",
                "有流量却很久没有：评审已停，请看“流水线”。",
            ),
            at=(18, 1, 6, 4),
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
        band(
            Words("How many answers are hallucinated?", "多少回答出现幻觉？"),
            Words(
                "Share of answers with an unsupported sentence, in its 95 % interval. It is bad"
                " when the lower end is above the limit. A wide band: too few judged answers, or"
                " many without a verdict.",
                "含无依据句子的回答占比及其 95 % 区间。区间下限高于容忍上限时才算变差。"
                "区间很宽：评审的回答太少，或许多没有结论。",
            ),
            (0, 5, 12, 8),
            series="ragmonitor_hallucination_rate",
            signal="hallucination",
            color=ORANGE,
        ),
        band(
            Words("How faithful are answers to their chunks?", "回答忠实于检索片段吗？"),
            Words(
                "Mean share of an answer's claims that its chunks support, in its 95 % interval."
                " Bad when the upper end is below the limit: look at the diagnoses in"
                " “Investigate”.",
                "论断有检索片段支持的平均占比及其 95 % 区间。区间上限低于容忍下限时才算变差："
                "看“排查”中的诊断。",
            ),
            (12, 5, 12, 8),
            series="ragmonitor_score_mean",
            signal="faithfulness",
            color=BLUE,
        ),
        band(
            Words("How relevant are chunks to the question?", "检索片段与问题相关吗？"),
            Words(
                "Mean context relevance in its 95 % interval. Falling: look at the index, the"
                " embedding model and retrieval in “Investigate”.",
                "上下文相关性的均值及其 95 % 区间。下降：检查索引、向量模型，以及“排查”中的检索。",
            ),
            (0, 13, 8, 7),
            series="ragmonitor_score_mean",
            signal="context_relevance",
            color=PURPLE,
        ),
        band(
            Words("How many questions are declined?", "多少问题被拒答？"),
            Words(
                "Share of answers that decline, in its 95 % interval. A surge with the chunks in"
                " place is a wrong refusal; with empty retrievals it is the index.",
                "拒答占比及其 95 % 区间。检索正常却激增，是错误拒答；检索为空则是索引的问题。",
            ),
            (8, 13, 8, 7),
            series="ragmonitor_refusal_rate",
            signal="refusal",
            color=ORANGE,
        ),
        stacked(
            title=Words("How much traffic is there?", "流量有多少？"),
            description=Words(
                "Interactions per minute by how they ended. Rising errors are the application's"
                " own; rising cancelled or partial: users do not wait for the end.",
                "每分钟的交互数，按结束方式。error 上升是应用自身的问题；cancelled 或 partial"
                " 上升：用户等不到结束。",
            ),
            at=(16, 13, 8, 7),
            unit="reqpm",
            queries=(
                per_minute(
                    "ragmonitor_interactions_total", "service, status", SERVICE, "{{status}}"
                ),
            ),
        ),
    ),
)

# --- investigate ----------------------------------------------------------------------------------

INVESTIGATE = Board(
    uid="ragmonitor-investigate",
    title=Words("ragmonitor / Investigate", "ragmonitor / 排查"),
    description=Words(
        "What moved first, in which answers, and whose: from the alarm to the trace.",
        "什么最先变化、在哪些回答里、谁的回答：从告警到链路。",
    ),
    since="now-6h",
    variables=(DATASOURCE, SERVICES, JUDGE, EVALUATOR, WINDOW, DIMENSION),
    contents=(
        Row(title=Words("What, and since when", "什么，从何时起"), y=0),
        lines(
            title=Words("Which signal moved first?", "哪个信号最先变化？"),
            description=Words(
                "Evidence of every alarm in percent of its threshold. Retrieval first: the index or"
                " the traffic changed. Quality first: the prompt or the model. The judge first:"
                " trust no quality alarm before the judge is checked.",
                "各告警的证据，占告警阈值的百分比。检索先动：索引或流量变了；质量先动：提示词或模型；"
                "评审先动：先查评审，再信质量告警。",
            ),
            at=(0, 1, 14, 9),
            low=0.001,
            logarithmic=True,
            queries=(
                Query(
                    expr=evidence_share("max by (service, signal, kind)", 0.001, 2),
                    legend="{{service}} · {{kind}} · {{signal}}",
                ),
                Query(
                    expr=f"0 * max(ragmonitor_alarm_threshold_seconds{{{SERVICE}}}) + 1",
                    legend=Words("threshold", "告警阈值"),
                    look=Look(color=RED, dashed=True, width=2),
                ),
            ),
        ),
        table(
            title=Words("Which alarms are raised, and since when?", "哪些告警，从何时起？"),
            description=Words(
                "Each alarm's limit, the mean since the rise began, and since when it is active.",
                "每个告警的容忍上限、上升以来的均值，以及自何时起活动。",
            ),
            at=(14, 1, 10, 5),
            queries=tuple(
                Query(expr=expr, legend="{{signal}}")
                for expr in (
                    f"max by (service, signal, judge) (ragmonitor_alarm_active{{{SERVICE}}})",
                    f"max by (service, signal, judge) (ragmonitor_alarm_objective{{{SERVICE}}})",
                    RISE_MEAN,
                    f"1000 * ({SINCE} > 0)",
                )
            ),
            columns=(
                Column(name="service", title=Words("Service", "服务")),
                Column(name="signal", title=Words("Signal", "信号")),
                Column(name="judge", title=Words("Judge", "评审")),
                Column(name="Value #A", title=Words("State", "状态"), states=OFF_ON),
                Column(name="Value #B", title=Words("Limit", "容忍上限"), decimals=3),
                Column(name="Value #C", title=Words("Mean", "均值"), decimals=3),
                Column(
                    name="Value #D",
                    title=Words("Since", "开始于"),
                    unit="dateTimeAsLocalNoDateIfToday",
                ),
            ),
            sorted_by=Words("State", "状态"),
        ),
        table(
            title=Words("What does the incident say?", "事件报告怎么说？"),
            description=Words(
                "A click opens the newest incident on the service's own page: since when, because"
                " of what, the worst answers. Services whose server.ui_url is set.",
                "点击打开该服务页面上最新的事件报告：自何时起、原因、最差的回答。"
                "仅含设置了 server.ui_url 的服务。",
            ),
            at=(14, 6, 10, 4),
            if_empty=Words("No address of a page is set", "未设置页面地址"),
            queries=(
                Query(
                    expr=f"max by (service, url) (ragmonitor_page_info{{{SERVICE}}})",
                    legend="{{service}}",
                ),
            ),
            columns=(
                Column(name="service", title=Words("Service", "服务")),
                Column(
                    name="url",
                    title=Words("Newest incident", "最新事件报告"),
                    link="${__value.raw}incidents/latest",
                ),
            ),
        ),
        Row(title=Words("Which answers", "哪些回答"), y=10),
        heatmap(
            title=Words("How are scores distributed: $evaluator?", "分数如何分布：$evaluator？"),
            description=Words(
                "A second cloud at the bottom: something happened to some answers. A slow slide of"
                " the whole cloud: drift. Each diamond is one answer: a click opens its trace.",
                "底部出现第二团，是部分回答出事；整团缓慢下移，是漂移。每个菱形是一条回答：点击打开链路。",
            ),
            at=(0, 11, 12, 8),
            unit="percentunit",
            repeat="evaluator",
            queries=(
                Query(
                    expr="sum by (le) (increase(ragmonitor_score_bucket"
                    f'{{{JUDGED}, evaluator="$evaluator"}}{RATE}))',
                    legend="{{le}}",
                    exemplars=True,
                ),
            ),
        ),
        stacked(
            title=Words("What went wrong with them?", "它们出了什么问题？"),
            description=Words(
                "Share of judged answers by diagnosis. retrieval_miss, refusal: look at the index;"
                " unsupported_addition, contradiction, ignored_context: at the prompt and the"
                " model; wrong_refusal: at the system prompt; off_topic: at the routing.",
                "被评审回答中各诊断的占比。retrieval_miss、refusal：查索引；unsupported_addition、"
                "contradiction、ignored_context：查提示词与模型；wrong_refusal：查系统提示词；"
                "off_topic：查路由。",
            ),
            at=(12, 19, 12, 8),
            queries=(
                Query(
                    expr="sum by (diagnosis) (rate(ragmonitor_diagnoses_total"
                    f'{{{JUDGED}, diagnosis!="ok"}}{RATE})) / ignoring (diagnosis)'
                    f" group_left () sum (rate(ragmonitor_diagnoses_total{{{JUDGED}}}{RATE}))",
                    legend="{{diagnosis}}",
                ),
            ),
        ),
        lines(
            title=Words(
                "Whose answers are hallucinated, by $dimension?",
                "谁的回答出现幻觉，按 $dimension？",
            ),
            description=Words(
                "One group alone: look at what is special to it. All at once: at what they share.",
                "只有一组变差：看它特有的东西；全部变差：看它们共有的。",
            ),
            at=(0, 27, 12, 8),
            repeat="dimension",
            if_empty=Words("Answers are not split by anything yet", "尚未按任何维度拆分"),
            queries=(
                Query(
                    expr=shown(
                        GROUP_RATE,
                        f'{WINDOWED}, dimension="$dimension"',
                        by="service, group",
                    ),
                    legend="{{service}} · {{group}}",
                ),
            ),
        ),
        table(
            title=Words("Which group is surely worse?", "哪一组确实更差？"),
            description=Words(
                "Each group's rate in its 95 % interval, sorted by the lower end. Few answers: a"
                " wide interval, no conclusion.",
                "各组的幻觉率及 95 % 区间，按下限排序。回答太少则区间很宽，不下结论。",
            ),
            at=(0, 19, 12, 8),
            if_empty=Words("Answers are not split by anything yet", "尚未按任何维度拆分"),
            queries=tuple(
                Query(
                    expr=shown(
                        series,
                        f'{WINDOWED}, dimension=~"$dimension"{bound}',
                        by=BY_GROUP,
                    ),
                    legend="{{group}}",
                )
                for series, bound in (
                    (f"{GROUP_RATE}_bound", ', bound="lower"'),
                    (GROUP_RATE, ""),
                    (f"{GROUP_RATE}_bound", ', bound="upper"'),
                )
            ),
            columns=(
                Column(name="service", title=Words("Service", "服务")),
                Column(name="dimension", title=Words("Split by", "维度")),
                Column(name="group", title=Words("Group", "组")),
                *(
                    Column(name=f"Value #{name}", title=title, unit="percentunit", decimals=1)
                    for name, title in (
                        ("A", Words("Lower end", "下限")),
                        ("B", Words("Rate", "幻觉率")),
                        ("C", Words("Upper end", "上限")),
                    )
                ),
            ),
            sorted_by=Words("Lower end", "下限"),
        ),
        Row(title=Words("Retrieval, time, money", "检索、耗时、费用"), y=35),
        lines(
            title=Words("Is retrieval empty or weak?", "检索为空或变弱吗？"),
            description=Words(
                "Share of questions for which nothing was found, or whose best chunk was weaker"
                " than usual. Empty: index or filter. Weak: the embedding, or new questions.",
                "没有检索到、或最好的片段比平时更弱的问题占比。空：索引或过滤条件；弱：向量模型，或新的问题。",
            ),
            at=(0, 36, 8, 8),
            queries=tuple(
                Query(expr=mean_of_all(signal), legend=legend)
                for signal, legend in (
                    ("empty_retrieval", Words("{{service}} · empty", "{{service}} · 空检索")),
                    ("weak_retrieval", Words("{{service}} · weak", "{{service}} · 弱检索")),
                )
            ),
        ),
        heatmap(
            title=Words("How many chunks does the model see?", "模型看到多少片段？"),
            description=Words(
                "A new band at 0: nothing is found; a lower band after a deployment: the limit or a"
                " filter changed.",
                "0 处出现新带：检索不到；发布后整体变低：上限或过滤条件变了。",
            ),
            at=(8, 36, 8, 8),
            unit="short",
            queries=(
                Query(
                    expr="sum by (le) (increase(ragmonitor_retrieved_chunks_bucket"
                    f"{{{SERVICE}}}{RATE}))",
                    legend="{{le}}",
                ),
            ),
        ),
        lines(
            title=Words("How long do answers take?", "回答要多久？"),
            description=Words(
                "From the question to the last token: half, and 95 % took at most this long. Dots"
                " are single interactions: a click opens the trace, where the slow step shows.",
                "从提问到最后一个 Token：一半以及 95 % 不超过此值。圆点是单次交互：点击打开链路，"
                "查看慢在哪一步。",
            ),
            at=(16, 36, 8, 8),
            unit="s",
            queries=quantiles(
                "ragmonitor_interaction_seconds", "service", "{{service}}", exemplars=True
            ),
        ),
        lines(
            title=Words("What does a good answer cost?", "一条合格回答花多少钱？"),
            description=Words(
                "What an answer costs, divided by the share without hallucination: a cheaper model"
                " whose answers are worse may be dearer.",
                "每条回答的费用除以没有幻觉的回答占比：更便宜但更差的模型可能更贵。",
            ),
            at=(0, 44, 12, 8),
            unit="currencyUSD",
            if_empty=Words("No prices or too few verdicts", "没有价格或评审结论太少"),
            queries=(
                Query(
                    expr=f"sum by (service) (increase(ragmonitor_answer_cost_usd_sum{{{SERVICE}}}"
                    "[$window])) / sum by (service) (increase(ragmonitor_answer_cost_usd_count"
                    f"{{{SERVICE}}}[$window])) / (1 - max by (service) "
                    f"(ragmonitor_hallucination_rate{{{WINDOWED}}}))",
                    legend="{{service}}",
                ),
            ),
        ),
        lines(
            title=Words("Are golden questions answered correctly?", "标准问题答对了吗？"),
            description=Words(
                "Correctness and context recall of the golden questions, and how many were"
                " answered. Recall first is the retriever or the index; correctness alone is prompt"
                " or model.",
                "标准问题的正确性、上下文召回率与可用率。召回率先降：检索或索引；仅正确性下降：提示词或模型。",
            ),
            at=(12, 44, 12, 8),
            if_empty=Words("No golden questions are asked", "未提问标准问题"),
            queries=(
                *(
                    Query(
                        expr="avg by (service) (ragmonitor_golden_score"
                        f'{{{SERVICE}, evaluator="{name}", bound="mean", {WINDOWED}}})',
                        legend=f"{{{{service}}}} · {name}",
                    )
                    for name in ("answer_correctness", "context_recall")
                ),
                Query(
                    expr="avg by (service) (ragmonitor_golden_score"
                    f'{{{SERVICE}, evaluator="availability", bound="mean", window="$window"}})',
                    legend=Words("{{service}} · answered", "{{service}} · 可用率"),
                ),
            ),
        ),
    ),
)

# --- pipeline -------------------------------------------------------------------------------------

BUDGETS = " or ".join(
    f"sum by (service) (increase({counter}{{{SERVICE}}}[{window}]))"
    " / on (service) group_right () max by (service, unit, per)"
    f' (ragmonitor_budget_limit{{{SERVICE}, unit="{unit}", per="{per}"}})'
    for unit, counter in (
        ("usd", "ragmonitor_judge_cost_usd_total"),
        ("tokens", "ragmonitor_judge_tokens_total"),
        ("calls", "ragmonitor_judge_calls_total"),
    )
    for per, window in (("hour", "1h"), ("day", "1d"))
)


def last_hour(counters: Sequence[tuple[str, str, str]]) -> tuple[Query, ...]:
    """Return how much counters grew in the last hour, by a label; 0 where nothing did."""
    return tuple(
        query
        for series, label, name in counters
        for query in (
            Query(
                expr=gained(series, by=label),
                legend=f"{{{{service}}}} · {name} · {{{{{label}}}}}",
            ),
            Query(expr=or_zero(gained(series)), legend=f"{{{{service}}}} · {name}"),
        )
    )


PIPELINE = Board(
    uid="ragmonitor-pipeline",
    title=Words("ragmonitor / Pipeline", "ragmonitor / 流水线"),
    description=Words(
        "Does the monitor itself work: judge, budget, queue, delivery?",
        "监控器自身是否正常：评审、预算、队列、送达？",
    ),
    since="now-6h",
    variables=(DATASOURCE, SERVICES, JUDGE, EVALUATOR, WINDOW),
    contents=(
        Row(title=Words("The judge", "评审"), y=0),
        stacked(
            title=Words("Why have answers no score?", "回答为什么没有分数？"),
            description=Words(
                "Evaluations without a score by cause, per minute; those not sampled are left out."
                " refusal and no_claims are normal; judge_error, judge_timeout and unreadable ask"
                " for a look at the judge, over_budget for a larger budget, capture_incomplete for"
                " a look at the integration.",
                "每分钟未评分的次数，按原因（不含未抽中）。refusal 与 no_claims 属正常；"
                "judge_error、judge_timeout、unreadable 请查看评审；over_budget 说明预算不足；"
                "capture_incomplete 请检查集成。",
            ),
            at=(0, 1, 8, 8),
            unit="opm",
            queries=(
                per_minute(
                    "ragmonitor_evaluations_total",
                    "service, outcome",
                    f'{JUDGED}, evaluator=~"$evaluator", outcome!~"scored|not_sampled"',
                    "{{service}} · {{outcome}}",
                ),
            ),
        ),
        lines(
            title=Words("How many answers are judged?", "评审了多少回答？"),
            description=Words(
                "Inclusion probability of a usual answer, drawn answers without a verdict, and"
                " answers that had no chance of being judged.",
                "通常一条回答被抽中的概率、抽中却没有结论的占比、没有机会被评审的占比。",
            ),
            at=(8, 1, 8, 8),
            queries=(
                Query(
                    expr=f"avg by (service) (ragmonitor_judge_sampling_rate{{{JUDGED}}})",
                    legend=Words("{{service}} · drawn", "{{service}} · 抽样比例"),
                ),
                Query(
                    expr=f"max by (service) (ragmonitor_judge_missing_ratio{{{JUDGED}}})",
                    legend=Words("{{service}} · no verdict", "{{service}} · 没有结论"),
                ),
                Query(
                    expr=f"max by (service) (ragmonitor_uncovered_ratio{{{WINDOWED}}})",
                    legend=Words("{{service}} · no chance", "{{service}} · 没有机会"),
                ),
            ),
        ),
        lines(
            title=Words("How much of the budget is spent?", "预算用了多少？"),
            description=Words(
                "What judging cost in the last hour and day as a share of its limits. At 100 %"
                " judging pauses and intervals widen: raise the budget, or sample less.",
                "最近一小时与一天的评审花费占限额的比例。到 100 % 时评审暂停、区间变宽：提高预算，"
                "或降低抽样。",
            ),
            at=(16, 1, 8, 8),
            thresholds=((None, GREEN), (0.8, ORANGE), (1, RED)),
            lines_at_thresholds=True,
            if_empty=Words("No judge that costs anything", "没有需要花费的评审"),
            queries=(
                Query(expr=BUDGETS, legend=Words("{{unit}} per {{per}}", "{{unit}} / {{per}}")),
            ),
        ),
        lines(
            title=Words("How long does the judge take?", "评审要多久？"),
            description=Words(
                "Half, and 95 % of the readings took at most this long, by judge.",
                "一半以及 95 % 的评审耗时不超过此值，按评审。",
            ),
            at=(0, 9, 8, 8),
            unit="s",
            queries=quantiles("ragmonitor_judge_seconds", "judge", "{{judge}}"),
        ),
        lines(
            title=Words("Does the judge still judge as it did?", "评审的标准变了吗？"),
            description=Words(
                "Share of the reference answers on which the judge's verdict has changed. A rise:"
                " trust no quality alarm before the judge is checked.",
                "评审对参考样例改变裁决的比例。上升：先查评审，再信质量告警。",
            ),
            at=(8, 9, 8, 8),
            if_empty=Words("No reference answers yet", "还没有参考样例"),
            queries=(
                Query(
                    expr=f"max by (service) (ragmonitor_anchor_flip_rate{{{JUDGED}}})",
                    legend="{{service}}",
                ),
            ),
        ),
        lines(
            title=Words("How many answers wait?", "多少回答在等待？"),
            description=Words(
                "Answers in the queue of a process, and on a stream. A rise that does not end:"
                " more is asked than is scored.",
                "进程队列与流中等待的回答。持续上升：提问快于打分。",
            ),
            at=(16, 9, 8, 8),
            unit="short",
            queries=(
                Query(
                    expr=f"sum by (service) (ragmonitor_queue_depth{{{SERVICE}}})",
                    legend=Words("{{service}} · queue", "{{service}} · 队列"),
                ),
                Query(
                    expr="max by (service) (ragmonitor_stream_records"
                    f'{{{SERVICE}, state="waiting"}})',
                    legend=Words("{{service}} · stream", "{{service}} · 流"),
                ),
            ),
        ),
        Row(title=Words("What is lost", "丢失了什么"), y=17),
        lines(
            title=Words("What was dropped in the last hour?", "最近一小时丢弃了什么？"),
            description=Words(
                "Answers and deliveries that were lost, by reason. queue_full: too slow; otlp_,"
                " phoenix_, langfuse_, jsonl_: the destination.",
                "丢失的回答与未送达的内容，按原因。queue_full：太慢；otlp_、phoenix_、langfuse_、"
                "jsonl_：目的地的问题。",
            ),
            at=(0, 18, 12, 8),
            unit="short",
            queries=last_hour((("ragmonitor_dropped_total", "reason", "dropped"),)),
        ),
        lines(
            title=Words("Did the monitor itself fail?", "监控器自身出错了吗？"),
            description=Words(
                "Errors of the monitoring by stage, in the last hour. The application does not"
                " notice; its log, logger ragmonitor, has the first of each kind.",
                "最近一小时监控自身的错误，按阶段。应用不受影响；"
                "日志（logger ragmonitor）写有每种的第一条。",
            ),
            at=(12, 18, 12, 8),
            unit="short",
            queries=last_hour((("ragmonitor_internal_errors_total", "stage", "errors"),)),
        ),
    ),
)

BOARDS = (OVERVIEW, INVESTIGATE, PIPELINE)
