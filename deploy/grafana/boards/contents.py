"""The three boards: is it fine, what is bad and why, and does the monitor itself work."""

from __future__ import annotations

from boards.panels import (
    BLUE,
    GREEN,
    JUDGED,
    ORANGE,
    PURPLE,
    RED,
    SERVICE,
    WINDOWED,
    Json,
    Query,
    Words,
    annotation,
    board,
    for_each,
    heatmap,
    lines,
    override,
    query_variable,
    row,
    stacked,
    stat,
    uid_of,
)
from ragmonitor.rules import alerts

RATE = "[$__rate_interval]"
BY_ALARM = "max by (service, signal, judge)"

# --- queries --------------------------------------------------------------------------------------


def shown(series: str, selector: str, by: str = "service") -> str:
    """Return the expression of a gauge of a service, which each of its targets shows alike."""
    return f"avg by ({by}) ({series}{{{selector}}})"


def gained(series: str, by: str) -> str:
    """Return how much a counter grew in the last hour, its first count included."""
    return f"sum by (service, {by}) {alerts.gained(f'{series}_total{{{SERVICE}}}', '1h')}"


def per_minute(series: str, by: str, selector: str) -> str:
    """Return the expression of a counter's rate, per minute."""
    return f"60 * sum by ({by}) (rate({series}{{{selector}}}{RATE}))"


def of(expr: str, what: str = "", chinese: str = "") -> Query:
    """Return an expression whose series are named after their service, and what they show."""
    head = "{{service}} · " if what else "{{service}}"
    return expr, Words(f"{head}{what}", f"{head}{chinese or what}")


# --- panels of one kind ---------------------------------------------------------------------------

LEADS_ON = [
    {
        "title": Words("Investigate", "排查"),
        "url": Words(
            *(
                f"/d/{uid}?${{__all_variables}}&${{__url_time_range}}"
                for uid in uid_of("investigate")
            )
        ),
    }
]


def band(
    title: Words, description: str, chinese: str, signal: str, *, color: str, width: int = 12
) -> Json:
    """Return the panel of one estimate in its interval, and of its alarm's limit.

    Args:
        title: The question that it answers.
        description: What to do about it.
        chinese: The same in Chinese.
        signal: What the alarm calls it: a rate, or an evaluator.
        color: Of the line and its band.
        width: Of the panel.
    """
    selector = WINDOWED
    mean = root = f"ragmonitor_{signal}_rate"
    if signal not in ("hallucination", "refusal"):
        mean, root = "ragmonitor_score_mean", "ragmonitor_score"
        selector += f', evaluator="{signal}"'
    lower = Words("interval, lower end", "区间下限")
    own = {"mode": "fixed", "fixedColor": color}
    hidden = {"legend": True, "tooltip": False, "viz": False}
    edge = {"color": own, "custom_lineWidth": 0, "custom_hideFrom": hidden}
    dashed = {"fill": "dash", "dash": [6, 4]}
    return lines(
        title,
        description,
        chinese,
        (shown(mean, selector), Words("estimate", "估计值")),
        (shown(f"{root}_lower", selector), lower),
        (shown(f"{root}_upper", selector), Words("interval, upper end", "区间上限")),
        (
            f'max by (service) (ragmonitor_alarm_objective{{{JUDGED}, signal="{signal}"}})',
            Words("limit", "容忍上限"),
        ),
        overrides=[
            override("A", color=own, custom_lineWidth=2),
            override("B", **edge),
            override("C", **edge, custom_fillBelowTo=lower, custom_fillOpacity=18),
            override("D", color={"mode": "fixed", "fixedColor": RED}, custom_lineStyle=dashed),
        ],
        width=width,
        links=LEADS_ON,
    )


# --- what the reader may choose, and what is marked -----------------------------------------------


def label_variable(name: str, label: Words, series: str) -> Json:
    """Return what the reader may choose among the values that a label of a series has."""
    values = f"label_values({series}{{{SERVICE}}}, {name})"
    return query_variable(name, label, values, many=True)


DATASOURCE = {
    "name": "datasource",
    "label": Words("Data source", "数据源"),
    "type": "datasource",
    "query": "prometheus",
}
SERVICES = query_variable(  # those with an alarm come first
    "service",
    Words("Service", "服务"),
    "query_result(sort_desc(max by (service) (2 * ragmonitor_alarm_active)"
    " or max by (service) (0 * ragmonitor_build_info)))",
    regex='/service="([^"]+)"/',
    many=True,
)
JUDGE = query_variable(  # models come first, and the built-in judge last
    "judge",
    Words("Judge", "评审"),
    'query_result(sort_desc(max by (judge) (3 * ragmonitor_judge_info{service=~"$service",'
    ' kind="LLM"}) or max by (judge) (2 * ragmonitor_judge_info{service=~"$service",'
    ' judge!~"builtin(:.*)?"}) or max by (judge) (ragmonitor_judge_info{service=~"$service"})))',
    regex='/judge="([^"]+)"/',
)
EVALUATOR = label_variable("evaluator", Words("Evaluator", "评估项"), "ragmonitor_score_mean")
DIMENSION = label_variable(
    "dimension", Words("Split by", "分组维度"), "ragmonitor_group_hallucination_rate"
)
WINDOWS = [{"text": each, "value": each} for each in ("1h", "24h")]
WINDOW = {
    "name": "window",
    "label": Words("Window", "窗口"),
    "type": "custom",
    "query": "1h,24h",
    "options": WINDOWS,
    "current": WINDOWS[0],
}
VARIABLES = (DATASOURCE, SERVICES, JUDGE, WINDOW)

VERSIONS = f"count by (service, version) (ragmonitor_service_info{{{SERVICE}}})"
JUDGES = f"count by (service, judge, version) (ragmonitor_judge_info{{{SERVICE}}})"
ANNOTATIONS = (
    annotation(
        Words("Deployments", "版本发布"),
        f"{VERSIONS} unless {VERSIONS[:-1]} offset 5m)",
        Words("{{service}}: version {{version}}", "{{service}}：版本 {{version}}"),
        BLUE,
    ),
    annotation(
        Words("Judge changes", "评审变更"),
        f"{JUDGES} unless {JUDGES[:-1]} offset 5m)",
        Words(
            "{{service}}: judge {{judge}} {{version}}", "{{service}}：评审 {{judge}} {{version}}"
        ),
        PURPLE,
    ),
    annotation(
        Words("Events", "事件"),
        "max by (service, name)"
        f' (ragmonitor_event_timestamp_seconds{{{SERVICE},kind="event"}}) >= time() - 60',
        Words("{{service}}: {{name}}", "{{service}}：{{name}}"),
        BLUE,
    ),
    annotation(
        Words("Alarms", "告警"),
        f"max by (service, signal, kind) (ragmonitor_alarm_active{{{SERVICE}}}) == 1",
        Words("{{service}}: {{signal}} alarm", "{{service}}：{{signal}} 告警"),
        RED,
    ),
    annotation(
        Words("Rises", "上升起点"),
        "max by (service, signal)"
        f" (ragmonitor_alarm_rise_start_timestamp_seconds{{{SERVICE}}} > 0) * 1000",
        Words(
            "{{service}}: {{signal}} has been worse from here on, by its alarm",
            "{{service}}：据告警，{{signal}} 自此变差",
        ),
        ORANGE,
        is_time=True,
    ),
)

# --- overview -------------------------------------------------------------------------------------

OVERVIEW = board(
    "overview",
    Words("ragmonitor / Overview", "ragmonitor / 总览"),
    "Is it fine? A row for each service, those with alarms first.",
    "是否正常？每个服务一行，有告警的在前。",
    row(
        "$service",
        stat(
            Words("Is an alarm raised?", "有告警吗？"),
            "Active alarms. Above 0: open “Investigate” and see which signal moved first.",
            "正在活动的告警数。大于 0：打开“排查”，看哪个信号最先变化。",
            of(f"sum by (service) ({BY_ALARM} (ragmonitor_alarm_active{{{SERVICE}}}))"),
            unit="none",
            width=8,
            thresholds=((None, GREEN), (1, RED)),
            links=LEADS_ON,
        ),
        stat(
            Words("How many verdicts is it based on?", "依据多少条结论？"),
            "Judged answers in the window. Below 20 the interval says little: raise the"
            " budget, or look at the 24h window.",
            "窗口内评审过的回答数。低于 20 时区间说明不了什么：提高预算，或改看 24h 窗口。",
            of(
                "sum by (service) (increase(ragmonitor_judged_answers_total"
                f'{{{JUDGED}, signal="hallucination"}}[$window]))'
            ),
            unit="short",
            width=8,
            thresholds=((None, RED), (5, ORANGE), (20, GREEN)),
        ),
        stat(
            Words("How old is the newest score?", "最近一次评分距今多久？"),
            "Old while there is traffic: judging stopped; see “Pipeline”.",
            "有流量却很久没有：评审已停，请看“流水线”。",
            of(f"time() - max by (service) (ragmonitor_last_score_timestamp_seconds{{{JUDGED}}})"),
            unit="s",
            width=8,
            thresholds=((None, GREEN), (900, ORANGE), (3600, RED)),
        ),
        band(
            Words("How many answers are hallucinated?", "多少回答出现幻觉？"),
            "Share of answers with an unsupported sentence, in its 95 % interval. It is bad"
            " when the lower end is above the limit. A wide band: too few judged answers, or"
            " many without a verdict.",
            "含无依据句子的回答占比及其 95 % 区间。区间下限高于容忍上限时才算变差。"
            "区间很宽：评审的回答太少，或许多没有结论。",
            "hallucination",
            color=ORANGE,
        ),
        band(
            Words("How faithful are answers to their chunks?", "回答忠实于检索片段吗？"),
            "Mean share of an answer's claims that its chunks support, in its 95 % interval."
            " Bad when the upper end is below the limit: look at the diagnoses in"
            " “Investigate”.",
            "论断有检索片段支持的平均占比及其 95 % 区间。区间上限低于容忍下限时才算变差："
            "看“排查”中的诊断。",
            "faithfulness",
            color=BLUE,
        ),
        band(
            Words("How relevant are chunks to the question?", "检索片段与问题相关吗？"),
            "Mean context relevance in its 95 % interval. Falling: look at the index, the"
            " embedding model and retrieval in “Investigate”.",
            "上下文相关性的均值及其 95 % 区间。下降：检查索引、向量模型，以及“排查”中的检索。",
            "context_relevance",
            color=PURPLE,
            width=8,
        ),
        band(
            Words("How many questions are declined?", "多少问题被拒答？"),
            "Share of answers that decline, in its 95 % interval. A surge with the chunks in"
            " place is a wrong refusal; with empty retrievals it is the index.",
            "拒答占比及其 95 % 区间。检索正常却激增，是错误拒答；检索为空则是索引的问题。",
            "refusal",
            color=ORANGE,
            width=8,
        ),
        stacked(
            Words("How much traffic is there?", "流量有多少？"),
            "Interactions per minute by how they ended. Rising errors are the application's"
            " own; rising cancelled or partial: users do not wait for the end.",
            "每分钟的交互数，按结束方式。error 上升是应用自身的问题；cancelled 或 partial"
            " 上升：用户等不到结束。",
            (
                per_minute("ragmonitor_interactions_total", "service, status", SERVICE),
                "{{status}}",
            ),
            unit="reqpm",
            width=8,
        ),
        repeat="service",
    ),
    since="now-24h",
    variables=VARIABLES,
    annotations=ANNOTATIONS,
)

# --- investigate ----------------------------------------------------------------------------------

RAISED = f"{BY_ALARM} (ragmonitor_alarm_active{{{SERVICE}}}) == 1"
SCORES = (
    f'sum by (le) (increase(ragmonitor_score_bucket{{{JUDGED}, evaluator="$evaluator"}}{RATE}))'
)
RATES = f"rate(ragmonitor_interaction_seconds_bucket{{{SERVICE}}}{RATE})"
SECONDS = f"histogram_quantile(%s, sum by (service, le) ({RATES}))"
ANSWER_COST = " / ".join(
    f"sum by (service) (increase(ragmonitor_answer_cost_usd_{of}{{{SERVICE}}}[$window]))"
    for of in ("sum", "count")
)
EVIDENCE = f"max by (service, signal, kind) (ragmonitor_alarm_evidence_seconds{{{SERVICE}}})"
THRESHOLD = f"max by (service) (ragmonitor_alarm_threshold_seconds{{{SERVICE}}})"
SINCE = f"ragmonitor_alarm_since_timestamp_seconds{{{SERVICE}}}"
RAISED_SINCE = f"1000 * {BY_ALARM} ({SINCE}) and ({RAISED})"
TO_INCIDENT = [
    {
        "title": Words("Newest incident", "最新事件报告"),
        "url": "${__field.labels.url}incidents/latest",
        "targetBlank": True,
    }
]
GOLDEN = f'{WINDOWED}, bound="mean", evaluator=~"answer_correctness|context_recall"'
OF_ALL = f'{SERVICE}, window="$window"'
ANSWERED = f'{OF_ALL}, bound="mean", evaluator="availability"'
DIAGNOSES = "rate(ragmonitor_diagnoses_total{%s}[$__rate_interval])"
DIAGNOSED = (
    f"""sum by (diagnosis) ({DIAGNOSES % f'{JUDGED}, diagnosis!="ok"'})"""
    f" / ignoring (diagnosis) group_left () sum ({DIAGNOSES % JUDGED})"
)

INVESTIGATE = board(
    "investigate",
    Words("ragmonitor / Investigate", "ragmonitor / 排查"),
    "What moved first, in which answers, and whose: from the alarm to the trace.",
    "什么最先变化、在哪些回答里、谁的回答：从告警到链路。",
    row(
        Words("What, and since when", "什么，从何时起"),
        lines(
            Words("Which signal moved first?", "哪个信号最先变化？"),
            "Evidence of every alarm in percent of its threshold. Retrieval first: the index or"
            " the traffic changed. Quality first: the prompt or the model. The judge first:"
            " trust no quality alarm before the judge is checked.",
            "各告警的证据，占告警阈值的百分比。检索先动：索引或流量变了；质量先动：提示词或模型；"
            "评审先动：先查评审，再信质量告警。",
            (
                # Beyond the threshold the number says nothing more; a logarithmic axis has no 0.
                f"clamp({EVIDENCE} / on (service) group_left () {THRESHOLD}, 0.001, 2)",
                "{{service}} · {{kind}} · {{signal}}",
            ),
            least=0.001,
            custom={
                "scaleDistribution": {"type": "log", "log": 10},
                "thresholdsStyle": {"mode": "dashed"},
            },
            thresholds=((None, GREEN), (1, RED)),
        ),
        stat(
            Words("Since when is which alarm raised?", "哪些告警，从何时起？"),
            "Each alarm that is raised, and since when.",
            "每个正在活动的告警，以及自何时起活动。",
            of(RAISED_SINCE, "{{signal}} · {{judge}}"),
            unit="dateTimeAsLocalNoDateIfToday",
            defaults={"noValue": Words("No alarm is raised", "没有告警")},
            width=7,
            height=8,
        ),
        stat(
            Words("What does the incident say?", "事件报告怎么说？"),
            "A click opens the newest incident on the service's own page: since when, because"
            " of what, the worst answers. Services whose server.ui_url is set.",
            "点击打开该服务页面上最新的事件报告：自何时起、原因、最差的回答。"
            "仅含设置了 server.ui_url 的服务。",
            of(f"max by (service, url) (ragmonitor_page_info{{{SERVICE}}})"),
            unit="none",
            defaults={
                "noValue": Words("No address of a page is set", "未设置页面地址"),
                "links": TO_INCIDENT,
            },
            width=5,
            height=8,
        ),
    ),
    row(
        Words("Which answers", "哪些回答"),
        heatmap(
            Words("How are scores distributed: $evaluator?", "分数如何分布：$evaluator？"),
            "A second cloud at the bottom: something happened to some answers. A slow slide"
            " of the whole cloud: drift. Each diamond is one answer: a click opens its"
            " trace.",
            "底部出现第二团，是部分回答出事；整团缓慢下移，是漂移。"
            "每个菱形是一条回答：点击打开链路。",
            (SCORES, "{{le}}"),
            unit="percentunit",
            **for_each("evaluator"),
        ),
        stacked(
            Words("What went wrong with them?", "它们出了什么问题？"),
            "Share of judged answers by diagnosis. retrieval_miss, refusal: look at the index;"
            " unsupported_addition, contradiction, ignored_context: at the prompt and the"
            " model; wrong_refusal: at the system prompt; off_topic: at the routing.",
            "被评审回答中各诊断的占比。retrieval_miss、refusal：查索引；unsupported_addition、"
            "contradiction、ignored_context：查提示词与模型；wrong_refusal：查系统提示词；"
            "off_topic：查路由。",
            (DIAGNOSED, "{{diagnosis}}"),
            width=24,
        ),
        lines(
            Words("Which group is surely worse, by $dimension?", "哪一组确实更差，按 $dimension？"),
            "The lower end of each group's 95 % interval. One group alone: look at what is"
            " special to it. All at once: at what they share.",
            "各组幻觉率 95 % 区间的下限。只有一组变差：看它特有的东西；全部变差：看它们共有的。",
            of(
                shown(
                    "ragmonitor_group_hallucination_rate_bound",
                    f'{WINDOWED}, dimension="$dimension", bound="lower"',
                    "service, group",
                ),
                "{{group}}",
            ),
            empty=Words("Answers are not split by anything yet", "尚未按任何维度拆分"),
            **for_each("dimension"),
        ),
    ),
    row(
        Words("Retrieval, time, money", "检索、耗时、费用"),
        lines(
            Words("Is retrieval empty or weak?", "检索为空或变弱吗？"),
            "Share of questions for which nothing was found, or whose best chunk was weaker"
            " than usual. Empty: index or filter. Weak: the embedding, or new questions.",
            "没有检索到、或最好的片段比平时更弱的问题占比。"
            "空：索引或过滤条件；弱：向量模型，或新的问题。",
            of(shown("ragmonitor_empty_retrieval_ratio", OF_ALL), "empty", "空检索"),
            of(shown("ragmonitor_weak_retrieval_ratio", OF_ALL), "weak", "弱检索"),
        ),
        lines(
            Words("How long do answers take?", "回答要多久？"),
            "From the question to the last token: half, and 95 % took at most this long. Dots"
            " are single interactions: a click opens the trace, where the slow step shows.",
            "从提问到最后一个 Token：一半以及 95 % 不超过此值。圆点是单次交互：点击打开链路，"
            "查看慢在哪一步。",
            of(SECONDS % "0.5", "p50"),
            of(SECONDS % "0.95", "p95"),
            unit="s",
            exemplars=True,
        ),
        lines(
            Words("What does a good answer cost?", "一条合格回答花多少钱？"),
            "What an answer costs, divided by the share without hallucination: a cheaper model"
            " whose answers are worse may be dearer.",
            "每条回答的费用除以没有幻觉的回答占比：更便宜但更差的模型可能更贵。",
            of(
                f"{ANSWER_COST} / (1 - max by (service)"
                f" (ragmonitor_hallucination_rate{{{WINDOWED}}}))"
            ),
            unit="currencyUSD",
            empty=Words("No prices or too few verdicts", "没有价格或评审结论太少"),
        ),
        lines(
            Words("Are golden questions answered correctly?", "参考问题答对了吗？"),
            "Correctness and context recall of the golden questions, and how many were"
            " answered. Recall first is the retriever or the index; correctness"
            " alone is prompt or model.",
            "参考问题的正确性、上下文召回率与可用率。"
            "召回率先降：检索或索引；仅正确性下降：提示词或模型。",
            of(shown("ragmonitor_golden_score", GOLDEN, "service, evaluator"), "{{evaluator}}"),
            of(shown("ragmonitor_golden_score", ANSWERED), "answered", "可用率"),
            empty=Words("No golden questions are asked", "未提问参考问题"),
        ),
    ),
    since="now-6h",
    variables=(*VARIABLES, EVALUATOR, DIMENSION),
    annotations=ANNOTATIONS,
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

PIPELINE = board(
    "pipeline",
    Words("ragmonitor / Pipeline", "ragmonitor / 流水线"),
    "Does the monitor itself work: judge, budget, queue, delivery?",
    "监控器自身是否正常：评审、预算、队列、送达？",
    row(
        Words("The judge", "评审"),
        stacked(
            Words("Why have answers no score?", "回答为什么没有分数？"),
            "Evaluations without a score by cause, per minute; those not sampled are left out."
            " refusal and no_claims are normal; judge_error, judge_timeout and unreadable ask"
            " for a look at the judge, over_budget for a larger budget, capture_incomplete for"
            " a look at the integration.",
            "每分钟未评分的次数，按原因（不含未抽中）。refusal 与 no_claims 属正常；"
            "judge_error、judge_timeout、unreadable 请查看评审；over_budget 说明预算不足；"
            "capture_incomplete 请检查集成。",
            of(
                per_minute(
                    "ragmonitor_evaluations_total",
                    "service, outcome",
                    f'{JUDGED}, outcome!~"scored|not_sampled"',
                ),
                "{{outcome}}",
            ),
            unit="opm",
            width=8,
        ),
        lines(
            Words("How many answers are judged?", "评审了多少回答？"),
            "Inclusion probability of a usual answer, drawn answers without a verdict, and"
            " answers that had no chance of being judged.",
            "通常一条回答被抽中的概率、抽中却没有结论的占比、没有机会被评审的占比。",
            of(shown("ragmonitor_judge_sampling_rate", JUDGED), "drawn", "抽样比例"),
            of(shown("ragmonitor_judge_missing_ratio", JUDGED), "no verdict", "没有结论"),
            of(shown("ragmonitor_uncovered_ratio", WINDOWED), "no chance", "没有机会"),
            width=8,
        ),
        lines(
            Words("How much of the budget is spent?", "预算用了多少？"),
            "What judging cost in the last hour and day as a share of its limits. At 100 %"
            " judging pauses and intervals widen: raise the budget, or sample less.",
            "最近一小时与一天的评审花费占限额的比例。到 100 % 时评审暂停、区间变宽：提高预算，"
            "或降低抽样。",
            (BUDGETS, Words("{{unit}} per {{per}}", "{{unit}} / {{per}}")),
            custom={"thresholdsStyle": {"mode": "dashed"}},
            thresholds=((None, GREEN), (0.8, ORANGE), (1, RED)),
            empty=Words("No judge that costs anything", "没有需要花费的评审"),
            width=8,
        ),
        lines(
            Words("Does the judge still judge as it did?", "评审的标准变了吗？"),
            "Share of the reference answers on which the judge's verdict has changed. A rise:"
            " trust no quality alarm before the judge is checked.",
            "评审对参考样例改变结论的比例。上升：先查评审，再信质量告警。",
            of(shown("ragmonitor_anchor_flip_rate", JUDGED)),
            empty=Words("No reference answers yet", "还没有参考样例"),
        ),
        lines(
            Words("How many answers wait?", "多少回答在等待？"),
            "Answers in the queue of a process, and on a stream. A rise that does not end:"
            " more is asked than is scored.",
            "进程队列与流中等待的回答。持续上升：提问快于打分。",
            of(f"sum by (service) (ragmonitor_queue_depth{{{SERVICE}}})", "queue", "队列"),
            of(
                f'max by (service) (ragmonitor_stream_records{{{SERVICE}, state="waiting"}})',
                "stream",
                "流",
            ),
            unit="short",
        ),
    ),
    row(
        Words("What is lost", "丢失了什么"),
        lines(
            Words("What was dropped in the last hour?", "最近一小时丢弃了什么？"),
            "Answers and deliveries that were lost, by reason. queue_full: too slow; otlp_,"
            " phoenix_, langfuse_, jsonl_: the destination.",
            "丢失的回答与未送达的内容，按原因。queue_full：太慢；otlp_、phoenix_、langfuse_、"
            "jsonl_：目的地的问题。",
            of(gained("ragmonitor_dropped", "reason"), "{{reason}}"),
            unit="short",
            empty=Words("Nothing", "没有"),
        ),
        lines(
            Words("Did the monitor itself fail?", "监控器自身出错了吗？"),
            "Errors of the monitoring by stage, in the last hour. The application does not"
            " notice; its log, logger ragmonitor, has the first of each kind.",
            "最近一小时监控自身的错误，按阶段。应用不受影响；"
            "日志（logger ragmonitor）写有每种的第一条。",
            of(gained("ragmonitor_internal_errors", "stage"), "{{stage}}"),
            unit="short",
            empty=Words("No errors", "没有错误"),
        ),
    ),
    since="now-6h",
    variables=VARIABLES,
    annotations=ANNOTATIONS,
)

BOARDS = (OVERVIEW, INVESTIGATE, PIPELINE)
