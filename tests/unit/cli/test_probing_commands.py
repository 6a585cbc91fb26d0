"""`ragmonitor probe`: a running service is asked, and the figures are printed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from ragmonitor.cli.app import app
from ragmonitor.cli.probing_commands import headers_of
from ragmonitor.goldens.golden import Golden, ReferenceChunk, write_goldens
from ragmonitor.runtime.errors import InputError
from tests.unit.goldens.test_asking import served

TALL = "The tower is 330 metres tall."


@pytest.fixture
def goldens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "goldens.jsonl"
    chunk = ReferenceChunk(text=TALL)
    write_goldens(
        path, [Golden(id="g", question="How tall is the tower?", answer=TALL, chunks=(chunk,))]
    )
    return str(path)


def test_a_service_is_asked_once(goldens: str):
    """Scores with their intervals, what failed, and the exit code of an answered question."""
    with served((200, {"answer": TALL, "docs": [TALL]})) as (url, came):
        result = CliRunner().invoke(
            app,
            [
                *("probe", goldens, "--url", url, "--once", "--json", "--question-field", "q"),
                *("--answer-path", "$.answer", "--contexts-path", "$.docs"),
                *("--header", "authorization: Bearer x"),
            ],
        )
    assert result.exit_code == 0
    found = json.loads(result.stdout.splitlines()[-1])
    assert found["asks"] == {"answered": 1}
    assert found["scores"]["answer_correctness"]["mean"] == 1
    assert found["scores"]["context_recall"]["mean"] == 1
    assert 0 <= found["scores"]["availability"]["lower"] < 1
    assert came[0][0]["authorization"] == "Bearer x"
    assert came[0][1] == {"q": "How tall is the tower?"}


def test_a_header_takes_its_secret_from_a_variable(monkeypatch: pytest.MonkeyPatch):
    """So that it stands on no command line, which every user of the machine can read."""
    monkeypatch.setenv("APP_TOKEN", "s3cret\n")
    lines = ["Authorization: Bearer $APP_TOKEN", "Cookie: id=${APP_TOKEN}; price=5$$"]
    assert headers_of(lines) == {
        "Authorization": "Bearer s3cret",
        "Cookie": "id=s3cret; price=5$",
    }


@pytest.mark.parametrize(
    ("value", "said"), [("$APP_TOKEN", "'APP_TOKEN'"), ("pa$$word$", "write \\$\\$")]
)
def test_a_header_without_its_variable_is_a_mistake(
    monkeypatch: pytest.MonkeyPatch, value: str, said: str
):
    """Which is said without the rest of the header."""
    monkeypatch.delenv("APP_TOKEN", raising=False)
    with pytest.raises(InputError, match=said) as failure:
        headers_of([f"Authorization: Bearer {value}"])
    assert "Bearer" not in str(failure.value)
