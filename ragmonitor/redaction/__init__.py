"""What text may leave the process: secrets, personal data and the application's own hook."""

from ragmonitor.redaction.credentials import secrets_in, without_secrets
from ragmonitor.redaction.interactions import Redact, Redactor
from ragmonitor.redaction.personal import PersonalData

__all__ = ["PersonalData", "Redact", "Redactor", "secrets_in", "without_secrets"]
