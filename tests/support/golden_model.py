"""A scripted model that makes golden questions; it quotes, so that what it says can be checked.

`What stands behind ‹the first words›?` is answered by the sentence that begins with these words.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ragmonitor.judges import LlmJudge
from ragmonitor.judges import sentences as splitter
from ragmonitor.judges.provider import Completion, Price, ProviderError
from ragmonitor.judges.tokens import estimate_tokens
from ragmonitor.records import JudgeUsage
from tests.support.openai_server import Reply, Request

WORDS = 6
"""Of a sentence that are quoted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What a prompt of `goldens generate` holds."""

    task: str
    """`write`, `read` or `compare`."""
    system: str
    sections: Mapping[str, str]
    chunks: tuple[str, ...]

    @property
    def question(self) -> str:
        return self.sections.get("QUESTION", "")

    @property
    def is_chinese(self) -> bool:
        return splitter.language(" ".join(self.chunks)) == "zh"


def read_request(request: Request) -> Asked:
    """Return the parts of a request."""
    sections = {
        name: body
        for _, name, body in re.findall(r"<<(\d+) ([A-Z]+)\n(.*?)\n\1>>", request.user, re.DOTALL)
    }
    marks = {"\nsays: ": "read", "\nsame: ": "compare"}
    task = next((task for mark, task in marks.items() if mark in request.system), "write")
    chunks = re.split(r"(?:^|\n)\[C\d+ \d+\]\n", sections.get("CHUNKS", ""))[1:]
    return Asked(task=task, system=request.system, sections=sections, chunks=tuple(chunks))


Replying = Callable[[Asked], dict[str, Any]]


@dataclass(slots=True)
class GoldenModel:
    """A step for `OpenAiServer.always`; each task's reply can be given by a test."""

    given: dict[str, Replying] = field(default_factory=dict)
    asked: list[Asked] = field(default_factory=list)

    def __call__(self, request: Request) -> Reply:
        asked = read_request(request)
        self.asked.append(asked)
        reply = self.given.get(asked.task) or globals()[f"_{asked.task}"]
        return Reply(content=json.dumps(reply(asked), ensure_ascii=False))


def _write(asked: Asked) -> dict[str, Any]:
    sentences = [_sentence(chunk) for chunk in asked.chunks]
    quotes = [_quoted(sentence) for sentence in sentences]
    zh = asked.is_chinese
    ask = ("关于{}之后写的是什么内容?" if zh else "What stands behind {}?").format
    if "do not give" in asked.system:
        text = f"‹zq {quotes[0][1:]}"
        return {"question": ask(text), "answer": ""}
    joined = "和" if zh else " and "
    return {"question": ask(joined.join(quotes)), "answer": " ".join(sentences)}


def _read(asked: Asked) -> dict[str, Any]:
    found = [
        sentence
        for quote in re.findall(r"‹(.*?)›", asked.question)
        for chunk in asked.chunks
        for sentence in _sentences(chunk)
        if sentence.startswith(quote)
    ]
    return {"says": "answered", "reply": found[0]} if found else {"says": "absent", "reply": ""}


def _compare(asked: Asked) -> dict[str, Any]:
    return {"same": asked.sections["ANSWER"] == asked.sections["REFERENCE"]}


def _sentences(chunk: str) -> list[str]:
    return [" ".join(each.text.split()) for each in splitter.split(chunk)]


def _sentence(chunk: str) -> str:
    return max(_sentences(chunk), key=len)


def _quoted(sentence: str) -> str:
    return f"‹{' '.join(sentence.split()[:WORDS])}›"


@dataclass(slots=True)
class ScriptedCompleter:
    """Keeps the protocol of a completer, at a dollar for a million tokens."""

    model: GoldenModel
    timeout_s: float = 5.0
    price: Price = field(default_factory=lambda: Price(input_usd=1e-6, output_usd=1e-6))
    thinking_tokens: int = 0
    is_loaded: bool = True
    refusals: deque[ProviderError] = field(default_factory=deque)
    """Raised by the next calls."""
    released: asyncio.Event | None = None
    """Calls wait for it; None: they reply at once."""
    arrived: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(0))
    """Released by each call that waits."""

    async def load(self) -> None:
        return None

    def load_soon(self) -> None:
        return None

    async def complete(self, messages: Any, *, max_tokens: int, **_options: Any) -> Completion:
        if self.refusals:
            raise self.refusals.popleft()
        if self.released is not None:
            self.arrived.release()
            await self.released.wait()
        request = Request(method="POST", path="/", headers={}, body={"messages": list(messages)})
        text = self.model(request).content
        usage = JudgeUsage(
            calls=1,
            input_tokens=round(sum(estimate_tokens(each["content"]) for each in messages)),
            output_tokens=min(max_tokens, round(estimate_tokens(text))),
        )
        cost = self.price.of(usage.input_tokens, usage.output_tokens)
        return Completion(
            model="",
            text=text,
            is_cut=False,
            usage=replace(usage, cost_usd=cost),
        )

    async def close(self) -> None:
        return None


def scripted_judge(model: GoldenModel) -> tuple[LlmJudge, ScriptedCompleter]:
    """Return a judge that asks the model, and its completer."""
    completer = ScriptedCompleter(model)
    return LlmJudge("scripted", completer=completer, pause=_no_pause), completer


async def _no_pause(_seconds: float) -> None:
    return None
