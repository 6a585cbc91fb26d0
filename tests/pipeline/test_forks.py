"""A fork at a bad moment: what is being imported or held then is neither half nor locked after."""

import os
from pathlib import Path

import pytest

from tests.support.scripts import run_python

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork"),
    pytest.mark.slow,
]

SLOW_LITELLM = """
import time
open("importing", "w").close()
time.sleep(1.5)
class Message:
    content = "{}"
class Choice:
    message, finish_reason = Message, "stop"
class Reply:
    choices, usage = [Choice], None
async def acompletion(**_):
    return Reply()
"""


PRELOAD = """
import os, time
from ragmonitor import Monitor
from ragmonitor.judges import provider
monitor = Monitor(
    service="t", server=False, judge={"model": "openai/gpt-4o-mini", "cache_size": 0}, sample=1.0,
    budget={"calls_per_day": 10**9}, exporters="jsonl:out.jsonl",
).start()
while not os.path.exists("importing"):
    time.sleep(0.01)
pid = os.fork()
if pid == 0:
    import litellm                     # the application may want it too
    assert litellm.acompletion
    with monitor.interaction(query="When?") as i:
        i.retrieved(["In 1889."])
        i.answered("In 1889.")
    flushed = monitor.flush(20)
    monitor.close(5)
    os._exit(0 if flushed else 1)
assert os.waitpid(pid, 0)[1] == 0
"""


def test_a_fork_in_the_middle_of_the_judge_s_import_leaves_the_child_a_judge(tmp_path: Path):
    """As a server that preloads the application does: the child asks, and gets a reply."""
    (tmp_path / "litellm.py").write_text(SLOW_LITELLM)
    run_python(PRELOAD, tmp_path, timeout_s=60)
    assert '"unreadable"' in (tmp_path / "out.jsonl").read_text()


def test_an_import_that_takes_too_long_costs_the_child_its_judge_and_no_more(tmp_path: Path):
    """The fork goes on after its time, with one line; the child's answers are `judge_error`."""
    (tmp_path / "litellm.py").write_text(SLOW_LITELLM.replace("1.5", "5"))
    code = PRELOAD.replace("pid = os.fork()", "imports.FORK_WAIT_S = 0.2\npid = os.fork()")
    code = code.replace("    import litellm   ", "    litellm = provider  #").replace(
        "    assert litellm.acompletion\n", ""
    )
    run_python("from ragmonitor import imports\n" + code, tmp_path, timeout_s=60)
    assert '"judge_error"' in (tmp_path / "out.jsonl").read_text()
