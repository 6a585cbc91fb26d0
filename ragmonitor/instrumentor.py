"""Zero code: `opentelemetry-instrument python app.py` attaches every installed integration.

OpenTelemetry finds `RagMonitorInstrumentor` by its entry point and calls it before the application
starts. Nothing of a framework is imported then: integrations name, in the entry-point group
`ragmonitor.integrations`, the module whose import shows that the application uses the framework,
and are attached right after it. An application that never imports one has no `Monitor`, no thread
and no port, and imports no framework.

The only module that needs `opentelemetry-instrumentation` (the extra `auto`).
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Mapping
from importlib import metadata
from typing import TYPE_CHECKING, Any, cast

from opentelemetry.instrumentation.instrumentor import (  # type: ignore[attr-defined]  # untyped
    BaseInstrumentor,
)
from wrapt import register_post_import_hook

from ragmonitor.runtime.forks import ForkSafeLock
from ragmonitor.runtime.guard import logger, shielded

if TYPE_CHECKING:
    from ragmonitor.monitor import Monitor

GROUP = "ragmonitor.integrations"
"""Entry points of integrations. The name is the module whose import triggers the integration; the
value is `package:instrument`, a function that takes a `Monitor`. The package's `uninstrument`,
without arguments, undoes it."""

_STAGE = "start"


class RagMonitorInstrumentor(BaseInstrumentor):  # type: ignore[misc]  # so is this
    """Attaches integrations as their frameworks are imported, all to one monitor.

    Its settings are the `RAGMONITOR_*` variables and `ragmonitor.toml`. Whatever goes wrong is
    logged, and the application starts without us. There is one object of the class.
    """

    _is_on = False
    _known: Monitor | None = None
    _is_own = False
    """The monitor was made here; or it could not be, and the log says so."""
    _attached: Mapping[str, metadata.EntryPoint] = {}
    """The integrations by value: several triggers may name the same one."""
    # Never held while an integration is imported: two threads that import would each hold what
    # the other waits for.
    _lock = ForkSafeLock()

    def instrumentation_dependencies(self) -> Collection[str]:
        """Return nothing: the frameworks are seen when they are imported."""
        return ()

    def _instrument(self, **kwargs: Any) -> None:
        """Wait for the frameworks.

        Args:
            kwargs: `monitor`: report to this one instead of building it from the settings.
        """
        with shielded(_STAGE):
            self._is_on, self._known, self._is_own = True, kwargs.get("monitor"), False
            for entry in metadata.entry_points(group=GROUP):
                self._when_imported(entry.name, entry)
                # An application that imports the integration itself triggers us in the middle.
                self._when_imported(entry.module, entry)

    def _uninstrument(self, **kwargs: Any) -> None:  # noqa: ARG002 - of the base class
        """Detach the integrations, and close the monitor if it is ours."""
        with shielded(_STAGE):
            with self._lock:
                self._is_on = False
                attached, self._attached = self._attached, {}
                known, self._known = self._known, None
            for entry in attached.values():
                package = sys.modules.get(entry.module)
                if package is not None:
                    with shielded(_STAGE):
                        package.uninstrument()
            if known is not None and self._is_own:
                known.close()

    def _when_imported(self, module: str, entry: metadata.EntryPoint) -> None:
        def imported(_module: object) -> None:
            # What is raised here would fail the application's own import.
            with shielded(_STAGE):
                self._attach(entry)

        # At once, if it is imported already. wrapt takes no hook back, so each asks if we are on.
        register_post_import_hook(imported, module)

    def _attach(self, entry: metadata.EntryPoint) -> None:
        package = sys.modules.get(entry.module)
        if entry.name not in sys.modules or (package and not hasattr(package, entry.attr)):
            return  # one of the two is still being imported; its own hook will come
        with self._lock:
            if not self._is_on or entry.value in self._attached:
                return
            self._attached = {**self._attached, entry.value: entry}
        monitor = self._monitor()
        if monitor is not None:
            cast("Callable[[Monitor], object]", entry.load())(monitor)

    def _monitor(self) -> Monitor | None:
        # Here: at the application's start they would be its cost.
        from ragmonitor.monitor import Monitor
        from ragmonitor.runtime.addresses import shown
        from ragmonitor.runtime.errors import RagMonitorError

        with self._lock:
            if self._known is None and not self._is_own:
                self._is_own = True
                try:
                    self._known = Monitor()
                except RagMonitorError as error:
                    # A judge's name may hold an address with a password.
                    problem = shown(str(error))
                    logger.error("ragmonitor: the application runs unmonitored: %s", problem)
            return self._known
