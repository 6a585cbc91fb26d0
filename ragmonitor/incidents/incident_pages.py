"""The incidents beside the page: a list, and each of them as Markdown or JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ragmonitor.export.server import Reply, json_reply
from ragmonitor.incidents.journal import Journal
from ragmonitor.incidents.rendering import Links, as_markdown, headline

MAX_LISTED: Final = 20


class IncidentPages:
    """Answers what is asked below `incidents`; who may ask is the page's to decide."""

    def __init__(self, journal: Journal, trace_url: str) -> None:
        """Take the journal, and where traces are to be seen."""
        self._journal = journal
        self._links = Links(trace_url=trace_url, page_url="../")

    def brief(self) -> list[dict[str, Any]]:
        """Return what the page lists of the newest incidents, the newest first."""
        return [
            {
                "id": each.id,
                "opened_s": each.opened_s,
                "closed_s": each.closed_s,
                "en": headline(each, "en"),
                "zh": headline(each, "zh"),
                "cause": {"kind": each.cause.kind, "name": each.cause.name},
            }
            for each in self._journal.recent()[:MAX_LISTED]
        ]

    def reply(self, name: str, query: Mapping[str, str]) -> Reply | None:
        """Return what is at a name; None: nothing.

        Args:
            name: `incidents.json`, `incidents/ID.md` or `incidents/ID.json`; the ID `latest` is
                the newest one.
            query: `lang` is `en` or `zh`.
        """
        if name == "incidents.json":
            records = [each.model_dump(mode="json") for each in self._journal.recent()]
            return json_reply({"incidents": records})
        folder, _, id_ = name.partition("/")
        stem, _, suffix = id_.partition(".")
        incident = self._journal.find(stem) if folder == "incidents" else None
        if incident is not None and suffix == "json":
            return json_reply(incident.model_dump(mode="json"))
        if incident is None or suffix != "md":
            return None
        text = as_markdown(incident, "zh" if query.get("lang") == "zh" else "en", self._links)
        return Reply(
            status=200,
            content_type="text/markdown; charset=utf-8",
            body=text.encode("utf-8", "backslashreplace"),
        )
