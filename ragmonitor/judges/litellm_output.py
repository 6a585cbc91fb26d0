"""Keeps litellm from printing and logging our calls; its output for the host is left alone.

litellm writes two lines at INFO for each call to the host's standard output and to its log, and
banners for each failure. Its loggers and a `print` in its own modules ask whether a call is ours.
"""

from __future__ import annotations

import builtins
import sys
from typing import Any, Final

from ragmonitor.guard import is_silenced

LOGGERS: Final = (
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


def hush() -> None:
    """Have litellm, which is imported, ask before it prints. A second call changes nothing."""
    for name in _PRINTING:
        module = sys.modules.get(name)
        if module is not None:
            vars(module).setdefault("print", _print)


def _print(*values: Any, **options: Any) -> None:
    if not is_silenced():
        builtins.print(*values, **options)  # noqa: T201 - for the host, as litellm would
