"""Every way a text gets in, by every way out, under every policy: `data/outputs/canaries.yaml`."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.contract.kit_outputs import SECRET, Recorder, program, table

TABLE = table("canaries.yaml")
POLICIES = ("all", "hashed", "none")
CANARY = re.compile("zq([a-z]+)zq", re.IGNORECASE)


@cache
def left(policy: str) -> dict[str, str]:
    """Return all that left an application, by the way it took."""
    with Recorder() as recorder, TemporaryDirectory() as name:
        out, err = program(
            "canary_application.py",
            policy,
            name,
            recorder.url("phoenix"),
            recorder.url("langfuse"),
            folder=Path(name),
            OTEL_EXPORTER_OTLP_ENDPOINT=recorder.url("otlp"),
        )
        files = ("jsonl", "metrics", "log", "judge", "incident")
        texts = {each: (Path(name) / each).read_text("utf-8") for each in files}
        kept = [path for path in (Path(name) / "state").rglob("*") if path.is_file()]
        state = [f"{path}\n{path.read_bytes().decode('utf-8', 'replace')}" for path in kept]
        return texts | {
            "state": "\n".join(state),
            "stdout": out,
            "stderr": err,
            "spans": "\n".join(map(str, recorder.spans())),
            "events": "\n".join(map(str, recorder.events())),
            **{who: body_of(recorder, who) for who in ("phoenix", "langfuse")},
        }


@pytest.mark.parametrize("canary", TABLE["canaries"])
def test_without_a_word_about_content_no_trace_has_a_text(canary: str) -> None:
    """A collector that the environment names gets none; what our settings name gets all."""
    row = TABLE["canaries"][canary]
    ways = {way for way in left("unsaid") if canary in found("unsaid", way)}
    traces = {"spans", "events"}
    assert ways & traces <= set(row["else"])
    assert set(row["all"]) - traces <= ways


def body_of(recorder: Recorder, who: str) -> str:
    """Return all that one of them was sent, paths and headers included."""
    return "\n".join(f"{r.path} {r.headers} {r.body.decode()}" for r in recorder.of(who))


@cache
def found(policy: str, way: str) -> set[str]:
    """Return the canaries in one way out; escapes of JSON do not hide them."""
    return {each.lower() for each in CANARY.findall(left(policy)[way].replace("\\u007a", "z"))}


@pytest.mark.parametrize("canary", TABLE["canaries"])
def test_a_text_is_where_it_belongs(canary: str) -> None:
    """Under `all` each is seen where it is of use, so that finding none means something."""
    ways = TABLE["canaries"][canary]["all"]
    assert [way for way in ways if canary not in found("all", way)] == []


@pytest.mark.parametrize("policy", POLICIES[1:])
@pytest.mark.parametrize("canary", TABLE["canaries"])
def test_a_withheld_text_leaves_by_no_way(policy: str, canary: str) -> None:
    """Only names that the application gave, and what the judge reads, are found again."""
    ways = {way for way in left(policy) if canary in found(policy, way)}
    assert ways <= set(TABLE["canaries"][canary]["else"])


@pytest.mark.parametrize("policy", POLICIES)
def test_some_ways_have_no_text_under_any_policy(policy: str) -> None:
    """Series have names and ids alone, and nothing is printed."""
    assert {way for way in TABLE["silent"] if found(policy, way)} == set()
    assert (left(policy)["stdout"], left(policy)["stderr"]) == ("", "")


@pytest.mark.parametrize("policy", POLICIES)
def test_a_judge_is_asked_about_what_it_is_to_judge_alone(policy: str) -> None:
    """Question, chunks and answer, under every policy, and nothing else of the record."""
    asked = found(policy, "judge")
    assert {"question", "chunk", "answer"} <= asked
    assert asked & set(TABLE["unseen"]) == set()


@pytest.mark.parametrize("policy", POLICIES)
def test_every_canary_is_in_the_table(policy: str) -> None:
    """A way in that is not in the table would not be watched."""
    ways = (found(policy, way) for way in left(policy))
    assert set().union(*ways) <= set(TABLE["canaries"])


@pytest.mark.parametrize("policy", POLICIES)
def test_no_secret_leaves_by_any_way(policy: str) -> None:
    """Neither where texts are shown, nor to the judge, nor in an attribute, a log or a state."""
    assert [way for way, text in left(policy).items() if SECRET[8:24] in text] == []


@pytest.mark.parametrize("policy", POLICIES)
def test_a_secret_is_marked_as_redacted(policy: str) -> None:
    """Whoever reads the text sees that something was taken out, and what."""
    row = TABLE["marks"]["secret"]
    ways = row["all" if policy == "all" else "else"]
    assert [way for way in ways if row["mark"] not in left(policy)[way]] == []


def test_a_hashed_text_is_marked_as_hashed() -> None:
    """Equal texts can be told to be equal, and are not read."""
    row = TABLE["marks"]["hash"]
    assert [way for way in row["hashed"] if row["mark"] not in left("hashed")[way]] == []
    assert [way for way in left("none") if row["mark"] in left("none")[way]] == []
