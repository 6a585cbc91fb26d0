"""Golden questions, the gate, pytest, people's feedback and labels: one test of each promise."""

from __future__ import annotations

import csv
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ragmonitor import (
    Assessment,
    Budget,
    Chunk,
    Interaction,
    JsonLines,
    JudgeIdentity,
    Monitor,
    SentenceVerdict,
)
from ragmonitor.records import Verdict
from ragmonitor.runtime.errors import FeedbackError
from ragmonitor.testing import ScriptedJudge
from tests.contract.kit_judges import ModelServer, prompt_of

PARCEL = "A parcel to zone {n} may weigh {n}0 kg."


def run(
    *arguments: Path | str,
    folder: Path,
    module: str = "ragmonitor.cli.app",
    environment: dict[str, str] | None = None,
) -> Any:
    """Return what a command did in a folder."""
    command = [sys.executable, "-m", module, *map(str, arguments)]
    return subprocess.run(
        command,
        cwd=folder,
        env=os.environ | (environment or {}),
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write twenty golden questions and three releases of an application."""
    folder = tmp_path_factory.mktemp("shop")
    goldens = []
    for n in range(1, 21):
        text = PARCEL.format(n=n)
        chunk = {"text": text, "id": f"zone-{n}"}
        question = f"How heavy may a parcel to zone {n} be?"
        goldens.append({"question": question, "answer": text, "id": f"q{n}", "chunks": [chunk]})
    goldens.append({"question": "Who founded the post?", "kind": "unanswerable", "id": "nobody"})
    lines = "".join(json.dumps(each) + "\n" for each in goldens)
    (folder / "goldens.jsonl").write_text(lines, encoding="utf-8")
    (folder / "app.py").write_text(
        f"""
import re

TEXT = {PARCEL!r}

def good(question):
    zone = re.search("zone (\\\\d+)", question)
    text = TEXT.format(n=zone[1]) if zone else "I do not know."
    return {{"answer": text, "chunks": [text]}}

def broken(question):
    reply = good(question)
    return reply | {{"answer": re.sub("weigh", "weigh not 5 but", "Parcels weigh 999 tonnes.")}}

def mute(question):
    raise OSError("the model is gone")
""",
        encoding="utf-8",
    )
    return folder


def golden_model(body: dict[str, Any]) -> str:
    """Write and read questions about weights: lead is read differently."""
    prompt = prompt_of(body)
    things = re.findall(r"The bar of (\w+) weighs (\d+) kg", prompt)
    thing, weight = things[0] if things else ("", "0")
    asked = re.search(r"weight of the bar of (\w+)\?", prompt)
    if "\nsays: " in prompt:
        held = dict(things).get(asked[1] if asked else "")
        reply = {"says": "answered", "reply": f"{held} kg", "used": [1]} if held else {}
        return json.dumps(reply or {"says": "absent", "reply": "", "used": []})
    if "\nsame: " in prompt:
        return json.dumps({"same": asked is not None and asked[1] != "lead"})
    question = f"What is the weight of the bar of {thing}?"
    return json.dumps({"question": question, "answer": f"It weighs {weight} kg."})


def test_a_model_makes_questions_of_documents_and_reads_them_again(tmp_path: Path) -> None:
    """What is answered differently the second time is dropped with its reason."""
    pytest.importorskip("litellm")
    documents = tmp_path / "docs"
    documents.mkdir()
    shelf = "It lies on the upper shelf of the vault, behind a door that three people guard."
    for place, thing in enumerate(("gold", "lead", "zinc"), 3):
        text = f"# {thing}\n\nThe bar of {thing} weighs {place} kg. {shelf}\n"
        (documents / f"{thing}.md").write_text(text, encoding="utf-8")
    options = ("-n", "3", "--budget-tokens", "1000000", "-o", "g.jsonl", "--json")
    with ModelServer(golden_model) as server:
        model = ("--judge", "openai/judge", "--api-base", server.api_base)
        made = run(
            *("goldens", "generate", documents, *options, *model),
            folder=tmp_path,
            environment={"OPENAI_API_KEY": "none"},
        )
    assert made.returncode == 1, made.stdout + made.stderr
    told = json.loads(made.stdout)["kinds"]["single_fact"]
    assert (told["kept"], told["different_answer"]) == (2, 1)
    goldens = {each["answer"]: each for each in lines_of(tmp_path / "g.jsonl")}
    assert set(goldens) == {"It weighs 3 kg.", "It weighs 5 kg."}
    golden = goldens["It weighs 5 kg."]
    assert golden["question"] == "What is the weight of the bar of zinc?"
    assert "weighs 5 kg" in golden["chunks"][0]["text"]
    assert "zinc.md" in golden["chunks"][0]["source"]


@pytest.fixture(scope="module")
def baseline(shop: Path) -> Path:
    """Save the scores of the release that is live."""
    saved = run("gate", "goldens.jsonl", "--callable", "app:good", "--save", "b.jsonl", folder=shop)
    assert saved.returncode == 0, saved.stderr
    return shop / "b.jsonl"


def test_the_gate_lets_the_same_release_pass(shop: Path, baseline: Path) -> None:
    """Exit code 0."""
    gate = ("gate", "goldens.jsonl", "--callable", "app:good", "--baseline", baseline)
    same = run(*gate, folder=shop)
    assert same.returncode == 0, same.stdout + same.stderr


@pytest.mark.parametrize("release", ["broken", "mute"])
def test_the_gate_stops_a_broken_release(shop: Path, baseline: Path, release: str) -> None:
    """Exit code 4, and the summary names the broken questions; no answer is the worst answer."""
    gate = ("gate", "goldens.jsonl", "--callable", f"app:{release}", "--baseline", baseline)
    told = run(*gate, "--markdown", f"{release}.md", "--junit", f"{release}.xml", folder=shop)
    assert told.returncode == 4, told.stdout + told.stderr
    assert "zone 7" in (shop / f"{release}.md").read_text(encoding="utf-8")
    assert "<failure" in (shop / f"{release}.xml").read_text(encoding="utf-8")


def test_answers_are_asserted_in_pytest(shop: Path) -> None:
    """A failure says the sentence and the chunk; a test runs once for each golden question."""
    (shop / "test_app.py").write_text(
        """
import pytest, app

@pytest.mark.rag(goldens="goldens.jsonl")
def test_good(golden, ragmonitor_check):
    reply = app.good(golden.question)
    ragmonitor_check.assert_faithful(reply["answer"], reply["chunks"], golden)
    ragmonitor_check.assert_correct(reply["answer"], golden, reply["chunks"])
    if golden.kind != "unanswerable":
        ragmonitor_check.assert_retrieves(reply["chunks"], golden)

def test_wrong(ragmonitor_check):
    ragmonitor_check.assert_faithful("A parcel may weigh 90 kg.", ["A parcel may weigh 40 kg."])

def test_missed(ragmonitor_check):
    ragmonitor_check.assert_retrieves(["Swans nest nearby."], ["A parcel may weigh 40 kg."])
""",
        encoding="utf-8",
    )
    told = run("-q", "-p", "no:cacheprovider", "test_app.py", folder=shop, module="pytest")
    assert re.search(r"2 failed, 21 passed", told.stdout), told.stdout
    assert "A parcel may weigh 90 kg." in told.stdout
    assert "A parcel may weigh 40 kg." in told.stdout


def judged(interaction: Interaction) -> Assessment:
    """Return a verdict on the answer's one sentence: bad where it speaks of 999."""
    bad = "999" in interaction.answer
    sentence = SentenceVerdict(
        text=interaction.answer,
        start=0,
        end=len(interaction.answer),
        verdict=Verdict.ABSENT if bad else Verdict.SUPPORTED,
        chunks=() if bad else (0,),
    )
    return Assessment(
        judge=JudgeIdentity(name="scripted", version="1", kind="CODE"),
        language="en",
        sentences=(sentence,),
        answer_relevancy=1.0,
        evasive=False,
        chunk_relevance=(1.0,),
    )


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write what a monitor says of 200 answers, of which 50 are bad, and of a person's thumb."""
    path = tmp_path_factory.mktemp("live") / "reports.jsonl"
    with Monitor(
        service="contract-people",
        server=False,
        exporters=[JsonLines(path)],
        judge=ScriptedJudge(judged),
        budget=Budget(calls_per_day=1_000_000),
        sample=1.0,
    ) as monitor:
        for n in range(1, 201):
            text = PARCEL.format(n=n)
            with monitor.interaction(query=f"How heavy may a parcel to zone {n} be?") as told:
                told.retrieved([Chunk(text=text)])
                told.answered(text if n % 4 else f"It may weigh 999 kg in zone {n}.")
            if n == 5:
                monitor.feedback(told.id, False, comment="the year is wrong")
                with pytest.raises(FeedbackError):
                    monitor.feedback(told.id, 7.0)
        assert monitor.flush(30)
    return path


def lines_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_a_thumb_is_joined_with_its_answer_and_changes_no_score(reports: Path) -> None:
    """It is written beside what the judges say of the same answer."""
    (thumb,) = [line for line in lines_of(reports) if "feedback" in line]
    assert thumb["feedback"]["kind"] == "thumbs"
    assert thumb["feedback"]["score"] == 0
    assert thumb["feedback"]["comment"] == "the year is wrong"
    about = [
        line for line in lines_of(reports) if line["id"] == thumb["id"] and "evaluations" in line
    ]
    assert "zone 5" in about[0]["question"]
    assert {line["evaluations"]["hallucination"]["score"] for line in about} == {0}


def test_bad_answers_become_candidates_for_golden_questions(reports: Path, tmp_path: Path) -> None:
    """They wait for a person, say why they were chosen, and are asked by nobody until then."""
    path = tmp_path / "goldens.jsonl"
    mined = run("goldens", "mine", reports, "-n", "5", "-o", path, folder=tmp_path)
    assert mined.returncode == 0, mined.stderr
    candidates = lines_of(path)
    assert len(candidates) == 5
    assert all(each.get("status", "candidate") == "candidate" for each in candidates)
    assert any("999" in each["answer"] for each in candidates)
    assert all(each["interaction_id"] and each["source"] for each in candidates)
    (tmp_path / "app.py").write_text("def ask(question):\n    return 'Never.'\n", encoding="utf-8")
    asked = run("gate", path, "--callable", "app:ask", "--save", "s.jsonl", folder=tmp_path)
    assert asked.returncode == 2, asked.stdout + asked.stderr


def test_people_label_a_draw_and_correct_the_rate(reports: Path, tmp_path: Path) -> None:
    """The table does not show the verdict; the corrected rate comes with an interval."""
    path = tmp_path / "labels.csv"
    drawn = run("labels", "sample", reports, "-o", path, folder=tmp_path)
    assert drawn.returncode == 0, drawn.stderr
    with path.open(encoding="utf-8", newline="") as file:
        rows = [*csv.DictReader(file)]
    assert len(rows) == 100
    assert not any(row["human"] for row in rows)
    found = [row for row in rows if "999" in row["answer"]]
    rest = [row for row in rows if row not in found]
    for group in (found, rest):
        for place, row in enumerate(group):
            row["human"] = "yes" if (place % 4 == 0) is (group is rest) else "no"
    with path.open("w", encoding="utf-8", newline="") as file:
        table = csv.DictWriter(file, [*rows[0]])
        table.writeheader()
        table.writerows(rows)
    rate = run("labels", "rate", path, "--json", folder=tmp_path)
    assert rate.returncode == 0, rate.stderr
    told = json.loads(rate.stdout)
    assert told["judged_rate"]["mean"] == 0.25
    agreed, overlooked = (
        sum(row["human"] == "yes" for row in group) / len(group) for group in (found, rest)
    )
    corrected = told["corrected_rate"]
    assert corrected["mean"] == pytest.approx(0.25 * agreed + 0.75 * overlooked, abs=1e-3)
    assert corrected["lower"] < corrected["mean"] < corrected["upper"]
