"""Records of every shape, for what writes and reads them."""

from __future__ import annotations

import math
from dataclasses import fields, is_dataclass
from typing import Any

from hypothesis import strategies as st

from ragmonitor.records import (
    Chunk,
    Generation,
    Interaction,
    Message,
    Probe,
    Retrieval,
    SpanReference,
    Usage,
)

texts = st.text(max_size=30)
counts = st.none() | st.integers(0, 2**63 - 1)
moments = st.integers(0, 2**63 - 1)
numbers = st.floats()
scalars = (
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | numbers | texts | st.binary()
)
trees = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)


def _tuples(of: st.SearchStrategy[Any], most: int = 2) -> st.SearchStrategy[Any]:
    return st.lists(of, max_size=most).map(tuple)


chunks = st.builds(
    Chunk,
    text=texts,
    id=texts,
    score=st.none() | numbers,
    metadata=st.dictionaries(texts, trees, max_size=3),
)
usages = st.builds(Usage, input_tokens=counts, output_tokens=counts)
spans = st.builds(
    SpanReference,
    trace_id=st.just("0af7651916cd43dd8448eb211c80319c"),
    span_id=st.just("b7ad6b7169203331"),
    sampled=st.booleans(),
    trace_state=texts,
)
retrievals = st.builds(
    Retrieval,
    query=texts,
    chunks=_tuples(chunks),
    started_ns=moments,
    ended_ns=moments,
    name=texts,
    error=texts,
)
generations = st.builds(
    Generation,
    output=texts,
    started_ns=moments,
    ended_ns=moments,
    input=_tuples(st.builds(Message, role=texts, text=texts)),
    model=texts,
    provider=texts,
    usage=usages,
    error=texts,
)
interactions = st.builds(
    Interaction,
    id=texts,
    query=texts,
    chunks=_tuples(chunks),
    not_shown=_tuples(chunks, 1),
    answer=texts,
    reference=texts,
    reference_chunks=_tuples(chunks, 1),
    framework=texts,
    started_ns=moments,
    ended_ns=moments,
    name=texts,
    status=st.sampled_from(["ok", "error", "partial", "cancelled"]),
    error=texts,
    retrievals=_tuples(retrievals),
    generations=_tuples(generations),
    usage=usages,
    caller=st.none() | spans,
    target=st.none() | spans,
    session_id=texts,
    user_id=texts,
    tags=_tuples(texts),
    attributes=st.dictionaries(texts, texts, max_size=3),
    capture_incomplete=st.booleans(),
    redacted=st.integers(0, 100),
    probe=st.none()
    | st.builds(
        Probe,
        golden=texts,
        outcome=texts,
        expects_refusal=st.booleans(),
        knows_chunks=st.booleans(),
    ),
)


def is_same(left: Any, right: Any) -> bool:
    """Return whether two records are equal in type and value, where NaN equals NaN."""
    if type(left) is not type(right):
        return False
    if is_dataclass(left):
        return all(
            is_same(getattr(left, each.name), getattr(right, each.name)) for each in fields(left)
        )
    if isinstance(left, dict):
        return list(left) == list(right) and all(is_same(left[key], right[key]) for key in left)
    if isinstance(left, list | tuple):
        return len(left) == len(right) and all(map(is_same, left, right))
    if isinstance(left, float):
        return (math.isnan(left) and math.isnan(right)) or left == right
    return bool(left == right)
