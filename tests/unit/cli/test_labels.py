"""`ragmonitor labels`: answers for people to read, and what their verdicts make of the judge's."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from ragmonitor.cli.app import app
from ragmonitor.estimation.labels import read_labels
from ragmonitor.estimation.labels.label_table import opened

runner = CliRunner()
AT = "2026-05-04T12:00:00.000Z"


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def line(name, score, *, judge="model@1", **changes):
    told = {
        "time": AT,
        "id": name,
        "judge": judge,
        "chance": 0.5,
        "question": "长城有多长？",
        "contexts": ["长城全长约21196公里。", "It is long."],
        "answer": f"Answer {name}.",
        "evaluations": {
            "hallucination": {"unscored": "refusal"} if score is None else {"score": score}
        },
    }
    return told | changes


def write(path, *lines):
    path.write_text("".join(json.dumps(each) + "\n" for each in lines), encoding="utf-8")
    return path


@pytest.fixture
def reports(tmp_path):
    """Write a thousand judged answers, a tenth found hallucinated, and their built-in score."""
    return write(
        tmp_path / "reports.jsonl",
        *(
            each
            for n in range(1_000)
            for each in (
                line(f"q{n}", 1.0, judge="builtin@9", chance=1.0),
                line(f"q{n}", float(n % 10 == 0)),
            )
        ),
    )


def run(*arguments):
    result = runner.invoke(app, ["labels", *map(str, arguments)])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def sampled(reports, *arguments, to="labels.csv"):
    result = run("sample", reports, "-o", to, *arguments)
    assert result.exit_code == 0, result.output
    with Path(to).open(encoding="utf-8-sig", newline="") as file:
        return [row | opened(row["sealed"], to) for row in csv.DictReader(file)]


def fill_in(rows, said, to="labels.csv"):
    """Be the person: write what `said` says of a row."""
    with Path(to).open("w", encoding="utf-8", newline="") as file:
        table = csv.DictWriter(file, rows[0])
        table.writeheader()
        table.writerows(row | {"human": said(row)} for row in rows)
    return to


def agrees(row):
    return row["judged"]


def test_who_labels_does_not_see_the_verdict(reports):
    """Neither in words nor by what is equal in the rows of one verdict."""
    sampled(reports)
    with Path("labels.csv").open(encoding="utf-8-sig", newline="") as file:
        rows = [*csv.DictReader(file)]
    assert list(rows[0]) == ["id", "question", "answer", "chunks", "human", "at", "sealed"]
    for at in range(0, 40, 2):
        assert len({row["sealed"][17:][at : at + 2] for row in rows}) > 20


def test_a_spoiled_seal_is_named(reports, tmp_path):
    """With its line and column."""
    rows = sampled(reports)
    rows[3]["sealed"] = "yes"
    path = fill_in(rows, agrees)
    result = runner.invoke(app, ["labels", "rate", path])
    assert "column sealed: not what" in str(result.exception) + result.output


# --- sample ---------------------------------------------------------------------------------------


def test_sixty_percent_are_judged_hallucinated(reports):
    """Where there are so many; they tell the most."""
    rows = sampled(reports)
    assert len(rows) == 100
    assert sum(row["judged"] == "yes" for row in rows) == 60
    assert {row["drawn_from"] for row in rows if row["judged"] == "yes"} == {"100"}
    assert {row["drawn_from"] for row in rows if row["judged"] == "no"} == {"900"}


def test_where_there_are_fewer_the_others_take_their_places(reports):
    """All hundred of them, and four hundred fine ones."""
    rows = sampled(reports, "-n", 500)
    assert sum(row["judged"] == "yes" for row in rows) == 100
    assert len(rows) == 500


def test_a_row_has_what_a_person_needs(reports):
    """The texts, an empty cell for the verdict, and what the estimate needs of the judge's."""
    row = sampled(reports, "-n", 2)[0]
    assert row["question"] == "长城有多长？"
    assert row["answer"] == f"Answer {row['id']}."
    assert row["chunks"] == "[1] 长城全长约21196公里。\n\n[2] It is long."
    assert (row["human"], row["chance"], row["at"]) == ("", "0.5", AT)


def test_a_spreadsheet_shows_chinese(reports, tmp_path):
    """By the mark at the file's beginning."""
    sampled(reports)
    assert (tmp_path / "labels.csv").read_bytes().startswith(b"\xef\xbb\xbf")


def test_no_text_is_taken_for_a_formula(tmp_path):
    """Users write questions, and models answers."""
    path = write(tmp_path / "r.jsonl", line("a", 1.0, answer="=1+1"), line("b", 0.0))
    assert "'=1+1" in [row["answer"] for row in sampled(path)]


def test_a_cell_holds_no_more_than_a_spreadsheet_takes(tmp_path):
    """32,767 characters; what is cut is said."""
    long = line("a", 1.0, contexts=["x" * 40_000] * 3, answer="y" * 40_000)
    row = sampled(write(tmp_path / "r.jsonl", long))[0]
    assert len(row["chunks"]) < 32_767
    assert row["chunks"].count("[cut: ") == 3
    assert len(row["answer"]) < 32_767


def test_the_place_of_a_row_does_not_tell_the_verdict(reports):
    """The two kinds are mixed."""
    verdicts = [row["judged"] for row in sampled(reports)]
    assert 10 <= verdicts[:30].count("yes") <= 26


def test_the_same_seed_draws_the_same(reports):
    """And another one others."""
    first, again = sampled(reports, to="1.csv"), sampled(reports, to="2.csv")
    other = sampled(reports, "--seed", 2, to="3.csv")
    assert first == again
    assert {row["id"] for row in first} != {row["id"] for row in other}


def test_what_was_labelled_is_not_drawn_again(reports):
    """A second round goes on where the first one ended."""
    first = sampled(reports, "-n", 50, to="1.csv")
    second = sampled(reports, "-n", 50, "--skip", "1.csv", to="2.csv")
    assert not {row["id"] for row in first} & {row["id"] for row in second}
    both = sampled(reports, "-n", 100, to="3.csv")
    assert {row["id"] for row in first + second} == {row["id"] for row in both}


def test_somebodys_labels_are_not_overwritten(reports):
    """Exit code 2."""
    sampled(reports)
    result = run("sample", reports, "-o", "labels.csv")
    assert result.exit_code == 2
    assert "is there already" in result.stderr


def test_of_several_lines_of_one_answer_the_last_counts(tmp_path):
    """As when a trace was late."""
    path = write(tmp_path / "r.jsonl", line("a", 1.0), line("b", 0.0), line("a", 0.0))
    assert sorted((row["id"], row["judged"]) for row in sampled(path)) == [("a", "no"), ("b", "no")]


def test_answers_without_a_verdict_are_not_drawn(tmp_path):
    """A refusal claims nothing that could be wrong."""
    path = write(tmp_path / "r.jsonl", line("a", None), line("b", 0.0))
    assert [row["id"] for row in sampled(path)] == ["b"]


def test_several_judges_have_to_be_chosen_from(tmp_path):
    """They do not measure alike."""
    path = write(tmp_path / "r.jsonl", line("a", 1.0), line("b", 0.0, judge="other@1"))
    result = run("sample", path, "-o", "x.csv")
    assert result.exit_code == 2
    assert "choose one by --judge: model, other" in result.stderr
    assert [row["id"] for row in sampled(path, "--judge", "other")] == ["b"]
    assert [row["id"] for row in sampled(path, "--judge", "model@1", to="y.csv")] == ["a"]


def test_the_builtin_judge_is_taken_when_it_is_named(reports):
    """Not by default: it is not the judge whose rate is shown."""
    rows = sampled(reports, "--judge", "builtin", "-n", 10)
    assert {row["judged"] for row in rows} == {"yes"}


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ([line("a", 1.0, judge="builtin@1")], "has no answer with a hallucination verdict"),
        ([line("a", 1.0, content="hashed")], "holds no texts that people could read"),
        ([{**line("a", 1.0), "answer": None}], "holds no texts that people could read"),
        ([], "has no answer with a hallucination verdict"),
    ],
)
def test_what_cannot_be_labelled_is_said(tmp_path, lines, said):
    """Exit code 2, and no file is left behind."""
    result = run("sample", write(tmp_path / "r.jsonl", *lines), "-o", "x.csv")
    assert result.exit_code == 2
    assert said in result.stderr
    assert not (tmp_path / "x.csv").exists()


def test_bad_lines_are_named_and_passed_over(tmp_path):
    """Exit code 1: the rest was drawn."""
    path = write(tmp_path / "r.jsonl", line("a", 1.0), line("b", 0.0))
    path.write_text(path.read_text() + '{"id": \n[]\n')
    result = run("sample", path, "-o", "x.csv")
    assert result.exit_code == 1
    assert "line 3: no report" in result.stderr
    assert "line 4: no report: not an object" in result.stderr
    assert (tmp_path / "x.csv").exists()


def test_a_missing_file_is_exit_code_2():
    """Said in one line."""
    result = run("sample", "none.jsonl", "-o", "x.csv")
    assert result.exit_code == 2
    assert "No such file" in result.stderr


# --- rate -----------------------------------------------------------------------------------------


def told(*arguments, exit_code=0):
    result = run("rate", *arguments, "--json")
    assert result.exit_code == exit_code, result.output
    return json.loads(result.stdout)


def test_labels_alone_tell_the_judged_rate_they_were_drawn_from(reports):
    """100 of 1,000, though 60 of the 100 labels are of what the judge found."""
    found = told(fill_in(sampled(reports), agrees))
    assert found["judged_rate"]["mean"] == pytest.approx(0.1)
    assert found["judged_answers"] == 1_000
    assert found["corrected_rate"]["mean"] == pytest.approx(0.1)
    assert (found["ppv"]["mean"], found["for"]["mean"]) == (1.0, 0.0)


def test_people_who_disagree_correct_the_rate(reports):
    """Half of what the judge found is fine; nothing is overlooked."""
    rows = sampled(reports)
    bad = [row["id"] for row in rows if row["judged"] == "yes"]
    found = told(fill_in(rows, lambda row: "yes" if row["id"] in bad[::2] else "no"))
    assert found["ppv"]["mean"] == pytest.approx(0.5)
    assert found["corrected_rate"]["mean"] == pytest.approx(0.05)
    assert found["corrected_rate"]["lower"] < 0.05 < found["corrected_rate"]["upper"]
    assert found["labels_to_halve_the_interval"] > 100


def test_the_judged_rate_may_be_another_files(reports, tmp_path):
    """Of the reports that are named."""
    path = fill_in(sampled(reports), agrees)
    other = write(tmp_path / "o.jsonl", *(line(f"o{n}", float(n % 4 == 0)) for n in range(400)))
    found = told(path, "--reports", other)
    assert found["judged_rate"]["mean"] == pytest.approx(0.25)
    assert found["corrected_rate"]["mean"] == pytest.approx(0.25)
    assert found["judges"] == ["model@1"]


def test_the_judged_rate_weighs_by_the_chance_of_being_judged(reports, tmp_path):
    """One answer that was judged with a tenth of the chance stands for ten."""
    path = fill_in(sampled(reports), agrees)
    lines = [line(f"o{n}", 1.0, chance=0.1) for n in range(10)]
    lines += [line(f"f{n}", 0.0, chance=1.0) for n in range(100)]
    found = told(path, "--reports", write(tmp_path / "o.jsonl", *lines))
    assert found["judged_rate"]["mean"] == pytest.approx(0.5)
    assert found["judged_rate"]["effective_n"] == pytest.approx(200**2 / (10 * 100 + 100), abs=0.1)


def test_fewer_than_a_hundred_labels_correct_nothing(reports):
    """Exit code 1; what they say of the judge is shown."""
    found = told(fill_in(sampled(reports, "-n", 60), agrees), exit_code=1)
    assert found["corrected_rate"] is None
    assert found["ppv"]["mean"] == 1.0


def test_several_files_are_taken_together(reports):
    """Two rounds of labels."""
    first = fill_in(sampled(reports, "-n", 60, to="1.csv"), agrees, to="1.csv")
    rows = sampled(reports, "-n", 60, "--skip", "1.csv", to="2.csv")
    assert told(first, fill_in(rows, agrees, to="2.csv"))["labels"] == 120


def test_rows_that_nobody_filled_in_are_counted(reports):
    """They tell the judged rate all the same."""
    rows = sampled(reports, "-n", 140)
    left = [row["id"] for row in rows][::7]
    found = told(fill_in(rows, lambda row: "" if row["id"] in left else row["judged"]))
    assert (found["labels"], found["unlabelled"]) == (120, 20)
    assert found["judged_rate"]["mean"] == pytest.approx(0.1)


def test_people_see_a_table(reports):
    """With shares in percent, and how many labels more would halve the interval."""
    result = run("rate", fill_in(sampled(reports), agrees))
    assert result.exit_code == 0
    assert "corrected rate" in result.stdout
    assert "10.0%" in result.stdout
    assert "labels more would halve the interval" in result.stderr


def test_labels_that_do_not_say_where_they_come_from_need_the_reports(reports, tmp_path):
    """A file of one's own: id, judged, human, at."""
    rows = [f"{n},{'yes' if n < 60 else 'no'},no,{AT}" for n in range(120)]
    (tmp_path / "own.csv").write_text("id,judged,human,at\n" + "\n".join(rows))
    result = run("rate", "own.csv")
    assert result.exit_code == 2
    assert "give --reports" in result.stderr
    assert told("own.csv", "--reports", reports)["corrected_rate"]["mean"] == 0


def test_an_empty_column_human_is_said(reports):
    """Exit code 2: there is nothing to compute from."""
    sampled(reports)
    result = run("rate", "labels.csv")
    assert result.exit_code == 2
    assert "the column human is empty" in result.stderr


def test_a_bad_cell_is_named(reports):
    """With its line and column."""
    path = fill_in(sampled(reports), lambda _: "perhaps")
    result = run("rate", path)
    assert result.exit_code == 2
    assert "line 2, column human: 'perhaps'" in result.stderr


def test_the_live_monitor_reads_what_sample_wrote(reports, tmp_path):
    """The same file is the setting `estimation.human_labels`."""
    fill_in(sampled(reports), agrees)
    assert len(read_labels(tmp_path / "labels.csv")) == 100


@pytest.mark.parametrize("command", [[], ["sample"], ["rate"]])
def test_every_command_has_help_with_its_exit_codes(command):
    """What a command does, and what its exit code means."""
    result = run(*command, "--help")
    assert result.exit_code == 0
    assert "Exit codes" in result.output
