"""`ragmonitor replay`: what was captured is compared with what was recorded."""

from __future__ import annotations

import json
import time
import uuid

import pytest

from ragmonitor.cli.options import ReplayOptions
from ragmonitor.cli.replay import run
from ragmonitor.errors import InputError
from ragmonitor.records import Chunk, Interaction
from tests.support import stories


class FakeDriver:
    """Hands records straight to the monitor, after the test has had its way with them."""

    framework = "fake"

    def __init__(self, change=lambda interaction: interaction, shown=None):
        self._change = change
        self._shown = shown
        self.monitor = None
        self.asked = []

    def instrument(self, monitor):
        self.monitor = monitor

    def uninstrument(self):
        self.monitor = None

    def replay(self, query, contexts, answer):
        self.asked.append(time.monotonic())
        now = time.time_ns()
        told = self._change(
            Interaction(
                id=uuid.uuid4().hex,
                query=query,
                chunks=tuple(Chunk(text=text) for text in contexts),
                answer=answer,
                framework=self.framework,
                started_ns=now,
                ended_ns=now,
            )
        )
        if told is not None:
            self.monitor.observe(told)
        return answer if self._shown is None else self._shown

    def application(self, documents, prompt, respond, embed):
        raise NotImplementedError


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "in.jsonl"
    records = [
        {"question": f"{stories.ENGLISH[0]} {n}", "contexts": ["a", "b"], "answer": f"It is {n}."}
        for n in range(12)
    ]
    path.write_text("\n".join(map(json.dumps, [*records, records[0]])))
    return path


def outcome(capsys, file, driver, **options):
    code = run(
        ReplayOptions(file=str(file), framework="fake", json_output=True, quiet=True, **options),
        driver,
    )
    return code, json.loads(capsys.readouterr().out)


def test_what_arrives_whole_is_reconciled(capsys, file):
    """Even where a record stands in the file twice."""
    code, told = outcome(capsys, file, FakeDriver())
    assert code == 0
    assert told["all_accounted_for"] is True
    assert told["read"] == told["replayed"] == told["captured"] == told["matched"] == 13
    assert told["scored"] + sum(told["unscored"].values()) == 13 * len(told["evaluators"])


def change_third(**changes):
    seen = []

    def change(interaction):
        from dataclasses import replace

        seen.append(interaction)
        return replace(interaction, **changes) if len(seen) == 3 else interaction

    return change


@pytest.mark.parametrize(
    ("changes", "explanation"),
    [
        ({"query": "another"}, "record 3: question 'another'"),
        ({"answer": "another"}, "record 3: answer 'another', not 'It is 2.'"),
        ({"chunks": ()}, "record 3: 0 contexts, not 2"),
        ({"chunks": (Chunk(text="b"), Chunk(text="a"))}, "record 3: context 0: 'b', not 'a'"),
    ],
)
def test_what_arrives_changed_is_explained(capsys, file, changes, explanation):
    """The order of the contexts counts."""
    code, told = outcome(capsys, file, FakeDriver(change_third(**changes)))
    assert code == 1
    assert told["all_accounted_for"] is False
    assert told["mismatches"] == 1
    assert explanation in told["explanations"][0]


def test_what_does_not_arrive_is_missed(capsys, file):
    """And its number is said."""
    seen = []

    def drop_first(interaction):
        seen.append(interaction)
        return interaction if len(seen) > 1 else None

    code, told = outcome(capsys, file, FakeDriver(drop_first))
    assert (code, told["missing"], told["all_accounted_for"]) == (1, 1, False)


def test_what_the_user_would_see_counts(capsys, file):
    """A handler must not change an answer on its way."""
    code, told = outcome(capsys, file, FakeDriver(shown="something else"), limit=2)
    assert (code, told["mismatches"]) == (1, 2)
    assert "shown 'something else'" in told["explanations"][0]


def test_a_record_that_the_framework_refuses_costs_only_itself(capsys, file):
    """It is counted as failed."""

    def refuse(interaction):
        if interaction.answer == "It is 4.":
            raise ValueError("not this one")
        return interaction

    code, told = outcome(capsys, file, FakeDriver(refuse))
    assert (code, told["failed"], told["replayed"]) == (1, 1, 12)
    assert "record 5: ValueError" in told["explanations"][0]


def test_bad_lines_are_counted_and_the_rest_goes_on(capsys, file):
    """Nothing was lost of the rest, but the data were not fine: exit code 1."""
    file.write_text(file.read_text() + "\n{broken\n")
    code, told = outcome(capsys, file, FakeDriver())
    assert (code, told["bad_lines"], told["read"], told["replayed"]) == (1, 1, 14, 13)
    assert told["all_accounted_for"] is True


def test_the_queue_never_overflows(capsys, file, monkeypatch):
    """A replay waits where live traffic would be dropped."""
    monkeypatch.setenv("RAGMONITOR_CAPTURE__QUEUE_SIZE", "4")
    code, told = outcome(capsys, file, FakeDriver())
    assert (code, told["dropped"]) == (0, {})


def test_every_report_is_written_on_request(capsys, file, tmp_path):
    """An older file is replaced."""
    output = tmp_path / "reports.jsonl"
    output.write_text("old\n")
    outcome(capsys, file, FakeDriver(), output=output)
    lines = [json.loads(line) for line in output.read_text().splitlines()]
    assert len(lines) == 13
    assert lines[0]["answer"] == "It is 0."


def test_the_input_is_no_output(capsys, file):
    """The recorded interactions stay as they are."""
    before = file.read_bytes()
    with pytest.raises(InputError, match="is the input; name another file with -o"):
        outcome(capsys, file, FakeDriver(), output=file)
    assert file.read_bytes() == before


@pytest.mark.parametrize("text", ["", '{"no": "format"}\n'])
def test_a_file_without_a_record_costs_no_older_output(capsys, file, tmp_path, text):
    """It is said before the output is touched."""
    file.write_text(text)
    output = tmp_path / "reports.jsonl"
    output.write_text("old\n")
    with pytest.raises(InputError, match=r"holds no record|no format"):
        outcome(capsys, file, FakeDriver(), output=output)
    assert output.read_text() == "old\n"


def test_people_read_a_table(capsys, file):
    """Without --json."""
    assert run(ReplayOptions(file=str(file), framework="fake"), FakeDriver()) == 0
    told = capsys.readouterr().out
    assert "13 read, 13 replayed, 13 captured" in told
    assert "all accounted for" in told
