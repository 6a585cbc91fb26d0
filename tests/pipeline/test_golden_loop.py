"""The whole loop of golden questions, as the documentation tells it: its own commands, in order.

From a folder of documents to a red pull request, with a model that is scripted and served over
HTTP. Only the port, and the key of the model, are not the documentation's.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import urllib.request
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from ragmonitor.goldens import Golden, ReviewStatus, read_goldens, write_goldens
from tests.support.golden_model import GoldenModel
from tests.support.openai_server import OpenAiServer
from tests.support.scripts import ROOT
from tests.support.waiting import until

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(os.name != "posix", reason="a service is ended by a signal"),
]
DOCUMENTS = {
    "en": ("alerting", "capture", "causes", "statistics", "privacy", "offline", "guard"),
    "zh": ("zh/overview", "zh/quickstart", "zh/runbook", "zh/statistics", "zh/tutorial"),
}
WRONG = {
    "en": ("How long may an invoice stay unpaid?", "It may stay unpaid for 90 days."),
    "zh": ("发票最多可以拖欠多久?", "发票最多可以拖欠90天。"),
}
RIGHT = {"en": "It must be paid within 30 days.", "zh": "必须在30天内付款。"}

SHOP = '''
"""An application over documents: it quotes the sentence that a question names."""

import os, re
from pathlib import Path
import uvicorn
from starlette.applications import Starlette
from starlette.responses import JSONResponse
from starlette.routing import Route
from ragmonitor import Monitor
from ragmonitor.capture.probe_mark import ProbeMiddleware
from ragmonitor.judges import sentences as splitter

RELEASE = os.environ.get("RELEASE", "")
PAGES = [path.read_text("utf-8") for path in sorted(Path("docs").iterdir())]
TEXT = [text for page in PAGES for text in page.split("\\n\\n")]
SENTENCES = [(" ".join(s.text.split()), t) for t in TEXT for s in splitter.split(t)]
WRONG, RIGHT = {wrong!r}, {right!r}
monitor = Monitor(service="shop", server=False, worker="thread")


def found(question, history):
    if question == WRONG[0]:
        told = RIGHT if RELEASE == "fixed" else WRONG[1]
        return [(told, RIGHT)]
    asked = " ".join([*(turn.text for turn in history), question])
    quotes = dict.fromkeys(re.findall("‹(.*?)›", asked))
    return [next((s for s in SENTENCES if s[0].startswith(q)), None) for q in quotes]


def ask(question, history=()):
    with monitor.interaction(query=question, attributes={{"route": "billing"}}) as i:
        pairs = found(question, history)
        known = pairs and None not in pairs
        chunks = [text for _, text in pairs] if known else TEXT[:2]
        answer = " ".join(each for each, _ in pairs) if known else {declines!r}
        if RELEASE == "broken" and known:
            answer = {broken!r}
        i.retrieved(chunks)
        i.answered(answer)
    return {{"answer": answer, "chunks": chunks}}


async def http(request):
    reply = ask((await request.json())["q"])
    sources = [{{"text": text}} for text in reply["chunks"]]
    return JSONResponse({{"answer": reply["answer"], "sources": sources}})


app = Starlette(routes=[Route("/ask", http, methods=["POST"])])
app.add_middleware(ProbeMiddleware)
if __name__ == "__main__":
    uvicorn.run(app, port=int(os.environ["PORT"]), log_level="warning")
'''


def loop() -> list[str]:
    """Return the commands of the documentation's loop."""
    page = ROOT / "docs" / "goldens.md"
    block = re.search(r"<!-- loop -->\n```bash\n(.*?)```", page.read_text("utf-8"), re.DOTALL)
    assert block is not None
    return block[1].replace("\\\n", " ").strip().splitlines()


class User:
    """Types commands in a folder of its own."""

    def __init__(self, folder: Path, language: str, model: OpenAiServer, port: int) -> None:
        self.folder, self.language, self.port = folder, language, port
        (folder / "docs").mkdir()
        for name in DOCUMENTS[language]:
            shutil.copy(ROOT / "docs" / f"{name}.md", folder / "docs")
        is_english = language == "en"
        shop = SHOP.format(
            wrong=WRONG[language],
            right=RIGHT[language],
            declines="I do not know." if is_english else "我不知道。",
            broken="Zebras sleep on 77 yellow clouds." if is_english else "斑马睡在77朵黄云上。",
        )
        (folder / "shop.py").write_text(shop, "utf-8")
        scripts = Path(sys.executable).parent
        self.environment = {
            **os.environ,
            "PATH": f"{scripts}{os.pathsep}{os.environ['PATH']}",
            "PORT": str(port),
            "OPENAI_API_KEY": "none",
            "OPENAI_BASE_URL": model.api_base,
            "LITELLM_LOCAL_MODEL_COST_MAP": "True",
            "RAGMONITOR_EXPORTERS": "jsonl:reports.jsonl",
        }

    def types(self, command: str, release: str = "") -> tuple[int, str]:
        """Return a command's exit status, and what it says."""
        done = subprocess.run(
            command.replace("127.0.0.1:8000", f"127.0.0.1:{self.port}"),
            shell=True,
            cwd=self.folder,
            env=self.environment | {"RELEASE": release},
            capture_output=True,
            encoding="utf-8",
            timeout=300,
            check=False,
        )
        return done.returncode, done.stdout + done.stderr

    def reviews(self) -> None:
        """Put the answers of mined questions right and accept them, as in an editor."""
        right = {WRONG[self.language][0]: RIGHT[self.language]}
        accepted = [
            msgspec.structs.replace(
                each, status=ReviewStatus.ACCEPTED, answer=right.get(each.question, each.answer)
            )
            if each.awaits_review
            else each
            for each in self.goldens()
        ]
        write_goldens(self.folder / "goldens.jsonl", accepted)

    @contextmanager
    def serves(self, release: str = "") -> Iterator[str]:
        """Run the application as a service."""
        service = subprocess.Popen(
            [sys.executable, "shop.py"],
            cwd=self.folder,
            env=self.environment | {"RELEASE": release},
        )
        try:
            until("it listens", lambda: is_open(self.port), within_s=60)
            yield f"http://127.0.0.1:{self.port}/ask"
        finally:
            service.send_signal(signal.SIGINT)
            service.wait(20)

    def goldens(self) -> list[Golden]:
        return read_goldens(self.folder / "goldens.jsonl")


def is_open(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def posted(url: str, body: Any, token: str = "") -> Any:
    headers = {"Content-Type": "application/json"}
    if token:
        headers["Authorization"] = f"Bearer {token}"
    data = None if body is None else json.dumps(body).encode()
    with urllib.request.urlopen(urllib.request.Request(url, data, headers), timeout=30) as reply:
        return json.load(reply)


@pytest.mark.parametrize("language", ["en", "zh"])
def test_the_documented_loop_from_documents_to_a_red_pull_request(
    tmp_path: Path, language: str
) -> None:
    """Generated, probed, mined, put right; green as it should be, red when broken."""
    commands = loop()
    kinds = [re.sub(r"ragmonitor (goldens )?(\w+).*", r"\2", each) for each in commands]
    assert kinds == ["generate", "gate", "probe", "mine", "gate"]
    generate, save, probe, mine, gate = commands
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with OpenAiServer() as model:
        model.always(GoldenModel())
        user = User(tmp_path, language, model, port)
        code, told = user.types(generate)
        assert code == 0, told
    generated = user.goldens()
    assert len(generated) == 20
    assert {each.kind.value for each in generated} >= {"single_fact", "unanswerable"}

    code, told = user.types(save)
    assert code == 0, told

    with user.serves() as url:
        code, told = user.types(probe)
        assert code == 0, told
        assert "20 answered" in told
        assert posted(url, {"q": WRONG[language][0]})["answer"] == WRONG[language][1]
        posted(url, {"q": generated[0].question})
    code, told = user.types(mine)
    assert code == 0, told
    mined = [each for each in user.goldens() if each.awaits_review]
    assert WRONG[language][0] in {each.question for each in mined}
    # What golden questions asked is no traffic, and so is not mined.
    assert len(mined) <= 2
    user.reviews()

    code, told = user.types(gate, "fixed")
    assert code == 0, told
    code, told = user.types(save, "fixed")  # the baseline of the next release has all questions
    assert code == 0, told
    (tmp_path / "summary.md").unlink()
    code, told = user.types(gate, "broken")
    assert code in (4, 5), told  # 5 where less than 90 % of the questions can be scored
    suites = ET.parse(tmp_path / "gate.xml").getroot()
    failed = {
        case.get("name") for case in suites.iter("testcase") if case.find("failure") is not None
    }
    assert len(failed) >= 10
    summary = (tmp_path / "summary.md").read_text("utf-8")
    assert WRONG[language][0] in summary
