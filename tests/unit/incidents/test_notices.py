"""Notices of incidents: what is sent, and what a receiver that fails does to us: nothing."""

from __future__ import annotations

import json
import logging
import re
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from html import unescape
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote_plus

import pytest

from ragmonitor.incidents.notices import MAX_WAITING, Notifier
from tests.support.incidents import described, document

pytest.importorskip("apprise")

LINE = (
    "[shop] alarm raised: Hallucination rate: 41 % by 80 verdicts since 2027-01-15 07:58:10 UTC, "
    "3 % before; limit: at most 5 %; scored by model; cause: document handbook.md"
)
LINK = "https://m.example/ragmonitor/incidents/20270115-080000-hallucination"
SECRET = "hunter2hunter2hunter2"
SERVICES = {
    "json": "json://user:{secret}@{host}/hook",
    "form": "form://{host}/{secret}",
    "mattermost": "mmost://{host}/{secret}",
    "rocketchat": "rocket://{secret}/{secret}@{host}",
    "teams": "workflows://{host}/workflow/{secret}?verify=no",
    "xml": "xml://{host}/{secret}",
}
PLAIN = ("json", "form", "mattermost", "xml")
"""Services with an address of ours over plain HTTP."""


@contextmanager
def server(status: int = 200, release: threading.Event | None = None) -> Iterator[tuple]:
    """Run one that keeps what is posted; it answers once it is released."""
    posted: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0))).decode()
            posted.append(body)
            if release is not None:
                release.wait(10)
            self.send_response(status)
            self.send_header("Content-Length", "2")
            self.end_headers()
            self.wfile.write(b"ok")

        def log_message(self, *args: object) -> None:
            pass

    served = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=served.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield f"127.0.0.1:{served.server_address[1]}", posted
    finally:
        served.shutdown()
        served.server_close()


class Counts(Counter):
    def __call__(self, reason: str, n: int) -> None:
        self[reason] += n


def notifier(*urls: str, lost=None, **options) -> Notifier:
    options.setdefault("page_url", "https://m.example/ragmonitor/")
    return Notifier(urls, lost=lost if lost is not None else Counts(), **options)


def test_a_notice_says_what_happened_and_where_to_read_on():
    """For each occasion, in both languages."""
    with server() as (host, posted):
        sends = notifier(f"json://{host}/hook")
        sends.tell("raised", described())
        assert sends.flush(10)
    assert json.loads(posted[0])["message"] == f"{LINE}\n{LINK}"
    ended = described().model_copy(update={"closed_s": 1_800_000_000.0 + 2_100})
    assert sends.notice("cleared", ended)[0].startswith("[shop] alarm cleared after 35 min: ")
    chinese = notifier(language="zh", page_url="")
    assert chinese.notice("named", described())[1] == ""
    assert chinese.notice("raised", described())[0].startswith("[shop] 告警触发：幻觉率")


def test_a_name_calls_nobody():
    """A document called @channel would wake everybody in it."""
    line, _ = notifier().notice("raised", described(document("@channel <!here>\nnew line")))
    assert "@channel" not in line
    assert "<!here" not in line
    assert "\n" not in line


@pytest.mark.parametrize("service", PLAIN)
@pytest.mark.parametrize(
    "link",
    [
        "<https://evil.example/login|Open the runbook>",
        "[Open the runbook](https://evil.example/login)",
        "[Open the runbook][1] [1]: https://evil.example/login",
        '<a href="https://evil.example/login">Open the runbook</a>',
    ],
)
def test_a_name_hides_no_address_behind_other_words(service, link):
    """Whoever reads a notice sees where a link of an answer's would lead."""
    with server() as (host, posted):
        sends = notifier(SERVICES[service].format(host=host, secret=SECRET))
        sends.tell("raised", described(document(link)))
        assert sends.flush(10)
    text = unquote_plus(unescape(posted[0]))
    assert text.count("Open the runbook") == 1
    assert not re.search(r"<(https|a )|\](\(|\[|:)", text)


def test_a_receiver_that_hangs_does_not_hold_us_up():
    """Notices beyond a bound are dropped, and each is counted."""
    release, lost = threading.Event(), Counts()
    with server(release=release) as (slow, received), server() as (quick, posted):
        sends = notifier(f"json://{slow}/a", f"json://{quick}/b", lost=lost)
        for _ in range(MAX_WAITING + 3):
            sends.tell("raised", described())
        assert not sends.flush(0)
        assert len(received) <= 1
        release.set()
        assert sends.flush(20)
    assert len(posted) + lost["notify_full"] >= MAX_WAITING + 3
    assert lost["notify_full"] >= 2


@pytest.mark.parametrize("status", [200, 500])
@pytest.mark.parametrize("service", sorted(SERVICES))
def test_no_secret_of_an_address_is_logged(service, status, caplog):
    """Neither by us nor by apprise, requests and urllib3, at the lowest level."""
    caplog.set_level(logging.DEBUG)
    with server(status) as (host, _):
        sends = notifier(SERVICES[service].format(host=host, secret=SECRET))
        sends.tell("raised", described())
        assert sends.flush(20)
    assert SECRET not in caplog.text


@pytest.mark.parametrize("service", PLAIN)
def test_a_service_is_sent_one_line_and_a_link(service):
    """Whatever form it wants them in; no text of an answer."""
    with server() as (host, posted):
        sends = notifier(SERVICES[service].format(host=host, secret=SECRET))
        sends.tell("raised", described())
        assert sends.flush(10)
    (body,) = posted
    assert "41" in body
    assert "20270115-080000-hallucination" in body
    assert "90 days" not in body
