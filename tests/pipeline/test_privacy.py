"""What leaves a whole monitor: redaction, content switch, budgets."""

from __future__ import annotations

import json

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from ragmonitor import JsonLines, Monitor
from ragmonitor.runtime.errors import MissingExtraError
from ragmonitor.testing import ListExporter, ScriptedJudge
from tests.support.stories import assessment, interaction

KEY = "sk-proj-" + "a1B2c3D4e5" * 4


@pytest.fixture
def spans(monkeypatch):
    memory = InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(memory))
    monkeypatch.setattr(trace, "get_tracer_provider", lambda: provider)
    return memory


def monitor(**options):
    return Monitor(service="test", server=False, **options)


def everything(spans) -> str:
    return "".join(span.to_json() for span in spans.get_finished_spans())


def test_offsets_of_sentences_refer_to_the_redacted_answer():
    """Judges read what exporters show, so that a sentence stands where its offsets say."""
    reports = ListExporter()
    with monitor(exporters=[reports]) as made:
        made.observe(interaction(answer=f"The key is {KEY}. Napoleon designed the tower."))
        assert made.flush(60)
    (report,) = reports.reports
    answer = report.interaction.answer
    assert "[redacted:api_key]" in answer
    for sentence in report.assessment.sentences:
        assert answer[sentence.start : sentence.end] == sentence.text


def test_the_judge_reads_the_full_text_always(spans):
    """Whatever is cut or left out on spans, in files or by the switch."""
    judge = ScriptedJudge(lambda _: assessment("supported"))
    answer = "The tower is tall. " * 5_000
    for options in (
        {"content": "all"},
        {"content": "none"},
        {"content": "hashed"},
    ):
        with monitor(judge=judge, sample=1.0, **options) as made:
            made.observe(interaction(answer=answer, texts=("chunk " * 9_000,)))
            assert made.flush()
    assert [len(read.answer) for read in judge.asked] == [len(answer)] * 3
    assert {read.chunks[0].text for read in judge.asked} == {"chunk " * 9_000}
    assert answer not in everything(spans)
    assert "more bytes]" in everything(spans)


def test_hashes_join_spans_and_files(spans, tmp_path):
    """One key, one hash: the question of a line is found on its span; its text nowhere."""
    path = tmp_path / "r.jsonl"
    told = interaction()
    with monitor(
        content={"policy": "hashed", "hash_key": "0123456789abcdef"}, exporters=[JsonLines(path)]
    ) as made:
        made.observe(told)
        assert made.flush()
    line = json.loads(path.read_text(encoding="utf-8"))
    root = next(s for s in spans.get_finished_spans() if s.name.startswith("invoke_workflow"))
    assert root.attributes["input.value"] == line["question"] != told.query
    for text in (told.query, told.answer, *(chunk.text for chunk in told.chunks)):
        assert text not in everything(spans)
        assert text not in path.read_text(encoding="utf-8")


def test_a_redaction_that_is_not_installed_is_told_at_once(monkeypatch):
    """At the construction, where somebody looks."""
    monkeypatch.setattr("ragmonitor.redaction.personal.find_spec", lambda _name: None)
    with pytest.raises(MissingExtraError, match=r"ragmonitor\[personal\]"):
        monitor(content={"redaction": ("secrets", "personal")})
