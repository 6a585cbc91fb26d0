"""What was recorded is let go of as soon as it is scored: no cycle waits for a collection."""

from __future__ import annotations

import pytest

from tests.support.scripts import ROOT, run_python

pytestmark = pytest.mark.slow

APPLICATION = """
import gc, sys
sys.path.insert(0, {bench!r})
import applications
from ragmonitor import Monitor
from ragmonitor_{framework} import instrument
monitor = Monitor("cycles", server=False)
instrument(monitor)
for mode, run in applications.modes({framework!r}).items():
    run(50)
    assert monitor.flush(30)
    gc.collect()
    gc.disable()
    gc.set_debug(gc.DEBUG_SAVEALL)
    run(50)
    assert monitor.flush(30)
    gc.collect()
    ours = [o for o in gc.garbage if type(o).__module__.startswith("ragmonitor")]
    texts = [o for o in gc.garbage if type(o).__name__ in ("Document", "TextNode", "AIMessage")]
    print(mode, len(ours), len(texts))
    gc.set_debug(0)
    gc.garbage.clear()
    gc.enable()
"""


@pytest.mark.parametrize("framework", ["langchain", "llama_index"])
def test_no_record_is_left_to_the_garbage_collector(framework, tmp_path):
    """Plain calls, many at once, and streams: nothing of ours, and no text of the framework's."""
    script = APPLICATION.format(framework=framework, bench=str(ROOT / "tests" / "bench"))
    lines = run_python(script, tmp_path).splitlines()
    assert len(lines) == 3
    for line in lines:
        assert line.endswith(" 0 0"), line
