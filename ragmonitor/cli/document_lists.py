"""`ragmonitor documents`: which documents go with bad answers, as a running monitor knows them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ragmonitor.addresses import shown
from ragmonitor.cli.monitor_client import Page
from ragmonitor.cli.monitor_options import DocumentsOptions
from ragmonitor.cli.terminal import FINE, figures_table, new_console, print_json, printable
from ragmonitor.errors import InputError

if TYPE_CHECKING:
    from rich.table import Table

FILE = "documents.json"


def run(options: DocumentsOptions) -> int:
    """Read the lists off a monitor's page, print them, and return the exit code.

    Raises:
        RagMonitorError: Nothing answers, or no page is served there.
    """
    page = Page(options.address, options.token)
    url = shown(page.url + FILE)
    lists = page.json(FILE, "kept", "judged")
    try:
        tables = list(_tables(lists))
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise InputError(f"{url} is of another version of ragmonitor") from error
    if options.json_output:
        print_json({"url": url} | lists)
    else:
        _print(url, lists, tables)
    return FINE


def _print(url: str, lists: Mapping[str, Any], tables: Sequence[tuple[str, Table]]) -> None:
    console = new_console()
    console.print(
        f"{url}, now: {lists['kept']:,} documents, by {lists['judged']:,} scored answers",
        markup=False,
        soft_wrap=True,
    )
    for title, table in tables:
        console.print(f"\n[bold]{title}[/]")
        console.print(table if table.row_count else "none")


def _tables(lists: Mapping[str, Any]) -> Iterator[tuple[str, Table]]:
    table = figures_table("document", "% with it", "% without", "scored", "contradict")
    for each in lists["misleading"]:
        counts = (f"{each[name]:,}" for name in ("judged", "contradicted"))
        table.add_row(_name(each), _range(each["with"]), _range(each["without"]), *counts)
    yield (
        "Misleading: hallucinated more often with it (NAMED: one in ten wrongly, at most)",
        table,
    )
    table = figures_table("document", "retrieved", "shown", "rated")
    for each in lists["noise"]:
        table.add_row(_name(each), *(f"{each[name]:,}" for name in ("retrieved", "shown", "rated")))
    yield "Noise: retrieved often, relevant to none of the questions that were rated", table
    table = figures_table("question, for example", "questions")
    for each in lists["missing"]:
        asked = (example.get("question") or example["id"] for example in each["examples"])
        table.add_row("\n".join(map(printable, asked)), f"{each['questions']:,.0f}")
    yield "Missing: questions for which nothing relevant was found", table
    table = figures_table(
        "supports", "contradicts", "sentence", "times", texts=("contradicts", "sentence")
    )
    for each in lists["conflicting"]:
        texts = (each[name] for name in ("supports", "contradicts", "sentence"))
        table.add_row(*texts, str(each["times"]))
    yield "Conflicting: one supports a sentence, the other contradicts it", table
    table = figures_table("turn, retriever", "% relevant", "of", "empty", "not shown", "lost")
    for each in lists["retrievals"]:
        counts = (f"{each[name]:,}" for name in ("retrievals", "empty", "unshown", "lost"))
        name = f"{each['turn']} {each['retriever']}".strip()
        table.add_row(name, _range(each["relevant"]), *counts)
    yield "Retrievals by turn: those that brought something relevant", table


def _name(entry: Mapping[str, Any]) -> str:
    name, of_store = entry["document"], entry["id"]
    whole_name = f"{name} ({of_store})" if of_store not in {"", name} else str(name)
    return f"NAMED {whole_name}" if entry.get("is_discovery") else whole_name


def _range(interval: Mapping[str, float] | None) -> str:
    if interval is None:
        return "-"
    mean, lower, upper = (100 * interval[name] for name in ("mean", "lower", "upper"))
    return f"{mean:.1f} [{lower:.1f}, {upper:.1f}]"
