"""The page: it keeps the numbers, the last day and recent answers, and serves them."""

from __future__ import annotations

import threading
import time
from collections.abc import Collection, Mapping
from dataclasses import replace
from email.message import Message
from functools import cache
from importlib import resources
from typing import Any, Final, Protocol
from urllib.parse import parse_qsl, quote, urlsplit

from ragmonitor.export.content import package_version
from ragmonitor.export.server import Reply, json_reply
from ragmonitor.export.service_state import page_state
from ragmonitor.export.view.access import NO_TOKEN, Access
from ragmonitor.export.view.answers import Answers
from ragmonitor.export.view.history import History
from ragmonitor.records import FAILURES, Report, Snapshot, Unscored
from ragmonitor.runtime.feedback import JoinedFeedback
from ragmonitor.runtime.protocols import Clock, Exporter
from ragmonitor.settings import Settings

PATH: Final = "/ragmonitor/"
INCIDENTS: Final = "incidents/"
WORST: Final = 3
"""The answers that are shown beside an alarm."""
MAX_ANSWERS: Final = 100
"""The answers of one reply."""
MUTE_FROM: Final = 3
"""After so many failed readings in a row, and none that succeeded, the page says why."""

_TYPES: Final = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}
_POLICY: Final = (
    "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "object-src 'none'"
)
SAFE_HEADERS: Final = (
    ("Content-Security-Policy", _POLICY),
    ("X-Content-Type-Options", "nosniff"),
    ("Referrer-Policy", "no-referrer"),
    ("Cross-Origin-Resource-Policy", "same-origin"),
    ("Cache-Control", "no-store"),
)
# A page that goes on by itself, and no redirect: after a link in a chat, the browser would not send
# a cookie that is for the same site only.
_LET_IN: Final = (
    '<!doctype html><meta charset="utf-8"><title>ragmonitor</title>'
    '<meta http-equiv="refresh" content="0; url={path}"><a href="{path}">ragmonitor</a>'
)


class OtherPages(Protocol):
    """Pages beside this one: the incidents."""

    def brief(self) -> list[dict[str, Any]]:
        """Return what this page lists of them."""
        ...

    def reply(self, name: str, query: Mapping[str, str]) -> Reply | None:
        """Return what is at a name below `PATH`; None: nothing."""
        ...


class View(Exporter):
    """An exporter that keeps the current numbers, the last day, and recent answers.

    The worker's thread fills it; threads of the HTTP server read it.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        builtin: str,
        judge: str | None = None,
        lower_is_better: Collection[str] = (),
        incidents: OtherPages | None = None,
        now: Clock = time.time,
    ) -> None:
        """Begin with nothing to show.

        Args:
            settings: Whose answers these are, what may be shown of them, and to whom.
            builtin: Name of the judge that scores every answer.
            judge: Name of the judge that scores a sample; None: there is none.
            lower_is_better: Evaluators whose 1 is bad.
            incidents: The incidents' pages; None: there are none.
            now: Seconds since the epoch.
        """
        self._judge = judge
        self._access = Access(settings.server.token)
        self._incidents = incidents
        self._now = now
        self._constant = {
            "service": settings.service,
            "service_version": settings.service_version,
            "version": package_version(),
            "content": settings.content.shown,
            "judge": judge,
            "builtin": builtin,
        }
        self._trace_url = settings.server.ui_trace_url
        self._lock = threading.Lock()
        self._started_s = self._now()
        self._received = self._judged = 0
        self._spent_usd = 0.0
        self._failed = 0
        self._failed_since_s = self._started_s
        self._failure: Unscored | None = None
        self._answers = Answers(content=settings.content.shown, lower_is_better=lower_is_better)
        self._history = History()
        self._snapshot = Snapshot()

    # --- from the worker ------------------------------------------------------------------------

    def export(self, report: Report) -> None:
        """Keep an answer: as one of the worst, or as one of the newest."""
        with self._lock:
            if report.role == "builtin":
                self._received += 1
            elif report.judge.name == self._judge:
                self._judged += report.assessment is not None
                self._note_failure(report)
            usage = report.usage or (report.assessment.usage if report.assessment else None)
            self._spent_usd += 0.0 if usage is None else usage.cost_usd
            self._answers.add(report)

    def _note_failure(self, report: Report) -> None:
        """Remember why the sampled judge reads nothing; any verdict ends that."""
        unscored = next((e for e in report.evaluations if isinstance(e, Unscored)), None)
        if report.assessment is not None:
            self._failed = 0
        elif unscored is not None and unscored.cause in FAILURES:
            self._failed += 1
            self._failed_since_s = self._now() if self._failed == 1 else self._failed_since_s
            self._failure = unscored

    def feedback(self, joined: JoinedFeedback) -> None:
        """Keep what a person said beside the answer, if that is kept."""
        with self._lock:
            self._answers.add_feedback(joined.feedback)

    def snapshot(self, snapshot: Snapshot) -> None:
        """Take the current numbers, and a point of the history where one is due."""
        values = {
            (each.key.signal, each.key.judge): (found.mean, found.lower, found.upper)
            for each in snapshot.means
            if (found := each.estimate) and each.window == "1h" and not each.key.dimension
        }
        with self._lock:
            self._snapshot = snapshot
            self._history.add(values, self._now())

    # --- to the browser -------------------------------------------------------------------------

    def reply(self, target: str, headers: Message) -> Reply | None:
        """Return what to answer; None: there is no such page.

        Args:
            target: Path and query, as they came.
            headers: Of the request.
        """
        reply = self._reply(target, headers)
        return reply and replace(reply, headers=(*SAFE_HEADERS, *reply.headers))

    def _reply(self, target: str, headers: Message) -> Reply | None:
        try:
            parsed = urlsplit(target)
            query = dict(parse_qsl(parsed.query, max_num_fields=20))
        except ValueError:
            return Reply(status=400, body=b"this request cannot be read\n")
        if parsed.path in ("/", PATH[:-1]) or (parsed.path == PATH and "token" in query):
            return self._enter(parsed.path, query.get("token", ""))
        if not parsed.path.startswith(PATH):
            return None
        refusal = self._access.refusal(headers)
        return refusal or self._named(parsed.path.removeprefix(PATH) or "index.html", query)

    def _named(self, name: str, query: Mapping[str, str]) -> Reply | None:
        stem, _, kind = name.rpartition(".")
        if name == "state.json":
            return json_reply(self.state(signal=query.get("signal", "hallucination")))
        if name == "answers.json":
            return json_reply(self.answers(query))
        view = self._snapshot.views.get(stem) if kind == "json" else None
        if view is not None:
            return json_reply(view)
        if self._incidents is None or name in _files():
            return _files().get(name)
        id_ = name.removeprefix(INCIDENTS)
        if id_ != name and id_ and "." not in id_:  # an incident is shown within this page
            if self._incidents.reply(f"{name}.md", query) is None:
                return None
            words = f"&lang={query['lang']}" if query.get("lang") in ("en", "zh") else ""
            return _moved(f"../#incident={quote(id_)}{words}")
        return self._incidents.reply(name, query)

    def _enter(self, path: str, token: str) -> Reply:
        into = "./" if path == PATH else PATH[1:]  # relative: a proxy may serve us under a prefix
        if not (token and self._access.needs_token):
            return _moved(into)
        if not self._access.is_token(token):
            return NO_TOKEN
        return Reply(
            status=200,
            content_type=_TYPES["html"],
            body=_LET_IN.format(path=into).encode(),
            headers=(("Set-Cookie", self._access.cookie),),
        )

    def state(self, *, signal: str = "hallucination") -> dict[str, Any]:
        """Return the current state, for JSON, with the chart of a signal."""
        numbers = page_state(self._snapshot, judge=self._judge)
        judges = [each["judge"] for each in numbers["numbers"] if each["signal"] == signal]
        preferred = (self._judge, self._constant["builtin"], *judges)
        judge = next((each for each in preferred if each in judges), "")
        with self._lock:
            state: dict[str, Any] = {
                "started_s": self._started_s,
                "received": self._received,
                "judged": self._judged,
                "spent_usd": self._spent_usd,
                "mute": self._mute(),
                "now_s": self._now(),
                "chart": {"signal": signal, "judge": judge, **self._history.chart(signal, judge)},
            }
            worst = [kept for kept in self._answers.found()[:WORST] if kept.rank[0]]
        state["worst"] = [self._answers.entry(each) for each in worst]
        state["incidents"] = [] if self._incidents is None else self._incidents.brief()
        return self._constant | numbers | state

    def _mute(self) -> dict[str, Any] | None:
        if self._failure is None or self._failed < MUTE_FROM:
            return None
        # A provider's message may quote the prompt.
        detail = self._failure.detail[:300] if self._constant["content"] == "all" else ""
        cause = self._failure.cause.value
        return {"since_s": self._failed_since_s, "cause": cause, "detail": detail}

    def answers(self, query: Mapping[str, str]) -> dict[str, Any]:
        """Return the answers that fit, for JSON.

        Args:
            query: `search` as `Answers.found` has it, `id` of one answer, `order` (`newest` or
                `worst`) and `n`, the most that are wanted.
        """
        wanted = query.get("n", "10")
        most = min(MAX_ANSWERS, int(wanted)) if wanted.isdecimal() and len(wanted) < 9 else 10
        with self._lock:
            found = self._answers.found(
                search=query.get("search", ""),
                newest=query.get("order") == "newest",
            )
            if "id" in query:
                found = [each for each in found if each.report.interaction.id == query["id"]]
            kept = len(self._answers)
        entries = [self._answers.entry(each) for each in found[:most]]
        return {
            "kept": kept,
            "found": len(found),
            "answers": entries,
            "trace_url": self._trace_url,
        }


def _moved(into: str) -> Reply:
    return Reply(status=302, headers=(("Location", into),))


@cache
def _files() -> Mapping[str, Reply]:
    """Return the page's own files by name."""
    return {
        each.name: Reply(status=200, content_type=kind, body=each.read_bytes())
        for each in resources.files("ragmonitor.export.view").joinpath("files").iterdir()
        if (kind := _TYPES.get(each.name.rpartition(".")[2]))
    }
