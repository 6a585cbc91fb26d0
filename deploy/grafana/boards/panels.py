"""The records that a dashboard is made of. Nothing here knows Grafana's JSON."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

Language = Literal["en", "zh"]
LANGUAGES: tuple[Language, ...] = ("en", "zh")

SERVICE = 'service=~"$service"'
JUDGED = 'service=~"$service", judge="$judge"'
WINDOWED = 'service=~"$service", judge="$judge", window="$window"'
"""The selectors that nearly every query begins with."""

RED = "semi-dark-red"
ORANGE = "semi-dark-orange"
GREEN = "semi-dark-green"
BLUE = "semi-dark-blue"
PURPLE = "semi-dark-purple"
GREY = "#8e8e8e"


@dataclass(frozen=True, slots=True)
class Words:
    """The same text in both languages."""

    en: str
    zh: str

    def said(self, language: Language) -> str:
        """Return the text in a language."""
        return self.en if language == "en" else self.zh


Text = Words | str
"""A plain string is the same in both languages: a label's value, a symbol."""


def said(text: Text, language: Language) -> str:
    """Return the text in a language."""
    return text if isinstance(text, str) else text.said(language)


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """How the series of one query differ from the panel's other series."""

    color: str = ""
    dashed: bool = False
    width: int | None = None
    fill_below_to: Text = ""
    """The legend of the series down to which the area is filled."""
    in_legend: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """One question to Prometheus."""

    expr: str
    legend: Text
    look: Look = field(default_factory=Look)
    exemplars: bool = False
    """Ask for exemplars, too: each opens a trace. Of a histogram's buckets only."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """One column of a table: a label of the series, or the value of a query."""

    name: str
    """The label; `Value` of the only query, `Value #A` of one of several."""
    title: Words
    unit: str = ""
    decimals: int | None = None
    states: tuple[State, ...] = ()
    link: str = ""
    """An address of its own, made of the cell's value: `${__value.raw}`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """A number that stands for a word."""

    value: int
    text: Words
    color: str


Kind = Literal["lines", "stacked", "stat", "heatmap", "table"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """One picture on the grid."""

    kind: Kind
    title: Words
    description: Words
    """What it shows, and what to do about it."""
    at: tuple[int, int, int, int]
    """x, y, width, height; 24 columns."""
    unit: str
    queries: tuple[Query, ...]
    low: float | None = None
    high: float | None = None
    """Ends of the axis; None: as the data are."""
    decimals: int | None = None
    thresholds: tuple[tuple[float | None, str], ...] = ()
    """From which value on, which colour; the first has None. Empty: no value is good or bad."""
    lines_at_thresholds: bool = False
    logarithmic: bool = False
    """For evidence, which goes from a thousandth of the threshold to many times it."""
    columns: tuple[Column, ...] = ()
    sorted_by: Words | None = None
    """The column that a table is sorted by, largest first."""
    repeat: str = ""
    """The variable for each of whose values the panel is drawn."""
    if_empty: Words | None = None
    """What is shown where nothing was found, for what not every service has."""
    leads_on: bool = False
    """Whether the panel links to the dashboard on which one investigates."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A heading; with `repeat`, it and the panels below it are drawn for each value."""

    title: Text
    y: int
    repeat: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Variable:
    """What the reader may choose."""

    name: str
    label: Words
    description: Words
    kind: Literal["datasource", "query", "custom"]
    query: str
    regex: str = ""
    many: bool = False
    """Several values at once, or all of them; all of them to begin with."""
    in_order_found: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Annotation:
    """Moments, or spans of time, that are marked in every panel."""

    name: Words
    expr: str
    title: Words
    """May name labels: `{{version}}`."""
    color: str
    is_time: bool = False
    """The values are the moments themselves, in milliseconds since 1970."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Board:
    """One dashboard."""

    uid: str
    """Stable: alerts link to it. The Chinese one has `-zh` behind it."""
    title: Words
    description: Words
    since: str
    """Where the time range begins, as Grafana writes it: `now-24h`."""
    variables: tuple[Variable, ...]
    contents: tuple[Row | Panel, ...]


def shown(series: str, selector: str, *, by: str = "service") -> str:
    """Return the expression of a gauge of a service, which each of its targets shows alike."""
    return f"avg by ({by}) ({series}{{{selector}}})"


def mean_of_all(signal: str) -> str:
    """Return the expression of the mean of a signal that needs no judge, over all processes.

    Of its counters: the gauges do not say how many answers each of them rests on.
    """
    selector = f'{SERVICE}, signal="{signal}"'

    def grown(of: str) -> str:
        positive, negative = (
            "sum by (service) (increase(ragmonitor_estimate_total"
            f'{{{selector}, of="{of}", sign="{sign}"}}[$window]))'
            for sign in ("positive", "negative")
        )
        return f"({positive} - {negative})"

    return f"{grown('value')} / ({grown('applies')} > 0)"


def gained(series: str, *, by: str = "") -> str:
    """Return the expression of how much a counter grew in the last hour, its first count included.

    A counter with a label for a cause is born with its first count, of which `increase` knows
    nothing: the only error would not show. `ragmonitor.rules.model.gained` says more.
    """
    counter = f"{series}{{{SERVICE}}}"
    known = f"present_over_time({counter}[1h] offset 1h)"
    labels = f"service, {by}" if by else "service"
    return f"sum by ({labels}) (({counter} unless {known}) or increase({counter}[1h]))"


def evidence_share(aggregation: str, least: float, most: float) -> str:
    """Return the expression of evidence as a share of the threshold, within bounds.

    Beyond the threshold the number says nothing more: an alarm is raised at 1.

    Args:
        aggregation: Over which labels, `service` among them.
        least: What less is shown as; a logarithmic axis has no 0.
        most: What more is shown as.
    """
    return (
        f"clamp({aggregation} (ragmonitor_alarm_evidence_seconds{{{SERVICE}}})"
        " / on (service) group_left ()"
        f" max by (service) (ragmonitor_alarm_threshold_seconds{{{SERVICE}}}), {least:g}, {most:g})"
    )


def or_zero(expr: str) -> str:
    """Return the expression with 0 for each service that is there and has no such series yet.

    A service that is not scraped stays absent: what is not seen is not fine.
    """
    return f"{expr} or 0 * max by (service) (ragmonitor_build_info{{{SERVICE}}})"


DATASOURCE = Variable(
    name="datasource",
    label=Words("Data source", "数据源"),
    description=Words(
        "The Prometheus that scrapes ragmonitor.", "抓取 ragmonitor 指标的 Prometheus。"
    ),
    kind="datasource",
    query="prometheus",
)
SERVICES = Variable(
    name="service",
    label=Words("Service", "服务"),
    description=Words(
        "Which applications to show; those with an alarm come first.",
        "要查看的应用；有告警的在前。",
    ),
    kind="query",
    query=(
        "query_result(sort_desc(max by (service) (2 * ragmonitor_alarm_active)"
        " or max by (service) (0 * ragmonitor_build_info)))"
    ),
    regex='/service="([^"]+)"/',
    many=True,
    in_order_found=True,
)
JUDGE = Variable(
    name="judge",
    label=Words("Judge", "评审"),
    description=Words(
        "Whose verdicts to show, one judge at a time. Models come first; builtin is the built-in"
        " judge, which scores every answer.",
        "查看哪个评审的结论，一次一个。大模型排在最前；builtin 是内置评审，会为每一条回答评分。",
    ),
    kind="query",
    query=(
        'query_result(sort_desc(max by (judge) (3 * ragmonitor_judge_info{service=~"$service",'
        ' kind="LLM"}) or max by (judge) (2 * ragmonitor_judge_info{service=~"$service",'
        ' judge!~"builtin(:.*)?"}) or max by (judge) (ragmonitor_judge_info{service=~"$service"})))'
    ),
    regex='/judge="([^"]+)"/',
    in_order_found=True,
)
EVALUATOR = Variable(
    name="evaluator",
    label=Words("Evaluator", "评估项"),
    description=Words(
        "Which scores to show where a panel shows them by evaluator.",
        "在按评估项展示的图表中要查看的分数。",
    ),
    kind="query",
    query='label_values(ragmonitor_score_mean{service=~"$service"}, evaluator)',
    many=True,
)
WINDOW = Variable(
    name="window",
    label=Words("Window", "窗口"),
    description=Words(
        "How far back the means look. Windows slide: an answer that is older than the window does"
        " not count any more.",
        "均值回看多久。窗口是滑动的：比窗口更旧的回答不再计入。",
    ),
    kind="custom",
    query="1h,24h",
)
DIMENSION = Variable(
    name="dimension",
    label=Words("Split by", "分组维度"),
    description=Words(
        "By what the answers are split: language, and what the setting group_by names.",
        "按什么拆分回答：语言，以及设置项 group_by 指定的维度。",
    ),
    kind="query",
    query='label_values(ragmonitor_group_hallucination_rate{service=~"$service"}, dimension)',
    many=True,
)

ANNOTATIONS: tuple[Annotation, ...] = (
    Annotation(
        name=Words("Deployments", "版本发布"),
        expr=(
            f"count by (service, version) (ragmonitor_service_info{{{SERVICE}}}) unless"
            f" count by (service, version) (ragmonitor_service_info{{{SERVICE}}} offset 5m)"
        ),
        title=Words("{{service}}: version {{version}}", "{{service}}：版本 {{version}}"),
        color=BLUE,
    ),
    Annotation(
        name=Words("Judge changes", "评审变更"),
        expr=(
            f"count by (service, judge, version) (ragmonitor_judge_info{{{SERVICE}}}) unless"
            f" count by (service, judge, version) (ragmonitor_judge_info{{{SERVICE}}} offset 5m)"
        ),
        title=Words(
            "{{service}}: judge {{judge}} {{version}}", "{{service}}：评审 {{judge}} {{version}}"
        ),
        color=PURPLE,
    ),
    Annotation(
        name=Words("Events", "事件"),
        expr=(
            "max by (service, name)"
            f' (ragmonitor_event_timestamp_seconds{{{SERVICE},kind="event"}}) >= time() - 60'
        ),
        title=Words("{{service}}: {{name}}", "{{service}}：{{name}}"),
        color=BLUE,
    ),
    Annotation(
        name=Words("Alarms", "告警"),
        expr=f"max by (service, signal, kind) (ragmonitor_alarm_active{{{SERVICE}}}) == 1",
        title=Words("{{service}}: {{signal}} alarm", "{{service}}：{{signal}} 告警"),
        color=RED,
    ),
    Annotation(
        name=Words("Rises", "上升起点"),
        expr=(
            "max by (service, signal) (ragmonitor_alarm_rise_start_timestamp_seconds"
            f"{{{SERVICE}}} > 0) * 1000"
        ),
        title=Words(
            "{{service}}: {{signal}} has been worse from here on, by its alarm",
            "{{service}}：据告警，{{signal}} 自此变差",
        ),
        color=ORANGE,
        is_time=True,
    ),
)
"""Marked in every dashboard."""
