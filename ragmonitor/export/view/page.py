"""The page: it keeps the numbers, the history and recent answers, and serves them."""

from __future__ import annotations

import secrets
import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from email.message import Message
from functools import cache
from importlib import resources
from itertools import islice
from typing import Any, Final, Protocol
from urllib.parse import parse_qs, urlsplit

import msgspec

from ragmonitor import metrics
from ragmonitor.export.content import Content, compact_json, package_version
from ragmonitor.export.server import Reply
from ragmonitor.export.service_state import DAY_S, alarm_record, estimate_record, threshold_days
from ragmonitor.export.view.access import Access, Refusal
from ragmonitor.export.view.answers import Answers, KeptAnswer, answered_without_chunks
from ragmonitor.export.view.history import Column, History, SlotSums, spending
from ragmonitor.feedback import JoinedFeedback
from ragmonitor.protocols import Clock, Exporter
from ragmonitor.records import (
    AlarmEvent,
    GaugeValue,
    Report,
    SeriesKey,
    Snapshot,
    Window,
    WindowedMean,
)

PATH: Final = "/ragmonitor/"
ANSWERS_PER_REPLY: Final = 20
POINTS_PER_REPLY: Final = 120
"""The points of each resolution in one reply. A new browser asks again until it has all of them."""
MAX_EVENTS: Final = 50
MAX_SERIES: Final = 200
MAX_GAUGES: Final = 200
"""Of those that the page shows; a service has hundreds of others, of versions above all."""
SHOWN_GAUGES: Final = frozenset(
    f"{name}{end}"
    for name in (
        *(metrics.ARRIVALS, metrics.SAMPLING_RATE, metrics.MISSING_RATIO),
        *(metrics.BUDGET_LIMIT, metrics.BUDGET_LEVEL, metrics.COST_PER_GOOD_ANSWER),
        *(metrics.FEEDBACK_AGREEMENT, metrics.FEEDBACK_ANSWERS),
    )
    for end in ("", "_lower", "_upper")
)
BUILTIN_HISTORY: Final = ("hallucination",)
"""The built-in judge's signals that have a history where another judge scores too."""
HOUR: Final[Window] = "1h"

_TYPES: Final = {
    "index.html": "text/html; charset=utf-8",
    "view.css": "text/css; charset=utf-8",
    "view.js": "text/javascript; charset=utf-8",
    "answers.js": "text/javascript; charset=utf-8",
    "asking.js": "text/javascript; charset=utf-8",
    "documents.js": "text/javascript; charset=utf-8",
    "focus.js": "text/javascript; charset=utf-8",
    "goldens.js": "text/javascript; charset=utf-8",
    "charts.js": "text/javascript; charset=utf-8",
    "words.js": "text/javascript; charset=utf-8",
    "writing.js": "text/javascript; charset=utf-8",
    "icon.svg": "image/svg+xml",
}
SAFE_HEADERS: Final = (
    (
        "Content-Security-Policy",
        (
            "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
            "object-src 'none'"
        ),
    ),
    ("X-Content-Type-Options", "nosniff"),
    ("Referrer-Policy", "no-referrer"),
    ("Cross-Origin-Resource-Policy", "same-origin"),
    ("Cache-Control", "no-store"),
)
_REFUSALS: Final[Mapping[Refusal, tuple[int, str]]] = {
    "host": (
        403,
        (
            "This page is for this machine only: open it as http://localhost or http://127.0.0.1.\n"
            "此页面仅限本机访问：请用 http://localhost 或 http://127.0.0.1 打开。\n"
        ),
    ),
    "token": (
        401,
        (
            "A token is needed: open /?token=... once, or send 'Authorization: Bearer ...'.\n"
            "需要令牌：请先打开一次 /?token=...，或发送 'Authorization: Bearer ...'。\n"
        ),
    ),
}
# A page that goes on by itself, and no redirect: after a link in a chat, a cookie that is for the
# same site only would not be sent along.
_LET_IN: Final = (
    '<!doctype html><meta charset="utf-8"><title>ragmonitor</title>'
    '<meta http-equiv="refresh" content="0; url={path}"><a href="{path}">ragmonitor</a>'
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Left:
    """The state that a page leaves to its successor in another process."""

    content: Content
    worst: list[KeptAnswer]


class OtherPages(Protocol):
    """Pages beside this one: the incidents."""

    def brief(self) -> list[dict[str, Any]]:
        """Return what this page lists of them."""
        ...

    def reply(self, name: str, query: Mapping[str, Sequence[str]]) -> Reply | None:
        """Return what is at a name below `PATH`; None: nothing."""
        ...


class View(Exporter):
    """An exporter that keeps the current numbers, the last hours, and recent answers.

    The worker's thread fills it; threads of the HTTP server read it.
    """

    def __init__(
        self,
        service: str,
        *,
        builtin: str,
        judge: str | None = None,
        judge_kind: str = "LLM",
        lower_is_better: Collection[str] = (),
        content: Content = "all",
        token: str | None = None,
        trace_url: str = "",
        version: str = "",
        incidents: OtherPages | None = None,
        clock: Clock = time.monotonic,
        now: Callable[[], float] = time.time,
    ) -> None:
        """Begin with nothing to show.

        Args:
            service: Whose answers these are.
            builtin: Name of the judge that scores every answer.
            judge: Name of the judge that scores a sample; None: there is none.
            judge_kind: Its kind, as in `JudgeIdentity`.
            lower_is_better: Evaluators whose 1 is bad.
            content: Questions, answers and chunks are kept under `all` only.
            token: What a browser must show; None: whoever is on this machine may see.
            trace_url: Where traces are to be seen, with `{trace_id}` in it; empty: nowhere.
            version: The service's own version.
            incidents: The incidents' pages; None: there are none.
            clock: For the spacing of the history.
            now: Seconds since the epoch.
        """
        self._builtin = builtin
        self._judge = judge
        self._lower_is_better = tuple(lower_is_better)
        self._content: Content = content
        self._access = Access(token)
        self._incidents = incidents
        self._clock = clock
        self._now = now
        self._constant = {
            "service": service,
            "service_version": version,
            "version": package_version(),
            "content": content,
            "judge": judge,
            "judge_kind": judge_kind if judge is not None else None,
            "builtin": builtin,
            "lower_is_better": list(self._lower_is_better),
            "trace_url": trace_url or None,
        }
        self._begin()

    def _begin(self) -> None:
        self._lock = threading.Lock()
        self._instance = secrets.token_hex(4)
        self._started_s = self._now()
        self._revision = 0
        self._received = self._judged = 0
        self._answers = Answers(content=self._content, lower_is_better=self._lower_is_better)
        self._history = History()
        self._spent = SlotSums(self._now)
        self._unfounded = SlotSums(self._now)
        self._events: deque[dict[str, Any]] = deque(maxlen=MAX_EVENTS)
        self._snapshot = Snapshot()
        self._summed: tuple[Snapshot, list[dict[str, Any]], list[dict[str, Any]]] | None = None

    def after_fork_in_child(self) -> None:
        """Begin anew: what was kept stayed with the parent."""
        self._begin()

    # --- from the worker ------------------------------------------------------------------------

    def export(self, report: Report) -> None:
        """Keep an answer: as one of the worst, or as one of the newest."""
        with self._lock:
            if report.role == "builtin":
                self._received += 1
                self._unfounded.add(answers=float(answered_without_chunks(report)))
            elif report.assessment is not None and report.judge.name == self._judge:
                self._judged += 1
            self._spent.add(**spending(report))
            if self._answers.add(report, revision=self._revision + 1):
                self._revision += 1

    def feedback(self, joined: JoinedFeedback) -> None:
        """Keep what a person said beside the answer, if that is kept."""
        with self._lock:
            if self._answers.add_feedback(joined.feedback, revision=self._revision + 1):
                self._revision += 1

    def alarm(self, event: AlarmEvent) -> None:
        """Keep an alarm, without its examples: they are among the answers."""
        with self._lock:
            self._events.append(
                {
                    "signal": event.signal,
                    "judge": event.judge,
                    "kind": event.kind,
                    "raised": event.raised,
                    "at_s": event.at_s,
                    "since_s": event.since_s,
                    "evidence_days": event.evidence_s / DAY_S,
                    "objective": event.objective,
                    "higher_is_better": event.higher_is_better,
                    "detail": event.detail[:300],
                    "estimate": None if event.telling is None else estimate_record(event.telling),
                    "span": None if event.span is None else asdict(event.span),
                }
            )

    def snapshot(self, snapshot: Snapshot) -> None:
        """Take the current numbers, and a point of the history where one is due."""
        self._snapshot = snapshot
        clock_s = self._clock()
        if not self._history.due(clock_s):
            return
        # Outside of the lock: a browser must not wait for it, nor it for a browser.
        values = dict(self._points(snapshot))
        with self._lock:
            self._revision += 1
            self._history.add(values, clock_s=clock_s, at_s=self._now(), revision=self._revision)

    def dump(self) -> bytes:
        """Return the worst answers of the last day, as `restore` takes them."""
        with self._lock:
            worst = self._answers.worst(self._now() - DAY_S)
            return msgspec.msgpack.encode(_Left(content=self._content, worst=worst))

    def restore(self, data: bytes) -> None:
        """Keep what the page of another process has left, under the same setting of texts alone.

        Raises:
            msgspec.MsgspecError: It cannot be read.
        """
        left = msgspec.msgpack.decode(data, type=_Left)
        if left.content == self._content:
            with self._lock:
                self._revision += 1
                self._answers.restore(left.worst, revision=self._revision)

    def _points(self, snapshot: Snapshot) -> Iterable[tuple[Column, float]]:
        for each in snapshot.means:
            key, estimate = each.key, each.estimate
            if each.window != HOUR or key.dimension or not self._is_drawn(key):
                continue
            if estimate is not None:
                yield (key.signal, key.judge, "mean"), estimate.mean
                yield (key.signal, key.judge, "lower"), estimate.lower
                yield (key.signal, key.judge, "upper"), estimate.upper
        for state in snapshot.alarms:
            if state.kind == "slice":  # they come and go
                continue
            yield (state.signal, state.judge, "evidence"), state.evidence_s / DAY_S

    def _is_drawn(self, key: SeriesKey) -> bool:
        if key.judge != self._builtin or self._judge is None:
            return True
        return key.signal in BUILTIN_HISTORY

    # --- to the browser -------------------------------------------------------------------------

    def reply(self, target: str, headers: Message) -> Reply | None:
        """Return what to answer; None: there is no such page.

        Args:
            target: Path and query, as they came.
            headers: Of the request.
        """
        try:
            parsed = urlsplit(target)
            query = parse_qs(parsed.query, max_num_fields=20)
        except ValueError:
            return Reply(status=400, body=b"this request cannot be read\n", headers=SAFE_HEADERS)
        if parsed.path in ("/", PATH[:-1]) or (parsed.path == PATH and "token" in query):
            return self._enter(parsed.path, query.get("token", [""])[0])
        if not parsed.path.startswith(PATH):
            return None
        refusal = self._access.refusal(headers)
        if refusal is not None:
            return _refused(refusal)
        name = parsed.path.removeprefix(PATH) or "index.html"
        if name == "state.json":
            state = self.state(query.get("since", [""])[0])
            return _ok("application/json", state)
        view = self._snapshot.views.get(name.removesuffix(".json"))
        if view is not None and name.endswith(".json"):
            return _ok("application/json", compact_json(view).encode("utf-8", "backslashreplace"))
        kind = _TYPES.get(name)
        if kind is not None:
            return _ok(kind, _file(name))
        return None if self._incidents is None else self._incidents.reply(name, query)

    def _enter(self, path: str, token: str) -> Reply:
        into = PATH if path == PATH else PATH[1:]  # relative: a proxy may serve us under a prefix
        into = "./" if path == PATH else into
        if not (token and self._access.needs_token):
            return Reply(status=302, headers=(("Location", into), *SAFE_HEADERS))
        if not self._access.is_token(token):
            return _refused("token")
        return Reply(
            status=200,
            content_type="text/html; charset=utf-8",
            body=_LET_IN.format(path=into).encode(),
            headers=(("Set-Cookie", self._access.cookie), *SAFE_HEADERS),
        )

    def state(self, since: str = "") -> bytes:
        """Return the current state as JSON, with what is new of history and answers.

        Args:
            since: `cursor` of an earlier state; empty, or of an earlier life: everything, in
                several replies. `more` says that there is more to be had at once.
        """
        with self._lock:
            instance, _, number = since.partition("-")
            is_known = instance == self._instance and number.isdecimal() and len(number) < 20
            after = int(number) if is_known else 0
            history, history_upto = self._history.since(after, POINTS_PER_REPLY)
            answers, answers_upto = self._answers.since(after, ANSWERS_PER_REPLY)
            upto = min(
                (n for n in (history_upto, answers_upto) if n is not None), default=self._revision
            )
            state: dict[str, Any] = {
                "instance": self._instance,
                "cursor": f"{self._instance}-{upto}",
                "more": upto < self._revision,
                "anew": not is_known,
                "started_s": self._started_s,
                "received": self._received,
                "judged": self._judged,
                "kept": self._answers.numbers(),
                "history": history,
                "events": list(self._events),
                "marks": self._snapshot.records.get("events", ()),
                "spent": self._spent.sums(),
                "answered_without_chunks": self._unfounded.sums()["hour"].get("answers", 0.0),
            }
        snapshot = self._snapshot
        numbers, groups = self._sum_up(snapshot)
        state |= self._constant | {
            "now_s": self._now(),
            "views": list(snapshot.views),
            "numbers": numbers,
            "groups": groups,
            "alarms": [alarm_record(each) for each in snapshot.alarms],
            "cause": None if snapshot.cause is None else asdict(snapshot.cause),
            "gauges": [
                {"name": each.name, "value": each.value, "labels": dict(each.labels)}
                for each in islice(filter(_is_shown, snapshot.gauges), MAX_GAUGES)
            ],
            "threshold_days": threshold_days(snapshot),
            "incidents": [] if self._incidents is None else self._incidents.brief(),
        }
        head = compact_json(state).encode("utf-8", "backslashreplace")
        return head[:-1] + b',"answers":[' + b",".join(answers) + b"]}"

    def _sum_up(self, snapshot: Snapshot) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        """Return the numbers of a snapshot and of its groups, computed once and only on demand."""
        known = self._summed
        if known is not None and known[0] is snapshot:
            return known[1], known[2]
        whole: list[dict[str, Any]] = []
        parts: list[dict[str, Any]] = []
        for mean in sorted(snapshot.means, key=_place)[:MAX_SERIES]:
            number = self._number(mean)
            if number is not None:
                (parts if mean.key.dimension else whole).append(number)
        self._summed = (snapshot, whole, parts)
        return whole, parts

    def _number(self, mean: WindowedMean) -> dict[str, Any] | None:
        key, estimate = mean.key, mean.estimate
        if estimate is None:
            return None
        number: dict[str, Any] = {"signal": key.signal, "judge": key.judge, "window": mean.window}
        if key.dimension:
            number |= {"dimension": key.dimension, "group": key.group[:200]}
        number |= {
            "basis": self._basis(key.judge),
            "judged": round(mean.judged, 1),
            **estimate_record(estimate),
        }
        return number

    def _basis(self, judge: str) -> str:
        if judge == "none":
            return "none"
        return "builtin" if judge == self._builtin else "judged"


def _place(mean: WindowedMean) -> int:
    """Return 0 for all answers, and for parts of them what the page shows first."""
    return 0 if not mean.key.dimension else 1 if mean.window == HOUR else 2


def _is_shown(gauge: GaugeValue) -> bool:
    return gauge.name in SHOWN_GAUGES


def _ok(content_type: str, body: bytes) -> Reply:
    return Reply(status=200, content_type=content_type, body=body, headers=SAFE_HEADERS)


def _refused(refusal: Refusal) -> Reply:
    status, text = _REFUSALS[refusal]
    headers = SAFE_HEADERS if status != 401 else (*SAFE_HEADERS, ("WWW-Authenticate", "Bearer"))
    return Reply(status=status, body=text.encode(), headers=headers)


@cache
def _file(name: str) -> bytes:
    return resources.files("ragmonitor.export.view").joinpath("files", name).read_bytes()
