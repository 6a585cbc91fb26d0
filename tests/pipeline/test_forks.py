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

LAZY_LITELLM = (
    SLOW_LITELLM.replace("time.sleep(1.5)", "").replace('open("importing"', "#")
    + """
def __getattr__(name):
    import part
    raise AttributeError(name)
"""
)
SLOW_PART = 'import time\nopen("importing", "w").close()\ntime.sleep(1.5)\n'

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


def test_a_fork_waits_for_what_the_judge_s_library_imports_later_too(tmp_path: Path):
    """What litellm imports of itself when it is asked something: the child has none of it half."""
    (tmp_path / "litellm.py").write_text(LAZY_LITELLM)
    (tmp_path / "part.py").write_text(SLOW_PART)
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


READING = """
import asyncio, os, time
from ragmonitor import JudgeIdentity, Monitor

class Slow:
    identity = JudgeIdentity(name="slow", version="1", kind="CODE")
    is_asked = False

    async def assess(self, interaction):
        Slow.is_asked = True
        await asyncio.sleep(60)

monitor = Monitor("forks", server=False, judge=Slow(), sample=1.0)
with monitor.interaction(query="Why?") as i:
    i.retrieved(["The sky is blue."])
    i.answered("It is blue.")
while not Slow.is_asked:
    time.sleep(0.01)
(task,) = monitor._back.worker._handler.judgements
if os.fork() == 0:
    task.get_coro().close()  # as the collector does, sooner or later
    print("closed", flush=True)
    os._exit(0)
os.wait()
os._exit(0)
"""


def test_a_reading_that_goes_on_in_the_parent_is_thrown_away_in_the_child(tmp_path):
    """Nothing is awaited there, where no loop runs, and nothing is printed."""
    assert run_python(READING, tmp_path) == "closed\n"


HELD = """
import os, signal
from llama_index.core.query_engine import CustomQueryEngine
from ragmonitor import Monitor
import ragmonitor_langchain.handler as langchain
import ragmonitor_litellm.logger as litellm
import ragmonitor_llama_index.handler as llama_index

monitor = Monitor("forks", server=False)

class Engine(CustomQueryEngine):
    def custom_query(self, query_str):
        held = {
            monitor._recorders_lock: lambda: monitor.span_processor(),
            langchain._lock: lambda: langchain.instrument(monitor),
            litellm._lock: lambda: litellm.instrument(monitor),
            llama_index._listening._lock: llama_index.uninstrument,
        }
        assert llama_index._places
        for lock in held:
            assert lock.acquire(blocking=False)  # as another thread may
        if os.fork() == 0:
            signal.alarm(20)
            for use in held.values():
                use()
            print(len(llama_index._places), flush=True)
            os._exit(0)
        os.wait()
        for lock in held:
            lock.release()
        return "It is blue."

llama_index.instrument(monitor)
Engine().query("Why?")
"""


def test_what_integrations_hold_in_the_parent_is_free_in_the_child(tmp_path):
    """Each lock, whoever held it; and no span of the parent's is open there."""
    assert run_python(HELD, tmp_path, timeout_s=60) == "0\n"
