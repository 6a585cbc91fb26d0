"""Words incidents in English and Chinese, with numbers and times as people write them."""

# ruff: noqa: E501 - a table of sentences

from __future__ import annotations

import math
from datetime import UTC, datetime
from typing import Final

from ragmonitor.causes.signal_names import Language, number, signal_name
from ragmonitor.incidents.incident import Rate
from ragmonitor.records import is_difference

_VERDICTS: Final = {
    "absent": ("in no chunk", "检索内容中没有"),
    "contradicted": ("contradicts a chunk", "与检索内容矛盾"),
}
_KINDS: Final = {
    "slice": ("slice", "分片"),
    "document": ("document", "文档"),
    "version": ("version", "版本"),
    "event": ("event", "事件"),
    "judge": ("the judge itself", "评审本身"),
    "unknown": ("not known yet", "尚不清楚"),
}

_EVENTS: Final = {"deployment": "发布", "judge change": "评审变更", "event": "事件"}

_TEXTS: Final = {
    "title": ("Incident of {service}: {signal}", "{service} 的事件：{signal}"),
    "open": ("Open since {time}.", "自 {time} 起，尚未结束。"),
    "closed": ("{time} to {end} ({span}).", "{time} 至 {end}（{span}）。"),
    "since": (
        "Evidence had been rising since {time}; that is when it began, as far as is known.",
        "证据自 {time} 起上升；就目前所知，问题始于此时。",
    ),
    "rising": ("Evidence had been rising since {time}.", "证据自 {time} 起上升。"),
    "changed": (
        "By its verdicts the signal got worse between {lower} and {upper} (95 %), most probably at {time}.",
        "据评审结果，信号在 {lower} 至 {upper} 之间变差（95 %），最可能在 {time}。",
    ),
    "version": ("Service version {version}.", "服务版本 {version}。"),
    "moved": ("What moved", "发生了什么变化"),
    "moved_rise": ("{signal}: {rise}; limit: {bound}.", "{signal}：{rise}；{bound}。"),
    "rise_rate": (
        "{bad} of {scored} scored answers since {time}",
        "自 {time} 起 {scored} 个已评分回答中有 {bad} 个",
    ),
    "rise_mean": (
        "a mean of {mean} over {scored} scored answers since {time}",
        "自 {time} 起 {scored} 个已评分回答的均值为 {mean}",
    ),
    "rise_before": ("; {before} before", "；此前 {before}"),
    "rise_hour": ("{rate} over the last hour", "最近一小时 {rate}"),
    "moved_since": (
        "Since it got worse, up to {until}: {after}; before: {before}.",
        "变差以来（截至 {until}）：{after}；之前：{before}。",
    ),
    "moved_no_rate": ("{signal} is beyond its limit: {bound}.", "{signal}超出限度：{bound}。"),
    "moved_version": (
        "A version of the application is worse than the one before it.",
        "应用的某个版本比之前的版本差。",
    ),
    "no_worse": ("no worse than before", "不差于之前"),
    "at_most": ("at most {value}", "容忍上限 {value}"),
    "at_least": ("at least {value}", "容忍下限 {value}"),
    "at_most_below": ("at most {value} below their own history", "最多比自身历史低 {value}"),
    "learning": ("still learned", "仍在学习"),
    "col_signal": ("Signal", "信号"),
    "col_judge": ("Scored by", "评分者"),
    "col_rise": ("Since the rise began", "上升以来"),
    "col_limit": ("Limit", "限度"),
    "col_evidence": ("Evidence, of the threshold", "证据（占阈值）"),
    "col_raised": ("Raised", "触发"),
    "col_cleared": ("Cleared", "解除"),
    "still_on": ("still on", "未解除"),
    "cause": ("The cause", "原因"),
    "cause_named": (
        "Named: {cause}, {after} after the alarm.",
        "已指明：{cause}（告警后 {after}）。",
    ),
    "cause_judge": (
        "Named: the judge itself, not the application, {after} after the alarm.",
        "已指明：评审本身，而非应用（告警后 {after}）。",
    ),
    "cause_unknown": (
        "None is shown yet. What follows are suspicions, the strongest first.",
        "尚未查明。以下仅为疑点，最强者在前。",
    ),
    "cause_nothing": (
        "None is shown, and no part of the answers stands out.",
        "尚未查明，也没有哪部分回答特别突出。",
    ),
    "goes_with": (
        "Of the rise {share} goes with it{interval}.",
        "上升部分的 {share} 与之相关{interval}。",
    ),
    "goes_part": (
        "Its answers are at {now}; before the rise: {before}.",
        "相关回答现为 {now}；上升之前：{before}。",
    ),
    "goes_version": (
        "Its answers are at {now}; those of the version that it is compared with: {before}.",
        "该版本的回答现为 {now}；对照版本的回答为 {before}。",
    ),
    "cause_others": (
        "Shown besides: {names}. They may be causes of their own, or the same answers seen otherwise.",
        "此外已查明：{names}。它们可能各有起因，也可能是同一批回答的另一面。",
    ),
    "none_before": ("none like them", "没有此类回答"),
    "is_version": (
        (
            "Mix or rate: the rate, if both versions get questions of the same kinds. Where they are "
            "given to different users, compare them within a route or tenant."
        ),
        "构成还是质量：若两个版本收到的问题种类相同，则是质量变差。若分给不同的用户，请在同一路由或租户内比较。",
    ),
    "is_uncompared": (
        (
            "Mix or rate: not known. Too few answers of this kind were judged before the rise. Either "
            "they got worse or are new, or there are more of a kind that was bad before, too."
        ),
        (
            "构成还是质量：尚不可知。上升之前这类回答评审得太少：可能是质量变差，可能是新出现的一类，"
            "也可能是以前就差的那类回答变多了。"
        ),
    ),
    "is_rate": (
        (
            "Mix or rate: the rate. Answers of this kind got worse; it is not that there are more of "
            "a hard kind."
        ),
        "构成还是质量：质量变差。此类回答变差了，并非难的那类变多。",
    ),
    "check": ("Judge or application", "评审还是应用"),
    "check_judge": (
        (
            "The judge has become stricter: {flipped} of {reread} old answers that were fine flipped "
            "when they were judged again (wrong for at most 1 alarm in 20)."
        ),
        (
            "评审变严了：重新评审的 {reread} 条原先合格的旧回答中有 {flipped} 条被改判（误判不超过"
            "二十分之一）。"
        ),
    ),
    "check_application": (
        (
            "It is the application, or what it is asked, not the judge: {flipped} of {reread} old answers that were fine "
            "flipped when they were judged again (wrong for at most 1 alarm in 20)."
        ),
        (
            "原因在应用或其收到的问题，不在评审：重新评审的 {reread} 条原先合格的旧回答中有 {flipped} 条被改判"
            "（误判不超过二十分之一）。"
        ),
    ),
    "check_unknown": (
        (
            "Not known yet: {flipped} of {reread} old answers flipped so far; {waiting} more can be "
            "judged again."
        ),
        "尚不清楚：已重新评审 {reread} 条旧回答，{flipped} 条被改判，还可重新评审 {waiting} 条。",
    ),
    "check_none": (
        "Not checked: no judged answers from before are kept.",
        "未检查：没有保留以前评审过的回答。",
    ),
    "candidates": ("Where it concentrates", "集中在哪里"),
    "col_kind": ("Kind", "类别"),
    "col_name": ("Name", "名称"),
    "col_now": ("Now", "现在"),
    "col_before": ("Before", "之前"),
    "col_explains": ("Explains", "可解释"),
    "col_sure": ("Evidence", "证据"),
    "col_since": ("Since", "始于"),
    "shown": ("shown, e = {e}", "已查明，e = {e}"),
    "near": ("near in time, no more", "仅时间相近"),
    "suspected": ("suspected, e = {e}", "疑点，e = {e}"),
    "answers": ("The worst answers", "最差的回答"),
    "answers_of": (
        "Of these, {n} are answers of the named cause, {cause}, and come first.",
        "其中 {n} 条属于已指明的原因（{cause}），排在最前。",
    ),
    "answers_judge": (
        "Since the judge has changed, read them as verdicts to be checked, not as answers that are bad.",
        "评审已变化，请将其视为待核对的结论，而非确定有误的回答。",
    ),
    "no_answers": ("None is kept.", "没有保留。"),
    "no_question": ("(text withheld)", "（文本不予显示）"),
    "sentence": ("Sentence {n}, {verdict}", "第 {n} 句，{verdict}"),
    "words": ("words: {words}", "词语：{words}"),
    "chunk": ("Chunk {n}", "第 {n} 块"),
    "trace": ("trace", "链路"),
    "answer": ("answer", "回答"),
    "next": ("What to ask next", "接下来要问什么"),
    "sure": ("How sure this is", "有多大把握"),
    "sure_alarm": (
        (
            "Alarm: while every objective is met, evidence reaches the threshold at most once in the "
            "days of alarms.false_alarm_every_days, all alarms together. It is at {share} of it."
        ),
        (
            "告警：只要各目标均达成，所有告警合计平均至多每 alarms.false_alarm_every_days 天达到一次"
            "阈值。目前为阈值的 {share}。"
        ),
    ),
    "sure_cause": (
        (
            "Cause: 'shown' means that among all parts looked at the expected share of wrong names is "
            "bounded (e-values; e = 20 has a chance of 1 in 20 at most by luck). That something goes "
            "with the rise does not prove that it made it. A shift of the mix is shown if the interval of "
            "its share lies above 0, which holds for one look."
        ),
        (
            "原因：“已查明”表示在所有查看过的部分中，错误指认的期望比例受控（e 值；e = 20 靠运气出现的"
            "概率至多二十分之一）。与上升相关并不证明就是起因。若占比的区间高于 0，构成变化即为已查明，"
            "仅对单次查看成立。"
        ),
    ),
    "withheld": (
        "Texts are withheld (content = {content}).",
        "文本不予显示（content = {content}）。",
    ),
    "updated": ("As of {time}. Incident {id}.", "截至 {time}。事件 {id}。"),
    "other_language": ("中文", "English"),
    "next_document": (
        (
            "Was {name} edited, replaced or indexed again around {time}? If so, restore the earlier "
            "edition, or take it out of the index until it is right."
        ),
        (
            "{name} 在 {time} 前后是否被修改、替换或重新索引？若是，请恢复先前的版本，"
            "或在改正之前将其移出索引。"
        ),
    ),
    "next_passages": (
        (
            "Read what the answers above say against its passages and its source: is the document "
            "wrong, or the answers? Would they be right without it?"
        ),
        "请将上面的回答与该文档的段落及其来源对照：是文档有误，还是回答有误？没有它，回答会正确吗？",
    ),
    "next_version": (
        (
            "What changed with {name} (prompt, model, retrieval)? Can it be rolled back, and does the "
            "rate fall for the answers of the earlier version?"
        ),
        "{name} 改了什么（提示词、模型、检索）？能否回滚，旧版本的回答是否恢复正常？",
    ),
    "next_slice": (
        (
            "What is particular to {name}: its prompt, model, index or users? What was changed there "
            "around {time}, and can it be undone?"
        ),
        "{name} 有何特别：提示词、模型、索引还是用户？{time} 前后那里改了什么，能否撤销？",
    ),
    "next_event": (
        "What did {name} change, and can it be undone?",
        "{name} 改变了什么，能否撤销？",
    ),
    "next_judge": (
        (
            "Did the provider change the judge's model? Check some verdicts by hand; if it is right "
            "to be stricter, accept it with monitor.refreeze_anchors() and set a new "
            "objective."
        ),
        (
            "供应商是否更换了评审模型？请人工核对几条结论；若更严是对的，用 "
            "monitor.refreeze_anchors() 接受，并重设目标。"
        ),
    ),
    "next_unknown": (
        (
            "Was anything deployed, indexed or changed around {time}? Do the answers above share a "
            "document, a route, a kind of question? Attributes that are not recorded cannot be found: "
            "does each interaction carry route, tenant, version, prompt_id?"
        ),
        (
            "{time} 前后是否有部署、重建索引或其他变更？上面的回答是否有共同的文档、路由或问题类型？"
            "未记录的属性无从查起：每次交互是否带有 route、tenant、version、prompt_id？"
        ),
    ),
    "next_input": (
        (
            "Do people ask about something new, or does the retriever not find what it found before "
            "(index, embedding model, filters)?"
        ),
        "用户在问新的内容，还是检索器找不到以前能找到的东西（索引、向量模型、过滤条件）？",
    ),
    "next_check": (
        (
            "Judge or application is not known yet: let the reference answers be judged again before "
            "anything is rolled back."
        ),
        "尚不清楚是评审还是应用：回滚之前，请等参考样例重新评审。",
    ),
    "next_over": (
        "It has cleared: was something undone, or did the traffic go elsewhere?",
        "已解除：是撤销了变更，还是流量转移了？",
    ),
    "line_raised": ("[{service}] alarm raised: {what}", "[{service}] 告警触发：{what}"),
    "line_named": ("[{service}] cause named: {what}", "[{service}] 已指明原因：{what}"),
    "line_on": ("[{service}] still on after {span}: {what}", "[{service}] 已持续 {span}：{what}"),
    "line_cleared": (
        "[{service}] alarm cleared after {span}: {what}",
        "[{service}] 告警解除，历时 {span}：{what}",
    ),
    "line_cause": ("; cause: {cause}", "；原因：{cause}"),
    "line_judge": ("; cause: the judge, not the application", "；原因：评审，而非应用"),
    "s": ("{n} s", "{n} 秒"),
    "min": ("{n} min", "{n} 分钟"),
    "h": ("{n} h", "{n} 小时"),
    "d": ("{n} d", "{n} 天"),
}


class Wording:
    """Says things in one language."""

    def __init__(self, language: Language) -> None:
        """Take the language."""
        self.language: Language = language
        self._column = 1 if language == "zh" else 0
        self.between = "" if language == "zh" else " "
        """Stands between two sentences."""
        self.comma = "、" if language == "zh" else ", "
        self.colon = "：" if language == "zh" else ": "

    def __call__(self, key: str, **values: object) -> str:
        """Return a text with its names filled in."""
        return _TEXTS[key][self._column].format(**values)

    def signal(self, name: str) -> str:
        """Return what a signal is called, with its slice; a stranger's is shown as it is."""
        whole, brace, part = name.partition("{")
        said = signal_name(whole, self.language)
        return f"{said} · {part.removesuffix('}')}" if brace else said

    def verdict(self, name: str) -> str:
        """Return what a verdict on a sentence is called."""
        return _VERDICTS.get(name, (name, name))[self._column]

    def kind(self, name: str) -> str:
        """Return what a kind of cause is called."""
        return _KINDS.get(name, (name, name))[self._column]

    def cause(self, kind: str, name: str) -> str:
        """Return a cause with its kind, each said once."""
        return f"{self.kind(kind)} {name.removeprefix(f'{kind} ')}"

    def name(self, kind: str, name: str) -> str:
        """Return a candidate's name; an event's says what sort of event it is."""
        sort, _, rest = name.partition(": ")
        if not self._column or kind != "event" or sort not in _EVENTS:
            return name
        return f"{_EVENTS[sort]}：{rest}"

    def bracketed(self, text: str) -> str:
        """Return a text in brackets, to be put behind another one."""
        return f"（{text}）" if self._column else f" ({text})"

    def rate(self, rate: Rate | None, signal: str) -> str:
        """Return a mean with its interval; a dash: there is none."""
        if rate is None:
            return "–"
        mean, lower, upper = (
            self.mean(each, signal) for each in (rate.mean, rate.lower, rate.upper)
        )
        return f"{mean}（{lower}–{upper}）" if self._column else f"{mean} ({lower} to {upper})"

    def mean(self, value: float, signal: str) -> str:
        """Return a mean of a signal: a difference with its sign, as the page has it."""
        if not is_difference(signal) or not math.isfinite(value):
            return number(value, signal)
        shift = round(2 * value - 1, 2)
        return f"{shift:+.2f}" if shift else "0.00"

    def bound(self, objective: float | None, signal: str, *, higher_is_better: bool) -> str:
        """Return a limit."""
        if objective is None:
            return self("learning")
        if signal == "version_worse":
            return self("no_worse")
        if is_difference(signal):
            return self("at_most_below", value=f"{1 - 2 * objective:.2f}")
        return self("at_least" if higher_is_better else "at_most", value=number(objective, signal))

    def span(self, seconds: float) -> str:
        """Return how long it took, in one unit."""
        for key, unit_s, most_s in (("s", 1, 90), ("min", 60, 5_400), ("h", 3_600, 129_600)):
            if seconds < most_s:
                digits = 1 if key == "h" and seconds < 36_000 else 0
                return self(key, n=f"{max(0.0, seconds) / unit_s:.{digits}f}")
        return self("d", n=f"{seconds / 86_400:.0f}")


def percent(share: float) -> str:
    """Return a share in percent, which may be far above 100."""
    value = 100 * share
    return f"{round(value, 0) + 0.0:.0f} %" if value < 1e4 else "> 10000 %"


def moment(seconds: float) -> str:
    """Return a time in UTC."""
    try:
        return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    except (OverflowError, OSError, ValueError):  # of a file that others wrote
        return "–"


def e_value(value: float) -> str:
    """Return an e-value in few digits."""
    return f"{value:.0f}" if 10 <= value < 1e6 else f"{value:.2g}"
