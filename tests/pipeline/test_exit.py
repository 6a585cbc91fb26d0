"""A script that ends: its last interactions leave before anything is shut down."""

from pathlib import Path

import pytest

from tests.support.scripts import run_python

PROVIDER = """
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, ConsoleSpanExporter
provider = TracerProvider()
provider.add_span_processor(
    BatchSpanProcessor(ConsoleSpanExporter(formatter=lambda span: f"sent {span.name}\\n"))
)
trace.set_tracer_provider(provider)
"""
MONITOR = """
from ragmonitor import Monitor
monitor = Monitor(prometheus=False)
"""
INTERACTION = """
with monitor.interaction(query="When?", name="last words") as i:
    i.retrieved(["In 1889."])
    i.answered("In 1889.")
"""


@pytest.mark.parametrize("setup", [PROVIDER + MONITOR, MONITOR + PROVIDER], ids=["after", "before"])
def test_the_last_trace_leaves_before_the_tracer_provider_shuts_down(
    setup: str, tmp_path: Path
) -> None:
    """Whether the monitor was built after or before the application's provider."""
    said = run_python(setup + INTERACTION, tmp_path)
    assert "sent invoke_workflow" in said
