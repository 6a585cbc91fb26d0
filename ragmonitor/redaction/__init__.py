"""What text may leave the process: secrets, personal data and the application's own hook."""

from ragmonitor.redaction.credentials import secrets_in, without_secrets
from ragmonitor.redaction.personal import PersonalData
from ragmonitor.redaction.redactor import Redact, Redactor

__all__ = ["PersonalData", "Redact", "Redactor", "secrets_in", "without_secrets"]
