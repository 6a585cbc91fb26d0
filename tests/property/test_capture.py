"""Whatever an application gives to a capture method, it goes on as if we were not there."""

from __future__ import annotations

import contextlib
import io
import itertools
import sys
from collections import OrderedDict, deque
from contextvars import copy_context
from decimal import Decimal
from uuid import UUID

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from ragmonitor import Chunk, Interaction, Monitor
from ragmonitor.integration import Generation, Message, Retrieval, Usage
from ragmonitor.records import Scored, SpanReference, Unscored
from ragmonitor.testing import ListExporter


class Hostile:
    """Every method of it raises."""

    def __raise(self, *given, **named):
        raise RuntimeError("hostile")

    __str__ = __repr__ = __bool__ = __len__ = __iter__ = __getitem__ = __raise
    __eq__ = __hash__ = __int__ = __float__ = __index__ = __contains__ = __format__ = __raise
    __lt__ = __add__ = __call__ = __bytes__ = __getattr__ = __raise


class Liar:
    """Says that it is a text."""

    __class__ = str


class Endless:
    """A collection without an end, and nested without one."""

    def __iter__(self):
        return itertools.count()

    def __getattr__(self, name):
        return Endless()


class HostileText(str):
    """A text that raises when it is asked for itself."""

    __slots__ = ()

    def __str__(self):
        raise RuntimeError("hostile")

    __repr__ = __str__
    __hash__ = str.__hash__


class HostileDict(dict):
    """A mapping that cannot be walked."""

    def items(self):
        raise RuntimeError("hostile")

    keys = __iter__ = __len__ = items


class HostileError(Exception):
    """An exception without a message."""

    def __str__(self):
        raise RuntimeError("hostile")

    __repr__ = __str__


def _cycle():
    cycle = {"source": "a"}
    cycle["self"] = cycle
    return cycle


def _graph(n=80):
    graph = ["leaf"]
    for _ in range(n):
        graph = [graph, graph]
    return graph


def _deep(n=3_000):
    deep = "leaf"
    for _ in range(n):
        deep = {"in": deep}
    return deep


ODD = [
    *(None, True, 0, -1, 2**70, 10**5_000, 1.5, float("nan"), float("inf"), 1j, Decimal("1.5")),
    *("", "Why?", "\ud800", "x" * 10_000, b"\xff", bytearray(b"a"), HostileText("text")),
    *([], (), {}, set(), [None], ["a", 5, None], ("a",), {"a": 1}, {1: {2: 3}}, {"a", "b"}),
    *(deque(["a"]), OrderedDict(a="b"), range(3), object(), object, len, Hostile, print),
    *(np.array([]), np.array(["a", "b"]), np.array([[1.0, 2.0]]), np.float64(0.5), np.str_("s")),
    *(Hostile(), Liar(), Endless(), HostileDict(a="b"), HostileError("x"), [Hostile()], _cycle()),
    *(_graph(), _deep(), {Hostile: Hostile()}, {"h": Hostile()}, UUID(int=5), iter(["a"])),
    *((each for each in "ab"), map(str, [1]), Chunk(text="Blue sky."), ["a"] * 50),
    Chunk(text=None, id=5, score="high", metadata=[1]),
    Chunk(text="a", id=Hostile(), score=Hostile(), metadata=_cycle()),
    Chunk(text="a", metadata={"graph": _graph(), "deep": _deep(), 5: Hostile()}),
    Chunk(text=Hostile(), metadata=HostileDict(a="b")),
    Generation(output=None, started_ns=None, ended_ns=-1, input=[5], usage=7),
    Generation(output="It scatters.", started_ns=2**80, ended_ns=float("nan"), model=Hostile()),
    Retrieval(query=None, chunks=None, started_ns="", ended_ns=None, name=5),
    Message(role=None, text=Hostile()),
    Usage(input_tokens="many", output_tokens=-5),
    SpanReference(trace_id="none", span_id=5, trace_state=Hostile()),
]
odd = st.integers(0, len(ODD) - 1)
"""By position: Hypothesis would ask the objects for their names, and find them hostile."""


def _interaction(values):
    fields = (
        *("id", "query", "chunks", "not_shown", "answer", "reference", "reference_chunks"),
        *("framework", "started_ns", "ended_ns", "name", "status", "error", "retrievals"),
        *("generations", "usage", "caller", "target", "session_id", "user_id", "tags"),
        *("attributes", "capture_incomplete", "redacted"),
    )
    given = {fields[field % len(fields)]: ODD[value] for field, value in values}
    whole = {
        "id": "i",
        "query": "Why?",
        "chunks": (Chunk(text="Blue sky."),),
        "answer": "It scatters.",
        "framework": "python",
        "started_ns": 1,
        "ended_ns": 2,
    }
    return Interaction(**(whole | given))


METHODS = {
    "asked": lambda i, a, b: i.asked(a),
    "retrieved": lambda i, a, b: i.retrieved(a, query=b, name=b),
    "retrieved one": lambda i, a, b: i.retrieved([a, b]),
    "answered": lambda i, a, b: i.answered(a, model=b, usage=b, prompt=b),
    "tag": lambda i, a, b: i.tag(a, b, route=a, tenant=b),
    "failed": lambda i, a, b: i.failed(a),
    "streamed": lambda i, a, b: i.streamed([a, b]),
    "stream of it": lambda i, a, b: i.streamed(a),
    "astreamed": lambda i, a, b: i.astreamed(a),
    "enter": lambda i, a, b: i.enter(),
    "exit": lambda i, a, b: i.exit(),
    "end": lambda i, a, b: i.end(),
    "interaction": lambda i, a, b: i.interaction(),
}
calls = st.lists(st.tuples(st.sampled_from(sorted(METHODS)), odd, odd), max_size=6)


@contextlib.contextmanager
def nothing_printed():
    """Fail if something is written to the host's streams, or raised where nobody can catch it."""
    out, err, unraisable = io.StringIO(), io.StringIO(), []
    before, sys.unraisablehook = sys.unraisablehook, unraisable.append
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            yield
    finally:
        sys.unraisablehook = before
    assert (out.getvalue(), err.getvalue(), unraisable) == ("", "", [])


@pytest.fixture(scope="module")
def exporter():
    return ListExporter()


@pytest.fixture(scope="module")
def monitor(exporter):
    with Monitor(
        service="odd", exporters=[exporter], server=False, content={"redaction": ("secrets",)}
    ) as monitor:
        yield monitor


@pytest.fixture(scope="module")
def accounted(monitor, exporter):
    """Return how many interactions were captured since the last call, all of them accounted for."""

    def accounted():
        assert monitor.flush(60)
        reports, exporter.reports[:] = [*exporter.reports], []
        for report in reports:
            assert len(report.evaluations) == len({e.evaluator for e in report.evaluations})
            assert all(isinstance(e, Scored | Unscored) for e in report.evaluations)
        assert len({len(r.evaluations) for r in reports}) <= 1
        return len(reports)

    accounted()
    return accounted


many = settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


ENDLESS = next(n for n, each in enumerate(ODD) if type(each) is Endless)


@many
@example(said=(0,) * 6, calls=[("stream of it", ENDLESS, 0)], failure=0)
@given(said=st.tuples(odd, odd, odd, odd, odd, odd), calls=calls, failure=odd)
def test_a_block_takes_anything(monitor, accounted, said, calls, failure):
    """It is one interaction, scored or unscored, whatever is said of it and in whatever order."""
    query, name, session, user, tags, attributes = said

    def block():
        i = monitor.interaction(
            query=ODD[query],
            name=ODD[name],
            session_id=ODD[session],
            user_id=ODD[user],
            tags=ODD[tags],
            attributes=ODD[attributes],
        )
        with i:
            for method, first, second in calls:
                METHODS[method](i, ODD[first], ODD[second])
        i.failed(ODD[failure])
        i.end()
        i.exit()

    with nothing_printed():
        copy_context().run(block)  # what it enters once too often is no other test's
        assert accounted() == 1


@many
@example(values=[], instead=43)
@given(values=st.lists(st.tuples(st.integers(0, 100), odd), max_size=4), instead=odd)
def test_observe_takes_anything(monitor, accounted, values, instead):
    """A record with wrong types in it, and what is no record, is counted all the same."""
    with nothing_printed():
        monitor.observe(_interaction(values))
        monitor.observe(ODD[instead])
        assert accounted() == 2


@pytest.mark.parametrize("tags", [None, [Hostile()]], ids=["whole", "tags"])
def test_a_record_that_cannot_be_asked_whether_it_is_a_probe_is_counted(monitor, accounted, tags):
    """It is no answer to a golden question, as far as anybody knows."""
    whole = {name: getattr(_interaction([]), name) for name in ("id", "query", "chunks", "answer")}
    times = {"framework": "python", "started_ns": 1, "ended_ns": 2}
    monitor.observe(Hostile() if tags is None else Interaction(**whole, **times, tags=tags))
    assert accounted() == 1


@many
@given(values=st.lists(odd, max_size=3), question=odd, reads=odd | st.none())
def test_decorated_functions_return_what_they_returned(monitor, accounted, values, question, reads):
    """The very objects, whole and piece by piece, whatever `answer=` and `chunks=` make of them."""
    values, question = [ODD[n] for n in values], ODD[question]
    made = None if reads is None else ODD[reads]

    def whole(question):
        return values

    def pieces(question):
        yield from values
        return question

    def fails(question):
        raise KeyError("k")

    def reader(value):
        return made

    options = {} if reads is None else {"chunks": reader}
    with nothing_printed():
        search = monitor.retrieves(None, **options)(whole)
        stream = monitor.retrieves(None, **options)(pieces)

        @monitor.answers(answer=reader, tags=made, attributes=made, name=made)
        def ask(question):
            assert search(question) is values
            assert _same(stream(question), values)
            with pytest.raises(KeyError):
                monitor.retrieves(fails)(question)
            return question

        @monitor.answers
        def say(question):
            yield from values

        assert _is(ask(question), question)
        assert _same(say(question), values)
        for one in values:
            assert _is(monitor.answers(lambda question, one=one: one)(question), one)
        with pytest.raises(KeyError):
            monitor.answers(fails)(question)
        assert accounted() == 3 + len(values)


def _is(found, value):
    # What is read once only is read through something in its place.
    return found is value or hasattr(type(value), "__next__")


def _same(found, values):
    found = [*found]
    return len(found) == len(values) and all(a is b for a, b in zip(found, values, strict=True))
