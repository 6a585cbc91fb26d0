"""Forgets what the judges keep for a whole process, so that a test begins with nothing."""

from ragmonitor.judges import provider
from ragmonitor.judges.builtin.evidence import kept_chunks


def clear_kept() -> None:
    """Forget what is kept of chunks, so that the next answer is read from nothing."""
    kept_chunks.clear()


def forget_support() -> None:
    """Forget what models support: another server may answer at an address."""
    provider._found.clear()
