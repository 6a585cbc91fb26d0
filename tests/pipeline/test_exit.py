"""A script that ends: its last interactions leave before anything is shut down."""

from pathlib import Path

import pytest

from tests.support.scripts import run_python

pytestmark = pytest.mark.slow

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
monitor = Monitor(server=False)
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


def test_all_monitors_of_a_process_share_the_time_of_its_exit(tmp_path: Path) -> None:
    """Five seconds in all: what one does not need is the others', and a closed one needs none."""
    said = run_python(
        """
import time
from ragmonitor import Monitor
now_s = 100.0
time.monotonic = lambda: now_s
def closes(name, needs_s):
    monitor = Monitor(name, server=False)
    def close(timeout_s):
        global now_s
        print(name, timeout_s)
        now_s += min(timeout_s, needs_s)
        type(monitor).close(monitor, 0.0)
    monitor.close = close
    return monitor
monitors = [closes("third", 9), closes("second", 9), closes("first", 1)]
Monitor("ended", server=False).close()
""",
        tmp_path,
    )
    assert said.split("\n")[:3] == ["first 1.6666666666666667", "second 2.0", "third 2.0"]


@pytest.mark.parametrize("worker", ["thread", "process"])
def test_a_process_without_descriptors_says_one_line(worker: str, tmp_path: Path) -> None:
    """Nothing is lost by it, and nothing of ours stands on stderr but that line."""
    said = run_python(
        f"""
import os, resource, sys, time, warnings
sys.stderr = sys.stdout
from ragmonitor import Monitor
monitor = Monitor(server=False, worker={worker!r})
soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
warnings.simplefilter("always")
resource.setrlimit(resource.RLIMIT_NOFILE, (len(os.listdir("/proc/self/fd")) - 1, hard))
for _ in range(5):
    with monitor.interaction(query="When?") as i:
        i.retrieved(["In 1889."])
        i.answered("In 1889.")
time.sleep(2)
resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
assert monitor.flush(60)
print(*[s.value for f in monitor.registry.collect() for s in f.samples
        if s.name == "ragmonitor_interactions_total"])
""",
        tmp_path,
    )
    assert [line for line in said.splitlines() if not line.startswith("ragmonitor: ")] == ["5.0"]
    assert len(said.splitlines()) == 2
