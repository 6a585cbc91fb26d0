"""`ragmonitor top` and `ragmonitor tail`: a running monitor in a terminal, read off its page."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from ragmonitor.cli.monitor_client import Page
from ragmonitor.cli.monitor_options import TailOptions, TopOptions
from ragmonitor.cli.terminal import FINE, figures_table, new_console, print_json, printable, say
from ragmonitor.errors import InputError
from ragmonitor.records import is_difference

if TYPE_CHECKING:
    from rich.console import RenderableType

    from ragmonitor.protocols import Clock

MAX_ANSWERS: Final = 5
"""Answers on the screen of `top`: so many of the newest, and so many bad ones."""
MAX_PRINTED: Final = 1_000
"""Answers of which `tail` knows that it has printed them; the page keeps 300 at most."""
MAX_TEXT: Final = 200
_RATES: Final = (
    *("hallucination", "minor_hallucination", "refusal"),
    *("empty_retrieval", "weak_retrieval"),
)


def _states(
    page: Page,
    *,
    every_s: float,
    seconds: float | None,
    clock: Clock = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> Iterator[dict[str, Any] | InputError]:
    """Yield the state again and again; once it was there, an error in place of it.

    Raises:
        InputError: Nothing answers at the first time.
    """
    yield page.poll()
    began = clock()
    while seconds is None or clock() - began + every_s <= seconds:
        sleep(every_s)
        try:
            yield page.poll()
        except InputError as error:
            yield error


# --- tail -----------------------------------------------------------------------------------------


def tail(
    options: TailOptions,
    *,
    clock: Clock = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> int:
    """Print answers as they come, and return the exit code at the end.

    Raises:
        RagMonitorError: Nothing answers, or no page is served there.
    """
    page, is_away = Page(options.address, options.token), False
    printed: dict[tuple[str, str, bool], None] = {}
    for state in _states(
        page, every_s=options.every, seconds=options.seconds, clock=clock, sleep=sleep
    ):
        if isinstance(state, InputError):
            if not is_away:
                say(str(state))
            is_away = True
            continue
        is_away = False
        for answer in state["answers"]:
            # The page sends an answer again for whatever it learns of it, a person's thumb too.
            version = answer["id"], answer["judge"], answer["bad"]
            if version in printed or (options.bad and not answer["bad"]):
                continue
            printed[version] = None
            if len(printed) > MAX_PRINTED:
                del printed[next(iter(printed))]
            if options.json_output:
                print_json(answer)
            else:
                print("\n".join(_lines(answer)), flush=True)  # noqa: T201 - what it is for
    return FINE


def _lines(answer: Mapping[str, Any]) -> Iterable[str]:
    return map(printable, _told(answer))


def _told(answer: Mapping[str, Any]) -> Iterator[str]:
    """Yield an answer in lines: when, whose verdict and the scores; the question; what is bad.

    Of an answer of which nothing is bad the beginning stands in the last one.
    """
    scores = " · ".join(
        f"{each['evaluator']} {each['score']:.2f}"
        for each in answer["evaluations"]
        if "score" in each
    )
    labels = " ".join(f"{name}={value}" for name, value in answer["attributes"].items())
    bad = "bad" if answer["bad"] else ""
    head = (_time(answer["at_s"]), bad, answer["judge"], scores or answer["cause"] or "", labels)
    yield "  ".join(each for each in head if each)
    if "question" in answer:
        yield f"  ? {_cut(answer['question'])}"
    pieces = answer.get("answer", ())
    unsupported = [piece for piece in pieces if "parts" in piece]
    for piece in unsupported:
        text = "".join(part for part, _ in piece["parts"])
        words = ", ".join(dict.fromkeys(part for part, marked in piece["parts"] if marked))
        yield f"  {piece['verdict']}: {_cut(text)!r}" + (f" ({words})" if words else "")
    if pieces and not unsupported:
        yield f"  = {_cut(''.join(piece.get('text', '') for piece in pieces))}"


def _cut(text: str) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= MAX_TEXT else flat[: MAX_TEXT - 1] + "…"


def _time(at_s: float) -> str:
    """Return a time of this machine's zone, with its date unless that is today's."""
    moment, today = time.localtime(at_s), time.localtime()
    is_today = (moment.tm_year, moment.tm_yday) == (today.tm_year, today.tm_yday)
    return time.strftime("%H:%M:%S" if is_today else "%Y-%m-%d %H:%M:%S", moment)


# --- top ------------------------------------------------------------------------------------------


def top(options: TopOptions) -> int:
    """Show rates, alarms, the newest and the last bad answers until Ctrl-C; return the exit code.

    Raises:
        RagMonitorError: Nothing answers, or no page is served there.
    """
    from rich.live import Live

    page, kept = Page(options.address, options.token), _Kept()
    console = new_console()
    known = page.poll()
    kept.add(known["answers"])
    if options.once:
        console.print(_screen(known, kept))
        return FINE
    with Live(_screen(known, kept), console=console, screen=True, auto_refresh=False) as live:
        for state in _states(page, every_s=options.every, seconds=options.seconds):
            if isinstance(state, InputError):
                live.update(_screen(known, kept, problem=str(state)), refresh=True)
                continue
            known = state
            kept.add(state["answers"])
            live.update(_screen(known, kept), refresh=True)
    return FINE


class _Kept:
    """The answers on the screen: the newest, and the last bad ones. By id: an answer comes once."""

    def __init__(self) -> None:
        self.newest: dict[str, dict[str, Any]] = {}
        self.bad: dict[str, dict[str, Any]] = {}

    def add(self, answers: Iterable[dict[str, Any]]) -> None:
        """Take in answers, oldest first."""
        for answer in answers:
            self.bad.pop(answer["id"], None)
            for kept in (self.newest, self.bad) if answer["bad"] else (self.newest,):
                kept[answer["id"]] = answer
        for kept in (self.newest, self.bad):
            for each in sorted(kept.values(), key=lambda each: each["at_s"])[:-MAX_ANSWERS]:
                del kept[each["id"]]


def _newest_first(answers: Mapping[str, dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(answers.values(), key=lambda each: -each["at_s"])


def _screen(state: Mapping[str, Any], kept: _Kept, *, problem: str = "") -> RenderableType:
    from rich.console import Group
    from rich.text import Text

    def text(shown: str, style: str = "") -> Text:
        return Text(printable(shown), style=style)

    version = f" {state['service_version']}" if state["service_version"] else ""
    judged = f", {state['judged']:,} scored by {state['judge']}" if state["judge"] else ""
    answers = f"{state['received']:,} answer{'s' * (state['received'] != 1)}{judged}"
    now = time.strftime("%H:%M:%S %Z", time.localtime(state["now_s"]))
    head = f"{state['service']}{version}  {now}  {answers}"
    lines: list[RenderableType] = [text(head, style="bold")]
    if problem:
        lines.append(text(problem, style="red"))
    lines += [
        text(_alarm(alarm), style="bold white on red")
        for alarm in state["alarms"]
        if alarm["active"]
    ]
    learning = sum(alarm["objective"] is None for alarm in state["alarms"])
    armed = len(state["alarms"]) - learning
    lines.append(Text(f"{armed} alarms armed, {learning} learning", style="dim"))
    lines.append(_numbers(state))
    lines.append(Text("newest answers" if kept.newest else "no answers yet", style="bold"))
    for each in _newest_first(kept.newest):
        head_and_question = "\n".join([*_lines(each)][:2])
        lines.append(Text(head_and_question, style="red" if each["bad"] else ""))
    if kept.bad:
        lines.append(Text("bad answers, newest first", style="bold"))
        lines += [Text("\n".join(_lines(each))) for each in _newest_first(kept.bad)]
    return Group(*lines)


def _alarm(alarm: Mapping[str, Any]) -> str:
    """Say an alarm that is on, by the answers that raised it: the last hour may contradict it."""
    sentence = f"ALARM {alarm['signal']}, raised {_time(alarm['since_s'])}"
    span = alarm["span"]
    is_rate = span is not None and span["bad"] is not None
    form = "{:.1%}" if is_rate else "{:.3g}"
    # Their scale of 0 to 1 holds differences of -1 to 1.
    shift = is_difference(alarm["signal"])

    def said(value: float) -> str:
        return f"{2 * value - 1:+.3f}" if shift else form.format(value)

    if span is not None:
        many = f"{span['bad']:,}" if is_rate else f"a mean of {said(span['mean'])}"
        link = "of" if is_rate else "over"
        since = _time(span["since_s"])
        sentence += f": {many} {link} {span['scored']:,} scored answers since {since}"
        if span["before"] is not None:
            sentence += f", {said(span['before'])} before"
    side = "at least" if alarm["higher_is_better"] else "at most"
    return f"{sentence}; limit {side} {said(alarm['objective'])}"


def _numbers(state: Mapping[str, Any]) -> RenderableType:
    """Return the table of the last hour's numbers, and how near each alarm is."""
    table = figures_table("last hour", "mean", "95 % interval", "scored", "alarm")
    evidence = {
        (alarm["signal"], alarm["judge"]): alarm["evidence_days"] / (state["threshold_days"] or 30)
        for alarm in state["alarms"]
    }
    judges = (state["judge"], state["builtin"])
    shown = [number for number in state["numbers"] if number["window"] == "1h"]
    # The judge that counts stands first, and what no judge scores last.
    for number in sorted(shown, key=lambda each: (*judges, each["judge"]).index(each["judge"])):
        form = "{:.1%}" if number["signal"] in _RATES else "{:.3f}"
        mean, lower, upper = (form.format(number[name]) for name in ("mean", "lower", "upper"))
        near = evidence.get((number["signal"], number["judge"]))
        table.add_row(
            f"{number['signal']} ({number['judge']})",
            mean,
            f"{lower} to {upper}",
            f"{number['judged']:,.0f}",
            "" if near is None else f"{near:.0%}",
        )
    return table
