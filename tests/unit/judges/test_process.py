from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

from ragmonitor import Assessment, Chunk, Interaction, JudgeIdentity
from ragmonitor.guard import errors
from ragmonitor.judges import BuiltinJudge
from ragmonitor.judges.process import MAX_STARTS, ProcessJudge
from tests.support.waiting import until

pytestmark = pytest.mark.skipif(os.name != "posix", reason="pipes and signals of POSIX")

INTERACTION = Interaction(
    id="1",
    query="How heavy may a parcel be?",
    chunks=(Chunk(text="A parcel may weigh 40 kg.", metadata={"lock": threading.Lock()}),),
    answer="A parcel may weigh 60 kg.",
    framework="python",
    started_ns=0,
    ended_ns=0,
)


class Failing:
    """Reads nothing but the helper's first text."""

    identity = JudgeIdentity(name="failing", version="1", kind="CODE")

    def read(self, interaction: Interaction) -> Assessment:
        if interaction.id:
            raise ValueError("cannot read this")
        return BuiltinJudge().read(interaction)

    async def assess(self, interaction: Interaction) -> Assessment:
        return self.read(interaction)


class Sleeping(Failing):
    """Takes too long over everything but the helper's first text."""

    def read(self, interaction: Interaction) -> Assessment:
        if interaction.id:
            time.sleep(60)
        return BuiltinJudge().read(interaction)


@pytest.fixture
def judge():
    judge = ProcessJudge(BuiltinJudge())
    yield judge
    judge.stop()


def is_alive(pid: int) -> bool:
    """Return whether there is such a process, a zombie included."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_a_helper_finds_what_the_judge_finds(judge):
    """Where an answer is read changes no verdict; metadata of any type is no obstacle."""
    assert judge.read(INTERACTION) == BuiltinJudge().read(INTERACTION)
    assert judge.helper_pid not in {None, os.getpid()}
    assert judge.identity == BuiltinJudge().identity


async def test_it_is_a_judge_like_any_other(judge):
    """`assess` finds the same."""
    assert await judge.assess(INTERACTION) == BuiltinJudge().read(INTERACTION)


def test_nothing_starts_before_the_first_reading(judge):
    """A monitor that sees no traffic has no helper."""
    assert judge.helper_pid is None


def test_stop_ends_the_helper_and_leaves_no_zombie(judge):
    """After `stop` there is no such process, and reading goes on without one."""
    judge.read(INTERACTION)
    pid = judge.helper_pid
    judge.stop()
    assert not is_alive(pid)
    assert judge.read(INTERACTION) == BuiltinJudge().read(INTERACTION)
    assert judge.helper_pid is None


def test_a_helper_that_dies_costs_no_answer(judge):
    """The reading is done here, the error is counted, the next reading has a new helper."""
    judge.read(INTERACTION)
    pid, before = judge.helper_pid, errors["judge"]
    os.kill(pid, signal.SIGKILL)
    assert judge.read(INTERACTION) == BuiltinJudge().read(INTERACTION)
    assert errors["judge"] == before + 1
    assert not is_alive(pid)  # waited for, and so no zombie
    judge.read(INTERACTION)
    assert judge.helper_pid not in {None, pid}


def test_a_helper_that_dies_again_and_again_is_given_up(judge):
    """After a few deaths no more are started, and everything is read here."""
    for _ in range(MAX_STARTS):
        judge.read(INTERACTION)
        os.kill(judge.helper_pid, signal.SIGKILL)
        judge.read(INTERACTION)
    assert judge.read(INTERACTION) == BuiltinJudge().read(INTERACTION)
    assert judge.helper_pid is None


def test_a_helper_that_cannot_start_costs_no_answer(judge, monkeypatch):
    """An embedding program, say, whose `sys.executable` is no Python: read here and counted."""
    monkeypatch.setattr(sys, "executable", "/bin/false")
    before = errors["judge"]
    assert judge.read(INTERACTION) == BuiltinJudge().read(INTERACTION)
    assert errors["judge"] == before + 1


def test_what_the_judge_raises_is_raised_here():
    """An answer that cannot be read is the worker's to count; the helper lives on."""
    judge = ProcessJudge(Failing())
    try:
        for _ in range(2):
            with pytest.raises(RuntimeError, match="ValueError: cannot read this"):
                judge.read(INTERACTION)
        assert judge.helper_pid is not None
    finally:
        judge.stop()


def test_a_reading_that_takes_too_long_ends_its_helper():
    """A text that keeps a helper busy for ever holds the worker up for a bounded time."""
    judge = ProcessJudge(Sleeping(), reading_s=0.2)
    try:
        with pytest.raises(TimeoutError):
            judge.read(INTERACTION)
        assert judge.helper_pid is None
    finally:
        judge.stop()


def test_stop_does_not_wait_for_a_long_reading():
    """Closing a monitor while a helper is at work ends both within seconds."""
    judge = ProcessJudge(Sleeping())
    judge.read(replace(INTERACTION, id=""))
    judge._inner = BuiltinJudge()  # what is left to read here is quick
    asking = threading.Thread(target=judge.read, args=(INTERACTION,))
    asking.start()
    until("the helper reads", judge._lock.locked)
    pid = judge.helper_pid
    judge.stop()
    asking.join(10)
    assert not asking.is_alive()
    assert not is_alive(pid)


def test_a_helper_ends_with_its_application():
    """An application that is killed leaves no helper behind."""
    script = (
        "import os, signal\n"
        "from ragmonitor import Chunk, Interaction\n"
        "from ragmonitor.judges import BuiltinJudge\n"
        "from ragmonitor.judges.process import ProcessJudge\n"
        "judge = ProcessJudge(BuiltinJudge())\n"
        "judge.read(Interaction(id='1', query='a?', chunks=(Chunk(text='b'),), answer='b',\n"
        "    framework='python', started_ns=0, ended_ns=0))\n"
        "print(judge.helper_pid, flush=True)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, check=False)
    until("the helper has ended", lambda: not _runs(int(ran.stdout)))


def _runs(pid: int) -> bool:
    """Return whether a process runs; one that has ended and whose parent is gone does not."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text("ascii")
    except FileNotFoundError:
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_forked_child_has_a_helper_of_its_own(judge):
    """Parent and child never write into one pipe, and the child's exit leaves the parent's be."""
    judge.read(INTERACTION)
    pid = judge.helper_pid
    child = os.fork()
    if child == 0:
        code = 1
        try:
            same = judge.read(INTERACTION) == BuiltinJudge().read(INTERACTION)
            code = 0 if same and judge.helper_pid not in {None, pid} else 2
            judge.stop()
            gc.collect()
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    judge.read(INTERACTION)
    assert judge.helper_pid == pid
