"""Processes that read answers, for `ragmonitor score --workers`."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import multiprocessing
import os
import pickle
import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess
from typing import Final, Protocol

from ragmonitor.apart import apart, run
from ragmonitor.errors import RagMonitorError, SettingsError
from ragmonitor.guard import is_asked_to_end, logger, record_error
from ragmonitor.judging import Reading
from ragmonitor.records import Interaction

BATCH: Final = 8
"""Answers in one message, of a judge that reads within milliseconds: a message costs as much as a
fifth of a reading."""
BATCHES_AHEAD: Final = 2
"""Messages that such a judge has before it: while it reads one the next is there."""
ENDING_S: Final = 5.0
"""For a process to end by itself once its pipe is closed."""

Request = Sequence[tuple[int, Interaction]]
"""Answers, each with a number of its own."""


class AnswerReader(Protocol):
    """Reads answers in a process of the pool; it is made there, once."""

    async def prepare(self) -> None:
        """Load what it needs. Raises `RagMonitorError`."""
        ...

    async def read(self, interaction: Interaction) -> Reading:
        """Return what the judge found."""
        ...

    async def close(self) -> None:
        """Close connections."""
        ...


class ReaderError(RagMonitorError):
    """A process gave no reading of an answer: most likely it has ended."""


class ReaderPool:
    """A fixed number of processes, each with a judge of its own; asked on one event loop.

    They are spawned, not forked, ignore Ctrl-C, which is the caller's business, and end when the
    caller's end of their pipe is closed, also by `kill -9`. One that ends early costs the answers
    it had before it; the others go on.
    """

    def __init__(self, make: Callable[[], AnswerReader], n: int) -> None:
        """Start none yet.

        Args:
            make: Called once in each process; it is pickled.
            n: How many processes.
        """
        self.n = n
        self._make = make
        self._processes: list[_ReaderProcess] = []
        self._waiting: deque[tuple[int, Interaction]] = deque()
        self._replies: dict[int, asyncio.Future[Reading]] = {}
        self._numbers = itertools.count()
        self._batch = 1

    async def start(self, *, in_batches: bool) -> None:
        """Start the processes, and wait until each can read; if they run already, do nothing.

        Args:
            in_batches: Whether an answer is read within milliseconds, without a wait: several then
                go in one message. Else each goes at once, and is answered at once.

        Raises:
            SettingsError: One cannot read; it says why.
        """
        if self._processes:
            return
        self._batch = BATCH if in_batches else 1
        with _interrupts_blocked():
            self._processes = [
                _ReaderProcess(self._make, self._take, self._send_on) for _ in range(self.n)
            ]
        await asyncio.gather(*(each.ready for each in self._processes))

    async def read(self, interaction: Interaction) -> Reading:
        """Return what one of the processes found in an answer.

        Raises:
            ReaderError: The process gave no reading: it ended meanwhile.
            RagMonitorError: All have ended.
        """
        number = next(self._numbers)
        reply: asyncio.Future[Reading] = asyncio.get_running_loop().create_future()
        self._replies[number] = reply
        self._waiting.append((number, interaction))
        self._send_on()
        try:
            return await reply
        finally:
            del self._replies[number]

    def _send_on(self) -> None:
        """Give what waits to the processes that have room; if none is left, say so to all."""
        alive = [each for each in self._processes if each.is_alive]
        while self._waiting and alive:
            process = min(alive, key=lambda each: len(each.under_way))
            if self._batch > 1 and len(process.under_way) > (BATCHES_AHEAD - 1) * self._batch:
                return
            n = min(self._batch, len(self._waiting))
            process.send([self._waiting.popleft() for _ in range(n)])
        if not alive:
            error = RagMonitorError(
                "all worker processes have ended; was memory short? Fewer --workers take less, "
                "and --resume goes on from here"
            )
            while self._waiting:
                self._take(self._waiting.popleft()[0], error)

    def _take(self, number: int, reading: Reading | RagMonitorError) -> None:
        reply = self._replies.get(number)
        if reply is None or reply.done():  # given up
            return
        if isinstance(reading, RagMonitorError):
            reply.set_exception(reading)
        else:
            reply.set_result(reading)

    async def close(self) -> None:
        """End the processes; what they are reading is given up."""
        processes, self._processes = self._processes, []
        for each in processes:
            each.close()
        for each in processes:
            await apart(each.join)


class _ReaderProcess:
    """One process, seen from the caller."""

    def __init__(
        self,
        make: Callable[[], AnswerReader],
        take: Callable[[int, Reading | RagMonitorError], None],
        has_room: Callable[[], None],
    ) -> None:
        self.is_alive = True
        self.under_way: set[int] = set()
        """The numbers of the answers that it has before it."""
        self._take, self._has_room = take, has_room
        self._loop = asyncio.get_running_loop()
        self.ready: asyncio.Future[None] = self._loop.create_future()
        context = multiprocessing.get_context("spawn")
        # Two pipes: one of them can be closed while a thread waits at the other.
        requests, self._requests = context.Pipe(duplex=False)
        self._replies, replies = context.Pipe(duplex=False)
        self._process: SpawnProcess = context.Process(
            target=serve, args=(requests, replies, make), name="ragmonitor-reader", daemon=True
        )
        self._process.start()
        requests.close()
        replies.close()  # so that its death is the end of the pipe
        threading.Thread(target=self._receive, name="ragmonitor-reader", daemon=True).start()

    def send(self, request: Request) -> None:
        """Send it answers. It takes what comes while it reads, so that this hardly waits."""
        self.under_way.update(number for number, _ in request)
        with contextlib.suppress(OSError):  # it has ended; the thread that receives finds that out
            self._requests.send(request)

    def _receive(self) -> None:
        """Take replies until it is gone. On a thread of its own."""
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
            try:
                while True:
                    reply = self._replies.recv()
                    self._loop.call_soon_threadsafe(self._arrived, reply)
            except (EOFError, OSError):
                pass
            except Exception as error:  # noqa: BLE001 - a reply that cannot be read
                record_error("judge", error)
                self._process.kill()
            self._process.join()
            self._loop.call_soon_threadsafe(self._ended)

    def _arrived(self, reply: str | Sequence[tuple[int, Reading | ReaderError]]) -> None:
        if not isinstance(reply, str):
            for number, reading in reply:
                self.under_way.discard(number)
                self._take(number, reading)
            self._has_room()
        elif reply:
            self.ready.set_exception(SettingsError(f"a worker process: {reply}"))
        else:
            self.ready.set_result(None)

    def _ended(self) -> None:
        self.is_alive = False
        why = f"a worker process ended, exit code {self._process.exitcode}"
        if not self.ready.done():
            self.ready.set_exception(SettingsError(why))
        elif self.under_way:
            logger.warning("ragmonitor: %s; what it had before it is judge_error", why)
        while self.under_way:
            self._take(self.under_way.pop(), ReaderError(why))
        self._has_room()

    def close(self) -> None:
        """Close the pipe to it, at which it ends."""
        self._requests.close()

    def join(self) -> None:
        """Wait for its end, and bring that about if it takes too long."""
        self._process.join(ENDING_S)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()


@contextlib.contextmanager
def _interrupts_blocked() -> Iterator[None]:
    """Keep Ctrl-C from processes that begin here until they ignore it."""
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


# --- in the process -------------------------------------------------------------------------------


def serve(requests: Connection, replies: Connection, make: Callable[[], AnswerReader]) -> None:
    """Read answers until the other side is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    with contextlib.suppress(BrokenPipeError):
        run(_serve(requests, replies, make))


async def _serve(
    requests: Connection, replies: Connection, make: Callable[[], AnswerReader]
) -> None:
    coming: asyncio.Queue[Request | None] = asyncio.Queue()
    try:
        reader = make()
        await reader.prepare()
    except RagMonitorError as error:
        replies.send(str(error))
        return
    replies.send("")
    receiving = (requests, coming, asyncio.get_running_loop())
    threading.Thread(target=_receive, args=receiving, daemon=True).start()
    under_way: set[asyncio.Task[None]] = set()
    while (request := await coming.get()) is not None:
        task = asyncio.create_task(_reply(replies, reader, request))
        under_way.add(task)
        task.add_done_callback(under_way.discard)
    for task in under_way:  # nobody waits for it any more
        task.cancel()
    await asyncio.gather(*under_way, return_exceptions=True)
    await reader.close()


def _receive(
    requests: Connection,
    coming: asyncio.Queue[Request | None],
    loop: asyncio.AbstractEventLoop,
) -> None:
    """Take what is asked, also while an answer is read; end the process when the caller is gone."""
    with contextlib.suppress(EOFError, OSError):
        while True:
            request = requests.recv()
            loop.call_soon_threadsafe(coming.put_nowait, request)
    with contextlib.suppress(RuntimeError):  # the loop has ended
        loop.call_soon_threadsafe(coming.put_nowait, None)
    time.sleep(ENDING_S)
    os._exit(1)  # a reading that holds the loop must not hold the process


async def _reply(replies: Connection, reader: AnswerReader, request: Request) -> None:
    """Send the readings of one request. What an evaluator returned may be of any type."""
    reply: list[tuple[int, Reading | ReaderError]] = []
    for number, interaction in request:
        try:
            reply.append((number, await reader.read(interaction)))
        except BaseException as error:  # a judge and evaluators are anybody's code
            if is_asked_to_end(error):
                raise
            reply.append((number, ReaderError(f"{type(error).__name__}: {error}")))
    try:
        raw = pickle.dumps(reply)
    except Exception as error:  # noqa: BLE001 - as above
        problem = ReaderError(f"{type(error).__name__}: {error}")
        raw = pickle.dumps([(number, problem) for number, _ in request])
    with contextlib.suppress(OSError):  # the caller is gone, as the other pipe says, too
        replies.send_bytes(raw)
