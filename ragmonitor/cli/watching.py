"""`ragmonitor top` and `ragmonitor tail`: a running monitor in a terminal, read off its page."""

from __future__ import annotations

import json
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from ragmonitor.addresses import shown
from ragmonitor.cli.explain import STATE, address, served
from ragmonitor.cli.options import TailOptions, TopOptions
from ragmonitor.cli.terminal import FINE, figures_table, print_json, say
from ragmonitor.errors import InputError
from ragmonitor.settings import Settings

if TYPE_CHECKING:
    from rich.console import RenderableType

    from ragmonitor.protocols import Clock

MAX_ANSWERS: Final = 5
"""Bad answers on the screen of `top`."""
MAX_TEXT: Final = 200
_PAGE: Final = "/ragmonitor/state.json"
_HINT: Final = "the monitor serves it with server.ui=true, to whoever has its token"
_RATES: Final = (
    *("hallucination", "minor_hallucination", "refusal"),
    *("empty_retrieval", "weak_retrieval", "new_question"),
)


class Page:
    """The page of a running monitor, read again and again: each time only what is new."""

    def __init__(self, host_or_url: str | None, token: str | None) -> None:
        """Read nothing yet.

        Args:
            host_or_url: As a user gives it; None: as the settings say.
            token: Of the page; None: as the settings say.
        """
        self.url = address(host_or_url).removesuffix(STATE) + _PAGE
        if token is None:
            secret = Settings.load().server.ui_token
            token = "" if secret is None else secret.get_secret_value()
        self._token = token
        self._cursor = ""

    def poll(self, *, with_good: bool = False) -> dict[str, Any]:
        """Return the state, whose `answers` are the bad ones since the last call.

        Args:
            with_good: Whether the good ones that the page keeps come, too.

        Raises:
            InputError: Nothing answers, or no page is served there.
        """
        answers: list[dict[str, Any]] = []
        while True:
            try:
                body = served(f"{self.url}?since={self._cursor}", token=self._token)
                state: dict[str, Any] = json.loads(body)
                answers += (each for each in state["answers"] if with_good or each["bad"])
                self._cursor, more = str(state["cursor"]), state["more"]
            except InputError as error:
                raise InputError(f"{error}; {_HINT}") from error
            except (ValueError, TypeError, KeyError, RecursionError) as error:
                raise InputError(f"{shown(self.url)} serves no page; {_HINT}") from error
            if not more:
                return state | {"answers": answers}


def _states(
    page: Page,
    *,
    every_s: float,
    seconds: float | None,
    clock: Clock,
    sleep: Callable[[float], None],
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
    """Print bad answers as they come, and return the exit code at the end.

    Raises:
        RagMonitorError: Nothing answers, or no page is served there.
    """
    page, is_away = Page(options.address, options.token), False
    for state in _states(
        page, every_s=options.every, seconds=options.seconds, clock=clock, sleep=sleep
    ):
        if isinstance(state, InputError):
            if not is_away:
                say(str(state))
            is_away = True
            continue
        is_away = False
        for answer in sorted(state["answers"], key=lambda each: each["at_s"]):
            if options.json_output:
                print_json(answer)
            else:
                print("\n".join(_lines(answer)), flush=True)  # noqa: T201 - what it is for
    return FINE


def _lines(answer: Mapping[str, Any]) -> Iterator[str]:
    """Yield an answer in lines: when, whose verdict and the scores; the question; what is bad."""
    scores = " · ".join(
        f"{each['evaluator']} {each['score']:.2f}"
        for each in answer["evaluations"]
        if "score" in each
    )
    labels = " ".join(f"{name}={value}" for name, value in answer["attributes"].items())
    head = (_time(answer["at_s"]), answer["judge"], scores or answer["cause"] or "", labels)
    yield "  ".join(each for each in head if each)
    if "question" in answer:
        yield f"  ? {_cut(answer['question'])}"
    for piece in answer.get("answer", ()):
        if "parts" in piece:
            text = "".join(part for part, _ in piece["parts"])
            words = ", ".join(dict.fromkeys(part for part, marked in piece["parts"] if marked))
            yield f"  {piece['verdict']}: {_cut(text)!r}" + (f" ({words})" if words else "")


def _cut(text: str) -> str:
    flat = " ".join(text.split())
    # What a terminal would take for a command to itself is no text.
    flat = "".join(each for each in flat if each.isprintable())
    return flat if len(flat) <= MAX_TEXT else flat[: MAX_TEXT - 1] + "…"


def _time(at_s: float) -> str:
    return time.strftime("%H:%M:%S", time.localtime(at_s))


# --- top ------------------------------------------------------------------------------------------


def top(
    options: TopOptions,
    *,
    clock: Clock = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> int:
    """Show rates, alarms and the last bad answers until Ctrl-C, and return the exit code.

    Raises:
        RagMonitorError: Nothing answers, or no page is served there.
    """
    from rich.console import Console
    from rich.live import Live

    page, worst = Page(options.address, options.token), deque[dict[str, Any]](maxlen=MAX_ANSWERS)
    console = Console(highlight=False)
    known = page.poll()
    worst.extend(sorted(known["answers"], key=lambda each: each["at_s"]))
    if options.once:
        console.print(_screen(known, worst))
        return FINE
    with Live(_screen(known, worst), console=console, screen=True, auto_refresh=False) as live:
        states = _states(
            page, every_s=options.every, seconds=options.seconds, clock=clock, sleep=sleep
        )
        for state in states:
            if isinstance(state, InputError):
                live.update(_screen(known, worst, problem=str(state)), refresh=True)
                continue
            known = state
            worst.extend(sorted(state["answers"], key=lambda each: each["at_s"]))
            live.update(_screen(known, worst), refresh=True)
    return FINE


def _screen(
    state: Mapping[str, Any], worst: Iterable[Mapping[str, Any]], *, problem: str = ""
) -> RenderableType:
    from rich.console import Group
    from rich.text import Text

    version = f" {state['service_version']}" if state["service_version"] else ""
    judged = f", {state['judged']:,} scored by {state['judge']}" if state["judge"] else ""
    answers = f"{state['received']:,} answers{judged}"
    head = f"{state['service']}{version}  {_time(state['now_s'])}  {answers}"
    lines = [Text(head, style="bold")]
    if problem:
        lines.append(Text(problem, style="red"))
    for alarm in state["alarms"]:
        if alarm["active"]:
            said = f"ALARM {alarm['signal']}, raised {_time(alarm['since_s'])}"
            lines.append(Text(f"{said}, limit {alarm['objective']:.3g}", style="bold white on red"))
    learning = sum(alarm["objective"] is None for alarm in state["alarms"])
    armed = len(state["alarms"]) - learning
    lines.append(Text(f"{armed} alarms armed, {learning} learning", style="dim"))
    found = [Text("\n".join(_lines(each))) for each in reversed([*worst])]
    return Group(*lines, _numbers(state), Text("bad answers, newest first", style="bold"), *found)


def _numbers(state: Mapping[str, Any]) -> RenderableType:
    """Return the table of the last hour's numbers, and how near each alarm is."""
    table = figures_table("last hour", "mean", "95 % interval", "scored", "alarm")
    evidence = {
        (alarm["signal"], alarm["judge"]): alarm["evidence_days"] / (state["threshold_days"] or 30)
        for alarm in state["alarms"]
    }
    for number in state["numbers"]:
        if number["window"] != "1h":
            continue
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
