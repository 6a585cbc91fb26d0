"""What changed, in which answers, and what moved first: the dashboard after the page."""

from __future__ import annotations

from boards.panels import (
    DATASOURCE,
    DIMENSION,
    EVALUATOR,
    GREEN,
    GREY,
    JUDGE,
    JUDGED,
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
    mean_of_all,
    pooled,
)

OFF_ON = (
    State(value=0, text=Words("quiet", "正常"), color=GREEN),
    State(value=1, text=Words("ALARM", "告警"), color=RED),
)
GROUPED = f'{WINDOWED}, dimension=~"$dimension"'
BY_GROUP = "service, dimension, group"
GROUP_N = "ragmonitor_group_hallucination_rate_effective_n"


DIFFERENCES = "golden_(answer_correctness|context_recall|refusal_correctness)"
"""Signals whose scale of 0 to 1 holds differences of -1 to 1."""


def per_signal(series: str, selector: str = SERVICE) -> str:
    """Return the expression of an alarm's number; of several processes, the highest."""
    return f"max by (service, signal, judge, kind) ({series}{{{selector}}})"


def limits(sign: str, form: str) -> str:
    """Return the expression of the limits of signals that are differences (`=~`), or are none."""
    selector = f'{SERVICE}, signal{sign}"{DIFFERENCES}"'
    return form.format(per_signal("ragmonitor_alarm_objective", selector))


FIRST = (
    Row(title=Words("What moved first", "最先变化的是什么"), y=0),
    Panel(
        kind="lines",
        title=Words("Evidence of every signal, % of the threshold", "各信号的证据，占阈值的百分比"),
        description=Words(
            "All signals on one axis: what left the floor first is the likeliest cause. Inputs"
            " first (empty or weak retrievals): the index or the traffic"
            " changed. Quality first: the prompt or the model. The judge first (reference"
            " answers): trust no quality alarm before the judge is checked.",
            "所有信号同轴：最先离开底部的最可能是原因。输入先动（检索为空或偏弱）："
            "索引或流量变了；"
            "质量先动：提示词或模型变了；评审先动（参考样例）：先查评审，"
            "再信质量告警。",
        ),
        at=(0, 1, 24, 9),
        unit="percentunit",
        low=0.001,
        logarithmic=True,
        queries=(
            Query(
                expr=evidence_share("max by (service, signal, kind)"),
                legend="{{service}} · {{kind}} · {{signal}}",
            ),
            Query(
                expr=f"0 * max(ragmonitor_alarm_threshold_seconds{{{SERVICE}}}) + 1",
                legend=Words("threshold", "告警阈值"),
                look=Look(color=RED, dashed=True, width=2),
            ),
        ),
    ),
    Panel(
        kind="states",
        title=Words("Alarms", "告警状态"),
        description=Words(
            "When each alarm was active. The order in which the bars begin is the order in which"
            " things went wrong.",
            "每个告警处于活动状态的时间段。色块开始的先后，就是出问题的先后。",
        ),
        at=(0, 10, 10, 5),
        unit="none",
        states=OFF_ON,
        thresholds=((None, GREEN), (1, RED)),
        queries=(
            Query(
                expr=f"max by (service, signal) (ragmonitor_alarm_active{{{SERVICE}}})",
                legend="{{service}} · {{signal}}",
            ),
        ),
    ),
    Panel(
        kind="table",
        title=Words("Incidents", "事件报告"),
        description=Words(
            "A click opens the newest incident on the service's own page: since when, because of"
            " what, the worst answers. Services whose server.ui_url is set.",
            "点击打开该服务页面上最新的事件报告：自何时起、原因、最差的回答。"
            "仅含设置了 server.ui_url 的服务。",
        ),
        at=(0, 15, 10, 4),
        unit="none",
        if_empty=Words("No address of a page is set", "未设置页面地址"),
        queries=(
            Query(
                expr=f"max by (service, url) (ragmonitor_page_info{{{SERVICE}}}) * on (service)"
                " group_left sum by (service) (max by (service, signal, judge)"
                f" (ragmonitor_alarm_active{{{SERVICE}}}))",
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
            Column(
                name="Value", title=Words("Active alarms", "活动告警"), unit="short", decimals=0
            ),
        ),
    ),
    Panel(
        kind="table",
        title=Words("Alarms, now", "当前告警"),
        description=Words(
            "Each alarm's evidence, its limit (empty while it is learned), how much of"
            " its learning is done, since when it is active, and how often it was raised in the"
            " chosen time. Evidence is in percent of the threshold; little of it at a high rate:"
            " it has only just begun.",
            "每个告警的证据、容忍上限（学习期间为空）、学习进度、自何时起活动，"
            "以及所选时间内触发的次数。",
        ),
        at=(10, 10, 14, 9),
        unit="none",
        queries=(
            Query(
                expr=evidence_share("max by (service, signal, judge, kind)", floor=0),
                legend="{{signal}}",
            ),
            Query(expr=per_signal("ragmonitor_alarm_active"), legend="{{signal}}"),
            Query(
                expr=f"{limits('!~', '{0}')} or {limits('=~', '2 * {0} - 1')}",
                legend="{{signal}}",
            ),
            Query(expr=per_signal("ragmonitor_alarm_learned_ratio"), legend="{{signal}}"),
            Query(
                # 0: several processes count, and it is not active.
                expr=f"1000 * ({per_signal('ragmonitor_alarm_since_timestamp_seconds')} > 0)",
                legend="{{signal}}",
            ),
            Query(
                expr="sum by (service, signal, judge, kind)"
                f" (increase(ragmonitor_alarms_raised_total{{{SERVICE}}}[$__range]))",
                legend="{{signal}}",
            ),
        ),
        columns=(
            Column(name="service", title=Words("Service", "服务")),
            Column(name="signal", title=Words("Signal", "信号")),
            Column(name="kind", title=Words("Kind", "类别")),
            Column(name="judge", title=Words("Judge", "评审")),
            Column(name="Value #B", title=Words("State", "状态"), states=OFF_ON),
            Column(
                name="Value #E", title=Words("Since", "开始于"), unit="dateTimeAsLocalNoDateIfToday"
            ),
            Column(
                name="Value #A", title=Words("Evidence", "证据"), unit="percentunit", decimals=0
            ),
            Column(
                name="Value #C", title=Words("Limit", "容忍上限"), unit="percentunit", decimals=1
            ),
            Column(
                name="Value #D", title=Words("Learned", "学习进度"), unit="percentunit", decimals=0
            ),
            Column(name="Value #F", title=Words("Raised", "触发次数"), decimals=0),
        ),
        sorted_by=Words("Evidence", "证据"),
    ),
)

SCORES = (
    Row(title=Words("Which answers", "哪些回答"), y=19),
    Panel(
        kind="heatmap",
        title=Words("Scores: $evaluator", "分数分布：$evaluator"),
        description=Words(
            "How many answers got which score. A second cloud at the bottom is an incident of some"
            " answers; a slow slide of the whole cloud is drift. Each diamond is one answer: a"
            " click"
            " opens its trace.",
            "各分数段的回答数。底部出现第二团，是部分回答出事；整团缓慢下移，是漂移。"
            "每个菱形是一条回答：点击打开链路。",
        ),
        at=(0, 20, 8, 8),
        unit="percentunit",
        repeat="evaluator",
        queries=(
            Query(
                expr="sum by (le) (increase(ragmonitor_score_bucket"
                f'{{{JUDGED}, evaluator="$evaluator"}}[$__rate_interval]))',
                legend="{{le}}",
                exemplars=True,
            ),
        ),
    ),
    Panel(
        kind="lines",
        title=Words("The lowest scores", "最低的分数"),
        description=Words(
            "One answer in ten scored at most this much. The dots are single answers: open the low"
            " ones first, the trace marks the unsupported sentence and the chunks.",
            "十分之一的回答不高于此分数。圆点是单条回答：先打开分数低的，"
            "链路中会标出无依据的句子与片段。",
        ),
        at=(0, 28, 12, 8),
        unit="percentunit",
        low=0,
        high=1,
        queries=(
            Query(
                expr="histogram_quantile(0.1, sum by (service, evaluator, le)"
                f' (rate(ragmonitor_score_bucket{{{JUDGED}, evaluator=~"$evaluator"}}'
                "[$__rate_interval])))",
                legend="{{service}} · {{evaluator}}",
                exemplars=True,
            ),
        ),
    ),
    Panel(
        kind="stacked",
        title=Words("Outcomes of the evaluations", "评估结果"),
        description=Words(
            "Evaluations per minute by outcome: scored, or the cause why not. A change of the mix"
            " at the time of the incident tells whether other answers are being scored than"
            " before.",
            "每分钟评估次数，按结果：已评分，或未评分的原因。事发时构成变了，"
            "说明被评分的回答与之前不同。",
        ),
        at=(12, 28, 12, 8),
        unit="opm",
        low=0,
        queries=(
            Query(
                expr="60 * sum by (outcome) (rate(ragmonitor_evaluations_total"
                f'{{{JUDGED}, evaluator=~"$evaluator"}}[$__rate_interval]))',
                legend="{{outcome}}",
            ),
        ),
    ),
    Panel(
        kind="stacked",
        title=Words("What went wrong with answers", "回答出了什么问题"),
        description=Words(
            "Share of judged answers by diagnosis, the good ones left out. retrieval_miss,"
            " refusal: look at the index; unsupported_addition, contradiction, ignored_context: at"
            " the prompt and the model; wrong_refusal: at the system prompt; off_topic: at the"
            " routing.",
            "被评审回答中各诊断的占比（不含正常）。retrieval_miss、refusal：查索引；"
            "unsupported_addition、"
            "contradiction、ignored_context：查提示词与模型；wrong_refusal：查系统提示词；"
            "off_topic：查路由。",
        ),
        at=(0, 36, 16, 8),
        unit="percentunit",
        low=0,
        queries=(
            Query(
                expr="sum by (diagnosis) (rate(ragmonitor_diagnoses_total"
                f'{{{JUDGED}, diagnosis!="ok"}}[$__rate_interval])) / ignoring (diagnosis)'
                f" group_left () sum (rate(ragmonitor_diagnoses_total{{{JUDGED}}}"
                "[$__rate_interval]))",
                legend="{{diagnosis}}",
            ),
        ),
    ),
    Panel(
        kind="table",
        title=Words("Diagnoses in the chosen time", "所选时间内的诊断"),
        description=Words(
            "How many judged answers had which diagnosis. Compare with the same span before the"
            " incident: what grew is where to look.",
            "各诊断的回答数。与事发前同样长的时间对比：增多的就是该查的方向。",
        ),
        at=(16, 36, 8, 8),
        unit="none",
        queries=(
            Query(
                expr="sum by (service, diagnosis)"
                f" (increase(ragmonitor_diagnoses_total{{{JUDGED}}}[$__range]))",
                legend="{{diagnosis}}",
            ),
        ),
        columns=(
            Column(name="service", title=Words("Service", "服务")),
            Column(name="diagnosis", title=Words("Diagnosis", "诊断")),
            Column(name="Value", title=Words("Answers", "回答数"), unit="short", decimals=0),
        ),
        sorted_by=Words("Answers", "回答数"),
    ),
)

GROUPS = (
    Row(title=Words("Whose answers", "谁的回答"), y=44),
    Panel(
        kind="lines",
        title=Words("Hallucination rate by $dimension", "幻觉率，按 $dimension"),
        description=Words(
            "The rate in each group of answers. One group alone: look at what is special to it, its"
            " route, its version, its language. All at once: at what they share.",
            "各组回答的幻觉率。只有一组变差：看它特有的东西（路由、版本、语言）；全部变差："
            "看它们共有的。",
        ),
        at=(0, 45, 8, 8),
        unit="percentunit",
        low=0,
        repeat="dimension",
        if_empty=Words("Answers are not split by anything yet", "尚未按任何维度拆分"),
        queries=(
            Query(
                expr=pooled(
                    "ragmonitor_group_hallucination_rate",
                    GROUP_N,
                    f'{WINDOWED}, dimension="$dimension"',
                    by="service, group",
                ),
                legend="{{service}} · {{group}}",
            ),
        ),
    ),
    Panel(
        kind="table",
        title=Words("Groups, now", "当前各组"),
        description=Words(
            "Each group's rate in its 95 % interval. Sorted by the lower end: what stands on top is"
            " surely bad, not only unlucky. Few answers: a wide interval, no conclusion.",
            "各组的幻觉率及 95 % 区间，按下限排序：排在最前的确实变差，而不是偶然。"
            "回答太少则区间很宽，不下结论。",
        ),
        at=(0, 53, 24, 8),
        unit="none",
        if_empty=Words("Answers are not split by anything yet", "尚未按任何维度拆分"),
        queries=tuple(
            Query(expr=expr, legend="{{group}}")
            for expr in (
                *(
                    pooled(
                        f"ragmonitor_group_hallucination_rate{end}",
                        GROUP_N,
                        GROUPED,
                        by=BY_GROUP,
                    )
                    for end in ("", "_lower", "_upper")
                ),
                f"sum by ({BY_GROUP}) ({GROUP_N}{{{GROUPED}}})",
            )
        ),
        columns=(
            Column(name="service", title=Words("Service", "服务")),
            Column(name="dimension", title=Words("Split by", "维度")),
            Column(name="group", title=Words("Group", "组")),
            Column(
                name="Value #B", title=Words("Lower end", "下限"), unit="percentunit", decimals=1
            ),
            Column(name="Value #A", title=Words("Rate", "幻觉率"), unit="percentunit", decimals=1),
            Column(
                name="Value #C", title=Words("Upper end", "上限"), unit="percentunit", decimals=1
            ),
            Column(name="Value #D", title=Words("Answers", "回答数"), unit="short", decimals=0),
        ),
        sorted_by=Words("Lower end", "下限"),
    ),
)

RETRIEVAL = (
    Row(title=Words("Retrieval and questions", "检索与问题"), y=61),
    Panel(
        kind="lines",
        title=Words("Empty and weak retrievals", "空检索与弱检索"),
        description=Words(
            "Share of questions for which nothing was found, and for which the best chunk was weak."
            " Empty: index or filter. Weak: users ask what is not in the documents, or the"
            " embedding changed. The dashed line is how much of the reference is collected.",
            "没有检索到、最好的片段仍偏弱的问题占比。空：索引或过滤条件；"
            "弱：用户问的不在文档里，或向量模型变了。虚线是基准已收集的比例。",
        ),
        at=(0, 62, 12, 8),
        unit="percentunit",
        low=0,
        queries=(
            *(
                Query(
                    expr=mean_of_all(signal),
                    legend=legend,
                )
                for signal, legend in (
                    (
                        "empty_retrieval",
                        Words("{{service}} · empty", "{{service}} · 空检索"),
                    ),
                    (
                        "weak_retrieval",
                        Words("{{service}} · weak", "{{service}} · 弱检索"),
                    ),
                )
            ),
            Query(
                expr=f"min by (service) (ragmonitor_drift_reference_ratio{{{SERVICE}}})",
                legend=Words("{{service}} · reference collected", "{{service}} · 基准收集进度"),
                look=Look(color=GREY, dashed=True, right_axis=True),
            ),
        ),
    ),
    Panel(
        kind="lines",
        title=Words("Best chunk's score", "最佳片段的得分"),
        description=Words(
            "Mean score that the retriever or reranker gave its best chunk, on its own scale: only"
            " a change means something. A step at a deployment: another embedding, reranker or"
            " index.",
            "检索器或重排器给最佳片段的平均分，刻度是它自己的：只有变化有意义。发布时的阶跃："
            "向量模型、重排器或索引换了。",
        ),
        at=(12, 62, 12, 8),
        unit="none",
        decimals=2,
        if_empty=Words("The retriever gives no scores", "检索器不给分数"),
        queries=(
            Query(
                expr=f"sum by (service) (rate(ragmonitor_retrieval_top_score_sum{{{SERVICE}}}"
                "[$__rate_interval])) / sum by (service) (rate("
                f"ragmonitor_retrieval_top_score_count{{{SERVICE}}}[$__rate_interval]))",
                legend="{{service}}",
            ),
        ),
    ),
    Panel(
        kind="heatmap",
        title=Words("Chunks per answer", "每条回答的片段数"),
        description=Words(
            "How many chunks the model was shown. A new band at 0: nothing is found; a lower band"
            " after a deployment: the limit or a filter changed.",
            "模型看到的片段数。0 处出现新带：检索不到；发布后整体变低：上限或过滤条件变了。",
        ),
        at=(0, 70, 24, 8),
        unit="short",
        queries=(
            Query(
                expr="sum by (le) (increase(ragmonitor_retrieved_chunks_bucket"
                f"{{{SERVICE}}}[$__rate_interval]))",
                legend="{{le}}",
            ),
        ),
    ),
)


def quantiles(series: str, by: str, legend: str) -> tuple[Query, ...]:
    """Return half and 95 % of a histogram of seconds."""
    return tuple(
        Query(
            expr=f"histogram_quantile({quantile}, sum by ({by}, le)"
            f" (rate({series}_bucket{{{SERVICE}}}[$__rate_interval])))",
            legend=f"{legend} · {name}",
        )
        for quantile, name in (("0.5", "p50"), ("0.95", "p95"))
    )


MODEL_LEGEND = "{{service}} · {{model}}"
MONEY = (
    Row(title=Words("Time and money", "时间与费用"), y=78),
    Panel(
        kind="lines",
        title=Words("Time to first token", "首个 Token 时间"),
        description=Words(
            "From the question to the first token of streamed answers, retrieval included: half and"
            " 95 % took at most this long.",
            "流式回答从提问到首个 Token 的时间（含检索）：一半以及 95 % 不超过此值。",
        ),
        at=(0, 79, 8, 8),
        unit="s",
        low=0,
        if_empty=Words("No streamed answers", "没有流式回答"),
        queries=quantiles("ragmonitor_time_to_first_token_seconds", "service", "{{service}}"),
    ),
    Panel(
        kind="lines",
        title=Words("Retrieval and model calls", "检索与模型调用耗时"),
        description=Words(
            "Time of one retrieval (operation retrieval) and of one model call (operation chat):"
            " which step is slow.",
            "单次检索（retrieval）与单次模型调用（chat）的耗时：慢在哪一步。",
        ),
        at=(8, 79, 8, 8),
        unit="s",
        low=0,
        queries=quantiles(
            "gen_ai_client_operation_duration_seconds",
            "service, gen_ai_operation_name",
            "{{service}} · {{gen_ai_operation_name}}",
        ),
    ),
    Panel(
        kind="lines",
        title=Words("Tokens per second", "每秒 Token 数"),
        description=Words(
            "Tokens that model calls used, as providers counted them, by direction.",
            "模型调用使用的 Token（提供方计数），按方向。",
        ),
        at=(16, 79, 8, 8),
        unit="short",
        low=0,
        if_empty=Words("Providers give no counts", "提供方未给出计数"),
        queries=(
            Query(
                expr="sum by (service, gen_ai_token_type) (rate("
                f"gen_ai_client_token_usage_sum{{{SERVICE}}}[$__rate_interval]))",
                legend="{{service}} · {{gen_ai_token_type}}",
            ),
        ),
    ),
    Panel(
        kind="lines",
        title=Words("Cost per good answer", "每条合格回答的费用"),
        description=Words(
            "What all answers cost, divided by those that claim something and in which nothing is"
            " hallucinated, with the 95 % interval: a cheaper model whose answers are worse may be"
            " dearer. Of models whose price is known.",
            "全部回答的费用除以合格回答数（有论断且无幻觉），含 95 % 区间："
            "更便宜但更差的模型可能更贵。仅含已知价格的模型。",
        ),
        at=(0, 87, 12, 8),
        unit="currencyUSD",
        low=0,
        if_empty=Words("No prices or too few verdicts", "没有价格或评审结论太少"),
        queries=(
            *(
                Query(
                    expr=f"avg by (service) (ragmonitor_cost_per_good_answer_usd{end}"
                    f'{{{SERVICE}, window="$window", model=""}})',
                    legend=f"{{{{service}}}}{name}",
                    look=Look(color=GREY, dashed=True) if end else Look(width=2),
                )
                for end, name in (("", ""), ("_lower", " · 2.5 %"), ("_upper", " · 97.5 %"))
            ),
            Query(
                expr="avg by (service, model) (ragmonitor_cost_per_good_answer_usd"
                f'{{{SERVICE}, window="$window", model!=""}})',
                legend=MODEL_LEGEND,
            ),
        ),
    ),
    Panel(
        kind="lines",
        title=Words("Cost per answer", "每条回答的费用"),
        description=Words(
            "Mean price of the tokens of an answer's model calls, good or not, by the model that"
            " answered.",
            "每条回答模型调用的平均费用（不论好坏），按作答模型。",
        ),
        at=(12, 87, 12, 8),
        unit="currencyUSD",
        low=0,
        if_empty=Words("No prices", "没有价格"),
        queries=(
            Query(
                expr=f"sum by (service, model) (rate(ragmonitor_answer_cost_usd_sum{{{SERVICE}}}"
                "[$__rate_interval])) / sum by (service, model) (rate("
                f"ragmonitor_answer_cost_usd_count{{{SERVICE}}}[$__rate_interval]))",
                legend=MODEL_LEGEND,
            ),
        ),
    ),
)

BY_JUDGE_WINDOW = f'{{{SERVICE}, judge=~"$judge", window="$window"}}'


def golden(series: str, legend: str, selector: str = BY_JUDGE_WINDOW) -> tuple[Query, ...]:
    """Return a mean over the golden questions with the ends of its interval."""
    root = series.removesuffix("_ratio")
    return tuple(
        Query(
            expr=f"avg by (service) ({name}{selector})",
            legend=f"{{{{service}}}} · {legend}{end}",
            look=Look(color=GREY, dashed=True) if end else Look(),
        )
        for name, end in ((series, ""), (f"{root}_lower", " 2.5 %"), (f"{root}_upper", " 97.5 %"))
    )


NO_GOLDENS = Words("No golden questions are asked", "未提问标准问题")
GOLDENS = (
    Row(title=Words("Golden questions", "标准问题"), y=95),
    Panel(
        kind="lines",
        title=Words("Correctness", "正确性"),
        description=Words(
            "Mean correctness over all golden questions as of now, with the 95 % interval, paired"
            " with each question's own history. Questions whose reference answer the judge rejects"
            " are left out.",
            "全部标准问题当前的平均正确性及 95 % 区间，与每个问题自身的历史配对。"
            "评审不认可其参考回答的问题不计入。",
        ),
        at=(0, 96, 8, 8),
        unit="percentunit",
        low=0,
        if_empty=NO_GOLDENS,
        queries=golden("ragmonitor_golden_answer_correctness", "correctness"),
    ),
    Panel(
        kind="lines",
        title=Words("Retrieval and refusals", "检索与拒答"),
        description=Words(
            "Recall first is the retriever or the index; correctness alone is prompt or model.",
            "召回率先降：检索或索引；仅正确性下降：提示词或模型。",
        ),
        at=(8, 96, 8, 8),
        unit="percentunit",
        low=0,
        if_empty=NO_GOLDENS,
        queries=tuple(
            Query(
                expr=f"avg by (service) (ragmonitor_golden_{name}{BY_JUDGE_WINDOW})",
                legend=f"{{{{service}}}} · {name}",
            )
            for name in (
                *("context_recall", "context_precision", "faithfulness"),
                "refusal_correctness",
            )
        ),
    ),
    Panel(
        kind="lines",
        title=Words("Answered, and reference answers borne out", "可用率与参考回答认可率"),
        description=Words(
            "Share of golden questions that got an answer. Share of the reference answers that the"
            " judge bears out: if that falls, it is the judge that changed.",
            "得到回答的标准问题占比；评审认可的参考回答占比：后者下降说明评审变了。",
        ),
        at=(16, 96, 8, 8),
        unit="percentunit",
        low=0,
        if_empty=NO_GOLDENS,
        queries=(
            *golden(
                "ragmonitor_golden_availability_ratio",
                "answered",
                f'{{{SERVICE}, window="$window"}}',
            ),
            Query(
                expr="avg by (service, judge) (ragmonitor_golden_references_ratio"
                f'{{{SERVICE}, judge=~"$judge"}})',
                legend="{{service}} · {{judge}}",
            ),
        ),
    ),
)

INVESTIGATE = Board(
    uid="ragmonitor-investigate",
    title=Words("ragmonitor / Investigate", "ragmonitor / 排查"),
    description=Words(
        "What moved first, in which answers, and whose: from the alarm to the trace.",
        "什么最先变化、在哪些回答里、谁的回答：从告警到链路。",
    ),
    since="now-6h",
    variables=(DATASOURCE, SERVICES, JUDGE, EVALUATOR, WINDOW, DIMENSION),
    contents=(*FIRST, *SCORES, *GROUPS, *RETRIEVAL, *MONEY, *GOLDENS),
)
