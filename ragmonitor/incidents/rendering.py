"""An incident as people read it, in English or Chinese: as Markdown and as one line."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Final
from urllib.parse import quote

from ragmonitor.causes.signal_names import Language, number, signal_name
from ragmonitor.incidents import texts_en, texts_zh
from ragmonitor.incidents.incident import (
    BadAnswer,
    BadSentence,
    Incident,
    IncidentAlarm,
    Occasion,
    Rate,
)
from ragmonitor.records import is_difference

_TEXTS: Final = {"en": texts_en.TEXTS, "zh": texts_zh.TEXTS}
_MARKS: Final = re.compile(r"([\\`*_\[\]<>|~&$@#!]|:(?=//)|^[-+=])")
_NUMBERED: Final = re.compile(r"^(\d+)([.)])")
"""Signs that mean something in CommonMark or GitHub's dialect, where they may stand here."""
_ADDRESS: Final = "%/:?#@!$&'()*+,;=~[]"


@dataclass(frozen=True, slots=True, kw_only=True)
class Links:
    """Where an incident links to; empty: nowhere."""

    trace_url: str = ""
    """With `{trace_id}` in it."""
    page_url: str = ""
    """The folder of the page, with a slash at its end; may be relative."""


def as_markdown(incident: Incident, language: Language = "en", links: Links = Links()) -> str:
    """Return the incident as Markdown (CommonMark)."""
    return "\n\n".join(_Story(incident, language, links).paragraphs()) + "\n"


def headline(incident: Incident, language: Language = "en") -> str:
    """Return what moved and what is named as the cause, without any text of an answer."""
    return _Story(incident, language).headline()


def notice(occasion: Occasion, incident: Incident, language: Language) -> str:
    """Return the headline with whose it is, and what it is told for."""
    story = _Story(incident, language)
    span = story.span((incident.closed_s or incident.updated_s) - incident.opened_s)
    told = story.headline()
    return story.say(f"line_{occasion}", service=incident.service, span=span, what=told)


class _Story:
    """Tells one incident in one language."""

    def __init__(self, incident: Incident, language: Language, links: Links = Links()) -> None:
        self.incident, self.language, self.links = incident, language, links

    def say(self, key: str, **values: object) -> str:
        """Return a text with its names filled in."""
        return _TEXTS[self.language][key].format(**values)

    def headline(self) -> str:
        text = self.moved(self.incident.leading).rstrip(".。")
        if self.incident.cause.kind == "unknown":
            return text
        return text + self.say("line_cause", cause=self.cause())

    def paragraphs(self) -> Iterator[str]:
        incident, leading, say = self.incident, self.incident.leading, self.say
        opened, check = _moment(incident.opened_s), incident.check
        if incident.closed_s is None:
            times = say("open", time=opened)
        else:
            span = self.span(incident.closed_s - incident.opened_s)
            times = say("closed", time=opened, end=_moment(incident.closed_s), span=span)
        told = say("check_none") if check is None else say(f"check_{check.cause}", **asdict(check))
        signal = signal_name(leading.signal, self.language)
        yield f"# {_plain(say('title', service=incident.service, signal=signal))}"
        yield _plain(f"{times} {say('since', time=_moment(incident.since_s))}")
        yield self.strong(say("what"), self.moved(leading))
        yield self.strong(say("cause"), " ".join(self.causes()))
        yield self.strong(say("check"), told)
        yield f"## {say('answers')}"
        if incident.content != "all":
            yield _plain(say("withheld", content=incident.content))
        if not incident.answers:
            yield _plain(say("no_answers"))
        for n, answer in enumerate(incident.answers, 1):
            yield f"### {n}\\. {_plain(answer.question or say('no_question'))}"
            yield " · ".join(self.about(answer))
            for sentence in answer.sentences:
                yield from self.sentence(sentence)
        yield f"## {say('alarms')}"
        yield "\n".join(f"- {_plain(self.alarm(each))}" for each in incident.alarms)
        yield _plain(say("sure"))
        yield _plain(say("updated", time=_moment(incident.updated_s), id=incident.id))

    def strong(self, label: str, text: str) -> str:
        return f"**{_plain(label)}**" + (f"{self.say('colon')}{_plain(text)}" if text else "")

    def moved(self, alarm: IncidentAlarm) -> str:
        """Return the one number that the alarm, the page and the incident all say."""
        signal, rise, objective = alarm.signal, alarm.span, alarm.objective
        if signal == "version_worse":
            return self.say("version_worse")
        side = "at_least" if alarm.higher_is_better else "at_most"
        if objective is None:
            bound = self.say("learning")
        elif is_difference(signal):
            bound = self.say("at_most_below", value=f"{1 - 2 * objective:.2f}")
        else:
            bound = self.say(side, value=number(objective, signal))
        name = signal_name(signal, self.language)
        known = {"signal": name, "bound": bound, "judge": alarm.judge}
        if rise is None:
            return self.say("beyond", **known)
        mean, time = number(rise.mean, signal), _moment(rise.since_s)
        before = ""
        if rise.before is not None:
            before = self.say("before", mean=number(rise.before, signal))
        return self.say("rise", **known, mean=mean, scored=rise.scored, time=time, before=before)

    def cause(self) -> str:
        kind, name = self.incident.cause.kind, self.incident.cause.name
        if self.language == "zh" and kind == "version":
            name = name.removeprefix("version ")
        return self.say(f"kind_{kind}", name=name)

    def causes(self) -> Iterator[str]:
        """Yield the cause, its rates and what else is known, a sentence each."""
        incident, cause, say = self.incident, self.incident.cause, self.say
        yield say("sentence_end", text=self.cause())
        if cause.now is not None and cause.before is not None:
            yield say("rates", now=self.rate(cause.now), before=self.rate(cause.before))
        elif cause.now is not None:
            yield say("rates_new", now=self.rate(cause.now))
        if incident.shift is not None:
            share = incident.shift.share
            percent = f"{100 * share:.0f} %" if share < 100 else "> 10000 %"
            yield say("shift", dimension=incident.shift.dimension, share=percent)
        if incident.events:
            events = (
                say("event", kind=e.kind.replace("_", " "), name=e.name, time=_moment(e.at_s))
                for e in incident.events
            )
            yield say("events", names=say("comma").join(events))
        yield from (each.detail for each in incident.alarms if each.detail)

    def rate(self, rate: Rate) -> str:
        ends = {name: number(end, self.incident.leading.signal) for name, end in rate}
        return self.say("interval", **ends)

    def alarm(self, alarm: IncidentAlarm) -> str:
        end = self.say("still_on")
        if alarm.cleared_s is not None:
            end = self.say("cleared", time=_moment(alarm.cleared_s))
        return self.say("alarm", what=self.moved(alarm), raised=_moment(alarm.since_s), end=end)

    def about(self, answer: BadAnswer) -> Iterator[str]:
        links = self.links
        page = f"{links.page_url}#answer={quote(answer.id, safe='')}" if links.page_url else ""
        yield _moment(answer.at_s)
        yield f"{self.say('answer')} {_link(answer.id, page)}"
        if answer.trace_id:
            address = links.trace_url.replace("{trace_id}", quote(answer.trace_id, safe=""))
            yield f"{self.say('trace')} {_link(answer.trace_id, address)}"
        if answer.is_of(self.incident.cause):
            yield _plain(self.cause())
        for name, value in answer.attributes.items():
            yield _plain(f"{name}: {value}")

    def sentence(self, sentence: BadSentence) -> Iterator[str]:
        verdict = _TEXTS[self.language].get(sentence.verdict, sentence.verdict)
        head = self.say("sentence", n=sentence.number, verdict=verdict)
        if sentence.words:
            head += self.say("words", words=", ".join(sentence.words))
        yield f"> {self.strong(head, sentence.text)}"
        if sentence.chunk is not None:
            where = self.say("chunk", n=sentence.chunk)
            where += f" · {sentence.source}" if sentence.source else ""
            yield f"> {self.strong(where, sentence.passage)}"

    def span(self, seconds: float) -> str:
        """Return how long it took: in minutes, or from two hours on in hours."""
        minutes = round(max(0.0, seconds) / 60)
        return self.say("min", n=minutes) if minutes < 120 else self.say("h", n=round(minutes / 60))


def _plain(text: str) -> str:
    """Return a text in which nothing is Markdown."""
    line = _MARKS.sub(r"\\\1", " ".join(text.split()))
    return _NUMBERED.sub(r"\1\\\2", line)


def _link(text: str, address: str) -> str:
    # An address cannot end the brackets that it stands in.
    return f"[{_plain(text)}](<{quote(address, safe=_ADDRESS)}>)" if address else _plain(text)


def _moment(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
