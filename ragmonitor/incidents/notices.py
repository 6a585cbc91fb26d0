"""Tells people of incidents, in one line each, through the library apprise."""

from __future__ import annotations

import re
import threading
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import Future, wait
from typing import Any, Final

from opentelemetry import context

from ragmonitor.causes.signal_names import Language
from ragmonitor.incidents.incident import Incident, Occasion
from ragmonitor.incidents.rendering import notice
from ragmonitor.runtime.apart import EXECUTOR
from ragmonitor.runtime.errors import MissingExtraError, SettingsError
from ragmonitor.runtime.guard import record_problem, shielded, silenced
from ragmonitor.runtime.printable import printable

MAX_WAITING: Final = 8
"""Notices that may wait while receivers are slow."""
MAX_LINE: Final = 500
_STAGE: Final = "notify"
_LOGGERS: Final = ("apprise", "urllib3.connectionpool")
"""They log addresses, secrets included, while a notice is sent."""

Lost = Callable[[str, int], None]
"""Takes why notices did not arrive, and how many."""


class Notifier:
    """Sends notices to one receiver after the other, on a thread of its own.

    `tell` never waits. What a receiver does not take is counted and not sent again: a late notice
    is of no use, and the incident is kept in any case.
    """

    def __init__(
        self,
        urls: Sequence[str],
        *,
        lost: Lost,
        page_url: str = "",
        language: Language = "en",
    ) -> None:
        """Check the addresses; nothing is sent.

        Args:
            urls: Apprise's addresses of services (`slack://...`); secrets, which are never logged.
            lost: Counts notices that did not arrive; may be called from any thread.
            page_url: The folder of the page for people, with a slash at its end; empty: no links.
            language: Of the notices.

        Raises:
            MissingExtraError: apprise is not installed.
            SettingsError: An address is none of apprise's; it is named by its number alone.
        """
        self._receivers = [_plugin(url, n) for n, url in enumerate(urls, 1)]
        self._lost = lost
        self._sending = threading.Lock()
        self._calls: list[Future[None]] = []
        self._page_url = page_url
        self._language: Language = language

    def tell(self, occasion: Occasion, incident: Incident) -> None:
        """Have every receiver told; a notice too many is dropped."""
        self._calls = [each for each in self._calls if not each.done()]
        if len(self._calls) > MAX_WAITING:
            self._lose("notify_full", "receivers are slow, and a notice is dropped")
            return
        try:
            self._calls.append(EXECUTOR.submit(self._send, *self.notice(occasion, incident)))
        except RuntimeError:  # the system has no thread for it
            self._lose("notify_failed", "there is no thread to send on")

    def notice(self, occasion: Occasion, incident: Incident) -> tuple[str, str]:
        """Return the line, and the link that follows it; empty: there is none."""
        link = f"{self._page_url}incidents/{incident.id}" if self._page_url else ""
        return _harmless(notice(occasion, incident, self._language)), link

    def flush(self, timeout_s: float) -> bool:
        """Wait for what is under way; return whether nothing is left."""
        return not wait(self._calls, max(0.0, timeout_s)).not_done

    def _send(self, title: str, body: str) -> None:
        # On a thread of our own: these posts are no traffic of the application.
        context.attach(context.set_value("suppress_instrumentation", True))
        with self._sending:
            for receiver in self._receivers:
                is_taken = False
                try:
                    with silenced(_LOGGERS):
                        # The line stands in the body: some services leave titles out.
                        is_taken = receiver.notify(body=f"{title}\n{body}".rstrip(), title="")
                except BaseException:  # noqa: BLE001, S110 - its message may hold the address
                    pass
                if not is_taken:
                    self._lose("notify_failed", f"{receiver.service_name} did not take a notice")

    def _lose(self, reason: str, problem: str) -> None:
        record_problem(_STAGE, problem, about=reason)
        with shielded(_STAGE):
            self._lost(reason, 1)


def _plugin(url: str, n: int) -> Any:
    """Return what sends to an address.

    Raises:
        MissingExtraError: apprise is not installed.
        SettingsError: It is none.
    """
    # Its plugins import what Python deprecates; where warnings are errors none would load.
    with silenced(_LOGGERS), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            import apprise

            asset = apprise.AppriseAsset(app_id="ragmonitor", http_redirects=False)
            plugin = apprise.Apprise.instantiate(url, asset=asset)
        except ImportError as error:
            raise MissingExtraError("apprise", "notify") from error
        except Exception:  # noqa: BLE001 - which may quote the address
            plugin = None
    if plugin is None:
        raise SettingsError(
            f"alarms.notify: number {n} is no address that apprise takes: no service of that name, "
            "or tokens that are none of that service's; docs/causes.md has examples"
        )
    return plugin


_LINK: Final = re.compile(r"\](?=[(\[:])")
"""Before the address of a link in Markdown: `[text](address)`."""


def _harmless(text: str) -> str:
    """Return one line of which a receiver shows what stands there.

    A name of a document or a route must neither call people (`@channel`, `<!here>`) nor hide an
    address behind other words (`<https://a.example|text>`, `[text](https://a.example)`). Chats mark
    these up in texts that apprise is told are plain, too, so the signs themselves are changed.
    """
    line = " ".join(printable(text).split()).replace("@", "＠").replace("<", "＜")
    line = _LINK.sub("] ", line)
    return line if len(line) <= MAX_LINE else line[: MAX_LINE - 1] + "…"
