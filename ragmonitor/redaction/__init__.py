"""Redacts texts: secrets, personal data, and what the application's own functions replace."""

from ragmonitor.redaction.credentials import secrets_in, without_secrets
from ragmonitor.redaction.personal import PersonalData
from ragmonitor.redaction.redactor import Redact, Redactor

__all__ = ["PersonalData", "Redact", "Redactor", "secrets_in", "without_secrets"]
