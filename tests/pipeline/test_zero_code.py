"""`opentelemetry-instrument python app.py`, in processes of their own, with real frameworks."""

import os
import subprocess
import sys
import textwrap
from collections import Counter
from importlib.metadata import entry_points
from pathlib import Path

import pytest

from tests.support.otlp_receiver import otlp_receiver
from tests.support.prometheus_server import free_port

pytestmark = pytest.mark.slow

INSTRUMENT = str(Path(sys.executable).with_name("opentelemetry-instrument"))
OTHERS = ",".join(
    {entry.name for entry in entry_points(group="opentelemetry_instrumentor")} - {"ragmonitor"}
)
"""Other projects' instrumentations, as `OTEL_PYTHON_DISABLED_INSTRUMENTATIONS` takes them."""

LANGCHAIN = """
from langchain_core.documents import Document
from langchain_core.language_models import FakeListChatModel
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnablePassthrough

class Search(BaseRetriever):
    def _get_relevant_documents(self, query, *, run_manager):
        return [Document("The tower was built from 1887 to 1889.")]

prompt = ChatPromptTemplate.from_template("{context} {question}")
model = FakeListChatModel(responses=["It was built from 1887 to 1889."])
chain = {"context": Search(), "question": RunnablePassthrough()} | prompt | model
print("LangChain says:", chain.invoke("When was it built?").content)
"""
LLAMA_INDEX = """
from llama_index.core import Document, SummaryIndex
from llama_index.core.llms import MockLLM

index = SummaryIndex.from_documents([Document(text="The tower was built from 1887 to 1889.")])
print("LlamaIndex says:", index.as_query_engine(llm=MockLLM(max_tokens=9)).query("When?"))
"""
METRICS = """
import os, time
from urllib.request import urlopen
address = f"http://127.0.0.1:{os.environ['RAGMONITOR_SERVER__PORT']}/metrics"
for _ in range(600):
    try:
        text = urlopen(address, timeout=5).read().decode()
    except OSError:
        text = ""
    if text.count("\\nragmonitor_interactions_total") == FRAMEWORKS:
        break
    time.sleep(0.05)
print(*[l for l in text.splitlines() if l.startswith("ragmonitor_interactions_total")], sep="\\n")
"""
NOTHING_OF_OURS = """
import sys, threading
heavy = ("langchain_core", "llama_index", "litellm", "prometheus_client", "pydantic")
ours = [name for name in sys.modules if name.startswith("ragmonitor")]
print("modules", [name for name in heavy if name in sys.modules], sorted(ours))
print("threads", [t.name for t in threading.enumerate() if t.name.startswith("ragmonitor")])
"""


def run(code, folder, *command, receiver=None, **variables):
    """Run an application under `opentelemetry-instrument`; it must end well."""
    (folder / "app.py").write_text(textwrap.dedent(code), encoding="utf-8")
    result = subprocess.run(
        [*(command or (INSTRUMENT, sys.executable)), "app.py"],
        cwd=folder,
        env=environment(receiver, **variables),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    return result


def environment(receiver=None, **variables):
    found = {
        **os.environ,
        "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf",
        "OTEL_METRICS_EXPORTER": "none",
        "OTEL_LOGS_EXPORTER": "none",
        "OTEL_TRACES_EXPORTER": "otlp" if receiver else "none",
        "OTEL_PYTHON_DISABLED_INSTRUMENTATIONS": OTHERS,
        "RAGMONITOR_SERVER__PORT": str(free_port()),
    }
    if receiver:
        found["OTEL_EXPORTER_OTLP_ENDPOINT"] = receiver.url
    return found | variables


def spans(receiver):
    """Return (instrumentation scope, span) of all that arrived."""
    return [
        (scope.scope.name, span)
        for request in receiver.trace_requests
        for resource in request.resource_spans
        for scope in resource.scope_spans
        for span in scope.spans
    ]


def traced(receiver):
    """Return how many spans of each name arrived, by instrumentation scope."""
    names: dict[str, Counter[str]] = {}
    for scope, span in spans(receiver):
        names.setdefault(scope, Counter())[span.name] += 1
    return names


def ours(receiver):
    return traced(receiver).get("ragmonitor", Counter())


def complaints(result):
    """Return what was said on stderr, less what Python itself warns of."""
    return [line for line in result.stderr.splitlines() if "ragmonitor" in line]


@pytest.mark.parametrize(
    ("application", "answer", "root"),
    [
        (LANGCHAIN, "LangChain says: It was", "invoke_workflow RunnableSequence"),
        (LLAMA_INDEX, "LlamaIndex says: ", "invoke_workflow RetrieverQueryEngine"),
    ],
    ids=["langchain", "llama_index"],
)
def test_a_script_that_ends_at_once_is_traced_through_the_global_provider(
    application, answer, root, tmp_path
):
    """Not a word of ours in it; its only interaction arrives before the provider shuts down."""
    with otlp_receiver() as receiver:
        result = run(application, tmp_path, receiver=receiver, OTEL_SERVICE_NAME="tower")
        assert answer in result.stdout
        assert ours(receiver)[root] == 1
        assert {r["service.name"] for r in receiver.resources()} == {"tower"}
        # Set by OpenTelemetry's distribution on its own provider, which therefore is the one used.
        assert all("telemetry.auto.version" in r for r in receiver.resources())
    assert complaints(result) == []


def test_both_frameworks_report_to_one_monitor(tmp_path):
    """One endpoint shows both."""
    metrics = METRICS.replace("FRAMEWORKS", "2")
    result = run(LANGCHAIN + LLAMA_INDEX + metrics, tmp_path, RAGMONITOR_SERVICE="tower")
    counted = sorted(line for line in result.stdout.splitlines() if "_total{" in line)
    assert counted == [
        'ragmonitor_interactions_total{framework="langchain",service="tower",status="ok"} 1.0',
        'ragmonitor_interactions_total{framework="llama_index",service="tower",status="ok"} 1.0',
    ]
    assert complaints(result) == []


def test_an_application_without_a_framework_pays_nothing(tmp_path):
    """No framework and no heavy package is imported, no thread started, no monitor built."""
    result = run(NOTHING_OF_OURS, tmp_path)
    modules, threads = result.stdout.splitlines()
    runtime = (f"ragmonitor.runtime.{name}" for name in ("forks", "guard", "printable"))
    ours = ["ragmonitor", "ragmonitor.instrumentor", "ragmonitor.runtime", *runtime]
    assert modules == f"modules [] {ours}"
    assert threads == "threads []"
    assert complaints(result) == []


def test_wrong_settings_are_one_line_and_the_application_runs(tmp_path):
    """Both frameworks work; the log names the setting, once."""
    application = f"import llama_index.core\n{LANGCHAIN}"
    result = run(application, tmp_path, RAGMONITOR_SAMPLE="7")
    assert "LangChain says" in result.stdout
    (line,) = complaints(result)
    assert "the application runs unmonitored: sample.rate: " in line


OPENINFERENCE = """
from openinference.instrumentation.llama_index import LlamaIndexInstrumentor
LlamaIndexInstrumentor().instrument()
"""
"""OpenTelemetry skips it here: it asks for more of LlamaIndex than the core."""


@pytest.mark.parametrize(
    "application", [LANGCHAIN, OPENINFERENCE + LLAMA_INDEX], ids=["langchain", "llama_index"]
)
def test_other_projects_instrumentations_trace_beside_it(application, tmp_path):
    """OpenInference's spans are those of a process without us, and our interaction is one."""
    found = {}
    for without in ("", "ragmonitor"):
        with otlp_receiver() as receiver:
            run(
                application,
                tmp_path,
                receiver=receiver,
                OTEL_PYTHON_DISABLED_INSTRUMENTATIONS=without,
            )
            found[without] = traced(receiver)
    mine = found[""].pop("ragmonitor")
    assert sum(n for name, n in mine.items() if name.startswith("invoke_workflow")) == 1
    assert any(scope.startswith("openinference.") for scope in found[""])
    assert found[""] == found["ragmonitor"]


def test_an_application_s_own_monitor_takes_over(tmp_path):
    """It imports our integration first, which is what imports LangChain; each question is once."""
    application = f"""
from ragmonitor_langchain import instrument
from ragmonitor import Monitor
from ragmonitor.testing import ListExporter
reports = ListExporter()
monitor = Monitor(server=False, export=dict(traces=False), exporters=[reports])
instrument(monitor)
{LANGCHAIN}
monitor.flush()
print("reports", len(reports.reports))
"""
    with otlp_receiver() as receiver:
        result = run(application, tmp_path, receiver=receiver)
        assert ours(receiver) == Counter()
    assert result.stdout.splitlines()[-1] == "reports 1"
    assert complaints(result) == []


def test_an_integration_that_fails_is_logged_and_costs_only_itself(tmp_path):
    """Its trigger is imported as if nothing were, and the other integrations work."""
    (tmp_path / "broken-1.dist-info").mkdir()
    (tmp_path / "broken-1.dist-info" / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: broken\nVersion: 1\n", encoding="utf-8"
    )
    (tmp_path / "broken-1.dist-info" / "entry_points.txt").write_text(
        "[ragmonitor.integrations]\ncolorsys = broken_integration:instrument\n", encoding="utf-8"
    )
    (tmp_path / "broken_integration.py").write_text("import no_such_module\n", encoding="utf-8")
    with otlp_receiver() as receiver:
        result = run(
            f"import colorsys\nprint(colorsys.rgb_to_hls(0, 0, 0))\n{LANGCHAIN}",
            tmp_path,
            receiver=receiver,
            PYTHONPATH=str(tmp_path),
        )
        assert ours(receiver)["invoke_workflow RunnableSequence"] == 1
    assert "error in stage start; the application is not affected" in result.stderr
    assert "No module named 'no_such_module'" in result.stderr
