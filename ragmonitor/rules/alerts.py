"""The alerts, a row each. A monitor without data must not look healthy."""

from __future__ import annotations

import re
from dataclasses import KW_ONLY, dataclass
from typing import Any, Final

from ragmonitor.rules.recording import OUTRANKED


@dataclass(frozen=True, slots=True)
class Alert:
    """An alerting rule, for every service; its texts are templates (`texts.filled`)."""

    name: str
    expr: str
    summary: str
    """Without numbers or names, so that it is the same text every time."""
    description: str
    summary_zh: str
    description_zh: str
    _: KW_ONLY
    lasts: str = "5m"
    """For how long it must hold before it fires; `0m`: at once."""
    severity: str = "warning"
    """`critical`: wakes somebody. `warning`: this week. `info`: when one looks."""
    dashboard: str = "pipeline"
    by_judge: bool = False
    """It has the label `judge`, and its dashboard a variable for it."""
    has_incident: bool = False
    """The monitor opens an incident for it, which the annotation `incident_url` leads to."""

    @property
    def anchor(self) -> str:
        """Its place on the runbook: `hallucination-spike` for RagMonitorHallucinationSpike."""
        return re.sub(r"(?<!^)(?=[A-Z])", "-", self.name.removeprefix("RagMonitor")).lower()


def _alarm(name: str, matchers: str, *texts: str, **fields: Any) -> Alert:
    """Return the alert on alarms that are raised; its incident says what is known of why.

    The built-in judge has no say where a model judges.
    """
    expr = (
        f"max by (service, kind, signal, judge) (ragmonitor_alarm_active{{{matchers}}}) == 1\n"
        f"unless on (service, judge)\n{OUTRANKED}"
    )
    known: dict[str, Any] = {"dashboard": "investigate", "has_incident": True}
    return Alert(name, expr, *texts, lasts="0m", by_judge=True, **known | fields)


def gained(series: str, window: str) -> str:
    """Return how much each series of a counter grew, its first value included.

    `increase` loses what a counter is born with, and one with a label for a cause is born with its
    first count. A series is taken as born in the window if it was not there at any time of the hour
    before it: at one moment it may be missing only because nothing was scraped. What remains: after
    more than an hour without scrapes a lifetime's count is taken as new, once.
    """
    known = f"present_over_time({series}[1h] offset {window})"
    return f"(({series} unless {known}) or increase({series}[{window}]))"


def _received(what: str, outcomes: str) -> str:
    """Return the share of these outcomes among what `ragmonitor receive` got."""
    series = f'ragmonitor_received_total{{what="{what}"'
    grown = gained(f'{series},outcome=~"{outcomes}"}}', "15m")
    return (
        f"sum by (service, outcome) {grown}\n"
        "/ on (service) group_left ()\n"
        f"(sum by (service) (increase({series}}}[15m])) >= 20)"
    )


REFUSED: Final = "full|unauthorized|malformed|too_large|too_many|too_slow"
# Reasons of drops that cost no answer its score.
SENT: Final = '"(otlp|phoenix|langfuse|jsonl|notify|feedback)_.+"'
UNSCORED: Final = gained(f"ragmonitor_dropped_total{{reason!~{SENT}}}", "15m")
UNSENT: Final = gained(f"ragmonitor_dropped_total{{reason=~{SENT}}}", "15m")
ARRIVED: Final = "clamp_min(sum by (service) (increase(ragmonitor_interactions_total[15m])), 1)"
READINGS: Final = "sum by (service, judge) (increase(ragmonitor_judge_seconds_count"
FAILED: Final = f'{READINGS}{{outcome!~"ok|cached"}}[15m]))'
EVALUATIONS: Final = "sum by (service) (increase(ragmonitor_evaluations_total"
INCOMPLETE: Final = f'{EVALUATIONS}{{outcome="capture_incomplete"}}[1h]))'
GONE: Final = (
    "group by (service) (last_over_time(ragmonitor_build_info[3d]))\n"
    "unless on (service)\n"
    "group by (service) (ragmonitor_build_info)\n"
    "or\n"
    "absent(ragmonitor_build_info)"
)
"""Services that are not scraped; `writing` asks for those that are named, one by one."""

ALERTS: Final = {
    "quality": (
        _alarm(
            "RagMonitorHallucinationSpike",
            'kind="quality",signal="hallucination"',
            "More answers are hallucinated than the limit permits.",
            "%(service)s: by %(judge)s, a share of %(mean)s is hallucinated since %(began)s; "
            "limit %(limit)s, before %(before)s. Judge or application: %(cause)s.",
            "出现幻觉的回答多于容忍上限。",
            "%(service)s：据 %(judge)s，自 %(began)s 起幻觉比例为 %(mean)s；上限 %(limit)s，此前 "
            "%(before)s。评审还是应用：%(cause)s。",
            severity="critical",
            dashboard="overview",
        ),
        _alarm(
            "RagMonitorQualityDrift",
            'kind="quality",signal!~"hallucination|refusal|golden_.*|version_worse'
            '|empty_retrieval|weak_retrieval"',
            "A score of the answers is worse than its limit.",
            "%(service)s: mean %(signal)s by %(judge)s is %(mean)s since %(began)s; limit "
            "%(limit)s, before %(before)s.",
            "回答的某项分数差于容忍上限。",
            "%(service)s：据 %(judge)s，自 %(began)s 起 %(signal)s 均值为 %(mean)s；上限 "
            "%(limit)s，此前 %(before)s。",
            dashboard="overview",
        ),
        _alarm(
            "RagMonitorRefusalSurge",
            'signal="refusal"',
            "More questions are declined than the limit permits.",
            "%(service)s: by %(judge)s, a share of %(mean)s is declined since %(began)s; limit "
            "%(limit)s, before %(before)s.",
            "拒答的问题多于容忍上限。",
            "%(service)s：据 %(judge)s，自 %(began)s 起拒答比例为 %(mean)s；上限 %(limit)s，此前 "
            "%(before)s。",
        ),
        _alarm(
            "RagMonitorRetrievalDrift",
            'signal=~"empty_retrieval|weak_retrieval"',
            "Retrieval finds nothing, or weak chunks, more often than the limit permits.",
            "%(service)s: the share %(signal)s is %(mean)s since %(began)s; limit %(limit)s, "
            "before %(before)s.",
            "检索落空或检索变弱多于容忍上限。",
            "%(service)s：自 %(began)s 起 %(signal)s 的比例为 %(mean)s；上限 %(limit)s，此前 "
            "%(before)s。",
        ),
        _alarm(
            "RagMonitorGoldenQuestions",
            'signal=~"golden_.*"',
            "Golden questions are answered worse than they were, or not at all.",
            "%(service)s: %(signal)s by %(judge)s is worse than the questions' own history.",
            "参考问题答得比以前差，或没有回答。",
            "%(service)s：据 %(judge)s，%(signal)s 差于这些问题自己的历史。",
            has_incident=False,
        ),
        _alarm(
            "RagMonitorVersionWorse",
            'signal="version_worse"',
            "A version of the application is worse than the one before.",
            "%(service)s: by %(judge)s, the newest version is worse than its baseline. The "
            "incident names the version and the signal.",
            "应用的一个版本差于前一个版本。",
            "%(service)s：据 %(judge)s，最新版本差于基准版本。事件里有版本与信号的名字。",
            has_incident=False,
        ),
    ),
    "judging": (
        Alert(
            "RagMonitorJudgeDown",
            "max by (service, judge) (min_over_time(ragmonitor_judge_breaker_state[5m])) > 0\n"
            "or\n"
            "(\n"
            f"  {FAILED}\n"
            f'  / {READINGS}{{outcome!="cached"}}[15m]))\n'
            "  > 0.5\n"
            "  and\n"
            f"  {FAILED} >= 5\n"
            ")\n"
            "or\n"
            "max by (service, judge) (min_over_time(ragmonitor_judge_missing_ratio[30m])) > 0.1",
            "The LLM judge gives no verdicts, or too few.",
            "%(service)s: most calls of %(judge)s fail, its circuit breaker is open, or verdicts "
            "are missing. Meanwhile only the built-in judge scores, and it does not page.",
            "LLM 评审没有给出结论，或给得太少。",
            "%(service)s：%(judge)s 的多数调用失败、断路器断开，或缺少结论。其间只有内置评审打分"
            "，它不会叫醒人。",
            by_judge=True,
        ),
        _alarm(
            "RagMonitorJudgeDrift",
            'kind="judge"',
            "The judge's verdicts differ from those it gave before.",
            "%(service)s: %(judge)s judges its reference answers differently. Cause of the "
            "active alarm: %(cause)s.",
            "评审的结论与它以前给出的不同。",
            "%(service)s：%(judge)s 对参考样例改变了结论。当前告警的原因：%(cause)s。",
            dashboard="pipeline",
        ),
        Alert(
            "RagMonitorBudgetExhausted",
            "min by (service, unit, per) (ragmonitor_budget_level)\n"
            "< on (service, unit) group_left ()\n"
            "min by (service, unit) (ragmonitor_judge_expected_cost)\n"
            "or\n"
            "min by (service, unit, per) (ragmonitor_budget_level) <= 0",
            "The judge's budget does not pay for one more answer.",
            '%(service)s: {{ $value | printf "%.4g" }} %(unit)s per %(per)s are left, less than '
            "judging one answer takes. Until the budget fills up again only the built-in judge "
            "scores.",
            "评审的预算不够再评一条回答。",
            '%(service)s：每 %(per)s 的预算只剩 {{ $value | printf "%.4g" }} %(unit)s，不够评一条'
            "回答。恢复之前只有内置评审打分。",
            lasts="15m",
        ),
        Alert(
            "RagMonitorNotArmed",
            "group by (service) (ragmonitor_build_info)\n"
            "unless on (service)\n"
            'group by (service) (ragmonitor_alarm_objective{signal="hallucination"})',
            "No hallucination alarm is armed.",
            "%(service)s: the monitor has not learned yet what is normal, or its alarms are off. "
            "Until then nothing pages on hallucinations.",
            "幻觉告警尚未就绪。",
            "%(service)s：监控器还没学会什么是正常，或告警已关闭。在此之前不会因幻觉叫醒人。",
            lasts="1d",
            severity="info",
            dashboard="overview",
        ),
    ),
    "operation": (
        Alert(
            "RagMonitorAnswersDropped",
            f"sum by (service, reason) {UNSCORED}\n/ on (service) group_left ()\n{ARRIVED}\n> 0.01",
            "Answers are dropped before they are scored.",
            "%(service)s: %(share)s of the last 15 minutes' answers were dropped, reason "
            "%(reason)s.",
            "回答在打分之前被丢弃。",
            "%(service)s：最近 15 分钟有 %(share)s 的回答被丢弃，原因 %(reason)s。",
        ),
        Alert(
            "RagMonitorCaptureIncomplete",
            f"{INCOMPLETE}\n/ {EVALUATIONS}[1h]) > 0)\n> 0.05\nand\n{INCOMPLETE} >= 5",
            "Parts of interactions are not captured, so they have no score.",
            "%(service)s: %(share)s of the last hour's evaluations have no score because "
            "question, chunks or answer were not captured.",
            "交互没有采集完整，因此没有分数。",
            "%(service)s：最近一小时有 %(share)s 的评估因问题、片段或回答未采集到而没有分数。",
            lasts="10m",
        ),
        Alert(
            "RagMonitorDeliveryFailing",
            f"sum by (service, reason) {UNSENT}\n> on (service) group_left ()\n(0.01 * {ARRIVED})",
            "Traces, scores or notices do not arrive where they are sent.",
            '%(service)s: {{ $value | printf "%.0f" }} were lost in the last 15 minutes, reason '
            "%(reason)s. Scores and alarms go on. The application's log, logger ragmonitor, says "
            "which server refuses them.",
            "链路、分数或通知没有送达。",
            '%(service)s：最近 15 分钟丢失 {{ $value | printf "%.0f" }} 条，原因 %(reason)s。打分与'
            "告警照常。应用日志（logger ragmonitor）写明是哪个服务器拒收。",
        ),
        Alert(
            "RagMonitorWorkerFailing",
            # The worker shows itself every two seconds; a long answer may hold it up for half a
            # minute.
            "max by (service) (time() - ragmonitor_worker_seen_timestamp_seconds) > 120\n"
            f"or\nsum by (service) {gained('ragmonitor_internal_errors_total', '1h')} > 0",
            "What scores the answers fails, or stands still.",
            "%(service)s: the worker was started again, has done nothing for two minutes, or "
            "failed on answers. Do not rely on quality alarms meanwhile. The application's log, "
            "logger ragmonitor, says why.",
            "打分的工作线程失败，或停住不动。",
            "%(service)s：工作线程重新启动过、两分钟没有动作，或处理回答时出错。其间不要依赖质量"
            "告警。应用日志（logger ragmonitor）写明原因。",
            lasts="0m",
        ),
        Alert(
            "RagMonitorAbsent",
            f"{GONE}\nor\ngroup by (service) "
            "(last_over_time(ragmonitor_build_info[1d]) and on (job, instance) up == 0)",
            "A monitored service, or a process of one, is not scraped.",
            "{{ with $labels.service }}{{ . }}{{ else }}every service{{ end }}: Prometheus scrapes "
            "nothing of its monitor, or not all of its processes. No alert about the answers that "
            "are missing can fire.",
            "没有抓取到某个服务，或它的某个进程。",
            "{{ with $labels.service }}{{ . }}{{ else }}全部服务{{ end }}：Prometheus 抓不到它的"
            "监控器，或抓不全它的进程。缺少的回答不会触发任何告警。",
            lasts="10m",
        ),
    ),
    "fleet": (
        Alert(
            "RagMonitorFleetFailing",
            "min by (service) (ragmonitor_stream_up) == 0\n"
            "or\n"
            "max by (service) (ragmonitor_stream_oldest_seconds) > 600\n"
            "or\n"
            "group by (service) (ragmonitor_stream_up) unless on (service)\n"
            "group by (service) (ragmonitor_stream_records)",
            "Answers on the stream are not scored in time.",
            "%(service)s: the stream cannot be reached, its oldest answer waits for more than "
            "ten minutes, or no worker takes answers from it. Scores and alarms are that late.",
            "流上的回答没有及时打分。",
            "%(service)s：流无法连接、最早的回答已等待超过十分钟，或没有工作进程取走回答。分数与"
            "告警因此延迟。",
        ),
    ),
    "receive": (
        Alert(
            "RagMonitorSpansRefused",
            f"{_received('requests', REFUSED)}\n> 0.05\n"
            f"or\n{_received('traces', 'too_large|unreadable')}\n> 0.01\n"
            f"or\n{_received('traces', 'none')}\n> 0.99",
            "Spans are refused, or no answers are found in them.",
            "%(service)s: %(share)s of the last 15 minutes' requests or traces: %(outcome)s. "
            "Senders repeat what was refused as `full`; all else is lost.",
            "Span 被拒收，或其中没有回答。",
            "%(service)s：最近 15 分钟的请求或链路中 %(share)s：%(outcome)s。以 `full` 拒收的会重"
            "发；其余丢失。",
            lasts="10m",
        ),
    ),
}
"""By their group."""
