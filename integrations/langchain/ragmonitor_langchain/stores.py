"""Sees what an application asks a vector store itself: LangChain has no callback for that.

The search methods of each concrete store are wrapped while `instrument` is on. A search counts
where it belongs to something that is recorded, outside a retriever, and once.
"""

from __future__ import annotations

import functools
import inspect
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final

from langchain_core.runnables.config import var_child_runnable_config
from langchain_core.vectorstores import VectorStore

from ragmonitor.integration import Recorder, shielded
from ragmonitor_langchain.translate import kept_in

_SEARCHES: Final = (
    "similarity_search",
    "similarity_search_with_score",
    "similarity_search_with_relevance_scores",
    "similarity_search_by_vector",
    "max_marginal_relevance_search",
    "max_marginal_relevance_search_by_vector",
)
_METHODS: Final = (*_SEARCHES, *(f"a{name}" for name in _SEARCHES))
_capture = shielded("capture")
_searching: ContextVar[bool] = ContextVar("ragmonitor_langchain_searching", default=False)
_originals: list[tuple[type, str, Any]] = []
_recorder: Recorder | None = None


def watch_stores(recorder: Recorder) -> None:
    """Wrap the search methods of every store, and of those that are defined later."""
    global _recorder  # noqa: PLW0603 - classes are global too
    _recorder = recorder
    if _originals:
        return
    _originals.append(
        (VectorStore, "__init_subclass__", VectorStore.__dict__.get("__init_subclass__"))
    )

    def defined(cls: type[VectorStore], /, **options: Any) -> None:
        super(VectorStore, cls).__init_subclass__(**options)
        _wrap(cls)

    VectorStore.__init_subclass__ = classmethod(defined)  # type: ignore[assignment]
    pending = VectorStore.__subclasses__()
    while pending:
        kind = pending.pop()
        _wrap(kind)
        pending += kind.__subclasses__()


def forget_stores() -> None:
    """Put the stores' own methods back."""
    global _recorder  # noqa: PLW0603 - as above
    _recorder = None
    while _originals:
        kind, name, original = _originals.pop()
        if original is None:
            delattr(kind, name)
        else:
            setattr(kind, name, original)


def _wrap(kind: type) -> None:
    for name in _METHODS:
        method = kind.__dict__.get(name)
        if inspect.isfunction(method):
            _originals.append((kind, name, method))
            setattr(kind, name, _wrapped(method))


def _wrapped(method: Callable[..., Any]) -> Callable[..., Any]:
    async def asearch(self: Any, *args: Any, **kwargs: Any) -> Any:
        with _noted(self, args, kwargs) as note:
            return note(await method(self, *args, **kwargs))

    def search(self: Any, *args: Any, **kwargs: Any) -> Any:
        with _noted(self, args, kwargs) as note:
            return note(method(self, *args, **kwargs))

    wrapped: Callable[..., Any] = asearch if inspect.iscoroutinefunction(method) else search
    return functools.wraps(method)(wrapped)


@contextmanager
def _noted(store: Any, args: Any, kwargs: Any) -> Iterator[Callable[[Any], Any]]:
    """Note one search, unless it is a part of another; the caller's own errors pass through."""
    recorder, run_id, found = _recorder, uuid.uuid4().int, []
    if recorder is None or _searching.get() or not recorder.may_search(_parent()):
        yield lambda result: result
        return
    query = kwargs.get("query", args[0] if args else "")
    query = query if isinstance(query, str) else ""
    recorder.started(run_id, _parent(), "retriever", type(store).__name__, query)
    _searching.set(True)
    try:
        yield lambda result: found.append(result) or result  # type: ignore[func-returns-value]
    except BaseException as error:
        recorder.failed(run_id, error)
        raise
    finally:
        _searching.set(False)
        with _capture:
            recorder.ended(run_id, kept_in(found[0]) or kept_in([]) if found else None)


def _parent() -> Any:
    """Return the key of the run that this code is called by; None: it is called by none."""
    callbacks = (var_child_runnable_config.get() or {}).get("callbacks")
    parent = getattr(callbacks, "parent_run_id", None)
    return parent.int if isinstance(parent, uuid.UUID) else parent
