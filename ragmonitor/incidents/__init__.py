"""Incidents: what one hands over when answers got worse, from the first alarm to the last."""

from ragmonitor.incidents.incident import BadAnswer, Incident, NamedCause
from ragmonitor.incidents.incident_keeper import IncidentKeeper
from ragmonitor.incidents.journal import Journal
from ragmonitor.incidents.rendering import as_markdown

__all__ = [
    "BadAnswer",
    "Incident",
    "IncidentKeeper",
    "Journal",
    "NamedCause",
    "as_markdown",
]
