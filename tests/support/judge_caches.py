"""Forgets what the judges keep for a whole process, so that a test begins with nothing."""

from ragmonitor.judges import provider
from ragmonitor.judges.builtin import passage_index


def clear_kept() -> None:
    """Forget what is kept of chunks and passages, so that the next answer is read from nothing."""
    for each in vars(passage_index).values():
        if getattr(each, "__module__", "") == passage_index.__name__:
            cells = getattr(each, "__closure__", None) or ()
            for cache in (each, *(cell.cell_contents for cell in cells)):
                if hasattr(cache, "cache_clear"):
                    cache.cache_clear()


def forget_support() -> None:
    """Forget what models support: another server may answer at an address."""
    provider._found.clear()
