"""What reaches a file, Phoenix, Langfuse and a collector: `data/outputs/exports.yaml`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.contract.kit_outputs import REFUSED, attributes, live, samples, table, value

TABLE = table("exports.yaml")
SECOND = TABLE["line"]["id"]


def outcomes(judge: str) -> Iterator[tuple[str, str, Any]]:
    """Yield answer, evaluator, and score or cause."""
    for answer, scores in TABLE["scores"][judge].items():
        for evaluator, outcome in scores.items():
            yield answer, evaluator, outcome


def reports(judge: str) -> dict[str, dict[str, Any]]:
    """Return the lines of one judge by answer."""
    named = [line for line in live().lines if line.get("judge", "").startswith(f"{judge}@")]
    assert len(named) == len({line["id"] for line in named}), "one line an answer and judge"
    return {line["id"]: line for line in named}


def roots() -> dict[str, Any]:
    """Return the root span of each answer's trace by the answer's id."""
    return {
        str(attributes(span.attributes)["ragmonitor.interaction.id"]): span
        for span in live().recorder.spans()
        if not span.parent_span_id
    }


def annotations() -> dict[tuple[str, str], dict[str, Any]]:
    """Return what Phoenix was sent, by span and name."""
    sent = [each for request in live().recorder.of("phoenix") for each in request.json["data"]]
    assert len({(each["span_id"], each["name"]) for each in sent}) == len(sent), "each once"
    return {(each["span_id"], each["name"]): each for each in sent}


def langfuse_scores() -> dict[tuple[str, str], dict[str, Any]]:
    """Return what Langfuse was sent, by observation and name."""
    batches = [request.json["batch"] for request in live().recorder.of("langfuse")]
    events = [event for batch in batches for event in batch]
    assert {event["type"] for event in events} == {"score-create"}
    return {(e["body"]["observationId"], e["body"]["name"]): e["body"] for e in events}


# --- JSON lines


@pytest.mark.parametrize("judge", TABLE["scores"])
def test_a_line_has_each_score_or_why_there_is_none(judge: str) -> None:
    """One line an answer and judge; no score is not a zero."""
    lines = reports(judge)
    assert lines.keys() == TABLE["scores"][judge].keys()
    for answer, evaluator, outcome in outcomes(judge):
        kind = "unscored" if isinstance(outcome, str) else "score"
        assert lines[answer]["evaluations"][evaluator] == {kind: outcome}


@pytest.mark.parametrize("field", TABLE["line"])
def test_a_line_has_what_one_asks_of_an_incident(field: str) -> None:
    """The texts, where they are from, and what the answer cost."""
    assert reports("contract")[SECOND][field] == TABLE["line"][field]


def test_a_line_names_the_sentence_at_fault() -> None:
    """With its verdict and its chunk."""
    (sentence,) = reports("contract")[SECOND]["sentences"]
    assert TABLE["sentence"].items() <= sentence.items()


def test_what_a_person_says_is_a_line_of_its_own() -> None:
    """It is under the answer's id."""
    (line,) = [line for line in live().lines if "feedback" in line]
    assert TABLE["feedback"].items() <= line.items()


def test_a_line_names_the_trace_that_was_sent() -> None:
    """From the file one comes to the trace."""
    for judge in TABLE["scores"]:
        for answer, line in reports(judge).items():
            root = roots()[answer]
            assert (line["trace_id"], line["span_id"]) == (root.trace_id.hex(), root.span_id.hex())


def test_the_file_is_its_owners_alone() -> None:
    """It holds the texts of answers."""
    assert live().mode == 0o600


# --- Phoenix and Langfuse


@pytest.mark.parametrize("who", TABLE["requests"])
def test_scores_go_where_the_api_is_and_prove_who_sends_them(who: str) -> None:
    """The path, the key and the type of each request are as documented there."""
    requests = live().recorder.of(who)
    assert requests
    for request in requests:
        assert request.path == TABLE["requests"][who]["path"]
        assert TABLE["requests"][who]["headers"].items() <= request.headers.items()


@pytest.mark.parametrize("judge", TABLE["scores"])
def test_phoenix_gets_scores_and_labels_at_the_root_span(judge: str) -> None:
    """What it has no label for is not sent; a refusal is not a zero."""
    sent, spans = annotations(), roots()
    for answer, evaluator, outcome in outcomes(judge):
        each = sent.get((spans[answer].span_id.hex(), f"{evaluator} ({judge})"))
        if isinstance(outcome, str) and outcome not in TABLE["labels"]:
            assert each is None
            continue
        assert each is not None
        kind = "label" if isinstance(outcome, str) else "score"
        other = {"label": "score", "score": "label"}[kind]
        assert each["result"][kind] == outcome
        assert other not in each["result"]
        assert each["annotator_kind"] == TABLE["kinds"][judge]
        assert each["identifier"], "the same again is an update"


@pytest.mark.parametrize("judge", TABLE["scores"])
def test_langfuse_gets_numbers_at_the_root_observation(judge: str) -> None:
    """Where there is no score nothing is sent."""
    sent, spans = langfuse_scores(), roots()
    for answer, evaluator, outcome in outcomes(judge):
        each = sent.get((spans[answer].span_id.hex(), f"{evaluator} ({judge})"))
        if isinstance(outcome, str):
            assert each is None
            continue
        assert each is not None
        assert (each["value"], each["dataType"]) == (outcome, "NUMERIC")
        assert each["traceId"] == spans[answer].trace_id.hex()


def test_both_say_why_and_what_a_person_said() -> None:
    """A bad score has the sentence at fault; a comment goes with the person's score."""
    bad = roots()[SECOND].span_id.hex()
    good = roots()[TABLE["feedback"]["id"]].span_id.hex()
    said = TABLE["feedback"]["feedback"]["comment"]
    name = "faithfulness (contract)"
    assert TABLE["line"]["answer"] in annotations()[bad, name]["result"]["explanation"]
    assert TABLE["line"]["answer"] in langfuse_scores()[bad, name]["comment"]
    person = annotations()[good, "thumbs (people)"]
    assert person["annotator_kind"] == "HUMAN"
    assert person["result"] == {"score": 1.0, "explanation": said}
    assert langfuse_scores()[good, "thumbs (people)"]["value"] == 1.0
    assert langfuse_scores()[good, "thumbs (people)"]["comment"] == said


def test_what_is_refused_is_counted_and_not_tried_for_ever() -> None:
    """Who does not take scores costs them, and the others nothing."""
    refused = live().recorder.of("refusing")
    lost = sum(len(request.json["data"]) for request in refused)
    assert lost == len(annotations()), "each was tried once"
    counted = value(samples(live().scrape), "ragmonitor_dropped_total", reason="phoenix_refused")
    assert counted == lost


def test_one_refused_score_costs_itself_alone() -> None:
    """Of a batch that Langfuse takes in part, the rest is not sent again."""
    events = [e for request in live().recorder.of("partial") for e in request.json["batch"]]
    assert len({event["id"] for event in events}) == len(events), "each was sent once"
    lost = [event for event in events if REFUSED in event["body"]["name"]]
    counted = value(samples(live().scrape), "ragmonitor_dropped_total", reason="langfuse_refused")
    assert counted == len(lost) == 6, "three scores of hallucination by each of two judges"


# --- traces by OTLP


def test_each_answer_is_one_trace() -> None:
    """The root span, the retrieval and the model call, with the service as resource."""
    spans = live().recorder.spans()
    assert roots().keys() == TABLE["scores"]["contract"].keys()
    for root in roots().values():
        own = [span for span in spans if span.trace_id == root.trace_id]
        names = {span.span_id: span.name for span in own}
        above = {s.name: names.get(s.parent_span_id) for s in own if s.name in TABLE["traces"]}
        assert above == TABLE["traces"]
    for resource in live().recorder.resources():
        assert TABLE["resource"].items() <= resource.items()


@pytest.mark.parametrize("attribute", TABLE["root"])
def test_a_root_span_has_question_answer_and_scores(attribute: str) -> None:
    """They are in the dialects that backends read."""
    assert attributes(roots()[SECOND].attributes)[attribute] == TABLE["root"][attribute]


def test_a_failed_answer_is_a_failed_span() -> None:
    """Its type and message are told as OpenTelemetry has it."""
    failed = [root for root in roots().values() if root.status.code == 2]
    (root,) = failed
    assert attributes(root.attributes)["error.type"] == "TimeoutError"
    assert [event.name for event in root.events] == ["exception"]


def test_scores_that_come_later_are_spans_and_events_in_the_same_trace() -> None:
    """A linked span of kind EVALUATOR, and `gen_ai.evaluation.result` in the root's context."""
    root = roots()[SECOND]
    (late,) = [
        span
        for span in live().recorder.spans()
        if span.trace_id == root.trace_id
        and attributes(span.attributes)["openinference.span.kind"] == "EVALUATOR"
    ]
    assert [link.span_id for link in late.links] == [root.span_id]
    assert attributes(late.attributes)["ragmonitor.score.faithfulness"] == 0.0
    events = [
        attributes(event.attributes)
        for event in live().recorder.events()
        if event.event_name == "gen_ai.evaluation.result"
        and (event.trace_id, event.span_id) == (root.trace_id, root.span_id)
    ]
    assert [each for each in events if TABLE["event"].items() <= each.items()]


def test_the_collector_gets_the_headers_that_opentelemetry_was_given() -> None:
    """Its own variables hold for our traces and events."""
    requests = live().recorder.of("otlp")
    assert {request.path for request in requests} == {"/otlp/v1/traces", "/otlp/v1/logs"}
    assert all(request.headers["x-team"] == "search" for request in requests)


def test_the_application_prints_nothing_of_ours() -> None:
    """Standard error stays the application's."""
    assert live().err == ""
