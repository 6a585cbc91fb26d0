"""ragmonitor for litellm, as a library and as a proxy.

`instrument(monitor, extract=...)` observes every chat completion of the process that answers a
question over retrieved text. In the proxy's configuration:
`litellm_settings: {callbacks: [ragmonitor_litellm.proxy_handler]}`.
"""

from typing import TYPE_CHECKING, Any

from ragmonitor_litellm.extracting import (
    Extracted,
    Extractor,
    first_of,
    from_template,
    tagged,
    tool_messages,
)
from ragmonitor_litellm.logger import RagMonitorLogger, instrument, uninstrument

if TYPE_CHECKING:
    proxy_handler: RagMonitorLogger
    """Reports to a monitor that is built from the `RAGMONITOR_*` settings when it is asked for."""

__version__ = "0.1.0"

__all__ = [
    "Extracted",
    "Extractor",
    "RagMonitorLogger",
    "__version__",
    "first_of",
    "from_template",
    "instrument",
    "proxy_handler",
    "tagged",
    "tool_messages",
    "uninstrument",
]


def __getattr__(name: str) -> Any:
    if name != "proxy_handler":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = RagMonitorLogger()
    return globals()[name]
