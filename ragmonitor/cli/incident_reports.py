"""`ragmonitor incident`: reads incidents from the state or from a running monitor."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime

from pydantic import ValidationError

from ragmonitor.cli.monitor_client import RunningMonitor
from ragmonitor.cli.options import IncidentOptions
from ragmonitor.cli.terminal import FINE, SOMETHING_WRONG, print_json, say
from ragmonitor.incidents import Incident, Journal, as_markdown
from ragmonitor.incidents.rendering import Links, headline
from ragmonitor.runtime.addresses import shown
from ragmonitor.runtime.errors import InputError, file_errors
from ragmonitor.runtime.printable import printable
from ragmonitor.runtime.tables import owners_alone
from ragmonitor.settings import Settings
from ragmonitor.store import StoreUnavailableError, store_at


def run(options: IncidentOptions) -> int:
    """List the incidents or print one, and return the exit code; 1: there is none.

    Raises:
        InputError: The incidents cannot be read, the id is unknown, or the file cannot be written.
    """
    incidents = incidents_of(options.address)
    if not incidents:
        say("there is no incident")
    elif options.id:
        _print_one(options, incidents)
        return FINE
    if options.json_output:
        print_json({"incidents": [each.model_dump(mode="json") for each in incidents]})
    else:
        for each in incidents:
            time = datetime.fromtimestamp(each.opened_s, UTC).strftime("%Y-%m-%d %H:%M UTC")
            state = "open" if each.is_open else "closed"
            print(printable(f"{each.id}  {time}  {state}  {headline(each)}"))  # noqa: T201
    return FINE if incidents else SOMETHING_WRONG


def _print_one(options: IncidentOptions, incidents: Sequence[Incident]) -> None:
    newest_first = (each for each in incidents if options.id in ("latest", each.id))
    incident = next(newest_first, None)
    if incident is None:
        raise InputError(f"there is no incident {options.id!r}; `ragmonitor incident` lists all")
    if options.json_output:
        record = incident.model_dump(mode="json")
        text = json.dumps(record, ensure_ascii=False, indent=1) + "\n"
    else:
        server = Settings.load().server
        links = Links(trace_url=server.ui_trace_url or "", page_url=server.page_url)
        text = as_markdown(incident, options.language, links)
    if options.output is None:
        print(printable(text, has_lines=True), end="")  # noqa: T201
        return
    with (
        file_errors(options.output),
        open(options.output, "w", encoding="utf-8", opener=owners_alone) as file,
    ):
        file.write(text)
    say(f"{incident.id}: {options.output}")


def incidents_of(host_or_url: str | None) -> Sequence[Incident]:
    """Return the incidents of the state or of a running monitor, the newest first.

    Args:
        host_or_url: The address of a monitor; None: the state, or without one the monitor, in the
            settings.

    Raises:
        InputError: They cannot be read.
    """
    settings = Settings.load()
    place = settings.state
    if host_or_url is not None or place is None:
        monitor = RunningMonitor(host_or_url)
        listed = monitor.json("incidents.json", "incidents")["incidents"]
        try:
            return [Incident.model_validate(each) for each in listed]
        except (TypeError, ValidationError) as error:
            raise InputError(
                f"{shown(monitor.page_url)} serves no incidents of ragmonitor"
            ) from error
    store = store_at(place, settings.service)
    try:
        return Journal(store).recent()
    except StoreUnavailableError as error:
        raise InputError(str(error)) from error
    finally:
        store.close()
