"""Is the monitor itself well: the judge, its drift, its cost, and the pipeline behind the app."""

from __future__ import annotations

from boards.panels import (
    DATASOURCE,
    EVALUATOR,
    GREEN,
    GREY,
    JUDGE,
    JUDGED,
    ORANGE,
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
    gained,
    or_zero,
    pooled,
)

FREE = Words("No judge that is called", "没有需要调用的评审")
TOTAL = Words("{{service}} · all", "{{service}} · 合计")


def rates(series: str, *, by: str, selector: str = SERVICE) -> str:
    """Return the expression of how often a minute, by a label."""
    return f"60 * sum by (service, {by}) (rate({series}{{{selector}}}[$__rate_interval]))"


def all_gained(series: str) -> Query:
    """Return the query of how often in the last hour in all: 0, not absent, if never."""
    return Query(expr=or_zero(gained(series)), legend=TOTAL, look=Look(color=GREY))


def all_of(series: str, *, selector: str = SERVICE) -> Query:
    """Return the query of how often a minute in all: 0, not absent, while there was none."""
    total = f"60 * sum by (service) (rate({series}{{{selector}}}[$__rate_interval]))"
    return Query(expr=or_zero(total), legend=TOTAL, look=Look(color=GREY))


JUDGE_ROW = (
    Row(title=Words("Judge", "评审"), y=0),
    Panel(
        kind="lines",
        title=Words("Calls of the judge", "评审调用次数"),
        description=Words(
            "Calls of each judge's model per minute, every service added up. Zero while there is"
            " traffic: look at the breaker, the budget and the sampling rate.",
            "每分钟调用评审模型的次数（各服务合计）。有流量却为零：看熔断、预算与抽样比例。",
        ),
        at=(0, 1, 8, 8),
        unit="opm",
        low=0,
        if_empty=FREE,
        queries=(
            Query(
                expr="60 * sum by (judge)"
                f" (rate(ragmonitor_judge_calls_total{{{SERVICE}}}[$__rate_interval]))",
                legend="{{judge}}",
            ),
        ),
    ),
    Panel(
        kind="lines",
        title=Words("Cost of the judge per hour", "评审每小时花费"),
        description=Words(
            "US dollars spent on judging in the last hour. More than expected: see tokens per call"
            " (long contexts) and the share of answers that is drawn.",
            "最近一小时的评审花费（美元）。高于预期：看每次调用的 Token"
            " 数（上下文过长）与抽样比例。",
        ),
        at=(8, 1, 8, 8),
        unit="currencyUSD",
        decimals=3,
        low=0,
        if_empty=FREE,
        queries=(
            Query(
                expr="sum by (service, judge)"
                f" (increase(ragmonitor_judge_cost_usd_total{{{SERVICE}}}[1h]))",
                legend="{{service}} · {{judge}}",
            ),
        ),
    ),
    Panel(
        kind="lines",
        title=Words("Latency of the judge", "评审延迟"),
        description=Words(
            "How long judging one answer took. It never delays an answer; when it grows, the queue"
            " grows too, and alarms come later.",
            "评审一次的耗时。它不会拖慢回答；但变长时队列会堆积，告警会变晚。",
        ),
        at=(16, 1, 8, 8),
        unit="s",
        low=0,
        if_empty=FREE,
        queries=tuple(
            Query(
                expr=f"histogram_quantile({quantile}, sum by (judge, le)"
                f" (rate(ragmonitor_judge_seconds_bucket{{{SERVICE}}}[$__rate_interval])))",
                legend=f"{{{{judge}}}} p{quantile[2:].ljust(2, '0')}",
            )
            for quantile in ("0.5", "0.95")
        ),
    ),
    Panel(
        kind="lines",
        title=Words("Failures of the judge by cause", "评审失败（按原因）"),
        description=Words(
            "Readings per minute that gave no verdict. judge_timeout, judge_error: the provider;"
            " unreadable: the model does not keep to the format, try another; each failed verdict"
            " widens what is known.",
            "每分钟没有得出结论的评审。judge_timeout、judge_error：服务商问题；unreadable："
            "模型不守格式，"
            "请换模型。每次失败都会使结论更不确定。",
        ),
        at=(0, 9, 8, 8),
        unit="opm",
        low=0,
        queries=(
            Query(
                expr=rates(
                    "ragmonitor_judge_seconds_count",
                    by="outcome",
                    selector=f'{SERVICE}, outcome!~"ok|cached"',
                ),
                legend="{{service}} · {{outcome}}",
            ),
            all_of("ragmonitor_judge_seconds_count", selector=f'{SERVICE}, outcome!~"ok|cached"'),
        ),
    ),
    Panel(
        kind="states",
        title=Words("Breaker", "熔断状态"),
        description=Words(
            "Whether the judge's provider is asked. Open: it failed too often and is left alone for"
            " a while; answers are judged by the next judge or not at all.",
            "是否在调用评审服务商。断开：失败过多，暂停调用；期间由后备评审接手，或不评审。",
        ),
        at=(8, 9, 8, 8),
        unit="none",
        thresholds=((None, GREEN), (1, ORANGE), (2, RED)),
        states=(
            State(value=0, text=Words("closed", "正常调用"), color=GREEN),
            State(value=1, text=Words("half open: one call tries", "试探中"), color=ORANGE),
            State(value=2, text=Words("open", "已断开"), color=RED),
        ),
        if_empty=FREE,
        queries=(
            Query(
                # A judge whose breaker never opened has not spoken of it: it is being asked.
                expr=f"max by (service, judge) (ragmonitor_judge_breaker_state{{{SERVICE}}})"
                " or 0 * max by (service, judge)"
                f' (ragmonitor_judge_info{{{SERVICE}, judge!~"builtin(:.*)?"}})',
                legend="{{service}} · {{judge}}",
            ),
        ),
    ),
    Panel(
        kind="lines",
        title=Words("Tokens per call", "每次调用的 Token 数"),
        description=Words(
            "What one call of the judge's model reads and writes. Rising input: longer contexts;"
            " each costs and may exceed the model's window.",
            "每次调用读入与写出的 Token 数。输入上升：上下文变长，花费增加，也可能超出模型窗口。",
        ),
        at=(16, 9, 8, 8),
        unit="short",
        low=0,
        if_empty=FREE,
        queries=(
            Query(
                expr="sum by (judge, direction)"
                f" (rate(ragmonitor_judge_tokens_total{{{SERVICE}}}[$__rate_interval]))"
                " / on (judge) group_left () sum by (judge)"
                f" (rate(ragmonitor_judge_calls_total{{{SERVICE}}}[$__rate_interval]))",
                legend="{{judge}} · {{direction}}",
            ),
        ),
    ),
)

DRIFT = (
    Row(title=Words("Has the judge drifted", "评审是否漂移"), y=17),
    Panel(
        kind="lines",
        title=Words(
            "Does the judge repeat itself, do others agree", "评审是否前后一致，他人是否认同"
        ),
        description=Words(
            "How often the verdict changes: when the judge scores an answer twice, when it scores"
            " the reference answers again, and when a second judge scores the same answer. The"
            " reference answers' line rising with the same version: the provider changed the model"
            " behind its name."
            " Judges that disagree on more than 20 %: have a person label some answers.",
            "结论改变的比例：同一回答再评一次、参考样例再评一次，以及由第二评审评同一回答。"
            "版本没变而参考样例线上升：服务商悄悄换了模型。两个评审分歧超过 20 %："
            "请人工标注一些回答。",
        ),
        at=(0, 18, 12, 8),
        unit="percentunit",
        low=0,
        if_empty=Words("Nothing was scored twice yet", "尚无重复评审"),
        queries=(
            Query(
                expr=f"max by (service) (ragmonitor_judge_flip_rate{{{JUDGED}}})",
                legend=Words("{{service}} · scored twice", "{{service}} · 重复评审"),
            ),
            Query(
                expr=f"max by (service) (ragmonitor_anchor_flip_rate{{{JUDGED}}})",
                legend=Words("{{service}} · reference answers", "{{service}} · 参考样例"),
                look=Look(width=2),
            ),
            Query(
                expr="1 - avg by (judge, second_judge) (ragmonitor_judge_agreement"
                f'{{{SERVICE}, evaluator=~"$evaluator"}})',
                legend=Words(
                    "{{judge}} and {{second_judge}} disagree",
                    "{{judge}} 与 {{second_judge}} 不一致",
                ),
                look=Look(dashed=True),
            ),
            Query(
                expr="avg by (judge, second_judge) (ragmonitor_judge_difference"
                f'{{{SERVICE}, evaluator=~"$evaluator"}})',
                legend=Words(
                    "{{judge}} and {{second_judge}}, scores apart",
                    "{{judge}} 与 {{second_judge}} 分差",
                ),
                look=Look(dashed=True),
            ),
        ),
    ),
    Panel(
        kind="lines",
        title=Words("Checks of the reference answers", "参考样例的检查"),
        description=Words(
            "Reference answers scored again in the last hour, by outcome, and how many there are."
            " Many missing: the judge fails; none at all: no reference answers are set, and judge"
            " drift goes unseen.",
            "最近一小时重新评审的参考样例及结果，以及样例总数。missing 多：评审失败；"
            "一个都没有：未设参考样例，评审漂移将无法察觉。",
        ),
        at=(12, 18, 12, 8),
        unit="short",
        decimals=0,
        low=0,
        if_empty=Words("No reference answers are set", "未设置参考样例"),
        queries=(
            Query(
                expr=f"sum by (outcome) (increase(ragmonitor_anchor_checks_total{{{JUDGED}}}[1h]))",
                legend="{{outcome}}",
            ),
            Query(
                expr=f"max by (service) (ragmonitor_anchors{{{JUDGED}}})",
                legend=Words("{{service}} · reference answers", "{{service}} · 样例数"),
                look=Look(color=GREY, dashed=True),
            ),
        ),
    ),
    Panel(
        kind="lines",
        title=Words("Built-in judge, by the model's verdicts", "内置评审（以大模型为准）"),
        description=Words(
            "How well the built-in judge's risk tells bad answers from good ones before the judge"
            " reads them (AUROC). 50 % is guessing; when low, sampling saves nothing, while the"
            " estimates stay unbiased.",
            "内置评审的风险分在评审之前区分好坏回答的能力（AUROC）。50 % 等于瞎猜；"
            "偏低时抽样不再省钱，但估计仍无偏。",
        ),
        at=(0, 26, 12, 8),
        unit="percentunit",
        low=0.4,
        high=1,
        thresholds=((None, RED), (0.6, ORANGE), (0.7, GREEN)),
        lines_at_thresholds=True,
        if_empty=Words("Too few verdicts yet", "评审结论还太少"),
        queries=(
            Query(
                expr=f"avg by (service) (ragmonitor_builtin_auroc{{{JUDGED}}})",
                legend=Words("{{service}} · AUROC", "{{service}} · AUROC"),
                look=Look(width=2),
            ),
        ),
    ),
    Panel(
        kind="lines",
        title=Words("Corrected by people's labels", "经人工标注修正"),
        description=Words(
            "The last day's hallucination rate as judged, and as it would be if people had judged,"
            " by the answers that they labelled. Far apart: the judge is too strict or too lax. The"
            " dashed line counts the labels; under 30 the correction is a guess.",
            "最近一天评审得出的幻觉率，以及按人工标注修正后的幻觉率。相差很大：评审过严或过松。"
            "虚线是标注数，不足 30 时修正只是猜测。",
        ),
        at=(12, 26, 12, 8),
        unit="percentunit",
        low=0,
        queries=(
            Query(
                expr=pooled(
                    "ragmonitor_hallucination_rate",
                    "ragmonitor_hallucination_rate_effective_n",
                    # As the correction: of the last day, whatever window is chosen.
                    f'{JUDGED}, window="24h"',
                ),
                legend=Words("{{service}} · judged", "{{service}} · 评审"),
            ),
            *(
                Query(
                    expr="avg by (service)"
                    f" (ragmonitor_hallucination_rate_corrected{end}{{{JUDGED}}})",
                    legend=legend,
                    look=look,
                )
                for end, legend, look in (
                    ("", Words("{{service}} · corrected", "{{service}} · 修正后"), Look(width=2)),
                    (
                        "_lower",
                        Words("{{service}} · corrected, lower", "{{service}} · 修正后下限"),
                        Look(color=GREY, in_legend=False),
                    ),
                    (
                        "_upper",
                        Words("{{service}} · corrected, upper", "{{service}} · 修正后上限"),
                        Look(color=GREY, in_legend=False),
                    ),
                )
            ),
            Query(
                expr=f"max by (service) (ragmonitor_human_labels{{{SERVICE}}})",
                legend=Words("{{service}} · labels", "{{service}} · 标注数"),
                look=Look(color=GREY, dashed=True, unit="short", right_axis=True),
            ),
        ),
    ),
)

SAMPLING = (
    Row(title=Words("Sampling and money", "抽样与花费"), y=34),
    Panel(
        kind="lines",
        title=Words("Share of answers drawn for judging", "被抽中评审的比例"),
        description=Words(
            "The base rate of sampling. It follows from traffic and budget; near 0 the intervals"
            " are wide: raise the budget.",
            "基础抽样比例。它由流量与预算决定；接近 0 时区间很宽：请提高预算。",
        ),
        at=(0, 35, 8, 8),
        unit="percentunit",
        low=0,
        queries=(
            Query(
                expr=f"avg by (service) (ragmonitor_judge_sampling_rate{{{JUDGED}}})",
                legend=Words("{{service}} · rate", "{{service}} · 抽样比例"),
            ),
        ),
    ),
    Panel(
        kind="lines",
        title=Words("Effective sample size", "有效样本量"),
        description=Words(
            "How many answers, drawn at random and judged, would tell as much; of the chosen"
            " evaluators the one with the fewest. Under 20 nobody should conclude anything from"
            " that mean.",
            "相当于多少条随机评审的回答，取所选评估项中最少的一个。少于 20 时，不应据此下结论。",
        ),
        at=(8, 35, 8, 8),
        unit="short",
        low=0,
        thresholds=((None, RED), (20, GREEN)),
        lines_at_thresholds=True,
        queries=(
            Query(
                expr="min by (service) (sum by (service, evaluator)"
                f' (ragmonitor_score_effective_n{{{WINDOWED}, evaluator=~"$evaluator"}}))',
                legend="{{service}}",
            ),
        ),
    ),
    Panel(
        kind="lines",
        title=Words("Drawn without a verdict, and not covered", "抽中却无结论，及未覆盖"),
        description=Words(
            "Share of drawn answers whose judging failed, and share of answers that had no chance"
            " at all, over the last day. Intervals are wider by as much; above 5 % see the"
            " failures, the breaker and the budget.",
            "最近一天被抽中但评审失败的占比，以及完全没有机会被评审的占比。"
            "区间会相应变宽；超过 5 % 时看失败、熔断与预算。",
        ),
        at=(16, 35, 8, 8),
        unit="percentunit",
        low=0,
        thresholds=((None, GREEN), (0.05, ORANGE), (0.2, RED)),
        lines_at_thresholds=True,
        queries=(
            Query(
                expr=f"max by (service) (ragmonitor_judge_missing_ratio{{{JUDGED}}})",
                legend=Words("{{service}} · no verdict", "{{service}} · 无结论"),
            ),
            Query(
                expr=f'max by (service) (ragmonitor_uncovered_ratio{{{JUDGED}, window="24h"}})',
                legend=Words("{{service}} · not covered", "{{service}} · 未覆盖"),
                look=Look(dashed=True),
            ),
        ),
    ),
    Panel(
        kind="lines",
        title=Words("Left to spend now", "当前可用预算"),
        description=Words(
            "What may be spent at once, as a share of each limit: a full bucket holds 8 % of a"
            " day's (two hours' worth), 25 % of an hour's, and refills all the time. At 0 judging"
            " waits: raise the limit, or accept fewer judged answers.",
            "此刻可动用的额度占各限额的比例：装满时为日限额的 8 %（两小时的量）、小时限额的 25 %，"
            "并持续补充。为 0 时评审等待：提高限额，或接受更少的评审。",
        ),
        at=(0, 43, 8, 8),
        unit="percentunit",
        if_empty=FREE,
        queries=(
            Query(
                expr=f"min by (service, unit, per) (ragmonitor_budget_level{{{SERVICE}}})"
                f" / max by (service, unit, per) (ragmonitor_budget_limit{{{SERVICE}}})",
                legend=Words(
                    "{{service}} · {{unit}} per {{per}}", "{{service}} · {{unit}} / {{per}}"
                ),
            ),
        ),
    ),
    Panel(
        kind="lines",
        title=Words("Expected cost of judging one answer", "单次评审的预计花费"),
        description=Words(
            "What judging one answer is expected to cost; the sampling rate follows from it. A"
            " step: other prices, a longer prompt, longer contexts.",
            "单次评审的预计花费，抽样比例由它推算。阶跃：价格、提示词或上下文长度变了。",
        ),
        at=(8, 43, 8, 8),
        unit="currencyUSD",
        decimals=5,
        low=0,
        if_empty=FREE,
        queries=(
            Query(
                expr=f'max by (service) (ragmonitor_judge_expected_cost{{{JUDGED}, unit="usd"}})',
                legend=Words("{{service}} · dollars", "{{service}} · 美元"),
            ),
            Query(
                expr="max by (service) (ragmonitor_judge_expected_cost"
                f'{{{JUDGED}, unit="tokens"}})',
                legend=Words("{{service}} · tokens", "{{service}} · Token 数"),
                look=Look(color=GREY, dashed=True, unit="none", decimals=0, right_axis=True),
            ),
        ),
    ),
    Panel(
        kind="lines",
        title=Words("What the sampling saves", "抽样节省了多少"),
        description=Words(
            "Judged answers needed relative to plain random sampling for the same interval. Below 1"
            " it saves; far above 1 for long: the built-in judge's risk misleads, report it.",
            "得到同样区间所需的评审数，相对于简单随机抽样。低于 1 即为节省；长期远高于 1："
            "内置风险分在误导，请反馈。",
        ),
        at=(16, 43, 8, 8),
        unit="suffix: ×",
        decimals=2,
        low=0,
        thresholds=((None, GREEN), (1, ORANGE)),
        lines_at_thresholds=True,
        queries=(
            Query(
                expr=f"avg by (service, signal) (ragmonitor_sampling_efficiency{{{WINDOWED}}})",
                legend="{{service}} · {{signal}}",
            ),
        ),
    ),
)

PIPELINE_ROW = (
    Row(title=Words("Pipeline", "流水线"), y=51),
    Panel(
        kind="lines",
        title=Words("Queue", "队列"),
        description=Words(
            "Answers that wait to be scored, over all processes. Growing without end: scoring is"
            " slower than the traffic; see the time by stage. A full queue drops, and counts it.",
            "等待处理的回答数（所有进程）。一直增长：评分跟不上流量，看各阶段耗时。"
            "满了会丢弃并计数。",
        ),
        at=(0, 52, 8, 8),
        unit="short",
        low=0,
        queries=(
            Query(
                expr=f"sum by (service) (ragmonitor_queue_depth{{{SERVICE}}})",
                legend="{{service}}",
            ),
        ),
    ),
    Panel(
        kind="lines",
        title=Words("Dropped in the last hour, by reason", "最近一小时的丢弃（按原因）"),
        description=Words(
            "Interactions, runs and sent scores given up in the last hour. Anything above 0 is not"
            " covered by the numbers: queue_full asks for more workers or a smaller load.",
            "最近一小时放弃的交互、运行与发送。大于 0 的部分不在统计之内：queue_full"
            " 说明需要更多工作进程或更小负载。",
        ),
        at=(8, 52, 8, 8),
        unit="short",
        low=0,
        thresholds=((None, GREEN), (0.001, RED)),
        queries=(
            Query(
                expr=gained("ragmonitor_dropped_total", by="reason"),
                legend="{{service}} · {{reason}}",
            ),
            all_gained("ragmonitor_dropped_total"),
        ),
    ),
    Panel(
        kind="lines",
        title=Words("Open runs", "未结束的运行"),
        description=Words(
            "Runs of the application's framework that began and have not ended. Flat is well; a"
            " steady climb means that runs never end: streams are abandoned, or callbacks are"
            " lost.",
            "已开始、未结束的运行数。平稳为好；持续上升说明运行没有结束：流被放弃，或回调丢失。",
        ),
        at=(16, 52, 8, 8),
        unit="short",
        low=0,
        queries=(
            Query(
                expr=f"sum by (service) (ragmonitor_open_runs{{{SERVICE}}})", legend="{{service}}"
            ),
        ),
    ),
    Panel(
        kind="stacked",
        title=Words("Worker time by stage", "工作线程用时（按阶段）"),
        description=Words(
            "How busy the worker behind the request path is; 100 % is one thread that never rests,"
            " from there on the queue grows. No request waits for it.",
            "请求路径之后的工作线程有多忙；100 % 表示一个线程不停歇，再往上队列会增长。"
            "请求不会等它。",
        ),
        at=(0, 60, 8, 8),
        unit="percentunit",
        low=0,
        queries=(
            Query(
                expr="sum by (stage)"
                f" (rate(ragmonitor_worker_seconds_sum{{{SERVICE}}}[$__rate_interval]))",
                legend="{{stage}}",
            ),
        ),
    ),
    Panel(
        kind="lines",
        title=Words("Time per answer by stage, p95", "单条回答各阶段用时 p95"),
        description=Words(
            "What scoring one answer costs, 95 % of them at most. Long answers and many chunks make"
            " `read` slow; `export` slow: a backend does not keep up.",
            "处理一条回答的用时，95 % 不超过此值。回答长、片段多会使 read 变慢；export 慢："
            "后端跟不上。",
        ),
        at=(8, 60, 8, 8),
        unit="s",
        low=0,
        queries=(
            Query(
                expr="histogram_quantile(0.95, sum by (stage, le)"
                f" (rate(ragmonitor_worker_seconds_bucket{{{SERVICE}}}[$__rate_interval])))",
                legend="{{stage}}",
            ),
        ),
    ),
    Panel(
        kind="lines",
        title=Words("Errors of the monitoring itself, last hour", "最近一小时监控自身的错误"),
        description=Words(
            "Errors of ragmonitor in the last hour by stage, and restarts of its worker; the"
            " application never sees them. Above 0: read the log of the logger `ragmonitor`, where"
            " each kind is logged once.",
            "最近一小时 ragmonitor 自身的错误（按阶段）与工作线程的重启；应用不受影响。大于 0："
            "查看 ragmonitor 日志，每类错误只记一次。",
        ),
        at=(16, 60, 8, 8),
        unit="short",
        low=0,
        thresholds=((None, GREEN), (0.001, RED)),
        queries=(
            Query(
                expr=gained("ragmonitor_internal_errors_total", by="stage"),
                legend="{{service}} · {{stage}}",
            ),
            all_gained("ragmonitor_internal_errors_total"),
            Query(
                expr=gained("ragmonitor_worker_restarts_total"),
                legend="{{service}} · worker restarts",
            ),
        ),
    ),
    Panel(
        kind="lines",
        title=Words("Since the last score, by judge", "距上次评分（按评审）"),
        description=Words(
            "Age of the newest score of each judge. Growing in step with the clock while there is"
            " traffic: that judge has stopped.",
            "每个评审最近一次打分距今多久。有流量却与时钟同步增长：该评审已停。",
        ),
        at=(0, 68, 8, 8),
        unit="s",
        low=0,
        thresholds=((None, GREEN), (900, ORANGE), (3600, RED)),
        lines_at_thresholds=True,
        queries=(
            Query(
                expr="time() - max by (service, judge)"
                f" (ragmonitor_last_score_timestamp_seconds{{{SERVICE}}})",
                legend="{{service}} · {{judge}}",
            ),
        ),
    ),
    Panel(
        kind="table",
        title=Words("Who judges", "谁在评审"),
        description=Words(
            "Every judge with the version of everything that shapes its verdicts. Two versions of"
            " one judge at once: processes run with different settings, their numbers do not mix.",
            "每个评审及其版本（凡影响结论者皆计入）。同一评审同时有两个版本：各进程设置不同，"
            "数字不可混用。",
        ),
        at=(8, 68, 8, 8),
        unit="none",
        queries=(
            Query(
                expr="count by (service, judge, kind, version)"
                f" (ragmonitor_judge_info{{{SERVICE}}})",
                legend="{{judge}}",
            ),
        ),
        columns=(
            Column(name="service", title=Words("Service", "服务")),
            Column(name="judge", title=Words("Judge", "评审")),
            Column(name="kind", title=Words("Kind", "类别")),
            Column(name="version", title=Words("Version", "版本")),
            Column(name="Value", title=Words("Processes", "进程数"), decimals=0),
        ),
        sorted_by=Words("Processes", "进程数"),
    ),
    Panel(
        kind="table",
        title=Words("What runs", "正在运行的版本"),
        description=Words(
            "Versions of the application and of ragmonitor. Two"
            " versions of the application: a rollout is under way, compare them in “Investigate”.",
            "应用与 ragmonitor 的版本。应用有两个版本：正在发布，可在“排查”中对比。",
        ),
        at=(16, 68, 8, 8),
        unit="none",
        queries=(
            Query(
                expr=" or ".join(
                    "label_replace(count by (service, version)"
                    f' ({series}{{{SERVICE}}}), "part", "{part}", "", "")'
                    for series, part in (
                        ("ragmonitor_service_info", "application"),
                        ("ragmonitor_build_info", "ragmonitor"),
                    )
                ),
                legend="{{part}}",
            ),
        ),
        columns=(
            Column(name="service", title=Words("Service", "服务")),
            Column(name="part", title=Words("Part", "组成")),
            Column(name="version", title=Words("Version", "版本")),
            Column(name="Value", title=Words("Processes", "进程数"), decimals=0),
        ),
        sorted_by=Words("Processes", "进程数"),
    ),
)


def by_answers(series: str) -> str:
    """Return the expression of a share over all processes, each counting by its answers.

    One that has too few for a share counts for nothing.
    """
    share = f"{series}{{{JUDGED}}}"
    answers = f"sum without (people, verdict) (ragmonitor_feedback_answers{{{JUDGED}}})"
    return f"sum by (service) ({share} * {answers}) / sum by (service) ({answers} and {share})"


PEOPLE = (
    Row(title=Words("What people say", "用户反馈"), y=76),
    Panel(
        kind="lines",
        title=Words("Judge and people agree", "评审与用户一致"),
        description=Words(
            "Of the answers of the last 30 days that both spoke of, the share on which people and"
            " the judge agree, with its 95 % interval. Who speaks is no random sample: it says how"
            " far the judge sees what annoys people, and is no rate of good answers.",
            "最近 30 天双方都评价过的回答中，用户与评审一致的比例及其 95% 区间。"
            "给出反馈的用户并非随机样本：它反映评审能否看到用户的不满，不是好回答的比例。",
        ),
        at=(0, 77, 12, 8),
        unit="percentunit",
        low=0,
        queries=(
            *(
                Query(
                    expr=by_answers(f"ragmonitor_feedback_agreement{end}"),
                    legend=legend,
                    look=look,
                )
                for end, legend, look in (
                    ("", "{{service}}", Look(width=2)),
                    (
                        "_lower",
                        Words("{{service}} · lower", "{{service}} · 下限"),
                        Look(color=GREY, in_legend=False),
                    ),
                    (
                        "_upper",
                        Words("{{service}} · upper", "{{service}} · 上限"),
                        Look(color=GREY, in_legend=False),
                    ),
                )
            ),
            Query(
                expr=f"sum by (service) (ragmonitor_feedback_answers{{{JUDGED}}})",
                legend=Words("{{service}} · answers", "{{service}} · 回答数"),
                look=Look(color=GREY, dashed=True, unit="short", right_axis=True),
            ),
        ),
    ),
    Panel(
        kind="lines",
        title=Words("Feedback per hour", "每小时反馈"),
        description=Words(
            "What people gave, by its direction, and what belongs to no answer that is known: an id"
            " of another service, or of an answer that is too old.",
            "用户反馈数（按方向），以及找不到对应回答的反馈：编号属于其他服务，或回答过旧。",
        ),
        at=(12, 77, 12, 8),
        unit="short",
        low=0,
        queries=(
            Query(
                expr="sum by (service, direction)"
                f" (increase(ragmonitor_feedback_total{{{SERVICE}}}[1h]))",
                legend="{{service}} · {{direction}}",
            ),
            Query(
                expr="sum by (service)"
                f" (increase(ragmonitor_feedback_unknown_total{{{SERVICE}}}[1h]))",
                legend=Words("{{service}} · unknown", "{{service}} · 未知"),
                look=Look(color=ORANGE, dashed=True),
            ),
        ),
    ),
)

NO_STREAM = Words("No stream is used", "未使用流")
NO_RECEIVER = Words("`ragmonitor receive` is not used", "未使用 ragmonitor receive")


def highest(series: str, legend: Words, look: Look = Look()) -> Query:  # noqa: B008 - frozen
    """Return the query of a gauge that several processes show alike."""
    return Query(expr=f"max by (service) ({series}{{{SERVICE}}})", legend=legend, look=look)


FLEET = (
    Row(title=Words("Streams and fleets", "流与多进程"), y=85),
    Panel(
        kind="lines",
        title=Words("On the stream", "流上的回答"),
        description=Words(
            "Answers that no worker has taken, that workers have in hand, and that wait for the"
            " estimator. Waiting that grows without end: more workers; settled that grows: there is"
            " no estimator.",
            "尚未被取走的、worker 手中的，以及等待 estimator 的回答数。等待数一直增长："
            "增加 worker；已评分数一直增长：没有 estimator。",
        ),
        at=(0, 86, 8, 8),
        unit="short",
        low=0,
        if_empty=NO_STREAM,
        queries=(
            highest(
                "ragmonitor_stream_waiting",
                Words("{{service}} · waiting", "{{service}} · 等待"),
                Look(width=2),
            ),
            highest("ragmonitor_stream_open", Words("{{service}} · taken", "{{service}} · 已取走")),
            highest(
                "ragmonitor_stream_settled",
                Words("{{service}} · for the estimator", "{{service}} · 等待 estimator"),
                Look(dashed=True),
            ),
        ),
    ),
    Panel(
        kind="lines",
        title=Words("How late: the oldest answer, the estimator's state", "延迟：最早的回答、状态"),
        description=Words(
            "Age of the oldest answer that is not settled: so late are scores and alarms. Dashed:"
            " how long ago the estimator kept its state, a second or two; growing: nobody"
            " estimates.",
            "最早的未处理回答的年龄，分数与告警就晚这么久。虚线：estimator 上次保存状态距今，"
            "通常一两秒；增长说明没有 estimator。",
        ),
        at=(8, 86, 8, 8),
        unit="s",
        low=0,
        thresholds=((None, GREEN), (60, ORANGE), (600, RED)),
        lines_at_thresholds=True,
        if_empty=NO_STREAM,
        queries=(
            highest(
                "ragmonitor_stream_oldest_seconds",
                Words("{{service}} · oldest answer", "{{service}} · 最早的回答"),
                Look(width=2),
            ),
            Query(
                expr="time() - max by (service)"
                f" (ragmonitor_estimator_checkpoint_timestamp_seconds{{{SERVICE}}})",
                legend=Words("{{service}} · estimator's state", "{{service}} · 状态"),
                look=Look(color=GREY, dashed=True),
            ),
        ),
    ),
    Panel(
        kind="lines",
        title=Words("Takeovers, buried records, reach", "接管、搁置的记录、连接"),
        description=Words(
            "Takeovers of the estimator in the last hour (a rolling update needs two), records that"
            " were put aside, and processes that do not reach the stream. All are 0 when all is"
            " well.",
            "最近一小时 estimator 的接管次数（滚动更新需要两次）、被搁置的记录数，"
            "以及连不上流的进程数。正常时都为 0。",
        ),
        at=(16, 86, 8, 8),
        unit="short",
        decimals=0,
        low=0,
        if_empty=NO_STREAM,
        queries=(
            Query(
                expr="max by (service)"
                f" (max_over_time(ragmonitor_estimator_takeovers{{{SERVICE}}}[1h]))"
                " - min by (service)"
                f" (min_over_time(ragmonitor_estimator_takeovers{{{SERVICE}}}[1h]))",
                legend=Words("{{service}} · takeovers", "{{service}} · 接管"),
            ),
            highest(
                "ragmonitor_stream_buried",
                Words("{{service}} · buried", "{{service}} · 搁置"),
                Look(color=RED),
            ),
            Query(
                expr=f"sum by (service) (1 - ragmonitor_stream_up{{{SERVICE}}})",
                legend=Words("{{service}} · out of reach", "{{service}} · 连不上"),
                look=Look(color=ORANGE, dashed=True),
            ),
        ),
    ),
    Panel(
        kind="lines",
        title=Words("Answers read, by process", "读取的回答（按进程）"),
        description=Words(
            "How many answers each process reads per minute: of a fleet each worker. One that"
            " stays at 0 while answers wait does not take part.",
            "每个进程每分钟读取的回答数；多进程时即每个 worker。"
            "有回答等待而某个一直为 0：它没有参与。",
        ),
        at=(0, 94, 8, 8),
        unit="opm",
        low=0,
        queries=(
            Query(
                expr="60 * sum by (service, instance) (rate("
                f'ragmonitor_worker_seconds_count{{{SERVICE}, stage="read"}}[$__rate_interval]))',
                legend="{{service}} · {{instance}}",
            ),
        ),
    ),
    Panel(
        kind="lines",
        title=Words("Requests with spans, by outcome", "收到的请求（按结果）"),
        description=Words(
            "What `ragmonitor receive` got per minute. full: senders are asked to try again;"
            " unauthorized, malformed, too_large: their spans are lost.",
            "`ragmonitor receive` 每分钟收到的请求。full：请发送方重试；"
            "unauthorized、malformed、too_large：这些 span 丢失。",
        ),
        at=(8, 94, 8, 8),
        unit="opm",
        low=0,
        if_empty=NO_RECEIVER,
        queries=(
            Query(
                expr=rates("ragmonitor_received_requests_total", by="outcome"),
                legend="{{service}} · {{outcome}}",
            ),
        ),
    ),
    Panel(
        kind="lines",
        title=Words("Traces received, by what was found", "收到的链路（按所得）"),
        description=Words(
            "Traces per minute: with an answer, without one (none: health checks, other routes),"
            " too large or unreadable. Dashed: traces that are held until they are complete.",
            "每分钟的链路：有回答、没有回答（none：健康检查等）、过大或无法读取。"
            "虚线：等待补齐的链路数。",
        ),
        at=(16, 94, 8, 8),
        unit="opm",
        low=0,
        if_empty=NO_RECEIVER,
        queries=(
            Query(
                expr=rates("ragmonitor_received_traces_total", by="outcome"),
                legend="{{service}} · {{outcome}}",
            ),
            Query(
                expr=f"sum by (service) (ragmonitor_open_traces{{{SERVICE}}})",
                legend=Words("{{service}} · open", "{{service}} · 未完成"),
                look=Look(color=GREY, dashed=True, unit="short", right_axis=True),
            ),
        ),
    ),
)

PIPELINE = Board(
    uid="ragmonitor-pipeline",
    title=Words("ragmonitor / Judge and pipeline", "ragmonitor / 评审与流水线"),
    description=Words(
        "Is the monitor itself well: the judge, its drift, its cost, and what runs behind the"
        " application. A blind monitor must not look healthy.",
        "监控自身是否正常：评审及其漂移、花费，以及应用背后的流水线。失明的监控不能看起来健康。",
    ),
    since="now-24h",
    variables=(DATASOURCE, SERVICES, JUDGE, EVALUATOR, WINDOW),
    contents=(*JUDGE_ROW, *DRIFT, *SAMPLING, *PIPELINE_ROW, *PEOPLE, *FLEET),
)
