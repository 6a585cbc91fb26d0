"""The demo on the terminal: faithfulness over time, phases, and the latest hallucinations."""

from __future__ import annotations

from collections.abc import Iterable

from rich import box
from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from ragmonitor.cli.demo.collector import Collector, TimeBin, UnsupportedAnswer
from ragmonitor.cli.demo.phases import PHASES, Phase
from ragmonitor.records import Estimate

_BLOCKS = " ▁▂▃▄▅▆▇█"
_STYLES: dict[Phase, str] = {"before": "green", "during": "bold red", "after": "cyan"}
_HEIGHT = 4
_AXIS = 5
_TITLES: dict[Phase, str] = {
    "before": "before the spike",
    "during": "during the spike",
    "after": "after the spike",
}


def screen(
    collector: Collector,
    *,
    phase: Phase,
    elapsed_s: float,
    width: int,
    title: str,
    footer: Iterable[str],
    gate: str = "",
    stop_hint: str = "Ctrl-C stops",
) -> RenderableType:
    """Return the whole picture as of now."""
    state = Text.assemble(
        (f" {_TITLES[phase]} ", f"reverse {_STYLES[phase]}"),
        f"  {elapsed_s:.0f} s   ",
        *(f"{framework} {n}   " for framework, n in sorted(collector.asked.items())),
        (stop_hint, "dim"),
    )
    parts: list[RenderableType] = [
        state,
        alarm_line(collector),
        *([Text(gate)] if gate else []),
        Text(f"faithfulness of the answers, {collector.bin_s:.3g} s per column", style="bold"),
        chart(collector, width=max(10, width - _AXIS - 6)),
        phases(collector),
    ]
    if any(collector.failures.values()):
        parts.append(Text(f"the application failed: {collector.last_failure}"[:200], style="red"))
    if collector.latest:
        parts.append(Text("latest answers that their context does not support", style="bold"))
        parts += [marked(unsupported) for unsupported in tuple(collector.latest)]
    parts += [Text(), *(Text(line, style="dim") for line in footer)]
    return Panel(Group(*parts), title=title, box=box.ROUNDED)


def alarm_line(collector: Collector) -> Text:
    """Return what alarm is active, and by how much; an empty line without one."""
    active = collector.active
    if active is None:
        return Text()
    event = active.event
    text = f" alarm: {event.signal}, objective {event.bound}"
    if event.span is not None:
        text += f"; {event.span.of(event.signal)}"
    return Text(f"{text} ", style="bold white on red")


def chart(collector: Collector, *, width: int) -> Text:
    """Return the mean per column of time, the latest at the right; red: a spike."""
    bins = dict(collector.bins)
    last = max(bins, default=0)
    columns = [bins.get(n, TimeBin()) for n in range(max(0, last - width + 1), last + 1)]
    text = Text()
    for row in range(_HEIGHT):
        label = "1.0" if row == 0 else "0.0" if row == _HEIGHT - 1 else ""
        text.append(f"{label:>3} ", style="dim")
        text.append("│" if label == "" else "┤", style="dim")
        for column in columns:
            style = "red" if column.during * 2 > column.scored else "green"
            text.append(_cell(column, _HEIGHT - 1 - row), style=style)
        text.append("\n")
    return text


def _cell(column: TimeBin, row_from_below: int) -> str:
    if not column.scored:
        return " "
    # At least one eighth, so that a mean of 0 is not taken for silence.
    eighths = max(1, round(column.total / column.scored * 8 * _HEIGHT))
    return _BLOCKS[min(8, max(0, eighths - 8 * row_from_below))]


def phases(collector: Collector) -> Table:
    """Return what each phase came to."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("")
    for title in ("interactions", "faithfulness", "hallucination rate", "refusals"):
        table.add_column(title, justify="right")
    for phase in PHASES:
        sums = collector.phases[phase]
        table.add_row(
            Text(_TITLES[phase], style=_STYLES[phase]),
            str(sums.interactions),
            _with_interval(sums.mean_faithfulness),
            _with_interval(sums.hallucination_rate),
            str(sums.refusals),
        )
    return table


def _with_interval(estimate: Estimate | None) -> str:
    if estimate is None:
        return "-"
    return f"{estimate.mean:.2f} ({estimate.lower:.2f} to {estimate.upper:.2f})"


def marked(unsupported: UnsupportedAnswer) -> Text:
    """Return the unsupported sentence, with the words that the context lacks marked."""
    sentence = Text(f"{unsupported.sentence.text}")
    if unsupported.sentence.words:
        sentence.highlight_words(unsupported.sentence.words, style="bold red")
    text = Text.assemble(
        (f"  {unsupported.faithfulness:.2f} ", "bold"),
        (f"{unsupported.framework}  ", "dim"),
        (f"{unsupported.question}  ", "italic"),
        sentence,
    )
    text.truncate(320, overflow="ellipsis")
    return text
