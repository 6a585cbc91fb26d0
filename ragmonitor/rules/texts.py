"""What alerts say, in English and Chinese: templates that query Prometheus when an alert fires."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, Literal, NamedTuple

from ragmonitor.rules.recording import DIAGNOSED
from ragmonitor.semconv import metrics as names

Language = Literal["en", "zh"]

_UNKNOWN: Final[Mapping[Language, str]] = {"en": "not known yet", "zh": "尚不知道"}
"""Stands where Prometheus has no value, as in the first hour: it is not that nothing happened."""

_SIGNAL: Final = "service=%q,signal=%q,judge=%q"
_JUDGE: Final = "service=%q,judge=%q"
_SERVICE: Final = "service=%q"
_CAUSE: Final = f"max by (cause) ({names.ALARM_CAUSE}{{{_JUDGE}}}) == 1"
_WORST: Final = f'topk(1, {DIAGNOSED}{{{_JUDGE},diagnosis!="ok"}})'
_THRESHOLD: Final = f"{names.ALARM_THRESHOLD_SECONDS}{{{_SERVICE}}}"
_SHARE_OF_THRESHOLD: Final = (
    f"100 * max({names.ALARM_EVIDENCE_SECONDS}{{{_SIGNAL}}}) / max({_THRESHOLD})"
)
_GOLDEN: Final = f'{names.GOLDEN_SCORE}{{{_SERVICE},window="1h",bound="mean"'
_VERSION: Final = f'{_JUDGE},signal="hallucination"'

_NUMBERS: Final[Mapping[str, tuple[str, str]]] = {
    "mean": (f'max({names.ALARM_RISE_MEAN}{{{_SIGNAL},side="since"}})', "%.3g"),
    "limit": (f"max({names.ALARM_OBJECTIVE}{{{_SIGNAL}}})", "%.3g"),
    # NaN, by which a process says that it is not known, is above nothing.
    "before": (f'max({names.ALARM_RISE_MEAN}{{{_SIGNAL},side="before"}} > -Inf)', "%.3g"),
    "evidence": (_SHARE_OF_THRESHOLD, "%.0f %%"),
    "golden_correct": (
        f'100 * avg({_GOLDEN},evaluator="answer_correctness"}})',
        "%.0f %%",
    ),
    "golden_answered": (
        f'100 * avg({_GOLDEN},evaluator="availability"}})',
        "%.0f %%",
    ),
    **{
        name: (f'100 * max({names.VERSION_DIFFERENCE}{{{_VERSION},bound="{bound}"}})', "%+.1f")
        for name, bound in (("difference", "mean"), ("lower", "lower"), ("upper", "upper"))
    },
    "missing": (f"100 * max({names.MISSING_RATIO}{{{_JUDGE}}})", "%.0f %%"),
    "flipped": (f"100 * max({names.ANCHOR_FLIP_RATE}{{{_JUDGE}}})", "%.0f %%"),
    "budget": (f"max({names.BUDGET_LIMIT}{{service=%q,unit=%q,per=%q}})", "%.4g"),
    "expected_cost": (f"min({names.EXPECTED_COST}{{service=%q,unit=%q}})", "%.4f"),
    "learned": (
        f'100 * max({names.ALARM_LEARNED_RATIO}{{{_SERVICE},signal="hallucination"}})',
        "%.0f %%",
    ),
    "waiting": (f"sum({names.QUEUE_DEPTH}{{{_SERVICE}}})", "%.0f"),
}
"""What stands in texts: an expression, and how Go's `printf` writes its first value.

In an expression `label=%q` gets the alert's own value of that label; PromQL's `%` is `%%`."""


def queried(expression: str) -> str:
    """Return the start of a template's pipeline that has the series of an expression."""
    values = "".join(f" $labels.{label}" for label in re.findall(r"(\w+)=%q", expression))
    return f"printf `{expression}`{values} | query"


def _with(expression: str, shown: str, unknown: str) -> str:
    """Return a template that shows the first value of an expression, or that there is none."""
    value = f"{{{{ . | first | {shown} }}}}"
    return f"{{{{ with {queried(expression)} }}}}{value}{{{{ else }}}}{unknown}{{{{ end }}}}"


def _pieces(language: Language) -> dict[str, str]:
    unknown = _UNKNOWN[language]
    began = f"max({names.ALARM_RISE_START}{{{_SIGNAL}}}) > 0"
    return {
        name: _with(expression, f'value | printf "{form}"', unknown)
        for name, (expression, form) in _NUMBERS.items()
    } | {
        **{label: f"{{{{ $labels.{label} }}}}" for label in _LABELS},
        "value": '{{ $value | printf "%.0f" }}',
        "amount": '{{ $value | printf "%.4g" }}',
        "share": "{{ $value | humanizePercentage }}",
        "began": f"{{{{ with {queried(began)} }}}}"
        '{{ (. | first | value | toTime).Format "15:04 UTC" }}'
        f"{{{{ else }}}}{unknown}{{{{ end }}}}",
        "cause": _with(_CAUSE, 'label "cause"', unknown),
        "diagnosis": _with(_WORST, 'label "diagnosis"', unknown),
        "whose": "{{ with $labels.service }}{{ . }}{{ else }}"
        f"{'every service' if language == 'en' else '全部服务'}{{{{ end }}}}",
    }


class Words(NamedTuple):
    """The texts of one alert in one language."""

    summary: str
    description: str
    """`%(name)s` is filled by `text_of`, and `%%` is a percent sign."""


_LABELS: Final = ("service", "judge", "signal", "reason", "outcome", "unit", "per")

TEXTS: Final[Mapping[str, Mapping[Language, Words]]] = {
    "HallucinationSpike": {
        "en": Words(
            "More answers are hallucinated than the limit permits.",
            "%(service)s: by %(judge)s, a share of %(mean)s is hallucinated since "
            "%(began)s; limit %(limit)s, before %(before)s. Evidence: %(evidence)s of the "
            "threshold. Judge or application: %(cause)s. Most frequent: %(diagnosis)s.",
        ),
        "zh": Words(
            "出现幻觉的回答多于容忍上限。",
            "%(service)s：据 %(judge)s，自 %(began)s 起幻觉比例为 %(mean)s；上限 "
            "%(limit)s，此前 %(before)s。证据为阈值的 %(evidence)s。评审还是应用："
            "%(cause)s。最常见：%(diagnosis)s。",
        ),
    },
    "QualityDrift": {
        "en": Words(
            "A score of the answers is worse than its limit.",
            "%(service)s: mean %(signal)s by %(judge)s is %(mean)s since %(began)s; limit "
            "%(limit)s, before %(before)s. Evidence: %(evidence)s of the threshold. Most "
            "frequent: %(diagnosis)s.",
        ),
        "zh": Words(
            "回答的某项分数差于容忍上限。",
            "%(service)s：据 %(judge)s，自 %(began)s 起 %(signal)s 均值为 %(mean)s；上限 "
            "%(limit)s，此前 %(before)s。证据为阈值的 %(evidence)s。最常见：%(diagnosis)s。",
        ),
    },
    "RefusalSurge": {
        "en": Words(
            "More questions are declined than the limit permits.",
            "%(service)s: by %(judge)s, a share of %(mean)s is declined since %(began)s; "
            "limit %(limit)s, before %(before)s. Evidence: %(evidence)s of the threshold.",
        ),
        "zh": Words(
            "拒答的问题多于容忍上限。",
            "%(service)s：据 %(judge)s，自 %(began)s 起拒答比例为 %(mean)s；上限 "
            "%(limit)s，此前 %(before)s。证据为阈值的 %(evidence)s。",
        ),
    },
    "RetrievalDrift": {
        "en": Words(
            "Retrieval finds nothing, or weak chunks, more often than the limit permits.",
            "%(service)s: the share %(signal)s is %(mean)s since %(began)s; limit "
            "%(limit)s, before %(before)s. Evidence: %(evidence)s of the threshold.",
        ),
        "zh": Words(
            "检索落空或检索变弱多于容忍上限。",
            "%(service)s：自 %(began)s 起 %(signal)s 的比例为 %(mean)s；上限 %(limit)s，此"
            "前 %(before)s。证据为阈值的 %(evidence)s。",
        ),
    },
    "GoldenQuestions": {
        "en": Words(
            "Golden questions are answered worse than they were, or not at all.",
            "%(service)s: %(signal)s by %(judge)s is worse than the questions' own "
            "history. Evidence: %(evidence)s of the threshold. In the last hour "
            "%(golden_answered)s were answered, %(golden_correct)s correctly.",
        ),
        "zh": Words(
            "黄金问题答得比以前差，或没有回答。",
            "%(service)s：据 %(judge)s，%(signal)s 差于这些问题自己的历史。证据为阈值的 "
            "%(evidence)s。最近一小时有回答 %(golden_answered)s，正确 %(golden_correct)s。",
        ),
    },
    "VersionWorse": {
        "en": Words(
            "A version of the application is worse than the one before.",
            "%(service)s: by %(judge)s, the newest version is worse than its baseline. "
            "Hallucination rate: %(difference)s points (95 %% confidence sequence %(lower)s"
            " to %(upper)s). The incident names the version and the signal.",
        ),
        "zh": Words(
            "应用的一个版本差于前一个版本。",
            "%(service)s：据 %(judge)s，最新版本差于基准版本。幻觉率相差 %(difference)s 个"
            "百分点（95 %% 置信序列 %(lower)s 至 %(upper)s）。事件里有版本与信号的名字。",
        ),
    },
    "JudgeDown": {
        "en": Words(
            "The LLM judge gives no verdicts, or too few.",
            "%(service)s: most calls of %(judge)s fail, its circuit breaker is open, or "
            "verdicts are missing. Of the last day's drawn answers %(missing)s have no "
            "verdict. Meanwhile only the built-in judge scores, and it does not page.",
        ),
        "zh": Words(
            "LLM 评审没有给出裁决，或给得太少。",
            "%(service)s：%(judge)s 的多数调用失败、断路器断开，或缺少裁决。最近一天抽中的"
            "回答中 %(missing)s 没有裁决。其间只有内置评审打分，它不会叫醒人。",
        ),
    },
    "JudgeDrift": {
        "en": Words(
            "The judge's verdicts differ from those it gave before.",
            "%(service)s: %(judge)s now judges %(flipped)s of the reference answers "
            "differently. Evidence: %(evidence)s of the threshold. Cause of the active "
            "alarm: %(cause)s.",
        ),
        "zh": Words(
            "评审的裁决与它以前给出的不同。",
            "%(service)s：%(judge)s 对 %(flipped)s 的参考样例改变了裁决。证据为阈值的 "
            "%(evidence)s。当前告警的原因：%(cause)s。",
        ),
    },
    "BudgetExhausted": {
        "en": Words(
            "The judge's budget does not pay for one more answer.",
            "%(service)s: %(amount)s of %(budget)s %(unit)s per %(per)s are left, and "
            "judging one answer takes %(expected_cost)s. Until it fills up again only the "
            "built-in judge scores.",
        ),
        "zh": Words(
            "评审的预算不够再评一条回答。",
            "%(service)s：每 %(per)s %(budget)s %(unit)s 的预算剩 %(amount)s，评一条回答需"
            "要 %(expected_cost)s。恢复之前只有内置评审打分。",
        ),
    },
    "NotArmed": {
        "en": Words(
            "No hallucination alarm is armed.",
            "%(service)s: the monitor has not learned yet what is normal (%(learned)s of "
            "the verdicts it needs), or its alarms are off. Until then nothing pages on "
            "hallucinations.",
        ),
        "zh": Words(
            "幻觉告警尚未就绪。",
            "%(service)s：监控器还没学会什么是正常（已有所需裁决的 %(learned)s），或告警已"
            "关闭。在此之前不会因幻觉叫醒人。",
        ),
    },
    "AnswersDropped": {
        "en": Words(
            "Answers are dropped before they are scored.",
            "%(service)s: %(share)s of the last 15 minutes' answers were dropped, reason "
            "%(reason)s. Waiting now: %(waiting)s.",
        ),
        "zh": Words(
            "回答在打分之前被丢弃。",
            "%(service)s：最近 15 分钟有 %(share)s 的回答被丢弃，原因 %(reason)s。正在等待"
            "：%(waiting)s。",
        ),
    },
    "CaptureIncomplete": {
        "en": Words(
            "Parts of interactions are not captured, so they have no score.",
            "%(service)s: %(share)s of the last hour's evaluations have no score because "
            "question, chunks or answer were not captured.",
        ),
        "zh": Words(
            "交互没有采集完整，因此没有分数。",
            "%(service)s：最近一小时有 %(share)s 的评估因问题、片段或回答未采集到而没有分数。",
        ),
    },
    "DeliveryFailing": {
        "en": Words(
            "Traces, scores or notices do not arrive where they are sent.",
            "%(service)s: %(value)s were lost in the last 15 minutes, reason %(reason)s. "
            "Scores and alarms go on. The application's log, logger ragmonitor, says which "
            "server refuses them.",
        ),
        "zh": Words(
            "链路、分数或通知没有送达。",
            "%(service)s：最近 15 分钟丢失 %(value)s 条，原因 %(reason)s。打分与告警照常。"
            "应用日志（logger ragmonitor）写明是哪个服务器拒收。",
        ),
    },
    "WorkerFailing": {
        "en": Words(
            "What scores the answers fails, or stands still.",
            "%(service)s: the worker was started again, has done nothing for two minutes, "
            "or failed on answers. Do not rely on quality alarms meanwhile. The "
            "application's log, logger ragmonitor, says why.",
        ),
        "zh": Words(
            "打分的工作线程失败，或停住不动。",
            "%(service)s：工作线程重新启动过、两分钟没有动作，或处理回答时出错。其间不要依"
            "赖质量告警。应用日志（logger ragmonitor）写明原因。",
        ),
    },
    "Absent": {
        "en": Words(
            "A monitored service, or a process of one, is not scraped.",
            "%(whose)s: Prometheus scrapes nothing of its monitor, or not all of its "
            "processes. No alert about the answers that are missing can fire.",
        ),
        "zh": Words(
            "没有抓取到某个服务，或它的某个进程。",
            "%(whose)s：Prometheus 抓不到它的监控器，或抓不全它的进程。缺少的回答不会触发任"
            "何告警。",
        ),
    },
    "FleetFailing": {
        "en": Words(
            "Answers on the stream are not scored in time.",
            "%(service)s: the stream cannot be reached, its oldest answer waits for more "
            "than ten minutes, or no worker takes answers from it. Scores and alarms are "
            "that late.",
        ),
        "zh": Words(
            "流上的回答没有及时打分。",
            "%(service)s：流无法连接、最早的回答已等待超过十分钟，或没有工作进程取走回答。"
            "分数与告警因此延迟。",
        ),
    },
    "SpansRefused": {
        "en": Words(
            "Spans are refused, or no answers are found in them.",
            "%(service)s: %(share)s of the last 15 minutes' requests or traces: "
            "%(outcome)s. Senders repeat what was refused as `full`; all else is lost.",
        ),
        "zh": Words(
            "Span 被拒收，或其中没有回答。",
            "%(service)s：最近 15 分钟的请求或链路中 %(share)s：%(outcome)s。以 `full` 拒收"
            "的会重发；其余丢失。",
        ),
    },
}
"""By an alert's name without its prefix."""


def text_of(alert: str, language: Language) -> Words:
    """Return the summary and the description of an alert, as Prometheus' templates."""
    summary, description = TEXTS[alert][language]
    return Words(summary, description % _pieces(language))
