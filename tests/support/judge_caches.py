"""Forgets what the judges keep for a whole process, so that a test begins with nothing."""

from ragmonitor.judges.builtin.evidence import kept_chunks
from ragmonitor.judges.builtin.terms import _KEYS, TERMS


def clear_kept() -> None:
    """Forget what is kept of chunks, so that the next answer is read from nothing."""
    kept_chunks.clear()


def clear_words() -> None:
    """Forget what is kept of words."""
    TERMS.clear()
    _KEYS.clear()
