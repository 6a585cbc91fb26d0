"""What litellm prints and logs of our calls stays unheard; what it does for the host does not.

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
"""Its modules that print on their own, whatever is told to its loggers."""
_NOTHING: Final = logging.CRITICAL + 1

_least: ContextVar[int] = ContextVar("ragmonitor_litellm_least_level", default=logging.NOTSET)
"""Of what is logged in this context: the level from which on it is heard."""


class _OfOthers(logging.Filter):
    def filter(self, record: logging.LogRecord) -> bool:
        return record.levelno >= _least.get()


_OF_OTHERS: Final = _OfOthers()


@contextlib.contextmanager
def quietly(least: int = _NOTHING) -> Iterator[None]:
    """Keep from the host what litellm has to say of what is done meanwhile in this context.

    Args:
        least: A level of `logging` from which on it is heard all the same.
    """
    for name in _LOGGERS:
        logging.getLogger(name).addFilter(_OF_OTHERS)  # once: a second time changes nothing
    token = _least.set(least)
    try:
        yield
    finally:
        _least.reset(token)


def hush() -> None:
    """Have litellm, which is imported, ask before it prints. Twice changes nothing."""
    for name in _PRINTING:
        module = sys.modules.get(name)
        if module is not None:
            vars(module).setdefault("print", _print)


def _print(*values: Any, **options: Any) -> None:
    if _least.get() == logging.NOTSET:
        builtins.print(*values, **options)  # noqa: T201 - for the host, as litellm would
