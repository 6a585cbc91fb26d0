"""Puts golden questions to an application: through a callable, or over HTTP."""

from __future__ import annotations

import asyncio
import inspect
import json
import time
import traceback
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal, Protocol
from urllib.parse import quote, urlsplit

from ragmonitor.capture.coercion import chunk_in, member_in
from ragmonitor.capture.probe_mark import current_mark, marked
from ragmonitor.goldens.golden import Golden
from ragmonitor.records import Chunk, Interaction, Probe
from ragmonitor.runtime.addresses import shown
from ragmonitor.runtime.apart import apart
from ragmonitor.runtime.errors import InputError, MissingExtraError, RagMonitorError
from ragmonitor.runtime.guard import ends_the_task
from ragmonitor.runtime.http_pool import http_pool
from ragmonitor.runtime.printable import encodable
from ragmonitor.semconv.conventions import PROBE_BAGGAGE, PROBE_HEADER

MAX_REPLY_BYTES: Final = 4 * 2**20
"""A longer reply of a service is not read to its end."""
MAX_ERROR_CHARACTERS: Final = 320
MAX_HUNG_CALLS: Final = 8
"""Calls that did not return in time and go on; while there are so many, none more is begun."""
TRIED_AGAIN: Final = (429, 502, 503, 504)
"""HTTP statuses after which a service is asked again."""
_ANSWERS: Final = ("answer", "response", "result", "output")
_CHUNKS: Final = ("chunks", "contexts", "context", "source_documents", "source_nodes")


AskError = Literal[
    "refused",  # no connection could be made
    "timeout",
    "http_status",  # the service answered with a status from 300; no redirection is followed
    "no_answer",  # there is no text where the answer should be
    "exception",  # the callable raised
]
"""Why a question got no answer."""


class AskFailedError(RagMonitorError):
    """The application gave no answer; the message is `kind: detail`."""

    def __init__(self, kind: AskError, detail: str) -> None:
        super().__init__(f"{kind}: {detail}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """The application's answer to one question."""

    answer: str
    chunks: tuple[Chunk, ...] | None = None
    """The chunks that were retrieved, in order; None: the application does not say."""


class Ask(Protocol):
    """Answers a question; a function or a coroutine function.

    It returns the answer's text, a `Reply`, or a mapping or object with the answer under `answer`,
    `response`, `result` or `output` and, where it says them, the chunks under `chunks`, `contexts`,
    `context`, `source_documents` or `source_nodes`. Whatever it raises is the outcome `exception`,
    and an empty text is `no_answer`.
    """

    def __call__(self, question: str, /) -> Any:
        """Return the answer, or an awaitable of it."""
        ...


class Asker:
    """Asks one application, and turns whatever happens into an outcome.

    The application is called on a daemon thread for each question. One that does not return in time
    is left to itself, and so is given up `MAX_HUNG_CALLS` times at most. What it returns to be
    awaited runs on the event loop that the asker is used on: the probe's own, never the host's.
    """

    def __init__(self, ask: Ask, *, timeout_s: float = 60.0) -> None:
        """Ask nothing yet.

        Args:
            ask: The application.
            timeout_s: For one question, attempts and pauses included.
        """
        self._ask = ask
        self._timeout_s = timeout_s
        self._hung: set[asyncio.Future[Any]] = set()

    async def put(self, golden: Golden) -> Interaction:
        """Return what came of one question: an answer, or an interaction with the status `error`.

        Raises only what ends the running task.
        """
        began, reply, error = time.monotonic(), Reply(answer=""), ""
        try:
            reply = reply_of(await self._answered(golden))
        except AskFailedError as failure:
            error = str(failure)
        except TimeoutError:
            error = f"timeout: no answer within {self._timeout_s:g} s"
        except BaseException as failure:
            if ends_the_task(failure):
                raise
            # Its message is anybody's code, and may fail.
            error = f"exception: {''.join(traceback.format_exception_only(failure))}"
        error = encodable(" ".join(error.split())[:MAX_ERROR_CHARACTERS])
        return interaction_of(golden, reply, seconds=time.monotonic() - began, error=error)

    async def _answered(self, golden: Golden) -> Any:
        with marked(golden.id):
            if len(self._hung) >= MAX_HUNG_CALLS:
                raise AskFailedError(
                    "timeout", f"{MAX_HUNG_CALLS} earlier calls have not returned yet"
                )
            call = asyncio.ensure_future(apart(self._ask, golden.question))
            # Counted until it returns: a callable that hangs must not collect threads.
            self._hung.add(call)
            call.add_done_callback(self._returned)
            async with asyncio.timeout(self._timeout_s):
                answered = await asyncio.shield(call)
                return await answered if inspect.isawaitable(answered) else answered

    def _returned(self, call: asyncio.Future[Any]) -> None:
        self._hung.discard(call)
        if not call.cancelled():
            call.exception()  # retrieved, so that asyncio does not log the application's error


async def ask_each(
    asker: Asker,
    goldens: Iterable[Golden],
    put: Callable[[Interaction], object],
    *,
    concurrency: int,
    pause_s: Callable[[], float] = lambda: 0.0,
) -> None:
    """Ask questions side by side; cancelled, it gives up what is under way.

    Args:
        asker: Of the application.
        goldens: The questions; one that stands there several times is asked as often.
        put: Takes what came of each, as it comes.
        concurrency: Questions under way at once.
        pause_s: The seconds before the next question.
    """
    slots = asyncio.Semaphore(concurrency)

    async def ask(golden: Golden) -> None:
        try:
            put(await asker.put(golden))
        finally:
            slots.release()

    async with asyncio.TaskGroup() as under_way:
        for golden in goldens:
            await slots.acquire()
            under_way.create_task(ask(golden))
            await asyncio.sleep(pause_s())


@dataclass(frozen=True, slots=True)
class HttpAsk:
    """Asks a service by POST, with a JSON object that holds the question.

    Requests carry the golden question's id in the header `x-ragmonitor-probe` and in the W3C
    baggage as `ragmonitor.probe`, so that a monitor in the service keeps them apart. Connections
    that fail and the statuses 429, 502, 503 and 504 are tried again after pauses that double.
    """

    url: str
    question_field: str = "question"
    answer_path: str = "answer"
    """JMESPath of the answer in the reply; a `$.` before it is left out: `$.data.answer`."""
    contexts_path: str = ""
    """JMESPath of the list of chunks: texts, or objects with a text under `text`, `page_content` or
    `content`, or `contexts[*].body`; empty: the service does not say."""
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    timeout_s: float = 60.0
    """For one attempt to connect, and between two pieces of the reply."""
    retries: int = 2

    def __post_init__(self) -> None:
        """Check address and paths.

        Raises:
            InputError: One of them is none.
            MissingExtraError: jmespath is not installed.
        """
        if urlsplit(self.url).scheme not in ("http", "https"):
            raise InputError(f"{shown(self.url)!r} is no address; give http://HOST/PATH")
        if not (self.question_field and self.answer_path):
            raise InputError("the field of the question and the path of the answer are not empty")
        for path in filter(None, (self.answer_path, self.contexts_path)):
            _searched(path, None)

    def __call__(self, question: str) -> Reply:
        """Return the service's answer; waits for it.

        Raises:
            AskFailedError: There is none; says why.
        """
        reply = self._posted({self.question_field: question})
        answer = _searched(self.answer_path, reply)
        if not isinstance(answer, str):
            fields = ", ".join(map(repr, reply))[:200] if isinstance(reply, dict) else "none"
            problem = f"{self.answer_path} is {_kind(answer)}; fields of the reply: {fields}"
            raise AskFailedError("no_answer", problem)
        contexts = _searched(self.contexts_path, reply) if self.contexts_path else None
        chunks = chunks_of(contexts if isinstance(contexts, list) else [])
        return Reply(answer=answer, chunks=chunks if self.contexts_path else None)

    def _posted(self, body: Mapping[str, Any]) -> Any:
        """Return the JSON of the reply. Raises `AskFailedError`: there is none."""
        import urllib3

        retry = urllib3.Retry(
            total=self.retries,
            read=0,  # a question that took too long may still be at work
            redirect=0,
            backoff_factor=0.5,
            backoff_jitter=0.5,
            status_forcelist=TRIED_AGAIN,
            allowed_methods=None,
            raise_on_status=False,
            respect_retry_after_header=False,  # it may be hours, and the question is asked again
        )
        pool = http_pool(self.url)
        golden = quote(current_mark() or "-", safe="")
        marks = {PROBE_HEADER: golden, "baggage": f"{PROBE_BAGGAGE}={golden}"}
        try:
            with pool.request(
                "POST",
                self.url,
                json=body,
                headers={"Content-Type": "application/json", **marks, **self.headers},
                timeout=self.timeout_s,
                retries=retry,
                redirect=False,
                preload_content=False,
            ) as response:
                if response.status >= 300:
                    raise AskFailedError("http_status", f"{response.status} {response.reason}")
                data = response.read(MAX_REPLY_BYTES + 1, decode_content=True)
        except urllib3.exceptions.HTTPError as error:
            kind: AskError = "timeout" if "timed out" in str(error) else "refused"
            raise AskFailedError(kind, f"{type(error).__name__}: {error}") from error
        finally:
            pool.clear()
        if len(data) > MAX_REPLY_BYTES:
            raise AskFailedError("no_answer", f"longer than {MAX_REPLY_BYTES} bytes")
        try:
            return json.loads(data)
        except (ValueError, RecursionError) as error:
            raise AskFailedError("no_answer", f"the reply is no JSON: {error}") from error


def reply_of(value: Any) -> Reply:
    """Return the answer in what a callable returned.

    Raises:
        AskFailedError: There is no text in it, or an empty one.
    """
    if inspect.isgenerator(value) or inspect.isasyncgen(value):
        raise AskFailedError("no_answer", "a stream; return the whole answer instead")
    if not isinstance(value, Reply):
        answer = value if isinstance(value, str) else _first(value, _ANSWERS, str)
        if answer is None:
            raise AskFailedError("no_answer", f"{_kind(value)} without a text as answer")
        chunks = _first(value, _CHUNKS, list | tuple)
        value = Reply(answer=answer, chunks=None if chunks is None else chunks_of(chunks))
    if not value.answer.strip():
        raise AskFailedError("no_answer", "the answer is empty")
    reply: Reply = value
    return reply


def chunks_of(values: Iterable[Any]) -> tuple[Chunk, ...]:
    """Return the chunks in texts, `Chunk`s, mappings and frameworks' documents; others are left.

    One text, or one document, is a collection of one.
    """
    one = _chunk(values)
    if one is not None:
        return (one,)
    return tuple(chunk for value in values if (chunk := _chunk(value)) is not None)


def _chunk(value: Any) -> Chunk | None:
    node = member_in(value, "node")  # LlamaIndex: a node with its score
    holder = value if node is None else node
    fields = {name: member_in(holder, name) for name in ("text", "id_", "metadata")}
    return chunk_in(value) or chunk_in(fields | {"score": member_in(value, "score")})


def interaction_of(
    golden: Golden, reply: Reply, *, seconds: float = 0.0, error: str = ""
) -> Interaction:
    """Return the record of an answer to a golden question that came just now.

    Args:
        golden: The question.
        reply: The answer.
        seconds: It took so long.
        error: Why there is no answer, `kind: detail`; empty: there is one.
    """
    ended_ns = time.time_ns()
    return Interaction(
        id=uuid.uuid4().hex,
        query=golden.question,
        # LangChain's texts are of a class of their own, and no file holds half of a character.
        answer=encodable(str(reply.answer)),
        chunks=tuple(replace(each, text=encodable(each.text)) for each in reply.chunks or ()),
        reference="" if golden.expects_refusal else golden.answer,
        reference_chunks=golden.chunks,
        framework="python",
        name="probe",
        started_ns=ended_ns - round(seconds * 1e9),
        ended_ns=ended_ns,
        status="error" if error else "ok",
        error=error,
        tags=(PROBE_BAGGAGE,),
        probe=Probe(
            golden=golden.id,
            outcome=error.partition(":")[0] or "answered",
            expects_refusal=golden.expects_refusal,
            knows_chunks=reply.chunks is not None,
        ),
    )


def _searched(path: str, value: Any) -> Any:
    try:
        import jmespath
    except ImportError as error:
        raise MissingExtraError("jmespath", "probe") from error
    expression = path.removeprefix("$").removeprefix(".") or "@"
    try:
        return jmespath.search(expression, value)
    except jmespath.exceptions.JMESPathError as error:
        reason = " ".join(str(error).split())
        raise InputError(f"{path!r} is no JMESPath expression: {reason}") from error


def _first(value: Any, names: Sequence[str], kind: Any) -> Any:
    members = (member_in(value, name) for name in names)
    return next((each for each in members if isinstance(each, kind)), None)


def _kind(value: Any) -> str:
    return "not there" if value is None else f"a {type(value).__name__}"
