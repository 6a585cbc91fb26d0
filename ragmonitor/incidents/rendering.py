"""An incident as Markdown, as one self-contained HTML page, and as one line."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from typing import Final, Literal, NamedTuple
from urllib.parse import quote

from ragmonitor.causes.signal_names import Language
from ragmonitor.incidents.incident import (
    BadAnswer,
    BadSentence,
    Candidate,
    Incident,
    IncidentAlarm,
)
from ragmonitor.incidents.incident_texts import (
    Wording,
    e_value,
    moment,
    percent,
)


class Piece(NamedTuple):
    """A run of text."""

    kind: Literal["text", "strong", "mark", "code", "link"]
    text: str
    address: str = ""
    """The address of a link."""


Line = Sequence[Piece]


@dataclass(frozen=True, slots=True, kw_only=True)
class Links:
    """Where an incident links to; empty: nowhere."""

    trace_url: str = ""
    """With `{trace_id}` in it."""
    page_url: str = ""
    """The folder of the page, with a slash at its end; may be relative."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """One block of the story."""

    kind: Literal["h1", "h2", "h3", "p", "quote", "list", "table"]
    lines: tuple[Line, ...]
    """One of a heading, a paragraph or a quotation; one an item of a list; the first of a table is
    its head, with a piece for each cell, as in every other."""


_STYLE: Final = """
:root{color-scheme:light dark}
body{font:16px/1.5 system-ui,sans-serif;max-width:62rem;margin:2rem auto;padding:0 1rem}
h1{font-size:1.5rem}h2{font-size:1.15rem;margin-top:2rem}h3{font-size:1rem;margin-top:1.5rem}
table{border-collapse:collapse;display:block;overflow-x:auto}
th,td{border:1px solid #8886;padding:.25rem .5rem;text-align:left;vertical-align:top}
blockquote{margin:.5rem 0;padding:.25rem .75rem;border-left:4px solid #c0392b;background:#c0392b18}
blockquote.near{border-color:#2980b9;background:#2980b918}
mark{background:#f1c40f66;color:inherit}code{overflow-wrap:anywhere}
h1,h2,h3,p,li,blockquote{overflow-wrap:anywhere}
"""
_STYLE_HASH: Final = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
CONTENT_SECURITY_POLICY: Final = (
    f"default-src 'none'; style-src 'sha256-{_STYLE_HASH}'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'"
)


def as_markdown(incident: Incident, language: Language = "en", links: Links = Links()) -> str:
    """Return the incident as Markdown (CommonMark, with tables of GitHub's)."""
    return "\n\n".join(map(_block_markdown, _story(incident, Wording(language), links))) + "\n"


def as_html(
    incident: Incident,
    language: Language = "en",
    links: Links = Links(),
    *,
    other_url: str = "",
) -> str:
    """Return the incident as one page that needs nothing else.

    Args:
        incident: The incident.
        language: Of the texts.
        links: Where it links to.
        other_url: The page in the other language; empty: there is none.
    """
    say = Wording(language)
    blocks = list(_story(incident, say, links))
    title = escape(blocks[0].lines[0][0].text)
    other = f'<p><a href="{escape(other_url)}">{say("other_language")}</a></p>' if other_url else ""
    return (
        f'<!doctype html><html lang="{language}"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<meta http-equiv="Content-Security-Policy" content="{_META_POLICY}">'
        f"<title>{title}</title><style>{_STYLE}</style></head><body>"
        f"{other}{''.join(map(_block_html, blocks))}</body></html>"
    )


_META_POLICY: Final = escape(CONTENT_SECURITY_POLICY.rpartition("; frame-ancestors")[0])


def headline(incident: Incident, language: Language = "en") -> str:
    """Return what moved and what is named as the cause, without any text of an answer."""
    say = Wording(language)
    text = _moved(incident, say).rstrip(".。")
    if incident.cause.kind == "judge":
        return text + say("line_judge")
    if incident.cause.kind == "unknown":
        return text
    return text + say("line_cause", cause=say.cause(incident.cause.kind, incident.cause.name))


# --- the story ------------------------------------------------------------------------------------


def _p(*texts: str, between: str = " ") -> Block:
    return Block(kind="p", lines=([Piece("text", between.join(texts))],))


def _h2(text: str) -> Block:
    return Block(kind="h2", lines=([Piece("text", text)],))


def _story(incident: Incident, say: Wording, links: Links) -> Iterator[Block]:
    signal = say.signal(incident.leading.signal)
    title = say("title", service=incident.service, signal=signal)
    yield Block(kind="h1", lines=([Piece("text", title)],))
    yield _p(*_times(incident, say), between=say.between)
    yield _h2(say("moved"))
    yield _p(_moved(incident, say), *_since_change(incident, say), between=say.between)
    yield _alarms(incident, say)
    yield from _cause(incident, say)
    yield _h2(say("check"))
    yield _p(_check(incident, say))
    if incident.candidates:
        yield _h2(say("candidates"))
        yield _candidates(incident, say)
        details = tuple(
            [
                Piece("strong", _called(each, say)),
                Piece("text", f"{say.colon}{_detail(each, say)}"),
            ]
            for each in incident.candidates
            if each.detail and each is not incident.named
        )
        if details:
            yield Block(kind="list", lines=details)
    yield from _answers(incident, say, links)
    yield _h2(say("next"))
    yield Block(
        kind="list", lines=tuple([Piece("text", each)] for each in _questions(incident, say))
    )
    yield _h2(say("sure"))
    yield _p(say("sure_alarm", share=percent(incident.leading.threshold_share)))
    yield _p(say("sure_cause"))
    yield _p(say("updated", time=moment(incident.updated_s), id=incident.id))


def _times(incident: Incident, say: Wording) -> Iterator[str]:
    time = moment(incident.opened_s)
    if incident.closed_s is None:
        yield say("open", time=time)
    else:
        span = say.span(incident.closed_s - incident.opened_s)
        yield say("closed", time=time, end=moment(incident.closed_s), span=span)
    change = incident.change
    yield say("since" if change is None else "rising", time=moment(incident.since_s))
    if change is not None:
        ends = {"lower": moment(change.lower_s), "upper": moment(change.upper_s)}
        yield say("changed", time=moment(change.at_s), **ends)
    if incident.service_version:
        yield say("version", version=incident.service_version)


def _moved(incident: Incident, say: Wording) -> str:
    alarm = incident.leading
    signal = say.signal(alarm.signal)
    bound = say.bound(alarm.objective, alarm.signal, higher_is_better=alarm.higher_is_better)
    if alarm.signal == "version_worse":
        return say("moved_version")
    rise = _rise(alarm, say)
    if not rise:
        return say("moved_no_rate", signal=signal, bound=bound)
    return say("moved_rise", signal=signal, bound=bound, rise=rise)


def _rise(alarm: IncidentAlarm, say: Wording) -> str:
    """Return what the alarm was raised by; empty: it is not known.

    The last hour, which holds answers from before the rise and may contradict the alarm, is told
    of an alarm alone that rests on no scored answers.
    """
    rise = alarm.rise
    if rise is None:
        rate = say.rate(alarm.estimate, alarm.signal)
        return "" if alarm.estimate is None else say("rise_hour", rate=rate)
    known = {"scored": rise.scored, "time": moment(rise.since_s)}
    if rise.bad is None:
        sentence = say("rise_mean", mean=say.mean(rise.mean, alarm.signal), **known)
    else:
        sentence = say("rise_rate", bad=rise.bad, **known)
    if rise.before is None:
        return sentence
    return sentence + say("rise_before", before=say.mean(rise.before, alarm.signal))


def _since_change(incident: Incident, say: Wording) -> Iterator[str]:
    """Yield the rates on both sides of the change."""
    change, signal = incident.change, incident.leading.signal
    if change is not None and change.after is not None:
        until = moment(incident.updated_s if change.until_s is None else change.until_s)
        after, before = say.rate(change.after, signal), say.rate(change.before, signal)
        yield say("moved_since", after=after, before=before, until=until)


def _table(head: Sequence[str], rows: Iterator[Sequence[str]]) -> Block:
    cells = ([Piece("text", cell) for cell in row] for row in (head, *rows))
    return Block(kind="table", lines=tuple(cells))


def _alarms(incident: Incident, say: Wording) -> Block:
    names = ("signal", "judge", "rise", "limit", "evidence", "raised", "cleared")
    rows = (
        (
            say.signal(each.signal),
            each.judge,
            _rise(each, say) or "–",
            say.bound(each.objective, each.signal, higher_is_better=each.higher_is_better),
            percent(each.threshold_share),
            moment(each.raised_s),
            say("still_on") if each.cleared_s is None else moment(each.cleared_s),
        )
        for each in incident.alarms
    )
    return _table([say(f"col_{name}") for name in names], rows)


def _cause(incident: Incident, say: Wording) -> Iterator[Block]:
    yield _h2(say("cause"))
    cause, named = incident.cause, incident.named
    after = say.span(cause.named_s - incident.opened_s)
    if cause.kind == "judge":
        text = say("cause_judge", after=after)
        yield Block(kind="p", lines=([Piece("strong", text)],))
    elif cause.kind == "unknown":
        yield _p(say("cause_unknown" if incident.candidates else "cause_nothing"))
    else:
        said = say.cause(cause.kind, cause.name)
        text = say("cause_named", cause=said, after=after)
        yield Block(kind="p", lines=([Piece("strong", text)],))
    if named is not None:
        yield _p(_goes_with(named, say), _detail(named, say), between=say.between)
        if named.kind != "event":
            yield _p(say(_worse_or_more(named)))
    others = [
        say.cause(each.kind, each.name)
        for each in incident.candidates
        if each.is_discovery and each is not named
    ]
    if others:
        yield _p(say("cause_others", names=say.comma.join(others)))


def _worse_or_more(named: Candidate) -> str:
    """Return the text that says whether its answers got worse or there are more of them."""
    if named.kind == "version":
        return "is_version"
    if not named.is_compared or named.now is None or named.before is None:
        return "is_uncompared"
    return "is_rate"


def _goes_with(named: Candidate, say: Wording) -> str:
    now = say.rate(named.now, named.signal)
    before = say("none_before")
    if named.before is not None:
        before = say.rate(named.before, named.signal)
    kind = "version" if named.kind == "version" else "part"
    change = say(f"goes_{kind}", now=now, before=before)
    if named.explained is None:
        return change
    share, interval = _explains(named, say)
    return say("goes_with", share=share, interval=interval) + say.between + change


def _detail(candidate: Candidate, say: Wording) -> str:
    is_said = say.language == "zh" and candidate.detail_zh
    return candidate.detail_zh if is_said else candidate.detail


def _explains(candidate: Candidate, say: Wording) -> tuple[str, str]:
    """Return the share of the rise that goes with it, and its interval in brackets."""
    if candidate.explained is None:
        return "–", ""
    share = percent(candidate.explained)
    if candidate.explained_lower is None or candidate.explained_upper is None:
        return share, ""
    ends = (percent(candidate.explained_lower), percent(candidate.explained_upper))
    return share, say.bracketed("{} – {}".format(*ends))


def _check(incident: Incident, say: Wording) -> str:
    check = incident.check
    if check is None:
        return say("check_none")
    counts = {"flipped": check.flipped, "reread": check.reread, "waiting": check.waiting}
    return say(f"check_{check.cause}", **counts)


def _candidates(incident: Incident, say: Wording) -> Block:
    names = ("kind", "name", "now", "before", "explains", "sure", "since")
    rows = (
        (
            say.kind(each.kind),
            _called(each, say),
            say.rate(each.now, each.signal),
            say.rate(each.before, each.signal),
            "".join(_explains(each, say)),
            _sure(each, say),
            "–" if each.since_s is None else moment(each.since_s),
        )
        for each in incident.candidates
    )
    return _table([say(f"col_{name}") for name in names], rows)


def _called(candidate: Candidate, say: Wording) -> str:
    return say.name(candidate.kind, candidate.name)


def _sure(candidate: Candidate, say: Wording) -> str:
    if candidate.kind == "event":
        return say("near")
    shown = "shown" if candidate.is_discovery else "suspected"
    return say(shown, e=e_value(candidate.e_value))


def _questions(incident: Incident, say: Wording) -> Iterator[str]:
    name = incident.cause.name
    names: dict[str, object] = {"name": name, "time": moment(_began_s(incident))}
    if incident.scope == "input":
        yield say("next_input")
    else:
        yield say(f"next_{incident.cause.kind}", **names)
        if incident.cause.kind == "document" and incident.content == "all":
            yield say("next_passages")
        if incident.check is not None and incident.check.cause == "unknown":
            yield say("next_check")
    if not incident.is_open:
        yield say("next_over")


def _began_s(incident: Incident) -> float:
    named = incident.named
    known = named.since_s if named is not None else None
    return incident.since_s if known is None else known


def _answers(incident: Incident, say: Wording, links: Links) -> Iterator[Block]:
    yield _h2(say("answers") + say.bracketed(str(len(incident.answers))))
    if incident.content != "all":
        yield _p(say("withheld", content=incident.content))
    if not incident.answers:
        yield _p(say("no_answers"))
    cause = incident.cause
    count = sum(each.is_of(cause) for each in incident.answers)
    if count:
        yield _p(say("answers_of", n=count, cause=say.cause(cause.kind, cause.name)))
    elif cause.kind == "judge" and incident.answers:
        yield _p(say("answers_judge"))
    for n, answer in enumerate(incident.answers, 1):
        question = answer.question or say("no_question")
        yield Block(kind="h3", lines=([Piece("text", f"{n}. {question}")],))
        yield Block(kind="p", lines=(_about(answer, say, links),))
        for sentence in answer.sentences:
            yield from _sentence(sentence, say)


def _about(answer: BadAnswer, say: Wording, links: Links) -> Line:
    attributes = " · ".join(f"{name}: {value}" for name, value in answer.attributes.items())
    pieces: list[Piece] = [Piece("text", f"{moment(answer.at_s)} · {say('answer')} ")]
    if links.page_url:
        address = f"{links.page_url}#answer={quote(answer.id, safe='')}"
        pieces.append(Piece("link", answer.id, address))
    else:
        pieces.append(Piece("code", answer.id))
    if answer.trace_id:
        pieces.append(Piece("text", f" · {say('trace')} "))
        if links.trace_url:
            address = links.trace_url.replace("{trace_id}", quote(answer.trace_id, safe=""))
            pieces.append(Piece("link", answer.trace_id, address))
        else:
            pieces.append(Piece("code", answer.trace_id))
    return [*pieces, Piece("text", f" · {attributes}")] if attributes else pieces


def _sentence(sentence: BadSentence, say: Wording) -> Iterator[Block]:
    head = say("sentence", n=sentence.number, verdict=say.verdict(sentence.verdict))
    if sentence.words:
        head += say.bracketed(say("words", words=", ".join(sentence.words)))
    line: list[Piece] = [Piece("strong", head)]
    if sentence.text:
        line += [Piece("text", say.colon), Piece("mark", sentence.text)]
    yield Block(kind="quote", lines=(line,))
    if sentence.chunk is not None:
        where = " · ".join(filter(None, (say("chunk", n=sentence.chunk), sentence.source)))
        line = [Piece("strong", where)]
        if sentence.passage:
            line.append(Piece("text", f"{say.colon}{sentence.passage}"))
        yield Block(kind="quote", lines=(line,))


# --- Markdown and HTML ----------------------------------------------------------------------------

_MARKS: Final = re.compile(r"([\\`*_\[\]<>|~&$@#]|:(?=//)|^[-+])")
"""Signs that mean something in CommonMark or GitHub's dialect, where they may stand here."""


def _block_markdown(block: Block) -> str:
    lines = ["".join(map(_piece_markdown, line)) for line in block.lines]
    if block.kind == "list":
        return "\n".join(f"- {line}" for line in lines)
    if block.kind == "table":
        rows = [" | ".join(map(_piece_markdown, line)) for line in block.lines]
        rule = " | ".join("---" for _ in block.lines[0])
        return "\n".join(f"| {row} |" for row in (rows[0], rule, *rows[1:]))
    before = {"h1": "# ", "h2": "## ", "h3": "### ", "p": "", "quote": "> "}[block.kind]
    return before + lines[0]


def _piece_markdown(piece: Piece) -> str:
    text = _MARKS.sub(r"\\\1", " ".join(piece.text.splitlines()))
    if piece.address:
        return f"[{text}](<{_address(piece.address)}>)"
    return f"**{text}**" if piece.kind == "strong" and text.strip() else text


def _address(address: str) -> str:
    """Return an address that cannot end the brackets it stands in."""
    return quote(address, safe="%/:?#@!$&'()*+,;=~[]")


def _block_html(block: Block) -> str:
    if block.kind == "table":
        head, *rows = ([_piece_html(piece) for piece in line] for line in block.lines)
        cells = "".join(f"<th scope=col>{cell}</th>" for cell in head)
        body = "".join(f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>" for row in rows)
        return f"<table><thead><tr>{cells}</tr></thead><tbody>{body}</tbody></table>"
    lines = ["".join(map(_piece_html, line)) for line in block.lines]
    if block.kind == "list":
        return f"<ul>{''.join(f'<li>{line}</li>' for line in lines)}</ul>"
    name = "blockquote" if block.kind == "quote" else block.kind
    is_near = block.kind == "quote" and all(piece.kind != "mark" for piece in block.lines[0])
    return f"<{name}{' class=near' if is_near else ''}>{lines[0]}</{name}>"


def _piece_html(piece: Piece) -> str:
    text = escape(piece.text)
    if piece.address:
        address = escape(_address(piece.address))
        return f'<a href="{address}" rel="noopener noreferrer">{text}</a>'
    return text if piece.kind == "text" else f"<{piece.kind}>{text}</{piece.kind}>"
