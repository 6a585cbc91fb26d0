"""The review: decisions in the file, who may make them, and the page in a real browser."""

from __future__ import annotations

import json
import os
import threading
import urllib.error
import urllib.request
from datetime import UTC, datetime

import msgspec
import pytest

from ragmonitor.errors import InputError
from ragmonitor.goldens import Golden, ReferenceChunk, Turn, read_goldens, write_goldens
from ragmonitor.goldens.golden_tables import write_any
from ragmonitor.goldens.reviewing import MAX_BODY_BYTES, Review, ReviewServer
from tests.support.browser import browser

SCRIPT = "<script>window.broken = true</script><img src=x onerror='window.broken = true'>"
WHEN = datetime(2027, 1, 15, 8, tzinfo=UTC)


@pytest.fixture
def path(tmp_path):
    """Return a file of three questions."""
    path = tmp_path / "goldens.jsonl"
    chunk = ReferenceChunk(text=f"The harbour opens at nine. {SCRIPT}", source="harbour.md")
    write_goldens(
        path,
        [
            Golden(id="a", question="When does it open?", answer="At nine.", chunks=(chunk,)),
            Golden(
                id="b",
                question="And who painted it?",
                kind="unanswerable",
                history=(Turn(role="user", text="What is red?"),),
            ),
            Golden(id="c", question=f"Which door? {SCRIPT}", source="mined", comment="bad answer"),
        ],
    )
    return path


@pytest.fixture
def review(path):
    return Review(path, "ada", now=lambda: WHEN)


def test_a_decision_is_in_the_file_with_who_and_when(path, review):
    """The others stay; the id stays over an edited question."""
    before = read_goldens(path)
    review.decide("a", "accepted", {"question": "When does the harbour open?"})
    one, *others = read_goldens(path)
    assert (one.id, one.question, one.status) == ("a", "When does the harbour open?", "accepted")
    assert (one.reviewed_by, one.reviewed_at) == ("ada", "2027-01-15T08:00:00+00:00")
    assert (others, one.chunks) == (before[1:], before[0].chunks)
    review.decide("a", "candidate", {})
    assert read_goldens(path)[0].reviewed_by == ""


def test_what_others_write_meanwhile_stays(path, review):
    """The file is read again before each decision."""
    write_goldens(path, [*read_goldens(path), Golden(id="d", question="New?", answer="Yes.")])
    review.decide("d", "rejected", {})
    assert [golden.status for golden in read_goldens(path)][3] == "rejected"


@pytest.mark.parametrize(
    ("decision", "told"),
    [
        (("z", "accepted", {}), "no question 'z'"),
        (("a", "maybe", {}), "maybe"),
        (("a", "accepted", {"question": " "}), "question is empty"),
        (("a", "accepted", {"kind": "trivia"}), "trivia"),
        (("a", "accepted", {"answer": 3}), "answer"),
        (("a", "accepted", {"id": "x"}), "cannot be changed"),
        (("c", "accepted", {}), "answer is empty"),
        (("a", "candidate", {"answer": ""}), "answer is empty"),
    ],
)
def test_what_is_no_decision_changes_nothing(path, review, decision, told):
    """And says why."""
    before = path.read_bytes()
    with pytest.raises(InputError, match=told):
        review.decide(*decision)
    assert path.read_bytes() == before


def test_a_rejected_question_needs_no_answer(path, review):
    """The file can still be read."""
    review.decide("c", "rejected", {})
    assert read_goldens(path)[2].status == "rejected"


def test_a_csv_takes_the_same_decisions(path, review, tmp_path):
    """Changed rows alone; a row that is none is said."""
    table = tmp_path / "review.csv"
    goldens = read_goldens(path)
    changed = msgspec.structs.replace(goldens[0], status="accepted", answer="At nine, daily.")
    stranger = Golden(id="z", question="Whose?", answer="Nobody's.")
    empty = msgspec.structs.replace(goldens[2], status="accepted")
    write_any(table, [changed, goldens[1], empty, stranger], "csv")
    count, problems = review.take(table)
    assert count == 1
    assert [problem.partition(":")[0] for problem in problems] == ["c", "z"]
    one, *others = read_goldens(path)
    assert (one.answer, one.reviewed_by, others) == ("At nine, daily.", "ada", goldens[1:])


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("id,question,status\na,When?,rejected\n", ("At nine.", "rejected")),
        ("id,question,answer\na,When?,At ten.\n", ("At ten.", "accepted")),
        ("id,question,answer,status\na,When?,,rejected\n", ("", "rejected")),
        ("id,question,status\na,When?,Rejected \n", ("At nine.", "rejected")),
        (
            "\ufeffid;question;answer;status\r\na;When?;At 9,5.;rejected\r\n",
            ("At 9,5.", "rejected"),
        ),
    ],
)
def test_a_field_without_a_column_stays(path, review, text, kept):
    """An emptied cell of a column that is there empties the field.

    Spreadsheets write words with a capital letter, and semicolons where commas are decimal marks.
    """
    told = Golden(
        id="a",
        question="When?",
        answer="At nine.",
        kind="false_premise",
        difficulty="hard",
        status="accepted",
        comment="ask Ada",
    )
    write_goldens(path, [told])
    table = path.with_suffix(".csv")
    table.write_text(text)
    assert review.take(table) == (1, [])
    (golden,) = read_goldens(path)
    assert (golden.kind, golden.difficulty, golden.comment) == ("false_premise", "hard", "ask Ada")
    assert (golden.answer, golden.status) == kept


def test_a_table_of_another_tool_decides_nothing(path, review, tmp_path):
    """Its columns do not say which of our fields stay."""
    write_any(tmp_path / "review.csv", read_goldens(path)[:1], "phoenix")
    before = path.read_bytes()
    with pytest.raises(InputError, match="columns of phoenix"):
        review.take(tmp_path / "review.csv")
    assert path.read_bytes() == before


# --- the server -----------------------------------------------------------------------------------


@pytest.fixture
def server(review):
    """Yield a server that answers."""
    with ReviewServer(review) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def asked(server, path, *, body=None, **headers):
    """Return status, body and headers of a reply."""
    url = f"http://127.0.0.1:{server.server_port}{path}"
    request = urllib.request.Request(url, data=body, headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=10) as reply:
            return reply.status, reply.read(), reply.headers
    except urllib.error.HTTPError as error:
        return error.code, error.read(), error.headers


def test_only_who_has_the_token_reads_and_decides(server, path):
    """Under a name of loopback; the page itself holds nothing."""
    bearer = {"Authorization": f"Bearer {server.token}"}
    decision = json.dumps({"id": "a", "status": "accepted"}).encode()
    before = path.read_bytes()
    for given in ({}, {"Authorization": "Bearer x"}, bearer | {"Host": "evil.example"}):
        assert asked(server, "/goldens.json", **given)[0] in (401, 403)
        assert asked(server, "/decide", body=decision, **given)[0] in (401, 403)
    assert path.read_bytes() == before
    status, page, headers = asked(server, "/")
    assert status == 200
    assert b"harbour" not in page
    assert "default-src 'self'" in headers["Content-Security-Policy"]
    assert asked(server, "/", Host="evil.example")[0] == 403
    assert asked(server, "/../golden.py", **bearer)[0] == 404
    assert asked(server, "/decide", body=decision, **bearer)[0] == 200
    assert path.read_bytes() != before


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"{", 409),
        (b"[]", 409),
        (b'{"id": "a"}', 409),
        (b'{"id": "a", "status": "accepted", "changes": 3}', 409),
        (b"x" * (MAX_BODY_BYTES + 1), 413),
    ],
)
def test_a_body_that_is_no_decision_is_refused(server, body, status):
    """Without harm."""
    bearer = {"Authorization": f"Bearer {server.token}"}
    try:
        assert asked(server, "/decide", body=body, **bearer)[0] == status
    except (urllib.error.URLError, ConnectionError):
        assert status == 413  # the reply came before the body was sent, and the socket is closed


# --- in a real browser ----------------------------------------------------------------------------


@pytest.mark.stack
@pytest.mark.slow
def test_a_person_reviews_by_keyboard(server, path, tmp_path):
    """Accepts, edits, rejects, in English and Chinese; texts are never markup."""
    with browser(tmp_path / "profile") as page:
        page.driver.get(server.url)
        page.shows("the questions", "document.querySelectorAll('#list button').length === 3")
        _shot(page, "review")
        _press(page, "a")
        page.shows("the next", "document.querySelector('.question').innerText.includes('painted')")
        assert read_goldens(path)[0].reviewed_by == "ada"
        _press(page, "r")
        page.shows("the third", "document.querySelector('.question').innerText.includes('door')")
        _press(page, "a")
        page.shows("why not", "document.querySelector('#message').innerText.includes('empty')")
        _press(page, "e")
        page.run("document.querySelector('[name=answer]').value = 'The eastern one.'")
        page.run("document.querySelector('#lang-zh').blur()")
        _press(page, "Enter", ctrl=True)
        page.shows("the decision", "document.querySelector('.tag.accepted') !== null")
        page.run("document.querySelector('#lang-zh').click()")
        assert page.text("h1") == "审阅参考问题"
        _press(page, "k")
        page.shows(
            "the one before", "document.querySelector('.question').innerText.includes('painted')"
        )
        _shot(page, "review-zh")
        assert not page.run("return window.broken === true")
        assert all("409" in error for error in page.errors())
    statuses = [golden.status.value for golden in read_goldens(path)]
    assert statuses == ["accepted", "rejected", "accepted"]
    assert read_goldens(path)[2].answer == "The eastern one."


@pytest.mark.stack
@pytest.mark.slow
def test_what_was_written_stays_until_it_is_kept(server, tmp_path):
    """Where it is refused, or the command has ended, and in the other language."""
    with browser(tmp_path / "profile") as page:
        page.driver.get(server.url)
        page.shows("the questions", "document.querySelectorAll('#list button').length === 3")
        _press(page, "e")
        page.run("document.querySelector('[name=comment]').value = 'a long comment'")
        page.run("document.querySelector('[name=answer]').value = ''")
        page.run("document.querySelector('#lang-zh').click()")
        assert page.run("return document.querySelector('[name=comment]').value") == "a long comment"
        page.run("document.querySelector('#one button.accept').click()")
        page.shows("why not", "document.querySelector('#message').innerText.includes('empty')")
        assert page.run("return document.querySelector('[name=comment]').value") == "a long comment"
        assert page.run("return document.querySelector('[name=answer]').value") == ""
        page.run("document.querySelector('#one .actions button:not(.accept)').click()")
        _press(page, "e")
        assert page.run("return document.querySelector('[name=comment]').value") == ""


@pytest.mark.stack
@pytest.mark.slow
def test_without_its_token_the_page_says_so(server, tmp_path):
    """And shows nothing."""
    with browser(tmp_path / "profile") as page:
        page.driver.get(f"http://127.0.0.1:{server.server_port}/")
        page.shows("why", "document.querySelector('#message').innerText.includes('no token')")
        assert page.count("#list button") == 0


def _press(page, key, *, ctrl=False):
    page.run(
        "document.activeElement.dispatchEvent(new KeyboardEvent('keydown', "
        "{key: arguments[0], ctrlKey: arguments[1], bubbles: true, cancelable: true}))",
        key,
        ctrl,
    )


def _shot(page, name):
    """Keep a picture where one is asked for."""
    folder = os.environ.get("RAGMONITOR_TEST_PICTURES")
    if folder:
        page.driver.save_screenshot(f"{folder}/{name}.png")
