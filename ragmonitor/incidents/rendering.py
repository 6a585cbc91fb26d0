"""An incident as Markdown and as one line."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote

from ragmonitor.causes.signal_names import Language, number
from ragmonitor.incidents.incident import (
    BadAnswer,
    BadSentence,
    Incident,
    IncidentAlarm,
    NamedCause,
)
from ragmonitor.incidents.wording import Wording, moment, percent


@dataclass(frozen=True, slots=True, kw_only=True)
class Links:
    """Where an incident links to; empty: nowhere."""

    trace_url: str = ""
    """With `{trace_id}` in it."""
    page_url: str = ""
    """The folder of the page, with a slash at its end; may be relative."""


def as_markdown(incident: Incident, language: Language = "en", links: Links = Links()) -> str:
    """Return the incident as Markdown (CommonMark)."""
    return "\n\n".join(_story(incident, Wording(language), links)) + "\n"


def headline(incident: Incident, language: Language = "en") -> str:
    """Return what moved and what is named as the cause, without any text of an answer."""
    say, cause = Wording(language), incident.cause
    text = _moved(incident.leading, say).rstrip(".。")
    if cause.kind == "unknown":
        return text
    return text + say("line_cause", cause=say.cause(cause.kind, cause.name))


# --- the story ------------------------------------------------------------------------------------

_MARKS: Final = re.compile(r"([\\`*_\[\]<>|~&$@#!]|:(?=//)|^[-+=])")
_NUMBERED: Final = re.compile(r"^(\d+)([.)])")
"""Signs that mean something in CommonMark or GitHub's dialect, where they may stand here."""


def _plain(text: str) -> str:
    """Return a text in which nothing is Markdown."""
    line = _MARKS.sub(r"\\\1", " ".join(text.split()))
    return _NUMBERED.sub(r"\1\\\2", line)


def _strong(label: str, text: str, say: Wording) -> str:
    return f"**{_plain(label)}**{say('colon')}{_plain(text)}"


def _story(incident: Incident, say: Wording, links: Links) -> Iterator[str]:
    title = say("title", service=incident.service, signal=say.signal(incident.leading))
    yield f"# {_plain(title)}"
    yield _plain(_times(incident, say))
    yield _strong(say("what"), _moved(incident.leading, say), say)
    yield _strong(say("cause"), " ".join(_cause(incident, say)), say)
    yield _strong(say("check"), _check(incident, say), say)
    yield f"## {say('answers')}"
    yield from _answers(incident, say, links)
    yield f"## {say('alarms')}"
    yield "\n".join(_alarms(incident, say))
    yield _plain(say("sure"))
    yield _plain(say("updated", time=moment(incident.updated_s), id=incident.id))


def _times(incident: Incident, say: Wording) -> str:
    time, end_s = moment(incident.opened_s), incident.closed_s
    if end_s is None:
        told = say("open", time=time)
    else:
        told = say("closed", time=time, end=moment(end_s), span=say.span(end_s - incident.opened_s))
    return f"{told} {say('since', time=moment(incident.since_s))}"


def _moved(alarm: IncidentAlarm, say: Wording) -> str:
    """Return the one number that the alarm, the page and the incident all say."""
    known = {"signal": say.signal(alarm), "bound": say.bound(alarm), "judge": alarm.judge}
    rise = alarm.span
    if alarm.signal == "version_worse":
        return say("version_worse")
    if rise is None:
        return say("beyond", **known)
    before = ""
    if rise.before is not None:
        before = say("before", mean=number(rise.before, alarm.signal))
    mean, time = number(rise.mean, alarm.signal), moment(rise.since_s)
    return say("rise", **known, mean=mean, scored=rise.scored, time=time, before=before)


def _cause(incident: Incident, say: Wording) -> Iterator[str]:
    cause = incident.cause
    yield say("sentence_end", text=say.cause(cause.kind, cause.name))
    signal = incident.leading.signal
    if cause.now is not None:
        now = say.rate(cause.now, signal)
        if cause.before is None:
            yield say("rates_new", now=now)
        else:
            yield say("rates", now=now, before=say.rate(cause.before, signal))
    if incident.shift is not None:
        share = percent(incident.shift.share)
        yield say("shift", dimension=incident.shift.dimension, share=share)
    if incident.events:
        names = [
            f"{each.kind.replace('_', ' ')} {each.name}{_brackets(moment(each.at_s), say)}"
            for each in incident.events
        ]
        yield say("events", names=say("comma").join(names))
    yield from (each.detail for each in incident.alarms if each.detail)


def _brackets(text: str, say: Wording) -> str:
    return say("brackets", text=text)


def _check(incident: Incident, say: Wording) -> str:
    check = incident.check
    if check is None:
        return say("check_none")
    counts = {"flipped": check.flipped, "reread": check.reread, "waiting": check.waiting}
    return say(f"check_{check.cause}", **counts)


def _alarms(incident: Incident, say: Wording) -> Iterator[str]:
    for each in incident.alarms:
        end = say("still_on")
        if each.cleared_s is not None:
            end = say("cleared", time=moment(each.cleared_s))
        raised = moment(each.since_s)
        yield f"- {_plain(say('alarm', what=_moved(each, say), raised=raised, end=end))}"


def _answers(incident: Incident, say: Wording, links: Links) -> Iterator[str]:
    if incident.content != "all":
        yield _plain(say("withheld", content=incident.content))
    if not incident.answers:
        yield _plain(say("no_answers"))
    for n, answer in enumerate(incident.answers, 1):
        question = answer.question or say("no_question")
        yield f"### {n}\\. {_plain(question)}"
        yield _about(answer, incident.cause, say, links)
        for sentence in answer.sentences:
            yield from _sentence(sentence, say)


def _about(answer: BadAnswer, cause: NamedCause, say: Wording, links: Links) -> str:
    page = f"{links.page_url}#answer={quote(answer.id, safe='')}" if links.page_url else ""
    pieces = [moment(answer.at_s), f"{say('answer')} {_link(answer.id, page)}"]
    if answer.trace_id:
        address = links.trace_url.replace("{trace_id}", quote(answer.trace_id, safe=""))
        pieces.append(f"{say('trace')} {_link(answer.trace_id, address)}")
    if answer.is_of(cause):
        pieces.append(_plain(say.cause(cause.kind, cause.name)))
    pieces += [_plain(f"{name}: {value}") for name, value in answer.attributes.items()]
    return " · ".join(pieces)


def _link(text: str, address: str) -> str:
    # An address cannot end the brackets that it stands in.
    return f"[{_plain(text)}](<{quote(address, safe=_ADDRESS)}>)" if address else _plain(text)


_ADDRESS: Final = "%/:?#@!$&'()*+,;=~[]"


def _sentence(sentence: BadSentence, say: Wording) -> Iterator[str]:
    head = say("sentence", n=sentence.number, verdict=say.verdict(sentence.verdict))
    if sentence.words:
        head += _brackets(say("words", words=", ".join(sentence.words)), say)
    yield f"> {_strong(head, sentence.text, say) if sentence.text else f'**{_plain(head)}**'}"
    if sentence.chunk is not None:
        where = " · ".join(filter(None, (say("chunk", n=sentence.chunk), sentence.source)))
        passage = f"{say('colon')}{_plain(sentence.passage)}" if sentence.passage else ""
        yield f"> **{_plain(where)}**{passage}"
