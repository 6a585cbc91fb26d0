"""What alerts say, in English and Chinese: templates that query Prometheus when an alert fires."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, Literal, NamedTuple

from ragmonitor.semconv import metrics as names

Language = Literal["en", "zh"]

_UNKNOWN: Final[Mapping[Language, str]] = {"en": "not known yet", "zh": "尚不知道"}
"""Stands where Prometheus has no value, as in the first hour: it is not that nothing happened."""
_EVERY: Final[Mapping[Language, str]] = {"en": "every service", "zh": "全部服务"}

_SIGNAL: Final = "service=%q,signal=%q,judge=%q"
_CAUSE: Final = f"{names.ALARM_CAUSE}{{service=%q,judge=%q}}"
_NUMBER: Final = '. | first | value | printf "%.3g"'
_TIME: Final = '(. | first | value | toTime).Format "15:04 UTC"'
_QUERIES: Final[Mapping[str, tuple[str, str]]] = {
    "mean": (f'max({names.ALARM_RISE_MEAN}{{{_SIGNAL},side="since"}})', _NUMBER),
    "limit": (f"max({names.ALARM_OBJECTIVE}{{{_SIGNAL}}})", _NUMBER),
    # NaN, by which a process says that it is not known, is above nothing.
    "before": (
        f'max({names.ALARM_RISE_MEAN}{{{_SIGNAL},side="before"}} > -Inf)',
        _NUMBER,
    ),
    "began": (f"max({names.ALARM_RISE_START}{{{_SIGNAL}}}) > 0", _TIME),
    "cause": (f"max by (cause) ({_CAUSE}) == 1", '. | first | label "cause"'),
}
"""What stands in texts: an expression, and how a Go template shows its first value.

In an expression `label=%q` gets the alert's own value of that label."""


def _shown(expression: str, form: str, unknown: str) -> str:
    """Return a template that shows the first value of an expression, or that there is none."""
    values = "".join(f" $labels.{label}" for label in re.findall(r"(\w+)=%q", expression))
    value = f"{{{{ {form} }}}}"
    queried = f"printf `{expression}`{values} | query"
    return f"{{{{ with {queried} }}}}{value}{{{{ else }}}}{unknown}{{{{ end }}}}"


def _pieces(language: Language) -> dict[str, str]:
    unknown, every = _UNKNOWN[language], _EVERY[language]
    return {
        **{name: _shown(*query, unknown) for name, query in _QUERIES.items()},
        **{label: f"{{{{ $labels.{label} }}}}" for label in _LABELS},
        "value": '{{ $value | printf "%.0f" }}',
        "amount": '{{ $value | printf "%.4g" }}',
        "share": "{{ $value | humanizePercentage }}",
        "whose": f"{{{{ with $labels.service }}}}{{{{ . }}}}{{{{ else }}}}{every}{{{{ end }}}}",
    }


class Texts(NamedTuple):
    """The texts of one alert."""

    summary: str
    """Without numbers or names, so that it is the same text every time."""
    description: str
    """At most 300 characters once its numbers stand in it.

    `%(name)s` is filled by `text_of`, and `%%` is a percent sign.
    """
    summary_zh: str
    description_zh: str


_LABELS: Final = ("service", "judge", "signal", "reason", "outcome", "unit", "per")

TEXTS: Final[Mapping[str, Texts]] = {
    "HallucinationSpike": Texts(
        "More answers are hallucinated than the limit permits.",
        "%(service)s: by %(judge)s, a share of %(mean)s is hallucinated since %(began)s; "
        "limit %(limit)s, before %(before)s. Judge or application: %(cause)s.",
        "出现幻觉的回答多于容忍上限。",
        "%(service)s：据 %(judge)s，自 %(began)s 起幻觉比例为 %(mean)s；上限 %(limit)s，此前 "
        "%(before)s。评审还是应用：%(cause)s。",
    ),
    "QualityDrift": Texts(
        "A score of the answers is worse than its limit.",
        "%(service)s: mean %(signal)s by %(judge)s is %(mean)s since %(began)s; limit "
        "%(limit)s, before %(before)s.",
        "回答的某项分数差于容忍上限。",
        "%(service)s：据 %(judge)s，自 %(began)s 起 %(signal)s 均值为 %(mean)s；上限 "
        "%(limit)s，此前 %(before)s。",
    ),
    "RefusalSurge": Texts(
        "More questions are declined than the limit permits.",
        "%(service)s: by %(judge)s, a share of %(mean)s is declined since %(began)s; limit "
        "%(limit)s, before %(before)s.",
        "拒答的问题多于容忍上限。",
        "%(service)s：据 %(judge)s，自 %(began)s 起拒答比例为 %(mean)s；上限 %(limit)s，此前 "
        "%(before)s。",
    ),
    "RetrievalDrift": Texts(
        "Retrieval finds nothing, or weak chunks, more often than the limit permits.",
        "%(service)s: the share %(signal)s is %(mean)s since %(began)s; limit %(limit)s, "
        "before %(before)s.",
        "检索落空或检索变弱多于容忍上限。",
        "%(service)s：自 %(began)s 起 %(signal)s 的比例为 %(mean)s；上限 %(limit)s，此前 "
        "%(before)s。",
    ),
    "GoldenQuestions": Texts(
        "Golden questions are answered worse than they were, or not at all.",
        "%(service)s: %(signal)s by %(judge)s is worse than the questions' own history.",
        "参考问题答得比以前差，或没有回答。",
        "%(service)s：据 %(judge)s，%(signal)s 差于这些问题自己的历史。",
    ),
    "VersionWorse": Texts(
        "A version of the application is worse than the one before.",
        "%(service)s: by %(judge)s, the newest version is worse than its baseline. The "
        "incident names the version and the signal.",
        "应用的一个版本差于前一个版本。",
        "%(service)s：据 %(judge)s，最新版本差于基准版本。事件里有版本与信号的名字。",
    ),
    "JudgeDown": Texts(
        "The LLM judge gives no verdicts, or too few.",
        "%(service)s: most calls of %(judge)s fail, its circuit breaker is open, or verdicts "
        "are missing. Meanwhile only the built-in judge scores, and it does not page.",
        "LLM 评审没有给出结论，或给得太少。",
        "%(service)s：%(judge)s 的多数调用失败、断路器断开，或缺少结论。其间只有内置评审打分"
        "，它不会叫醒人。",
    ),
    "JudgeDrift": Texts(
        "The judge's verdicts differ from those it gave before.",
        "%(service)s: %(judge)s judges its reference answers differently. Cause of the "
        "active alarm: %(cause)s.",
        "评审的结论与它以前给出的不同。",
        "%(service)s：%(judge)s 对参考样例改变了结论。当前告警的原因：%(cause)s。",
    ),
    "BudgetExhausted": Texts(
        "The judge's budget does not pay for one more answer.",
        "%(service)s: %(amount)s %(unit)s per %(per)s are left, less than judging one answer "
        "takes. Until the budget fills up again only the built-in judge scores.",
        "评审的预算不够再评一条回答。",
        "%(service)s：每 %(per)s 的预算只剩 %(amount)s %(unit)s，不够评一条回答。恢复之前只有"
        "内置评审打分。",
    ),
    "NotArmed": Texts(
        "No hallucination alarm is armed.",
        "%(service)s: the monitor has not learned yet what is normal, or its alarms are off. "
        "Until then nothing pages on hallucinations.",
        "幻觉告警尚未就绪。",
        "%(service)s：监控器还没学会什么是正常，或告警已关闭。在此之前不会因幻觉叫醒人。",
    ),
    "AnswersDropped": Texts(
        "Answers are dropped before they are scored.",
        "%(service)s: %(share)s of the last 15 minutes' answers were dropped, reason %(reason)s.",
        "回答在打分之前被丢弃。",
        "%(service)s：最近 15 分钟有 %(share)s 的回答被丢弃，原因 %(reason)s。",
    ),
    "CaptureIncomplete": Texts(
        "Parts of interactions are not captured, so they have no score.",
        "%(service)s: %(share)s of the last hour's evaluations have no score because "
        "question, chunks or answer were not captured.",
        "交互没有采集完整，因此没有分数。",
        "%(service)s：最近一小时有 %(share)s 的评估因问题、片段或回答未采集到而没有分数。",
    ),
    "DeliveryFailing": Texts(
        "Traces, scores or notices do not arrive where they are sent.",
        "%(service)s: %(value)s were lost in the last 15 minutes, reason %(reason)s. Scores "
        "and alarms go on. The application's log, logger ragmonitor, says which server "
        "refuses them.",
        "链路、分数或通知没有送达。",
        "%(service)s：最近 15 分钟丢失 %(value)s 条，原因 %(reason)s。打分与告警照常。应用日"
        "志（logger ragmonitor）写明是哪个服务器拒收。",
    ),
    "WorkerFailing": Texts(
        "What scores the answers fails, or stands still.",
        "%(service)s: the worker was started again, has done nothing for two minutes, or "
        "failed on answers. Do not rely on quality alarms meanwhile. The application's log, "
        "logger ragmonitor, says why.",
        "打分的工作线程失败，或停住不动。",
        "%(service)s：工作线程重新启动过、两分钟没有动作，或处理回答时出错。其间不要依赖质量"
        "告警。应用日志（logger ragmonitor）写明原因。",
    ),
    "Absent": Texts(
        "A monitored service, or a process of one, is not scraped.",
        "%(whose)s: Prometheus scrapes nothing of its monitor, or not all of its processes. "
        "No alert about the answers that are missing can fire.",
        "没有抓取到某个服务，或它的某个进程。",
        "%(whose)s：Prometheus 抓不到它的监控器，或抓不全它的进程。缺少的回答不会触发任何告警。",
    ),
    "FleetFailing": Texts(
        "Answers on the stream are not scored in time.",
        "%(service)s: the stream cannot be reached, its oldest answer waits for more than "
        "ten minutes, or no worker takes answers from it. Scores and alarms are that late.",
        "流上的回答没有及时打分。",
        "%(service)s：流无法连接、最早的回答已等待超过十分钟，或没有工作进程取走回答。分数与"
        "告警因此延迟。",
    ),
    "SpansRefused": Texts(
        "Spans are refused, or no answers are found in them.",
        "%(service)s: %(share)s of the last 15 minutes' requests or traces: %(outcome)s. "
        "Senders repeat what was refused as `full`; all else is lost.",
        "Span 被拒收，或其中没有回答。",
        "%(service)s：最近 15 分钟的请求或链路中 %(share)s：%(outcome)s。以 `full` 拒收的会重"
        "发；其余丢失。",
    ),
}
"""By an alert's name without its prefix."""


def text_of(alert: str, language: Language) -> tuple[str, str]:
    """Return the summary and the description of an alert, as Prometheus' templates."""
    texts = TEXTS[alert]
    if language == "zh":
        return texts.summary_zh, texts.description_zh % _pieces(language)
    return texts.summary, texts.description % _pieces(language)
