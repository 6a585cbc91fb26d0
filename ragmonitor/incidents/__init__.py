"""Incidents: what one hands over when answers got worse, from the first alarm to the last."""

from ragmonitor.incidents.incident import Incident
from ragmonitor.incidents.incident_keeper import IncidentKeeper
from ragmonitor.incidents.journal import Journal
from ragmonitor.incidents.rendering import as_markdown

__all__ = ["Incident", "IncidentKeeper", "Journal", "as_markdown"]
