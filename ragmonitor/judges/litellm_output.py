"""Keeps litellm from printing and logging our calls; its output for the host is left alone.

litellm writes two lines at INFO for each call to the host's standard output and to its log, and
banners for each failure. A context variable says which calls are ours; filters on its loggers and
a `print` in its own modules ask it. Levels, handlers and switches are the host's and stay so.
"""

from __future__ import annotations

import builtins
import contextlib
import logging
import sys
from collections.abc import Iterator
from contextvars import ContextVar
from typing import Any, Final

_LOGGERS: Final = (
    "LiteLLM",
    "LiteLLM Router",
    "LiteLLM Proxy",
    "httpx",
    "openai._base_client",
    "anthropic._base_client",
)
_PRINTING: Final = (
    "litellm.litellm_core_utils.exception_mapping_utils",
    "litellm.litellm_core_utils.get_llm_provider_logic",
    "litellm.main",
    "litellm.utils",
)
"""The modules of litellm that print on their own, whatever level its loggers have."""
_NOTHING: Final = logging.CRITICAL + 1

_min_level: ContextVar[int] = ContextVar("ragmonitor_litellm_least_level", default=logging.NOTSET)
"""The level from which on records of this context are logged."""


class _NotOurs(logging.Filter):
    def filter(self, record: logging.LogRecord) -> bool:
        return record.levelno >= _min_level.get()


_NOT_OURS: Final = _NotOurs()


@contextlib.contextmanager
def quietly(min_level: int = _NOTHING) -> Iterator[None]:
    """Keep litellm's output for calls in this context from the host.

    Args:
        min_level: Records of this level of `logging` and above are logged all the same.
    """
    for name in _LOGGERS:
        logging.getLogger(name).addFilter(_NOT_OURS)  # once: a second time changes nothing
    token = _min_level.set(min_level)
    try:
        yield
    finally:
        _min_level.reset(token)


def hush() -> None:
    """Have litellm, which is imported, ask before it prints. A second call changes nothing."""
    for name in _PRINTING:
        module = sys.modules.get(name)
        if module is not None:
            vars(module).setdefault("print", _print)


def _print(*values: Any, **options: Any) -> None:
    if _min_level.get() == logging.NOTSET:
        builtins.print(*values, **options)  # noqa: T201 - for the host, as litellm would
