"""Loads the drivers of frameworks, which integrations register as entry points.

The core imports no framework. `ragmonitor-langchain` adds `langchain` to the group
`ragmonitor.drivers`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib import metadata
from typing import Protocol, cast

from ragmonitor.monitor import Monitor
from ragmonitor.records import Chunk
from ragmonitor.runtime.errors import RagMonitorError

GROUP = "ragmonitor.drivers"
FRAMEWORKS = {"langchain": "ragmonitor-langchain", "llama_index": "ragmonitor-llama-index"}
"""The known frameworks, with the distributions of their drivers."""


class MissingDriverError(RagMonitorError):
    """The integration of a framework is not installed; the message names the command."""


Application = Callable[[str, Mapping[str, str]], Iterable[str]]
"""A RAG application: gives the answer to a question, piece by piece. It is also told the attributes
of the interaction, which the framework hands on in its own way."""


class Driver(Protocol):
    """Runs one framework for the command line."""

    def instrument(self, monitor: Monitor) -> None:
        """Attach the integration to the framework, for the whole process."""
        ...

    def uninstrument(self) -> None:
        """Undo `instrument`."""
        ...

    def application(
        self,
        search: Callable[[str], Sequence[Chunk]],
        prompt: str,
        respond: Callable[[str], str],
    ) -> Application:
        """Return a RAG application of the framework's retriever, prompt and model.

        Args:
            search: From a question to chunks, best first.
            prompt: Holds `{context}` and `{question}`.
            respond: The model: takes the filled prompt, returns the answer.
        """
        ...


def load(framework: str) -> Driver:
    """Return the framework's driver.

    Raises:
        MissingDriverError: It is not installed, or the framework itself is not.
    """
    distribution = FRAMEWORKS.get(framework, framework)
    for entry in metadata.entry_points(group=GROUP, name=framework):
        try:
            return cast("Driver", entry.load()())
        except ImportError as error:
            raise MissingDriverError(
                f"the driver of {framework} cannot be loaded ({error}); run: "
                f"pip install --upgrade {distribution}"
            ) from error
    raise MissingDriverError(
        f"the integration of {framework} is not installed; run: pip install {distribution}"
    )


def installed() -> dict[str, Driver]:
    """Return every driver that is installed, by framework, in the order of their names.

    Raises:
        MissingDriverError: No driver is installed, or one cannot be loaded.
    """
    names = sorted({entry.name for entry in metadata.entry_points(group=GROUP)})
    if not names:
        raise MissingDriverError(
            "no framework's integration is installed; run: "
            f"pip install {' '.join(FRAMEWORKS.values())} (or: pip install 'ragmonitor[demo]')"
        )
    return {name: load(name) for name in names}
