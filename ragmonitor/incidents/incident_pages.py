"""The incidents beside the page: a list, and each of them as Markdown or JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ragmonitor.causes.signal_names import Language
from ragmonitor.export.content import compact_json
from ragmonitor.export.server import Reply
from ragmonitor.incidents.journal import Journal
from ragmonitor.incidents.rendering import Links, as_markdown, headline

PREFIX: Final = "incidents"
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
        if name == f"{PREFIX}.json":
            records = [each.model_dump(mode="json") for each in self._journal.recent()]
            return _reply("application/json", compact_json({"incidents": records}))
        folder, _, id_ = name.partition("/")
        stem, _, suffix = id_.partition(".")
        incident = self._journal.find(stem) if folder == PREFIX else None
        if incident is not None and suffix == "json":
            return _reply("application/json", compact_json(incident.model_dump(mode="json")))
        if incident is not None and suffix == "md":
            language: Language = "zh" if query.get("lang") == "zh" else "en"
            return _reply("text/markdown", as_markdown(incident, language, self._links))
        return None


def _reply(kind: str, text: str) -> Reply:
    body = text.encode("utf-8", "backslashreplace")
    return Reply(status=200, content_type=f"{kind}; charset=utf-8", body=body)
